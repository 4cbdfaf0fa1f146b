"""PPO in one file: the solution of build 12."""

import torch
from torch import nn


class ActorCritic(nn.Module):
    """Two bodies of two layers: logits (N, A) and values (N,) of observations (N, O)."""

    def __init__(self, observation_size, num_actions, width=64):
        super().__init__()
        self.actor = self.body(observation_size, width, num_actions, gain=0.01)
        self.critic = self.body(observation_size, width, 1, gain=1.0)

    @staticmethod
    def body(size, width, outputs, gain):
        """Two hidden layers of tanh; `gain` is the scale of the last layer's weights."""
        layers = [nn.Linear(size, width), nn.Linear(width, width), nn.Linear(width, outputs)]
        for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
            nn.init.orthogonal_(layer.weight, scale)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])

    def forward(self, observations):
        """Logits and values."""
        return self.actor(observations), self.critic(observations)[:, 0]


def log_probability(logits, actions):
    """Of the action taken in each row, (N,)."""
    return logits.log_softmax(-1).gather(-1, actions[:, None])[:, 0]


@torch.no_grad()
def collect(env, agent, observations, steps, scale, generator):
    """Act for some steps in all environments; columns (T, N), and the observations after them."""
    rows = []
    for _ in range(steps):
        logits, values = agent(observations)
        actions = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
        step = env.step(actions)
        _, next_values = agent(step.next_observations)
        rows.append(
            {
                "observations": observations,
                "actions": actions,
                "logprobs": log_probability(logits, actions),
                "values": values,
                "next_values": next_values,
                "rewards": step.rewards * scale,
                "terminated": step.terminated,
                "done": step.terminated | step.truncated,
                "valid": step.valid,
            }
        )
        observations = step.next_observations
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}, observations


def advantages_of(batch, gamma, lam):
    """GAE, (T, N): termination stops the bootstrap, the end of an episode stops the trace."""
    ahead = batch["next_values"] * ~batch["terminated"]
    deltas = batch["rewards"] + gamma * ahead - batch["values"]
    found, trace = torch.zeros_like(deltas), torch.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        trace = deltas[t] + gamma * lam * trace * ~batch["done"][t]
        found[t] = trace
    return found


def loss_of(agent, rows, settings):
    """Clipped surrogate, value loss and entropy bonus of a minibatch; what the log shows."""
    logits, values = agent(rows["observations"])
    log_ratio = log_probability(logits, rows["actions"]) - rows["logprobs"]
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    policy_loss = -torch.min(ratio * rows["advantages"], clipped * rows["advantages"]).mean()
    value_loss = 0.5 * (values - rows["returns"]).square().mean()
    entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
    loss = (
        policy_loss
        + settings.value_coefficient * value_loss
        - settings.entropy_coefficient * entropy
    )
    seen = {
        "kl": (ratio - 1 - log_ratio).mean().item(),
        "clip_fraction": ((ratio - 1).abs() > settings.clip).float().mean().item(),
        "ratio_error": (ratio - 1).abs().max().item(),
    }
    return loss, seen


def update(agent, optimiser, batch, settings, generator):
    """Some epochs of minibatches over the steps that are steps."""
    advantages = advantages_of(batch, settings.gamma, settings.lam)
    batch = {**batch, "advantages": advantages, "returns": advantages + batch["values"]}
    valid = batch["valid"]
    rows = {name: column[valid] for name, column in batch.items()}
    spread = rows["advantages"].std() + 1e-8
    rows["advantages"] = (rows["advantages"] - rows["advantages"].mean()) / spread
    count, first, seen = len(rows["actions"]), None, []
    for _ in range(settings.epochs):
        shuffled = torch.randperm(count, generator=generator)
        for part in shuffled.split(settings.minibatch_size):
            loss, found = loss_of(agent, {name: x[part] for name, x in rows.items()}, settings)
            optimiser.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(agent.parameters(), settings.max_grad_norm)
            optimiser.step()
            first = found if first is None else first
            seen.append(found)
    last = seen[-(len(seen) // settings.epochs) :]
    return {
        "ratio_error": first["ratio_error"],
        "kl": sum(found["kl"] for found in last) / len(last),
        "clip_fraction": sum(found["clip_fraction"] for found in last) / len(last),
        "gradient_norm": norm.item(),
        "explained_variance": explained_variance(rows["values"], rows["returns"]),
    }


def explained_variance(values, returns):
    """1 - Var(returns - values) / Var(returns); nan where all returns are equal."""
    return (1 - (returns - values).var() / returns.var()).item()


def train(env, settings, *, seed, log):
    """Train an agent and return it: a function from observations to logits and values."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    agent = ActorCritic(env.observation_size, env.num_actions)
    optimiser = torch.optim.Adam(agent.parameters(), lr=settings.learning_rate, eps=1e-5)
    updates = settings.total_steps // (settings.rollout_steps * env.num_envs)
    observations = env.reset() if updates else None
    for number in range(updates):
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * (1 - number / updates)
        batch, observations = collect(
            env, agent, observations, settings.rollout_steps, settings.reward_scale, generator
        )
        log(**update(agent, optimiser, batch, settings, generator))
    return agent
