"""PPO in one file in the manner of CleanRL, written from its documentation and from Huang et al.

"The 37 implementation details of proximal policy optimization" (ICLR blog track, 2022): two
separate tanh bodies of 64 with orthogonal weights, 4 environments of 128 steps, 4 minibatches,
4 epochs, Adam with eps 1e-5 and a linearly annealed rate, advantages normalised by minibatch, the
value loss clipped, the gradient norm clipped, time limits taken for terminal states.
"""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from torch import nn
from torch.distributions import Categorical

LEARNING_RATE, GAMMA, LAM, CLIP = 2.5e-4, 0.99, 0.95, 0.2
ENTROPY, VALUE, MAX_NORM, ADAM_EPS = 0.01, 0.5, 0.5, 1e-5
EPOCHS, MINIBATCHES = 4, 4


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self, observation_size: int, actions: int) -> None:
        super().__init__()

        def network(outputs: int, gain: float) -> nn.Sequential:
            first, second = layer(observation_size, 64), layer(64, 64)
            return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), layer(64, outputs, gain))

        self.actor, self.critic = network(actions, 0.01), network(1, 1.0)

    def act_and_value(self, observation, action=None):
        distribution = Categorical(logits=self.actor(observation))
        action = distribution.sample() if action is None else action
        logprob, entropy = distribution.log_prob(action), distribution.entropy()
        return action, logprob, entropy, self.critic(observation)


def train(
    env_id: str,
    *,
    seed: int,
    total_steps: int,
    budget: int,
    num_envs: int = 4,
    steps: int = 128,
    stop: Callable[[list[tuple[int, float]]], bool] = lambda episodes: False,
) -> tuple[int, list[tuple[int, float]]]:
    """Train until ``budget`` steps or ``stop``; the rate anneals over ``total_steps``.

    Returns:
        Environment steps taken, and (step at its end, return) of each episode.

    """
    torch.manual_seed(seed)
    np.random.seed(seed)
    envs = SyncVectorEnv(
        [lambda: RecordEpisodeStatistics(gym.make(env_id))] * num_envs,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    size = envs.single_observation_space.shape[0]
    agent = Agent(size, int(envs.single_action_space.n))
    optimiser = torch.optim.Adam(agent.parameters(), lr=LEARNING_RATE, eps=ADAM_EPS)
    observations = torch.zeros(steps, num_envs, size)
    actions = torch.zeros(steps, num_envs)
    logprobs, rewards, dones, values = torch.zeros(4, steps, num_envs).unbind()
    batch_size = num_envs * steps
    updates = total_steps // batch_size
    episodes: list[tuple[int, float]] = []
    taken = 0
    next_observation = torch.Tensor(envs.reset(seed=seed)[0])
    next_done = torch.zeros(num_envs)
    for update in range(updates):
        optimiser.param_groups[0]["lr"] = LEARNING_RATE * (1 - update / updates)
        for t in range(steps):
            taken += num_envs
            observations[t], dones[t] = next_observation, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.act_and_value(next_observation)
            values[t], actions[t], logprobs[t] = value.flatten(), action, logprob
            seen, reward, terminated, truncated, info = envs.step(action.numpy())
            rewards[t] = torch.tensor(reward)
            next_observation = torch.Tensor(seen)
            next_done = torch.Tensor(np.logical_or(terminated, truncated))
            if "final_info" in info and "episode" in info["final_info"]:
                ended = info["final_info"]["_episode"]
                returns = info["final_info"]["episode"]["r"][ended]
                episodes += [(taken, float(value)) for value in returns]
        with torch.no_grad():
            next_value = agent.critic(next_observation).flatten()
            advantages = torch.zeros_like(rewards)
            trace = torch.zeros(num_envs)
            for t in reversed(range(steps)):
                last = t == steps - 1
                alive = 1.0 - (next_done if last else dones[t + 1])
                following = next_value if last else values[t + 1]
                delta = rewards[t] + GAMMA * following * alive - values[t]
                advantages[t] = trace = delta + GAMMA * LAM * alive * trace
            targets = advantages + values
        flat = [x.reshape(batch_size, *x.shape[2:]) for x in (observations, actions, logprobs)]
        flat += [x.reshape(-1) for x in (advantages, targets, values)]
        order = np.arange(batch_size)
        for _ in range(EPOCHS):
            np.random.shuffle(order)
            for rows in np.split(order, MINIBATCHES):
                o, a, old_logprob, advantage, target, old_value = (x[rows] for x in flat)
                _, logprob, entropy, value = agent.act_and_value(o, a.long())
                log_ratio = logprob - old_logprob
                ratio = log_ratio.exp()
                with torch.no_grad():  # what the original logs of each minibatch
                    ((ratio - 1) - log_ratio).mean()
                    ((ratio - 1.0).abs() > CLIP).float().mean().item()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
                policy_loss = torch.max(-advantage * ratio, -advantage * clipped).mean()
                value = value.view(-1)
                near = old_value + torch.clamp(value - old_value, -CLIP, CLIP)
                worse = torch.max((value - target) ** 2, (near - target) ** 2)
                loss = policy_loss - ENTROPY * entropy.mean() + VALUE * 0.5 * worse.mean()
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), MAX_NORM)
                optimiser.step()
        if taken >= budget or stop(episodes):
            break
    envs.close()
    return taken, episodes
