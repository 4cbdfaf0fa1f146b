"""Interactive figures: a static picture that a script of the theme turns into a small laboratory.

A page writes a division of the classes `interactive` and the figure's name, around the picture that
stands there without the script (in print, in a preview, without JavaScript). The theme holds
a folder `interactive/NAME` with `model.js` (the mathematics) and `figure.js` (what is drawn).
"""

from renderer.bundles import figure_names
from renderer.content import Node
from renderer.errors import ContentError
from renderer.nodes import class_names, element
from renderer.page_renderer import PageRenderer

INTERACTIVE_CLASS = "interactive"


def interactive_figure(node: Node, page: PageRenderer) -> str:
    """The division around the fallback; the page loads the figure's script."""
    names = [name for name in class_names(node) if name != INTERACTIVE_CLASS]
    if len(names) != 1:
        raise ContentError("an interactive figure has two classes: interactive and its name")
    name = names[0]
    if name not in figure_names():
        known = ", ".join(figure_names()) or "none yet"
        raise ContentError(f"there is no interactive figure {name!r} (there are: {known})")
    if not _holds_image(node):
        raise ContentError(
            f"the interactive figure {name!r} needs a picture with alt text as fallback"
        )
    return with_figure(name, page.children(node), None, page, html_id=node.get("html_id"))


def with_figure(
    name: str, fallback: str, data: str | None, page: PageRenderer, *, html_id: str | None = None
) -> str:
    """The division of a figure around what stands there without the script, and its data.

    Args:
        name: of the figure, which the theme holds.
        fallback: HTML.
        data: JSON that the figure's script reads, or None.
        page: loads the script.
        html_id: of the division.
    """
    standing = element("div", fallback, class_="interactive-fallback")
    if page.is_preview:
        return standing
    page.interactive.add(name)
    if data is not None:
        standing += element("script", data.replace("<", "\\u003c"), type="application/json")
    return element("div", standing, class_=INTERACTIVE_CLASS, data_figure=name, id=html_id)


def _holds_image(node: Node) -> bool:
    return node["type"] == "image" or any(_holds_image(child) for child in node.get("children", []))
