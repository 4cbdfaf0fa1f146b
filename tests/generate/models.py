"""Tiny random models of the four shapes, with weights that make logits spread."""

import torch
import transformers as tr

VOCABULARY = 97
FAMILIES = ("llama", "qwen2", "qwen3", "gpt2")
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
}


def make(family, seed=0, scale=0.2, **changes):
    """A model in evaluation mode, float32."""
    torch.manual_seed(seed)
    if family == "gpt2":
        sizes = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4}
        ends = {"bos_token_id": None, "eos_token_id": None}
        model = tr.GPT2LMHeadModel(tr.GPT2Config(**{**sizes, **ends, "n_positions": 256} | changes))
    elif family == "llama":
        model = tr.LlamaForCausalLM(tr.LlamaConfig(**SIZES | changes))
    elif family == "qwen2":
        tied = {"tie_word_embeddings": True}
        model = tr.Qwen2ForCausalLM(tr.Qwen2Config(**SIZES | tied | changes))
    else:
        model = tr.Qwen3ForCausalLM(tr.Qwen3Config(**SIZES | {"head_dim": 32} | changes))
    model.generation_config.pad_token_id = 0
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, 1.0, 0.3)
        else:
            torch.nn.init.normal_(parameter, 0.0, scale)
    return model.eval()


def some_prompts(lengths, seed=0, vocabulary=VOCABULARY):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(vocabulary, (n,), generator=generator).tolist() for n in lengths]
