"""An index on disk: damage is noticed, and a kill at any moment leaves what was committed last."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from scipy import sparse

from bundles import forge_arrays_file, posix_only, reseal
from indexes import DOCS, answers, small_model
from tercet.errors import BundleError, DamagedBundleError
from tercet.search import Index
from tercet.store import read_bundle, write_bundle


@pytest.fixture(autouse=True, scope="module")
def quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def small(tmp_path: Path) -> Path:
    docs = {"a": "green sky", "é": "sky"}
    index = Index.build(docs | {"c": "green"}, small_model(docs, latent=True), tmp_path / "index")
    index.remove(["c"])
    return tmp_path / "index"


def index_files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def damaged(data: bytes, rng: np.random.Generator):
    """One byte changed at every place, in one of some ways, and truncations; the store's tests try all of them."""
    for position, byte in enumerate(data):
        other = (byte ^ 1, byte ^ 0x80, (byte + 7) % 256)[rng.integers(3)]
        yield data[:position] + bytes([other]) + data[position + 1 :]
    for length in range(0, len(data), 25):
        yield data[:length]
    yield data + b"\0"


@pytest.mark.parametrize("at", range(8))
def test_every_change_of_a_byte_and_every_truncation_is_noticed(small: Path, at: int, rng: np.random.Generator) -> None:
    files = index_files(small)
    assert len(files) == 8  # manifest and arrays of the index, a segment, its factors and the model
    original = files[at].read_bytes()
    tried = 0
    with open(files[at], "r+b", buffering=0) as file:
        for data in damaged(original, rng):
            file.seek(0)
            file.truncate(len(data))
            file.write(data)
            with pytest.raises(BundleError):
                Index.open(small)
            tried += 1
    assert tried > len(original)
    files[at].write_bytes(original)
    assert list(Index.open(small)) == ["a", "é"]


@pytest.mark.parametrize("at", range(8))
def test_a_missing_file_is_noticed(small: Path, at: int) -> None:
    index_files(small)[at].unlink()
    with pytest.raises(BundleError):
        Index.open(small)


def test_segments_of_another_index_are_refused(small: Path, tmp_path: Path) -> None:
    docs = {"a": "green sky", "é": "sky"}
    Index.build({"a": "sky sky", "é": "green", "c": "sky"}, small_model(docs, latent=True), tmp_path / "other")
    for folder in ("segments", "factors"):
        kept = tmp_path / folder
        shutil.move(small / folder, kept)
        shutil.copytree(tmp_path / "other" / folder, small / folder)
        with pytest.raises(DamagedBundleError):
            Index.open(small)
        shutil.rmtree(small / folder)
        shutil.move(kept, small / folder)
    assert len(Index.open(small)) == 2


def forged(path: Path, name: str, change) -> None:
    """Change an array of a segment as a forger would, with every seal made right again."""
    segment = path / "segments" / "000000"
    bundle = read_bundle(segment)
    arrays = {key: array.copy() for key, array in bundle.arrays.items()}
    arrays[name] = change(arrays[name])
    shutil.rmtree(segment)
    digest = write_bundle(segment, kind=bundle.kind, meta=bundle.meta, arrays=arrays)
    reseal(path, lambda manifest: manifest["meta"].update(segments=[["000000", digest]]))


def with_value(at: int, value: float):
    def change(array: np.ndarray) -> np.ndarray:
        array.reshape(-1)[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("post_docs", with_value(0, 60_000)),
        ("post_starts", with_value(1, 2**31)),
        ("post_starts", with_value(-1, 1)),
        ("row_starts", with_value(1, 2**31)),
        ("row_terms", with_value(0, 10_000)),
        ("row_terms", with_value(0, -1)),
        ("post_values", with_value(0, np.nan)),
        ("bounds", with_value(0, np.inf)),
        ("id_rows", with_value(0, 3)),
        ("id_rows", with_value(0, 9)),
        ("id_starts", with_value(1, 99)),
        ("id_letters", with_value(1, 0x80)),
        ("id_hashes", lambda array: array[::-1].copy()),
        ("text_letters", with_value(0, 0xFF)),
        ("text_starts", lambda array: array[:-1].copy()),
        ("row_values", lambda array: array.astype(np.float64)),
    ],
)
def test_forged_segments_lead_nowhere(small: Path, name: str, change) -> None:
    forged(small, "bounds", lambda array: array)
    assert len(Index.open(small)) == 2  # the forger can do it
    forged(small, name, change)
    with pytest.raises(DamagedBundleError):
        Index.open(small)


