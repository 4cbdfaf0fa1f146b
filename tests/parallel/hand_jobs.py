"""What runs inside the processes of the tests by hand. Each rank returns plain data."""

import copy
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from nbkit.parallel import ParallelConfig, connect, counts, join
from nbkit.parallel.by_hand.buckets import BucketedDataParallel
from nbkit.parallel.by_hand.handover import gather_and_split, hand_over
from nbkit.parallel.by_hand.lockstep import decode_in_lockstep
from nbkit.parallel.by_hand.ring import ring_all_reduce
from nbkit.parallel.by_hand.shards import ShardedLinear, gather
from nbkit.parallel.by_hand.tensor_parallel import ColumnParallelLinear, RowParallelLinear, piece
from nbkit.parallel.streams import data_generator, rank_seed, sampling_generator
from tests.rlvr.small import PROBLEMS, VOCABULARY, model


def ring():
    """Sums of tensors of sizes that the ranks do and do not divide; what torch says."""
    world = join("cpu", timeout_s=300)
    found = []
    for shape in ((7,), (4, 6), (1,), ()):
        x = torch.arange(1.0, 1.0 + torch.Size(shape).numel()).view(shape) * (world.rank + 1)
        before, right = x.clone(), x.clone()
        dist.all_reduce(right)
        found.append(torch.equal(ring_all_reduce(x), right) and torch.equal(x, before))
    return found


def perceptron(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))


def rows(count=6):
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(4))


def mean_gradients():
    """Single-process gradients of the mean over all rows."""
    net = perceptron()
    net(rows()).square().mean().backward()
    return net, [p.grad for p in net.parameters()]


def gap(found, right):
    return max(float((a - b).abs().max()) for a, b in zip(found, right, strict=True))


def by_hand():
    world = join("cpu", timeout_s=300)
    rank, size = world.rank, world.size
    net, right = mean_gradients()
    mine = rows()[rank::size]
    found = {}

    mirror = BucketedDataParallel(perceptron(seed=rank), bucket_bytes=140)
    with torch.no_grad():  # rank 1 began with other weights: those of rank 0 hold
        found["broadcast"] = gap(list(mirror.parameters()), list(net.parameters()))
    for _ in range(2):
        mirror.zero_grad()
        mirror(mine).square().mean().backward()
        mirror.finish()
    found["buckets"] = gap([p.grad for p in mirror.module.parameters()], right)
    found["messages"] = len(mirror.buckets)
    mirror.zero_grad()
    mirror.module[0](mine).mean().backward()
    try:
        mirror.finish()
    except RuntimeError as error:
        found["missing"] = str(error)
    for _, _, message in mirror.flying:
        message.wait()

    layer = nn.Linear(5, 3)
    layer.load_state_dict({"weight": torch.arange(15.0).view(3, 5) / 9, "bias": torch.ones(3)})
    whole = copy.deepcopy(layer)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    whole(x).square().mean().backward()
    sharded = ShardedLinear(layer)
    part = x[rank::size].clone().requires_grad_()
    y = sharded(part)
    y.square().mean().backward()
    found["shard forward"] = gap([y], [whole(x[rank::size])])
    found["shard gradient"] = gap(
        [gather(sharded.weight_shard.grad, layer.weight.shape), sharded.bias.grad],
        [whole.weight.grad, whole.bias.grad],
    )
    found["shard size"] = sharded.weight_shard.numel()

    up, down = ColumnParallelLinear(net[0]), RowParallelLinear(net[2])
    x = rows().requires_grad_()
    y = down(torch.tanh(up(x)))
    y.square().mean().backward()
    found["tensor parallel"] = gap([y], [net(rows())])
    x_right = rows().requires_grad_()
    net.zero_grad()
    net(x_right).square().mean().backward()
    found["tensor parallel gradient"] = gap(
        [x.grad, up.weight.grad, down.weight.grad, down.bias.grad],
        [
            x_right.grad,
            piece(net[0].weight.grad, 0, rank, size),
            piece(net[2].weight.grad, 1, rank, size),
            net[2].bias.grad,
        ],
    )

    weight = torch.arange(24.0).view(4, 6)
    shard = piece(weight, 0, rank, size)
    found["hand-over"] = [
        torch.equal(hand_over(shard, d), gather_and_split(shard, d))
        and torch.equal(hand_over(shard, d), piece(weight, d, rank, size))
        for d in (0, 1)
    ]
    return found


