"""Numbers as people and models write them, read exactly: a ``Fraction`` or nothing.

Decimals are exact (0.333 is 333/1000, not 1/3). Read are signs, thousands separators, fractions
(``3/4`` and ``\\frac{3}{4}``), mixed numbers (``1 1/2``), percent, powers of ten, currency signs,
number words such as ``million``, and a unit behind the number.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

MAX_DIGITS = 400  # longer is no answer, and int() of millions of digits is an attack

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d*)?|\.\d+"
_TEN = r"(?:\s*(?:\\times|\\cdot|×|\*|x)\s*10\s*\^\s*(?:\{\s*([+-]?\d{1,3})\s*\}|([+-]?\d{1,3})))"
_FRACTION = r"\\frac\s*(?:\{\s*([+-]?[\d.,]+)\s*\}|(\d))\s*(?:\{\s*([\d.,]+)\s*\}|(\d))"
_SIGNED = re.compile(r"([+-]?)\s*(.*)", re.DOTALL)
_DECIMAL = re.compile(rf"({_UNSIGNED})(?:[eE]([+-]?\d{{1,3}})|{_TEN})?")
_SLASHED = re.compile(rf"({_UNSIGNED})\s*/\s*({_UNSIGNED})")
_LATEX = re.compile(_FRACTION)
_MIXED = re.compile(r"(\d+)\s+(\d+)\s*/\s*(\d+)")
_MIXED_LATEX = re.compile(rf"(\d+)\s*{_FRACTION}")

_SCALES = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_NOT_UNITS = {
    *("and", "or", "to", "not", "plus", "minus", "times", "over", "by", "divided", "remainder"),
    *("is", "are", "with", "if", "but", "mod", "choose", "factorial", "squared", "cubed"),
    *("sqrt", "pi", "sin", "cos", "tan", "log", "ln", "exp", "approximately", "about", "less"),
}
_UNIT = re.compile(
    r"(?:\s*\\(?:text|textrm|mathrm|mbox|textbf)\s*\{([^{}]*)\}|\s*((?:sq\.?\s)?[A-Za-z]{2}[A-Za-z]*"
    r"(?:[\s/]+(?:[A-Za-z]+\.?))*))(?:\s*(?:\^\s*\{?[23]\}?|[²³]))?\s*"
)
_WORDED = re.compile(r"\s*\\(?:text|textrm|mathrm|mbox|textbf)\s*\{([^{}]*)\}\s*")
_LETTERS = re.compile(r"[xyz]{2,}|[abc]{2,}")  # 2xy is a product, 2 km a length
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\\circ\}?|°|\\degree)\s*")


@dataclass(frozen=True)
class Quantity:
    """A number and the unit behind it; the unit is "" where none was written."""

    value: Fraction
    unit: str = ""

    def same(self, other: "Quantity") -> bool:
        """Equal values, and no two different units. A missing unit agrees with any."""
        if self.unit and other.unit and self.unit != other.unit:
            return False
        return self.value == other.value


def tidy(text: str) -> str:
    """Return ``text`` without Markdown, dollar signs and spacing commands.

    The characters that stand for minus, for a narrow space and for percent get one spelling.
    """
    text = re.sub(r",\\!\s*", ",", text)
    text = _SPELLING.sub(lambda match: _SPELLINGS[match[0]], text)
    text = re.sub(r"</?[A-Za-z][\w-]*\s*>", " ", text)
    text = re.sub(r"\\(?:left|right|displaystyle|bigl?|bigr?|Bigl?|Bigr?)(?![A-Za-z])", "", text)
    # ** is Markdown, unless a power can stand there.
    text = re.sub(r"(?<![\w)\]}])\*\*|\*\*(?![\w(\[{\\-])|`", "", text).strip()
    while len(text) > 1 and text[0] == text[-1] and text[0] in "*_":
        text = text[1:-1].strip()
    return text


def unworded(text: str) -> str:
    """Return what stands in ``\\text{…}`` if that is a number with a unit; else the text itself."""
    match = _WORDED.fullmatch(text)
    return match[1].strip() if match and read_quantity(match[1]) is not None else text


def read_quantity(text: str) -> Quantity | None:
    """Return what ``text`` as a whole says as a number with a unit, or None.

    ``50%`` is 1/2 and never 50: one value for one notation. ``±5`` is two numbers and so None.
    """
    text = tidy(text)
    worded = _WORDED.fullmatch(text)
    text = worded[1].strip() if worded else text
    text = re.sub(r"(?<=\d)[.,;:]+$", "", text).strip()
    if len(text) > MAX_DIGITS or not re.search(r"\d", text):
        return None
    if text.startswith("(") and text.endswith(")") and "(" not in text[1:]:
        text = text[1:-1].strip()
    match = _SIGNED.fullmatch(text)
    assert match is not None  # it matches every text
    sign, rest = match.groups()
    for read in (_mixed, _fraction, _decimal):
        found = read(rest)
        if found is None:
            continue
        value, end = found
        tail = _read_tail(rest[end:])
        if tail is not None:
            factor, unit = tail
            return Quantity((-value if sign == "-" else value) * factor, unit)
    return None


def read_number(text: str) -> Fraction | None:
    """Return the value of ``text``, its unit dropped, or None if it is no single number."""
    quantity = read_quantity(text)
    return None if quantity is None else quantity.value


def _read_tail(tail: str) -> tuple[Fraction, str] | None:
    """What stands behind the digits: a factor and a unit, or None for anything else."""
    tail = tail.strip()
    factor = Fraction(1)
    if tail.startswith("%"):
        factor, tail = Fraction(1, 100), tail[1:]
    if not tail.strip(" ."):
        return factor, ""
    if _DEGREES.fullmatch(tail):
        return factor, "degree"
    match = _UNIT.fullmatch(tail)
    if match is None:
        return None
    words = (match[1] or match[2] or "").lower().replace(".", "").split()
    if any(word in _NOT_UNITS for word in words) or len(words) > 5:
        return None
    if match[2] and _LETTERS.fullmatch(match[2]):
        return None
    while words and words[0] in _SCALES:
        factor *= _SCALES[words.pop(0)]
    if words and words[0] in ("percent", "percentage"):
        factor, words = factor / 100, words[1:]
    power = re.sub(r"[^23²³]", "", match[0][match[0].rfind("}") + 1 :] if match[2] else match[0])
    unit = " ".join(word.removesuffix("s") for word in words)
    return factor, unit + (power.translate(str.maketrans("²³", "23")) if unit else "")


def _plain(digits: str) -> Fraction | None:
    if not re.fullmatch(_UNSIGNED, digits):
        return None
    return Fraction(digits.replace(",", "").rstrip(".") or "0")


def _decimal(text: str) -> tuple[Fraction, int] | None:
    match = _DECIMAL.match(text)
    if match is None:
        return None
    value = _plain(match[1])
    power = int(match[2] or match[3] or match[4] or 0)
    return None if value is None else (value * Fraction(10) ** power, match.end())


def _fraction(text: str) -> tuple[Fraction, int] | None:
    match = _SLASHED.match(text) or _LATEX.match(text)
    if match is None:
        return None
    top, bottom = (part for part in match.groups() if part is not None)
    sign = -1 if top.startswith("-") else 1
    numerator, denominator = _plain(top.lstrip("+-")), _plain(bottom)
    if numerator is None or not denominator:
        return None
    return sign * numerator / denominator, match.end()


def _mixed(text: str) -> tuple[Fraction, int] | None:
    match = _MIXED.match(text) or _MIXED_LATEX.match(text)
    if match is None:
        return None
    whole, top, bottom = (part for part in match.groups() if part is not None)
    if not (top.isdigit() and bottom.isdigit() and int(bottom)):
        return None
    return int(whole) + Fraction(int(top), int(bottom)), match.end()


_SPELLINGS = dict(
    (
        ("\\\\", "\\\\"),  # the end of a row, which no spacing command may eat from
        *(("−", "-"), ("–", "-"), ("﹣", "-"), ("－", "-"), ("﹪", "%"), ("％", "%")),
        *((r"\$", ""), (r"\%", "%"), ("{,}", ","), (r"\!", ""), (r"\,", ""), ("\u202f", "")),
        *((r"\(", ""), (r"\)", ""), (r"\[", ""), (r"\]", "")),
        *(("½", " 1/2"), ("¼", " 1/4"), ("¾", " 3/4"), ("⅓", " 1/3"), ("⅔", " 2/3")),
        *(("$", ""), ("€", ""), ("£", ""), ("¥", "")),
        *(
            (r"\;", " "),
            (r"\:", " "),
            (r"\quad", " "),
            (r"\qquad", " "),
            ("~", " "),
            ("\u00a0", " "),
        ),
        *((r"\dfrac", r"\frac"), (r"\tfrac", r"\frac"), (r"\cfrac", r"\frac"), (r"\ ", " ")),
    )
)
_SPELLING = re.compile(
    "|".join(
        re.escape(old) + ("(?![A-Za-z])" if old[-1].isalpha() and old[0] == "\\" else "")
        for old in sorted(_SPELLINGS, key=len, reverse=True)
    )
)
