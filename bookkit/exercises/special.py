"""Cases with an input at its default or neutral value: β = 0, λ = 1, an empty mask.

A shortcut for such a value is right or wrong only there. A check names the values (`special`) that
its draws and edges miss; for each, cases are made of drawn ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check

TIMES = 4  # cases for each value: in one alone it may make no difference
SIZE = 4
KINKED = ("clip", "low", "high")  # with another bound a drawn ratio may lie at the kink


@dataclass(frozen=True)
class Setting:
    """An input at one of its special values: a number, or a mask of nothing or of everything."""

    input: str
    value: float | bool

    @property
    def name(self) -> str:
        """As it stands in a message."""
        if isinstance(self.value, bool):
            return f"`{self.input}` {'all' if self.value else 'nowhere'} true"
        return f"`{self.input}` = {self.value:g}"

    def holds(self, inputs: Mapping[str, Any]) -> bool:
        """Whether the input has this value."""
        given = inputs[self.input]
        if isinstance(given, Tensor):
            return bool((given == self.value).all())
        return bool(given == self.value)

    def put_in(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with this value, in the type that the input has."""
        given = inputs[self.input]
        new = (
            torch.full_like(given, self.value)
            if isinstance(given, Tensor)
            else type(given)(self.value)
        )
        return {**inputs, self.input: new}

    def asked(self, case: Case) -> Case:
        """A case with this value, without a gradient if it is that of a bound."""
        title = f"{case.name}, {self.name}"
        gradient = case.gradient and self.input not in KINKED
        return Case(title, self.put_in(case.inputs), gradient, is_wide=True)


def special_cases(check: Check, seed: int) -> list[Case]:
    """Drawn cases with each special value of the check put in."""
    found = []
    for place, (name, value) in enumerate(check.special):
        draw, setting = Draw(seed * 1000 + 800 + place, SIZE), Setting(name, value)
        found += [setting.asked(check.cases(draw)) for _ in range(TIMES)]
    return found
