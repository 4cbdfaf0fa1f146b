"""What of CUDA graphs needs no GPU: recording moves nobody, and batches shrink by halves."""

import pytest
import torch

from nbkit.generate import EngineOptions, clear, engine, generate, runner
from nbkit.generate.graph import GraphedStep
from tests.generate.models import make, some_prompts

pytestmark = pytest.mark.chapter(31)


class Replay:
    """Runs the step instead of replaying a recording of it, and warms up as a recording does."""

    recorded = 0

    def __init__(self, function, pool):
        self.function = function

    def record(self):
        type(self).recorded += 1
        self.function()
        self.function()

    def __call__(self):
        self.function()


@pytest.fixture
def graphs_on_a_cpu(monkeypatch):
    options = EngineOptions("sdpa", "torch", "torch", graph=True)
    monkeypatch.setattr(engine, "settle", lambda *_: options)
    monkeypatch.setattr(runner, "GraphedStep", Replay)
    monkeypatch.setattr(runner, "SMALLEST_GRAPH", 1)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    # A GPU makes the noise within the step; the stock of a CPU would be used up by warming up.
    monkeypatch.setattr("nbkit.generate.session.NOISE_STEPS", 1)
    monkeypatch.setattr(Replay, "recorded", 0)


def test_graphs_of_shrinking_batches_give_the_same_text(graphs_on_a_cpu, monkeypatch):
    model = make("qwen3")
    prompts = some_prompts((3, 9, 1, 14, 6, 2, 8, 8, 4))
    keywords = {"max_new_tokens": [2, 30, 3, 18, 2, 28, 3, 2, 9], "seeds": 0, "max_batch": 8}
    graphed = generate(model, prompts, eos_ids=(4, 9), **keywords)
    assert Replay.recorded >= 3, "no smaller batch was recorded"
    again = generate(model, prompts, eos_ids=(4, 9), **keywords)
    assert Replay.recorded <= 4, "a graph was recorded twice"
    monkeypatch.undo()
    clear(model)
    plain = generate(model, prompts, eos_ids=(4, 9), **keywords)
    assert graphed.lists() == again.lists() == plain.lists()


def test_batches_go_down_by_halves():
    model = make("llama")
    generate(model, [[1]] * 16, max_new_tokens=2, seeds=0)
    (kept,) = engine._ENGINES[model].values()
    (one,) = kept._runners.values()
    one.graphs = True
    assert [one.smaller_batch(live, 64) for live in (64, 33, 32, 17, 9, 8, 1)] == [
        *(64, 64, 32, 32, 16, 8, 8)
    ]
    one.graphs = False
    assert [one.smaller_batch(live, 64) for live in (64, 50, 48, 1)] == [64, 64, 48, 1]


def test_a_graph_that_was_not_recorded():
    with pytest.raises(RuntimeError, match=r"call record\(\)"):
        GraphedStep(lambda: None)()


def test_weights_that_have_moved_drop_the_graphs():
    model = make("llama")
    keywords = {"max_new_tokens": 2, "seeds": 0}
    generate(model, [[1]], **keywords)
    (kept,) = engine._ENGINES[model].values()
    before = kept._where()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    kept.refresh(model)
    assert kept._where() == before, "an update in place moved an address"
    model.lm_head.weight.data = model.lm_head.weight.data.clone()
    kept.refresh(model)
    assert kept._where() != before
