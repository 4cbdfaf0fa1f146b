"""Grades one notebook: its cells run in a sandbox, its functions are asked there, and judged here.

The oracles, the checks and the solutions never enter the sandbox, and the cases are drawn from a
seed that no learner has seen. A cell or a function that uses up its time, or ends its process,
costs itself: a new sandbox runs the other cells again and goes on.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import cloudpickle

from bookkit.authoring.notebook_file import join, read_notebook
from bookkit.authoring.reach.sources import without_magics
from bookkit.authoring.split import TRY_IT
from bookkit.authoring.suite.untouched import checked_ids
from bookkit.exercises.bench import Bench, Finding
from bookkit.exercises.check import question_names, verdict_of
from bookkit.exercises.compare import find_problem
from bookkit.exercises.exercise import Exercise, call_with_inputs
from bookkit.exercises.registry import get_exercise, sections_of_chapter
from bookkit.exercises.solution import Section
from bookkit.grading.box import Allowance, Box, Ended
from bookkit.grading.wire import BadReply, decode_seen
from nbkit.errors import UserError

State = Literal["passed", "failed", "not written", "missing", "ended"]
MOST_BOXES = 6  # of one notebook; each death costs one


@dataclass(frozen=True)
class Mark:
    """The outcome of one exercise: its state, one sentence on what is wrong, its marks."""

    exercise: str
    state: State
    sentence: str
    marks: int
    out_of: int


@dataclass(frozen=True)
class Step:
    """One thing to do with a notebook: run a cell, given by its number and source, or ask."""

    number: int
    source: str = ""
    section: Section | None = None


class Grader:
    """Grades notebooks with the same cases for all.

    Args:
        seed: of the cases.
        allowance: of each sandbox, for one cell or exercise.
        notebook_s: seconds of processor time that one notebook may take.
    """

    def __init__(self, seed: int, allowance: Allowance, notebook_s: float = 300.0) -> None:
        self.seed = seed
        self.allowance = allowance
        self.notebook_s = notebook_s
        self._bench = lru_cache(maxsize=None)(lambda name: Bench(get_exercise(name), seed))

    def grade(self, path: Path, chapter: int) -> list[Mark]:
        """The marks of one notebook, one for each exercise of its chapter, in their order."""
        sections = sections_of_chapter(chapter)
        try:
            notebook = read_notebook(path, path.name)
        except (UserError, RecursionError, UnicodeDecodeError) as error:
            return [_mark(s, "missing", f"the notebook cannot be read: {error}") for s in sections]
        assert notebook is not None
        run = _Run(self, steps_of(notebook, sections))
        marks = run.marks()
        return [marks[section.id] for section in sections]

    def ask(self, box: Box, section: Section, left_s: float) -> Mark:
        """Ask a sandbox for one exercise, and judge what it did.

        Raises:
            Ended: the sandbox is no more.
            BadReply: what came back was written by something else.
        """
        bench = self._bench(section.id)
        exercise = bench.exercise
        started = time.perf_counter()
        reply = box.ask(order_of(bench, section.function), left_s)
        if not isinstance(reply, dict) or not isinstance(reply.get("seen"), list):
            raise BadReply("a reply that is no answer")
        if reply.get("missing"):
            return _mark(section, "missing", f"no cell defines {section.function}")
        misfit = reply.get("misfit")
        findings = [_finding(exercise, bench, i, seen) for i, seen in enumerate(reply["seen"])]
        if (
            not misfit
            and len(findings) < len(bench.runs)
            and all(f.problem is None for f in findings)
        ):
            raise BadReply("fewer answers than questions")
        stand_in = _named(section.function)
        text = str(misfit) if misfit else None
        result = verdict_of(bench, findings, text, stand_in, started=started)
        if result.passed:
            return _mark(section, "passed", "")
        if result.message.startswith("○"):
            return _mark(section, "not written", "the function raises NotImplementedError")
        said = " ".join(result.mistakes) or result.message.split("\n")[1].strip()
        return _mark(section, "failed", said)


def order_of(bench: Bench, function: str) -> dict[str, Any]:
    """All questions of a bench as an order for a sandbox; no answers are in it."""
    exercise = bench.exercise
    questions = [
        ({k: v for k, v in run.inputs.items() if k not in exercise.hidden}, run.weights)
        for run in bench.runs
    ]
    return {
        "function": function,
        "names": question_names(bench),
        "call": _pickled(exercise.call),
        "outputs": tuple(output.name for output in exercise.outputs),
        "gradient_to": exercise.gradient_to,
        "no_gradient_to": exercise.no_gradient_to,
        "questions": questions,
        "seconds": exercise.time_limit_s,
    }


def _pickled(call: Callable[..., Any]) -> bytes:
    """The way to call a function, by value: the module of its check is not in the sandbox."""
    if call is call_with_inputs:
        return b""
    module = sys.modules[call.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(call))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _finding(exercise: Exercise, bench: Bench, place: int, reply: Any) -> Finding:
    if place >= len(bench.runs):
        raise BadReply("more answers than questions")
    run, seen = bench.runs[place], decode_seen(reply)
    problem = find_problem(exercise, seen, run.answers, run.gradients, run.dtype)
    return Finding(run, seen, problem)


def _named(name: str) -> Callable[..., Any]:
    def stand_in() -> None:
        """Gives a verdict the name of a function that ran elsewhere."""

    stand_in.__name__ = name
    return stand_in


def steps_of(notebook: Mapping[str, Any], sections: tuple[Section, ...]) -> list[Step]:
    """What to do with a notebook, in its order; an exercise without its check comes last."""
    by_id = {section.id: section for section in sections}
    steps: list[Step] = []
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        source = without_magics(join(cell["source"]))
        ids = [name for name in checked_ids(source) if name in by_id]
        if ids:
            steps += [Step(number, section=by_id.pop(name)) for name in ids if name in by_id]
        elif TRY_IT not in cell["metadata"].get("tags", []) and source.strip():
            steps.append(Step(number, source))
    return steps + [Step(len(cells) + 1, section=section) for section in by_id.values()]


class _Run:
    """One notebook on its way through as many sandboxes as it breaks."""

    def __init__(self, grader: Grader, steps: list[Step]) -> None:
        self.grader, self.steps = grader, steps
        self.done: list[Step] = []
        self.box: Box | None = None
        self.boxes = 0
        self.spent_s = 0.0

    def marks(self) -> dict[str, Mark]:
        """The mark of every exercise by its id."""
        found: dict[str, Mark] = {}
        try:
            for step in self.steps:
                try:
                    self._do(step, found)
                except (Ended, BadReply) as error:
                    self._drop()
                    if step.section is not None:
                        found[step.section.id] = _mark(step.section, "ended", f"{error}")
        finally:
            self._drop()
        return found

    def _do(self, step: Step, found: dict[str, Mark]) -> None:
        left = self.grader.notebook_s - self.spent_s - (self.box.seconds if self.box else 0.0)
        if left <= 0 or (self.box is None and self.boxes >= MOST_BOXES):
            raise Ended("not run: the notebook has used up its processor time or its sandboxes")
        if self.box is None:
            self.box = Box(self.grader.allowance)
            self.boxes += 1
            for earlier in self.done:
                self._cell(self.box, earlier, left)
        limit = min(left, self.grader.allowance.processor_s)
        if step.section is not None:
            found[step.section.id] = self.grader.ask(self.box, step.section, limit)
        else:
            self._cell(self.box, step, limit)
            self.done.append(step)

    def _cell(self, box: Box, step: Step, limit_s: float) -> None:
        reply = box.ask({"cell": {"number": step.number, "source": step.source}}, limit_s)
        if not isinstance(reply, dict) or set(reply) != {"error"}:
            raise BadReply("a reply that is no answer to a cell")

    def _drop(self) -> None:
        if self.box is not None:
            self.spent_s += self.box.seconds
            self.box.close()
            self.box = None


def _mark(section: Section, state: State, sentence: str) -> Mark:
    marks = section.difficulty if state == "passed" else 0
    return Mark(section.id, state, " ".join(sentence.split()), marks, section.difficulty)
