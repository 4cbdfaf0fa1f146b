"""How a batch is cut for its forward passes: by a budget of tokens, or by a number of rows.

It changes memory and speed, not the gradient.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.packing import token_budget_batches


def check_micro(tokens: int | None, rows: int | None, name: str = "micro_rows") -> None:
    """Raise ValueError unless at most one limit is given, and is at least 1.

    Args:
        tokens: `micro_tokens` of a configuration.
        rows: its `micro_rows`.
        name: what it is called there.

    """
    if tokens is not None:
        check_number("micro_tokens", tokens, 1)
    if rows is not None:
        check_number(name, rows, 1)
    if tokens is not None and rows is not None:
        raise ValueError(
            f"micro_tokens is {tokens} and {name} is {rows}; give one of them, the other is None"
        )


def cut(
    lengths: Sequence[int], micro_tokens: int | None, micro_rows: int | None = None
) -> list[list[int]]:
    """Numbers of the items of each forward pass; each item exactly once.

    Args:
        lengths: tokens of each item.
        micro_tokens: budget (items x longest) of a pass, or None.
        micro_rows: items of a pass, or None. Neither: all items in one pass.

    """
    if micro_tokens is not None:
        return token_budget_batches(lengths, micro_tokens)
    every = list(range(len(lengths)))
    size = micro_rows or max(1, len(every))
    return [every[start : start + size] for start in range(0, len(every), size)]


def micro_batches(
    attention: Tensor, micro_tokens: int | None, micro_rows: int | None = None
) -> list[Tensor]:
    """Rows of each forward pass, as tensors; each row exactly once.

    Args:
        attention: (R, L) bool, True on real tokens.
        micro_tokens: see ``cut``.
        micro_rows: see ``cut``.

    """
    if micro_tokens is None:
        rows = torch.arange(len(attention), device=attention.device)
        return list(rows.split(micro_rows or max(1, len(rows))))
    parts = token_budget_batches(attention.sum(1).tolist(), micro_tokens)
    return [torch.tensor(part, device=attention.device) for part in parts]
