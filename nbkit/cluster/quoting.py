"""How a value goes into a script: as one literal word, whatever it holds."""

import shlex


def sh(value: object) -> str:
    """One word of bash that stands for exactly this text; a plain word stays as it is."""
    return shlex.quote(str(value))


def comment(value: object) -> str:
    """Text inside a comment: everything that could end its line is written as an escape."""
    text = str(value)
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
