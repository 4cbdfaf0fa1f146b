"""Ask one library, inside the peers' environment; `run.py` calls this once a library."""

import json
import platform
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path

import typer

from bookkit.conformance import check, load_adapter
from bookkit.conformance.commands import installed_version, quiet
from bookkit.conformance.parity import compare


def main(library: str, out: Path, seed: int = 0) -> None:
    """Write the library's parity rows and conformance findings as JSON."""
    with quiet():
        adapter = load_adapter(library)
        rows = compare(adapter, seed)
        findings = check(adapter)
    packages = {d.metadata["Name"]: d.version for d in distributions()}
    answer = {
        "version": installed_version(adapter.package),
        "parity": [
            {k: v for k, v in asdict(row).items() if v is not None} | {"failed": row.failed}
            for row in rows
        ],
        # The cases themselves are in the package; here stands what was answered.
        "conformance": {f.case.id: [f.status, f.meaning] for f in findings},
        "python": platform.python_version(),
        "packages": dict(sorted(packages.items(), key=lambda item: item[0].lower())),
    }
    out.write_text(json.dumps(answer))


if __name__ == "__main__":
    typer.run(main)
