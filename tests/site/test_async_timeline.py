"""The events of the interactive figure `async-timeline`, against the simulation of the package."""

from __future__ import annotations

import json
import statistics

import numpy as np
import pytest
from javascript import THEME, run_javascript

from bookkit.site.pictures import async_timeline
from nbkit.asynchronous.bounds import least_seconds
from nbkit.asynchronous.events import simulate
from nbkit.asynchronous.machines import COLOCATED, Machines, Scheme

pytestmark = pytest.mark.chapter(35)
MODEL = THEME / "interactive" / "async-timeline" / "model.js"
SCHEMES = {
    "synchronous": Scheme(),
    "one step ahead": Scheme(staleness=1, barrier=True),
    "asynchronous": Scheme(staleness=3),
    "in flight": Scheme(staleness=3, in_flight=True),
}


@pytest.mark.parametrize("tail", [0.0, 0.8, 1.6])
@pytest.mark.parametrize("name", SCHEMES)
def test_both_writings_run_the_same(name: str, tail: float) -> None:
    """Seconds, idle shares and ages of the figure, for a split that is not even."""
    state = {"scheme": name, "tail": tail, "staleness": 3, "samplers": 3, "seed": 5}
    found = run_javascript(MODEL, f"return m.run({json.dumps(state)});")
    shown, given = found["shown"], found["machines"]
    machines = Machines(
        samplers=given["samplers"],
        trainers=given["trainers"],
        slots=given["slots"],
        token_seconds=given["token"],
        train_token_seconds=given["trainToken"],
        load_seconds=given["load"],
        switch_seconds=given["switch"],
    )
    lengths, prompts = np.array(found["lengths"]), 8
    outcome = simulate(lengths, prompts, machines, SCHEMES[name])
    assert shown["seconds"] == pytest.approx(outcome.seconds, rel=1e-12)
    assert shown["samplesPerSecond"] == pytest.approx(outcome.samples_per_second, rel=1e-12)
    assert shown["samplerIdle"] == pytest.approx(outcome.sampler_idle, abs=1e-9)
    assert shown["trainerIdle"] == pytest.approx(outcome.trainer_idle, abs=1e-9)
    assert shown["oldest"] == outcome.oldest
    assert shown["meanAge"] == pytest.approx(outcome.mean_staleness, abs=1e-9)
    spans = [
        (s["device"], s["slot"], s["group"], s["version"], s["tokens"]) for s in shown["spans"]
    ]
    expected = [(s.device, s.slot, s.group, s.version, s.tokens) for s in outcome.spans]
    assert sorted(spans) == sorted(expected)
    synchronous = simulate(lengths, prompts, machines, Scheme())
    assert found["gain"] == pytest.approx(synchronous.seconds / outcome.seconds, rel=1e-12)
    in_turn = lengths.size / least_seconds(lengths, prompts, machines, COLOCATED)
    assert found["colocated"] == pytest.approx(in_turn, rel=1e-12)
    assert simulate(lengths, prompts, machines, COLOCATED).samples_per_second <= in_turn * 1.000001


def test_lengths_of_the_figure_have_their_mean_and_repeat() -> None:
    drawn = run_javascript(
        MODEL, "return [0, 0.5, 0.5].map((tail) => m.drawLengths(7, 4000, tail).flat());"
    )
    assert set(drawn[0]) == {200}
    assert drawn[1] == drawn[2]
    assert statistics.mean(drawn[1]) == pytest.approx(200, rel=0.02)
    assert min(drawn[1]) >= 1 and max(drawn[1]) <= 1200
    other = run_javascript(MODEL, "return m.drawLengths(8, 4000, 0.5).flat();")
    assert other != drawn[1]


def test_the_still_picture_says_what_the_simulation_says() -> None:
    picture = async_timeline.async_timeline()
    for name, scheme in async_timeline.SCHEMES:
        assert f"{name}: {async_timeline.run(scheme).seconds:.0f} s" in picture
    seconds = [async_timeline.run(scheme).seconds for _, scheme in async_timeline.SCHEMES]
    assert seconds == sorted(seconds, reverse=True) and seconds[0] > 1.2 * seconds[-1]
