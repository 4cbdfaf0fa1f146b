"""What a causal language model of transformers is called with."""

from typing import Any

from torch import Tensor

from nbkit.masks import position_ids


def model_inputs(ids: Tensor, attention: Tensor) -> dict[str, Any]:
    """Keywords for a forward pass over whole rows, without a cache.

    Args:
        ids: (B, L), padded on either side.
        attention: (B, L), 1 on real tokens; positions count those only.

    """
    return {
        "input_ids": ids,
        "attention_mask": attention.long(),
        "position_ids": position_ids(attention),
        "use_cache": False,
    }