@pytest.mark.parametrize(
    "change",
    [
        {"segments": [["../../x", "0"]]},
        {"segments": [["000000"]]},
        {"segments": []},
        {"model": "../model"},
        {"segment_docs": 0},
        {"extra": 1},
    ],
    ids=str,
)
def test_forged_lists_lead_nowhere(small: Path, change: dict) -> None:
    reseal(small, lambda manifest: manifest["meta"].update(change))
    with pytest.raises(DamagedBundleError):
        Index.open(small)


def test_removed_documents_that_are_not_there(small: Path) -> None:
    arrays = read_bundle(small).arrays
    for dead in ([7], [1, 1], [2, 0]):
        starts = np.array([0, len(dead)])
        forge_arrays_file(
            small, safetensors.numpy.save({**arrays, "dead": np.array(dead, np.uint16), "dead_starts": starts})
        )
        shape = {"shape": [len(dead)]}
        reseal(small, lambda manifest, shape=shape: manifest["arrays"]["dead"].update(shape))
        with pytest.raises(DamagedBundleError, match="remove"):
            Index.open(small)


def test_opening_unverified_reads_no_texts(small: Path) -> None:
    index = Index.open(small, verify=False)
    assert [hit.doc_id for hit in index.search("sky")] == [hit.doc_id for hit in Index.open(small).search("sky")]


