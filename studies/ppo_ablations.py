"""PPO's implementation details, one changed at a time, on two tasks; 30 seeds, 64 environments.

Protocol, fixed before the run: ``CARTPOLE_WIDE`` with lambda 0.95 and a budget of 100,000 steps;
the same on Acrobot with gamma 0.99; each arm changes one thing. Three figures a run: the step at
which the mean of the last 100 episodes first reaches the task's threshold (none: not in the
budget), the mean return of the episodes of the second half of the budget, and of the last 100.
Seeds are the same in every arm, so differences are taken seed by seed. A further part cuts
CartPole's episodes after 100 steps and judges the policy on whole ones: there the time limit ends
most episodes, and to take it for death should matter. The last measures the variance of the policy
gradient of one half-trained policy, estimate by estimate.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from nbkit.advantages import discounted_returns, gae
from nbkit.control.actor_critic import ActorCritic, make_actor_critic
from nbkit.control.environments import make_control_env
from nbkit.control.rollouts import Rollout, collect
from nbkit.trainers.ppo import PPOTrainer, evaluate
from studies import _ppo_head as ppo
from studies._arms import Arms, Key, Run, by_arm, every
from studies._frame import Frame, first_updates
from studies._ppo_settings import CARTPOLE_WIDE, Task

SEEDS = tuple(range(11, 41))
BUDGET, BASE_LAMBDA = 100_000, 0.95
BASE = replace(
    CARTPOLE_WIDE, config=replace(CARTPOLE_WIDE.config, total_steps=BUDGET, lam=BASE_LAMBDA)
)
ACROBOT = replace(
    BASE,
    env_id="Acrobot-v1",
    config=replace(BASE.config, gamma=0.99),
    solved=-100.0,
)
# arm: changes to the configuration, changes to the network
ARMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "base": ({}, {}),
    "PyTorch's own initial weights": ({}, {"orthogonal": False}),
    "learning rate not annealed": ({"anneal_learning_rate": False}, {}),
    "advantages normalised by minibatch": ({"advantage_normalisation": "minibatch"}, {}),
    "advantages not normalised": ({"advantage_normalisation": None}, {}),
    "value loss clipped": ({"value_clip": 0.2}, {}),
    "gradient norm not clipped": ({"max_grad_norm": None}, {}),
    "Adam's eps 1e-8": ({"adam_eps": 1e-8}, {}),
    "minibatches not shuffled": ({"shuffle": False}, {}),
    "entropy bonus 0.01": ({"entropy_coefficient": 0.01}, {}),
    "ratio hardly clipped": ({"clip": 1.0}, {}),
    "shared body": ({}, {"shared": True}),
    "1 epoch": ({"epochs": 1}, {}),
    "10 epochs": ({"epochs": 10}, {}),
    "A2C: 1 epoch, 1 minibatch": ({"epochs": 1, "minibatch_size": None}, {}),
    "A2C, learning rate 1e-2": (
        {"epochs": 1, "minibatch_size": None, "learning_rate": 1e-2},
        {},
    ),
    **{f"lambda {lam}": ({"lam": lam}, {}) for lam in (0.0, 0.8, 0.9, 1.0)},
    "truncation as death": ({"truncation_as_death": True}, {}),
    "dummy rows in the loss": ({"dummy_rows_in_loss": True}, {}),
}
HARDER = (  # the arms that Acrobot has too
    *("base", "1 epoch", "ratio hardly clipped", "entropy bonus 0.01", "lambda 0.8"),
)
CUT_STEPS, CURVE_POINTS, EPISODES = 100, 25, 100
CUT_ARMS: dict[str, dict[str, Any]] = {
    "bootstrapped": {},
    "truncation as death": {"truncation_as_death": True},
    "dummy rows in the loss": {"dummy_rows_in_loss": True},
}
VARIANCE_ROLLOUTS, VARIANCE_STEPS, VARIANCE_ENVS = 200, 128, 8


def make_trainer(
    task: Task, seed: int, changes: dict[str, Any], network: dict[str, Any]
) -> PPOTrainer:
    shared = network.get("shared", False)
    settings = {**network, "shared": True} if shared else network
    arm = replace(task, config=replace(task.config, **changes), network=settings)
    return replace(arm, batched=not shared).trainer(seed)


def reached(episodes: Sequence[tuple[int, float, int]], threshold: float) -> int | None:
    """The step at which the mean return of the last 100 episodes is first that high, or None."""
    total = 0.0
    for at, (step, value, _) in enumerate(episodes):
        total += value - (episodes[at - EPISODES][1] if at >= EPISODES else 0.0)
        if at >= EPISODES - 1 and total / EPISODES >= threshold:
            return step
    return None


def run_arm(name: str, seed: int, task: Task = BASE) -> dict[str, Any]:
    """Train one seed of one arm."""
    changes, network = ARMS[name]
    trainer = make_trainer(task, seed, changes, network)
    history = trainer.run(progress=False)
    finished = trainer.episodes.finished
    late = [value for steps, value, _ in finished if steps > task.config.total_steps / 2]
    every = max(1, len(history) // CURVE_POINTS)
    return {
        "solved_at": reached(finished, task.solved),
        "late": round(sum(late) / max(1, len(late)), 2),
        "last_100": round(trainer.episodes.mean_return(), 2),
        "steps": [step["steps"] for step in history[::every]],
        "return": [round(step["return"], 2) for step in history[::every]],
        "kl": round(sum(step["kl"] for step in history) / len(history), 5),
        "clip_fraction": round(sum(step["clip_fraction"] for step in history) / len(history), 4),
    }


def run_cut(name: str, seed: int) -> dict[str, float]:
    """Train on episodes of at most ``CUT_STEPS`` steps; judge on whole ones."""
    task = replace(BASE, env_settings={"max_episode_steps": CUT_STEPS})
    trainer = make_trainer(task, seed, CUT_ARMS[name], {})
    trainer.run(progress=False)
    whole = make_control_env("CartPole-v1", 20)
    returns = evaluate(whole, trainer.policy, episodes=40, seed=10_000 + seed, deterministic=False)
    cut_value = trainer.policy(torch.zeros(1, 4))[1].item()  # upright and still
    return {
        "last_100": trainer.episodes.mean_return(),
        "whole": sum(returns) / len(returns),
        "value_upright": cut_value,
    }


def estimates(rollout: Rollout, gamma: float) -> dict[str, Tensor]:
    """What may multiply the score of each step, (T, N), in the chapter's order."""
    values, following = rollout.values[:-1], rollout.values[1:]
    rewards, valid = rollout.rewards, rollout.valid

    def traced(lam: float, baseline: Tensor, ahead: Tensor) -> Tensor:
        return gae(
            *(rewards, baseline, ahead, rollout.terminated, rollout.done),
            gamma=gamma,
            lam=lam,
            valid=valid,
        )[0]

    zero = torch.zeros_like(values)
    to_go = traced(1.0, zero, zero)
    # The whole return of the episode so far as the rollout saw it, the same at all of its steps.
    whole = zero.clone()
    for n in range(rewards.shape[1]):
        start = 0
        for t in range(len(rewards)):
            if bool(rollout.done[t, n]) or t == len(rewards) - 1:
                part = rewards[start : t + 1, n]
                whole[start : t + 1, n] = discounted_returns(part, gamma)[0]
                start = t + 1
    return {
        "whole return": whole,
        "reward to go": to_go,
        "reward to go minus value": to_go - values,
        "lambda 1": traced(1.0, values, following),
        "lambda 0.95": traced(0.95, values, following),
        "lambda 0.8": traced(0.8, values, following),
        "lambda 0": traced(0.0, values, following),
    }


