"""Shards: only what the run wrote is opened; a kill leaves the last good one; export and back."""

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from bookkit.checkpoint_commands import app
from nbkit.parallel import ParallelConfig, connect, deepspeed_setup
from nbkit.parallel.export import export_run, import_model, newest, note_model
from nbkit.parallel.launch import RanksFailedError
from nbkit.parallel.manifest import ManifestError, read_manifest, write_manifest
from nbkit.parallel.world import World, leave
from nbkit.runs.checkpoints import BrokenCheckpointError
from tests.parallel import jobs, killed_jobs
from tests.parallel.killed_jobs import adamw, prepared, step
from tests.rlvr.small import model

pytestmark = pytest.mark.chapter(33)


def weights(parallel):
    return torch.cat([x.flatten() for x in parallel.whole_state().values()])


def shards_of(run):
    return newest(run) / "shards"


@pytest.fixture
def run(tmp_path):
    parallel = prepared()
    step(parallel)
    parallel.save(tmp_path, 1, state={"note": 3})
    note_model(tmp_path, parallel.model)
    return tmp_path


def test_a_single_device_saves_and_loads(run):
    other = prepared(seed=1)
    assert other.load(run) == {"note": 3}
    first = prepared()
    step(first)
    assert torch.equal(weights(first), weights(other))
    step(first)
    step(other)
    assert torch.equal(weights(first), weights(other))
    assert prepared().load(run / "nothing here") is None
    with pytest.raises(FileNotFoundError, match="step 7"):
        other.load(run, 7)


def spoil(folder, fault):
    index = folder / ".metadata"
    if fault == "changed":
        index.write_bytes(index.read_bytes() + b"cos\nsystem\n(S'true'\ntR.")
    elif fault == "changed in place":
        index.write_bytes(index.read_bytes()[:-1] + b"x")
    elif fault == "missing":
        min(folder.glob("*.distcp")).unlink()
    elif fault == "new":
        (folder / "extra.pkl").write_bytes(b"")
    else:
        (folder / "manifest.json").unlink()


