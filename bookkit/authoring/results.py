"""Recorded results: the code that each ran, and whether that is still the code of today.

A result's stamp holds the code that its program reached. Results that were recorded before stamps
held it have it in ``studies/recorded_code.json``, computed from the commit that their stamp names:

    {"computed": "from commit", "programs": {"COMMIT SCRIPT": {"digest", "symbols"}},
     "results": {result: "COMMIT SCRIPT", or null where the commit does not hold the program}}
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bookkit.authoring.code import changes, code_of, script_of
from bookkit.authoring.reach import Finder
from bookkit.authoring.result_line import stamp_of

RECORDED = "studies/recorded_code.json"
# A stamped result of a study, of a benchmark or of a job; a job's may lie in folders of its stages.
PATTERNS = (
    *("studies/results/*.json", "benchmarks/results/*.json", "benchmarks/*/results/*.json"),
    "cluster_scripts/*/results/**/*.json",
)
SHOWN = 3


@dataclass(frozen=True)
class State:
    """How the code that a result ran stands to the code of today.

    Attributes:
        known: whether the code that ran was noted, and its program still exists.
        changed: symbols that are not what they were.

    """

    known: bool
    changed: list[str] = field(default_factory=list)

    @property
    def is_stale(self) -> bool:
        """Whether it ran other code than today's."""
        return bool(self.changed)

    def __str__(self) -> str:
        """One sentence without its full stop."""
        if not self.known:
            return "which code it ran was not noted"
        if not self.changed:
            return "measured with this code"
        return f"the code has changed since, in {named(self.changed)}"


def named(symbols: list[str], shown: int = SHOWN) -> str:
    """The first few symbols, then a count; what only imports or shows something comes last."""
    ordered = sorted(symbols, key=lambda name: (name.endswith(")"), name))
    rest = len(ordered) - shown
    if rest <= 0:
        *others, last = ordered
        return f"{', '.join(others)} and {last}" if others else last
    return f"{', '.join(ordered[:shown])} and {rest} more"


class Results:
    """The recorded results of a checkout."""

    def __init__(self, root: Path) -> None:
        """Read nothing yet."""
        self.root = root
        self._finder = Finder(root)
        self._now: dict[Path, dict[str, str]] = {}

    def files(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Each stamped result with its stamp."""
        for path in sorted({p for pattern in PATTERNS for p in self.root.glob(pattern)}):
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict) and "stamp" in content:
                yield path, content["stamp"]

    def state(self, result: Path, stamp: dict[str, Any]) -> State:
        """How the code that a result ran stands to the code of today."""
        ran, script = self._ran(result, stamp), script_of(self.root, result)
        if ran is None or script is None:
            return State(known=False)
        return State(known=True, changed=changes(ran, self._symbols(script)))

    def state_of(self, name: str) -> State:
        """The state of a result by its path from the root.

        Raises:
            UserError: there is no such result, or it has no stamp.

        """
        return self.state(self.root / name, stamp_of(self.root / name))

    def _ran(self, result: Path, stamp: dict[str, Any]) -> dict[str, str] | None:
        if stamp.get("code"):
            found: dict[str, str] = stamp["code"]["symbols"]
            return found
        name = result.relative_to(self.root).as_posix()
        key = self._recorded["results"].get(name)
        if not key or not key.startswith(stamp["commit"]):
            return None  # not noted, or noted for an earlier run
        recorded: dict[str, str] = self._recorded["programs"][key]["symbols"]
        return recorded

    def _symbols(self, script: Path) -> dict[str, str]:
        if script not in self._now:
            self._now[script] = code_of(self.root, script, self._finder)["symbols"]
        return self._now[script]

    @cached_property
    def _recorded(self) -> dict[str, Any]:
        path = self.root / RECORDED
        if not path.is_file():
            return {"programs": {}, "results": {}}
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content
