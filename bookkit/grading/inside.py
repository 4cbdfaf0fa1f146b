"""What runs in the sandbox: it runs a learner's cells and calls the functions that they define.

    python -P -m bookkit.grading.inside REPLIES REPORTS UID LIMITS

It gives up its powers, sets the limits, and then serves orders from its input, each with one reply.
It holds no answers: the oracles, the checks and the solutions stand outside.
"""

import contextlib
import json
import os
import pickle
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from bookkit.grading.supervisor import supervise

PR_SET_DUMPABLE = 4


def main() -> None:
    """Serve until the input ends, in a child of the process that counts."""
    replies, reports, uid = (int(text) for text in sys.argv[1:4])
    limits = json.loads(sys.argv[4])
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _set_dumpable(False)  # no /proc/1/fd and no /proc/1/mem for those who run beside it
    worker = os.fork()
    if worker:
        for descriptor in (0, replies):
            os.close(descriptor)
        supervise(worker, reports)
        os._exit(0)
    os.close(reports)
    _set_dumpable(True)
    os.setsid()
    orders = os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    for descriptor in (orders, replies):
        os.set_inheritable(descriptor, False)
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, name), (value, value))
    serve(orders, replies)


def _set_dumpable(value: bool) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, int(value), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def serve(orders: int, replies: int) -> None:
    """Answer order after order."""
    from bookkit.grading.wire import send

    learner = Learner()
    send(replies, b'{"ready": true}')
    os.dup2(0, 2)  # from here on, what is written there is the learner's
    with os.fdopen(orders, "rb") as stream:
        while True:
            header = stream.read(4)
            if len(header) < 4:
                return
            order = pickle.loads(stream.read(int.from_bytes(header, "big")))
            reply = learner.run_cell(**order["cell"]) if "cell" in order else learner.asked(order)
            send(replies, json.dumps(reply).encode())


@dataclass(frozen=True)
class Asked:
    """What `observe` must know of an exercise."""

    call: Callable[..., Any]
    outputs: tuple[str, ...]
    gradient_to: tuple[str, ...]
    no_gradient_to: tuple[str, ...]
    hidden: tuple[str, ...] = ()


class Learner:
    """The names that a learner's cells have made."""

    def __init__(self) -> None:
        self.module = ModuleType("__main__")
        sys.modules["__main__"] = self.module

    def run_cell(self, number: int, source: str) -> dict[str, str | None]:
        """Run one cell; what it raises is told and goes no further."""
        import linecache

        name = f"<cell {number}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        try:
            exec(compile(source, name, "exec", dont_inherit=True), self.module.__dict__)
        except BaseException as error:  # SystemExit and KeyboardInterrupt are a cell's failure too
            return {"error": f"{type(error).__name__}: {str(error)[:500]}"}
        return {"error": None}

    def asked(self, order: dict[str, Any]) -> dict[str, Any]:
        """Call a function with each of the questions; stops as `bench.judge` does."""
        from bookkit.exercises.check import signature_misfit
        from bookkit.exercises.exercise import call_with_inputs
        from bookkit.exercises.limits import TimeLimitReached, processor_seconds
        from bookkit.exercises.observe import observe, random_state_kept
        from bookkit.grading.wire import encode_seen

        function = self.module.__dict__.get(order["function"])
        if not callable(function):
            return {"missing": True, "misfit": None, "seen": []}
        misfit = signature_misfit(order["names"], function)
        if misfit:
            return {"missing": False, "misfit": misfit, "seen": []}
        call = pickle.loads(order["call"]) if order["call"] else call_with_inputs
        asked = Asked(call, order["outputs"], order["gradient_to"], order["no_gradient_to"])
        seen = []
        began = processor_seconds()
        with random_state_kept(), contextlib.redirect_stderr(None):
            for inputs, weights in order["questions"]:
                left = order["seconds"] - (processor_seconds() - began)
                one = observe(asked, function, inputs, weights, left)
                seen.append(encode_seen(one))
                if isinstance(one.error, TimeLimitReached | NotImplementedError):
                    break
        return {"missing": False, "misfit": None, "seen": seen}


if __name__ == "__main__":
    main()
