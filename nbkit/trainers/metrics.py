"""What a step says of itself: names to numbers."""

import torch

Metrics = dict[str, float]


def peak_memory(device: torch.device) -> Metrics:
    """The most memory that this process has held on its GPU, in GiB; nothing on a CPU."""
    if device.type != "cuda":
        return {}
    return {"peak_gib": torch.cuda.max_memory_allocated(device) / 2**30}
