"""Markdown in notebook outputs (the prose of a page is parsed by mystmd)."""

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from renderer.highlighting import code_html
from renderer.mathematics import formula_html
from renderer.nodes import element


def markdown_html(text: str) -> str:
    """HTML of a Markdown output: code in colours, formulas typeset, tables that scroll."""
    return str(_parser().render(text))


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    parser.use(dollarmath_plugin, renderer=_formula, double_inline=True)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("table_open", lambda *_: '<div class="table-scroll"><table>')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


def _formula(tex: str, options: dict[str, Any]) -> str:
    display = bool(options["display_mode"])
    html = formula_html(tex.strip(), display=display)
    return element("div", html, class_="math-scroll") if display else html


def _fence(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    return code_html(token.content, token.info.strip().split(" ")[0])
