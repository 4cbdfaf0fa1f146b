"""Runs a study's script, and stores its head: figures, stamp, and spread over the roundings."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bookkit.authoring.code import code_of
from bookkit.authoring.draws import AS_IS, DRAWS, draw_environment
from bookkit.authoring.environment import page_environment, python_command
from bookkit.authoring.heads import (
    head_file,
    proves_nothing,
    spread_of,
    tolerance_of,
    too_tight,
)
from bookkit.authoring.study import WATCHED
from nbkit.errors import UserError
from nbkit.runs import provenance


def run_script(root: Path, name: str, *words: str, draw: str = AS_IS) -> None:
    """Run a study's script in a process of its own, on one thread.

    Args:
        root: of the checkout.
        name: of the study.
        *words: for its command line.
        draw: the rounding, of ``bookkit.authoring.draws``.

    Raises:
        UserError: it failed.

    """
    script = root / "studies" / f"{name}.py"
    environment = page_environment(root, script)
    if draw != AS_IS:
        environment = draw_environment(environment, draw)
    done = subprocess.run(
        python_command(str(script), *words), cwd=root, env=environment, check=False
    )
    if done.returncode:
        raise UserError(f"the study {name} ended with exit status {done.returncode}")


def store_head(root: Path, name: str, *, spread: bool) -> Iterator[str]:
    """Compute the head of today's code and store it; yield what is to be said.

    Args:
        root: of the checkout.
        name: of the study.
        spread: compute it under every rounding too, and store how far each figure moves.

    Raises:
        UserError: the head would prove nothing, or a tolerance is below twice the spread. It is
            stored nevertheless, so that the figures can be looked at.

    """
    script = root / "studies" / f"{name}.py"
    config = {"code": code_of(root, script)["digest"]}
    origin = provenance.start(seeds=(), config=config, watched=WATCHED)
    found = {AS_IS: _figures(root, name, AS_IS)}
    head, tolerances = found[AS_IS]["head"], found[AS_IS]["tolerances"]
    path = head_file(root, name)
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    stored: dict[str, Any] = {"head_stamp": origin.stamp(), "head": head}
    if spread:
        found |= {draw: _figures(root, name, draw) for draw in DRAWS if draw != AS_IS}
        stored |= {
            "head_draws": list(found),
            "head_spread": spread_of([figures["head"] for figures in found.values()]),
        }
    elif old.get("head_spread", {}).keys() == head.keys():
        stored |= {key: old[key] for key in ("head_draws", "head_spread")}
    provenance.write_json(path, stored)
    yield from _table(head, stored.get("head_spread", {}), tolerances)
    yield f"studies/heads/{name}.json: written"
    _judge(name, head, stored.get("head_spread", {}), tolerances)


def _figures(root: Path, name: str, draw: str) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="nbkit-head-") as folder:
        out = Path(folder, "head.json")
        run_script(root, name, "--figures", str(out), draw=draw)
        found: dict[str, dict[str, float]] = json.loads(out.read_text(encoding="utf-8"))
        return found


def _table(
    head: dict[str, float], spread: dict[str, float], tolerances: dict[str, float]
) -> Iterator[str]:
    width = max(map(len, head))
    for name, value in head.items():
        moved = f"{spread[name]:9.2g}" if spread else " " * 9
        yield f"{name:{width}}  {value:12.6g}  spread {moved}  tolerance {tolerances[name]:g}"


def _judge(
    name: str, head: dict[str, float], spread: dict[str, float], tolerances: dict[str, float]
) -> None:
    tight = too_tight(spread, tolerances)
    if tight:
        tolerance = tolerance_of(tight[0], tolerances)
        raise UserError(
            f"studies/{name}.py: the tolerance {tolerance:g} of {tight[0]!r} is below twice its "
            f"spread {spread[tight[0]]:.2g}; widen it, or take a figure that moves less"
        )
    wrong = proves_nothing(head, tolerances)
    if wrong:
        raise UserError(f"studies/{name}.py: its head proves nothing, {wrong[0]} would pass")
