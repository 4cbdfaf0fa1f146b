"""How far a policy drifts after its reward is won: chapter 11's follow-up on two surprises.

The first study left two questions. Without a baseline, is the language lost in the long run? And
was it the Transformer, or its learning rate, that dissolved the words? Both were asked, and these
seeds and arms fixed, before this run.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import typer
from tqdm import tqdm

from nbkit.authoring.study import compare_head, start_study
from nbkit.envs.reviews import ALPHABET
from nbkit.envs.vocabulary import CharVocabulary
from nbkit.rewards.text import contains_keyword
from nbkit.trainers.reinforce import ReinforceConfig
from nbkit.trainers.review_arms import Arm, pretrained, run_arm

SEEDS = (51, 52, 53)
KEYWORD = "great"
BODIES: dict[str, dict[str, Any]] = {
    "lstm": {"sizes": {"width": 96}, "steps": 300, "learning_rate": 2e-2},
    "transformer": {"sizes": {"width": 96, "layers": 2}, "steps": 300, "learning_rate": 5e-3},
}
BASE = ReinforceConfig(updates=60, batch_size=64, learning_rate=2e-3)
REWARD = contains_keyword(KEYWORD)
ARMS = {
    "leave-one-out": Arm("lstm", REWARD, {"updates": 200}),
    "no baseline": Arm("lstm", REWARD, {"updates": 200, "baseline": "none"}),
    "Transformer, 2e-3": Arm("transformer", REWARD),
    "Transformer, 5e-4": Arm("transformer", REWARD, {"learning_rate": 5e-4}),
    "Transformer, 2e-4": Arm("transformer", REWARD, {"learning_rate": 2e-4}),
}
CURVES = ("return", "perplexity", "kl")


def head() -> list[float]:
    """Return the first figures of the study; CI repeats them."""
    vocabulary = CharVocabulary(ALPHABET)
    settings = BODIES["lstm"] | {"steps": 10}
    policy = pretrained("lstm", vocabulary, seed=SEEDS[0], **settings)
    arm = Arm("lstm", REWARD, {"updates": 3, "baseline": "none"})
    config = replace(BASE, seed=SEEDS[0])
    run = run_arm(arm, policy, vocabulary, config, keyword=KEYWORD, curves=CURVES)
    return [run["before"]["perplexity"], *run["curves"]["kl"], run["after"]["perplexity"]]


def main(out: Path = Path("studies/results/reinforce_drift.json"), check: bool = False) -> None:
    """Run the study and write its stamped result, or repeat its head with ``--check``."""
    torch.set_num_threads(1)
    if check:
        compare_head(json.loads(out.read_text())["head"], head(), tol=0.05)
        return
    study = start_study(out, seeds=SEEDS, config={"base": asdict(BASE), "bodies": BODIES})
    vocabulary = CharVocabulary(ALPHABET)
    arms: dict[str, list[Any]] = {name: [] for name in ARMS}
    with tqdm(total=len(SEEDS) * len(ARMS), desc="arms", mininterval=10) as bar:
        for seed in SEEDS:
            bases = {
                body: pretrained(body, vocabulary, seed=seed, **settings)
                for body, settings in BODIES.items()
            }
            for name, arm in ARMS.items():
                config = replace(BASE, seed=seed)
                run = run_arm(
                    arm, bases[arm.body], vocabulary, config, keyword=KEYWORD, curves=CURVES
                )
                arms[name].append(run)
                bar.update()
    study.finish({"arms": arms, "head": head()})


if __name__ == "__main__":
    typer.run(main)
