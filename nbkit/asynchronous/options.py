"""Settings of a run whose generator and trainer are apart, beside those of the algorithm."""

from dataclasses import dataclass
from typing import Literal

from nbkit._inputs import check_choice, check_number
from nbkit.asynchronous.generator import STARTS
from nbkit.asynchronous.in_flight import CACHES
from nbkit.asynchronous.queue import POLICIES
from nbkit.trainers.grpo.config import GRPOConfig


@dataclass(frozen=True)
class AsyncOptions:
    """How far the two may be apart, and how long each waits for the other.

    Attributes:
        staleness: versions η that a token may be behind the trainer; 0: the synchronous run.
        capacity: groups that the queue holds; None: as many as the rule of admission allows, so
            that it is never full.
        policy: "drop" asks again for a group that is older than `staleness`; "keep" trains on it.
            With one generator, and in order, no group is: see ``capacity.oldest_in_batch``.
        in_flight: the generator takes new weights between two decode steps; else between two calls.
        cache: what that does to the KV cache: "keep" or "recompute".
        reward_limit_s: of the reward function, for one group; over it the group is unscored. None:
            there is no limit.
        wait_s: the trainer waits so long for a word of the generator; then it is restarted.
        idle_s: the generator waits so long for a word of the trainer; then it ends.
        restarts: of the generator without a delivery in between; one more ends the run.
        start: "forkserver" or "spawn".
        device: of the generator, such as "cuda:1"; None: the trainer's.

    """

    staleness: int = 1
    capacity: int | None = None
    policy: Literal["drop", "keep"] = "drop"
    in_flight: bool = True
    cache: Literal["keep", "recompute"] = "keep"
    reward_limit_s: float | None = 60.0
    wait_s: float = 600.0
    idle_s: float = 3600.0
    restarts: int = 3
    start: Literal["forkserver", "spawn"] = "forkserver"
    device: str | None = None

    def __post_init__(self) -> None:
        check_number("staleness", self.staleness, 0)
        check_number("restarts", self.restarts, 0)
        for name in ("wait_s", "idle_s"):
            check_number(name, getattr(self, name), 0.0, open_low=True)
        if self.reward_limit_s is not None:
            check_number("reward_limit_s", self.reward_limit_s, 0.0, open_low=True)
        check_choice("policy", self.policy, POLICIES)
        check_choice("cache", self.cache, CACHES)
        check_choice("start", self.start, STARTS)

    def room(self, config: GRPOConfig) -> int:
        """Groups that the queue holds.

        Raises:
            ValueError: fewer than a batch, for which the trainer would wait for ever.

        """
        if self.capacity is None:
            return (self.staleness + 1) * config.prompts
        if self.capacity < config.prompts:
            raise ValueError(
                f"capacity is {self.capacity}, but an update takes prompts={config.prompts} "
                "groups: the queue must hold at least a batch"
            )
        return self.capacity
