"""What lies in memory at the worst moment of a pass: activations, logits, key-value cache."""

from collections.abc import Mapping
from dataclasses import dataclass

from nbkit.memory.setup import Precision, Training, static_memory
from nbkit.memory.shape import ModelShape

# Libraries' own buffers on the device (cuBLAS takes 32 MiB a handle on a Hopper GPU).
WORKSPACE_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Memory:
    """Bytes at the worst moment of a phase.

    Attributes:
        parts: name to bytes.

    """

    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """Their sum."""
        return sum(self.parts.values())


def block_activations(shape: ModelShape, precision: Precision) -> int:
    """Bytes a token that one block stores for its backward pass.

    Two norms (their input in float32, one number a token, and the normalised state), the inputs of
    q, k, v and of gate, up; rotated queries and keys, values, the output of attention and a
    float32 number a head; gate, its activation, up, and their product. Scores of attention are not
    stored (FlashAttention, arXiv:2205.14135).
    """
    size = precision.activations
    # In float32 the cast of the norm makes no copy: its input is stored once, as it is.
    norm = shape.width * (4 + size if size < 4 else 2 * size) + 4
    attention = 2 * size * shape.query_width + 2 * size * shape.kv_width + 4 * shape.heads
    return 2 * (norm + size * shape.width) + attention + 4 * size * shape.inner


def head_activations(shape: ModelShape, precision: Precision, *, scalar: bool) -> int:
    """Bytes a token behind the last block: the norm, and the input of the head."""
    size = precision.activations
    norm = shape.width * (4 + size if size < 4 else 2 * size) + 4
    return norm + (4 if scalar else size) * shape.width


def training_peak(
    shape: ModelShape,
    training: Training,
    *,
    rows: int,
    length: int,
    scored: int | None = None,
    scalar: bool = False,
) -> Memory:
    """Peak of a gradient step with a steady optimiser.

    Two moments compete, and between them memory moves about linearly from one to the other: the
    beginning of the backward pass (all activations, the logits and their gradient), and its end
    (all gradients).

    Args:
        shape: of the model.
        training: how it is trained.
        rows: sequences of a forward pass.
        length: tokens of each.
        scored: tokens of each that get logits; None: all.
        scalar: a scalar head instead of the language model's.

    """
    precision, size = training.precision, training.precision.activations
    tokens = rows * length
    static = static_memory(
        shape, training, total=shape.scalar_parameters if scalar else shape.parameters
    )
    gradients = static.pop("gradients")
    block = block_activations(shape, precision)
    if training.method == "lora":
        block += size * training.rank * len(training.targets)
    stored = size * shape.width if training.checkpointing else block
    activations = float(
        tokens * (shape.layers * stored + head_activations(shape, precision, scalar=scalar))
    )
    logits = (
        0 if scalar else size * shape.vocabulary * rows * (length if scored is None else scored)
    )
    full = training.method == "full"
    head_gradient = (
        float(shape.embedding_parameters * precision.gradients) if full and not scalar else 0.0
    )
    # Logits and their gradient; or the gradient of the logits and that of the output matrix.
    at_head = max(2.0 * logits, logits + head_gradient)
    # Inside a block: its activations once more if they are recomputed, and gradients of the MLP.
    inside = tokens * (block * training.checkpointing + 3 * size * shape.inner + 4 * shape.width)
    already = gradients if training.accumulated else 0.0
    begin = {
        "activations": activations,
        "logits": at_head,
        "gradients": already,
    }
    # The embedding's gradient comes last. A tied one has another, from the logits; an accumulated
    # one the sum so far. Both lie there until they are added.
    second = float(shape.embedding_parameters * precision.gradients) if full else 0.0
    twice = training.accumulated or (shape.tied and not scalar)
    last = tokens * size * shape.width * training.checkpointing
    end = {
        "activations": float(last),
        "logits": 0.0,
        "gradients": gradients + (second if twice else 0.0),
    }
    middle = {
        "activations": activations + inside,
        "logits": 0.0,
        "gradients": max(already, head_gradient),
    }
    worst = max(begin, middle, end, key=lambda moment: sum(moment.values()))
    return Memory({**static, **worst, "workspace": float(WORKSPACE_BYTES)})


def inference_peak(
    shape: ModelShape,
    *,
    rows: int,
    length: int,
    scored: int = 0,
    size: int = 2,
    scalar: bool = False,
    weights: bool = True,
) -> Memory:
    """Peak of a forward pass without gradient.

    Args:
        shape: of the model.
        rows: sequences of the pass.
        length: tokens of each.
        scored: tokens of each that get logits.
        size: bytes of a number.
        scalar: a scalar head.
        weights: count the model itself too.

    """
    tokens = rows * length
    # The MLP's activated gate, up and their product; or the norm in float32 with q, k, v.
    inside = max(3 * shape.inner * size, 4 * shape.width + 3 * shape.query_width * size)
    total = shape.scalar_parameters if scalar else shape.parameters
    return Memory(
        {
            "parameters": float(total * size * weights),
            "activations": float(tokens * (inside + 2 * shape.width * size)),
            "logits": float(shape.vocabulary * size * rows * scored),
            "workspace": float(WORKSPACE_BYTES),
        }
    )


def kv_cache_bytes(shape: ModelShape, rows: int, length: int, size: int = 2) -> int:
    """Keys and values of `rows` sequences of `length` tokens."""
    return 2 * shape.layers * shape.kv_width * size * rows * length


def generation_peak(
    shape: ModelShape,
    *,
    rows: int,
    prompt: int,
    new_tokens: int,
    size: int = 2,
    joined: bool = True,
    weights: bool = True,
    prefill_tokens: int = 16_384,
    cache_step: int = 64,
) -> Memory:
    """Peak of ``nbkit.generate.generate`` with all rows at once.

    Args:
        shape: of the model.
        rows: completions.
        prompt: tokens of a prompt.
        new_tokens: most tokens of a completion.
        size: bytes of a number.
        joined: the engine keeps a joined copy of Q, K, V and gate, up (on a GPU it does).
        weights: count the model itself too.
        prefill_tokens: most tokens that are read in one pass.
        cache_step: the cache is made longer to a multiple of this (on a GPU).

    """
    length = -(-(prompt + new_tokens) // cache_step) * cache_step
    reading = min(rows * prompt, max(prefill_tokens, prompt))
    inside = reading * (4 * shape.inner + 4 * shape.width) * size
    sampling = rows * shape.vocabulary * (size + 4)
    return Memory(
        {
            "parameters": float(shape.parameters * size * weights),
            "engine copies": float(shape.joined_parameters * size * joined),
            "kv cache": float(kv_cache_bytes(shape, rows, length, size)),
            "activations": float(max(inside, sampling)),
            "workspace": float(WORKSPACE_BYTES),
        }
    )
