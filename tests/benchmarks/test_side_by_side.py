"""The frame of the benchmarks, and that their modules lean on each other one way."""

import ast
import json
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))

import side_by_side  # noqa: E402
from qwen_shapes import QWEN, fresh_model  # noqa: E402
from side_by_side import Spread, in_turn, now, ratios, seconds, spread, start  # noqa: E402


def test_a_ratio_is_of_each_round_and_so_is_its_spread():
    assert ratios([2.0, 30.0, 4.0], [1.0, 10.0, 8.0]) == [2.0, 3.0, 0.5]
    assert spread([3.0, 0.5, 2.0]) == Spread(median=2.0, least=0.5, most=3.0)
    assert spread([1.0, 3.0])._asdict() == {"median": 2.0, "least": 1.0, "most": 3.0}
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="values is empty"):
        spread([])


def test_contestants_take_turns():
    order = []

    def contestant(name):
        return lambda seed: order.append((name, seed)) or 10 * seed

    told = []
    found = in_turn(
        {"b": contestant("b"), "a": contestant("a")}, (3, 1), lambda *said: told.append(said)
    )
    assert order == [("b", 3), ("a", 3), ("b", 1), ("a", 1)]
    assert found == {"b": [30, 10], "a": [30, 10]}
    assert told == [("b", 3, 30), ("a", 3, 30), ("b", 1, 10), ("a", 1, 10)]


def test_each_is_timed_in_every_round(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(side_by_side, "now", lambda gpu=None: float(next(clock)))
    calls = []
    found = side_by_side.timed_in_turn(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b") or next(clock)}, 2
    )
    assert calls == ["a", "b", "a", "b"]
    assert found == {"a": [1.0, 1.0], "b": [2.0, 2.0]}


def test_without_a_gpu_the_time_is_the_processor_s():
    import time

    before = now(gpu=False)
    assert seconds(lambda: time.sleep(0.2), gpu=False) < 0.1  # asleep, the processor is not ours
    assert seconds(lambda: sum(range(10**6)), gpu=False) > 0
    assert now(gpu=False) > before


def test_a_result_has_a_stamp_and_needs_no_file(tmp_path):
    out = tmp_path / "x.json"
    record = start(out, seeds=[1], config={"rounds": 2})
    for result in ({"a": 1}, {"a": 1, "b": 2}):  # it grows
        record.finish(result)
        stored = json.loads(out.read_text())
        assert stored.pop("stamp")["config"] == {"rounds": 2} and stored == result
    start(None, seeds=[], config={}).finish({"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_fresh_model_is_the_same_each_time():
    import torch

    one, two = (fresh_model(QWEN["tiny"], torch.bfloat16, "cpu", use_cache=False) for _ in "12")
    assert torch.get_default_dtype() == torch.float32
    assert one.config.use_cache is False and not one.training
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert a.dtype == torch.bfloat16 and bool((a == b).all())


def imports_of(path: Path, names: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & names


def test_no_module_of_the_benchmarks_imports_in_a_circle():
    names = {path.stem for path in FOLDER.glob("*.py")}
    graph = {name: imports_of(FOLDER / f"{name}.py", names) for name in names}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, which names it
    assert order.index("scaling_update") < order.index("scaling_step") < order.index("scaling")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gae", "logprobs"])
def test_a_benchmark_runs_small(name, tmp_path, monkeypatch, capsys):
    import importlib

    import typer

    module, out = importlib.import_module(name), tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--quick", "--out", str(out)])
    if name == "gae":
        with pytest.raises(SystemExit) as ended:
            typer.run(module.main)
        assert not ended.value.code
    else:
        monkeypatch.setattr(sys, "argv", [*sys.argv, "--device", "cpu"])
        module.main()
    new, old = json.loads(out.read_text()), json.loads(stored_result(name).read_text())
    assert keys(new) == keys(old)


def stored_result(name: str) -> Path:
    return FOLDER / "results" / {"gae": "gae.json", "logprobs": "logprobs_cpu.json"}[name]


def keys(value):
    """The names in a result, however many rounds it holds; a stamp has grown since."""
    if isinstance(value, dict):
        return {k: keys(v) for k, v in value.items() if k not in ("stamp", "head", "trl")}
    return "list" if isinstance(value, list) else "value"
