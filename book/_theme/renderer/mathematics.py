"""Formulas that mystmd has not typeset: those in notebook outputs.

KaTeX runs here, at build time, in the Node that builds the book; pages carry no script for it.
"""

import functools
import json
import subprocess
from pathlib import Path

from renderer.errors import ContentError

KATEX = Path(__file__).parent.parent / "vendor" / "katex.min.js"
PROGRAM = """
const katex = require(process.argv[1]);
const { tex, displayMode } = JSON.parse(require("fs").readFileSync(0, "utf8"));
try {
  process.stdout.write(katex.renderToString(tex, { displayMode, throwOnError: true }));
} catch (error) {
  process.stderr.write(error.message);
  process.exitCode = 1;
}
"""
TIMEOUT_SECONDS = 30


@functools.lru_cache(maxsize=4096)
def formula_html(tex: str, *, display: bool) -> str:
    """HTML of a formula, or ContentError with KaTeX's reason."""
    done = subprocess.run(
        ["node", "-e", PROGRAM, str(KATEX)],
        input=json.dumps({"tex": tex, "displayMode": display}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ContentError(f"formula {tex!r} in an output: {done.stderr.strip()}")
    return done.stdout


def strip_delimiters(latex: str) -> tuple[str, bool]:
    """The formula inside `$$…$$`, `$…$`, `\\[…\\]` or bare, and whether it is displayed."""
    text = latex.strip()
    for opening, closing, display in (("$$", "$$", True), ("\\[", "\\]", True), ("$", "$", False)):
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening):
            return text[len(opening) : -len(closing)].strip().removeprefix(
                "\\displaystyle"
            ), display
    return text, True
