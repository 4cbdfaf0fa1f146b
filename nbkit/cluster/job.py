"""What a job.yaml may say: every field with its allowed values, checked before anything is queued.

Text that ends up in a shell script is quoted there; here it is only kept free of what no script
can hold. Words that go into Slurm's ``#SBATCH`` lines, which know no quotes, must be plain.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from nbkit.cluster.slurm import Slurm
from nbkit.cluster.words import FieldName, ModuleName, Name, Part, StageName, Text, VariableName
from nbkit.runs.limits import StepLimits

Backend = Literal[
    "single",
    "ddp",
    "fsdp2",
    "hsdp",
    "zero1",
    "zero2",
    "zero3",
    "zero1-offload",
    "zero2-offload",
    "zero3-offload",
]
# For the fields of a training script's Config; the words of nbkit.parallel.ParallelConfig.
Precision = Literal["float32", "bfloat16"]
Checkpointing = Literal["none", "full", "selective", "wide"]
Algorithm = Literal[
    "sft", "reward", "ppo", "rlhf", "dpo", "grpo", "reinforce", "scaling", "manipulation"
]
TIME = re.compile(r"(?:(\d{1,3})-)?(\d{1,2}):([0-5]\d):([0-5]\d)")
SECONDS_AN_HOUR = 3600
MOST_HOURS, MOST_COST, PRICES = 100_000, 1e9, (0.001, 10_000)


def _duration(text: str) -> str:
    if not TIME.fullmatch(text):
        raise ValueError("is no duration; write 'HH:MM:SS' or 'D-HH:MM:SS', in quotes")
    return text


Duration = Annotated[str, AfterValidator(_duration)]


class Container(Part):
    """The image that everything runs in, instead of a virtual environment."""

    image: Name
    runtime: Literal["apptainer", "pyxis"] = "apptainer"
    binds: tuple[Name, ...] = Field(default=(), strict=False)


class Limits(Part):
    """Where the job stops by itself: all attempts together, and steps in a row without use."""

    requeues: int = Field(default=3, ge=0, le=100)
    retries: int = Field(default=2, ge=0, le=20)
    hours: float | None = Field(
        default=None, gt=0, le=MOST_HOURS, allow_inf_nan=False, strict=False
    )
    price_per_gpu_hour: float | None = Field(
        default=None, ge=PRICES[0], le=PRICES[1], allow_inf_nan=False, strict=False
    )
    cost: float | None = Field(default=None, gt=0, le=MOST_COST, allow_inf_nan=False, strict=False)
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] = "USD"
    silent_steps: int = Field(default=StepLimits.silent_steps, ge=0, le=1_000_000)  # 0: never
    bad_batches: int = Field(default=StepLimits.bad_batches, ge=1, le=1_000_000)


class Stage(Part):
    """One call of the training script; the next starts from its output."""

    name: StageName
    arguments: dict[FieldName, Any] = Field(default={})


class Job(Part):
    """A whole job.yaml.

    Attributes given at the top of the file that concern the training (``TRAINING``) go to the
    fields of the same name in the training script's ``Config``, as all of ``arguments`` does.
    """

    description: Text
    algorithm: Algorithm
    model: Name | None = None
    data: Name | None = None
    backend: Backend = "single"
    precision: Precision = "float32"
    micro_batch: int = Field(default=1, ge=1)
    accumulation: int = Field(default=1, ge=1)
    gradient_clipping: float = Field(default=1.0, gt=0, strict=False)
    gpus: int = Field(ge=0, le=16)
    nodes: int = Field(default=1, ge=1, le=1024)
    processes: int | None = Field(default=None, ge=1, le=256)
    time: Duration
    signal_seconds: int = Field(default=300, ge=1, le=3600)
    venv: Name | None = None
    container: Container | None = None
    preflight: bool | None = None
    asynchronous_checkpoints: bool = False
    modules: tuple[ModuleName, ...] = Field(default=(), strict=False)
    environment: dict[VariableName, Text] = Field(default={})
    offline: bool = False
    trackers: tuple[Literal["tensorboard", "wandb"], ...] = Field(
        default=("tensorboard",), strict=False
    )
    slurm: Slurm = Slurm()
    limits: Limits = Limits()
    arguments: dict[FieldName, Any] = Field(default={})
    stages: tuple[Stage, ...] = Field(default=(), strict=False)

    @property
    def processes_per_node(self) -> int:
        """One a GPU; on processors as many as `processes` says."""
        return self.processes or max(self.gpus, 1)

    @property
    def world_size(self) -> int:
        """Processes in all."""
        return self.processes_per_node * self.nodes

    @property
    def is_deepspeed(self) -> bool:
        """Whether DeepSpeed does the sharding."""
        return self.backend.startswith("zero")

    @property
    def is_offloaded(self) -> bool:
        """Whether the host holds the optimiser and takes its step."""
        return self.backend.endswith("-offload")

    @property
    def is_checked_first(self) -> bool:
        """Whether each GPU (or process) is tried before the first step."""
        return self.gpus > 0 if self.preflight is None else self.preflight

    @property
    def time_seconds(self) -> int:
        """How long one attempt may take."""
        found = TIME.fullmatch(self.time)
        assert found is not None
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds

    @property
    def budget_seconds(self) -> int | None:
        """How long all attempts together may take, from `hours` and `cost`; None: no limit."""
        bounds = [] if self.limits.hours is None else [self.limits.hours]
        if self.limits.cost is not None and self.limits.price_per_gpu_hour is not None:
            bounds.append(
                self.limits.cost / (self.limits.price_per_gpu_hour * self.gpus * self.nodes)
            )
        return int(min(bounds) * SECONDS_AN_HOUR) if bounds else None

    @property
    def worst_case_seconds(self) -> int:
        """The longest that all attempts together can take."""
        longest = self.time_seconds * (1 + self.limits.requeues + self.limits.retries)
        return longest if self.budget_seconds is None else min(longest, self.budget_seconds)

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The stages in order; ("",) if there are none."""
        return tuple(stage.name for stage in self.stages) or ("",)

    @property
    def checkpoints_activations(self) -> bool:
        """Whether activations are computed again in the backward pass, in any stage."""
        given = (self.values(stage).get("checkpointing", "none") for stage in self.stage_names)
        return any(word != "none" for word in given)

    def values(self, stage: str) -> dict[str, Any]:
        """What the training script's ``Config`` gets in a stage."""
        named_here = [name for name in TRAINING if name in self.model_fields_set]
        given = {name: getattr(self, name) for name in named_here}
        # A variant takes a model or data set away by null; Config's default then counts.
        given = {name: value for name, value in given.items() if value is not None}
        own = {entry.name: entry.arguments for entry in self.stages}.get(stage, {})
        return ({"stage": stage} if stage else {}) | given | self.arguments | own

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.venv and self.container:
            raise ValueError("venv and container are both given; keep one")
        if self.backend == "single" and self.world_size > 1:
            raise ValueError(
                f"backend: 'single' is for one process, and this job has {self.world_size}; take "
                "'ddp', 'fsdp2', 'hsdp' or one of 'zero1' to 'zero3-offload'"
            )
        if self.processes and self.gpus:
            raise ValueError("processes is for jobs without GPUs; with GPUs it is one a GPU")
        for bind in self.container.binds if self.container else ():
            if "," in bind:
                raise ValueError(f"container.binds: {bind!r} holds a comma; use another path")
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError("stages: two have one name; give each its own")
        for name in sorted({*RUN_FOLDERS} & {*names}):
            raise ValueError(f"stages: {name!r} is a folder of every run; give another name")
        self._check_arguments()
        if self.signal_seconds >= self.time_seconds:
            raise ValueError(
                f"signal_seconds: {self.signal_seconds} leaves nothing of time: {self.time}"
            )
        return self._check_limits()

    def _check_arguments(self) -> None:
        """Refuse arguments that would contradict what the launchers are made from."""
        for name in (*GIVEN_BY_LAUNCHERS, *TRAINING):
            if name in self.arguments:
                raise ValueError(f"arguments.{name}: {_belongs(name)}")
        for number, stage in enumerate(self.stages):
            for name in (*GIVEN_BY_LAUNCHERS, "backend", "precision"):
                if name in stage.arguments:
                    raise ValueError(f"stages.{number}.arguments.{name}: {_belongs(name)}")

    def _check_limits(self) -> Self:
        limits = self.limits
        if limits.cost is not None and (limits.price_per_gpu_hour is None or not self.gpus):
            raise ValueError(
                "limits.cost needs limits.price_per_gpu_hour and gpus of at least 1; without GPUs "
                "use limits.hours"
            )
        budget = self.budget_seconds
        if budget is not None and budget <= self.signal_seconds:
            raise ValueError(
                f"limits: they allow {budget} s in all, no more than signal_seconds "
                f"({self.signal_seconds}); raise limits.hours or limits.cost"
            )
        return self


TRAINING = (
    *("model", "data", "backend", "precision"),
    *("micro_batch", "accumulation", "gradient_clipping"),
)
RUN_FOLDERS = ("attempts", "launch", "logs")  # beside the stages' own
GIVEN_BY_LAUNCHERS = ("stage", "run_folder")


def _belongs(name: str) -> str:
    """Where a value belongs that may not stand under `arguments`."""
    if name == "stage":
        return "the stage is given by `stages`, whose folder the scripts look into; take it out"
    if name == "run_folder":
        return "the run folder is given when the job is started (--run, --label); take it out"
    return "it stands at the top of the file, where the scripts look for it; move it there"
