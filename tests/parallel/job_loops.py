"""The loops of the jobs of chapters 21 and 22, as a `train.py` calls them: a trainer and `fit`."""

import contextlib
import json
import os
from pathlib import Path

import torch

from nbkit.data.encode import EncodedPair, Example
from nbkit.parallel import ParallelConfig, connect, join
from nbkit.runs.limits import VARIABLE
from nbkit.runs.run import Run
from nbkit.text.adapters import add_adapters, merged
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.data_order import PromptStream
from nbkit.trainers.dpo import DPOConfig, DPOTrainer, OnlineDPOConfig, OnlineDPOTrainer
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.reward_model import RewardModelConfig, RewardModelTrainer
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer
from nbkit.trainers.sft import SFTConfig, SFTTrainer
from tests.parallel import jobs
from tests.rlvr.small import PROBLEMS, VOCABULARY, generator, model
from tests.rlvr.small import config as grpo_config

STEPS, PAD = 4, VOCABULARY.pad_id


def pairs():
    """Pairs of many lengths."""
    rows = jobs.sft_examples(48)
    return [
        EncodedPair(one.prompt_ids, one.answer_ids, (*other.answer_ids, 3))
        for one, other in zip(rows[::2], rows[1::2], strict=True)
    ]


def sft(parallel):
    settings = SFTConfig(steps=STEPS, batch_size=7, micro_rows=3, warmup=1, learning_rate=1e-2)
    return SFTTrainer(
        model(layers=2), jobs.sft_examples(), settings,
        pad_id=PAD, generator=generator(7), parallel=parallel,
    )  # fmt: skip


def reward(parallel):
    settings = RewardModelConfig(steps=STEPS, batch_size=7, micro_pairs=3, learning_rate=1e-2)
    return RewardModelTrainer(
        ScalarModel.from_causal(model(layers=2), head="random"), pairs()[5:], settings,
        pad_id=PAD, generator=generator(7), held_out=pairs()[:5], every=2, parallel=parallel,
    )  # fmt: skip


def dpo(parallel):
    """Not of chapter 21, but the same loop; the model scores all pairs before it moves."""
    settings = DPOConfig(steps=STEPS, batch_size=7, micro_pairs=3, learning_rate=1e-2, warmup=1)
    return DPOTrainer(
        model(layers=2), pairs(), settings, pad_id=PAD, generator=generator(7), parallel=parallel
    )


def online(parallel):
    """The reward is the number of one letter; groups of three, so that one answer is in no pair."""
    sampling = grpo_config(updates=STEPS, prompts=6, group_size=3, max_new_tokens=8)
    settings = OnlineDPOConfig(sampling, DPOConfig(learning_rate=1e-2, warmup=1, micro_pairs=1))
    return OnlineDPOTrainer(
        model(layers=2), VOCABULARY, PROBLEMS,
        lambda _, made: [float(len(set(one.text))) for one in made], settings,
        reference=model(layers=2, seed=5), generator=generator(7), parallel=parallel,
    )  # fmt: skip


def ppo(parallel, *, adapters=0, **changes):
    """Prompts as ids, a reward model on the device, a moving price of the divergence."""
    settings = RLHFConfig(
        **{
            "updates": STEPS, "prompts": 6, "max_new_tokens": 8, "micro_rows": 2, "kl_target": 1.0,
            "kl_horizon": 100.0, "learning_rate": 3e-3, "missing_eos_penalty": 0.5,
            "release_engine": True,
        } | changes
    )  # fmt: skip
    policy = model(layers=2)
    value = ScalarModel.from_causal(model(layers=2, seed=3), head="random", seed=1)
    if adapters:
        add_adapters(policy, adapters)
        add_adapters(value, adapters)
        value.head.requires_grad_(True)
    return RLHFTrainer(
        policy, VOCABULARY, [Example(one.prompt_ids, ()) for one in jobs.sft_examples()],
        ScalarModel.from_causal(model(layers=2, seed=3), head="random", seed=1), settings,
        reference=None if adapters else model(layers=2, seed=5), value=value,
        generator=generator(7), parallel=parallel,
    )  # fmt: skip


STAGES = {"sft": sft, "reward": reward, "dpo": dpo, "online": online, "ppo": ppo}


def loops(word, folder, names):
    """By stage: metrics and weights of a run, and of one that was told to stop on its way."""
    jobs.one_thread()
    return {name: (loop(word, name), stopped(word, name, Path(folder))) for name in names}


def trainer(word, name):
    parallel = None
    if word != "alone":
        parallel = connect(ParallelConfig(backend=word), join("cpu", timeout_s=300))
    return STAGES[name](parallel)


