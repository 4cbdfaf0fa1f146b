"""Two cards, GRPO on GSM8K: what is gained where one samples while the other learns.

Protocol, fixed before the run. The supervised start of ``gsm8k_smollm2``, its reward, its answers
of up to 256 tokens, 64 prompts and 8 answers each, Dr. GRPO's loss, learning rate 1e-6, passes and
sampling in bfloat16. The generator has the second card, the trainer the first:

- "in turns": ``AsyncGRPOTrainer`` with a staleness of 0. Nothing overlaps.
- "staleness 1": the generator works on the next batch while the trainer learns.
- "staleness 1, in flight": the same, and new weights are taken between two decode steps.
- "staleness 4, in flight".

Beside them, on the first card alone: ``ColocatedGRPOTrainer``, whose sampler sleeps, and
``GRPOTrainer``. The arms run one after the other, and then those of two cards once more in the
reverse order, each for ``UPDATES`` updates, of which the first ``WARM`` are not counted (they
compile, capture graphs and fill the queue). Counted are the seconds from the end of one update to
the end of the next, and what the processes say of their time. Needs two GPUs; SmolLM2's weights are
4-bit, dequantised.
"""

import math
import statistics
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bookkit.authoring.study import start_study
from nbkit.asynchronous.colocated import ColocatedGRPOTrainer
from nbkit.asynchronous.options import AsyncOptions
from nbkit.asynchronous.timeline import Span, shares
from nbkit.asynchronous.trainer import AsyncGRPOTrainer
from nbkit.data.pretrained import MODELS
from nbkit.trainers.grpo import GRPOTrainer, variant
from studies._arms import Run, all_of, by_arm, partial_file, run_all, what_runs
from studies._frame import Frame, first_updates
from studies._gsm8k import TRAINING, on, problems, reward
from studies.gsm8k_smollm2 import MODEL, loaded, supervised

SEED = 92
UPDATES, WARM = 10, 3
SETTINGS = {**TRAINING, "updates": UPDATES, "learning_rate": 1e-6}
IN_TURNS = "two cards, in turns"
ARMS: dict[str, dict[str, Any] | None] = {
    IN_TURNS: {"staleness": 0, "in_flight": False},
    "two cards, staleness 1": {"staleness": 1, "in_flight": False},
    "two cards, staleness 1, in flight": {"staleness": 1, "in_flight": True},
    "two cards, staleness 4, in flight": {"staleness": 4, "in_flight": True},
    "one card, colocated": None,
    "one card, GRPOTrainer": None,
}
KEPT = ("length", "truncated", "tokens", "staleness/mean", "staleness/max",
        "versions_in_completion", "seconds/wait", "seconds/generate", "seconds/reward",
        "seconds/update", "sampler_bytes/awake", "sampler_bytes/learning", "kl",
        "ratio_error")  # fmt: skip


def trainer_of(
    arm: str, model: Any, vocabulary: Any, asked: Any, second: str | None, **changes: Any
) -> Any:
    """The trainer of an arm; reward, back-end and settings may be other ones."""
    reward_fn = changes.pop("reward", reward)
    config = variant("dr_grpo", **{**SETTINGS, **changes.pop("settings", {})})
    given = {"generator": torch.Generator().manual_seed(SEED), **changes}
    options = ARMS[arm]
    if options is not None:
        asynchronous = AsyncOptions(**options, device=second)
        return AsyncGRPOTrainer(model, vocabulary, asked, reward_fn, config, asynchronous, **given)
    kind = ColocatedGRPOTrainer if "colocated" in arm else GRPOTrainer
    return kind(model, vocabulary, asked, reward_fn, config, **given)


def run(arm: str, seed: int, folder: Path, first: str, second: str) -> Run:
    """One arm; `seed` is the number of its repetition."""
    model, vocabulary = loaded(folder, first)
    trainer = trainer_of(arm, model, vocabulary, problems()[0], second, parallel=on(first))
    ends = []
    with ExitStack() as stack:
        if isinstance(trainer, AsyncGRPOTrainer):
            stack.enter_context(trainer)
        while not trainer.finished:
            trainer.step()
            if "cuda" in first:
                torch.cuda.synchronize(first)
            ends.append(time.monotonic())
        spans = trainer.timeline() if isinstance(trainer, AsyncGRPOTrainer) else []
    return {"repetition": seed, **counted(trainer.history, ends, spans)}


