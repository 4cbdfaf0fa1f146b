"""Units as people and models write them behind a number: words, symbols, powers, percent.

Read are ``km/h``, ``\\text{ kcal m}^{-2}``, ``°C``, ``\\mu\\text{m}``, ``元``, ``apples`` and the
``th`` of ordinals. A unit comes back in one spelling, in which two units can be compared; values
are never converted.
"""

import re

WRAPPERS = "text|textrm|textnormal|textbf|textit|mathrm|mathbf|mathit|mbox|operatorname"
WRAPPED = re.compile(
    rf"(?:\\(?:{WRAPPERS})\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}|\{{\\rm\s((?:[^{{}}])*)\}})"
)
MAX_WORDS = 6
PERCENT = "%"

_ORDINAL = re.compile(r"\s*\^?\s*\{?\s*(?:st|nd|rd|th)\s*\}?\s*")
_DEGREE = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°|\\degree(?![A-Za-z]))\s*")
_DEGREES = re.compile(r"\s*(?:degrees?|deg\.?)\s+(?=[CF])|\s*(?=[℃℉])")
_CELSIUS = re.compile(r"([CF])(?:elsius|ahrenheit)?")
_TOKEN = re.compile(
    r"(?P<word>(?:\\mu\s*|[µμ])[A-Za-z]+|\\(?:AA|Omega|ohm)(?![A-Za-z])|[^\W\d_]+(?:['’-][^\W\d_]+)*)"
    r"\.?(?:\s*\^\s*(?:\{\s*(?P<braced>[+-]?\d)\s*\}|(?P<bare>[+-]?\d)))?"
    r"|(?P<sign>/|\\cdot(?![A-Za-z])|[·⋅*()])|(?P<space>[\s,{}]+)"
)
_UNIT_BEGINS = re.compile(rf"%|\s*\\(?:{WRAPPERS}|mu)(?![A-Za-z])|\s+[^\W\d_]{{2}}")
_VOWEL = re.compile(r"[aeiouyAEIOUY]")
_PRODUCT = re.compile(r"[xyz]{2,}|[abc]{2,}")  # 2xy is a product, 2 km a length

_NOT_UNITS = {
    *("and", "or", "to", "not", "plus", "minus", "times", "over", "by", "divided", "remainder"),
    *("is", "are", "with", "if", "but", "mod", "choose", "factorial", "squared", "cubed", "half"),
    *("sqrt", "pi", "sin", "cos", "tan", "log", "ln", "exp", "approximately", "about", "less"),
    *("halves", "third", "thirds", "fourths", "fifths", "sixths", "tenths", "hundredths"),
    *("thousandths", "infinity", "negative", "versus", "vs", "mod", "cot", "sec", "csc", "binom"),
}
# The spelling that stands for all of a row; what is in no row stands for itself.
_ROWS = """
    metre meter m; centimetre centimeter cm; millimetre millimeter mm; kilometre kilometer km
    inch inches in; foot feet ft; yard yd; mile mi; gram gramme g; kilogram kilogramme kg kgs kilo
    milligram mg; tonne ton; pound lb lbs; ounce oz; litre liter l; millilitre milliliter ml
    second sec secs s; minute min mins; hour hr hrs h; day; week wk; month; year yr yrs
    ° degree deg; radian rad; newton n; joule j; kilojoule kj; watt w; kilowatt kw
    volt v; ampere amp a; kelvin k; pascal pa
    kilopascal kpa; hertz hz; mole mol; calorie cal; kilocalorie kcal; å angstrom \\aa
    ohm ω \\omega \\ohm; unit; dollar usd; cent; euro eur; nm nanometre nanometer; ev; mph; gb; mb
    kč czk; yuan 元 rmb; rupee inr rs; gal gallon; pt pint; qt quart; coulomb c; tesla t; farad f
    tablespoon tbsp; teaspoon tsp; rpm; kph kmh; fps; piece pc pcs; point pts; byte; bit
    decibel db; khz; mhz; ghz; ly lightyear; au; ppm; psi; hp; kwh; wh; bpm; kb; tb;
    mpa; gpa; cc; dl; cl; ng; ms; ns; mw; gw
    square sq; cubic cu
"""
_ALIAS = {
    spelling: row.split()[0]
    for row in _ROWS.replace("\n", ";").split(";")
    for spelling in row.split()
}
_NAMES = frozenset(_ALIAS.values())
_SYMBOLS_OF_NUMBERS = frozenset("eixyzn")
_SYMBOLS = frozenset("msghlLKNJWVACFT")  # a letter that is read as a unit without \text


