"""TRL and Stable-Baselines3, which the chapters use, against ours and against the cases.

Which answer each gives is written down, so that a release that changes a convention is noticed
here, before a chapter says something that is no longer so.
"""

import pytest

pytest.importorskip("trl")
pytest.importorskip("stable_baselines3")

from bookkit.conformance import check, load_adapter
from bookkit.conformance.parity import compare

pytestmark = pytest.mark.slow

CONVENTIONS = {
    "sb3": {
        "whiten-eps": "std + 1e-8 (Bessel)",
        "ppo-negative": "no dual clip by default",
        "ppo-clamp": "log-ratio not clamped",
        "value-clipped": "the square of the clipped prediction alone: no gradient here",
        "value-plain": "the square",
    },
    "trl": {
        "kl-clamp-k3": "not clamped",
        "D13-gradient-k3": "gradient of KL(reference || policy)",
        "group": "group std (Bessel) + 1e-4",
        "D03-group-of-one": "refuses",
        "rloo-of-one": "refuses",
        "ppo-negative": "no dual clip by default",
        "ppo-clamp": "log-ratio not clamped",
        "cispo-bounds": "absolute: high is the bound itself",
        "aggregate-empty-row": "an empty row counts as a sequence",
        "preference-sigmoid-smoothed": "label smoothing is ignored by 'sigmoid'",
        "D14-ipo": "averages over tokens",
    },
}
FAILURES = {
    "sb3": {"D03-seven-equal": "rounding noise is blown up"},
    "trl": {
        "entropy-banned": "0 * -inf: banned tokens need another path",
        "aggregate-garbage": "x * mask lets NaN through",
    },
}


@pytest.mark.parametrize("library", ["sb3", "trl"])
@pytest.mark.parametrize("seed", [0, 1])
def test_ours_agrees_under_the_matching_arguments(library: str, seed: int) -> None:
    rows = [row for row in compare(load_adapter(library), seed) if row.status != "not provided"]
    assert len(rows) == {"sb3": 5, "trl": 19}[library]
    assert not [row for row in rows if row.failed]


@pytest.mark.parametrize("library", ["sb3", "trl"])
def test_conventions_and_failures_are_the_ones_written_down(library: str) -> None:
    findings = check(library)
    said = {f.case.id: f.meaning for f in findings if f.status == "convention"}
    assert said == CONVENTIONS[library]
    assert {f.case.id: f.meaning for f in findings if f.failed} == FAILURES[library]
