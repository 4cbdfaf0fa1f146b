"""The works of `book/references.bib`, as short as a text cites them: names, year, address."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

BIBLIOGRAPHY = Path("book/references.bib")
_ENTRY = re.compile(r"^@\w+\{(?P<key>[^,\s]+),\s*\n(?P<fields>.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(?P<name>\w+)\s*=\s*\{(?P<value>.*?)\},?\s*$", re.MULTILINE)
_ACCENT = re.compile(
    r"\{?\\(?P<mark>[\"'`^~]|v(?=[\s{])|c(?=[\s{]))\s*\{?(?P<letter>[A-Za-z])\}?\}?"
)
_MARKS = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303"}
_MARKS |= {"v": "\u030c", "c": "\u0327"}
_LETTERS = {r"{\o}": "ø", r"{\O}": "Ø", r"{\ss}": "ß", r"{\l}": "ł", r"{\L}": "Ł", r"{\i}": "ı"}


@dataclass(frozen=True)
class Work:
    """What a citation says of a work; `address` is empty where none is known."""

    names: str
    year: str
    address: str


def works_of(root: Path) -> dict[str, Work]:
    """All works by their keys; {} in a checkout without a bibliography."""
    path = root / BIBLIOGRAPHY
    return dict(_works(path, path.stat().st_mtime_ns)) if path.is_file() else {}


@lru_cache(maxsize=8)
def _works(path: Path, _changed: int) -> tuple[tuple[str, Work], ...]:
    entries = _ENTRY.finditer(path.read_text(encoding="utf-8"))
    return tuple((entry["key"], _work(entry["fields"])) for entry in entries)


def _work(text: str) -> Work:
    fields = {found["name"].lower(): found["value"] for found in _FIELD.finditer(text)}
    address = fields.get("url", "")
    if not address and "doi" in fields:
        address = f"https://doi.org/{fields['doi']}"
    if not address and (arxiv := re.search(r"arXiv:(\d{4}\.\d{4,5})", text)):
        address = f"https://arxiv.org/abs/{arxiv[1]}"
    return Work(names_of(fields.get("author", "")), fields.get("year", ""), address)


def names_of(authors: str) -> str:
    """The family names as in a text: ``One``, ``One & Two``, ``One et al.``.

    Args:
        authors: BibTeX's field, ``Family, Given and Family, Given``.
    """
    families = [plain(name.partition(",")[0]) for name in re.split(r"\s+and\s+", authors.strip())]
    if len(families) > 2 or families[-1] == "others":
        return f"{families[0]} et al."
    return " & ".join(families)


def plain(text: str) -> str:
    """BibTeX's text as Unicode: accents made, braces gone."""
    for written, letter in _LETTERS.items():
        text = text.replace(written, letter)
    text = _ACCENT.sub(
        lambda found: unicodedata.normalize("NFC", found["letter"] + _MARKS[found["mark"]]), text
    )
    return re.sub(r"[{}]", "", text).strip()