def counted(
    history: list[dict[str, float]], ends: list[float], spans: list[Span], warm: int = WARM
) -> dict[str, Any]:
    """What is kept of a run: each update's seconds after the warm-up, metrics, who did what.

    Args:
        history: of the trainer.
        ends: when each update ended, by the monotonic clock.
        spans: of both processes, or none.
        warm: updates that are not counted.

    """
    begin = ends[warm - 1]
    seconds = [
        later - earlier for earlier, later in zip(ends[warm - 1 :], ends[warm:], strict=False)
    ]
    rows = history[warm:]
    completions = sum(row["groups"] for row in rows) * TRAINING["group_size"]
    late = [span for span in spans if span.end > begin]
    return {
        "seconds_an_update": seconds,
        "samples_a_second": completions / sum(seconds),
        "tokens_a_second": sum(row["tokens"] for row in rows) / sum(seconds),
        "metrics": {
            name: [row[name] for row in rows] for name in KEPT if all(name in row for row in rows)
        },
        "shares": shares(late) if late else {},
        "spans": [
            [s.who, s.what, round(s.begin - begin, 3), round(s.end - begin, 3)] for s in late
        ],
    }


def measure(
    out: Path,
    minutes: float = math.inf,
    start: Path | None = None,
    first: str = "cuda:0",
    second: str = "cuda:1",
) -> None:
    """Run the study and write its stamped result.

    Args:
        out: the result file; what has ended lies beside it until all has.
        minutes: no run begins later; the same command goes on with what is left.
        start: folder of the supervised start; made where it is missing.
        first: device of the trainer.
        second: of the generator.

    """
    end = time.monotonic() + 60 * minutes
    study = start_study(out, seeds=[SEED], config=protocol())
    folder = start or Path(tempfile.gettempdir()) / "gsm8k_smollm2_start"
    facts = supervised(folder, first)
    kept = partial_file(out)
    again = [arm for arm in reversed(ARMS) if ARMS[arm] is not None]
    order = [(arm, 1) for arm in ARMS] + [(arm, 2) for arm in again]
    tasks = {
        (arm, number): partial(run, arm, number, folder, first, second) for arm, number in order
    }
    ended = run_all(
        tasks, jobs=1, kept=kept, of=what_runs(study.provenance), end=end, tell=told
    )  # fmt: skip
    found = by_arm(all_of(ended, tasks))
    study.finish({"start": facts, "arms": found, "ratios": ratios(found)})
    kept.unlink()


def ratios(arms: dict[str, list[Run]]) -> dict[str, dict[str, float]]:
    """Samples a second over those of the two cards in turns: by the medians of their updates.

    "least" and "most" compare the repetitions of both, each with each.
    """
    medians = {
        arm: [statistics.median(one["seconds_an_update"]) for one in runs]
        for arm, runs in arms.items()
    }
    base = medians[IN_TURNS]
    found = {}
    for arm, own in medians.items():
        pairs = [a / b for a in base for b in own]
        middle = statistics.mean(base) / statistics.mean(own)
        found[arm] = {"ratio": middle, "least": min(pairs), "most": max(pairs)}
    return found


def told(one: Run) -> str:
    """The samples a second of a run in a line."""
    return f"{one['samples_a_second']:.0f} completions a second"


def head() -> dict[str, float]:
    """Two updates of the arms in one process on a tiny model, which is paid for a digit."""
    from nbkit.envs.word_problems import StoryVocabulary, draw_stories
    from nbkit.text.tiny_models import tiny_model

    vocabulary = StoryVocabulary()
    asked = [story.problem for story in draw_stories(40, seed=SEED)]
    small = {"prompts": 4, "group_size": 4, "max_new_tokens": 16, "sampler_dtype": None}
    found: dict[str, float] = {}
    for arm in ("one card, colocated", "one card, GRPOTrainer"):
        model = tiny_model(vocabulary, max_length=512, seed=SEED)
        trainer = trainer_of(
            arm, model, vocabulary, asked, None,
            settings={**small, "learning_rate": 1e-2},
            reward=lambda _, completions: [
                float(sum(c.isdigit() for c in one.text)) for one in completions
            ],
        )  # fmt: skip
        found |= first_updates(trainer, 2, ("reward", "entropy", "gradient_norm"), arm)
    return found


def protocol() -> dict[str, Any]:
    """The protocol; the digest of the weights is that of `nbkit model`."""
    source = MODELS[MODEL]
    return {
        "model": {"name": MODEL, "remark": source.remark, "sha256": source.member_sha256},
        "settings": SETTINGS,
        "arms": ARMS,
        "updates": {"all": UPDATES, "not counted": WARM},
    }


# A tiny model's figures move with the rounding; its gradients most.
TOLERANCES = {"reward": 1e-3, "entropy": 1e-3, "gradient_norm": 1e-2}
STUDY = Frame(__file__, measure, head, TOLERANCES)

if __name__ == "__main__":
    STUDY.main()
