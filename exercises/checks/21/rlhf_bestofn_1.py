"""rlhf.bestofn.1: what the best of n is worth, and how far it has gone."""

import math
from itertools import combinations

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit


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
        case("large proxies", [20.0, 40.0, 30.0], [1.0, 2.0, 5.0], 2),
        case("the first samples are bad", [0.0, 1.0, 5.0, 6.0], [0.0, 1.0, 5.0, 9.0], 2),
    )


CHECK = Check(
    id="rlhf.bestofn.1",
    outputs=(Output("gold", "()"), Output("bound", "a float, in nats", "number")),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "the first n",
            "(gold[proxy.argsort()] * torch.tensor(wins, dtype=gold.dtype)).sum()",
            "gold[proxy[:n].argmax()]",
            "only the first n samples are used: right on average, and very noisy. Each "
            "choice of n out of N is as good, so average over all of them",
        ),
        edit(
            "the best of all",
            "(gold[proxy.argsort()] * torch.tensor(wins, dtype=gold.dtype)).sum()",
            "gold[proxy.argmax()]",
            "`n` has no effect: the best of all N samples is taken",
        ),
        edit(
            "sorted by gold",
            "proxy.argsort()",
            "gold.argsort()",
            "the samples are sorted by their gold reward: whoever chooses can see the proxy only",
        ),
        edit(
            "the proxy's mean",
            "gold[proxy.argsort()]",
            "proxy.sort().values",
            "this is the proxy of the chosen sample; its gold reward is asked for",
        ),
        edit(
            "the least liked",
            "argsort()",
            "argsort(descending=True)",
            "this is the sample that the proxy likes least: the order is upside down",
        ),
        edit(
            "with replacement",
            "math.comb(below, n - 1) / math.comb(total, n)",
            "((below + 1) ** n - below**n) / total**n",
            "the n samples are drawn with replacement: the same one may then fill two "
            "places, which makes n look smaller than it is",
        ),
        edit(
            "ranks from 1",
            "comb(below, n",
            "comb(below + 1, n",
            "the ranks are off by one: the sample with k others below it is the best of "
            "comb(k, n - 1) choices",
        ),
        edit(
            "mean of the best n",
            "(gold[proxy.argsort()] * torch.tensor(wins, dtype=gold.dtype)).sum()",
            "gold[proxy.argsort(descending=True)[:n]].mean()",
            "this is the mean of the n best: best-of-n keeps one sample of n",
        ),
        edit(
            "mean of all",
            "(gold[proxy.argsort()] * torch.tensor(wins, dtype=gold.dtype)).sum()",
            "gold.mean()",
            "this is the mean over all samples: nothing is chosen",
        ),
        edit(
            "log n",
            "math.log(n) - (n - 1) / n",
            "math.log(n)",
            "the bound is log n: subtract (n - 1)/n. It must be 0 at n = 1 and small at n = 2",
        ),
        edit(
            "n over n + 1",
            "math.log(n) - (n - 1) / n",
            "math.log(n) - n / (n + 1)",
            "n/(n + 1) is subtracted instead of (n - 1)/n: the bound would be negative at n = 1",
        ),
        edit(
            "1 over n",
            "math.log(n) - (n - 1) / n",
            "math.log(n) - 1 / n",
            "1/n is subtracted instead of (n - 1)/n = 1 - 1/n",
        ),
        edit(
            "bits",
            "math.log(n)",
            "math.log2(n)",
            "the logarithm is to base 2: the bound is in nats",
        ),
        edit(
            "bound of the total",
            "math.log(n) - (n - 1) / n",
            "math.log(total) - (total - 1) / total",
            "the bound is that of all N samples: n of them are compared",
        ),
    ),
    not_tested="ties between proxies.",
    wide=(
        "proxy",
        "gold",
    ),
)
