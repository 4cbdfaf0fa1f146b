"""A language model and its tokenizer, by what a configuration calls them."""

from contextlib import suppress
from typing import Any

import torch

from nbkit.data.prefetch import hub_name
from nbkit.runs.ranks import reads_weights


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a model: a path, `owner/name`, or what else ``hub_name`` knows."""
    from transformers import AutoTokenizer  # heavy: only who needs it pays

    where, revision = hub_name(name)
    return AutoTokenizer.from_pretrained(where, revision=revision)


def load_language_model(name: str, *, dtype: torch.dtype = torch.float32) -> Any:
    """A causal language model without dropout, on the CPU.

    Of several ranks the first reads the weights. The others get shapes alone, without memory, which
    ``Parallel.prepare`` and ``Parallel.frozen`` fill.

    Args:
        name: as for ``load_tokenizer``.
        dtype: of its weights; those that AdamW steps are float32.

    """
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    where, revision = hub_name(name)
    if not reads_weights():
        shape = AutoConfig.from_pretrained(where, revision=revision)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(shape, dtype=dtype)
        with suppress(OSError):  # it has none of its own, as transformers does with weights
            model.generation_config = GenerationConfig.from_pretrained(where, revision=revision)
        return model.eval()
    return AutoModelForCausalLM.from_pretrained(where, revision=revision, dtype=dtype).eval()
