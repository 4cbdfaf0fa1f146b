# Generated, sha256 9527661778b2c392
"""Training script of the job `reinforce_text`, tangled from notebooks/11_reinforce.md.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import copy
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import yaml
from pydantic import TypeAdapter
from torch.distributed.elastic.multiprocessing.errors import record
from transformers import GPT2Config, GPT2LMHeadModel

from nbkit.envs.reviews import ALPHABET, reviews
from nbkit.rewards.text import sentiment
from nbkit.runs import provenance
from nbkit.runs.ranks import world_size
from nbkit.runs.run import Run
from nbkit.text.environment import TextEnv
from nbkit.text.metrics import judge
from nbkit.text.policies import HuggingFacePolicy
from nbkit.text.rollouts import rollout
from nbkit.text.vocabulary import CharVocabulary
from nbkit.trainers.pretraining import pretrain
from nbkit.trainers.reinforce import ReinforceConfig, ReinforceTrainer


@dataclass(frozen=True)
class Config:
    """One job: every seed pre-trains a base, then every beta tunes a copy of it to sentiment."""

    layers: int = 1
    width: int = 32
    heads: int = 2
    pretraining_steps: int = 20
    pretraining_batch: int = 32
    pretraining_learning_rate: float = 3e-3
    updates: int = 2
    batch_size: int = 16
    learning_rate: float = 1e-3
    betas: tuple[float, ...] = (0.0, 0.1)
    seeds: tuple[int, ...] = (0,)
    device: str = "cpu"
    out: str = ""  # where the stamped result goes; empty: nowhere


def make_model(config: Config, vocabulary: CharVocabulary) -> HuggingFacePolicy:
    """Build a GPT-2 of the configured size, with random weights, on its device."""
    shape = GPT2Config(
        vocab_size=len(vocabulary),
        n_positions=64,
        n_embd=config.width,
        n_layer=config.layers,
        n_head=config.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=vocabulary.bos_id,
        eos_token_id=vocabulary.eos_id,
    )
    with torch.device(config.device):
        return HuggingFacePolicy(GPT2LMHeadModel(shape))


def tune_to_sentiment(base, vocabulary, config: Config, beta: float, seed: int) -> dict:
    """Train a copy of the base; return its curves, its cost and its judgement on fresh texts."""
    policy, env = (
        copy.deepcopy(base).requires_grad_(True),
        TextEnv(vocabulary, sentiment),
    )
    settings = ReinforceConfig(
        updates=config.updates,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        kl_coefficient=beta,
        seed=seed,
    )
    trainer = ReinforceTrainer(policy, env, settings, reference=base)
    with Run.start(asdict(config), seeds=(seed,), stage=f"seed_{seed}_beta_{beta}") as run:
        started = time.perf_counter()
        history = trainer.fit(run, save_every=0)
        seconds = time.perf_counter() - started
        run.finish({"return": history[-1]["return"]})
    generator = torch.Generator(config.device).manual_seed(10_000 + seed)
    fresh = rollout(policy, env, 256, generator=generator)
    return {
        "seed": seed,
        "beta": beta,
        "seconds_per_update": seconds / config.updates,
        "tokens_per_second": config.batch_size * sum(m["length"] for m in history) / seconds,
        "return": [round(m["return"], 4) for m in history],
        "kl": [round(m["kl"], 4) for m in history],
        "final": {
            "sentiment": fresh.returns.mean().item(),
            **judge(fresh, env, base),
        },
        "examples": fresh.texts(env)[:3],
    }


def check(config: Config, devices: int) -> None:
    """Refuse what does not fit together."""
    if devices != 1:
        raise ValueError(f"devices: there are {devices}; this job runs on one")


def main(config: Config) -> dict:
    """Run the job; return its result and, if asked to, write it with its stamp."""
    check(config, world_size())
    torch.set_float32_matmul_precision("high")
    origin = provenance.start(
        seeds=config.seeds,
        config=asdict(config),
        watched=("nbkit", "cluster_scripts"),
    )
    vocabulary, corpus, runs = CharVocabulary(ALPHABET), reviews(8000, seed=1), []
    for seed in config.seeds:
        torch.manual_seed(seed)
        base = make_model(config, vocabulary)
        losses = pretrain(
            base,
            vocabulary,
            corpus,
            steps=config.pretraining_steps,
            batch_size=config.pretraining_batch,
            learning_rate=config.pretraining_learning_rate,
            seed=seed,
        )
        base.requires_grad_(False)
        runs += [
            {
                "pretraining_loss": losses[-1],
                **tune_to_sentiment(base, vocabulary, config, beta, seed),
            }
            for beta in config.betas
        ]
    parameters = sum(p.numel() for p in base.parameters())
    result = {"parameters": parameters, "runs": runs}
    if config.device != "cpu":
        result["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    if config.out:
        provenance.write_json(Path(config.out), {"stamp": origin.stamp(), **result})
    return result


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    record(main)(TypeAdapter(Config).validate_python(given))  # torchrun shows a failure's traceback
