"""The claims lint finds what nothing shows, and is silent where evidence or an answer stands."""

import json

import pytest

from bookkit.authoring.blocks import Block, blocks_of
from bookkit.authoring.claims import sentences_of
from bookkit.authoring.quoted_numbers import Numbers, measured_numbers, shown_by_cells
from tests.authoring.book import Book, code, one_sentence

PAGE = "notebooks/01_page.md"
ANSWERS = "book/claims/01_page.yml"
ASSERTED = code("assert ours < theirs")
WITH_ALT = code('show(alt="from 0.37 up")')
CHECKED = code('nbkit.check("a.b.1", function)')
CLAIM = "Our sampler is faster."


@pytest.fixture
def claims(book: Book) -> Book:
    book.write("book/references.bib", "@article{sutton1999,\n  title = {x},\n}\n")
    book.write("notebooks/02_other.md", "# Other\n\nText.\n")
    return book


def findings(book: Book, *files: str) -> list[str]:
    return book.nbkit("lint-prose", *files, status=1).splitlines()


def answer(says: str, because: str = "it follows from the definition") -> str:
    return f"- says: >-\n    {says}\n  because: {because}\n"


@pytest.mark.parametrize(
    ("body", "line", "why"),
    [
        (f"{CLAIM}", 3, "'faster'"),
        (f"Two samplers.\n{CLAIM}", 4, "'faster'"),
        ("It never fails.", 3, "'never'"),
        ("It hardly helps, and is the cheapest.", 3, "'hardly' or 'cheapest'"),
        ("- Plain.\n- Most runs end well.", 4, "'Most'"),
        ("It is more stable than PPO.", 3, "'more stable than'"),
        (":::{note}\nIt always works.\n:::", 4, "'always'"),
        (f"{CLAIM}\n\nAnother paragraph.\n\n{ASSERTED}", 3, "'faster'"),
        (f"{CLAIM}\n\n## Next\n\n{ASSERTED}", 3, "'faster'"),
        (
            f"{CLAIM}\n\n{code('loss = 1  # plots.line, but nothing is drawn').strip()}",
            3,
            "'fa",
        ),
        (f"{CLAIM}\n\n{code('def loss(x):' + chr(10) + '    assert x').strip()}", 3, "'faster'"),
        (f"{CLAIM} See the [exercise](../exercises/01_page.ipynb#x).", 3, "'faster'"),
        ("It learns because its critic is good.", 3, "'because'"),
        ("It learns, so the critic is good.", 3, "'so'"),
        ("Two runs.\n**So** the critic is good.", 4, "'So'"),
        ("With $x=1$, so $y=2$ follows.", 3, "'so'"),
        ("Since the critic is good, it learns.", 3, "'Since'"),
        ("It learns, since its critic is good.", 3, "'since'"),
        (
            "The critic is good, which is why it learns, and so must ours.",
            3,
            "'which is why' or 'and so'",
        ),
        (
            "- Plain.\n- A bad critic causes noise and leads to collapse.",
            4,
            "'causes' or 'leads to'",
        ),
        ("The step is bound by launches.", 3, "'bound by'"),
        ("**The cause:** a critic, and noise explains it.", 3, "'The cause:' or 'explains'"),
        ("Collapse is due to noise. We guess why.", 3, "'due to'"),
        ("It is a likely cause, not tested, and ours is faster.", 3, "'faster'"),
        (f"It learns because of it.\n\nAnother paragraph.\n\n{ASSERTED}", 3, "'because'"),
        ("It takes 45 % of the time.", 3, "'45'"),
        ("The mean is 0.37 here.", 3, "'0.37'"),
        ("It is 12 × as large, or 7 points.", 3, "'12' or '7'"),
        (f"The mean is 0.37.\n\n{code('print(0.38)')}", 3, "'0.37'"),
        (f"{code('print(0.37)')}\n## Next\n\nThe mean is 0.37.", 9, "'0.37'"),
        (f"The mean is 0.37.\n\n{WITH_ALT}", 3, "'0.37'"),
    ],
)
def test_a_claim_that_nothing_shows_is_found(claims: Book, body: str, line: int, why: str):
    claims.write(PAGE, f"# A page\n\n{body}\n")
    (claims.root / "exercises").mkdir(exist_ok=True)
    claims.write("exercises/01_page.ipynb", "{}")
    lines = [line for line in findings(claims, PAGE) if "nothing beside it shows" in line]
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"{PAGE}:{line}: nothing beside it shows {why}")
    assert "answer in book/claims/01_page.yml" in lines[0]


