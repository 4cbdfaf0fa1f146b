"""Puts the results of a page's draws side by side, in the form that the notebook stores."""

from collections.abc import Iterable
from typing import Any

from bookkit.authoring.measured import rounded, significant
from bookkit.authoring.page import Content, Page
from bookkit.authoring.proof import proof_context
from bookkit.authoring.reach.ran import Note, ran_symbols
from bookkit.authoring.record import stored_records
from bookkit.authoring.stamp import finder_of
from nbkit.errors import UserError

# What runs the page is no part of it.
RUNNING = tuple(f"bookkit.authoring.{name}." for name in ("run_page", "trace", "watch"))


def summary(
    page: Page,
    content: Content,
    draws: list[str],
    results: list[dict[str, Any]],
    notes: Iterable[Note],
) -> dict[str, Any]:
    """Put the results of a page's draws side by side, in the form that is stored.

    Args:
        page: the page.
        content: its text as it was run.
        draws: the names of the draws.
        results: what run_page.py returned for each of them.
        notes: which functions ran, as `read_notes` returns them.

    Raises:
        UserError: a figure is recorded on some draws only.
    """
    records = [stored_records(result["notebook"]) for result in results]
    names = list(dict.fromkeys(name for found in records for name in found))
    for name in names:
        missing = [draw for draw, found in zip(draws, records, strict=True) if name not in found]
        if missing:
            raise UserError(
                f"{page.name}: record {name!r} is missing on the draw {missing[0]}; "
                "record the same figures whatever the run gives"
            )
    context = proof_context(page.root)
    return {
        "measured": context["date"],
        "commit": context["commit"],
        "code": content.code_digest,
        "processor": context["processor"],
        "versions": context["versions"],
        "draws": draws,
        "processor_seconds": [round(result["processor_seconds"], 1) for result in results],
        "records": {name: rounded([found[name]["value"] for found in records]) for name in names},
        "asserts": _asserts([result["asserts"] for result in results]),
        "ran": [
            name
            for name in ran_symbols(finder_of(page.root), notes)
            if not name.startswith(RUNNING)
        ],
    }


def _asserts(results: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Put the notes of the assertions side by side, by cell and in the order of the page."""
    by_key = [{(one["cell"], one["text"]): one for one in notes} for notes in results]
    keys = dict.fromkeys(key for notes in by_key for key in notes)
    found = []
    for cell, text in sorted(keys, key=lambda key: key[0]):
        ran = [notes.get((cell, text), {}) for notes in by_key]
        slacks = [one.get("slack") for one in ran]
        slack = [None if value is None else significant(value) for value in slacks]
        found.append(
            {
                "cell": cell,
                "text": text,
                "slack": slack if any(value is not None for value in slack) else None,
                "holds": [one.get("holds") for one in ran],
            }
        )
    return found
