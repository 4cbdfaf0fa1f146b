"""Puts the parts of a page together, through the templates."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from renderer.content import Book, Node, Page
from renderer.measured import results_section
from renderer.navigation import Navigation
from renderer.nodes import class_names
from renderer.page_renderer import Heading, PageRenderer
from renderer.previews import preview_templates
from renderer.references import reference_list

TEMPLATES = Path(__file__).parent.parent / "templates"


def environment() -> Environment:
    """The templates; a name that is missing is an error, and text is escaped."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def assemble(
    page: Page, book: Book, navigation: Navigation, templates: Environment, version: str
) -> tuple[str, list[str]]:
    """The whole HTML of a page, and what went wrong while rendering it."""
    renderer = PageRenderer(book, page)
    card, tree = _take_run_card(page.tree)
    run_card = renderer.render(card) if card else ""
    body = renderer.render(tree)
    references = ""
    if page.citations and not renderer.has_bibliography:
        references = reference_list(page.citations)
    recorded = results_section(page.location)
    headings = [*renderer.headings]
    if recorded:
        headings.append(Heading(2, "recorded-results", "Recorded results"))
    if references:
        headings.append(Heading(2, "references", "References"))
    previews = preview_templates(renderer)
    previous, following = navigation.previous_and_next(page)
    html = templates.get_template("page.html.j2").render(
        book=book,
        page=page,
        navigation=navigation,
        part=navigation.part_of(page),
        number=navigation.number_of(page),
        is_landing=page.url == "/",
        root=page.to_root,
        version=version,
        run_card=Markup(run_card),
        body=Markup(body),
        headings=[(h.depth, h.identifier, Markup(h.html)) for h in headings],
        footnotes=[
            (identifier, number, Markup(text))
            for identifier, (number, text) in renderer.footnotes.items()
        ],
        recorded=Markup(recorded),
        references=Markup(references),
        previews=Markup(previews),
        has_math='class="katex"' in body + previews,
        figures=sorted(renderer.interactive),
        previous=previous,
        following=following,
        sources=source_links(page, book),
    )
    return html, renderer.errors


def source_links(page: Page, book: Book) -> dict[str, str]:
    """Where the page's text and notebook are: paths in the repository, addresses if it has one.

    Keys: `master` (the text to edit), `notebook` (empty for prose), `edit` (address, if any),
    `download` (the file in this site, if any).
    """
    location = PurePosixPath(page.location)
    is_notebook = location.suffix == ".ipynb"
    master = str(location.with_suffix(".md")) if is_notebook else str(location)
    if location.parts[0] == "exercises":  # cut from the solution of the same name
        master = str(PurePosixPath("solutions", *location.parts[1:]).with_suffix(".md"))
    exports = page.frontmatter.get("exports") or []
    download = next((e["url"] for e in exports if e.get("url") in book.files), "")
    return {
        "master": master,
        "notebook": str(location) if is_notebook else "",
        "edit": f"{book.repository}/edit/main/{master}" if book.repository else "",
        "download": page.to_root + "files" + download if download else "",
        "filename": location.name,
    }


def _take_run_card(tree: Node) -> tuple[Node | None, Node]:
    """Lift the run card out of the body: it stands in the page's header."""
    for place, node in enumerate(tree.get("children", [])):
        if node["type"] == "admonition" and "run-card" in class_names(node):
            rest = [*tree["children"][:place], *tree["children"][place + 1 :]]
            return node, {**tree, "children": rest}
        if node["type"] == "block":
            card, block = _take_run_card(node)
            if card:
                children = [*tree["children"]]
                children[place] = block
                return card, {**tree, "children": children}
    return None, tree
