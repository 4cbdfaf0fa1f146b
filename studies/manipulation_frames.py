"""Frames a second of the arm seen through a camera: back-ends, processes, pictures a reading.

Protocol: 16 arms a process, random actions, frames of 64 x 64. Each arrangement warms up for 5
steps and is then timed for ``--seconds``: physics alone; drawing with one reading a picture, with
one reading for all, and with round things of 28 sides; and both in ``--processes`` processes.
Rates are given by the clock and by the processor. A software renderer is kept to one thread, so
that its processor seconds mean the same on a machine that is shared; only an idle one gives the
rates of several processes, which are by the clock.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bookkit.authoring.study import start_study
from nbkit.envs.pixels import ArmCamera
from nbkit.envs.reach import VectorReach
from nbkit.envs.rendering import BACKENDS, SceneRenderer, backend_works, choose_backend
from nbkit.envs.workers import PixelWorkers
from studies._arm_runs import picture_figures
from studies._frame import Frame

SIZE, ARMS = 64, 16
SEEDS = (41,)


Rate = dict[str, float]


def timed(step: Any, seconds: float, each: int) -> Rate:
    """``each`` times the calls a second, by the clock and by the processor."""
    for _ in range(5):
        step()
    clock, processor, calls = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - clock < seconds:
        step()
        calls += 1
    return {
        "clock": each * calls / (time.perf_counter() - clock),
        "processor": each * calls / (time.process_time() - processor),
    }


def physics_rate(seconds: float) -> Rate:
    """Steps a second without drawing, one process."""
    env = VectorReach(ARMS)
    env.reset(seed=SEEDS[0])
    rng = np.random.default_rng(SEEDS[0])
    return timed(lambda: env.step(rng.uniform(-1, 1, (ARMS, 2)).astype(np.float32)), seconds, ARMS)


def drawing_rates(seconds: float) -> dict[str, Rate]:
    """Frames a second of drawing alone, in three ways."""
    env = VectorReach(ARMS)
    env.reset(seed=SEEDS[0])
    single = SceneRenderer(env.core.models[0], SIZE, SIZE)
    model, models, datas = env.core.models[0], env.core.models, env.core.datas

    def one_by_one() -> None:
        for data in datas:
            single.render(model, data, "overhead")

    one = timed(one_by_one, seconds, ARMS)
    single.close()
    camera = ArmCamera(env, SIZE)
    together = timed(camera.frames, seconds, ARMS)
    camera.close()
    smooth = SceneRenderer(model, SIZE, SIZE, tiles=ARMS, smooth=True)
    many_sides = timed(lambda: smooth.render_many(models, datas, "overhead"), seconds, ARMS)
    smooth.close()
    return {"one by one": one, "together": together, "28 sides": many_sides}


def worker_rate(processes: int, seconds: float) -> float:
    """Steps with frames a second of all processes together."""
    workers = PixelWorkers(processes, ARMS, size=SIZE)
    workers.reset(SEEDS[0])
    generator = torch.Generator().manual_seed(SEEDS[0])
    n = workers.num_envs

    def step() -> None:
        workers.step(torch.rand(n, 2, generator=generator) * 2 - 1)

    rate = timed(step, seconds, n)["clock"]
    workers.close()
    return rate


def renderer_name() -> str:
    """What OpenGL calls the device that draws."""
    env = VectorReach(1)
    env.reset(seed=0)
    camera = ArmCamera(env, SIZE)
    camera.frames()
    from OpenGL import GL  # only after the back-end was chosen: the import fixes the platform

    name = GL.glGetString(GL.GL_RENDERER)
    camera.close()
    return name.decode() if name else "unknown"


def head() -> dict[str, float]:
    """What is drawn at the start and after ten actions, and where the arms are then."""
    os.environ.setdefault("LP_NUM_THREADS", "0")
    env = VectorReach(4)
    env.reset(seed=SEEDS[0])
    camera = ArmCamera(env, SIZE)
    found = picture_figures(torch.from_numpy(camera.frames()), "start")
    rng = np.random.default_rng(SEEDS[0])
    for _ in range(10):
        seen = env.step(rng.uniform(-1, 1, (4, 2)).astype(np.float32))[0]
    found |= picture_figures(torch.from_numpy(camera.frames()), "after 10 steps")
    camera.close()
    return found | {f"after 10 steps: seen {i}": float(x) for i, x in enumerate(seen[0])}


def measure(out: Path, processes: str = "", seconds: float = 4.0) -> None:
    """Measure on this machine; ``--processes 1,2,4,8,16`` times several, if it is idle."""
    os.environ.setdefault("LP_NUM_THREADS", "0")  # Mesa's software renderer: no threads of its own
    works = {name: backend_works(name) for name in BACKENDS}
    print("back-ends:", works, "; chosen:", choose_backend(), flush=True)
    study = start_study(out, seeds=SEEDS, config={"size": SIZE, "arms": ARMS, "seconds": seconds})
    result: dict[str, Any] = {
        "backends": works,
        "backend": choose_backend(),
        "renderer": renderer_name(),
        "cores": os.cpu_count(),
        "physics": physics_rate(seconds),
        "drawing": drawing_rates(seconds),
        "workers": [],
    }
    print(result, flush=True)
    for count in [int(part) for part in processes.split(",") if part]:
        rate = worker_rate(count, seconds)
        result["workers"].append({"processes": count, "frames_per_s": rate})
        print(f"{count} processes: {rate:.0f} frames a second", flush=True)
    study.finish(result)


# Renderers differ in the edges of things; the physics does not.
TOLERANCES = {"brightness": 3.0, "seen": 1e-3}
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
