"""What a failing disk is tried on: everything that writes what must not be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tercet as tc
from support.failing_disk import Work
from support.indexes import answers, small_model
from tercet.errors import MissingBundleError, StoreError
from tercet.learn.matrices import fingerprint
from tercet.loading import load
from tercet.search import Index
from tercet.search.folder import Folder
from tercet.serve import TaughtStore, read_taught
from tercet.serve.problems import HttpProblem
from tercet.serve.service import Service
from tercet.store import read_bundle
from tercet.store.digest import state_digest
from tercet.text import Vectors, vectorize

DOCS = {"a": "green sky", "b": "blue sky", "c": "avocado toast"}
MODEL = small_model(DOCS, latent=True)
OTHER = small_model(DOCS, latent=True, seed=9)
LOG = '{"query": "sky", "shown": ["a", "b"], "clicked": ["b"]}\n' * 40


def _or_none(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def state(path: Path) -> Any:
        try:
            return read(path)
        except MissingBundleError:
            return None

    return state


def _index(path: Path) -> None:
    Index.build(DOCS, MODEL, path / "index", segment_docs=2)


def _removed(path: Path) -> None:
    _index(path)
    Index.open(path / "index").remove(["b"])


def _promoted(path: Path) -> None:
    _index(path)
    Index.open(path / "index").promote(OTHER)


def _answers(path: Path) -> Any:
    index = Index.open(path / "index")
    n_segments = len(Folder(path / "index").committed().segments)  # all that merging changes
    return list(index), answers(index, ("green", "sky", "toast")), n_segments


def _on_index(change: Callable[[Index], Any], prepare: Callable[[Path], Any] = _index) -> Work:
    return Work(prepare, lambda path: change(Index.open(path / "index")), _answers)


def _fit(path: Path) -> Any:
    X = np.eye(6, dtype=np.float32)
    prefs = tc.Preferences(np.arange(40) % 5, np.arange(40) % 4, np.arange(40) % 4 + 1)
    ranker = tc.DenseRanker(rate=0.5)
    return ranker.fit(X, prefs, callbacks=[tc.Checkpoint(path / "run", every=1)])


def _taught(path: Path) -> None:
    _index(path)
    with TaughtStore(path / "taught.db") as store:
        for _ in range(3):
            store.add("ann", "prefer", "sky", [("b", "a")])


def _serve(path: Path) -> None:
    """Start a service, teach it, and end it; what it answers to a failing disk is raised."""
    service = Service(Index.open(path / "index"), path / "taught.db")
    try:
        output = asyncio.run(service.teach("ann", "prefer", "green toast", [("a", "c")]))
        assert output["action"] == service.store.n_actions
    except HttpProblem as problem:
        if (problem.status, problem.kind) == (507, "store"):
            raise StoreError(problem.detail) from problem
        raise
    finally:
        service.close()


def _served(path: Path) -> Any:
    return read_taught(path / "taught.db").triplets


WORKS: dict[str, Work] = {
    "save": Work(
        lambda path: MODEL.save(path / "model"),
        lambda path: OTHER.save(path / "model"),
        lambda path: state_digest(load(path / "model").weights),
    ),
    "first save": Work(
        lambda path: None,
        lambda path: MODEL.save(path / "new" / "model"),
        _or_none(lambda path: state_digest(load(path / "new" / "model").weights)),
    ),
    "fit": Work(lambda path: None, _fit, _or_none(lambda path: read_bundle(path / "run").digest)),
    "build": Work(lambda path: None, _index, _or_none(_answers)),
    "build anew": Work(_index, lambda path: Index.build({"x": "blue"}, MODEL, path / "index"), _answers),
    "add": _on_index(lambda index: index.add({"d": "green toast", "e": "blue", "f": "sky sky"})),
    "remove": _on_index(lambda index: index.remove(["a"])),
    "merge": _on_index(lambda index: index.merge(), _removed),
    "promote": _on_index(lambda index: index.promote(OTHER)),
    "take back": _on_index(lambda index: index.take_back(), _promoted),
    "vectorize": Work(
        lambda path: None,
        lambda path: vectorize(DOCS, {"q": "sky"}, path / "vectors"),
        _or_none(lambda path: fingerprint(Vectors.open(path / "vectors").docs)),
    ),
    "serve": Work(_taught, _serve, _served),
}
