"""The theme in a real browser, on the book of every construct."""

from __future__ import annotations

import page_checks
import pytest
from browsing import NARROW, OF_THE_LOOK, WIDE, Site, serious_findings, sync_api

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Every page


def test_pages_are_sound(constructs_site: Site, open_page) -> None:
    page_checks.pages_are_sound(constructs_site, open_page)


def test_pages_open_on_a_small_screen(constructs_site: Site, open_page) -> None:
    page_checks.pages_open_on_a_small_screen(constructs_site, open_page)


def test_pages_work_from_the_disk(constructs_site: Site, open_page) -> None:
    page_checks.pages_work_from_the_disk(constructs_site, open_page)


def test_search_by_keyboard(constructs_site: Site, open_page) -> None:
    known = ("quokka gradient", "notebook/index.html", "#sec-streams")
    page_checks.search_by_keyboard(constructs_site, open_page, known)


def test_without_scripts_the_page_can_be_read(constructs_site: Site, open_page) -> None:
    page_checks.can_be_read_without_scripts(constructs_site, open_page)


@pytest.mark.parametrize("pale", ["main pre span", "main .katex-html", "main p", "main a"])
def test_words_that_are_too_pale_are_found(constructs_site: Site, open_page, pale: str) -> None:
    page = open_page(constructs_site.url("constructs/index.html"))
    page.add_style_tag(content=f"{pale} {{ color: #ddd !important; }}")
    for rules in (None, OF_THE_LOOK):
        assert "color-contrast" in {rule for rule, _ in serious_findings(page, rules)}


# Search


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
    page.wait_for_function("document.querySelector('dialog.zoom img').naturalWidth === 240")
    assert serious_findings(page) == []
    page.keyboard.press("Escape")
    sync_api.expect(enlarged).not_to_be_visible()
    assert page.evaluate("document.activeElement.matches('.zoom-button')")


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
    assert page.locator(".page-contents-small").is_visible()  # code needs the room at the side
    page.set_viewport_size({"width": 1600, "height": 900})
    assert page.locator(".page-contents").is_visible()
    assert not page.locator(".page-contents-small").is_visible()


@pytest.mark.parametrize("width", [1280, 1366, 1500, 1920])
def test_code_of_a_hundred_characters_is_not_cut(constructs_site: Site, open_page, width) -> None:
    page = open_page(constructs_site.url("notebook/index.html"))
    page.set_viewport_size({"width": width, "height": 900})
    room = page.evaluate("""async () => {
        await document.fonts.ready;
        const block = document.querySelector(".prose > .cell > .code");
        const pre = block.querySelector("pre"), cell = block.closest(".cell");
        pre.querySelector("code").textContent = "x".repeat(100);
        const margin = parseFloat(getComputedStyle(cell).overflowClipMargin);
        const right = (element) => element.getBoundingClientRect().right;
        return [pre.scrollWidth <= pre.clientWidth, right(block) <= right(cell) + margin,
                document.documentElement.scrollWidth <= innerWidth];
    }""")
    assert room == [True, True, True]
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
    figure.scroll_into_view_if_needed()  # it is drawn when it comes into sight
    drawing = figure.locator("svg.draggable")
    box = drawing.bounding_box()
    # A click of the locator waits until the drawing stands still; the note below it changes height.
    for height, says in ((0.15, "the gradient is zero"), (0.75, "pulls the policy back")):
        drawing.click(position={"x": 0.9 * box["width"], "y": height * box["height"]})
        sync_api.expect(figure.locator(".figure-note")).to_contain_text(says)


def test_a_prediction_is_made_on_the_page_and_drawn_over_what_happened(
    constructs_site: Site, open_page
) -> None:
    page = open_page(constructs_site.url("notebook/index.html"))
    asked, shown = page.locator("[data-figure=prediction]").all()
    asked.scroll_into_view_if_needed()
    shown.locator(".interactive-panel").wait_for()
    note, verdict = asked.locator(".figure-note"), shown.locator(".figure-note")
    sync_api.expect(verdict).to_contain_text("You have not guessed")
    slider = asked.get_by_label("at 0")
    assert slider.get_attribute("aria-valuetext") == "no guess"
    slider.focus()
    page.keyboard.press("End")
    assert slider.get_attribute("aria-valuetext") == "2"
    sync_api.expect(note).to_contain_text("2 of 3 still to guess")
    sync_api.expect(verdict).to_contain_text("Your guess: 50 of 100, on average 1 apart.")
    for label in ("at 5", "at 10"):
        asked.get_by_label(label).focus()
        page.keyboard.press("End")
    sync_api.expect(note).to_contain_text("Your guess stands")
    box = asked.locator("svg.draggable").bounding_box()
    page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + 0.8 * box["height"])
    assert float(asked.get_by_label("at 0").get_attribute("aria-valuetext")) < 0.5
    sync_api.expect(verdict).to_contain_text("Furthest at 5: 2 guessed, 1 true.")
    assert "your guess, 0: 0" in asked.locator("svg.plot").get_attribute("aria-label")


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
