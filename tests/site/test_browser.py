"""The site in a real browser: every page of the real book and of the book of every construct."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from browser_tools import required_chromium

from nbkit.site.browser import sandbox_arguments
from nbkit.site.pictures.tiny_world import tilted_means
from nbkit.site.serve import open_server

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
sync_api.expect.set_options(timeout=30_000)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

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


@pytest.fixture(scope="module")
def chromium() -> Iterator[sync_api.Browser]:
    program = required_chromium()
    arguments = [*sandbox_arguments(), "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=["fixture_site", "real_site"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    yield from serve_folder(request.param, request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def constructs_site(fixture_site: Path) -> Iterator[Site]:
    yield from serve_folder("fixture_site", fixture_site)


@pytest.fixture(scope="module")
def book_site(real_site: Path) -> Iterator[Site]:
    yield from serve_folder("real_site", real_site)


def serve_folder(name: str, folder: Path) -> Iterator[Site]:
    pages = json.loads((folder / "pages.json").read_text(encoding="utf-8"))
    with open_server(folder, 18700) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(name, folder, f"http://127.0.0.1:{server.server_port}/", pages)
        server.shutdown()


@pytest.fixture
def open_page(chromium: sync_api.Browser) -> Iterator:
    """Opens an address in a fresh context; every complaint of every page fails the test."""
    contexts, watches = [], []

    def open_url(url: str, **options: object) -> sync_api.Page:
        context = chromium.new_context(**{"viewport": WIDE, "color_scheme": "light", **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a busy machine is slow; nothing here waits in vain
        watch = Watch()
        watch.attach(page)
        watches.append(watch)
        page.watch = watch
        page.goto(url)
        return page

    yield open_url
    for context in contexts:
        context.close()
    assert [complaint for watch in watches for complaint in watch.complaints] == []


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


# Every page


def test_pages_are_sound(site: Site, open_page) -> None:
    """Wide and light: no complaint, nothing from outside, pictures there, formulas typeset, light
    enough, landmarks, nothing serious found by axe.
    """
    for entry in site.pages:
        path = entry["path"]
        page = open_page(site.url(path))
        page.evaluate(OPEN_FOLDS)
        scroll_through(page)
        outside = [
            url for url in page.watch.requests if not url.startswith((site.address, "data:"))
        ]
        assert outside == [], path
        assert missing_pictures(page) == [], path
        assert formulas_without_size(page) == [], path
        assert page.watch.left_early == 0, path
        assert page.watch.bytes_received <= LARGEST_PAGE_BYTES, path
        for landmark in ("header.site-header", "main", "nav[aria-label='Contents of the book']"):
            assert page.locator(landmark).count() == 1, (path, landmark)
        assert page.locator("h1").count() == 1, path
        assert page.locator("html[lang=en]").count() == 1, path
        assert serious_findings(page) == [], path
        page.context.close()


def test_pages_fit_a_small_screen(site: Site, open_page) -> None:
    """375 pixels and dark: no sideways scroll of the page, nothing serious found by axe."""
    for entry in site.pages:
        path = entry["path"]
        page = open_page(site.url(path), viewport=NARROW, color_scheme="dark")
        page.evaluate(OPEN_FOLDS)
        scroll_through(page)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"], (path, width)
        page.evaluate("window.scrollTo(400, 0)")
        assert page.evaluate("window.scrollX") == 0, path
        assert serious_findings(page, OF_THE_LOOK) == [], path
        page.context.close()


def test_pages_work_from_the_disk(site: Site, open_page) -> None:
    """Opened as files, without a server: fonts, scripts and the search work too."""
    for path in site.sample():
        page = open_page((site.folder / path).as_uri())
        page.keyboard.press("/")
        page.keyboard.type("re")
        page.locator("#search-results a").first.wait_for()
        assert all(url.startswith(("file:", "data:")) for url in page.watch.requests)
        assert page.evaluate("document.fonts.check('16px \"Source Serif 4\"')")
        page.context.close()


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


# Axe takes seconds for the thousands of coloured words of a page's programs. One program with each
# kind of word stays as it is; the others become plain text.
THIN_OUT_PROGRAMS = """() => {
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
}"""
# What the width and the colours of a page can change.
OF_THE_LOOK = ["color-contrast", "scrollable-region-focusable"]


def serious_findings(page: sync_api.Page, rules: list[str] | None = None) -> list[tuple[str, str]]:
    """What axe calls serious or critical: the rule and the element."""
    page.evaluate("document.fonts.ready")
    page.wait_for_function("document.documentElement.dataset.scrollers === 'marked'")
    page.evaluate(THIN_OUT_PROGRAMS)
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


@pytest.mark.parametrize("pale", ["main pre span", "main .katex-html", "main p", "main a"])
def test_words_that_are_too_pale_are_found(constructs_site: Site, open_page, pale: str) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    page.add_style_tag(content=f"{pale} {{ color: #ddd !important; }}")
    for rules in (None, OF_THE_LOOK):
        assert "color-contrast" in {rule for rule, _ in serious_findings(page, rules)}


# Search

KNOWN_PHRASES = {
    "fixture_site": ("quokka gradient", "notebook/index.html", "#sec-streams"),
    "real_site": ("practitioner weekend", "index.html", "#four-ways-through"),
}


def test_search_by_keyboard(site: Site, open_page) -> None:
    phrase, path, anchor = KNOWN_PHRASES[site.name]
    page = open_page(site.url(site.pages[-1]["path"]))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search-input"
    page.keyboard.type(phrase)
    first = page.locator("#search-results a").first
    first.wait_for()
    marks = first.locator("mark").all_inner_texts()
    assert {mark.lower() for mark in marks} == set(phrase.split())
    assert first.get_attribute("aria-selected") == "true"
    assert page.locator("#search-input").get_attribute("aria-activedescendant") == "search-result-0"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{path}?highlight=*{anchor}")
    assert page.evaluate("CSS.highlights.get('search-terms').size") > 0
    page.keyboard.press("Escape")
    assert page.evaluate("CSS.highlights.has('search-terms')") is False


def test_arrow_keys_choose_among_results(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url())
    page.keyboard.press("Control+k")
    page.keyboard.type("policy")
    rows = page.locator("#search-results a")
    rows.nth(1).wait_for()
    count = rows.count()

    def selected() -> list[int]:
        return [n for n in range(count) if rows.nth(n).get_attribute("aria-selected") == "true"]

    assert selected() == [0]
    page.keyboard.press("ArrowDown")
    assert selected() == [1]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert selected() == [count - 1]
    assert serious_findings(page) == []


def test_search_says_when_nothing_is_found_and_closes(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url())
    button = page.locator("[data-open-search]")
    button.click()
    page.keyboard.type("xyzzy")
    status = page.locator(".search-status")
    sync_api.expect(status).to_have_text("Nothing found for “xyzzy”.")
    page.keyboard.press("Escape")
    assert not page.locator("#search").is_visible()
    assert page.evaluate("document.activeElement.matches('[data-open-search]')")


# Light and dark


def paper(page: sync_api.Page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 27)"


@pytest.mark.parametrize(
    ("system", "at_first", "pressed"), [("light", LIGHT, DARK), ("dark", DARK, LIGHT)]
)
def test_dark_mode_follows_the_system_and_is_remembered(
    constructs_site: Site, open_page, system: str, at_first: str, pressed: str
) -> None:
    other = "light" if system == "dark" else "dark"
    page = open_page(constructs_site.url(), color_scheme=system)
    button = page.locator("[data-switch-theme]")
    assert paper(page) == at_first
    button.click()
    assert paper(page) == pressed
    page.goto(constructs_site.url("constructs/index.html"))
    assert paper(page) == pressed
    button.click()
    assert paper(page) == at_first
    page.emulate_media(color_scheme=other)
    assert paper(page) == at_first  # chosen by the reader, not by the system
    page.emulate_media(color_scheme=system)
    button.click()
    assert "as the system" in button.get_attribute("aria-label").partition(".")[0]
    page.emulate_media(color_scheme=other)
    sync_api.expect(page.locator(f"html[data-theme={other}]")).to_be_attached()
    assert paper(page) == pressed


def test_figures_stand_on_light_paper_in_dark_mode(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("notebook/index.html"), color_scheme="dark")
    backgrounds = page.evaluate(
        "[...document.images].map((image) => getComputedStyle(image).backgroundColor)"
    )
    assert backgrounds
    assert set(backgrounds) == {LIGHT}


def test_figure_can_be_enlarged_by_keyboard(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("notebook/index.html"), viewport=NARROW)
    button = page.get_by_role("button", name="Enlarge the figure: A grey ramp")
    button.focus()
    page.keyboard.press("Enter")
    enlarged = page.locator("dialog.zoom img")
    sync_api.expect(enlarged).to_be_visible()
    assert enlarged.evaluate("(image) => image.naturalWidth") == 240
    assert serious_findings(page) == []
    page.keyboard.press("Escape")
    sync_api.expect(enlarged).not_to_be_visible()
    assert page.evaluate("document.activeElement.matches('.zoom-button')")


def test_drawings_follow_the_colours(book_site: Site, open_page) -> None:
    strokes = []
    for scheme in ("light", "dark"):
        page = open_page(book_site.url(), color_scheme=scheme)
        shape = "document.querySelector('.card svg.drawing path[style*=build]')"
        strokes.append(page.evaluate(f"getComputedStyle({shape}).stroke"))
    assert strokes == ["rgb(11, 107, 85)", "rgb(94, 207, 174)"]


# Ways through a page


def test_skip_link_is_first_and_leads_to_the_text(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    page.keyboard.press("Tab")
    link = page.locator(".skip-link")
    assert link.evaluate("(e) => e === document.activeElement")
    assert link.bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_focus_is_visible(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    for _ in range(12):
        page.keyboard.press("Tab")
        outline = page.evaluate(
            "(() => { const s = getComputedStyle(document.activeElement);"
            " return [s.outlineStyle, parseFloat(s.outlineWidth)]; })()"
        )
        assert outline[0] != "none"
        assert outline[1] >= 2


def test_page_contents_follow_the_scroll(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"), reduced_motion="reduce")
    for anchor in ("sec-boxes", "layout", "sec-math"):
        page.evaluate(f"document.getElementById('{anchor}').scrollIntoView()")
        link = page.locator(".page-contents a[aria-current=location]")
        sync_api.expect(link).to_have_attribute("href", f"#{anchor}")


def test_contents_are_a_drawer_on_small_screens(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"), viewport=NARROW)
    drawer, opener = page.locator("#contents"), page.locator("[data-open-contents]")
    assert not drawer.is_visible()
    opener.click()
    sync_api.expect(drawer).to_be_visible()
    assert page.evaluate("document.activeElement.closest('#contents') !== null")
    assert opener.get_attribute("aria-expanded") == "true"
    assert serious_findings(page) == []
    page.keyboard.press("Escape")
    sync_api.expect(drawer).not_to_be_visible()
    assert page.evaluate("document.activeElement.matches('[data-open-contents]')")
    opener.click()
    drawer.get_by_role("link", name="Every output").click()
    page.wait_for_url("**/notebook/index.html")


def test_contents_are_open_on_wide_screens(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    assert page.locator("#contents").is_visible()
    assert page.locator(".page-contents").is_visible()
    assert not page.locator("[data-open-contents]").is_visible()


def test_link_into_a_folded_part_opens_it(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html#sol-returns"))
    assert page.locator("#sol-returns").evaluate("(e) => e.open")


def test_previous_and_next(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url())
    titles = []
    while True:
        page.wait_for_load_state("networkidle")  # leaving earlier would cut requests short
        titles.append(page.locator("h1").inner_text())
        following = page.locator(".neighbours .next")
        if not following.count():
            break
        following.click()
    assert titles == [entry["title"] for entry in constructs_site.pages]


def test_notebook_menu(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("notebook/index.html"))
    menu = page.locator("details.menu").first
    menu.locator("summary").focus()
    page.keyboard.press("Enter")
    link = menu.get_by_role("link", name="Download")
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "notebook.ipynb"
    page.keyboard.press("Escape")
    assert menu.evaluate("(e) => e.open") is False


# Previews


@pytest.mark.parametrize(
    ("path", "link", "shown"),
    [
        ("constructs", "a.citation >> nth=0", "Williams, R. J. (1992)"),
        ("constructs", "a.reference[href='#eq-policy-gradient'] >> nth=0", "log"),
        ("constructs", "a.reference[href='#ex-returns'] >> nth=0", "Compute the return"),
        ("constructs", "a.reference[href='#term-policy'] >> nth=0", "A map from states"),
        ("constructs", ".footnote-reference a", "The footnoteʼs text".replace("ʼ", "’")),
        ("notebook", "a.reference[href$='#eq-policy-gradient']", "log"),
        ("notebook", "a.reference[href$='#sec-math']", "A number"),
        ("notebook", "main p a[href$='constructs/index.html']", "What an author may write"),
    ],
)
def test_pointing_at_a_reference_previews_it(
    constructs_site: Site, open_page, path: str, link: str, shown: str
) -> None:
    page = open_page(constructs_site.url(f"{path}/index.html"))
    page.locator(link).scroll_into_view_if_needed()
    page.locator(link).hover()
    preview = page.locator("#preview")
    sync_api.expect(preview).to_contain_text(shown)
    box = preview.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= WIDE["width"]
    page.keyboard.press("Escape")
    assert preview.count() == 0


def test_preview_by_keyboard(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    page.locator("a.citation >> nth=0").evaluate("(e) => e.previousElementSibling?.focus()")
    page.locator("#citations .anchor").focus()
    page.keyboard.press("Tab")
    sync_api.expect(page.locator("#preview")).to_contain_text("Williams, R. J. (1992)")
    assert page.locator("a.citation >> nth=0").get_attribute("aria-describedby") == "preview"
    page.keyboard.press("Shift+Tab")
    sync_api.expect(page.locator("#preview")).to_have_count(0)


# Code


def test_copy_button_copies_the_code(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(".code.numbered")
    block.hover()
    block.locator(".copy-button").click()
    sync_api.expect(block.locator(".copy-button")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith('def returns(rewards, discount):\n    """Rewards to go."""\n')
    assert copied.endswith("[::-1]")


def test_folded_code_opens(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("notebook/index.html"))
    fold = page.locator("details.fold-code").first
    assert not fold.locator(".code").is_visible()
    fold.locator("summary").click()
    assert fold.locator(".code").is_visible()


def test_wide_things_scroll_by_keyboard(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"), viewport=NARROW)
    formula = page.locator(".math-scroll[tabindex='0']").first
    formula.wait_for()
    formula.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")


# Interactive figures


def test_clip_figure_by_keyboard(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    figure = page.locator("[data-figure=ppo-clip]")
    figure.scroll_into_view_if_needed()
    figure.locator(".interactive-panel").wait_for()
    assert not figure.locator(".interactive-fallback").is_visible()
    ratio, advantage = figure.get_by_label("Ratio r"), figure.get_by_label("Advantage A")
    facts = figure.locator(".figure-facts")
    sync_api.expect(facts).to_contain_text("clipped objective1.20")
    ratio.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")  # from 1.40 to 1.15
    assert ratio.get_attribute("aria-valuetext") == "1.15"
    sync_api.expect(facts).to_contain_text("clipped objective1.15gradient in r1.00")
    advantage.focus()
    page.keyboard.press("Home")
    sync_api.expect(facts).to_contain_text("plain r·A−2.30")
    sync_api.expect(figure.locator(".figure-note")).to_contain_text("within the clip range")


def test_clip_figure_by_pointer(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    figure = page.locator("[data-figure=ppo-clip]")
    figure.scroll_into_view_if_needed()
    box = figure.locator("svg.draggable").bounding_box()
    page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.15 * box["height"])
    sync_api.expect(figure.locator(".figure-note")).to_contain_text("the gradient is zero")
    page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.75 * box["height"])
    sync_api.expect(figure.locator(".figure-note")).to_contain_text("pulls the policy back")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_tiny_policy_trains_in_the_page(book_site: Site, open_page, motion: str) -> None:
    page = open_page(book_site.url(), reduced_motion=motion)
    figure = page.locator("[data-figure=tiny-policy]")
    figure.scroll_into_view_if_needed()
    figure.get_by_role("button", name="Train").focus()
    page.keyboard.press("Enter")
    status = figure.locator(".figure-note")
    sync_api.expect(status).to_contain_text("After 300 steps at β = 0.050", timeout=120_000)
    proxy, gold, divergence = tilted_means(10**-1.3)
    facts = dict(
        zip(
            figure.locator(".figure-facts dt").all_inner_texts(),
            map(float, figure.locator(".figure-facts dd").all_inner_texts()),
            strict=True,
        )
    )
    assert facts["proxy reward"] == pytest.approx(proxy, abs=0.03)
    assert facts["gold reward"] == pytest.approx(gold, abs=0.03)
    assert facts["KL (nats)"] == pytest.approx(divergence, abs=0.3)
    assert "great" in figure.locator(".figure-reviews li").first.inner_text()


def test_without_scripts_the_page_can_be_read(site: Site, open_page) -> None:
    for path in site.sample():
        page = open_page(site.url(path), viewport=NARROW, java_script_enabled=False)
        assert page.locator("h1").is_visible()
        assert page.locator("#contents").is_visible()
        for fallback in page.locator(".interactive-fallback").all():
            assert fallback.is_visible()
        assert not page.locator("[data-open-search]").is_visible()
        page.context.close()


# Paper


def test_print_style(constructs_site: Site, open_page) -> None:
    page = open_page(constructs_site.url("constructs/index.html"), color_scheme="dark")
    page.locator("[data-figure]").scroll_into_view_if_needed()
    page.locator(".interactive-panel").wait_for()
    page.emulate_media(media="print")
    assert not page.locator(".interactive-panel").is_visible()
    for gone in (
        ".site-header",
        "#contents",
        ".page-contents",
        ".page-links",
        ".interactive-panel",
    ):
        assert not page.locator(gone).first.is_visible(), gone
    assert paper(page) == LIGHT
    assert page.locator(".interactive-fallback").is_visible()
    assert page.locator(".tab-panel").nth(1).is_visible()
