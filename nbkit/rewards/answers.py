"""The answer inside a completion, and whether it equals the reference: the reward of mathematics.

Where the answer stands is a matter of style; whether it is right is a matter of exact equality.
Numbers are compared as fractions, here and at once. Anything else goes to ``symbolic``, in a
process that can be stopped.
"""

import re

from nbkit._inputs import check_choice
from nbkit.rewards import symbolic
from nbkit.rewards.naming import names_a_value
from nbkit.text.numerals import read_number, read_quantity, tidy, unworded
from nbkit.text.thoughts import without_thoughts

STYLES = ("gsm8k", "boxed", "last-number", "tags")
ACCEPT = ("expression", "value", "number")

_MARKER = "####"
_TAGS = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.DOTALL)
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?![\d,]*\d)|\d+)(?:\.\d+)?|\.\d+"
_FRAC = r"\\frac\s*(?:\{[^{}]*\}|\d)\s*(?:\{[^{}]*\}|\d)"
_NUMBER = re.compile(
    rf"(?P<root>\\sqrt\s*(?:\[\d+\])?\s*(?:\{{[^{{}}]*\}}|\d))"
    rf"|(?P<number>\d+\s*{_FRAC}|{_FRAC}|\d+\s+\d+/\d+(?![\d/])"
    rf"|(?:{_DIGITS})(?:/(?:{_DIGITS})(?![\d/]))?(?:[eE][+-]?\d{{1,3}}(?!\w))?)"
    r"(?P<power>\s*\^\s*(?:\{[^{}]*\}|-?\d+)|\s*\\(?:sqrt|pi|frac|cdot|times)(?![A-Za-z])[^\s]*)?"
    r"(?P<percent>\s*%)?"
)
# Digits, then a sign and more digits at once: 3:45, 125,96, 2.1.7, 12/25/2020.
_GLUED = re.compile(r"[,:./]\d")
# Two answers in one line: 125 or 96, 5 apples and 3 pears, 5 to 6.
_JOINED = re.compile(
    rf"[-+\s]*(?:{_DIGITS})(?![\d,]*\d)\s*%?(?:\s*[A-Za-z]+){{0,3}}?[\s(]*(?:[,;&]|\b(?:or|and|to|vs)\b)"
    r"[\s.(]*(?:or|and|maybe|perhaps|even)?[-+\s]*\.?\d"
)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)(?![A-Za-z])")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_QUOTIENT = re.compile(r"\d\s*/|\\[cdt]?frac")
_FUNCTIONS = {"sqrt", "pi", "sin", "cos", "tan", "log", "ln", "exp", "frac"}


def extract_answer(text: str, *, style: str = "gsm8k") -> str | None:
    """Return the answer that a completion gives, or None if it gives none in that style.

    Args:
        text: the completion.
        style: ``"gsm8k"``: the value after the last ``####``; ``"boxed"``: the last complete
            ``\\boxed{…}``; ``"last-number"``: the last number of the text; ``"tags"``: the last
            complete ``<answer>…</answer>``.

    Returns:
        The answer without Markdown, ``$``, thousands separators, a leading + and a final full stop.
        Fractions stay fractions. ``±5`` is no number: None, unless it stands in a box or tags; so
        are ``125,96`` and ``3:45`` as last number, of which no part is taken.

    **Thoughts give no answer.** What stands in ``<think>…</think>`` is not looked at, nor is what
    follows a ``<think>`` that never ends. Otherwise a policy is paid for a number that it only
    considered, and learns to consider many; who reads the completion gets none of them.

    Raises:
        ValueError: for an unknown style, or a text that is no string.

    """
    _check_text("text", text)
    text = without_thoughts(text)
    if style == "gsm8k":
        return _after_marker(text)
    if style == "boxed":
        content = last_box(text)
        return None if content is None else _whole(content)
    if style == "last-number":
        return _last_number(text)
    if style == "tags":
        contents = _TAGS.findall(text)
        return _whole(contents[-1]) if contents else None
    raise ValueError(f"style must be one of {', '.join(map(repr, STYLES))}; got {style!r}")


