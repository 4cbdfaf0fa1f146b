"""One expression, in the LaTeX that the parser of ``equality`` knows."""

import re

from nbkit.text.units import WRAPPERS

OPEN, CLOSE = "([{", ")]}"
WORDING = re.compile(rf"\\(?:{WRAPPERS})\s*\{{([^{{}}]*)\}}")
NAMED: tuple[str, ...] = (
    *("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "cot", "sec"),
    *("csc", "log", "ln", "exp", "pi"),
)
_ARGUMENTS = {"frac": 2, "binom": 2, "sqrt": 1}
_TAKES = re.compile(r"\\(frac|binom|sqrt)(?![A-Za-z])")
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)")


def latex(text: str) -> str:
    """Return one expression in the LaTeX that the parser knows; decimals become fractions.

    Raises:
        ValueError: a command such as ``\\frac`` lacks an argument.

    """
    text = WORDING.sub(r"\1", text)
    text = re.sub(r"\^\s*\{?\\circ\}?|°", "", text)
    text = text.replace("**", "^").replace("·", r"\cdot ").replace("×", r"\times ")
    text = re.sub(r"(?<!\\)\*", r"\\cdot ", text)
    text = re.sub(r"\)\s*\(", r")\\cdot (", text)  # which the parser adds up if both hold numbers
    text = text.replace("√", r"\sqrt ").replace("π", r"\pi ").replace("∞", r"\infty ")
    for name in NAMED:
        text = re.sub(rf"(?<![\\A-Za-z]){name}(?![A-Za-z])", rf"\\{name} ", text)
    text = re.sub(r"(?<![\\A-Za-z])sqrt\s*\(", r"\\sqrt(", text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", braced(text))
    text = re.sub(r"(\d*)\.(\d*)\\overline\s*\{\s*(\d+)\s*\}", _recurring, text)
    return re.sub(r"(\d*)\.(\d+)", _exact_decimal, text).strip()


def braced(text: str) -> str:
    r"""Put braces round the arguments of ``\frac``, ``\binom``, ``\sqrt``, ``^`` and ``_``.

    TeX takes the next token: ``\frac1e``, ``\sqrt\pi``, ``2^\frac12``. As people write it,
    ``\sqrt(8)`` takes the bracket.

    Raises:
        ValueError: an argument is missing.

    """
    out, position = "", 0
    while position < len(text):
        taking = _TAKES.match(text, position)
        raised = re.compile(r"([_^])\s*(?=\\)").match(text, position)
        if taking:
            piece, position = _command(text, taking)
            out += piece
        elif raised:
            argument, position = _argument(text, raised.end())
            out += f"{raised[1]}{{{argument}}}"
        else:
            out += text[position]
            position += 1
    return out


def _command(text: str, match: re.Match[str]) -> tuple[str, int]:
    """A command with its arguments in braces, and where it ends."""
    piece, position = match[0], match.end()
    index = re.compile(r"\s*\[([^\[\]]*)\]").match(text, position)
    if match[1] == "sqrt" and index:
        piece, position = piece + (f"[{index[1]}]" if index[1].strip() else ""), index.end()
    for _ in range(_ARGUMENTS[match[1]]):
        argument, position = _argument(text, position, bracket=match[1] == "sqrt")
        piece += f"{{{argument}}}"
    return piece, position


def _argument(text: str, position: int, bracket: bool = False) -> tuple[str, int]:
    while position < len(text) and text[position].isspace():
        position += 1
    if position == len(text) or text[position] in CLOSE + "+-=,&":
        raise ValueError(f"not readable, an argument is missing: {text[:80]!r}")
    if text[position] == "{" or (bracket and text[position] == "("):
        end = closing(text, position)
        if end is None:
            raise ValueError(f"not readable, a bracket is not closed: {text[:80]!r}")
        return braced(text[position + 1 : end]), end + 1
    taking = _TAKES.match(text, position)
    if taking:
        return _command(text, taking)
    command = _COMMAND.match(text, position)
    end = command.end() if command else position + 1
    return text[position:end], end


def closing(text: str, start: int) -> int | None:
    """The index of the bracket that closes the one at ``start``, of whatever kind."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] in OPEN:
            depth += 1
        elif text[position] in CLOSE:
            depth -= 1
            if depth == 0:
                return position
    return None


def split(text: str, separator: str) -> list[str]:
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
        depth += (text[position] in OPEN) - (text[position] in CLOSE)
        position += 1
    return [*parts, text[last:]]


def as_written(text: str) -> str | None:
    """Return a text to compare as it is written, or None for a broken one.

    For notation that the parser does not know (``\\triangle ABC``, ``a_1, \\ldots, a_n``): equal
    where it is the same but for spaces. Broken is what has brackets without partners, or an
    operator without what it works on.
    """
    depths = dict.fromkeys(OPEN, 0)
    for character in text:
        if character in OPEN:
            depths[character] += 1
        elif character in CLOSE:
            depths[OPEN[CLOSE.index(character)]] -= 1
        if depths["{"] < 0:
            return None
    if depths["{"] or depths["("] + depths["["]:
        return None
    squeezed = re.sub(r"\s+", "", re.sub(r"(?<=[A-Za-z])\s+(?=[A-Za-z])", "\0", text))
    if re.match(r"[*/^_=<>,)]", squeezed) or re.search(r"[-+*/^_=<>,\\(]$", squeezed):
        return None
    if re.search(r"[*/^_=<>+-][*/^_=<>]|\{\}", squeezed):
        return None
    return squeezed.replace("\0", " ")


def _exact_decimal(match: re.Match[str]) -> str:
    return rf"(\frac{{{int(match[1] + match[2])}}}{{{10 ** len(match[2])}}})"


def _recurring(match: re.Match[str]) -> str:
    """A recurring decimal: the repeated digits stand over as many nines."""
    whole, fixed, repeated = match.groups()
    nines = 10 ** len(repeated) - 1
    top = int(whole + fixed or "0") * nines + int(repeated)
    return rf"(\frac{{{top}}}{{{nines * 10 ** len(fixed)}}})"
