"""The structure of a mathematical answer: tuples, sets, intervals, matrices, equations, words.

``read`` splits a LaTeX or plain answer into a small tree. What is left at its leaves is a single
expression, for a computer-algebra system to compare; order and brackets are compared here, because
they are what such systems lose: (1,2) is not (2,1), and (1,2) is not [1,2].
"""

import re
from dataclasses import dataclass
from typing import Union

from nbkit.rewards.latex import NAMED, WORDING, closing, latex, split
from nbkit.text.numerals import Quantity, read_quantity, tidy
from nbkit.text.units import WRAPPED, split_unit


@dataclass(frozen=True)
class Leaf:
    """One expression in LaTeX, and the unit written behind it in words ("" if none)."""

    latex: str
    unit: str = ""


@dataclass(frozen=True)
class Text:
    """An answer in words, in lower case."""

    words: str


@dataclass(frozen=True)
class Sequence:
    """Parts in order between brackets: ``()`` a tuple or open interval, ``matrix``, …"""

    kind: str
    parts: tuple["Tree", ...]


@dataclass(frozen=True)
class Unordered:
    """A set, a bare list of solutions, or a union of intervals; ``kind`` set or union."""

    kind: str
    parts: tuple["Tree", ...]


@dataclass(frozen=True)
class Relation:
    """``left sign right`` with sign one of = != < <= (> and >= are turned round)."""

    sign: str
    left: "Tree"
    right: "Tree"


Tree = Union[Leaf, Text, Sequence, Unordered, Relation, Quantity]  # noqa: UP007  (forward names)

_MATRIX = re.compile(
    r"[(\[|]?\s*\\begin\{([pbvBV]?matrix|smallmatrix|array)\}(?:\{[^{}]*\})?(.*)\\end\{\1\}\s*[)\]|]?",
    re.DOTALL,
)
_RELATIONS = {
    **{"=": "=", r"\ne": "!=", r"\neq": "!=", "≠": "!=", "!=": "!=", r"\not=": "!="},
    **{"<": "<", r"\lt": "<", ">": ">", r"\gt": ">", r"\le": "<=", r"\leq": "<=", "≤": "<="},
    **{r"\leqslant": "<=", "<=": "<=", r"\ge": ">=", r"\geq": ">=", "≥": ">=", ">=": ">="},
    **{r"\geqslant": ">=", "⩽": "<=", "⩾": ">="},
}
# After a digit or a bracket "!" is a factorial: 5! = 120.
_SIGN = re.compile(
    r"<=|>=|(?<![\d)])!=|\\not\s*=|\\(?:neq?|leqslant|geqslant|leq?|geq?|lt|gt)(?![A-Za-z])|[=<>≤≥≠⩽⩾]"
)
_PRODUCT = r"\d*\s*[a-z]{1,4}(?![a-z])"
# Letters that spell no word: without vowels, or a with none but its neighbours in the alphabet.
_LETTERS = re.compile(r"[bcdfghjklmnpqrstvwxz]+|[xyz]+|[abc]+|[axyz]+")
_PLUS_MINUS = re.compile(r"±|\\[pm][mp](?![A-Za-z])|\+/-")
_ANNOUNCED = re.compile(
    r"^\s*(?:the\s+)?(?:correct\s+)?(?:option|choice|answer)(?:\s+is)?\b\s*:?", re.IGNORECASE
)
_DOTS = re.compile(r"\\[lcv]?dots[bcmio]?|\.{3}|…|⋯")
MAX_LENGTH = 1000
MAX_DEPTH = 12