def read_unit(tail: str, *, letters: bool = False, known: bool = False) -> str | None:
    """Return the unit that ``tail`` is, in one spelling; "" for none, None where it is no unit.

    Args:
        tail: what stands behind a number.
        letters: read one letter behind a space as a unit too, as in ``3 h``. In a reference it
            may be a variable; beside a reference that is a bare number it can be none.
        known: outside ``\\text`` take units of the table only, and no other words.

    """
    if not tail.strip(" .,;"):
        return ""
    if _DEGREE.fullmatch(tail):
        return "°"
    spaced = tail[0].isspace()
    plain, wrapped = WRAPPED.subn(lambda match: f" {match[1] or match[2] or ''} ", tail)
    if not plain.strip():
        return ""
    if _ORDINAL.fullmatch(plain):
        return "th"
    if re.match(r"\s*(?:%|per\s?cent|pct)", plain):
        rest = re.sub(r"\s*(?:%|per\s?cent(?:age)?|pct)", "", plain, count=1)
        return PERCENT if re.fullmatch(r"[\w\s.,]*", rest) and not re.search(r"\d", rest) else None
    degrees = _DEGREE.match(plain) or _DEGREES.match(plain)
    if degrees:
        scale = plain[degrees.end() :].strip().replace("℃", "C").replace("℉", "F")
        match = _CELSIUS.fullmatch(scale)
        return f"°{match[1]}" if match else None
    tokens = _tokens(plain)
    if tokens is None or not _may_be_unit(tokens, bool(wrapped), spaced, letters, known):
        return None
    return _spelling(tokens)


def split_unit(text: str) -> tuple[str, str] | None:
    """Return an expression and the unit behind it, as in ``5\\sqrt{5}\\text{ cm}``, or None."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "{([") - (character in "})]")
        head, tail = text[:position].strip(), text[position:]
        if depth or not head or head[-1] in "+-*/^_=<>," or not _UNIT_BEGINS.match(tail):
            continue
        unit = read_unit(tail, known=True)
        if unit and not (unit == PERCENT and re.search(r"[\w)}]\s*[+-]", head)):
            return head, unit
    return None


def _tokens(text: str) -> list[tuple[str, int]] | None:
    """Words with their powers and the signs between them (power 0), or None."""
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        if match["word"]:
            found.append((match["word"], int(match["braced"] or match["bare"] or 1)))
        elif match["sign"]:
            found.append((match["sign"], 0))
        position = match.end()
    return found


def _may_be_unit(
    tokens: list[tuple[str, int]], wrapped: bool, spaced: bool, letters: bool, known: bool
) -> bool:
    words = [word for word, power in tokens if power]
    if not words or len(words) > MAX_WORDS or any(w.lower() in _NOT_UNITS for w in words):
        return False
    signs = "".join(word for word, power in tokens if not power)
    if tokens[0][0] in ("*", "·", "⋅", r"\cdot", ")"):
        return False
    if wrapped:  # 2\text{e} and 2\mathrm{x} are products all the same
        return not (len(words) == 1 and words[0] in _SYMBOLS_OF_NUMBERS)
    if "(" in signs and "/(" not in signs:
        return False
    if all(word in _SYMBOLS for word in words):
        return spaced and (("/" in signs and tokens[0][1] != 0) or (letters and len(words) == 1))
    return any(len(word) > 1 or not word.isascii() for word in words) and all(
        word in _SYMBOLS or word.lower() in ("a", "per") or _is_word(word, spaced, known)
        for word in words
    )


def _is_word(word: str, spaced: bool, known: bool) -> bool:
    if word.startswith("\\"):
        return True
    if not word.isascii():
        return not re.fullmatch(r"[\u0370-\u03ff]", word)  # π and its kin are numbers or variables
    if len(word) > 1 and _name(word.lower()) in _NAMES:
        return True
    if known or len(word) < 2 or _PRODUCT.fullmatch(word):
        return False
    return bool(_VOWEL.search(word)) and len(word) > (2 if spaced else 3)


def _spelling(tokens: list[tuple[str, int]]) -> str:
    """One spelling: ``m/s^2``, ``m s^{-2}`` and ``metres per second squared`` are one unit."""
    powers: dict[str, int] = {}
    sign, factor, inside = 1, 1, False
    for word, power in tokens:
        lower = word.lower()
        if word == "/" or lower == "per":
            sign, inside = -1, False
        elif word == "(":
            inside = True
        elif word == ")":
            inside, sign = False, 1
        elif lower in ("square", "sq"):
            factor = 2
        elif lower in ("cubic", "cu"):
            factor = 3
        elif power:
            name = _name(lower)
            powers[name] = powers.get(name, 0) + sign * factor * power
            factor = 1
            sign = sign if inside else 1
    return " ".join(f"{name}^{power}" if power != 1 else name for name, power in powers.items())


def _name(word: str) -> str:
    word = re.sub(r"^(?:\\mu\s*|[µμ])", "µ", word)
    if word in _ALIAS:
        return _ALIAS[word]
    single = word.removesuffix("s") if len(word) > 3 else word
    return _ALIAS.get(single, single)
