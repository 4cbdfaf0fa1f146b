"""Initial weights perturbed by one part in ten million: deterministic, elementwise, and late."""

import copy
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bookkit.authoring.draws import HOOKS, hook_environment
from bookkit.authoring.hooks import perturb

torch = pytest.importorskip("torch")
nn = torch.nn


@pytest.fixture
def perturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in perturb.DRAWING:
        monkeypatch.setattr(nn.init, name, getattr(nn.init, name))  # restored afterwards
    perturb.patch(nn.init)


def made(kind, seed: int = 0):
    torch.manual_seed(seed)
    return kind()


KINDS = {
    "linear": lambda: nn.Linear(64, 32),
    "embedding": lambda: nn.Embedding(50, 8),
    "lstm": lambda: nn.LSTM(8, 8),
    "double": lambda: nn.Linear(64, 32, dtype=torch.float64),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_about_half_of_the_weights_move_by_an_ulp_or_two(kind, request):
    plain = made(kind)
    state = torch.get_rng_state()
    request.getfixturevalue("perturbed")
    moved = made(kind)
    assert torch.equal(torch.get_rng_state(), state), "a random number was used up"
    before, after = (
        torch.cat([p.detach().flatten() for p in m.parameters()]) for m in (plain, moved)
    )
    drawn = before != 0
    share = (before != after)[drawn].double().mean()
    assert 0.4 < share < 0.6
    assert ((after - before).abs() <= 1.7e-7 * before.abs()).all()
    assert ((after > before)[drawn].double().mean() - share / 2).abs() < 0.1
    assert (after[~drawn] == 0).all()


def test_models_built_alike_stay_alike_and_copies_equal_their_source(perturbed):
    for kind in KINDS.values():
        one, two = made(kind), made(kind)
        for a, b, c in zip(
            one.parameters(), two.parameters(), copy.deepcopy(one).parameters(), strict=True
        ):
            assert torch.equal(a, b) and torch.equal(a, c)


def test_a_part_equals_its_part_of_the_whole():
    whole = torch.randn(7, 33, generator=torch.Generator().manual_seed(0))
    parts = [whole[:, :5].clone(), whole[:, 5:].clone()]
    columns = whole.t().clone().t()
    for tensor in (whole, columns, *parts):
        perturb.perturb(tensor)
    assert torch.equal(torch.cat(parts, 1), whole) and torch.equal(columns, whole)


def test_what_a_function_fills_by_another_is_perturbed_once(perturbed, monkeypatch):
    times = []
    monkeypatch.setattr(perturb, "perturb", times.append)
    perturb.perturbing(lambda t: nn.init.normal_(t))(torch.empty(3))
    assert len(times) == 1


@pytest.mark.parametrize(
    "tensor", [torch.ones(9, dtype=torch.bfloat16), torch.empty(3, device="meta"), torch.arange(3)]
)
def test_coarser_types_and_tensors_without_values_are_left_alone(tensor):
    before = tensor.clone()
    perturb.perturb(tensor)
    assert tensor.is_meta or torch.equal(tensor, before)


def test_special_values_stay():
    tensor = torch.tensor([0.0, -0.0, float("inf"), float("nan")])
    perturb.perturb(tensor)
    assert tensor[:2].tolist() == [0, 0] and tensor[2].isinf() and tensor[3].isnan()


def process(source: str, *, paths: list[Path], **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NBKIT_")} | variables
    environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=hook_environment(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_process_imports_no_torch_and_runs_the_sitecustomize_that_is_hidden(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('hidden')\n")
    source = "import sys; print('torch' in sys.modules, sys.path[1])"
    printed = process(source, paths=[tmp_path], NBKIT_PERTURB="1")
    assert printed.splitlines() == ["hidden", f"False {HOOKS}"]


@pytest.mark.slow
def test_the_variable_perturbs_every_process(tmp_path):
    source = (
        "import subprocess, sys, torch\n"
        "torch.manual_seed(0)\n"
        "print(hash(tuple(torch.nn.MultiheadAttention(8, 2).in_proj_weight.flatten().tolist())))\n"
        "if len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(source)
    run = f"import runpy; runpy.run_path({str(script)!r})"
    plain = process(run, paths=[], PYTHONHASHSEED="0").split()
    moved = process(run, paths=[], PYTHONHASHSEED="0", NBKIT_PERTURB="1").split()
    assert plain[0] == plain[1] and moved[0] == moved[1] and plain[0] != moved[0]


def test_of_a_sharded_tensor_this_ranks_part_is_perturbed():
    whole = torch.randn(40, generator=torch.Generator().manual_seed(0))
    sharded = SimpleNamespace(_local_tensor=whole[:20].clone())
    perturb.perturb(sharded)
    perturb.perturb(whole)
    assert torch.equal(sharded._local_tensor, whole[:20])
