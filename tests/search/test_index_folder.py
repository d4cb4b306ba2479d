"""An index on disk: damage is noticed, and a kill at any moment leaves what was committed last."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
import tracemalloc
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from support.bundles import forge_arrays_file, posix_only, reseal
from support.forking import changed, killed_after, wait_for
from support.indexes import DOCS, answers, small_model
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


@pytest.mark.slow
@pytest.mark.parametrize("at", range(8))
def test_every_change_of_a_byte_and_every_truncation_is_noticed(small: Path, at: int, rng: np.random.Generator) -> None:
    files = index_files(small)
    assert len(files) == 8  # manifest and arrays of the index, a segment, its factors and the model
    # Reading the model takes longest, so it is read where it is the one that is damaged.
    model = None if "models" in files[at].parts else Index.open(small).model
    original = files[at].read_bytes()
    tried = 0
    with open(files[at], "r+b", buffering=0) as file:
        for data in damaged(original, rng):
            file.seek(0)
            file.truncate(len(data))
            file.write(data)
            with pytest.raises(BundleError):
                Index.open(small, model)
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
    index = Index.open(small, verify="never")
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


def contents(path: Path) -> dict[str, bytes | None]:
    """All files and folders; a folder has no bytes."""
    return {str(each.relative_to(path)): each.read_bytes() if each.is_file() else None for each in path.rglob("*")}


def restored(path: Path, state: dict[str, bytes | None]) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for name, data in sorted(state.items()):
        if data is None:
            (path / name).mkdir()
        else:
            (path / name).write_bytes(data)


def states_of(path: Path, change: Callable[[], object]) -> list[dict[str, bytes | None]]:
    """What a kill would leave, before and after each step of a change that touches the disk."""
    states = [contents(path)]

    def seen() -> None:
        now = contents(path)
        if now != states[-1]:
            states.append(now)

    def watched(real):
        def call(*args, **kwargs):
            seen()
            result = real(*args, **kwargs)
            seen()
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "fsync", "unlink", "rmdir", "mkdir", "open", "listdir"):
            patch.setattr(os, name, watched(getattr(os, name)))
        change()
    seen()
    return states


KILLED_MODEL = small_model({"a": "green sky", "b": "blue sky"}, latent=True)
KILLED_DOCS = {"a": "green sky", "b": "blue sky"}
KILLED: dict[str, Callable[[Path], object]] = {
    "add": lambda path: Index.open(path).add({"c": "green", "d": "blue", "e": "sky sky"}),
    "replace": lambda path: Index.open(path).replace({"a": "blue", "z": "green"}),
    "remove": lambda path: Index.open(path).remove(["a"]),
    "merge": lambda path: Index.open(path).merge(),
    "join": lambda path: Index.open(path).add({f"n{i}": "sky" for i in range(6)}),
    "build": lambda path: Index.build({"x": "blue sky", "y": "green"}, KILLED_MODEL, path, segment_docs=1),
    "other": lambda path: Index.build({"x": "red"}, small_model({"x": "red sky"}), path),
    "first": lambda path: Index.build({"x": "blue sky", "y": "green"}, KILLED_MODEL, path, segment_docs=1),
    "promote": lambda path: Index.open(path).promote(small_model(KILLED_DOCS, latent=True, seed=9)),
    "undo": lambda path: Index.open(path).take_back(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
def test_a_kill_at_any_step_leaves_what_was_committed(tmp_path: Path, name: str) -> None:
    path = tmp_path / "index"
    path.mkdir()
    if name != "first":
        index = Index.build(KILLED_DOCS, KILLED_MODEL, path, segment_docs=16 if name == "join" else 2)
        if name == "merge":
            index.add({"c": "green"})
            index.remove(["b"])
        if name == "undo":
            index.promote(small_model(KILLED_DOCS, latent=True, seed=9))

    def state() -> object:
        now = Index.open(path)
        return list(now), answers(now)

    before = None if name == "first" else state()
    states = states_of(path, lambda: KILLED[name](path))
    after = state()
    assert len(states) > 4
    if name == "join":
        assert Index.open(path).n_segments == 1
    found = []
    for each in states:
        restored(path, each)
        if "manifest.json" not in each:
            assert before is None
            KILLED[name](path)  # the same again goes through
            assert state() == after
            continue
        now = state()
        assert now in (before, after)
        found.append(now == after)
        index = Index.open(path)
        index.add({"next": "sky"})  # the next writer goes on, and removes what the dead one left
        listed = {entry.segment.name for entry in index._view.entries}
        assert set(os.listdir(path / "segments")) == listed
        assert {each.partition("-")[0] for each in os.listdir(path / "factors")} <= listed
        models = {each for entry in index.promotions for each in (entry.before, entry.after)}
        assert len(os.listdir(path / "models")) == max(1, len(models))
        assert len(index_files(path)) == len(set(index_files(path)) - set(path.glob(".tercet*")))
    assert found == sorted(found)  # there is one moment at which it changes
    assert found[-1]
    assert name in ("merge", "first", "factors") or not found[0]  # a merge changes no answer


@pytest.mark.slow
@pytest.mark.parametrize("name", KILLED)
def test_a_full_disk_at_any_step_changes_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"
    if name != "first":
        Index.build(KILLED_DOCS, KILLED_MODEL, path, segment_docs=16 if name == "join" else 2)
        if name == "merge":
            Index.open(path).remove(["b"])
        if name == "undo":
            Index.open(path).promote(small_model(KILLED_DOCS, latent=True, seed=9))
    before = contents(path)
    real = os.replace
    for nth in range(100):
        left = [nth]

        def full(*args, left=left):
            if left[0] == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left[0] -= 1
            return real(*args)

        monkeypatch.setattr(os, "replace", full)
        refusal = ""
        try:
            KILLED[name](path)
        except BundleError as error:
            refusal = str(error)
        monkeypatch.setattr(os, "replace", real)
        if not refusal:
            break
        assert "No space left" in refusal
        if name not in ("factors", "promote"):  # those that are written stay, and do no harm
            assert contents(path) == before
    assert nth >= (1 if name in ("remove", "factors", "undo") else 3)
    Index.open(path)


def test_a_writer_that_waited_for_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer it waited for was making the first index there, failed and removed what it had made."""
    from tercet.search import folder as module

    path, real, times = tmp_path / "index", module.lock_folder, [0]

    @contextlib.contextmanager
    def removed_while_waiting(folder: Path):
        with real(folder):
            times[0] += 1
            if times[0] == 1:
                shutil.rmtree(path)
                path.mkdir()
                folder.mkdir()
            yield

    monkeypatch.setattr(module, "lock_folder", removed_while_waiting)
    Index.build(DOCS, small_model(DOCS), path)
    assert times == [2]
    assert list(Index.open(path)) == list(DOCS)


