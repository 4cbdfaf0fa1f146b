"""A stage that samples while the learner trains, counts every group, and plays every step again."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bookkit.builds.network import network
from bookkit.builds.off_policy import MISTAKES, Way, updated
from bookkit.builds.sampling_clock import Generator, Group, Prompt, prompts
from bookkit.builds.session import Session, Stopped
from bookkit.builds.splitting import apart, checked
from bookkit.builds.verdict import Finding
from bookkit.builds.wire import Arrays

TOLERANCE = 3e-5  # of weights near 1, after sums in another order
FRESH = 200  # prompts on which the policy is scored in the end


@dataclass(frozen=True)
class OverlapStage:
    """Train on groups that a generator draws meanwhile.

    Attributes:
        title: of the stage.
        settings: updates, batch, staleness, learning_rate, cap.
        train_ticks: what an update takes on the generator's clock.
        killed: whether the generator is killed once.
        share_of_ticks: of those of a synchronous run, at most; None asks nothing.
        threshold: the share of right tokens on fresh prompts; None asks nothing.

    """

    title: str
    settings: Mapping[str, Any]
    train_ticks: int = 8
    killed: bool = False
    share_of_ticks: float | None = None
    threshold: float | None = None

    def judge(self, session: Session, draw: random.Random, *, films: bool) -> Finding:
        """Serve the learner's loop, then hold what it did against the rules."""
        groups = int(self.settings["updates"]) * int(self.settings["batch"])
        asked = prompts(draw, groups + FRESH)
        start = network(draw.randrange(2**31))
        updates = int(self.settings["updates"])
        kill_at = draw.randint(updates // 4, updates // 2) if self.killed else None
        desk = Desk(self, asked[:groups], {k: x.clone() for k, x in start.state_dict().items()})
        desk.kill_at = kill_at
        before = session.meter.seconds
        arrays = {name: x.numpy() for name, x in start.state_dict().items()}
        data = {"settings": {**self.settings, "groups": groups}}
        reply = session.call("train", data, arrays, answer=desk.answer)
        ends = checked(reply.arrays, start)
        first = score(list(start.state_dict().values()), asked[groups:])
        last = score(ends, asked[groups:])
        symptom = desk.missing(ends) or self._slow(desk) or self._dull(last)
        said = (
            f"{desk.version} updates on {len(desk.trained)} groups, each trained once; the oldest "
            f"token was {desk.stalest} versions old; {desk.generator.ticks} ticks, "
            f"{self.synchronous(asked[:groups])} without overlap; {first:.0%} right before, "
            f"{last:.0%} after"
        )
        return Finding(
            self.title,
            symptom is None,
            said if symptom is None else symptom,
            score=last,
            used=desk.generator.ticks,
            unit="ticks of the generator",
            processor_seconds=session.meter.seconds - before,
        )

    def synchronous(self, asked: list[Prompt]) -> int:
        """The ticks of a run that samples, then trains: each batch waits for its longest group."""
        batch = int(self.settings["batch"])
        cuts = [asked[k : k + batch] for k in range(0, len(asked), batch)]
        return sum(max(p.ticks for p in cut) + self.train_ticks for cut in cuts)

    def _slow(self, desk: "Desk") -> str | None:
        if self.share_of_ticks is None:
            return None
        allowed = int(self.share_of_ticks * self.synchronous(desk.asked))
        if desk.generator.ticks <= allowed:
            return None
        return (
            f"It does not overlap: the run took {desk.generator.ticks} ticks, at most {allowed} "
            "pass. Start groups before the batch that is due has been trained."
        )

    def _dull(self, last: float) -> str | None:
        if self.threshold is None or last >= self.threshold:
            return None
        return f"It has learned too little: {last:.0%} right, at least {self.threshold:.0%} pass."


def score(weights: list[Tensor], asked: list[Prompt]) -> float:
    """The probability of a right class, averaged over the tokens of some prompts."""
    model = network()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), weights, strict=True):
            parameter.copy_(value)
        x, right = torch.cat([p.x for p in asked]), torch.cat([p.right for p in asked])
        return float(model(x).softmax(-1).gather(1, right[:, None]).mean())


