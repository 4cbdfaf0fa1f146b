"""A downloaded tokenizer with its chat template, in the form that the trainer expects."""

import re
from collections.abc import Sequence
from typing import Any

from nbkit.text.protocols import Tokenizer

# Tags in which an answer is written; a turn's marks look otherwise: <|im_end|>, <s>, [INST].
_TAG = re.compile(
    r"</?(?:think|thinking|thought|reasoning|answer|solution|tool_call|tool_response)>", re.I
)
_BEGUN = re.compile(r"<(?:think|thinking|thought|reasoning)>\s*$", re.I)


class ChatVocabulary:
    """Chats to ids, and completions to the text that a reward reads.

    An answer may end at more than one id: the tokenizer names one, the model's generation
    settings often several (the end of a turn, and the end of a text).

    A reward for a form must see what the model wrote, so two things are kept that decoding loses:

    - **Tags that are special tokens.** Some tokenizers hold ``<think>`` and its kin as special
      tokens. They are written out; the marks of turns are not.
    - **A tag that the template writes.** Some templates end the prompt with ``<think>``. The
      completion then holds only what follows, and no form that begins with the tag could ever be
      kept. `decode` puts the tag back: the text is the assistant's whole turn.

    Args:
        tokenizer: of transformers, with a chat template.
        generation: the model's ``generation_config``.
        system: what stands before each question, or None for no turn of the system.

    Attributes:
        eos_id: all ids at which an answer ends.
        pad_id: of padding.
        begun: what the template has written of the answer, such as ``"<think>\\n"``, or "".

    Raises:
        ValueError: neither names the end of an answer, or the template refuses a system's turn.

    """

    def __init__(self, tokenizer: Tokenizer, generation: Any, *, system: str | None = None) -> None:
        named = generation.eos_token_id
        ends = named if isinstance(named, list) else [named]
        ids = dict.fromkeys([tokenizer.eos_token_id, *ends])
        self.tokenizer, self.eos_id = tokenizer, tuple(i for i in ids if i is not None)
        if not self.eos_id:
            raise ValueError("tokenizer: it names no end of an answer, and neither does the model")
        pad = tokenizer.pad_token_id
        self.pad_id = self.eos_id[0] if pad is None else pad
        self.system = system
        self._hidden = {
            number
            for number, token in zip(
                tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True
            )
            if _TAG.fullmatch(str(token).strip()) is None
        }
        match = _BEGUN.search(self._chat("?"))
        self.begun = match[0] if match else ""

    def encode(self, text: str) -> list[int]:
        """Ids of the chat up to where the assistant begins."""
        return self.tokenizer.encode(self._chat(text), add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """The assistant's turn up to its end, with its tags and without other special tokens."""
        ids = list(ids)
        end = next((i for i, token in enumerate(ids) if token in self.eos_id), len(ids))
        kept = [i for i in ids[:end] if i not in self._hidden]
        return self.begun + self.tokenizer.decode(
            kept, skip_special_tokens=False, spaces_between_special_tokens=False
        )

    def _chat(self, text: str) -> str:
        from jinja2.exceptions import TemplateError

        told = [] if self.system is None else [{"role": "system", "content": self.system}]
        try:
            return self.tokenizer.apply_chat_template(
                [*told, {"role": "user", "content": text}],
                add_generation_prompt=True,
                tokenize=False,
            )
        except TemplateError as error:
            raise ValueError(
                f"tokenizer: its chat template refuses the chat ({error}); put the system's "
                "words into the question and leave `system` out"
            ) from error