def math_score(
    completion: str,
    gold: str,
    *,
    style: str = "gsm8k",
    timeout_s: float = 5.0,
    accept: str = "value",
) -> float:
    """Return 1.0 if the completion's answer equals ``gold`` exactly, else 0.0.

    Equality is symbolic: 1/2 equals 0.5 and ``\\frac{2}{4}``; 0.333 is not 1/3; (1,2) is not (2,1);
    the members of a set or of a bare list have no order; a unit counts only where both sides name
    one, and percent is a unit: ``20%`` is right for 20 and for ``20%``, and 0.2 for neither (GSM8K
    stores percentages as bare numbers). ``x = 5`` stands for 5; an equation between unknowns is
    not the number on its right side. Works in any thread, worker process or event loop.

    Where the gold is a plain number, an answer that equals it may still be the question: a policy
    that writes ``58+77`` for 135 has added nothing. `accept` says what passes.

    Args:
        completion: what the model wrote.
        gold: the reference: a bare answer (LaTeX or not), or a GSM8K answer with its ``####``.
        style: where the completion's answer stands; see ``extract_answer``.
        timeout_s: seconds of the clock for the symbolic comparison. An answer that cannot be
            compared in that time scores 0.0 and is counted in ``symbolic.STATISTICS.timeouts``.
        accept: for a gold that is a plain number: "value" takes any way to write one number (3.5,
            7/2, ``2^{10}``, ``\\sqrt{16}``, ``5!``), but no sum or product of several;
            "number" takes digits alone, and a fraction only where the gold is no whole number
            (``48/2`` is no answer to "a half of 48"); "expression" takes whatever is equal.

    Raises:
        symbolic.GoldError: (a ValueError) the gold holds no answer, or none that can be read,
            whatever the completion says; for "number", a gold that is none.
        ValueError: an unknown style or `accept`.
        symbolic.VerifierError: the verifier itself failed; this says nothing about the answer.

    """
    _check_text("gold", gold)
    check_choice("accept", accept, ACCEPT)
    reference = _reference(gold)
    answer = extract_answer(completion, style=style)
    theirs = read_quantity(reference)
    if accept == "number" and theirs is None:
        raise symbolic.GoldError(f"gold is no number, and accept is 'number': {reference[:80]!r}")
    if theirs is None and (answer is None or answer == reference):
        symbolic.check_gold(reference, timeout_s=timeout_s)
    if answer is None:
        return 0.0
    if answer == reference:
        return 1.0
    ours = read_quantity(answer, letters=theirs is not None)
    if ours is not None and theirs is not None:
        divided = theirs.value.denominator == 1 and _QUOTIENT.search(answer)
        return float(ours.same(theirs) and not (accept == "number" and divided))
    if accept == "number":
        return 0.0
    arithmetic = accept == "expression"
    return float(symbolic.equal(answer, reference, timeout_s=timeout_s, arithmetic=arithmetic))


def last_box(text: str) -> str | None:
    """Return what stands in the last complete ``\\boxed{…}`` or ``\\fbox{…}``, or None.

    A box in a box counts once, and braces that are printed (``\\{``) do not count as braces.
    """
    found = None
    end_of_found = 0
    for match in re.finditer(r"\\f?box(?:ed)?\s*\{", text):
        if match.start() < end_of_found:
            continue  # inside the box just found
        end = _closing_brace(text, match.end())
        if end is not None:
            found, end_of_found = text[match.end() : end], end
    if found is None:
        return None
    inner = last_box(found)
    return found if inner is None else inner


def _closing_brace(text: str, start: int) -> int | None:
    depth = 1
    position = start
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return position
        position += 1
    return None


def _reference(gold: str) -> str:
    if _MARKER in gold:
        answer = _after_marker(gold)
    else:
        boxed = last_box(gold)
        answer = _whole(gold if boxed is None else boxed)
    if not answer:
        raise symbolic.GoldError(f"gold holds no answer: {gold[:80]!r}")
    return answer


def _whole(content: str) -> str | None:
    """Tidy a text that is an answer as a whole; a plain number gets its plain form."""
    content = re.sub(r"(?<!\.)\.$", "", tidy(content)).strip()
    return _canonical(content) or None


