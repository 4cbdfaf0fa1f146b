"""UltraFeedback: several completions a prompt, rated; the best against a random other one.

Zephyr (Tunstall et al., arXiv:2310.16944, section 3) takes the completion of the highest overall
score as chosen and a random one of the rest as rejected. The data come in two forms: raw, with
"instruction" and "completions" that carry an "overall_score" (Cui et al., arXiv:2310.01377); and
binarised, with chats "chosen" and "rejected" and their scores.

In the published raw file an overall 1 was often stored as 10 (OpenBMB/UltraFeedback, issue 8): it
makes the worst answer the chosen one. A 10 that the completion's own ratings contradict is not
believed, and not guessed to be a 1 either: the row is left out and reported. The binarised form
carries no ratings, so there nothing can be told.
"""

import random
from functools import partial
from pathlib import Path
from typing import Any

from nbkit._inputs import check_choice
from nbkit.data.preferences import (
    Loaded,
    Message,
    Preference,
    RowError,
    chat_field,
    checked,
    load_rows,
    number_field,
    text_field,
)
from nbkit.data.splits import find_split

HIGHEST, MIDDLE = 10.0, 3.0
FORMS = ("auto", "binarised", "completions")


def parse_completions(row: dict[str, Any], number: int, *, seed: int) -> Preference:
    """Return the best completion against a random other one.

    The choice depends on the seed and on the number of the row alone, so that it does not change
    when another row is dropped. A text that equals the best one, or that has its score, is no
    candidate for the rejected side.

    Raises:
        RowError: "missing field", "wrong type", "too few completions", "tied scores" (all scores
            are equal), "equal pair" (all others are the same text), "empty answer", "missing turn",
            "contradicted score" (a 10 beside ratings of 1 to 5 whose mean is below 3).

    """
    prompt = [Message("user", text_field(row, "instruction"))]
    if row.get("completions") is None:
        raise RowError("missing field", "completions")
    if not isinstance(row["completions"], list):
        raise RowError("wrong type", "completions is no list")
    rated = [_rated(entry, i) for i, entry in enumerate(row["completions"])]
    if len(rated) < 2:
        raise RowError("too few completions", f"{len(rated)}; a pair needs two")
    best_score, best = max(rated, key=lambda pair: pair[0])  # the first of equals
    worse = [(score, text) for score, text in rated if score < best_score]
    if not worse:
        raise RowError("tied scores", f"all {len(rated)} completions have {best_score:g}")
    others = [(score, text) for score, text in worse if text.strip() != best.strip()]
    if not others:
        raise RowError("equal pair", best.strip()[:60])
    score, other = random.Random(f"{seed} {number}").choice(others)
    return checked(prompt, best, other, number, best_score - score)


def _rated(entry: Any, place: int) -> tuple[float, str]:
    name = f"completions[{place}]"
    if not isinstance(entry, dict):
        raise RowError("wrong type", f"{name} is a {type(entry).__name__}")
    for key in ("response", "overall_score"):
        if entry.get(key) is None:
            raise RowError("missing field", f"{name}.{key}")
    if not isinstance(entry["response"], str):
        raise RowError("wrong type", f"{name}.response is no text")
    score = number_field(entry["overall_score"], f"{name}.overall_score")
    mean = _mean_rating(entry)
    if score == HIGHEST and mean is not None and mean < MIDDLE:
        raise RowError("contradicted score", f"{name}: overall {score:g}, ratings {mean:g} of 5")
    return score, entry["response"]


def _mean_rating(entry: dict[str, Any]) -> float | None:
    """The mean of a completion's ratings (1 to 5), or None where it has none."""
    found = entry.get("annotations")
    aspects = list(found.values()) if isinstance(found, dict) else []
    written = [aspect.get("Rating") for aspect in aspects if isinstance(aspect, dict)]
    ratings = [rating for rating in map(_rating, written) if rating is not None]
    if ratings:
        return sum(ratings) / len(ratings)
    return _rating(entry.get("fine-grained_score"))


def _rating(written: object) -> float | None:
    """A rating, which the file stores as text, and as "N/A" where none was given."""
    try:
        rating = float(written) if isinstance(written, str | int | float) else None
    except ValueError:
        return None
    return rating if rating is not None and 1 <= rating <= 5 else None


def parse_binarised(row: dict[str, Any], number: int) -> Preference:
    """Return the pair of a row of the binarised form.

    Raises:
        RowError: "missing field", "wrong type", "unknown role", "missing turn", "different
            prompts", "tied scores", "empty answer", "equal pair".

    """
    chosen, rejected = chat_field(row, "chosen"), chat_field(row, "rejected")
    for name, chat in (("chosen", chosen), ("rejected", rejected)):
        if len(chat) < 2 or chat[-1].role != "assistant":
            raise RowError("missing turn", f"{name} must hold a prompt and an assistant's answer")
    if chosen[:-1] != rejected[:-1]:
        raise RowError("different prompts", "chosen and rejected differ before their last turn")
    margin = None
    if row.get("score_chosen") is not None and row.get("score_rejected") is not None:
        scores = [
            number_field(row[f"score_{side}"], f"score_{side}") for side in ("chosen", "rejected")
        ]
        margin = scores[0] - scores[1]
        if margin <= 0:
            raise RowError("tied scores", f"chosen {scores[0]:g}, rejected {scores[1]:g}")
    return checked(chosen[:-1], chosen[-1].content, rejected[-1].content, number, margin)


def load_ultrafeedback(path: Path | str, *, seed: int = 0, form: str = "auto") -> Loaded:
    """Read UltraFeedback; broken rows are in the report.

    Args:
        path: ".jsonl", ".jsonl.gz" or ".parquet"; a folder that holds such a file of the split
            train_prefs or train; or a name on the hub, HuggingFaceH4/ultrafeedback_binarized or
            openbmb/UltraFeedback.
        seed: of the choice among the completions that are not the best.
        form: "completions" (raw), "binarised", or "auto": what a row with "completions" says.

    Raises:
        ValueError: an unknown `form`.
        FileNotFoundError: there is no such file.

    """
    check_choice("form", form, FORMS)
    is_file = Path(path).suffix in (".jsonl", ".gz", ".parquet")
    files = [Path(path)] if is_file else find_split(path, "train_prefs", "train")
    parse = partial(_parse, seed=seed, form=form)
    return load_rows(files[0] if len(files) == 1 else files, parse)


def _parse(row: dict[str, Any], number: int, *, seed: int, form: str) -> Preference:
    if form == "completions" or (form == "auto" and "completions" in row):
        return parse_completions(row, number, seed=seed)
    return parse_binarised(row, number)
