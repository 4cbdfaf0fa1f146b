"""What runs inside the processes: a tiny model, rows of many lengths, and a training loop."""

import contextlib
import hashlib
import os
import random
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from nbkit.data.encode import Example
from nbkit.logprobs import next_token_logprobs
from nbkit.parallel import ParallelConfig, connect, join
from nbkit.parallel.launch import run_ranks
from nbkit.parallel.streams import GlobalBatches, mine
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from nbkit.trainers.sft import SFTConfig, SFTTrainer
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

ROWS, STEPS = 8, 10
UPDATES = 5  # of PPO: each takes several steps


def one_thread():
    torch.set_num_threads(1)


def batch(step, rows=ROWS, width=10):
    """The global batch of a step: ids (rows, width), mask of the tokens that count."""
    g = torch.Generator().manual_seed(1000 + step)
    ids = torch.randint(2, len(VOCABULARY), (rows, width), generator=g)
    lengths = torch.randint(2, width + 1, (rows,), generator=g)
    lengths[0], lengths[-1] = width, 2  # the halves of the batch never hold as many tokens
    return ids, torch.arange(width) < lengths[:, None]


def negative_loglikelihood(wrapped, ids, mask):
    """Sum over tokens, not their mean."""
    logits = wrapped(input_ids=ids, attention_mask=mask.long(), use_cache=False).logits
    return -next_token_logprobs(logits, ids, mask=mask).sum()


def sft_step(parallel, step, micro=2, max_norm=1.0):
    """One step on this rank's rows of the global batch; (loss of the batch, gradient norm)."""
    ids, mask = batch(step)
    mine = slice(parallel.world.rank, None, parallel.world.size)
    ids, mask = ids[mine], mask[mine]
    (tokens,) = parallel.total(mask[:, 1:].sum())
    local = 0.0
    for part in parallel.parts(list(zip(ids.split(micro), mask.split(micro), strict=True))):
        loss = negative_loglikelihood(parallel.model, *part) / tokens
        parallel.backward(loss)
        local += loss.item()
    norm = parallel.step(max_norm)
    return parallel.total(local)[0], norm


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1, betas=(0.9, 0.95))


def prepared(word, weights=0, width=16, **settings):
    one_thread()
    parallel = connect(ParallelConfig(backend=word, **settings), join("cpu", timeout_s=300))
    parallel.prepare(model(seed=weights, layers=2, width=width).train(), adamw)
    return parallel