def read(text: str, depth: int = 0) -> Tree:
    """Return the tree of an answer.

    Raises:
        ValueError: for an empty answer, one that is too long, or brackets nested too deep.

    """
    text = re.sub(r"(?<!\.)\.$", "", tidy(text).strip()).strip()
    if not text:
        raise ValueError("answer: empty")
    if len(text) > MAX_LENGTH or depth > MAX_DEPTH:
        raise ValueError(f"answer: over {MAX_LENGTH} characters or {MAX_DEPTH} levels of brackets")
    quantity = read_quantity(text)
    if quantity is not None:
        return quantity
    worded = WRAPPED.fullmatch(text)
    if worded and re.search(r"\d", text):
        return read(worded[1] or worded[2], depth + 1)
    for reader in _READERS:
        tree = reader(text, depth + 1)
        if tree is not None:
            return tree
    if _PLUS_MINUS.search(text):
        plus = re.sub(r"±|\\pm(?![A-Za-z])|\+/-", "+", re.sub(r"\\mp(?![A-Za-z])", "-", text))
        minus = re.sub(r"±|\\pm(?![A-Za-z])|\+/-", "-", re.sub(r"\\mp(?![A-Za-z])", "+", text))
        return Unordered("set", (read(plus, depth + 1), read(minus, depth + 1)))
    parts = split_unit(text)
    return Leaf(latex(text)) if parts is None else Leaf(latex(parts[0]), parts[1])


def _named_set(text: str, depth: int) -> Tree | None:
    """The empty set, which is a set without members, or the set of all real numbers and its kin."""
    if re.fullmatch(r"\\(?:emptyset|varnothing)|∅", text):
        return Unordered("set", ())
    match = re.fullmatch(r"\\(?:mathbb|mathbf)\s*\{?\s*([NZQRC])\s*\}?", text)
    return Text(f"the numbers {match[1]}") if match else None


def _letters(text: str, depth: int) -> Tree | None:
    """Products of single letters, without a sign between them, and their differences."""
    if not re.fullmatch(rf"-?\s*{_PRODUCT}(?:\s*-\s*{_PRODUCT})*", text):
        return None
    runs = re.findall(r"[a-z]{2,}", text)
    if not runs or not all(map(_LETTERS.fullmatch, runs)):
        return None
    return Leaf(re.sub(r"(?<=[a-z])(?=[a-z])", " ", text))


def _matrix(text: str, depth: int) -> Tree | None:
    match = _MATRIX.fullmatch(text)
    if match is None:
        return None
    rows = [row for row in re.split(r"\\\\", match[2]) if row.strip()]
    kind = "determinant" if match[1] in ("vmatrix", "Vmatrix") else "matrix"
    cells = [tuple(read(cell, depth) for cell in row.split("&")) for row in rows]
    return Sequence(kind, tuple(Sequence("row", row) for row in cells))


def _choice(text: str, depth: int) -> Tree | None:
    """The letter of a multiple-choice answer, alone or before the words of the option."""
    wrapped = _ANNOUNCED.sub("", WORDING.sub(r"\1", text))
    match = re.fullmatch(r"\s*\(?\s*([A-J])\s*[).]?\s*", wrapped)
    if match is None:  # (D) 12, D) 12, D. twelve, D: twelve; but not (A) \cup B, and not A:B
        match = re.match(r"\s*(?:\(\s*([A-J])\s*\)\s*|([A-J])\s*[).:]\s+|([A-J])\))(.*)", wrapped)
        words = match[4].strip() if match else ""
        starts = re.match(r"[-+]?\s*(?:\w|\(|\\(?:text|frac|sqrt|pi)(?![A-Za-z]))", words)
        if match is None or starts is None or re.fullmatch(r"[A-Z]|\(?[A-Za-z]\)?.?", words):
            return None
    letter = next(group for group in match.groups() if group)
    return Text(letter.lower())


def _dots(text: str, depth: int) -> Tree | None:
    return Text("…") if _DOTS.fullmatch(text) else None


def _parts(text: str, depth: int) -> Tree | None:
    union = split(text, r"\\cup(?![A-Za-z])|∪")
    if len(union) > 1:
        return Unordered("union", tuple(read(part, depth) for part in union))
    without = split(text, r"\\(?:setminus|smallsetminus|backslash)(?![A-Za-z])|∖")
    if len(without) == 2 and all(part.strip() for part in without):
        return Sequence("without", tuple(read(part, depth) for part in without))
    spoken = re.sub(r"\\(?:text|mbox|textrm|mathrm)\s*\{\s*,?\s*(and|or)\s*\}", r" \1 ", text)
    parts = split(
        spoken, r",(?!\d{3}(?!\d))|;|,|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])|\\(?:lor|vee)\b"
    )
    parts = [part for part in parts if part.strip()]
    joined = re.sub(r"\\[A-Za-z]+", "", " ".join(parts))
    if len(parts) < 2 or (re.search(r"[A-Za-z]{3,}", joined) and not all(map(_short, parts))):
        return None
    members = _members(parts, depth)
    named = [m for m in members if isinstance(m, Relation)]
    rest = members[len(named) :]
    one_name = {m.left for m in named if m.sign == "="} == {named[0].left} if named else False
    if one_name and named == members[: len(named)] and not any(map(_is_relation, rest)):
        # x = 2, -1 is x = 2 or x = -1
        members = [*named, *(Relation("=", named[0].left, member) for member in rest)]
    return Unordered("set", tuple(members))


