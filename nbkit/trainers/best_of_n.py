"""Best of n: the baseline that trains nothing. Sample n answers, keep the one that scores highest.

Its distance from the sampler is bounded whatever the model: KL <= log n - (n - 1) / n. (Stated for
rewards without ties in Stiennon et al., arXiv:2009.01325, appendix G.3; proved to be an upper bound
in general, and exact in the limit of many equally unlikely answers, by Beirami et al.,
arXiv:2401.01879.)
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nbkit._inputs import check_floating, check_number, check_same_shape
from nbkit.text.protocols import Problem, Vocabulary
from nbkit.trainers.completions import Policy
from nbkit.trainers.rlhf.evaluation import draw
from nbkit.trainers.scoring import Completion, RewardFunction, score


def best_of_n_kl_bound(n: int) -> float:
    """Upper bound of KL(best of n || sampler), nats: log n - (n - 1) / n."""
    check_number("n", n, 1)
    return math.log(n) - (n - 1) / n


def best_of_n_distribution(probabilities: Tensor, rewards: Tensor, n: int) -> Tensor:
    """Probability of each answer to be the best of n, for answers that can be listed.

    With F(r) the probability of a reward up to r and F(r-) that of less, some answer of reward r
    wins with probability F(r)^n - F(r-)^n, and answers of the same reward share it in proportion.

    Args:
        probabilities: (A,) of the sampler, sum 1.
        rewards: (A,).
        n: samples.

    Raises:
        ValueError: shapes that do not fit, or probabilities that do not sum to 1.

    """
    check_number("n", n, 1)
    check_floating("probabilities", probabilities, ndim=1)
    check_same_shape("rewards", rewards, "probabilities", probabilities)
    total = probabilities.double().sum().item()
    if not math.isclose(total, 1.0, abs_tol=1e-5):
        raise ValueError(f"probabilities must sum to 1; got {total}")
    p = probabilities.double()
    levels, place = rewards.unique(return_inverse=True)
    mass = torch.zeros(len(levels), dtype=p.dtype, device=p.device).index_add_(0, place, p)
    up_to = mass.cumsum(0).clamp(max=1.0)
    wins = up_to**n - (up_to - mass).clamp(min=0.0) ** n
    share = torch.where(mass[place] > 0, p / mass[place].clamp(min=1e-300), 0.0)
    return wins[place] * share


def best_of_n_kl(probabilities: Tensor, rewards: Tensor, n: int) -> float:
    """KL(best of n || sampler), exact, for answers that can be listed; see the bound."""
    chosen = best_of_n_distribution(probabilities, rewards, n)
    p = probabilities.double()
    terms = torch.where(chosen > 0, chosen * (chosen / p.clamp(min=1e-300)).log(), 0.0)
    return terms.sum().item()


def best_of_n_values(proxy: Tensor, gold: Tensor, n: int) -> Tensor:
    """Expected gold of the best of n by proxy, from N >= n samples a question, unbiased.

    Sorted by proxy, sample number i (from 1) is the best of a random subset of n with probability
    C(i-1, n-1) / C(N, n) (Nakano et al., arXiv:2112.09332, appendix I).

    Args:
        proxy: (Q, N) what the choice is made by.
        gold: (Q, N) what it is judged by; `proxy` again gives the expected best proxy.
        n: 1 to N.

    Returns:
        (Q,) float64.

    Raises:
        ValueError: shapes that do not fit, or n outside 1 to N.

    """
    check_floating("proxy", proxy, ndim=2)
    check_same_shape("gold", gold, "proxy", proxy)
    total = proxy.shape[1]
    check_number("n", n, 1, total)
    order = proxy.argsort(1)
    sorted_gold = gold.double().gather(1, order)
    places = torch.arange(1, total + 1, dtype=torch.float64, device=proxy.device)
    log_weights = _log_choose(places - 1, n - 1) - _log_choose(
        torch.tensor(float(total), dtype=torch.float64, device=proxy.device), n
    )
    weights = torch.where(places >= n, log_weights.exp(), 0.0)
    return (sorted_gold * weights).sum(1)


def _log_choose(total: Tensor, chosen: int) -> Tensor:
    """log of the binomial coefficient; what is impossible may be anything."""
    left = (total - chosen).clamp(min=0.0)
    return torch.lgamma(total + 1) - math.lgamma(chosen + 1) - torch.lgamma(left + 1)


def best_of_n(
    model: Policy,
    vocabulary: Vocabulary,
    problems: Sequence[Problem],
    reward_fn: RewardFunction,
    n: int,
    *,
    max_new_tokens: int = 40,
    temperature: float = 1.0,
    seed: int = 0,
) -> list[Completion]:
    """Return the best of n completions of each problem by a reward.

    Args:
        model: the sampler.
        vocabulary: of prompts and completions.
        problems: what is asked.
        reward_fn: what the choice is made by.
        n: completions of each problem.
        max_new_tokens: their limit.
        temperature: of the sampling.
        seed: of the sampling.

    """
    _, each, completions = draw(
        model, vocabulary, problems,
        samples=n, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed,
    )  # fmt: skip
    scores = torch.tensor(score(reward_fn, each, completions)[0]).view(len(problems), n)
    best = scores.nan_to_num(-math.inf).argmax(1).tolist()
    return [completions[i * n + place] for i, place in enumerate(best)]


def best_of_n_curve(
    model: Policy,
    vocabulary: Vocabulary,
    problems: Sequence[Problem],
    proxy: RewardFunction,
    gold: RewardFunction,
    *,
    samples: int = 64,
    ns: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    max_new_tokens: int = 40,
    temperature: float = 1.0,
    seed: int = 0,
) -> list[dict[str, float]]:
    """Proxy and gold of the best of n for several n, from the same samples.

    Args:
        model: the sampler.
        vocabulary: of prompts and completions.
        problems: what is asked.
        proxy: what the choice is made by.
        gold: what it is judged by.
        samples: N completions of each problem.
        ns: each 1 to N.
        max_new_tokens: limit of a completion.
        temperature: of the sampling.
        seed: of the sampling.

    Returns:
        "n", "kl_bound" (nats), "proxy", "gold" (means over the problems) for each n.

    """
    _, each, completions = draw(
        model, vocabulary, problems,
        samples=samples, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed,
    )  # fmt: skip
    tables = [
        torch.tensor(score(reward, each, completions)[0], dtype=torch.float64).view(-1, samples)
        for reward in (proxy, gold)
    ]
    return [
        {
            "n": float(n),
            "kl_bound": best_of_n_kl_bound(n),
            "proxy": best_of_n_values(tables[0], tables[0], n).mean().item(),
            "gold": best_of_n_values(tables[0], tables[1], n).mean().item(),
        }
        for n in ns
    ]
