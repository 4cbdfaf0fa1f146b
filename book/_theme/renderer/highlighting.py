"""Code in colours."""

import re

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

from renderer.errors import ContentError
from renderer.nodes import element

LEXER_ALIASES = {
    "ipython3": "python",
    "ipython": "python",
    "py": "python",
    "": "text",
    "none": "text",
}
# Names, operators, brackets and space have the colour of the text: no element is spent on them.
PLAIN = re.compile(r'<span class="(?:n|nn|o|p|w|vm|nl)">([^<]*)</span>')
LANGUAGE_NAMES = {
    "python": "Python",
    "bash": "Shell",
    "console": "Shell",
    "yaml": "YAML",
    "json": "JSON",
}


def code_html(
    source: str,
    language: str | None = None,
    *,
    line_numbers: bool = False,
    emphasised_lines: tuple[int, ...] = (),
    filename: str = "",
) -> str:
    """A block of code: colours by class, so that light and dark mode share the HTML."""
    name = (language or "").lower()
    name = LEXER_ALIASES.get(name, name)
    try:
        lexer = TextLexer() if name == "text" else get_lexer_by_name(name)
    except ClassNotFound:
        raise ContentError(
            f"the code block names the language {language!r}, which Pygments does not know"
        ) from None
    body = PLAIN.sub(r"\1", highlight(source, lexer, HtmlFormatter(nowrap=True)))
    if line_numbers or emphasised_lines:
        body = _mark_lines(body, emphasised_lines)
    label = element("span", filename, class_="code-file") if filename else ""
    return element(
        "div",
        label + element("pre", element("code", body)),
        class_="code numbered" if line_numbers else "code",
        data_language=LANGUAGE_NAMES.get(name, name),
    )


def _mark_lines(body: str, emphasised: tuple[int, ...]) -> str:
    """Wrap each line in a span; numbers are drawn by the style sheet and are not copied."""
    return "".join(
        element("span", line + "\n", class_="line emphasised" if number in emphasised else "line")
        for number, line in enumerate(body.rstrip("\n").split("\n"), start=1)
    )
