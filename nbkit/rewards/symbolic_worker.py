"""The process that compares answers by SymPy: one JSON object a line in, one out.

Started by ``symbolic`` as ``python -c``; stopped by it when a comparison takes too long.
"""

import json
import os
import resource
import sys
import threading
import time
import warnings

MEMORY_BYTES = 2 * 2**30


def main() -> None:
    """Answer requests until the input ends. A fault is reported, and does not end the worker."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    parent = os.getppid()
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr  # nothing that prints may enter the protocol
    sys.set_int_max_str_digits(10_000)

    from nbkit.rewards.equality import NotReadableError, equal, read_gold

    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply: dict[str, bool | str] = {"read": True}
            if "answer" in request:
                reply = {"equal": equal(request["answer"], request["gold"], request["arithmetic"])}
            else:
                read_gold(request["gold"])
        except NotReadableError as error:
            reply = {"unreadable": str(error)}
        except (MemoryError, RecursionError):
            reply = {"exhausted": True}
        except Exception as error:  # told to the caller, who raises it
            reply = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(reply), file=answers, flush=True)


def _die_with(parent: int) -> None:
    """Leave when the parent is gone, also in the middle of a comparison."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
