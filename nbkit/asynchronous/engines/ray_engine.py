"""The loop on Ray: a generator and a learner as actors, each in a bundle of a placement group.

Groups and weights go from actor to actor through the object store; the controller holds references
(Moritz et al. 2018, arXiv:1712.05889). A generator that dies is started again by Ray.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from nbkit._inputs import check_number
from nbkit.asynchronous.engines.controller import GeneratorLostError
from nbkit.asynchronous.engines.roles import (
    GeneratorRole,
    Learned,
    LearnerRole,
    MakeLearner,
    Order,
)

PAUSE_S = 0.2  # between two questions to an actor that is being restarted
ATTEMPTS = 4  # to start Ray: its own limits are 15 s and 30 s, which a busy machine can miss
STORE_BYTES = 200_000_000


class RayEngine:
    """Two actors on Ray; use it in a ``with`` statement, or close it.

    Args:
        make: an importable function that returns a ``TicketTrainer``.
        arguments: of `make`.
        cpus: of each actor.
        gpus: of each actor; below 1 two actors may share one.
        restarts: of the generator, by Ray.
        limit_s: of every wait.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        TimeoutError: the cluster has no room for two such bundles.

    """

    def __init__(
        self,
        make: MakeLearner,
        arguments: Mapping[str, Any],
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        restarts: int = 1,
        limit_s: float = 600.0,
    ) -> None:
        check_number("cpus", cpus, 0.0, open_low=True)
        check_number("gpus", gpus, 0.0)
        check_number("restarts", restarts, 0)
        check_number("limit_s", limit_s, 0.0, open_low=True)
        self._ray: Any = ray_module()
        self._limit_s = limit_s
        self._started = not self._ray.is_initialized()
        if self._started:
            start_ray(self._ray, max(2, math.ceil(2 * cpus)))
        try:
            self._place(make, arguments, {"CPU": cpus, **({"GPU": gpus} if gpus else {})}, restarts)
        except BaseException:
            self.close()
            raise

    def _place(
        self,
        make: MakeLearner,
        arguments: Mapping[str, Any],
        bundle: dict[str, float],
        restarts: int,
    ) -> None:
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        self._group = placement_group([bundle, bundle], strategy="PACK")
        if not self._group.wait(min(self._limit_s, 60.0)):
            raise TimeoutError(
                f"the cluster has no room for two bundles of {bundle}: it has "
                f"{self._ray.available_resources()}"
            )

        def actor(role: type, place: int, **options: Any) -> Any:
            strategy = PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=place
            )
            sizes = {"num_cpus": bundle["CPU"], "num_gpus": bundle.get("GPU", 0)}
            return self._ray.remote(role).options(scheduling_strategy=strategy, **sizes, **options)

        self._learner = actor(LearnerRole, 0).remote(make, dict(arguments))
        # Held: Ray starts a lost actor with the arguments of its first start, and an object that
        # nobody refers to is deleted (Ray's issue 53727).
        self._task = self._learner.task.remote()
        self.generator = actor(GeneratorRole, 1, max_restarts=restarts).remote(self._task)

    def issue(self) -> list[list[Order]]:
        """As in ``Engine``."""
        return self._get(self._learner.issue.remote())

    def publish(self) -> None:
        """As in ``Engine``; calls of one actor run in the order in which they were made."""
        self.generator.load.remote(self._learner.weights.remote())

    def ask(self, orders: Sequence[Order]) -> Any:
        """As in ``Engine``: references to the receipt and to the groups."""
        return self.generator.answer.options(num_returns=2).remote(list(orders))

    def receipt(self, pending: Any) -> list[int]:
        """As in ``Engine``."""
        try:
            return self._get(pending[0])
        except self._ray.exceptions.RayActorError as error:
            raise GeneratorLostError(f"the generator is gone: {error}") from error

    def learn(self, pending: Any) -> Learned:
        """As in ``Engine``; the groups do not pass through this process."""
        return self._get(self._learner.learn.remote(pending[1]))

    def revive(self) -> None:
        """As in ``Engine``: Ray starts the actor, if it has restarts left."""
        deadline = time.monotonic() + self._limit_s
        while True:
            try:
                self._get(self.generator.pid.remote())
                return
            except self._ray.exceptions.ActorUnavailableError as error:
                if time.monotonic() > deadline:
                    raise GeneratorLostError("the generator was not started again") from error
                time.sleep(PAUSE_S)
            except self._ray.exceptions.RayActorError as error:
                raise GeneratorLostError(f"Ray starts no further generator: {error}") from error

    def weights(self) -> tuple[dict[str, Any], int]:
        """Of the learner, and their version."""
        return self._get(self._learner.weights.remote())

    def pid(self) -> int:
        """Of the generator's process."""
        return self._get(self.generator.pid.remote())

    def close(self) -> None:
        """End both actors, and Ray, if this object started it."""
        from ray.util.placement_group import remove_placement_group

        if not self._ray.is_initialized():
            return
        if getattr(self, "_group", None) is not None:
            remove_placement_group(self._group)
        if self._started:
            self._ray.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, handle: Any) -> Any:
        try:
            return self._ray.get(handle, timeout=self._limit_s)
        except self._ray.exceptions.GetTimeoutError as error:
            raise TimeoutError(f"an actor did not answer in {self._limit_s:g} s") from error


def start_ray(ray: Any, cpus: int) -> None:
    """Start a cluster of this machine alone.

    Args:
        ray: the module.
        cpus: that it counts.

    Raises:
        TimeoutError: its processes did not come up in several attempts.

    """
    for attempt in range(ATTEMPTS):
        try:
            ray.init(
                num_cpus=cpus, include_dashboard=False, log_to_driver=False,
                logging_level="ERROR", object_store_memory=STORE_BYTES,
            )  # fmt: skip
            return
        except Exception as error:  # Ray raises no class of its own here
            ray.shutdown()
            if "timed out during startup" not in str(error):
                raise
            if attempt == ATTEMPTS - 1:
                raise TimeoutError(f"Ray did not start in {ATTEMPTS} attempts: {error}") from error


def ray_module() -> Any:
    """Ray, or one sentence that says how to get it.

    Raises:
        ModuleNotFoundError: it is not installed.

    """
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Ray is not installed: pip install 'nbkit[async]' -c constraints.txt"
        ) from error
    return ray
