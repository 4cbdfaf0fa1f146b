"""Bytes under ZeRO, by the names that chapters 33 and 34 use; `nbkit.memory` counts them."""

from nbkit.memory.zero import Bytes, traffic_bytes, zero_bytes

__all__ = ["Bytes", "traffic_bytes", "zero_bytes"]
