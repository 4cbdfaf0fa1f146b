"""Runs a capstone file on fresh pupils, one process each, and counts on the judge's side."""

import random
import secrets
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch

from bookkit.builds.capstone import task
from bookkit.builds.notes import Notes
from bookkit.builds.session import Session, Stopped
from bookkit.builds.sums import Graded, accuracy, answers
from bookkit.builds.verdict import Say
from bookkit.builds.weights import checked, unchanged
from bookkit.builds.wire import Arrays
from nbkit.text.policies import TransformerPolicy

FILE = "capstone.py"
SHOWN = 6


@dataclass(frozen=True)
class Outcome:
    """What a training of one pupil came to.

    Attributes:
        before: share of right answers to sums that were held out, of the pupil as it was given.
        after: of the pupil that came back.
        tokens: that marks have cost, as the judge counted them.
        processor_seconds: of the learner's process and all that it started.
        curve: (tokens so far, share of right answers) of each batch that was marked.
        samples: some held-out sums with an answer before and after.
        looks: what the file has logged, as a sentence.
        layers: the protections in force.

    """

    before: float
    after: float
    tokens: int
    processor_seconds: float
    curve: tuple[tuple[float, float], ...]
    samples: tuple[str, ...]
    looks: tuple[str, ...]
    layers: tuple[str, ...]


def several(
    source: str,
    *,
    count: int = task.SEEDS,
    seed: int | None = None,
    allow_unprotected: bool = False,
    say: Say = lambda _: None,
) -> list[Outcome]:
    """Run a file on several pupils that nobody has seen; each run is a process of its own.

    Args:
        source: the text of the file.
        count: how many pupils.
        seed: of the judge's draws; left out, drawn anew. Only tests of the judge give one.
        allow_unprotected: run without a sandbox where this machine has none.
        say: takes a line of progress.

    Raises:
        Stopped: a run did not end well; the message names the pupil.
        SandboxUnavailableError: this machine has no sandbox, and nobody has accepted that.

    """
    found = []
    draw = random.Random(secrets.randbits(64) if seed is None else seed)
    for number in range(1, count + 1):
        say(f"pupil {number} of {count} …")
        try:
            found.append(single(source, random.Random(draw.getrandbits(64)), allow_unprotected))
        except Stopped as end:
            raise Stopped(f"pupil {number} of {count}: {end}") from end
        say(f"  {found[-1].before:.1%} right before, {found[-1].after:.1%} after")
    return found


def single(source: str, draw: random.Random, allow_unprotected: bool = False) -> Outcome:
    """Teach a pupil, have it trained, ask it the sums that were held out.

    Raises:
        Stopped: the file did not end well.
        SandboxUnavailableError: this machine has no sandbox, and nobody has accepted that.

    """
    sums = task.CarrySums.drawn(draw)
    pupil = task.taught(sums, draw)
    held = Graded(sums, random.Random(draw.getrandbits(64)), task.TOKENS, task.OFFSET)
    notes, curve = Notes(), list[tuple[float, float]]()

    def answer(kind: str, data: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        found = held.answer(kind, data, arrays)
        if kind == "score":
            curve.append((float(held.used), held.means[-1][1]))
        return found

    words = {
        "shape": task.shape(sums),
        "world": task.world_of(sums),
        "seed": draw.randrange(2**31),
    }
    arrays = {name: x.numpy() for name, x in pupil.state_dict().items()}
    with closing(
        Session(FILE, source, "capstone", task.BUDGET, allow_unprotected=allow_unprotected)
    ) as session:
        reply = session.call("train", words, arrays, answer=answer, note=notes.take)
        seconds, layers = session.meter.seconds, session.layers
    trained = TransformerPolicy(**task.shape(sums))
    trained.load_state_dict(checked(pupil.state_dict(), reply.arrays))
    trained.requires_grad_(False)
    if unchanged(pupil, trained):
        raise Stopped(
            "the weights are those that the pupil began with: no step was taken, or the optimiser "
            "holds the parameters of a copy"
        )
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    shown = list(sums.kept[:SHOWN])
    texts = zip(
        shown,
        answers(pupil, sums, shown, generator),
        answers(trained, sums, shown, generator),
        strict=True,
    )
    return Outcome(
        accuracy(pupil, sums, generator, each=task.EACH),
        accuracy(trained, sums, generator, each=task.EACH),
        held.used,
        seconds,
        tuple(curve),
        tuple(
            f"{a}+{b}={sums.right((a, b))}: before {old}, after {new}" for (a, b), old, new in texts
        ),
        tuple(notes.plain()),
        layers,
    )
