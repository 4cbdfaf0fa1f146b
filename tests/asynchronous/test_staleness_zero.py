"""Staleness 0, with the generator in a process of its own, is the synchronous run to the bit."""

from types import SimpleNamespace

import pytest
import torch

from nbkit.asynchronous.options import AsyncOptions
from nbkit.asynchronous.timeline import overlap
from nbkit.asynchronous.trainer import AsyncGRPOTrainer
from nbkit.parallel import ParallelConfig, connect
from nbkit.trainers.grpo import GRPOTrainer
from tests.asynchronous.runs import asynchronous, each_once, settings, steps, synchronous, weights
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, generator, model

pytestmark = [pytest.mark.slow, pytest.mark.chapter(35), pytest.mark.xdist_group("alone")]
OWN = ("staleness", "versions", "queue", "groups_", "generator_", "weights_", "seconds")


def comparable(history):
    """Metrics that both have; the entropy is a sum in another order."""
    return [
        {k: v for k, v in row.items() if not k.startswith(OWN) and k != "entropy"}
        for row in history
    ]


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({"minibatches": 2, "epochs": 2}, {"in_flight": False}),
        ({"importance_cap": 2.0, "overlong_buffer": 4}, {"cache": "recompute"}),
        ({}, {"start": "spawn"}),
    ],
)
def test_weights_and_metrics_after_several_updates(changes, options):
    own = settings(**changes)
    plain = synchronous(own)
    with asynchronous(own, staleness=0, **options) as run:
        numbers = steps(run)
        assert overlap(run.timeline()) == 0  # each waits for the other
    assert torch.equal(weights(plain), weights(run))
    assert comparable(plain.history) == comparable(run.history)
    assert numbers == [[4 * u + i for i in range(4)] for u in range(5)] and each_once(numbers, own)
    assert all(row["staleness/max"] == 0 for row in run.history)
    assert all(row["gradient_norm"] > 0 for row in run.history)


@pytest.mark.parametrize("changes", [{}, {"checkpointing": "full"}])
def test_passes_in_bfloat16_and_checkpoints_stay_with_the_trainer(changes):
    """They are functions of this process, hung onto the model; the generator's has none."""
    own, runs = settings(updates=2), []
    for kind, more in ((GRPOTrainer, ()), (AsyncGRPOTrainer, (AsyncOptions(staleness=0),))):
        parallel = connect(ParallelConfig(precision="bfloat16", **changes))
        run = kind(
            model(), VOCABULARY, PROBLEMS, by_length, own, *more,
            generator=generator(7), parallel=parallel,
        )  # fmt: skip
        run.run(progress=False)
        runs.append(run)
    runs[1].close()
    assert "forward" in vars(runs[1].model)
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    plain = synchronous(settings(updates=2))
    assert not torch.equal(weights(runs[0]), weights(plain))


def test_several_ranks_are_refused():
    parallel = SimpleNamespace(world=SimpleNamespace(size=2))
    with pytest.raises(ValueError, match="works on one device so far"):
        AsyncGRPOTrainer(
            model(), VOCABULARY, PROBLEMS, by_length, settings(),
            generator=generator(7), parallel=parallel,
        )  # fmt: skip


def test_staleness_one_is_another_run_within_its_bound():
    own = settings(updates=6)
    with asynchronous(own, staleness=1) as run:
        numbers = steps(run)
        spans = run.timeline()
    assert each_once(numbers, own)
    assert max(row["staleness/max"] for row in run.history) <= 1
    assert sum(row["groups_dropped"] for row in run.history) == 0
    own = {("trainer", what) for what in ("wait", "learn", "publish")}
    theirs = {("generator", what) for what in ("sample", "score")}
    assert {(span.who, span.what) for span in spans} == own | theirs
    assert all(span.begin <= span.end for span in spans)


def test_without_changes_on_the_way_a_batch_is_as_old_as_the_rule_says():
    """The second batch was started by the first weights, before there were others."""
    own = settings(updates=3)
    with asynchronous(own, staleness=2, in_flight=False) as run:
        numbers = steps(run)
    assert each_once(numbers, own)
    assert max(row["staleness/max"] for row in run.history) <= 2
    assert all(row["versions_in_completion"] == 1 for row in run.history)
