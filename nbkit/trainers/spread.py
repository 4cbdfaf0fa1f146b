"""What the trainers for text do on several ranks: shares of prompts and rows, and the whole again.

Each function takes a ``nbkit.parallel.Parallel``, or None where this process is alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from nbkit.generate import Generation
from nbkit.generate.sampling import row_seeds
from nbkit.packing import token_budget_batches


def micro_batches(attention: Tensor, micro_tokens: int | None) -> list[Tensor]:
    """Rows of each forward pass under a budget of tokens; each row exactly once.

    Args:
        attention: (R, L) bool, True on real tokens.
        micro_tokens: the budget; None: all rows in one pass.

    """
    if micro_tokens is None:
        return [torch.arange(len(attention), device=attention.device)]
    parts = token_budget_batches(attention.sum(1).tolist(), micro_tokens)
    return [torch.tensor(part, device=attention.device) for part in parts]


def own_parts(
    attention: Tensor, micro_tokens: int | None, parallel: Any
) -> Iterator[Tensor | None]:
    """Rows of this rank's micro-batches; None where only other ranks have one left."""
    if not len(attention):
        return
    if parallel is None:
        yield from micro_batches(attention, micro_tokens)
        return
    mine = torch.arange(len(attention), device=attention.device)
    mine = mine[parallel.world.rank :: parallel.world.size]
    parts = micro_batches(attention[mine], micro_tokens) if len(mine) else []
    for part in parallel.parts(parts):
        yield None if part is None else mine[part]


def own_prompts(
    asked: list[Any], samples: int, generator: torch.Generator, parallel: Any
) -> tuple[list[Any], slice, Any]:
    """This rank's prompts, its rows among those of all, and what seeds them.

    There is one seed a row, the same whichever rank samples it.

    Args:
        asked: prompts of all ranks.
        samples: completions of each, which stand together.
        generator: of the run, in the same state on all ranks.
        parallel: who takes part.

    """
    if parallel is None:
        return asked, slice(None), generator
    mine = parallel.share(len(asked))
    rows = slice(mine.start * samples, mine.stop * samples)
    return asked[mine], rows, row_seeds(generator, len(asked) * samples, generator.device)[rows]


def everyone_s(lists: tuple[list[Any], ...], parallel: Any) -> tuple[list[Any], ...]:
    """Lists with an entry for each row, of all ranks one after the other."""
    if parallel is None:
        return lists
    return tuple(
        [entry for part in parts for entry in part]
        for parts in zip(*parallel.everyone(lists), strict=True)
    )


def whole_generation(made: Generation, pad_id: int, parallel: Any) -> Generation:
    """What all ranks sampled, on every rank."""
    return made if parallel is None else join_generations(parallel.everyone(made), pad_id)


def join_generations(parts: Sequence[Generation], pad_id: int) -> Generation:
    """Rows of several calls, one below the other; shorter ones are padded."""
    before = max(part.prompt_ids.shape[1] for part in parts)
    behind = max(part.tokens.shape[1] for part in parts)

    def stacked(name: str, room: tuple[int, int] | None, value: float) -> Tensor:
        found = [getattr(part, name) for part in parts]
        if room is not None:
            found = [
                torch.nn.functional.pad(
                    x,
                    (room[0] and room[0] - x.shape[1], room[1] and room[1] - x.shape[1]),
                    value=value,
                )
                for x in found
            ]
        return torch.cat(found)

    return Generation(
        tokens=stacked("tokens", (0, behind), pad_id),
        mask=stacked("mask", (0, behind), False),
        truncated=stacked("truncated", None, 0),
        logprobs=stacked("logprobs", (0, behind), 0.0),
        prompt_ids=stacked("prompt_ids", (before, 0), pad_id),
        prompt_mask=stacked("prompt_mask", (before, 0), False),
        stats=parts[0].stats,
    )
