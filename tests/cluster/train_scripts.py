"""The committed training scripts as modules, for tests that call their parts."""

import importlib.util
import os
import runpy
import sys
from types import ModuleType
from typing import Any

from .conftest import REPOSITORY


def script(name: str) -> ModuleType:
    """Import cluster_scripts/NAME/train.py."""
    known = f"train_{name}"
    if known not in sys.modules:
        path = REPOSITORY / "cluster_scripts" / name / "train.py"
        spec = importlib.util.spec_from_file_location(known, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module  # dataclasses look themselves up there
        spec.loader.exec_module(module)
    return sys.modules[known]


def run_main(name: str, **values: Any) -> Any:
    """Call its `main` with some fields of `Config`."""
    module = script(name)
    return module.main(module.Config(**values))


def start_script(path: str, config: str, run: str) -> None:
    """The script as the program of this process, as torchrun would start it."""
    os.environ |= {"NBKIT_RUN_FOLDER": run, "NBKIT_TRACKERS": ""}
    sys.argv = [path, config]
    runpy.run_path(path, run_name="__main__")


def run_main_with(name: str, values: dict[str, Any]) -> Any:
    """The same for processes, which take no named arguments."""
    return run_main(name, **values)


def by_ids(problems: Any, completions: Any) -> list[float]:
    """A reward that differs from one completion to the next, however little a model knows."""
    return [sum(completion.ids) % 7 / 7 for completion in completions]


def rank_main(name: str, values: dict[str, Any]) -> None:
    """`main` in one of several processes, each on one thread, with the reward `by_ids`."""
    import torch

    torch.set_num_threads(1)
    script(name).reward_fn = by_ids
    run_main(name, **values)
