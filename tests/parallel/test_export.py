"""Export and back: runs of the trainers, value models, what cannot be exported, killed imports."""

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from bookkit.checkpoint_commands import app
from nbkit.parallel import ParallelConfig, connect
from nbkit.parallel.export import (
    export_run,
    import_model,
    newest,
    note_model,
    note_models,
    write_model,
)
from nbkit.parallel.launch import RanksFailedError
from nbkit.parallel.world import World
from nbkit.text.adapters import add_adapters
from nbkit.text.scalar_models import ScalarModel
from tests.parallel import export_jobs, jobs, killed_jobs
from tests.parallel.killed_jobs import adamw
from tests.rlvr.small import model

pytestmark = pytest.mark.chapter(33)


def alone(net):
    parallel = connect(ParallelConfig(), World())
    parallel.prepare(net, adamw)
    return parallel


@pytest.fixture
def run(tmp_path):
    parallel = alone(model())
    parallel.save(tmp_path, 1)
    assert note_model(tmp_path, parallel.model)
    return tmp_path


def test_a_written_model_ends_its_texts_where_it_did(tmp_path):
    """A chat model names several ends; they stand beside its weights, and not in its shape."""
    from transformers import AutoModelForCausalLM

    net = model()
    net.generation_config.eos_token_id = [2, 5]
    write_model(alone(net), tmp_path, dtype="bfloat16")
    read = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert read.generation_config.eos_token_id == [2, 5] and read.dtype == torch.bfloat16
    for name, value in net.state_dict().items():
        assert torch.equal(read.state_dict()[name], value.bfloat16())


@pytest.mark.slow
@pytest.mark.parametrize("name", jobs.TRAINERS)
def test_a_trainers_run_is_exported_by_the_command(name, tmp_path):
    from transformers import AutoModelForCausalLM

    run = tmp_path / "run"
    whole = jobs.ranks(2, export_jobs.trained_weights, name, "fsdp2", str(run))[0]
    command(run, tmp_path / "hub")
    found = {"policy": AutoModelForCausalLM.from_pretrained(tmp_path / "hub")}
    if "value" in whole:
        command(run, tmp_path / "value", "--shards", "shards_value")
        found["value"] = ScalarModel.from_pretrained(tmp_path / "value")
    assert found.keys() == whole.keys()
    for which, weights_then in whole.items():
        now = found[which].state_dict()
        assert weights_then
        for key, x in weights_then.items():
            assert (now[key].numpy() == x).all(), (which, key)


def command(run, out, *more):
    done = CliRunner().invoke(app, ["export", str(run), str(out), *more])
    assert done.exit_code == 0, done.exception


def test_a_value_model_and_its_head_are_exported(tmp_path):
    value = ScalarModel.from_causal(model(seed=3), head="random")
    parallel, beside = alone(model()), alone(value)
    parallel.save(tmp_path, 1, beside={"value": beside})
    note_models(tmp_path, {"shards": parallel.model, "shards_value": beside.model})
    export_run(tmp_path, tmp_path / "out", shards="shards_value", dtype="bfloat16")
    found = ScalarModel.from_pretrained(tmp_path / "out")
    assert torch.equal(found.head.weight, value.head.weight)
    assert all(p.dtype == torch.bfloat16 for p in found.body.parameters())
    for name, x in found.body.named_parameters():
        assert torch.equal(x, value.body.get_parameter(name).bfloat16())
    (newest(tmp_path) / "shards_value").rename(newest(tmp_path) / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"no folder 'shards_value'; it has .*'shards'"):
        export_run(tmp_path, tmp_path / "none", shards="shards_value")


def test_models_without_a_shape_and_adapters_are_not_exported(run, tmp_path):
    assert not note_model(tmp_path, nn.Linear(2, 2), "shards_linear")
    assert not (tmp_path / "model_linear").exists()
    adapted = model()
    add_adapters(adapted, 2)
    alone(adapted).save(run, 2)
    with pytest.raises(ValueError, match="holds adapters beside the frozen weights"):
        export_run(run, tmp_path / "hub")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["write_manifest", "note_model", "publish"])
def test_a_killed_import_can_be_called_again(run, tmp_path, where):
    hub, back = tmp_path / "hub", tmp_path / "back"
    export_run(run, hub)
    with pytest.raises(RanksFailedError, match="rank 0 was killed by SIGKILL"):
        jobs.ranks(1, killed_jobs.killed_import, str(hub), str(back), where)
    assert [p.name for p in (back / "checkpoints").iterdir()] == ["step_00000000.new"]
    (back / "checkpoints" / "step_00000000.new" / "left over").touch()
    import_model(hub, back)
    assert [p.name for p in (back / "checkpoints").iterdir()] == ["step_00000000"]
    assert not (newest(back) / "left over").exists()
    other = alone(model(seed=4))
    other.load(back)
    for name, x in model().named_parameters():
        assert torch.equal(other.model.get_parameter(name), x)
