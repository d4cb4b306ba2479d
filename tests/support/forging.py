"""Saved things with right checksums and wrong content, and what comes of reading and using them.

A forger changes one or several values of a manifest, or the type, the shape or the numbers of an array, and seals
everything again: the bundle itself and whatever names its digest. By hand, for as many tries as there is time for::

    PYTHONPATH=src:tests python -m support.forging --tries 10000 --seed 1

Each kind is tried in a process of its own, so that one that ends the process is counted, too. ``--flip-every 3``
changes one bit of every third byte of every file instead, and leaves checksums as they are: all must be noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import safetensors.numpy
from scipy import sparse

import tercet as tc
from support.bundles import canonical
from support.learners import LEARNERS, N_TERMS
from support.random_data import random_preferences, random_texts
from tercet.data import open_rows, write_rows
from tercet.data.matrix import row_blocks
from tercet.engines import open_index
from tercet.engines.engine_index import Location
from tercet.engines.opensearch import OpenSearchEngine
from tercet.engines.postgres import PostgresEngine
from tercet.engines.qdrant import QdrantEngine
from tercet.errors import EngineError, TercetError
from tercet.loading import load
from tercet.search.folder import MODELS, Folder, vectorizer_fingerprint
from tercet.store import read_bundle, write_bundle
from tercet.store.codec import encode
from tercet.store.kinds import OPENSEARCH_INDEX, POSTGRES_INDEX, QDRANT_INDEX
from tercet.text import Vectorizer, Vectors, vectorize
from tercet.weights import Identity, Weights

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
GOLDEN_INDEX = Path(__file__).parents[1] / "golden-index" / "0.1.0" / "index"
MORE_MEMORY = 2**30  # bytes that reading and using a small forged thing may take

NUMBERS = (0, 1, -1, 2, 7, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30)
NASTY: tuple[Any, ...] = (
    *NUMBERS,
    *(0.0, -0.0, 0.5, -1.5, 1e-320, 1e30, 1e300, -1e308),
    *("", "\0", "a", "é" * 40, "../..", "0" * 64, "rows", "none", "auto"),
    *(None, True, False, [], {}, [0], [[]], [None], {"": 0}, {"kind": "identity"}, ["a"] * 300, [1, 2, 3]),
)
DTYPES = ("bool", "int8", "uint8", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")


# -- things to forge ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forged:
    """How a thing is saved, and how it is read and used."""

    make: Callable[[Path], None]
    use: Callable[[Path], Any]


def _texts() -> tuple[sparse.csr_array, sparse.csr_array, tc.Preferences]:
    rng = np.random.default_rng(3)
    Q, D = random_texts(rng, 9, N_TERMS), random_texts(rng, 11, N_TERMS)
    return Q, D, random_preferences(rng, 40, 9, 11)


def _make_ranker(name: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        Q, D, prefs = _texts()
        LEARNERS[name].make().fit(Q, prefs, D).save(path)

    return make


def _use_ranker(path: Path) -> None:
    Q, D, prefs = _texts()
    ranker = load(path)
    if not isinstance(ranker, tc.learn.TermPairRanker):
        return
    ranker.rank(Q, D, 3)
    ranker.explain(Q[[0]], D[[0]])
    if hasattr(ranker, "partial_fit"):
        ranker.partial_fit(Q, prefs[:5], D)


def _copied(source: Path) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        shutil.copytree(source, path)

    return make


def _use_text_model(path: Path) -> None:
    model = load(path)
    if isinstance(model, tc.TextModel):
        model.rank({"q": "car film"}, {"a": "automobile movie", "b": "stone"}, k=2)
        model.explain("car", "automobile")
        str(model.report)


def _use_features(path: Path) -> None:
    model = load(path)
    ranker = getattr(model, "ranker", model)
    width = min(getattr(ranker, "n_features_in_", 6), 50)
    model.predict(np.linspace(0, 1, 4 * width).reshape(4, -1))


def _use_index(path: Path) -> None:
    index = load(path)
    if isinstance(index, tc.Index):
        for hit in index.search("green avocado", 3):
            str(hit)
        list(index)


def _make_index_of_weights(path: Path) -> None:
    D = random_texts(np.random.default_rng(4), 5, N_TERMS)
    tc.Index.build_rows([*"abcde"], D, Weights([Identity(n_terms=N_TERMS)]), path, segment_docs=3)


def _use_index_of_weights(path: Path) -> None:
    index = load(path)
    if isinstance(index, tc.Index):
        index.search_row(random_texts(np.random.default_rng(5), 1, N_TERMS), 3)


def _make_vectors(path: Path) -> None:
    docs = {f"text {i} é": f"green {'avocado ' * (i % 3)} word{i}" for i in range(12)}
    vectorize(docs, {"q": "green word3"}, path)


def _use_vectors(path: Path) -> None:
    vectors = Vectors.open(path)
    ids = list(vectors.doc_ids)
    vectors.docs[np.arange(min(vectors.docs.shape[0], 100))]
    vectors.doc_ids.get_many([*ids[:3], "?"])
    vectors.query_ids.find("q")
    assert vectors.queries is not None
    vectors.queries[np.arange(min(vectors.queries.shape[0], 100))]
    list(row_blocks(vectors.docs))
    vectors.vectorizer.transform_docs(["green avocado"])


def _make_rows(path: Path) -> None:
    write_rows(path, [random_texts(np.random.default_rng(6), 9, N_TERMS)], n_columns=N_TERMS)


def _use_rows(path: Path) -> None:
    rows = open_rows(path)
    tc.DiagonalRanker().fit(rows, tc.Preferences([0], [1], [rows.shape[0] - 1]))


def _checkpointed(name: str, every: int) -> Callable[[Path], None]:
    def fit(path: Path) -> None:
        Q, D, prefs = _texts()
        LEARNERS[name].make().fit(Q, prefs, D, callbacks=[tc.Checkpoint(path, every=every)])

    return fit


def _small_model() -> tuple[tc.TextModel, dict[str, str]]:
    docs = {"a": "green avocado", "b": "avocado toast with oil", "c": "green sky"}
    words = Vectorizer(min_df=1).fit(docs.values())
    return tc.TextModel(words, words, Weights([Identity(n_terms=len(words.words_))])), docs


def _make_remote(kind: str, url: str) -> Callable[[Path], None]:
    """The folder of an index whose documents are elsewhere."""

    def make(path: Path) -> None:
        model, _ = _small_model()
        (path / MODELS).mkdir(parents=True)
        name, digest = Folder(path).write_model(model)
        location = Location(url, "tercet-index", "0" * 32, vectorizer_fingerprint(model), name, digest, True)
        write_bundle(path, kind=kind, meta=encode(location)[0], arrays={}, siblings=(MODELS,))

    return make


def _use_remote(path: Path) -> None:
    """All that is done with a folder before a server is asked, which there is none of."""

    def nobody(engine: Any) -> None:
        raise EngineError("nobody answers")

    with (
        mock.patch.object(OpenSearchEngine, "check_version", nobody),
        mock.patch.object(PostgresEngine, "check_version", nobody),
        mock.patch.object(QdrantEngine, "check_version", nobody),
        contextlib.suppress(EngineError),
    ):
        open_index(path)


KINDS: dict[str, Forged] = {
    **{name: Forged(_make_ranker(name), _use_ranker) for name in LEARNERS},
    **{f"golden {name}": Forged(_copied(GOLDEN / name), _use_features) for name in ("ftrl", "rankrls", "features")},
    "text model": Forged(_copied(GOLDEN / "text"), _use_text_model),
    "index": Forged(_copied(GOLDEN_INDEX), _use_index),
    "index of weights": Forged(_make_index_of_weights, _use_index_of_weights),
    "vectors": Forged(_make_vectors, _use_vectors),
    "rows": Forged(_make_rows, _use_rows),
    **{
        f"checkpoint of {name}": Forged(_checkpointed(name, 15), _checkpointed(name, 15))
        for name in ("DenseRanker", "SparseRanker", "LowRankRanker", "PrunedRanker")
    },
    "index in OpenSearch": Forged(_make_remote(OPENSEARCH_INDEX, "http://127.0.0.1:9200"), _use_remote),
    "index in Qdrant": Forged(_make_remote(QDRANT_INDEX, "http://127.0.0.1:6333"), _use_remote),
    "index in PostgreSQL": Forged(_make_remote(POSTGRES_INDEX, "postgresql://me@127.0.0.1:5432/tercet"), _use_remote),
}


# -- forging --------------------------------------------------------------------------------------------------------


def bundles_in(path: Path) -> list[Path]:
    return sorted(file.parent for file in path.rglob("manifest.json"))


def forge(path: Path, rng: random.Random) -> str:
    """Change something in a saved thing and seal it again; returns what."""
    folder = rng.choice(bundles_in(path))
    manifest = json.loads((folder / "manifest.json").read_bytes())
    arrays = {name: array.copy() for name, array in read_bundle(folder).arrays.items()}
    output = [f"{folder.relative_to(path)}:"]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        output.append(_change_array(arrays, rng) if arrays and rng.random() < 0.5 else _change_meta(manifest, rng))
    before = digest_of_manifest(folder)
    seal(folder, manifest, arrays)
    reseal_others(path, {before: digest_of_manifest(folder)})
    return " ".join(output)


def _positions(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from _positions(value[key], (*path, key))


def _change_meta(manifest: dict[str, Any], rng: random.Random) -> str:
    positions = list(_positions(manifest["meta"]))
    if not positions or rng.random() < 0.02:
        manifest["kind"] = rng.choice(("ranker", "text-model", "index", "rows", "weights", "?"))
        return f"kind = {manifest['kind']}"
    *outer, key = rng.choice(positions)
    at = manifest["meta"]
    for step in outer:
        at = at[step]
    what = rng.random()
    if what < 0.1:
        del at[key]
        return f"without {[*outer, key]}"
    if what < 0.15 and isinstance(at, dict):
        at["unknown"] = copy.deepcopy(at[key])
        return f"more than {[*outer, key]}"
    if what < 0.35 and isinstance(at[key], int | float) and not isinstance(at[key], bool):
        at[key] = rng.choice((at[key] + 1, at[key] - 1, -at[key], at[key] * 1000, at[key] * 10**9))
    else:
        at[key] = copy.deepcopy(rng.choice(NASTY))
    return f"{[*outer, key]} = {str(at[key])[:40]}"


def _change_array(arrays: dict[str, Any], rng: random.Random) -> str:
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    what = rng.choice(("value", "value", "value", "values", "type", "shape", "cut", "longer", "drop", "rename"))
    if what == "drop":
        del arrays[name]
    elif what == "rename":
        arrays[name + "x"] = arrays.pop(name)
    elif what == "type":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(rng.choice(DTYPES))
    elif what == "shape":
        arrays[name] = rng.choice((array.reshape(-1), array.reshape(1, -1), array.reshape(-1, 1), array[..., None]))
    elif what == "cut":
        arrays[name] = array[: rng.randrange(len(array) + 1)] if array.ndim else array.reshape(1)
    elif what == "longer":
        arrays[name] = np.concatenate([array.reshape(-1), array.reshape(-1)[-1:], array.reshape(-1)])
    elif array.size:
        flat = array.reshape(-1)
        spots = [rng.randrange(flat.size)] if what == "value" else [rng.randrange(flat.size) for _ in range(5)]
        for spot in spots:
            flat[spot] = _nasty_number(flat, rng)
    return f"{what} of array {name}"


def _nasty_number(array: Any, rng: random.Random) -> Any:
    if array.dtype.kind == "f":
        return rng.choice((np.nan, np.inf, -np.inf, 0.0, -1.0, 1e30, -1e30, 1e-40, rng.random()))
    if array.dtype.kind == "b":
        return rng.random() < 0.5
    bounds = np.iinfo(array.dtype)
    near = [int(array.max()) + 1, int(array.min()) - 1, int(array[0]), int(array[-1])]
    return min(max(rng.choice((bounds.min, bounds.max, 0, 1, -1, *near)), int(bounds.min)), int(bounds.max))


def seal(folder: Path, manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a bundle as it should be written, whatever is in it."""
    for old in folder.glob("arrays-*.safetensors"):
        old.unlink()
    data = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    sha256 = hashlib.sha256(data).hexdigest()
    file: dict[str, Any] = {"name": f"arrays-{sha256[:16]}.safetensors", "size": len(data), "sha256": sha256}
    specs = {name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()}
    manifest = manifest | {"file": file, "arrays": specs}
    manifest.pop("checksum", None)
    manifest["checksum"] = hashlib.sha256(canonical(manifest)).hexdigest()
    (folder / file["name"]).write_bytes(data)
    (folder / "manifest.json").write_bytes(canonical(manifest))


