"""rlhf.bestofn.1: what the best of n is worth, and how far it has gone."""

import math
from itertools import combinations

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Pair = tuple[Tensor, float]


def best_of_n(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    """Weight each sample with its chance to be the best of n drawn from all of them."""
    return _weighted(gold[proxy.argsort()], _chances(len(proxy), n)), _bound(n)


def _chances(total: int, n: int) -> list[float]:
    return [math.comb(rank, n - 1) / math.comb(total, n) for rank in range(total)]


def _bound(n: int) -> float:
    return math.log(n) - (n - 1) / n


def _weighted(gold: Tensor, chances: list[float]) -> Tensor:
    return (gold * torch.tensor(chances, dtype=gold.dtype)).sum()


def oracle(proxy: list[float], gold: list[float], n: int) -> tuple[float, float]:
    """Every choice of n samples; the bound by summing 1/k - the difference to it is exact."""
    chosen = []
    for subset in combinations(range(len(proxy)), n):
        best = max(subset, key=lambda i: proxy[i])
        chosen.append(gold[best])
    return math.fsum(chosen) / len(chosen), math.log(n) - 1 + 1 / n


def cases(draw: Draw) -> Case:
    """Different proxies; gold that agrees with them more or less."""
    total = draw.dimension(2)
    proxy = torch.randperm(total, generator=draw.generator).double() / 4 - 0.5
    gold = 0.5 * proxy + draw.normal(total)
    return Case(f"samples: {total}", {"proxy": proxy, "gold": gold, "n": draw.integer(1, total)})


def edges() -> tuple[Case, ...]:
    """One sample, n of 1, n of all, a proxy that is right, one that is opposite."""

    def case(name: str, proxy: list[float], gold: list[float], n: int) -> Case:
        numbers = {"proxy": proxy, "gold": gold}
        inputs = {k: torch.tensor(v, dtype=torch.float64) for k, v in numbers.items()}
        return Case(name, {**inputs, "n": n})

    return (
        case("one sample", [2.0], [5.0], 1),
        case("n is 1", [2.0, 1.0, 3.0], [5.0, 1.0, 0.0], 1),
        case("all samples", [2.0, 1.0, 3.0], [5.0, 1.0, 0.0], 3),
        case("two of three", [2.0, 1.0, 3.0], [5.0, 1.0, 0.0], 2),
        case("two of four", [2.0, 1.0, 3.0, -1.0], [0.0, 4.0, 8.0, -6.0], 2),
        case("the opposite", [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, -1.0], 3),
        case("the first samples are bad", [0.0, 1.0, 5.0, 6.0], [0.0, 1.0, 5.0, 9.0], 2),
    )


def _first_n(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return gold[proxy[:n].argmax()], _bound(n)


def _of_all(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return gold[proxy.argmax()], _bound(n)


def _by_gold(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return _weighted(gold.sort().values, _chances(len(proxy), n)), _bound(n)


def _returns_proxy(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return _weighted(proxy.sort().values, _chances(len(proxy), n)), _bound(n)


def _worst(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    order = proxy.argsort(descending=True)
    return _weighted(gold[order], _chances(len(proxy), n)), _bound(n)


def _with_replacement(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    total = len(proxy)
    chances = [((i + 1) ** n - i**n) / total**n for i in range(total)]
    return _weighted(gold[proxy.argsort()], chances), _bound(n)


def _rank_from_one(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    total = len(proxy)
    chances = [math.comb(rank + 1, n - 1) / math.comb(total, n) for rank in range(total)]
    return _weighted(gold[proxy.argsort()], chances), _bound(n)


def _top_mean(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return gold[proxy.argsort(descending=True)[:n]].mean(), _bound(n)


def _plain_mean(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return gold.mean(), _bound(n)


def _log(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return best_of_n(proxy, gold, n)[0], math.log(n)


def _upside_down(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return best_of_n(proxy, gold, n)[0], math.log(n) - n / (n + 1)


def _one_over_n(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return best_of_n(proxy, gold, n)[0], math.log(n) - 1 / n


def _bits(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return best_of_n(proxy, gold, n)[0], math.log2(n) - (n - 1) / n


def _of_the_total(proxy: Tensor, gold: Tensor, n: int) -> Pair:
    return best_of_n(proxy, gold, n)[0], _bound(len(proxy))


BEST_OF_N = Exercise(
    id="rlhf.bestofn.1",
    title="The best of n, without waste",
    chapter=21,
    difficulty=3,
    minutes=25,
    goal=(
        "From N samples of one prompt: the mean gold reward of the sample that the proxy likes "
        "best among n, averaged over all choices of n; and the bound log n - (n - 1)/n on the KL."
    ),
    outputs=(Output("gold", "()"), Output("bound", "a float, in nats", "number")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=best_of_n,
    mutants=(
        Mutant(
            "the first n",
            _first_n,
            "only the first n samples are used: right on average, and very noisy. Each choice of n "
            "out of N is as good, so average over all of them",
        ),
        Mutant(
            "the best of all",
            _of_all,
            "`n` has no effect: the best of all N samples is taken",
        ),
        Mutant(
            "sorted by gold",
            _by_gold,
            "the samples are sorted by their gold reward: whoever chooses can see the proxy only",
        ),
        Mutant(
            "the proxy's mean",
            _returns_proxy,
            "this is the proxy of the chosen sample; its gold reward is asked for",
        ),
        Mutant(
            "the least liked",
            _worst,
            "this is the sample that the proxy likes least: the order is upside down",
        ),
        Mutant(
            "with replacement",
            _with_replacement,
            "the n samples are drawn with replacement: the same one may then fill two "
            "places, which makes n look smaller than it is",
        ),
        Mutant(
            "ranks from 1",
            _rank_from_one,
            "the ranks are off by one: the sample with k others below it is the best of "
            "comb(k, n - 1) choices",
        ),
        Mutant(
            "mean of the best n",
            _top_mean,
            "this is the mean of the n best: best-of-n keeps one sample of n",
        ),
        Mutant(
            "mean of all",
            _plain_mean,
            "this is the mean over all samples: nothing is chosen",
        ),
        Mutant(
            "log n",
            _log,
            "the bound is log n: subtract (n - 1)/n. It must be 0 at n = 1 and small at n = 2",
        ),
        Mutant(
            "n over n + 1",
            _upside_down,
            "n/(n + 1) is subtracted instead of (n - 1)/n: the bound would be negative at n = 1",
        ),
        Mutant(
            "1 over n",
            _one_over_n,
            "1/n is subtracted instead of (n - 1)/n = 1 - 1/n",
        ),
        Mutant("bits", _bits, "the logarithm is to base 2: the bound is in nats"),
        Mutant(
            "bound of the total",
            _of_the_total,
            "the bound is that of all N samples: n of them are compared",
        ),
    ),
    not_tested="ties between proxies.",
)
