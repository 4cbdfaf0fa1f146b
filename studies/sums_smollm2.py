"""Sums with SmolLM2-135M: one process, a sampler that sleeps, and a generator that runs ahead.

Protocol, fixed before the run. Two-digit sums behind four worked examples; Dr. GRPO's loss, 64
prompts and 8 answers each, 60 updates, learning rate 1e-5, no KL term; passes and sampling in
bfloat16. Four trainers: ``GRPOTrainer``; ``ColocatedGRPOTrainer``, whose sampler sleeps while it
learns; ``AsyncGRPOTrainer`` with a staleness of 1; the same with a staleness of 4 and with new
weights between two decode steps. The old log-probabilities are the sampler's, except in the last
arm, which is decoupled (the trainer's, and importance weights up to 2). Held-out: 512 questions,
greedily and at temperature 1, every 20 updates. Three seeds.

Runs may share a card, so that their seconds say nothing; ``grpo_overlap`` measures those. The
weights are 4-bit, dequantised (`nbkit model fetch smollm2-135m`). Needs a GPU.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch

from nbkit.asynchronous.colocated import ColocatedGRPOTrainer
from nbkit.asynchronous.options import AsyncOptions
from nbkit.asynchronous.trainer import AsyncGRPOTrainer
from nbkit.data.pretrained import MODELS
from nbkit.text.tiny_models import tiny_model
from nbkit.text.vocabulary import CharVocabulary
from nbkit.trainers.grpo import GRPOTrainer, variant
from studies._arms import Arms, Run, seed_by_seed
from studies._frame import Frame, first_updates
from studies._gsm8k import on
from studies._sums import TOKENS, LineVocabulary, judged, questions, right

MODEL = "smollm2-135m"
SEEDS = (81, 82, 83)
UPDATES, EVERY, HELD_OUT = 60, 20, 512
CAP = 2.0
SETTINGS: dict[str, Any] = {
    "updates": UPDATES,
    "prompts": 64,
    "group_size": 8,
    "max_new_tokens": TOKENS,
    "learning_rate": 1e-5,
    "micro_tokens": 65_536,
    "sampler_dtype": "bfloat16",
}
ONE, COLOCATED = "one process", "colocated, the sampler sleeps"
ARMS: dict[str, dict[str, Any]] = {
    "asynchronous, staleness 4, in flight": {"staleness": 4, "in_flight": True},
    "asynchronous, staleness 1": {"staleness": 1, "in_flight": False},
    COLOCATED: {},
    ONE: {},
}
KEPT = ("reward", "entropy", "gradient_norm", "clip_fraction", "ratio_error", "sampler_error",
        "staleness/mean", "versions_in_completion", "sampler_bytes/awake",
        "sampler_bytes/learning")  # fmt: skip


def trainer_of(arm: str, model: Any, vocabulary: Any, asked: Any, seed: int, **changes: Any) -> Any:
    """The trainer of an arm; `reward` and settings may be other ones."""
    reward = changes.pop("reward", right)
    parallel = changes.pop("parallel", None)
    options = ARMS[arm]
    if options.get("staleness", 0) > 1:
        changes = {"importance_cap": CAP, **changes}
    config = variant("dr_grpo", **{**SETTINGS, **changes})
    given = {"generator": torch.Generator().manual_seed(seed), "parallel": parallel}
    if arm == ONE:
        return GRPOTrainer(model, vocabulary, asked, reward, config, **given)
    if arm == COLOCATED:
        return ColocatedGRPOTrainer(model, vocabulary, asked, reward, config, **given)
    return AsyncGRPOTrainer(
        model, vocabulary, asked, reward, config, AsyncOptions(**options), **given
    )


def run(arm: str, seed: int, device: str = "cuda") -> Run:
    """One run, judged before, every few updates, and after."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from nbkit.data.pretrained import fetched

    torch.set_float32_matmul_precision("high")
    folder = fetched(MODEL)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval().to(device)
    vocabulary = LineVocabulary(AutoTokenizer.from_pretrained(folder))
    held_out = questions(HELD_OUT, seed=2)
    trainer = trainer_of(
        arm, model, vocabulary, questions(20_000, seed=seed), seed, parallel=on(device)
    )
    points = [{"update": 0, **judged(model, vocabulary, held_out, seed=seed)}]
    with ExitStack() as stack:
        if isinstance(trainer, AsyncGRPOTrainer):
            stack.enter_context(trainer)
        while not trainer.finished:
            trainer.step()
            if trainer.done % EVERY == 0:
                found = judged(model, vocabulary, held_out, seed=seed)
                points.append({"update": trainer.done, **found})
    return {
        "points": points,
        "curves": {
            name: [row[name] for row in trainer.history]
            for name in KEPT
            if name in trainer.history[0]
        },
    }


def head() -> dict[str, float]:
    """Two updates of the arms in one process on a tiny model, which is paid for a digit.

    What the asynchronous arms do in their first seconds hangs on the clock.
    """
    vocabulary = CharVocabulary("0123456789 +=?:QA\n")
    asked = questions(40, seed=SEEDS[0], shots=1)
    small = {"prompts": 4, "group_size": 4, "max_new_tokens": 12, "sampler_dtype": None}
    found: dict[str, float] = {}
    for arm in (ONE, COLOCATED):
        model = tiny_model(vocabulary, seed=SEEDS[0])
        trainer = trainer_of(
            arm, model, vocabulary, asked, SEEDS[0],
            **small, learning_rate=1e-2,
            reward=lambda _, completions: [
                float(sum(c.isdigit() for c in one.text)) for one in completions
            ],
        )  # fmt: skip
        found |= first_updates(trainer, 2, ("reward", "entropy", "gradient_norm"), arm)
    return found


def said(arms: dict[str, list[Run]]) -> Iterator[str]:
    """The accuracies of each arm before and after."""
    for arm, runs in arms.items():
        before, after = ([f"{one['points'][i]['greedy']:.3f}" for one in runs] for i in (0, -1))
        yield f"{arm}: greedy {', '.join(before)} before, {', '.join(after)} after"


def protocol() -> dict[str, Any]:
    """The protocol; the digest of the weights is that of `nbkit model`."""
    model = {"name": MODEL, "remark": MODELS[MODEL].remark, "sha256": MODELS[MODEL].member_sha256}
    held_out = {"questions": HELD_OUT, "every": EVERY}
    return {"model": model, "arms": ARMS, "settings": SETTINGS, "held_out": held_out, "cap": CAP}


# A tiny model's figures move with the rounding; its gradients most.
TOLERANCES = {"reward": 1e-3, "entropy": 1e-3, "gradient_norm": 1e-2}
STUDY = Frame(
    __file__,
    Arms(
        run,
        keys=seed_by_seed(ARMS, SEEDS),
        config=protocol(),
        tell=lambda found: f"greedy {found['points'][-1]['greedy']:.3f}",
        verdict=said,
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
