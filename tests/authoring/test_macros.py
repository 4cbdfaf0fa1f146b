"""Formulas in notebooks: JupyterLab, which knows none of our macros, typesets each one."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

from bookkit.authoring.macros import macros_of, written_out
from bookkit.authoring.page import (
    Cell,
    Content,
    content_of_notebook,
    find_pages,
    join,
    notebook_of_content,
)
from bookkit.authoring.split import find_exercises
from nbkit.errors import UserError
from tests.authoring.book import Book
from tests.authoring.conftest import CHAPTER, NOTEBOOK

ROOT = Path(__file__).parents[2]
KATEX = ROOT / "book/_theme/vendor/katex.min.js"
MACROS = {r"\E": r"\mathbb{E}", r"\given": r"\mid", r"\mean": r"\E"}
PROGRAM = """
const katex = require(process.argv[1]);
const refused = [];
for (const tex of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
  try { katex.renderToString(tex, { displayMode: true, throwOnError: true }); }
  catch (error) { refused.push([tex, error.message]); }
}
process.stdout.write(JSON.stringify(refused));
"""


def refused(formulas: list[str]) -> list[list[str]]:
    """The formulas that KaTeX, as jupyterlab-myst calls it, shows as a red error."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["node", "-e", PROGRAM, str(KATEX)],
        input=json.dumps(formulas),
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@functools.cache
def parser() -> MarkdownIt:
    return MarkdownIt().use(dollarmath_plugin, double_inline=True).use(amsmath_plugin)


def formulas(markdown: str) -> list[str]:
    """The TeX of all formulas of a cell, of those in directives too."""
    found = []
    for token in parser().parse(markdown):
        if token.type in ("math_block", "math_block_label", "amsmath"):
            found.append(token.content)
        elif token.type == "fence" and token.info.startswith("{math}"):
            lines = token.content.split("\n")
            found.append("\n".join(line for line in lines if not line.startswith(":")))
        elif token.type == "fence" and token.info.startswith("{"):
            found += formulas(token.content)
        for child in token.children or []:
            if child.type in ("math_inline", "math_inline_double"):
                found.append(child.content)
    return found


def notebooks() -> list[tuple[str, dict]]:
    """Each page and exercise of the book as `nbkit execute` and `split` write it."""
    pages = find_pages(ROOT)
    made = [
        (page.name, notebook_of_content(page.content(), key=page.name, macros=page.macros()))
        for page in pages
    ]
    return made + [(e.name, e.wanted()) for e in find_exercises(ROOT, pages)]


def markdown_of(notebook: dict) -> list[str]:
    return [join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown"]


def test_every_formula_of_every_notebook_is_typeset_without_our_macros():
    found = [
        (name, tex)
        for name, notebook in notebooks()
        for text in markdown_of(notebook)
        for tex in formulas(text)
    ]
    assert len(found) > 1000
    bad = {formula[0]: formula[1] for formula in refused(sorted({tex for _, tex in found}))}
    assert not [(name, tex, bad[tex]) for name, tex in found if tex in bad]


def test_the_text_itself_would_show_errors():
    """Else the test above could not fail."""
    page = next(p for p in find_pages(ROOT) if p.text.name == "12_ppo.md")
    found = [
        tex
        for text in markdown_of(notebook_of_content(page.content(), key=""))
        for tex in formulas(text)
    ]
    assert any("Undefined control sequence" in reason for _, reason in refused(found))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"$\E_x[x \given y]$", r"$\mathbb{E}_x[x \mid y]$"),
        (r"$\mean x$ and {math}`\E x`", r"$\mathbb{E} x$ and {math}`\mathbb{E} x`"),
        (r"`\E` is code, ``a ` \E`` too: $\E$", r"`\E` is code, ``a ` \E`` too: $\mathbb{E}$"),
        (r"$\Eta \\E$", r"$\Eta \\E$"),
        ("```{math}\n:label: a\n\\E x\n```", "```{math}\n:label: a\n\\mathbb{E} x\n```"),
        ("```python\n'\\E'\n```\n$\\E$", "```python\n'\\E'\n```\n$\\mathbb{E}$"),
        (
            ":::{dropdown} $\\E$\n```text\n\\E\n```\n$\\E$\n:::",
            ":::{dropdown} $\\mathbb{E}$\n```text\n\\E\n```\n$\\mathbb{E}$\n:::",
        ),
    ],
)
def test_macros_are_written_out_in_formulas_and_not_in_code(text, shown):
    assert written_out(text, MACROS) == shown


def test_a_macro_in_itself_and_one_with_arguments_are_refused(tmp_path):
    with pytest.raises(UserError, match="stands in itself"):
        written_out(r"$\a$", {r"\a": r"x\a"})
    (tmp_path / "myst.yml").write_text("project:\n  math:\n    '\\f': 'f(#1)'\n")
    with pytest.raises(UserError, match=r"\\f takes arguments"):
        macros_of(tmp_path)


def test_what_was_written_comes_back_and_an_edit_stays():
    content = Content({}, {}, (Cell("markdown", r"$\E x$"), Cell("markdown", "plain")))
    notebook = notebook_of_content(content, key="a", macros=MACROS)
    assert notebook["cells"][0]["source"] == r"$\mathbb{E} x$"
    assert "nbkit" not in notebook["cells"][1]["metadata"]
    assert content_of_notebook(notebook, "a") == content
    notebook["cells"][0]["source"] = r"$\mathbb{E} y$"
    assert content_of_notebook(notebook, "a").cells[0] == Cell("markdown", r"$\mathbb{E} y$")


def test_a_notebook_from_before_a_macro_is_stale_and_gets_new_formulas_without_a_run(
    executed: Book,
):
    book = executed
    book.write(CHAPTER, book.read(CHAPTER) + "\n+++\n\n$\\E x$\n")
    book.nbkit("execute")
    assert last_text(book) == "$\\E x$"
    book.write("myst.yml", "project:\n  math:\n    '\\E': '\\mathbb{E}'\n")
    assert "every macro of myst.yml written out" in book.nbkit("stamp", "--check", status=1)
    assert "its outputs are kept" in book.nbkit("execute")
    assert last_text(book) == "$\\mathbb{E} x$"
    assert "written out" not in book.nbkit("stamp")
    assert "nothing to do" in book.nbkit("sync")


def last_text(book: Book) -> str:
    return markdown_of(book.notebook(NOTEBOOK))[-1]
