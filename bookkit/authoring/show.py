"""`nbkit.show`: render the package's real source on a page, so that nothing is pasted twice."""

import html
import inspect
import textwrap
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pygments import highlight, lex
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from pygments.token import STANDARD_TYPES

PACKAGE_PARENT = Path(__file__).resolve().parents[2]
LIGHT_STYLE = "friendly"
DARK_STYLE = "github-dark"
# The roots that mark a dark page: JupyterLab, and the book's own theme.
DARK_ROOTS = ('[data-jp-theme-light="false"]', '[data-theme="dark"]', ".dark")


@dataclass(frozen=True)
class Source:
    """The source of one object: what it is called, where it stands, its text."""

    name: str
    place: str
    text: str

    def __repr__(self) -> str:
        return f"# {self.name} ({self.place})\n{self.text}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": _html(self)}


def show(*objects: Any) -> None:
    """Display the source of functions, classes, methods or modules, highlighted.

    The output carries HTML for Jupyter and the book, and plain text for everything else.

    Args:
        objects: what to show, each in an output of its own. Decorated functions are unwrapped.

    Raises:
        TypeError: nothing was given, or an object has no Python source (a built-in, an instance).
    """
    if not objects:
        raise TypeError("show needs at least one function, class or module")
    for found in [source_of(item) for item in objects]:
        _display(found)


def source_of(item: Any) -> Source:
    """Find the source of a function, class, method or module.

    Raises:
        TypeError: the object has no Python source.
    """
    if isinstance(item, partial):
        item = item.func
    if isinstance(item, property) and item.fget is not None:
        item = item.fget
    if not isinstance(item, ModuleType | type | FunctionType | MethodType):
        wrapped = getattr(item, "__wrapped__", None)
        if wrapped is None:
            raise TypeError(
                f"show renders the source of a function, class or module; {item!r} is "
                f"an object of type {type(item).__name__}: show its class"
            )
        item = wrapped
    item = inspect.unwrap(item) if callable(item) else item
    try:
        lines, start = inspect.getsourcelines(item)
        file = inspect.getsourcefile(item)
    except (OSError, TypeError) as error:
        raise TypeError(f"show finds no Python source for {item!r}") from error
    text = textwrap.dedent("".join(lines))
    if isinstance(item, ModuleType):
        name, start = item.__name__, 1
    else:
        name = f"{item.__module__}.{item.__qualname__}"
    return Source(name, _place(file, start, len(lines)), text.rstrip() + "\n")


def _place(file: str | None, start: int, count: int) -> str:
    path = Path(file or "").resolve()
    if not path.is_relative_to(PACKAGE_PARENT):
        return "defined on this page" if "ipykernel" in str(path) else path.name
    return f"{path.relative_to(PACKAGE_PARENT).as_posix()}, lines {start}–{start + count - 1}"


def _html(source: Source) -> str:
    lexer = PythonLexer()
    used = {STANDARD_TYPES.get(kind, "") for kind, _ in lex(source.text, lexer)} - {""}
    code = highlight(source.text, lexer, HtmlFormatter(nowrap=True))
    head = f"{html.escape(source.name)} <span>{html.escape(source.place)}</span>"
    return (
        f"<style>{_css(used)}</style>"
        f'<figure class="nbkit-source"><figcaption>{head}</figcaption>'
        f'<pre tabindex="0"><code class="language-python">{code}</code></pre></figure>'
    )


def _css(used: set[str]) -> str:
    """The rules for the token classes that occur, light by default and dark under a dark root."""
    base = (
        ".nbkit-source{margin:.5em 0}"
        ".nbkit-source figcaption{font-size:.85em;opacity:.8}"
        ".nbkit-source figcaption span{float:right}"
        ".nbkit-source pre{margin:.3em 0;overflow-x:auto}"
    )
    dark_root = f":is({','.join(DARK_ROOTS)}) .nbkit-source"
    return base + _rules(LIGHT_STYLE, used, ".nbkit-source") + _rules(DARK_STYLE, used, dark_root)


def _rules(style: str, used: set[str], root: str) -> str:
    formatter: Any = HtmlFormatter(style=style, classprefix="")
    names_by_declaration: dict[str, list[str]] = {}
    for name in sorted(used):
        declaration = formatter.class2style.get(name, ("",))[0]
        if declaration:
            names_by_declaration.setdefault(declaration.replace(": ", ":"), []).append(f".{name}")
    return "".join(
        f"{root} :is({','.join(names)}){{{declaration}}}"
        for declaration, names in names_by_declaration.items()
    )


def _display(source: Source) -> None:
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(source)
        return
    if get_ipython() is None:
        print(source)
    else:
        display(source)
