"""What the trainers for text do on several ranks: shares of prompts and rows, and the whole again.

One device is the back-end "single", with one rank: no trainer asks whether there is a back-end.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from nbkit.generate import Generation
from nbkit.generate.sampling import row_seeds
from nbkit.parallel import Parallel, ParallelConfig, World, connect
from nbkit.trainers.micro import micro_batches

Part = TypeVar("Part")
Kept = TypeVar("Kept")
Asked = TypeVar("Asked")


class HasParameters(Protocol):
    """Whatever lies on a device."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights."""
        ...


def spread_over(parallel: Parallel | None, model: HasParameters) -> Parallel:
    """The back-end that was given, or one device: the one on which the model lies.

    Args:
        parallel: what a caller handed over, not prepared yet.
        model: asked where it lies, if there is no back-end.

    """
    if parallel is not None:
        return parallel
    return connect(ParallelConfig(), World(device=next(model.parameters()).device))


def check_share(name: str, number: int, parallel: Parallel, each: str) -> None:
    """Raise ValueError if some rank would have nothing to do.

    Args:
        name: of the setting.
        number: its value, over all ranks.
        parallel: who takes part.
        each: what a rank needs, for the message.

    """
    if number < parallel.world.size:
        raise ValueError(
            f"{name} is {number}, but there are {parallel.world.size} ranks, and each {each}"
        )


def own_parts(
    attention: Tensor, parallel: Parallel, micro_tokens: int | None, micro_rows: int | None = None
) -> Iterator[Tensor | None]:
    """Rows of this rank's micro-batches; None where only other ranks have one left.

    Args:
        attention: (R, L) bool, of the rows of all ranks.
        parallel: who takes part.
        micro_tokens: see ``nbkit.trainers.micro.cut``.
        micro_rows: see there.

    """
    if not len(attention):
        return
    mine = torch.arange(len(attention), device=attention.device)
    mine = mine[parallel.world.rank :: parallel.world.size]
    parts = micro_batches(attention[mine], micro_tokens, micro_rows) if len(mine) else []
    for part in parallel.parts(parts):
        yield None if part is None else mine[part]


def backward_parts(
    parallel: Parallel,
    parts: Sequence[Part],
    idle: Part,
    run: Callable[[Part], tuple[Tensor, Kept]],
) -> Iterator[tuple[Tensor, Kept]]:
    """Add the gradient of each of this rank's micro-batches; give the loss of each as it is done.

    Args:
        parallel: of the model.
        parts: this rank's micro-batches.
        idle: one to run where only other ranks have one left, who need this one's shards; it adds
            nothing.
        run: from a micro-batch to its part of the loss of the whole batch, and what is to be kept.

    Yields:
        the part of the loss, without gradient, and what ``run`` gave beside it.

    """
    for part in parallel.parts(parts):
        loss, kept = run(idle if part is None else part)
        parallel.backward(0.0 * loss if part is None else loss)
        if part is not None:
            yield loss.detach(), kept


def own_prompts(
    asked: list[Asked], group_size: int, generator: torch.Generator, parallel: Parallel
) -> tuple[list[Asked], slice, Tensor]:
    """This rank's prompts, its rows among those of all, and their seeds.

    There is one seed a row, the same whichever rank samples it.

    Args:
        asked: prompts of all ranks.
        group_size: completions of each, which stand together.
        generator: of the run, in the same state on all ranks.
        parallel: who takes part.

    """
    mine = parallel.share(len(asked))
    rows = slice(mine.start * group_size, mine.stop * group_size)
    seeds = row_seeds(generator, len(asked) * group_size, generator.device)
    return asked[mine], rows, seeds[rows]


def everyone_s(lists: tuple[list[Any], ...], parallel: Parallel) -> tuple[list[Any], ...]:
    """Lists with an entry for each row, of all ranks one after the other."""
    return tuple(
        [entry for part in parts for entry in part]
        for parts in zip(*parallel.everyone(lists), strict=True)
    )


def interleaved(parts: Sequence[Tensor]) -> Tensor:
    """What ranks made of every size-th item, in the order of the items.

    Args:
        parts: by rank; the first ones have at most one entry more than the last ones.

    """
    found = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
    for rank, part in enumerate(parts):
        found[rank :: len(parts)] = part
    return found


def whole_generation(made: Generation, pad_id: int, parallel: Parallel) -> Generation:
    """What all ranks sampled, on every rank."""
    return join_generations(parallel.everyone(made), pad_id)


def join_generations(parts: Sequence[Generation], pad_id: int) -> Generation:
    """Rows of several calls, one below the other; shorter ones are padded."""
    if len(parts) == 1:
        return parts[0]
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