def _canonical(text: str) -> str:
    """Give a plain number its plain form; anything else stays as it is."""
    body = text.strip()
    if re.fullmatch(rf"[+-]?\s*(?:{_DIGITS}|\d+\.)(?:[eE][+-]?\d{{1,3}})?\s*%?", body):
        body = body.replace(",", "").replace(" ", "").lstrip("+")
        if "e" in body.lower():
            value = read_number(body)
            if value is not None and value.denominator == 1:
                return str(value.numerator)
        body = re.sub(r"\.(?=%?$)", "", body)
        return re.sub(r"^(-?)\.", r"\g<1>0.", body)
    if re.fullmatch(rf"[+-]?\s*(?:{_DIGITS})\s*/\s*(?:{_DIGITS})", body):
        return body.replace(",", "").replace(" ", "").lstrip("+")
    return body


def _after_marker(text: str) -> str | None:
    start = text.rfind(_MARKER)
    if start < 0:
        return None
    for line in text[start + len(_MARKER) :].splitlines():
        tidied = tidy(line)
        if tidied.strip("*_ "):
            return _value_of_line(tidied.strip("*_ "))
    return None


def _value_of_line(line: str) -> str | None:
    """The value that a line after #### gives: a number, or an expression if it is one."""
    line = re.sub(r"(?<!\.)[.;,!]+$", "", line.strip()).strip()
    box = last_box(line)
    line = unworded(line if box is None else tidy(box)).strip("\"'“”«»")
    if re.fullmatch(r"\(\s*[^(),]*\)|\[\s*[^\[\],]*\]", line):
        line = line[1:-1].strip()
    if not line or line.startswith(("±", r"\pm", "+-", "+/-")):
        return None
    words = [w for w in _WORD.findall(_without_text(line)) if w.lower() not in _FUNCTIONS]
    if "=" in line and (not words or not re.match(r"[-+\s]*[\d.]", line)):
        left, right = line.rsplit("=", 1)
        unknowns = re.search(r"[A-Za-z]", left) and not words
        if unknowns and not names_a_value(left.rsplit("=", 1)[-1], right):
            return line  # an equation, which is no number
        return _value_of_line(left if read_quantity(left) and not read_quantity(right) else right)
    if _JOINED.match(line):
        return line  # two answers are none of them
    if read_quantity(line) is not None and not words:
        # A number with nothing behind it but LaTeX's own units.
        return _canonical(_drop_unit(line))
    match = _NUMBER.match(line.lstrip("+- "))
    if not words and (match is None or match.end() < len(line.lstrip("+- "))):
        return line  # an expression
    found = list(_numbers(line))
    return found[0] if found else None


def _without_text(line: str) -> str:
    return re.sub(r"\\(?:text|textrm|mathrm|mbox|textbf)\s*\{[^{}]*\}", " ", line)


def _drop_unit(line: str) -> str:
    return re.sub(r"(?:\^\s*\{?\\circ\}?|°|\\degree)\s*$", "", _without_text(line)).strip()


def _last_number(text: str) -> str | None:
    found = [n for line in text.splitlines() for n in _numbers(tidy(line))]
    return found[-1] if found else None


def _numbers(line: str) -> list[str | None]:
    """Every number of a line in order; None stands for ±5, which is two, for 125,96 and 3:45."""
    found: list[str | None] = []
    for match in _NUMBER.finditer(line):
        before = line[: match.start()]
        after = line[match.end() :]
        if re.search(r"[A-Za-z_\\^]$|\d[.,/:]$", before) or _ORDINAL.match(after):
            continue  # part of a name, a date, a time, a version; or an ordinal
        if match[0].startswith(".") and before[-1:].isdigit():
            continue  # the end of a version
        if _GLUED.match(after):
            found.append(None)
            continue
        if re.search(r"(?:±|\\pm|\+/?-)\s*$", before):
            found.append(None)
            continue
        found.append(_sign(before) + _canonical(match[0].strip()))
    return found


def _sign(before: str) -> str:
    """A minus is a sign, unless something that can be subtracted from stands before it."""
    match = re.search(r"(^|.)(\s*)-(\s*)$", before, re.DOTALL)
    if match is None:
        return ""
    if match[3] and match[1] != "=" and before.strip() != "-":
        return ""
    if match[1] and re.fullmatch(r"[\w)\]}%]", match[1]):
        # "10-3" and "10 -3" subtract; "is -3" does not.
        return "-" if match[2] and match[1].isalpha() else ""
    return "-"


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a string; got {type(text).__name__}")
