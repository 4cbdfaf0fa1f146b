"""The parity table: our functions against those of the installed libraries, run, not recited.

    python benchmarks/peers/run.py

makes the environment .venv-peers (a few minutes, only when its requirements have changed), asks
each library in a process of its own, and writes the stamped result. Exit status 1 if a row is
unexplained: a difference without a reason, or a reason that no longer holds.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from nbkit.runs import provenance

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = ROOT / ".venv-peers"
PYTHON = ENVIRONMENT / "bin" / "python"
REQUIREMENTS = ("requirements.txt", "constraints.txt", "requirements-no-deps.txt")
LIBRARIES = ("trl", "sb3", "torchrl", "verl", "openrlhf", "skyrl")
DEEPSPEED = "deepspeed==0.19.8"
SHOWN = ("torch", "numpy", "transformers")


def build_environment() -> None:
    """Install the libraries beside each other; nothing happens where that is done."""
    wanted = hashlib.sha256(
        b"".join((HERE / name).read_bytes() for name in REQUIREMENTS) + DEEPSPEED.encode()
    ).hexdigest()
    done = ENVIRONMENT / "installed"
    if done.exists() and done.read_text() == wanted:
        return
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    constraints = ["-c", str(HERE / "constraints.txt")]
    install(*constraints, "-r", str(HERE / "requirements.txt"))
    install("--no-deps", "-r", str(HERE / "requirements-no-deps.txt"))
    # Its build imports torch, and none of its compiled operations is needed.
    install(*constraints, "--no-build-isolation", DEEPSPEED, DS_BUILD_OPS="0")
    install("--no-deps", "-e", str(ROOT))
    done.write_text(wanted)


def install(*arguments: str, **variables: str) -> None:
    """One pip install in the peers' environment."""
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*command, *arguments], check=True, env={**os.environ, **variables})


def ask(library: str, seed: int) -> dict[str, Any]:
    """The answers of one library, from a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        command = [str(PYTHON), str(HERE / "ask.py"), library, str(out), "--seed", str(seed)]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, env={**os.environ}, check=False
        )
        if done.returncode:
            sys.exit(f"{library} could not be asked:\n{done.stdout}\n{done.stderr}")
        answer: dict[str, Any] = json.loads(out.read_text())
    return answer


def main(
    out: Annotated[Path, typer.Option(help="The stamped result.")] = HERE / "results/parity.json",
    seed: Annotated[int, typer.Option(help="Of the random tensors.")] = 0,
) -> None:
    """Build the environment, ask every library, write the result, report what is unexplained."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    build_environment()
    started = provenance.start(
        seeds=[seed], config={"libraries": LIBRARIES}, watched=("nbkit", "benchmarks/peers/*.py")
    )
    answers: dict[str, Any] = {}
    for library in LIBRARIES:
        answers[library] = ask(library, seed)
        rows = answers[library]["parity"]
        agree = sum(row["status"] == "agrees" for row in rows)
        asked = sum(row["status"] != "not provided" for row in rows)
        print(f"{library} {answers[library]['version']}: {agree} of {asked} functions agree")
    stamp = started.stamp()
    packages = next(iter(answers.values()))["packages"]
    stamp["packages"] = {name: packages[name] for name in SHOWN} | {
        name: answer["version"] for name, answer in answers.items()
    }
    for answer in answers.values():
        del answer["packages"], answer["python"]
    provenance.write_json(out, {"stamp": stamp, "libraries": answers})

    failed = [row for a in answers.values() for row in a["parity"] if row["failed"]]
    for row in failed:
        print(
            f"{row['status']}: {row['library']}, {row['question']}: value differs by "
            f"{row.get('value_difference')}, gradient by {row.get('gradient_difference')}"
        )
    if failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
