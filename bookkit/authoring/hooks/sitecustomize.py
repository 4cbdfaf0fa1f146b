"""Runs at the start of every Python process of a page; loads the hooks whose variables are set.

This folder stands first on the page's `PYTHONPATH`, so that this file hides any other
`sitecustomize`; that one is run first. Nothing here imports the package or torch.
"""

import os
import sys
from importlib.machinery import PathFinder

FOLDER = __file__.rpartition(os.sep)[0]
HOOKS = {
    "NBKIT_ASSERTS": "slack.py",
    "NBKIT_INPUTS": "inputs.py",
    "NBKIT_PERTURB": "perturb.py",
    "NBKIT_RAN": "ran.py",
}


def run_hidden() -> None:
    """Run the `sitecustomize` that this one hides, if there is any."""
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != FOLDER])
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


run_hidden()
for variable, file in HOOKS.items():
    if os.environ.get(variable):
        import runpy

        runpy.run_path(f"{FOLDER}{os.sep}{file}")["start"]()