FAULTS = {
    "changed": (BrokenCheckpointError, r"\.metadata has \d+ bytes"),
    "changed in place": (ManifestError, r"\.metadata has changed"),
    "missing": (BrokenCheckpointError, "distcp is missing"),
    "new": (ManifestError, "extra.pkl is not in the manifest"),
    "no manifest": (BrokenCheckpointError, "manifest.json is missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_shards_that_are_not_as_written_are_not_opened(run, fault, monkeypatch):
    spoil(shards_of(run), fault)
    opened = []
    monkeypatch.setattr("pickle.load", lambda *a, **k: opened.append(a))
    kind, words = FAULTS[fault]
    with pytest.raises(kind, match=words):
        prepared().load(run)
    assert not opened


@pytest.mark.parametrize("fault", FAULTS)
def test_the_checkpoint_before_a_broken_one_is_read(run, fault):
    other = prepared()
    other.load(run)
    right = weights(other)
    step(other)
    other.save(run, 2, state={"note": 4})
    spoil(shards_of(run), fault)
    with pytest.warns(UserWarning, match=r"step_00000002 is broken .*goes on from step_00000001"):
        assert other.load(run) == {"note": 3}
    assert torch.equal(weights(other), right)
    assert newest(run).name == "step_00000001"


@pytest.mark.parametrize("text", [None, "{"])
def test_a_manifest_that_is_missing_or_cut_short(tmp_path, text):
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ManifestError, match="has no manifest" if text is None else "is no JSON"):
        read_manifest(tmp_path)


def test_another_model_is_refused(run):
    parallel = connect(ParallelConfig(), World())
    parallel.prepare(nn.ModuleList([nn.Linear(2, 2)]), adamw)
    with pytest.raises(ValueError, match="another model"):
        parallel.load(run)


def test_the_state_of_a_parameter_that_is_fixed_here_is_refused(run):
    net = model(seed=0)
    fixed = next(name for name, _ in net.named_parameters())
    net.get_parameter(fixed).requires_grad_(False)
    parallel = connect(ParallelConfig(), World())
    parallel.prepare(net, adamw)
    with pytest.raises(ValueError, match=f"{fixed} learned there, not here"):
        parallel.load(run)


def test_another_number_of_groups_is_refused(run):
    parallel = connect(ParallelConfig(), World())
    parallel.prepare(
        model(seed=0), lambda parameters: torch.optim.AdamW([{"params": [p]} for p in parameters])
    )
    with pytest.raises(ValueError, match="there are 1 groups of parameters in it"):
        parallel.load(run)


@pytest.mark.parametrize("word", ("fused", "capturable", "neither"))
def test_the_number_of_steps_is_where_torch_would_put_it(word):
    parallel = connect(ParallelConfig(), World())
    parallel.prepare(model(seed=0), adamw)
    parallel._plain.to("meta")  # any device that is not the CPU
    (group,) = parallel.optimiser.param_groups
    group.update(fused=word == "fused", capturable=word == "capturable")
    name = next(name for name, _ in parallel._plain.named_parameters())
    state = parallel.empty_state({"step": [name]})
    right = "cpu" if word == "neither" else "meta"
    assert state["optimiser"]["step"][name].device.type == right


def test_a_step_needs_a_gradient():
    parallel = prepared()
    for _ in range(2):
        with pytest.raises(ValueError, match="a step without a micro-batch"):
            parallel.step()
        step(parallel)


def test_a_manifest_lists_folders_below(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("1")
    write_manifest(tmp_path, step=3)
    assert read_manifest(tmp_path)["step"] == 3
    (tmp_path / "a" / "x").write_text("2")
    with pytest.raises(ManifestError, match="a/x has changed"):
        read_manifest(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["shards", "manifest", "rename"])
def test_a_kill_during_the_save_leaves_the_last_good_one(tmp_path, where):
    with pytest.raises(RanksFailedError, match="rank 0 was killed by SIGKILL"):
        jobs.ranks(1, killed_jobs.second_save, str(tmp_path), where)
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {
        "step_00000001",
        "step_00000002.new",
    }
    survivor, right = prepared(seed=3), prepared()
    survivor.load(tmp_path)
    step(right)
    assert torch.equal(weights(survivor), weights(right))
    step(survivor)
    survivor.save(tmp_path, 2)  # over what was abandoned
    assert newest(tmp_path).name == "step_00000002"
    prepared().load(tmp_path)


def test_export_and_back(run, tmp_path):
    from transformers import AutoModelForCausalLM

    parallel = prepared()
    step(parallel)
    folder, back = tmp_path / "hub", tmp_path / "back"
    assert export_run(run, folder).name == "step_00000001"
    found = AutoModelForCausalLM.from_pretrained(folder)
    for name, x in parallel.model.state_dict().items():
        assert torch.equal(found.state_dict()[name], x)
    import_model(folder, back)
    other = prepared(seed=4)
    other.load(back)
    assert torch.equal(weights(other), weights(parallel))
    step(other)
    with pytest.raises(FileExistsError):
        import_model(folder, back)


def test_the_command(run, tmp_path):
    done = CliRunner().invoke(app, ["export", str(run), str(tmp_path / "hub")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "hub" / "model.safetensors").exists()
    bad = CliRunner().invoke(app, ["export", str(tmp_path / "none"), str(tmp_path / "x")])
    assert bad.exit_code != 0
    assert "config.json" in str(bad.exception)


def test_single_among_several_and_gradients_that_are_not_finite():
    with pytest.raises(ValueError, match="2 processes"):
        connect("single", World(0, 2))
    parallel = prepared()
    before = weights(parallel)
    ids = torch.full((1, 3), 2)
    parallel.backward(parallel.model(input_ids=ids, labels=ids).loss * float("nan"))
    with pytest.raises(RuntimeError, match="no step was taken"):
        parallel.step()
    assert torch.equal(before, weights(parallel))


def test_a_disk_without_its_library_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(deepspeed_setup, "nvme_ready", lambda: False)
    parallel = connect(ParallelConfig(backend="zero3-nvme", nvme_path=str(tmp_path)), World())
    try:
        with pytest.raises(RuntimeError, match="install libaio-dev"):
            parallel.prepare(model(), adamw)
    finally:
        leave()
