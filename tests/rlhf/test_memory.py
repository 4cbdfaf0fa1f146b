"""The memory calculator against models that exist, arrays that are counted, and arithmetic."""

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from nbkit.logprobs import next_token_logprobs
from nbkit.memory import (
    BF16,
    FP32,
    MIXED,
    SHAPES,
    ModelShape,
    Training,
    config_arguments,
    four_models,
    generation_peak,
    inference_peak,
    static_memory,
    training_peak,
    zero_bytes,
)
from nbkit.memory.peaks import block_activations, head_activations, kv_cache_bytes
from nbkit.text.scalar_models import ScalarModel

pytestmark = pytest.mark.chapter(21)
SIZES = {
    "vocab_size": 301,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
BIG = SHAPES["qwen2.5-7b"]


def models():
    for tied in (True, False):
        yield Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=tied))
        yield LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=tied))


def test_parameters_are_counted_to_the_last_one():
    for model in models():
        shape = ModelShape.from_config(model.config)
        assert shape.parameters == sum(p.numel() for p in model.parameters())
        scalar = ScalarModel.from_causal(model)
        assert shape.scalar_parameters == sum(p.numel() for p in scalar.parameters())


# Published sizes, in billions.
@pytest.mark.parametrize(
    ("name", "billions"),
    [("qwen2.5-0.5b", 0.494), ("qwen2.5-1.5b", 1.544), ("qwen2.5-3b", 3.086),
     ("qwen2.5-7b", 7.616), ("qwen2.5-14b", 14.770), ("llama-3-8b", 8.030)],
)  # fmt: skip
def test_named_shapes_have_their_published_size(name, billions):
    assert SHAPES[name].parameters / 1e9 == pytest.approx(billions, abs=0.001)


