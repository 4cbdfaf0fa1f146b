"""ds_config.json: what DeepSpeed is told, from the job's back-end, precision and batch."""

from typing import Any

from nbkit.cluster.job import Job


def ds_config(job: Job) -> dict[str, Any]:
    """Return the settings of a job whose back-end is ZeRO 1, 2 or 3, with or without offload.

    Stage 1 shards the optimiser's state over the ranks, 2 the gradients too, 3 the parameters too;
    offload keeps the optimiser's state, and in stage 3 the parameters, in the memory of the host.
    Source: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter
    Models (SC 2020); Ren et al., ZeRO-Offload (USENIX ATC 2021).
    """
    stage = int(job.backend[4])
    zero: dict[str, Any] = {
        "stage": stage,
        "overlap_comm": True,
        "contiguous_gradients": True,
    }
    if stage == 3:
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    if job.backend.endswith("-offload"):
        place = {"device": "cpu", "pin_memory": job.gpus > 0}
        zero["offload_optimizer"] = place
        if stage == 3:
            zero["offload_param"] = dict(place)
    return {
        "train_micro_batch_size_per_gpu": job.micro_batch,
        "gradient_accumulation_steps": job.accumulation,
        "gradient_clipping": job.gradient_clipping,
        "bf16": {"enabled": job.precision == "bfloat16"},
        "zero_optimization": zero,
        # torch's own AdamW is what the chapters use.
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1_000_000,
    }
