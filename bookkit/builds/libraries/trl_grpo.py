"""TRL's GRPOTrainer on the pupils of build 24: the same world, settings and count of tokens."""

import logging
import os
import random
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from bookkit.builds import sums as task
from bookkit.builds.grading import GradingStage
from bookkit.builds.sums import ANSWER, WIDTH, Graded, Sums
from bookkit.builds.verdict import Build
from bookkit.builds.weights import moved
from nbkit.text.policies import LSTMPolicy

POINTS = 40  # of a stored curve


class PupilConfig(PretrainedConfig):
    """The sizes of a pupil."""

    model_type = "build_24_pupil"


class Backbone(nn.Module):
    """Embedding and LSTM of a pupil: TRL computes the head's log-probabilities itself."""

    def __init__(self, body: LSTMPolicy) -> None:
        super().__init__()
        self.embedding, self.lstm = body.embedding, body.lstm

    def forward(self, input_ids: Tensor, **_: Any) -> BaseModelOutput:
        """Hidden states (B, T, D)."""
        return BaseModelOutput(last_hidden_state=self.lstm(self.embedding(input_ids))[0])


class Pupil(PreTrainedModel, GenerationMixin):
    """The LSTM of build 24 as a model of transformers; it reads the whole sequence each time."""

    config_class = PupilConfig
    main_input_name = "input_ids"
    base_model_prefix = "backbone"

    def __init__(self, config: PupilConfig) -> None:
        super().__init__(config)
        self.body = LSTMPolicy(config.vocab_size, width=WIDTH)
        self.backbone = Backbone(self.body)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """The head, which TRL applies to the hidden states."""
        return self.body.head

    def _init_weights(self, module: nn.Module) -> None:
        """Keep what torch has drawn: the weights are loaded from a taught pupil."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any
    ) -> CausalLMOutput:
        """Logits (B, T, V); no row is padded before its end, so no mask is needed."""
        return CausalLMOutput(logits=self.body(input_ids))

    def prepare_inputs_for_generation(self, input_ids: Tensor, **kwargs: Any) -> dict[str, Tensor]:
        """The whole sequence: there is no cache. transformers asks for the name `kwargs`."""
        return {"input_ids": input_ids}


def measured(build: Build, draw: random.Random) -> dict[str, dict[str, Any]]:
    """Run the trainer on every stage."""
    return {
        stage.title: _stage(stage, draw)
        for stage in build.stages
        if isinstance(stage, GradingStage)
    }


def _stage(stage: GradingStage, draw: random.Random) -> dict[str, Any]:
    sums = Sums.drawn(draw)
    before = task.taught(sums, draw)
    held = Graded(sums, random.Random(draw.randrange(2**31)), stage.tokens, stage.offset)
    known = sums.vocabulary
    config = PupilConfig(
        vocab_size=len(known),
        bos_token_id=known.bos_id,
        eos_token_id=known.eos_id,
        pad_token_id=known.pad_id,
        use_cache=False,
        num_hidden_layers=1,  # transformers makes a cache of so many layers, which nobody fills
        num_attention_heads=1,
        hidden_size=WIDTH,
    )
    pupil = Pupil(config)
    pupil.body.load_state_dict(before.state_dict())
    began = time.process_time()
    with _quiet(), tempfile.TemporaryDirectory() as folder:
        _trainer(pupil, held, stage.settings, folder, draw.randrange(2**31)).train()
    seconds = time.process_time() - began
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    trained = pupil.body.requires_grad_(False)
    old, new = (task.accuracy(one, sums, generator) for one in (before, trained))
    asked = torch.tensor([sums.prompt(problem) for problem in sums.kept])
    nats = moved(trained, before, asked, ANSWER, known.eos_id, generator)
    every = max(1, len(held.means) // POINTS)
    points = [*held.means[::every], held.means[-1]]
    return {
        "label": f"TRL {version('trl')}",
        "said": f"{new:.0%} of the held-out answers are right, {old:.0%} were before, at a KL of "
        f"{nats:.2f} nats an answer; {held.used:,} tokens, {seconds:.0f} s of processor time",
        "curve": [[x, round(y, 3)] for x, y in points],
        "processor_seconds": round(seconds, 1),
    }


def _trainer(
    pupil: Pupil, held: Graded, settings: Mapping[str, Any], folder: str, seed: int
) -> Any:
    """TRL's trainer with the numbers of the build; what the build does not name is TRL's own."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    updates, prompts, group = (settings[n] for n in ("updates", "prompts", "group_size"))
    arguments = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=prompts * group,
        num_generations=group,
        steps_per_generation=1,
        num_iterations=settings["epochs"],
        max_steps=updates * settings["epochs"],
        learning_rate=settings["learning_rate"],
        lr_scheduler_type="constant",
        epsilon=settings["clip"],
        max_grad_norm=settings["max_grad_norm"],
        max_completion_length=ANSWER,
        beta=0.0,
        seed=seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    drawn = held.answer("problems", {"count": updates * prompts}, {})[1]
    rows = {
        "prompt": [" ".join(map(word, row)) for row in drawn["prompts"].tolist()],
        "number": drawn["numbers"].tolist(),
    }

    def marks(completion_ids: list[list[int]], number: list[int], **_: Any) -> list[float]:
        padded = np.full((len(number), ANSWER), held.sums.vocabulary.pad_id, dtype=np.int64)
        for row, ids in zip(padded, completion_ids, strict=True):
            row[: len(ids)] = ids
        arrays = {"ids": padded, "numbers": np.array(number, dtype=np.int64)}
        return [float(x) for x in held.answer("score", {}, arrays)[1]["rewards"]]

    return GRPOTrainer(
        model=pupil,
        args=arguments,
        processing_class=_tokenizer(held.sums),
        reward_funcs=marks,
        train_dataset=Dataset.from_dict(rows),
    )


def word(number: int) -> str:
    """A token as a word of the tokenizer; none begins another one, which would be split."""
    return f"t{number:02}"


def _tokenizer(sums: Sums) -> PreTrainedTokenizerFast:
    """Words to the numbers in them: TRL wants prompts as text."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    known = sums.vocabulary
    inner = Tokenizer(
        models.WordLevel({word(i): i for i in range(len(known))}, unk_token=word(known.pad_id))
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token=word(known.pad_id),
        bos_token=word(known.bos_id),
        eos_token=word(known.eos_id),
        padding_side="left",
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the notices of TRL and transformers, which say nothing of the run."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
