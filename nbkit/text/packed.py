"""Log-probabilities of sequences of many lengths: end to end in one row, and padded."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nbkit.logprobs import token_logprobs
from nbkit.packing import packed_batch, segment_mask
from nbkit.text.protocols import LanguageModel


def packed_logprobs(
    model: LanguageModel, sequences: Sequence[Sequence[int] | Tensor], *, temperature: float = 1.0
) -> list[Tensor]:
    """Next-token log-probabilities of sequences that pass through the model end to end.

    Args:
        model: a causal language model of transformers with "sdpa" or "eager" attention.
        sequences: token ids of each, at least two.
        temperature: logits are divided by it.

    Returns:
        One tensor (length - 1,) a sequence, with gradient.

    """
    batch = packed_batch([_to(model, sequence) for sequence in sequences])
    dtype = next(model.parameters()).dtype
    logits = model(
        input_ids=batch.ids,
        position_ids=batch.position_ids,
        attention_mask=segment_mask(batch, dtype),
        use_cache=False,
    ).logits
    scored = token_logprobs(logits[:, :-1], batch.ids[:, 1:], temperature=temperature)[0]
    out, start = [], 0
    for sequence in sequences:
        out.append(scored[start : start + len(sequence) - 1])
        start += len(sequence)  # the token at the border scores a stranger and is left out
    return out


def padded_logprobs(
    model: LanguageModel, sequences: Sequence[Sequence[int] | Tensor], *, temperature: float = 1.0
) -> list[Tensor]:
    """The same with a batch padded on the right."""
    rows = [_to(model, sequence) for sequence in sequences]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([row.numel() for row in rows], device=ids.device)
    attention = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    logits = model(input_ids=ids, attention_mask=attention.long(), use_cache=False).logits
    scored = token_logprobs(
        logits[:, :-1], ids[:, 1:], temperature=temperature, mask=attention[:, 1:]
    )
    return [row[: len(sequence) - 1] for row, sequence in zip(scored, sequences, strict=True)]


def _to(model: LanguageModel, sequence: Sequence[int] | Tensor) -> Tensor:
    device = next(model.parameters()).device
    return torch.as_tensor(sequence, dtype=torch.int64).to(device)
