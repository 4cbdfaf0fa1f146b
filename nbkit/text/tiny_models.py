"""Small models of transformers from a few numbers, for tasks that are taught from nothing."""

from typing import Any

import torch

from nbkit.text.protocols import TextVocabulary

FAMILIES = ("qwen2", "llama")


def tiny_model(
    vocabulary: TextVocabulary,
    *,
    width: int = 96,
    layers: int = 3,
    heads: int = 4,
    max_length: int = 128,
    rope_base: float = 10_000.0,
    family: str = "qwen2",
    seed: int = 0,
) -> Any:
    """Return a fresh causal language model in float32 and in evaluation mode.

    Args:
        vocabulary: its length, ``pad_id``, ``bos_id`` and ``eos_id`` are used.
        width: of the hidden state; the MLP has three times as much.
        layers: number of blocks.
        heads: attention heads; must divide ``width``.
        max_length: longest sequence.
        rope_base: of the rotary positions. The usual 10,000 is meant for thousands of positions;
            where texts have a few dozen, with 100 narrow heads learn sooner to find their place.
        family: "qwen2" or "llama".
        seed: of the weights. Matrices are drawn with standard deviation 1/sqrt(inputs): the
            family's own 0.02 is meant for a width of thousands and makes a narrow model slow to
            learn.

    Raises:
        ValueError: an unknown family, or heads that do not divide the width.

    """
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    if family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}; got {family!r}")
    if width % heads:
        raise ValueError(f"heads: {heads} does not divide width {width}")
    make_config, make_model = {
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "llama": (LlamaConfig, LlamaForCausalLM),
    }[family]
    config = make_config(
        vocab_size=len(vocabulary),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=max_length,
        pad_token_id=vocabulary.pad_id,
        bos_token_id=vocabulary.bos_id,
        eos_token_id=vocabulary.eos_id,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        rope_parameters={"rope_type": "default", "rope_theta": rope_base},
    )
    model = make_model(config).float().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            scale = 1 / parameter.shape[1] ** 0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                scale /= (2 * layers) ** 0.5  # the residual stream adds up 2 * layers of them
            torch.nn.init.normal_(parameter, 0.0, scale, generator=generator)
    return model
