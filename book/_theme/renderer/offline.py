"""Finds what would make a page ask another machine for something."""

import re
from html.parser import HTMLParser

LOADING_ATTRIBUTES = {
    "audio": {"src"},
    "embed": {"src"},
    "iframe": {"src"},
    "image": {"href", "xlink:href"},
    "img": {"src", "srcset"},
    "input": {"src"},
    "link": {"href"},
    "object": {"data"},
    "script": {"src"},
    "source": {"src", "srcset"},
    "track": {"src"},
    "use": {"href", "xlink:href"},
    "video": {"src", "poster"},
}
OUTSIDE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
STYLE_URL = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s;]+)""", re.IGNORECASE)


class _Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"
        for name, value in attrs:
            if name == "style":
                self.found += STYLE_URL.findall(value or "")
            if name in LOADING_ATTRIBUTES.get(tag, ()) and OUTSIDE.match(value or ""):
                self.found.append(str(value).strip())

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.found += STYLE_URL.findall(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False


def outside_requests(html: str) -> list[str]:
    """Addresses on other machines that a browser would load for this HTML (links do not count)."""
    finder = _Finder()
    finder.feed(html)
    finder.close()
    return finder.found
