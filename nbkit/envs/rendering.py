"""Pictures without a display: a back-end that works is found, and used for many arms at once.

MuJoCo draws with OpenGL, which wants a window. Without one there are two ways: EGL, which asks the
graphics driver for a surface off screen, and OSMesa, which computes the pixels on the processor.
"""

import atexit
import importlib
import os
import weakref
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbkit._inputs import check_choice
from nbkit.envs.opengl import (
    BACKENDS,
    INSTALL,
    NoRenderer,
    backend_works,
    does_not_open,
    import_mujoco,
)

if TYPE_CHECKING:
    from mujoco import MjData, MjModel

mujoco = import_mujoco()
Image = NDArray[np.uint8]


def draw_on(device: int) -> bool:
    """Let EGL draw on one of its devices, for this process and those that it starts.

    The number goes into ``MUJOCO_EGL_DEVICE_ID`` if EGL opens there; else EGL's choice stays.

    Args:
        device: as EGL counts them, which is mostly as CUDA does.

    Returns:
        whether it opens there.

    """
    before = os.environ.get("MUJOCO_EGL_DEVICE_ID")
    os.environ["MUJOCO_EGL_DEVICE_ID"] = str(device)
    if backend_works("egl"):
        return True
    del os.environ["MUJOCO_EGL_DEVICE_ID"]
    if before is not None:
        os.environ["MUJOCO_EGL_DEVICE_ID"] = before
    return False


@cache
def choose_backend() -> str:
    """Return "egl" or "osmesa": what ``MUJOCO_GL`` names, else the first that opens here.

    The choice is written to ``MUJOCO_GL``, so that processes started later need not look again.

    Raises:
        NoRenderer: neither opens, or ``MUJOCO_GL`` names something else.

    """
    named = os.environ.get("MUJOCO_GL", "").lower()
    if named:
        if named not in BACKENDS:
            raise NoRenderer(
                f"MUJOCO_GL is {named!r}, which needs a display: set it to egl or osmesa, or "
                "unset it"
            )
        return named
    for name in BACKENDS:
        if backend_works(name):
            os.environ["MUJOCO_GL"] = name
            return name
    raise NoRenderer(f"neither EGL nor OSMesa opens here: install one of them, {INSTALL}")


def _context(width: int, height: int) -> Any:
    name = choose_backend()
    try:
        return importlib.import_module(f"mujoco.{name}").GLContext(width, height)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise does_not_open(name, error) from error


class SceneRenderer:
    """Draws scenes of one model, or of variants that differ in numbers only.

    Several arms are drawn side by side into one buffer, which is read back once: on a GPU reading
    is what costs.

    Args:
        model: a ``mujoco.MjModel``.
        height, width: of one picture, in pixels.
        tiles: pictures that one reading holds.
        smooth: draw round things with many sides, for people to look at.

    Raises:
        NoRenderer: see ``choose_backend``.

    """

    def __init__(
        self, model: "MjModel", height: int, width: int, *, tiles: int = 1, smooth: bool = False
    ) -> None:
        self.height, self.width, self.tiles = height, width, tiles
        self.columns = int(np.ceil(np.sqrt(tiles)))
        self.rows = -(-tiles // self.columns)
        model.vis.global_.offwidth = max(self.columns * width, 64)
        model.vis.global_.offheight = max(self.rows * height, 64)
        quality = model.vis.quality
        as_written = (quality.numslices, quality.numstacks)
        if smooth:
            quality.numslices, quality.numstacks = 28, 16
        self._gl = _context(self.columns * width, self.rows * height)
        self._gl.make_current()
        self._scene = mujoco.MjvScene(model, maxgeom=64)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SKYBOX] = 0
        self._buffers = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
        quality.numslices, quality.numstacks = as_written  # the context has its meshes now
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._buffers)
        self._option, self._perturb = mujoco.MjvOption(), mujoco.MjvPerturb()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        shape = (self.rows * height, self.columns * width, 3)
        self._pixels = np.zeros(shape, dtype=np.uint8)
        self._finalizer = weakref.finalize(self, _free, self._gl, self._buffers)
        self._finalizer.atexit = False
        _OPEN.add(self)
        _close_at_exit()

    def render(self, model: "MjModel", data: "MjData", camera: str) -> Image:
        """Return one picture (H, W, 3)."""
        return self.render_many([model], [data], camera)[0]

    def render_many(
        self, models: Sequence["MjModel"], datas: Sequence["MjData"], camera: str
    ) -> Image:
        """Return pictures (N, H, W, 3) of N arms; N is at most ``tiles``.

        Raises:
            ValueError: more arms than tiles.

        """
        check_choice("camera", camera, ("side", "overhead"))
        if len(datas) > self.tiles:
            raise ValueError(f"{len(datas)} arms, but the renderer was made for {self.tiles}")
        self._gl.make_current()
        self._camera.fixedcamid = ("overhead", "side").index(camera)
        category = mujoco.mjtCatBit.mjCAT_ALL
        for i, (model, data) in enumerate(zip(models, datas, strict=True)):
            row, column = divmod(i, self.columns)
            place = mujoco.MjrRect(column * self.width, row * self.height, self.width, self.height)
            mujoco.mjv_updateScene(
                model, data, self._option, self._perturb, self._camera, category, self._scene
            )
            mujoco.mjr_render(place, self._scene, self._buffers)
        whole = mujoco.MjrRect(0, 0, self.columns * self.width, self.rows * self.height)
        mujoco.mjr_readPixels(self._pixels, None, whole, self._buffers)
        tiles = self._pixels.reshape(self.rows, self.height, self.columns, self.width, 3)
        # OpenGL's first row is the lowest one.
        pictures = tiles.transpose(0, 2, 1, 3, 4)[:, :, ::-1]
        return pictures.reshape(-1, self.height, self.width, 3)[: len(datas)].copy()

    def close(self) -> None:
        """Free the context."""
        self._finalizer()


_OPEN: "weakref.WeakSet[SceneRenderer]" = weakref.WeakSet()


@cache
def _close_at_exit() -> None:
    """Close what is open before MuJoCo, which registered earlier, ends the connection to EGL."""
    atexit.register(_close_all)


def _close_all() -> None:
    for renderer in list(_OPEN):
        renderer.close()


def _free(gl: Any, buffers: Any) -> None:
    gl.make_current()
    buffers.free()
    gl.free()
