"""Data sets by a file, a folder or a name on the hub, in the forms that are found there."""

import gzip
import json

import pytest

from nbkit.data import splits
from nbkit.data.gsm8k import load_gsm8k, load_gsm8k_split
from nbkit.data.json_lines import numbered_lines
from nbkit.data.splits import find_split
from nbkit.data.ultrafeedback import load_ultrafeedback


def parquet(path, rows):
    from pyarrow import Table
    from pyarrow.parquet import write_table

    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(Table.from_pylist(rows), path)


def problem(number):
    return {"question": f"What is {number}?", "answer": f"It is so.\n#### {number}"}


def pair(number):
    def chat(answer):
        return [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}]

    scores = {"score_chosen": 8.0, "score_rejected": 5.0}
    return {"chosen": chat(f"good {number}"), "rejected": chat("bad"), **scores}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Folders as `snapshot_download` leaves them, by their names on the hub."""
    rows = [problem(n) for n in range(5)]
    parquet(tmp_path / "gsm" / "main" / "train-00000-of-00002.parquet", rows[:2])
    parquet(tmp_path / "gsm" / "main" / "train-00001-of-00002.parquet", rows[2:4])
    parquet(tmp_path / "gsm" / "main" / "test-00000-of-00001.parquet", rows[4:])
    parquet(tmp_path / "gsm" / "socratic" / "train-00000-of-00001.parquet", rows)
    for split, numbers in (("train_sft", [9]), ("train_prefs", [1, 2]), ("test_prefs", [3])):
        name = f"{split}-00000-of-00001.parquet"
        parquet(tmp_path / "ultra" / "data" / name, [pair(n) for n in numbers])
    named = {"openai/gsm8k": "gsm", "HuggingFaceH4/ultrafeedback_binarized": "ultra"}
    monkeypatch.setattr(
        splits, "local_folder", lambda name, kind: tmp_path / named.get(name.split("@")[0], name)
    )
    return tmp_path


def test_gsm8k_by_its_name_and_by_its_files(hub):
    """The hub has it twice, in "main" and with Socratic questions."""
    found = load_gsm8k_split("openai/gsm8k", "train")
    assert [one.answer for one in found] == ["0", "1", "2", "3"]
    assert [one.answer for one in load_gsm8k_split("openai/gsm8k@0a1b", "test")] == ["4"]
    (hub / "own").mkdir()
    (hub / "own" / "train.jsonl").write_text(json.dumps(problem(7)) + "\n")
    assert [one.answer for one in load_gsm8k_split(hub / "own", "train")] == ["7"]
    with pytest.raises(ValueError, match=r"dataset .*own: no file of test, as test\.jsonl"):
        load_gsm8k_split(hub / "own", "test")


def test_ultrafeedback_by_its_name_and_by_a_file(hub):
    loaded = load_ultrafeedback("HuggingFaceH4/ultrafeedback_binarized")
    assert [one.chosen for one in loaded.preferences] == ["good 1", "good 2"]
    lines = hub / "mine.jsonl.gz"
    lines.write_bytes(gzip.compress(json.dumps(pair(5)).encode() + b"\n"))
    assert [one.chosen for one in load_ultrafeedback(lines).preferences] == ["good 5"]


def test_rows_of_several_files_are_counted_on(hub):
    """The choice of a rejected answer follows from a row's number."""
    more = hub / "ultra" / "data" / "train_prefs-00001-of-00002.parquet"
    (hub / "ultra" / "data" / "train_prefs-00000-of-00001.parquet").rename(
        more.with_name("train_prefs-00000-of-00002.parquet")
    )
    parquet(more, [pair(3), {**pair(4), "score_chosen": 1.0}])
    loaded = load_ultrafeedback("HuggingFaceH4/ultrafeedback_binarized")
    assert [one.row for one in loaded.preferences] == [1, 2, 3]
    assert [bad.row for bad in loaded.report.bad] == [4]


def test_a_split_in_several_folders_must_be_named(hub):
    with pytest.raises(ValueError, match="several folders hold train: main, socratic; name one"):
        find_split("openai/gsm8k", "train")


def test_parquet_reads_as_the_lines_that_it_would_be(tmp_path):
    rows = [problem(1), problem(2)]
    parquet(tmp_path / "a.parquet", rows)
    assert [(n, json.loads(line)) for n, line in numbered_lines(tmp_path / "a.parquet")] == [
        (1, rows[0]),
        (2, rows[1]),
    ]
    assert [one.row for one in load_gsm8k(tmp_path / "a.parquet").problems] == [1, 2]