def ends(one):
    weights = {name: part.whole_state() for name, part in one.learners.items()}
    plain = {f"{n}.{k}": x.clone().numpy() for n, w in weights.items() for k, x in w.items()}
    return jobs.timeless(one), plain


def loop(word, name):
    """Without a folder a run only remembers its rows."""
    one = trainer(word, name)
    with Run.start({}, seeds=(0,), stage=name) as run:
        one.fit(run, save_every=2, measure=lambda: {"measured": 1.0}, measure_every=3)
        run.finish({})
    assert ["measured" in row for row in run.history] == [False, False, True, True]
    return ends(one)


def stopped(word, name, folder):
    """Told to stop after its first step, then a new trainer goes on, with other random numbers."""
    join("cpu", timeout_s=300)
    stop = folder / "STOP"
    for told in (True, False):
        one = trainer(word, name)
        if told:
            if name == "dpo":  # it looks for STOP while its reference scores, before the first step
                assert one.reference_scores is not None
            folder.mkdir(parents=True, exist_ok=True)
            stop.touch()
        else:
            one.parallel.barrier()
            stop.unlink(missing_ok=True)
            one.parallel.barrier()
            one.generator.manual_seed(99)
            torch.manual_seed(99)
        with (
            contextlib.suppress(SystemExit),
            Run.start({}, seeds=(0,), stage=name, folder=folder) as run,
        ):
            one.fit(run, save_every=2, measure=lambda: {"measured": 1.0}, measure_every=3)
            run.finish({})
        assert len(one.history) == (1 if told else STEPS)
        assert [row["step"] for row in run.history] == list(range(1, len(one.history) + 1))
    return ends(one)


def adapted(word):
    """PPO of adapters: metrics, whether only they have moved, and the sampler's weights."""
    jobs.one_thread()
    parallel = None
    if word != "alone":
        parallel = connect(ParallelConfig(backend=word), join("cpu", timeout_s=300))
    one = ppo(parallel, adapters=2, kl_target=None)
    before = one.parallel.whole_state()
    before = {name: value.clone() for name, value in before.items()}
    one.run(progress=False)
    after = {name: value.clone() for name, value in one.parallel.whole_state().items()}
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    with one.parallel.gathered() as whole, merged(whole):
        inside = whole.model.layers[0].self_attn.q_proj.weight.clone().numpy()
    return jobs.timeless(one), moved, inside


POISON = len(VOCABULARY) - 1  # an id that one example has, and that makes the model's output nan


def poisoned(parallel):
    """SFT of which one example, in the second batch and on rank 0, has a loss of nan."""
    where = PromptStream(24, generator(7), "examples").take(14)[7]
    examples = []
    for number, one in enumerate(jobs.sft_examples()):
        ids = [tuple(min(i, POISON - 1) for i in part) for part in (one.prompt_ids, one.answer_ids)]
        answer = (*ids[1], POISON) if number == where else ids[1]
        examples.append(Example(ids[0], answer))
    net = model(layers=2)
    net.model.embed_tokens.register_forward_hook(
        lambda _, given, out: out.masked_fill((given[0] == POISON)[..., None], torch.nan)
    )
    settings = SFTConfig(steps=STEPS, batch_size=7, micro_rows=3, learning_rate=1e-2)
    return SFTTrainer(
        net, examples, settings, pad_id=PAD, generator=generator(7), parallel=parallel
    )


def silent(parallel):
    """GRPO whose rewards are equal."""
    return GRPOTrainer(
        model(layers=2), VOCABULARY, PROBLEMS, lambda _, completions: [0.0] * len(completions),
        grpo_config(updates=5), generator=generator(7), parallel=parallel,
    )  # fmt: skip


def limited(word, folder):
    """What a bad batch and a silence do: metrics, weights, files; the steps of the silent run."""
    jobs.one_thread()
    parallel = connect(ParallelConfig(backend=word), join("cpu", timeout_s=300))
    one = poisoned(parallel)
    with Run.start({}, seeds=(0,), folder=Path(folder) / "bad") as run:
        one.fit(run, save_every=2)
        run.finish({})
    files = sorted(path.name for path in (Path(folder) / "bad" / "skipped").iterdir())
    os.environ[VARIABLE] = "silent_steps=2"
    two = silent(connect(ParallelConfig(backend=word), join("cpu", timeout_s=300)))
    status = None
    try:
        with Run.start({}, seeds=(0,), folder=Path(folder) / "silent") as run:
            two.fit(run, save_every=0)
    except SystemExit as stopped:
        status = stopped.code
    del os.environ[VARIABLE]
    plain = {name: value.clone().numpy() for name, value in one.parallel.whole_state().items()}
    return json.dumps(jobs.timeless(one)), plain, files, len(two.history), status
