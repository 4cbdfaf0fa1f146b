"""Each kind of stored output, each kind of content."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from renderer import measured
from renderer.images import pixel_size
from renderer.offline import outside_requests
from renderer.outputs import CONTENT_RENDERERS
from renderer.terminal import drop_overwritten, terminal_html

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 640, 480)
RECORD = '{"name": "keyword_rate", "value": 0.934, "tol": 0.02}'


def cell(*outputs: dict) -> dict:
    return {
        "type": "outputs",
        "children": [{"type": "output", "jupyter_data": output} for output in outputs],
    }


def display(mime: str, content: str, **metadata: object) -> dict:
    return {
        "output_type": "display_data",
        "data": {mime: {"content": content, "content_type": mime}},
        "metadata": metadata,
    }


def stream(text: str | list[str], name: str = "stdout") -> dict:
    return {"output_type": "stream", "name": name, "text": text}


SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="72pt" height="36pt"></svg>'
CONTENTS: dict[str, tuple[dict, str]] = {
    "text/html": (display("text/html", "<b>x</b>"), '<div class="html-output"><b>x</b></div>'),
    "text/markdown": (
        display("text/markdown", "*a*\n\n```python\ndef f(): pass\n```\n"),
        '<div class="markdown-output"><p><em>a</em></p>\n<div class="code" data-language="Python">',
    ),
    "image/svg+xml": (
        display("image/svg+xml", SVG, alt="A line"),
        f'<img src="data:image/svg+xml;base64,{base64.b64encode(SVG.encode()).decode()}" '
        'alt="A line" loading="lazy" decoding="async" width="96" height="48" class="picture">',
    ),
    "image/png": (
        display("image/png", base64.b64encode(PNG).decode() + "\n", **{"image/png": {"alt": "A"}}),
        'alt="A" loading="lazy" decoding="async" width="640" height="480"',
    ),
    "image/jpeg": (
        display("image/jpeg", base64.b64encode(b"\xff\xd8").decode()),
        'alt="Figure drawn by the code of this cell" loading="lazy" decoding="async" class',
    ),
    "image/gif": (
        display("image/gif", base64.b64encode(b"GIF89a" + struct.pack("<HH", 3, 2)).decode()),
        'width="3" height="2"',
    ),
    "text/plain": (
        display("text/plain", "tensor([1., <2>])"),
        '<pre class="stream value">tensor([1., &lt;2&gt;])</pre>',
    ),
    "application/json": (
        display("application/json", '{"a":[1]}'),
        '<pre class="stream value">{\n  "a": [\n    1\n  ]\n}</pre>',
    ),
    "application/vnd.nbkit.record+json": (
        display("application/vnd.nbkit.record+json", RECORD),
        '<span class="record-name">keyword_rate</span><span class="record-value">0.934</span>'
        '<span class="record-tolerance">± 0.02</span>',
    ),
}
NEEDS_NODE = {"text/latex"}
MEASURED = "application/vnd.nbkit.measured+json"  # with a case of its own below
PREDICTION = "application/vnd.nbkit.prediction+json"  # so has this one
REFUSED = {"application/vnd.jupyter.widget-view+json"}


@pytest.mark.parametrize("mime", CONTENTS)
def test_content(render: Callable, mime: str) -> None:
    output, expected = CONTENTS[mime]
    assert expected in render(cell(output))


def test_a_figure_shows_its_range_over_roundings(render: Callable) -> None:
    entry = {"name": "gain", "value": 1.4795, "tol": 1.7, "range": [0.7396, 1.54], "draws": 5}
    text = render(cell(display("application/vnd.nbkit.record+json", json.dumps(entry))))
    assert '<span class="record-tolerance">0.74 to 1.54 on 5 roundings</span>' in text


def test_every_content_has_a_case() -> None:
    assert {*CONTENTS, *NEEDS_NODE, MEASURED, PREDICTION, *REFUSED} == set(CONTENT_RENDERERS)


@pytest.mark.parametrize(
    ("value", "tolerance", "shown"),
    [
        (0.3779261, 0.05, "0.378"),
        (-0.0264121, 0.1, "−0.03"),
        (1234.5678, 20.0, "1235"),
        (0.5, 0.0, "0.5"),
        (64, 1, "64"),
    ],
)
def test_recorded_figure_is_rounded_by_its_tolerance(
    render: Callable, value: float, tolerance: float, shown: str
) -> None:
    record = json.dumps({"name": "x", "value": value, "tol": tolerance})
    html = render(cell(display("application/vnd.nbkit.record+json", record)))
    assert f'<span class="record-value">{shown}</span>' in html
    assert f"A recorded figure, {value}:" in html


def test_a_prediction_is_a_figure_around_its_picture(render: Callable, error_of: Callable) -> None:
    output = display(PREDICTION, '{"id": "a.b", "y": "</script> & <b>"}')
    assert "needs one of image/png beside it" in error_of(cell(output))
    output["data"]["image/png"] = {"content": base64.b64encode(PNG).decode()}
    output["metadata"] = {"image/png": {"alt": "An empty plot"}}
    html = render(cell(output))
    assert '<div class="interactive" data-figure="prediction"><div class="interactive-fall' in html
    assert 'alt="An empty plot"' in html
    data = html.partition('<script type="application/json">')[2].partition("</script>")[0]
    assert json.loads(data) == {"id": "a.b", "y": "</script> & <b>"}


LINE = {"file": "studies/results/a.json", "line": "studies/results/a.json: measured today & here"}


def test_a_measured_result_says_whether_its_code_is_today_s(
    render: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    states = tmp_path / "measured.json"
    monkeypatch.setenv(measured.VARIABLE, str(states))
    for stale, known, kind in (
        (False, True, "measured-fresh"),
        (True, True, "measured-stale"),
        (False, False, "measured-stale"),
    ):
        state = {"stale": stale, "known": known, "text": "what <is> said"}
        content = {"results": {LINE["file"]: state}, "pages": {}}
        states.write_text(json.dumps(content), encoding="utf-8")
        measured._read.cache_clear()
        html = render(cell(display(MEASURED, json.dumps(LINE))))
        assert '<code class="measured-file">studies/results/a.json</code>' in html
        assert '<span class="measured-facts">measured today &amp; here</span>' in html
        assert f'<span class="{kind}">what &lt;is&gt; said</span>' in html


@pytest.mark.parametrize("known", [{}, {"studies/results/b.json": {}}])
def test_a_measured_result_without_a_state_is_an_error(
    error_of: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: dict
) -> None:
    """Never a page that looks fresh because nobody has looked."""
    states = tmp_path / "measured.json"
    states.write_text(json.dumps({"results": known, "pages": {}}), encoding="utf-8")
    monkeypatch.setenv(measured.VARIABLE, str(states))
    error = error_of(cell(display(MEASURED, json.dumps(LINE))))
    assert "studies/results/a.json ran the code of today is not known" in error
    monkeypatch.delenv(measured.VARIABLE)
    assert "build with `nbkit book build`" in error_of(cell(display(MEASURED, json.dumps(LINE))))
    assert "lacks line" in error_of(cell(display(MEASURED, '{"file": "a"}')))


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("$$\\frac{1}{2}$$", "katex-display"),
        ("$\\displaystyle x^{2}$", 'class="katex"'),
        ("\\[x\\]", "katex-display"),
    ],
)
def test_latex_is_typeset_at_build(
    render: Callable, monkeypatch: pytest.MonkeyPatch, latex: str, expected: str
) -> None:
    node_on_path(monkeypatch)
    assert expected in render(cell(display("text/latex", latex)))


def test_formula_in_markdown_is_typeset(render: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    node_on_path(monkeypatch)
    html = render(cell(display("text/markdown", "so $x^2$ and\n\n$$y$$\n")))
    assert html.count('class="katex"') == 2
    assert html.count("katex-display") == 1


def test_bad_formula_in_an_output_is_an_error(
    error_of: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_on_path(monkeypatch)
    error = error_of(cell(display("text/latex", "$$\\frac{1}$$")))
    assert "in an output: KaTeX parse error" in error


def node_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from bookkit.site.build import build_environment

    monkeypatch.setenv("PATH", build_environment()["PATH"])


def test_richest_content_is_shown(render: Callable) -> None:
    both = display("text/plain", "fallback")
    both["data"] |= display("text/html", "<b>rich</b>")["data"]
    html = render(cell(both))
    assert "rich" in html
    assert "fallback" not in html


def test_unknown_content_with_a_known_one_is_ignored(render: Callable) -> None:
    both = display("text/plain", "fallback")
    both["data"] |= display("application/x-strange", "?")["data"]
    assert "fallback" in render(cell(both))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (display("application/x-strange", "?"), "holds only application/x-strange"),
        (display("application/vnd.plotly.v1+json", "{}"), "a static page cannot show"),
        (display("application/vnd.jupyter.widget-view+json", "{}"), "from tqdm import tqdm"),
        (display("application/vnd.nbkit.record+json", '{"name": "x"}'), "lacks tol, value"),
        (
            display("text/html", '<script src="https://cdn.org/plotly.js"></script>'),
            "loads https://cdn.org/plotly.js",
        ),
        ({"output_type": "update_display_data"}, "unknown kind of output"),
    ],
)
def test_what_a_static_page_cannot_show_is_an_error(
    error_of: Callable, output: dict, message: str
) -> None:
    assert message in error_of(cell(output))


def test_streams_stay_apart_by_name_and_together_in_pieces(render: Callable) -> None:
    html = render(cell(stream("a\n"), stream(["b", "\n"]), stream("w\n", "stderr"), stream("c\n")))
    assert html == (
        '<div class="outputs"><pre class="stream stdout">a\nb</pre>'
        '<pre class="stream stderr">w</pre><pre class="stream stdout">c</pre></div>'
    )


def test_traceback_keeps_colours_and_escapes(render: Callable) -> None:
    error = {
        "output_type": "error",
        "ename": "ValueError",
        "evalue": "x",
        "traceback": ["\x1b[31mValueError\x1b[39m", "a < b"],
    }
    html = render(cell(error))
    assert '<pre class="stream error"><span class="ansi-red-fg">ValueError</span>' in html
    assert "a &lt; b" in html


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("\r  0%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        ("loading\r\x1b[K", "loading"),
        ("no return\n", "no return\n"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
    ],
)
def test_carriage_returns_as_a_terminal_shows_them(printed: str, kept: str) -> None:
    assert drop_overwritten(printed.replace("\x1b[K", "")) == kept


def test_other_terminal_codes_are_dropped() -> None:
    assert terminal_html("a\x1b[2K\x1b[1Ab\x1b]0;title\x07c") == "abc"


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (PNG, (640, 480)),
        (b'<svg viewBox="0 0 24 12">', (24, 12)),
        (b'<?xml version="1.0"?>\n<svg width="10px" height="5" viewBox="0 0 2 1">', (10, 5)),
        (b"\xff\xd8", None),
        (b'<svg width="100%">', None),
    ],
)
def test_size_of_a_picture(content: bytes, size: tuple[int, int] | None) -> None:
    assert pixel_size(content) == size


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<a href="https://a.org">', []),
        ('<img src="data:image/png;base64,AA==">', []),
        ('<img src="//a.org/x.png">', ["//a.org/x.png"]),
        ('<link rel="stylesheet" href="HTTPS://a.org/x.css">', ["HTTPS://a.org/x.css"]),
        ("<style>p{background:url( 'http://a.org/x.png')}</style>", ["http://a.org/x.png"]),
        ('<style>@import "https://a.org/x.css";</style>', ["https://a.org/x.css"]),
        ('<p style="background:url(https://a.org/y.png)">', ["https://a.org/y.png"]),
        ("<pre>url(https://a.org)</pre>", []),
    ],
)
def test_outside_requests(html: str, found: list[str]) -> None:
    assert outside_requests(html) == found
