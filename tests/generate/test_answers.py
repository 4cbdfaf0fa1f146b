"""`answer` is `generate` with the ids of a vocabulary."""

from dataclasses import dataclass

import pytest
import torch

from nbkit.generate import answer, generate
from nbkit.text.tiny_models import tiny_model
from nbkit.text.vocabulary import CharVocabulary

VOCABULARY = CharVocabulary("abcd")
MODEL = tiny_model(VOCABULARY, width=16, layers=1, heads=2, seed=3)


@dataclass(frozen=True)
class Asked:
    prompt: str


@dataclass(frozen=True)
class Encoded:
    prompt_ids: tuple[int, ...]


@pytest.mark.parametrize("form", ["text", "ids"])
def test_text_and_ids_give_what_generate_gives(form: str) -> None:
    texts = ("ab", "dca")
    prompts = [VOCABULARY.encode(text) for text in texts]
    problems = [Asked(t) for t in texts] if form == "text" else [Encoded(tuple(p)) for p in prompts]
    made = answer(MODEL, VOCABULARY, problems, max_new_tokens=6, seeds=5, group_size=3)
    wanted = generate(
        MODEL, prompts, max_new_tokens=6, seeds=5, group_size=3,
        eos_ids=VOCABULARY.eos_id, pad_id=VOCABULARY.pad_id,
    )  # fmt: skip
    assert made.lists() == wanted.lists()
    assert torch.equal(made.prompt_ids, wanted.prompt_ids)


def test_rows_of_a_generation() -> None:
    made = answer(MODEL, VOCABULARY, [Asked("ab"), Asked("d")], max_new_tokens=6, seeds=1)
    second = made.rows(torch.tensor([1]))
    assert second.lists() == made.lists()[1:]
    assert second.ids.shape == (1, made.ids.shape[1]) and second.stats == made.stats
