"""Stored outputs of notebook cells, one function a kind of output and a kind of content."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from html import escape
from typing import Any

from renderer.content import Node
from renderer.errors import ContentError
from renderer.images import first_frame, picture
from renderer.interactive import with_figure
from renderer.markdown import markdown_html
from renderer.mathematics import formula_html, strip_delimiters
from renderer.measured import measured_line
from renderer.nodes import element, handles, opening
from renderer.offline import outside_requests
from renderer.page_renderer import PageRenderer
from renderer.terminal import terminal_html

Output = dict[str, Any]
ContentRenderer = Callable[["Content"], str]

RECORD = "application/vnd.nbkit.record+json"
PREDICTION = "application/vnd.nbkit.prediction+json"
MEASURED = "application/vnd.nbkit.measured+json"
FILM = re.compile(r'<img [^>]*src="data:image/gif;base64,(?P<film>[^"]+)"[^>]*>')
DEFAULT_ALTERNATIVE = "Figure drawn by the code of this cell"


class Content:
    """One representation of an output (say, its `image/png`)."""

    def __init__(self, mime: str, output: Output, page: PageRenderer) -> None:
        self.mime = mime
        self.page = page
        self.metadata = output.get("metadata") or {}
        self._bundle = output["data"][mime]
        self._output = output

    @property
    def path(self) -> str | None:
        """Where mystmd keeps a large content, or None if it is inline."""
        return self._bundle.get("path")

    @property
    def text(self) -> str:
        """The content as text."""
        if self.path:
            return self.page.file(self.path).decode()
        return str(self._bundle["content"])

    def beside(self, mime: str) -> Content:
        """Another representation of the same output.

        Raises:
            ContentError: the output has none of this kind.
        """
        if mime not in self._output["data"]:
            raise ContentError(f"an output of {self.mime} needs one of {mime} beside it")
        return Content(mime, self._output, self.page)

    @property
    def is_photograph(self) -> bool:
        """Whether the cell says so of its picture, whose colours are then left alone."""
        return bool((self.metadata.get(self.mime) or {}).get("photograph"))

    @property
    def alternative(self) -> str:
        """The alt text that the cell stored with its figure."""
        of_mime = self.metadata.get(self.mime) or {}
        return str(of_mime.get("alt") or self.metadata.get("alt") or DEFAULT_ALTERNATIVE)


@handles("outputs")
def outputs(node: Node, page: PageRenderer) -> str:
    """All outputs of a cell; what a stream printed in pieces is put together again."""
    pieces: list[Output] = []
    for child in node.get("children", []):
        if child["type"] != "output":
            raise ContentError(f"among the outputs stands a node of type {child['type']!r}")
        output = child["jupyter_data"]
        if output["output_type"] == "stream":
            output = {**output, "text": _joined(output["text"])}
            if pieces and pieces[-1].get("name") == output["name"]:
                pieces[-1]["text"] += output["text"]
                continue
        pieces.append(output)
    body = "".join(output_html(output, page) for output in pieces)
    return element("div", body, class_="outputs") if body else ""


def output_html(output: Output, page: PageRenderer) -> str:
    """HTML of one output in the form of Jupyter's notebook format."""
    kind = output["output_type"]
    if kind == "stream":
        text = terminal_html(output["text"]).rstrip("\n")
        return element("pre", text, class_=f"stream {output['name']}") if text.strip() else ""
    if kind == "error":
        return element(
            "pre", terminal_html(_joined(output["traceback"], "\n")), class_="stream error"
        )
    if kind in ("display_data", "execute_result"):
        return _bundle_html(output, page)
    raise ContentError(f"unknown kind of output {kind!r}")


def _bundle_html(output: Output, page: PageRenderer) -> str:
    """The richest representation that the site can show."""
    for mime, render in CONTENT_RENDERERS.items():
        if mime in output["data"]:
            return render(Content(mime, output, page))
    found = ", ".join(sorted(output["data"])) or "nothing"
    raise ContentError(
        f"an output holds only {found}, which a static page cannot show; "
        f"store one of: {', '.join(CONTENT_RENDERERS)}"
    )


def _widget(content: Content) -> str:
    raise ContentError(
        "an output is a widget, which loses its state in a static page; "
        "print text instead (for progress bars: `from tqdm import tqdm`, not `tqdm.auto`)"
    )


