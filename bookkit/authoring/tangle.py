"""`nbkit tangle`: the cells of a chapter that a cluster runs become the job's training script.

Cells tagged `tangle` go, in order, to `cluster_scripts/<job>/train.py`. The job is the cell's
`job` option, or `job` under the page's `nbkit` key. Together they define a dataclass or pydantic
model `Config`, whose fields all have defaults, and a function `main(config)`; the page calls
`main` at a tiny size in a cell of its own.
"""

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from bookkit.authoring.page import Page
from bookkit.authoring.repository import relative, write_atomically
from bookkit.authoring.stamp import Finding
from nbkit.errors import UserError
from nbkit.runs.sha256 import text_digest

TAG = "tangle"
FOLDER = "cluster_scripts"
MEND = "run `nbkit tangle`"
JOB_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
DIGEST_LINE = re.compile(r"^# Generated, sha256 ([0-9a-f]{16})\n", flags=re.MULTILINE)
MAGIC = re.compile(r"^\s*[%!]", flags=re.MULTILINE)
# Unused imports go, so that a chapter may tangle its one import cell.
TIDY = ("check", "--quiet", "--isolated", "--select", "I,F401", "--fix-only")
NAMES = ("check", "--isolated", "--select", "F821", "--output-format", "concise")
LINE_LENGTH = ("--line-length", "100")

SCRIPT = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(
    '''"""Training script of the job `{{ job }}`, tangled from {{ page }}.

Edit the chapter, not this file; `nbkit tangle` writes it anew. It takes one optional argument, a
YAML file with values for the fields of `Config`.
"""

import sys
from pathlib import Path

import yaml
from pydantic import TypeAdapter
from torch.distributed.elastic.multiprocessing.errors import record

{{ imports }}

{{ body }}


if __name__ == "__main__":
    given = yaml.safe_load(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else {}
    record(main)(TypeAdapter(Config).validate_python(given))  # torchrun shows a failure's traceback
'''
)


@dataclass(frozen=True)
class Script:
    """A training script: the job it belongs to, the page it comes from, its text."""

    root: Path
    job: str
    page: str
    text: str

    @property
    def path(self) -> Path:
        """Where it stands."""
        return self.root / FOLDER / self.job / "train.py"

    @property
    def name(self) -> str:
        """Its path from the root, as messages name it."""
        return relative(self.path, self.root)

    def state(self) -> str:
        """ "missing", "current", "outdated" (generated earlier) or "edited" (by hand)."""
        if not self.path.exists():
            return "missing"
        there = self.path.read_text(encoding="utf-8")
        if there == self.text:
            return "current"
        return "outdated" if is_generated(there) else "edited"


def scripts(root: Path, pages: list[Page]) -> list[Script]:
    """Tangle every job of some pages.

    Raises:
        UserError: two pages name one job, or the cells of a job do not make a script.
    """
    found: dict[str, Script] = {}
    for page in pages:
        for job, sources in cells_by_job(page).items():
            if job in found:
                raise UserError(
                    f"{page.name}: the job {job!r} is tangled from {found[job].page} already; "
                    "give one of them another name"
                )
            found[job] = Script(root, job, page.name, script_text(job, page.name, sources))
    return list(found.values())


def cells_by_job(page: Page) -> dict[str, list[str]]:
    """The sources of a page's tangled cells by job, in order.

    Raises:
        UserError: a tangled cell has no job, or the name of a job is no folder's name.
    """
    content = page.content()
    jobs: dict[str, list[str]] = {}
    for number, cell in enumerate(content.code_cells, start=1):
        if TAG not in cell.tags:
            continue
        job = cell.metadata.get("job", content.settings.get("job"))
        if not isinstance(job, str) or not JOB_NAME.fullmatch(job):
            raise UserError(
                f"{page.name}: code cell {number} is tagged `{TAG}` but its job is {job!r}; give "
                "it `:job: NAME`, small letters, digits, - and _"
            )
        if MAGIC.search(cell.source):
            raise UserError(
                f"{page.name}: code cell {number} is tagged `{TAG}` and holds a line of IPython "
                "magic, which a script cannot run; move it to a cell of its own"
            )
        jobs.setdefault(job, []).append(cell.source)
    return jobs


