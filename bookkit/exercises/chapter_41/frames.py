"""robot.stack.1: the last K frames, not those of the episode before."""

import torch
from torch import Tensor

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output


def stack_frames(frames: Tensor, begins: Tensor, count: int) -> Tensor:
    """At the beginning of an episode its first frame fills the stack."""
    stack = frames[:1].expand(count, -1)
    seen = []
    for frame, fresh in zip(frames, begins, strict=True):
        moved = torch.cat([stack[1:], frame[None]])
        stack = torch.where(fresh, frame.expand(count, -1), moved)
        seen.append(stack)
    return torch.stack(seen)


def oracle(
    frames: list[list[float]], begins: list[list[bool]], count: int
) -> list[list[list[float]]]:
    """Look back to the latest beginning, frame by frame."""
    rows = []
    for t in range(len(frames)):
        row = []
        for k in range(count):
            entry = []
            for n in range(len(frames[0])):
                start = max((s for s in range(t + 1) if begins[s][n]), default=0)
                entry.append(frames[max(start, t - (count - 1 - k))][n])
            row.append(entry)
        rows.append(row)
    return rows


def cases(draw: Draw) -> Case:
    """Frames of one number each."""
    steps, envs = draw.dimension(2), draw.dimension()
    begins = ~draw.holed_mask(steps, envs)
    begins[0] = True
    inputs = {
        "frames": draw.normal(steps, envs),
        "begins": begins,
        "count": draw.integer(1, 3),
    }
    return Case(f"{steps} × {envs}", inputs)


def edges() -> tuple[Case, ...]:
    """One step, one frame, an episode that begins in the middle, two environments that differ."""

    def case(name: str, frames: list[list[float]], begins: list[list[int]], count: int) -> Case:
        inputs = {
            "frames": torch.tensor(frames, dtype=torch.float64),
            "begins": torch.tensor(begins).bool(),
            "count": count,
        }
        return Case(name, inputs)

    return (
        case("one step", [[3.0]], [[1]], 3),
        case("one frame a stack", [[3.0], [4.0]], [[1], [0]], 1),
        case("four steps", [[1.0], [2.0], [3.0], [4.0]], [[1], [0], [0], [0]], 3),
        case("a reset", [[1.0], [2.0], [3.0], [4.0]], [[1], [0], [1], [0]], 3),
        case("a reset at each step", [[1.0], [2.0], [3.0]], [[1], [1], [1]], 2),
        case(
            "one of two is reset",
            [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [4.0, 8.0]],
            [[1, 1], [0, 0], [0, 1], [0, 0]],
            2,
        ),
    )


def _runs_on(frames: Tensor, begins: Tensor, count: int) -> Tensor:
    first = torch.zeros_like(begins)
    first[0] = begins[0]
    return stack_frames(frames, first, count)


def _newest_first(frames: Tensor, begins: Tensor, count: int) -> Tensor:
    return stack_frames(frames, begins, count).flip(1)


def _zeros(frames: Tensor, begins: Tensor, count: int) -> Tensor:
    stack = torch.zeros(count, frames.shape[1], dtype=frames.dtype)
    seen = []
    for frame, fresh in zip(frames, begins, strict=True):
        stack = torch.where(fresh, 0.0, stack)
        stack = torch.cat([stack[1:], frame[None]])
        seen.append(stack)
    return torch.stack(seen)


def _everybody(frames: Tensor, begins: Tensor, count: int) -> Tensor:
    return stack_frames(frames, begins.any(dim=1, keepdim=True).expand_as(begins), count)


def _one_late(frames: Tensor, begins: Tensor, count: int) -> Tensor:
    return stack_frames(frames, torch.cat([begins[:1], begins[:-1]]), count)


def _without_newest(frames: Tensor, begins: Tensor, count: int) -> Tensor:
    stack = frames[:1].expand(count, -1)
    seen = []
    for frame, fresh in zip(frames, begins, strict=True):
        stack = torch.where(fresh, frame.expand(count, -1), stack)
        seen.append(stack)
        stack = torch.cat([stack[1:], frame[None]])
    return torch.stack(seen)


STACK = Exercise(
    id="robot.stack.1",
    title="A stack of frames",
    chapter=41,
    difficulty=3,
    minutes=20,
    goal=(
        "For each step the last K frames of its own episode, oldest first. Where there are fewer, "
        "the episode's first frame is repeated."
    ),
    outputs=(Output("stacks", "(T, K, N)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=stack_frames,
    mutants=(
        Mutant(
            "runs on over resets",
            _runs_on,
            "frames of the episode before are still in the stack after a reset: they show a jump "
            "that no arm made",
        ),
        Mutant("newest first", _newest_first, "the newest frame comes first; here the oldest does"),
        Mutant(
            "filled with zeros",
            _zeros,
            "a new episode's stack is filled with zeros: repeat the first frame, which shows an "
            "arm at rest",
        ),
        Mutant(
            "all are reset",
            _everybody,
            "one environment's new episode clears the stacks of all: reset each by itself",
        ),
        Mutant(
            "one step late",
            _one_late,
            "the stack is refilled one step after the episode began: `begins[t]` speaks of "
            "`frames[t]`",
        ),
        Mutant(
            "the newest frame missing",
            _without_newest,
            "the stack of a step lacks that step's own frame: push first, then look",
        ),
    ),
    not_tested="memory: real frames are bytes, and a stack stores each of them K times.",
)
