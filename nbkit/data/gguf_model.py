"""From a GGUF file of llama.cpp to a folder that `from_pretrained` reads, weights dequantised.

transformers reads the tensors. Its reader keeps no more than the byte level of the tokenizer's
first step; models of the kind "smollm" split numbers into digits before it: this is put back.
"""

from pathlib import Path
from typing import Any

from nbkit.errors import UserError

PRE_TOKENIZER = "tokenizer.ggml.pre"
SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")
KNOWN = {"smollm": True, "gpt-2": False}  # whether digits stand alone


def convert(file: Path, folder: Path) -> None:
    """Write weights (float32), configuration and tokenizer of a GGUF file.

    Args:
        file: a Llama with a byte-level BPE tokenizer.
        folder: of the result; made here.

    Raises:
        UserError: a tokenizer whose first step is not known.

    """
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    kind = pre_tokenizer_of(file)
    if kind not in KNOWN:
        raise UserError(
            f"{file.name}: its tokenizer splits text as {kind!r}, which is unknown here"
        )
    place = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    read = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(**place)
    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if KNOWN[kind]:
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    # transformers refuses to write a model that it knows as quantised, although these weights are
    # dequantised: they go into a plain one.
    config = read.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    ids = {name: getattr(tokenizer, name) for name in SPECIAL}
    config.update(ids)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.generation_config = GenerationConfig(**ids)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def pre_tokenizer_of(file: Path) -> str:
    """How the tokenizer of a GGUF file splits text first.

    Raises:
        UserError: it is no GGUF file, or does not say.

    """
    from gguf import GGUFReader

    try:
        field = GGUFReader(file).get_field(PRE_TOKENIZER)
    except ValueError as error:
        raise UserError(f"{file.name} is no GGUF file: {error}") from error
    if field is None:
        raise UserError(f"{file.name} does not say how its tokenizer splits text ({PRE_TOKENIZER})")
    return str(field.contents())
