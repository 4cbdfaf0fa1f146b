"""Numbers as people and models write them, read exactly: a ``Fraction`` or nothing.

Decimals are exact (0.333 is 333/1000, not 1/3). Read are signs, thousands separators, fractions
(``3/4`` and ``\\frac{3}{4}``), mixed numbers (``1 1/2``), powers of ten, currencies, number words
such as ``million``, and a unit behind the number, of which percent is one.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from nbkit.text.units import WRAPPED, WRAPPERS, read_unit

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
_SCALE = re.compile(rf"(\s*(?:\\(?:{WRAPPERS})\s*\{{\s*)?)({'|'.join(_SCALES)})(?![A-Za-z])", re.I)
# Money before the number; its signs (₹, €, …) are taken away by ``tidy``.
_CODES = "USD|EUR|GBP|INR|JPY|CNY|RMB|AUD|CAD|CHF|HKD|SGD|PKR|PHP|NT|HK|US|Rs|Re|Tk|kr|zł"
_MONEY = re.compile(
    rf"^([+-]?)\s*(?:(?:{_CODES})\.?|\\(?:{WRAPPERS})\s*\{{\s*(?:{_CODES})?\.?\s*\}})\s*(?=[-+.\d])"
)
_FOREIGN = re.compile(r"(?<![A-Za-z])(?:US|HK|NT|AU|CA|NZ|R)\\?\$(?=\s*[\d.])")


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
    text = re.sub(r",\\!\s*", ",", text.translate(_WIDE))
    text = _FOREIGN.sub("", re.sub(r"(?<=\d)(?:\\,|\u202f)(?=\d)", "", text))
    text = _SUPERSCRIPT.sub(lambda match: "^{" + match[0].translate(_RAISED) + "}", text)
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
    match = WRAPPED.fullmatch(text.strip())
    inner = (match[1] or "").strip() if match else ""
    return inner if read_quantity(inner) is not None else text


def read_quantity(text: str, *, letters: bool = False) -> Quantity | None:
    """Return what ``text`` as a whole says as a number with a unit, or None.

    ``±5`` is two numbers and so None. **Percent is a unit**: ``20%`` is 20 with the unit ``%``,
    and never 1/5. GSM8K stores what "what percentage" asks for as a bare 20, and one in a hundred
    of its worked solutions ends in the number with its sign; read as 1/5, right answers to all of
    these earn nothing. One value for one notation: 0.2 is not ``20%``.

    Args:
        text: the whole answer.
        letters: read a single letter behind a space as a unit (``3 h``); see ``read_unit``.

    """
    text = tidy(text)
    worded = WRAPPED.fullmatch(text)
    text = (worded[1] or "").strip() if worded else text
    text = re.sub(r"(?<=\d)[.,;:]+$", "", _MONEY.sub(r"\1", text, count=1)).strip()
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
        tail = _read_tail(rest[end:], letters)
        if tail is not None:
            factor, unit = tail
            return Quantity((-value if sign == "-" else value) * factor, unit)
    return None


def read_number(text: str) -> Fraction | None:
    """Return the value of ``text``, its unit dropped, or None if it is no single number."""
    quantity = read_quantity(text)
    return None if quantity is None else quantity.value


def _read_tail(tail: str, letters: bool) -> tuple[int, str] | None:
    """What stands behind the digits: a factor and a unit, or None for anything else."""
    factor = 1
    while match := _SCALE.match(tail):
        factor *= _SCALES[match[2].lower()]
        tail = tail[: match.start(2)] + tail[match.end(2) :]
    unit = read_unit(tail, letters=letters)
    return None if unit is None else (factor, unit)


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


_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}  # ４２ is 42
_SUPERSCRIPT = re.compile(r"[⁺⁻]?[⁰¹²³⁴-⁹]+")
_RAISED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
_SPELLINGS = dict(
    (
        ("\\\\", "\\\\"),  # the end of a row, which no spacing command may eat from
        *(("−", "-"), ("–", "-"), ("﹣", "-"), ("－", "-"), ("﹪", "%"), ("％", "%")),
        *((r"\$", ""), (r"\%", "%"), ("{,}", ","), (r"\!", ""), (r"\,", " "), ("\u202f", " ")),
        *((r"\(", ""), (r"\)", ""), (r"\[", ""), (r"\]", "")),
        *(("½", " 1/2"), ("¼", " 1/4"), ("¾", " 3/4"), ("⅓", " 1/3"), ("⅔", " 2/3")),
        *((sign, "") for sign in "$€£¥₹₩₽₺₫₪₱฿₴₦¢₡₵₸₼"),
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