def test_a_reader_opens_while_a_writer_changes_it(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tercet.search import folder as module

    real, left = module.Folder.read_segment, [3]

    def replaced_meanwhile(self, *args, **kwargs):
        if left[0] and not kwargs:
            left[0] -= 1
            monkeypatch.setattr(module.Folder, "read_segment", real)
            writer = Index.open(small)
            writer.replace({"a": "green"})
            writer.merge()
            monkeypatch.setattr(module.Folder, "read_segment", replaced_meanwhile)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(module.Folder, "read_segment", replaced_meanwhile)
    assert list(Index.open(small)) == ["é", "a"]
    assert left == [0]


KILLED_AT_EVERY_STEP = """
import os, shutil, signal, sys
sys.path.insert(0, sys.argv[2])
from indexes import answers, small_model
from tercet.search import Index

path = sys.argv[1]
os.fsync = lambda descriptor: None  # a kill is no power cut
docs = {"a": "green sky", "b": "blue sky"}
model = small_model(docs, latent=True)
index = Index.build(docs, model, path, segment_docs=2)
answers(index)

def kill_at(nth):
    left = [nth]
    def dying(real):
        def call(*args, **kwargs):
            for side in range(2):  # once before and once after the real call
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                if side == 0:
                    result = real(*args, **kwargs)
            return result
        return call
    for name in ("replace", "fsync", "unlink", "rmdir", "mkdir", "open", "listdir"):
        setattr(os, name, dying(getattr(os, name)))

changes = {
    "add": lambda index: index.add({"c": "green", "d": "blue", "e": "sky sky"}),
    "replace": lambda index: index.replace({"a": "blue", "z": "green"}),
    "remove": lambda index: index.remove(["a"]),
    "merge": lambda index: index.merge(),
    "build": lambda index: Index.build({"x": "blue sky", "y": "green"}, model, path, segment_docs=1),
    "first": lambda index: Index.build({"x": "blue sky", "y": "green"}, model, path, segment_docs=1),
}
for name, change in changes.items():
    expected = None
    seen, nth, stop = set(), 0, False
    while not stop:
        shutil.rmtree(path, ignore_errors=True)
        before = None
        if name != "first":
            index = Index.build(docs, model, path, segment_docs=2)
            if name == "merge":
                index.add({"c": "green"})
                index.remove(["b"])
            before = (list(index), answers(index))
        if expected is None:
            change(index)
            done = Index.open(path)
            expected = (list(done), answers(done))
            continue
        nth += 5  # a step has a side before and one after, so all kinds of steps and both sides come up
        child = os.fork()
        if child == 0:
            kill_at(nth)
            change(index)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        stop = status == 0
        if os.path.exists(os.path.join(path, "manifest.json")):
            now = Index.open(path)
            state = (list(now), answers(now))
            assert state in (before, expected), (name, nth, state)
            seen.add("new" if state == expected else "old")
            now.add({"next": "sky"})  # the next writer goes on, and removes what the dead one left
            listed = {entry.segment.name for entry in now._view.entries}
            assert set(os.listdir(os.path.join(path, "segments"))) == listed, (name, nth)
            assert {each.partition("-")[0] for each in os.listdir(os.path.join(path, "factors"))} == listed
            assert len(os.listdir(os.path.join(path, "models"))) == 1
        else:
            assert before is None
            seen.add("old")
    print(name, nth, sorted(seen), flush=True)
"""


@posix_only
def test_a_kill_at_every_step_leaves_what_was_committed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(tmp_path / "index"), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert [name for name, _, _ in lines] == ["add", "replace", "remove", "merge", "build", "first"]
    for name, steps, seen in lines:
        assert int(steps) > 20, name
        assert seen == ("['new']" if name == "merge" else "['new', 'old']"), name  # a merge changes no answer


CHANGING_FOR_EVER = """
import sys
sys.path.insert(0, sys.argv[2])
from tercet.search import Index

index = Index.open(sys.argv[1])
n = 0
while True:
    n += 1
    index.replace({"a": "green " * n, "n": "sky " * n})
    if n % 3 == 0:
        index.merge()
    if n == 1:
        print("changed", flush=True)
"""


@posix_only
def test_reading_while_another_process_writes_and_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.build(DOCS, small_model(DOCS), path)
    command = [sys.executable, "-c", CHANGING_FOR_EVER, str(path), str(Path(__file__).parent)]
    seen = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"changed\n"
            until = time.monotonic() + 0.6
            while time.monotonic() < until:
                index = Index.open(path)
                green, sky = index.text("a").count("green"), index.text("n").count("sky")
                assert green == sky  # of one commit
                assert [hit.doc_id for hit in index.search("toast")] == ["é"]
                seen.add(green)
        finally:
            process.send_signal(signal.SIGKILL)
    assert len(seen) > 3
    index = Index.open(path)
    index.add({"last": "sky"})
    assert len(os.listdir(path / "segments")) == index.n_segments


def test_a_mapped_index_takes_memory_for_what_is_looked_at(tmp_path: Path) -> None:
    resident = Path("/proc/self/statm")
    if not resident.exists():
        pytest.skip("needs /proc")

    def megabytes() -> float:
        return int(resident.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    text = "sky " * 250
    model = small_model(DOCS)
    rows = sparse.vstack([model.docs(["sky"])] * 60_000, format="csr")
    Index.build_rows([str(i) for i in range(60_000)], rows, model, tmp_path / "index", texts=[text] * 60_000)
    size = sum(file.stat().st_size for file in index_files(tmp_path / "index")) / 2**20
    assert size > 55
    before = megabytes()
    index = Index.open(tmp_path / "index")
    assert index.search("sky")[0].text == text
    assert megabytes() - before < 0.4 * size


def test_answers_survive_the_disk(tmp_path: Path) -> None:
    for latent in (False, True):
        model = small_model(DOCS, latent=latent)
        Index.build(DOCS, model, tmp_path / "index", segment_docs=2)
        assert answers(Index.open(tmp_path / "index")) == answers(Index.build(DOCS, model))
