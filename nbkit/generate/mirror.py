"""The weights as the engine wants them: the module's memory, with a few copies that are renewed.

One large product is faster than three small ones, so Q, K, V and gate, up are joined in a copy,
and the copy is renewed at the start of every call (one read of the weights; a decode step reads
them all too). So an optimiser's step is seen by the next call, with nothing to synchronise.
"""

from typing import Any

import torch
from torch import Tensor

from nbkit.generate.weights import Layer, Matrix, Weights, read
from nbkit.text.protocols import LanguageModel

# Matrices up to this many numbers a layer are joined on a CPU; larger ones gain nothing there.
JOIN_BELOW = 2**20


class Mirror:
    """The module's weights as the engine reads them: joined and cast where that is wanted.

    What is neither joined nor cast is the module's own memory. Buffers keep their addresses from
    call to call, because CUDA graphs remember addresses.

    Args:
        dtype: of the engine, or None for the model's own.
        join: whether parts are joined; None: always on a GPU, small ones on a CPU.

    """

    def __init__(self, dtype: torch.dtype | None = None, join: bool | None = None) -> None:
        self.dtype, self.join = dtype, join
        self._buffers: dict[tuple[Any, ...], Tensor] = {}

    def refresh(self, model: LanguageModel) -> Weights:
        """Read the module again and renew every copy."""
        source = read(model)
        done = {}

        def one(tensor: Tensor, *name: Any) -> Tensor:
            if tensor.data_ptr() not in done:  # tied matrices are cast once
                done[tensor.data_ptr()] = self._one(tensor, *name)
            return done[tensor.data_ptr()]

        layers = tuple(
            Layer(
                norm=tuple(one(t, n, "norm", i) for i, t in enumerate(layer.norm)),
                qkv=self._joined(layer.qkv, n, "qkv"),
                q_norm=None if layer.q_norm is None else one(layer.q_norm, n, "q_norm"),
                k_norm=None if layer.k_norm is None else one(layer.k_norm, n, "k_norm"),
                out=self._joined(layer.out, n, "out"),
                mlp_norm=tuple(one(t, n, "mlp_norm", i) for i, t in enumerate(layer.mlp_norm)),
                up=self._joined(layer.up, n, "up"),
                down=self._joined(layer.down, n, "down"),
            )
            for n, layer in enumerate(source.layers)
        )
        head = source.head
        return Weights(
            embedding=one(source.embedding, "embedding"),
            positions=None if source.positions is None else one(source.positions, "positions"),
            layers=layers,
            norm=tuple(one(t, "norm", i) for i, t in enumerate(source.norm)),
            head=Matrix(
                tuple(one(t, "head") for t in head.weights),
                tuple(one(t, "head bias") for t in head.biases),
            ),
            inverse_frequencies=source.inverse_frequencies,
            rope_scale=source.rope_scale,
        )

    def _one(self, tensor: Tensor, *name: Any) -> Tensor:
        return tensor if tensor.dtype == (self.dtype or tensor.dtype) else self._copy(name, tensor)

    def _joined(self, matrix: Matrix, *name: Any) -> Matrix:
        parts = matrix.weights
        join = self.join
        if join is None:
            join = parts[0].is_cuda or sum(part.numel() for part in parts) <= JOIN_BELOW
        if len(parts) == 1 or not join:
            return Matrix(
                tuple(self._one(t, *name, i) for i, t in enumerate(parts)),
                tuple(self._one(t, *name, "bias", i) for i, t in enumerate(matrix.biases)),
            )
        biases = matrix.biases
        return Matrix(
            (self._copy((*name, "joined"), *parts),),
            (self._copy((*name, "joined bias"), *biases),) if biases else (),
        )

    def _copy(self, name: tuple[Any, ...], *parts: Tensor) -> Tensor:
        dtype = self.dtype or parts[0].dtype
        shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        held = self._buffers.get(name)
        device = parts[0].device
        if held is None or (held.shape, held.dtype, held.device) != (shape, dtype, device):
            held = torch.empty(shape, dtype=dtype, device=device)
            self._buffers[name] = held
        start = 0
        for part in parts:
            held[start : start + part.shape[0]].copy_(part)
            start += part.shape[0]
        return held
