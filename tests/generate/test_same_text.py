"""A row with its seed gives the same text in any batch, order, slot and group (float32)."""

import pytest
import torch

from benchmarks.decode_loops import cached_loop, naive_loop, padded_loop, static_loop
from nbkit.generate import EngineOptions, clear, generate
from tests.generate.models import FAMILIES, make, some_prompts

pytestmark = pytest.mark.chapter(31)
LENGTHS = (3, 9, 1, 14, 6, 2, 11, 9)
KEYWORDS = {"max_new_tokens": 24, "temperature": 0.9, "top_p": 0.95, "eos_ids": (4, 8, 15)}
SEEDS = [101, -5, 2**63 - 1, 17, 3, 77, 0, 9]


@pytest.fixture(scope="module")
def expected(models):
    """Each row sampled alone."""
    prompts = some_prompts(LENGTHS)
    return {
        family: [
            generate(model, [prompt], seeds=[seed], **KEYWORDS).lists()[0]
            for prompt, seed in zip(prompts, SEEDS, strict=True)
        ]
        for family, model in models.items()
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_any_batch_order_and_number_of_slots(models, expected, family):
    model, prompts = models[family], some_prompts(LENGTHS)
    rows = expected[family]
    assert len({len(row) for row in rows}) > 2, "rows end together: nothing is refilled"
    order = [5, 2, 7, 0, 3, 6, 1, 4]
    for slots in (None, 1, 3, 5):
        out = generate(model, prompts, seeds=SEEDS, max_batch=slots, **KEYWORDS)
        assert out.lists() == rows
        mixed = generate(
            *(model, [prompts[i] for i in order]),
            seeds=[SEEDS[i] for i in order],
            max_batch=slots,
            **KEYWORDS,
        )
        assert mixed.lists() == [rows[i] for i in order]


@pytest.mark.parametrize("family", ["qwen2", "gpt2"])
def test_waves_shrinking_and_looking_seldom_change_nothing(models, expected, family):
    model, prompts = models[family], some_prompts(LENGTHS)
    for options in (
        EngineOptions(shrink=False),
        EngineOptions(check_every=7),
        EngineOptions(refill_share=1.0),
        EngineOptions(prefill_tokens=8),
        EngineOptions(join=False),
    ):
        for on in (True, False):
            out = generate(
                *(model, prompts),
                seeds=SEEDS,
                max_batch=3,
                continuous_batching=on,
                options=options,
                **KEYWORDS,
            )
            assert out.lists() == expected[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_group_shares_its_prefill_and_changes_nothing(models, family):
    model = models[family]
    prompts = some_prompts((6, 1, 9))
    seeds = list(range(12))
    alone = [
        generate(model, [prompts[row // 4]], seeds=[row], **KEYWORDS).lists()[0] for row in seeds
    ]
    for slots in (None, 2, 5):
        shared = generate(model, prompts, seeds=seeds, group_size=4, max_batch=slots, **KEYWORDS)
        apart = generate(
            *(model, prompts),
            seeds=seeds,
            group_size=4,
            max_batch=slots,
            share_prefix=False,
            **KEYWORDS,
        )
        assert shared.lists() == apart.lists() == alone
        assert shared.stats["prefill_tokens"] == 5 + 8, "a prompt was read more than once"
        assert apart.stats["prefill_tokens"] == 4 * (5 + 8)
        assert torch.allclose(shared.logprobs, apart.logprobs, atol=1e-5)


def test_one_int_for_all_rows_keeps_the_first_rows(models):
    prompts = some_prompts(LENGTHS)
    eight = generate(models["llama"], prompts, seeds=1, **KEYWORDS)
    three = generate(models["llama"], prompts[:3], seeds=1, **KEYWORDS)
    assert eight.lists()[:3] == three.lists()
    other = generate(models["llama"], prompts, seeds=2, **KEYWORDS)
    assert other.lists() != eight.lists()


def test_a_generator_draws_new_seeds_at_each_call(models):
    prompts = some_prompts((4, 4))
    generator = torch.Generator().manual_seed(0)
    first, second = (
        generate(models["llama"], prompts, seeds=generator, **KEYWORDS).lists() for _ in range(2)
    )
    assert first != second
    again = torch.Generator().manual_seed(0)
    assert generate(models["llama"], prompts, seeds=again, **KEYWORDS).lists() == first


@pytest.mark.parametrize("family", FAMILIES)
def test_every_rung_of_the_ladder_gives_the_same_tokens(models, expected, family):
    model, prompts, rows = models[family], some_prompts(LENGTHS), expected[family]
    keywords = {name: value for name, value in KEYWORDS.items() if name != "max_new_tokens"}
    for loop in (padded_loop, static_loop):
        out = loop(model, prompts, 24, seeds=SEEDS, **keywords)
        assert out.lists() == rows
        assert out.truncated.tolist() == [row[-1] not in (4, 8, 15) for row in rows]
    for row in (0, 2, 3):
        for loop in (naive_loop, cached_loop):
            out = loop(model, prompts[row], 24, seeds=[SEEDS[row]], **keywords)
            assert out.lists() == [rows[row]]


def test_limits_a_row(models):
    limits = [1, 9, 3, 24]
    prompts = some_prompts((3, 5, 2, 8))
    out = generate(models["qwen3"], prompts, max_new_tokens=limits, seeds=0, max_batch=2)
    assert out.lengths.tolist() == limits and out.truncated.all()
    whole = generate(models["qwen3"], prompts, max_new_tokens=24, seeds=0)
    assert [row[:n] for row, n in zip(whole.lists(), limits, strict=True)] == out.lists()


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_updated_in_place_or_replaced_are_seen(family):
    model, fresh = make(family), make(family, seed=1)
    prompts = some_prompts((4, 7))
    before = generate(model, prompts, seeds=0, max_new_tokens=16).lists()
    expected = generate(fresh, prompts, seeds=0, max_new_tokens=16).lists()
    assert before != expected
    with torch.no_grad():
        for own, new in zip(model.parameters(), fresh.parameters(), strict=True):
            own.copy_(new)
    assert generate(model, prompts, seeds=0, max_new_tokens=16).lists() == expected
    other = make(family, seed=2)
    for own, new in zip(model.parameters(), other.parameters(), strict=True):
        own.data = new.data.clone()
    right = generate(other, prompts, seeds=0, max_new_tokens=16).lists()
    assert generate(model, prompts, seeds=0, max_new_tokens=16).lists() == right != expected


def test_every_single_weight_counts():
    """Other numbers, not larger ones: the norms of Qwen3 divide a common factor out again."""
    model = make("qwen3", tie_word_embeddings=False)
    prompts = some_prompts((6,))
    keywords = {"seeds": 0, "max_new_tokens": 4}
    noise = torch.Generator().manual_seed(1)
    before = generate(model, prompts, **keywords).logprobs
    for name, parameter in model.named_parameters():
        kept = parameter.detach().clone()
        with torch.no_grad():
            parameter += 0.5 * kept.abs().mean() * torch.randn(kept.shape, generator=noise)
        after = generate(model, prompts, **keywords).logprobs
        assert (after - before).abs().max() > 0.05, f"{name} is not read"
        with torch.no_grad():
            parameter.copy_(kept)
    assert torch.equal(generate(model, prompts, **keywords).logprobs, before)


def test_dropout_is_never_applied_and_the_mode_is_left_alone():
    model = make("gpt2", resid_pdrop=0.5, attn_pdrop=0.5, embd_pdrop=0.5)
    prompts = some_prompts((5, 3))
    before = generate(model, prompts, seeds=0, max_new_tokens=10)
    model.train()
    during = generate(model, prompts, seeds=0, max_new_tokens=10)
    assert torch.equal(before.tokens, during.tokens) and model.training
    assert not during.logprobs.requires_grad
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_an_engine_does_not_keep_its_model_alive():
    import gc
    import weakref

    model = make("llama")
    generate(model, [[1, 2]], seeds=0, max_new_tokens=2)
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None


def test_clear_and_the_policy_wrapper(models):
    from nbkit.text.policies import HuggingFacePolicy

    model = models["gpt2"]
    first = generate(model, [[1, 2]], seeds=0, max_new_tokens=5)
    clear(model)
    wrapped = generate(HuggingFacePolicy(model), [[1, 2]], seeds=0, max_new_tokens=5)
    assert torch.equal(first.tokens, wrapped.tokens)
    clear()
    assert torch.equal(generate(model, [[1, 2]], seeds=0, max_new_tokens=5).tokens, first.tokens)


def test_another_dtype_computes_on_a_cast_copy(models):
    model = models["qwen2"]
    prompts = some_prompts((4, 6))
    wide = generate(model, prompts, seeds=0, max_new_tokens=12)
    narrow = generate(model, prompts, seeds=0, max_new_tokens=12, dtype=torch.bfloat16)
    double = generate(model, prompts, seeds=0, max_new_tokens=12, dtype=torch.float64)
    assert torch.equal(wide.tokens, double.tokens)
    assert torch.allclose(wide.logprobs, double.logprobs, atol=1e-5)
    assert not torch.allclose(wide.logprobs[:, 0], narrow.logprobs[:, 0], atol=1e-6)
    assert model.dtype == torch.float32
