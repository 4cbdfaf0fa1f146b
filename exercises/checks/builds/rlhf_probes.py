"""The probes of build 21: scores for which the best policy is known, and what each failure says."""

import torch
from torch import Tensor

from bookkit.builds.enumerated import ANSWER, Score, Tiny
from bookkit.builds.probe_stage import ProbeStage
from bookkit.builds.tilting import Outcome, Probe, ask

PROBE_SETTINGS = {
    "updates": 50,
    "batch_size": 64,
    "epochs": 2,
    "minibatches": 1,
    "learning_rate": 1e-2,
    "value_learning_rate": 2e-2,
    "kl_coefficient": 0.1,
    "clip": 0.2,
    "lam": 1.0,
    "missing_eos_penalty": 0.0,
    "max_grad_norm": 1.0,
}
DEAR = {"kl_coefficient": 2.0}
PRICED = {"kl_coefficient": 0.5}
OFFSET = {"updates": 20, "value_learning_rate": 1e-4}  # too slow to learn the constant
ONE_BATCH = {"updates": 1, "epochs": 60, "clip": 0.1, "kl_coefficient": 0.05}
CONSTANT, APART, NOISE = 100.0, 2.0, 0.3
NEAR, HELD = 0.15, 1.5  # nats
ENOUGH = 0.6  # of what can be had above the start
PAID = 0.75  # the same, where short answers are worth more
VALUE_ERROR = 0.8
FREE = "the KL penalty is missing, or only some of the tokens pay it. Each has its own term."
FREE_OR_PAID = (
    "the KL penalty is missing, only some of the tokens pay it, or it is taken from the wrong side."
)


def holds(tiny: Tiny, word: int) -> Score:
    """1 for an answer that holds the word before its end."""

    def score(prompts: Tensor, answers: Tensor) -> Tensor:
        before = (answers == tiny.ids[2]).cumsum(1) == 0
        return ((answers == word) & before).any(1).double()

    return score


def ends(tiny: Tiny, word: int) -> Score:
    """1 for an answer that ends before the longest one, and half of that for the word."""
    score = holds(tiny, word)

    def told(prompts: Tensor, answers: Tensor) -> Tensor:
        early = (answers[:, : ANSWER - 1] == tiny.ids[2]).any(1)
        return early + 0.5 * score(prompts, answers)

    return told


def begins(tiny: Tiny, word: int) -> Score:
    """1 for an answer that begins with the word."""
    return lambda prompts, answers: (answers[:, 0] == word).double()


def equal(tiny: Tiny, word: int) -> Score:
    """0 for every answer."""
    return lambda prompts, answers: torch.zeros(len(answers), dtype=torch.float64)


def above(tiny: Tiny, word: int) -> Score:
    """As `holds`, and a constant that says nothing."""
    score = holds(tiny, word)
    return lambda prompts, answers: CONSTANT + score(prompts, answers)


def by_prompt(tiny: Tiny, word: int) -> Score:
    """As `holds`, and a constant for each prompt."""
    score = holds(tiny, word)

    def told(prompts: Tensor, answers: Tensor) -> Tensor:
        first = (prompts == tiny.prompts[0]).all(1)
        return torch.where(first, APART, -APART) + score(prompts, answers)

    return told


def share(found: Outcome) -> float:
    """Of what the best policy gains in score, how much was gained."""
    return (found.end.score - found.start.score) / (found.best.score - found.start.score)


def went(found: Outcome) -> str:
    """The scores in words."""
    return (
        f"the mean score went from {found.start.score:.2f} to {found.end.score:.2f}, and "
        f"{found.best.score:.2f} can be had"
    )


def rises(found: Outcome) -> str | None:
    """Does the score rise?"""
    if share(found) >= ENOUGH:
        return None
    if found.end.score < found.start.score - 0.05:
        return f"It falls: {went(found)}. The loss or the advantage has the wrong sign."
    return (
        f"Hardly: {went(found)}. Look at which logits score which token, and at the size of the "
        "steps."
    )


