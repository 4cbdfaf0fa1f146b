"""Models and data are fetched by the real client from a stand-in of the hub, then found offline."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlparse

import pytest

from nbkit.cluster.job import Job
from nbkit.data.prefetch import hub_name, prefetch, split_revision

from .conftest import REPOSITORY
from .train_scripts import script

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "models/some/model": {"config.json": b'{"a": 1}', "model.safetensors": b"x" * 5000},
    "datasets/some/data": {"train.jsonl": b'{"chosen": "a"}\n'},
}
FILES["models/some/model"]["pytorch_model.bin"] = b"a pickle, which nobody wants"


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as `snapshot_download` needs: the list of files, and the files."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[str]] = []

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body: bool):
        path = unquote(urlparse(self.path).path)
        self.asked.append(path)
        words = path.strip("/").split("/")
        if words[0] == "api":
            self.about("/".join(words[1:4]), words[4:])
            return
        kind = "models" if words[0] != "datasets" else words.pop(0)
        content = FILES.get(f"{kind}/{words[0]}/{words[1]}", {}).get("/".join(words[4:]))
        if content is None or words[2] != "resolve":
            self.send(404, b"{}", {"X-Error-Code": "EntryNotFound"}, body)
            return
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
        self.send(200, content, headers, body)

    def about(self, repository: str, rest: list[str]):
        files = FILES.get(repository)
        if files is None:
            self.send(404, b'{"error": "none"}', {"X-Error-Code": "RepoNotFound"})
        elif rest[:1] == ["tree"]:
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
                for name, data in files.items()
            ]
            self.send(200, json.dumps(tree).encode())
        else:
            about = {"id": repository.partition("/")[2], "sha": COMMIT, "private": False}
            about |= {"siblings": [{"rfilename": name} for name in files], "tags": []}
            self.send(200, json.dumps(about | {"downloads": 0, "gated": False}).encode())

    def send(self, status: int, content: bytes, headers=(), body: bool = True):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Hub.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def nbkit(*words: str, **variables: str) -> subprocess.CompletedProcess:
    """The command in a process of its own: the client reads its environment when imported."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-m", "bookkit.cli", *words],
        cwd=REPOSITORY,
        env=environment | {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"} | variables,
        capture_output=True,
        text=True,
        timeout=600,
    )


def find(name: str, kind: str, **variables: str) -> subprocess.CompletedProcess:
    script = "import sys; from nbkit.data.prefetch import local_folder; "
    script += "print(local_folder(sys.argv[1], sys.argv[2]))"
    return run_python(script, name, kind, **variables)


def run_python(script: str, *words: str, **variables: str) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=REPOSITORY,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=600,
    )


def job_with(tmp_path: Path, model: str, data: str) -> Path:
    folder = tmp_path / "job"
    folder.mkdir(exist_ok=True)
    text = f"description: x\nalgorithm: dpo\ngpus: 1\ntime: '01:00:00'\nmodel: {model}\n"
    (folder / "job.yaml").write_text(text + f"data: {data}\n")
    return folder


@pytest.mark.slow
def test_fetched_once_then_found_without_a_network(hub, tmp_path):
    folder = job_with(tmp_path, "some/model", "some/data@main")
    cache = {"HF_HOME": str(tmp_path / "cache")}
    done = nbkit("job", "prefetch", str(folder), HF_ENDPOINT=hub, **cache)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"model some/model at {COMMIT}: 0.0 MB" in done.stdout
    assert f"dataset some/data@main at {COMMIT}" in done.stdout
    assert not any("pytorch_model.bin" in path for path in Hub.asked)
    # A compute node: no network, the same disk.
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}
    found = find("some/model", "model", **nowhere, **cache)
    assert found.returncode == 0, found.stderr
    assert (Path(found.stdout.strip()) / "model.safetensors").read_bytes() == b"x" * 5000
    found = find("some/data", "dataset", **nowhere, **cache)
    assert (Path(found.stdout.strip()) / "train.jsonl").exists(), found.stderr
    script = "from nbkit.data.hh import hh_files; print(*hh_files('some/data@main'))"
    assert run_python(script, **nowhere, **cache).stdout.strip() == (
        f"{found.stdout.strip()}/train.jsonl"
    )
    missing = find("some/other", "model", **nowhere, **cache)
    assert "run `nbkit job prefetch` on a machine with a network" in missing.stderr


@pytest.mark.slow
def test_what_cannot_be_fetched_is_named(hub, tmp_path):
    folder = job_with(tmp_path, "some/absent", "some/data")
    cache = {"HF_HOME": str(tmp_path / "cache")}
    done = nbkit("job", "prefetch", str(folder), HF_ENDPOINT=hub, **cache)
    assert done.returncode == 1
    assert done.stderr.startswith("nbkit: model 'some/absent' could not be fetched")
    folder = job_with(tmp_path, str(tmp_path), "./nowhere")
    done = nbkit("job", "prefetch", str(folder), HF_ENDPOINT=hub, **cache)
    assert "dataset ./nowhere: a path, and nothing is there" in done.stderr
    assert Hub.asked and not any("nowhere" in path for path in Hub.asked)


def test_a_revision_stands_behind_an_at_sign(tmp_path):
    assert split_revision("a/b@v1") == ("a/b", "v1")
    assert split_revision("a/b") == ("a/b", None)
    assert hub_name("a/b@v1") == ("a/b", "v1")
    assert hub_name("a/b") == ("a/b", "main")
    (tmp_path / "a@b").mkdir()
    for path in (str(tmp_path / "a@b"), "./a@b"):
        assert hub_name(path) == (path, "main")


def test_paths_count_from_the_root_as_the_scripts_see_them(tmp_path, monkeypatch):
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (root / "data" / "own").mkdir(parents=True)
    (elsewhere / "data" / "other").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)

    def job(data: str) -> Job:
        return Job(description="x", algorithm="dpo", gpus=1, time="01:00:00", data=data)

    for name in ("./data/own", "data/own", str(root / "data/own")):
        assert prefetch(job(name), root) == []
    with pytest.raises(ValueError, match=r"dataset ./data/other: a path, and nothing is there"):
        prefetch(job("./data/other"), root)


class AskedError(Exception):
    """What a library was asked for."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("sft_7b", lambda train, config: train.load(config)),
        ("dpo_7b", lambda train, config: train.load_model(config)),
        ("grpo_gsm8k", lambda train, config: train.starting_point(config, None)),
        ("rlhf_7b", None),
    ],
)
def test_training_scripts_understand_a_revision(name, load, monkeypatch):
    """Tokenizer and model are both asked for by name and revision; a path stays a path."""
    train, asked = script(name), []

    def ask(given, revision, **rest):
        asked.append((given, revision))
        if "dtype" in rest:
            raise AskedError

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", ask)
    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", ask)
    for model, expected in (
        ("some/model@v1", ("some/model", "v1")),
        ("some/model", ("some/model", "main")),
        (str(REPOSITORY), (str(REPOSITORY), "main")),
    ):
        asked.clear()
        config = train.Config(model=model)
        if load is None:  # its model is loaded apart, by name or from a stage's folder
            monkeypatch.setattr(train, "random_pairs", lambda config: [])
            monkeypatch.setattr(train, "TokenizerVocabulary", lambda tokenizer: tokenizer)
            train.load_data(train.Config(model=model, data="random"))
            with pytest.raises(AskedError):
                train.language_model(config, model, learns=True)
        else:
            with pytest.raises(AskedError):
                load(train, config)
        assert asked == [expected, expected]
