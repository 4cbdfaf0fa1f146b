"""The kinds of text that a job.yaml may hold, each kept free of what a script cannot hold."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from nbkit.cluster.quoting import SHELL_PREFIXES, SHELL_VARIABLES


def _writable(text: str) -> str:
    """Refuse what a script cannot hold."""
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise ValueError("holds a control character or a line break; write it in one line")
    return text


def _no_option(text: str) -> str:
    """Refuse what a program would take for an option."""
    if text.startswith("-"):
        raise ValueError(f"{text!r} begins with a dash, which a program takes for an option")
    return text


def _harmless(name: str) -> str:
    """Refuse a variable that changes what the scripts or the shell themselves do."""
    if name in SHELL_VARIABLES or name.startswith(SHELL_PREFIXES):
        raise ValueError(f"environment may not set {name}, which the scripts or bash itself use")
    return name


Text = Annotated[str, StringConstraints(min_length=1), AfterValidator(_writable)]
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.,:+&|-]*$")]
StageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
# Capitals, so that no variable of the scripts, which are small, can be meant.
VariableName = Annotated[
    str, StringConstraints(pattern=r"^[A-Z_][A-Z0-9_]*$"), AfterValidator(_harmless)
]
ModuleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./+-]*$")]
Name = Annotated[Text, AfterValidator(_no_option)]


class Part(BaseModel):
    """A mapping of job.yaml that knows its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
