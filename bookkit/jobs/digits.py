"""How many significant digits of a number a recorded result keeps, and a comparison shows."""

KEPT, SHOWN = 6, 5


def kept(value: float) -> float | str:
    """As many digits as a curve needs; what JSON cannot hold goes by its name, as in "nan"."""
    short = float(f"{value:.{KEPT}g}")
    return short if abs(short) < float("inf") else str(short)


def shown(value: float) -> str:
    """A number for a table.

    It is first rounded as a recorded result is: a run and its record then look the same, where one
    rounding would now and then end on the other side of a half.
    """
    return f"{float(kept(value)):.{SHOWN}g}"
