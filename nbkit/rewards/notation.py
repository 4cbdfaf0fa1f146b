"""The structure of a mathematical answer: tuples, sets, intervals, matrices, equations, words.

``read`` splits a LaTeX or plain answer into a small tree. What is left at its leaves is a single
expression, for a computer-algebra system to compare; order and brackets are compared here, because
they are what such systems lose: (1,2) is not (2,1), and (1,2) is not [1,2].
"""

import re
from dataclasses import dataclass
from typing import Union

from nbkit.text.numerals import Quantity, read_quantity, tidy


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

_OPEN, _CLOSE = "([{", ")]}"
_MATRIX = re.compile(r"\\begin\{([pbvBV]?matrix|array)\}(?:\{[^{}]*\})?(.*)\\end\{\1\}", re.DOTALL)
_WORDING = re.compile(r"\\(?:text|textbf|textrm|textit|mathrm|mbox|operatorname)\s*\{([^{}]*)\}")
_UNIT_BEHIND = re.compile(
    r"\s*\\(?:text|textrm|mathrm|mbox)\s*\{[^{}]*[A-Za-z]{1}[^{}]*\}(?:\s*\^\s*\{?[23]\}?)?\s*$"
)
_RELATIONS = {
    **{"=": "=", r"\ne": "!=", r"\neq": "!=", "≠": "!=", "<": "<", r"\lt": "<", ">": ">"},
    **{r"\gt": ">", r"\le": "<=", r"\leq": "<=", "≤": "<=", r"\leqslant": "<=", "<=": "<="},
    **{r"\ge": ">=", r"\geq": ">=", "≥": ">=", r"\geqslant": ">=", ">=": ">="},
}
_SIGN = re.compile(r"<=|>=|\\(?:neq?|leqslant|geqslant|leq?|geq?|lt|gt)(?![A-Za-z])|[=<>≤≥≠]")
_NAMED: tuple[str, ...] = (
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
)
_NAMED += ("csc", "log", "ln", "exp", "pi")
_PRODUCT = r"\d*\s*[a-z]{1,4}(?![a-z])"
# Letters that spell no word: without vowels, or a with none but its neighbours in the alphabet.
_LETTERS = re.compile(r"[bcdfghjklmnpqrstvwxz]+|[xyz]+|[abc]+|[axyz]+")
MAX_LENGTH = 1000
MAX_DEPTH = 12


def read(text: str, depth: int = 0) -> Tree:
    """Return the tree of an answer.

    Raises:
        ValueError: for an empty answer, one that is too long, or brackets nested too deep.

    """
    text = tidy(text).strip().rstrip(".").strip()
    if not text:
        raise ValueError("answer: empty")
    if len(text) > MAX_LENGTH or depth > MAX_DEPTH:
        raise ValueError(f"answer: over {MAX_LENGTH} characters or {MAX_DEPTH} levels of brackets")
    quantity = read_quantity(text)
    if quantity is not None:
        return quantity
    for reader in (_named_set, _matrix, _choice, _parts, _bracketed, _relation, _letters, _words):
        tree = reader(text, depth + 1)
        if tree is not None:
            return tree
    if re.search(r"±|\\[pm][mp](?![A-Za-z])", text):
        plus = re.sub(r"±|\\pm(?![A-Za-z])", "+", re.sub(r"\\mp(?![A-Za-z])", "-", text))
        minus = re.sub(r"±|\\pm(?![A-Za-z])", "-", re.sub(r"\\mp(?![A-Za-z])", "+", text))
        return Unordered("set", (read(plus, depth + 1), read(minus, depth + 1)))
    unit = _UNIT_BEHIND.search(text)
    if unit and unit.start():
        words = re.sub(r"[^a-z0-9/ ]", "", _WORDING.sub(r"\1", unit[0]).lower()).strip()
        return Leaf(latex(text[: unit.start()]), words.removesuffix("s"))
    return Leaf(latex(text))


