"""How far a policy has moved, and what its answers are worth: both by sampling from it.

Pairs cannot tell. They hold answers that somebody else wrote, and say nothing of what the policy
writes now.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbkit.generate import Generation, generate
from nbkit.generate.weights import unwrap
from nbkit.kl import kl_exact
from nbkit.text.model_inputs import model_inputs
from nbkit.text.protocols import LanguageModel

# (number of the prompt, tokens of the answer without EOS, whether it ended) -> a score
Score = Callable[[int, list[int], bool], float]


@dataclass(frozen=True)
class Judgement:
    """What R sampled answers say of a policy.

    Attributes:
        kl: (R,) divergence from the reference along each answer, in nats; its mean estimates
            KL(policy || reference) of whole answers.
        scores: (R,) or None.
        lengths: (R,) tokens, EOS included.
        answers: R lists of tokens without EOS.
        prompts: (R,) number of the prompt that each answers.

    """

    kl: Tensor
    scores: Tensor | None
    lengths: Tensor
    answers: list[list[int]]
    prompts: list[int]

    def summary(self) -> dict[str, float]:
        """Means with their standard errors: "kl", "kl_error", "length", "gold", "gold_error"."""
        numbers = {"kl": self.kl} | ({} if self.scores is None else {"gold": self.scores})
        result = {"length": self.lengths.double().mean().item()}
        for name, values in numbers.items():
            result[name] = values.mean().item()
            result[f"{name}_error"] = (values.std(correction=0) / len(values) ** 0.5).item()
        return result


@torch.no_grad()
def judge(
    model: LanguageModel,
    reference: LanguageModel,
    prompts: Sequence[list[int]],
    *,
    max_new_tokens: int,
    eos_id: int,
    pad_id: int,
    seed: int,
    group_size: int = 1,
    temperature: float = 1.0,
    score: Score | None = None,
    batch_size: int = 256,
) -> Judgement:
    """Let a policy answer prompts, and compare it with the reference along the way.

    At each position of an answer the two next-token distributions are compared over the whole
    vocabulary. Summed over the answer and averaged over answers that is the divergence of whole
    answers, by the chain rule, with less noise than the log-ratio of the sampled tokens has.

    Args:
        model: the policy.
        reference: the model that it is compared with.
        prompts: N lists of token ids.
        max_new_tokens: limit of an answer.
        eos_id: ends an answer.
        pad_id: fills short rows.
        seed: of the sampling.
        group_size: answers to each prompt.
        temperature: of the sampling; the divergence is that of the tempered distributions.
        score: of an answer.
        batch_size: answers that one forward pass compares.

    """
    made = generate(
        model, prompts, max_new_tokens=max_new_tokens, temperature=temperature, eos_ids=eos_id,
        pad_id=pad_id, seeds=seed, group_size=group_size,
    )  # fmt: skip
    parts = []
    for start in range(0, len(made.tokens), batch_size):
        rows = slice(start, start + batch_size)
        parts.append(_divergence(unwrap(model), unwrap(reference), made, rows, temperature))
    numbers = [row // group_size for row in range(len(made.tokens))]
    ended = (~made.truncated).tolist()
    answers = [row[:-1] if whole else row for row, whole in zip(made.lists(), ended, strict=True)]
    scores = None
    if score is not None:
        each = zip(numbers, answers, ended, strict=True)
        scores = torch.tensor([score(*one) for one in each], dtype=torch.float64)
    return Judgement(torch.cat(parts).cpu(), scores, made.lengths.cpu(), answers, numbers)


def _divergence(
    model: LanguageModel,
    reference: LanguageModel,
    made: Generation,
    rows: slice,
    temperature: float,
) -> Tensor:
    """(B,) sums over the answers of the exact divergence at each position."""
    attention, mask = made.attention[rows], made.mask[rows]
    width = mask.shape[1]
    inputs = model_inputs(made.ids[rows], attention) | {"logits_to_keep": width + 1}
    logits = [each(**inputs).logits[:, :-1].float() / temperature for each in (model, reference)]
    return torch.where(mask, kl_exact(*logits), 0.0).sum(1).double()
