"""Where a run stops by itself because its steps teach nothing: read from the environment.

The launcher sets it from ``limits`` in job.yaml, where they differ from what stands here.
"""

import os
from dataclasses import dataclass

VARIABLE = "NBKIT_STEP_LIMITS"


@dataclass(frozen=True)
class StepLimits:
    """Steps in a row after which a run ends.

    Attributes:
        silent_steps: without a signal, after which it saves and stops resumably; 0: never.
        bad_batches: with a loss or gradient that is not finite, after which it saves and fails.

    """

    silent_steps: int = 0
    bad_batches: int = 3


def step_limits() -> StepLimits:
    """The limits that the environment names, as in "silent_steps=20,bad_batches=3".

    Raises:
        ValueError: a name that is no limit, or a value that is no whole number.

    """
    given: dict[str, int] = {}
    known = {"silent_steps": 0, "bad_batches": 1}
    for word in filter(None, os.environ.get(VARIABLE, "").split(",")):
        name, _, value = word.partition("=")
        if name not in known or not value.isdecimal() or int(value) < known[name]:
            raise ValueError(
                f"{VARIABLE}: {word!r} is no limit; write silent_steps=N, N at least 0, or "
                "bad_batches=N, N at least 1"
            )
        given[name] = int(value)
    return StepLimits(**given)
