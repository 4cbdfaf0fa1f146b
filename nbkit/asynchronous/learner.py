"""The learning half of ``GRPOTrainer``: an update from groups that somebody else has sampled."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nbkit.asynchronous.groups import Group, as_batch, staleness
from nbkit.asynchronous.tickets import Ledger
from nbkit.parallel import Parallel
from nbkit.text.adapters import has_adapters
from nbkit.text.protocols import LanguageModel, Problem, Vocabulary
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.grpo.trainer import GRPOTrainer
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.scoring import RewardFunction


class TicketTrainer(GRPOTrainer):
    """A ``GRPOTrainer`` that asks by tickets and learns from finished groups, on one device.

    Its version is the number of updates that it has made.

    Args:
        model: trained in place; without adapters.
        vocabulary: as for ``GRPOTrainer``.
        problems: as for ``GRPOTrainer``.
        reward_fn: as for ``GRPOTrainer``; called with one group at a time.
        config: without dynamic sampling.
        staleness: of the rule of admission.
        reference: as for ``GRPOTrainer``.
        generator: source of all randomness; on a CPU.
        parallel: as for ``GRPOTrainer``, of one device: it gives the precision. None: float32.

    Attributes:
        ledger: what was asked.
        versions: (R, T) of the last batch.
        numbers: tickets of the last batch.

    Raises:
        ValueError: dynamic sampling, adapters, several ranks, a generator on another device; as
            ``GRPOTrainer``.

    """

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        problems: Sequence[Problem],
        reward_fn: RewardFunction,
        config: GRPOConfig,
        *,
        staleness: int,
        reference: LanguageModel | None = None,
        generator: torch.Generator,
        parallel: Parallel | None = None,
    ) -> None:
        if parallel is not None and parallel.world.size > 1:
            raise ValueError(
                f"parallel spreads the model over {parallel.world.size} ranks; the learning half "
                "works on one device so far: give a Parallel of one"
            )
        if config.dynamic_sampling:
            raise ValueError(
                "dynamic_sampling asks for more groups once it has seen the rewards of a batch; "
                "here groups are asked for ahead. Use silent_groups='exclude' instead"
            )
        super().__init__(
            model, vocabulary, problems, reward_fn, config,
            reference=reference, generator=generator, parallel=parallel,
        )  # fmt: skip
        if has_adapters(self.model):
            raise ValueError("model has adapters: merge them, the generator gets plain weights")
        self.versions: Tensor | None = None
        self.numbers: list[int] = []
        last = config.updates * config.prompts
        self.ledger = Ledger(self.stream, config.prompts, config.group_size, staleness, last)

    def learn(self, groups: Sequence[Group], told: Metrics) -> Metrics:
        """Make an update on a batch of groups; each is closed in the ledger.

        Args:
            groups: of a batch, in the order of their tickets.
            told: further metrics of this step.

        """
        device = self.parallel.world.device
        made = as_batch(groups, self.problems, self.config, self.vocabulary.pad_id, device)
        metrics = self.learn_from(
            made.rows,
            {
                **made.metrics,
                "groups_unscored": float(sum(not group.in_time for group in groups)),
                **staleness(made.versions, self.done),
                **told,
            },
        )
        self.notes, self.versions = made.notes, made.versions
        self.numbers = [group.number for group in groups]
        self.ledger.close(self.numbers)
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """As in ``Trainer``, with the open tickets: what they ask for is asked again on resuming.

        Groups that have been sampled and not trained on are not kept. With staleness 0 a resumed
        run equals an unbroken one to the bit; else it samples them anew, with newer weights.
        """
        return super().state_dict() | {"ledger": self.ledger.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        super().load_state_dict(state)
        self.ledger.load_state_dict(state["ledger"])
