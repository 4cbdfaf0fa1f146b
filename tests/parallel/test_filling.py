"""Ranks that have shapes alone get the first one's weights, and one host holds a model once."""

import numpy as np
import pytest
import torch

from nbkit.parallel.filling import Filler
from nbkit.text.scalar_models import ScalarModel
from tests.parallel import jobs, shapes_alone
from tests.rlvr.small import VOCABULARY, model

pytestmark = [pytest.mark.slow, pytest.mark.chapter(33)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A language model with tied embeddings, and a scalar one on its body, as jobs find them."""
    path = tmp_path_factory.mktemp("models") / "m"
    made = model(seed=3, layers=2, width=16)
    made.save_pretrained(path)
    scalar = ScalarModel.from_causal(made, head="random", seed=5)
    scalar.save_pretrained(f"{path}_scalar")
    return path


@pytest.mark.parametrize("word", ["ddp", "fsdp2", "zero3"])
def test_the_weights_of_the_first_rank_are_those_of_all(folder, word):
    found = jobs.ranks(2, shapes_alone.filled, word, str(folder))
    wanted = {
        name: p.detach().numpy() for name, p in model(seed=3, layers=2, width=16).named_parameters()
    }
    assert [one["empty"] for one in found] == [False, True]
    for one in found:
        assert one["tied"] == found[0]["tied"] == bool(model().config.tie_word_embeddings)
        for name, value in wanted.items():
            assert np.array_equal(one["before"][name], value), name
        assert one["losses"] == found[0]["losses"]
        assert any(not np.array_equal(one["after"][n], one["before"][n]) for n in wanted)
    assert set(wanted) <= set(found[0]["first only"]) and found[1]["first only"] == []


@pytest.mark.parametrize("word", ["ddp", "fsdp2"])
def test_frozen_models_are_filled_too(folder, word):
    ids = torch.arange(2, 12)[None]
    with torch.no_grad():
        logits = model(seed=3, layers=2, width=16).eval()(input_ids=ids, use_cache=False).logits
        scores = ScalarModel.from_pretrained(f"{folder}_scalar").eval()(ids, torch.ones_like(ids))
    for found in jobs.ranks(2, shapes_alone.frozen_scores, word, str(folder)):
        np.testing.assert_allclose(found[0], logits.numpy(), atol=1e-5)
        np.testing.assert_allclose(found[1], scores.numpy(), atol=1e-5)
        assert np.abs(found[1]).max() > 1e-3


def test_the_first_rank_must_have_its_weights(monkeypatch):
    monkeypatch.setattr("torch.distributed.get_rank", lambda: 0)
    with torch.device("meta"):
        empty = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="the first rank must have its weights"):
        Filler(empty, torch.device("cpu"))


def test_one_process_of_two_holds_the_model(folder, tmp_path):
    """Of 25 MB of weights: the first rank holds them when it reads and when it writes, once each.

    The other holds its half, one block at a time, and never the whole.
    """
    made = model(seed=0, layers=12, width=256)
    size = sum(p.numel() * 4 for p in made.parameters())
    assert size > 25e6 and len(VOCABULARY) < 100  # all of it in the blocks
    made.save_pretrained(tmp_path / "m")
    del made
    paths = [str(folder), str(tmp_path / "m"), str(tmp_path / "out")]
    first, other = jobs.ranks(2, shapes_alone.peak_of_loading, "fsdp2", *paths)
    assert (tmp_path / "out" / "large" / "config.json").exists()
    assert other[2] - other[0] < 0.9 * size + 20e6
    assert first[2] - first[0] < 2.6 * size + 20e6
