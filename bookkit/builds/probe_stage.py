"""A stage of probes, whatever they train: it stops at the first that fails and names the fault."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bookkit.builds.session import Session
from bookkit.builds.verdict import Finding


class Counted(Protocol):
    """The judge's side of a training."""

    @property
    def used(self) -> int:
        """Environment steps or tokens so far."""
        ...


class Asked(Protocol):
    """What came back of a probe."""

    @property
    def held(self) -> Counted:
        """What the judge held, with its counts."""
        ...

    def odd(self) -> str | None:
        """What is odd whatever the probe asks, as a sentence."""
        ...


class Question(Protocol):
    """A probe, as much of it as the stage reads."""

    @property
    def question(self) -> str:
        """What an agent must be able to do."""
        ...

    @property
    def symptom(self) -> Callable[[Any], str | None]:
        """None where the answers are right; else the sentence that names the fault."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """What differs from the stage's settings."""
        ...

    @property
    def part(self) -> str:
        """Of a method, that the probe asks about, and that the learner's may not have."""
        ...


Asker = Callable[[Session, Any, Mapping[str, Any], random.Random], Asked | None]


@dataclass(frozen=True)
class ProbeStage:
    """Train the learner's agent on every probe, and name what each failure says.

    Attributes:
        title: of the stage.
        probes: in order; a later one asks for more than the ones before.
        settings: of the training.
        asker: puts one probe; None for one about a part that the learner's method does not have.
        unit: what the judge counts.

    """

    title: str
    probes: tuple[Question, ...]
    settings: Mapping[str, Any]
    asker: Asker
    unit: str = "environment steps"

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Stop at the first probe that fails: the ones after it ask for more."""
        before, used, left_out = session.meter.seconds, 0, set()
        for probe in self.probes:
            answers = self.asker(session, probe, {**self.settings, **probe.settings}, draw)
            if answers is None:
                left_out.add(probe.part)
                continue
            used += answers.held.used
            symptom = answers.odd() or probe.symptom(answers)
            if symptom is not None:
                return Finding(
                    self.title,
                    False,
                    f"{probe.question} {symptom}",
                    used=used,
                    unit=self.unit,
                    processor_seconds=session.meter.seconds - before,
                )
        said = f"all {len(self.probes)} questions are answered"
        if left_out:
            parts = " and ".join(sorted(left_out))
            said = f"all questions are answered, without those about {parts} (`WITHOUT`)"
        return Finding(
            self.title,
            True,
            said,
            used=used,
            unit=self.unit,
            processor_seconds=session.meter.seconds - before,
        )