def gradient(policy: ActorCritic, rollout: Rollout, weights: Tensor) -> Tensor:
    """The policy gradient of one rollout as one vector."""
    rows = rollout.valid.flatten()
    distribution = policy.act(rollout.observations.flatten(0, 1)[rows])
    logprobs = distribution.log_prob(rollout.actions.flatten()[rows])
    parameters = [*policy.body.parameters(), *policy.policy_head.parameters()]
    loss = (logprobs * weights.flatten()[rows]).mean()
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])


def variances(seed: int, rollouts: int, steps: int = 20_000) -> dict[str, dict[str, float]]:
    """Variance and mean of each estimate of the gradient, same rollouts for all."""
    env = make_control_env("CartPole-v1", VARIANCE_ENVS)
    policy = make_actor_critic(env, seed=seed, shared=False)
    config = replace(BASE.config, total_steps=steps)
    half_trained = PPOTrainer(env, policy, config, seed=seed)
    half_trained.run(progress=False)
    generator = torch.Generator().manual_seed(seed)
    observations = env.reset(seed)
    gradients: dict[str, list[Tensor]] = {}
    for _ in range(rollouts):
        rollout = collect(env, policy, observations, VARIANCE_STEPS, generator)
        observations = rollout.stream[-1]
        for name, weights in estimates(rollout, config.gamma).items():
            gradients.setdefault(name, []).append(gradient(policy, rollout, weights))
    result = {}
    for name, samples in gradients.items():
        stacked = torch.stack(samples).double()
        variance = stacked.var(0).sum().item()
        mean_square = stacked.mean(0).square().sum().item()
        result[name] = {
            "variance": variance,
            "mean_norm": mean_square**0.5,
            "noise_to_signal": (variance / max(mean_square, 1e-30)) ** 0.5,
        }
    return result