def test_factors_that_a_writer_takes_away_are_worked_out(small: Path) -> None:
    index = Index.open(small)
    expected = answers(index, ("green sky",))
    [factors] = (small / "factors").iterdir()
    manifest = (factors / "manifest.json").read_bytes()
    writer = Index.open(small)
    writer.merge()
    factors.mkdir()  # half removed, as while the writer is at it
    next((small / "factors").glob("*/arrays*")).rename(factors / "arrays-0123456789abcdef.safetensors")
    assert answers(index.with_model(index.model), ("green sky",)) == expected
    (factors / "manifest.json").write_bytes(manifest)
    assert answers(index.with_model(index.model), ("green sky",)) == expected


def test_texts_are_checked_a_block_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tercet.store import strings

    monkeypatch.setattr(strings, "_BLOCK_BYTES", 3)  # characters of two bytes are cut
    docs = {"a": "é" * 50, "b": "sky é"}
    Index.build(docs, small_model(docs), tmp_path / "index")
    assert Index.open(tmp_path / "index").text("a") == "é" * 50
    forged(tmp_path / "index", "text_letters", with_value(-1, 0xC3))
    with pytest.raises(DamagedBundleError, match="not UTF-8"):
        Index.open(tmp_path / "index")


def change_for_ever(path: Path) -> None:
    index = Index.open(path)
    for n in count(1):
        index.replace({"a": "green " * n, "n": "sky " * n})
        if n % 3 == 0:
            index.merge()


