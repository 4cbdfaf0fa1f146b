"""Group advantages as TRL's own trainers compute them: a whole trainer is made for one batch."""

from tempfile import mkdtemp
from typing import Any

from torch import Tensor
from trl import GRPOTrainer


def scored_advantages(kind: str, rewards: Tensor, group_size: int) -> Tensor:
    """A real trainer generates one token a completion and scores it with the given rewards."""
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
    from trl import GRPOConfig, RLOOConfig, RLOOTrainer

    words = {word: i for i, word in enumerate(("<pad>", "<bos>", "<eos>", "<unk>", "a", "b"))}
    inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(words),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )
    config_class, trainer_class = {
        "GRPO": (GRPOConfig, GRPOTrainer),
        "RLOO": (RLOOConfig, RLOOTrainer),
    }[kind]
    config = config_class(
        output_dir=mkdtemp(prefix="nbkit-trl-"),
        per_device_train_batch_size=len(rewards),
        num_generations=group_size,
        max_completion_length=1,
        beta=0.0,
        use_cpu=True,
        bf16=False,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )

    def given(completions: list[Any], **_: Any) -> list[float | None]:
        scores = rewards[: len(completions)].tolist()
        return [None if score != score else score for score in scores]

    trainer = trainer_class(
        model=model,
        reward_funcs=given,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": ["a b"] * len(rewards)}),
        processing_class=tokenizer,
    )
    batch = trainer._generate_and_score_completions([{"prompt": "a b"}] * len(rewards))
    return batch["advantages"].double()
