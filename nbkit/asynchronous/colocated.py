"""Sampler and trainer on one device, in turns: while one learns, the other holds no memory.

Libraries call it a hybrid engine, and its two states "sleep" and "wake". Both halves are in one
process, so weights are handed over in memory: the sampler reads the trainer's own tensors, and
makes its copies (joined, or cast to another precision) anew when it wakes.
"""

import time
from collections.abc import Sequence

import torch

from nbkit.asynchronous.groups import scored_call, split
from nbkit.asynchronous.learner import TicketTrainer
from nbkit.asynchronous.sampler import Sampler
from nbkit.asynchronous.tickets import seeds_of
from nbkit.parallel import Parallel
from nbkit.text.protocols import LanguageModel, Problem, Vocabulary
from nbkit.trainers.grpo.config import GRPOConfig
from nbkit.trainers.metrics import Metrics
from nbkit.trainers.scoring import RewardFunction


class ColocatedGRPOTrainer(TicketTrainer):
    """GRPO in one process, whose sampler sleeps during each update. Staleness is 0.

    Args:
        model: trained in place, and sampled from.
        vocabulary: as for ``GRPOTrainer``.
        problems: as for ``GRPOTrainer``.
        reward_fn: as for ``GRPOTrainer``; called with one group at a time.
        config: without dynamic sampling; ``release_engine`` has no meaning here.
        reference: as for ``GRPOTrainer``.
        generator: source of all randomness.
        parallel: of one device, see ``TicketTrainer``.

    Attributes:
        sampler: asleep between two steps.
        awake_bytes: what the sampler held beside the model when it last fell asleep.

    """

    description = "colocated GRPO"

    def __init__(
        self,
        model: LanguageModel,
        vocabulary: Vocabulary,
        problems: Sequence[Problem],
        reward_fn: RewardFunction,
        config: GRPOConfig,
        *,
        reference: LanguageModel | None = None,
        generator: torch.Generator,
        parallel: Parallel | None = None,
    ) -> None:
        super().__init__(
            model, vocabulary, problems, reward_fn, config,
            staleness=0, reference=reference, generator=generator, parallel=parallel,
        )  # fmt: skip
        self.sampler = Sampler(self.model, vocabulary, config)
        self.awake_bytes: dict[str, int] = {}

    def step(self) -> Metrics:
        """Sample, fall asleep, score, learn."""
        self.ledger.issue(self.done)
        tickets = self.ledger.open()
        orders = [(ticket, self.problems[ticket.prompt]) for ticket in tickets]
        begin = time.perf_counter()
        problems = [problem for _, problem in orders]
        made, versions = self.sampler.sample(problems, seeds_of(tickets), self.done)
        parts = split(made, versions, self.config.group_size)
        del made, versions
        self.awake_bytes = self.sampler.bytes
        self.sampler.sleep()
        sampled = time.perf_counter()
        groups = scored_call(orders, parts, self.vocabulary, self.reward_fn)
        told = {
            "sampler_bytes/awake": float(sum(self.awake_bytes.values())),
            "sampler_bytes/learning": float(sum(self.sampler.bytes.values())),
            "seconds/generate": sampled - begin,
            "seconds/reward": time.perf_counter() - sampled,
        }
        return self.learn(groups, told)
