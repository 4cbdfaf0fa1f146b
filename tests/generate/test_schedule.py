"""Slots over time, prefill counts, and the interface to other back-ends."""

import sys
import types

import pytest
import torch

from nbkit.generate import generate
from nbkit.generate.continuous import schedule
from nbkit.generate.prefix import prefill_cost
from tests.generate.models import some_prompts

pytestmark = pytest.mark.chapter(31)


def test_schedule_by_hand():
    refilled = schedule([3, 1, 2, 1], 2)
    assert refilled.grid == ((0, 1), (0, 2), (0, 2), (3, -1))
    waves = schedule([3, 1, 2, 1], 2, continuous=False)
    assert waves.grid == ((0, 1), (0, -1), (0, -1), (2, 3), (2, -1))
    assert refilled.steps == 4 and refilled.idle_share == 1 / 8 and waves.idle_share == 3 / 10


def test_schedule_serves_every_row_for_its_length():
    lengths = torch.randint(1, 30, (40,), generator=torch.Generator().manual_seed(0)).tolist()
    for continuous in (True, False):
        plan = schedule(lengths, 6, continuous=continuous)
        served = [sum(row in step for step in plan.grid) for row in range(40)]
        assert served == lengths
        assert all(len(step) == 6 for step in plan.grid)
    assert schedule(lengths, 6).steps < schedule(lengths, 6, continuous=False).steps
    assert schedule([], 3).grid == ()


def test_continuous_batching_wastes_fewer_slot_steps(models):
    limits = [2, 30, 3, 4, 2, 28, 3, 2]
    prompts = some_prompts((3,) * 8)
    keywords = {"max_new_tokens": limits, "seeds": 0, "max_batch": 4}
    on = generate(models["llama"], prompts, **keywords)
    off = generate(models["llama"], prompts, continuous_batching=False, **keywords)
    assert on.lists() == off.lists()
    assert on.stats["decode_steps"] < off.stats["decode_steps"]
    assert sum(limits) <= on.stats["slot_steps"]


def test_prefill_cost():
    assert prefill_cost([5, 9, 1], 4) == 12
    assert prefill_cost([5, 9, 1], 4, shared=False) == 48
    with pytest.raises(ValueError, match="group_size must be at least 1"):
        prefill_cost([5], 0)


class FakeVLLM(types.ModuleType):
    """The few names of vLLM that the back-end uses, answered by our own engine."""

    def __init__(self, model):
        super().__init__("vllm")
        self.__spec__ = types.SimpleNamespace()
        asked = self.asked = []

        class SamplingParams:
            def __init__(self, **keywords):
                self.__dict__.update(keywords)
                asked.append(keywords)

        class LLM:
            def __init__(self, mode="processed_logprobs"):
                config = types.SimpleNamespace(logprobs_mode=mode)
                self.llm_engine = types.SimpleNamespace(get_model_config=lambda: config)

            def generate(self, prompts, parameters, use_tqdm):
                answers = []
                for prompt, one in zip(prompts, parameters, strict=True):
                    out = generate(
                        model,
                        [prompt["prompt_token_ids"]],
                        max_new_tokens=one.max_tokens,
                        seeds=[one.seed or 0],
                        temperature=one.temperature,
                        eos_ids=one.stop_token_ids,
                    )
                    (tokens,) = out.lists()
                    scores = [
                        {token: types.SimpleNamespace(logprob=value)}
                        for token, value in zip(tokens, out.logprobs[0].tolist(), strict=True)
                    ]
                    answer = types.SimpleNamespace(token_ids=tokens, logprobs=scores)
                    answers.append(types.SimpleNamespace(outputs=[answer]))
                return answers

        self.LLM, self.SamplingParams = LLM, SamplingParams


def test_vllm_backend_has_the_same_interface(models, monkeypatch):
    fake = FakeVLLM(models["llama"])
    monkeypatch.setitem(sys.modules, "vllm", fake)
    prompts = some_prompts((3, 5))
    out = generate(
        fake.LLM(),
        prompts,
        max_new_tokens=12,
        seeds=[1, 2, 3, 4],
        group_size=2,
        temperature=0.8,
        top_p=0.9,
        eos_ids=(4, 9),
        backend="vllm",
    )
    assert out.tokens.shape[0] == 4 and out.prompt_ids.shape == (4, 5)
    assert fake.asked[0]["top_p"] == 0.9 and fake.asked[0]["stop_token_ids"] == [4, 9]
    assert [one["seed"] for one in fake.asked] == [1, 2, 3, 4]
    assert torch.equal(out.logprobs != 0, out.mask)
    with pytest.raises(ValueError, match="logprobs_mode='processed_logprobs'"):
        generate(fake.LLM("raw_logprobs"), prompts, max_new_tokens=2, seeds=1, backend="vllm")
    with pytest.raises(ValueError, match=r"takes a vllm\.LLM or a folder"):
        generate(models["llama"], prompts, max_new_tokens=2, seeds=1, backend="vllm")
