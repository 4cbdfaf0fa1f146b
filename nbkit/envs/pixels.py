"""Arms that are seen through a camera: frames in place of joint angles.

One frame shows where everything is and not how fast it moves, so the policy gets the last few. The
observation is flat, as ``ControlEnv`` wants it: K frames, each 3 colours of H x W, oldest first,
numbers 0 to 255.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.control.environments import Transition
from nbkit.envs.arm_envs import ArmVectorEnv
from nbkit.envs.rendering import SceneRenderer

CAMERA = "overhead"


class FrameStack:
    """The last K frames of N environments, on any device.

    Args:
        frames: K.
        first: (N, C, H, W) frames of the first observations.

    """

    def __init__(self, frames: int, first: Tensor) -> None:
        check_number("frames", frames, 1)
        self.frames = frames
        self.stack = first.repeat(1, frames, 1, 1)

    def push(self, newest: Tensor, new_episode: Tensor) -> Tensor:
        """Add frames (N, C, H, W); where an episode begins, it fills the whole stack.

        A stack that runs on over a reset would show a motion that never was.

        Args:
            newest: the frames after a step.
            new_episode: (N,) bool.

        Returns:
            (N, K * C, H, W), a tensor of its own.

        """
        channels = newest.shape[1]
        moved = torch.cat([self.stack[:, channels:], newest], dim=1)
        fresh = newest.repeat(1, self.frames, 1, 1)
        self.stack = torch.where(new_episode.view(-1, 1, 1, 1), fresh, moved)
        return self.stack


class ArmCamera:
    """Draws all arms of a vector environment, (N, 3, H, W) uint8.

    Args:
        env: what is drawn.
        size: H and W.

    """

    def __init__(self, env: ArmVectorEnv, size: int) -> None:
        check_number("size", size, 8)
        self.core = env.core
        self.renderer = SceneRenderer(self.core.models[0], size, size, tiles=env.num_envs)

    def frames(self) -> NDArray[np.uint8]:
        """Return the frames as they are now."""
        core = self.core
        pictures = self.renderer.render_many(core.models, core.datas, CAMERA)
        return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))

    def close(self) -> None:
        """Free the renderer."""
        self.renderer.close()


class PixelArms:
    """A ``ControlEnv`` of arms seen through a camera, in this process.

    Args:
        env: the arms.
        size: H and W of a frame.
        frames: K, how many the policy sees.

    """

    def __init__(self, env: ArmVectorEnv, *, size: int = 64, frames: int = 3) -> None:
        self.env, self.size, self.frames = env, size, frames
        self.num_envs = env.num_envs
        self.action_space = env.single_action_space
        self.observation_size = 3 * frames * size * size
        self.camera = ArmCamera(env, size)
        self._stack: FrameStack | None = None
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool)
        self.successes = 0

    def _seen(self) -> Tensor:
        return torch.from_numpy(self.camera.frames())

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere; return the observations (N, K * 3 * H * W)."""
        self.env.reset(seed=seed)
        self._stack = FrameStack(self.frames, self._seen())
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._stack.stack.flatten(1).float()

    def step(self, actions: Tensor) -> Transition:
        """Act, and look."""
        if self._stack is None:
            raise RuntimeError("step was called before reset: call reset(seed) first")
        _, rewards, terminated, truncated, _ = self.env.step(actions.numpy())
        stack = self._stack.push(self._seen(), self._ended)
        valid = ~self._ended
        died, cut = torch.from_numpy(terminated), torch.from_numpy(truncated)
        self._ended = died | cut
        return Transition(
            stack.flatten(1).float(),
            torch.from_numpy(np.asarray(rewards, dtype=np.float32)),
            died,
            cut,
            valid,
        )

    def get_state(self) -> dict[str, Any]:
        """Return the exact state."""
        if self._stack is None:
            raise RuntimeError("get_state was called before reset: call reset(seed) first")
        stack, ended = self._stack.stack.clone(), self._ended.clone()
        return {"env": self.env.get_state(), "stack": stack, "ended": ended}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue where ``get_state`` was called."""
        self.env.set_state(state["env"])
        self._stack = FrameStack(self.frames, self._seen())
        self._stack.stack = state["stack"].clone()
        self._ended = state["ended"].clone()

    def close(self) -> None:
        """Free the renderer."""
        self.camera.close()
        self.env.close()
