# Generated, sha256 c7574793545b1140
"""Training script of the job `rlhf_7b`, tangled from notebooks/21_rlhf.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
import yaml
from pydantic import TypeAdapter
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, Qwen2Config

from nbkit.advantages import batch_moments, token_gae, whiten
from nbkit.cluster.job import Checkpointing, Precision
from nbkit.data.chat import HH_TEMPLATE, ChatEncoder
from nbkit.data.encode import EncodedPair, Example, encode_preferences
from nbkit.data.hh import hh_files, load_hh
from nbkit.data.prefetch import hub_name
from nbkit.envs.helpful import HelpfulVocabulary, preference_pairs
from nbkit.generate import clear, generate
from nbkit.losses import reward_model_loss
from nbkit.parallel import Parallel, ParallelConfig, World, connect, join
from nbkit.parallel.checkpoint import SHARDS, read_shards, write_shards
from nbkit.parallel.export import note_model
from nbkit.parallel.streams import GlobalBatches, mine, rank_seed
from nbkit.runs.run import Run
from nbkit.text.adapters import add_adapters
from nbkit.text.policies_value import ScalarModel
from nbkit.trainers.kl_controller import AdaptiveKL, FixedKL
from nbkit.trainers.reward_model import pair_scores
from nbkit.trainers.rlhf_batch import RLHFBatch, token_rewards
from nbkit.trainers.rlhf_config import RLHFConfig
from nbkit.trainers.rlhf_models import align, policy_outputs, value_outputs
from nbkit.trainers.rlhf_update import critic_loss, policy_loss
from nbkit.trainers.sft import answer_logprobs, schedule, sft_batch

# hidden size, layers, heads, key-value heads, width of the MLP, vocabulary, tied embeddings
SHAPES = {
    "tiny": (32, 2, 2, 1, 64, 160, True),
    "qwen2.5-0.5b": (896, 24, 14, 2, 4864, 151936, True),
    "qwen2.5-1.5b": (1536, 28, 12, 2, 8960, 151936, True),
    "qwen2.5-3b": (2048, 36, 16, 2, 11008, 151936, True),
    "qwen2.5-7b": (3584, 28, 28, 4, 18944, 152064, False),
}


@dataclass(frozen=True)
class Config:
    """One stage of RLHF. The defaults are the tiny size that the page runs."""

    stage: Literal["sft", "reward", "ppo"] = "sft"
    model: str = "shape:tiny"  # a name or folder; "shape:NAME": that size with random weights
    data: str = ""  # HH-RLHF: name, folder or file; "": the language world; "random": random ids
    backend: Literal["single", "fsdp2"] = "single"
    precision: Precision = "float32"
    checkpointing: Checkpointing = "none"  # others: less memory for activations
    adapters: int = 0  # rank of adapters on query and value maps; 0: all weights learn
    batch: int = 16  # rows of a step, over all devices
    micro_batch: int = 8  # rows of a forward pass on one device
    steps: int = 3
    learning_rate: float = 1e-3
    value_learning_rate: float = 1e-3
    warmup: int = 0
    max_prompt: int = 32
    max_new_tokens: int = 24
    epochs: int = 1
    minibatches: int = 2
    kl_coefficient: float = 0.05
    kl_target: float = 0.0  # above 0: the coefficient adapts
    missing_eos_penalty: float = 1.0
    lam: float = 0.95
    save_every: int = 2
    seed: int = 0
    device: str = "cpu"
    run_folder: str = ""


def random_pairs(config: Config) -> list[EncodedPair]:
    """Pairs of the largest lengths made of random ids, to measure memory and speed with."""
    generator = torch.Generator().manual_seed(config.seed)
    words = SHAPES[config.model.removeprefix("shape:")][5]

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, words, (length,), generator=generator).tolist())

    return [
        EncodedPair(ids(config.max_prompt), ids(config.max_new_tokens), ids(config.max_new_tokens))
        for _ in range(4 * config.batch)
    ]


def load_data(config: Config):
    """Encoded pairs and the tokenizer; what was left out, and why, is printed."""
    files = hh_files(config.data) if config.data not in ("", "random") else []
    if config.model.startswith("shape:"):
        tokenizer = HelpfulVocabulary().tokenizer()
    else:
        name, revision = hub_name(config.model)
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
    if config.data == "random":
        return random_pairs(config), tokenizer
    if config.data:
        loaded = [load_hh(path) for path in files]
        preferences = [p for part in loaded for p in part.preferences]
        print("\n".join(part.report.text() for part in loaded))
    else:
        preferences = [p.preference(i) for i, p in enumerate(preference_pairs(128, seed=1))]
    encoder = ChatEncoder(tokenizer, template=None if tokenizer.chat_template else HH_TEMPLATE)
    encoded = encode_preferences(
        preferences, encoder, max_prompt=config.max_prompt, max_answer=config.max_new_tokens
    )
    print(encoded.report.text())
    return encoded.pairs, tokenizer


def pad_of(tokenizer) -> int:
    """The id to pad with; attention masks say where, so the end of sequence will do."""
    return tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def language_model(config: Config, folder: Path | str, *, learns: bool):
    """A causal model from a folder or by name, or of a known shape with random weights.

    Weights that AdamW steps are float32; those that only run have the precision of the run.
    """
    whole = learns and not config.adapters
    dtype = torch.float32 if whole else getattr(torch, config.precision)
    if not config.model.startswith("shape:") or folder != config.model:
        name, revision = hub_name(str(folder))
        return AutoModelForCausalLM.from_pretrained(name, revision=revision, dtype=dtype)
    width, layers, heads, kv_heads, inner, words, tied = SHAPES[folder.removeprefix("shape:")]
    shape = Qwen2Config(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=inner,
        tie_word_embeddings=tied,
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.device(config.device):
        return AutoModelForCausalLM.from_config(shape, dtype=dtype)


def scalar_model(config: Config, folder: Path | str, *, learns: bool) -> ScalarModel:
    """A reward or value model from a folder, or on a language model's body."""
    if isinstance(folder, Path) and (folder / "scalar_head.safetensors").exists():
        whole = learns and not config.adapters
        dtype = torch.float32 if whole else getattr(torch, config.precision)
        return ScalarModel.from_pretrained(folder, dtype=dtype)
    model = language_model(config, folder, learns=learns)
    return ScalarModel(model.base_model, _new_head(model.config.hidden_size, model.device))