def without_a_launcher(word, folder):
    """Losses of three steps, a checkpoint between, in a process that nobody has given a rank."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    parallel = prepared(word, nvme_path=folder if word == "zero3-nvme" else None)
    losses = [sft_step(parallel, step) for step in range(2)]
    parallel.save(Path(folder), 2)
    parallel.load(Path(folder))
    return [*losses, sft_step(parallel, 2)]


def scores(word, precisions):
    """By precision: logits of a policy, of a frozen model of the same weights, and in float32."""
    return {precision: scores_in(word, precision) for precision in precisions}


def scores_in(word, precision):
    parallel = prepared(word, precision=precision)
    frozen = parallel.frozen(model(seed=0, layers=2, width=16))
    ids = batch(0)[0]
    with torch.no_grad():
        nets = (parallel.model, frozen, model(seed=0, layers=2, width=16).eval())
        parallel.model.eval()
        found = [net(input_ids=ids, use_cache=False).logits for net in nets]
    return [str(x.dtype) for x in found], [x.float().numpy() for x in found]


def steps_without_a_micro_batch(word):
    """What a step says when no rank has anything, before and after one that had."""
    parallel, said = prepared(word), []
    for number in range(2):
        list(parallel.parts([]))
        try:
            parallel.step(1.0)
        except ValueError as error:
            said.append(str(error))
        sft_step(parallel, number)
    return said


def other_models(word, folder):
    """What `load` says to a checkpoint of another model or optimiser; weights afterwards."""
    folder, made = Path(folder), {}

    def make(optimiser=adamw, **sizes):
        parallel = connect(ParallelConfig(backend=word), join("cpu", timeout_s=300))
        net = model(**{"layers": 2, "width": 16, **sizes})
        parallel.prepare(net.train(), optimiser)
        return parallel

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    one_thread()
    for name, sizes in {"usual": {}, "deep": {"layers": 3}, "wide": {"width": 32}}.items():
        made[name] = make(**sizes)
        sft_step(made[name], 0)
        made[name].save(folder / name, 1)
    trials = {
        "deep into shallow": (make(), "deep"),
        "deep into shallow, SGD": (make(sgd), "deep"),
        "imported deep into shallow": (make(), "imported"),
        "shallow into deep": (make(layers=3), "usual"),
        "wide into narrow": (make(), "wide"),
        "AdamW into SGD": (make(sgd), "usual"),
    }
    said = {}
    for name, (parallel, where) in trials.items():
        before = everything(parallel)
        try:
            parallel.load(folder / where)
        except ValueError as error:
            said[name] = str(error)
        after = everything(parallel)
        assert all(np.array_equal(before[key], after[key]) for key in before)
    make().load(folder / "usual")
    return said


def sft(word, steps=STEPS, **settings):
    """Losses, norms and the weights at the end."""
    parallel = prepared(word, **settings)
    seen = [sft_step(parallel, step) for step in range(steps)]
    return seen, {k: v.numpy() for k, v in parallel.whole_state().items()}


def sft_partly_frozen(word, folder, **settings):
    """Embedding and first block do not learn: losses, what moved, and the state, saved and read."""

    def part(weights):
        net = model(seed=weights, layers=2, width=16).train()
        for name, parameter in net.named_parameters():
            parameter.requires_grad_("layers.1" in name or "norm" in name)
        parallel = connect(ParallelConfig(backend=word, **settings), join("cpu", timeout_s=300))
        parallel.prepare(net, adamw)
        return parallel

    one_thread()
    parallel = part(0)
    before = {k: v.clone().numpy() for k, v in parallel.whole_state().items()}
    losses = [sft_step(parallel, step) for step in range(3)]
    with parallel.gathered() as whole:
        gathered = {k: v.detach().float().clone().numpy() for k, v in whole.named_parameters()}
    saved = everything(parallel)
    parallel.save(Path(folder), 3)
    after = sft_step(parallel, 3)
    other = part(7)
    other.load(Path(folder))
    read = everything(other)
    return before, losses, gathered, saved, after, read, sft_step(other, 3)


def unequal_passes(reshard):
    """Whole weights on each rank for as many passes as it needs, also after an error; then a step.

    Returns the share of parameters that were whole after an error, inside and afterwards, whether
    all passes gave the same, and two more steps.
    """
    parallel = prepared("fsdp2", reshard_after_forward=reshard)
    sft_step(parallel, 0)
    plain = parallel._plain
    ids = torch.arange(6).view(1, 6) + 2

    def whole():
        return sum(not isinstance(p, DTensor) for p in plain.parameters())

    with contextlib.suppress(ZeroDivisionError), parallel.gathered() as net, torch.no_grad():
        net(input_ids=ids)
        _ = 1 / 0
    after_error = whole()
    passes = 2 + 3 * parallel.world.rank
    with parallel.gathered() as net, torch.no_grad():
        outputs = [net(input_ids=ids).logits.clone() for _ in range(passes)]
        inside = whole()
    same = all(torch.equal(one, outputs[0]) for one in outputs)
    wholes = [number / len(list(plain.parameters())) for number in (after_error, inside, whole())]
    return wholes, same, [sft_step(parallel, step) for step in (1, 2)]


def moved_whole(word):
    """How often a whole model is moved to the device, trained and frozen."""
    moved, real = [], torch.nn.Module.to

    def to(self, *args, **kwargs):
        moved.append(type(self).__name__)
        return real(self, *args, **kwargs)

    torch.nn.Module.to = to
    try:
        prepared(word).frozen(model(layers=2))
    finally:
        torch.nn.Module.to = real
    return len(moved)


def warnings_of(word):
    """What is warned of while a model is prepared and takes a step."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        sft_step(prepared(word), 0)
    return [str(one.message) for one in seen if issubclass(one.category, FutureWarning)]


