"""ds_config.json: what the training script tells DeepSpeed, to be read before the run."""

from typing import Any

from nbkit.cluster.job import Job


def ds_config(job: Job) -> dict[str, Any]:
    """Return the settings of a job whose back-end is ZeRO 1, 2 or 3, with or without offload.

    They come from the function that the run itself calls, so the two are one. Micro-batches, their
    accumulation and clipping are not DeepSpeed's there but our loop's, and the micro-batch of 1 is
    a label that DeepSpeed asks for. Whether memory of the host is pinned the run decides by its
    machine, and here the job's GPUs say.
    Source: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter
    Models (SC 2020); Ren et al., ZeRO-Offload (USENIX ATC 2021).
    """
    # Only here: torch is not light, and most jobs have no use for it when they are rendered.
    from nbkit.parallel.config import ParallelConfig
    from nbkit.parallel.zero import deepspeed_config

    settings = deepspeed_config(ParallelConfig(backend=job.backend, precision=job.precision))
    for name in ("offload_optimizer", "offload_param"):
        place = settings["zero_optimization"].get(name, {})
        place.pop("pin_memory", None)
        if place and job.gpus:
            place["pin_memory"] = True
    return settings
