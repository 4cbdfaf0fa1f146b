"""From pixels in two steps: a network that reads the state off the frames, and an agent on top.

PPO's reward is a poor teacher for a convolutional network: one number a step. A simulator has a
better one. It knows where everything is, so a network can first be taught, by plain regression, to
say it from the frames. An agent then learns on what this network *says*. The labels are used in
training alone; what is deployed sees pixels and its own last action, nothing else.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbkit._inputs import check_number
from nbkit.envs.arm_core import ACTION_SIZE
from nbkit.envs.arm_envs import ArmVectorEnv
from nbkit.envs.control import Transition
from nbkit.envs.pixels import ArmCamera, FrameStack
from nbkit.policies_pixels import BODIES


class Perception(nn.Module):
    """Map stacks of frames (B, K * 3, H, W), bytes, to the state without the last action.

    Args:
        frames: K.
        size: H and W.
        outputs: numbers of the state.
        body: of ``nbkit.policies_pixels``.
        width: of the features.

    """

    def __init__(
        self, frames: int, size: int, outputs: int, *, body: str = "small", width: int = 128
    ) -> None:
        super().__init__()
        self.frames, self.size = frames, size
        self.body = BODIES[body](3 * frames, size, width)
        self.head = nn.Linear(width, outputs)

    def forward(self, stacks: Tensor) -> Tensor:
        """Map (B, K * 3, H, W) to (B, S)."""
        return self.head(self.body(stacks.to(self.head.weight.dtype) / 255.0 - 0.5))


def state_of(env: ArmVectorEnv) -> Tensor:
    """Return the state (N, S) that a perception network is to say: the observation without the
    last action, which the agent knows anyway."""
    seen = env.core.observe()
    if env.core.task.model != "arm":
        raise ValueError("a perception network is for reach; push has its numbers in another order")
    return torch.from_numpy(seen[:, :-ACTION_SIZE])


def labelled_frames(
    env: ArmVectorEnv, camera: ArmCamera, *, frames: int, rounds: int, steps: int = 4, seed: int
) -> tuple[Tensor, Tensor]:
    """Look at arms that move at random.

    Each round begins new episodes, moves every arm with a speed of its own, slow ones as often as
    fast ones, and keeps the last stack.

    Args:
        env: N arms.
        camera: that looks at them.
        frames: K.
        rounds: R.
        steps: moves before a stack is kept; at least K - 1.
        seed: of placements and moves.

    Returns:
        stacks (R * N, K * 3, H, W) uint8 and states (R * N, S).

    """
    check_number("steps", steps, frames - 1)
    rng = np.random.default_rng(seed)
    stacks, states = [], []
    for _ in range(rounds):
        env.reset(seed=int(rng.integers(2**31)))
        size = (env.num_envs, ACTION_SIZE)
        actions = rng.uniform(-1, 1, size) * rng.uniform(0, 1, (env.num_envs, 1)) ** 2
        stack = FrameStack(frames, torch.from_numpy(camera.frames()))
        none = torch.zeros(env.num_envs, dtype=torch.bool)
        for t in range(steps):
            env.core.step(actions.astype(np.float32))
            if t >= steps - frames:
                stack.push(torch.from_numpy(camera.frames()), none)
        stacks.append(stack.stack)
        states.append(state_of(env))
    return torch.cat(stacks), torch.cat(states)


def teach(
    perception: Perception,
    stacks: Tensor,
    states: Tensor,
    *,
    steps: int,
    batch: int = 128,
    learning_rate: float = 1e-3,
    generator: torch.Generator,
) -> list[float]:
    """Regress the states on the frames; return the loss of each step.

    The learning rate falls to 0 along a cosine.

    Args:
        perception: trained in place.
        stacks: (M, K * 3, H, W) uint8.
        states: (M, S).
        steps: of Adam.
        batch: rows of a step.
        learning_rate: at first.
        generator: of the order.

    """
    optimiser = torch.optim.Adam(perception.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    losses = []
    for _ in range(steps):
        rows = torch.randint(0, len(stacks), (batch,), generator=generator)
        loss = (perception(stacks[rows]) - states[rows]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return losses


class SeeingArms:
    """A ``ControlEnv`` whose observations are what a perception network says, and the last action.

    Args:
        env: the arms; their true state is never returned.
        perception: in use, not trained here.

    """

    def __init__(self, env: ArmVectorEnv, perception: Perception) -> None:
        self.env, self.perception = env, perception
        self.camera = ArmCamera(env, perception.size)
        self.num_envs, self.action_space = env.num_envs, env.single_action_space
        self.observation_size = perception.head.out_features + ACTION_SIZE
        self._stack: FrameStack | None = None
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool)

    @torch.no_grad()
    def _say(self, stack: Tensor, last_action: Tensor) -> Tensor:
        return torch.cat([self.perception(stack), last_action], 1)

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere; return (N, S + 2)."""
        self.env.reset(seed=seed)
        self._stack = FrameStack(self.perception.frames, torch.from_numpy(self.camera.frames()))
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._say(self._stack.stack, torch.zeros(self.num_envs, ACTION_SIZE))

    def step(self, actions: Tensor) -> Transition:
        """Act, look, say what is seen."""
        if self._stack is None:
            raise RuntimeError("step was called before reset: call reset(seed) first")
        _, rewards, terminated, truncated, _ = self.env.step(actions.numpy())
        stack = self._stack.push(torch.from_numpy(self.camera.frames()), self._ended)
        valid = ~self._ended
        last = torch.where(valid[:, None], actions.clamp(-1, 1), 0.0).float()
        died, cut = torch.from_numpy(terminated), torch.from_numpy(truncated)
        self._ended = died | cut
        paid = torch.from_numpy(np.asarray(rewards, dtype=np.float32))
        return Transition(self._say(stack, last), paid, died, cut, valid)

    def get_state(self) -> dict[str, Any]:
        """Return the exact state."""
        if self._stack is None:
            raise RuntimeError("get_state was called before reset: call reset(seed) first")
        stack, ended = self._stack.stack.clone(), self._ended.clone()
        return {"env": self.env.get_state(), "stack": stack, "ended": ended}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue where ``get_state`` was called."""
        self.env.set_state(state["env"])
        self._stack = FrameStack(self.perception.frames, state["stack"][:, -3:])
        self._stack.stack = state["stack"].clone()
        self._ended = state["ended"].clone()

    def close(self) -> None:
        """Free the renderer."""
        self.camera.close()
