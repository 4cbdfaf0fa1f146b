"""Loaders on small files in the true formats: every broken row is named, counted and left out."""

import gzip
import json
import math

import pytest

from nbkit.data.chat import HH_TEMPLATE, ChatEncoder, as_rows
from nbkit.data.encode import encode_preferences
from nbkit.data.hh import hh_files, load_hh, parse_dialogue
from nbkit.data.pairs import load_pairs
from nbkit.data.preferences import LoadReport, Message, Preference, RowError
from nbkit.data.ultrafeedback import load_ultrafeedback
from tests.rlhf.small import VOCABULARY

pytestmark = pytest.mark.chapter(21)


def write(path, rows):
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def dialogue(*turns):
    """Turns in the form of the published files: a space behind the colon."""
    speakers = ("Human", "Assistant")
    return "".join(f"\n\n{speakers[i % 2]}: {turn}" for i, turn in enumerate(turns))


def hh(*turns, other="No."):
    return {"chosen": dialogue(*turns), "rejected": dialogue(*turns[:-1], other)}


# --- HH-RLHF


def test_hh_splits_prompt_and_answers(tmp_path):
    rows = [hh("Hi there", "Hello", "Is tea good?\n\nReally?", "Yes: it is.\nTry it.")]
    loaded = load_hh(write(tmp_path / "train.jsonl", rows))
    assert loaded.preferences == [
        Preference(
            (
                Message("user", "Hi there"),
                Message("assistant", "Hello"),
                Message("user", "Is tea good?\n\nReally?"),
            ),
            "Yes: it is.\nTry it.",
            "No.",
            1,
        )
    ]
    assert loaded.report == LoadReport(1)


def test_hh_reports_every_broken_row(tmp_path):
    good = hh("Hi", "Hello there.")
    rows = [
        good,  # 1
        '{"chosen": "cut off',  # 2
        {"chosen": dialogue("Hi", "Yes")},  # 3
        {"chosen": dialogue("Hi", "Yes"), "rejected": 7},  # 4
        hh("Hi", "No."),  # 5: chosen equals rejected
        hh("Hi", ""),  # 6
        hh("Hi", "Yes", other=" "),  # 7
        {"chosen": dialogue("Hi", "Yes", "Sure?"), "rejected": dialogue("Hi", "Yes", "Sure?")},  # 8
        {"chosen": "Hi, no turns at all", "rejected": dialogue("Hi", "No.")},  # 9
        {"chosen": "\n\nAssistant: Hello", "rejected": "\n\nAssistant: Hi"},  # 10
        {
            "chosen": "\n\nHuman: a\n\nHuman: b\n\nAssistant: c",
            "rejected": dialogue("a", "c"),
        },  # 11
        {"chosen": dialogue("Hi", "Yes"), "rejected": dialogue("Hey", "No")},  # 12
        {"chosen": dialogue("Hi", "A", "B", "C"), "rejected": dialogue("Hi", "A")},  # 13
        {"chosen": dialogue("", "Yes"), "rejected": dialogue("", "No")},  # 14: empty question
        "",  # 15: a blank line is no row
        '["chosen", "rejected"]',  # 16
        good,  # 17
    ]
    loaded = load_hh(write(tmp_path / "broken.jsonl", rows))
    assert [p.row for p in loaded.preferences] == [1, 17]
    reasons = {bad.row: bad.reason for bad in loaded.report.bad}
    assert reasons == {
        2: "bad JSON", 3: "missing field", 4: "wrong type", 5: "equal pair", 6: "empty answer",
        7: "empty answer", 8: "missing turn", 9: "missing turn", 10: "missing turn",
        11: "missing turn", 12: "different prompts", 13: "different prompts", 14: "missing turn",
        16: "bad JSON",
    }  # fmt: skip
    assert loaded.report.rows == 16 and loaded.report.kept == 2
    assert loaded.report.counts["missing turn"] == 5
    text = loaded.report.text()
    assert (
        text.startswith("2 of 16 rows kept") and "5 left out, missing turn: row 8, 9, 10, …" in text
    )
    assert "different prompts: row 12, 13" in text


def test_gzipped_files_are_read(tmp_path):
    path = tmp_path / "train.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps(hh("Grüße", "Hallo")) + "\n")
    assert load_hh(path).preferences[0].prompt[0].content == "Grüße"


HUGE = b"9" * 5000  # more digits than int() takes
DEEP = b"[" * 100_000 + b"]" * 100_000
BROKEN_LINES = [
    (b'{"chosen": ' + HUGE + b"}", "4300 digits"),
    (DEEP, "nested too deep"),
    (b'{"chosen": "\xff"}', "no UTF-8 text from byte 13 on"),
    (b"{", "at character 2"),
]


