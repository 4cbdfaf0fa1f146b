"""What code asks of a language model, a vocabulary, a tokenizer and a problem."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import nn


class LanguageModel(Protocol):
    """A causal language model of transformers, or a wrapper that calls one."""

    training: bool

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Return something with ``logits`` (B, L, V) for ``input_ids`` (B, L)."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """Its weights."""
        ...

    def state_dict(self) -> Mapping[str, Any]:
        """Its weights by name."""
        ...


class PretrainedModel(LanguageModel, Protocol):
    """A model of transformers itself: a language model, or the body of one."""

    config: Any
    base_model: Any
    forward: Callable[..., Any]

    def get_output_embeddings(self) -> Any:
        """The map from the hidden state to logits, or None."""
        ...

    def to(self, *where: Any) -> Any:
        """Move it or cast it."""
        ...

    def save_pretrained(self, folder: Path | str) -> None:
        """Write configuration and weights."""
        ...


class Vocabulary(Protocol):
    """From text to ids and back, with the two special ids that sampling needs."""

    @property
    def pad_id(self) -> int:
        """Fills short rows."""
        ...

    @property
    def eos_id(self) -> int | Sequence[int]:
        """The id that ends an answer, or several."""
        ...

    def encode(self, text: str) -> Sequence[int]:
        """The ids of a text, without BOS and EOS."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text up to the first EOS."""
        ...


class TextVocabulary(Vocabulary, Protocol):
    """What a text environment needs beside: where a text begins, one end, and how many tokens."""

    @property
    def bos_id(self) -> int:
        """The id that every text begins with."""
        ...

    @property
    def eos_id(self) -> int:
        """The id that ends a text."""
        ...

    def __len__(self) -> int:
        """Number of tokens, special ones included."""
        ...


class Tokenizer(Protocol):
    """A tokenizer of transformers, as much of it as is used here."""

    @property
    def eos_token_id(self) -> int | None:
        """The id that ends a text."""
        ...

    @property
    def bos_token_id(self) -> int | None:
        """The id that begins a text."""
        ...

    @property
    def pad_token_id(self) -> int | None:
        """Fills short rows."""
        ...

    @property
    def chat_template(self) -> Any:
        """How turns become text, or None."""
        ...

    def __len__(self) -> int:
        """Number of tokens."""
        ...

    @property
    def all_special_ids(self) -> Sequence[int]:
        """Ids that stand for no text."""
        ...

    @property
    def all_special_tokens(self) -> Sequence[str]:
        """How they are written."""
        ...

    def encode(self, text: str, **how: Any) -> list[int]:
        """The ids of a text."""
        ...

    def decode(self, token_ids: Sequence[int], **how: Any) -> str:
        """The text of ids."""
        ...

    def save_pretrained(self, folder: Path | str) -> Any:
        """Write it."""
        ...

    def apply_chat_template(self, conversation: Sequence[Mapping[str, str]], **how: Any) -> Any:
        """Turns as text or ids."""
        ...


class Problem(Protocol):
    """What is asked. One with ``prompt_ids`` is not encoded again (see ``prompt_ids``)."""

    @property
    def prompt(self) -> str:
        """The question as text."""
        ...


class EncodedProblem(Protocol):
    """A prompt that is ids already, such as a ``nbkit.data.encode.Example``."""

    @property
    def prompt_ids(self) -> Sequence[int]:
        """The question as ids."""
        ...


def prompt_ids(problem: Problem | EncodedProblem, vocabulary: Vocabulary) -> list[int]:
    """The ids of a prompt: its own, or those that the vocabulary makes of its text."""
    ids = getattr(problem, "prompt_ids", None)
    if ids is None:
        ids = vocabulary.encode(problem.prompt)  # type: ignore[union-attr]
    return list(ids)
