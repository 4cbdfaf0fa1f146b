"""What a reward model says: scores of answers, and how well they fit comparisons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.data.encode import EncodedPair, Example
from nbkit.losses import reward_model_loss
from nbkit.text.protocols import Problem, Vocabulary
from nbkit.text.scalar_models import ScalarModel, last_scores
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.scoring import Completion, RewardFunction


def padded(
    rows: Sequence[Sequence[int]], pad_id: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Token lists as ids (B, L) and attention (B, L) bool, padded on the right."""
    if not rows or not all(len(row) for row in rows):
        raise ValueError("rows: at least one is needed, and none may be empty")
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(width, device=device) < lengths[:, None]


def pair_scores(
    model: ScalarModel, pairs: Sequence[EncodedPair], pad_id: int
) -> tuple[Tensor, Tensor]:
    """Scores of the chosen and the rejected answers, (B,) each, in one forward pass of 2 B rows."""
    rows = [(*pair.prompt_ids, *pair.chosen_ids) for pair in pairs]
    rows += [(*pair.prompt_ids, *pair.rejected_ids) for pair in pairs]
    device = next(model.parameters()).device
    ids, attention = padded(rows, pad_id, device)
    # The model is called, not its method: a wrapper sums gradients, or gathers shards, in a call.
    chosen, rejected = last_scores(model(ids, attention), attention).chunk(2)
    return chosen, rejected


@torch.no_grad()
def margins(
    model: ScalarModel, pairs: Sequence[EncodedPair], *, pad_id: int, batch_size: int = 128
) -> Tensor:
    """By how much the chosen answer of each pair scores higher, (N,) on the CPU."""
    parts = []
    for start in range(0, len(pairs), batch_size):
        chosen, rejected = pair_scores(model, pairs[start : start + batch_size], pad_id)
        parts.append((chosen - rejected).cpu())
    return torch.cat(parts)


def evaluate(model: ScalarModel, pairs: Sequence[EncodedPair], *, pad_id: int) -> Metrics:
    """Return "accuracy" (a tie counts half), "loss" (nats a pair), "margin" (mean)."""
    gaps = margins(model, pairs, pad_id=pad_id)
    accuracy = (gaps > 0).double().mean() + 0.5 * (gaps == 0).double().mean()
    loss = reward_model_loss(gaps, torch.zeros_like(gaps)).mean()
    return {"accuracy": accuracy.item(), "loss": loss.item(), "margin": gaps.mean().item()}


@dataclass(frozen=True)
class Calibration:
    """How often a reward model is right when it is so sure; one entry a bin that is not empty.

    Attributes:
        confidence: mean of what it gave its favourite, 0.5 to 1.
        accuracy: how often its favourite had been chosen.
        count: pairs.
        error: mean of |confidence - accuracy| over all pairs (expected calibration error).

    """

    confidence: list[float]
    accuracy: list[float]
    count: list[int]
    error: float


def calibration(gaps: Tensor, bins: int = 10) -> Calibration:
    """Compare confidence and accuracy on pairs whose chosen answer is known.

    The favourite is the answer that scores higher, and the confidence sigmoid(|gap|). (Binned by
    sigmoid(gap) itself, every pair would have the outcome 1.)

    Args:
        gaps: (N,) chosen minus rejected.
        bins: of equal width between 0.5 and 1.

    Raises:
        ValueError: no pairs, or less than one bin.

    """
    check_number("bins", bins, 1)
    if not len(gaps):
        raise ValueError("gaps: there are no pairs to compare")
    confidence = torch.sigmoid(gaps.double().abs())
    right = (gaps > 0).double() + 0.5 * (gaps == 0).double()
    place = ((confidence - 0.5) * 2 * bins).long().clamp(max=bins - 1)
    means, accuracies, counts = [], [], []
    for i in range(bins):
        inside = place == i
        if inside.any():
            means.append(confidence[inside].mean().item())
            accuracies.append(right[inside].mean().item())
            counts.append(int(inside.sum()))
    gaps_by_bin = [abs(c - a) * n for c, a, n in zip(means, accuracies, counts, strict=True)]
    return Calibration(means, accuracies, counts, math.fsum(gaps_by_bin) / len(gaps))


@torch.no_grad()
def example_scores(
    model: ScalarModel, examples: Sequence[Example], *, pad_id: int, batch_size: int = 256
) -> Tensor:
    """Score of each prompt with its answer, (N,) on the CPU."""
    device = next(model.parameters()).device
    rows = [(*example.prompt_ids, *example.answer_ids) for example in examples]
    parts = [
        model.scores(*padded(rows[start : start + batch_size], pad_id, device)).cpu()
        for start in range(0, len(rows), batch_size)
    ]
    return torch.cat(parts)


def centre(model: ScalarModel, examples: Sequence[Example], *, pad_id: int) -> float:
    """Shift the scores so that these answers have mean 0; return the mean they had.

    Comparisons leave a constant free. Fixing it matters for everything that adds to a score: a
    penalty for a missing EOS, a value head that starts at 0 (Stiennon et al., arXiv:2009.01325).
    """
    before = example_scores(model, examples, pad_id=pad_id).mean().item()
    with torch.no_grad():
        model.head.bias.sub_(before)
    return before


def reward_function(
    model: ScalarModel, vocabulary: Vocabulary, *, batch_size: int = 256
) -> RewardFunction:
    """Return the model as a reward function of the trainers: problems and completions to scores.

    A completion that was cut has no EOS, and is scored as it stands.

    Args:
        model: reads prompt and completion, and scores the last token.
        vocabulary: ``encode``, ``eos_id``, ``pad_id``.
        batch_size: rows of a forward pass.

    """

    def reward(problems: Sequence[Problem], completions: Sequence[Completion]) -> list[float]:
        examples = []
        for problem, completion in zip(problems, completions, strict=True):
            end = () if completion.truncated else (vocabulary.eos_id,)
            ids = completion.ids or (*vocabulary.encode(completion.text), *end)
            examples.append(Example(tuple(vocabulary.encode(problem.prompt)), tuple(ids)))
        scores = example_scores(model, examples, pad_id=vocabulary.pad_id, batch_size=batch_size)
        return scores.tolist()

    return reward
