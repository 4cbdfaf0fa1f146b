"""Where the repository lies that this package was installed from."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
