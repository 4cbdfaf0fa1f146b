"""The prose lint: each rule finds its fault, with file and line, and lets right prose pass."""

import pytest

from bookkit.authoring.names import Names
from bookkit.authoring.prose import prose_lines
from bookkit.authoring.spelling import AMERICAN, WORDS, american_words
from tests.authoring.book import REPOSITORY, Book

MODULE = '''
"""Buffers."""
from dataclasses import dataclass
from nbkit.losses import loss as renamed

LIMIT = 3
if LIMIT:
    def sometimes():
        pass

@dataclass
class Base:
    size: int = 1

class Buffer(Base):
    def __init__(self):
        self.items = []

    def add(self, item):
        pass
'''


@pytest.fixture
def prose(book: Book) -> Book:
    book.write("nbkit/buffers.py", MODULE)
    book.write("Makefile", "book: .venv/stamp\n\techo\ntest lab:\n\techo\nVAR := x\n")
    book.write("book/references.bib", "@article{sutton1999,\n  title = {x},\n}\n")
    return book


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("nbkit", True),
        ("nbkit.buffers", True),
        ("nbkit.buffers.Buffer", True),
        ("nbkit.buffers.Buffer.add", True),
        ("nbkit.buffers.Buffer.items", True),
        ("nbkit.buffers.Buffer.size", True),
        ("nbkit.buffers.LIMIT", True),
        ("nbkit.buffers.sometimes", True),
        ("nbkit.buffers.renamed", True),
        ("nbkit.nothing", False),
        ("nbkit.buffers.nothing", False),
        ("nbkit.buffers.Buffer.nothing", False),
        ("nbkit.buffers.sometimes.nothing", False),
    ],
)
def test_names(prose: Book, name: str, exists: bool):
    assert Names(prose.root).exists(name) == exists


def test_lazy_names_of_the_real_package():
    names = Names(REPOSITORY)
    assert names.exists("nbkit.record") and names.exists("nbkit.show")
    assert not names.exists("nbkit.records")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Use `nbkit.buffers.Bufer`.", "`nbkit.buffers.Bufer` does not exist"),
        ("Use `nbkit.buffers.gone(x, y=2)`.", "`nbkit.buffers.gone` does not exist"),
        ("See `nbkit/gone.py`.", "`nbkit/gone.py` does not exist"),
        ("See `gone.toml`.", "`gone.toml` does not exist"),
        ("See `studies/results/gone*.json`.", "does not exist"),
        ("Run `make books`.", "the Makefile has no target 'books'"),
        ("Run `nbkit exercute`.", "there is no command 'exercute'"),
        ("Run `nbkit exercises splitt`.", "there is no command 'splitt'"),
        ("Run `nbkit execute --al`.", "there is no option '--al'"),
        ("As in {cite}`sutton1999,gone2000`.", "the citation 'gone2000' is not in"),
        ("As in [@gone2001].", "the citation 'gone2001' is not in"),
        ("See [there](gone.md).", "the link to gone.md leads nowhere"),
        ("The optimizer works.", "'optimizer' is American spelling; write 'optimiser'"),
        ("The optimiser has a color.", "'color' is American spelling; write 'colour'"),
        ("It takes @@TIMES@@ here.", "@@TIMES@@ is an unfilled placeholder"),
        ("`@@run.seconds@@` s", "@@run.seconds@@ is an unfilled placeholder"),
        ("```\n@@TIMES@@\n```", "@@TIMES@@ is an unfilled placeholder"),
        (":::{note} A color\n:::", "'color' is American spelling"),
        ("```{note}\nA color.\n```", "'color' is American spelling"),
        (f"```{{code-cell}} python\nx = {'1 + ' * 24}1", "has 101 characters; break it"),
        (f"```bash\n{'echo ' * 20}x\n```", "has 101 characters; break it"),
    ],
)
def test_each_fault_is_found_with_file_and_line(prose: Book, text: str, message: str):
    prose.write("book/page.md", f"# A page\n\nRight prose.\n\n{text}\n")
    lines = prose.nbkit("lint-prose", status=1).splitlines()
    assert len(lines) == 1, lines
    assert message in lines[0]
    number = 6 if text.startswith("```") else 5
    assert lines[0].startswith(f"book/page.md:{number}: ")


@pytest.mark.parametrize(
    "text",
    [
        "Use `nbkit.buffers.Buffer.add(item)`, `nbkit.losses.loss()` and `nbkit.buffers.*`.",
        "See `nbkit/losses.py`, `studies/results/*.json`, `../nbkit/`, `pyproject.toml`.",
        "See `cluster_scripts/<job>/train.py`, `notebooks/NN_slug.md` and `_build/html`.",
        "CleanRL's `cleanrl/ppo.py` and `docs/rl.md` are other people's.",
        "Run `make test CHAPTER=12`, `make book`, `nbkit exercises split --check`.",
        "As in {cite}`sutton1999` and [@sutton1999, p. 3].",
        "Cite by `{cite:p}`, with keys of `book/references.bib`.",
        "See [there](references.bib) and [elsewhere](https://x.example/y#z), [here](#here).",
        "Proximal Policy Optimization is a name; so is `color`; the tokenizer stays.",
        "$color = optimizer$ and\n\n$$\ncolor\n$$\n",
        "```python\ncolor = optimizer\n```",
        "```{code-cell} ipython3\n# color `make gone`\n```",
        "```diff\n@@ -1,2 +1,2 @@\n```\n\nWrite to me@@home or @@this.",
        f"```{{code-cell}} python\nx = {'1 + ' * 23}12\n```\n\n```text\n{'x' * 200}\n```",
        f"```{{code-cell}} python\n:tags: [hide-input]\n\nx = {'1 + ' * 24}1\n```",
        "% a comment with color\n\n<https://color.example>",
        "````{note}\n```python\ncolor\n```\n````",
    ],
)
def test_right_prose_passes(prose: Book, text: str):
    prose.write("book/page.md", f"# A page\n\n{text}\n")
    assert "files of prose are in order" in prose.nbkit("lint-prose")


def test_pages_solutions_and_the_readme_are_checked(prose: Book):
    for name in ("README.md", "solutions/01_x.md", "notebooks/01_x.md", "book/deep/x.md"):
        prose.write(name, "---\ntitle: A color\n---\n\nText.\n")
    output = prose.nbkit("lint-prose", status=1)
    assert output.count("'color' is American spelling") == 4
    assert "README.md:2: " in output


def test_line_numbers_of_prose():
    text = "---\ntitle: T\nother: x\n---\nOne `a`.\n```\ncode\n```\nTwo.\n"
    assert [(line.number, line.text) for line in prose_lines(text)] == [
        (2, "T"),
        (5, "One `a`."),
        (9, "Two."),
    ]


def test_every_american_word_is_found_and_no_british_one():
    for american, british in WORDS.items():
        assert american_words(f"a {american} b") == [(american, british)]
        assert american_words(british) == []
    assert american_words("reparameterization, initialized") == [
        ("reparameterization", "reparameterisation"),
        ("initialized", "initialised"),
    ]
    assert not AMERICAN.search("size prize seize horizon tokenizer sized")


def test_an_unknown_file_is_one_sentence(prose: Book):
    assert "does not exist" in prose.nbkit("lint-prose", "book/none.md", status=1)
