"""What an assistant says to the hidden questions of build 21, measured."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bookkit.builds import assistant as task
from bookkit.builds.assistant import Helpful
from bookkit.builds.preferring import asked
from bookkit.builds.session import Session
from bookkit.builds.supplies import Supplies
from nbkit.envs.helpful import gold_parts
from nbkit.text.policies import LSTMPolicy

EACH, SHOWN = 100, 3  # answers to a question; questions that are shown
SHARPER = (1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True)
class Spoken:
    """What an assistant says to the hidden questions.

    Attributes:
        gold: mean of the hidden judgement.
        error: its standard error.
        kl: from the assistant as it began, nats an answer.
        score: the mean of the learner's reward model.
        length: tokens of an answer.
        cut: the share that met the limit.
        different: the share of different answers.
        parts: means of the terms of the judgement.
        texts: one answer to each of the first questions, with its gold.

    """

    gold: float
    error: float
    kl: float
    score: float
    length: float
    cut: float
    different: float
    parts: Mapping[str, float]
    texts: tuple[tuple[str, float], ...]


def spoken(
    policy: LSTMPolicy,
    base: LSTMPolicy,
    world: Helpful,
    session: Session,
    held: Supplies,
    seed: int,
) -> Spoken:
    """Ask every hidden question `EACH` times."""
    questions = world.hidden * EACH
    prompts = world.prompts(questions)
    generator = torch.Generator().manual_seed(seed)
    found = task.answers(policy, base, prompts, (world.words.eos_id, held.ids[0]), generator)
    golds = world.golds(questions, found.ids)
    texts = [world.words.decode(row) for row in found.ids.tolist()]
    ended = (found.ids == world.words.eos_id).any(1)
    means: dict[str, float] = {}
    for question, text, end in zip(questions, texts, ended.tolist(), strict=True):
        for name, part in gold_parts(question, text, truncated=not end).items():
            means[name] = means.get(name, 0.0) + part / len(texts)
    whole = torch.cat([prompts, found.ids], 1)
    tokens = torch.from_numpy(held.mask_of(whole.numpy())[:, held.width :])
    mean, error = task.rows_of(golds)
    return Spoken(
        mean,
        error,
        found.kl.mean().item(),
        asked(session, held, whole).mean().item(),
        tokens.sum(1).double().mean().item(),
        1 - ended.double().mean().item(),
        len(set(zip(questions, texts, strict=True))) / len(texts),
        means,
        tuple(zip(texts[:SHOWN], golds[:SHOWN], strict=True)),
    )


def looks(old: Spoken, new: Spoken) -> list[str]:
    """What changed in the answers besides their score."""
    moved = {name: new.parts[name] - old.parts[name] for name in new.parts}
    told = ", ".join(f"{name} {change:+.2f}" for name, change in moved.items())
    found = [
        f"gold by its parts: {told}",
        f"score of your reward model {old.score:.2f} → {new.score:.2f}, tokens an answer "
        f"{old.length:.0f} → {new.length:.0f}, without an end {old.cut:.0%} → {new.cut:.0%}, "
        f"different answers {old.different:.0%} → {new.different:.0%}",
    ]
    if new.different < 0.5 * old.different:
        found.append(
            "less than half of the variety is left: the penalty is small, or too many steps"
        )
    return found


def sharper(policy: LSTMPolicy, world: Helpful, nats: float, seed: int) -> float:
    """The best mean gold of the policy with its logits multiplied, at a KL of at most `nats`.

    Likelier words are better words in this world, so that this alone gains something.
    """
    prompts, golds = world.prompts(world.hidden * EACH), []
    for factor in SHARPER:
        sharp = task.multiplied(policy, factor)
        generator = torch.Generator().manual_seed(seed)
        ends = world.words.eos_id, world.words.pad_id
        found = task.answers(sharp, policy, prompts, ends, generator)
        if found.kl.mean() <= nats:
            golds.append(task.rows_of(world.golds(world.hidden * EACH, found.ids))[0])
    return max(golds)
