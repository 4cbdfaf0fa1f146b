# ruff: noqa: D102 - the methods are described in bookkit.conformance.adapter
"""torchrl: generalised advantage estimation with its two flags."""

from torch import Tensor
from torchrl.objectives.value.functional import generalized_advantage_estimate

from bookkit.conformance.adapter import Adapter


class TorchrlAdapter(Adapter):
    """torchrl's GAE."""

    name = "torchrl"
    package = "torchrl"
    sources = {  # noqa: RUF012
        "environment_gae": "torchrl.objectives.value.functional.generalized_advantage_estimate"
    }

    def environment_gae(
        self,
        rewards: Tensor,
        values: Tensor,
        next_values: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
        lam: float,
    ) -> Tensor:
        columns = (x[:, None] for x in (values, next_values, rewards))
        flags = (x[:, None].bool() for x in (done, terminated))
        return generalized_advantage_estimate(gamma, lam, *columns, *flags)[0][:, 0]
