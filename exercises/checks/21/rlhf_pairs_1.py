"""rlhf.pairs.1: read preference pairs, and say which rows were left out and why."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

MARK = "\n\nAssistant:"


Rows = list[dict[str, str]]


Pairs = list[tuple[str, str, str]]


Bad = list[tuple[int, str]]


def oracle(rows: Rows) -> tuple[Pairs, Bad]:
    """Walk through the characters of each text."""
    kept, bad = [], []
    for row in range(len(rows)):
        halves = []
        for side in ("chosen", "rejected"):
            text, end = rows[row][side], -1
            for i in range(len(text)):
                if text[i : i + len("\n\nAssistant:")] == "\n\nAssistant:":
                    end = i + len("\n\nAssistant:")
            halves.append(None if end < 0 else (text[:end], text[end:].strip()))
        one, other = halves
        if one is None or other is None:
            bad.append((row, "missing turn"))
        elif one[0] != other[0]:
            bad.append((row, "different prompts"))
        elif one[1] == "" or other[1] == "":
            bad.append((row, "empty answer"))
        elif one[1] == other[1]:
            bad.append((row, "equal pair"))
        else:
            kept.append((one[0], one[1], other[1]))
    return kept, bad


def dialogue(*turns: str) -> str:
    """Turns of human and assistant in the format of the data set."""
    speakers = ("\n\nHuman:", MARK)
    return "".join(f"{speakers[i % 2]} {turn}" for i, turn in enumerate(turns))


def pair(*turns: str, chosen: str, rejected: str) -> dict[str, str]:
    """One row whose two answers follow the same turns."""
    return {"chosen": dialogue(*turns, chosen), "rejected": dialogue(*turns, rejected)}


def cases(draw: Draw) -> Case:
    """Some good rows and some of each fault, in any order."""
    rows = []
    for i in range(draw.dimension()):
        turns = [f"question {i}"]
        for k in range(draw.integer(0, 2)):
            turns += [f"answer {k}", f"and {k}?"]
        kind = draw.choice(["good", "good", "good", "empty", "equal", "missing", "different"])
        row = pair(*turns, chosen=f"yes {i}", rejected=f"no {i}")
        if kind == "empty":
            row = pair(*turns, chosen=" ", rejected="no")
        elif kind == "equal":
            row = pair(*turns, chosen="same", rejected="same ")
        elif kind == "missing":
            row = {**row, "rejected": dialogue(turns[0])}
        elif kind == "different":
            row = {**row, "rejected": dialogue(*turns[:-1], "what else?", f"no {i}")}
        rows.append(row)
    return Case(f"rows: {len(rows)}", {"rows": rows})


def edges() -> tuple[Case, ...]:
    """A good row, several turns, each fault alone, faults between good rows, nothing."""
    good = pair("May I?", chosen="Yes, do.", rejected="No.")
    long = pair("Hello", "Hi! What is it?", "Tea?", chosen="Earl Grey.", rejected="Coffee.")
    missing = {"chosen": dialogue("May I?"), "rejected": dialogue("May I?", "No.")}
    no_rejected = {"chosen": dialogue("May I?", "No."), "rejected": dialogue("May I?")}
    different = {"chosen": dialogue("May I?", "Yes."), "rejected": dialogue("Must I?", "No.")}
    named: dict[str, Rows] = {
        "no rows": [],
        "a good row": [good],
        "several turns": [long],
        "the chosen answer is missing": [missing],
        "the rejected answer is missing": [no_rejected],
        "different prompts": [different],
        "an empty answer": [pair("May I?", chosen="Yes.", rejected="")],
        "an answer of blanks": [pair("May I?", chosen="  ", rejected="No.")],
        "an equal pair": [pair("May I?", chosen="Yes.", rejected="Yes.")],
        "equal but for a blank": [pair("May I?", chosen="Yes.", rejected="Yes. \n")],
        "a bad row between good ones": [good, missing, long],
        "two bad rows": [different, good, missing, good],
    }
    return tuple(Case(name, {"rows": rows}) for name, rows in named.items())


CHECK = Check(
    id="rlhf.pairs.1",
    outputs=(
        Output("pairs", "a list of (prompt, chosen, rejected)", "python"),
        Output("bad", "a list of (row, reason)", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "split at the first answer",
            "rfind",
            "find",
            "the text is split at the first turn of the assistant: in a dialogue of "
            "several turns the prompt goes up to the last one",
        ),
        edit(
            "mark lost",
            'texts[side][:end] for side, end in zip(("chosen", "rejected"), ends)',
            'texts[side][:cut] for side, cut in zip(("chosen", "rejected"), cuts)',
            "the prompt ends before the mark of the assistant: keep it, since it is what "
            "tells the model that an answer comes next",
        ),
        edits(
            "answers not stripped",
            (".strip()", ""),
            ("not all(answers)", "not all(answer.strip() for answer in answers)"),
            message="blanks around an answer are kept: they are the format's, not the writer's",
        ),
        edit(
            "prompts not compared",
            "prompts[1]",
            "prompts[0]",
            "the two prompts are never compared: a row whose answers belong to different "
            "questions is no comparison",
        ),
        edit(
            "empty answers kept",
            "not all(answers)",
            "False",
            "empty answers are kept: an answer of blanks is no answer",
        ),
        edit(
            "equal pairs kept",
            "answers[0] == answers[1]",
            "False",
            "pairs of equal answers are kept: their loss is log 2 whatever the model thinks",
        ),
        edit(
            "whole texts compared",
            "answers[0] == answers[1]",
            'texts["chosen"] == texts["rejected"]',
            "the texts are compared before blanks are stripped, so that answers which "
            "differ in a blank pass for a comparison: compare the answers that you keep",
        ),
        edit(
            "silent",
            "return pairs, bad",
            "return pairs, []",
            "bad rows vanish without a word: report each, or nobody learns that half of "
            "the file was lost",
        ),
        edit(
            "rows counted from 1",
            "enumerate(rows)",
            "enumerate(rows, start=1)",
            "rows are counted from 1; here the first row is 0",
        ),
        edit(
            "only kept rows are counted",
            "for row, texts in enumerate(rows):",
            "for texts in rows:\n        row = len(pairs)",
            "a bad row is reported with the number of rows kept so far: count every row, "
            "so that it can be found in the file",
        ),
        edit(
            "stops at the first bad row",
            "    for row, texts in enumerate(rows):\n",
            "    for row, texts in enumerate(rows):\n        if bad:\n            break\n",
            "reading ends at the first bad row: leave it out and go on",
        ),
        edit(
            "chosen and rejected swapped",
            "pairs.append((prompts[0], answers[0], answers[1]))",
            "pairs.append((prompts[0], answers[1], answers[0]))",
            "the two answers are swapped: the chosen one comes first",
        ),
    ),
    not_tested="missing fields, bad JSON, and pairs that truncation makes equal.",
)