@pytest.mark.slow
@posix_only
def test_reading_while_another_process_writes_and_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.build(DOCS, small_model(DOCS), path)
    is_changed = changed(path / "manifest.json")
    seen = set()
    with killed_after(lambda: change_for_ever(path)) as is_at_work:
        wait_for(is_changed, is_at_work)
        deadline = time.monotonic() + 60
        while len(seen) < 20 and time.monotonic() < deadline:
            index = Index.open(path)
            green, sky = index.text("a").count("green"), index.text("n").count("sky")
            assert green == sky  # of one commit
            assert [hit.doc_id for hit in index.search("toast")] == ["é"]
            seen.add(green)
    assert len(seen) == 20
    index = Index.open(path)
    index.add({"last": "sky"})
    assert len(os.listdir(path / "segments")) == index.n_segments


@pytest.mark.slow
def test_a_mapped_index_takes_memory_for_what_is_looked_at(tmp_path: Path) -> None:
    resident = Path("/proc/self/statm")
    if not resident.exists():
        pytest.skip("needs /proc")

    def megabytes() -> float:
        return int(resident.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    text = "sky " * 250
    model = small_model(DOCS)
    Index.build({str(i): text for i in range(60_000)}, model, tmp_path / "index")
    size = sum(file.stat().st_size for file in index_files(tmp_path / "index")) / 2**20
    assert size > 55
    before = megabytes()
    tracemalloc.start()
    index = Index.open(tmp_path / "index")
    assert tracemalloc.get_traced_memory()[1] / 2**20 < 0.2 * size  # nor is there more for a moment
    tracemalloc.stop()
    assert index.search("sky")[0].text == text
    assert megabytes() - before < 0.4 * size


def test_answers_survive_the_disk(tmp_path: Path) -> None:
    for latent in (False, True):
        model = small_model(DOCS, latent=latent)
        Index.build(DOCS, model, tmp_path / "index", segment_docs=2)
        assert answers(Index.open(tmp_path / "index")) == answers(Index.build(DOCS, model))


def test_segments_in_each_others_places_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.build(DOCS, small_model(DOCS, latent=True), path, segment_docs=3)
    for folder in ("segments", "factors"):
        first, second = sorted((path / folder).iterdir())
        for turn in range(2):  # there and back
            first.rename(tmp_path / "aside")
            second.rename(first)
            (tmp_path / "aside").rename(second)
            if turn == 0:
                with pytest.raises(DamagedBundleError):
                    Index.open(path)
        assert len(Index.open(path)) == len(DOCS)


def test_factors_of_other_weights_are_refused(small: Path) -> None:
    other = small_model({"a": "green sky", "é": "sky"}, latent=True, seed=9)
    index = Index.open(small, other)
    [factors] = (small / "factors").iterdir()
    factors.rename(factors.with_name(f"000000-{index._view.scorer.fingerprint[:16]}"))
    with pytest.raises(DamagedBundleError, match="other weights"):
        Index.open(small, other)


def test_a_folder_that_may_only_be_read(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    index = Index.open(small)
    assert index.search("sky")
    for change in (lambda: index.add({"x": "sky"}), index.merge, lambda: index.remove(["a"])):
        with pytest.raises(BundleError, match="read-only"):
            change()
    assert list(index) == ["a", "é"]
