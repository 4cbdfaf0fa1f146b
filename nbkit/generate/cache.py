"""The key-value cache: fixed memory, written in place.

A slot holds one sequence. Its token number t lies at column t, whatever the other slots hold, so a
slot can be emptied and refilled while its neighbours go on, and nothing is ever padded on the left.
"""

import torch
from torch import Tensor


class StaticCache:
    """Keys and values of every layer, (layers, slots, heads, length, head_dim) each.

    Args:
        layers: number of layers L.
        slots: sequences that fit at one time, B.
        heads: key-value heads H.
        length: longest sequence S.
        head_dim: size D of a head.
        dtype: of keys and values.
        device: where they live.

    """

    def __init__(
        self,
        layers: int,
        slots: int,
        heads: int,
        length: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        shape = (layers, slots, heads, length, head_dim)
        # Zeros, not empty memory: 0 × NaN of a column never written would poison the attention.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self._first = torch.arange(slots * heads, device=device) * length

    @property
    def slots(self) -> int:
        """Sequences that fit."""
        return self.keys.shape[1]

    @property
    def length(self) -> int:
        """Tokens that fit in a slot."""
        return self.keys.shape[3]

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token of one sequence takes, all layers, keys and values."""
        layers, _, heads, _, head_dim = self.keys.shape
        return 2 * layers * heads * head_dim * self.keys.element_size()

    def columns(self, positions: Tensor) -> Tensor:
        """Where the next token of the first B slots goes: flat rows (B·H,) of (slots·H·S, D)."""
        heads = self.keys.shape[2]
        rows = self._first[: positions.numel() * heads].view(-1, heads)
        return (rows + positions[:, None]).view(-1)

    def append(self, layer: int, columns: Tensor, key: Tensor, value: Tensor) -> None:
        """Write one token a slot, in place.

        Args:
            layer: number of the layer.
            columns: (B·H,) of ``columns``.
            key: (B, H, D).
            value: (B, H, D).

        """
        width = key.shape[-1]
        self.keys[layer].view(-1, width).index_copy_(0, columns, key.reshape(-1, width))
        self.values[layer].view(-1, width).index_copy_(0, columns, value.reshape(-1, width))

    def fill(self, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Write the first P tokens of some slots: key and value (n, H, P, D), slots (n,)."""
        width = key.shape[2]
        self.keys[layer][:, :, :width].index_copy_(0, slots, key)
        self.values[layer][:, :, :width].index_copy_(0, slots, value)

    def copy_slots(self, sources: Tensor, targets: Tensor, width: int) -> None:
        """Copy the first `width` tokens of slots (n,) to other slots (n,), in every layer."""
        if not width:
            return
        for tensor in (self.keys, self.values):
            for layer in tensor[..., :width, :]:
                layer.index_copy_(0, targets, layer.index_select(0, sources))
