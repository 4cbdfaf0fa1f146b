"""What checkpointing keeps and repeats, in eager mode and compiled, counted in matrix products."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nbkit.parallel.blocks import prepare_blocks
from nbkit.parallel.config import ParallelConfig
from tests.rlvr.small import VOCABULARY, model

pytestmark = pytest.mark.chapter(33)

LAYERS = 3
# In a block: Q, K, V, the output, two products up and one down. Repeated in the backward pass:
REPEATED = {"none": 0, "full": 6, "selective": 0, "wide": 4}  # never the last: no gradient needs it


class Products(TorchDispatchMode):
    """Counts matrix products."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        aten = torch.ops.aten
        if getattr(function, "overloadpacket", None) in (aten.mm, aten.addmm):
            self.count += 1
        return function(*args, **(kwargs or {}))


def backward(kind, compiled):
    """Gradients, and the matrix products of the backward pass."""
    torch._dynamo.reset()
    net = model(layers=LAYERS).train()
    net.config.use_cache = False
    prepare_blocks(net, ParallelConfig(checkpointing=kind, compile=compiled))
    ids = torch.randint(2, len(VOCABULARY), (2, 9), generator=torch.Generator().manual_seed(1))
    loss = net(input_ids=ids).logits.square().mean()
    with Products() as seen:
        loss.backward()
    return [p.grad for p in net.parameters()], seen.count


@pytest.mark.parametrize("kind", ["full", "selective", "wide"])
def test_what_is_repeated(kind):
    plain, least = backward("none", False)
    grads, count = backward(kind, False)
    assert count - least == LAYERS * REPEATED[kind]
    torch.testing.assert_close(grads, plain)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize("kind", ["full", "wide"])
def test_a_compiled_block_repeats_no_more(kind):
    plain, least = backward("none", False)
    grads, count = backward(kind, True)
    assert count - least <= LAYERS * REPEATED[kind] + 1
    torch.testing.assert_close(grads, plain, atol=1e-5, rtol=1e-4)
