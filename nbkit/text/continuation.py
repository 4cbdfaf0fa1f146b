"""A tokenizer of transformers as the vocabulary of texts that go on from a prompt: no chat."""

from collections.abc import Iterable, Sequence
from typing import Any


class ContinuationVocabulary:
    """What the trainers ask of a vocabulary, answered by a tokenizer.

    Args:
        tokenizer: of transformers.
        ends: texts of one token that end an answer besides the tokenizer's own EOS, as a newline.

    Attributes:
        eos_id: the ids that end an answer.
        pad_id: fills up a batch.

    Raises:
        ValueError: a text in ``ends`` that is not one token.

    """

    def __init__(self, tokenizer: Any, *, ends: Sequence[str] = ()) -> None:
        self.tokenizer = tokenizer
        extra = [self.encode(text) for text in ends]
        for text, ids in zip(ends, extra, strict=True):
            if len(ids) != 1:
                raise ValueError(f"ends: {text!r} is {len(ids)} tokens of this tokenizer, not one")
        self.eos_id = (tokenizer.eos_token_id, *(ids[0] for ids in extra))
        pad = tokenizer.pad_token_id
        self.pad_id: int = tokenizer.eos_token_id if pad is None else pad

    def __len__(self) -> int:
        return len(self.tokenizer)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, with nothing put before or behind it."""
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids up to the first that ends an answer."""
        kept = []
        for number in ids:
            if number in self.eos_id:
                break
            kept.append(int(number))
        text: str = self.tokenizer.decode(kept)
        return text
