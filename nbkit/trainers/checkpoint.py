"""Save and resume any trainer so that a resumed run equals an unbroken one to the bit (CPU).

One process on one device writes one file, unless the path is a folder already. All else writes a
folder that keeps the newest checkpoints, each rank its shards, and every rank calls. Both are
opened without running code that they might hold, and replaced whole or not at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbkit.parallel.base import Parallel
from nbkit.runs.checkpoint_file import read_checkpoint, write_checkpoint
from nbkit.runs.checkpoints import Checkpoint
from nbkit.runs.unfinished import Later

if TYPE_CHECKING:
    from nbkit.runs.run import Run
    from nbkit.trainers.loop import Trainer


def save(path: Path, trainer: "Trainer", **options: Any) -> None:
    """Write a checkpoint between two steps.

    The shapes of models of transformers lie beside a folder's shards, for ``nbkit export``.

    Args:
        path: the file or the folder.
        trainer: what is saved.
        options: of the trainer, see its ``beside``.

    Raises:
        ValueError: the path is a file, but this run needs a folder.

    """
    beside = trainer.beside(**options)
    if _one_file(path, trainer):
        tensors = {
            "models": {name: one.model.state_dict() for name, one in trainer.learners.items()},
            "optimisers": {
                name: one.optimiser.state_dict() for name, one in trainer.learners.items()
            },
        }
        state = trainer.state_dict()
        write_checkpoint(path, {"trainer": state | (tensors if trainer.learners else {}), **beside})
        return
    note_shapes(path, trainer)
    (_, first), *others = trainer.learners.items()
    first.save(path, len(trainer.history), state=trainer.state_dict(), beside=dict(others))


def resume(path: Path, trainer: "Trainer") -> None:
    """Put a trainer, made as it was made then, where the checkpoint was written.

    Files of earlier versions, with the names of one algorithm's models in them, are read too.

    Args:
        path: written by ``save``.
        trainer: with the same configuration, amount of data and shapes of models. Of a folder the
            back-end and the number of ranks may be others.

    Raises:
        ValueError: another configuration, other data, another arrangement of models, or another
            kind of file.

    """
    if _one_file(path, trainer):
        whole = read_checkpoint(path, trainer.plain_config())
        state = whole["trainer"]
        trainer.check_state(state, path)
        _load_learners(path, state, trainer.learners)
        trainer.load_state_dict(state)
        trainer.load_beside(whole)
        return
    if (path / "policy" / "checkpoints").exists():
        raise ValueError(
            f"{path} holds policy and value model in two folders, as they were saved before; "
            "their steps may differ. Start the run anew, or load both models yourself"
        )
    (_, first), *others = trainer.learners.items()
    found = first.load(path, beside=dict(others))
    if found is None:  # a folder in which no checkpoint was finished yet
        return
    trainer.check_state(found, path)
    trainer.load_state_dict(found)


# ---- in a job's run, which keeps the folders itself


def resume_run(run: "Run", trainer: "Trainer") -> Checkpoint | None:
    """Continue from the newest checkpoint of a job's run, if there is one; every rank calls this.

    The shapes of the models are noted in the run, so that ``nbkit export`` can write them.

    Raises:
        ValueError: the checkpoint is not one of this trainer, or was written with other settings.

    """
    from nbkit.parallel.checkpoint import read_shards  # torch's part takes a second to import

    if run.folder is not None:
        note_shapes(run.folder, trainer)
    found = run.resume()
    if found is not None:
        if "config" not in found.state:
            raise ValueError(
                f"{found.folder} was written by a loop of the job's own, before jobs had trainers; "
                "give the run another folder"
            )
        trainer.check_state(found.state, found.folder)
        for name, learner in _folders(trainer):
            read_shards(learner, found.folder / name)
        trainer.load_state_dict(found.state)
        trainer.read_own(found.folder)
    return found


def write_ranks(folder: Path, trainer: "Trainer") -> Later | None:
    """Write what ranks hold into the folder of a checkpoint: shards of learners, and their own.

    Returns:
        shards that are still being written, where the job asks for that; else None.

    """
    from nbkit.parallel import asynchronous
    from nbkit.parallel.checkpoint import write_shards

    trainer.write_own(folder)
    learners = list(_folders(trainer))
    if asynchronous.wanted():
        return asynchronous.All(
            [
                asynchronous.LaterShards(learner, folder / name, number)
                for number, (name, learner) in enumerate(learners)
            ]
        )
    for name, learner in learners:
        write_shards(learner, folder / name)
    return None


def note_shapes(folder: Path, trainer: "Trainer") -> None:
    """Note the shapes of the learners in a run, where that is not done yet."""
    from nbkit.parallel.export import note_models

    note_models(folder, {name: learner.model for name, learner in _folders(trainer)})


def _folders(trainer: "Trainer") -> Iterator[tuple[str, Parallel]]:
    """Folder of its shards, and learner: the names that ``nbkit.parallel.checkpoint`` gives."""
    from nbkit.parallel.checkpoint import SHARDS

    for number, (name, learner) in enumerate(trainer.learners.items()):
        yield (f"{SHARDS}_{name}" if number else SHARDS), learner


def _one_file(path: Path, trainer: "Trainer") -> bool:
    backends = [learner.config.backend for learner in trainer.learners.values()]
    if all(backend == "single" for backend in backends):
        return not path.is_dir()
    if path.is_file():
        raise ValueError(
            f"{path} is a file, as one process on one device writes it; back-end {backends[0]!r} "
            "needs a folder: give another path"
        )
    return False


def _load_learners(path: Path, state: Mapping[str, Any], learners: Mapping[str, Any]) -> None:
    if not learners:
        return
    if "models" in state:
        models, optimisers = state["models"], state["optimisers"]
    else:
        names = ("model", "policy", "value")
        models = {name: state[name] for name in names if state.get(name) is not None}
        optimisers = dict(zip(models, split_groups(state["optimiser"]), strict=False))
    if models.keys() != learners.keys():
        raise ValueError(
            f"{path} was written with another arrangement of models: {', '.join(models)}; here "
            f"learn {', '.join(learners)}"
        )
    for name, learner in learners.items():
        learner.model.load_state_dict(models[name])
        learner.optimiser.load_state_dict(optimisers[name])


def split_groups(optimiser: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The state of an optimiser of several groups, as one state a group.

    Earlier files hold one optimiser for policy and value model, a group for each.
    """
    parts = []
    for group in optimiser["param_groups"]:
        numbers = {old: new for new, old in enumerate(group["params"])}
        parts.append(
            {
                "state": {
                    numbers[old]: kept for old, kept in optimiser["state"].items() if old in numbers
                },
                "param_groups": [{**group, "params": list(numbers.values())}],
            }
        )
    return parts
