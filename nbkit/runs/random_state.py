"""The global random generators of a process, as tensors and plain data, and back."""

import random
from typing import Any

import numpy as np
import torch


def get_random_state() -> dict[str, Any]:
    """Return the states of Python's, NumPy's and torch's global generators, CPU and CUDA."""
    legacy: Any = np.random.get_state(legacy=True)
    kind, keys, position, has_gauss, gauss = legacy
    return {
        "python": random.getstate(),
        "numpy": (str(kind), torch.from_numpy(keys.astype(np.int64)), position, has_gauss, gauss),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Put the generators where ``get_random_state`` found them.

    On a machine with another number of GPUs theirs are left alone.
    """
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