def digest_of_manifest(folder: Path) -> str:
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


def reseal_others(path: Path, changed: dict[str, str]) -> None:
    """Put new digests in the place of old ones wherever a bundle names another, until all fit."""
    again = True
    while again:
        again = False
        for folder in bundles_in(path):
            text = (folder / "manifest.json").read_text("utf-8")
            manifest = json.loads(text)
            arrays = dict(_raw_arrays(folder, manifest))
            meta = json.dumps(manifest["meta"])
            for old, new in changed.items():
                meta = meta.replace(old, new)
                for name, array in arrays.items():
                    if array.dtype == np.uint8 and array.ndim == 2 and array.shape[1:] == (32,):
                        array = array.copy()
                        array[(array == np.frombuffer(bytes.fromhex(old), np.uint8)).all(axis=1)] = np.frombuffer(
                            bytes.fromhex(new), np.uint8
                        )
                        arrays[name] = array
            before = digest_of_manifest(folder)
            seal(folder, manifest | {"meta": json.loads(meta)}, arrays)
            after = digest_of_manifest(folder)
            if after != before:
                changed[before] = after
                again = True


def _raw_arrays(folder: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    return safetensors.numpy.load((folder / manifest["file"]["name"]).read_bytes())


# -- trying ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def little_memory(more: int = MORE_MEMORY) -> Iterator[None]:
    """Let this process take so many bytes more of address space, and no more: what is beyond is a MemoryError."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def attempt(use: Callable[[Path], Any], path: Path) -> str:
    """Read and use a forged thing: "taken", "refused", or an error that no reader may raise."""
    with little_memory(), np.errstate(all="ignore"):
        try:
            use(path)
        except TercetError:
            return "refused"
    return "taken"


def _tries(name: str, n: int, seed: int) -> int:
    """In a process of its own: forge a kind so many times; prints what escaped, and returns how many did."""
    rng, n_escaped, counts = random.Random(f"{name} {seed}"), 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="tercet-forged-") as folder:
        clean, path = Path(folder, "clean"), Path(folder, "forged")
        KINDS[name].make(clean)
        KINDS[name].use(clean)
        for i in range(n):
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(clean, path)
            output = forge(path, rng)
            print(f"\r{name} {i} {output}"[:200], end="", file=sys.stderr)
            try:
                counts[attempt(KINDS[name].use, path)] += 1
            except Exception as error:
                n_escaped += 1
                where = traceback.extract_tb(error.__traceback__)[-1]
                ours = [one for one in traceback.extract_tb(error.__traceback__) if "tercet" in one.filename][-1]
                print(
                    f"\n{name}: {output}: {type(error).__name__}: {str(error)[:100]} at {ours.filename}:{ours.lineno}"
                    f" ({where.filename}:{where.lineno})"
                )
    print(f"\n{name}: {dict(counts)}, {n_escaped} escaped")
    return n_escaped


def _flips(name: str, every: int, seed: int) -> int:
    """In a process of its own: change one bit of every so many bytes, one at a time; returns how many go unnoticed."""
    n_flips = n_unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="tercet-flipped-") as folder:
        path = Path(folder, "clean")
        KINDS[name].make(path)
        KINDS[name].use(path)
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            content = file.read_bytes()
            for location in range(seed % every, len(content), every):
                flipped = bytearray(content)
                flipped[location] ^= 1 << (location + seed) % 8
                file.write_bytes(flipped)
                n_flips += 1
                if attempt(KINDS[name].use, path) != "refused":
                    n_unnoticed += 1
                    print(f"{name}: byte {location} of {file.relative_to(path)} goes unnoticed")
            file.write_bytes(content)
    print(f"{name}: {n_flips} flips, {n_unnoticed} unnoticed")
    return n_unnoticed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--flip-every", type=int, metavar="N", help="flip a bit of every N-th byte instead")
    arguments = parser.parse_args()
    failed = []
    for name in arguments.kind or KINDS:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if arguments.flip_every:
                    status = min(_flips(name, arguments.flip_every, arguments.seed), 1)
                else:
                    status = min(_tries(name, arguments.tries, arguments.seed), 1)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        if os.waitpid(child, 0)[1] != 0:
            failed.append(name)
    print(f"escaped or ended the process: {failed or 'none'}")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
