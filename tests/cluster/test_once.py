"""What a run makes once is read again when it goes on, and made anew only without a folder."""

from nbkit.runs.once import once
from nbkit.runs.run import Run


def test_it_is_made_once_and_read_to_the_last_digit(tmp_path):
    calls = []

    def make():
        calls.append(None)
        return {"accuracy": 0.1 + 0.2, "rows": [1, 2]}

    for _ in range(2):
        run = Run.start({}, seeds=(0,), folder=tmp_path / "run")
        with run:
            found = once(run, "before", make)
            assert found == {"accuracy": 0.1 + 0.2, "rows": [1, 2]}
    assert len(calls) == 1 and (tmp_path / "run" / "before.json").exists()


def test_without_a_folder_nothing_is_kept():
    calls = []
    with Run.start({}, seeds=(0,)) as run:
        for _ in range(2):
            once(run, "before", lambda: calls.append(None) or {})
    assert len(calls) == 2