@dataclass
class Desk:
    """Answers the learner's loop, and keeps count.

    Attributes:
        stage: whose rules hold.
        asked: the prompts by number.
        weights: as they were published last.
        version: of them; -1 before the first.
        kill_at: the version at which the generator dies; None for never, or if it has died.

    """

    stage: OverlapStage
    asked: list[Prompt]
    weights: dict[str, Tensor]
    version: int = -1
    kill_at: int | None = None
    stalest: int = 0
    trained: set[int] = field(default_factory=set)
    finished: list[Group] = field(default_factory=list)
    delivered: dict[int, Group] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.generator = Generator(network())

    def answer(
        self, kind: str, data: dict[str, Any], arrays: Arrays
    ) -> tuple[dict[str, Any], Arrays]:
        """Answer a question of the learner's process.

        Raises:
            Stopped: a rule is broken.

        """
        if kind == "start":
            self._start(data.get("number"))
            return {}, {}
        if kind == "next":
            return self._next()
        if kind == "publish":
            self._publish(data.get("version"), data.get("numbers"), arrays)
            return {}, {}
        raise Stopped(f"your process asked for {kind!r}, which the world does not answer")

    def missing(self, ends: list[Tensor]) -> str | None:
        """What was not done in the end."""
        left = [n for n in range(len(self.asked)) if n not in self.trained]
        if left:
            return (
                f"{len(left)} of {len(self.asked)} groups were never trained, the first of them "
                f"group {left[0]}: every group is trained once."
            )
        if apart(ends, list(self.weights.values())) > 0:
            return "The policy that was returned is not the one that was published last."
        return None

    def _start(self, number: Any) -> None:
        if type(number) is not int or not 0 <= number < len(self.asked):
            raise Stopped(f"`world.start` has groups 0 to {len(self.asked) - 1}; it got {number!r}")
        if self.generator.version is None:
            raise Stopped(
                f"group {number} was started on a generator without weights: publish first, and "
                "again after it was killed"
            )
        if number in self.generator.running or any(g.number == number for g in self.finished):
            raise Stopped(f"group {number} was started while it is still under way")
        if number in self.trained:
            raise Stopped(f"group {number} was started again, and is trained already")
        self.generator.start(number, self.asked[number])

    def _next(self) -> tuple[dict[str, Any], Arrays]:
        due = self.kill_at is not None and self.version >= self.kill_at
        if due and self.generator.running:
            self.kill_at = None
            return {"kind": "killed", "lost": self.generator.kill()}, {}
        while not self.finished:
            if not self.generator.running:
                raise Stopped(
                    "`world.next` would wait for ever: nothing runs. Is a group that was lost, or "
                    "dropped, not asked again, or does the rule allow no start?"
                )
            self.finished += self.generator.tick()
        group = self.finished.pop(0)
        self.delivered[group.number] = group
        return {"kind": "group", "number": group.number}, group.arrays()

    def _publish(self, version: Any, numbers: Any, arrays: Arrays) -> None:
        new = dict(zip(self.weights, checked(arrays, network()), strict=True))
        old = list(self.weights.values())
        if not isinstance(numbers, list) or any(type(n) is not int for n in numbers):
            raise Stopped("`world.publish` wants the numbers of the groups that were trained")
        if not numbers:
            if version != max(self.version, 0) or apart(list(new.values()), old) > 0:
                raise Stopped(
                    f"version {version} was published without a group: publish the weights of "
                    f"version {max(self.version, 0)} as they are, or name what was trained"
                )
        elif version != self.version + 1:
            raise Stopped(f"version {version} was published after version {self.version}")
        else:
            self._check_step(numbers, list(new.values()))
            for _ in range(self.stage.train_ticks):
                self.finished += self.generator.tick()
        self.version, self.weights = int(version), new
        self.generator.load(new, self.version)

    def _check_step(self, numbers: list[int], new: list[Tensor]) -> None:
        batch = int(self.stage.settings["batch"])
        if len(numbers) != batch:
            raise Stopped(f"an update takes {batch} groups; {len(numbers)} were named")
        for number in numbers:
            if number in self.trained:
                raise Stopped(f"group {number} was trained twice")
            if number not in self.delivered:
                raise Stopped(f"group {number} was named as trained, and was never handed out")
            if number in self.generator.running:
                raise Stopped(
                    f"group {number} was trained while it is drawn once more: who asks again has "
                    "dropped what was there"
                )
            age = self.version - self.delivered[number].oldest
            if age > self.stage.settings["staleness"]:
                raise Stopped(
                    f"group {number} was trained at version {self.version} with tokens of version "
                    f"{self.version - age}: the staleness is {age}, allowed are "
                    f"{self.stage.settings['staleness']}"
                )
            self.stalest = max(self.stalest, age)
            self.trained.add(number)
        groups = [self.delivered.pop(number) for number in numbers]
        settings = self.stage.settings
        away = apart(new, updated(self.weights, groups, settings, Way()))
        if away <= TOLERANCE:
            return
        for sentence, way in MISTAKES.items():
            if apart(new, updated(self.weights, groups, settings, way)) <= TOLERANCE:
                raise Stopped(f"version {self.version + 1}: {sentence}")
        raise Stopped(
            f"the weights of version {self.version + 1} are not those of one step on the groups "
            f"that were named (by {away:.1e}), nor of any mistake that is known here: compare one "
            "step by hand"
        )
