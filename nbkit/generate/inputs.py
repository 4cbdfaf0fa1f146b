"""What `generate` accepts, checked and brought to one form."""

from collections.abc import Iterable, Sequence

from torch import Tensor

from nbkit._inputs import as_bool, check_integers


def prompt_lists(
    prompts: Sequence[Sequence[int]] | Tensor, attention_mask: Tensor | None
) -> list[list[int]]:
    """Prompts as lists of ids without padding.

    Raises:
        ValueError: no prompt, an empty one, a tensor without its mask or with another shape.

    """
    if isinstance(prompts, Tensor):
        check_integers("prompts", prompts, 2)
        if attention_mask is None:
            kept = [[True] * prompts.shape[1]] * prompts.shape[0]
        else:
            if attention_mask.shape != prompts.shape:
                raise ValueError(
                    f"attention_mask must have the shape of prompts, {tuple(prompts.shape)}; "
                    f"got {tuple(attention_mask.shape)}"
                )
            kept = as_bool(attention_mask, "attention_mask").tolist()
        pairs = zip(prompts.tolist(), kept, strict=True)
        listed = [[i for i, keep in zip(row, real, strict=True) if keep] for row, real in pairs]
    else:
        if attention_mask is not None:
            raise ValueError("attention_mask belongs to prompts that are a tensor; these are lists")
        listed = [[int(i) for i in prompt] for prompt in prompts]
    if not listed:
        raise ValueError("prompts: none given")
    for number, prompt in enumerate(listed):
        if not prompt:
            raise ValueError(
                f"prompts: number {number} is empty; a model needs one token to begin with, "
                "such as its BOS"
            )
    return listed


def row_limits(max_new_tokens: int | Sequence[int], rows: int) -> list[int]:
    """One limit a row.

    Raises:
        ValueError: a limit below 1, or not one a row.

    """
    limits = [max_new_tokens] * rows if isinstance(max_new_tokens, int) else list(max_new_tokens)
    if len(limits) != rows:
        raise ValueError(
            f"max_new_tokens: {len(limits)} limits given for {rows} rows (prompts × group_size)"
        )
    if min(limits) < 1:
        raise ValueError(f"max_new_tokens must be at least 1; got {min(limits)}")
    return limits


def eos_tuple(eos_ids: int | Sequence[int] | None) -> tuple[int, ...]:
    """EOS ids as a tuple without repetitions, in the order given."""
    if eos_ids is None:
        return ()
    return (eos_ids,) if isinstance(eos_ids, int) else tuple(dict.fromkeys(int(i) for i in eos_ids))


def check_ids(name: str, ids: Iterable[int], vocabulary: int) -> None:
    """Refuse ids that the model has no row for.

    Raises:
        ValueError: names the first such id and the range.

    """
    for found in ids:
        if not 0 <= found < vocabulary:
            raise ValueError(f"{name}: token ids must lie in [0, {vocabulary - 1}]; got {found}")
