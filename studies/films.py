"""Films of the book's agents along their training, with the return of the filmed episode in each.

Protocol, fixed before the run: the settings of chapters 12 and 41 and one seed. CartPole, Pendulum
and MountainCar (shaped and normalised) get 200,000 steps, which changes their budget and with it
the pace at which the learning rate falls; LunarLander is stopped at 1,000,000 of its 1,500,000
steps; the arm, FetchReachDense and HalfCheetah use the budgets of chapter 41. Of each task the
agent is kept before training and at three marks. All four then play the same first state, once,
with the most likely action; MountainCar is played and paid as the plain task. Of the cheetah the
first 300 of its 1,000 steps are filmed, of the arms 100 steps from target to target. No episode was
chosen: what the film shows is what that one first state gave.

Beside the result stand the films (WebP) and their last frames. The result holds the SHA-256 of
each: pages, README and landing page show a film only if it is the one that the result names.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bookkit.authoring.study import start_study
from nbkit.plots import Film, beside, film
from nbkit.recipes.arm_settings import REACH
from nbkit.runs.sha256 import file_digest
from nbkit.trainers.ppo import PPOTrainer
from studies import _ppo_head as ppo
from studies import manipulation_others as others
from studies._filming import Agent, Episode, agents_along, arm_episode, gym_episode
from studies._frame import Frame, first_updates
from studies._ppo_settings import (
    CARTPOLE,
    LUNAR_LANDER,
    MOUNTAIN_CAR_SHAPED_NORMALISED,
    PENDULUM,
    Task,
)

SEED, FILM_SEED = 1, 10_001
BUDGET = 200_000
MARKS = (0, 5_000, 50_000, BUDGET)
ARM_STEPS, CHEETAH_STEPS = 100, 300
MAX_BYTES = 400_000  # of a film
HOLD = 10  # frames for which a film stands still at its end
FOLDER = "films"


@dataclass(frozen=True)
class Filmed:
    """What is filmed of a task, and how.

    Attributes:
        what: stands in caption and alt text.
        trainer: makes a trainer from a seed.
        config: for the stamp.
        episode: plays and draws an agent.
        marks: at which the agent is kept.
        fps: frames a second.

    """

    what: str
    trainer: Callable[[int], PPOTrainer]
    config: Mapping[str, Any]
    episode: Callable[[Agent], Episode]
    marks: Sequence[int]
    fps: float


def _control(
    what: str,
    task: Task,
    marks: Sequence[int],
    *,
    every: int,
    fps: float,
    rows: slice = slice(None),
    **changes: Any,
) -> Filmed:
    return Filmed(
        what,
        lambda seed: task.trainer(seed, **changes),
        {**asdict(task), "changes": changes},
        lambda agent: gym_episode(
            task.env_id,
            agent,
            FILM_SEED,
            every=every,
            crop=(rows, slice(None)),
            action_bounds=task.config.action_bounds,
        ),
        marks,
        fps,
    )


def _others(
    what: str, env_id: str, marks: Sequence[int], *, every: int, fps: float, **episode: Any
) -> Filmed:
    config = replace(others.CONFIG, total_steps=others.BUDGETS[env_id])
    return Filmed(
        what,
        lambda seed: others.our_trainer(env_id, seed, config, []),
        {"env_id": env_id, "num_envs": others.NUM_ENVS, "config": asdict(config)},
        lambda agent: gym_episode(env_id, agent, FILM_SEED, every=every, **episode),
        marks,
        fps,
    )


TASKS: dict[str, Filmed] = {
    "cartpole": _control(
        "a cart that balances a pole",
        CARTPOLE,
        MARKS,
        every=5,
        fps=10,
        rows=slice(140, 340),
        total_steps=BUDGET,
    ),
    "pendulum": _control(
        "a pendulum that is swung up",
        PENDULUM,
        MARKS,
        every=2,
        fps=10,
        rows=slice(110, 390),
        total_steps=BUDGET,
    ),
    "mountain_car": _control(
        "a car between two hills",
        MOUNTAIN_CAR_SHAPED_NORMALISED,
        MARKS,
        every=3,
        fps=10,
        total_steps=BUDGET,
    ),
    "reach": Filmed(
        "an arm and its targets",
        REACH.trainer,
        asdict(REACH.config),
        lambda agent: arm_episode(REACH, agent, FILM_SEED, every=1, steps=ARM_STEPS),
        (0, 50_000, 100_000, 250_000),
        12.5,
    ),
    "fetch_reach": _others(
        "a seven-joint arm that is to hold its gripper at the red point",
        "FetchReachDense-v4",
        (0, 10_000, 30_000, 70_000),
        every=1,
        fps=12.5,
        steps=ARM_STEPS,
        width=720,
        height=480,
        crop=(slice(130, 370), slice(211, 531)),
    ),
    "half_cheetah": _others(
        "a half cheetah that is paid for speed",
        "HalfCheetah-v5",
        (0, 50_000, 200_000, 500_000),
        every=6,
        fps=8,
        steps=CHEETAH_STEPS,
        width=480,
        height=240,
        crop=(slice(50, 230), slice(80, 400)),
        camera_name="track",  # the other one stands still, and the trained ones run out of it
    ),
    "lunar_lander": _control(
        "a lander over its pad", LUNAR_LANDER, (0, 50_000, 200_000, 1_000_000), every=6, fps=10
    ),
}


def words(agent: Agent, episode: Episode) -> list[str]:
    """What stands under each frame of an episode."""
    said = f"{agent.steps:,} steps" if agent.steps else "untrained"
    digits = 0 if abs(episode.score) >= 10 else 1
    return [f"{said}, return {earned:.{digits}f}" for earned in episode.returns]


def told(agent: Agent, episode: Episode) -> str:
    """An episode in words."""
    known = f"after {agent.steps:,} steps of training" if agent.steps else "before training"
    reached = f", {episode.arrivals} targets reached" if episode.arrivals else ""
    earned = f"{episode.score:.1f}".replace("-", "−")
    return f"{known} the return is {earned} in {episode.steps} steps{reached}"


def along(filmed: Filmed, agents: Sequence[Agent], episodes: Sequence[Episode]) -> Film:
    """All agents of a task side by side in the same first state."""
    pairs = list(zip(agents, episodes, strict=True))
    frames = beside(
        [episode.frames for episode in episodes],
        [words(agent, episode) for agent, episode in pairs],
        hold=HOLD,
    )
    said = "; ".join(told(agent, episode) for agent, episode in pairs)
    return film(
        frames,
        caption=f"The same first state, played by {filmed.what} at four points of one training.",
        alt=f"Four pictures of {filmed.what}, from the same first state: {said}.",
        fps=filmed.fps,
        max_bytes=MAX_BYTES,
    )


def stored(name: str, made: Film, folder: Path) -> dict[str, Any]:
    """Write a film and its last frame; what the result says of them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"film": (f"{name}.webp", made.webp), "still": (f"{name}.still.webp", made.poster)}
    for file, content in files.values():
        (folder / file).write_bytes(content)
    return {
        **{kind: f"{folder.name}/{file}" for kind, (file, _) in files.items()},
        "sha256": {kind: file_digest(folder / file) for kind, (file, _) in files.items()},
        "size": list(made.size),
        "caption": made.caption,
        "alt": made.alt,
    }


