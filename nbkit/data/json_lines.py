"""JSON lines, plain or gzipped: a line ends at a line feed and nowhere else. Parquet reads alike.

``str.splitlines`` also ends one at U+0085 and U+2028, which may stand inside a JSON text. And a
line that cannot be read is one broken row: it must not cost the rest of the file.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def numbered_lines(path: Path | str, before: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank with their numbers, counted from 1.

    Args:
        path: the file; gzipped if its name ends in ".gz"; of Parquet if in ".parquet", each row of
            which is given as the line that it would be.
        before: lines of earlier files, which are counted on.

    Raises:
        FileNotFoundError: there is no such file.

    """
    if Path(path).suffix == ".parquet":
        from pyarrow.parquet import ParquetFile  # comes with `datasets`

        rows = (row for part in ParquetFile(path).iter_batches() for row in part.to_pylist())
        for number, row in enumerate(rows, before + 1):
            yield number, json.dumps(row).encode()
        return
    opened: Any = gzip.open if Path(path).suffix == ".gz" else open
    with opened(path, "rb") as file:
        for number, line in enumerate(file, before + 1):
            if line.strip():
                yield number, line


def json_value(line: bytes) -> Any:
    """Return what stands in a line.

    Raises:
        ValueError: no JSON, no UTF-8, a number of thousands of digits, or brackets nested too deep.

    """
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8 text from byte {error.start + 1} on") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("brackets nested too deep") from None
