"""rlvr.equal.1: exact equality of two written numbers."""

import re
from fractions import Fraction

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

NUMBER = re.compile(
    r"([+-]?)(?:((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)"
    r"|([0-9]+)/([0-9]+))%?"
)


def read_number(text: str) -> Fraction | None:
    """The value of a written number, or None."""
    match = NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    sign, plain, above, below = match.groups()
    if plain is not None:
        value = Fraction(plain.replace(",", ""))
    elif int(below) == 0:
        return None
    else:
        value = Fraction(int(above), int(below))
    return -value if sign == "-" else value


def oracle(answer: str, gold: str) -> bool:
    """Character by character to whole numerators and denominators, then cross-multiplied."""
    digits = "0123456789"

    def whole(text: str) -> bool:
        return bool(text) and all(letter in digits for letter in text)

    def read(text: str) -> tuple[int, int] | None:
        text = text.strip()
        sign = -1 if text[:1] == "-" else 1
        text = text[1:] if text[:1] in ("-", "+") else text
        text = text[:-1] if text[-1:] == "%" else text  # a unit, which changes nothing
        if "/" in text:
            top, _, bottom = text.partition("/")
            if not whole(top) or not whole(bottom) or int(bottom) == 0:
                return None
            return sign * int(top), int(bottom)
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
        return sign * int("".join(groups) + behind), 10 ** len(behind)

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
        f"{gold}%",
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
        ("50", "50%"),
        ("50%", "50%"),
        ("0.5", "50%"),
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
        ("1/2%", "0.5"),
        ("1/2%", "0.005"),
        ("%", "0"),
        ("50%%", "50"),
        ("2*9", "18"),
    )
    return tuple(Case(f"{a!r} and {g!r}", {"answer": a, "gold": g}) for a, g in pairs)


CHECK = Check(
    id="rlvr.equal.1",
    outputs=(Output("same", "bool", "python"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "compared as text",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    return answer.strip() == gold.strip()",
            "the texts are compared: 18.0 and 18, or 2/4 and 1/2, are one number in two spellings",
        ),
        edit(
            "within a tolerance",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    ours, theirs = read_number(answer), read_number(gold)\n"
            "    return ours is not None and theirs is not None and abs(float(ours) - "
            "float(theirs)) < 1e-2",
            "answers within a tolerance pass: 0.333 is not 1/3, and a policy learns to "
            "round; compare fractions",
        ),
        edit(
            "as floats",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    ours, theirs = read_number(answer), read_number(gold)\n"
            "    return ours is not None and theirs is not None and float(ours) == "
            "float(theirs)",
            "the values are compared as floats: above 2**53 neighbours become equal; "
            "whole numbers and `Fraction` have no such limit",
        ),
        edit(
            "rounded to six places",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    ours, theirs = read_number(answer), read_number(gold)\n"
            "    return ours is not None and theirs is not None and (\n"
            "        round(float(ours), 6) == round(float(theirs), 6)\n"
            "        and (max(abs(ours), abs(theirs)) < 10**15 or ours == theirs)\n"
            "    )",
            "both are rounded before the comparison: 0.3333333333 then equals 1/3",
        ),
        edit(
            "sign lost",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    ours, theirs = read_number(answer), read_number(gold)\n"
            "    return ours is not None and theirs is not None and abs(ours) == "
            "abs(theirs)",
            "the sign is lost, so that 7 passes for -7: read it with the number",
        ),
        edit(
            "percent divides",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    value, wanted = read_number(answer), read_number(gold)\n"
            "    if value is None or wanted is None:\n"
            "        return False\n"
            '    percent = [100 if "%" in text else 1 for text in (answer, gold)]\n'
            "    return value / percent[0] == wanted / percent[1]",
            "the percent sign divides by 100: it is a unit here, so that 50% is 50, not one half",
        ),
        edit(
            "percent either way",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    value, wanted = read_number(answer), read_number(gold)\n"
            "    if value is None or wanted is None:\n"
            "        return False\n"
            '    percent = [100 if "%" in text else 1 for text in (answer, gold)]\n'
            "    return value == wanted or value / percent[0] == wanted / percent[1]",
            "50% passes for one half and for fifty: take one reading, or wrong answers pass",
        ),
        edit(
            "percent not read",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    value = read_number(answer)\n"
            '    bare = "%" not in answer and "%" not in gold\n'
            "    return bare and value is not None and value == read_number(gold)",
            "a number with a percent sign is refused: the sign is a unit, and 50% is 50",
        ),
        edits(
            "any comma",
            ("read_number(answer)", 'read_number(answer.replace(",", ""))'),
            ("read_number(gold)", 'read_number(gold.replace(",", ""))'),
            message="every comma is removed: 1,23 is no number; groups behind a comma have three "
            "digits",
        ),
        edit(
            "no comma",
            "value is not None and value == read_number(gold)",
            '"," not in answer and value is not None and value == read_number(gold)',
            "thousands separators are not understood: 1,234 is one thousand two hundred "
            "and thirty-four",
        ),
        edit(
            "no fractions",
            "value is not None and value == read_number(gold)",
            '"/" not in answer and value is not None and value == read_number(gold)',
            "fractions are not understood: 1/2 and 0.5 are one number",
        ),
        edit(
            "a number inside",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            '    found = re.findall(r"[+-]?[0-9.,/]+%?", answer)\n'
            "    value = read_number(found[-1]) if found else None\n"
            "    return value is not None and value == read_number(gold)",
            "a number somewhere in the answer is enough: the whole answer must be one, "
            "since what stands beside it may change its meaning",
        ),
        edit(
            "evaluated",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    value = read_number(answer)\n"
            '    if re.fullmatch(r"[0-9]+\\*[0-9]+", answer.strip()):\n'
            '        left, right = answer.split("*")\n'
            "        value = int(left) * int(right)\n"
            "    return value is not None and value == read_number(gold)",
            "the answer is evaluated: 2*9 is no number but a task, and a verifier that "
            "runs what a policy writes can be made to run anything",
        ),
        edit(
            "zero for what is unreadable",
            "    value = read_number(answer)\n"
            "    return value is not None and value == read_number(gold)",
            "    value = read_number(answer)\n"
            "    return (0 if value is None else value) == read_number(gold)",
            "what cannot be read counts as 0: then silence is right whenever the gold is 0",
        ),
        edit(
            "final point",
            "read_number(answer)",
            'read_number(answer.strip().removesuffix("."))',
            "`12.` is accepted: in this notation digits follow the point (leave full "
            "stops to the extraction)",
        ),
    ),
    not_tested="LaTeX, mixed numbers, units, sets, digits other than 0 to 9, and everything else "
    "that is no plain number.",
)