@pytest.mark.parametrize("load", [load_hh, load_pairs, load_ultrafeedback])
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_cannot_be_read_costs_one_row(tmp_path, load, packed):
    good = {
        "prompt": "Hi",
        **{"load_hh": hh("Hi", "Yes"), "load_pairs": {"chosen": "Yes", "rejected": "No"}}.get(
            load.__name__, rated(("Yes", 9.0), ("No.", 1.0), instruction="Hi")
        ),
    }
    lines = [line for broken, _ in BROKEN_LINES for line in (json.dumps(good).encode(), broken)]
    path = tmp_path / ("rows.jsonl.gz" if packed else "rows.jsonl")
    data = b"\r\n".join(lines)
    path.write_bytes(gzip.compress(data) if packed else data)
    loaded = load(path)
    assert [p.row for p in loaded.preferences] == [1, 3, 5, 7]
    assert [(bad.row, bad.reason) for bad in loaded.report.bad] == [
        (row, "bad JSON") for row in (2, 4, 6, 8)
    ]
    for bad, (_, words) in zip(loaded.report.bad, BROKEN_LINES, strict=True):
        assert words in bad.detail


def test_a_line_ends_at_a_line_feed_only(tmp_path):
    text = "one\u2028two\u0085three\u000bfour"
    row = json.dumps(hh("Hi", text), ensure_ascii=False)
    loaded = load_hh(write(tmp_path / "train.jsonl", [row, row]))
    assert [p.chosen for p in loaded.preferences] == [text] * 2


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_hh(tmp_path / "none.jsonl")


def test_hh_s_files_are_found_by_file_and_by_folder(tmp_path):
    names = ("helpful-base/train.jsonl", "harmless-base/train.jsonl.gz", "harmless-base/test.jsonl")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    one = tmp_path / names[2]
    assert hh_files(one) == [one]  # a file is taken at its word
    assert hh_files(str(tmp_path)) == [tmp_path / names[1], tmp_path / names[0]]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"no file train.jsonl or train.jsonl.gz in .*/empty; put"):
        hh_files(tmp_path / "empty")
    with pytest.raises(ValueError, match="nowhere: a path, and nothing is there"):
        hh_files(tmp_path / "nowhere")


def test_words_that_look_like_a_turn_inside_one_are_text():
    messages = parse_dialogue("\n\nHuman: What does\nHuman: mean?\n\nAssistant: A speaker.")
    assert messages[0].content == "What does\nHuman: mean?" and len(messages) == 2
    with pytest.raises(RowError, match="no turn at the beginning"):
        parse_dialogue("Once upon a time\n\nHuman: Hi\n\nAssistant: Ho")


# --- prompt, chosen, rejected


def turn(content, role="assistant"):
    return {"role": role, "content": content}


def test_pairs_in_all_forms(tmp_path):
    prompt = [turn("Be kind.", "system"), turn("Hi", "user")]
    rows = [
        {"prompt": "Hi", "chosen": "Hello", "rejected": "No", "margin": 2},
        {"prompt": prompt, "chosen": [turn("Hello")], "rejected": [turn("No")]},
        {"chosen": [*prompt, turn("Hello")], "rejected": [*prompt, turn("No")]},
    ]
    loaded = load_pairs(write(tmp_path / "pairs.jsonl", rows))
    assert loaded.report.kept == 3
    first, second, third = loaded.preferences
    assert first.prompt == (Message("user", "Hi"),) and first.margin == 2.0
    assert second.prompt == third.prompt == (Message("system", "Be kind."), Message("user", "Hi"))
    assert {p.chosen for p in loaded.preferences} == {"Hello"}
    back = as_rows([second])[0]
    assert back == rows[1]


def test_pairs_report_every_broken_row(tmp_path):
    user = [turn("Hi", "user")]
    rows = [
        {"prompt": "Hi", "chosen": "Yes", "rejected": "Yes "},
        {"prompt": "Hi", "chosen": "", "rejected": "No"},
        {"prompt": "", "chosen": "Yes", "rejected": "No"},
        {"prompt": "Hi", "rejected": "No"},
        {"prompt": user, "chosen": [turn("a"), turn("b")], "rejected": [turn("c")]},
        {"prompt": user, "chosen": [], "rejected": [turn("c")]},
        {"prompt": [*user, turn("Hello")], "chosen": [turn("a")], "rejected": [turn("c")]},
        {"chosen": [*user, turn("a")], "rejected": [turn("Hey", "user"), turn("b")]},
        {"chosen": user, "rejected": user},
        {"chosen": [turn("Hi", "robot"), turn("a")], "rejected": [*user, turn("b")]},
        {"chosen": [{"role": "user"}], "rejected": [*user, turn("b")]},
        {"prompt": "Hi", "chosen": "Yes", "rejected": "No", "margin": "much"},
        {"prompt": "Hi", "chosen": [turn("Yes")], "rejected": [turn("No")]},
        {"prompt": "Hi", "chosen": "Yes", "rejected": "No", "margin": math.nan},
    ]
    loaded = load_pairs(write(tmp_path / "pairs.jsonl", rows))
    assert loaded.preferences == []
    assert [bad.reason for bad in loaded.report.bad] == [
        "equal pair", "empty answer", "missing turn", "missing field", "missing turn",
        "missing turn", "missing turn", "different prompts", "missing turn", "unknown role",
        "wrong type", "wrong type", "wrong type", "wrong type",
    ]  # fmt: skip


