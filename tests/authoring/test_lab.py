"""`make lab`: settings in the checkout, a server that starts, pages that open as notebooks."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest
import yaml

from bookkit.authoring import lab
from tests.authoring.book import Book
from tests.authoring.conftest import CHAPTER, NOTEBOOK

DOCUMENTS = "@jupyterlab/docmanager-extension/plugin.jupyterlab-settings"


def test_settings_are_written_once_and_a_readers_own_stay(tmp_path):
    folder = lab.prepare(tmp_path)
    path = folder / "lab/user-settings" / DOCUMENTS
    assert json.loads(path.read_text())["defaultViewers"]["markdown"] == "Jupytext Notebook"
    path.write_text('{"defaultViewers": {"markdown": "Editor"}, "autosave": false}')
    lab.prepare(tmp_path)
    assert json.loads(path.read_text()) == {
        "defaultViewers": {"markdown": "Editor"},
        "autosave": False,
    }
    path.write_text('{"autosave": false}')
    lab.prepare(tmp_path)
    assert json.loads(path.read_text())["defaultViewers"]["markdown"] == "Jupytext Notebook"
    assert folder.is_relative_to(tmp_path)


def test_the_desk_is_written_once_and_what_the_reader_made_of_it_stays(tmp_path):
    path = lab.write_desk(tmp_path)
    cells = json.loads(path.read_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code"]
    assert "".join(cells[1]["source"]).endswith("nbkit.desk()")
    path.write_text("mine")
    lab.write_desk(tmp_path)
    assert path.read_text() == "mine"


def test_only_root_is_allowed_as_root(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--allow-root" in lab.lab_command(tmp_path, [])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--allow-root" not in lab.lab_command(tmp_path, [])
    assert lab.lab_command(tmp_path, ["--port=9999"])[-1] == "--port=9999"


def test_the_environment_keeps_the_network_and_what_the_reader_set(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    variables = lab.lab_environment(tmp_path)
    assert variables["OMP_NUM_THREADS"] == "2"
    assert "HF_HUB_OFFLINE" not in variables
    assert variables["JUPYTER_CONFIG_DIR"] == str(tmp_path)


@pytest.fixture(scope="module")
def server(executed_once: Book, tmp_path_factory) -> Iterator[tuple[Book, str]]:
    """A running server in a copy of the small book, and its address with the token."""
    book = Book(shutil.copytree(executed_once.root, tmp_path_factory.mktemp("lab") / "book"))
    book.write("myst.yml", "project:\n  math:\n    '\\E': '\\mathbb{E}'\n")
    book.write(CHAPTER, book.read(CHAPTER) + "\n+++\n\n$$\n\\E x\n$$\n")
    book.nbkit("execute")
    book.write("jupytext.toml", (lab.Path(__file__).parents[2] / "jupytext.toml").read_text())
    log = book.root / "lab.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "bookkit.cli",
                "lab",
                "--texts",
                "--no-browser",
                "--port=0",
            ],
            cwd=book.root,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield book, wait_for_address(process, log)
    finally:
        stop(process)


def stop(process: subprocess.Popen) -> None:
    """End the server, and make it end if a kernel that is just starting holds it up."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(100)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_address(process: subprocess.Popen, log) -> str:
    for _ in range(600):
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):\d+/lab\S*", log.read_text())
        if found:
            return found.group(0)
        assert process.poll() is None, log.read_text()
        time.sleep(0.5)
    raise AssertionError(log.read_text())


def ask(address: str, path: str, data: dict | None = None) -> dict:
    base, token = re.match(r"(http://[^/]+)/.*token=(\w+)", address).groups()
    request = urllib.request.Request(
        base + path,
        data=None if data is None else json.dumps(data).encode(),
        method="GET" if data is None else "PUT",
        headers={"Authorization": f"token {token}"},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_the_server_answers_and_saving_a_text_page_keeps_its_header(server):
    book, address = server
    assert "version" in ask(address, "/api")
    model = ask(address, f"/api/contents/{CHAPTER}?type=notebook")
    assert any("twice(3)" in cell["source"] for cell in model["content"]["cells"])
    before = book.read(CHAPTER)
    ask(address, f"/api/contents/{CHAPTER}", {"type": "notebook", "content": model["content"]})
    after = book.read(CHAPTER)
    headers = [yaml.safe_load(text[4:].partition("\n---\n")[0]) for text in (before, after)]
    assert headers[0] == headers[1]
    assert after.partition("\n---\n")[2] == before.partition("\n---\n")[2]
    assert "stale" not in book.nbkit("stamp")


@pytest.mark.slow
@pytest.mark.browser
def test_a_double_click_opens_a_notebook(server, tmp_path):
    from playwright.sync_api import sync_playwright

    _, address = server
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        if os.environ.get("NBKIT_REQUIRE_BROWSER") == "1":
            pytest.fail("Chromium is required and is not installed")
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        for name in (NOTEBOOK, CHAPTER):
            item = page.locator(f'.jp-DirListing-item[title*="Name: {name.split("/")[1]}"]')
            item.dblclick(timeout=300_000)
            cells = page.locator(".jp-NotebookPanel:visible .jp-CodeCell:visible")
            cells.first.wait_for(timeout=300_000)
            title = page.locator(
                ".lm-TabBar-tab.lm-mod-current .lm-TabBar-tabLabel"
            ).all_inner_texts()
            assert name.split("/")[1] in title
            page.locator(".jp-NotebookPanel:visible .katex").first.wait_for(timeout=60_000)
            page.wait_for_timeout(5000)  # the kernel starts, and writes what it knows of itself
            page.screenshot(path=tmp_path / f"{name.split('.')[-1]}.png")
            assert not page.locator(".katex-error").count()
            assert "Undefined control sequence" not in page.inner_text("body")
            assert not page.locator(".lm-DockPanel .lm-TabBar-tab.jp-mod-dirty").count(), name
        browser.close()