@pytest.mark.parametrize(
    "body",
    [
        f"{CLAIM}\n\n{ASSERTED}",
        f"{ASSERTED}\n{CLAIM}",
        f"{code('plots.show_figure(fig, alt=str())')}\n- Two.\n- {CLAIM}\n- Three.",
        f"{CLAIM}\n\n{code('nbkit.record(str(), x, tol=1)')}",
        f"{CLAIM}\n\n{code('table.style.format(precision=2)')}",
        f"$$\na < b\n$$\n\n{CLAIM}",
        "Our sampler is faster {cite:p}`sutton1999`.",
        "Our sampler is faster, as [chapter 2](02_other.md) measures.",
        "Our sampler is faster [below](#sec-speed).",
        "Is it faster?",
        f"It learns because its critic is good.\n\n{ASSERTED}",
        "It learns because its critic is good {cite:p}`sutton1999`.",
        "We guess that it learns because its critic is good.",
        "A likely cause, not tested: the critic is good, so it learns.",
        "Is it because the critic is good?",
        "It is cut so that it fits, as far as it goes; so far so good, and so does the other.",
        "It has run since 2 May, and has since been stopped; its results in the cause are here.",
        f"`a.b.1` · difficulty 2 of 5 · 15 minutes\n\n{CHECKED}",
        "**Goal:** return the best of them, so the sum is 0.",
        f"**By hand.** The mean is 1, so it is always 2.\n\nMore.\n\n{CHECKED}",
        f":::{{dropdown}} Hint 1\nTake the best, because it is 1.\n:::\n\nMore.\n\n{CHECKED}",
        "It has at most 3 layers, and best of 4 is drawn.",
        "**Further exercises.** Find a policy that is worse by 20 %.",
        ":::{admonition} Run card\n:class: run-card\nTime\n"
        ": 5 minutes of reading (220 words and 30 lines of code a minute), 20 % of a core\n:::",
        ":::{exercise} Better\n:label: ex-better\nMake it faster.\n:::",
        f"The mean is 0.37, or 37 %.\n\n{code('mean = 0.37')}",
        "With $1 - 0.58 = 0.42$ the rest is 0.42 nats.",
        "It learns with python 3.11.4, on H100s and in 8-bit, in chapter 24, with 3 layers.",
        "| method | faster |\n|---|---|\n| ours | 45 % |",
        f"```python\n{CLAIM}\n```",
    ],
)
def test_what_is_shown_or_claims_nothing_passes(claims: Book, body: str):
    claims.write(PAGE, f"# A page\n\n{body}\n")
    assert "1 files of prose are in order" in claims.nbkit("lint-prose", PAGE)


def test_a_stored_output_shows_a_number_rounded_and_in_its_section_only(claims: Book):
    source = "compute()"
    text = f"# A page\n\nThe mean is 0.37, that is 37 %.\n\n{code(source)}\n"
    claims.write(PAGE, text)
    assert len(findings(claims, PAGE)) == 1
    output = {"output_type": "stream", "name": "stdout", "text": ["mean 0.3712\n"]}
    cell = {"cell_type": "code", "source": [source], "metadata": {}, "outputs": [output]}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    claims.write("notebooks/01_page.ipynb", json.dumps(notebook))
    assert "in order" in claims.nbkit("lint-prose", PAGE)
    claims.write(PAGE, text.replace("0.37", "0.38"))
    assert "'0.38'" in findings(claims, PAGE)[0]
    claims.write(PAGE, text + "\n## Next\n\nThe mean was 0.37.\n")
    assert [line.split(":")[1] for line in findings(claims, PAGE)] == ["12"]


