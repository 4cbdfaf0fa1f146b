"""What can be tuned about the engine, and what one call asks of the sampler."""

from dataclasses import dataclass

from nbkit._inputs import check_choice


@dataclass(frozen=True)
class Sampling:
    """The distribution that tokens are drawn from, and the ids that end a row."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    eos_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class EngineOptions:
    """How the engine computes; none of it changes which distribution is sampled from.

    Attributes:
        attention: of a decode step: "sdpa" (masked, anywhere) or "triton" (GPU); "auto" chooses.
        layers: the small operations of a layer: "torch" or "triton".
        sampler: "torch" or "triton".
        graph: replay a decode step as a CUDA graph; None: on a GPU.
        compile: compile the decode step with torch.compile (plain operations only).
        join: join Q, K, V and gate, up in a copy; None: where it pays.
        splits: programs that share a row in attention, a power of two; None: chosen.
        block: cache columns that attention reads at one time.
        warps: of an attention program.
        stages: of the software pipeline of an attention program.
        sampler_block: tokens of the vocabulary a sampler program.
        check_every: decode steps between two looks at which rows have ended; None: 1 on a CPU,
            16 on a GPU.
        prefill_tokens: most padded tokens of one prefill pass.
        refill_share: free slots, as a share of all, that are worth a prefill.
        shrink: leave the batch to the rows still running when no more wait.

    """

    attention: str = "auto"
    layers: str = "auto"
    sampler: str = "auto"
    graph: bool | None = None
    compile: bool = False
    join: bool | None = None
    splits: int | None = None
    block: int = 64
    warps: int = 4
    stages: int = 2
    sampler_block: int = 4096
    check_every: int | None = None
    prefill_tokens: int = 16384
    refill_share: float = 0.125
    shrink: bool = True

    def __post_init__(self) -> None:
        check_choice("options.attention", self.attention, ("auto", "sdpa", "triton"))
        check_choice("options.layers", self.layers, ("auto", "torch", "triton"))
        check_choice("options.sampler", self.sampler, ("auto", "torch", "triton"))
        for name in ("splits", "block", "sampler_block"):
            value = getattr(self, name)
            if value is not None and (value < 1 or value & (value - 1)):
                raise ValueError(f"options.{name} must be a power of two; got {value}")
        for name in ("check_every", "prefill_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"options.{name} must be at least 1; got {value}")