# --- UltraFeedback


def rated(*pairs, instruction="How?"):
    return {
        "instruction": instruction,
        "completions": [{"response": text, "overall_score": score} for text, score in pairs],
    }


def test_ultrafeedback_takes_the_best_against_a_random_other(tmp_path):
    row = rated(("poor", 2.0), ("best", 9.0), ("fair", 5.0), ("good", 7.5))
    path = write(tmp_path / "uf.jsonl", [row] * 300)
    loaded = load_ultrafeedback(path, seed=1)
    assert {p.chosen for p in loaded.preferences} == {"best"}
    counts = {name: sum(p.rejected == name for p in loaded.preferences) for name in
              ("poor", "fair", "good")}  # fmt: skip
    assert all(70 < count < 130 for count in counts.values()) and sum(counts.values()) == 300
    margins = {p.rejected: p.margin for p in loaded.preferences}
    assert margins == {"poor": 7.0, "fair": 4.0, "good": 1.5}
    assert loaded == load_ultrafeedback(path, seed=1)
    assert loaded.preferences != load_ultrafeedback(path, seed=2).preferences


def test_a_dropped_row_does_not_move_the_choices_behind_it(tmp_path):
    row = rated(("poor", 2.0), ("best", 9.0), ("fair", 5.0))
    whole = load_ultrafeedback(write(tmp_path / "a.jsonl", [row] * 20))
    holed = load_ultrafeedback(write(tmp_path / "b.jsonl", [row] * 9 + ["{"] + [row] * 10))
    assert [p for p in whole.preferences if p.row != 10] == holed.preferences


def test_ultrafeedback_binarised(tmp_path):
    chat = [turn("How?", "user"), turn("So.")]
    other = [turn("How?", "user"), turn("Thus.")]
    rows = [
        {"prompt": "How?", "prompt_id": "x", "chosen": chat, "rejected": other, "messages": chat,
         "score_chosen": 8.5, "score_rejected": 4.0},
        {"chosen": chat, "rejected": other, "score_chosen": 4.0, "score_rejected": 4.0},
        {"chosen": chat, "rejected": chat, "score_chosen": 8.0, "score_rejected": 4.0},
        {"chosen": chat[:1], "rejected": other},
        {"chosen": chat, "rejected": other, "score_chosen": math.nan, "score_rejected": 4.0},
    ]  # fmt: skip
    loaded = load_ultrafeedback(write(tmp_path / "b.jsonl", rows))
    assert loaded.preferences == [Preference((Message("user", "How?"),), "So.", "Thus.", 1, 4.5)]
    assert [bad.reason for bad in loaded.report.bad] == [
        "tied scores",
        "equal pair",
        "missing turn",
        "wrong type",
    ]
    assert loaded.report.bad[-1].detail == "score_chosen is nan, not a number"


def test_ultrafeedback_reports_every_broken_row(tmp_path):
    rows = [
        rated(("a", 1.0)),
        rated(("a", 4.0), ("b", 4.0)),
        rated(("same", 5.0), ("same ", 4.0)),
        rated(("", 5.0), ("b", 4.0)),
        rated(("a", 5.0), ("b", 4.0), instruction=" "),
        {"instruction": "How?", "completions": [{"response": "a"}]},
        {"instruction": "How?", "completions": "a"},
        {"completions": []},
        rated(("a", "five"), ("b", 4.0)),
        rated(("a", math.nan), ("b", 4.0)),
        rated(("a", 5.0), ("b", -math.inf)),
        rated(("a", 10**400), ("b", 4.0)),
    ]
    loaded = load_ultrafeedback(write(tmp_path / "uf.jsonl", rows), form="completions")
    assert [bad.reason for bad in loaded.report.bad] == [
        "too few completions", "tied scores", "equal pair", "empty answer", "missing turn",
        "missing field", "wrong type", "missing field", "wrong type", "wrong type",
        "wrong type", "wrong type",
    ]  # fmt: skip
    details = [bad.detail for bad in loaded.report.bad[-3:]]
    assert details[0] == "completions[0].overall_score is nan, not a number"
    assert details[1] == "completions[1].overall_score is -inf, not a number"
    assert "inf, not a number" in details[2]
    assert loaded.report.rows == 12 and not loaded.preferences
    with pytest.raises(ValueError, match="form must be one of"):
        load_ultrafeedback(tmp_path / "uf.jsonl", form="raw")


