"""A test kit that any reinforcement-learning library can run on itself.

The cases are data: small inputs, the right value, and the values that known faults and differing
conventions give, each with its meaning and the thread or paper that it comes from. A library is
described by an `Adapter` that calls its own functions; what it does not have it leaves out.

    >>> from bookkit.conformance import check
    >>> findings = check("ours")

On the command line: `nbkit conformance trl`, or `nbkit conformance your_module:YourAdapter`.
"""

from bookkit.conformance.adapter import Adapter, NotProvided
from bookkit.conformance.case import Case, Outcome
from bookkit.conformance.cases import ALL_CASES
from bookkit.conformance.libraries import LIBRARIES, load_adapter
from bookkit.conformance.run import Finding, check, run_case

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