def sft_on_disk(word, folder):
    """Losses of a model that is large enough to be moved to a disk, and the bytes there."""
    parallel = prepared(word, width=192, nvme_path=folder)
    losses = [sft_step(parallel, step) for step in range(3)]
    return losses, sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())


def sft_examples(count=24):
    """Prompts and answers of many lengths."""
    g = torch.Generator().manual_seed(8)

    def ids(most):
        length = int(torch.randint(1, most, (1,), generator=g))
        return tuple(torch.randint(2, len(VOCABULARY), (length,), generator=g).tolist())

    return [Example(ids(5), ids(12)) for _ in range(count)]


def sft_trainer(word):
    """Metrics of ten steps; an odd batch under a small budget, so ranks differ in their passes."""
    one_thread()
    settings = SFTConfig(steps=STEPS, batch_size=7, micro_tokens=24, warmup=2, learning_rate=1e-2)
    parallel = None
    if word != "alone":
        parallel = connect(ParallelConfig(backend=word), join("cpu", timeout_s=300))
    return SFTTrainer(
        model(layers=2),
        sft_examples(),
        settings,
        pad_id=VOCABULARY.pad_id,
        generator=generator(7),
        parallel=parallel,
    ).run(progress=False)


def all_three(word, folder=None):
    """SFT, GRPO and PPO in one set of processes: "alone" has no back-end in the trainers.

    With a folder, the latter two are saved after half of their updates, each in one of its own.
    """
    return {
        "sft": sft("single" if word == "alone" else word),
        "sft trainer": sft_trainer(word),
        **{name: trained(name, word, folder and Path(folder) / name) for name in TRAINERS},
    }


PRELOAD = ("tests.parallel.jobs", "tests.parallel.warm")


@cache
def warm():
    """Start the fork server; its imports take longer than the limit of a test may be."""
    run_ranks(one_thread, 1, timeout_s=600, preload=PRELOAD)


def ranks(size, function, *arguments, timeout_s=600.0):
    """`function` in `size` processes that begin with everything imported."""
    warm()
    return run_ranks(function, size, *arguments, timeout_s=timeout_s, preload=PRELOAD)


def saved_and_unbroken(word, folder, precision="float32"):
    """Save after five of ten steps and go on; losses, and the whole state at step 5 and 10."""
    parallel = prepared(word, precision=precision)
    batches = GlobalBatches(64, ROWS, seed=3)
    controller = {"coefficient": 0.2}
    losses, middle = [], None
    for step in range(STEPS):
        losses.append(noisy_step(parallel, batches, controller))
        if step == 4:
            extra = {"batches": batches.state_dict(), "controller": dict(controller)}
            parallel.save(Path(folder), 5, state=extra)
            middle = everything(parallel)
    return losses, middle, everything(parallel)


def resumed(word, folder, steps=5, precision="float32"):
    """A new process: other random states, other weights, then load and take the other five."""
    torch.manual_seed(999)
    parallel = prepared(word, weights=77, precision=precision)
    batches, controller = GlobalBatches(64, ROWS, seed=3), {"coefficient": 0.0}
    state = parallel.load(Path(folder))
    batches.load_state_dict(state["batches"])
    controller.update(state["controller"])
    at_start = everything(parallel)
    losses = [noisy_step(parallel, batches, controller) for _ in range(steps)]
    return losses, at_start, everything(parallel)


def noisy_step(parallel, batches, controller):
    """A step that hangs on everything that a resumed run must have back."""
    rows = mine(batches.next(), parallel.world.rank, parallel.world.size)
    ids, mask = batch(0, rows=64)
    ids, mask = ids[rows], mask[rows]
    noise = torch.rand(()).item() + random.random() + np.random.rand()
    (tokens, noise) = parallel.total(mask[:, 1:].sum(), noise)
    for group in parallel.optimiser.param_groups:
        group["lr"] = 1e-2 * (0.5 + controller["coefficient"])
    local = 0.0
    for part in parallel.parts([(ids, mask)]):
        loss = (1 + 0.1 * noise) * negative_loglikelihood(parallel.model, *part) / tokens
        parallel.backward(loss)
        local += loss.item()
    parallel.step(1.0)
    controller["coefficient"] *= 0.9
    return parallel.total(local)[0]


