"""The probes of build 12: worlds of one or two steps, and what a wrong answer says of the fault."""

import torch
from torch import Tensor
from value_probes import NEAR, NUM_ENVS, ZERO, cut_short, one_step, two_steps
from value_probes import SETTINGS as PROBE_SETTINGS

from bookkit.builds.probe_stage import ProbeStage
from bookkit.builds.probing import Answers, Probe, ask
from nbkit.envs.probes import PROBES, ProbeEnv


def better_arm(found: Answers) -> str | None:
    """Action 1 pays 1, action 0 pays -1."""
    chosen = found.probabilities[0, 1].item()
    if chosen >= 1 - NEAR:
        return None
    if chosen < 0.3:
        return (
            f"The action that pays 1 is chosen with probability {chosen:.2f}, from "
            f"{found.before[0, 1].item():.2f} before: the policy loss or the advantage has the "
            "wrong sign."
        )
    return (
        f"The action that pays 1 is chosen with probability {chosen:.2f}: the policy hardly moves. "
        "Look at the advantages, and at the log-probability of the action that was taken."
    )


def follows(found: Answers) -> str | None:
    """Action 0 pays at observation -1, action 1 at observation 1."""
    right = [found.probabilities[0, 0].item(), found.probabilities[1, 1].item()]
    if min(right) >= 1 - NEAR:
        return None
    return (
        f"The right actions have the probabilities {right[0]:.2f} and {right[1]:.2f}: "
        "observations, "
        "actions and advantages of a row do not belong together. Look at flattening and shuffling."
    )


def held_back(found: Answers) -> str | None:
    """One batch, forty epochs: the clip keeps the policy near the one that sampled."""
    before, after = found.before[0, 1].item(), found.probabilities[0, 1].item()
    if after <= LEAP:
        return None
    return (
        f"After one batch and {ONE_BATCH['epochs']} epochs the better action has gone from "
        f"{before:.2f} to "
        f"{after:.2f}; with a clip of {ONE_BATCH['clip']:g} it stays below {LEAP:g}. The ratio "
        "does not "
        "hold the policy back: it is not clipped, or the old log-probabilities are stale or "
        "computed "
        "anew. They are those of the rollout, stored once, without gradient."
    )


def spread_out(found: Answers) -> str | None:
    """A large bonus for entropy: the policy stays near uniform although one action pays more."""
    chosen = found.probabilities[0, 1].item()
    if 0.25 <= chosen <= 0.75:
        return None
    return (
        f"With an entropy coefficient of {WIDE['entropy_coefficient']:g} the policy should stay "
        "near uniform; "
        f"one action has probability {chosen:.3f}. The entropy bonus is missing or has the wrong "
        "sign: the "
        "loss falls when the entropy rises."
    )


def at_once(found: Answers) -> str | None:
    """λ is 0: of what comes later an advantage knows the critic's word alone."""
    chosen = found.probabilities[0, 1].item()
    return None if chosen >= 1 - NEAR else f"{LAMBDA} It was 0 here, {_said(chosen)}"


def in_the_end(found: Answers) -> str | None:
    """λ is 1: an advantage holds all rewards up to the end of the episode."""
    chosen = found.probabilities[0, 1].item()
    return None if chosen <= NEAR else f"{LAMBDA} It was 1 here, {_said(chosen)}"


def _said(chosen: float) -> str:
    return (
        f"and the action that pays {NOW:g} at once and takes {LATER:g} a step later is chosen with "
        f"probability {chosen:.2f}."
    )


def every_minibatch(found: Answers) -> str | None:
    """One epoch of many minibatches goes further than one epoch of one."""
    assert found.beside is not None
    start = found.before[0, 1].logit().item()
    one = found.beside[0, 1].logit().item() - start
    many = found.probabilities[0, 1].logit().item() - start
    if many >= FURTHER * one:
        return None
    return (
        f"One epoch in {MANY} minibatches moves the policy {many:.3f}, one epoch in a single one "
        f"{one:.3f} (the better action's log-odds): an epoch ends after its first minibatch, or "
        "takes one step for all. Every row of a rollout is in one minibatch of each epoch, and "
        "each minibatch is a step."
    )


