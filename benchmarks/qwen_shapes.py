"""Qwen2 models with random weights, in real sizes and in small ones for tests."""

from collections.abc import Mapping
from typing import Any

import torch

from nbkit.memory import SHAPES, ModelShape, config_arguments


def _small(layers: int, width: int, inner: int, heads: int, vocabulary: int) -> ModelShape:
    return ModelShape(
        layers, width, inner, heads, 2, width // heads, vocabulary, tied=True, qkv_bias=True
    )


_SMALL = {
    "tiny": _small(2, 64, 192, 4, 128),
    "small": _small(6, 256, 704, 4, 4096),
    "medium": _small(8, 640, 2560, 10, 16_384),
}
_REAL = {size: SHAPES[f"qwen2.5-{size.lower()}"] for size in ("0.5B", "1.5B", "3B", "7B")}
# Arguments of ``Qwen2Config``.
QWEN = {name: config_arguments(shape) for name, shape in (_REAL | _SMALL).items()}


def fresh_model(
    sizes: Mapping[str, Any], dtype: torch.dtype, device: str | torch.device, **settings: Any
) -> Any:
    """A ``Qwen2ForCausalLM`` made on the device, the same weights each time; dropout is off.

    Transformers draws with standard deviation 0.02: logits of a fresh model are then near 0.6 in
    size, and its texts are near uniform over the vocabulary.

    Args:
        sizes: such as ``QWEN["0.5B"]``.
        dtype: of the weights.
        device: where they are drawn.
        **settings: further arguments of ``Qwen2Config``.

    """
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = Qwen2ForCausalLM(
                Qwen2Config(**{"max_position_embeddings": 4096, **sizes, **settings})
            )
    finally:
        torch.set_default_dtype(before)
    return model.eval()