# --- chats and truncation

ASKED = (Message("user", "how do i bake bread ?"),)


def world_pair(chosen, rejected, row=1):
    return Preference(ASKED, chosen, rejected, row)


def test_one_bos_whatever_the_tokenizer_adds():
    """FAULTS.md D15: the template writes a BOS, and so does the tokenizer."""
    tokenizer = VOCABULARY.tokenizer()
    rendered = tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in ASKED], tokenize=False
    )
    assert tokenizer.encode(rendered)[:2] == [1, 1]  # the fault itself
    encoder = ChatEncoder(tokenizer)
    prompt = encoder.prompt_ids(ASKED)
    assert prompt[0] == 1 and prompt.count(1) == 1
    answer = encoder.answer_ids(ASKED, "mix the flour .")
    assert VOCABULARY.decode(answer) == "mix the flour ." and answer[-1] == VOCABULARY.eos_id
    assert answer.count(VOCABULARY.eos_id) == 1


def test_a_template_with_two_bos_is_refused():
    tokenizer = VOCABULARY.tokenizer()
    encoder = ChatEncoder(tokenizer, template="{{ bos_token }} " + tokenizer.chat_template)
    with pytest.raises(ValueError, match="two BOS"):
        encoder.prompt_ids(ASKED)


def test_a_prompt_that_is_no_prefix_is_refused():
    tokenizer = VOCABULARY.tokenizer()
    announced = tokenizer.chat_template.replace("<assistant>{% endif %}", "<user>{% endif %}")
    with pytest.raises(ValueError, match="no prefix of the whole chat's"):
        ChatEncoder(tokenizer, template=announced).answer_ids(ASKED, "mix the flour .")


def test_a_template_without_eos_gets_one():
    tokenizer = VOCABULARY.tokenizer()
    silent = tokenizer.chat_template.replace(" {{ eos_token }}", "")
    answer = ChatEncoder(tokenizer, template=silent).answer_ids(ASKED, "mix the flour .")
    assert answer[-1] == VOCABULARY.eos_id and VOCABULARY.decode(answer) == "mix the flour ."


def test_the_template_of_hh_renders_its_dialogues():
    tokenizer = VOCABULARY.tokenizer()
    text = tokenizer.apply_chat_template(
        [turn("a", "user"), turn("b")], chat_template=HH_TEMPLATE, tokenize=False
    )
    assert text == "<bos>\n\nHuman: a\n\nAssistant: b<eos>"
    announced = tokenizer.apply_chat_template(
        [turn("a", "user")], chat_template=HH_TEMPLATE, tokenize=False, add_generation_prompt=True
    )
    assert announced == "<bos>\n\nHuman: a\n\nAssistant:"
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="give one, such as HH_TEMPLATE"):
        ChatEncoder(tokenizer)


def test_truncation_is_counted_and_never_silent():
    encoder = ChatEncoder(VOCABULARY.tokenizer())
    pairs = [
        world_pair("mix the flour .", "boil the water .", 1),
        world_pair("mix the flour and add the yeast .", "mix the flour .", 2),
        world_pair("mix the flour and boil the water .", "mix the flour and add the yeast .", 3),
    ]
    whole = encode_preferences(pairs, encoder, max_prompt=50, max_answer=50)
    assert whole.report.kept == 3 and whole.cut_prompts == whole.cut_answers == 0
    cut = encode_preferences(pairs, encoder, max_prompt=4, max_answer=4)
    assert [pair.row for pair in cut.pairs] == [1, 2]
    assert cut.report.bad[0].row == 3
    assert cut.report.counts == {"identical after truncation": 1}
    assert cut.cut_prompts == 2 and cut.cut_answers == 4
    assert all(len(p.prompt_ids) == 4 and len(p.chosen_ids) == 4 for p in cut.pairs)
    assert cut.pairs[0].prompt_ids == whole.pairs[0].prompt_ids[-4:]
    start = encode_preferences(
        pairs, encoder, max_prompt=4, max_answer=50, long_prompt="keep-start"
    )
    assert start.pairs[0].prompt_ids == whole.pairs[0].prompt_ids[:4]
    none = encode_preferences(pairs, encoder, max_prompt=4, max_answer=50, long_prompt="drop")
    assert none.pairs == [] and none.report.counts == {"prompt too long": 3}


def test_equal_ids_of_different_texts_are_found():
    class Blind(ChatEncoder):
        def answer_ids(self, messages, answer):
            return super().answer_ids(messages, "mix the flour .")

    encoded = encode_preferences(
        [world_pair("a", "b")], Blind(VOCABULARY.tokenizer()), max_prompt=50, max_answer=50
    )
    assert encoded.report.bad[0].detail == "also before it"