def _new_head(width: int, device) -> nn.Linear:
    head = nn.Linear(width, 1, device=device)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def learner(model: nn.Module, config: Config, world: World, rate: float) -> Parallel:
    """Put a model on its back-end, with adapters if asked for, and make its optimiser."""
    if config.adapters:
        add_adapters(model, config.adapters, seed=config.seed)
        if isinstance(model, ScalarModel):
            model.head.requires_grad_(True)
    how = ParallelConfig(
        backend=config.backend,
        precision=config.precision,
        checkpointing=config.checkpointing,
        seed=config.seed,
    )
    parallel = connect(how, world)
    parallel.prepare(model.eval(), lambda p: torch.optim.AdamW(p, lr=rate, betas=(0.9, 0.95)))
    return parallel


def merged(model: nn.Module):
    """Adapters inside the weights while the block runs; nothing to do without adapters."""
    return model.adapters.merged() if hasattr(model, "adapters") else nullcontext()


def save_model(parallel: Parallel, model: nn.Module, folder: Path, config: Config) -> None:
    """Write the whole model as `from_pretrained` reads it; every rank calls this."""
    with merged(model):
        state = {k: v.clone() for k, v in parallel.whole_state().items() if "adapters." not in k}
    if not parallel.world.is_main:
        return
    with torch.device("meta"):
        if isinstance(model, ScalarModel):
            fresh = ScalarModel(
                AutoModel.from_config(model.body.config), nn.Linear(model.head.in_features, 1)
            )
        else:
            fresh = AutoModelForCausalLM.from_config(model.config)
    for name, value in state.items():
        state[name] = (
            value.float()
            if name.startswith("head.")
            else value.to(getattr(torch, config.precision))
        )
    missing = fresh.load_state_dict(state, strict=False, assign=True).missing_keys
    if set(missing) - {"lm_head.weight"}:
        raise ValueError(f"the model to be saved lacks {missing}")
    if missing:
        fresh.tie_weights()
    fresh.save_pretrained(folder)


