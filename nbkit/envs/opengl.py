"""MuJoCo, and the back-ends of OpenGL that it may draw with.

``import mujoco`` loads the back-end that ``MUJOCO_GL`` names, and where that one is missing it dies
of an error that does not say so. The modules of the arms therefore import it from here.
"""

import importlib
import os
import subprocess
import sys
from typing import Any

BACKENDS = ("egl", "osmesa")
INSTALL = (
    "on Debian or Ubuntu 'apt-get install libegl1 libgl1-mesa-dri' (EGL; a GPU's own driver brings "
    "it too) or 'apt-get install libosmesa6' (OSMesa)"
)
TIMEOUT_S = 60.0


class NoRenderer(RuntimeError):  # noqa: N818 - a state of the machine
    """No way to draw was found on this machine; the message says what to install."""


def does_not_open(name: str, error: Exception) -> NoRenderer:
    """Return what is raised where ``MUJOCO_GL`` names a back-end that is of no use.

    Args:
        name: of the back-end.
        error: what MuJoCo said.

    """
    if name.strip().lower() not in BACKENDS:
        return NoRenderer(
            f"MUJOCO_GL is {name!r}, which MuJoCo cannot load here ({error}): set it to egl or "
            "osmesa, or unset it"
        )
    return NoRenderer(
        f"MUJOCO_GL is {name!r}, but it does not open here ({error}): unset MUJOCO_GL to let a "
        f"back-end that works be found, or install what is missing, {INSTALL}"
    )


def backend_works(name: str) -> bool:
    """Try, in a process of its own, whether a back-end opens; a broken driver may kill it.

    Args:
        name: "egl" or "osmesa".

    Returns:
        whether it does; one that does not answer within a minute does not.

    """
    code = f"import mujoco.{name} as b; c = b.GLContext(8, 8); c.make_current(); c.free()"
    environment = {key: value for key, value in os.environ.items() if key != "PYOPENGL_PLATFORM"}
    environment["MUJOCO_GL"] = name
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def import_mujoco() -> Any:
    """Return the module ``mujoco``; no process is started, and what works costs nothing.

    Returns:
        the module.

    Raises:
        NoRenderer: ``MUJOCO_GL`` names a back-end that is not here. Physics alone would need none,
            but the name asks for pictures, and silence would fail later.

    """
    named = os.environ.get("MUJOCO_GL", "")
    try:
        return importlib.import_module("mujoco")
    except (AttributeError, OSError, RuntimeError) as error:
        if not named:
            raise
        raise does_not_open(named, error) from error
