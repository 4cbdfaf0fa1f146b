"""Each node type, one by one: the node as mystmd gives it, the HTML that must come of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from renderer.nodes import HANDLERS


def node(node_type: str, /, *children: dict | str, **fields: object) -> dict:
    inner = [{"type": "text", "value": c} if isinstance(c, str) else c for c in children]
    return {"type": node_type, **({"children": inner} if inner else {}), **fields}


def paragraph(text: str) -> dict:
    return node("paragraph", text)


TITLE = node("admonitionTitle", "Why")
IMAGE = node("image", url="/loop.svg", urlSource="loop.svg", alt="A loop")
STREAM = {"output_type": "stream", "name": "stdout", "text": "hello\n"}

# node type -> (name of the case, node, HTML that must be in the result)
CASES: dict[str, list[tuple[str, dict, str]]] = {
    "text": [("escapes", node("text", value="a < b & c"), "a &lt; b &amp; c")],
    "strong": [("plain", node("strong", "x"), "<strong>x</strong>")],
    "emphasis": [("plain", node("emphasis", "x"), "<em>x</em>")],
    "delete": [("plain", node("delete", "x"), "<del>x</del>")],
    "underline": [("plain", node("underline", "x"), "<u>x</u>")],
    "subscript": [("plain", node("subscript", "2"), "<sub>2</sub>")],
    "superscript": [("plain", node("superscript", "3"), "<sup>3</sup>")],
    "keyboard": [("plain", node("keyboard", "/"), "<kbd>/</kbd>")],
    "smallcaps": [("plain", node("smallcaps", "ppo"), '<span class="smallcaps">ppo</span>')],
    "inlineCode": [("escapes", node("inlineCode", value="a<b>"), "<code>a&lt;b&gt;</code>")],
    "inlineMath": [
        (
            "typeset",
            node("inlineMath", value="x", html="<i>x</i>"),
            '<span class="math-inline"><i>x</i></span>',
        )
    ],
    "abbreviation": [
        ("title", node("abbreviation", "KL", title="a & b"), '<abbr title="a &amp; b">KL</abbr>')
    ],
    "break": [("plain", node("break"), "<br>")],
    "span": [("class", node("span", "x", **{"class": "hot"}), '<span class="hot">x</span>')],
    "link": [
        (
            "outside",
            node("link", "x", url="https://a.org/?b=1&c"),
            '<a href="https://a.org/?b=1&amp;c" class="external" rel="noopener">x</a>',
        ),
        (
            "page",
            node("link", "x", url="/notebooks/ppo", internal=True),
            '<a href="../../notebooks/ppo/index.html" data-preview="preview-1">x</a>',
        ),
        (
            "file",
            node("link", "x", url="/data.csv", static=True, urlSource="raw/data.csv"),
            '<a href="../../files/data.csv" download="data.csv">x</a>',
        ),
        ("no text", node("link", url="https://a.org"), ">https://a.org</a>"),
    ],
    "root": [("children", node("root", paragraph("x")), "<p>x</p>")],
    "include": [("children", node("include", paragraph("x")), "<p>x</p>")],
    "legend": [("children", node("legend", paragraph("x")), "<p>x</p>")],
    "paragraph": [("plain", paragraph("x"), "<p>x</p>")],
    "heading": [
        (
            "anchor",
            node("heading", "Loss", depth=2, html_id="loss"),
            '<h2 id="loss">Loss <a class="anchor" href="#loss"',
        ),
        ("never a second h1", node("heading", "A", depth=1, html_id="a"), '<h2 id="a">A'),
    ],
    "blockquote": [("plain", node("blockquote", paragraph("x")), "<blockquote><p>x</p>")],
    "thematicBreak": [("plain", node("thematicBreak"), "<hr>")],
    "comment": [("dropped", node("comment", value="secret"), "")],
    "target": [("anchor", node("target", html_id="here"), '<span id="here"></span>')],
    "math": [
        (
            "numbered",
            node("math", value="x", html="<b>x</b>", enumerator="11.1", html_id="eq-x"),
            '<div id="eq-x" class="math-display"><div class="math-scroll"><b>x</b></div>'
            '<a class="equation-number" href="#eq-x" aria-label="Equation 11.1">(11.1)</a></div>',
        ),
        (
            "no label, no link",
            node("math", value="x", html="<b>x</b>", enumerator="2"),
            '<span class="equation-number">(2)</span>',
        ),
    ],
    "mathGroup": [
        ("children", node("mathGroup", node("math", value="x", html="<b>x</b>")), "math-group")
    ],
    "code": [
        (
            "colours",
            node("code", lang="python", value="def f(): pass"),
            '<span class="nf">f</span>',
        ),
        ("no language", node("code", value="a < b"), "<code>a &lt; b"),
        (
            "numbers and emphasis",
            node("code", lang="text", value="a\nb", showLineNumbers=True, emphasizeLines=[2]),
            '<span class="line">a\n</span><span class="line emphasised">b\n</span>',
        ),
        ("file", node("code", value="x", filename="a.py"), '<span class="code-file">a.py</span>'),
    ],
    "list": [
        ("bullets", node("list", node("listItem", paragraph("x"))), "<ul><li>x</li></ul>"),
        (
            "start",
            node("list", node("listItem", paragraph("x")), ordered=True, start=3),
            '<ol start="3"><li>x</li></ol>',
        ),
        (
            "tasks",
            node("list", node("listItem", paragraph("x"), checked=True)),
            '<ul class="tasks"><li><input type="checkbox" disabled checked aria-label="done"> x',
        ),
    ],
    "listItem": [
        (
            "second block",
            node("listItem", paragraph("x"), node("code", value="y")),
            '<li>x<div class="code"',
        )
    ],
    "table": [
        (
            "head and body",
            node(
                "table",
                node("tableRow", node("tableCell", "a", header=True)),
                node("tableRow", node("tableCell", "1", align="right")),
            ),
            '<div class="table-scroll"><table><thead><tr><th>a</th></tr></thead>'
            '<tbody><tr><td class="align-right">1</td></tr></tbody></table></div>',
        )
    ],
    "tableRow": [("plain", node("tableRow", node("tableCell", "1")), "<tr><td>1</td></tr>")],
    "tableCell": [("span", node("tableCell", "1", colspan=2), '<td colspan="2">1</td>')],
    "definitionList": [
        ("plain", node("definitionList", node("definitionTerm", "a")), "<dl><dt>a</dt></dl>")
    ],
    "definitionTerm": [("anchor", node("definitionTerm", "a", html_id="t"), '<dt id="t">a</dt>')],
    "definitionDescription": [("plain", node("definitionDescription", "b"), "<dd>b</dd>")],
    "glossary": [("plain", node("glossary", node("definitionList")), '<div class="glossary"><dl>')],
    "container": [
        (
            "kind",
            node("container", IMAGE, kind="figure", html_id="fig-loop"),
            '<figure id="fig-loop" class="figure-figure"><img',
        ),
        (
            "drawing",
            node(
                "container",
                IMAGE,
                node("caption", paragraph("x")),
                **{"kind": "figure", "class": "drawing"},
            ),
            '<figure class="figure-figure drawing"><svg role="img" aria-label="A loop" '
            'class="drawing" xmlns=',
        ),
    ],
    "caption": [("plain", node("caption", paragraph("x")), "<figcaption><p>x</p></figcaption>")],
    "captionNumber": [("plain", node("captionNumber", "Figure 1:"), '"caption-number">Figure 1:')],
    "image": [
        (
            "size from the file",
            IMAGE,
            '<img src="../../files/loop.svg" alt="A loop" loading="lazy" decoding="async" '
            'width="30" height="20" class="picture">',
        ),
        (
            "drawing",
            {**IMAGE, "class": "drawing"},
            '<svg role="img" aria-label="A loop" class="drawing" xmlns=',
        ),
    ],
    "admonition": [
        (
            "kind",
            node("admonition", TITLE, paragraph("x"), kind="warning"),
            '<div class="box box-warning"><p class="box-title">Why</p>'
            '<div class="box-body"><p>x</p></div></div>',
        ),
        (
            "folded",
            node("admonition", TITLE, paragraph("x"), **{"class": "dropdown"}),
            '<details class="box box-note dropdown"><summary>Why</summary>',
        ),
        (
            "run card",
            node(
                "admonition",
                TITLE,
                node(
                    "definitionList",
                    node("definitionTerm", "Time"),
                    node("definitionDescription", "95 s"),
                ),
                **{"class": "run-card"},
            ),
            '<aside class="run-card" aria-label="Run card"><dl><div class="run-card-time">'
            "<dt>Time</dt><dd>95 s</dd></div></dl></aside>",
        ),
        (
            "run card without empty lines",
            node(
                "admonition",
                node(
                    "definitionList",
                    node("definitionTerm", "Time"),
                    node("definitionDescription", node("strong", "95"), " s, on\n2 cores\nDevice"),
                    node("definitionDescription", "CPU"),
                ),
                **{"class": "run-card"},
            ),
            "<dt>Time</dt><dd><strong>95</strong> s, on\n2 cores</dd></div>"
            '<div class="run-card-device"><dt>Device</dt><dd>CPU</dd></div>',
        ),
    ],
    "exercise": [
        (
            "number",
            node("exercise", TITLE, paragraph("x"), enumerator="11.2", html_id="ex"),
            '<span class="box-number">Exercise 11.2</span> <span class="box-name">Why</span>',
        )
    ],
    "solution": [
        ("title", node("solution", TITLE, paragraph("x")), '<p class="box-title">Why</p>'),
        (
            "folded",
            node("solution", TITLE, paragraph("x"), **{"class": "dropdown"}),
            '<details class="box box-solution dropdown">',
        ),
    ],
    "proof": [
        (
            "theorem",
            node("proof", TITLE, paragraph("x"), kind="theorem", enumerator="3"),
            '<span class="box-number">Theorem 3</span>',
        ),
        (
            "a proof has no number",
            node("proof", paragraph("x"), kind="proof", enumerator="3"),
            '<span class="box-number">Proof</span></p>',
        ),
    ],
    "details": [
        (
            "closed",
            node("details", node("summary", "Hint"), paragraph("x")),
            '<details class="fold"><summary>Hint</summary><div class="box-body"><p>x</p></div>',
        ),
        ("open", node("details", node("summary", "Hint"), open=True), "<details open "),
    ],
    "aside": [("note", node("aside", paragraph("x")), '<aside role="note" class="margin"><p>x')],
    "div": [
        ("class", node("div", paragraph("x"), **{"class": "wide"}), '<div class="wide"><p>x</p>'),
        (
            "interactive",
            node("div", IMAGE, **{"class": "interactive ppo-clip"}),
            '<div class="interactive" data-figure="ppo-clip">'
            '<div class="interactive-fallback"><img',
        ),
    ],
    "tabSet": [
        (
            "keyboard",
            node(
                "tabSet",
                node("tabItem", paragraph("x"), title="A"),
                node("tabItem", paragraph("y"), title="B"),
            ),
            '<input type="radio" name="tabs-1" id="tabs-1-0" checked>'
            '<label for="tabs-1-0">A</label><div class="tab-panel"><p>x</p></div>'
            '<input type="radio" name="tabs-1" id="tabs-1-1"><label for="tabs-1-1">B</label>',
        )
    ],
    "grid": [
        ("columns", node("grid", columns=[1, 2, 3]), '<div style="--columns:3" class="grid">')
    ],
    "card": [
        ("plain", node("card", paragraph("x")), '<div class="card"><p>x</p></div>'),
        (
            "link",
            node("card", paragraph("x"), url="/notebooks/ppo"),
            '<a href="../../notebooks/ppo/index.html" class="card"><p>x</p></a>',
        ),
        (
            "no link within a link",
            node("card", node("link", "x", url="https://a.org"), url="/"),
            '<a href="../../index.html" class="card">x</a>',
        ),
    ],
    "cardTitle": [("plain", node("cardTitle", "x"), '<p class="card-title">x</p>')],
    "header": [("plain", node("header", "x"), '<div class="card-header">x</div>')],
    "footer": [("plain", node("footer", "x"), '<div class="card-footer">x</div>')],
    "crossReference": [
        (
            "same page",
            node("crossReference", "(1)", resolved=True, html_id="eq-x", identifier="eq-x"),
            '<a class="reference" href="#eq-x" data-preview>(1)</a>',
        ),
        (
            "other page",
            node(
                "crossReference",
                "(1)",
                resolved=True,
                identifier="eq-x",
                remote=True,
                url="/notebooks/ppo",
            ),
            '<a class="reference" href="../../notebooks/ppo/index.html#eq-x" '
            'data-preview="preview-1">(1)</a>',
        ),
    ],
    "citeGroup": [
        (
            "parenthetical",
            node(
                "citeGroup",
                node("cite", "Williams, 1992", label="williams1992"),
                kind="parenthetical",
            ),
            '(<a class="citation" href="#reference-williams1992" data-preview>Williams, 1992</a>)',
        ),
        (
            "narrative",
            node("citeGroup", node("cite", "W", label="williams1992"), kind="narrative"),
            '<a class="citation"',
        ),
    ],
    "cite": [("link", node("cite", "W", label="williams1992"), 'href="#reference-williams1992"')],
    "footnoteReference": [
        (
            "number",
            node("footnoteReference", identifier="n", enumerator="1"),
            '<sup class="footnote-reference"><a href="#footnote-n" id="footnote-reference-n" '
            'aria-label="Footnote 1" data-preview>1</a></sup>',
        )
    ],
    "footnoteDefinition": [
        ("moved", node("footnoteDefinition", paragraph("x"), identifier="n", enumerator="1"), "")
    ],
    "bibliography": [
        ("entries", node("bibliography"), '<li id="reference-williams1992">Williams, R. J. (1992).')
    ],
    "block": [
        ("prose", node("block", paragraph("x")), "<p>x</p>"),
        (
            "cell",
            node(
                "block", node("code", value="x", lang="python"), kind="notebook-code", html_id="c"
            ),
            '<div class="cell" id="c"><div class="code"',
        ),
        (
            "folded code",
            node("block", node("code", value="x", visibility="hide"), kind="notebook-code"),
            '<details class="fold fold-code"><summary>Show the code</summary>',
        ),
        (
            "folded cell",
            node("block", node("code", value="x"), kind="notebook-code", visibility="hide"),
            "<summary>Show the cell</summary>",
        ),
        (
            "removed input",
            node("block", node("code", value="x", visibility="remove"), kind="notebook-code"),
            "",
        ),
        ("removed", node("block", paragraph("x"), visibility="remove"), ""),
    ],
    "outputs": [
        (
            "stream in pieces",
            node(
                "outputs", node("output", jupyter_data=STREAM), node("output", jupyter_data=STREAM)
            ),
            '<div class="outputs"><pre class="stream stdout">hello\nhello</pre></div>',
        ),
        ("none", node("outputs"), ""),
    ],
}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        pytest.param(tree, html, id=f"{kind}: {name}")
        for kind, cases in CASES.items()
        for name, tree, html in cases
    ],
)
def test_node_becomes_html(render: Callable, tree: dict, expected: str) -> None:
    html = render(tree)
    if expected:
        assert expected in html
    else:
        assert html == ""


def test_every_node_type_has_a_case() -> None:
    assert set(CASES) == set(HANDLERS)


ERRORS = [
    ("unknown type", node("marquee", "x"), "does not know this node type"),
    ("formula", node("inlineMath", value="\\frac", error=True, message="Expected"), "Expected"),
    ("broken link", node("link", "x", url="/nowhere"), "leads to no page or file"),
    ("unresolved", node("crossReference", identifier="x", label="eq-x"), "'eq-x' leads nowhere"),
    ("citation", node("cite", "x", label="nobody2000"), "'nobody2000' is not in"),
    ("no alt", node("image", url="/loop.svg", urlSource="loop.svg"), "'loop.svg' has no alt text"),
    (
        "outside picture",
        node("image", url="https://a.org/x.png", urlSource="https://a.org/x.png", alt="x"),
        "not a file of the book",
    ),
    ("language", node("code", lang="pyhton", value="x"), "names the language 'pyhton'"),
    (
        "no figure",
        node("div", IMAGE, **{"class": "interactive nil"}),
        "no interactive figure 'nil'",
    ),
    (
        "no fallback",
        node("div", paragraph("x"), **{"class": "interactive ppo-clip"}),
        "needs a picture with alt text",
    ),
    (
        "two figures",
        node("div", IMAGE, **{"class": "interactive ppo-clip other"}),
        "interactive and its name",
    ),
    ("dropdown", node("details", paragraph("x")), "a dropdown needs a title"),
    (
        "run card without a value",
        node(
            "admonition",
            node("definitionList", node("definitionTerm", "Time")),
            **{"class": "run-card"},
        ),
        "the entry 'Time' of the run card has no value",
    ),
    (
        "run card without a name",
        node(
            "admonition",
            node(
                "definitionList",
                node("definitionTerm", "Time"),
                node("definitionDescription", "95 s"),
                node("definitionDescription", "CPU"),
            ),
            **{"class": "run-card"},
        ),
        "has no name; put an empty line between its entries",
    ),
    (
        "run card of prose",
        node("admonition", paragraph("x"), **{"class": "run-card"}),
        "holds one definition list",
    ),
    ("foreign tab", node("tabSet", paragraph("x")), "a tab-set holds tab-items"),
]


@pytest.mark.parametrize(
    ("tree", "message"), [pytest.param(tree, message, id=name) for name, tree, message in ERRORS]
)
def test_bad_node_is_named(error_of: Callable, tree: dict, message: str) -> None:
    error = error_of(tree)
    assert error.startswith("notebooks/11_returns.ipynb: node ")
    assert message in error


def test_error_names_place_of_node(error_of: Callable) -> None:
    bad = {**node("marquee"), "position": {"start": {"line": 7}}}
    cell = node("block", paragraph("x") | {"children": [bad]}, html_id="cell-3")
    error = error_of(node("root", cell))
    assert "node 'marquee', cell cell-3, line of its cell 7" in error
    assert "root > block > paragraph > marquee" in error


def test_one_error_does_not_hide_the_next(make_renderer: Callable) -> None:
    page = make_renderer()
    html = page.render(node("root", node("marquee"), paragraph("kept"), node("blink")))
    assert html == "<p>kept</p>"
    assert len(page.errors) == 2


def test_headings_are_collected_without_links(make_renderer: Callable) -> None:
    page = make_renderer()
    title = node("heading", node("link", "PPO", url="https://a.org"), depth=3, html_id="p")
    page.render(node("root", title, node("heading", "deep", depth=4, html_id="d")))
    assert [(h.depth, h.identifier, h.html) for h in page.headings] == [(3, "p", "PPO")]


def test_preview_carries_no_ids(render: Callable) -> None:
    for cases in CASES.values():
        for _, tree, _ in cases:
            html = render(tree, is_preview=True)
            ids = re.findall(r' id="([^"]+)', html)
            assert all(identifier.startswith("preview-tabs-") for identifier in ids)


def test_two_handlers_for_a_type_are_refused() -> None:
    from renderer.nodes import handles

    with pytest.raises(ValueError, match="two functions render the node type 'text'"):
        handles("text")(lambda node, page: "")
