"""`nbkit lint-prose`: what prose names exists, what it cites is listed, what it claims shown."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bookkit.authoring.claim_answers import claim_findings
from bookkit.authoring.code_width import width_findings
from bookkit.authoring.idioms import translated_words
from bookkit.authoring.landing import LANDING, landing_findings
from bookkit.authoring.names import Names
from bookkit.authoring.prose import Line, prose_lines
from bookkit.authoring.repository import markdown_files, relative
from bookkit.authoring.run_card import card_findings
from bookkit.authoring.spelling import american_words
from bookkit.authoring.stamp import Finding

FOLDERS = ("book", "notebooks", "solutions")
BIBLIOGRAPHY = "book/references.bib"
NAME = re.compile(r"nbkit(?:\.\w+)+")
PATH = re.compile(r"(?:\.\.?/)*[\w.-]+(?:/[\w.*-]+)*/?")
# A file name without a folder is looked for everywhere if it ends like one of our own documents.
BARE = re.compile(r"[\w.-]+\.(?:md|toml|yml|yaml|txt|ipynb|bib)")
PLACEHOLDER = re.compile(r"NN|[<>{}…]|(?:^|/)(?:NAME|JOB|LABEL|PAGE|PATH|RUN|SLUG)\b")
# A figure or a name that is still to be put in.
UNFILLED = re.compile(r"@@\w[\w.-]*@@")
# Folders that the commands make; they are not in a fresh clone.
MADE = {"_build", ".venv", ".nbkit", "runs"}
SKIPPED = {".git", ".venv", "_build", "node_modules", "__pycache__"}
CITATION = re.compile(r"\[(-?@[^\]]+)\]")
KEY = re.compile(r"@([\w:./-]*\w)")
Problem = tuple[str, str]


class Linter:
    """Everything that prose is compared with, read once."""

    def __init__(self, root: Path, command: Any) -> None:
        """Read the checkout.

        Args:
            root: the checkout.
            command: the command line of `nbkit`, whose commands prose may name.
        """
        self.root = root
        self.command = command
        self.names = Names(root)
        self.targets = _make_targets(root / "Makefile")
        self.keys = _bibliography_keys(root / BIBLIOGRAPHY)
        self.files = {path.name for path in _tracked(root)}

    def lint(self, path: Path) -> list[Finding]:
        """Find what is wrong in the prose of one file."""
        rules: list[Callable[[Line, Path], Iterator[Problem]]] = [
            self._codes,
            self._citations,
            self._links,
            self._spelling,
        ]
        name = relative(path, self.root)
        text = path.read_text(encoding="utf-8")
        found = [
            Finding(name, problem, mend, line.number)
            for line in prose_lines(text)
            for rule in rules
            for problem, mend in rule(line, path)
        ]
        # A reader sees an unfilled placeholder in code and in front matter too.
        found += [
            Finding(name, f"{gap} is an unfilled placeholder", "put in what it stands for", number)
            for number, line in enumerate(text.splitlines(), start=1)
            for gap in UNFILLED.findall(line)
        ]
        found += [
            Finding(name, f"{words!r} reads as translated", f"write: {better}", number)
            for number, words, better in translated_words(text)
        ]
        for rule_of_page in (claim_findings, card_findings, width_findings):
            found += rule_of_page(self.root, path)
        if name == LANDING:
            found += landing_findings(self.root)
        return sorted(found, key=lambda finding: finding.line or 0)

    def _codes(self, line: Line, path: Path) -> Iterator[Problem]:
        for code in line.codes:
            called = code.removesuffix("()").partition("(")[0]
            if NAME.fullmatch(called.removesuffix(".*")):
                if not self.names.exists(called.removesuffix(".*")):
                    yield f"`{called}` does not exist", "correct the name"
            elif code.startswith("make "):
                yield from self._make(code)
            elif code.startswith("nbkit "):
                yield from self._nbkit(code)
            elif PATH.fullmatch(code) and not PLACEHOLDER.search(code):
                yield from self._path(code, path)

    def _make(self, code: str) -> Iterator[Problem]:
        words = [word for word in code.split()[1:] if "=" not in word and not word.startswith("-")]
        target = words[0] if words else ""
        if target and target not in self.targets and not target.isupper():
            yield f"`{code}`: the Makefile has no target {target!r}", "correct the target"

    def _nbkit(self, code: str) -> Iterator[Problem]:
        command, context = self.command, None
        for word in code.split()[1:]:
            if word.startswith("-"):
                if word.partition("=")[0] not in {"--help", *_options(command)}:
                    yield f"`{code}`: there is no option {word!r}", "correct the option"
            elif hasattr(command, "commands") and word[0].islower():
                command = command.get_command(context, word)
                if command is None:
                    yield f"`{code}`: there is no command {word!r}", "correct the command"
                    return
                command = command.loaded() if hasattr(command, "loaded") else command

    def _path(self, code: str, page: Path) -> Iterator[Problem]:
        first = code.removeprefix("./").split("/")[0]
        if first in MADE:
            return
        if "/" not in code:
            missing = BARE.fullmatch(code) and code not in self.files
        elif first == "..":
            missing = not (page.parent / code).exists()
        elif (self.root / first).exists():
            missing = not any(self.root.glob(code.rstrip("/")))
        else:
            missing = False  # a path in another project
        if missing:
            yield f"`{code}` does not exist", "correct the path"

    def _citations(self, line: Line, path: Path) -> Iterator[Problem]:
        keys = [
            key.strip()
            for role, content in line.roles
            if role.split(":")[0] in {"cite", "citep", "citet"}
            for key in content.split(",")
        ]
        for group in CITATION.findall(line.words):
            keys += KEY.findall(group)
        for key in keys:
            if key not in self.keys:
                yield f"the citation {key!r} is not in {BIBLIOGRAPHY}", "add it there"

    def _links(self, line: Line, path: Path) -> Iterator[Problem]:
        for link in line.links:
            target = unquote(link.partition("#")[0])
            if not target or re.match(r"[a-z]+:", target):
                continue
            base = self.root if target.startswith("/") else path.parent
            if not (base / target.lstrip("/")).exists():
                yield f"the link to {target} leads nowhere", "correct the link"

    def _spelling(self, line: Line, path: Path) -> Iterator[Problem]:
        for american, british in american_words(line.words):
            yield f"{american!r} is American spelling", f"write {british!r}"


def prose_files(root: Path) -> list[Path]:
    """The files that are checked: the documents at the root, the book, chapters and solutions."""
    return [*sorted(root.glob("*.md")), *markdown_files(root, FOLDERS)]


def _make_targets(makefile: Path) -> set[str]:
    if not makefile.exists():
        return set()
    text = makefile.read_text(encoding="utf-8")
    return {
        target
        for line in re.findall(r"^([\w. -]+):(?!=)", text, flags=re.MULTILINE)
        for target in line.split()
    }


def _bibliography_keys(path: Path) -> set[str]:
    if not path.exists():
        return set()
    text = path.read_text(encoding="utf-8")
    return set(re.findall(r"^\s*@\w+\s*\{\s*([^,\s]+)\s*,", text, flags=re.MULTILINE))


def _tracked(root: Path) -> Iterator[Path]:
    waiting = [root]
    while waiting:
        for path in waiting.pop().iterdir():
            if path.is_dir():
                if path.name not in SKIPPED:
                    waiting.append(path)
            else:
                yield path


def _options(command: Any) -> set[str]:
    return {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
