"""Policies over tokens: one interface, three bodies (LSTM, Transformer, any Hugging Face model).

A policy answers two questions. ``policy(ids)`` scores every next token of whole sequences in one
pass, for losses. ``policy.step(tokens, state)`` scores the next token only, for sampling; ``state``
is whatever the body remembers (hidden state, cached keys and values), and None at the start.
"""

import inspect
import math
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nbkit.text.protocols import PretrainedModel


class TextPolicy(Protocol):
    """The interface that samplers and trainers rely on."""

    def __call__(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to logits (B, T, V); ``logits[:, t]`` scores ``ids[:, t+1]``."""
        ...

    def step(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Map the newest tokens (B,) and the state to logits (B, V) and the next state."""
        ...

    def parameters(self) -> Any:
        """Return the trainable parameters, as ``torch.nn.Module`` does."""
        ...


class LSTMPolicy(nn.Module):
    """Embedding, LSTM, linear head.

    Args:
        vocabulary_size: number of tokens V.
        width: size of embedding and hidden state.
        layers: number of stacked LSTM layers.

    """

    def __init__(self, vocabulary_size: int, width: int = 128, layers: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.lstm = nn.LSTM(width, width, num_layers=layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary_size)

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to logits (B, T, V)."""
        hidden, _ = self.lstm(self.embedding(ids))
        return self.head(hidden)

    def step(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Map tokens (B,) and the (h, c) pair to logits (B, V) and the next pair."""
        hidden, state = self.lstm(self.embedding(tokens[:, None]), state)
        return self.head(hidden[:, 0]), state


class _Block(nn.Module):
    """Pre-norm Transformer block with causal attention and an optional key-value cache."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Any]:
        """Map x (B, T, D) and the cached keys and values (B, H, S, D/H) to the same, updated."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        # With a cache there is one query, which may look at everything before it.
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_mlp(x)), (key, value)


class TransformerPolicy(nn.Module):
    """A small GPT: learned positions, pre-norm blocks, linear head.

    Args:
        vocabulary_size: number of tokens V.
        width: model width D.
        layers: number of blocks.
        heads: attention heads; must divide ``width``.
        max_length: longest sequence, BOS included.

    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int = 96,
        layers: int = 2,
        heads: int = 4,
        max_length: int = 64,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads: {heads} does not divide width {width}")
        self.max_length = max_length
        self.embedding = nn.Embedding(vocabulary_size, width)
        self.position = nn.Embedding(max_length, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary_size)
        for table in (self.embedding, self.position):
            nn.init.normal_(table.weight, std=1 / math.sqrt(width))

    def _run(self, ids: Tensor, caches: list[Any], start: int) -> tuple[Tensor, list[Any]]:
        length = start + ids.shape[1]
        if length > self.max_length:
            raise ValueError(
                f"ids: sequence of {length} tokens, but the policy has max_length {self.max_length}"
            )
        x = self.embedding(ids) + self.position(torch.arange(start, length, device=ids.device))
        new_caches = []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, new = block(x, cache)
            new_caches.append(new)
        return self.head(self.norm(x)), new_caches

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to logits (B, T, V)."""
        return self._run(ids, [None] * len(self.blocks), 0)[0]

    def step(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Map tokens (B,) and the cached keys and values to logits (B, V) and the next cache."""
        start, caches = (0, [None] * len(self.blocks)) if state is None else state
        logits, caches = self._run(tokens[:, None], caches, start)
        return logits[:, 0], (start + 1, caches)


class HuggingFacePolicy(nn.Module):
    """Any causal language model of transformers behind the same interface.

    Args:
        model: a causal language model of transformers, or a module that behaves like one.

    """

    def __init__(self, model: PretrainedModel) -> None:
        super().__init__()
        self.model = model
        # transformers renamed the argument (and the output) in 5.2x; both names are in use.
        names = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    @classmethod
    def from_pretrained(cls, name_or_path: str, **kwargs: Any) -> "HuggingFacePolicy":
        """Load a model by hub name or folder, without dropout (see the pitfalls of the chapter)."""
        from transformers import AutoModelForCausalLM  # heavy: only who needs it pays

        return cls(AutoModelForCausalLM.from_pretrained(name_or_path, **kwargs).eval())

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, T) to logits (B, T, V)."""
        return self.model(input_ids=ids, use_cache=False).logits

    def step(self, tokens: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Map tokens (B,) and the model's own cache to logits (B, V) and the next cache."""
        cache = {self._cache_name: state}
        out = self.model(input_ids=tokens[:, None], use_cache=True, **cache)
        return out.logits[:, -1], getattr(out, self._cache_name)


_BODIES = {"lstm": LSTMPolicy, "transformer": TransformerPolicy}


def make_policy(kind: str, vocabulary_size: int, **sizes: int) -> LSTMPolicy | TransformerPolicy:
    """Return a fresh policy by name.

    Args:
        kind: "lstm" or "transformer".
        vocabulary_size: number of tokens V.
        sizes: keyword arguments of the chosen class.

    Raises:
        ValueError: unknown ``kind``.

    """
    if kind not in _BODIES:
        raise ValueError(f"kind: {kind!r} is not one of {sorted(_BODIES)}")
    return _BODIES[kind](vocabulary_size, **sizes)
