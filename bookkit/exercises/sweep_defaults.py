"""Wrong answers of a second kind: a parameter that is ignored, or a shortcut at its usual value.

`if beta == 0: return scores`, `eos_id or 0`, a mask that is only looked at when it has an entry:
such a function is right wherever the parameter has another value. So a check must ask at the
default and at the neutral values of each parameter; the sweep finds where none does.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bookkit.exercises.bench import Bench, Run, prepare
from bookkit.exercises.compare import find_problem
from bookkit.exercises.exercise import Exercise, call_with_inputs
from bookkit.exercises.limits import TimeLimitReached, time_limit
from bookkit.exercises.observe import observe, random_state_kept
from bookkit.exercises.special import Setting

# What libraries and papers take where nothing is said, by the name of the parameter.
USUAL: Mapping[str, tuple[float, ...]] = {
    "beta": (0.1,),
    "clip": (0.2,),
    "low": (0.2,),
    "high": (0.2, 2.0),
    "gamma": (0.99,),
    "lam": (0.95,),
}
NEUTRAL: tuple[float, ...] = (0.0, 1.0)
SECONDS = 0.5  # that the oracle may take for a case
# What a function may take: at 0 slots a schedule has no end, and its list fills the memory.
LIMIT_SECONDS = 2.0
CASES = 6  # drawn cases that are asked again at a value
Inputs = dict[str, Any]
Answer = Callable[..., Any]


@dataclass(frozen=True)
class Shortcut:
    """A spoilt reference: where a setting holds it asks or answers something else."""

    name: str
    setting: Setting
    ask: Callable[[Run], Inputs] = lambda run: run.inputs
    answer: Callable[[Exercise, Inputs], Answer] = lambda exercise, inputs: exercise.reference


def settings(bench: Bench) -> Iterator[Setting]:
    """The special values of all parameters that are a number or a mask."""
    exercise = bench.exercise
    parameters = inspect.signature(exercise.reference).parameters
    for name, value in bench.runs[0].inputs.items():
        if name in exercise.hidden:
            continue
        if exercise.call is not call_with_inputs and name not in parameters:
            continue  # of it the call makes a policy, a generator, an environment
        is_mask = isinstance(value, Tensor) and value.dtype == torch.bool
        if is_mask or type(value) is bool:
            yield from (Setting(name, False), Setting(name, True))
        elif type(value) in (int, float):
            whole = type(value) is int
            for special in (*NEUTRAL, *USUAL.get(name, ())):
                if not whole or special == int(special):
                    yield Setting(name, special)


def ignored(bench: Bench) -> list[str]:
    """The settings that may be put in place of whatever is given, and nothing is noticed."""
    return [
        f"{setting.name} whatever is given"
        for setting in settings(bench)
        if all(_right(run, setting.put_in(run.inputs)) for run in _in_turn(bench.runs))
    ]


def early(bench: Bench) -> list[str]:
    """The shortcuts at special values that are wrong, and are not noticed."""
    found = []
    for setting in settings(bench):
        asked = [run for run in bench.runs if setting.holds(run.inputs)]
        tried = [run for run in again_at(bench, setting) if _right(run, run.inputs)]
        for shortcut in shortcuts(bench, setting, tried):
            wrong = any(not _passes(run, shortcut) for run in tried)
            if wrong and all(_passes(run, shortcut) for run in asked):
                found.append(f"{shortcut.name} at {setting.name}")
    return found


def again_at(bench: Bench, setting: Setting) -> list[Run]:
    """Drawn cases with an input at a special value, where the oracle has an answer for that."""
    runs = []
    for run in bench.drawn:
        if run.case.is_wide or run.dtype != torch.float64:
            continue
        try:
            with time_limit(SECONDS):
                runs.append(
                    prepare(bench.exercise, setting.asked(run.case), torch.float64, is_edge=False)
                )
        except (ArithmeticError, LookupError, ValueError, TimeLimitReached):
            continue  # the oracle divides by this value, looks it up, or counts in steps of 0
        if len(runs) == CASES:
            break
    return runs


def shortcuts(bench: Bench, setting: Setting, tried: list[Run]) -> Iterator[Shortcut]:
    """What a function may do at a special value in place of what it is asked in these runs."""
    exercise = bench.exercise
    for place, output in enumerate(exercise.outputs):
        of = f"`{output.name}` is "
        yield Shortcut(f"{of}zero", setting, answer=_at(place, _zero))
        if output.kind == "float":
            yield Shortcut(f"{of}without a gradient", setting, answer=_at(place, _detached))
        for name in bench.runs[0].inputs:
            fits = all(_alike(run.answers[place], run.inputs[name]) for run in tried)
            if fits and name != setting.input and name not in exercise.hidden:
                yield Shortcut(f"{of}`{name}`", setting, answer=_at(place, _given(name)))
    if not isinstance(setting.value, bool) and setting.value == 0:
        other = Setting(setting.input, 1.0)
        yield Shortcut("0 taken for nothing given", setting, ask=lambda r: other.put_in(r.inputs))


def _zero(result: Any, _inputs: Inputs) -> Any:
    if isinstance(result, Tensor):
        return torch.zeros_like(result)
    return type(result)() if isinstance(result, int | float | str | list | tuple) else result


def _detached(result: Any, _inputs: Inputs) -> Any:
    return result.detach() if isinstance(result, Tensor) else result


def _given(name: str) -> Callable[[Any, Inputs], Any]:
    """The input as it came, where it could be taken for the result; else the result."""

    def change(result: Any, inputs: Inputs) -> Any:
        given = inputs[name]
        if not _alike(result, given):
            return result
        return given.clone() if isinstance(given, Tensor) else given

    return change


def _alike(result: Any, given: Any) -> bool:
    """Whether an input could be taken for a result: tensors of one shape, or of one type."""
    if isinstance(result, Tensor) and isinstance(given, Tensor):
        return result.shape == given.shape and result.dtype == given.dtype
    return type(result) is type(given) and not isinstance(result, Tensor)


def _at(place: int, change: Callable[[Any, Inputs], Any]) -> Callable[..., Answer]:
    """The reference, one of whose results is changed."""

    def answer(exercise: Exercise, inputs: Inputs) -> Answer:
        def function(*given: Any, **options: Any) -> Any:
            result = exercise.reference(*given, **options)
            now = inputs
            if exercise.call is call_with_inputs:  # in the gradient run these are other tensors
                visible = (name for name in inputs if name not in exercise.hidden)
                now = {**inputs, **dict(zip(visible, given, strict=True))}
            if len(exercise.outputs) == 1:
                return change(result, now)
            leaves = list(result)
            leaves[place] = change(leaves[place], now)
            return tuple(leaves)

        return function

    return answer


def _passes(run: Run, shortcut: Shortcut) -> bool:
    return _right(run, shortcut.ask(run), shortcut.answer(run.exercise, run.inputs))


def _right(run: Run, inputs: Inputs, function: Answer | None = None) -> bool:
    """Whether a function, asked with these inputs, gives what the run wants; by default ours."""
    exercise = run.exercise
    function = function or exercise.reference
    with random_state_kept():
        limit = min(exercise.time_limit_s, LIMIT_SECONDS)
        seen = observe(exercise, function, inputs, run.weights, limit)
    return find_problem(exercise, seen, run.answers, run.gradients, run.dtype) is None


def _in_turn(runs: list[Run]) -> Iterator[Run]:
    """The runs, drawn ones first: they differ most, so that a wrong answer is found soon."""
    yield from sorted(runs, key=lambda run: run.is_edge)
