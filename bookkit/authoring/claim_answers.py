"""The author's answers to claims without evidence beside them: one file per page, in book/claims.

An answer names a sentence as it stands and says why it is right without evidence on its page:

    - says: A grid has four neighbours for each inner cell.
      because: it is the definition of the grid
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bookkit.authoring.blocks import Block, blocks_of
from bookkit.authoring.claims import sentences_of, unshown_claims
from bookkit.authoring.notebook_file import read_notebook
from bookkit.authoring.quoted_numbers import shown_by_cells
from bookkit.authoring.repository import relative
from bookkit.authoring.stamp import Finding
from nbkit.errors import UserError

ANSWERS = "book/claims"
# The folders whose pages are held to it, and where in ANSWERS the answers for each stand.
HELD = {"notebooks": "", "solutions": "solutions", "book": "book"}
KEYS = {"says", "because"}


@dataclass(frozen=True)
class Answer:
    """Why a sentence is right although nothing beside it shows it."""

    says: str
    because: str


def claim_findings(root: Path, page: Path) -> Iterator[Finding]:
    """Compare the claims of a page with what stands beside them and with the author's answers.

    Args:
        root: the checkout.
        page: a text page; one outside of the folders of `HELD` has no findings.

    Raises:
        UserError: the file of answers or the executed notebook cannot be read.
    """
    folder = relative(page.parent, root)
    if folder not in HELD:
        return
    name, answers_file = relative(page, root), answers_of(root, page)
    answers_name = relative(answers_file, root)
    blocks = list(blocks_of(page.read_text(encoding="utf-8")))
    answers = Counter(answer.says for answer in read_answers(answers_file, answers_name))
    for claim in unshown_claims(blocks, _outputs(page, root, blocks)):
        if claim.sentence not in answers:
            yield Finding(
                name,
                f"nothing beside it shows {' or '.join(map(repr, claim.why))} in: {claim.sentence}",
                f"put evidence beside it, cite or link it, reword it, or answer in {answers_name}",
                claim.line,
            )
    said = _sentences(blocks)
    for sentence, times in answers.items():
        if sentence not in said:
            yield Finding(
                answers_name, f"{name} no longer says: {sentence}", "remove or correct the answer"
            )
        elif times > 1:
            yield Finding(answers_name, f"it answers {times} times: {sentence}", "keep one answer")


def answers_without_page(root: Path) -> Iterator[Finding]:
    """Find files of answers whose page is gone."""
    for folder, place in HELD.items():
        for path in sorted((root / ANSWERS / place).glob("*.yml")):
            if not (root / folder / f"{path.stem}.md").exists():
                name = relative(path, root)
                yield Finding(name, f"there is no {folder}/{path.stem}.md", "remove or rename it")


def answers_of(root: Path, page: Path) -> Path:
    """The file with the answers for a page of one of the folders of `HELD`."""
    return root / ANSWERS / HELD[relative(page.parent, root)] / f"{page.stem}.yml"


def read_answers(path: Path, name: str) -> list[Answer]:
    """Read a file of answers; none where there is no file.

    Raises:
        UserError: it is not a list of pairs of a sentence and a reason, both with words.
    """
    if not path.exists():
        return []
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{name} is not YAML; correct it: {reason}") from error
    if not isinstance(entries, list):
        raise UserError(f"{name} is no list; write each answer as `- says:` and `because:`")
    for number, entry in enumerate(entries, start=1):
        if not _is_answer(entry):
            raise UserError(
                f"{name}: answer {number} needs the keys `says` and `because`, both with words"
            )
    return [Answer(_plain(entry["says"]), _plain(entry["because"])) for entry in entries]


def _outputs(page: Path, root: Path, blocks: Sequence[Block]) -> list[str]:
    path = page.with_suffix(".ipynb")
    notebook = read_notebook(path, relative(path, root)) or {"cells": []}
    return shown_by_cells(notebook, [block.text for block in blocks if block.kind == "cell"])


def _sentences(blocks: Sequence[Block]) -> set[str]:
    return {
        sentence for block in blocks if block.kind == "prose" for _, sentence in sentences_of(block)
    }


def _is_answer(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and set(entry) == KEYS
        and all(isinstance(value, str) and value.strip() for value in entry.values())
    )


def _plain(text: str) -> str:
    return " ".join(text.split())