def go_on(run: Run, order: GlobalBatches, learners: dict[str, Parallel]):
    """Continue from the newest checkpoint, if there is one: its step and its state.

    The shapes of the models are noted in the run, so that `nbkit export` can write them.
    """
    if run.folder is not None:
        for name, parallel in learners.items():
            note_model(run.folder, parallel.model, name)
    found = run.resume()
    if found is None:
        return 0, {}
    order.load_state_dict(found.state["order"])
    for name, parallel in learners.items():
        read_shards(parallel, found.folder / name)
    return found.step, found.state


def keep(
    run: Run, step: int, order: GlobalBatches, learners: dict[str, Parallel], every: int, **more
):
    """Write a checkpoint when it is time, or when the job is told to stop."""

    def write(folder: Path) -> None:
        for name, parallel in learners.items():
            write_shards(parallel, folder / name)

    run.checkpoint(step, lambda: {"order": order.state_dict(), **more}, every=every, write=write)


def fit(run: Run, config: Config, parallel: Parallel, rows: list, count_of, loss_of) -> float:
    """Stages 1 and 2: gradient steps on global batches; return the last loss."""
    world, order = parallel.world, GlobalBatches(len(rows), config.batch, config.seed)
    step, _ = go_on(run, order, {SHARDS: parallel})
    loss = run.history[-1]["loss"] if run.history else float("nan")
    while step < config.steps:
        rate = schedule(step, config.steps, config.learning_rate, config.warmup)
        parallel.optimiser.param_groups[0]["lr"] = rate
        with run.timed("update"):
            own = [rows[i] for i in mine(order.next(), world.rank, world.size)]
            (total,) = parallel.total(count_of(own))
            starts = range(0, len(own), config.micro_batch)
            seen = 0.0
            for part in parallel.parts([own[i : i + config.micro_batch] for i in starts]):
                part_loss = loss_of(parallel.model, part) / total
                parallel.backward(part_loss)
                seen += part_loss.item()
            norm = parallel.step(1.0)
            (loss,) = parallel.total(seen)
        step += 1
        run.log(step, {"loss": loss, "gradient_norm": norm, "learning_rate": rate, **peak()})
        keep(run, step, order, {SHARDS: parallel}, config.save_every)
    return loss


def peak() -> dict[str, float]:
    """The most memory that this process has held on its GPU."""
    if not torch.cuda.is_available():
        return {}
    return {"peak_gib": torch.cuda.max_memory_allocated() / 2**30}


def run_sft(run: Run, config: Config, world: World) -> dict:
    """Stage 1: the chosen answers as demonstrations."""
    pairs, tokenizer = load_data(config)
    pad = pad_of(tokenizer)
    examples = [Example(pair.prompt_ids, pair.chosen_ids) for pair in pairs]
    model = language_model(config, config.model, learns=True)
    parallel = learner(model, config, world, config.learning_rate)

    def loss_of(model, part) -> Tensor:
        return -answer_logprobs(model, *sft_batch(part, pad, world.device)).sum()

    loss = fit(
        run, config, parallel, examples, lambda rows: sum(len(e.answer_ids) for e in rows), loss_of
    )
    if run.folder is not None and config.data != "random":
        save_model(parallel, model, run.output, config)
        tokenizer.save_pretrained(run.output)
    return {"loss": loss}


def run_reward(run: Run, config: Config, world: World) -> dict:
    """Stage 2: a scalar head on the model of stage 1 learns from the comparisons."""
    pairs, tokenizer = load_data(config)
    pad = pad_of(tokenizer)
    start = config.model if config.data == "random" else run.input("sft")
    model = scalar_model(config, start, learns=True)
    parallel = learner(model, config, world, config.learning_rate)
    held_out, pairs = pairs[: config.batch], pairs[config.batch :]

    def loss_of(model, part) -> Tensor:
        return reward_model_loss(*pair_scores(model, part, pad)).sum()

    loss = fit(run, config, parallel, pairs, len, loss_of)
    right = 0.0
    with torch.no_grad():  # all ranks judge all of the few held-out pairs
        for i in range(0, len(held_out), config.micro_batch):
            chosen, rejected = pair_scores(
                parallel.model, held_out[i : i + config.micro_batch], pad
            )
            right += float((chosen > rejected).sum() + 0.5 * (chosen == rejected).sum())
    if run.folder is not None and config.data != "random":
        save_model(parallel, model, run.output, config)
        tokenizer.save_pretrained(run.output)
    return {"loss": loss, "held-out accuracy": right / len(held_out)}


