"""What a call returns: tokens, masks, log-probabilities, ready for a trainer's forward pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import torch
from torch import Tensor

from nbkit.masks import position_ids


@dataclass(frozen=True)
class Generation:
    """R = prompts × group_size rows of at most T new tokens; row i·G+j answers prompt i.

    Attributes:
        tokens: (R, T) sampled tokens, the EOS included, pad id after the end.
        mask: (R, T) bool, True where a token was really sampled.
        truncated: (R,) the length limit ended the row, not an EOS.
        logprobs: (R, T) float32 log-probability of each token under the distribution that it was
            sampled from (tempered and filtered); 0 where the mask is False and at temperature 0.
        prompt_ids: (R, P) prompts, padded on the left.
        prompt_mask: (R, P) bool, True on real tokens.
        stats: prefill_tokens, decode_steps, slot_steps (slots × steps), decode_seconds
            (of the device), seconds (of the whole call).

    """

    tokens: Tensor
    mask: Tensor
    truncated: Tensor
    logprobs: Tensor
    prompt_ids: Tensor
    prompt_mask: Tensor
    stats: Mapping[str, float] = field(default_factory=dict)

    @property
    def lengths(self) -> Tensor:
        """(R,) number of sampled tokens, EOS included."""
        return self.mask.sum(1)

    @property
    def ids(self) -> Tensor:
        """(R, P+T) prompts and answers."""
        return torch.cat([self.prompt_ids, self.tokens], 1)

    @property
    def attention(self) -> Tensor:
        """(R, P+T) bool, True on real tokens of ``ids``."""
        return torch.cat([self.prompt_mask, self.mask], 1)

    @property
    def position_ids(self) -> Tensor:
        """(R, P+T) positions of ``ids``; real tokens count 0, 1, 2, …"""
        return position_ids(self.attention)

    def rows(self, index: Tensor) -> "Generation":
        """The rows of ``index``; widths and stats stay."""
        names = [field.name for field in fields(self) if field.name != "stats"]
        return replace(self, **{name: getattr(self, name)[index] for name in names})

    def lists(self) -> list[list[int]]:
        """The sampled tokens of each row, without padding."""
        rows = zip(self.tokens.tolist(), self.lengths.tolist(), strict=True)
        return [row[:length] for row, length in rows]


def left_pad(
    prompts: list[list[int]], pad_id: int = 0, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Token lists as ids (B, P) and mask (B, P) bool, padded on the left."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[pad_id] * (width - len(p)) + p for p in prompts], dtype=torch.int64)
    lengths = torch.tensor([len(p) for p in prompts])
    mask = torch.arange(width) >= width - lengths[:, None]
    return ids.to(device), mask.to(device)
