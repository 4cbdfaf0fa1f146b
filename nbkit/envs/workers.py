"""Many processes of arms: each steps and draws its share, all write into shared memory.

Physics and drawing are the bottleneck of pixels, and Python runs one thread at a time. So the arms
are dealt to processes. Actions go in and frames come out through shared memory; a pipe a process
only says "go" and "done".
"""

import multiprocessing as mp
import traceback
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.envs.arm_core import ACTION_SIZE
from nbkit.envs.arm_envs import ArmVectorEnv
from nbkit.envs.pixels import ArmCamera
from nbkit.envs.reach import VectorReach

MakeArms = Callable[..., ArmVectorEnv]
TIMEOUT_S = 120.0


def _fields(num_envs: int, size: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    return {
        "frames": ((num_envs, 3, size, size), np.uint8),
        "actions": ((num_envs, ACTION_SIZE), np.float32),
        "rewards": ((num_envs,), np.float32),
        "terminated": ((num_envs,), np.bool_),
        "truncated": ((num_envs,), np.bool_),
    }


def _views(memory: SharedMemory, num_envs: int, size: int) -> dict[str, Any]:
    views: dict[str, Any] = {}
    offset = 0
    for name, (shape, dtype) in _fields(num_envs, size).items():
        views[name] = np.ndarray(shape, dtype, buffer=memory.buf, offset=offset)
        offset += -(-views[name].nbytes // 64) * 64
    return views


def _bytes(num_envs: int, size: int) -> int:
    each = (np.prod(s) * np.dtype(d).itemsize for s, d in _fields(num_envs, size).values())
    return int(sum(-(-int(n) // 64) * 64 for n in each))


def _serve(
    pipe: Any,
    name: str,
    num_envs: int,
    size: int,
    rows: slice,
    make: MakeArms,
    settings: dict[str, Any],
) -> None:
    """What one process does: wait for a word, step or reset its rows, answer."""
    memory = SharedMemory(name=name)
    views = {key: view[rows] for key, view in _views(memory, num_envs, size).items()}
    try:
        env = make(rows.stop - rows.start, **settings)
        camera = ArmCamera(env, size)
        pipe.send("ready")
        while (word := pipe.recv()) is not None:
            if isinstance(word, int):
                env.reset(seed=word)
            else:
                _, rewards, terminated, truncated, _ = env.step(views["actions"])
                views["rewards"][:] = rewards
                views["terminated"][:], views["truncated"][:] = terminated, truncated
            views["frames"][:] = camera.frames()
            pipe.send("done")
        camera.close()
    except Exception:
        pipe.send(traceback.format_exc())
    finally:
        views.clear()
        memory.close()


class PixelWorkers:
    """N arms in P processes, drawn.

    Args:
        processes: P.
        arms: in each process; N is P times this.
        size: H and W of a frame.
        make: ``VectorReach`` or ``VectorPush``.
        **settings: of ``make``.

    Errors:
        RuntimeError: a process failed; the message holds its own.

    """

    def __init__(
        self,
        processes: int,
        arms: int,
        *,
        size: int = 64,
        make: MakeArms = VectorReach,
        **settings: Any,
    ) -> None:
        check_number("processes", processes, 1)
        check_number("arms", arms, 1)
        self.num_envs = processes * arms
        self._memory = SharedMemory(create=True, size=_bytes(self.num_envs, size))
        self._views = _views(self._memory, self.num_envs, size)
        context = mp.get_context("spawn")  # a forked process would share the parent's driver
        self._pipes, self._processes = [], []
        for p in range(processes):
            ours, theirs = context.Pipe()
            rows = slice(p * arms, (p + 1) * arms)
            arguments = (theirs, self._memory.name, self.num_envs, size, rows, make, settings)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self._await("ready")

    def _await(self, expected: str) -> None:
        for i, pipe in enumerate(self._pipes):
            if not pipe.poll(TIMEOUT_S):
                raise RuntimeError(f"environment process {i} is silent for {TIMEOUT_S:.0f} s")
            try:
                word = pipe.recv()
            except EOFError as error:
                raise RuntimeError(f"environment process {i} died without a word") from error
            if word != expected:
                raise RuntimeError(f"environment process {i} failed:\n{word}")

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere; return frames (N, 3, H, W) uint8, in shared memory."""
        for i, pipe in enumerate(self._pipes):
            pipe.send(seed + 100_003 * i)
        self._await("done")
        return torch.from_numpy(self._views["frames"])

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Act everywhere.

        Args:
            actions: (N, 2) on the CPU.

        Returns:
            frames (N, 3, H, W) uint8, rewards (N,), terminated (N,), truncated (N,): views of
            shared memory that the next call overwrites. Autoreset is next-step.

        """
        self._views["actions"][:] = actions.numpy()
        for pipe in self._pipes:
            pipe.send("step")
        self._await("done")
        names = ("frames", "rewards", "terminated", "truncated")
        frames, rewards, terminated, truncated = (torch.from_numpy(self._views[n]) for n in names)
        return frames, rewards, terminated, truncated

    def close(self) -> None:
        """End the processes and free the memory."""
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(timeout=10)
            if process.is_alive():
                process.terminate()
        self._pipes.clear()
        self._views.clear()
        self._memory.close()
        self._memory.unlink()


class LocalArms:
    """The same as ``PixelWorkers`` in this process: for tests, and for machines of one core.

    Args:
        arms: N.
        size: H and W of a frame.
        make: ``VectorReach`` or ``VectorPush``.
        **settings: of ``make``.

    """

    def __init__(
        self, arms: int, *, size: int = 64, make: MakeArms = VectorReach, **settings: Any
    ) -> None:
        self.env = make(arms, **settings)
        self.num_envs = arms
        self.camera = ArmCamera(self.env, size)

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere; return frames (N, 3, H, W) uint8."""
        self.env.reset(seed=seed)
        return torch.from_numpy(self.camera.frames())

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Act everywhere; see ``PixelWorkers.step``."""
        _, rewards, terminated, truncated, _ = self.env.step(actions.numpy())
        return (
            torch.from_numpy(self.camera.frames()),
            torch.from_numpy(np.asarray(rewards, dtype=np.float32)),
            torch.from_numpy(terminated),
            torch.from_numpy(truncated),
        )

    def close(self) -> None:
        """Free the renderer."""
        self.camera.close()
