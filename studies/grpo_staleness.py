"""How old may samples be? Four corrections for a sampler that lags by an exact number of updates.

Protocol, fixed before the run: the task and the body of chapter 24's page, seeds that were not
used for tuning. In one process, the sampler's weights are those of `lag` updates ago (the first
ones, while there are fewer), so that nothing but the lag differs. The arms:

- "clip to the behaviour policy": the old log-probabilities are the sampler's. The ratio corrects
  for the lag, and PPO's clip bounds the distance from the sampler's policy.
- "decoupled": the old log-probabilities are the trainer's, and each token is weighted by
  min(trainer / sampler, 2) (``nbkit.off_policy.decoupled_ppo_loss``).
- "own log-probabilities": the same without the weights. The samples pass for the trainer's own.
- "no ratio": the policy gradient, as if the samples were the trainer's own.

With one gradient step a batch, as here, the last two have the same gradient up to rounding, so what
is between them is the size of chance; without a lag all four do, and one arm stands for all.

The learning rate is that of ``_staleness_tuning``: the best accuracy after the run without a lag,
on seeds 101 and 102. The arms with a lag keep it, as somebody does who makes a run asynchronous
and changes nothing else. How far the policy moves in `lag` updates hangs on the rate, so all arms
run at four and eight times that rate too ("4 times the rate").
"""

from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from nbkit.recipes.grpo_recipe import Recipe, arithmetic_recipe, evaluate, verifier
from nbkit.text.tiny_models import tiny_model
from nbkit.trainers.grpo import GRPOTrainer
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.scoring import RewardFunction
from studies._arms import Arms, Run, seed_by_seed
from studies._flawed_rewards import PartMarks
from studies._frame import Frame, figures
from studies._grpo import VOCABULARY
from studies._staleness import CAP, generator, lagged_updates, snapshot

SEEDS = (1, 2, 3)
LAGS = (1, 3, 15)
UPDATES = 64
EVERY = 16  # updates between two judgements
HELD_OUT = 400
TRAINING = 4000
LEARNING_RATE = 1.25e-4

CORRECTIONS: dict[str, dict[str, Any]] = {
    "clip to the behaviour policy": {"old_logprobs": "sampler"},
    "decoupled": {"importance_cap": CAP},
    "own log-probabilities": {"old_logprobs": "trainer"},
    "no ratio": {"objective": "policy-gradient"},
}
# The plain policy gradient refuses several steps on a batch; with a weight of 1 CISPO is the same.
NO_RATIO_AGAIN = {"objective": "cispo", "clip_low": 0.0, "clip_high": 0.0}


def recipe(lessons: int = 500) -> Recipe:
    """The world of chapter 24's page: sums of three numbers, and a small body."""
    plan = arithmetic_recipe(
        "dr_grpo", terms=(3, 3), lessons=lessons,
        updates=UPDATES, prompts=8, decay=False, learning_rate=LEARNING_RATE,
    )  # fmt: skip
    return replace(plan, body=plan.body | {"layers": 2})


def settings(correction: str, minibatches: int = 1, **changes: Any) -> GRPOConfig:
    """The trainer's settings of an arm."""
    chosen = CORRECTIONS[correction]
    if correction == "no ratio" and minibatches > 1:
        chosen = NO_RATIO_AGAIN
    return replace(recipe().config, minibatches=minibatches, **chosen, **changes)


RATES = {1: "", 4: ", 4 times the rate", 8: ", 8 times the rate"}
# arm: correction, lag, learning rate as a multiple of the tuned one
ARMS: dict[str, tuple[str, int, int]] = {
    **{
        f"no lag{words}": ("clip to the behaviour policy", 0, times)
        for times, words in RATES.items()
    },
    **{
        f"{name}, lag {lag}{words}": (name, lag, times)
        for times, words in RATES.items()
        for lag in (LAGS if times > 1 else LAGS[-1:])
        for name in CORRECTIONS
    },
}
CURVES = ("accuracy", "entropy", "kl", "kl_k1", "clip_fraction", "gradient_norm")
CURVES += ("ess", "ess_capped", "ess_sequences", "capped", "outside")


@lru_cache(maxsize=1)
def base(seed: int, lessons: int = 500) -> dict[str, Any]:
    """Weights after the lessons; the arms of a seed, which run one after another, share them."""
    return snapshot(recipe(lessons).taught(seed))


def fresh(seed: int, lessons: int = 500) -> Any:
    """A new model with the weights of the base."""
    model = tiny_model(VOCABULARY, seed=seed, **recipe().body)
    model.load_state_dict(base(seed, lessons))
    return model