@torch.no_grad()
def collect(
    policy: Parallel,
    value: Parallel,
    judge,
    reference,
    asked: list,
    config: Config,
    settings: RLHFConfig,
    beta: float,
    eos: int,
    pad: int,
    generator: torch.Generator,
    run: Run,
) -> tuple[RLHFBatch, dict[str, float]]:
    """Sample answers on this rank, let three models read them, and make a batch of PPO."""
    with run.timed("generate"), policy.gathered() as model, merged(model):
        made = generate(
            model,
            asked,
            max_new_tokens=config.max_new_tokens,
            eos_ids=eos,
            pad_id=pad,
            seeds=generator,
            dtype=torch.bfloat16 if config.precision == "bfloat16" else None,
        )
        clear(model)  # the engine's caches make room for the update
    ids, attention, mask = made.ids, made.attention, made.mask
    rows = torch.arange(len(ids), device=ids.device).split(config.micro_batch)
    zeros = torch.zeros(mask.shape, device=ids.device)
    logprobs, ref_logprobs, values = zeros.clone(), zeros.clone(), zeros.clone()
    scores = torch.zeros(len(ids), device=ids.device)
    with run.timed("score"):
        for some in rows:
            part = align(ids[some], attention[some], mask[some])
            logprobs[some] = part.full(policy_outputs(policy.model, part, 1.0)[0].float())
            values[some] = part.full(value_outputs(value.model, part).float())
            scores[some] = judge.scores(ids[some], attention[some]).float()
            with nullcontext() if reference is not None else policy.model.adapters.off():
                before = policy_outputs(reference or policy.model, part, 1.0)[0]
            ref_logprobs[some] = part.full(before.float())
    kl = torch.where(mask, logprobs - ref_logprobs, 0.0)
    rewards = token_rewards(
        scores,
        made.truncated,
        kl,
        mask,
        kl_coefficient=beta,
        missing_eos_penalty=config.missing_eos_penalty,
    )
    advantages, returns = token_gae(rewards, values, mask, gamma=1.0, lam=config.lam)
    n, mean, variance = (float(moment) for moment in batch_moments(advantages, mask))
    n, first, second = policy.total(n, n * mean, n * (variance + mean * mean))
    moments = (n, first / n, max(0.0, second / n - (first / n) ** 2))  # of all ranks together
    batch = RLHFBatch(
        ids,
        attention,
        mask,
        logprobs,
        ref_logprobs,
        values,
        scores,
        made.truncated,
        rewards,
        whiten(advantages, mask, moments=moments),
        returns,
    )
    sums = policy.total(
        len(ids), scores.sum(), kl.sum(), mask.sum(), made.truncated.sum(), -logprobs.sum()
    )
    count, score, drift, tokens, cut, surprise = sums
    return batch, {
        "reward": score / count,
        "kl": drift / count,
        "length": tokens / count,
        "tokens": tokens,
        "truncated": cut / count,
        "entropy": surprise / tokens,
        "kl_coefficient": beta,
    }


