"""Runs that the tests compare, and reward functions that a generator's process can import."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import torch

from nbkit.asynchronous.options import AsyncOptions
from nbkit.asynchronous.trainer import AsyncGRPOTrainer
from nbkit.trainers.grpo import GRPOTrainer
from tests.rlvr.small import PROBLEMS, VOCABULARY, by_length, config, generator, model

WAIT_S = 300.0  # for a process on a busy machine
HANGING = PROBLEMS[0].prompt  # with ten problems and four a batch it is asked soon


def asynchronous(settings, reward_fn=by_length, problems=PROBLEMS, seed=7, **options):
    options = AsyncOptions(**{"wait_s": WAIT_S} | options)
    return AsyncGRPOTrainer(
        model(), VOCABULARY, problems, reward_fn, settings, options, generator=generator(seed)
    )


def synchronous(settings, reward_fn=by_length, problems=PROBLEMS, seed=7):
    run = GRPOTrainer(model(), VOCABULARY, problems, reward_fn, settings, generator=generator(seed))
    run.run(progress=False)
    return run


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


def steps(run, count=None):
    """Make steps; return the numbers of the groups of each."""
    numbers = []
    while not run.finished and (count is None or len(numbers) < count):
        run.step()
        numbers.append(list(run.numbers))
    return numbers


def each_once(numbers, settings):
    """Whether every group of the run was trained on exactly once."""
    whole = sorted(n for batch in numbers for n in batch)
    return whole == list(range(settings.updates * settings.prompts))


def until(condition, limit_s=WAIT_S):
    """Wait for a condition; fail after a limit."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def kill(pid):
    """End a process without asking it; one that has ended already is left alone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def alive(pid):
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def waits_for_ever(problems, completions):
    """Never returns for one problem, and catches what it can."""
    while problems[0].prompt == HANGING:
        try:
            threading.Event().wait()
        except Exception:
            continue
    return by_length(problems, completions)


def raises(problems, completions):
    raise LookupError("no such answer key")


def dies(problems, completions):
    os._exit(3)


def settings(**changes):
    return config(**{"updates": 5, "learning_rate": 1e-2} | changes)
