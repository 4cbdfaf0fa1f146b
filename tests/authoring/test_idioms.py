"""Words that read as translated are found in prose, headings and tables, and nowhere else."""

import pytest

from bookkit.authoring.idioms import translated_words
from tests.authoring.book import Book

PAGE = "notebooks/01_page.md"


@pytest.mark.parametrize(
    ("body", "line", "words", "better"),
    [
        ("It runs for ever.", 3, "for ever", "forever"),
        ("We mend it.", 3, "mend", "repair or fix"),
        ("Samples are dear.", 3, "are dear", "expensive"),
        ("One is\ndearer.", 3, "dearer", "more expensive or most expensive"),
        ("The critic's word is 2.", 3, "critic's word", "estimate"),
        ("One number *a dimension*.", 3, "number a dimension", "per, as in 'one number per di"),
        ("It takes 16 bytes\na weight.", 3, "bytes a weight", "per, as in 'one number per di"),
        ("Plain.\n\nBehind the last row is 0.", 5, "Behind the last", "after"),
        ("What stands behind a text's *end*.", 3, "behind a text's end", "after"),
        ("## A makeshift\n", 3, "makeshift", "workaround"),
        ("| a | who waits for whom |\n|---|---|", 3, "who waits for whom", "bottleneck"),
        (":::{note}\nIt is summed on the way back.\n:::", 4, "on the way back", "in the backward"),
    ],
)
def test_a_translated_word_is_found(body: str, line: int, words: str, better: str):
    ((found_line, found, instead),) = translated_words(f"# A page\n\n{body}\n")
    assert (found_line, found) == (line, words)
    assert instead.startswith(better)


@pytest.mark.parametrize(
    "body",
    [
        "It runs forever, and `mended` is a name.",
        "One number per dimension; a rank looks at a weight, and each number a is real.",
        "The idea behind the method, and the driver behind EGL.",
        "```python\nmend = 'for ever'\n```",
        "My dear friend, this amendment commends itself.",
        "In their own words, the model's words.",
    ],
)
def test_the_field_s_words_pass(body: str):
    assert list(translated_words(f"# A page\n\n{body}\n")) == []


def test_the_lint_names_the_place_and_the_word(book: Book):
    book.write(PAGE, "# A page\n\nWe mend it.\n")
    assert book.nbkit("lint-prose", PAGE, status=1).strip() == (
        f"{PAGE}:3: 'mend' reads as translated; write: repair or fix"
    )
