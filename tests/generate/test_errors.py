"""Bad input raises one clear sentence."""

import importlib.util

import pytest
import torch
import transformers as tr

from nbkit.generate import EngineOptions, generate
from nbkit.generate.mismatch import ratio
from tests.generate.models import SIZES, make

pytestmark = pytest.mark.chapter(31)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": []}, "prompts: none given"),
        ({"prompts": [[1], []]}, "prompts: number 1 is empty"),
        ({"prompts": [[1, 97]]}, r"token ids must lie in \[0, 96\]; got 97"),
        ({"prompts": [[-1]]}, r"prompts: token ids must lie in \[0, 96\]; got -1"),
        ({"eos_ids": 97}, r"eos_ids: token ids must lie in \[0, 96\]; got 97"),
        ({"eos_ids": (1, -1)}, r"eos_ids: token ids must lie in \[0, 96\]; got -1"),
        ({"prompts": torch.zeros(2, 3)}, "prompts must hold integers"),
        ({"attention_mask": torch.ones(1, 1)}, "attention_mask belongs to prompts"),
        (
            {"prompts": torch.ones(2, 3).long(), "attention_mask": torch.ones(2, 2)},
            r"attention_mask must have the shape of prompts, \(2, 3\); got \(2, 2\)",
        ),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1; got 0"),
        ({"max_new_tokens": [3]}, "1 limits given for 2 rows"),
        ({"temperature": -1.0}, "temperature must lie in"),
        ({"temperature": float("nan")}, "temperature must lie in"),
        ({"temperature": float("inf")}, "temperature must be finite"),
        ({"top_k": 0}, "top_k must be an integer of at least 1"),
        ({"top_p": 0.0}, "top_p must lie in"),
        ({"top_p": 1.5}, "top_p must lie in"),
        ({"seeds": None}, "seeds must be given unless temperature is 0"),
        ({"seeds": [1, 2, 3]}, "seeds: 3 given for 2 rows"),
        ({"group_size": 0}, "group_size must be at least 1"),
        ({"max_batch": 0}, "max_batch must be at least 1"),
        ({"backend": "fast"}, "backend must be one of"),
    ],
)
def test_arguments(models, changes, message):
    keywords = {"prompts": [[1, 2], [3]], "max_new_tokens": 4, "seeds": 0} | changes
    with pytest.raises(ValueError, match=message) as caught:
        generate(models["llama"], **keywords)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"attention": "flash"}, "options.attention must be one of"),
        ({"splits": 3}, "options.splits must be a power of two; got 3"),
        ({"check_every": 0}, "options.check_every must be at least 1"),
    ],
)
def test_options(keywords, message):
    with pytest.raises(ValueError, match=message):
        EngineOptions(**keywords)


def test_back_ends_that_are_not_there(models):
    if importlib.util.find_spec("vllm") is None:
        with pytest.raises(ImportError, match="vllm, which is not installed"):
            generate(models["llama"], [[1]], max_new_tokens=1, seeds=0, backend="vllm")
    if importlib.util.find_spec("triton") is None:
        with pytest.raises(ImportError, match="triton, which is not installed"):
            generate(models["llama"], [[1]], max_new_tokens=1, seeds=0, backend="triton")
    with pytest.raises(ValueError, match="CUDA graphs need a GPU"):
        generate(
            models["llama"], [[1]], max_new_tokens=1, seeds=0, options=EngineOptions(graph=True)
        )


def refuse(model, message):
    with pytest.raises(ValueError, match=message) as caught:
        generate(model, [[1, 2]], max_new_tokens=2, seeds=0)
    assert "\n" not in str(caught.value)


def test_models_that_the_engine_does_not_know():
    refuse(torch.nn.Linear(2, 2), "the engine runs causal language models of the shapes llama")
    sliding = SIZES | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
    refuse(tr.Qwen2ForCausalLM(tr.Qwen2Config(**sliding)), "sliding_attention are not supported")
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    refuse(make("llama", rope_parameters=rope), "'dynamic' change with the length")
    refuse(make("gpt2", scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx")
    gemma = tr.Gemma2ForCausalLM(tr.Gemma2Config(**SIZES | {"head_dim": 16}))
    refuse(gemma, "got gemma2")


def test_an_adapter_is_not_silently_left_out():
    class Adapter(torch.nn.Linear):
        pass

    model = make("llama")
    model.model.layers[1].self_attn.q_proj = Adapter(64, 64, bias=False)
    refuse(model, "is a Adapter; the engine reads plain weights")


def test_positions_that_run_out():
    model = make("gpt2", n_positions=16)
    with pytest.raises(ValueError, match="reach 20 tokens, but the model has positions for 16"):
        generate(model, [[1] * 10], max_new_tokens=10, seeds=0)
    generate(model, [[1] * 10], max_new_tokens=6, seeds=0)


def test_broken_logits_are_reported():
    model = make("llama")
    with torch.no_grad():
        model.model.norm.weight.fill_(torch.nan)
    refuse(model, "its logits hold NaN")


def test_ratio_shapes():
    x, mask = torch.zeros(2, 3), torch.ones(2, 3).bool()
    with pytest.raises(ValueError, match=r"shape of train_logprobs, \(2, 3\)"):
        ratio(x, x[:, :2], mask)
    assert torch.equal(ratio(x + 1, x, mask & False), torch.ones(2, 3))
