"""Greedy output equals `transformers.generate` token by token, float32, mixed prompt lengths."""

import pytest
import torch

from nbkit.generate import generate
from nbkit.generate.result import left_pad
from tests.generate.models import FAMILIES, VOCABULARY, make, some_prompts

pytestmark = pytest.mark.chapter(31)
LENGTHS = (3, 9, 1, 14, 6, 2)


def library(model, prompts, new, eos):
    ids, mask = left_pad(prompts)
    out = model.generate(
        ids,
        attention_mask=mask.long(),
        do_sample=False,
        max_new_tokens=new,
        eos_token_id=list(eos) or None,
        pad_token_id=0,
    )
    return out[:, ids.shape[1] :]


@pytest.mark.parametrize("ends", [0, 1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_equal_to_transformers(models, family, ends):
    prompts = some_prompts(LENGTHS)
    whole = generate(models[family], prompts, max_new_tokens=40, temperature=0).tokens
    # Ids that the answers really hold, so that rows end, at different places.
    eos = tuple(dict.fromkeys(int(whole[row, 7 * row]) for row in range(ends)))
    right = library(models[family], prompts, 40, eos)
    out = generate(models[family], prompts, max_new_tokens=40, temperature=0, eos_ids=eos, pad_id=0)
    assert torch.equal(out.tokens, right)
    assert (out.logprobs == 0).all()
    assert bool(ends) == (int(out.lengths.min()) < 40)


@pytest.mark.parametrize("family", FAMILIES)
def test_teacher_forced_tokens_are_the_argmax_of_a_fresh_pass(models, family):
    prompts = some_prompts(LENGTHS, seed=3)
    out = generate(models[family], prompts, max_new_tokens=12, temperature=0)
    for number, prompt in enumerate(prompts):
        ids = torch.tensor([prompt + out.tokens[number].tolist()])
        with torch.no_grad():
            best = models[family](input_ids=ids).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert best.tolist() == out.tokens[number].tolist()


def test_tensor_prompts_with_either_padding_equal_lists(models):
    prompts = some_prompts((4, 7, 2))
    ids, mask = left_pad(prompts)
    keywords = {"max_new_tokens": 10, "temperature": 0}
    lists = generate(models["qwen2"], prompts, **keywords)
    left = generate(models["qwen2"], ids, attention_mask=mask, **keywords)
    right_ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(p) for p in prompts], True)
    right_mask = torch.arange(7) < torch.tensor([4, 7, 2])[:, None]
    right = generate(models["qwen2"], right_ids, attention_mask=right_mask.long(), **keywords)
    assert torch.equal(lists.tokens, left.tokens) and torch.equal(lists.tokens, right.tokens)
    assert torch.equal(left.prompt_ids, ids) and torch.equal(left.prompt_mask, mask)


def test_the_result_describes_itself(models):
    prompts = some_prompts(LENGTHS)
    out = generate(
        models["qwen3"], prompts, max_new_tokens=40, temperature=0, eos_ids=(5, 17, 33, 60)
    )
    for number, row in enumerate(out.lists()):
        assert all(token not in (5, 17, 33, 60) for token in row[:-1])
        ended = row[-1] in (5, 17, 33, 60)
        assert out.truncated[number] == (not ended)
        assert ended or len(row) == 40
        assert (out.tokens[number][len(row) :] == 5).all()
        assert out.mask[number].tolist() == [True] * len(row) + [False] * (40 - len(row))
    assert out.ids.shape == out.attention.shape == out.position_ids.shape
    assert (out.position_ids[:, -1] >= 0).all()
    assert out.attention.sum(1).tolist() == [
        n + len(row) for n, row in zip(LENGTHS, out.lists(), strict=True)
    ]


@pytest.mark.parametrize("rope", ["linear", "llama3", "yarn"])
def test_scaled_rotary_positions(rope):
    scaling = {
        "linear": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
        "llama3": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
            "rope_theta": 10000.0,
        },
        "yarn": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "rope_theta": 10000.0,
        },
    }
    model = make("llama", rope_parameters=scaling[rope])
    prompts = some_prompts((5, 30))
    out = generate(model, prompts, max_new_tokens=20, temperature=0)
    assert torch.equal(out.tokens, library(model, prompts, 20, ()))


def test_the_embedding_is_untied_or_tied_and_the_vocabulary_is_whole(models):
    tied = models["qwen2"]
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert models["llama"].lm_head.weight is not models["llama"].model.embed_tokens.weight
    out = generate(tied, [[VOCABULARY - 1], [0]], max_new_tokens=3, temperature=0)
    assert out.tokens.shape == (2, 3)
