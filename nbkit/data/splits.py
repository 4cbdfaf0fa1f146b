"""The files of one split of a data set: a file, a folder of files, or a name on the hub."""

import re
from pathlib import Path

from nbkit.data.prefetch import local_folder

# As the hub names them: train.jsonl, train.jsonl.gz, train-00000-of-00002.parquet
FILE = r"{split}(-\d{{5}}-of-\d{{5}})?\.(jsonl|jsonl\.gz|parquet)"


def find_split(data: str | Path, *splits: str, config: str = "") -> list[Path]:
    """The files of a split, in order.

    Args:
        data: a file, which is taken as it is; a folder; or `owner/name`, `owner/name@revision`.
        splits: names, of which the first that is there is taken, such as "train_prefs", "train".
        config: the folder that counts where several hold the split (GSM8K's "main").

    Raises:
        ValueError: no such data set; no file of the split; or several folders that hold it.

    """
    where = local_folder(str(data), "dataset")
    if where.is_file():
        return [where]
    for split in splits:
        named = re.compile(FILE.format(split=re.escape(split)))
        found = sorted(path for path in where.rglob("*") if named.fullmatch(path.name))
        if not found:
            continue
        folders = sorted({path.parent for path in found})
        own = [folder for folder in folders if folder.name == config]
        if len(folders) > 1 and len(own) != 1:
            names = ", ".join(str(folder.relative_to(where)) for folder in folders)
            raise ValueError(f"dataset {data}: several folders hold {split}: {names}; name one")
        chosen = own[0] if len(folders) > 1 else folders[0]
        return [path for path in found if path.parent == chosen]
    raise ValueError(
        f"dataset {data}: no file of {' or '.join(splits)}, as {splits[0]}.jsonl, .jsonl.gz or "
        f".parquet, below {where}"
    )
