"""GSM8K with SmolLM2-135M: a supervised start, GRPO at two learning rates, and bfloat16's ratio.

Protocol, fixed before the run. 350 supervised steps on the training answers, written as thoughts
and an answer between tags. Then GRPO (Dr. GRPO's loss, the job's reward) of 64 prompts and 8
answers each, at 1e-6 and 5e-6, with the sampler's log-probabilities as the old ones and with
truncated importance sampling; passes and sampling in bfloat16. Measured before and after: all test
problems greedily, and the first 200 with 16 answers each. A batch whose gradient is not finite is
skipped and the first one of a run is written beside the result; three in a row end the run. One
seed each: intervals are over problems.

The weights are 4-bit, dequantised (`nbkit model fetch smollm2-135m`); the variable NBKIT_GSM8K
names a folder with the two files. Needs a GPU.
"""

import json
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bookkit.authoring.study import start_study
from nbkit.data.gsm8k import WordProblem
from nbkit.data.pretrained import MODELS, fetched, weights_sha256
from nbkit.envs.word_problems import StoryVocabulary, draw_stories
from nbkit.rewards.compose import Composed
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.grpo import GRPOTrainer, variant
from studies._arms import (
    Key,
    Run,
    all_of,
    by_arm,
    partial_file,
    run_all,
    spread_over,
    what_runs,
)  # fmt: skip
from studies._frame import Frame, first_updates
from studies._gsm8k import LESSONS, TRAINING, judged, learn, problems, teach
from studies._shares import wilson

MODEL = "smollm2-135m"
SEED = 91
BEFORE = "supervised start"
FEW, SAMPLES = 200, 16
CAP = 2.0
ARMS: dict[str, dict[str, Any]] = {
    "lr 5e-6": {"learning_rate": 5e-6},
    "lr 5e-6, importance weights": {"learning_rate": 5e-6, "importance_cap": CAP},
    "lr 1e-6": {"learning_rate": 1e-6},
    "lr 1e-6, importance weights": {"learning_rate": 1e-6, "importance_cap": CAP},
}
MEASURE_SECONDS = 90.0  # what a run needs after its last update


def loaded(folder: Path, device: str) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from nbkit.text.chat_vocabulary import ChatVocabulary

    torch.set_float32_matmul_precision("high")
    tokenizer = AutoTokenizer.from_pretrained(fetched(MODEL))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval().to(device)
    return model, ChatVocabulary(tokenizer, model.generation_config)


def supervised(folder: Path, device: str) -> dict[str, Any]:
    """Make the start in a folder, unless it lies there; return what became of it."""
    facts = folder / "facts.json"
    if not facts.is_file():
        begun = time.perf_counter()
        model, vocabulary = loaded(fetched(MODEL), device)
        losses = teach(model, problems()[0], vocabulary, SEED, device)
        model.save_pretrained(folder)
        found = {
            "loss": losses[:: max(1, len(losses) // 25)] + losses[-1:],
            "seconds": time.perf_counter() - begun,
            "weights_sha256": weights_sha256(folder),
        }
        facts.write_text(json.dumps(found))
        print(f"supervised start: {found['seconds']:.0f} s, loss {losses[-1]:.3f}", flush=True)
    return dict(json.loads(facts.read_text()))


def run(arm: str, seed: int, folder: Path, out: Path, end: float, device: str) -> Run:
    """One arm, or the measure of the start alone."""
    model, vocabulary = loaded(folder, device)
    train, test = problems()
    found: dict[str, Any] = {}
    if arm != BEFORE:
        name = arm.replace(" ", "_").replace(",", "")
        found = learn(
            model, vocabulary, train, ARMS[arm],
            seed=seed, device=device, deadline=end - MEASURE_SECONDS,
            batches=out.parent / f"{out.stem}_{name}",
        )  # fmt: skip
    return found | judged(model, vocabulary, test, seed=seed, few=FEW, samples=SAMPLES)


def measure(
    out: Path,
    jobs: int = 1,
    device: str = "cuda",
    minutes: float = math.inf,
    start: Path | None = None,
) -> None:
    """Run the study and write its stamped result.

    Args:
        out: the result file; what has ended lies beside it until all has.
        jobs: runs at a time, each in a process of its own; all five are best.
        device: of the models; "cuda": the GPUs in turn.
        minutes: a run stops training 90 seconds before, and is measured as it is then.
        start: folder of the supervised start; made where it is missing.

    """
    end = time.monotonic() + 60 * minutes
    study = start_study(out, seeds=[SEED], config=protocol())
    folder = start or Path(tempfile.gettempdir()) / "gsm8k_smollm2_start"
    facts = supervised(folder, spread_over(device, 0))
    kept = partial_file(out)
    tasks = {
        (arm, SEED): partial(run, arm, SEED, folder, out, end, spread_over(device, number))
        for number, arm in enumerate([*ARMS, BEFORE])
    }
    ended: dict[Key, Run] = run_all(
        tasks, jobs=jobs, kept=kept, of=what_runs(study.provenance), end=end, tell=told
    )
    found = all_of(ended, tasks)
    study.finish({"start": facts, "arms": by_arm(found)})
    kept.unlink()


def told(one: Run) -> str:
    """The accuracy of a run in a line."""
    greedy = one["greedy"]
    low, high = wilson(greedy["right"], greedy["count"])
    share, ended = greedy["right"] / greedy["count"], one.get("ended", "")
    return f"greedy {share:.3f} ({low:.3f} to {high:.3f}), {one.get('updates', 0)} updates; {ended}"


def head() -> dict[str, float]:
    """Two updates of two arms on a tiny model and generated problems, which pay a digit."""
    vocabulary = StoryVocabulary()
    asked = [story.problem for story in draw_stories(40, seed=SEED)]
    small = {"prompts": 4, "group_size": 4, "max_new_tokens": 16, "sampler_dtype": None}

    def digits(_: Sequence[WordProblem], completions: Sequence[Any]) -> list[Composed]:
        counts = [sum(c.isdigit() for c in one.text) for one in completions]
        return [Composed(float(count), {"correct": float(count > 0)}) for count in counts]

    found: dict[str, float] = {}
    for arm in ("lr 5e-6", "lr 5e-6, importance weights"):
        settings = {**TRAINING, **ARMS[arm], **small, "learning_rate": 1e-2}
        model = tiny_model(vocabulary, max_length=512, seed=SEED)
        trainer = GRPOTrainer(
            model, vocabulary, asked, digits, variant("dr_grpo", **settings),
            generator=torch.Generator().manual_seed(SEED),
        )  # fmt: skip
        found |= first_updates(trainer, 2, ("reward", "entropy", "gradient_norm"), arm)
    return found


def protocol() -> dict[str, Any]:
    """The protocol; the digest of the weights is that of `nbkit model`."""
    source = MODELS[MODEL]
    return {
        "model": {"name": MODEL, "remark": source.remark, "sha256": source.member_sha256},
        "data": "GSM8K, all training and test problems",
        "lessons": asdict(LESSONS),
        "training": TRAINING,
        "arms": ARMS,
        "measured": {"few": FEW, "samples": SAMPLES},
    }


# A tiny model's figures move with the rounding; its gradients most.
TOLERANCES = {"reward": 1e-3, "entropy": 1e-3, "gradient_norm": 1e-2}
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
