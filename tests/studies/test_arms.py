"""Studies of arms and seeds: runs that are kept and resumed, and what is stored of them."""

import json
import math
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bookkit.authoring.processes import TaskError
from bookkit.authoring.study import start_study
from studies._arms import (
    Arms,
    Key,
    by_arm,
    every,
    partial_file,
    run_all,
    seed_by_seed,
    what_runs,
)
from studies._grpo import run_arms
from studies.grpo_controls import ARMS as GRPO_ARMS


def measured(arm: str, seed: int) -> dict[str, Any]:
    if arm == "broken":
        raise RuntimeError("it must not run")
    return {"value": 10 * seed}


def tasks(keys: list[Key]) -> dict[Key, partial[dict[str, Any]]]:
    return {key: partial(measured, *key) for key in keys}


def test_runs_come_in_order_with_seed_and_seconds() -> None:
    runs = run_all(tasks(every(["b", "a"], [2, 1])))
    assert list(runs) == [("b", 2), ("b", 1), ("a", 2), ("a", 1)]
    arms = by_arm(runs)
    assert list(arms) == ["b", "a"]
    assert [(run["seed"], run["value"]) for run in arms["a"]] == [(2, 20), (1, 10)]
    assert all(run["seconds"] >= 0 for run in arms["a"])


def test_a_run_may_say_its_own_seconds() -> None:
    (run,) = run_all({("a", 7): partial(dict, seconds=1.5)}).values()
    assert run == {"seed": 7, "seconds": 1.5}


def test_what_has_ended_is_never_run_again(tmp_path: Path) -> None:
    kept = tmp_path / "new" / "x.partial.jsonl"
    first = run_all(tasks(every(["a"], [1, 2])), kept=kept)
    assert len(kept.read_text().splitlines()) == 2
    later = tasks(every(["a"], [1, 2, 3])) | {("a", 1): partial(measured, "broken", 1)}
    again = run_all(later, kept=kept)
    assert [run["value"] for run in again.values()] == [10, 20, 30]
    assert again["a", 1] == first["a", 1]


def test_what_ended_before_a_crash_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "x.jsonl"
    with pytest.raises(TaskError, match=r"^broken, seed 1 failed: RuntimeError: it must not run$"):
        run_all(tasks(every(["a", "broken"], [1])), kept=kept)
    assert json.loads(kept.read_text())[:2] == ["a", 1]


def test_nothing_begins_after_the_end() -> None:
    assert run_all(tasks([("a", 1)]), end=time.monotonic()) == {}
    assert len(run_all(tasks([("a", 1)]), end=math.inf)) == 1


@pytest.mark.slow
def test_processes_give_the_same_in_the_same_order(tmp_path: Path) -> None:
    three = {("a", seed): partial(dict, seconds=0.0, value=seed) for seed in (3, 1, 2)}
    alone, together = run_all(three), run_all(three, jobs=2, kept=tmp_path / "x.jsonl")
    assert together == alone and list(together) == list(alone)
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 3


def test_orders_of_runs() -> None:
    assert every("ba", [1, 2]) == [("b", 1), ("b", 2), ("a", 1), ("a", 2)]
    assert seed_by_seed("ba", [2, 1]) == [("b", 2), ("a", 2), ("b", 1), ("a", 1)]


KEYS = every(["fast", "slow, but sure"], [2, 1])


