"""rlvr.extract.1: the last complete box of a completion."""

import re
from collections.abc import Callable

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

OPENING = r"\boxed{"


def last_box(text: str) -> str | None:
    """Look for the closing brace of each opening, from the last opening to the first."""
    start = text.rfind(OPENING)
    while start >= 0:
        begin = start + len(OPENING)
        end = _closing(text, begin)
        if end is not None:
            return text[begin:end].strip()
        start = text.rfind(OPENING, 0, start)
    return None


def _closing(text: str, begin: int) -> int | None:
    depth, position = 1, begin
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
        position += 1
    return None


def oracle(text: str) -> str | None:
    """One pass from the left with a stack of open braces; each box is noted when it closes."""
    stack: list[int | None] = []
    boxes: list[tuple[int, str]] = []
    position = 0
    while position < len(text):
        if text.startswith("\\boxed{", position):
            stack.append(position + 7)
            position += 7
        elif text[position] == "\\":
            position += 2
        else:
            if text[position] == "{":
                stack.append(None)
            elif text[position] == "}" and stack:
                begin = stack.pop()
                if begin is not None:
                    boxes.append((begin, text[begin:position].strip()))
            position += 1
    return max(boxes)[1] if boxes else None


def cases(draw: Draw) -> Case:
    """Sentences with boxes, some nested in braces, some broken off."""
    inside = ["7", r"\frac{1}{2}", "x^{2}", r"\{1, 2\}", r"\sqrt{3}", "-12", " 5 "]
    parts = []
    for _ in range(draw.dimension()):
        number = draw.integer(1, 99)
        parts.append(
            draw.choice(
                [
                    f"so {number} ",
                    f"the set {{{number}}} ",
                    rf"\boxed{{{draw.choice(inside)}}} ",
                    rf"hence \boxed{{{draw.choice(inside)}}}. ",
                ]
            )
        )
    broken = draw.choice(["", "", "", r"or \boxed{8", r"or \boxed{\frac{1}{"])
    return Case(f"{len(parts)} parts", {"text": "".join(parts) + broken})


def edges() -> tuple[Case, ...]:
    """Nesting, several boxes, escapes, a box that was cut off, none at all."""

    def case(name: str, text: str) -> Case:
        return Case(name, {"text": text})

    return (
        case("one box", r"The answer is \boxed{42}."),
        case("no box", "The answer is 42."),
        case("braces inside", r"\boxed{\frac{1}{2}}"),
        case("two boxes", r"\boxed{3}, no, \boxed{5}"),
        case("braces behind", r"\boxed{3} for all x in {1}"),
        case("cut off", r"\boxed{3"),
        case("cut off after a whole one", r"\boxed{3}, so \boxed{5"),
        case("a printed brace", r"\boxed{\{1\}, 2} and }"),
        case("an opening brace that is printed", r"\boxed{\{1}"),
        case("blanks", r"\boxed{ 7 }"),
        case("empty", r"\boxed{}"),
        case("two boxes with braces inside", r"\boxed{x^{2}}, or \boxed{y^{3}} {}"),
    )


def _regex(pattern: str, which: int) -> Callable[[str], str | None]:
    def function(text: str) -> str | None:
        found = re.findall(pattern, text, re.DOTALL)
        return found[which].strip() if found else None

    return function


def _first_box(text: str) -> str | None:
    for match in re.finditer(re.escape(OPENING), text):
        end = _closing(text, match.end())
        if end is not None:
            return text[match.end() : end].strip()
    return None


def _gives_up(text: str) -> str | None:
    start = text.rfind(OPENING)
    if start < 0:
        return None
    end = _closing(text, start + len(OPENING))
    return None if end is None else text[start + len(OPENING) : end].strip()


def _rest_when_open(text: str) -> str | None:
    start = text.rfind(OPENING)
    if start < 0:
        return None
    end = _closing(text, start + len(OPENING))
    return text[start + len(OPENING) : end].strip()


def _no_escapes(text: str) -> str | None:
    start = text.rfind(OPENING)
    while start >= 0:
        depth = 1
        for position in range(start + len(OPENING), len(text)):
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            if depth == 0:
                return text[start + len(OPENING) : position].strip()
        start = text.rfind(OPENING, 0, start)
    return None


def _not_stripped(text: str) -> str | None:
    start = text.rfind(OPENING)
    while start >= 0:
        begin = start + len(OPENING)
        end = _closing(text, begin)
        if end is not None:
            return text[begin:end]
        start = text.rfind(OPENING, 0, start)
    return None


def _empty_for_none(text: str) -> str | None:
    return last_box(text) or ""


def _none_for_empty(text: str) -> str | None:
    return last_box(text) or None


def _with_command(text: str) -> str | None:
    found = last_box(text)
    return None if found is None else OPENING + found + "}"


EXTRACT = Exercise(
    id="rlvr.extract.1",
    title="The last complete box",
    chapter=23,
    difficulty=2,
    minutes=20,
    goal=(
        "What stands in the last complete \\boxed{…} of a text, without blanks around it; None if "
        "there is none. Braces nest, and \\{ and \\} are printed and do not count."
    ),
    outputs=(Output("answer", "str or None", "python", may_be_none=True),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=last_box,
    mutants=(
        Mutant(
            "up to the first closing brace",
            _regex(r"\\boxed\{(.*?)\}", -1),
            "the box ends at the first closing brace: braces nest, so count how many are open",
        ),
        Mutant(
            "up to the last closing brace",
            _regex(r"\\boxed\{(.*)\}", -1),
            "the box reaches to the last closing brace of the text: a greedy pattern swallows what "
            "stands between, so count how many braces are open",
        ),
        Mutant(
            "first box",
            _first_box,
            "the first box is taken: a model that corrects itself writes the answer it means last",
        ),
        Mutant(
            "gives up at a broken box",
            _gives_up,
            "a last box that was cut off hides the complete one before it: go on to the opening "
            "before",
        ),
        Mutant(
            "rest of the text",
            _rest_when_open,
            "a box without its closing brace counts as an answer: a completion that was cut off "
            "has not given one",
        ),
        Mutant(
            "printed braces counted",
            _no_escapes,
            "`\\{` and `\\}` are counted as braces: they are printed characters, so skip what "
            "follows a backslash",
        ),
        Mutant(
            "not stripped",
            _not_stripped,
            "blanks at both ends of the answer are kept: strip them, or equal answers differ",
        ),
        Mutant(
            "empty text for none",
            _empty_for_none,
            "a text without a complete box gives an empty string: return None, so that `no "
            "answer` and `an empty answer` stay apart",
        ),
        Mutant(
            "none for empty",
            _none_for_empty,
            "an empty box gives None: the model did answer, with nothing; `or` takes an empty "
            "string for a missing one",
        ),
        Mutant(
            "command kept",
            _with_command,
            "the command and its braces belong to the notation: return only what stands inside",
        ),
    ),
    not_tested="other notations (a marker, tags, the last number) and whether the answer is right.",
)