def latex(text: str) -> str:
    """Return one expression in the LaTeX that the parser knows; decimals become fractions."""
    text = _WORDING.sub(r"\1", text)
    text = re.sub(r"\^\s*\{?\\circ\}?|°", "", text)
    text = text.replace("**", "^").replace("·", r"\cdot ").replace("×", r"\times ")
    text = re.sub(r"(?<!\\)\*", r"\\cdot ", text)
    text = re.sub(r"\)\s*\(", r")\\cdot (", text)  # which the parser adds up if both hold numbers
    text = text.replace("√", r"\sqrt ").replace("π", r"\pi ").replace("∞", r"\infty ")
    for name in _NAMED:
        text = re.sub(rf"(?<![\\A-Za-z]){name}(?![A-Za-z])", rf"\\{name} ", text)
    text = re.sub(r"(?<![\\A-Za-z])sqrt\s*\(", r"\\sqrt(", text)
    text = _braced_roots(text.replace(r"\sqrt[]", r"\sqrt"))
    text = re.sub(r"\\sqrt\s*(\d|[A-Za-z])", r"\\sqrt{\1}", text)
    text = re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{", text)
    text = re.sub(r"(\\frac\s*\{[^{}]*\})\s*(\d)", r"\1{\2}", text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(\d*)\.(\d*)\\overline\s*\{\s*(\d+)\s*\}", _recurring, text)
    text = re.sub(r"(\d*)\.(\d+)", _exact_decimal, text)
    return re.sub(r"(\(.*?\)|[\w}]+)\s*%", r"\\frac{\1}{100}", text).strip()


def _exact_decimal(match: re.Match[str]) -> str:
    return rf"(\frac{{{int(match[1] + match[2])}}}{{{10 ** len(match[2])}}})"


def _recurring(match: re.Match[str]) -> str:
    """A recurring decimal: the repeated digits stand over as many nines."""
    whole, fixed, repeated = match.groups()
    nines = 10 ** len(repeated) - 1
    top = int(whole + fixed or "0") * nines + int(repeated)
    return rf"(\frac{{{top}}}{{{nines * 10 ** len(fixed)}}})"


def _braced_roots(text: str) -> str:
    r"""Write ``\sqrt(…)`` as ``\sqrt{…}``."""
    while (start := text.find(r"\sqrt(")) >= 0:
        end = _match(text, start + 5)
        if end is None:
            return text
        text = text[: start + 5] + "{" + text[start + 6 : end] + "}" + text[end + 1 :]
    return text


def _match(text: str, start: int) -> int | None:
    """The index of the bracket that closes the one at ``start``, of whatever kind."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] in _OPEN:
            depth += 1
        elif text[position] in _CLOSE:
            depth -= 1
            if depth == 0:
                return position
    return None


def _split(text: str, separator: str) -> list[str]:
    """Split at a separator (a regular expression) that stands outside all brackets."""
    parts, last, depth = [], 0, 0
    pattern = re.compile(separator)
    position = 0
    while position < len(text):
        match = pattern.match(text, position) if depth == 0 else None
        if match:
            parts.append(text[last : match.start()])
            last = position = match.end()
            continue
        depth += (text[position] in _OPEN) - (text[position] in _CLOSE)
        position += 1
    return [*parts, text[last:]]


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
    """The letter of a multiple-choice answer, in brackets or in words."""
    bare = _WORDING.sub(r"\1", text).strip()
    match = re.fullmatch(r"\(?\s*([A-J])\s*[).]?", bare)
    return Text(match[1].lower()) if match else None


def _parts(text: str, depth: int) -> Tree | None:
    union = _split(text, r"\\cup(?![A-Za-z])|∪")
    if len(union) > 1:
        return Unordered("union", tuple(read(part, depth) for part in union))
    spoken = re.sub(r"\\(?:text|mbox)\s*\{\s*,?\s*(and|or)\s*\}", r" \1 ", text)
    parts = _split(spoken, r",(?!\d{3}(?!\d))|;|,|(?<![A-Za-z])(?:and|or)(?![A-Za-z])")
    parts = [part for part in parts if part.strip()]
    joined = re.sub(r"\\[A-Za-z]+", "", " ".join(parts))
    if len(parts) > 1 and not re.search(r"[A-Za-z]{3,}", joined):
        return Unordered("set", tuple(read(part, depth) for part in parts))
    return None


def _bracketed(text: str, depth: int) -> Tree | None:
    if text.startswith(r"\{") and text.endswith(r"\}"):
        inner = text[2:-2].strip()
        parts = _split(inner, ",") if inner else []
        return Unordered("set", tuple(read(part, depth) for part in parts))
    if text[0] not in "([" or text[-1] not in ")]" or _match(text, 0) != len(text) - 1:
        return None
    parts = _split(text[1:-1], ",")
    if len(parts) == 1:
        return read(parts[0], depth) if text[0] + text[-1] == "()" and parts[0].strip() else None
    return Sequence(text[0] + text[-1], tuple(read(part, depth) for part in parts))


def _relation(text: str, depth: int) -> Tree | None:
    member = _split(text, r"\\in(?![A-Za-z])|∈")
    if len(member) == 2 and re.fullmatch(r"\s*\\?[A-Za-z]\w*\s*", member[0]):
        return read(member[1], depth)
    parts = _split(text, _SIGN.pattern)
    if len(parts) == 1:
        return None
    signs, position = [], 0
    for part in parts[:-1]:
        match = _SIGN.match(text, position + len(part))
        assert match is not None  # it was split there
        signs.append(match[0])
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
    return links[0] if len(links) == 1 else Unordered("chain", tuple(links))


def _words(text: str, depth: int) -> Tree | None:
    bare = _WORDING.sub(r" \1 ", text)
    plain = re.sub(r"\\[A-Za-z]+", "", bare)
    words = [w for w in re.findall(r"[A-Za-z]{2,}", plain) if w not in (*_NAMED, "sqrt")]
    if words and not re.search(r"[\\^=<>+*/{}]", bare):
        return Text(" ".join(bare.lower().split()))
    based = re.fullmatch(r"(\w+)_\{?(\d+)\}?", bare)
    return Text(f"{based[1]} in base {based[2]}".lower()) if based else None