def saves_for_ever(folder):
    """Save step after step until somebody ends it; what each step must hold is noted before."""
    parallel, folder = prepared("fsdp2"), Path(folder)
    (folder / f"{parallel.world.rank}.pid").write_text(str(os.getpid()))
    for number in range(1, 1000):
        sft_step(parallel, number)
        found = digest(everything(parallel))
        if parallel.world.is_main:
            (folder / f"{number}.digest").write_text(found)
        parallel.barrier()
        parallel.save(folder, number)


def digest(arrays):
    whole = hashlib.sha256()
    for name in sorted(arrays):
        whole.update(name.encode() + arrays[name].tobytes())
    return whole.hexdigest()


def everything(parallel):
    """Weights and optimiser state, whole, as arrays."""
    from nbkit.parallel.checkpoint import flatten
    from nbkit.parallel.state_tensors import whole

    return {k: whole(v).cpu().clone().numpy() for k, v in flatten(parallel.state()).items()}


def grpo_trainer(word):
    """GRPO with all that crosses ranks: a KL, importance weights, minibatches, micro-batches."""
    one_thread()
    settings = config(
        updates=STEPS, kl_coefficient=0.04, minibatches=2, micro_tokens=60, importance_cap=2.0,
        learning_rate=3e-3, aggregation="token-mean",
    )  # fmt: skip
    parallel = None
    if word != "alone":
        parallel = connect(ParallelConfig(backend=word), join("cpu", timeout_s=300))
    return GRPOTrainer(
        model(layers=2), VOCABULARY, PROBLEMS, by_length, settings,
        reference=model(layers=2, seed=5), generator=generator(7), parallel=parallel,
    )  # fmt: skip


def short_by_length(problems, completions):
    return [one.length / 8 for one in completions]


def rlhf_trainer(word):
    """PPO with a moving KL coefficient, a warm-up of the value model, and a monitor."""
    one_thread()
    settings = RLHFConfig(
        updates=UPDATES, prompts=6, group_size=2, max_new_tokens=8, micro_tokens=60, kl_target=1.0,
        kl_horizon=100.0, value_warmup=1, learning_rate=3e-3, warmup=0,
    )  # fmt: skip
    parallel = None
    if word != "alone":
        parallel = connect(ParallelConfig(backend=word), join("cpu", timeout_s=300))
    policy = model(layers=2)
    return RLHFTrainer(
        policy, VOCABULARY, PROBLEMS, short_by_length, settings,
        reference=model(layers=2, seed=5), value=ScalarModel.from_causal(policy),
        monitors={"half": lambda asked, done: [0.5 * one.length for one in done]},
        generator=generator(7), parallel=parallel,
    )  # fmt: skip


TRAINERS = {"grpo": grpo_trainer, "rlhf": rlhf_trainer}


def trained(name, word, folder=None):
    """The metrics of all updates; with a folder, saved after half of them."""
    trainer = TRAINERS[name](word)
    if folder is not None:
        half = trainer.config.updates // 2
        trainer.run(
            progress=False, stop=lambda metrics: metrics["update"] == half, checkpoint=Path(folder)
        )
    trainer.run(progress=False)
    return timeless(trainer)


def trained_on(name, word, folder):
    """A new process goes on where the folder ends."""
    torch.manual_seed(99)
    trainer = TRAINERS[name](word)
    trainer.generator.manual_seed(4)
    trainer.run(progress=False, checkpoint=Path(folder))
    return timeless(trainer)


def timeless(trainer):
    return [
        {k: v for k, v in metrics.items() if not k.startswith("seconds")}
        for metrics in trainer.history
    ]