def short(found: Outcome) -> str | None:
    """Is a short answer paid as a long one?"""
    if share(found) >= PAID:
        return None
    return (
        f"It is not: answers that end early are worth more here, {went(found)}. The score is paid "
        "in the last column and not at the last token, or what stands behind the end counts: use "
        "the mask."
    )


def stays(found: Outcome) -> str | None:
    """Does it stay where scores are noise?"""
    if found.end.kl < NEAR:
        return None
    start, end = found.start.surprise, found.end.surprise
    said = (
        f"KL {found.end.kl:.2f} nats; the reference is surprised by its answers by {end:.1f} nats, "
        f"{start:.1f} at the start"
    )
    rule = "Off the reward of each token goes β (log π − log π_ref)."
    told = None if found.values is None else found.values.mean().item()
    owed = -found.end.by_prompt.mean().item()  # β times KL, for nothing is earned
    if told is not None and told > 0.5 * owed:
        return (
            f"It flees ({said}), and its values say that this earns {told:.1f}: the penalty is "
            f"taken from the wrong side and pays for distance. {rule}"
        )
    if end < 0.6 * start and (told is None or told < -0.3 * owed):
        return f"It falls for the reference's favourite answers ({said}). {rule}"
    return f"It wanders off ({said}): {FREE if told is not None else FREE_OR_PAID}"


def priced(found: Outcome) -> str | None:
    """Does it stop where a nat costs what it earns?"""
    said = (
        f"KL {found.end.kl:.2f} nats, {found.best.kl:.2f} is best; mean score "
        f"{found.end.score:.2f}, {found.best.score:.2f} there"
    )
    if found.end.kl > 1.5 * found.best.kl + 0.05:
        return f"It goes too far ({said}): {FREE}"
    if share(found) < ENOUGH:
        return (
            f"It stays behind ({said}): the penalty counts more than once a token, or the logits "
            "score another token."
        )
    return None


def centred(found: Outcome) -> str | None:
    """Does a constant in all scores change nothing?"""
    if share(found) >= ENOUGH:
        return None
    return (
        f"It does: {went(found)}. Only differences of scores mean something: take a baseline off "
        "the returns, and centre advantages over the tokens that count, and not over the padding."
    )


def values(found: Outcome) -> str | None:
    """Are the values what follows?"""
    if found.values is None:
        return None
    if (found.values - found.end.by_prompt).abs().max().item() < VALUE_ERROR:
        return None
    told, wanted = (
        " and ".join(f"{value:.1f}" for value in part.tolist())
        for part in (found.values, found.end.by_prompt)
    )
    return (
        f"They are {told} for the two prompts; what follows, score less penalty, is {wanted}. The "
        "target of a value is the return: advantage plus old value, neither centred nor scaled. "
        "The value before a token stands where the logits of that token are."
    )


def near(found: Outcome) -> str | None:
    """Does the clip hold?"""
    if found.end.kl < HELD:
        return None
    return (
        f"After one batch and {ONE_BATCH['epochs']} epochs it is {found.end.kl:.1f} nats away, "
        f"and with a clip of {ONE_BATCH['clip']:g} it stays within {HELD:g}: the ratio is not "
        "clipped, or the old log-probabilities are stale or computed anew. They are those of the "
        "sampling, stored once."
    )


POLICY_STAGE = ProbeStage(
    "known optima",
    (
        Probe("Does the score rise?", holds, rises),
        Probe("Is a short answer paid as a long one?", ends, short),
        Probe("Does it stay where scores are noise?", equal, stays, DEAR, noise=NOISE),
        Probe("Does it stop where a nat costs what it earns?", begins, priced, PRICED),
        Probe("Does a constant in all scores change what is learned?", above, centred, OFFSET),
        Probe("Are the values what follows?", by_prompt, values),
        Probe("Does the clip hold?", holds, near, ONE_BATCH),
    ),
    PROBE_SETTINGS,
    ask,
    unit="tokens",
)