def head() -> dict[str, float]:
    """The first updates of five arms, and the gradient's variance of a hardly trained policy."""
    found: dict[str, float] = {}
    for name in (
        "base",
        "value loss clipped",
        "shared body",
        "dummy rows in the loss",
        "lambda 0.0",
    ):
        changes, network = ARMS[name]
        trainer = make_trainer(BASE, SEEDS[0], changes, network)
        found |= first_updates(trainer, 2, ppo.METRICS[:4], name)
    for name, result in variances(SEEDS[0], 6, steps=2_000).items():
        found |= {f"{name}: {key}": result[key] for key in ("mean_norm", "noise_to_signal")}
    return found


CUT, VARIANCE, ON_ACROBOT = "cut: ", "variance", "Acrobot: "


def part(name: str, seed: int) -> Run:
    """One run of one of the parts."""
    if name == VARIANCE:
        return {"of": variances(seed, VARIANCE_ROLLOUTS)}
    if name.startswith(CUT):
        return dict(run_cut(name.removeprefix(CUT), seed))
    if name.startswith(ON_ACROBOT):
        return run_arm(name.removeprefix(ON_ACROBOT), seed, ACROBOT)
    return run_arm(name, seed)


def parts(runs: dict[Key, Run]) -> dict[str, Any]:
    """The parts apart."""
    found = by_arm(runs)
    return {
        "variance": [run["of"] for run in found.pop(VARIANCE)],
        "cut": {name: found.pop(f"{CUT}{name}") for name in CUT_ARMS},
        "acrobot": {name: found.pop(f"{ON_ACROBOT}{name}") for name in HARDER},
        "arms": found,
    }


PROTOCOL = {
    "base": asdict(BASE),
    "acrobot": asdict(ACROBOT),
    "arms": ARMS,
    "harder": HARDER,
    "cut": CUT_ARMS,
    "cut_steps": CUT_STEPS,
}
STUDY = Frame(
    __file__,
    Arms(
        part,
        every([f"{ON_ACROBOT}{name}" for name in HARDER], SEEDS)
        + every(ARMS, SEEDS)
        + every([f"{CUT}{name}" for name in CUT_ARMS], SEEDS)
        + every([VARIANCE], SEEDS[:3]),
        PROTOCOL,
        result=parts,
    ).measure,
    head,
    {**ppo.TOLERANCES, "kl": 5e-4, "mean_norm": 1e-3, "noise_to_signal": 1e-3},
)

if __name__ == "__main__":
    STUDY.main()
