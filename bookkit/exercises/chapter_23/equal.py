"""rlvr.equal.1: exact equality of two written numbers."""

import re
from fractions import Fraction

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

NUMBER = re.compile(
    r"([+-]?)(?:((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)"
    r"|([0-9]+)/([0-9]+))(%?)"
)


def read_number(text: str) -> Fraction | None:
    """The value of a written number, or None."""
    match = NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    sign, plain, above, below, percent = match.groups()
    if plain is not None:
        value = Fraction(plain.replace(",", ""))
    elif int(below) == 0:
        return None
    else:
        value = Fraction(int(above), int(below))
    return (-value if sign == "-" else value) / (100 if percent else 1)


def same_number(answer: str, gold: str) -> bool:
    """Compare the values as fractions."""
    value = read_number(answer)
    return value is not None and value == read_number(gold)


def oracle(answer: str, gold: str) -> bool:
    """Character by character to whole numerators and denominators, then cross-multiplied."""
    digits = "0123456789"

    def whole(text: str) -> bool:
        return bool(text) and all(letter in digits for letter in text)

    def read(text: str) -> tuple[int, int] | None:
        text = text.strip()
        sign = -1 if text[:1] == "-" else 1
        text = text[1:] if text[:1] in ("-", "+") else text
        below = 100 if text[-1:] == "%" else 1
        text = text[:-1] if text[-1:] == "%" else text
        if "/" in text:
            top, _, bottom = text.partition("/")
            if not whole(top) or not whole(bottom) or int(bottom) == 0:
                return None
            return sign * int(top), below * int(bottom)
        front, point, behind = text.partition(".")
        if (point and not whole(behind)) or (not point and not front):
            return None
        groups = front.split(",")
        if len(groups) > 1 and not (
            1 <= len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])
        ):
            return None
        if front and not all(whole(group) for group in groups):
            return None
        return sign * int("".join(groups) + behind), below * 10 ** len(behind)

    ours, theirs = read(answer), read(gold)
    return ours is not None and theirs is not None and ours[0] * theirs[1] == theirs[0] * ours[1]


def cases(draw: Draw) -> Case:
    """One value in two spellings, or two values that look alike."""
    n = draw.integer(1, 10 ** draw.choice([1, 2, 4, 7]))
    gold = draw.choice([f"{n}", f"-{n}", f"{n:,}", f"{n}.5"])
    value = read_number(gold)
    assert value is not None
    sign = "-" if value < 0 else ""
    top, bottom = abs(value.numerator), value.denominator
    spelt = [
        f"{sign}{top}/{bottom}",
        f"{sign}{3 * top}/{3 * bottom}",
        f"{sign}{100 * top // bottom}%",
        f" {gold} ",
        gold.replace(",", ""),
        f"{gold}0" if "." in gold else f"{gold}.0",
        f"{top}/{bottom}",
        f"{sign}{top + 1}/{bottom}",
        f"{gold} apples",
        f"{gold}.",
        f"1{gold}",
    ]
    return Case(f"gold {gold}", {"answer": draw.choice(spelt), "gold": gold})


def edges() -> tuple[Case, ...]:
    """The spellings on which published verifiers part."""
    pairs = (
        ("18", "18"),
        ("7", "-7"),
        ("-7", "-7"),
        ("+7", "7"),
        ("1,234", "1234"),
        ("234", "1,234"),
        ("1,23", "123"),
        ("1/2", "0.5"),
        ("2/4", "1/2"),
        ("0.333", "1/3"),
        ("0.3333333333", "1/3"),
        ("50%", "0.5"),
        ("50%", "50"),
        (".5", "0.5"),
        ("12.", "12"),
        ("9007199254740993", "9007199254740992"),
        ("18.0", "18"),
        ("-1/2", "-0.5"),
        ("1/0", "1"),
        ("", "0"),
        ("eighteen", "18"),
        ("18 dollars", "18"),
        (" 18 ", "18"),
        ("-0", "0"),
        ("1/2%", "0.005"),
        ("2*9", "18"),
    )
    return tuple(Case(f"{a!r} and {g!r}", {"answer": a, "gold": g}) for a, g in pairs)


def _as_text(answer: str, gold: str) -> bool:
    return answer.strip() == gold.strip()


def _nearly(answer: str, gold: str) -> bool:
    ours, theirs = read_number(answer), read_number(gold)
    if ours is None or theirs is None:
        return False
    return abs(float(ours) - float(theirs)) < 1e-2


def _as_floats(answer: str, gold: str) -> bool:
    ours, theirs = read_number(answer), read_number(gold)
    return ours is not None and theirs is not None and float(ours) == float(theirs)


