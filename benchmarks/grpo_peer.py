"""TRL's GRPOTrainer on a model, tokenizer and reward of ours; nothing here needs TRL to import."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from side_by_side import now
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, TrainerCallback


def tokenizer_of(vocabulary: Any, pattern: str) -> PreTrainedTokenizerFast:
    """The same ids as a vocabulary, split by a pattern; PAD and EOS are its special tokens."""
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    inner = Tokenizer(models.WordLevel(ids, unk_token=vocabulary.tokens[vocabulary.pad_id]))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=vocabulary.tokens[vocabulary.pad_id],
        eos_token=vocabulary.tokens[vocabulary.eos_id],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


@dataclass
class Watch(TrainerCallback):
    """Times each step, and names the parameters whose gradient is not finite.

    Attributes:
        seconds: of each step, sampling included; of the processor where there is no GPU.
        sick: names of such parameters at the first step that has any.

    """

    seconds: list[float] = field(default_factory=list)
    sick: list[str] = field(default_factory=list)
    _begun: float = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock; the last step's work is done by then."""
        self._begun = now()

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        """Look at the gradients."""
        if not self.sick:
            grads = ((name, p.grad) for name, p in model.named_parameters() if p.grad is not None)
            self.sick = [name for name, grad in grads if not bool(grad.isfinite().all())]

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop the clock."""
        self.seconds.append(now() - self._begun)


def train_with_trl(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    reward: Callable[..., list[float]],
    folder: str,
    watch: Watch,
    **settings: Any,
) -> list[dict[str, float]]:
    """Run ``trl.GRPOTrainer``; return what it logs of each step.

    Args:
        model: trained in place (beta must stay 0: TRL would load its reference by name).
        tokenizer: of ``tokenizer_of``.
        rows: "prompt" and whatever the reward needs.
        reward: called as TRL calls it.
        folder: for its output.
        watch: times of the steps.
        settings: of ``trl.GRPOConfig``.

    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    arguments = GRPOConfig(
        output_dir=folder,
        report_to="none",
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
        **settings,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=arguments,
        train_dataset=Dataset.from_list(list(rows)),
        processing_class=tokenizer,
        callbacks=[watch],
    )
    try:
        trainer.train()
    finally:
        log = [row for row in trainer.state.log_history if "reward" in row]
    return [{k: v for k, v in row.items() if isinstance(v, int | float)} for row in log]