def _record(content: Content) -> str:
    record = json.loads(content.text)
    missing = {"name", "value", "tol"} - record.keys()
    if missing:
        raise ContentError(f"a recorded figure lacks {', '.join(sorted(missing))}")
    value, tolerance = record["value"], record["tol"]
    parts = element("span", escape(str(record["name"])), class_="record-name")
    parts += element("span", escape(_rounded(value, tolerance)), class_="record-value")
    parts += element("span", escape(f"± {tolerance:g}"), class_="record-tolerance")
    if "range" in record:
        parts += element("span", escape(_range(record)), class_="record-tolerance")
    title = f"A recorded figure, {value}: every run must agree with it within {tolerance:g}"
    return element("p", parts, class_="record", title=title)


def _range(record: dict[str, Any]) -> str:
    """Between what a figure lay when its page was run under several roundings."""
    low, high = record["range"]
    wide = high - low
    return f"{_rounded(low, wide)} to {_rounded(high, wide)} on {record['draws']} roundings"


def _rounded(value: Any, tolerance: float) -> str:
    """A number to one digit more than its tolerance has."""
    if not isinstance(value, float) or tolerance <= 0:
        return str(value)
    return f"{value:.{max(0, 1 - math.floor(math.log10(tolerance)))}f}".replace("-", "−")


def _measured(content: Content) -> str:
    """Where a recorded result comes from, and whether its code is today's."""
    entry = json.loads(content.text)
    missing = {"file", "line"} - entry.keys()
    if missing:
        raise ContentError(f"a measured result lacks {', '.join(sorted(missing))}")
    _, _, facts = str(entry["line"]).partition(": ")
    return element("p", measured_line(entry["file"], facts), class_="measured")


def _prediction(content: Content) -> str:
    """A plot for a guess, or what happened: a figure of the theme around the cell's picture."""
    json.loads(content.text)
    return with_figure(
        "prediction", _picture(content.beside("image/png")), content.text, content.page
    )


def _html(content: Content) -> str:
    html = content.text
    requests = outside_requests(html)
    if requests:
        raise ContentError(
            f"an HTML output loads {requests[0]}; pages may load nothing from outside"
        )
    html = FILM.sub(lambda found: with_still(found[0], base64.b64decode(found["film"])), html)
    return element("div", html, class_="html-output")


def _markdown(content: Content) -> str:
    return element("div", markdown_html(content.text), class_="markdown-output")


def _latex(content: Content) -> str:
    tex, display = strip_delimiters(content.text)
    return element("div", formula_html(tex, display=display), class_="math-scroll")


def _picture(content: Content) -> str:
    if content.path:
        data, source = content.page.file(content.path), content.page.href(content.path)
    else:
        is_text = content.mime == "image/svg+xml"
        data = content.text.encode() if is_text else base64.b64decode(content.text)
        source = _data_address(content.mime, data)
    # A PNG is a plot, dark on light, unless its cell says that it is a photograph.
    classes = ["plot"] if content.mime == "image/png" and not content.is_photograph else []
    html = picture(source, content.alternative, data, classes=classes)
    return with_still(html, data) if content.mime == "image/gif" else html


def with_still(image: str, film: bytes) -> str:
    """A film's image element, which shows its first picture to who asks for less motion."""
    still = _data_address("image/gif", first_frame(film))
    paused = opening("source", srcset=still, media="(prefers-reduced-motion: reduce)")
    return element("picture", paused + image)


def _data_address(mime: str, data: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


def _plain(content: Content) -> str:
    return element("pre", terminal_html(content.text), class_="stream value")


def _json(content: Content) -> str:
    text = json.dumps(json.loads(content.text), indent=2, ensure_ascii=False)
    return element("pre", escape(text, quote=False), class_="stream value")


def _joined(text: str | list[str], separator: str = "") -> str:
    return text if isinstance(text, str) else separator.join(text)


# Richest first. Other representations are ignored if one of these is there, an error if none is.
CONTENT_RENDERERS: dict[str, ContentRenderer] = {
    "application/vnd.jupyter.widget-view+json": _widget,
    RECORD: _record,
    PREDICTION: _prediction,
    MEASURED: _measured,
    "text/html": _html,
    "text/markdown": _markdown,
    "image/svg+xml": _picture,
    "image/png": _picture,
    "image/jpeg": _picture,
    "image/gif": _picture,
    "text/latex": _latex,
    "text/plain": _plain,
    "application/json": _json,
}
