"""Word problems in the form of GSM8K (Cobbe et al., 2021): JSON lines of question and answer.

An answer is a worked solution whose last line is ``#### 42``. Calculations in it are annotated,
``<<6*7=42>>42``; the annotations are for a calculator and are taken out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbkit.data.json_lines import json_value, numbered_lines
from nbkit.data.splits import find_split
from nbkit.text.numerals import read_number

_ANNOTATION = re.compile(r"<<[^<>\n]*>>")


@dataclass(frozen=True)
class WordProblem:
    """One problem.

    Attributes:
        question: what is asked.
        solution: the worked solution, without annotations and without its last line.
        answer: the number behind ``####``, as it is written.
        row: number of the row in the file, from 1; 0 if it comes from no file.

    """

    question: str
    solution: str
    answer: str
    row: int = 0

    @property
    def prompt(self) -> str:
        """What a model reads, before any template."""
        return self.question


@dataclass(frozen=True)
class Loaded:
    """The problems of a file, and for each broken row its number (from 1) and what is wrong."""

    problems: tuple[WordProblem, ...]
    broken: Mapping[int, str]


def load_gsm8k(path: Path | str, *, strict: bool = True) -> Loaded:
    """Read problems from JSON lines or Parquet with the fields ``question`` and ``answer``.

    Args:
        path: the file.
        strict: raise if a row is broken; otherwise leave it out and report it.

    Raises:
        ValueError: broken rows, the first ten of them named by number; or no row at all.
        FileNotFoundError: there is no such file.

    """
    problems, broken = [], {}
    for number, line in numbered_lines(path):
        try:
            problems.append(parse_row(json_value(line), number))
        except ValueError as error:  # of the line as of the row
            broken[number] = str(error)
    if broken and strict:
        listed = "; ".join(f"row {n}: {reason}" for n, reason in list(broken.items())[:10])
        raise ValueError(f"{path}: {len(broken)} broken rows: {listed}")
    if not problems and not broken:
        raise ValueError(f"{path}: no rows")
    return Loaded(tuple(problems), broken)


def load_gsm8k_split(data: str | Path, split: str) -> list[WordProblem]:
    """Read a split of GSM8K.

    Args:
        data: a folder with train.jsonl and test.jsonl, or the data set's name on the hub,
            openai/gsm8k, whose folder "main" is taken.
        split: "train" or "test".

    Raises:
        ValueError: no such data set or split; broken rows.

    """
    files = find_split(data, split, config="main")
    return [problem for path in files for problem in load_gsm8k(path).problems]


def parse_row(row: object, number: int = 0) -> WordProblem:
    """Return the problem of a row; ValueError says what it lacks."""
    if not isinstance(row, dict):
        raise ValueError(f"not an object but {type(row).__name__}")
    for field in ("question", "answer"):
        if not isinstance(row.get(field), str) or not row[field].strip():
            raise ValueError(f"no {field}")
    solution, marker, answer = row["answer"].rpartition("####")
    if not marker:
        raise ValueError("the answer has no line with ####")
    if read_number(answer.strip()) is None:
        raise ValueError(f"behind #### stands no number but {answer.strip()[:40]!r}")
    plain = _ANNOTATION.sub("", solution).strip()
    return WordProblem(row["question"].strip(), plain, answer.strip(), number)


def write_gsm8k(path: Path | str, rows: Iterable[Mapping[str, str]]) -> None:
    """Write rows of question and answer as JSON lines."""
    text = "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)
    Path(path).write_text(text, encoding="utf-8")
