"""Rows that real data hold: chats that a template refuses, scores that their own ratings deny."""

import json

import pytest

from nbkit.data.chat import ChatEncoder
from nbkit.data.encode import encode_preferences
from nbkit.data.preferences import Message, Preference, RowError
from nbkit.data.ultrafeedback import load_ultrafeedback

TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}{{ m['role'] + ':' + m['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)
ASPECTS = ("instruction_following", "honesty", "truthfulness", "helpfulness")


@pytest.fixture
def encoder():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return ChatEncoder(
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>"), template=TEMPLATE
    )


def test_a_chat_that_the_template_refuses_costs_one_row(encoder):
    asked, told = Message("user", "Hi"), Message("system", "Be brief.")
    rows = [Preference((asked,), "yes", "no", 7), Preference((told, asked), "yes", "no", 8)]
    done = encode_preferences([*rows, rows[0]], encoder, max_prompt=100, max_answer=100)
    assert [pair.row for pair in done.pairs] == [7, 7]
    [bad] = done.report.bad
    assert (bad.row, bad.reason) == (8, "refused by the template")
    assert "no system" in bad.detail
    with pytest.raises(RowError, match="roles: system, user"):
        encoder.prompt_ids((told, asked))


def entry(text, overall, *ratings, mean=None):
    annotations = {k: {"Rating": str(r)} for k, r in zip(ASPECTS, ratings, strict=False)}
    found = {"response": text, "overall_score": overall, "annotations": annotations}
    return found if mean is None else {**found, "fine-grained_score": mean}


@pytest.mark.parametrize(
    ("best", "kept"),
    [
        (entry("twelve", 10.0, 1, 1, 1, 1), False),
        (entry("twelve", 10, 2, 3, 2, 3), False),
        (entry("twelve", 10.0, "N/A", 2, 1, 1), False),
        (entry("twelve", 10.0, mean=1.5), False),
        (entry("eleven", 10.0, 5, 5, 5, 5), True),
        (entry("eleven", 10.0, 4, "N/A", 5, 3), True),
        (entry("eleven", 10.0), True),
        (entry("eleven", 9.5, 2, 2, 2, 2), True),
    ],
)
def test_a_ten_that_its_ratings_deny_is_left_out_and_reported(tmp_path, best, kept):
    row = {"instruction": "A prime?", "completions": [entry("nine", 7.0, 3, 3, 3, 3), best]}
    path = tmp_path / "rated.jsonl"
    path.write_text(json.dumps(row))
    loaded = load_ultrafeedback(path)
    assert [p.chosen for p in loaded.preferences] == ([best["response"]] if kept else [])
    assert [bad.reason for bad in loaded.report.bad] == ([] if kept else ["contradicted score"])
