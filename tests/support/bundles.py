"""Small bundles, and the means to forge and to interrupt them, for the tests of the store."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tercet.store import (
    Bundle,
)

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX processes and locks")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]

OLD: dict[str, Any] = {
    "kind": "weights",
    "meta": {"n_terms": 3, "rate": 0.5, "words": ["auge", "œil", "目"], "refit": True, "l1": None},
    "arrays": {
        "diagonal": np.array([1.0, -0.0, 2.5], dtype=np.float32),
        "indices": np.array([[0, 1], [2, 3]], dtype=np.int32),
        "kept": np.array([True, False]),
    },
}
NEW: dict[str, Any] = {"kind": "weights", "meta": {"k": 5}, "arrays": {"lengths": np.arange(7)}}


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def arrays_file(folder: Path) -> Path:
    (found,) = folder.glob("arrays-*.safetensors")
    return found


def is_same(found: Bundle, content: dict[str, Any]) -> bool:
    return (
        (found.kind, found.meta) == (content["kind"], content["meta"])
        and found.arrays.keys() == content["arrays"].keys()
        and all(
            found.arrays[name].dtype == array.dtype
            and found.arrays[name].shape == array.shape
            and found.arrays[name].tobytes() == array.tobytes()
            for name, array in content["arrays"].items()
        )
    )


def canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False)
    return (text + "\n").encode()


def reseal(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and give it the right checksum again, as a forger would."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    change(manifest)
    manifest.pop("checksum", None)
    manifest["checksum"] = hashlib.sha256(canonical(manifest)).hexdigest()
    (folder / "manifest.json").write_bytes(canonical(manifest))


def forge_arrays_file(folder: Path, data: bytes) -> None:
    """Put other bytes in the place of the arrays file and seal them as if they had been written."""
    arrays_file(folder).unlink()
    sha256 = hashlib.sha256(data).hexdigest()
    file = {"name": f"arrays-{sha256[:16]}.safetensors", "size": len(data), "sha256": sha256}
    (folder / file["name"]).write_bytes(data)
    reseal(folder, lambda manifest: manifest.update(file=file))


def with_header(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class FailAtCall:
    """Stands in for a function and raises at its n-th call, before or after doing the work."""

    def __init__(self, real: Callable[..., Any], nth: int, error: BaseException, after: bool) -> None:
        self.real, self.left, self.error, self.after = real, nth, error, after

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise self.error
        result = self.real(*args, **kwargs)
        if self.left == 0:
            if hasattr(result, "close"):
                result.close()
            raise self.error
        return result
