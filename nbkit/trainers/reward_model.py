"""Stage 2: a reward learned from comparisons (Christiano et al., arXiv:1706.03741)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from nbkit._inputs import check_number
from nbkit.data.encode import EncodedPair, Example
from nbkit.losses import reward_model_loss
from nbkit.text.policies_value import ScalarModel
from nbkit.trainers.sft import Metrics, adamw, clipped_step, endless, parts_of, schedule


@dataclass(frozen=True)
class RewardModelConfig:
    """Settings of a reward model's training.

    Attributes:
        steps: gradient steps.
        batch_size: pairs a step; each epoch is a new permutation.
        learning_rate: peak for AdamW, with a linear decay to a tenth.
        warmup: steps of linear warm-up.
        weight_decay: of AdamW.
        centre_coefficient: of (chosen + rejected)^2 in the loss, see ``reward_model_loss``.
        use_margin: demand the margins that pairs bring along (arXiv:2307.09288, eq. 2).
        max_grad_norm: clip of the global gradient norm.
        micro_tokens: budget (rows x longest) of one forward pass; None: a batch at once.

    """

    steps: int = 120
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup: int = 10
    weight_decay: float = 0.01
    centre_coefficient: float = 0.0
    use_margin: bool = False
    max_grad_norm: float = 1.0
    micro_tokens: int | None = None

    def __post_init__(self) -> None:
        check_number("steps", self.steps, 1)
        check_number("batch_size", self.batch_size, 1)
        check_number("learning_rate", self.learning_rate, 0.0, open_low=True)
        check_number("warmup", self.warmup, 0)
        for name in ("weight_decay", "centre_coefficient"):
            check_number(name, getattr(self, name), 0.0)
        check_number("max_grad_norm", self.max_grad_norm, 0.0, open_low=True)
        if self.micro_tokens is not None:
            check_number("micro_tokens", self.micro_tokens, 1)


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
    chosen, rejected = model.scores(*padded(rows, pad_id, device)).chunk(2)
    return chosen, rejected


def train(
    model: ScalarModel,
    pairs: Sequence[EncodedPair],
    config: RewardModelConfig,
    *,
    pad_id: int,
    generator: torch.Generator,
    progress: bool = True,
    held_out: Sequence[EncodedPair] | None = None,
    every: int = 20,
) -> list[Metrics]:
    """Train ``model`` in place; return the metrics of each step.

    Args:
        model: a scalar model.
        pairs: to learn from.
        config: settings.
        pad_id: of the padding.
        generator: of the order of the pairs, on the CPU.
        progress: show a text progress bar.
        held_out: pairs to judge it by, or None.
        every: steps between two such judgements; the last step has one too.

    Returns:
        "step", "loss", "accuracy" (of the step's own pairs, before it), "gradient_norm",
        "learning_rate", and where it was judged "held_out/accuracy", "held_out/loss".

    Raises:
        ValueError: `use_margin` with pairs that bring none.
        RuntimeError: a gradient that is not finite; no step is taken on it.

    """
    if config.use_margin and any(pair.margin is None for pair in pairs):
        raise ValueError("use_margin: some pairs bring no margin; set it to False")
    optimiser = adamw([{"params": list(model.parameters())}], config.learning_rate,
                      weight_decay=config.weight_decay)  # fmt: skip
    order = endless(len(pairs), generator)
    history: list[Metrics] = []
    for step in tqdm(range(config.steps), desc="reward model", disable=not progress, mininterval=5):
        rate = schedule(step, config.steps, config.learning_rate, config.warmup)
        optimiser.param_groups[0]["lr"] = rate
        batch = [pairs[next(order)] for _ in range(min(config.batch_size, len(pairs)))]
        metrics = _accumulate(model, optimiser, batch, config, pad_id)
        metrics["gradient_norm"] = clipped_step(optimiser, config.max_grad_norm)
        metrics = {"step": step + 1.0, **metrics, "learning_rate": rate}
        last = step + 1 == config.steps
        if held_out is not None and (step % every == 0 or last):
            judged = evaluate(model, held_out, pad_id=pad_id)
            metrics |= {f"held_out/{name}": judged[name] for name in ("accuracy", "loss")}
        history.append(metrics)
    return history


def _accumulate(
    model: ScalarModel,
    optimiser: Any,
    batch: Sequence[EncodedPair],
    config: RewardModelConfig,
    pad_id: int,
) -> Metrics:
    optimiser.zero_grad()
    loss, right = 0.0, 0
    longer = [
        Example(p.prompt_ids, max(p.chosen_ids, p.rejected_ids, key=len)) for p in batch
    ]  # two rows a pair
    budget = None if config.micro_tokens is None else max(1, config.micro_tokens // 2)
    for part in parts_of(longer, budget):
        some = [batch[i] for i in part]
        chosen, rejected = pair_scores(model, some, pad_id)
        margin = None
        if config.use_margin:
            margin = torch.tensor([pair.margin for pair in some], device=chosen.device)
        losses = reward_model_loss(
            chosen, rejected, margin=margin, centre_coefficient=config.centre_coefficient
        )
        value = losses.sum() / len(batch)
        value.backward()
        loss += value.item()
        right += int((chosen > rejected).sum())
    return {"loss": loss, "accuracy": right / len(batch)}


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
    model: ScalarModel, vocabulary: Any, *, batch_size: int = 256
) -> Callable[[Sequence[Any], Sequence[Any]], list[float]]:
    """Return the model as a reward function of the trainers: problems and completions to scores.

    A completion that was cut has no EOS, and is scored as it stands.

    Args:
        model: reads prompt and completion, and scores the last token.
        vocabulary: ``encode``, ``eos_id``, ``pad_id``.
        batch_size: rows of a forward pass.

    """

    def reward(problems: Sequence[Any], completions: Sequence[Any]) -> list[float]:
        examples = []
        for problem, completion in zip(problems, completions, strict=True):
            end = () if completion.truncated else (vocabulary.eos_id,)
            ids = completion.ids or (*vocabulary.encode(completion.text), *end)
            examples.append(Example(tuple(vocabulary.encode(problem.prompt)), tuple(ids)))
        scores = example_scores(model, examples, pad_id=vocabulary.pad_id, batch_size=batch_size)
        return scores.tolist()

    return reward
