"""REINFORCE beside TRL's RLOOTrainer: one model, one reward, one batch size, three seeds.

Both start from the same pre-trained character-level GPT-2, saved to disk with its tokenizer. With
one update a batch, no KL term and one group as large as the batch, RLOO is REINFORCE with a
leave-one-out baseline: one mean over all other texts, where nbkit's at step t is over those that
have not ended. For texts of one length the two are the same number. What is compared: the mean
reward of each batch, and the wall-clock seconds of the training loop, each library in turn, in one
process, on one thread.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback

from nbkit.envs.reviews import ALPHABET, reviews
from nbkit.rewards.text import contains_keyword
from nbkit.text.environment import TextEnv
from nbkit.text.policies import HuggingFacePolicy
from nbkit.text.rollouts import rollout
from nbkit.text.vocabulary import CharVocabulary, TokenizerVocabulary
from nbkit.trainers.pretraining import pretrain
from nbkit.trainers.reinforce import ReinforceConfig, train
from studies._arms import Arms, Run, by_arm, seed_by_seed
from studies._frame import Frame, figures

SEEDS = (31, 32, 33)
KEYWORD = "great"
UPDATES, BATCH, LEARNING_RATE, NEW_TOKENS = 40, 64, 5e-4, 40
REWARD = contains_keyword(KEYWORD)
PRETRAINING_STEPS = 300


def character_tokenizer() -> PreTrainedTokenizerFast:
    """Return a Hugging Face tokenizer with the ids of ``CharVocabulary(ALPHABET)``."""
    characters = CharVocabulary(ALPHABET).characters
    ids = {"<pad>": 0, "<bos>": 1, "<eos>": 2} | {c: i + 3 for i, c in enumerate(characters)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()  # without it, decoding puts a space after every letter
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        clean_up_tokenization_spaces=False,
    )


def make_base(folder: Path, seed: int, steps: int = PRETRAINING_STEPS) -> list[float]:
    """Pre-train a small GPT-2 on the reviews and save it with its tokenizer."""
    tokenizer = character_tokenizer()
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=64,
        n_embd=96,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = GPT2LMHeadModel(config)
    losses = pretrain(
        HuggingFacePolicy(model),
        TokenizerVocabulary(tokenizer),
        reviews(8000, seed=1),
        steps=steps,
        learning_rate=5e-3,
        seed=seed,
        progress=False,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return losses


def keyword_rate(policy: HuggingFacePolicy, seed: int) -> float:
    """Return the share of 256 fresh texts that contain the keyword."""
    env = TextEnv(CharVocabulary(ALPHABET), REWARD, max_new_tokens=NEW_TOKENS)
    batch = rollout(policy, env, 256, generator=torch.Generator().manual_seed(10_000 + seed))
    return float((batch.returns > 0).float().mean())


def run_nbkit(folder: Path, seed: int, updates: int) -> dict[str, Any]:
    """Train with ``nbkit.trainers.reinforce``."""
    policy = HuggingFacePolicy.from_pretrained(str(folder))
    before = keyword_rate(policy, seed)
    env = TextEnv(CharVocabulary(ALPHABET), REWARD, max_new_tokens=NEW_TOKENS)
    config = ReinforceConfig(
        updates=updates, batch_size=BATCH, learning_rate=LEARNING_RATE, seed=seed
    )
    started = time.perf_counter()
    history = train(policy, env, config, progress=False)
    seconds = time.perf_counter() - started
    return {
        "rewards": [round(step["return"], 4) for step in history],
        "seconds": seconds,
        "before": before,
        "after": keyword_rate(policy, seed),
    }


class _Clock(TrainerCallback):
    """Notes when the training loop starts and ends, without the set-up around it."""

    def on_train_begin(self, args, state, control, **kwargs):
        self.started = time.perf_counter()

    def on_train_end(self, args, state, control, **kwargs):
        self.seconds = time.perf_counter() - self.started


def run_trl(folder: Path, seed: int, updates: int) -> dict[str, Any]:
    """Train with ``trl.RLOOTrainer`` under the settings that make it the same algorithm."""
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    with tempfile.TemporaryDirectory() as output:
        arguments = RLOOConfig(
            output_dir=output,
            max_steps=updates,
            per_device_train_batch_size=BATCH,
            num_generations=BATCH,
            num_iterations=1,
            steps_per_generation=1,
            gradient_accumulation_steps=1,
            beta=0.0,
            max_completion_length=NEW_TOKENS,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=1.0,
            seed=seed,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
        )
        clock = _Clock()
        trainer = RLOOTrainer(
            model=str(folder),
            reward_funcs=lambda completions, **_: [REWARD(text) for text in completions],
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": ["<bos>"] * BATCH}),
            processing_class=PreTrainedTokenizerFast.from_pretrained(folder, padding_side="left"),
            callbacks=[clock],
        )
        trainer.train()
        rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    policy = HuggingFacePolicy(trainer.model.eval())
    return {
        "rewards": [round(value, 4) for value in rewards],
        "seconds": clock.seconds,
        "after": keyword_rate(policy, seed),
    }


def head() -> dict[str, float]:
    """Fifteen steps of pre-training, then three updates of nbkit's trainer, paid for a letter."""
    with tempfile.TemporaryDirectory() as name:
        losses = make_base(Path(name), SEEDS[0], steps=15)
        policy = HuggingFacePolicy.from_pretrained(name)
    paid = contains_keyword("e")  # the keyword itself is never written so early
    env = TextEnv(CharVocabulary(ALPHABET), paid, max_new_tokens=NEW_TOKENS)
    config = ReinforceConfig(
        updates=3, batch_size=BATCH, learning_rate=LEARNING_RATE, seed=SEEDS[0]
    )
    found = {f"loss {i}": losses[i - 1] for i in (1, 2, 5, 10, 15)}
    return found | figures(train(policy, env, config, progress=False), METRICS)


PROGRAMS = {"nbkit": run_nbkit, "trl": run_trl}


def run_arm(arm: str, seed: int) -> Run:
    """One program from the base of a seed, which is made anew and is the same for both."""
    with tempfile.TemporaryDirectory() as name:
        make_base(Path(name), seed)
        return PROGRAMS[arm](Path(name), seed, UPDATES)


METRICS = ("return", "entropy", "gradient_norm", "length")
TOLERANCES = {
    **{"loss": 1e-3, "return": 5e-3, "entropy": 1e-3, "gradient_norm": 2e-3, "length": 0.02},
}
PROTOCOL = {
    "updates": UPDATES,
    "batch": BATCH,
    "learning_rate": LEARNING_RATE,
    "max_new_tokens": NEW_TOKENS,
    "pretraining_steps": PRETRAINING_STEPS,
}
STUDY = Frame(
    __file__,
    Arms(
        run_arm,
        seed_by_seed(PROGRAMS, SEEDS),
        PROTOCOL,
        result=lambda runs: {"runs": by_arm(runs)},
    ).measure,
    head,
    TOLERANCES,
)

if __name__ == "__main__":
    STUDY.main()
