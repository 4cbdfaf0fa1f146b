"""Where the KL term stands decides whether it holds the policy.

One policy over 64 actions is trained by REINFORCE for a reward that one action earns, of which the
reference thinks little (about one draw in twenty). Six arms differ in the KL term alone: none, k1
in the loss, k1 in the reward, k2 in the loss, k3 in the loss, and k1 in the loss weighted by
exp(logp - sg logp). The best compromise is known beforehand: of reward - beta KL(policy || ref) it
is p proportional to ref exp(reward / beta); of reward - beta KL(ref || policy), whose gradient k3
in the loss has, it is p = beta ref / (c - reward) with c such that p sums to 1.

Seeds, arms and the number of updates were fixed before the run; the seeds used while it was
written (0 to 2) are not among them.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from nbkit.kl import kl_estimate, kl_exact
from nbkit.logprobs import token_logprobs
from nbkit.losses import policy_gradient_loss
from studies._arms import Arms, by_arm, seed_by_seed
from studies._frame import Frame

SEEDS = (11, 12, 13, 14, 15)
ARMS = (
    "none",
    "k1 in the loss",
    "k1 in the reward",
    "k2 in the loss",
    "k3 in the loss",
    "k1 in the loss, weighted",
)
ACTIONS, BATCH, UPDATES, EVERY = 64, 256, 400, 10
BETA, LEARNING_RATE = 0.5, 0.05


def problem(seed: int) -> tuple[Tensor, Tensor]:
    """Reference logits and rewards of the actions, each (ACTIONS,)."""
    generator = torch.Generator().manual_seed(seed)
    ref = torch.randn(ACTIONS, generator=generator, dtype=torch.float64)
    ref[0] = ref.logsumexp(0) - 3.0  # about one in twenty
    rewards = torch.zeros(ACTIONS, dtype=torch.float64)
    rewards[0] = 1.0
    return ref, rewards


def best_policies(ref: Tensor, rewards: Tensor) -> dict[str, dict[str, float]]:
    """Where the two compromises lie: KL(policy || ref) and mean reward of each."""
    ref_p = ref.softmax(0)
    low, high = rewards.max() + BETA * ref_p.min() * 1e-6, rewards.max() + 2 * BETA + 1
    for _ in range(200):  # bisection: the sum falls as c grows
        c = (low + high) / 2
        low, high = (c, high) if (BETA * ref_p / (c - rewards)).sum() > 1 else (low, c)
    solutions = {
        "KL(policy || ref)": (ref + rewards / BETA).softmax(0),
        "KL(ref || policy)": BETA * ref_p / (c - rewards),
    }
    return {
        name: {"kl": float(kl_exact(p.log(), ref)), "reward": float(p @ rewards)}
        for name, p in solutions.items()
    }


def loss_of(arm: str, logp: Tensor, ref_logp: Tensor, rewards: Tensor) -> Tensor:
    """The scalar loss of one batch of sampled actions; each tensor (BATCH,)."""
    estimates = {kind: kl_estimate(logp, ref_logp, kind) for kind in ("k1", "k2", "k3")}
    if arm == "k1 in the reward":
        rewards = rewards - BETA * estimates["k1"].detach()
    loss = policy_gradient_loss(logp, rewards - rewards.mean()).mean()
    if arm == "k1 in the loss, weighted":
        return loss + BETA * ((logp - logp.detach()).exp() * estimates["k1"]).mean()
    if arm.endswith("in the loss"):
        return loss + BETA * estimates[arm[:2]].mean()
    return loss


def run_arm(arm: str, seed: int, updates: int, every: int = EVERY) -> dict[str, list[float]]:
    """Train one arm; exact KL and exact mean reward before every `every`-th update, and after."""
    ref, reward_of = problem(seed)
    ref_logp_of = ref.log_softmax(0)
    generator = torch.Generator().manual_seed(1000 + seed)
    theta = ref.clone().requires_grad_()  # the policy starts as the reference
    optimiser = torch.optim.SGD([theta], lr=LEARNING_RATE * ACTIONS)
    curve: dict[str, list[float]] = {"update": [], "kl": [], "reward": []}

    def note(update: int) -> None:
        with torch.no_grad():
            curve["update"].append(update)
            curve["kl"].append(round(float(kl_exact(theta, ref)), 6))
            curve["reward"].append(round(float(theta.softmax(0) @ reward_of), 6))

    for update in range(updates):
        if update % every == 0:
            note(update)
        probabilities = theta.detach().softmax(0)
        actions = torch.multinomial(probabilities, BATCH, replacement=True, generator=generator)
        logp = token_logprobs(theta.expand(BATCH, -1), actions)
        loss = loss_of(arm, logp, ref_logp_of[actions], reward_of[actions])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    note(updates)
    return curve


def gradients() -> dict[str, Any]:
    """Value and gradient of every placement against the exact KL, three actions summed out."""
    theta = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64)
    ref = torch.tensor([0.5, 0.0, 0.0], dtype=torch.float64)
    leaf = theta.clone().requires_grad_()
    exact = kl_exact(leaf, ref)
    (exact_gradient,) = torch.autograd.grad(exact, leaf)
    rows: dict[str, Any] = {}
    for kind in ("k1", "k2", "k3"):
        for place in ("loss", "loss, weighted", "reward"):
            leaf = theta.clone().requires_grad_()
            logp = token_logprobs(leaf.expand(3, 3), torch.arange(3))
            estimate = kl_estimate(logp, ref.log_softmax(0), kind)
            probability = logp.detach().exp()
            value = float((probability * estimate.detach()).sum())
            if place == "reward":
                term = policy_gradient_loss(logp, -estimate.detach())
            elif place == "loss":
                term = estimate
            else:
                term = (logp - logp.detach()).exp() * estimate
            (slope,) = torch.autograd.grad((probability * term).sum(), leaf)
            rows[f"{kind} in the {place}"] = {"value": value, "gradient": slope.tolist()}
    return {
        "exact": {"value": float(exact.detach()), "gradient": exact_gradient.tolist()},
        "estimators": rows,
    }


def head() -> dict[str, float]:
    """Twenty updates of every arm."""
    found = {}
    for arm in ARMS:
        curve = run_arm(arm, SEEDS[0], 20)
        for key in ("kl", "reward"):
            found |= {f"{arm}: {key} {i}": value for i, value in enumerate(curve[key])}
    return found


PROTOCOL = {
    "actions": ACTIONS,
    "batch": BATCH,
    "updates": UPDATES,
    "beta": BETA,
    "learning_rate": LEARNING_RATE,
    "arms": ARMS,
}
STUDY = Frame(
    __file__,
    Arms(
        partial(run_arm, updates=UPDATES),
        seed_by_seed(ARMS, SEEDS),
        PROTOCOL,
        result=lambda runs: {
            "arms": by_arm(runs),
            "best": [best_policies(*problem(seed)) for seed in SEEDS],
            "gradients": gradients(),
        },
    ).measure,
    head,
    {"kl": 1e-3, "reward": 1e-3},
)

if __name__ == "__main__":
    STUDY.main()
