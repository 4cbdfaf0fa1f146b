"""The real book in a real browser: every page of it."""

from __future__ import annotations

import page_checks
import pytest
from browsing import Site, sync_api

from bookkit.site.pictures.tiny_world import tilted_means

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_pages_are_sound(book_site: Site, open_page) -> None:
    page_checks.pages_are_sound(book_site, open_page)


def test_pages_open_on_a_small_screen(book_site: Site, open_page) -> None:
    page_checks.pages_open_on_a_small_screen(book_site, open_page)


def test_pages_work_from_the_disk(book_site: Site, open_page) -> None:
    page_checks.pages_work_from_the_disk(book_site, open_page)


def test_search_by_keyboard(book_site: Site, open_page) -> None:
    known = ("practitioner weekend", "index.html", "#four-ways-through")
    page_checks.search_by_keyboard(book_site, open_page, known)


def test_without_scripts_the_page_can_be_read(book_site: Site, open_page) -> None:
    page_checks.can_be_read_without_scripts(book_site, open_page)


def test_drawings_follow_the_colours(book_site: Site, open_page) -> None:
    strokes = []
    for scheme in ("light", "dark"):
        page = open_page(book_site.url(), color_scheme=scheme)
        shape = "document.querySelector('.card svg.drawing path[style*=build]')"
        strokes.append(page.evaluate(f"getComputedStyle({shape}).stroke"))
    assert strokes == ["rgb(11, 107, 85)", "rgb(94, 207, 174)"]


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_tiny_policy_trains_in_the_page(book_site: Site, open_page, motion: str) -> None:
    page = open_page(book_site.url(), reduced_motion=motion)
    figure = page.locator("[data-figure=tiny-policy]")
    figure.scroll_into_view_if_needed()
    figure.get_by_role("button", name="Train").focus()
    page.keyboard.press("Enter")
    status = figure.locator(".figure-note")
    sync_api.expect(status).to_contain_text("After 300 steps at β = 0.050", timeout=300_000)
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
