"""What a build is, what a stage of it finds, and what all of it comes to."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bookkit.builds.limits import Budget
from bookkit.builds.session import Session
from bookkit.exercises.exercise import Edit
from nbkit.plots import Film

Points = Sequence[tuple[float, float]]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Curve:
    """Points of one line of a figure.

    Attributes:
        label: whose it is.
        points: (steps or tokens, score).

    """

    label: str
    points: Points


@dataclass(frozen=True)
class Picture:
    """The curves of one stage: the learner's, the book's, the library's.

    Attributes:
        title: of the task.
        x: what is counted along the horizontal axis.
        y: what is scored.
        curves: the learner's first.
        threshold: the score that passes.

    """

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    threshold: float


@dataclass(frozen=True)
class Finding:
    """What a stage came to.

    Attributes:
        title: of the stage.
        passed: whether it did.
        sentence: the score, or the symptom.
        looks: what looks wrong, as sentences; also of a stage that passed.
        picture: curves, where the stage trains.
        film: of the learner's agent, before and after.
        score: where the stage has one.
        used: environment steps or tokens that the judge counted.
        unit: what `used` counts.
        samples: lines that show what the learner's agent writes.
        processor_seconds: of the learner's process.

    """

    title: str
    passed: bool
    sentence: str
    looks: tuple[str, ...] = ()
    picture: Picture | None = None
    film: Film | None = None
    score: float | None = None
    used: int = 0
    unit: str = "environment steps"
    samples: tuple[str, ...] = ()
    processor_seconds: float = 0.0


class Stage(Protocol):
    """One question that a build is put; the stages of a build are judged in their order."""

    @property
    def title(self) -> str:
        """How reports call it."""
        ...

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Run the learner's functions and say what came out; `Stopped` if they do not end well.

        Args:
            session: the learner's process.
            draw: the judge's own source of seeds; nothing of it reaches that process.
            films: whether to draw what is shown and not judged.

        """
        ...


@dataclass(frozen=True)
class Build:
    """One build: what is asked of the learner's file, and what proves the judge.

    Attributes:
        number: of its chapter.
        slug: the file is `exercises/builds/NN_slug.py`.
        title: one line.
        part: the file of `bookkit.builds.inside` that serves it.
        budget: processor time and memory of the whole build.
        stages: cheap ones first; the first that fails ends the run.
        milestones: exercises of the chapter that are the parts of this build, by id.
        twins: the solution with one mistake each, and the words that its verdict must hold.
        not_tested: one sentence saying what a pass does not prove.

    """

    number: int
    slug: str
    title: str
    part: str
    budget: Budget
    stages: tuple[Stage, ...]
    milestones: tuple[str, ...]
    twins: tuple[Edit, ...]
    not_tested: str

    @property
    def name(self) -> str:
        """The name of its files, without the ending."""
        return f"{self.number:02}_{self.slug}"

    @property
    def progress_id(self) -> str:
        """Its name in the file of progress."""
        return f"build.{self.number}"


@dataclass(frozen=True)
class Verdict:
    """What a run of a build came to.

    Attributes:
        build: which.
        findings: of the stages that were judged, in order.
        stopped: why the run ended early; "" if it did not.
        printed: what the learner's file printed.
        layers: the protections in force.

    """

    build: Build
    findings: tuple[Finding, ...]
    stopped: str = ""
    printed: str = ""
    layers: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every stage was judged and passed."""
        whole = len(self.findings) == len(self.build.stages)
        return not self.stopped and whole and all(f.passed for f in self.findings)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why it did not pass."""
        failed = [finding.sentence for finding in self.findings if not finding.passed]
        return (*failed, self.stopped) if self.stopped else tuple(failed)
