"""PPO for language models: ours beside TRL's last PPOTrainer, on the same models and prompts.

    python benchmarks/rlhf.py

TRL dropped `PPOTrainer` after 1.12. This installs TRL 1.12.0 into a folder of its own, without its
dependencies, and runs it there in a process of its own. For each seed stages 1 and 2 are made once
by nbkit; both sides start from their output, and both are judged by the same function on held-out
questions every few updates. Seconds are of the processor, without the judging.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from nbkit.envs.helpful import HelpfulVocabulary, all_questions, gold_reward
from nbkit.recipes.rlhf_recipe import Recipe, comparisons, stage_one, stage_three, stage_two
from nbkit.runs import provenance
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.reward_model import reward_function
from nbkit.trainers.rlhf.evaluation import evaluate

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / ".venv-trl-1.12"
VERSION = "1.12.0"
SEEDS = (31, 32, 33)
UPDATES, EVERY = 60, 5
BATCH = 64
WORDS = HelpfulVocabulary()
Point = dict[str, float]


def settings() -> Recipe:
    """The recipe of chapter 21, with what both sides can do alike: one learning rate, no clips
    of values and gradients that only one side has."""
    recipe = Recipe()
    return replace(
        recipe,
        rlhf=replace(
            recipe.rlhf, updates=UPDATES, prompts=BATCH, group_size=1, epochs=2, minibatches=2,
            value_learning_rate=None, value_warmup=0, decay=False, warmup=0, max_grad_norm=None,
        ),
    )  # fmt: skip


def judge(policy: Any, reference: Any, proxy: ScalarModel, seed: int) -> Point:
    """Gold, proxy and KL on the held-out questions."""
    rewards = {"gold": gold_reward, "proxy": reward_function(proxy, WORDS)}
    return evaluate(
        policy, reference, WORDS, all_questions(held_out=True), rewards, samples=16, seed=seed
    )


class Judged:
    """Judges a policy every few updates, and stops the clock meanwhile."""

    def __init__(self, reference: Any, proxy: ScalarModel, seed: int) -> None:
        self.reference, self.proxy, self.seed = reference, proxy, seed
        self.points: list[Point] = []
        self.seconds, self._since = 0.0, time.process_time()

    def after(self, update: int, policy: Any) -> None:
        """Note the time; judge if it is due."""
        self.seconds += time.process_time() - self._since
        if update % EVERY == 0:
            found = judge(policy, self.reference, self.proxy, self.seed)
            self.points.append({"update": update, "seconds": self.seconds, **found})
        self._since = time.process_time()


def our_side(recipe: Recipe, folder: Path, seed: int) -> dict[str, Any]:
    """PPO of nbkit from the models in a folder."""
    policy, proxy = load(folder)
    trainer = stage_three(recipe, policy, proxy, seed=seed)
    watch = Judged(policy, proxy, seed)
    watch.after(0, trainer.policy)
    trainer.run(
        progress=False, hook=lambda t, metrics: watch.after(int(metrics["update"]), t.policy)
    )
    return {"curve": watch.points, "seconds_per_update": watch.seconds / recipe.rlhf.updates}


def their_side(recipe: Recipe, folder: Path, seed: int) -> dict[str, Any]:
    """PPO of TRL 1.12 from the same models; runs in the process with that TRL."""
    import datasets
    import trl
    from transformers import AutoModelForSequenceClassification, TrainerCallback
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    if trl.__version__ != VERSION:
        raise RuntimeError(f"this process has TRL {trl.__version__}; it needs {VERSION}")
    reference, proxy = load(folder)
    policy, _ = load(folder)
    policy.requires_grad_(True)

    def scored() -> Any:
        model = AutoModelForSequenceClassification.from_pretrained(
            folder / "policy", num_labels=1, pad_token_id=WORDS.pad_id
        )
        model.model.load_state_dict(proxy.body.state_dict())
        model.score = torch.nn.Linear(proxy.head.in_features, 1)
        model.score.load_state_dict(proxy.head.state_dict())
        return model

    ppo = recipe.rlhf
    with tempfile.TemporaryDirectory() as scratch:
        config = PPOConfig(
            output_dir=scratch, use_cpu=True, bf16=False, report_to=[], disable_tqdm=True,
            save_strategy="no", gradient_checkpointing=False, seed=seed,
            learning_rate=ppo.learning_rate, lr_scheduler_type="constant",
            adam_beta1=ppo.betas[0], adam_beta2=ppo.betas[1],
            weight_decay=ppo.weight_decay, per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=1, num_mini_batches=ppo.minibatches,
            num_ppo_epochs=ppo.epochs, total_episodes=BATCH * ppo.updates,
            local_rollout_forward_batch_size=BATCH, num_sample_generations=0,
            response_length=ppo.max_new_tokens, stop_token="eos", temperature=ppo.temperature,
            missing_eos_penalty=ppo.missing_eos_penalty, kl_coef=ppo.kl_coefficient,
            cliprange=ppo.clip, cliprange_value=ppo.value_clip or 1e6,
            vf_coef=ppo.value_coefficient, gamma=ppo.gamma, lam=ppo.lam,
            whiten_rewards=ppo.whiten_rewards,
        )  # fmt: skip
        tokenizer = WORDS.tokenizer()
        tokenizer.padding_side = "left"
        prompts = [{"input_ids": WORDS.encode(q.prompt)} for q in all_questions(held_out=False)]
        rows = datasets.Dataset.from_list(prompts * -(-BATCH * 4 // len(prompts)))
        watch = Judged(reference, proxy, seed)

        class Watching(TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                watch.after(state.global_step, policy)

        trainer = PPOTrainer(
            args=config, processing_class=tokenizer, model=policy, ref_model=reference,
            reward_model=scored(), value_model=scored(), train_dataset=rows, eval_dataset=rows,
            callbacks=[Watching()],
        )  # fmt: skip
        watch.after(0, policy)
        trainer.train()
    return {"curve": watch.points, "seconds_per_update": watch.seconds / ppo.updates}


def load(folder: Path) -> tuple[Any, ScalarModel]:
    """The SFT policy and the reward model that were saved for both sides."""
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(folder / "policy").eval()
    return policy, ScalarModel.from_pretrained(folder / "reward").eval()


def save_start(recipe: Recipe, folder: Path, seed: int) -> None:
    """Stages 1 and 2."""
    policy = stage_one(recipe, seed=seed)
    pairs, held_out = comparisons(recipe, policy, seed=seed)
    proxy = stage_two(recipe, policy, pairs, held_out, seed=seed)
    policy.save_pretrained(folder / "policy")
    proxy.model.save_pretrained(folder / "reward")


def install() -> None:
    """TRL 1.12.0 in a folder of its own, without dependencies."""
    if (LIBRARY / "trl").exists():
        return
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*command, "--no-deps", "--target", str(LIBRARY), f"trl=={VERSION}"], check=True)


def ask_theirs(folder: Path, seed: int, updates: int) -> dict[str, Any]:
    """Run the other side in a process in which `import trl` finds 1.12."""
    out = folder / "theirs.json"
    script = [str(Path(__file__).resolve()), "--their-side", str(folder), "--out", str(out)]
    paths = os.pathsep.join([str(LIBRARY), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *script, "--seed", str(seed), "--updates", str(updates)],
        env={**os.environ, "PYTHONPATH": paths, "TRL_EXPERIMENTAL_SILENCE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"TRL {VERSION} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(out.read_text())
    return answer


def main(
    out: Annotated[Path, typer.Option(help="The stamped result.")] = ROOT
    / "benchmarks/results/rlhf.json",
    updates: Annotated[int, typer.Option(help="Of PPO.")] = UPDATES,
    seed: Annotated[int | None, typer.Option(help="Only this one.")] = None,
    their_side_: Annotated[Path | None, typer.Option("--their-side", hidden=True)] = None,
) -> None:
    """Both sides on each seed, in turn, on one thread; write the stamped result."""
    torch.set_num_threads(1)
    recipe = settings()
    recipe = replace(recipe, rlhf=replace(recipe.rlhf, updates=updates))
    if their_side_ is not None:
        assert seed is not None
        out.write_text(json.dumps(their_side(recipe, their_side_, seed)))
        return
    install()
    seeds = SEEDS if seed is None else (seed,)
    started = provenance.start(
        seeds=seeds, config=asdict(recipe), watched=("nbkit", "benchmarks/rlhf.py")
    )
    runs: dict[str, list[dict[str, Any]]] = {"nbkit": [], "trl": []}
    for number in seeds:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            save_start(recipe, folder, number)
            runs["nbkit"].append({"seed": number, **our_side(recipe, folder, number)})
            runs["trl"].append({"seed": number, **ask_theirs(folder, number, updates)})
        for name, done in runs.items():
            last = done[-1]["curve"][-1]
            print(
                f"seed {number}, {name}: gold {last['gold']:+.2f}, KL {last['kl']:.1f}, "
                f"{done[-1]['seconds_per_update']:.2f} s an update",
                flush=True,
            )
    stamp = started.stamp()
    stamp["packages"] = {**stamp["packages"], "trl": VERSION}
    provenance.write_json(out, {"stamp": stamp, "runs": runs})


if __name__ == "__main__":
    typer.run(main)
