"""The conformance kit: it passes what is right, and names what is wrong."""

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from bookkit.conformance import (
    ALL_CASES,
    LIBRARIES,
    Adapter,
    Case,
    NotProvided,
    check,
    load_adapter,
    run_case,
)
from bookkit.conformance.adapters.ours import OursAdapter
from bookkit.conformance.case import RAISES
from bookkit.conformance.commands import app
from bookkit.conformance.matches import MATCHES, Differs
from bookkit.conformance.parity import compare, compare_one
from bookkit.conformance.questions import QUESTIONS, Match
from nbkit.errors import UserError

BY_ID = {case.id: case for case in ALL_CASES}
METHODS = {
    name for name, member in vars(Adapter).items() if not name.startswith("_") and callable(member)
}


def test_case_ids_are_unique_and_every_case_asks_a_method() -> None:
    assert len(BY_ID) == len(ALL_CASES)
    assert {case.function for case in ALL_CASES} <= METHODS
    assert {question.function for question in QUESTIONS} <= METHODS


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
def test_ours_gives_a_known_and_right_answer(case: Case) -> None:
    finding = run_case(OursAdapter(), case)
    assert finding.status in ("right", "convention"), finding
    if any(outcome.verdict == "right" for outcome in case.outcomes):
        assert finding.status == "right", finding


class Answers(Adapter):
    """Returns one value whatever it is asked, with any derivative that the case can take."""

    name = "answers"

    def __init__(self, value: object) -> None:
        self.value = value

    def __getattribute__(self, attribute: str) -> object:
        if attribute not in METHODS:
            return super().__getattribute__(attribute)

        def call(*_: object, **__: object) -> Tensor:
            if self.value == RAISES:
                raise ValueError("refused")
            return torch.tensor(self.value, dtype=torch.float64)

        return call


PLAIN = [
    (case, outcome) for case in ALL_CASES if case.measure == "value" for outcome in case.outcomes
]


@pytest.mark.parametrize(
    ("case", "outcome"), PLAIN, ids=[f"{case.id}: {outcome.meaning}" for case, outcome in PLAIN]
)
def test_each_outcome_is_told_from_the_others(case: Case, outcome: object) -> None:
    """No fingerprint lies so near to another that a library would be told the wrong thing."""
    finding = run_case(Answers(outcome.value), replace(case, at=None))
    assert (finding.status, finding.meaning) == (outcome.verdict, outcome.meaning)


def test_an_unlisted_value_and_an_exception_are_failures() -> None:
    case = BY_ID["rloo"]
    unlisted = run_case(Answers([9.0, 9, 9, 9]), case)
    assert unlisted.status == "unknown"
    assert unlisted.failed

    class Broken(Adapter):
        def leave_one_out(self, rewards: Tensor, group_size: int) -> Tensor:
            raise KeyError("group")

    broken = run_case(Broken(), case)
    assert (broken.status, broken.meaning) == ("error", "KeyError: 'group'")
    assert run_case(Answers(RAISES), case).status == "error"  # a refusal that no outcome expects


def test_what_a_library_lacks_is_not_a_failure() -> None:
    findings = check(Adapter())
    assert {finding.status for finding in findings} == {"not provided"}
    assert not any(finding.failed for finding in findings)
    with pytest.raises(NotProvided):
        Adapter().entropy(torch.zeros(1, 2))


class WithFaults(OursAdapter):
    """Three faults of the field in one library."""

    name = "with-faults"

    def aggregate(self, per_token, mask, mode, max_tokens, total_tokens=None, total_sequences=None):
        return super().aggregate(per_token, mask, mode, max_tokens)  # counts are dropped

    def masked_mean(self, x, mask):
        return (x * mask).sum() / mask.sum()

    def environment_gae(self, rewards, values, next_values, terminated, done, gamma, lam):
        return super().environment_gae(rewards, values, next_values, done, done, gamma, lam)


def test_faults_are_found_and_named() -> None:
    failed = {f.case.id: f.meaning for f in check(WithFaults()) if f.failed}
    assert failed == {
        "masked-mean-empty": "0 / 0: an empty micro-batch poisons the step",
        "masked-mean-garbage": "x * mask lets NaN through",
        "D01-truncation": "truncation is treated as death",
        "D04-micro-batches": "no way to pass the global count: a sum of means",
        "D05-ranks-seq-mean": "no way to pass the global count: a sum of means",
    }


def test_parity_rows_need_a_reason_for_a_difference() -> None:
    rows = compare(OursAdapter())
    assert {row.status for row in rows} == {"agrees"}
    wrong = {row.question: row.status for row in compare(WithFaults())}
    assert wrong["GAE, environments"] == "unexplained"
    assert wrong["masked mean"] == "agrees"


def test_a_reason_that_no_longer_holds_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    entropy = next(q for q in QUESTIONS if q.key == "entropy")
    monkeypatch.setitem(MATCHES, "ours", {"entropy": Differs(reason="once it did")})
    row = compare_one(OursAdapter(), entropy)
    assert row.status == "stale"
    assert row.failed


def test_a_difference_above_rounding_needs_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    entropy = next(q for q in QUESTIONS if q.key == "entropy")
    near = Match(call=lambda logits: entropy.default.call(logits) * (1 + 1e-8))
    monkeypatch.setitem(MATCHES, "ours", {"entropy": near})
    assert compare_one(OursAdapter(), entropy).status == "unexplained"
    monkeypatch.setitem(MATCHES, "ours", {"entropy": replace(near, note="rounds")})
    explained = compare_one(OursAdapter(), entropy)
    assert (explained.status, explained.reason) == ("agrees", "rounds")


def test_every_match_belongs_to_a_library_and_a_question() -> None:
    assert set(MATCHES) <= set(LIBRARIES)
    keys = {question.key for question in QUESTIONS}
    for library, matches in MATCHES.items():
        assert set(matches) <= keys, library


# The command line


def test_command_reports_conventions_and_succeeds_for_ours() -> None:
    result = CliRunner().invoke(app, ["conformance", "ours"])
    assert result.exit_code == 0, result.output
    assert "Bessel" in result.output
    assert "0 failed, 0 not provided" in result.output


def test_command_writes_json_and_fails_for_a_faulty_adapter_of_ones_own() -> None:
    result = CliRunner().invoke(app, ["conformance", f"{__name__}:WithFaults", "--json"])
    assert result.exit_code == 1
    report = json.loads(result.output)
    assert report["library"] == "with-faults"
    assert {row["case"] for row in report["findings"]} == set(BY_ID)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("trll", "unknown library 'trll': name one of ours, trl"),
        ("no_such_module:Mine", "cannot be imported here"),
        ("json:JSONDecoder", "not a subclass of bookkit.conformance.Adapter"),
    ],
)
def test_command_names_what_it_cannot_load(name: str, sentence: str) -> None:
    result = CliRunner().invoke(app, ["conformance", name])
    assert isinstance(result.exception, UserError)
    assert sentence in str(result.exception)
    assert "\n" not in str(result.exception)


def test_load_adapter_takes_a_class_path() -> None:
    assert isinstance(load_adapter(f"{__name__}:WithFaults"), WithFaults)
