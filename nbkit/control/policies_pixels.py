"""Policies that look: convolutional bodies under the heads of chapter 12, and the random shift."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbkit._inputs import check_choice, check_number
from nbkit.control.actor_critic import DiagonalGaussian
from nbkit.control.squashed import SquashedGaussian


class AtariBody(nn.Sequential):
    """The three convolutions of Mnih et al. (2015), then one layer of ``width``.

    Args:
        channels: C of the input.
        size: H and W of the input.
        width: of the features.
        filters: of the three convolutions.

    """

    def __init__(
        self, channels: int, size: int, width: int, filters: tuple[int, int, int] = (32, 64, 64)
    ) -> None:
        if size < 36:
            raise ValueError(f"size must be at least 36 for the Atari body; got {size}")
        first, second, third = filters
        convolutions = nn.Sequential(
            nn.Conv2d(channels, first, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(first, second, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(second, third, 3),
            nn.ReLU(),
            nn.Flatten(),
        )
        features = convolutions(torch.zeros(1, channels, size, size)).shape[1]
        super().__init__(convolutions, nn.Linear(features, width), nn.ReLU())


class ResidualBlock(nn.Module):
    """x plus two convolutions of relu(x)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to the same shape."""
        return x + self.second(torch.relu(self.first(torch.relu(x))))


class ResNetBody(nn.Sequential):
    """Stages of convolution, pooling and a residual block (Espeholt et al., 2018, figure 3: two).

    Args:
        channels: C of the input.
        size: H and W of the input; each stage halves it.
        width: of the features.
        stages: channels of each stage.

    """

    def __init__(
        self,
        channels: int,
        size: int,
        width: int,
        *,
        stages: tuple[int, ...] = (16, 32, 32),
    ) -> None:
        layers: list[nn.Module] = []
        for outputs in stages:
            layers += [
                nn.Conv2d(channels, outputs, 3, padding=1),
                nn.MaxPool2d(3, stride=2, padding=1),
                ResidualBlock(outputs),
            ]
            channels, size = outputs, -(-size // 2)
        features = channels * size * size
        super().__init__(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(features, width), nn.ReLU())


BODIES: dict[str, Any] = {
    "atari": AtariBody,
    "resnet": ResNetBody,
    # A quarter of the arithmetic, for a processor.
    "small": partial(AtariBody, filters=(16, 32, 32)),
}


class PixelActorCritic(nn.Module):
    """A convolutional body, a head for the Gaussian and a head for the value.

    Observations are (B, C, H, W), or flat as ``PixelArms`` gives them, with numbers 0 to 255 of any
    type; they are scaled to [-0.5, 0.5] here, so that they can be kept as bytes.

    Args:
        channels: C: 3 colours times the frames of the stack.
        size: H and W.
        actions: A.
        body: "atari", "resnet" or "small".
        width: of the features.
        log_std: the first one.
        squash: a tanh behind the Gaussian.
        generator: of the first weights.

    """

    def __init__(
        self,
        channels: int,
        size: int,
        actions: int,
        *,
        body: str = "atari",
        width: int = 256,
        log_std: float = -0.5,
        squash: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_choice("body", body, sorted(BODIES))
        self.channels, self.size, self.squash = channels, size, squash
        self.body = BODIES[body](channels, size, width)
        self.policy_head = nn.Linear(width, actions)
        self.value_head = nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.full((actions,), float(log_std)))
        gains: dict[nn.Module, float] = {self.policy_head: 0.01, self.value_head: 1.0}
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                gain = gains.get(module, math.sqrt(2))
                nn.init.orthogonal_(module.weight, gain, generator=generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def features(self, observations: Tensor) -> Tensor:
        """Map observations to (B, width)."""
        pictures = observations.view(-1, self.channels, self.size, self.size)
        return self.body(pictures.to(self.log_std.dtype) / 255.0 - 0.5)

    def _distribution(self, features: Tensor) -> DiagonalGaussian:
        form = SquashedGaussian if self.squash else DiagonalGaussian
        return form(self.policy_head(features), self.log_std)

    def forward(self, observations: Tensor) -> tuple[DiagonalGaussian, Tensor]:
        """Map observations to a distribution and the values (B,)."""
        features = self.features(observations)
        return self._distribution(features), self.value_head(features).squeeze(-1)

    def act(self, observations: Tensor) -> DiagonalGaussian:
        """Map observations to the distribution alone."""
        return self._distribution(self.features(observations))


def shift_pictures(pictures: Tensor, offsets: Tensor, pad: int) -> Tensor:
    """Move each picture by whole pixels; what comes in from outside repeats the edge.

    The random shift of Kostrikov et al. (2020) with the offsets handed in, so that all frames of a
    stack can move together and a policy can be shown the same picture twice.

    Args:
        pictures: (B, C, H, W).
        offsets: (B, 2) int64 rows and columns, from 0 to 2 * pad; pad is no shift.
        pad: the farthest shift.

    Raises:
        ValueError: offsets out of range, or of another shape.

    """
    check_number("pad", pad, 0)
    if offsets.shape != (len(pictures), 2):
        raise ValueError(f"offsets must be (B, 2) = ({len(pictures)}, 2); got {offsets.shape}")
    if bool(((offsets < 0) | (offsets > 2 * pad)).any()):
        raise ValueError(f"offsets must lie in [0, {2 * pad}] for pad {pad}")
    height, width = pictures.shape[-2:]
    down = torch.arange(height, device=pictures.device)
    right = torch.arange(width, device=pictures.device)
    rows = (down + offsets[:, :1] - pad).clamp(0, height - 1)  # (B, H)
    columns = (right + offsets[:, 1:] - pad).clamp(0, width - 1)  # (B, W)
    which = torch.arange(len(pictures), device=pictures.device)[:, None, None]
    # Indexing with a slice in the middle puts the channels last.
    return pictures[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
