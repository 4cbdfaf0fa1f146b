"""Weights with a version number, from the trainer to the generator through shared memory.

A publication is a copy: the next optimiser step writes into the trainer's own memory and cannot
change it. There are two slots, written in turn, so that a reader of version v is not disturbed by
version v + 1. What is read is copied first and then compared with a checksum: weights that were
overwritten or damaged on the way are noticed, and the reader asks for them again.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SLOTS = 2
_ALIGN = 64  # bytes; a view of another type must begin at a multiple of its size
_NOTHING = -1
_VERSION, _CHECKSUM = 0, 1


class TornWeightsError(RuntimeError):
    """What was read is not what was published; the message says which version."""


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in a slot; `start` and `size` in bytes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    size: int


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; what several names share comes once."""
    kept = model.state_dict(keep_vars=True)
    found: dict[str, Tensor] = dict(model.named_parameters())
    known = {id(tensor) for tensor in found.values()}
    return found | {name: tensor for name, tensor in kept.items() if id(tensor) not in known}


class Mailbox:
    """Room for the weights of one model, which travels to another process as an argument.

    Args:
        model: whose names, shapes and types are taken; nothing is published yet.

    """

    def __init__(self, model: nn.Module) -> None:
        self.places: list[Place] = []
        end = 0
        for name, tensor in weights_of(model).items():
            size = tensor.numel() * tensor.element_size()
            self.places.append(Place(name, tensor.dtype, tuple(tensor.shape), end, size))
            end += -(-size // _ALIGN) * _ALIGN
        self._slots = [torch.zeros(end, dtype=torch.uint8).share_memory_() for _ in range(SLOTS)]
        self._notes = torch.full((SLOTS, 2), _NOTHING, dtype=torch.int64).share_memory_()

    @property
    def newest(self) -> int:
        """The newest version that is there whole; -1: none."""
        return int(self._notes[:, _VERSION].max())

    @property
    def bytes(self) -> int:
        """Of shared memory, both slots."""
        return SLOTS * self._slots[0].numel()

    @torch.no_grad()
    def publish(self, model: nn.Module, version: int) -> None:
        """Copy the weights of the model as they are now.

        Args:
            model: shaped as the one of the constructor, on any device.
            version: not below one that is there.

        Raises:
            ValueError: a lower version; another model.

        """
        if version < self.newest:
            raise ValueError(f"version {version} comes after {self.newest}: versions only grow")
        source = self._fitting(model)
        number = version % SLOTS
        slot, note = self._slots[number], self._notes[number]
        note[_VERSION] = _NOTHING  # whoever reads now will notice
        for place, view in self._views(slot):
            view.copy_(source[place.name])
        note[_CHECKSUM] = _checksum(slot)
        note[_VERSION] = version

    @torch.no_grad()
    def receive(self, model: nn.Module) -> int:
        """Load the newest version into a model; return its number.

        Args:
            model: is changed only if what was read is whole.

        Raises:
            TornWeightsError: nothing is there, or it was overwritten or damaged meanwhile.
            ValueError: another model.

        """
        target = self._fitting(model)
        number = int(self._notes[:, _VERSION].argmax())
        version, checksum = self._notes[number].tolist()
        if version == _NOTHING:
            raise TornWeightsError("no weights are there")
        copy = self._slots[number].clone()
        if int(self._notes[number, _VERSION]) != version or _checksum(copy) != checksum:
            raise TornWeightsError(f"the weights of version {version} are torn: ask for them again")
        for place, view in self._views(copy):
            target[place.name].copy_(view)
        return version

    def _views(self, slot: Tensor) -> Iterator[tuple[Place, Tensor]]:
        for place in self.places:
            part = slot[place.start : place.start + place.size]
            yield place, part.view(place.dtype).view(place.shape)

    def _fitting(self, model: nn.Module) -> Mapping[str, Tensor]:
        found = weights_of(model)
        for place in self.places:
            tensor = found.get(place.name)
            if tensor is None or (tuple(tensor.shape), tensor.dtype) != (place.shape, place.dtype):
                what = "is missing" if tensor is None else f"is {tensor.dtype} {list(tensor.shape)}"
                raise ValueError(
                    f"model: {place.name} {what}; the mailbox was made for {place.dtype} "
                    f"{list(place.shape)}. Both processes need the same model"
                )
        return found


def _checksum(slot: Tensor) -> int:
    return zlib.crc32(slot.numpy().data)
