"""A vocabulary of whole pieces of text, cut by a regular expression."""

import re
from collections.abc import Sequence
from typing import ClassVar


def longest_first(tokens: Sequence[str]) -> re.Pattern[str]:
    """A pattern that finds, at each place of a text, the longest of the tokens."""
    return re.compile("|".join(re.escape(t) for t in sorted(tokens, key=len, reverse=True)))


class PieceVocabulary:
    """PAD is 0, EOS is 1 (and BOS too); every other token is a piece of text.

    Attributes:
        tokens: the piece of each id; what stands at 0 and 1 is never written.
        pattern: finds the pieces of a text, from the left.

    """

    pad_id, eos_id, bos_id = 0, 1, 1
    tokens: ClassVar[Sequence[str]]
    pattern: ClassVar[re.Pattern[str]]

    def __init__(self) -> None:
        self._ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; ValueError where it holds anything else than the tokens."""
        pieces = self.pattern.findall(text)
        if "".join(pieces) != text or any(piece not in self._ids for piece in pieces):
            raise ValueError(f"text: {text[:60]!r} holds what is outside the vocabulary")
        return [self._ids[piece] for piece in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text up to the first EOS, without PAD."""
        text = []
        for token in ids:
            if token == self.eos_id:
                break
            if token != self.pad_id:
                text.append(self.tokens[token])
        return "".join(text)
