"""The faults of the sketch in reinforce.repair.1, each left in by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.registry import Mutant

Result = tuple[Tensor, Tensor, Tensor]


def _pick(logits: Tensor, token: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=-1).gather(1, token[:, None]).squeeze(1)


def _pick_from_the_first_row(logits: Tensor, token: Tensor) -> Tensor:
    return torch.log_softmax(logits, dim=-1)[0, token]


def _pick_without_gradient(logits: Tensor, token: Tensor) -> Tensor:
    return _pick(logits.detach(), token)


def _up_to_eos(tokens: Tensor, eos_id: int) -> Tensor:
    is_eos = tokens == eos_id
    return is_eos.cumsum(dim=1) - is_eos.long() == 0


def _everything(tokens: Tensor, eos_id: int) -> Tensor:
    return torch.ones_like(tokens, dtype=torch.bool)


def _before_eos(tokens: Tensor, eos_id: int) -> Tensor:
    return (tokens == eos_id).cumsum(dim=1) == 0


def _up_to_token_1(tokens: Tensor, eos_id: int) -> Tensor:
    return _up_to_eos(tokens, 1)


def _same(values: Tensor) -> Tensor:
    return values


def _probabilities(logits: Tensor) -> Tensor:
    return logits.softmax(dim=-1)


def _first_row(logits: Tensor) -> Tensor:
    return logits[0]


def _to_go(rewards: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, rewards, 0.0).flip(1).cumsum(dim=1).flip(1)


def _whole(rewards: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, rewards, 0.0).sum(dim=1, keepdim=True).expand_as(rewards)


def _standardised(rewards: Tensor, mask: Tensor) -> Tensor:
    returns = _to_go(rewards, mask)
    return (returns - returns.mean(dim=1, keepdim=True)) / returns.std(dim=1, keepdim=True)


def _mean_of_sums(products: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, products, 0.0).sum(dim=1).mean()


def _sum(products: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, products, 0.0).sum()


def _token_mean(products: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, products, 0.0).sum() / mask.sum()


def _unmasked(products: Tensor, mask: Tensor) -> Tensor:
    return products.sum(dim=1).mean()


@dataclass(frozen=True)
class _Loop:
    """The repaired loop with places in which a single fault can be put back."""

    pick: Callable[[Tensor, Tensor], Tensor] = _pick
    mask: Callable[[Tensor, int], Tensor] = _up_to_eos
    returns: Callable[[Tensor, Tensor], Tensor] = _to_go
    reduce: Callable[[Tensor, Tensor], Tensor] = _mean_of_sums
    sign: float = -1.0
    detached: bool = True
    history: bool = True
    stops_at: str = "never"
    stack_dim: int = 1
    fixed_bos: int | None = None
    mask_reads_bos: bool = False
    sampled_from: Callable[[Tensor], Tensor] = _same
    mask_for_reward: Callable[[Tensor], Tensor] = _same

    def __call__(
        self,
        policy: Any,
        sample: Any,
        reward_fn: Any,
        batch_size: int,
        max_new_tokens: int,
        bos_id: int,
        eos_id: int,
    ) -> Result:
        bos = bos_id if self.fixed_bos is None else self.fixed_bos
        state = torch.full((batch_size, 1), bos)
        ended = torch.zeros(batch_size, dtype=torch.bool)
        chosen, written = [], []
        for _ in range(max_new_tokens):
            logits = policy(state)
            token = sample(self.sampled_from(logits))
            chosen.append(self.pick(logits, token))
            written.append(token)
            grown = torch.cat([state, token[:, None]], dim=1)
            state = grown if self.history else token[:, None]
            ended = ended | (token == eos_id)
            if (self.stops_at == "first" and ended.any()) or (
                self.stops_at == "all" and ended.all()
            ):
                break
        tokens, logprobs = torch.stack(written, dim=1), torch.stack(chosen, dim=self.stack_dim)
        mask = self.mask(state, eos_id)[:, 1:] if self.mask_reads_bos else self.mask(tokens, eos_id)
        rewards = reward_fn(tokens, logprobs, self.mask_for_reward(mask))
        returns = self.returns(rewards.detach() if self.detached else rewards, mask)
        return tokens, mask, self.sign * self.reduce(returns * logprobs, mask)


def _flat_state_across(
    policy: Any,
    sample: Any,
    reward_fn: Any,
    batch_size: int,
    max_new_tokens: int,
    bos_id: int,
    eos_id: int,
) -> Result:
    state = torch.full((batch_size,), bos_id)
    for _ in range(max_new_tokens):
        state = torch.cat([state, sample(policy(state))], dim=1)
    raise AssertionError("torch.cat along dim=1 accepts no one-dimensional tensor")


def _flat_state_along(
    policy: Any,
    sample: Any,
    reward_fn: Any,
    batch_size: int,
    max_new_tokens: int,
    bos_id: int,
    eos_id: int,
) -> Result:
    state = torch.full((batch_size,), bos_id)
    chosen = []
    for _ in range(max_new_tokens):
        logits = policy(state)
        token = sample(logits)
        chosen.append(torch.log_softmax(logits, dim=-1)[..., token])
        state = torch.cat([state, token], dim=0)
    tokens = state[batch_size:].view(max_new_tokens, batch_size).T
    logprobs, mask = torch.stack(chosen, dim=1), _up_to_eos(tokens, eos_id)
    returns = _to_go(reward_fn(tokens, logprobs, mask).detach(), mask)
    return tokens, mask, -_mean_of_sums(returns * logprobs, mask)


FAULTS = (
    Mutant(
        "a flat state, joined along dim 1",
        _flat_state_across,
        "the state has one axis only, and `torch.cat` along `dim=1` needs two: keep ids as (B, t) "
        "from the start, `torch.full((batch_size, 1), bos_id)`, and join `token[:, None]`",
    ),
    Mutant(
        "a flat state, joined along dim 0",
        _flat_state_along,
        "joining along `dim=0` stops the error but reads the whole batch as one long text: each "
        "row is conditioned on the words of the others. Keep ids as (B, t) and join along `dim=1`",
    ),
    Mutant(
        "log-probabilities of the first row",
        _Loop(pick=_pick_from_the_first_row),
        "every token is scored by the distribution of row 0 (an index like [0, token]): each row "
        "has its own, so gather along the last axis",
    ),
    Mutant(
        "log-probabilities cut off",
        _Loop(pick=_pick_without_gradient),
        "the loss has the right value but no gradient: the log-probabilities were taken under "
        "no_grad or detached while sampling",
    ),
    Mutant(
        "history lost",
        _Loop(history=False),
        "the policy sees only the last token: the state is replaced instead of extended",
    ),
    Mutant(
        "stops at the first end",
        _Loop(stops_at="first"),
        "the loop stops for the whole batch as soon as one text has ended: the other texts are cut "
        "off. Go on and let the mask forget what comes after an end",
    ),
    Mutant(
        "stops when all have ended",
        _Loop(stops_at="all"),
        "the loop stops early when all texts have ended, which saves work, but here the result "
        "must have max_new_tokens columns: pad it, or go on",
    ),
    Mutant(
        "no mask",
        _Loop(mask=_everything),
        "tokens after a text's end count as well: the mask must be true up to and including the "
        "first end of sequence only",
    ),
    Mutant(
        "end of sequence left out",
        _Loop(mask=_before_eos),
        "your mask is shifted by one: the end-of-sequence token itself must count",
    ),
    Mutant(
        "mask not used in the loss",
        _Loop(reduce=_unmasked, returns=lambda rewards, mask: _to_go(rewards, mask | ~mask)),
        "the mask is right but the loss does not use it: tokens after a text's end, and what "
        "reward_fn pays there, still enter",
    ),
    Mutant(
        "rewards after the end",
        _Loop(returns=lambda rewards, mask: _to_go(rewards, mask | ~mask)),
        "what reward_fn pays after a text's end enters the returns of the tokens before it: mask "
        "the rewards before they are summed",
    ),
    Mutant(
        "returns not detached",
        _Loop(detached=False),
        "the value is right, but a gradient flows through the returns: where the reward holds "
        "log-probabilities it must be detached",
    ),
    Mutant(
        "returns standardised within a text",
        _Loop(returns=_standardised),
        "the returns of each text are standardised by their own mean and standard deviation: for "
        "a text of one token that is 0/0 = nan, and elsewhere it replaces what was earned by the "
        "order of the tokens. Leave it out",
    ),
    Mutant(
        "whole return",
        _Loop(returns=_whole),
        "every token is weighted with the whole return: reward to go leaves out what was paid "
        "before it",
    ),
    Mutant(
        "minus sign missing",
        _Loop(sign=1.0),
        "the sign of the loss is wrong: an optimiser descends, so put a minus in front",
    ),
    Mutant(
        "sum over the batch",
        _Loop(reduce=_sum),
        "the loss is the sum over the texts; divide by their number",
    ),
    Mutant(
        "mean over tokens",
        _Loop(reduce=_token_mean),
        "the loss is divided by the number of counted tokens; divide by the number of texts",
    ),
    Mutant(
        "stacked along dim 0",
        _Loop(stack_dim=0),
        "log-probabilities stacked along dim 0 are (T, B), while tokens and rewards are (B, T): "
        "an error if the two differ, and silently wrong if they are equal. Stack along `dim=1`",
    ),
    Mutant(
        "bos_id not used",
        _Loop(fixed_bos=0),
        "every text begins with token 0 whatever `bos_id` says: another tokenizer has another BOS",
    ),
    Mutant(
        "eos_id not used",
        _Loop(mask=_up_to_token_1),
        "token 1 ends a text whatever `eos_id` says: another tokenizer has another EOS",
    ),
    Mutant(
        "BOS taken for an end",
        _Loop(mask_reads_bos=True),
        "the mask looks for an end in the BOS as well: some tokenizers use one token for both, and "
        "then no text has a token. Look at the new tokens only",
    ),
    Mutant(
        "sampling from probabilities",
        _Loop(sampled_from=_probabilities),
        "`sample` is given probabilities; it takes logits: a softmax of probabilities is nearly "
        "uniform. Hand over what `policy` returned",
    ),
    Mutant(
        "sampling from the first row",
        _Loop(sampled_from=_first_row),
        "`sample` is given the logits of one text only: hand over all of them, (B, V), so that "
        "each text draws from its own distribution",
    ),
    Mutant(
        "reward_fn told that everything counts",
        _Loop(mask_for_reward=torch.ones_like),
        "`reward_fn` is given a mask of ones, so a reward that depends on a text's length or on "
        "its last token looks past the end: give it the mask that you return",
    ),
    Mutant(
        "reward_fn given the opposite mask",
        _Loop(mask_for_reward=torch.logical_not),
        "`reward_fn` is given the mask upside down: true must mean that a token counts",
    ),
)
