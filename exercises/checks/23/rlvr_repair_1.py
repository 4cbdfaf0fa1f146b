"""rlvr.repair.1: reward functions with the faults of a published pair."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Pair = tuple[float, float]


def oracle(completion: str, gold: str) -> Pair:
    """By positions and pieces, and numbers as whole numerators over powers of ten."""
    places = {}
    for tag in ("<think>", "</think>", "<answer>", "</answer>"):
        first = completion.find(tag)
        places[tag] = first if first == completion.rfind(tag) else -1
    a, b, c, d = places.values()
    form = min(a, b, c, d) >= 0 and a < b < c < d
    form = form and not completion[:a].strip() and not completion[b + 8 : c].strip()
    form = form and not completion[d + 9 :].strip()
    form = form and bool(completion[a + 7 : b].strip()) and bool(completion[c + 8 : d].strip())

    def value(text: str) -> tuple[int, int] | None:
        text = text.strip().removesuffix("%")  # a unit, which changes nothing
        negative = text.startswith("-")
        text = text[1:] if text[:1] in ("-", "+") else text
        if text.count("/") == 1:
            top, bottom = text.split("/")
            if not (top.isdigit() and bottom.isdigit()) or not int(bottom):
                return None
            return (-int(top) if negative else int(top)), int(bottom)
        whole, _, behind = text.partition(".")
        if "," in whole:
            head, *groups = whole.split(",")
            if not 1 <= len(head) <= 3 or any(len(group) != 3 for group in groups):
                return None
            whole = head + "".join(groups)
        if ("." in text and not behind.isdigit()) or not (whole + behind).isdigit():
            return None
        number = int(whole + behind)
        return (-number if negative else number), 10 ** len(behind)

    ours = value(completion[c + 8 : d]) if 0 <= c < d else None
    theirs = value(gold)
    right = ours is not None and theirs is not None and ours[0] * theirs[1] == theirs[0] * ours[1]
    return (1.25 if form else -1.0), (1.0 if right else -1.0)


def cases(draw: Draw) -> Case:
    """A completion that may be right or wrong, in the form or near it."""
    n = draw.integer(1, 10 ** draw.choice([1, 3, 5]))
    gold = draw.choice([f"{n}", f"-{n}", f"{n:,}", f"{n}.5"])
    written = draw.choice([gold, gold.replace(",", ""), f"{n + 1}", f"{n}", f"-{n}"])
    inside = draw.choice([written, f" {written}\n", f"{written} in all", ""])
    thought = draw.choice([f"first {n}, then more", f"{n}\n{n}", " "])
    completion = draw.choice(
        [
            f"<think>{thought}</think><answer>{inside}</answer>",
            f"<think>{thought}</think>\n<answer>{inside}</answer>\n",
            f"<think>{thought}</think><answer>{inside}</answer> so {n}",
            f"<answer>{inside}</answer><think>{thought}</think>",
            f"<think>{thought}</think>{inside}",
            f"{inside}",
            f"<think>{thought}</think><answer>{inside}",
            f"<think>{thought}</think><answer>{n}</answer><answer>{inside}</answer>",
        ]
    )
    return Case(f"gold {gold}", {"completion": completion, "gold": gold})


def edges() -> tuple[Case, ...]:
    """One trap each."""

    def form(thought: str, answer: str) -> str:
        return f"<think>{thought}</think><answer>{answer}</answer>"

    pairs = (
        ("right", form("6 + 1", "7"), "7"),
        ("wrong", form("6 + 1", "8"), "7"),
        ("sign lost", form("0 - 7", "7"), "-7"),
        ("a negative answer", form("0 - 7", "-7"), "-7"),
        ("thousands", form("all", "1,234"), "1234"),
        ("the end of a number", form("all", "234"), "1,234"),
        ("thousands in the gold", form("all", "1234"), "1,234"),
        ("a decimal without a zero", form("half", ".5"), "0.5"),
        ("rounded", form("a third", "0.333"), "1/3"),
        ("a fraction", form("half", "2/4"), "0.5"),
        ("a percent sign", form("half of them", "50%"), "50"),
        ("a percent sign as a division", form("half of them", "50%"), "0.5"),
        ("only the thought is right", form("it is 7", "none"), "7"),
        ("a number behind the answer", form("6 + 1", "8") + " 7", "7"),
        ("right, with words", form("6 + 1", "8 or 7"), "7"),
        ("two answers", form("6 + 1", "8") + "<answer>7</answer>", "7"),
        ("a second thought", "<think>a</think>" + form("6 + 1", "7"), "7"),
        ("an empty thought", form("", "7"), "7"),
        ("a blank answer", form("6 + 1", " "), "7"),
        ("a line between", "<think>6 + 1</think>\n<answer>7</answer>\n", "7"),
        ("a thought of two lines", form("6\n+ 1", "7"), "7"),
        ("answer first", "<answer>7</answer><think>6 + 1</think>", "7"),
        ("no form at all", "7", "7"),
        ("right, without a thought", "<answer>7</answer>", "7"),
        ("cut off", "<think>6 + 1</think><answer>7", "7"),
        ("words before", "Well. " + form("6 + 1", "7"), "7"),
        ("tags in capitals", "<THINK>6 + 1</THINK><ANSWER>7</ANSWER>", "7"),
        ("closed before it is opened", "<think>6</think></answer>7<answer>", "7"),
    )
    return tuple(Case(name, {"completion": text, "gold": gold}) for name, text, gold in pairs)


CHECK = Check(
    id="rlvr.repair.1",
    outputs=(
        Output("form", "1.25 or -1", "python"),
        Output("correctness", "1 or -1", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "last number of the text",
            '    if completion.count("<answer>") == completion.count("</answer>") == 1:\n'
            "        inside, closed, _ = "
            'completion.partition("<answer>")[2].partition("</answer>")\n'
            "        right = bool(closed) and same_number(inside, gold)\n",
            "    numbers = "
            're.findall(r"[+-]?(?:[0-9][0-9,]*(?:\\.[0-9]+)?(?:/[0-9]+)?|\\.[0-9]+)", '
            "completion)\n"
            "    if numbers:\n"
            "        right = same_number(numbers[-1], gold)\n",
            "the answer is the last number anywhere in the text: a thought, or a number "
            "behind the tags, is graded. Read what stands between `<answer>` and "
            "`</answer>`",
        ),
        edit(
            "a pattern without signs and commas",
            '    if completion.count("<answer>") == completion.count("</answer>") == 1:\n'
            "        inside, closed, _ = "
            'completion.partition("<answer>")[2].partition("</answer>")\n'
            "        right = bool(closed) and same_number(inside, gold)\n",
            '    numbers = re.findall(r"[0-9]+\\.[0-9]+|[0-9]+/[0-9]+|[0-9]+", '
            "completion)\n"
            "    if numbers:\n"
            "        right = same_number(numbers[-1], gold)\n",
            "the pattern for numbers knows no sign, no comma and no bare decimal point, "
            "and looks at the whole text: 7 passes for -7, and of 1,234 it reads 234",
        ),
        edit(
            "a number inside the answer",
            "same_number(inside, gold)",
            "same_number(\n"
            '            (["", '
            '*re.findall(r"[+-]?(?:[0-9][0-9,]*(?:\\.[0-9]+)?(?:/[0-9]+)?|\\.[0-9]+)", '
            "inside)])[-1], gold\n"
            "        )",
            "a number somewhere between the tags is enough: `8 or 7` names two, and the "
            "last one is graded. The whole content must be the number",
        ),
        edit(
            "sign lost",
            "same_number(inside, gold)",
            "None not in (\n"
            "            ours := read_number(inside), theirs := read_number(gold)\n"
            "        ) and abs(ours) == abs(theirs)",
            "the sign is lost, so that 7 passes for -7: read it with the number",
        ),
        edit(
            "a tolerance",
            "same_number(inside, gold)",
            "None not in (\n"
            "            ours := read_number(inside), theirs := read_number(gold)\n"
            "        ) and abs(ours - theirs) < 1e-2",
            "numbers within a tolerance pass: 0.333 is not 1/3, and the policy will round",
        ),
        edit(
            "compared as text",
            "same_number(inside, gold)",
            "inside.strip() == gold.strip()",
            "answers are compared as texts: 1,234 and 1234, or 2/4 and 0.5, are one number",
        ),
        edit(
            "last answer counts",
            '    if completion.count("<answer>") == completion.count("</answer>") == 1:\n'
            "        inside, closed, _ = "
            'completion.partition("<answer>")[2].partition("</answer>")\n'
            "        right = bool(closed) and same_number(inside, gold)\n",
            '    answers = re.findall(r"<answer>(.*?)</answer>", completion, re.DOTALL)\n'
            "    if answers:\n"
            "        right = same_number(answers[-1], gold)\n",
            "of several answers the last one is graded: a policy may then try as often as "
            "it likes. Each tag of the answer must stand once",
        ),
        edits(
            "an answer that was cut off",
            (
                'completion.count("<answer>") == completion.count("</answer>") == 1',
                'completion.count("<answer>") == 1',
            ),
            ("bool(closed) and ", ""),
            message="an answer without its closing tag is graded: the model had not finished",
        ),
        edit(
            "tags not counted",
            "if once and filled",
            "if filled",
            "a tag may occur twice: a second thought or answer hides inside the first "
            "one's pattern. Count each tag",
        ),
        edit(
            "empty parts",
            " and all(part.strip() for part in match.groups())",
            "",
            "an empty thought or a blank answer earns the reward for the form: four tags "
            "and nothing else would be worth more than a right answer without them",
        ),
        edit(
            "form anywhere",
            "re.fullmatch(shape",
            "re.search(shape",
            "the form may stand anywhere in the text: nothing but blanks may stand before "
            "or behind it",
        ),
        edit(
            "no blanks allowed",
            "shape, completion, re.DOTALL",
            'shape.replace(r"\\s*", ""), completion, re.DOTALL',
            "a line break between or behind the parts breaks the form: allow blanks there",
        ),
        edit(
            "one line only",
            "completion, re.DOTALL",
            "completion",
            "a thought of two lines breaks the form: let `.` match a line break (re.DOTALL)",
        ),
        edit(
            "tags in any order",
            "if once and filled",
            "if once",
            "the tags are counted and their order is not looked at, nor what is between them",
        ),
        edit(
            "form as a gate",
            "(1.0 if right else",
            "(1.0 if right and once and filled else",
            "a right answer outside the form counts as wrong: the two rewards are "
            "independent here, and the form is paid for by its own",
        ),
        edit(
            "zero for a miss",
            "else -1.0), (1.0 if right else -1.0)",
            "else 0.0), (1.0 if right else 0.0)",
            "a miss earns 0; here it is -1, for the form and for the answer",
        ),
    ),
    not_tested="LaTeX and units in the answer, and what a policy makes of these weights.",
)