def test_a_study_is_stored_with_its_protocol_and_then_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def verdict(arms: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
        yield f"fast: {[run['value'] for run in arms['fast']]}"
        raise SystemExit("too little")

    study = Arms(measured, KEYS, {"steps": 3}, tell=lambda run: f"{run['value']}", verdict=verdict)
    out = tmp_path / "x.json"
    with pytest.raises(SystemExit, match="too little"):
        study.measure(out)
    stored = json.loads(out.read_text())
    assert stored["stamp"]["config"] == {"steps": 3} and stored["stamp"]["seeds"] == [1, 2]
    assert {arm: [run["value"] for run in runs] for arm, runs in stored["arms"].items()} == {
        "fast": [20, 10], "slow, but sure": [20, 10],
    }  # fmt: skip
    assert not partial_file(out).exists()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "1/4 fast, seed 2: 0 s 20" and said[-1] == "fast: [20, 10]"


def test_what_is_left_of_a_study_is_run_by_the_same_command(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    with pytest.raises(SystemExit, match="0 of 4 runs ended in 0 minutes"):
        Arms(measured, KEYS, {}).measure(out, minutes=0.0)
    ended = {("fast", 2): partial(measured, "fast", 2)}
    of = what_runs(start_study(out, seeds=[1, 2], config={}).provenance)
    run_all(ended, kept=partial_file(out), of=of)
    assert not out.exists()

    def only_the_others(arm: str, seed: int) -> dict[str, Any]:
        assert (arm, seed) != ("fast", 2)
        return measured(arm, seed)

    with pytest.raises(SystemExit, match=r"x\.partial\.jsonl holds runs of another protocol"):
        Arms(only_the_others, KEYS, {"steps": 4}).measure(out)
    Arms(only_the_others, KEYS, {}).measure(out)
    assert len(json.loads(out.read_text())["arms"]["fast"]) == 2


def test_bases_of_another_study_are_refused_before_anything_is_taught(tmp_path: Path) -> None:
    (tmp_path / "bases.jsonl").write_text('"another"\n')
    with pytest.raises(SystemExit, match=r"bases\.jsonl holds runs of another protocol"):
        run_arms(GRPO_ARMS, seeds=(1,), keep=tmp_path, of="this one")


def listed(runs: dict[Key, Any]) -> dict[str, Any]:
    return {"runs": [{"arm": arm, **run} for (arm, _), run in runs.items()]}


@pytest.mark.parametrize("result", [lambda runs: {"arms": by_arm(runs)}, listed])
def test_one_arm_is_run_anew_beside_the_stamp_of_the_others(tmp_path: Path, result: Any) -> None:
    out = tmp_path / "x.json"
    Arms(measured, KEYS, {"steps": 1}, result=result).measure(out)
    first = json.loads(out.read_text())

    def ten_times(arm: str, seed: int) -> dict[str, Any]:
        return {"value": 10 * measured(arm, seed)["value"]}

    study = Arms(ten_times, KEYS, {"steps": 2}, result=result)
    study.measure(out, only="slow")
    stored = json.loads(out.read_text())
    assert stored["stamp"]["config"] == {"steps": 2}
    assert stored["kept"] == {"stamp": first["stamp"], "arms": ["fast"]}
    runs = stored.get("runs") or [run for some in stored["arms"].values() for run in some]
    assert [run["value"] for run in runs] == [20, 10, 200, 100]
    study.measure(out, only="slow")  # the stamp of what was kept stays that of its run
    assert json.loads(out.read_text())["kept"]["stamp"] == first["stamp"]
    with pytest.raises(SystemExit, match="no arm begins so; the arms are: fast, slow, but sure"):
        study.measure(out, only="quick")
    with pytest.raises(SystemExit, match=r"holds no run of \('new', 1\); run the study without"):
        Arms(measured, [*KEYS, ("new", 1)], {}).measure(out, only="slow")


def test_a_device_goes_to_runs_that_take_one(tmp_path: Path) -> None:
    def on(arm: str, seed: int, device: str) -> dict[str, Any]:
        return {"device": device}

    Arms(on, KEYS[:1], {}).measure(tmp_path / "x.json", device="meta")
    assert json.loads((tmp_path / "x.json").read_text())["arms"]["fast"][0]["device"] == "meta"
    with pytest.raises(SystemExit, match="--device cuda: this study runs on the CPU alone"):
        Arms(measured, KEYS, {}).measure(tmp_path / "y.json", device="cuda")
