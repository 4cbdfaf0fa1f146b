"""The libraries on the tasks of builds: the same model, the same rows, the same count."""

import random

import pytest

from bookkit.builds.decoder import decoder
from bookkit.builds.libraries import measure, torch_ddp, transformers_generate
from bookkit.builds.network import network
from bookkit.builds.registry import get_build
from bookkit.builds.splitting import TOLERANCE, SplitStage, apart, mean_of_means, play, whole
from nbkit.errors import UserError


@pytest.mark.slow
def test_the_decoder_is_a_gpt2_of_transformers() -> None:
    model = decoder(3)
    theirs = transformers_generate.as_gpt2(model)
    assert transformers_generate.difference(theirs, model) < 1e-9
    assert transformers_generate.difference(theirs, decoder(4)) > 0.1


@pytest.mark.slow
@pytest.mark.xdist_group("alone")
def test_ddp_ends_where_one_process_does() -> None:
    (stage,) = get_build(32).stages
    assert isinstance(stage, SplitStage)
    draw = random.Random(5)
    rows = [stage.rows(draw, step) for step in range(4)]
    ends, seconds = torch_ddp.trained(rows, stage.settings, 7, 2)
    right, wrong = (play(network(7), rows, stage.settings, way) for way in (whole, mean_of_means))
    assert apart(ends[0], ends[1]) == 0
    assert apart(ends[0], right) < TOLERANCE < apart(ends[0], wrong)
    assert len(seconds) == 2 and min(seconds) > 0


def test_a_build_without_a_library_says_so() -> None:
    with pytest.raises(
        UserError, match=r"build 12 has no library to run; builds 24, 31, 32, 41 have"
    ):
        measure(get_build(12))
