"""The code that a program of the book reaches: what the stamp of its result says that it ran.

What only starts, orders, stores and checks a study is left out (`FRAME`, `PLUMBING`): it decides
when and where a figure is computed, not what it is.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bookkit.authoring.reach import Finder
from bookkit.authoring.reach.digests import code_digest, combined_digest

PROGRAMS = ("studies", "benchmarks", "cluster_scripts")
RESULTS = "results"
# Names of a study: its command and what CI repeats of it. A job's `main` is what it computes.
HEAD = "head"
FRAME = {"studies": {"main", HEAD, "STUDY", "TOLERANCES", "HEAD_UPDATES", "HEAD_TOLERANCE"}}
PLUMBING = (
    "bookkit.",
    *("nbkit.runs.provenance.", "nbkit.runs.code_tree.", "bookkit.checkout.", "nbkit.errors."),
    # where these stood when older results were recorded
    *("nbkit.authoring.", "nbkit.provenance.", "nbkit.code_tree.", "nbkit.cli."),
    # the names that pages use, each loaded from its own module
    *("nbkit._LAZY", "nbkit.__getattr__"),
    *("studies._frame.", "studies._arms.", "studies._grpo_study."),
    # what became these
    *("studies._jobs.", "studies._grpo.parallel", "studies._grpo._kept", "studies._grpo._in_time"),
    *("studies.dpo_data.measure", "studies.dpo_frontier.measure", "studies.grpo_controls.measure"),
    *("studies.grpo_knobs.measure", "studies.grpo_variants.measure"),
    *("studies.rlhf_overoptimisation.measure", "nbkit.trainers.dpo_runs.spread_over"),
    *("studies._grpo.by_arm", "studies._grpo.run_all"),
)
SCRIPT_NAMES = ("train", "run")
IMPORTED = " (import)"
_SCRIPT = re.compile(r"[\w/]*\w\.py")


def is_program(root: Path, path: Path) -> bool:
    """Whether a file is a program whose results the book keeps."""
    return path.is_relative_to(root) and path.relative_to(root).parts[0] in PROGRAMS


def code_of(root: Path, script: Path, finder: Finder | None = None) -> dict[str, Any]:
    """What a program reaches.

    Args:
        root: of the checkout, or of a copy of it.
        script: the program.
        finder: of the same root, if several programs are asked for.

    Returns:
        "script" (from the root), "symbols" (dotted name to digest) and "digest" of them together.

    """
    finder = finder or Finder(root)
    own: dict[str, str] = {}
    reached: dict[str, str] = {}
    for path in _with_companions(root, script):
        tree = _without_head(ast.parse(path.read_text(encoding="utf-8")), path, root)
        own |= _own_symbols(tree, _module(root, path))
        reached |= finder.reach(sources=[ast.unparse(tree)]).symbols
    found = reached | own
    symbols = {name: found[name] for name in sorted(found) if not name.startswith(PLUMBING)}
    return {
        "script": script.relative_to(root).as_posix(),
        "digest": combined_digest(symbols),
        "symbols": symbols,
    }


def script_of(root: Path, result: Path) -> Path | None:
    """The program that wrote a result, by the names of both; None if there is none any more.

    ``studies/results/a_b.json`` is of ``studies/a_b.py`` or ``studies/a.py``; what lies anywhere
    below ``cluster_scripts/JOB/results`` is of the job's ``train.py``.
    """
    parts = result.relative_to(root).parts
    folder = root.joinpath(*parts[: parts.index(RESULTS)])
    words = result.stem.split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    candidates = [folder / f"{name}.py" for name in (*names, *SCRIPT_NAMES)]
    return next((path for path in candidates if path.is_file()), None)


def changes(ran: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The symbols of the code that ran which are not the same today.

    New symbols are not among them: whatever calls one has changed itself. A symbol that stands
    elsewhere now, with the same code, has moved and not changed; an import that leads to the same
    code from another module neither, nor one that nothing needs any more.
    """
    before, there = _by_last_name(ran, imports=False), _by_last_name(now, imports=False)
    imported = _by_last_name(now, imports=True)

    def is_same(name: str, digest: str) -> bool:
        last = _last_name(name)
        if now.get(name) == digest:
            return True
        if not name.endswith(IMPORTED):
            return digest in there.get(last, set())
        leads_to_the_same = last in before and before[last] == there.get(last)
        if name in now:
            return leads_to_the_same
        return leads_to_the_same or last not in imported or digest in imported[last]

    kept = {name: digest for name, digest in ran.items() if not name.startswith(PLUMBING)}
    return [name for name, digest in kept.items() if not is_same(name, digest)]


def _by_last_name(symbols: Mapping[str, str], *, imports: bool) -> dict[str, set[str]]:
    """The digests of all that has one name, whatever its module: imports, or what they lead to."""
    found: dict[str, set[str]] = {}
    for name, digest in symbols.items():
        if name.endswith(IMPORTED) == imports:
            found.setdefault(_last_name(name), set()).add(digest)
    return found


def _last_name(name: str) -> str:
    return name.removesuffix(IMPORTED).rpartition(".")[2]


def _with_companions(root: Path, script: Path) -> list[Path]:
    """A program and those that it starts: a text in it names them, from its folder or the root."""
    found: list[Path] = []
    waiting = [script]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.append(path)
        for text in _texts(path):
            if _SCRIPT.fullmatch(text):
                near = [path.parent / text, root / text]
                waiting += [other for other in near if other.is_file() and is_program(root, other)]
    return found


def _texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _without_head(tree: ast.Module, path: Path, root: Path) -> ast.Module:
    """The program less what CI repeats, its neighbours imported by their names from the root."""
    body = [node for node in tree.body if HEAD not in _names(node)]
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            near = path.parent.joinpath(*node.module.split(".")).with_suffix(".py")
            if near.is_file():
                node.module = _module(root, near)
    return ast.Module(body, [])


def _own_symbols(tree: ast.Module, module: str) -> dict[str, str]:
    frame = FRAME.get(module.partition(".")[0], set())
    return {
        f"{module}.{name}": code_digest([node])
        for node in tree.body
        for name in _names(node)
        if name not in frame
    }


def _names(node: ast.stmt) -> list[str]:
    """The names that a statement gives to a function, a class or values."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


def _module(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)
