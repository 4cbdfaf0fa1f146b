"""Stages 1 and 2 of the comparison on HH-RLHF: a folder that every run begins from."""

import json
import os
import pickle
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bookkit.authoring.processes import in_processes
from nbkit.data.pretrained import fetched, weights_sha256
from nbkit.text.scalar_models import ScalarModel
from nbkit.text.vocabulary import TokenizerVocabulary
from nbkit.trainers.reward_model import margins
from studies._arms import spread_over
from studies._hh import World
from studies._hh_data import (
    JUDGE_RATES,
    LESSONS,
    Sides,
    data_file,
    judge_of,
    load_sides,
    teach,
)

MODEL = "smollm2-135m"
SEED = 80
SIDES = "sides.pickle"
JUDGE_NAMES = ("proxy", "gold")


def _read(model: Path, folder: Path, device: str) -> tuple[Any, TokenizerVocabulary, Sides]:
    """A language model, its vocabulary, and the comparisons, encoded once for all processes."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_float32_matmul_precision("high")
    tokenizer = AutoTokenizer.from_pretrained(fetched(MODEL))
    net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval().to(device)
    sides: Sides = pickle.loads((folder / SIDES).read_bytes())
    return net, TokenizerVocabulary(tokenizer), sides


def make(unit: str, rate: float, folder: Path, device: str) -> dict[str, Any]:
    """Make one unit of the start, "sft" or a reward model at a rate; return its facts.

    Deterministic operations are asked for, so that a second call makes the same weights.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deterministic.*")
        found = _made(unit, rate, folder, device)
    torch.use_deterministic_algorithms(False)
    return found


def _made(unit: str, rate: float, folder: Path, device: str) -> dict[str, Any]:
    begun = time.perf_counter()
    model, vocabulary, sides = _read(fetched(MODEL), folder, device)
    pad, place = vocabulary.pad_id, folder / unit_name(unit, rate)
    if unit == "sft":
        loss = teach(model, sides.proxy, pad, seed=SEED)
        model.save_pretrained(place)
        found: dict[str, Any] = {"loss": loss}
    else:
        pairs = sides.proxy if unit == "proxy" else sides.gold
        held_out = [*sides.tuning, *sides.test]
        judge = judge_of(model, pairs, held_out, pad, rate=rate, seed=SEED)
        judge.save_pretrained(place)
        found = {"tuning_accuracy": _right(judge, sides.tuning, pad) / len(sides.tuning)}
    found["weights_sha256"] = weights_sha256(place)
    return {"unit": unit, "rate": rate, **found, "seconds": time.perf_counter() - begun}


def unit_name(unit: str, rate: float) -> str:
    """The folder of a unit."""
    return unit if unit == "sft" else f"{unit}_{rate:g}"


def _right(judge: ScalarModel, pairs: Any, pad: int) -> int:
    return int((margins(judge, pairs, pad_id=pad) > 0).sum())


def prepare(folder: Path, jobs: int, device: str) -> dict[str, Any]:
    """Make what the folder lacks; return the facts of all units and the rates that were taken."""
    from transformers import AutoTokenizer

    file = folder / "facts.json"
    if file.is_file():
        return dict(json.loads(file.read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(fetched(MODEL))
    (folder / SIDES).write_bytes(pickle.dumps(load_sides(data_file(), tokenizer)))
    units = [("sft", LESSONS.learning_rate), *((n, r) for n in JUDGE_NAMES for r in JUDGE_RATES)]
    tasks = {
        unit: partial(make, *unit, folder, spread_over(device, number))
        for number, unit in enumerate(units)
    }
    every = len(units) if jobs > 1 else 1  # all at once: each is short
    made = dict(in_processes(tasks, every, name=lambda unit: unit_name(*unit)))
    rates = {
        name: max(JUDGE_RATES, key=lambda rate: made[name, rate]["tuning_accuracy"])
        for name in JUDGE_NAMES
    }
    facts: dict[str, Any] = {"units": [made[unit] for unit in units], "rates": rates}
    file.write_text(json.dumps(facts))
    for one in facts["units"]:
        print({k: v for k, v in one.items() if k != "weights_sha256"}, flush=True)
    return facts


def load(folder: Path, device: str) -> tuple[World, Sides, dict[str, str]]:
    """What a run begins with, the comparisons, and the digests of the three models."""
    facts = json.loads((folder / "facts.json").read_text())
    names: dict[str, str] = {"sft": "sft"} | {
        n: unit_name(n, facts["rates"][n]) for n in JUDGE_NAMES
    }
    start, vocabulary, sides = _read(folder / "sft", folder, device)
    start.requires_grad_(False)
    proxy, gold = (
        ScalarModel.from_pretrained(folder / names[name], dtype=torch.float32)
        .eval()
        .requires_grad_(False)
        .to(device)
        for name in JUDGE_NAMES
    )
    made = {unit_name(one["unit"], one["rate"]): one["weights_sha256"] for one in facts["units"]}
    digests = {name: made[place][:16] for name, place in names.items()}
    return World(start, proxy, gold, vocabulary, sides.proxy), sides, digests
