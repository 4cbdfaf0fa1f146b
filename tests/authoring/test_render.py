"""What the tools write is what the book's engine reads: title, outputs, records, no warning."""

import re
import shutil

import pytest

from tests.authoring.book import REPOSITORY, Book, code
from tests.authoring.conftest import CHAPTER

MYST = """
version: 1
project:
  id: small-book
  title: A small book
  toc:
    - file: book/index.md
    - file: notebooks/01_small.ipynb
    - file: exercises/02_x.ipynb
    - file: solutions/02_x.ipynb
site:
  template: ./book/_theme
  options:
    folders: true
"""


@pytest.mark.slow
def test_executed_pages_and_exercises_render_strictly(executed: Book):
    shutil.copytree(REPOSITORY / "book/_theme", executed.root / "book/_theme")
    executed.write("myst.yml", MYST)
    executed.write("book/index.md", "# Contents\n\nWords.\n")
    solution = code("def f(x):\n    return 2 * x", "solution") + "\n" + code("print('shared')")
    executed.page("solutions/02_x.md", f"# One\n\nText.\n\n{solution}", title="Solutions: x")
    numbered = executed.read(CHAPTER).replace("---\n", "---\nnumbering:\n  enumerator: 1.%s\n", 1)
    executed.write(CHAPTER, numbered)
    executed.nbkit("exercises", "split")
    executed.nbkit("execute")
    log = executed.process("book", "build")
    assert "⚠️" not in log
    site = executed.root / "_build/html"
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    chapter = next(text for name, text in pages.items() if "notebooks/" in name)
    assert ">A small chapter</h1>" in chapter and "<title>Small" in chapter
    words = re.sub(r"<[^>]+>", "", chapter)
    assert "twice(3)" in words and "More prose." in words
    assert re.search(r">\s*12\s*<", chapter), "the stored output of the first cell is shown"
    assert "short_title" not in words, "the front matter is not"
    both = [text for name, text in pages.items() if "/x/" in name]
    titles = sorted(text.partition("<title>")[2].partition("</title>")[0] for text in both)
    assert [title.partition(" ")[0] for title in titles] == ["Exercises:", "Solutions:"]
