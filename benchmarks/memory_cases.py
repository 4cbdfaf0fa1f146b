"""What `benchmarks/memory.py` measures: shapes, settings, and what the calculator predicts."""

from dataclasses import dataclass
from typing import Any

from nbkit.memory import (
    BF16,
    SHAPES,
    Memory,
    ModelShape,
    Training,
    four_models,
    generation_peak,
    training_peak,
)

TINY = ModelShape(2, 64, 176, 4, 2, 16, 300, tied=True, qkv_bias=True)


@dataclass(frozen=True)
class Case:
    """One measurement."""

    name: str
    kind: str
    shape: ModelShape
    settings: dict[str, Any]


def cases() -> list[Case]:
    """Three sizes and more of each kind, from a few GB to near the whole card."""
    small, middle, large = (SHAPES[f"qwen2.5-{size}"] for size in ("0.5b", "1.5b", "3b"))
    step, sample, four = "training step", "generation", "four models"
    return [
        Case("0.5B, 8 × 1,024", step, small, {"rows": 8, "length": 1024}),
        Case("0.5B, 16 × 1,024, checkpointing", step, small,
             {"rows": 16, "length": 1024, "checkpointing": True}),
        Case("1.5B, 4 × 2,048", step, middle, {"rows": 4, "length": 2048}),
        Case("1.5B, 8 × 2,048", step, middle, {"rows": 8, "length": 2048}),
        Case("1.5B, 8 × 2,048, checkpointing", step, middle,
             {"rows": 8, "length": 2048, "checkpointing": True}),
        Case("3B, 4 × 1,024", step, large, {"rows": 4, "length": 1024}),
        Case("3B, 8 × 2,048, checkpointing", step, large,
             {"rows": 8, "length": 2048, "checkpointing": True}),
        Case("0.5B, 256 × 1,024", sample, small, {"rows": 256, "prompt": 960, "new_tokens": 64}),
        Case("1.5B, 256 × 1,024", sample, middle, {"rows": 256, "prompt": 960, "new_tokens": 64}),
        Case("3B, 256 × 1,024", sample, large, {"rows": 256, "prompt": 960, "new_tokens": 64}),
        Case("0.5B × 4, 32 × 512", four, small,
             {"rows": 32, "prompt": 256, "new_tokens": 256, "micro_rows": 8}),
        Case("1.5B × 4, 32 × 512", four, middle,
             {"rows": 32, "prompt": 256, "new_tokens": 256, "micro_rows": 8}),
        Case("3B × 4, 32 × 512, checkpointing", four, large,
             {"rows": 32, "prompt": 256, "new_tokens": 256, "micro_rows": 8,
              "checkpointing": True}),
    ]  # fmt: skip


def tiny_cases() -> list[Case]:
    """The same code at a size for a CPU."""
    return [
        Case("tiny", "training step", TINY, {"rows": 2, "length": 32}),
        Case("tiny, checkpointing", "training step", TINY,
             {"rows": 2, "length": 32, "checkpointing": True}),
        Case("tiny", "generation", TINY, {"rows": 4, "prompt": 8, "new_tokens": 8}),
        Case("tiny × 4", "four models", TINY,
             {"rows": 4, "prompt": 8, "new_tokens": 8, "micro_rows": 2}),
    ]  # fmt: skip


def predict(case: Case) -> Memory:
    """What the calculator says."""
    settings = dict(case.settings)
    training = Training(BF16, checkpointing=settings.pop("checkpointing", False))
    if case.kind == "training step":
        return training_peak(case.shape, training, **settings)
    if case.kind == "generation":
        return generation_peak(case.shape, **settings)
    whole = four_models(case.shape, training, **settings)
    return whole.phases[whole.worst]
