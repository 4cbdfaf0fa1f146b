"""What is asked of every page of a site, in the browser."""

from __future__ import annotations

from browsing import (
    LARGEST_PAGE_BYTES,
    NARROW,
    OF_THE_LOOK,
    OPEN_FOLDS,
    WIDE,
    Site,
    formulas_without_size,
    missing_pictures,
    scroll_through,
    serious_findings,
    sync_api,
)


def pages_are_sound(site: Site, open_page) -> None:
    """Wide and light: no complaint, nothing from outside, pictures there, formulas typeset, light
    enough, landmarks. Turned into a small, dark screen: it fits. On both nothing serious is found
    by axe, which comes last, because it is shown fewer words.
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
        turn(page, NARROW, "dark")
        fits_a_small_screen(page, path)
        turn(page, WIDE, "light")
        assert serious_findings(page) == [], path
        page.context.close()


def turn(page: sync_api.Page, size: dict[str, int], scheme: str) -> None:
    """Another screen under an open page; what is out of sight is looked at again."""
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    page.evaluate("dispatchEvent(new Event('load'))")


def fits_a_small_screen(page: sync_api.Page, path: str) -> None:
    """375 pixels and dark: no sideways scroll of the page, nothing serious found by axe."""
    scroll_through(page)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= NARROW["width"], (path, width)
    page.evaluate("window.scrollTo(400, 0)")
    assert page.evaluate("window.scrollX") == 0, path
    assert serious_findings(page, OF_THE_LOOK) == [], path


def pages_open_on_a_small_screen(site: Site, open_page) -> None:
    """As when it is turned small, so when it is opened there."""
    for path in site.sample():
        page = open_page(site.url(path), viewport=NARROW, color_scheme="dark")
        page.evaluate(OPEN_FOLDS)
        fits_a_small_screen(page, path)
        page.context.close()


def pages_work_from_the_disk(site: Site, open_page) -> None:
    """Opened as files, without a server: fonts, scripts and the search work too."""
    for path in site.sample():
        page = open_page((site.folder / path).as_uri())
        page.keyboard.press("/")
        page.keyboard.type("re")
        page.locator("#search-results a").first.wait_for()
        assert all(url.startswith(("file:", "data:")) for url in page.watch.requests)
        assert page.evaluate("document.fonts.check('16px \"Source Serif 4\"')")
        page.context.close()


def search_by_keyboard(site: Site, open_page, known: tuple[str, str, str]) -> None:
    phrase, path, anchor = known
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


def can_be_read_without_scripts(site: Site, open_page) -> None:
    for path in site.sample():
        page = open_page(site.url(path), viewport=NARROW, java_script_enabled=False)
        assert page.locator("h1").is_visible()
        assert page.locator("#contents").is_visible()
        for fallback in page.locator(".interactive-fallback").all():
            assert fallback.is_visible()
        assert not page.locator("[data-open-search]").is_visible()
        page.context.close()
