"""From frames to what a policy sees: a stack on the device, shifted if asked to."""

from typing import Protocol

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.control.policies_pixels import shift_pictures
from nbkit.envs.pixels import FrameStack


class FrameSource(Protocol):
    """Arms that are drawn: ``nbkit.envs.workers.PixelWorkers`` and its like."""

    num_envs: int

    def reset(self, seed: int) -> Tensor:
        """Return frames (N, 3, H, W) uint8."""
        ...

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return frames, rewards, terminated, truncated; autoreset is next-step."""
        ...


class Eye:
    """Turns frames into what the policy sees: a stack on the device, shifted if asked to.

    The shift of an environment is drawn at each reset and holds for the episode: acting and
    learning see the same picture, so that the first ratio stays 1.

    Args:
        frames: K.
        shift: farthest shift in pixels; 0: none.
        device: where the stack lives.
        seed: of the shifts.

    """

    def __init__(self, frames: int, shift: int, device: str, seed: int) -> None:
        check_number("shift", shift, 0)
        self.frames, self.shift, self.device = frames, shift, device
        self.generator = torch.Generator().manual_seed(seed)
        self._stack: FrameStack | None = None
        self._offsets = torch.zeros(0, 2, dtype=torch.int64)

    def begin(self, first: Tensor) -> Tensor:
        """Start from frames (N, 3, H, W); return (N, K * 3, H, W)."""
        self._offsets = self._draw(len(first)).to(self.device)
        self._stack = FrameStack(self.frames, self._moved(first))
        return self._stack.stack

    def see(self, newest: Tensor, new_episode: Tensor) -> Tensor:
        """Add frames; where an episode begins, draw a new shift and forget the old frames."""
        if self._stack is None:
            raise RuntimeError("see was called before begin")
        if self.shift:
            drawn = self._draw(len(newest)).to(self.device)
            fresh = new_episode.to(self.device)[:, None]
            self._offsets = torch.where(fresh, drawn, self._offsets)
        return self._stack.push(self._moved(newest), new_episode.to(self.device))

    def _draw(self, count: int) -> Tensor:
        return torch.randint(0, 2 * self.shift + 1, (count, 2), generator=self.generator)

    def _moved(self, frames: Tensor) -> Tensor:
        # A copy in any case: the source writes over its frames at the next step.
        here = frames.to(self.device, copy=True)
        return shift_pictures(here, self._offsets, self.shift) if self.shift else here
