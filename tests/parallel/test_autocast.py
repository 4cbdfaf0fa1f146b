"""A step renews what autocast keeps of the weights, whatever block stands around the loop."""

from contextlib import nullcontext

import pytest
import torch

from nbkit.parallel import ParallelConfig, World, connect
from tests.rlvr.small import VOCABULARY, generator, model

pytestmark = pytest.mark.chapter(3, 32)


def losses(around):
    """Of four steps on one batch, in bfloat16."""
    parallel = connect(ParallelConfig(precision="bfloat16"), World())
    parallel.prepare(model(), lambda weights: torch.optim.SGD(weights, lr=0.3))
    ids = torch.randint(2, len(VOCABULARY), (3, 9), generator=generator())
    seen = []
    with around:
        for _ in range(4):
            loss = parallel.model(input_ids=ids, labels=ids).loss
            parallel.backward(loss)
            parallel.step()
            seen.append(loss.item())
    return seen


@pytest.mark.parametrize("enabled", [True, False])
def test_a_block_around_the_loop_does_not_freeze_the_weights(enabled):
    plain = losses(nullcontext())
    assert plain[-1] < plain[0] - 0.1
    inside = losses(torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled))
    assert len(set(inside)) == 4
    assert inside == pytest.approx(plain, abs=0.02)
