"""Pictures of an arm that acts, from the camera at the side; ``nbkit.plots.film`` encodes them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nbkit.envs.arm_envs import ArmVectorEnv
from nbkit.envs.rendering import SceneRenderer

Picture = NDArray[np.uint8]


def film(
    env: ArmVectorEnv,
    act: Callable[[Tensor], Tensor],
    observe: Callable[[Tensor], Tensor],
    first: Tensor,
    *,
    steps: int,
    size: tuple[int, int] = (150, 200),
    every: int = 1,
) -> list[Picture]:
    """Let a policy act and draw the first arm from the side.

    Args:
        env: already reset; stepped through ``observe``.
        act: from observations to what ``observe`` takes.
        observe: acts, and returns the next observations.
        first: observations to begin with.
        steps: to act for.
        size: height and width of a frame.
        every: draw one step in so many.

    """
    renderer = SceneRenderer(env.core.models[0], *size, smooth=True)
    observations, frames = first, []
    for t in range(steps):
        if t % every == 0:
            core = env.core
            frames.append(renderer.render(core.models[0], core.datas[0], "side"))
        observations = observe(act(observations))
    renderer.close()
    return frames
