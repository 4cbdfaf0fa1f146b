"""What some code can come to, symbol by symbol, with a digest of each."""

from dataclasses import dataclass, field

from bookkit.authoring.reach.digests import combined_digest

IMPORTING = "(on import)"
SHOWN = "(as shown)"
RUN = "(as a program)"
ABSENT = "absent"


@dataclass
class Reach:
    """What some code can come to.

    Attributes:
        symbols: a digest for each function, class and constant by dotted name; for what importing
            a module does, under `module (on import)`; for what it does as a program, under
            `module (as a program)`; for source that is shown, under `name (as shown)`; for data
            beside a module, under their path; `absent` for a name that its module does not have.
        modules: every module of the checkout that is imported on the way.
    """

    symbols: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)

    @property
    def digest(self) -> str:
        """One digest for all of it."""
        return combined_digest(self.symbols)
