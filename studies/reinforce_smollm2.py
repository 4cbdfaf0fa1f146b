"""What a reward does to the English of a real model: chapter 11's question, asked of SmolLM2-135M.

REINFORCE with the leave-one-out baseline, on continuations of story openings. Two rewards (VADER's
score, a keyword) at several coefficients of the KL penalty. Measured on held-out openings: the
reward, the KL from the model as it was, the perplexity under it, the share of different word pairs,
and texts. The weights are 4-bit, dequantised (`nbkit model fetch smollm2-135m`). Needs a GPU.
"""

from collections.abc import Iterator
from string import ascii_letters
from typing import Any

import torch

from nbkit.data.pretrained import MODELS
from nbkit.trainers.grpo import GRPOTrainer, variant
from studies._arms import Arms, Run, seed_by_seed
from studies._frame import Frame, first_updates
from studies._stories import TOKENS, held_out, judged, openings, reward_function

MODEL = "smollm2-135m"
SEEDS = (71, 72, 73)
ARMS = {
    "sentiment, KL 0.0": ("sentiment", 0.0),
    "sentiment, KL 0.02": ("sentiment", 0.02),
    "sentiment, KL 0.1": ("sentiment", 0.1),
    "keyword, KL 0.0": ("keyword", 0.0),
    "keyword, KL 0.1": ("keyword", 0.1),
}
UPDATES, EVERY, KEPT_TEXTS = 60, 15, 12
KEPT = ("reward", "kl", "entropy", "gradient_norm", "length")
SETTINGS: dict[str, Any] = {
    "updates": UPDATES,
    "prompts": 64,
    "group_size": 8,
    "max_new_tokens": TOKENS,
    "learning_rate": 1e-5,
    "micro_tokens": 8_192,
    "sampler_dtype": "bfloat16",
}


def trainer_of(
    arm: str, model: Any, base: Any, vocabulary: Any, seed: int, **changes: Any
) -> GRPOTrainer:
    """The trainer of an arm; `reward` and settings may be other ones."""
    reward, beta = ARMS[arm]
    reward_fn = changes.pop("reward", reward_function(reward))
    settings = variant("rloo", **{"kl_coefficient": beta, **SETTINGS, **changes})
    return GRPOTrainer(
        model,
        vocabulary,
        openings(4_000, seed),
        reward_fn,
        settings,
        reference=base,
        generator=torch.Generator().manual_seed(seed),
    )


def run(arm: str, seed: int, device: str = "cuda") -> Run:
    """One run: measured before, every few updates, and after."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from nbkit.data.pretrained import fetched
    from nbkit.text.vocabulary import TokenizerVocabulary

    torch.set_float32_matmul_precision("high")
    folder = fetched(MODEL)
    model, base = (AutoModelForCausalLM.from_pretrained(folder).eval().to(device) for _ in range(2))
    base.requires_grad_(False)
    vocabulary = TokenizerVocabulary(AutoTokenizer.from_pretrained(folder))
    asked = held_out()

    def measure(updates: int) -> dict[str, Any]:
        found = judged(model, base, vocabulary, asked, seed=seed, dtype=torch.bfloat16)
        return {"update": updates, **found, "texts": found["texts"][:KEPT_TEXTS]}

    trainer = trainer_of(arm, model, base, vocabulary, seed)
    points = [measure(0)]
    while not trainer.finished:
        trainer.step()
        if len(trainer.history) % EVERY == 0:
            points.append(measure(len(trainer.history)))
    curves = {name: [row[name] for row in trainer.history if name in row] for name in KEPT}
    parts = ("seconds/generate", "seconds/reward", "seconds/update")
    seconds = sum(row[part] for row in trainer.history for part in parts)
    return {"seed": seed, "points": points, "curves": curves, "training_seconds": seconds}


def head() -> dict[str, float]:
    """Two updates of two arms on a tiny model with random weights, so that CI needs no real one.

    Such a model writes no words, so that a letter is paid here.
    """
    from nbkit.text.tiny_models import tiny_model
    from nbkit.text.vocabulary import CharVocabulary

    vocabulary = CharVocabulary(f" ,.{ascii_letters}")
    small = {"prompts": 8, "group_size": 4, "max_new_tokens": 24, "sampler_dtype": None}
    found: dict[str, float] = {}
    for arm in ("sentiment, KL 0.1", "keyword, KL 0.0"):
        model, base = (tiny_model(vocabulary, seed=SEEDS[0]) for _ in range(2))
        base.requires_grad_(False)
        trainer = trainer_of(
            arm, model, base, vocabulary, SEEDS[0],
            **small, learning_rate=1e-2,
            reward=lambda _, completions: [float(one.text.count("e")) for one in completions],
        )  # fmt: skip
        found |= first_updates(trainer, 2, ("reward", "kl", "entropy", "gradient_norm"), arm)
    return found


def said(arms: dict[str, list[Run]]) -> Iterator[str]:
    """What each arm came to."""
    for arm, runs in arms.items():
        last = [one["points"][-1] for one in runs]
        parts = (
            f"{name} {', '.join(f'{point[name]:.2f}' for point in last)}"
            for name in ("sentiment", "keyword", "kl", "perplexity", "distinct_2")
        )
        yield f"{arm}: {'; '.join(parts)}"


def protocol() -> dict[str, Any]:
    """The protocol; the digest of the weights is that of `nbkit model`."""
    model = {"name": MODEL, "remark": MODELS[MODEL].remark, "sha256": MODELS[MODEL].member_sha256}
    return {"model": model, "arms": ARMS, "settings": SETTINGS, "every": EVERY}


# A tiny model's figures move with the rounding; its gradients most.
TOLERANCES = {"reward": 1e-3, "kl": 1e-3, "entropy": 1e-3, "gradient_norm": 1e-2}
STUDY = Frame(
    __file__,
    Arms(
        run,
        keys=seed_by_seed(ARMS, SEEDS),
        config=protocol(),
        tell=lambda found: f"sentiment {found['points'][-1]['sentiment']:.2f}",
        verdict=said,
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
