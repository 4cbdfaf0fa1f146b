"""Which attention kernel a pass may take: on a GPU, cuDNN's has a gradient that can be NaN.

With torch 2.11 and later, ``scaled_dot_product_attention`` prefers cuDNN's kernel on H100 and H200.
Given a mask, in half precision, its gradient of the queries is NaN where the width of the batch is
64 more than a multiple of 128 and a row's scores are all far below 0, as they are in the heads of
pretrained models that attend to one token (https://github.com/pytorch/pytorch/issues/196678). The
forward pass is right. So padded batches take another kernel; without padding there is no mask, and
cuDNN's stays allowed.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def keep_cudnn_from_masks(model: nn.Module) -> None:
    """Let each pass over a padded batch, and its gradient, do without cuDNN's attention.

    Args:
        model: of transformers, or one inside; gets a hook before its forward pass, once.

    """
    for module in model.modules():
        # Of transformers: a whole model or its body. A wrapper may call either.
        whole = hasattr(module, "base_model") and hasattr(module, "config")
        if whole and _choose not in module._forward_pre_hooks.values():
            module.register_forward_pre_hook(_choose, with_kwargs=True)


def has_padding(attention_mask: Tensor) -> bool:
    """Whether transformers will hand a mask to the kernel.

    Args:
        attention_mask: (B, L), nonzero on real tokens; or a mask of four axes, which always counts.

    """
    return attention_mask.ndim != 2 or not bool(attention_mask.all())


def _choose(module: nn.Module, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
    """Allow or forbid it; that holds until the next pass, for what is computed again as well."""
    mask = given.get("attention_mask")
    if isinstance(mask, Tensor) and mask.is_cuda:
        torch.backends.cuda.enable_cudnn_sdp(not has_padding(mask))
