"""The library on the task of a build: what it reaches is stored, and shown beside the learner's."""

import random
from collections.abc import Callable
from typing import Any

from bookkit.authoring.proof import proof_context
from bookkit.builds.reference import keep_library
from bookkit.builds.verdict import Build
from nbkit.errors import UserError
from nbkit.runs.root import ROOT

SEED = 24_31_32  # of the worlds; no learner's run has it
Measured = dict[str, dict[str, Any]]


def measure(build: Build, *, keep: bool = False) -> Measured:
    """Run the library on every stage of a build.

    Args:
        build: which.
        keep: store what came out.

    Returns:
        By title of the stage: "label" (library and version), "said", "curve" (points, or none where
        the library has no curve of this kind) and "processor_seconds".

    Raises:
        UserError: the build has no library here.

    """
    ways = _ways()
    if build.number not in ways:
        known = ", ".join(map(str, sorted(ways)))
        raise UserError(
            f"build {build.number} has no library to run; builds {known} have one, and 11 and 12 "
            "draw what studies have recorded"
        )
    found = ways[build.number](build, random.Random(SEED))
    if keep:
        keep_library(build, {"stages": found, **proof_context(ROOT)})
    return found


def _ways() -> dict[int, Callable[[Build, random.Random], Measured]]:
    from bookkit.builds.libraries import sb3_push, torch_ddp, transformers_generate, trl_grpo

    return {
        24: trl_grpo.measured,
        31: transformers_generate.measured,
        32: torch_ddp.measured,
        41: sb3_push.measured,
    }
