"""How much of a machine's memory a job takes at most, counted before it is queued.

Counted for jobs on GPUs whose model is known by its name. What is counted, in bytes a parameter:

- the first rank reads each model of a stage in float32 (4), or a frozen one in the run's precision,
  before they are placed on GPUs; the other ranks hold shapes alone (``nbkit.parallel.filling``);
- it holds the whole model in float32 (4) when a stage's result is written;
- a ZeRO back-end copies what a checkpoint holds, weights and Adam's two moments (12), to the host,
  all ranks of a machine together, and so do asynchronous checkpoints;
- an offloaded optimiser lives on the host: float32 weights, gradients and Adam's two moments (16),
  and the weights of the passes (2).

Beside that stands what each process holds whatever the model is.
"""

import math
import re
from dataclasses import dataclass

from nbkit.cluster.job import Job
from nbkit.memory import SHAPES

GIB = 2**30
# Python with torch and transformers, CUDA's context and NCCL's buffers, and a data set as lists of
# token ids (about 36 bytes a token: 2 GiB hold 60 million).
PROCESS_BYTES = 6 * GIB
MARGIN = 1.1  # pages of files that are being written, the batch script, fragmentation
FLOAT32, CHECKPOINT, OFFLOADED = 4, 12, 18
SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)b(?![a-z0-9])")
OVER = 1.1  # a "7B" has up to a tenth more parameters than its name says


@dataclass(frozen=True)
class HostPeak:
    """Bytes on one machine.

    Attributes:
        processes: what all processes of the machine hold whatever the model is.
        models: what the models take on top, at the worst moment of the worst stage.
        moment: when that is.

    """

    processes: int
    models: int
    moment: str

    @property
    def slurm_gib(self) -> int:
        """What to ask Slurm for, in its G (GiB), with a margin."""
        return math.ceil(MARGIN * (self.processes + self.models) / GIB)


def parameters_of(name: str | None) -> int | None:
    """How many parameters a model has, by its name; None: that does not say it.

    A shape of ``nbkit.memory`` counts exactly; otherwise the number before "b" does, and a tenth.
    """
    if name is None:
        return None
    short = name.partition("@")[0].rpartition("/")[2].lower()
    for suffix in ("-instruct", "-base"):
        short = short.removesuffix(suffix)
    if short in SHAPES:
        return SHAPES[short].parameters
    found = SIZE.search(short)
    return int(float(found[1]) * 1e9 * OVER) if found else None


def host_peak(job: Job) -> HostPeak | None:
    """The peak on a machine of a job; None: its model's size is not known, or it has no GPU."""
    values = [job.values(stage) for stage in job.stage_names]
    name = job.model or next((v["shape"] for v in values if v.get("shape")), None)
    size = parameters_of(name)
    if size is None or not job.gpus:
        return None
    moments: list[tuple[int, str]] = []
    for stage, given in zip(job.stage_names, values, strict=True):
        learners, frozen = models_of(job, stage, given)
        of_stage = f" of stage {stage}" if stage else ""
        offloaded = OFFLOADED * learners * size // job.nodes if job.is_offloaded else 0
        if job.model:  # otherwise weights are drawn on the GPU
            low = 2 if job.precision == "bfloat16" else FLOAT32
            read = (FLOAT32 * learners + low * frozen) * size
            moments.append((read + offloaded // 2, f"the first rank reads the models{of_stage}"))
            written = FLOAT32 * size + offloaded
            moments.append((written, f"the first rank writes the result{of_stage}"))
        if job.is_deepspeed:
            copied = CHECKPOINT * learners * size // job.nodes
            moments.append((copied + offloaded, f"a checkpoint{of_stage} is written"))
        elif job.asynchronous_checkpoints:
            shared = job.backend == "fsdp2"
            copied = CHECKPOINT * learners * size // (job.nodes if shared else 1)
            moments.append((copied, f"a checkpoint{of_stage} is copied"))
    models, moment = max(moments, default=(0, ""))
    return HostPeak(PROCESS_BYTES * job.processes_per_node, models, moment)


def models_of(job: Job, stage: str, given: dict[str, object]) -> tuple[int, int]:
    """How many models of the size learn in a stage, and how many only score."""
    if stage == "ppo":  # policy and value model; reward model and reference
        return (2, 0) if job.algorithm == "scaling" else (2, 2)
    return 1, 1 if given.get("kl_coefficient") else 0
