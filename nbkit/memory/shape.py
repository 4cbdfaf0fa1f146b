"""The shape of a decoder with gated MLP and RMSNorm (Llama, Qwen2), and its parameters."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder.

    Attributes:
        layers: blocks.
        width: of the hidden state.
        inner: of the MLP.
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: of a head.
        vocabulary: ids.
        tied: the output matrix is the embedding.
        qkv_bias: Qwen2 has biases there.

    """

    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool = False
    qkv_bias: bool = False

    @classmethod
    def from_config(cls, config: Any) -> "ModelShape":
        """Read a configuration of transformers (Llama or Qwen2)."""
        heads = config.num_attention_heads
        return cls(
            layers=config.num_hidden_layers,
            width=config.hidden_size,
            inner=config.intermediate_size,
            heads=heads,
            kv_heads=config.num_key_value_heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            vocabulary=config.vocab_size,
            tied=config.tie_word_embeddings,
            qkv_bias=config.model_type == "qwen2",
        )

    @property
    def query_width(self) -> int:
        """Numbers of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Numbers of all key heads."""
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of the matrices of a block."""
        return {
            "q": (self.width, self.query_width),
            "k": (self.width, self.kv_width),
            "v": (self.width, self.kv_width),
            "o": (self.query_width, self.width),
            "gate": (self.width, self.inner),
            "up": (self.width, self.inner),
            "down": (self.inner, self.width),
        }

    @property
    def block_parameters(self) -> int:
        """Parameters of one block."""
        matrices = sum(inputs * outputs for inputs, outputs in self.linears.values())
        biases = (self.query_width + 2 * self.kv_width) * self.qkv_bias
        return matrices + biases + 2 * self.width

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding alone."""
        return self.vocabulary * self.width

    @property
    def body_parameters(self) -> int:
        """Parameters without an output head."""
        return self.embedding_parameters + self.layers * self.block_parameters + self.width

    @property
    def parameters(self) -> int:
        """Parameters of the language model."""
        return self.body_parameters + (0 if self.tied else self.embedding_parameters)

    @property
    def scalar_parameters(self) -> int:
        """Parameters with one scalar head instead (``nbkit.text.scalar_models``)."""
        return self.body_parameters + self.width + 1

    @property
    def joined_parameters(self) -> int:
        """Numbers that the sampling engine copies: Q, K, V and gate, up, joined."""
        names = ("q", "k", "v", "gate", "up")
        matrices = sum(self.linears[name][0] * self.linears[name][1] for name in names)
        biases = (self.query_width + 2 * self.kv_width) * self.qkv_bias
        return self.layers * (matrices + biases)


def config_arguments(shape: ModelShape) -> dict[str, Any]:
    """What ``transformers.Qwen2Config`` is made from, of a shape; the inverse of `from_config`."""
    return {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "tie_word_embeddings": shape.tied,
    }


def _qwen(layers: int, width: int, inner: int, heads: int, kv: int, tied: bool) -> ModelShape:
    vocabulary = 151_936 if width < 3584 else 152_064
    head_dim = width // heads
    return ModelShape(layers, width, inner, heads, kv, head_dim, vocabulary, tied, True)


# From the configurations that the models are published with.
SHAPES = {
    "qwen2.5-0.5b": _qwen(24, 896, 4864, 14, 2, True),
    "qwen2.5-1.5b": _qwen(28, 1536, 8960, 12, 2, True),
    "qwen2.5-3b": _qwen(36, 2048, 11008, 16, 2, True),
    "qwen2.5-7b": _qwen(28, 3584, 18944, 28, 4, False),
    "qwen2.5-14b": _qwen(48, 5120, 13824, 40, 8, False),
    "llama-3-8b": ModelShape(32, 4096, 14336, 32, 8, 128, 128_256),
}