def script_text(job: str, page: str, sources: list[str]) -> str:
    """Make a script of cells: imports first, then the code, then the entry point.

    Raises:
        UserError: the cells define no `Config` or no `main(config)`, or use an undefined name.
    """
    imports, body = [], []
    defined: dict[str, ast.stmt] = {}
    for source in sources:
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            raise UserError(f"{page}: a cell of job {job!r} is not Python: {error.msg}") from error
        defined |= {getattr(node, "name", ""): node for node in tree.body}
        found, rest = _without_imports(source, tree)
        imports += found
        body += [rest] if rest.strip() else []
    main = defined.get("main")
    if not isinstance(defined.get("Config"), ast.ClassDef):
        raise UserError(f"{page}: the cells of job {job!r} define no class `Config`")
    if not isinstance(main, ast.FunctionDef) or len(main.args.args) != 1:
        raise UserError(f"{page}: the cells of job {job!r} define no function `main(config)`")
    text = SCRIPT.render(
        job=job, page=page, imports="\n".join(dict.fromkeys(imports)), body="\n\n\n".join(body)
    )
    text = _ruff(("format", "--isolated", *LINE_LENGTH), _ruff((*TIDY, *LINE_LENGTH), text))
    undefined = re.search(r"F821 (.*)", _ruff(NAMES, text, may_fail=True))
    if undefined:
        raise UserError(
            f"{page}: job {job!r}: {undefined.group(1)} in the tangled cells; tag the cell that "
            f"defines it `{TAG}` too"
        )
    return _signed(text)


def write(script: Script) -> str:
    """Write one script.

    Returns:
        One line that says what was done.

    Raises:
        UserError: the file there was edited by hand or not generated.
    """
    state = script.state()
    if state == "current":
        return f"{script.name}: up to date"
    if state == "edited":
        raise UserError(
            f"{script.name} was edited by hand; take the edit into {script.page}, delete the "
            f"file and {MEND}"
        )
    write_atomically(script.path, script.text)
    return f"{script.name}: tangled from {script.page}"


def check(root: Path, made: list[Script], *, orphans: bool = True) -> list[Finding]:
    """Find scripts that are not what their chapters give."""
    problems = {
        "missing": ("does not exist, though {page} has its cells", MEND),
        "outdated": ("is not what {page} gives now", MEND),
        "edited": ("was edited by hand; it is generated", "take the edit into {page}"),
    }
    found = []
    for script in made:
        state = script.state()
        if state in problems:
            problem, mend = (text.format(page=script.page) for text in problems[state])
            found.append(Finding(script.name, problem, mend))
    known = {script.path for script in made}
    for path in sorted((root / FOLDER).glob("*/train.py")) if orphans else []:
        if path not in known:
            problem = "no chapter has cells that it is tangled from"
            found.append(Finding(relative(path, root), problem, "delete it, or tag the cells"))
    return found


def is_generated(text: str) -> bool:
    """Whether a script is as `nbkit tangle` once wrote it."""
    found = DIGEST_LINE.search(text)
    return found is not None and _digest(DIGEST_LINE.sub("", text)) == found.group(1)


def _signed(text: str) -> str:
    return f"# Generated, sha256 {_digest(text)}\n{text}"


def _digest(text: str) -> str:
    return text_digest(text, 16)


def _without_imports(source: str, tree: ast.Module) -> tuple[list[str], str]:
    lines = source.splitlines()
    imports = []
    for node in reversed(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(ast.unparse(node))
            del lines[node.lineno - 1 : node.end_lineno]
    return imports[::-1], "\n".join(lines).strip("\n")


def _ruff(arguments: tuple[str, ...], text: str, *, may_fail: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", "train.py", "-"],
        input=text,
        capture_output=True,
        text=True,
    )
    if done.returncode and not may_fail:
        raise UserError(f"ruff could not tidy the script: {done.stderr.strip()}")
    return done.stdout
