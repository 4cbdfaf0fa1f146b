"""PPO that pushes a puck, in one file: the solution of build 41."""

import math

import torch
from torch import nn
from torch.nn.functional import softplus


class Moments(nn.Module):
    """Shifts and scales each number of an observation by the mean and variance of all rows so far.

    They change by `update` alone, between two updates of the policy: who learns sees what who acted
    has seen, and who is judged sees what training ended with.
    """

    def __init__(self, size):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(size, dtype=torch.float64))

    def forward(self, observations):
        """Normalise (…, O)."""
        scale = (self.variance + 1e-8).sqrt()
        return ((observations - self.mean) / scale).float().clamp(-10.0, 10.0)

    def update(self, rows):
        """Count (M, O) rows in (Chan, Golub and LeVeque, 1979)."""
        rows, before = rows.double(), self.count.clone()
        self.count += len(rows)
        share, kept = len(rows) / self.count, before / self.count
        apart = rows.mean(0) - self.mean
        within = share * rows.var(0, correction=0) + kept * self.variance
        self.variance = within + share * kept * apart.square()
        self.mean = self.mean + share * apart


class Agent(nn.Module):
    """An actor and a critic of two layers each, one width for every action, moments of the inputs.

    The actor's Gaussian is over u; the arm gets tanh(u).
    """

    def __init__(self, observation_size, action_size, width=64):
        super().__init__()
        self.moments = Moments(observation_size)
        self.actor = self.body(observation_size, width, action_size, gain=0.01)
        self.critic = self.body(observation_size, width, 1, gain=1.0)
        self.log_std = nn.Parameter(torch.full((action_size,), -1.0))

    @staticmethod
    def body(size, width, outputs, gain):
        """Two hidden layers of tanh; `gain` is the scale of the last layer's weights."""
        layers = [nn.Linear(size, width), nn.Linear(width, width), nn.Linear(width, outputs)]
        for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
            nn.init.orthogonal_(layer.weight, scale)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])

    def value(self, observations):
        """Values (N,)."""
        return self.critic(self.moments(observations)).squeeze(-1)

    def mean(self, observations):
        """The middle of the Gaussian, (N, A)."""
        return self.actor(self.moments(observations))

    def forward(self, observations):
        """What the judge asks for: the action in the middle, and the value."""
        return self.mean(observations).tanh(), self.value(observations)


def log_slope(u):
    """log(1 - tanh(u)²), finite also where tanh(u) rounds to 1."""
    return 2.0 * (math.log(2.0) - u - softplus(-2.0 * u))


def log_density(u, mean, log_std):
    """Of the action tanh(u), all its dimensions together, (N,)."""
    each = -0.5 * ((u - mean) / log_std.exp()).square() - log_std - 0.5 * math.log(2 * math.pi)
    return (each - log_slope(u)).sum(-1)


def entropy_of(mean, log_std, generator):
    """Of the action tanh(u), (N,): that of u, and the mean log-slope, estimated from one draw."""
    noise = torch.randn(mean.shape, generator=generator)
    of_u = (log_std + 0.5 * math.log(2 * math.pi * math.e)).expand_as(mean)
    return (of_u + log_slope(mean + noise * log_std.exp())).sum(-1)


@torch.no_grad()
def collect(env, agent, observations, settings, generator):
    """Act for a rollout in all environments; columns (T, N), and the observations after it."""
    rows = []
    for _ in range(settings.rollout_steps):
        mean = agent.mean(observations)
        u = mean + torch.randn(mean.shape, generator=generator) * agent.log_std.exp()
        step = env.step(u.tanh())
        rows.append(
            {
                "observations": observations,
                "next_observations": step.next_observations,
                "means": mean,
                "actions": u,
                "rewards": step.rewards * settings.reward_scale,
                "terminated": step.terminated,
                "done": step.terminated | step.truncated,
                "valid": step.valid,
            }
        )
        observations = step.next_observations
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    batch["logprobs"] = log_density(batch["actions"], batch["means"], agent.log_std)
    batch["values"] = agent.value(batch["observations"])
    batch["next_values"] = agent.value(batch["next_observations"])
    return batch, observations


def advantages_of(batch, gamma, lam):
    """GAE, (T, N): termination stops the bootstrap, the end of an episode stops the trace."""
    ahead = batch["next_values"] * ~batch["terminated"]
    deltas = batch["rewards"] + gamma * ahead - batch["values"]
    found, trace = torch.zeros_like(deltas), torch.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        trace = deltas[t] + gamma * lam * trace * ~batch["done"][t]
        found[t] = trace
    return found


def loss_of(agent, rows, settings, generator):
    """Clipped surrogate, value loss and entropy bonus of a minibatch; what the log shows."""
    mean, values = agent.actor(rows["inputs"]), agent.critic(rows["inputs"]).squeeze(-1)
    log_ratio = log_density(rows["actions"], mean, agent.log_std) - rows["logprobs"]
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    policy_loss = -torch.min(ratio * rows["advantages"], clipped * rows["advantages"]).mean()
    value_loss = 0.5 * (values - rows["returns"]).square().mean()
    loss = policy_loss + settings.value_coefficient * value_loss
    if settings.entropy_coefficient:
        entropy = entropy_of(mean, agent.log_std, generator).mean()
        loss = loss - settings.entropy_coefficient * entropy
    with torch.no_grad():
        seen = {
            "kl": (ratio - 1 - log_ratio).mean(),
            "clip_fraction": ((ratio - 1).abs() > settings.clip).float().mean(),
            "ratio_error": (ratio - 1).abs().max(),
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
    rows["inputs"] = agent.moments(rows["observations"])  # which stand still during an update
    count, seen = len(rows["actions"]), []
    for _ in range(settings.epochs):
        shuffled = torch.randperm(count, generator=generator)
        for part in shuffled.split(settings.minibatch_size):
            minibatch = {name: column[part] for name, column in rows.items()}
            loss, found = loss_of(agent, minibatch, settings, generator)
            optimiser.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(agent.parameters(), settings.max_grad_norm)
            optimiser.step()
            seen.append(found)
    agent.moments.update(rows["observations"])
    last = seen[-(len(seen) // settings.epochs) :]
    return {
        "ratio_error": seen[0]["ratio_error"],
        "kl": sum(found["kl"] for found in last) / len(last),
        "clip_fraction": sum(found["clip_fraction"] for found in last) / len(last),
        "gradient_norm": norm,
        "explained_variance": 1 - (rows["returns"] - rows["values"]).var() / rows["returns"].var(),
    }


def train(env, settings, *, seed, log):
    """Train an agent and return it: a function from observations to actions and values."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    agent = Agent(env.observation_size, env.action_size)
    optimiser = torch.optim.Adam(
        agent.parameters(), lr=settings.learning_rate, eps=1e-5, fused=True
    )
    updates = settings.total_steps // (settings.rollout_steps * env.num_envs)
    observations = env.reset() if updates else None
    for number in range(updates):
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * (1 - number / updates)
        batch, observations = collect(env, agent, observations, settings, generator)
        log(**update(agent, optimiser, batch, settings, generator))
    return agent
