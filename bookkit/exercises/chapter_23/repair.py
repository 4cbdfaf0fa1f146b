"""rlvr.repair.1: reward functions with the faults of a published pair."""

import re
from collections.abc import Callable

from bookkit.exercises.chapter_23.equal import read_number, same_number
from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
FORM = re.compile(r"\s*<think>(.*?)</think>\s*<answer>(.*?)</answer>\s*", re.DOTALL)
Pair = tuple[float, float]


def rewards(completion: str, gold: str) -> Pair:
    """1.25 or -1 for the form; 1 or -1 for the number in the answer's tags."""
    return _rewards(completion, gold)


def _rewards(
    completion: str,
    gold: str,
    *,
    tags_once: bool = True,
    filled: bool = True,
    anchored: bool = True,
    blanks: bool = True,
    ordered: bool = True,
    spread: bool = True,
    answer: Callable[[str], str | None] | None = None,
    same: Callable[[str, str], bool] = same_number,
    gate: bool = False,
    low: float = -1.0,
) -> Pair:
    once = all(completion.count(tag) == 1 for tag in TAGS)
    form = re.compile(
        FORM.pattern.replace(r"\s*", "") if not blanks else FORM.pattern,
        re.DOTALL if spread else 0,
    )
    match = form.fullmatch(completion) if anchored else form.search(completion)
    kept = match is not None and (once or not tags_once)
    if not ordered:
        kept, match = once, None
    if filled and match is not None:
        kept = kept and all(part.strip() for part in match.groups())
    text = (answer or _answer)(completion)
    right = text is not None and same(text, gold) and (kept or not gate)
    return (1.25 if kept else low), (1.0 if right else low)


def _answer(completion: str) -> str | None:
    if completion.count("<answer>") != 1 or completion.count("</answer>") != 1:
        return None
    _, _, rest = completion.partition("<answer>")
    inside, closed, _ = rest.partition("</answer>")
    return inside if closed else None


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
        text = text.strip()
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
        ("closed before it is opened", "<think>6</think></answer>7<answer>", "7"),
    )
    return tuple(Case(name, {"completion": text, "gold": gold}) for name, text, gold in pairs)


def _numbers(pattern: str, which: int) -> Callable[[str], str | None]:
    def find(completion: str) -> str | None:
        found = re.findall(pattern, completion)
        return found[which] if found else None

    return find


def _in_tags(pattern: str) -> Callable[[str], str | None]:
    def find(completion: str) -> str | None:
        inside = _answer(completion)
        found = re.findall(pattern, inside) if inside is not None else []
        return found[-1] if found else None

    return find


def _rest_of_text(completion: str) -> str | None:
    if "<answer>" not in completion or completion.count("<answer>") > 1:
        return None
    return completion.partition("<answer>")[2].partition("</answer>")[0]


def _last_answer(completion: str) -> str | None:
    found = re.findall(r"<answer>(.*?)</answer>", completion, re.DOTALL)
    return found[-1] if found else None


def _no_sign(answer: str, gold: str) -> bool:
    ours, theirs = read_number(answer), read_number(gold)
    return ours is not None and theirs is not None and abs(ours) == abs(theirs)


def _near(answer: str, gold: str) -> bool:
    ours, theirs = read_number(answer), read_number(gold)
    return ours is not None and theirs is not None and abs(ours - theirs) < 1e-2


def _text(answer: str, gold: str) -> bool:
    return answer.strip() == gold.strip()


def _mutant(name: str, message: str, **changes: object) -> Mutant:
    def function(completion: str, gold: str) -> Pair:
        return _rewards(completion, gold, **changes)  # type: ignore[arg-type]

    return Mutant(name, function, message)


REPAIR = Exercise(
    id="rlvr.repair.1",
    title="A pair of rewards that can be fooled",
    chapter=23,
    difficulty=4,
    minutes=40,
    goal=(
        "The reward for the form (1.25 or -1) and the reward for the answer (1 or -1): the form is "
        "kept as a whole, and the number between the answer's tags is exactly the gold."
    ),
    outputs=(
        Output("form", "1.25 or -1", "python"),
        Output("correctness", "1 or -1", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=rewards,
    mutants=(
        _mutant(
            "last number of the text",
            "the answer is the last number anywhere in the text: a thought, or a number behind "
            "the tags, is graded. Read what stands between `<answer>` and `</answer>`",
            answer=_numbers(r"[+-]?(?:[0-9][0-9,]*(?:\.[0-9]+)?(?:/[0-9]+)?|\.[0-9]+)", -1),
        ),
        _mutant(
            "a pattern without signs and commas",
            "the pattern for numbers knows no sign, no comma and no bare decimal point, and looks "
            "at the whole text: 7 passes for -7, and of 1,234 it reads 234",
            answer=_numbers(r"[0-9]+\.[0-9]+|[0-9]+/[0-9]+|[0-9]+", -1),
        ),
        _mutant(
            "a number inside the answer",
            "a number somewhere between the tags is enough: `8 or 7` names two, and the last one "
            "is graded. The whole content must be the number",
            answer=_in_tags(r"[+-]?(?:[0-9][0-9,]*(?:\.[0-9]+)?(?:/[0-9]+)?|\.[0-9]+)"),
        ),
        _mutant(
            "sign lost",
            "the sign is lost, so that 7 passes for -7: read it with the number",
            same=_no_sign,
        ),
        _mutant(
            "a tolerance",
            "numbers within a tolerance pass: 0.333 is not 1/3, and the policy will round",
            same=_near,
        ),
        _mutant(
            "compared as text",
            "answers are compared as texts: 1,234 and 1234, or 2/4 and 0.5, are one number",
            same=_text,
        ),
        _mutant(
            "last answer counts",
            "of several answers the last one is graded: a policy may then try as often as it "
            "likes. Each tag of the answer must stand once",
            answer=_last_answer,
        ),
        _mutant(
            "an answer that was cut off",
            "an answer without its closing tag is graded: the model had not finished",
            answer=_rest_of_text,
        ),
        _mutant(
            "tags not counted",
            "a tag may occur twice: a second thought or answer hides inside the first one's "
            "pattern. Count each tag",
            tags_once=False,
        ),
        _mutant(
            "empty parts",
            "an empty thought or a blank answer earns the reward for the form: four tags and "
            "nothing else would be worth more than a right answer without them",
            filled=False,
        ),
        _mutant(
            "form anywhere",
            "the form may stand anywhere in the text: nothing but blanks may stand before or "
            "behind it",
            anchored=False,
        ),
        _mutant(
            "no blanks allowed",
            "a line break between or behind the parts breaks the form: allow blanks there",
            blanks=False,
        ),
        _mutant(
            "one line only",
            "a thought of two lines breaks the form: let `.` match a line break (re.DOTALL)",
            spread=False,
        ),
        _mutant(
            "tags in any order",
            "the tags are counted and their order is not looked at, nor what is between them",
            ordered=False,
        ),
        _mutant(
            "form as a gate",
            "a right answer outside the form counts as wrong: the two rewards are independent "
            "here, and the form is paid for by its own",
            gate=True,
        ),
        _mutant(
            "zero for a miss",
            "a miss earns 0; here it is -1, for the form and for the answer",
            low=0.0,
        ),
    ),
    not_tested="LaTeX and units in the answer, and what a policy makes of these weights.",
)
