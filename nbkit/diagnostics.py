"""How well predictions explain what they predict."""

from torch import Tensor

from nbkit._inputs import check_same_shape


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var[returns - values] / Var[returns]: 1 is perfect, 0 no better than a constant.

    Args:
        values: predictions, (M,).
        returns: their targets, (M,).

    Returns:
        NaN where all returns are equal: there is nothing to explain.

    Raises:
        ValueError: shapes that differ.

    """
    check_same_shape("values", values, "returns", returns)
    spread = returns.var(correction=0).item()
    if spread == 0:
        return float("nan")
    return 1 - (returns - values).var(correction=0).item() / spread
