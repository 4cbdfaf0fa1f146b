"""Small films of arms: frames from the camera at the side, and a GIF that fits into a page."""

import base64
import html
import io
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.envs.arm_envs import ArmVectorEnv
from nbkit.envs.rendering import SceneRenderer

Picture = NDArray[np.uint8]
LARGEST_BYTES = 300_000


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


def side_by_side(films: Sequence[Sequence[Picture]]) -> list[Picture]:
    """Join films frame by frame; a shorter one stands still at its end."""
    length = max(len(frames) for frames in films)
    held = [[*frames, *[frames[-1]] * (length - len(frames))] for frames in films]
    return [np.concatenate(frames, axis=1) for frames in zip(*held, strict=True)]


def gif(frames: Sequence[Picture], *, fps: float = 12.5, colours: int = 24) -> bytes:
    """Encode a film that plays for ever.

    Args:
        frames: (H, W, 3) uint8 each.
        fps: frames a second.
        colours: of the palette, one for the whole film.

    Raises:
        ValueError: no frame, or a file over ``LARGEST_BYTES``.

    """
    if not frames:
        raise ValueError("frames: a film needs at least one")
    check_number("fps", fps, 0.0, open_low=True)
    whole = Image.fromarray(np.concatenate(list(frames[:: max(1, len(frames) // 8)])))
    palette = whole.quantize(colours)
    pictures = [
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in frames
    ]
    buffer = io.BytesIO()
    pictures[0].save(
        buffer,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=round(1000 / fps),
        loop=0,
        optimize=True,
    )
    data = buffer.getvalue()
    if len(data) > LARGEST_BYTES:
        raise ValueError(
            f"the film takes {len(data) / 1000:.0f} kB, more than {LARGEST_BYTES / 1000:.0f}: use "
            "fewer frames, fewer colours or a smaller size"
        )
    return data


def film_html(data: bytes, alt: str) -> str:
    """Return an HTML figure that holds the film.

    Args:
        data: from ``gif``.
        alt: what is to be seen.

    """
    encoded = base64.b64encode(data).decode()
    return f'<img src="data:image/gif;base64,{encoded}" alt="{html.escape(alt, quote=True)}">'
