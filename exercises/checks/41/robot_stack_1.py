"""robot.stack.1: the last K frames, not those of the episode before."""

import torch

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits


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


CHECK = Check(
    id="robot.stack.1",
    outputs=(Output("stacks", "(T, K, N)"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "runs on over resets",
            "torch.where(fresh, frame.expand(count, -1), moved)",
            "moved",
            "frames of the episode before are still in the stack after a reset: they show "
            "a jump that no arm made",
        ),
        edit(
            "newest first",
            "(seen)",
            "(seen).flip(1)",
            "the newest frame comes first; here the oldest does",
        ),
        edits(
            "filled with zeros",
            (
                "frames[:1].expand(count, -1)",
                "torch.zeros(count, frames.shape[1], dtype=frames.dtype)",
            ),
            (
                "        moved = torch",
                "        stack = torch.where(fresh, 0.0, stack)\n        moved = torch",
            ),
            ("torch.where(fresh, frame.expand(count, -1), moved)", "moved"),
            message="a new episode's stack is filled with zeros: repeat the first frame, which "
            "shows an arm at rest",
        ),
        edit(
            "all are reset",
            "begins,",
            "begins.any(dim=1, keepdim=True).expand_as(begins),",
            "one environment's new episode clears the stacks of all: reset each by itself",
        ),
        edit(
            "one step late",
            "begins,",
            "torch.cat([begins[:1], begins[:-1]]),",
            "the stack is refilled one step after the episode began: `begins[t]` speaks "
            "of `frames[t]`",
        ),
        edits(
            "the newest frame missing",
            ("        moved = torch.cat([stack[1:], frame[None]])\n", ""),
            ("-1), moved)", "-1), stack)"),
            (
                "seen.append(stack)",
                "seen.append(stack)\n        stack = torch.cat([stack[1:], frame[None]])",
            ),
            message="the stack of a step lacks that step's own frame: push first, then look",
        ),
    ),
    not_tested="memory: real frames are bytes, and a stack stores each of them K times.",
    wide=("frames",),
)
