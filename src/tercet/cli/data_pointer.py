"""Where the texts of a model are: the file ``data.json`` that ``fit`` leaves beside a model, for ``learn``."""

from __future__ import annotations

import json
from pathlib import Path

from tercet.adapters.ir_datasets import PREFIX
from tercet.data.lines import parse_json_object, write_atomically
from tercet.errors import FormatError

NAME = "data.json"
KEYS = ("data", "corpus", "queries")


def write_data_pointer(model: Path, **paths: Path | None) -> None:
    """Note where the data of a model are; what has no path is left out."""
    record = {
        name: str(path) if str(path).startswith(PREFIX) else str(path.absolute())
        for name, path in paths.items()
        if path is not None
    }
    with write_atomically(model / NAME) as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_data_pointer(model: Path) -> dict[str, Path]:
    """The paths noted beside a model; none for a model without the file."""
    file = model / NAME
    if not file.is_file():
        return {}
    record = parse_json_object(file.read_text(encoding="utf-8"), file, 1)
    for name, path in record.items():
        if name not in KEYS or not isinstance(path, str) or not path:
            raise FormatError(file, 1, f"found {name!r}: {path!r}; it names {', '.join(KEYS)} by their paths")
    return {name: Path(path) for name, path in record.items()}
