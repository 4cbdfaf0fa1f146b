"""rlhf.pairs.1: read preference pairs, and say which rows were left out and why."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

MARK = "\n\nAssistant:"
Rows = list[dict[str, str]]
Pairs = list[tuple[str, str, str]]
Bad = list[tuple[int, str]]


def read_pairs(rows: Rows) -> tuple[Pairs, Bad]:
    """Split each text behind its last mark; check the two halves."""
    return _read(rows)


def _read(
    rows: Rows,
    *,
    first: bool = False,
    keep_mark: bool = True,
    strip: bool = True,
    same_prompt: bool = True,
    empty: bool = True,
    equal: bool = True,
    equal_text: bool = False,
    report: bool = True,
    numbered: str = "row",
    stop: bool = False,
    from_rejected: bool = False,
    swap: bool = False,
) -> tuple[Pairs, Bad]:
    kept: Pairs = []
    bad: Bad = []
    for row, texts in enumerate(rows):
        parts = {}
        for side in ("chosen", "rejected"):
            text = texts[side]
            at = text.find(MARK) if first else text.rfind(MARK)
            cut = at + (len(MARK) if keep_mark else 0)
            answer = text[at + len(MARK) :]
            parts[side] = None if at < 0 else (text[:cut], answer.strip() if strip else answer)
        chosen, rejected = parts["chosen"], parts["rejected"]
        fault = None
        if chosen is None or rejected is None:
            fault = "missing turn"
        elif same_prompt and chosen[0] != rejected[0]:
            fault = "different prompts"
        elif empty and (not chosen[1].strip() or not rejected[1].strip()):
            fault = "empty answer"
        elif equal and (
            texts["chosen"] == texts["rejected"] if equal_text else chosen[1] == rejected[1]
        ):
            fault = "equal pair"
        if fault is None and chosen is not None and rejected is not None:
            answers = (rejected[1], chosen[1]) if swap else (chosen[1], rejected[1])
            kept.append(((rejected if from_rejected else chosen)[0], *answers))
        elif fault is not None:
            number = {"row": row, "line": row + 1, "kept": len(kept)}[numbered]
            bad += [(number, fault)] if report else []
            if stop:
                break
    return kept, bad


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


def _mutant(name: str, message: str, **how) -> Mutant:  # type: ignore[no-untyped-def]
    return Mutant(name, lambda rows: _read(rows, **how), message)


PAIRS = Exercise(
    id="rlhf.pairs.1",
    title="Preference pairs, and the rows that are none",
    chapter=21,
    difficulty=2,
    minutes=25,
    goal=(
        "Split each row into prompt, chosen and rejected answer; leave out rows with a missing "
        "turn, different prompts, an empty answer or an equal pair, and report each by its row."
    ),
    outputs=(
        Output("pairs", "a list of (prompt, chosen, rejected)", "python"),
        Output("bad", "a list of (row, reason)", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=read_pairs,
    mutants=(
        _mutant(
            "split at the first answer",
            "the text is split at the first turn of the assistant: in a dialogue of several turns "
            "the prompt goes up to the last one",
            first=True,
        ),
        _mutant(
            "mark lost",
            "the prompt ends before the mark of the assistant: keep it, since it is what tells the "
            "model that an answer comes next",
            keep_mark=False,
        ),
        _mutant(
            "answers not stripped",
            "blanks around an answer are kept: they are the format's, not the writer's",
            strip=False,
        ),
        _mutant(
            "prompts not compared",
            "the two prompts are never compared: a row whose answers belong to different questions "
            "is no comparison",
            same_prompt=False,
        ),
        _mutant(
            "empty answers kept",
            "empty answers are kept: an answer of blanks is no answer",
            empty=False,
        ),
        _mutant(
            "equal pairs kept",
            "pairs of equal answers are kept: their loss is log 2 whatever the model thinks",
            equal=False,
        ),
        _mutant(
            "whole texts compared",
            "the texts are compared before blanks are stripped, so that answers which differ in a "
            "blank pass for a comparison: compare the answers that you keep",
            equal_text=True,
        ),
        _mutant(
            "silent",
            "bad rows vanish without a word: report each, or nobody learns that half of the file "
            "was lost",
            report=False,
        ),
        _mutant(
            "rows counted from 1",
            "rows are counted from 1; here the first row is 0",
            numbered="line",
        ),
        _mutant(
            "only kept rows are counted",
            "a bad row is reported with the number of rows kept so far: count every row, so that "
            "it can be found in the file",
            numbered="kept",
        ),
        _mutant(
            "stops at the first bad row",
            "reading ends at the first bad row: leave it out and go on",
            stop=True,
        ),
        _mutant(
            "chosen and rejected swapped",
            "the two answers are swapped: the chosen one comes first",
            swap=True,
        ),
    ),
    not_tested="missing fields, bad JSON, and pairs that truncation makes equal.",
)
