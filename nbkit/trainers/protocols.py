"""What trainers ask of the things that they are given: model, vocabulary, problem, a job's run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from nbkit.runs.limits import StepLimits
from nbkit.runs.samples import Sample

Metrics = dict[str, float]


class LanguageModel(Protocol):
    """A causal language model of transformers, or a wrapper that calls one."""

    training: bool

    def __call__(self, **inputs: Any) -> Any:
        """Return something with ``logits`` (B, L, V) for ``input_ids`` (B, L)."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """Its weights by name."""
        ...


class Vocabulary(Protocol):
    """From text to ids and back, with the two special ids that sampling needs."""

    @property
    def pad_id(self) -> int:
        """Fills short rows."""
        ...

    @property
    def eos_id(self) -> Any:
        """The id that ends an answer, or several."""
        ...

    def encode(self, text: str) -> Sequence[int]:
        """The ids of a prompt."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text up to the first EOS."""
        ...


class Problem(Protocol):
    """What is asked. One with ``prompt_ids`` is not encoded again (see ``prompt_ids``)."""

    @property
    def prompt(self) -> str:
        """The question as text."""
        ...


class EncodedProblem(Protocol):
    """A prompt that is ids already, such as a ``nbkit.data.encode.Example``."""

    @property
    def prompt_ids(self) -> Sequence[int]:
        """The question as ids."""
        ...


def prompt_ids(problem: Problem | EncodedProblem, vocabulary: Vocabulary) -> list[int]:
    """The ids of a prompt: its own, or those that the vocabulary makes of its text."""
    ids = getattr(problem, "prompt_ids", None)
    if ids is None:
        ids = vocabulary.encode(problem.prompt)  # type: ignore[union-attr]
    return list(ids)


class Found(Protocol):
    """A checkpoint of a job's run."""

    @property
    def folder(self) -> Path:
        """Where ``write`` put its files."""
        ...

    @property
    def state(self) -> dict[str, Any]:
        """What ``state`` gave."""
        ...


class JobRun(Protocol):
    """As much of a job's run (``nbkit.runs.run.Run``) as ``Trainer.fit`` needs."""

    @property
    def folder(self) -> Path | None:
        """Where the run writes, or None."""
        ...

    @property
    def is_main(self) -> bool:
        """Whether this is the rank that writes and tells."""
        ...

    @property
    def limits(self) -> StepLimits:
        """Steps in a row without use after which it ends."""
        ...

    def resume(self) -> Found | None:
        """The newest checkpoint, if there is one."""
        ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step."""
        ...

    def samples(self, step: int, samples: Sequence[Sample]) -> None:
        """Write what the model wrote at a step."""
        ...

    def stop(self, reason: str) -> None:
        """Ask the run to stop at its next ``checkpoint``."""
        ...

    def timed(self, phase: str) -> AbstractContextManager[None]:
        """Count the seconds of a block for the next row."""
        ...

    def checkpoint(
        self,
        step: int,
        state: Callable[[], dict[str, Any]] | None = None,
        *,
        every: int,
        write: Callable[[Path], None] | None = None,
    ) -> None:
        """Save if it is time; if the job has been told to stop, save and leave by an exception."""
        ...


def peak_memory(device: torch.device) -> Metrics:
    """The most memory that this process has held on its GPU, in GiB; nothing on a CPU."""
    if device.type != "cuda":
        return {}
    return {"peak_gib": torch.cuda.max_memory_allocated(device) / 2**30}
