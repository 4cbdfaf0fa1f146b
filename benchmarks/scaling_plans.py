"""What ``scaling.py`` runs: one configuration, ladders and curves of them, plans by name."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One configuration.

    Attributes:
        name: unique; "shape backend gpus: factors".
        shape: a key of ``qwen_shapes.QWEN``.
        backend: the one word; for other kinds of work what stands in its place.
        gpus: number of ranks.
        kind: "update" (policy updates), "step" (a whole GRPO step: generate, reward, update),
            "ceiling" (matrix products alone), "torchtitan" (its training step, same matrices).
        rows_per_gpu: sequences of a step on one GPU.
        micro_rows: sequences of one forward pass.
        length: tokens of a sequence.
        precision: of the forward pass.
        checkpointing: "none", "full", "selective", "wide"; see ``ParallelConfig``.
        fused_loss: log-probabilities by chunks instead of float32 logits.
        compiled_loss: the chunks' softmax compiled.
        compile: each block.
        attention: "flash" or "cudnn", which falls back on flash.
        keep_weights: FSDP2 does not free a block's weights after its forward pass.
        low_sums: ZeRO sums gradients in bfloat16, DeepSpeed's default; False: in float32.
        bucket_mb: of messages with gradients.
        scaling: "weak", "strong" or None: which curve the point belongs to.
        only_after_failure_of: another setting's name: run this one in its place.
        limit_s: from the moment its GPUs are free.
        profile: one more step under the profiler.

    """

    name: str
    shape: str
    backend: str
    gpus: int
    kind: str = "update"
    rows_per_gpu: int = 8
    micro_rows: int = 2
    length: int = 2048
    precision: str = "bfloat16"
    checkpointing: str = "full"
    fused_loss: bool = False
    compiled_loss: bool = False
    compile: bool = False
    attention: str = "flash"
    keep_weights: bool = False
    low_sums: bool = False
    bucket_mb: int = 25
    scaling: str | None = None
    only_after_failure_of: str | None = None
    device: str = "cuda"
    limit_s: float = 60.0
    warmup: int = 2
    steps: int = 3
    profile: bool = True


