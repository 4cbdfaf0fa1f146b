"""The draws: the roundings under which one machine can run a page.

Rounding is a random seed that the reader's processor draws. Four further draws can be had on any
machine by environment variables. Child processes inherit them.
"""

import os
from pathlib import Path

from nbkit.errors import UserError

HOOKS = Path(__file__).with_name("hooks")
AS_IS = "as is"
ATEN = {"ATEN_CPU_CAPABILITY": "default"}  # torch's own loops without vector instructions
MKL = {"MKL_CBWR": "COMPATIBLE"}  # matrix products in the order of the oldest processors
# By name: the variables of each draw. "as is" removes none: a variable that already stands in the
# environment of the caller is what the caller wants to see, and holds on every draw.
DRAWS: dict[str, dict[str, str]] = {
    AS_IS: {},
    "ATEN": ATEN,
    "MKL": MKL,
    "both": ATEN | MKL,
    "weights": {"NBKIT_PERTURB": "1"},  # see hooks/perturb.py
}


def draw_environment(environment: dict[str, str], draw: str) -> dict[str, str]:
    """The environment of a page's kernel under one draw, with the hooks first on its path.

    Args:
        environment: as `page_environment` makes it.
        draw: a name in `DRAWS`.
    """
    return hook_environment(environment) | DRAWS[draw]


def hook_environment(environment: dict[str, str]) -> dict[str, str]:
    """Put the folder of hooks first on `PYTHONPATH`; each hook still waits for its variable."""
    paths = [str(HOOKS), environment.get("PYTHONPATH", "")]
    return environment | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def draws_named(text: str) -> list[str]:
    """Turn `as-is,MKL` into names of draws, in the order of the table.

    Raises:
        UserError: a name is unknown, or none is given.
    """
    given = {name.strip().replace("-", " ").lower() for name in text.split(",") if name.strip()}
    known = {name.lower(): name for name in DRAWS}
    unknown = sorted(given - set(known))
    if unknown or not given:
        names = ", ".join(name.replace(" ", "-") for name in DRAWS)
        what = f"there is no draw {unknown[0]!r}" if unknown else "no draw is named"
        raise UserError(f"{what}; the draws are {names}")
    return [name for name in DRAWS if name.lower() in given]