def stored_bytes(model, ids):
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept, seen = [], {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage.nbytes()
            kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        next_token_logprobs(model(input_ids=ids, use_cache=False).logits, ids).mean()
    return sum(seen.values())


def test_stored_activations_are_those_that_autograd_keeps():
    """Counted, each storage once, for two depths: their difference is one block exactly."""
    ids = torch.randint(0, 301, (4, 64))
    counted = []
    for layers in (2, 3):
        config = Qwen2Config(**{**SIZES, "num_hidden_layers": layers}, tie_word_embeddings=True)
        counted.append(stored_bytes(Qwen2ForCausalLM(config).bfloat16().eval(), ids))
    shape = ModelShape.from_config(config)
    block = block_activations(shape, BF16) * ids.numel()
    assert counted[1] - counted[0] == block
    whole = 3 * block + ids.numel() * (head_activations(shape, BF16, scalar=False) + 2 * 301)
    assert whole == pytest.approx(counted[1], rel=0.02)


def test_stored_activations_in_float32():
    ids = torch.randint(0, 301, (4, 64))
    counted = []
    for layers in (2, 3):
        config = Qwen2Config(**{**SIZES, "num_hidden_layers": layers}, tie_word_embeddings=True)
        counted.append(stored_bytes(Qwen2ForCausalLM(config).eval(), ids))
    block = block_activations(ModelShape.from_config(config), FP32) * ids.numel()
    assert counted[1] - counted[0] == block


def test_static_memory_by_hand():
    shape = SHAPES["qwen2.5-0.5b"]
    count = shape.parameters
    full = static_memory(shape, Training(MIXED))
    assert full == {
        "parameters": 2 * count, "gradients": 2 * count, "master": 4 * count,
        "optimiser": 8 * count, "gathered": 0,
    }  # fmt: skip
    assert static_memory(shape, None) == {"parameters": 2 * count}
    assert static_memory(shape, Training(BF16))["optimiser"] == 4 * count


@pytest.mark.parametrize("stage", range(4))
def test_both_ways_to_count_zero_agree(stage):
    ranks = 8 if stage else 1
    static = static_memory(BIG, Training(MIXED, shards=ranks, stage=stage))
    found = zero_bytes(BIG.parameters, ranks, stage)
    assert static["parameters"] == found.weights and static["gradients"] == found.gradients
    assert static["master"] + static["optimiser"] == pytest.approx(found.optimiser)


@pytest.mark.parametrize("name", [name for name in SHAPES if name.startswith("qwen")])
def test_a_shape_and_its_configuration_are_one(name):
    config = Qwen2Config(**config_arguments(SHAPES[name]))
    assert ModelShape.from_config(config) == SHAPES[name]


@pytest.mark.parametrize(
    ("stage", "divided"),
    [(1, {"master", "optimiser"}), (2, {"master", "optimiser", "gradients"}),
     (3, {"master", "optimiser", "gradients", "parameters"})],
)  # fmt: skip
def test_what_each_stage_of_zero_divides(stage, divided):
    whole = static_memory(BIG, Training(MIXED))
    parts = static_memory(BIG, Training(MIXED, shards=8, stage=stage))
    for name in ("parameters", "gradients", "master", "optimiser"):
        assert parts[name] == pytest.approx(whole[name] / (8 if name in divided else 1)), name
    assert (parts["gathered"] > 0) == (stage == 3)


def test_lora_trains_a_part_and_its_gradients_follow():
    training = Training(MIXED, method="lora", rank=16, targets=("q", "v"))
    numbers = BIG.layers * 16 * ((3584 + 3584) + (3584 + 512))
    static = static_memory(BIG, training)
    assert static["gradients"] == 2 * numbers
    assert static["parameters"] == 2 * (BIG.parameters + numbers)
    with pytest.raises(ValueError, match=r"targets: \['router'\]"):
        static_memory(BIG, Training(method="lora", targets=("router",)))


def test_the_cache_is_that_of_the_engine():
    from nbkit.generate.cache import StaticCache

    shape = SHAPES["qwen2.5-0.5b"]
    cache = StaticCache(
        shape.layers, 3, shape.kv_heads, 7, shape.head_dim, dtype=torch.bfloat16, device="cpu"
    )
    assert kv_cache_bytes(shape, 3, 7) == cache.bytes_per_token * 21
    peak = generation_peak(shape, rows=4, prompt=60, new_tokens=5)
    assert peak.parts["kv cache"] == kv_cache_bytes(shape, 4, 128)  # 65 tokens, rounded up


def test_checkpointing_saves_activations_and_not_logits():
    plain = training_peak(BIG, Training(), rows=2, length=2048)
    saved = training_peak(BIG, Training(checkpointing=True), rows=2, length=2048)
    assert saved.parts["activations"] < 0.1 * plain.parts["activations"]
    assert saved.total < plain.total
    fewer = training_peak(BIG, Training(), rows=2, length=2048, scored=512)
    assert fewer.total < plain.total


def test_four_models_rest_beside_each_phase():
    shape = SHAPES["qwen2.5-1.5b"]
    whole = four_models(shape, Training(BF16), rows=8, prompt=128, new_tokens=128, micro_rows=8)
    assert whole.resting["policy"] == shape.parameters * 6  # weights and both moments
    assert whole.resting["reference"] == shape.parameters * 2
    assert whole.resting["reward model"] == shape.scalar_parameters * 2
    for name, phase in whole.phases.items():
        assert phase.total > sum(whole.resting.values()), name
    assert whole.peak == whole.phases[whole.worst].total
    assert whole.fits() and not whole.fits(20e9)
    shared = four_models(
        shape, Training(BF16), rows=8, prompt=128, new_tokens=128, micro_rows=8, shared_trunk=True
    )
    assert shared.peak < whole.peak and "value update" not in shared.phases


def test_what_fits_on_one_card():
    """A 7B policy with full training does not; with adapters it does."""
    batch = {"rows": 64, "prompt": 512, "new_tokens": 512, "micro_rows": 1}
    full = Training(MIXED, checkpointing=True)
    assert not four_models(BIG, full, **batch).fits()
    adapters = replace(full, method="lora")
    assert four_models(BIG, adapters, **batch, reference="adapter").fits()
    eight = replace(full, shards=8, stage=3)
    assert four_models(BIG, eight, **batch).fits()


def test_faulty_set_ups_are_named():
    with pytest.raises(ValueError, match="stage is 0"):
        Training(shards=8)
    with pytest.raises(ValueError, match="needs method='lora'"):
        four_models(
            BIG, Training(), rows=1, prompt=1, new_tokens=1, micro_rows=1, reference="adapter"
        )
    assert inference_peak(BIG, rows=1, length=8).parts["logits"] == 0