def ladder(shape: str, backend: str, gpus: int, micro: int) -> list[Setting]:
    """From the plain set-up to the tuned one, one factor at a time, each on top of the last."""
    now = Setting(f"{shape} {backend} {gpus}: plain", shape, backend, gpus, warmup=1, steps=2)
    if backend == "fsdp2" and gpus > 1:
        return climb(now, roomy(micro))
    steps: list[tuple[str, dict[str, Any]]] = [
        ("fused loss", {"fused_loss": True, "profile": False}),
        (f"micro-batch {micro}", {"micro_rows": micro}),
    ]
    if backend != "zero3":  # its hooks on every module break the graph of a compiled block
        steps += [
            ("compile", {"compile": True, "limit_s": 110.0, "warmup": 2, "steps": 3}),
            ("compiled loss", {"compiled_loss": True}),
            ("cuDNN attention", {"attention": "cudnn"}),
        ]
    steps.append(("wide products kept", {"checkpointing": "wide", "profile": True}))
    # At the edge of memory the allocator hands pages back and forth, and the GPU waits for it.
    # Fewer rows, not more parts: with one micro-batch no gradient lives beside the activations.
    for rows in sorted({micro * 7 // 8, micro * 3 // 4}, reverse=True):
        steps.append((f"{rows} rows", {"rows_per_gpu": rows, "micro_rows": rows}))
    if backend != "fsdp2" and gpus > 1:
        steps.append(("larger messages", {"bucket_mb": 200}))
    return climb(now, steps)


def roomy(micro: int) -> list[tuple[str, dict[str, Any]]]:
    """The steps where sharding has left memory free: from some point on nothing is recomputed."""
    fewer = micro * 3 // 4
    return [
        ("fused loss", {"fused_loss": True}),
        (f"micro-batch {micro}", {"micro_rows": micro}),
        ("compile", {"compile": True, "limit_s": 110.0, "warmup": 2, "steps": 3}),
        ("compiled loss", {"compiled_loss": True}),
        ("wide products kept", {"checkpointing": "wide"}),
        ("nothing recomputed", {"checkpointing": "none"}),
        (f"{fewer} rows", {"rows_per_gpu": fewer, "micro_rows": fewer}),
        ("weights kept", {"keep_weights": True}),
    ]


def climb(now: Setting, steps: list[tuple[str, dict[str, Any]]]) -> list[Setting]:
    """A ladder: each change on top of the last."""
    found, family = [now], now.name.split(":")[0]
    for word, change in steps:
        now = replace(now, name=f"{family}: + {word}", **change)
        found.append(now)
    return found


def curve(shape: str, backend: str, counts: list[int], tuned: dict[str, Any]) -> list[Setting]:
    """Weak scaling (the same rows a GPU) and strong scaling (the same rows in all)."""

    def point(kind: str, count: int, **changes: Any) -> Setting:
        name = f"{shape} {backend} {count}: {kind}"
        return Setting(name, shape, backend, count, scaling=kind, **{**tuned, **changes})

    weak = [point("weak", count) for count in counts]
    strong = []
    for count in counts[1:]:
        rows = max(1, weak[0].rows_per_gpu * counts[0] // count)
        micro = min(weak[0].micro_rows, rows)
        strong.append(point("strong", count, rows_per_gpu=rows, micro_rows=micro))
    return [*weak, *strong]


def ceiling(gpus: int) -> Setting:
    """Matrix products of a 7B block alone: what no training step can be quicker than."""
    return Setting(
        f"7B matrices {gpus}: ceiling", "7B", "matrices", 1, kind="ceiling", limit_s=40.0
    )


def whole_step(gpus: int, shape: str = "1.5B", backend: str = "ddp") -> Setting:
    """A GRPO step: 64 answers a GPU, 256 tokens of prompt, 1,792 of answer."""
    return Setting(
        f"{shape} {backend} {gpus}: GRPO step", shape, backend, gpus, kind="step", rows_per_gpu=64,
        micro_rows=8, fused_loss=True, limit_s=120.0, warmup=1, steps=1,
    )  # fmt: skip


def zero(gpus: int) -> list[Setting]:
    """7B under plain ZeRO-3, with what takes its place where it does not fit."""
    name = f"7B zero3 {gpus}: plain"
    # Float32 sums make 18 bytes a weight, 128 GiB: more than one H200 has to spare.
    first = Setting(
        name, "7B", "zero3", gpus, low_sums=True, limit_s=80.0, warmup=1, steps=2, profile=False
    )
    smaller = replace(
        first, name=f"{name}, micro-batch 1", micro_rows=1, only_after_failure_of=name
    )
    third = replace(
        first, name=f"3B zero3 {gpus}: plain", shape="3B",
        only_after_failure_of=smaller.name,
    )  # fmt: skip
    return [first, smaller, third]


def offload(gpus: int) -> list[Setting]:
    """ZeRO-3 with weights and optimiser in the host's memory; 3B if there is one GPU.

    On the host a weight takes 12 bytes for Adam and its float32 copy, 4 for the pinned float32
    gradient, 2 for its bfloat16 copy: 127.7 GiB for 7B, which leaves nothing of a host of 128 GiB.
    """
    shape = "7B" if gpus > 1 else "3B"
    return [
        Setting(
            f"{shape} zero3-offload {gpus}: plain", shape, "zero3-offload", gpus, low_sums=True,
            limit_s=150.0, warmup=1, steps=2, profile=False,
        )
    ]  # fmt: skip


def peer(gpus: int) -> list[Setting]:
    """Torchtitan's Llama with the same matrices: compile, selective checkpointing by operation."""
    name = f"7B torchtitan {gpus}: tuned"
    first = Setting(
        name, "7B", "torchtitan", gpus, kind="torchtitan", micro_rows=8, compile=True,
        checkpointing="selective", limit_s=110.0, profile=False,
    )  # fmt: skip
    return [
        first,
        replace(first, name=f"{name}, micro-batch 2", micro_rows=2, only_after_failure_of=name),
    ]


def plan(name: str, gpus: int) -> list[Setting]:
    """The configurations of a plan, the most wanted first."""
    counts = [n for n in (1, 2, 4, 8) if n <= gpus]
    good: dict[str, Any] = {"fused_loss": True, "micro_rows": 4}
    plain_ddp = ladder("1.5B", "ddp", gpus, 8)[0]
    tuned_ddp = replace(
        plain_ddp, name=f"1.5B ddp {gpus}: tuned", fused_loss=True, compiled_loss=True,
        micro_rows=8, compile=True, checkpointing="wide", limit_s=110.0, warmup=2, steps=3,
    )  # fmt: skip
    fsdp = ladder("7B", "fsdp2", gpus, 8)
    lone = ladder("7B", "fsdp2", 1, 8)
    kept = ("plain", "7 rows", "6 rows")
    on_one = [s for s in lone if s.name.endswith(kept)] + peer(1) if gpus > 1 else []
    plans = {
        "one": [
            fsdp[0],
            ceiling(gpus),
            plain_ddp,
            tuned_ddp,
            *fsdp[1:],
            *zero(gpus),
            whole_step(gpus),
            *offload(gpus),
            *peer(gpus),
        ],
        "two": [
            *fsdp,
            *peer(gpus),
            *zero(gpus),
            *offload(gpus),
            whole_step(gpus, "7B", "fsdp2"),
            plain_ddp,
            tuned_ddp,
            *on_one,
            whole_step(gpus),
        ],
        "ladders": [*fsdp, *ladder("1.5B", "ddp", gpus, 8), *ladder("7B", "zero3", gpus, 4)],
        "curves": [
            *curve("1.5B", "ddp", counts, good),
            *curve("1.5B", "fsdp2", counts, good),
            *curve("7B", "fsdp2", counts, good),
            *curve("7B", "zero3", [n for n in counts if n > 1], good),
        ],
    }
    if name != "selftest":
        return plans[name]
    return selftest(list({s.name: s for s in plans["one"] + plans["two"]}.values()))


def selftest(settings: list[Setting]) -> list[Setting]:
    """Settings at a size for a CPU."""
    small: dict[str, Any] = {
        "shape": "tiny", "device": "cpu", "length": 32, "warmup": 1, "steps": 2, "limit_s": 150.0,
    }  # fmt: skip
    found = []
    for setting in settings:
        rows = min(setting.rows_per_gpu, 8)
        low = "bfloat16" if setting.backend.startswith("zero") else "float32"
        found.append(
            replace(
                setting, **small, precision=low, rows_per_gpu=rows,
                micro_rows=min(setting.micro_rows, rows),
            )
        )  # fmt: skip
    return found
