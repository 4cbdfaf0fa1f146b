"""Vocabularies: what turns token ids into text and back."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from nbkit.text.protocols import TextVocabulary, Tokenizer


class CharVocabulary:
    """One token a character, and three special tokens: PAD 0, BOS 1, EOS 2.

    Args:
        characters: the alphabet; repeated characters count once.

    """

    pad_id, bos_id, eos_id = 0, 1, 2

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = "".join(sorted(set(characters)))
        if not self.characters:
            raise ValueError("characters: an alphabet needs at least one character")
        self._ids = {character: i + 3 for i, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters) + 3

    def encode(self, text: str) -> list[int]:
        """Return one id a character; a character outside the alphabet raises ``ValueError``."""
        unknown = sorted(set(text) - self._ids.keys())
        if unknown:
            raise ValueError(f"text: {unknown} not in the alphabet {self.characters!r}")
        return [self._ids[character] for character in text]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the characters of ``ids`` up to the first EOS; PAD and BOS are left out."""
        text = []
        for token in ids:
            if token == self.eos_id:
                break
            if token >= 3:
                text.append(self.characters[token - 3])
        return "".join(text)


class TokenizerVocabulary:
    """A Hugging Face tokenizer seen as a vocabulary.

    GPT-2 has one special token, which then serves as BOS, EOS and PAD at once. That is safe here
    because masks come from positions, never from comparing ids with PAD.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if tokenizer.eos_token_id is None:
            raise ValueError("tokenizer: it has no eos_token, so no episode could ever end")
        self.tokenizer = tokenizer
        self.eos_id: int = tokenizer.eos_token_id
        bos, pad = tokenizer.bos_token_id, tokenizer.pad_token_id
        self.bos_id: int = self.eos_id if bos is None else bos
        self.pad_id: int = self.eos_id if pad is None else pad

    def __len__(self) -> int:
        return len(self.tokenizer)

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text`` without special tokens."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` up to the first EOS."""
        ids = list(ids)
        if self.eos_id in ids:
            ids = ids[: ids.index(self.eos_id)]
        return self.tokenizer.decode(ids, skip_special_tokens=True)


def encode_batch(vocabulary: TextVocabulary, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Encode whole texts for training, as BOS + text + EOS, padded on the right.

    Returns:
        ids (B, T+1) and mask (B, T): ``mask[:, t]`` says whether ``ids[:, t+1]`` is a real target,
        the EOS included. The mask is made from lengths, so that it is right when EOS is also PAD.

    """
    if not texts:
        raise ValueError("texts: an empty list has no batch")
    rows = [[vocabulary.bos_id, *vocabulary.encode(text), vocabulary.eos_id] for text in texts]
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), vocabulary.pad_id)
    mask = torch.zeros(len(rows), longest - 1, dtype=torch.bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row) - 1] = True
    return ids, mask
