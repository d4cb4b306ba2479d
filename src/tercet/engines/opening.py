"""Indexes whose documents other engines keep: what they have in common, and a file or folder for each engine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from tercet.store.kinds import POSTGRES_INDEX, QDRANT_INDEX, SEEKDB_INDEX

if TYPE_CHECKING:
    from tercet.search.backends.remote_index import RemoteIndex


class Backend(NamedTuple):
    """What the folders of a backend are called, and where its class is."""

    kind: str
    module: str
    name: str


BACKENDS: Final = {
    "qdrant": Backend(QDRANT_INDEX, "tercet.search.backends.qdrant", "QdrantIndex"),
    "postgres": Backend(POSTGRES_INDEX, "tercet.search.backends.postgres", "PostgresIndex"),
    "seekdb": Backend(SEEKDB_INDEX, "tercet.search.backends.seekdb", "SeekdbIndex"),
}


def backend_class(backend: str) -> type[RemoteIndex]:
    """The index of a backend, whose client is imported when it is used."""
    _, module, name = BACKENDS[backend]
    made: type[RemoteIndex] = getattr(import_module(module), name)
    return made


def class_of_kind(kind: str | None) -> type[RemoteIndex]:
    """The index of a folder; where its first upload has not ended it has no kind yet, and any of them says so."""
    return backend_class(next((name for name, backend in BACKENDS.items() if backend.kind == kind), "qdrant"))
