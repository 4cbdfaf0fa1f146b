"""Beside TRL 1.16: the loss of its reward trainer, and the ids that its data code gives."""

import pytest
import torch

from nbkit.data.chat import ChatEncoder, as_rows
from nbkit.envs.helpful import preference_pairs
from nbkit.losses import reward_model_loss
from tests.rlhf.small import VOCABULARY

pytestmark = [pytest.mark.chapter(21), pytest.mark.slow]


def test_our_ids_are_those_of_trl():
    """trl.data_utils.apply_chat_template (TRL 1.16.0) renders; our encoder must give its ids."""
    data_utils = pytest.importorskip("trl.data_utils")
    tokenizer = VOCABULARY.tokenizer()
    encoder = ChatEncoder(tokenizer)
    for pair in preference_pairs(5, seed=1):
        preference = pair.preference()
        rendered = data_utils.apply_chat_template(as_rows([preference])[0], tokenizer)
        prompt = tokenizer.encode(rendered["prompt"], add_special_tokens=False)
        assert tuple(prompt) == encoder.prompt_ids(preference.prompt)
        for side in ("chosen", "rejected"):
            ids = tokenizer.encode(rendered[side], add_special_tokens=False)
            answer = encoder.answer_ids(preference.prompt, getattr(preference, side))
            assert tuple(ids) == answer


def test_the_bradley_terry_loss_of_trl():
    """RewardTrainer.compute_loss: -logsigmoid(chosen - rejected - margin), mean (TRL 1.16.0)."""
    chosen, rejected = torch.tensor([1.2]), torch.tensor([0.4])
    assert reward_model_loss(chosen, rejected).item() == pytest.approx(0.3711006660, abs=1e-7)
    with_margin = reward_model_loss(chosen, rejected, margin=0.5)
    assert with_margin.item() == pytest.approx(0.5543552445, abs=1e-7)
