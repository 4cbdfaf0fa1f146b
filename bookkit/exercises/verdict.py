"""How a verdict looks: plain text everywhere, and a card in a notebook."""

import html
import sys
from dataclasses import dataclass, field, replace
from typing import Any

COLOURS = {"passed": "#1a7f37", "failed": "#c4320a", "open": "#9a6700"}
SIGNS = {"passed": "✔", "failed": "✘", "open": "○"}


@dataclass(frozen=True)
class Block:
    """A part of a verdict: a sentence, perhaps the one that matters most, or code-like lines."""

    text: str
    is_code: bool = False
    is_strong: bool = False


@dataclass
class CheckResult:
    """The verdict of a check. It is true exactly if the function passed.

    Attributes:
        passed: whether every case was right.
        message: the whole verdict as plain text.
        exercise_id: which exercise.
        seconds: time that the check took.
        seed: gives the same cases again: ``check(exercise_id, function, seed=seed)``.
        mistakes: what was said about the likely mistake.
    """

    passed: bool
    message: str
    exercise_id: str
    seconds: float
    seed: int
    mistakes: tuple[str, ...] = ()
    html: str = field(default="", repr=False)
    shown_in: int | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self.passed

    def _ipython_display_(self) -> None:
        """Display when asked for in a later cell; the cell of the check has shown it already."""
        if self.shown_in is None or self.shown_in != _cell_number():
            show(self)
        self.shown_in = None


def as_text(state: str, headline: str, blocks: list[Block]) -> str:
    """The verdict as plain text."""
    lines = [f"{SIGNS[state]} {headline}"]
    for block in blocks:
        lines += [
            f"    {line}" if block.is_code else f"  {line}" for line in block.text.split("\n")
        ]
    return "\n".join(lines)


def as_html(state: str, headline: str, blocks: list[Block]) -> str:
    """The verdict as a card that reads in light and dark pages."""
    colour = COLOURS[state]
    parts = [
        f'<div class="nbkit-check nbkit-check-{state}" role="status" style="border-left:4px solid '
        f'{colour};padding:.4em .9em;margin:.3em 0;line-height:1.5">',
        f'<div><strong><span aria-hidden="true" style="color:{colour}">{SIGNS[state]}</span> '
        f"{_prose(headline)}</strong></div>",
    ]
    for block in blocks:
        if block.is_code:
            style = (
                "margin:.3em 0;padding:.3em .6em;overflow-x:auto;background:rgba(127,127,127,.12)"
            )
            parts.append(f'<pre style="{style}">{html.escape(block.text)}</pre>')
        else:
            weight = ";font-weight:600" if block.is_strong else ""
            parts.append(f'<div style="margin:.25em 0{weight}">{_prose(block.text)}</div>')
    return "".join(parts) + "</div>"


def with_line(result: CheckResult, line: str) -> CheckResult:
    """The verdict with one more sentence at its end."""
    end = "</div>"
    body = result.html.removesuffix(end)
    return replace(
        result,
        message=f"{result.message}\n  {line}",
        html=f'{body}<div style="margin:.25em 0">{_prose(line)}</div>{end}',
    )


def _prose(text: str) -> str:
    """Escaped text in which `code` stands between code tags."""
    pieces = html.escape(text).split("`")
    if len(pieces) % 2 == 0:
        return html.escape(text)
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(pieces))


def _shell() -> Any:
    """The IPython shell of this process, if there is one."""
    if "IPython" not in sys.modules:
        return None
    from IPython.core.getipython import get_ipython

    return get_ipython()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which can display more than text."""
    return hasattr(_shell(), "kernel")


def _cell_number() -> int | None:
    return getattr(_shell(), "execution_count", None)


def show(result: CheckResult) -> None:
    """Print the verdict; in a notebook display it with text and HTML."""
    result.shown_in = _cell_number()
    if not in_notebook():
        print(result.message)
        return
    from IPython.display import display

    display({"text/plain": result.message, "text/html": result.html}, raw=True)
