"""What does the verifier's reward add? Pass@k before and after, and four ways without it.

Protocol, fixed before the run: five seeds, the bases, budget and learning rate of
``grpo_variants``. The arms:

- "nothing": the base as it is, for pass@k before; "nothing, never saw a carry" likewise.
- "GRPO": the verifier's reward.
- "random rewards": a fair coin in its place.
- "expert iteration": sample as GRPO does, then take one supervised step on the right completions
  of the batch; the wrong ones are thrown away.
- "supervised, careful texts": no sampling; the same number of tokens of texts without a fault,
  which are at hand only because the task is made by a program.
- "supervised, more of the corpus": the same with the corpus that taught the base.
- "GRPO, never saw a carry": from a base whose corpus always forgets the carry. There the right
  answer to most sums has almost no probability, and there is little to sharpen.

Pass@k from 64 samples of each of 100 held-out sums, for every arm.
"""

from functools import partial
from typing import Any

import torch

from nbkit.envs.arithmetic import corpus
from nbkit.recipes.grpo_recipe import supervised_loss, teach
from nbkit.trainers.grpo.batch import PromptStream, sample_batch
from studies._arms import Run
from studies._flawed_rewards import RandomReward
from studies._frame import Frame
from studies._grpo import VOCABULARY, Arm, Scale, curve, recipe, settings
from studies._grpo_head import HEAD_TOLERANCES, head_of
from studies._grpo_study import GRPOArms

LEARNING_RATE = 7e-4
BATCH = 32


def random_reward(seed: int) -> RandomReward:
    """A fair coin."""
    return RandomReward(0.5, seed)


def expert_iteration(model: Any, arm: Arm, seed: int, scale: Scale, reference: Any) -> Run:
    """Sample, keep what is right, take one supervised step on it, until the budget is spent."""
    problems = recipe(arm.base).problems(8000, seed)
    stream = PromptStream(
        len(problems), torch.Generator(next(model.parameters()).device).manual_seed(seed)
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95))
    history: list[dict[str, float]] = []
    total, reward = 0.0, arm.reward(seed)
    while total < scale.budget:
        batch, metrics = sample_batch(model, VOCABULARY, problems, stream, reward, arm.config)
        total += metrics["tokens"]
        width = batch.mask.shape[1]
        rows = []
        for i in (batch.raw_rewards > 0).nonzero()[:, 0].tolist():
            ids, real = batch.ids[i], batch.attention[i]
            rows.append(
                (ids[:-width][real[:-width]].tolist(), ids[-width:][real[-width:]].tolist())
            )
        if rows:
            optimiser.zero_grad()
            supervised_loss(model, rows, VOCABULARY.pad_id).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        history.append({**metrics, "total_tokens": total})
    return {"updates": len(history), "tokens": total, "curve": curve(history)}


def supervised(
    model: Any, arm: Arm, seed: int, scale: Scale, reference: Any, *, careful: bool
) -> Run:
    """As many tokens of texts as the other arms sample."""
    plan = recipe(arm.base)
    faults = (0.0, 0.0, 0.0) if careful else (plan.forget, plan.second_look, plan.skip)
    examples = corpus(
        20_000,
        seed=50_000 + seed,
        forget=faults[0],
        second_look=faults[1],
        skip=faults[2],
        terms=plan.terms,
    )
    lengths = [len(VOCABULARY.encode(text)) + 1 for _, text in examples[:1000]]
    steps = max(1, round(scale.budget / (BATCH * sum(lengths) / len(lengths))))
    teach(
        model, VOCABULARY, examples,
        steps=steps, batch_size=BATCH, learning_rate=LEARNING_RATE, weight_decay=0.0, seed=seed,
    )  # fmt: skip
    return {"updates": steps, "tokens": float(scale.budget)}


def nothing(model: Any, arm: Arm, seed: int, scale: Scale, reference: Any) -> Run:
    """Leave the base as it is."""
    return {"updates": 0, "tokens": 0.0}


METHODS = {
    "nothing": nothing,
    "expert iteration": expert_iteration,
    "careful texts": partial(supervised, careful=True),
    "the corpus": partial(supervised, careful=False),
}
ARMS: dict[str, Arm] = {
    "nothing": Arm(settings(), method="nothing"),
    "GRPO": Arm(settings()),
    "random rewards": Arm(settings(), reward=random_reward),
    "expert iteration": Arm(settings(), method="expert iteration"),
    "supervised, careful texts": Arm(settings(), method="careful texts"),
    "supervised, more of the corpus": Arm(settings(), method="the corpus"),
    "nothing, never saw a carry": Arm(settings(), base="never", method="nothing"),
    "GRPO, never saw a carry": Arm(settings(), base="never"),
}


def head() -> dict[str, float]:
    """A few small updates of some arms."""
    names = ("random rewards", "expert iteration", "supervised, careful texts")
    return head_of({name: ARMS[name] for name in names}, METHODS)


MEASURED = GRPOArms(ARMS, dict.fromkeys(ARMS, "GRPO"), methods=METHODS, pass_at_k=True)
STUDY = Frame(__file__, MEASURED.measure, head, HEAD_TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
