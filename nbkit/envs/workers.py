"""Many processes of arms: each steps and draws its share, all write into shared memory.

Physics and drawing are the bottleneck of pixels, and Python runs one thread at a time. So the arms
are dealt to processes. Actions go in and frames come out through shared memory; a pipe a process
only says "go" and "done".
"""

import contextlib
import multiprocessing as mp
import time
import traceback
from collections.abc import Callable, Sequence
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
END_S = 10.0  # that a process has to end when asked, and again when told


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


def _end(processes: Sequence[Any]) -> None:
    """Wait for all; terminate those that do not end, and kill those that do not hear that."""
    for harder in ("terminate", "kill"):
        deadline = time.monotonic() + END_S
        for process in processes:
            process.join(timeout=max(0.0, deadline - time.monotonic()))
        for process in processes:
            if process.is_alive():
                getattr(process, harder)()
    for process in processes:
        process.join()


class PixelWorkers:
    """N arms in P processes, drawn.

    Args:
        processes: P.
        arms: in each process; N is P times this.
        size: H and W of a frame.
        make: ``VectorReach`` or ``VectorPush``.
        **settings: of ``make``.

    Raises:
        RuntimeError: a process failed, and the message holds its own; or ``step`` or ``reset`` was
            called after that or after ``close``.

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
        self._pipes: list[Any] = []
        self._processes: list[Any] = []
        self._closed = self._failed = False
        try:
            for p in range(processes):
                ours, theirs = context.Pipe()
                self._pipes.append(ours)
                rows = slice(p * arms, (p + 1) * arms)
                arguments = (theirs, self._memory.name, self.num_envs, size, rows, make, settings)
                process = context.Process(target=_serve, args=arguments, daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
            self._await("ready")
        except BaseException:
            self.close()
            raise

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise RuntimeError(f"{what} was called after close: make new PixelWorkers")
        if self._failed:
            raise RuntimeError(
                f"{what} was called after a process failed: close these PixelWorkers and make new "
                "ones"
            )

    def _exchange(self, words: Sequence[Any]) -> None:
        """Send each process its word and wait for all of them; a failure is remembered."""
        try:
            self._send(words)
            self._await("done")
        except BaseException:
            self._failed = True
            raise

    def _send(self, words: Sequence[Any]) -> None:
        """Send each process its word; one that is gone may have left a last one, which is told."""
        for i, (pipe, word) in enumerate(zip(self._pipes, words, strict=True)):
            try:
                pipe.send(word)
            except OSError as error:
                raise RuntimeError(f"environment process {i} {self._last_word(pipe)}") from error

    @staticmethod
    def _last_word(pipe: Any) -> str:
        word = "done"
        with contextlib.suppress(EOFError, OSError):
            while pipe.poll():
                word = pipe.recv()
        return "died without a word" if word in ("ready", "done") else f"failed:\n{word}"

    def _await(self, expected: str) -> None:
        for i, pipe in enumerate(self._pipes):
            if not pipe.poll(TIMEOUT_S):
                raise RuntimeError(f"environment process {i} is silent for {TIMEOUT_S:.0f} s")
            try:
                word = pipe.recv()
            except (EOFError, OSError) as error:  # a killed process resets the connection
                raise RuntimeError(f"environment process {i} died without a word") from error
            if word != expected:
                raise RuntimeError(f"environment process {i} failed:\n{word}")

    def reset(self, seed: int) -> Tensor:
        """Begin new episodes everywhere; return frames (N, 3, H, W) uint8, in shared memory."""
        self._check_open("reset")
        self._exchange([seed + 100_003 * i for i in range(len(self._pipes))])
        return torch.from_numpy(self._views["frames"])

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Act everywhere.

        Args:
            actions: (N, 2) on the CPU.

        Returns:
            frames (N, 3, H, W) uint8, rewards (N,), terminated (N,), truncated (N,): views of
            shared memory that the next call overwrites. ``close`` unmaps it, and reading a view
            afterwards kills the process: copy what is to stay. Autoreset is next-step.

        """
        self._check_open("step")
        self._views["actions"][:] = actions.numpy()
        self._exchange(["step"] * len(self._pipes))
        names = ("frames", "rewards", "terminated", "truncated")
        frames, rewards, terminated, truncated = (torch.from_numpy(self._views[n]) for n in names)
        return frames, rewards, terminated, truncated

    def close(self) -> None:
        """End the processes, in what state they may be, and free the memory; twice is no harm."""
        if self._closed:
            return
        self._closed = True
        try:
            for pipe in self._pipes:
                with contextlib.suppress(OSError):  # its process is gone
                    pipe.send(None)
            _end(self._processes)
        finally:
            for pipe in self._pipes:
                pipe.close()
            self._free()

    def _free(self) -> None:
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
