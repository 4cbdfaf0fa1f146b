"""One forward pass for Llama, Qwen2, Qwen3 and GPT-2, with the attention left to the caller.

``Decoder.run`` does everything but attention and calls ``attend(layer, q, k, v)`` for that. What a
caller passes there is what makes the difference between reading a prompt, decoding with a growing
cache and decoding with a static one; the rest of the model is the same four matrices a layer.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from nbkit.generate.attention import decode_attention, length_mask, prompt_attention
from nbkit.generate.cache import StaticCache
from nbkit.generate.mirror import Mirror
from nbkit.generate.weights import Geometry, Matrix, geometry, unwrap
from nbkit.text.protocols import LanguageModel

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


class Decoder:
    """A Hugging Face decoder without its Python: weights read in place, own cache.

    Args:
        model: see ``nbkit.generate.generate``.
        dtype: of the engine; None: the model's.
        join: whether Q, K, V and gate, up are joined; None: where it pays.

    """

    def __init__(
        self, model: LanguageModel, *, dtype: torch.dtype | None = None, join: bool | None = None
    ) -> None:
        module = unwrap(model)
        self.shape: Geometry = geometry(module)
        self._mirror = Mirror(dtype, join)
        self._ropes: dict[int, tuple[Tensor, Tensor]] = {}
        self.refresh(module)

    def refresh(self, model: LanguageModel) -> None:
        """Read the weights again; call it after they have changed."""
        self.weights = self._mirror.refresh(unwrap(model))

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.weights.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and cache."""
        return self.weights.embedding.dtype

    def make_cache(self, slots: int, length: int) -> StaticCache:
        """An empty cache of the right shape."""
        shape = self.shape
        return StaticCache(
            *(shape.layers, slots, shape.kv_heads, length, shape.head_dim),
            dtype=self.dtype,
            device=self.device,
        )

    def rope_table(self, length: int) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of positions 0 … length-1 and some more, (≥ length, D) each.

        The sines of the first half carry a minus sign: then rotating is
        x·cos + roll(x, D/2)·sin, without the negated copy of `rotate_half`.
        """
        room = max(256, 1 << (length - 1).bit_length())
        if room not in self._ropes:  # kept for good: a CUDA graph remembers where it lies
            frequencies = self.weights.inverse_frequencies
            assert frequencies is not None
            places = torch.arange(room, device=self.device, dtype=torch.float32)
            angles = places[:, None] * frequencies.to(self.device, torch.float32)
            cosines = (angles.cos() * self.weights.rope_scale).to(self.dtype)
            sines = (angles.sin() * self.weights.rope_scale).to(self.dtype)
            self._ropes[room] = torch.cat([cosines] * 2, 1), torch.cat([-sines, sines], 1)
        return self._ropes[room]

    def run(self, ids: Tensor, positions: Tensor, attend: Attend, longest: int) -> Tensor:
        """Map ids (B, T) at positions (B, T), all below `longest`, to hidden states (B, T, W)."""
        shape, weights = self.shape, self.weights
        batch, steps = ids.shape
        hidden = F.embedding(ids, weights.embedding)
        rope = None
        if weights.positions is not None:
            hidden = hidden + F.embedding(positions, weights.positions)
        else:
            cosines, sines = self.rope_table(longest)
            rope = cosines[positions][:, :, None], sines[positions][:, :, None]
        counts = (shape.heads, shape.kv_heads, shape.kv_heads)
        for number, layer in enumerate(weights.layers):
            qkv = linear(self.norm(hidden, layer.norm), layer.qkv)
            heads = qkv.view(batch, steps, sum(counts), shape.head_dim)
            if layer.q_norm is not None and layer.k_norm is not None:
                query, key, value = heads.split_with_sizes(counts, 2)
                query = rms_norm(query, layer.q_norm, shape.eps)
                key = rms_norm(key, layer.k_norm, shape.eps)
                if rope is not None:
                    query, key = rotate(query, *rope), rotate(key, *rope)
            elif rope is not None:
                turned, value = heads.split_with_sizes(
                    (shape.heads + shape.kv_heads, shape.kv_heads), 2
                )
                query, key = rotate(turned, *rope).split_with_sizes(counts[:2], 2)
            else:
                query, key, value = heads.split_with_sizes(counts, 2)
            mixed = attend(number, query, key, value).reshape(batch, steps, -1)
            hidden = hidden + linear(mixed, layer.out)
            inner = linear(self.norm(hidden, layer.mlp_norm), layer.up)
            if shape.gated:
                gate, up = inner.chunk(2, -1)
                inner = shape.activation(gate) * up
            else:
                inner = shape.activation(inner)
            hidden = hidden + linear(inner, layer.down)
        return self.norm(hidden, weights.norm)

    def norm(self, x: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
        """RMSNorm, or LayerNorm where there is a bias."""
        if len(parameters) == 2:
            return F.layer_norm(x, x.shape[-1:], *parameters, self.shape.eps)
        return rms_norm(x, parameters[0], self.shape.eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., W) to logits (..., V)."""
        return linear(hidden, self.weights.head)

    def prefill(self, ids: Tensor, cache: StaticCache, slots: Tensor, sources: Tensor) -> None:
        """Read prompts, and leave their keys and values in the cache.

        Args:
            ids: (n, P) prompts, padded on the right. What padding leaves behind lies at columns
                that a later token overwrites before anyone looks at them.
            cache: is written.
            slots: (m,) where to write.
            sources: (m,) which prompt goes there: the G answers to a prompt share its reading.

        """
        steps = ids.shape[1]
        positions = torch.arange(steps, device=ids.device).expand_as(ids)

        def attend(number: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            chosen = (t.transpose(1, 2).index_select(0, sources) for t in (key, value))
            cache.fill(number, slots, *chosen)
            return prompt_attention(query, key, value, self.shape.scale)

        self.run(ids, positions, attend, steps)

    def step(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: StaticCache,
        horizon: int | None = None,
        aligned: bool = False,
    ) -> Tensor:
        """Decode one token a row, writing it into the cache.

        Args:
            tokens: (B,) newest tokens of the first B slots.
            positions: (B,) their columns.
            cache: is read up to the position of each row and written there.
            horizon: a bound that all positions lie below; None: the length of the cache.
            aligned: all positions are horizon - 1, so that nothing is to be masked.

        Returns:
            (B, V) logits of the next tokens.

        """
        batch = tokens.shape[0]
        horizon = cache.length if horizon is None else horizon
        mask = None if aligned else length_mask(positions, horizon)
        if mask is not None and not mask.is_cuda:  # made once instead of in every layer
            zero = torch.zeros((), dtype=self.dtype)
            mask = zero.masked_fill(~mask, -torch.inf)
        columns = cache.columns(positions)

        def attend(number: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            cache.append(number, columns, key[:, 0], value[:, 0])
            keys = cache.keys[number][:batch, :, :horizon]
            values = cache.values[number][:batch, :, :horizon]
            return decode_attention(query[:, 0], keys, values, mask, self.shape.scale)

        hidden = self.run(tokens[:, None], positions[:, None], attend, cache.length)
        return self.logits(hidden[:, 0])


def linear(x: Tensor, matrix: Matrix) -> Tensor:
    """x Wᵀ + b, part by part where the parts are not joined."""
    weights, biases = matrix.weights, matrix.biases
    if len(weights) == 1:
        return F.linear(x, weights[0], biases[0] if biases else None)
    paired = biases or (None,) * len(weights)
    return torch.cat([F.linear(x, w, b) for w, b in zip(weights, paired, strict=True)], -1)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) · weight, the statistics in float32, as the modules do it."""
    if x.dtype == torch.float32:  # two passes instead of the five that F.rms_norm takes on a CPU
        squares = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
        return x * squares.mul_(1 / x.shape[-1]).add_(eps).rsqrt_() * weight
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary positions (Su et al., arXiv:2104.09864): x (..., D) with the table of the decoder."""
    return torch.addcmul(x * cosines, x.roll(x.shape[-1] // 2, -1), sines)