def _rounded(answer: str, gold: str) -> bool:
    ours, theirs = read_number(answer), read_number(gold)
    if ours is None or theirs is None:
        return False
    return round(float(ours), 6) == round(float(theirs), 6) and (
        max(abs(ours), abs(theirs)) < 10**15 or ours == theirs
    )


def _no_sign(answer: str, gold: str) -> bool:
    ours, theirs = read_number(answer), read_number(gold)
    return ours is not None and theirs is not None and abs(ours) == abs(theirs)


def _percent_dropped(answer: str, gold: str) -> bool:
    return same_number(answer.strip().rstrip("%"), gold.strip().rstrip("%"))


def _both_percents(answer: str, gold: str) -> bool:
    return same_number(answer, gold) or _percent_dropped(answer, gold)


def _any_comma(answer: str, gold: str) -> bool:
    return same_number(answer.replace(",", ""), gold.replace(",", ""))


def _no_comma(answer: str, gold: str) -> bool:
    return "," not in answer and same_number(answer, gold)


def _no_fraction(answer: str, gold: str) -> bool:
    return "/" not in answer and same_number(answer, gold)


def _a_number_in_it(answer: str, gold: str) -> bool:
    found = re.findall(r"[+-]?[0-9.,/]+%?", answer)
    return bool(found) and same_number(found[-1], gold)


def _evaluated(answer: str, gold: str) -> bool:
    if re.fullmatch(r"[0-9]+\*[0-9]+", answer.strip()):
        left, right = answer.split("*")
        return read_number(gold) == int(left) * int(right)
    return same_number(answer, gold)


def _zero_for_nothing(answer: str, gold: str) -> bool:
    value = read_number(answer)
    return (Fraction(0) if value is None else value) == read_number(gold)


def _final_point(answer: str, gold: str) -> bool:
    return same_number(answer.strip().removesuffix("."), gold)


EQUAL = Exercise(
    id="rlvr.equal.1",
    title="The same number, exactly",
    chapter=23,
    difficulty=3,
    minutes=25,
    goal=(
        "Whether two written numbers have exactly the same value. What is not a number in the "
        "notation of the exercise equals nothing."
    ),
    outputs=(Output("same", "bool", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=same_number,
    mutants=(
        Mutant(
            "compared as text",
            _as_text,
            "the texts are compared: 18.0 and 18, or 2/4 and 1/2, are one number in two spellings",
        ),
        Mutant(
            "within a tolerance",
            _nearly,
            "answers within a tolerance pass: 0.333 is not 1/3, and a policy learns to round; "
            "compare fractions",
        ),
        Mutant(
            "as floats",
            _as_floats,
            "the values are compared as floats: above 2**53 neighbours become equal; whole "
            "numbers and `Fraction` have no such limit",
        ),
        Mutant(
            "rounded to six places",
            _rounded,
            "both are rounded before the comparison: 0.3333333333 then equals 1/3",
        ),
        Mutant(
            "sign lost",
            _no_sign,
            "the sign is lost, so that 7 passes for -7: read it with the number",
        ),
        Mutant(
            "percent ignored",
            _percent_dropped,
            "the percent sign is dropped: 50% is one half here, not fifty",
        ),
        Mutant(
            "percent either way",
            _both_percents,
            "50% passes for one half and for fifty: decide on one, or the policy need not",
        ),
        Mutant(
            "any comma",
            _any_comma,
            "every comma is removed: 1,23 is no number; groups behind a comma have three digits",
        ),
        Mutant(
            "no comma",
            _no_comma,
            "thousands separators are not understood: 1,234 is one thousand two hundred and "
            "thirty-four",
        ),
        Mutant(
            "no fractions",
            _no_fraction,
            "fractions are not understood: 1/2 and 0.5 are one number",
        ),
        Mutant(
            "a number inside",
            _a_number_in_it,
            "a number somewhere in the answer is enough: the whole answer must be one, since what "
            "stands beside it may change its meaning",
        ),
        Mutant(
            "evaluated",
            _evaluated,
            "the answer is evaluated: 2*9 is no number but a task, and a verifier that runs what "
            "a policy writes can be made to run anything",
        ),
        Mutant(
            "zero for what is unreadable",
            _zero_for_nothing,
            "what cannot be read counts as 0: then silence is right whenever the gold is 0",
        ),
        Mutant(
            "final point",
            _final_point,
            "`12.` is accepted: in this notation digits follow the point (leave full stops to the "
            "extraction)",
        ),
    ),
    not_tested="LaTeX, mixed numbers, units, sets, and everything else that is no plain number.",
)
