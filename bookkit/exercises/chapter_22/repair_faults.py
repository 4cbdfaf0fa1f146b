"""The faults of the step in dpo.repair.1, each left in by itself."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bookkit.exercises.registry import Mutant

PAD, BOS, EOS = 0, 1, 2


@dataclass(frozen=True)
class _Step:
    """The repaired step with places in which a single fault can be put back."""

    bos: str = "once"
    scored: str = "answer"
    end: bool = True
    shift: bool = True
    policy_dropout: bool = False
    reference_dropout: bool = False
    frozen: bool = True
    reference: str = "reference"
    swapped: bool = False
    beta_used: bool = True
    level: str = "sum"
    reduce: str = "mean"
    padding: str = "right"
    prompt_length: str = "own"

    def __call__(
        self, policy: Any, reference: Any, pairs: list[Any], beta: float
    ) -> tuple[Tensor, Tensor]:
        policy.train() if self.policy_dropout else policy.eval()
        reference.train() if self.reference_dropout else reference.eval()
        scale = beta if self.beta_used else 1.0
        rewards = []
        for name in ("rejected", "chosen") if self.swapped else ("chosen", "rejected"):
            ids, mask = self.build(pairs, name)
            with torch.set_grad_enabled(not self.frozen):
                frozen = policy if self.reference == "policy" else reference
                fixed = self.score(frozen(ids), ids, mask)
            fixed = 0.0 * fixed if self.reference == "none" else fixed
            rewards.append(scale * (self.score(policy(ids), ids, mask) - fixed))
        losses = -logsigmoid(rewards[0] - rewards[1])
        loss = losses.sum() if self.reduce == "sum" else losses.mean()
        return loss, torch.stack(rewards)

    def build(self, pairs: list[Any], name: str) -> tuple[Tensor, Tensor]:
        """Ids and mask of one answer of each pair."""
        rows = []
        for pair in pairs:
            begun = pair.prompt[:1] == [BOS]
            prompt = {
                "once": pair.prompt if begun else [BOS, *pair.prompt],
                "always": [BOS, *pair.prompt],
                "as it is": list(pair.prompt),
            }[self.bos]
            rows.append((prompt, [*getattr(pair, name), *([EOS] if self.end else [])]))
        width = max(len(p) + len(a) for p, a in rows)
        ids = torch.full((len(rows), width), PAD)
        mask = torch.zeros(len(rows), width, dtype=torch.bool)
        for i, (prompt, answer) in enumerate(rows):
            length = len(prompt) + len(answer)
            offset = width - length if self.padding == "left" else 0
            start = len(rows[0][0]) if self.prompt_length == "first" else len(prompt)
            ids[i, offset : offset + length] = torch.tensor(prompt + answer)
            first = {"answer": start, "all": 0, "one late": start + 1}[self.scored]
            last = width if self.padding == "counted" else offset + length
            mask[i, offset + first : last] = True
        return ids, mask

    def score(self, logits: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Log-probability of each answer."""
        if self.shift:
            logits, ids, mask = logits[:, :-1], ids[:, 1:], mask[:, 1:]
        logp = logits.log_softmax(-1).gather(2, ids[:, :, None]).squeeze(2)
        total = torch.where(mask, logp, 0.0).sum(1)
        return total / mask.sum(1).clamp(min=1) if self.level == "mean" else total


FAULTS = (
    Mutant(
        "the prompt is scored",
        _Step(scored="all"),
        "the tokens of the prompt are scored as well. They cancel in the margin, so the loss is "
        "right and both rewards are not: score the answer alone",
    ),
    Mutant(
        "the first token is lost",
        _Step(scored="one late"),
        "the first token of the answer is not scored: the mask begins where the answer begins, "
        "and is shifted together with the ids",
    ),
    Mutant(
        "not shifted",
        _Step(shift=False),
        "each token is scored by the logits at its own place: logits[:, t] predicts ids[:, t+1]",
    ),
    Mutant(
        "no EOS",
        _Step(end=False),
        "the answers have no EOS, so that nothing is learned about where to stop: append it, and "
        "score it",
    ),
    Mutant(
        "two BOS",
        _Step(bos="always"),
        "a BOS is put in front of prompts that have one already: the chat template writes one, and "
        "so does the tokenizer. Add it only where it is missing",
    ),
    Mutant(
        "no BOS",
        _Step(bos="as it is"),
        "a prompt without BOS stays without: the model has never seen a text begin like that",
    ),
    Mutant(
        "dropout on the policy",
        _Step(policy_dropout=True),
        "the policy is in training mode: with dropout on, policy and reference differ before "
        "anything was learned. Call `eval()` on it",
    ),
    Mutant(
        "dropout on the reference",
        _Step(reference_dropout=True),
        "the reference is in training mode, so its numbers are noise: call `eval()` on it",
    ),
    Mutant(
        "the reference learns",
        _Step(frozen=False),
        "the values are right, but a gradient reaches the reference: it would be pushed the other "
        "way, which also lowers the loss. Score it under `torch.no_grad()`",
    ),
    Mutant(
        "the policy is its own reference",
        _Step(reference="policy"),
        "the policy is compared with itself: every reward is 0, the loss is log 2 for ever",
    ),
    Mutant(
        "no reference",
        _Step(reference="none"),
        "the reference is left out: a reward is beta times the log-ratio of policy and reference",
    ),
    Mutant(
        "pair exchanged",
        _Step(swapped=True),
        "chosen and rejected are exchanged: the policy learns the opposite, at a perfect accuracy",
    ),
    Mutant(
        "beta not used",
        _Step(beta_used=False),
        "`beta` has no effect on the rewards: they are beta times the log-ratios",
    ),
    Mutant(
        "mean over the tokens",
        _Step(level="mean"),
        "an answer's score is the mean over its tokens; the log-probability of an answer is the "
        "sum",
    ),
    Mutant(
        "sum over the pairs",
        _Step(reduce="sum"),
        "the loss is the sum over the pairs: take the mean, or the step grows with the batch",
    ),
    Mutant(
        "padding on the left",
        _Step(padding="left"),
        "rows are padded on the left, which moves every token to a later position in the shorter "
        "rows: pad on the right, or pass position ids",
    ),
    Mutant(
        "padding is scored",
        _Step(padding="counted"),
        "the padding behind shorter answers is scored as well",
    ),
    Mutant(
        "the prompt length of the first row",
        _Step(prompt_length="first"),
        "the mask begins at the same place in all rows; prompts differ in length",
    ),
)