def test_outputs_are_paired_with_cells_by_source_and_edited_ones_in_order():
    def stored(source: str, text: str) -> dict:
        output = {"output_type": "stream", "name": "stdout", "text": text}
        return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [output]}

    cells = [stored("a", "1"), stored("old", "2"), stored("b", "3"), stored("a", "4")]
    sources = ["b", "new", "a", "a", "added"]
    assert shown_by_cells({"cells": cells}, sources) == ["3", "2", "1", "4", ""]


@pytest.mark.parametrize(
    "body",
    [
        "**By hand.** The mean is 1, so it is 2.",
        f"**By hand.** The mean is 1, so it is 2.\n\n## Next\n\n{CHECKED}",
        ":::{dropdown} Hint 1\nTake the best, because it is 1.\n:::",
        f"{CHECKED}\n\nMore.\n\n**By hand.** The mean is 1, so it is 2.",
        f"Take it, because it is 1.\n\nMore.\n\n{CHECKED}",
        f"**By hand.** The mean is 2.5.\n\n{CHECKED}",
    ],
)
def test_a_hint_or_an_example_without_its_check_is_found(claims: Book, body: str):
    claims.write(PAGE, f"# A page\n\n{body}\n")
    assert len(findings(claims, PAGE)) == 1


@pytest.mark.parametrize("folder", ["book", "solutions"])
def test_solutions_and_book_pages_are_held_to_it(claims: Book, folder: str):
    claims.write(f"{folder}/page.md", f"# A page\n\n{CLAIM}\n")
    (found,) = findings(claims)
    assert found.startswith(f"{folder}/page.md:3: nothing beside it shows 'faster'")
    assert found.endswith(f"or answer in book/claims/{folder}/page.yml")
    claims.write(f"book/claims/{folder}/page.yml", answer(CLAIM))
    assert "in order" in claims.nbkit("lint-prose")
    claims.write(f"book/claims/{folder}/gone.yml", answer(CLAIM))
    assert findings(claims) == [
        f"book/claims/{folder}/gone.yml: there is no {folder}/gone.md; remove or rename it"
    ]


def test_documents_at_the_root_are_not_held_to_it(claims: Book):
    claims.write("NOTES.md", f"# A page\n\n{CLAIM}\n")
    assert "in order" in claims.nbkit("lint-prose")


def test_an_answered_sentence_is_silent_and_its_neighbour_is_not(claims: Book):
    claims.write(PAGE, "# A page\n\nOur sampler\nis   faster. It never fails.\n")
    claims.write(ANSWERS, answer("Our sampler is\n    faster."))
    lines = findings(claims)
    assert len(lines) == 1 and lines[0].endswith(
        "in: It never fails.; put evidence beside it, cite or link it, reword it, or answer in "
        "book/claims/01_page.yml"
    )
    claims.write(ANSWERS, answer(CLAIM) + answer("It never fails."))
    assert "in order" in claims.nbkit("lint-prose")


def test_an_answer_whose_sentence_is_gone_is_found(claims: Book):
    claims.write(PAGE, f"# A page\n\n{CLAIM}\n")
    claims.write(ANSWERS, answer(CLAIM) + answer("It was slower."))
    gone = f"{ANSWERS}: {PAGE} no longer says: It was slower.; remove or correct the answer"
    assert findings(claims) == [gone]
    assert findings(claims, PAGE) == [gone]


def test_an_answer_given_twice_is_found(claims: Book):
    claims.write(PAGE, f"# A page\n\n{CLAIM}\n")
    claims.write(ANSWERS, answer(CLAIM) * 2)
    assert findings(claims) == [f"{ANSWERS}: it answers 2 times: {CLAIM}; keep one answer"]