def update(
    policy: Parallel,
    value: Parallel,
    batch: RLHFBatch,
    config: Config,
    settings: RLHFConfig,
    generator: torch.Generator,
) -> dict[str, float]:
    """Several epochs of minibatches; the same numbers of rows on every rank."""
    steps, sums, norms, error = 0, {}, [0.0, 0.0], 0.0
    size = len(batch) // config.minibatches
    for _ in range(config.epochs):
        order = torch.randperm(len(batch), generator=generator).to(batch.ids.device)
        for chosen in order.split(size):
            (total,) = policy.total(batch.mask[chosen].sum())
            micro = chosen.split(config.micro_batch)
            for rows, _ in zip(policy.parts(micro), value.parts(micro), strict=True):
                part = batch.rows(rows)
                loss, _, seen = policy_loss(policy.model, part, settings, total_tokens=total)
                policy.backward(loss)
                aligned = align(part.ids, part.attention, part.mask)
                guesses = value_outputs(value.model, aligned)
                loss, more = critic_loss(guesses, part, settings, total_tokens=total)
                value.backward(loss)
                for name, share in (seen | more).items():
                    if name != "ratio_error":
                        sums[name] = sums.get(name, 0.0) + share
                    elif steps == 0:  # before any step: trainer and sampler must agree
                        error = max(error, share)
            norms = [norms[0] + policy.step(1.0), norms[1] + value.step(1.0)]
            steps += 1
    names = sorted(sums)
    totals = policy.total(*(sums[name] / steps for name in names))
    means = dict(zip(names, totals, strict=True)) | {"ratio_error": policy.largest(error)}
    return {**means, "gradient_norm": norms[0] / steps, "value_gradient_norm": norms[1] / steps}


def run_ppo(run: Run, config: Config, world: World) -> dict:
    """Stage 3: the policy against the reward model, held by the reference."""
    pairs, tokenizer = load_data(config)
    prompts = sorted({pair.prompt_ids for pair in pairs})
    first, second = (
        (config.model, config.model)
        if config.data == "random"
        else (run.input("sft"), run.input("reward"))
    )
    policy = learner(
        language_model(config, first, learns=True), config, world, config.learning_rate
    )
    value = learner(
        scalar_model(config, second, learns=True), config, world, config.value_learning_rate
    )
    judge = policy.frozen(scalar_model(config, second, learns=False))
    reference = None  # with adapters: the policy without them
    if not config.adapters:
        reference = policy.frozen(language_model(config, first, learns=False))
    settings = RLHFConfig(
        max_new_tokens=config.max_new_tokens, kl_coefficient=config.kl_coefficient, lam=config.lam
    )
    adaptive = config.kl_target > 0
    beta = (
        AdaptiveKL(config.kl_coefficient, config.kl_target, 10_000)
        if adaptive
        else FixedKL(config.kl_coefficient)
    )
    order = GlobalBatches(len(prompts), config.batch, config.seed)
    learners = {SHARDS: policy, f"{SHARDS}_value": value}
    own = torch.Generator()
    step, state = go_on(run, order, learners)
    if state:
        beta.load_state_dict(state["beta"])
    while step < config.steps:
        own.manual_seed(rank_seed(config.seed, world.rank, f"update {step}"))
        asked = [prompts[i] for i in mine(order.next(), world.rank, world.size)]
        batch, metrics = collect(
            policy,
            value,
            judge,
            reference,
            asked,
            config,
            settings,
            beta.coefficient,
            tokenizer.eos_token_id,
            pad_of(tokenizer),
            own,
            run,
        )
        with run.timed("update"):
            metrics |= update(policy, value, batch, config, settings, own)
        beta.update(metrics["kl"], config.batch)
        step += 1
        run.log(step, {**metrics, **peak()})
        keep(run, step, order, learners, config.save_every, beta=beta.state_dict())
    if run.folder is not None and config.data != "random":
        save_model(policy, policy.model, run.output, config)
        tokenizer.save_pretrained(run.output)
    return {name: run.history[-1][name] for name in ("reward", "kl", "length")}


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together; `nbkit job submit` asks this before anything is queued."""
    if config.adapters and config.backend != "single":
        raise ValueError("adapters: they are for one device; use backend single, or adapters: 0")
    minibatches = config.minibatches if config.stage == "ppo" else 1
    if config.batch % (devices * minibatches):
        raise ValueError(
            f"batch is {config.batch}; it must be a multiple of {devices} devices times "
            f"{minibatches} minibatches"
        )


def main(config: Config) -> dict:
    """Run one stage; the next one starts from its output folder."""
    stages = {"sft": run_sft, "reward": run_reward, "ppo": run_ppo}
    world = join(config.device)
    check(config, world.size)
    torch.manual_seed(config.seed)
    torch.set_float32_matmul_precision("high")
    with Run.start(
        asdict(config), seeds=(config.seed,), stage=config.stage, folder=config.run_folder
    ) as run:
        return run.finish(stages[config.stage](run, config, world))


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    main(TypeAdapter(Config).validate_python(given))