class Delayed(ProbeEnv):
    """Two steps: action 1 of the first pays `NOW` at once and takes `LATER` at the second."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, length=2, reward=self.pay, observation="time")
        self.first = torch.zeros(num_envs)

    def pay(self, observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
        """The first action's reward at once, and what it costs."""
        self.first = torch.where(time == 0, action.float(), self.first)
        return torch.where(time == 0, NOW * self.first, -LATER * self.first)


def arms(observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
    """Action 1 pays 1, action 0 pays -1."""
    return 2.0 * action.float() - 1.0


def noisy(observation: Tensor, time: Tensor, action: Tensor) -> Tensor:
    """The same for every action but for a tenth: what a large bonus must outweigh."""
    return 0.1 * action.float()


NOW, LATER = 1.0, 4.0  # with γ = 1/2 the second outweighs the first, where λ lets it be seen
LAMBDA = (
    "Advantages do not depend on `lam` as they should: a step's advantage is its own error, and "
    "γλ times the advantage of the next step."
)
FURTHER = 3.0  # times; 16 steps of an optimiser against one
LEAP = 0.85
ONE_BATCH = {
    "total_steps": 1024,
    "rollout_steps": 64,
    "epochs": 40,
    "clip": 0.1,
    "learning_rate": 1e-3,
}
MANY = 16
MINIBATCHES = {
    "total_steps": 1024,
    "rollout_steps": 64,
    "epochs": 1,
    "learning_rate": 1e-3,
    "minibatch_size": 1024 // 2 // MANY,  # every second row is a dummy step
}
WIDE = {"entropy_coefficient": 5.0}
SIGNS = ((-1.0,), (1.0,))

PROBE_STAGE = ProbeStage(
    "probes",
    (
        Probe(
            "Episodes of one step, reward 1: is the value 1?",
            lambda: PROBES["constant-reward"].make(NUM_ENVS),
            ZERO,
            one_step,
        ),
        Probe(
            "Two steps, reward 1 at the end: is the value of the first step γ?",
            lambda: PROBES["two-step-discount"].make(NUM_ENVS),
            ((0.0,), (1.0,)),
            two_steps,
        ),
        Probe(
            "Reward 1 a step for ever, cut by a time limit: is the value 1 / (1 - γ)?",
            lambda: PROBES["truncated-reward"].make(NUM_ENVS),
            ZERO,
            cut_short,
        ),
        Probe(
            "One action pays 1, the other -1: is the better one chosen?",
            lambda: PROBES["action-reward"].make(NUM_ENVS),
            ZERO,
            better_arm,
        ),
        Probe(
            "The action that pays depends on what is seen: does the policy follow?",
            lambda: PROBES["action-observation-reward"].make(NUM_ENVS),
            SIGNS,
            follows,
        ),
        Probe(
            "One batch, many epochs: how far does the policy go?",
            lambda: ProbeEnv(NUM_ENVS, length=1, reward=arms),
            ZERO,
            held_back,
            ONE_BATCH,
        ),
        Probe(
            "A large entropy bonus: does the policy stay spread out?",
            lambda: ProbeEnv(NUM_ENVS, length=1, reward=noisy),
            ZERO,
            spread_out,
            WIDE,
        ),
        Probe(
            "λ is 0, and an action pays at once what it costs later: is it chosen?",
            lambda: Delayed(NUM_ENVS),
            ZERO,
            at_once,
            {"lam": 0.0},
        ),
        Probe(
            "λ is 1, the same world: is it left alone?",
            lambda: Delayed(NUM_ENVS),
            ZERO,
            in_the_end,
            {"lam": 1.0},
        ),
        Probe(
            "One epoch of many minibatches: does each of them teach?",
            lambda: ProbeEnv(NUM_ENVS, length=1, reward=arms),
            ZERO,
            every_minibatch,
            MINIBATCHES,
            {"minibatch_size": 1024},
        ),
    ),
    PROBE_SETTINGS,
    ask,
)