def test_answers_without_a_page_are_found(claims: Book):
    claims.write("book/claims/07_gone.yml", answer(CLAIM))
    assert findings(claims) == [
        "book/claims/07_gone.yml: there is no notebooks/07_gone.md; remove or rename it"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- says: x\n", "answer 1 needs the keys `says` and `because`, both with words"),
        (answer(CLAIM) + answer(CLAIM, '" "'), "answer 2 needs the keys"),
        ("- says: x\n  because: y\n  more: z\n", "answer 1 needs the keys"),
        ("says: x\n", "is no list"),
        ("- says: a: b\n", "is not YAML"),
        ("", "is no list"),
    ],
)
def test_answers_that_cannot_be_read_are_one_sentence(claims: Book, text: str, message: str):
    claims.write(PAGE, f"# A page\n\n{CLAIM}\n")
    claims.write(ANSWERS, text)
    said = one_sentence(claims.nbkit("lint-prose", PAGE, status=1))
    assert said.startswith(ANSWERS) and message in said


def test_the_blocks_of_a_page():
    text = (
        "---\ntitle: T\n---\n# One\n\nText\ngoes on.\n- item\n- item\n\n| a |\n|---|\n"
        ":::{admonition} Title\n:class: dropdown\nFolded.\n```{code-cell}\n"
        ":tags: [a, b-c]\n\nx = 1\n"
        "```\n:::\n$$\ny\n$$ (eq)\n% comment\n(label)=\nLast.\n```\ncode\n"
    )
    blocks = list(blocks_of(text))
    assert [(block.kind, block.line) for block in blocks] == [
        ("heading", 4),
        ("prose", 6),
        ("prose", 8),
        ("prose", 9),
        ("table", 11),
        ("prose", 15),
        ("cell", 16),
        ("math", 22),
        ("prose", 27),
        ("code", 28),
    ]
    cell = blocks[6]
    assert (cell.text, cell.tags, cell.folded) == ("x = 1", {"a", "b-c"}, True)
    assert blocks[1].text == "Text\ngoes on." and not blocks[1].folded and blocks[5].folded


def test_the_sentences_of_a_paragraph_and_their_lines():
    block = Block("prose", 7, "- **One** is 0.5. Two\n  goes on (here.) `c` is\n  three. **Four.**")
    assert sentences_of(block) == [
        (7, "**One** is 0.5."),
        (7, "Two goes on (here.)"),
        (8, "`c` is three."),
        (9, "**Four.**"),
    ]


def test_numbers_that_look_measured():
    words = (
        "In 2024, 3 of 4 took 1,024 MB, 0.5, 20 %, 3 × as long, 5 ms; see 11.2.1, Qwen2.5, x/2.5."
    )
    assert measured_numbers(words) == [
        ("1,024", False),
        ("0.5", False),
        ("20", True),
        ("3", False),
        ("5", False),
    ]


@pytest.mark.parametrize(
    ("written", "share", "held"),
    [
        ("1,024", False, True),
        ("0.37", False, True),
        ("0.371", False, True),
        ("0.372", False, False),
        ("37", True, True),
        ("37", False, False),
        ("38", True, False),
        ("0.4", False, True),
        ("0.00003", False, True),
        ("7.5", False, True),
    ],
)
def test_numbers_are_compared_as_written(written: str, share: bool, held: bool):
    assert Numbers(["n=1024 mean 0.3712 3e-05 7.5e9"]).hold(written, share=share) == held


def test_the_description_of_a_figure_shows_nothing():
    data = {"text/plain": "[figure: from 0.37 [a] up.]", "text/html": "<b>0.5</b>"}
    cell = {"cell_type": "code", "source": "x", "metadata": {}, "outputs": [{"data": data}]}
    (shown,) = shown_by_cells({"cells": [cell]}, ["x"])
    assert "0.5" in shown and "0.37" not in shown
