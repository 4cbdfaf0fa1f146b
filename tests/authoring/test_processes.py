"""The pool of processes: fresh ones, one thread each, and an end whatever happens to them."""

import os
from functools import partial

import pytest

from bookkit.authoring.processes import THREADS, TaskError, in_processes

SEEN: list[int] = []


def double(x: int) -> int:
    SEEN.append(x)
    return 2 * x


def where(_: int) -> tuple[int, str | None, list[int]]:
    return os.getpid(), os.environ.get(THREADS), SEEN


def fails(_: int) -> None:
    raise ValueError("no such colour")


def dies(_: int) -> None:
    os._exit(3)


def named(key: int) -> str:
    return f"task {key}"


def test_one_job_runs_here_in_order() -> None:
    tasks = {key: partial(where, key) for key in (3, 1, 2)}
    results = dict(in_processes(tasks, 1))
    assert list(results) == [3, 1, 2]
    assert {pid for pid, *_ in results.values()} == {os.getpid()}


def test_an_error_names_its_task_and_what_ended_before_is_yielded() -> None:
    found = in_processes({1: partial(double, 1), 2: partial(fails, 2)}, 1, name=named)
    assert next(found) == (1, 2)
    with pytest.raises(TaskError, match=r"^task 2 failed: ValueError: no such colour$") as caught:
        next(found)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.slow
def test_each_task_has_a_fresh_process_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THREADS, "7")
    double(1)
    results = dict(in_processes({key: partial(where, key) for key in range(3)}, 2))
    assert len({os.getpid(), *(pid for pid, *_ in results.values())}) == 4
    assert {threads for _, threads, _ in results.values()} == {"1"}
    assert all(seen == [] for *_, seen in results.values())
    assert os.environ[THREADS] == "7"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "said"), [(fails, "ValueError: no such colour"), (dies, "BrokenProcessPool: ")]
)
def test_a_failure_ends_all_and_keeps_what_ran_beside_it(wrong, said: str) -> None:
    tasks = {0: partial(double, 0), 1: partial(wrong, 1)}
    tasks |= {key: partial(double, key) for key in range(2, 30)}
    found = {}
    with pytest.raises(TaskError, match=f"^task 1 failed: {said}"):
        found.update(in_processes(tasks, 2, name=named))
    assert found[0] == 0 and 0 < len(found) < 29
