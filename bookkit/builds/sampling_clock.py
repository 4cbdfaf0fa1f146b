"""The generator of build 35: it draws groups a token a tick, with the weights that it holds.

A prompt is a row of T features. A completion takes one class at each place, and is paid the share
of its classes that a hidden rule asks for. All completions of a group are drawn side by side.
"""

import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bookkit.builds.network import CLASSES, FEATURES
from bookkit.builds.wire import Arrays

COMPLETIONS, SHORTEST, SHORT, LONG = 8, 3, 6, 20
LONG_SHARE = 0.25  # of the groups


@dataclass(frozen=True)
class Prompt:
    """What a group is asked: features (T, F), right classes (T,), lengths of its completions."""

    x: Tensor
    right: Tensor
    lengths: Tensor
    seed: int

    @property
    def ticks(self) -> int:
        """How long the group takes: its longest completion."""
        return int(self.lengths.max())


@dataclass
class Group:
    """A group that is drawn, or finished: classes, log-probabilities and versions (G, T)."""

    number: int
    prompt: Prompt
    noise: torch.Generator
    actions: Tensor
    logp: Tensor
    versions: Tensor
    place: int = 0

    @property
    def mask(self) -> Tensor:
        """(G, T) bool: the tokens of each completion."""
        return torch.arange(self.actions.shape[1]) < self.prompt.lengths[:, None]

    @property
    def rewards(self) -> Tensor:
        """(G,): the share of right classes among the tokens of each completion."""
        hit = (self.actions == self.prompt.right) & self.mask
        return hit.sum(1) / self.prompt.lengths

    @property
    def oldest(self) -> int:
        """The oldest version that drew a token."""
        return int(self.versions[self.mask].min())

    def arrays(self) -> Arrays:
        """As it is sent; where the mask is 0 the version is -1."""
        versions = torch.where(self.mask, self.versions, -1)
        return {
            "x": self.prompt.x.numpy(),
            "actions": self.actions.numpy(),
            "logp": self.logp.numpy(),
            "versions": versions.numpy(),
            "mask": self.mask.numpy(),
            "rewards": self.rewards.numpy(),
        }


def prompts(draw: random.Random, number: int) -> list[Prompt]:
    """Prompts of one hidden rule; a share of the groups takes long."""
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    rule = torch.randn(FEATURES, CLASSES, generator=generator)
    found = []
    for _ in range(number):
        longest = LONG if draw.random() < LONG_SHARE else SHORT
        lengths = torch.randint(SHORTEST, longest + 1, (COMPLETIONS,), generator=generator)
        lengths[0] = longest
        x = torch.randn(longest, FEATURES, generator=generator)
        found.append(Prompt(x, (x @ rule).argmax(1), lengths, draw.randrange(2**31)))
    return found


class Generator:
    """Draws groups; knows what runs, and loses all of it when it is killed.

    Attributes:
        running: by number.
        ticks: of the clock.
        version: of the weights that it holds; None if it holds none.

    """

    def __init__(self, model: nn.Sequential) -> None:
        self._model = model
        self.running: dict[int, Group] = {}
        self.ticks, self._starts = 0, 0
        self.version: int | None = None

    def load(self, weights: dict[str, Tensor], version: int) -> None:
        """Take weights; the next token is drawn with them."""
        self._model.load_state_dict(weights)
        self.version = version

    def start(self, number: int, prompt: Prompt) -> None:
        """Begin a group; asked a second time it is drawn with other noise."""
        self._starts += 1
        noise = torch.Generator().manual_seed(prompt.seed + self._starts)
        shape = COMPLETIONS, prompt.ticks
        self.running[number] = Group(
            number,
            prompt,
            noise,
            torch.zeros(shape, dtype=torch.int64),
            torch.zeros(shape),
            torch.zeros(shape, dtype=torch.int64),
        )

    def kill(self) -> list[int]:
        """Lose what runs, and the weights; the numbers of what ran."""
        lost, self.running, self.version = list(self.running), {}, None
        return lost

    def tick(self) -> list[Group]:
        """Draw one token of every completion that runs; the groups that this finishes."""
        self.ticks += 1
        done = []
        for group in self.running.values():
            with torch.no_grad():
                logits = self._model(group.prompt.x[group.place])
            logp = logits.log_softmax(-1).expand(COMPLETIONS, -1)
            drawn = torch.multinomial(logp.exp(), 1, generator=group.noise)
            assert self.version is not None
            group.actions[:, group.place] = drawn[:, 0]
            group.logp[:, group.place] = logp.gather(1, drawn)[:, 0]
            group.versions[:, group.place] = self.version
            group.place += 1
            if group.place == group.prompt.ticks:
                done.append(group)
        for group in done:
            del self.running[group.number]
        return done