def trainer_of(
    model: Any, config: GRPOConfig, seed: int, reward_fn: RewardFunction = verifier
) -> GRPOTrainer:
    """A trainer on the sums of a seed."""
    problems = recipe().problems(TRAINING, seed)
    return GRPOTrainer(model, VOCABULARY, problems, reward_fn, config, generator=generator(seed))


def judged(model: Any, seed: int) -> dict[str, float]:
    """Held-out sums, answered once at temperature 1."""
    asked = recipe().problems(HELD_OUT, 10_000 + seed, held_out=True)
    limit = recipe().config.max_new_tokens
    return evaluate(model, VOCABULARY, asked, max_new_tokens=limit, seed=seed)


def trained(config: GRPOConfig, lag: int, seed: int) -> Run:
    """One run from the base of a seed."""
    model = fresh(seed)
    trainer = trainer_of(model, config, seed)
    held_out = [judged(model, seed)]
    history = []
    for number, metrics in enumerate(lagged_updates(trainer, lag), start=1):
        history.append(metrics)
        if number % EVERY == 0:
            held_out.append(judged(model, seed))
    late = history[len(history) // 2 :]
    return {
        "before": held_out[0],
        "after": held_out[-1],
        "held_out": [point["accuracy"] for point in held_out],
        "mean": {name: sum(step[name] for step in late) / len(late) for name in CURVES},
        "curve": {name: [round(step[name], 4) for step in history[::2]] for name in CURVES},
        "least_gradient_norm": min(
            step["least_gradient_norm"] for step in history if not step["silent"]
        ),
        "silent_updates": sum(step["silent"] for step in history),
        "steps": sum(step["steps"] for step in history),
        "missing_steps": sum(step["missing_steps"] for step in history),
        "skipped": sum(step["skipped"] for step in history),
        "age": history[-1]["age"],
    }


def work(arm: str, seed: int) -> Run:
    """One arm of one seed."""
    correction, lag, times = ARMS[arm]
    found = trained(settings(correction, learning_rate=times * LEARNING_RATE), lag, seed)
    return {
        "arm": arm, "seed": seed, "correction": correction, "lag": lag, "times": times, **found,
    }  # fmt: skip


def verdict(arms: dict[str, list[Run]]) -> Iterable[str]:
    """Say how each arm ended; refuse a result in which some step had no gradient."""
    for arm, runs in arms.items():
        ends = ", ".join(f"{run['after']['accuracy']:.3f}" for run in runs)
        kl = sum(run["mean"]["kl"] for run in runs) / len(runs)
        yield f"{arm:45} {ends}; KL {kl:.4f}"
    for arm, runs in arms.items():
        for run in runs:
            if not run["least_gradient_norm"] > 0 or run["missing_steps"] or run["skipped"]:
                raise SystemExit(f"{arm}, seed {run['seed']}: some step had no gradient")


def head() -> dict[str, float]:
    """A few small updates of every correction at a lag of 2, from a hardly taught base.

    Such a base answers nothing rightly: it is paid for the form instead. The learning rate is
    large, so that the policies come apart in a few updates.
    """
    found: dict[str, float] = {}
    for minibatches in (1, 2):
        for name in CORRECTIONS:
            config = settings(name, minibatches, updates=4, prompts=4, learning_rate=1e-2, warmup=0)
            trainer = trainer_of(fresh(SEEDS[0], 12), config, SEEDS[0], PartMarks("form", 1.0))
            history = list(lagged_updates(trainer, 2))
            found |= figures(history, tuple(TOLERANCES), f"{name}, {minibatches} a batch")
    return found


TOLERANCES = {
    **{"reward": 2e-3, "length": 0.05, "gradient_norm": 2e-3, "kl": 1e-3},
    **{"ess_capped": 1e-3, "clip_fraction": 2e-3},
}
PROTOCOL = {
    "corrections": CORRECTIONS,
    "arms": {arm: list(what) for arm, what in ARMS.items()},
    "config": asdict(recipe().config),
    "held_out": HELD_OUT,
}
STUDY = Frame(
    __file__,
    Arms(
        work,
        seed_by_seed(ARMS, SEEDS),
        PROTOCOL,
        result=lambda runs: {"runs": list(runs.values())},
        tell=lambda run: (
            f"{run['before']['accuracy']:.3f} -> {run['after']['accuracy']:.3f}, "
            f"KL {run['mean']['kl']:.4f}, least gradient norm {run['least_gradient_norm']:.2g}"
        ),
        verdict=verdict,
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
