"""A test kit that any reinforcement-learning library can run on itself.

The cases are data: small inputs, the right value, and the values that known faults and differing
conventions give, each with its meaning and the thread or paper that it comes from. A library is
described by an `Adapter` that calls its own functions; what it does not have it leaves out.

    >>> from nbkit.conformance import check
    >>> findings = check("ours")

On the command line: `nbkit conformance trl`, or `nbkit conformance your_module:YourAdapter`.
"""

from nbkit.conformance.adapter import Adapter, NotProvided
from nbkit.conformance.case import Case, Outcome
from nbkit.conformance.cases import ALL_CASES
from nbkit.conformance.libraries import LIBRARIES, load_adapter
from nbkit.conformance.run import Finding, check, run_case

__all__ = [
    "ALL_CASES",
    "LIBRARIES",
    "Adapter",
    "Case",
    "Finding",
    "NotProvided",
    "Outcome",
    "check",
    "load_adapter",
    "run_case",
]
