"""Figures of the chapters and films in a real browser: by keyboard, by pointer, at rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import Site, sync_api

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CHAPTER_35 = Path(__file__).resolve().parents[2] / "notebooks" / "35_asynchronous.ipynb"
CHAPTERS = {
    "gae-table": "notebooks/text-as-mdp/index.html",
    "mask-edges": "notebooks/pytorch-traps/index.html",
    "beta-samples": "notebooks/reinforce/index.html",
    "hoverer": "notebooks/manipulation/index.html",
    "async-timeline": "notebooks/asynchronous/index.html",
}


@pytest.fixture
def figure(book_site: Site, open_page):
    """Opens the page of a figure and brings the figure into view."""

    def open_figure(name: str, **context) -> tuple[sync_api.Page, sync_api.Locator]:
        page = open_page(book_site.url(CHAPTERS[name]), **context)
        place = page.locator(f"[data-figure={name}]")
        place.scroll_into_view_if_needed()
        place.locator(".interactive-panel").wait_for()
        assert not place.locator(".interactive-fallback").is_visible()
        return page, place

    return open_figure


def test_gae_table_by_keyboard(figure) -> None:
    page, place = figure("gae-table")
    note = place.locator(".figure-note")
    sync_api.expect(note).to_contain_text("the advantages are −1.19, −0.75, 1.00, 4.00")
    place.get_by_label("λ", exact=True).focus()
    page.keyboard.press("End")
    sync_api.expect(note).to_contain_text("every target is the return that was earned")
    cells = place.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[-2:] == ["1.00", "1.00"]


def test_masks_by_keyboard(figure) -> None:
    page, place = figure("mask-edges")
    note = place.locator(".figure-note")
    sync_api.expect(note).to_contain_text("Exactly the tokens that the policy chose")
    place.get_by_role("button", name="mask[:, :-1]").focus()
    page.keyboard.press("Enter")
    sync_api.expect(note).to_contain_text("Row 2: a token of the answer does not count; padding")
    place.get_by_role("button", name="The right mask").press("Enter")
    place.get_by_label("Row 1, first token of the mask").focus()
    page.keyboard.press("ArrowLeft")
    sync_api.expect(note).to_have_text("Row 1: a token of the prompt counts: nobody sampled it.")


def test_masks_by_pointer(figure) -> None:
    page, place = figure("mask-edges")
    picture = place.locator("svg.draggable")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    cell, row = box["width"] / 8.17, box["height"] / 2
    edge, top = box["x"] + 6.08 * cell, box["y"] + 0.2 * row  # the right edge of row 1
    page.mouse.move(edge, top)
    page.mouse.down()
    page.mouse.move(edge + cell, top, steps=4)
    page.mouse.up()
    sync_api.expect(place.locator(".figure-note")).to_contain_text("Row 1: padding counts")


def test_tilted_samples_by_keyboard(figure) -> None:
    page, place = figure("beta-samples")
    note, shares = place.locator(".figure-note"), place.locator("tbody td:nth-child(3)")
    place.get_by_label("KL coefficient β").focus()
    page.keyboard.press("Home")
    sync_api.expect(note).to_contain_text("“a great plot and i liked the cast.” has the largest")
    assert shares.first.inner_text() == "100.0 %"
    place.get_by_role("button", name="keyword, ±1").press("Enter")
    sync_api.expect(note).to_contain_text("2 reviews share the first place, 50.0 % each")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_hoverer_does_what_its_reward_asks_for(figure, motion: str) -> None:
    page, place = figure("hoverer", reduced_motion=motion)
    note, train = place.locator(".figure-note"), place.get_by_role("button", name="Train")
    train.press("Enter")
    sync_api.expect(note).to_contain_text("After 30 iterations")
    assert int(place.locator("dd").nth(2).inner_text().removesuffix(" %")) > 70
    place.get_by_label("Weight of the thrust").focus()
    for _ in range(23):  # from 0.05 to 1.20
        page.keyboard.press("ArrowRight")
    sync_api.expect(note).to_contain_text("the craft is untrained again")
    train.press("Enter")
    sync_api.expect(note).to_contain_text("this is what the reward asks for")
    assert place.locator("dd").nth(2).inner_text() == "0 %"


@pytest.mark.skipif(not CHAPTER_35.is_file(), reason="chapter 35 is not in the book yet")
def test_a_timeline_by_keyboard(figure) -> None:
    page, place = figure("async-timeline")
    note, gain = place.locator(".figure-note"), place.locator("dd").nth(1)
    sync_api.expect(note).to_contain_text("4 devices sample and 4 train")
    assert gain.inner_text() == "1.00"
    place.get_by_role("button", name="in flight").press("Enter")
    assert float(gain.inner_text()) > 1.5
    place.get_by_label("Staleness η").focus()
    page.keyboard.press("Home")  # no staleness is the synchronous scheme
    sync_api.expect(gain).to_have_text("1.00")
    assert place.locator("dd").nth(4).inner_text() == "0"
    place.get_by_label("Devices that sample").focus()
    page.keyboard.press("ArrowRight")
    sync_api.expect(note).to_contain_text("5 devices sample and 3 train")
    assert "scheme in flight" in place.locator("svg.plot").get_attribute("aria-label")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_landing_page_opens_with_a_film(book_site: Site, open_page, motion: str) -> None:
    page = open_page(book_site.url(), reduced_motion=motion)
    film = page.locator(".film").first
    image = film.locator("img")
    assert image.bounding_box()["y"] < 900  # on the first screen
    shown = image.evaluate("(image) => image.currentSrc")
    moves = motion == "no-preference"
    assert shown.startswith("http") == moves and shown.startswith("data:") != moves
    button = film.get_by_role("button")
    if moves:
        sync_api.expect(button).to_have_text("Stop the film")
        button.press("Enter")
        assert image.evaluate("(image) => image.src").startswith("data:image/webp")
    button.press("Enter")
    sync_api.expect(button).to_have_text("Stop the film")
    page.wait_for_function("document.querySelector('.film img').src.includes('?turn=')")
    page.wait_for_function("document.querySelector('.film img').naturalWidth >= 480")


def test_films_of_a_chapter_wait_for_a_press(book_site: Site, open_page) -> None:
    page = open_page(book_site.url("notebooks/ppo/index.html"))
    films = page.locator(".film:not(:has(source))")
    assert films.count() >= 1
    for film in films.all():
        assert film.locator("img").evaluate("(i) => i.src").startswith("data:image/webp")
        sync_api.expect(film.get_by_role("button")).to_contain_text("Play the film")
