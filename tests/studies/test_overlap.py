"""The two studies of a generator beside a trainer: what they count, and that their arms run."""

from contextlib import ExitStack

import pytest

from nbkit.asynchronous.timeline import Span
from nbkit.text.tiny_models import tiny_model
from nbkit.text.vocabulary import CharVocabulary
from studies import grpo_overlap, sums_smollm2
from studies._sums import LineVocabulary, questions, right


class Tokens:
    """As much of a tokenizer as is asked: a letter a token, two of them a newline."""

    letters = "0123456789 +=?:QA\n\n"
    eos_token_id, pad_token_id = 19, None

    def __len__(self) -> int:
        return len(self.letters)

    def encode(self, text, add_special_tokens=True):
        return [self.letters.index(one) for one in text]

    def decode(self, ids):
        return "".join(self.letters[one] for one in ids)


class Completion:
    def __init__(self, text: str) -> None:
        self.text = text


def test_an_answer_ends_with_its_line() -> None:
    vocabulary = LineVocabulary(Tokens())
    assert vocabulary.eos_id == (17, 18, 19) and vocabulary.pad_id == 19
    assert vocabulary.decode([*vocabulary.encode("12"), 18, *vocabulary.encode("34")]) == "12"


def test_questions_show_right_sums_and_ask_for_another() -> None:
    (first, second) = questions(2, seed=1)
    assert first != second and questions(2, seed=1)[0] == first
    *shown, asked = [line for line in first.prompt.splitlines() if line.startswith("Q")]
    answers = [line[3:] for line in first.prompt.splitlines() if line.startswith("A: ")]
    assert len(shown) == len(answers) == 4 and first.prompt.endswith("\nA:")
    for question, answer in zip([*shown, asked], [*answers, first.answer], strict=True):
        a, b = (int(one) for one in question[3:-4].split(" + "))
        assert a + b == int(answer)
    texts = [first.answer, f" {first.answer}", f"{first.answer}.", "", "7"]
    marks = right([first] * 5, [Completion(text) for text in texts])
    assert marks == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_seconds_of_the_warm_up_are_not_counted() -> None:
    rows = [{"groups": 2.0, "tokens": 100.0, "seconds/wait": 0.5}] * 4
    spans = [Span("trainer", "learn", 0.0, 9.0), Span("trainer", "learn", 10.0, 12.0),
             Span("generator", "sample", 11.0, 14.0)]  # fmt: skip
    found = grpo_overlap.counted(rows, [4.0, 10.0, 12.0, 16.0], spans, warm=2)
    assert found["seconds_an_update"] == [2.0, 4.0]
    assert found["samples_a_second"] == 2 * 2 * 8 / 6 and found["tokens_a_second"] == 200 / 6
    assert found["spans"] == [["trainer", "learn", 0.0, 2.0], ["generator", "sample", 1.0, 4.0]]
    assert found["metrics"] == {"tokens": [100.0, 100.0], "seconds/wait": [0.5, 0.5]}


def test_a_ratio_is_of_medians_and_its_range_of_all_pairs() -> None:
    def runs(*seconds):
        return [{"seconds_an_update": [one, one, 9 * one]} for one in seconds]

    found = grpo_overlap.ratios({grpo_overlap.IN_TURNS: runs(4.0, 6.0), "other": runs(2.0, 3.0)})
    assert found["other"] == {"ratio": 2.0, "least": pytest.approx(4 / 3), "most": 3.0}
    assert found[grpo_overlap.IN_TURNS]["ratio"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("arm", sums_smollm2.ARMS)
def test_every_arm_of_the_sums_makes_its_updates(arm: str) -> None:
    vocabulary = CharVocabulary("0123456789 +=?:QA\n")
    trainer = sums_smollm2.trainer_of(
        arm, tiny_model(vocabulary, seed=1), vocabulary, questions(20, seed=1, shots=1), 1,
        prompts=2, group_size=2, updates=3, sampler_dtype=None,
    )  # fmt: skip
    with ExitStack() as stack:
        if hasattr(trainer, "close"):
            stack.enter_context(trainer)
        while not trainer.finished:
            trainer.step()
    ages = [row.get("staleness/max", 0.0) for row in trainer.history]
    assert len(ages) == 3 and max(ages) <= sums_smollm2.ARMS[arm].get("staleness", 0)


@pytest.mark.slow
@pytest.mark.parametrize("arm", list(grpo_overlap.ARMS)[:2])
def test_the_generators_time_is_told(arm: str) -> None:
    vocabulary = CharVocabulary("0123456789 +=?:QA\n")
    trainer = grpo_overlap.trainer_of(
        arm, tiny_model(vocabulary, seed=1), vocabulary, questions(20, seed=1, shots=1), "cpu",
        reward=right,
        settings={"prompts": 2, "group_size": 2, "updates": 3, "max_new_tokens": 8,
                  "sampler_dtype": None},
    )  # fmt: skip
    ends = []
    with trainer:
        while not trainer.finished:
            trainer.step()
            ends.append(float(len(ends)))
        spans = trainer.timeline()
    assert {span.who for span in spans} == {"trainer", "generator"}
    found = grpo_overlap.counted(trainer.history, ends, spans, warm=1)
    assert found["seconds_an_update"] == [1.0, 1.0] and len(found["metrics"]["staleness/max"]) == 2
