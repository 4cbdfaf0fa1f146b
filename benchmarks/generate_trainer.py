"""What a trainer meets of a sampler: mismatch of probabilities, and completions of many lengths."""

from collections.abc import Callable
from typing import Any

import torch
from generate_parts import prompts, spread_lengths
from side_by_side import seconds
from torch import Tensor

from nbkit.generate import EngineOptions, generate
from nbkit.generate.mismatch import ratio, trainer_logprobs
from nbkit.generate.sampling import row_seeds
from nbkit.losses import importance_weights
from nbkit.packing import pack, token_budget_batches
from nbkit.text.packed import packed_logprobs, padded_logprobs


def quantiles(x: Tensor) -> dict[str, float]:
    points = [0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0]
    levels = torch.tensor(points, dtype=torch.float64, device=x.device)
    values = torch.quantile(x.double().flatten(), levels).tolist()
    return {str(p): v for p, v in zip(points, values, strict=True)}


def mismatch(
    model: Any,
    wide: Any,
    rows: int,
    prompt: int,
    new: int,
    options: EngineOptions | None,
    dtype: torch.dtype | None = None,
) -> dict[str, Any]:
    """Engine against trainer: ratios of each token and of each sequence, and their weights.

    Args:
        model: what the engine samples from.
        wide: the same weights in float32.
        rows: sequences.
        prompt: tokens of each prompt.
        new: tokens of each answer.
        options: of the engine.
        dtype: of the engine; None: the model's.

    """
    asked = prompts(model.config.vocab_size, rows, prompt)
    drawn = generate(model, asked, max_new_tokens=new, seeds=0, options=options, dtype=dtype)
    again = generate(
        model,
        asked,
        max_new_tokens=new,
        seeds=row_seeds(0, rows, "cpu"),
        options=options,
        dtype=dtype,
        max_batch=max(1, rows // 4),
    )
    parted = (drawn.tokens != again.tokens) & drawn.mask
    found: dict[str, Any] = {
        "rows": rows,
        "new": new,
        "mean_logprob": float(drawn.logprobs[drawn.mask].mean()),
        "same_text_in_a_quarter_of_the_batch": float((~parted.any(1)).float().mean()),
    }
    for name, trainer in (("trainer in the model's dtype", model), ("trainer in float32", wide)):
        logp = trainer_logprobs(trainer, drawn, rows=4)
        each = ratio(logp, drawn.logprobs, drawn.mask)
        difference = (logp - drawn.logprobs).masked_fill(~drawn.mask, 0.0)
        weights = importance_weights(logp, drawn.logprobs, drawn.mask, mode="truncate", high=2.0)
        whole = difference.sum(1).exp()
        found[name] = {
            "token_ratio": quantiles(each[drawn.mask]),
            "token_ratio_mean": float(each[drawn.mask].mean()),
            "sequence_ratio": quantiles(whole),
            "sequence_ratio_mean": float(whole.mean()),
            "truncated_share": float((each > 2.0)[drawn.mask].float().mean()),
            "truncated_weight_mean": float(weights[drawn.mask].mean()),
            "kl_k1": float(-difference[drawn.mask].mean()),
            "largest_difference": float(difference.abs().max()),
        }
    return found


def packing(model: Any, rows: int, mean: float, most: int, budget: int) -> dict[str, Any]:
    """Forward and backward over sequences of many lengths: fixed rows, token budget, packed."""
    lengths = spread_lengths(rows, mean, most)
    sequences = [prompts(model.config.vocab_size, 1, n, seed=i)[0] for i, n in enumerate(lengths)]
    each = max(1, budget // max(lengths))
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0)).tolist()
    plans = {
        "padded, fixed rows": [order[i : i + each] for i in range(0, rows, each)],
        "padded, token budget": token_budget_batches(lengths, budget),
        "packed": pack(lengths, budget),
    }
    found: dict[str, Any] = {"rows": rows, "lengths": lengths, "budget": budget}
    for name, plan in plans.items():
        form = packed_logprobs if name == "packed" else padded_logprobs

        def run(plan: list[list[int]] = plan, form: Callable[..., Any] = form) -> None:
            for part in plan:
                scores = form(model, [sequences[i] for i in part])
                torch.cat(scores).sum().backward()
            model.zero_grad(set_to_none=True)

        run(plan[:1])
        took = min(seconds(run) for _ in range(2))
        computed = sum(
            sum(lengths[i] for i in part)
            if name == "packed"
            else len(part) * max(lengths[i] for i in part)
            for part in plan
        )
        found[name] = {
            "micro_batches": len(plan),
            "computed_tokens": computed,
            "seconds": took,
            "tokens_per_second": sum(lengths) / took,
        }
    return found
