"""One process: the sampler's memory is gone while the trainer learns, and nothing else changes."""

import gc
import weakref

import pytest
import torch

from nbkit.asynchronous.colocated import ColocatedGRPOTrainer
from nbkit.asynchronous.sampler import Sampler
from nbkit.generate.sampling import row_seeds
from nbkit.trainers.checkpoint import resume, save
from nbkit.trainers.grpo import trainer as grpo
from tests.asynchronous.runs import settings, synchronous, weights
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

pytestmark = pytest.mark.chapter(35)


def colocated(own, seed=7):
    return ColocatedGRPOTrainer(
        model(), VOCABULARY, PROBLEMS, by_length, own, generator=generator(seed)
    )


@pytest.mark.parametrize("changes", [{}, {"minibatches": 2}, {"sampler_dtype": "bfloat16"}])
def test_it_equals_the_synchronous_run_to_the_bit(changes):
    own = settings(**changes)
    run = colocated(own)
    run.run(progress=False)
    assert torch.equal(weights(synchronous(own)), weights(run))


def test_the_cache_is_gone_while_the_trainer_learns(monkeypatch):
    """By the sampler's own count, and by what python still finds of the tensors."""
    run = colocated(settings(updates=2))
    caches, alive_while_learning = [], []
    plain_sleep, plain_update = Sampler.sleep, grpo.update

    def sleep(sampler):
        caches.append(weakref.ref(sampler._runner.session.cache.keys))
        assert caches[-1]() is not None
        plain_sleep(sampler)

    def update(*arguments):
        alive_while_learning.append([ref() is not None for ref in caches])
        return plain_update(*arguments)

    monkeypatch.setattr(Sampler, "sleep", sleep)
    monkeypatch.setattr(grpo, "update", update)
    gc.disable()  # it is gone at once, not at the collector's next turn
    try:
        run.run(progress=False)
    finally:
        gc.enable()
    assert alive_while_learning == [[False], [False, False]]
    for row in run.history:
        assert row["sampler_bytes/awake"] > 0 and row["sampler_bytes/learning"] == 0


def test_the_count_of_bytes_is_that_of_the_shapes():
    """2 layers' keys and values of 8 slots; the session is as long as prompt and limit need."""
    net = model(layers=2)
    sampler = Sampler(net, VOCABULARY, config(max_new_tokens=8))
    assert sampler.bytes == {"cache": 0, "state": 0, "weights": 0}
    sampler.sample(PROBLEMS[:2], row_seeds(0, 8, "cpu"), 0)
    cache = sampler._runner.session.cache
    assert cache.slots == 8
    width = net.config.hidden_size
    assert sampler.bytes["cache"] == 2 * 2 * 8 * cache.length * width * 4
    assert sampler.bytes["weights"] > 0  # joined matrices
    sampler.sleep()
    assert sum(sampler.bytes.values()) == 0


def test_waking_again_gives_the_same_completions():
    net, seeds = model(), row_seeds(0, 8, "cpu")
    sampler = Sampler(net, VOCABULARY, config())
    first, _ = sampler.sample(PROBLEMS[:2], seeds, 0)
    sampler.sleep()
    second, _ = sampler.sample(PROBLEMS[:2], seeds, 0)
    assert torch.equal(first.tokens, second.tokens)
    assert torch.equal(first.logprobs, second.logprobs)


def test_a_resumed_run_equals_an_unbroken_one_to_the_bit(tmp_path):
    own = settings(minibatches=2)
    first = colocated(own)
    for _ in range(2):
        first.step()
    save(tmp_path / "run.pt", first)
    second = colocated(own, seed=99)
    resume(tmp_path / "run.pt", second)
    second.run(progress=False)
    assert torch.equal(weights(synchronous(own)), weights(second))
    assert second.ledger.trained == own.updates * own.prompts


def test_dynamic_sampling_is_refused():
    with pytest.raises(ValueError, match="dynamic_sampling asks for more groups"):
        colocated(config("dapo"))
