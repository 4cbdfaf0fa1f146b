"""rlvr.extract.1: the last complete box of a completion."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="rlvr.extract.1",
    outputs=(Output("answer", "str or None", "python", may_be_none=True),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "up to the first closing brace",
            '    opening = "\\\\boxed{"\n',
            "    import re\n"
            "\n"
            '    found = re.findall(r"\\\\boxed\\{(.*?)\\}", text, re.DOTALL)\n'
            "    return found[-1].strip() if found else None\n"
            '    opening = "\\\\boxed{"\n',
            "the box ends at the first closing brace: braces nest, so count how many are open",
        ),
        edit(
            "up to the last closing brace",
            '    opening = "\\\\boxed{"\n',
            "    import re\n"
            "\n"
            '    found = re.findall(r"\\\\boxed\\{(.*)\\}", text, re.DOTALL)\n'
            "    return found[-1].strip() if found else None\n"
            '    opening = "\\\\boxed{"\n',
            "the box reaches to the last closing brace of the text: a greedy pattern "
            "swallows what stands between, so count how many braces are open",
        ),
        edits(
            "first box",
            ("text.rfind(opening)", "text.find(opening)"),
            ("text.rfind(opening, 0, start)", "text.find(opening, start + 1)"),
            message="the first box is taken: a model that corrects itself writes the answer it "
            "means last",
        ),
        edit(
            "gives up at a broken box",
            "text.rfind(opening, 0, start)",
            "-1",
            "a last box that was cut off hides the complete one before it: go on to the "
            "opening before",
        ),
        edit(
            "rest of the text",
            "start = text.rfind(opening, 0, start)",
            "return text[begin:].strip()",
            "a box without its closing brace counts as an answer: a completion that was "
            "cut off has not given one",
        ),
        edit(
            "printed braces counted",
            'text[position] == "\\\\"',
            "False",
            "`\\{` and `\\}` are counted as braces: they are printed characters, so skip "
            "what follows a backslash",
        ),
        edit(
            "not stripped",
            ".strip()",
            "",
            "blanks at both ends of the answer are kept: strip them, or equal answers differ",
        ),
        edit(
            "empty text for none",
            "return None",
            'return ""',
            "a text without a complete box gives an empty string: return None, so that "
            "`no answer` and `an empty answer` stay apart",
        ),
        edit(
            "none for empty",
            "return text[begin:position].strip()",
            "return text[begin:position].strip() or None",
            "an empty box gives None: the model did answer, with nothing; `or` takes an "
            "empty string for a missing one",
        ),
        edit(
            "command kept",
            "return text[begin:position].strip()",
            'return opening + text[begin:position].strip() + "}"',
            "the command and its braces belong to the notation: return only what stands inside",
        ),
    ),
    not_tested="other notations (a marker, tags, the last number) and whether the answer is right.",
)
