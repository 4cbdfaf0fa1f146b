"""A GRPO trainer in a job's run, and rewards with and without a signal."""

import json

from nbkit.rewards.compose import Composed
from nbkit.runs.run import Run
from nbkit.trainers.grpo import GRPOTrainer
from tests.rlvr.small import PROBLEMS, VOCABULARY, config, generator, model


def in_parts(problems, completions):
    """A reward of two parts, from the length of the text."""
    return [
        Composed(len(c.text) / 10, {"long": len(c.text) / 10, "zero": 0.0}) for c in completions
    ]


def equal(problems, completions):
    return [Composed(-2.0, {"correct": 0.0, "format": 0.0}) for _ in completions]


def trainer(reward_fn=in_parts, net=None, **changes):
    return GRPOTrainer(
        net or model(), VOCABULARY, PROBLEMS, reward_fn, config(**changes), generator=generator(7)
    )


def fit(one, folder, **given):
    with Run.start({}, seeds=(0,), folder=folder) as run:
        one.fit(run, save_every=2, **given)
        run.finish({})
    return run


def plain(one):
    rows = [{k: v for k, v in m.items() if not k.startswith("seconds")} for m in one.history]
    return json.dumps(rows), [p.tolist() for p in one.model.parameters()]
