"""One step of each kind of case: a gradient step, a call of the sampler, an update of RLHF."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from memory_cases import Case
from qwen_shapes import fresh_model

from nbkit.generate import clear, generate
from nbkit.logprobs import next_token_logprobs
from nbkit.memory import ModelShape, config_arguments
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.reward_model import reward_function
from nbkit.trainers.rlhf import RLHFConfig, RLHFTrainer


def make_model(shape: ModelShape, device: torch.device) -> Any:
    """A random Qwen2 of this shape, made on the device."""
    sizes = config_arguments(shape)
    model = fresh_model(sizes, torch.bfloat16, device, attention_dropout=0.0)
    assert sum(p.numel() for p in model.parameters()) == shape.parameters
    return model


def checkpointed(module: Any) -> None:
    """Recompute blocks in the backward pass; transformers does so in training mode only."""
    module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    module.train()


class Numbers:
    """A vocabulary whose words are its ids; nothing it samples is an EOS."""

    pad_id, eos_id = 0, None

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Any) -> str:
        return " ".join(map(str, ids))


@dataclass(frozen=True)
class Numbered:
    """A problem: a prompt of random ids."""

    prompt: str


def run_training(case: Case, device: torch.device) -> Callable[[], None]:
    """A gradient step of all weights."""
    model = make_model(case.shape, device)
    if case.settings.get("checkpointing"):
        checkpointed(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    shape = (case.settings["rows"], case.settings["length"])
    ids = torch.randint(1, case.shape.vocabulary, shape, device=device)

    def step() -> None:
        logits = model(input_ids=ids, use_cache=False).logits
        loss = -next_token_logprobs(logits, ids).mean()
        del logits
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def run_generation(case: Case, device: torch.device) -> Callable[[], None]:
    """All completions at once."""
    model = make_model(case.shape, device)
    settings = case.settings
    ids = torch.randint(1, case.shape.vocabulary, (settings["rows"], settings["prompt"]))

    def step() -> None:
        clear(model)
        generate(model, ids.tolist(), max_new_tokens=settings["new_tokens"], seeds=0)

    return step


def run_four(case: Case, device: torch.device) -> Callable[[], None]:
    """A whole update of ``RLHFTrainer``."""
    settings, shape = case.settings, case.shape
    policy, reference = make_model(shape, device), make_model(shape, device)
    scored = ScalarModel.from_causal(policy)
    value = ScalarModel.from_causal(policy)
    reference.requires_grad_(False)
    scored.requires_grad_(False)
    if settings.get("checkpointing"):
        checkpointed(policy)
        checkpointed(value.body)
    vocabulary = Numbers()
    source = torch.Generator().manual_seed(0)
    prompts = torch.randint(
        1, shape.vocabulary, (settings["rows"], settings["prompt"]), generator=source
    )
    length = settings["prompt"] + settings["new_tokens"]
    config = RLHFConfig(
        updates=2,
        prompts=settings["rows"],
        max_new_tokens=settings["new_tokens"],
        epochs=1,
        minibatches=1,
        learning_rate=1e-6,
        micro_tokens=settings["micro_rows"] * length,
        release_engine=True,
    )
    trainer = RLHFTrainer(
        policy,
        vocabulary,
        [Numbered(" ".join(map(str, row))) for row in prompts.tolist()],
        reward_function(scored, vocabulary, batch_size=settings["micro_rows"]),
        config,
        reference=reference,
        value=value,
        generator=source,
    )
    return lambda: trainer.step() and None


RUNNERS = {
    "training step": run_training,
    "generation": run_generation,
    "four models": run_four,
}
