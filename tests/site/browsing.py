"""A built site in Chromium: serving it, watching a page, and what is asked of every page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bookkit.site.serve import open_server

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
sync_api.expect.set_options(timeout=120_000)

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
LARGEST_PAGE_BYTES = 1_500_000
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 375, "height": 740}
OPEN_FOLDS = "document.querySelectorAll('main details').forEach((fold) => { fold.open = true; })"


@dataclass
class Site:
    """A built site that is being served."""

    name: str
    folder: Path
    address: str
    pages: list[dict]

    def url(self, path: str = "index.html") -> str:
        return self.address + path

    def sample(self) -> list[str]:
        """The first page of each kind: landing, prose, chapter, exercise, solution."""
        first: dict[str, str] = {}
        for entry in self.pages:
            first.setdefault(entry["path"].partition("/")[0], entry["path"])
        return list(first.values())


@dataclass
class Watch:
    """What a page asked for and complained about."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    bytes_received: int = 0
    left_early: int = 0

    def attach(self, page: sync_api.Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("response", self._response)

    def _console(self, message: sync_api.ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _failed(self, request: sync_api.Request) -> None:
        if request.failure == "net::ERR_ABORTED":  # the page has been left before it came
            self.left_early += 1
        else:
            self.complaints.append(f"failed: {request.url}: {request.failure}")

    def _response(self, response: sync_api.Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"status {response.status}: {response.url}")
        elif response.ok and response.url.startswith("http"):
            try:
                self.bytes_received += len(response.body())
            except sync_api.Error:  # the page has been left, and its bodies went with it
                self.left_early += 1


def serve_folder(name: str, folder: Path) -> Iterator[Site]:
    pages = json.loads((folder / "pages.json").read_text(encoding="utf-8"))
    with open_server(folder, 18700) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(name, folder, f"http://127.0.0.1:{server.server_port}/", pages)
        server.shutdown()


def scroll_through(page: sync_api.Page) -> None:
    """Bring every picture into view, so that those that load late do, and wait for them."""
    page.evaluate(
        """async () => {
          for (const image of [...document.images].filter((i) => i.checkVisibility())) {
            image.scrollIntoView({behavior: 'instant'});
            await image.decode().catch(() => {});
          }
          window.scrollTo({top: 0, behavior: 'instant'});
        }"""
    )


def missing_pictures(page: sync_api.Page) -> list[str]:
    """Addresses of pictures that are shown and have not loaded."""
    return page.evaluate(
        """[...document.images].filter((i) => i.checkVisibility())
          .filter((i) => !i.complete || !i.naturalWidth).map((i) => i.src)"""
    )


def formulas_without_size(page: sync_api.Page) -> list:
    """Formulas that show nothing or an error; their font must be there."""
    if page.locator(".katex").count():
        assert page.evaluate("document.fonts.load('16px KaTeX_Main').then((faces) => faces.length)")
    assert page.locator(".katex-error").count() == 0
    return page.evaluate(
        """() => [...document.querySelectorAll('main .katex-html')].map((formula) => {
          const box = formula.getBoundingClientRect();
          return [formula.textContent.slice(0, 30), box.width * box.height];
        }).filter(([, area]) => !(area > 0))"""
    )


# Axe takes seconds for the thousands of coloured words of a page's programs and for the boxes of
# its formulas. One with each kind of word stays as it is; the others become plain text.
THIN_OUT = """() => {
  const seen = new Set();
  for (const block of document.querySelectorAll('main pre')) {
    const paper = getComputedStyle(block).backgroundColor;
    const kinds = [...block.querySelectorAll('span')].map(
      (word) => [word.className, word.style.cssText, paper].join('|'));
    if (kinds.length && kinds.every((kind) => seen.has(kind))) {
      const words = block.querySelector('code') ?? block;
      words.textContent = words.textContent;
    }
    kinds.forEach((kind) => seen.add(kind));
  }
  const paperOf = (element) => {
    const colour = element ? getComputedStyle(element).backgroundColor : '';
    return !element || colour !== 'rgba(0, 0, 0, 0)' ? colour : paperOf(element.parentElement);
  };
  for (const formula of document.querySelectorAll('main .katex-html')) {
    const look = getComputedStyle(formula);
    const around = [paperOf(formula), look.color, look.opacity, look.fontSize, look.fontWeight];
    const kinds = [formula, ...formula.querySelectorAll('*')].map((box) =>
      [box.getAttribute('class'), box.style.color, box.style.opacity, ...around].join('|'));
    if (kinds.every((kind) => seen.has(kind))) formula.textContent = formula.textContent;
    kinds.forEach((kind) => seen.add(kind));
  }
}"""
# What the width and the colours of a page can change.
OF_THE_LOOK = ["color-contrast", "scrollable-region-focusable"]


def serious_findings(page: sync_api.Page, rules: list[str] | None = None) -> list[tuple[str, str]]:
    """What axe calls serious or critical: the rule and the element."""
    page.evaluate("document.fonts.ready")
    page.wait_for_function("document.documentElement.dataset.scrollers === 'marked'")
    page.evaluate(THIN_OUT)
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(path=str(AXE))
    options: dict = {"resultTypes": ["violations"], "preload": False}
    if rules is not None:
        options["runOnly"] = rules
    found = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        (violation["id"], node["html"][:200])
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
