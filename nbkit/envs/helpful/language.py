"""The words, the questions, and the vocabulary that turns them into ids."""

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from nbkit._inputs import check_choice, check_number

# What is asked, and the five steps that help.
TOPICS: dict[str, tuple[tuple[str, str], ...]] = {
    "bake bread": (
        ("mix", "flour"), ("add", "yeast"), ("knead", "dough"), ("heat", "oven"), ("slice", "loaf"),
    ),
    "make tea": (
        ("boil", "water"), ("warm", "pot"), ("add", "leaves"), ("pour", "milk"), ("stir", "sugar"),
    ),
    "fix bicycles": (
        ("lift", "frame"), ("pump", "tyre"), ("oil", "chain"), ("turn", "pedal"), ("test", "brake"),
    ),
    "play chess": (
        ("open", "board"), ("move", "pawn"), ("guard", "king"), ("lift", "knight"),
        ("take", "queen"),
    ),
}  # fmt: skip
OPENINGS = ("how do i", "please tell me how to", "what is the best way to", "help me to")
MANNERS = ("", "briefly", "in detail")

WARM = ("gladly", "friend", "enjoy", "wonderful", "dear")
HEDGES = ("maybe", "perhaps")
GLUE = ("the", "then", "next", "and", "my", "good", "luck", "have", "fun", "i", "am", "not", "sure")
MARKS = (",", ".")
VERBS = tuple(sorted({verb for steps in TOPICS.values() for verb, _ in steps}))
NOUNS = tuple(sorted({noun for steps in TOPICS.values() for _, noun in steps}))
SPECIAL = ("<pad>", "<bos>", "<eos>", "<user>", "<assistant>")
# Rendering a chat begins with BOS, as with Llama 3; see nbkit.data.chat.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }}"
    "{% if message['role'] == 'assistant' %} {{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def _all_words() -> tuple[str, ...]:
    asked = " ".join((*OPENINGS, *MANNERS, *TOPICS)).split()
    return tuple(sorted({*asked, "?", *WARM, *HEDGES, *GLUE, *MARKS, *VERBS, *NOUNS}))


class HelpfulVocabulary:
    """One token a word: PAD 0, BOS 1, EOS 2, the two roles of a chat, then the words."""

    pad_id, bos_id, eos_id = 0, 1, 2
    tokens = SPECIAL + _all_words()

    def __init__(self) -> None:
        self._ids = {token: i for i, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """Return the ids of words parted by spaces.

        Raises:
            ValueError: a word that is not in the vocabulary.

        """
        words = text.split()
        unknown = sorted(set(words) - self._ids.keys())
        if unknown:
            raise ValueError(f"text: {unknown} not among the {len(self)} words of this vocabulary")
        return [self._ids[word] for word in words]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the words up to the first EOS; PAD and BOS are left out."""
        words = []
        for token in ids:
            if token == self.eos_id:
                break
            if token not in (self.pad_id, self.bos_id):
                words.append(self.tokens[token])
        return " ".join(words)

    def tokenizer(self) -> Any:
        """Return the same vocabulary as a fast tokenizer of transformers, with a chat template.

        Tokenising puts a BOS in front of a text (``add_special_tokens``), and the chat template
        writes one too, as with Llama 3: a rendered chat must be tokenised without special tokens.
        """
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
        from transformers import PreTrainedTokenizerFast

        raw = Tokenizer(models.WordLevel(dict(self._ids), unk_token=None))
        raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        raw.post_processor = processors.TemplateProcessing(
            single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", self.bos_id)]
        )
        fast = PreTrainedTokenizerFast(
            tokenizer_object=raw,
            bos_token="<bos>",
            eos_token="<eos>",
            pad_token="<pad>",
            extra_special_tokens=["<user>", "<assistant>"],
            clean_up_tokenization_spaces=False,
        )
        fast.chat_template = CHAT_TEMPLATE
        return fast


@dataclass(frozen=True)
class Question:
    """What a user asks: a topic, in a manner, with an opening."""

    topic: str
    manner: str = ""
    opening: str = OPENINGS[0]

    def __post_init__(self) -> None:
        check_choice("topic", self.topic, tuple(TOPICS))
        check_choice("manner", self.manner, MANNERS)
        check_choice("opening", self.opening, OPENINGS)

    @property
    def text(self) -> str:
        """The words of the user."""
        return " ".join(f"{self.opening} {self.topic} {self.manner} ?".split())

    @property
    def prompt(self) -> str:
        """What the model reads: the chat so far, as its template renders it."""
        return f"<bos> <user> {self.text} <assistant>"

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat so far, in the form of chat templates."""
        return [{"role": "user", "content": self.text}]


@cache
def _sides() -> dict[bool, tuple[Question, ...]]:
    every = [Question(t, m, o) for t in TOPICS for m in MANNERS for o in OPENINGS]
    every.sort(key=lambda question: zlib.crc32(question.text.encode()))
    cut = len(every) // 6
    return {True: tuple(every[:cut]), False: tuple(every[cut:])}


def all_questions(held_out: bool | None = None) -> list[Question]:
    """Return every question, or those of one side: one in six is held out, by a checksum."""
    sides = _sides()
    if held_out is None:
        return [*sides[False], *sides[True]]
    return list(sides[held_out])


def draw_questions(count: int, *, seed: int, held_out: bool | None = False) -> list[Question]:
    """Draw ``count`` questions of one side with replacement; the same seed gives the same list."""
    check_number("count", count, 1)
    return random.Random(f"questions {seed}").choices(all_questions(held_out), k=count)
