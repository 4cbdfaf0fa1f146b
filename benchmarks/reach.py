"""What an edit of the package costs: the executed pages that it makes stale.

Each edit below is made in a copy of the sources. "modules" counts the pages that import the edited
module, however far on the way: what a stamp of whole files would call stale. "symbols" counts the
pages whose reach changes: what the stamp does call stale.

    python benchmarks/reach.py              # writes benchmarks/results/reach.json
    python benchmarks/reach.py --check      # recomputes the counts and compares
"""

import json
import shutil
import tempfile
from pathlib import Path

import typer

from bookkit.authoring.page import find_pages
from bookkit.authoring.reach import Finder, Reach
from nbkit.runs.root import ROOT

OUT = ROOT / "benchmarks/results/reach.json"
# what, file, old text, new text
EDITS = (
    ("preference_loss: a sign", "nbkit/losses.py", "def preference_loss(", ""),
    ("ppo_clip_loss: a term", "nbkit/losses.py", "def ppo_clip_loss(", ""),
    ("gae: a discount", "nbkit/advantages.py", "def gae(", ""),
    ("masked_mean: a sum", "nbkit/masks.py", "def masked_mean(", ""),
    ("kl_estimate: a clamp", "nbkit/kl.py", "def kl_estimate(", ""),
    ("the sampling engine: a method", "nbkit/generate/engine.py", "class ", ""),
    ("the GRPO trainer: a method", "nbkit/trainers/grpo/trainer.py", "class GRPOTrainer", ""),
    ("math_score: a rule", "nbkit/rewards/answers.py", "def math_score(", ""),
    ("losses.py: its docstring", "nbkit/losses.py", '"""', "docstring"),
    ("a new function in losses.py", "nbkit/losses.py", "", "append"),
)


def edited(source: str, where: str, how: str) -> str:
    """Make one edit: a new statement in a body, another docstring, or a new function."""
    if how == "append":
        return source + "\n\ndef added(x):\n    return x\n"
    if how == "docstring":
        return source.replace('"""', '"""Edited. ', 1)
    lines = source.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(where))
    for number in range(start + 1, len(lines)):
        if lines[number].startswith("    return ") or lines[number].startswith("        return "):
            indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
            return "\n".join([*lines[:number], f"{indent}edited = 1", *lines[number:]]) + "\n"
    raise ValueError(f"nothing to edit below {where!r}")


def counts() -> list[dict[str, object]]:
    """Count, for every edit, the pages that it makes stale."""
    pages = find_pages(ROOT)
    contents = {page.name: page.content() for page in pages}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "nbkit", copy / "nbkit", ignore=ignored)
        finder = Finder(copy)

        def reaches() -> dict[str, Reach]:
            sources = {name: [c.source for c in one.code_cells] for name, one in contents.items()}
            return {name: finder.reach(sources=some) for name, some in sources.items()}

        before = reaches()
        for what, file, where, how in EDITS:
            path = copy / file
            source = path.read_text()
            path.write_text(edited(source, where, how))
            after = reaches()
            path.write_text(source)
            module = file.removesuffix(".py").replace("/", ".")
            rows.append(
                {
                    "edit": what,
                    "file": file,
                    "pages": len(pages),
                    "modules": sum(module in reach.modules for reach in before.values()),
                    "symbols": sum(after[n].symbols != before[n].symbols for n in before),
                }
            )
    return rows


def main(check: bool = False) -> None:
    """Count and store, or compare with what is stored."""
    rows = counts()
    for row in rows:
        print(f"{row['edit']:34} {row['modules']:3} by modules, {row['symbols']:3} by symbols")
    if check:
        assert json.loads(OUT.read_text()) == rows, "the counts have changed; run it again"
        return
    OUT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
