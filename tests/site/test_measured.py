"""What the build finds out about the recorded results that pages name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bookkit.authoring.results import Results
from bookkit.site import build, measured
from bookkit.site.build import SiteError, build_site
from tests.authoring.book import STAMP

MIME = "application/vnd.nbkit.measured+json"
SCRIPT = "from nbkit.losses import loss\n\n\ndef run_arm(seed):\n    return loss(seed)\n"


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one result that ran its code, and a page that names it."""
    from bookkit.authoring.code import code_of

    write(tmp_path, "nbkit/losses.py", "def loss(x):\n    return 2 * x\n")
    write(tmp_path, "studies/curve.py", SCRIPT)
    code = code_of(tmp_path, tmp_path / "studies/curve.py")
    own = {"commit": "abcdef012", "started": "2026-11-01T10:00", "code": code}
    stamp = STAMP | own
    write(tmp_path, "studies/results/curve.json", json.dumps({"stamp": stamp}))
    name_result(tmp_path, "studies/results/curve.json")
    write(tmp_path, "notebooks/02_other.ipynb", json.dumps({"cells": []}))
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    return tmp_path


def name_result(root: Path, file: str) -> None:
    output = {"output_type": "display_data", "data": {MIME: {"file": file, "line": f"{file}: x"}}}
    cells = [{"cell_type": "code", "source": "", "outputs": [output]}]
    write(root, "notebooks/01_small.ipynb", json.dumps({"cells": cells}))


def read_result(root: Path, *files: str) -> None:
    stamp = {"reads": dict.fromkeys(files, "0")}
    content = {"cells": [], "metadata": {"nbkit": {"stamp": stamp}}}
    write(root, "notebooks/02_other.ipynb", json.dumps(content))


def states(root: Path) -> dict:
    found: dict = json.loads(measured.write_states(root).read_text(encoding="utf-8"))
    return found


def state(root: Path) -> dict:
    (found,) = states(root)["results"].values()
    return found


def test_a_change_of_the_study_s_code_is_seen_without_running_the_page(book: Path) -> None:
    facts = "measured 2026-11-01 on a processor; commit abcdef0"
    fresh = {"stale": False, "known": True, "text": "measured with this code", "facts": facts}
    assert state(book) == fresh
    write(book, "nbkit/losses.py", "def loss(x):\n    return 3 * x\n")
    found = state(book)
    assert found["stale"] and found["text"].endswith("changed since, in nbkit.losses.loss")


def test_the_build_hands_the_states_to_the_theme(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def run(command: list[str], *, env: dict[str, str], **_: object) -> object:
        seen.append(json.loads(Path(env["NBKIT_MEASURED"]).read_text(encoding="utf-8")))
        write(book, "_build/html/index.html", "")
        return subprocess.CompletedProcess(command, returncode=0)

    monkeypatch.setattr(build.subprocess, "run", run)
    build_site(book)
    assert list(seen[0]["results"]) == ["studies/results/curve.json"]


def test_what_a_page_read_is_listed_without_being_named(book: Path) -> None:
    read_result(book, "studies/results/curve.json", "nbkit/losses.py", "studies/results/curve.pt")
    name_result(book, "studies/results/curve.json")
    found = states(book)
    assert found["pages"] == {"notebooks/02_other.ipynb": ["studies/results/curve.json"]}
    assert list(found["results"]) == ["studies/results/curve.json"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("studies/results/bare.json", "{}", "bare.json has no stamp"),
        ("studies/results/bare.json", None, "bare.json is no recorded result"),
        ("cluster_scripts/a/results/x/metrics.jsonl", "{}", "no stamped result lies beside it"),
    ],
)
def test_a_page_that_read_figures_without_a_stamp_stops_the_build(
    book: Path, file: str, content: str | None, message: str
) -> None:
    if content is not None:
        write(book, file, content)
    read_result(book, file)
    with pytest.raises(measured.UnknownResultError, match=rf"02_other\.ipynb: .*{message}"):
        measured.write_states(book)


def test_a_book_that_is_built_elsewhere_reads_beside_the_results_of_the_checkout(
    book: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    weights = "studies/results/policy.pt"
    read_result(book, weights)
    write(book, "notebooks/01_small.ipynb", json.dumps({"cells": []}))
    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(book / "notebooks", copy / "notebooks")
    assert measured.states_of(copy, book)["results"] == {}
    (book / "studies" / "results" / "curve.json").unlink()
    with pytest.raises(measured.UnknownResultError, match=f"{weights} was read, but no stamped"):
        measured.states_of(copy, book)


def test_a_page_ends_with_what_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from renderer import measured as theme

    def result(text: str, *, stale: bool = False, known: bool = True) -> dict[str, object]:
        return {"stale": stale, "known": known, "text": text, "facts": "measured <today>"}

    found = {"a": result("new"), "b": result("old", stale=True), "c": result("?", known=False)}
    content = {"results": found, "pages": {"one.ipynb": ["a", "b", "c"], "two.ipynb": ["a"]}}
    write(tmp_path, "measured.json", json.dumps(content))
    monkeypatch.setenv(theme.VARIABLE, str(tmp_path / "measured.json"))
    html = theme.results_section("one.ipynb")
    assert "This page reads 3 recorded results: 1 measured with the code of today, 1" in html
    assert "1 measured with code that has changed since, 1 whose code was not noted." in html
    assert '<span class="measured-stale">old</span>' in html and "&lt;today&gt;" in html
    assert "1 recorded result: 1 measured with the code of today." in theme.results_section(
        "two.ipynb"
    )
    assert theme.results_section("three.ipynb") == ""


def test_a_page_that_names_no_result_stops_the_build(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build.subprocess, "run", lambda *_, **__: pytest.fail("it was built"))
    name_result(book, "studies/results/gone.json")
    with pytest.raises(SiteError, match=r"notebooks/01_small\.ipynb: .*gone\.json is no recorded"):
        build_site(book)


def test_the_theme_and_the_package_speak_of_the_same_variable_and_kind() -> None:
    from renderer import measured as theme
    from renderer.outputs import MEASURED

    from bookkit.authoring.result_line import MEASURED_MIME

    assert theme.VARIABLE == measured.VARIABLE and MEASURED == MEASURED_MIME


def test_states_are_found_without_torch() -> None:
    """Where only the book is rendered, it is not installed."""
    script = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from pathlib import Path; from bookkit.authoring.results import Results\n"
        "from bookkit.site.measured import ROOT\n"
        "print(Results(ROOT).state_of('studies/results/kl_placement.json').known)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.slow
def test_a_built_page_says_it(fixture_site: Path) -> None:
    """From the stored notebook through Jupyter Book and the theme to HTML."""
    pages = [path.read_text(encoding="utf-8") for path in fixture_site.rglob("index.html")]
    (html,) = [page for page in pages if 'class="measured"' in page]
    assert '<code class="measured-file">studies/results/kl_placement.json</code>' in html
    assert '<span class="measured-facts">measured 2026-11-28</span>' in html
    stated = str(Results(measured.ROOT).state_of("studies/results/kl_placement.json"))
    assert f'">{stated}</span>' in html