def _short(part: str) -> bool:
    """A number with its unit, or an equation that gives one."""
    return read_quantity(part.rsplit("=", 1)[-1]) is not None


def _is_relation(tree: Tree) -> bool:
    return isinstance(tree, Relation) or (isinstance(tree, Unordered) and tree.kind == "chain")


def _members(parts: list[str], depth: int) -> list[Tree]:
    """The members of a list; ``±`` gives two of them."""
    found: list[Tree] = []
    for part in parts:
        tree = read(part, depth)
        both = _PLUS_MINUS.search(part) and not part.strip().startswith((r"\{", "{"))
        found += tree.parts if both and isinstance(tree, Unordered) else [tree]
    return found


def _bracketed(text: str, depth: int) -> Tree | None:
    printed = text.startswith(r"\{") and text.endswith(r"\}")
    if printed or (text[0] == "{" and closing(text, 0) == len(text) - 1):
        inner = text[2:-2].strip() if printed else text[1:-1].strip()
        parts = split(inner, ",") if inner else []
        if not printed and len(parts) < 2:  # {5} is a group of TeX, {1,2,3} a set without its signs
            return read(inner, depth) if inner else None
        return Unordered("set", tuple(_members(parts, depth)))
    if text[0] not in "([" or text[-1] not in ")]" or closing(text, 0) != len(text) - 1:
        return None
    parts = split(text[1:-1], ",")
    if len(parts) == 1:
        return read(parts[0], depth) if text[0] + text[-1] == "()" and parts[0].strip() else None
    return Sequence(text[0] + text[-1], tuple(read(part, depth) for part in parts))


def _relation(text: str, depth: int) -> Tree | None:
    member = split(text, r"\\in(?![A-Za-z])|∈")
    if len(member) == 2 and re.fullmatch(r"\s*\\?[A-Za-z]\w*\s*", member[0]):
        return read(member[1], depth)
    parts = split(text, _SIGN.pattern)
    if len(parts) == 1:
        return None
    signs, position = [], 0
    for part in parts[:-1]:
        match = _SIGN.match(text, position + len(part))
        assert match is not None  # it was split there
        signs.append(re.sub(r"\s", "", match[0]))
        position = match.end()
    if len(parts) != len(signs) + 1 or not all(part.strip() for part in parts):
        return None
    sides = [read(part, depth) for part in parts]
    links = []
    for left, sign, right in zip(sides[:-1], signs, sides[1:], strict=True):
        name = _RELATIONS[sign]
        if name in (">", ">="):
            left, right, name = right, left, name.replace(">", "<")
        links.append(Relation(name, left, right))
    if len(links) > 1:
        return Unordered("chain", tuple(links))
    right = sides[1]
    if signs == ["="] and _PLUS_MINUS.search(parts[1]) and isinstance(right, Unordered):
        return Unordered("set", tuple(Relation("=", sides[0], value) for value in right.parts))
    return links[0]


def _words(text: str, depth: int) -> Tree | None:
    bare = WORDING.sub(r" \1 ", text)
    plain = re.sub(r"\\[A-Za-z]+", "", bare)
    words = [w for w in re.findall(r"[A-Za-z]{2,}", plain) if w not in (*NAMED, "sqrt")]
    if words and not re.search(r"[\\^=<>+*/{}]", bare):
        return Text(" ".join(bare.lower().split()))
    based = re.fullmatch(r"(\d[0-9A-Fa-f]*|[A-F][0-9A-F]+)_\{?(\d+)\}?", bare)
    return Text(f"{based[1]} in base {based[2]}".lower()) if based else None


_READERS = (
    *(_named_set, _matrix, _dots, _choice, _parts, _bracketed, _relation, _letters, _words),
)