def unequal_counts():
    """FAULTS D05: loss w·x, rank 0 has [1, 1], rank 1 has [4]; gradients right and naive."""
    join("cpu", timeout_s=300)
    x = [torch.tensor([1.0, 1.0]), torch.tensor([4.0])][dist.get_rank()]
    found = {}
    for name in ("right", "naive"):
        net = nn.Linear(1, 1, bias=False)
        mirror = nn.parallel.DistributedDataParallel(net)
        per_token = mirror(x[:, None])
        if name == "naive":
            loss = per_token.mean()
        else:
            (tokens,) = counts.total([float(len(x))])
            loss = counts.local_share(per_token.sum(), tokens, dist.get_world_size())
        loss.backward()
        found[name] = net.weight.grad.item()
    return found


def seeds():
    """Data order, sampling streams, and what G completions look like under equal seeds."""
    from nbkit.generate import generate

    world = join("cpu", timeout_s=300)
    net = model()
    prompt = [VOCABULARY.encode(PROBLEMS[0].prompt)]
    options = {"max_new_tokens": 8, "eos_ids": VOCABULARY.eos_id, "pad_id": VOCABULARY.pad_id}
    mine = sampling_generator(5, world.rank)
    return {
        "order": torch.randperm(20, generator=data_generator(5)).tolist(),
        "stream": torch.randint(1000, (8,), generator=sampling_generator(5, world.rank)).tolist(),
        "trap": torch.randint(1000, (8,), generator=torch.Generator().manual_seed(5)).tolist(),
        "answer": generate(net, prompt, seeds=mine, **options).lists()[0],
        "same": generate(net, prompt, seeds=[3], **options).lists()[0],
        "seed": rank_seed(5, world.rank),
    }


# The rank that waits in vain must be the one that fails: the other one sleeps until it is stopped.
PATIENCE_S, SLEEP_S = 4, 600


def lose_patience():
    """From here on a message that does not come fails soon; a slow start has done no harm."""
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=PATIENCE_S))


def gathers(everyone):
    """FAULTS D20 (i): the whole state, asked for by all ranks or by the main one alone."""
    torch.set_num_threads(1)
    parallel = connect(ParallelConfig(backend="fsdp2"), join("cpu", timeout_s=300))
    parallel.prepare(model(), torch.optim.AdamW)
    parallel.barrier()
    if not everyone:
        lose_patience()
        if not parallel.world.is_main:
            time.sleep(SLEEP_S)
    return sum(x.numel() for x in parallel.whole_state().values())


def decodes(sync):
    """FAULTS D20 (ii): EOS at decode step 2 on rank 0 and at 5 on rank 1, limit 8."""
    torch.set_num_threads(1)
    parallel = connect(ParallelConfig(backend="fsdp2"), join("cpu", timeout_s=300))
    parallel.prepare(model(), torch.optim.AdamW)
    end = (2, 5)[parallel.world.rank]
    prompt = torch.tensor([[3, 4, 5]])
    parallel.model(input_ids=prompt, use_cache=False)  # what the first call prepares takes longest
    parallel.barrier()
    if not sync:
        lose_patience()

    @torch.no_grad()
    def next_token(ids):
        parallel.model(input_ids=ids, use_cache=False)
        return VOCABULARY.eos_id if ids.shape[1] - prompt.shape[1] + 1 == end else 7

    made = decode_in_lockstep(next_token, prompt, VOCABULARY.eos_id, 8, sync=sync)
    if not sync:
        time.sleep(SLEEP_S)
    parallel.barrier()
    return made.forwards, made.length


def frozen():
    """DDP refuses a model without gradients; `prepare` says what to do; `frozen` does it."""
    torch.set_num_threads(1)
    parallel = connect(ParallelConfig(backend="ddp"), join("cpu", timeout_s=300))
    net = model().requires_grad_(False)
    found = {}
    try:
        nn.parallel.DistributedDataParallel(net)
    except RuntimeError as error:
        found["ddp"] = str(error)
    try:
        parallel.prepare(net, torch.optim.AdamW)
    except ValueError as error:
        found["prepare"] = str(error)
    placed = parallel.frozen(model())
    found["learns"] = any(p.requires_grad for p in placed.parameters())
    found["scores"] = tuple(placed(input_ids=torch.tensor([[3, 4]])).logits.shape)
    return found


def fails(rank):
    world = join("cpu", timeout_s=300)
    if world.rank == rank:
        raise ValueError("this rank has bad luck")
    dist.barrier()


def hangs():
    world = join("cpu", timeout_s=600)
    if not world.is_main:
        time.sleep(600)
    dist.barrier()