def run_task(name: str, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Train one task, film its agents; what the result says of the film and of the episodes."""
    filmed = TASKS[name]
    trainer = filmed.trainer(SEED)
    agents = agents_along(trainer, filmed.marks)
    trainer.env.close()
    episodes = [filmed.episode(agent) for agent in agents]
    found = [
        {
            "trained_steps": agent.steps,
            "return": round(episode.score, 3),
            "steps": episode.steps,
            "arrivals": episode.arrivals,
        }
        for agent, episode in zip(agents, episodes, strict=True)
    ]
    return stored(name, along(filmed, agents, episodes), folder), found


def measure(out: Path, only: str = "") -> None:
    """Train every task, film its agents, write the films and the stamped result.

    Args:
        out: the result file, written anew after each task; the films stand in a folder beside it.
        only: tasks to run anew, with commas between; the others, and the stamps that they were
            made under, are kept from the result file.

    """
    chosen = [name for name in TASKS if not only or name in only.split(",")]
    if not chosen:
        raise SystemExit(f"--only {only}: there is no such task; there are: {', '.join(TASKS)}")
    config = {
        "film_seed": FILM_SEED,
        "arm_steps": ARM_STEPS,
        "cheetah_steps": CHEETAH_STEPS,
        "tasks": {
            name: {"marks": list(TASKS[name].marks), **TASKS[name].config} for name in chosen
        },
    }
    if any(name.startswith("fetch") for name in chosen):
        others.register()
    old = json.loads(out.read_text()) if only and out.exists() else {"films": {}, "episodes": {}}
    films = {name: film for name, film in old["films"].items() if name not in chosen}
    episodes = {name: old["episodes"][name] for name in films}
    before = {name: old.get("kept", {}).get(name, old.get("stamp")) for name in films}
    study = start_study(out, seeds=[SEED], config=config)
    for name in chosen:
        films[name], episodes[name] = run_task(name, out.parent / FOLDER)
        study.finish({"films": films, "episodes": episodes, "kept": before})
        print(name, episodes[name], flush=True)


def head() -> dict[str, float]:
    """The first updates on CartPole, and the filmed episode of its untrained agent."""
    trainer = CARTPOLE.trainer(SEED, total_steps=BUDGET)
    (untrained,) = agents_along(trainer, (0,))
    found = first_updates(trainer, 2, ppo.METRICS)
    trainer.env.close()
    episode = TASKS["cartpole"].episode(untrained)
    brightness = torch.from_numpy(episode.frames[0].copy()).float().mean().item()
    return {**found, "return": episode.score, "brightness": brightness}


STUDY = Frame(__file__, measure, head, {**ppo.TOLERANCES, "return": 0.5, "brightness": 1.0})

if __name__ == "__main__":
    STUDY.main()
