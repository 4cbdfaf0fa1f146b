"""Stage 2: a reward learned from comparisons (Christiano et al., arXiv:1706.03741)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbkit._inputs import check_number
from nbkit.data.encode import EncodedPair
from nbkit.losses import reward_model_loss
from nbkit.parallel import Parallel
from nbkit.text.scalar_models import ScalarModel
from nbkit.trainers.dpo.batch import refused_pairs
from nbkit.trainers.loop import StreamTrainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.micro import check_micro, cut
from nbkit.trainers.optimisation import adamw_of, schedule, set_rate
from nbkit.trainers.reward_model.scores import (
    evaluate,
    pair_scores,
)
from nbkit.trainers.shares import backward_parts, check_share, spread_over
from nbkit.trainers.supervised import SupervisedConfig


@dataclass(frozen=True)
class RewardModelConfig(SupervisedConfig):
    """Settings of a reward model's training, beside those of ``SupervisedConfig``.

    Attributes:
        centre_coefficient: of (chosen + rejected)^2 in the loss, see ``reward_model_loss``.
        use_margin: demand the margins that pairs bring along (arXiv:2307.09288, eq. 2).
        micro_pairs: pairs of one forward pass on one device, in place of ``micro_tokens``.

    """

    steps: int = 120
    learning_rate: float = 1e-3
    warmup: int = 10
    centre_coefficient: float = 0.0
    use_margin: bool = False
    micro_pairs: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("centre_coefficient", self.centre_coefficient, 0.0)
        check_micro(self.micro_tokens, self.micro_pairs, "micro_pairs")


class RewardModelTrainer(StreamTrainer):
    """A run of a reward model's training.

    Args:
        model: a scalar model, trained in place.
        pairs: to learn from.
        config: settings.
        pad_id: of the padding.
        generator: of the order of the pairs, on the CPU; the same on every rank.
        held_out: pairs to judge it by, or None.
        every: steps between two such judgements; the last step has one too.
        parallel: not prepared yet: spreads the model over the ranks, each of which makes this
            trainer with the same arguments and takes its pairs of every batch. None: one device.

    Raises:
        ValueError: `use_margin` with pairs that bring none; fewer pairs a step than ranks.

    """

    description = "reward model"
    data = "pairs"
    save_every = 50

    def __init__(
        self,
        model: ScalarModel,
        pairs: Sequence[EncodedPair],
        config: RewardModelConfig,
        *,
        pad_id: int,
        generator: torch.Generator,
        held_out: Sequence[EncodedPair] | None = None,
        every: int = 20,
        parallel: Parallel | None = None,
    ) -> None:
        if config.use_margin and any(pair.margin is None for pair in pairs):
            raise ValueError("use_margin: some pairs bring no margin; set it to False")
        spread = spread_over(parallel, model)
        spread.prepare(model, adamw_of(config))
        super().__init__(config, len(pairs), generator, {"model": spread})
        self.pairs, self.pad_id, self.held_out, self.every = pairs, pad_id, held_out, every
        self.batch_size = min(config.batch_size, len(pairs))
        check_share("batch_size", self.batch_size, spread, "needs a pair")

    @property
    def planned(self) -> int:
        """Steps in all."""
        return self.config.steps

    def step(self) -> Metrics:
        """Learn from one batch; return the metrics of this step.

        Returns:
            "step", "loss", "accuracy" (of the step's own pairs, before it), "gradient_norm",
            "learning_rate", "skipped" (1: loss or gradient is not finite, no step was taken), and
            where it was judged "held_out/accuracy", "held_out/loss".

        """
        config, parallel, number = self.config, self.parallel, self.done
        rate = schedule(number, config.steps, config.learning_rate, config.warmup)
        set_rate(parallel.optimiser, rate)
        batch = [self.pairs[i] for i in self.stream.take(self.batch_size)]
        metrics = {"step": number + 1.0, **self._accumulate(batch)}
        metrics["gradient_norm"] = parallel.try_step(config.max_grad_norm)
        self.refused = refused_pairs(batch, metrics["gradient_norm"])
        metrics["skipped"] = float(self.refused is not None)
        metrics["learning_rate"] = rate
        last = number + 1 == config.steps
        if self.held_out is not None and (number % self.every == 0 or last):
            # All ranks judge all of them, because the passes of a sharded model are for all ranks.
            judged = evaluate(parallel.model, self.held_out, pad_id=self.pad_id)
            metrics |= {f"held_out/{name}": judged[name] for name in ("accuracy", "loss")}
        return self.note(metrics)

    def _accumulate(self, batch: Sequence[EncodedPair]) -> Metrics:
        """Add the gradient of a batch, of which this rank computes its share."""
        config, parallel, world = self.config, self.parallel, self.parallel.world
        own = batch[world.rank :: world.size]
        lengths = [
            len(p.prompt_ids) + max(len(p.chosen_ids), len(p.rejected_ids)) for p in own
        ]  # two rows a pair
        budget = None if config.micro_tokens is None else max(1, config.micro_tokens // 2)
        loss, right = 0.0, 0

        def run(part: list[int]) -> tuple[Tensor, int]:
            some = [own[i] for i in part]
            chosen, rejected = pair_scores(parallel.model, some, self.pad_id)
            margin = None
            if config.use_margin:
                margin = torch.tensor([pair.margin for pair in some], device=chosen.device)
            losses = reward_model_loss(
                chosen, rejected, margin=margin, centre_coefficient=config.centre_coefficient
            )
            return losses.sum() / len(batch), int((chosen > rejected).sum())

        parts = cut(lengths, budget, config.micro_pairs)
        for value, correct in backward_parts(parallel, parts, [0], run):
            loss, right = loss + value.item(), right + correct
        loss, all_right = parallel.total(loss, right)
        return {"loss": loss, "accuracy": all_right / len(batch)}

    def postfix(self, metrics: Metrics) -> str:
        """As in ``Trainer``."""
        return f"accuracy {metrics['accuracy']:.2f}"
