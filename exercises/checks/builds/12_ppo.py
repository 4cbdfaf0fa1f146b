"""The judge of build 12: PPO in one file, on probes, CartPole and LunarLander."""

from ppo_probes import NUM_ENVS, PROBE_SETTINGS, PROBE_STAGE
from ppo_twins import NO_CLIP, NO_DISCOUNT, SIGN_AND_ENDS

from bookkit.builds.limits import Budget
from bookkit.builds.physics import CARTPOLE as CARTPOLE_PHYSICS
from bookkit.builds.recorded import Recorded
from bookkit.builds.solving import TaskStage
from bookkit.builds.verdict import Build
from bookkit.exercises.exercise import edit, edits

CARTPOLE = {
    **PROBE_SETTINGS,
    "total_steps": 120_000,
    "rollout_steps": 64,
    "gamma": 0.98,
    "lam": 0.95,
    "learning_rate": 3e-3,
    "epochs": 6,
    "minibatch_size": 128,
}
LUNAR_LANDER = {
    **PROBE_SETTINGS,
    "total_steps": 1_000_000,
    "rollout_steps": 256,
    "gamma": 0.999,
    "lam": 0.98,
    "learning_rate": 6e-4,
    "epochs": 4,
    "minibatch_size": 128,
    "entropy_coefficient": 0.01,
    "reward_scale": 0.05,
}

DRAWN = "actions = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]"
OLD = 'log_ratio = log_probability(logits, rows["actions"]) - rows["logprobs"]'
SPREAD = 'spread = rows["advantages"].std() + 1e-8'
TWINS = (
    *SIGN_AND_ENDS,
    edit(
        "stale log-probabilities",
        OLD,
        "now = log_probability(logits, rows['actions'])\n    log_ratio = now - now.detach()",
        "the old log-probabilities are stale or computed anew",
    ),
    NO_CLIP,
    edit(
        "one seed for all environments",
        DRAWN,
        "actions = (torch.rand(1, generator=generator) > logits.softmax(-1)[:, 0]).long()",
        "one seed, or one draw, serves them all",
    ),
    edit("the most likely action in training", DRAWN, "actions = logits.argmax(-1)", "are drawn"),
    edit(
        "the bonus is a penalty",
        "- settings.entropy_coefficient * entropy",
        "+ settings.entropy_coefficient * entropy",
        "The entropy bonus is missing or has the wrong sign",
    ),
    NO_DISCOUNT,
    edits(
        "advantages of other rows",
        (
            SPREAD,
            f"{SPREAD}\n    rows['advantages'] = rows['advantages'].roll(1)",
        ),
        message="hardly moves",
    ),
    edit(
        "λ is 1 whatever is asked",
        "gamma * lam * trace",
        "gamma * trace",
        "do not depend on `lam`",
    ),
    edit(
        "λ is 0 whatever is asked",
        'trace = deltas[t] + gamma * lam * trace * ~batch["done"][t]',
        "trace = deltas[t]",
        "do not depend on `lam`",
    ),
    edit(
        "the first minibatch alone",
        "in shuffled.split(settings.minibatch_size):",
        "in shuffled.split(settings.minibatch_size)[:1]:",
        "ends after its first minibatch",
    ),
)

BUILD = Build(
    number=12,
    slug="ppo",
    title="PPO in one file",
    part="control",
    budget=Budget(processor_seconds=900.0),
    stages=(
        PROBE_STAGE,
        TaskStage(
            "CartPole-v1",
            env_id="CartPole-v1",
            settings=CARTPOLE,
            num_envs=NUM_ENVS,
            threshold=475.0,
            physics=CARTPOLE_PHYSICS,
            results=(
                Recorded(
                    "the book, usual physics",
                    "studies/results/ppo_control.json",
                    ("arms", "CartPole-v1"),
                    "curve",
                ),
                Recorded(
                    "Stable-Baselines3, usual physics",
                    "studies/results/ppo_sb3.json",
                    ("tasks", "CartPole-v1", "sb3"),
                ),
            ),
        ),
        TaskStage(
            "LunarLander-v3",
            env_id="LunarLander-v3",
            settings=LUNAR_LANDER,
            num_envs=NUM_ENVS,
            threshold=200.0,
            results=(
                Recorded(
                    "the book",
                    "studies/results/ppo_control.json",
                    ("arms", "LunarLander-v3"),
                    "curve",
                ),
                Recorded(
                    "Stable-Baselines3",
                    "studies/results/ppo_sb3.json",
                    ("tasks", "LunarLander-v3", "sb3"),
                ),
            ),
        ),
    ),
    milestones=(
        "ppo.autoreset.1",
        "ppo.gae.1",
        "ppo.clip.1",
        "ppo.entropy.1",
        "ppo.minibatch.1",
        "ppo.repair.1",
    ),
    twins=TWINS,
    not_tested="continuous actions, and other seeds than the ones that were drawn.",
)
