"""Documents come and go; an index is what a fresh one of the same documents would be."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from support.indexes import DOCS, answers, small_model
from tercet.errors import BundleError, InputError, MissingBundleError
from tercet.search import Index
from tercet.search import base as module
from tercet.search.results import SearchedQuery
from tercet.search.segment import Segment

WORDS = [f"w{i}" for i in range(12)]
SOME = {"first": " ".join(WORDS)}
TEXTS = ("w1 w2", "w3", "w4 w5 w6 w7", "w0 w11", "new", "w1 newer new")

names = st.sampled_from([f"d{i}" for i in range(8)])
texts = st.lists(st.sampled_from([*WORDS, "new", "newer"]), max_size=5).map(" ".join)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.dictionaries(names, texts, max_size=4)),
        st.tuples(st.just("replace"), st.dictionaries(names, texts, max_size=4)),
        st.tuples(st.just("remove"), st.sets(names, max_size=4)),
        st.tuples(st.just("merge"), st.none()),
        st.tuples(st.just("open"), st.none()),
    ),
    max_size=8,
)


@pytest.fixture(autouse=True, scope="module")
def quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def applied(docs: dict[str, str], verb: str, what: object) -> dict[str, str] | None:
    """The documents after a change, or None where it is to be refused."""
    if verb == "add":
        return None if docs.keys() & what.keys() else docs | what
    if verb == "replace":
        return {name: text for name, text in docs.items() if name not in what} | what
    if verb == "remove":
        return {name: text for name, text in docs.items() if name not in what} if what <= docs.keys() else None
    return docs


@settings(max_examples=25)
@given(changes=changes, segment_docs=st.sampled_from([1, 3, 100]), latent=st.booleans(), on_disk=st.booleans())
def test_any_changes_give_what_a_fresh_index_is(
    tmp_path_factory: pytest.TempPathFactory, changes: list, segment_docs: int, latent: bool, on_disk: bool
) -> None:
    model = small_model(SOME, latent=latent)
    path = tmp_path_factory.mktemp("index") / "index" if on_disk else None
    docs = dict(SOME)
    index = Index.build(docs, model, path, segment_docs=segment_docs)
    for verb, what in changes:
        if verb == "open":
            index = index if path is None else Index.open(path)
            continue
        after = applied(docs, verb, what)
        arguments = () if what is None else (what,)
        if after is None:
            with pytest.raises(InputError, match=r"already|no document"):
                getattr(index, verb)(*arguments)
        else:
            getattr(index, verb)(*arguments)
            docs = after
        if verb == "merge":
            assert index.n_segments == -(-len(docs) // segment_docs)
    fresh = Index.build(docs, index.model, segment_docs=segment_docs)  # whose words are in the order in which they came
    assert fresh.model is index.model
    assert list(index) == list(docs) == list(fresh)
    assert len(index) == len(docs)
    assert answers(index, TEXTS) == answers(fresh, TEXTS)
    for name in [*docs, "d0", "nobody"]:
        assert (name in index) == (name in docs)
    for name, text in docs.items():
        assert index.text(name) == text


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index", segment_docs=1)
    before = answers(index)
    files = sorted(tmp_path.rglob("*"))

    def failing():
        yield "x", "green"
        yield "y", "sky"
        raise OSError("the reader broke")

    with pytest.raises(OSError, match="the reader broke"):
        index.add(failing())
    with pytest.raises(InputError, match="'a' is in the index already; replace takes it"):
        index.add([("x", "green"), ("a", "sky")])
    with pytest.raises(InputError, match="no document 'x' among the 5"):
        index.remove(["a", "x"])
    with pytest.raises(InputError, match="takes ids"):
        index.remove("abc")
    assert answers(index) == before == answers(Index.open(tmp_path / "index"))
    assert sorted(tmp_path.rglob("*")) == files


def test_a_first_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        Index.build([("a", "green"), ("a", "sky")], small_model(DOCS), tmp_path / "new" / "index", segment_docs=1)
    assert not (tmp_path / "new" / "index").exists()


def test_a_rebuild_that_fails_leaves_an_index_that_can_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    before = answers(Index.build(DOCS, small_model(DOCS), path))
    with pytest.raises(InputError):
        Index.build([("a", "green"), ("a", "sky")], small_model(DOCS), path, segment_docs=1)
    assert answers(Index.open(path)) == before
    for empty in ("factors", "segments"):  # as after a copy that leaves out empty folders
        index = Index.open(path)
        index.add({empty: "green"})
        index.remove(list(index))
        (path / empty).rmdir()
    index.add({"x": "green"})
    assert list(Index.open(path)) == ["x"]


def test_building_again_replaces_and_readers_keep_what_they_have(tmp_path: Path) -> None:
    path = tmp_path / "index"
    reader = Index.build(DOCS, small_model(DOCS), path, segment_docs=2)
    before = answers(reader)
    other = Index.build({"x": "green sky"}, small_model({"x": "green sky"}), path)
    assert answers(reader) == before
    assert reader.search("green")[0].text == "green avocado"
    with pytest.raises(InputError, match="another vectorizer"):
        reader.refresh()
    assert list(Index.open(path)) == ["x"] == list(other)
    assert len(list((path / "segments").iterdir())) == len(list((path / "models").iterdir())) == 1


def test_two_handles_on_one_index(tmp_path: Path) -> None:
    path = tmp_path / "index"
    first = Index.build(DOCS, small_model(DOCS, latent=True), path)
    second = Index.open(path)
    first.add({"x": "blue eyes"})
    second.add({"y": "blue toast"})  # sees x first
    assert list(second) == [*DOCS, "x", "y"]
    assert list(first) == [*DOCS, "x"]
    assert first.refresh()
    assert not first.refresh()
    assert answers(first) == answers(second)
    with pytest.raises(InputError, match="'y' is in the index"):
        first.add({"y": "again"})
    second.remove(["a", "x"])
    hits = first.search("green avocado")
    second.merge()
    assert hits[0].text == "green avocado"
    assert hits[0].why.score == pytest.approx(hits[0].score)


@pytest.mark.parametrize("how", ["replace", "build"])
@pytest.mark.parametrize("latent", [False, True])
def test_the_same_documents_written_again_under_an_open_handle(tmp_path: Path, how: str, latent: bool) -> None:
    path, model = tmp_path / "index", small_model(DOCS, latent=latent)
    first = Index.build(DOCS, model, path)
    if how == "replace":
        Index.open(path).replace(DOCS)
    else:
        Index.build(DOCS, model, path)
    first.add({"x": "blue eyes"})  # the same bytes as before are in files of another name
    assert list(Index.open(path)) == [*DOCS, "x"]
    assert answers(Index.open(path)) == answers(first)


@pytest.mark.parametrize("keep_texts", [False, True])
def test_documents_are_added_as_the_index_is_by_now(tmp_path: Path, keep_texts: bool) -> None:
    path, model = tmp_path / "index", small_model(DOCS)
    first = Index.build(DOCS, model, path, keep_texts=not keep_texts)
    Index.build(DOCS, model, path, keep_texts=keep_texts)
    new = {f"x{i}": "blue eyes" for i in range(8)}
    first.add(new)
    hits = Index.open(path).search("green avocado blue eyes", k=20)
    assert len(hits) > len(new)
    assert [hit.kept_text for hit in hits] == [(DOCS | new)[hit.doc_id] if keep_texts else None for hit in hits]


def test_removed_documents_take_no_space_after_a_merge(tmp_path: Path) -> None:
    path = tmp_path / "index"
    docs = {f"d{i}": f"w{i % 12} w{i % 7}" for i in range(300)}
    index = Index.build(docs, small_model(SOME), path, segment_docs=100)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    kept_segment = next((path / "segments").glob("000000/arrays*")).stat()
    index.remove([f"d{i}" for i in range(100, 300) if i % 10])
    index.merge()
    assert index.n_segments == 2
    assert list(index) == [f"d{i}" for i in range(300) if i < 100 or i % 10 == 0]
    assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) < 0.6 * size
    assert next((path / "segments").glob("000000/arrays*")).stat() == kept_segment  # whole, so left alone
    index.remove(docs.keys() & set(index))
    assert (len(index), index.n_segments, index.search("w1")) == (0, 0, [])
    index.add({"new": "w1"})
    assert [hit.doc_id for hit in Index.open(path).search("w1")] == ["new"]


def test_saved_from_memory_and_loaded(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS, latent=True), segment_docs=2)
    index.remove(["b"])
    index.save(tmp_path / "index")
    again = tc.load(tmp_path / "index")
    assert isinstance(again, Index)
    assert answers(again) == answers(index)
    with pytest.raises(InputError, match="saved already"):
        again.save(tmp_path / "index")
    again.save(tmp_path / "copy")
    assert answers(Index.open(tmp_path / "copy")) == answers(index)


def test_one_index_serves_other_models(tmp_path: Path) -> None:
    path = tmp_path / "index"
    plain, latent = small_model(DOCS), small_model(DOCS, latent=True)
    Index.build(DOCS, plain, path)
    served = Index.open(path, latent)
    assert answers(served) == answers(Index.build(DOCS, latent))
    assert list((path / "factors").iterdir()) == []
    assert answers(Index.open(path)) == answers(Index.build(DOCS, plain))
    for stranger in (small_model(DOCS | {"z": "zebra"}), plain.weights):
        with pytest.raises(InputError, match="another vectorizer"):
            Index.open(path, stranger)
    # The same words, weighted another way.
    weighting = tc.Vectorizer(weighting="bm25").fit(DOCS.values())
    with pytest.raises(InputError, match="another vectorizer"):
        Index.open(path, tc.TextModel(weighting, weighting, plain.weights))


def test_an_index_of_rows_on_disk(tmp_path: Path, rng: np.random.Generator) -> None:
    weights = small_model(DOCS, latent=True).weights
    D = rng.random((7, weights.shape[1])).astype(np.float32)
    index = Index.build_rows(list("abcdefg"), D, weights, tmp_path / "index", segment_docs=3)
    index.add_rows(["h"], D[:1])
    again = Index.open(tmp_path / "index")
    q = rng.random((1, weights.shape[0]))
    assert [hit.score for hit in again.search_row(q)] == [hit.score for hit in index.search_row(q)]
    assert again.explain_row(q, "h").contribution.sum() == pytest.approx(again.search_row(q)[0].score, abs=9)
    with pytest.raises(InputError, match="keeps texts"):
        Index.build(DOCS).add_rows(["i"], D[:1])


def test_places_that_hold_something_else(tmp_path: Path) -> None:
    model = small_model(DOCS)
    model.save(tmp_path / "model")
    with pytest.raises(BundleError, match="kind 'text-model'; expected 'index'"):
        Index.build(DOCS, model, tmp_path / "model")
    assert tc.load(tmp_path / "model").weights.shape == model.weights.shape
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match="not a Tercet bundle"):
        Index.build(DOCS, model, tmp_path / "notes")
    with pytest.raises(MissingBundleError):
        Index.open(tmp_path / "nowhere")
    with pytest.raises(BundleError, match=r"holds a model; tc\.Index\.build"):
        Index.open(tmp_path / "model")


@pytest.mark.slow
def test_documents_that_come_one_by_one_end_up_in_few_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path, n = small_model(SOME, latent=True), tmp_path / "index", 150
    docs = {f"d{i}": f"w{i % 12} w{i % 7}" for i in range(n)}
    written, real = [0], Segment.build.__func__

    def counting(cls, ids, *rest):
        written[0] += len(ids)
        return real(cls, ids, *rest)

    monkeypatch.setattr(Segment, "build", classmethod(counting))
    index, most = Index.build({}, model, path, segment_docs=1024), 0
    for name, text in docs.items():
        index.add({name: text})
        most = max(most, index.n_segments)
    assert most <= 7 + 7 + 2  # of fewer than 8, of fewer than 64, and of 64 and more
    assert written[0] <= 3 * n  # once when it comes, once for 8, once for 64
    assert len(list((path / "segments").iterdir())) == len(list((path / "factors").iterdir())) == index.n_segments
    again = Index.open(path)
    assert list(again) == list(docs)
    assert answers(again, TEXTS) == answers(Index.build(docs, model), TEXTS)
    assert again.text("d17") == docs["d17"]


def test_large_segments_are_left_alone_by_additions(tmp_path: Path) -> None:
    index = Index.build({f"d{i}": "w1" for i in range(300)}, small_model(SOME), tmp_path / "index", segment_docs=150)
    before = [next((tmp_path / "index" / "segments").glob(f"00000{i}/arrays*")).stat() for i in range(2)]
    for i in range(20):
        index.replace({"d7": f"w{i % 12}"})
    assert [next((tmp_path / "index" / "segments").glob(f"00000{i}/arrays*")).stat() for i in range(2)] == before
    assert index.n_segments == 3


def test_a_segment_that_is_mostly_dead_is_written_again() -> None:
    docs = {f"d{i}": f"w{i % 12}" for i in range(40)}
    index = Index.build(docs, small_model(SOME), segment_docs=40)
    index.remove([f"d{i}" for i in range(20)])
    index.add({"x": "w1"})
    assert [entry.segment.n_docs for entry in index._view.entries] == [40, 1]  # half is not more than half
    index.remove(["d20"])
    index.add({"y": "w1"})
    assert [entry.segment.n_docs for entry in index._view.entries] == [19, 1, 1]
    assert list(index) == [*(f"d{i}" for i in range(21, 40)), "x", "y"]


def test_more_segments_than_can_be_told_apart_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tercet.search import folder, writing

    monkeypatch.setattr(writing, "MOST_SEGMENTS", 4)
    with pytest.raises(InputError, match="at most 4 segments; merge it, or use a larger segment_docs"):
        Index.build(DOCS, small_model(DOCS), segment_docs=1)
    Index.build(DOCS, small_model(DOCS), tmp_path / "index", segment_docs=2)
    monkeypatch.setattr(folder, "MOST_SEGMENTS", 2)
    with pytest.raises(BundleError, match="lists 3 segments"):
        Index.open(tmp_path / "index")


@pytest.mark.parametrize("on_disk", [False, True])
def test_threads_that_change_one_index_wait_for_each_other(tmp_path: Path, on_disk: bool) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index" if on_disk else None)

    def slowly(name: str):
        time.sleep(0.01)
        yield name, "green"

    threads = [threading.Thread(target=lambda i=i: index.add(slowly(f"t{i}"))) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(index) == {*DOCS, *(f"t{i}" for i in range(6))}


@pytest.mark.parametrize(
    "ask",
    [
        lambda index: index.explain("green", "é").pairs,
        lambda index: index.versus("green", "é", "a").pairs,
        lambda index: index.explain_row(index.model.queries(["green"]), "é").contribution.tolist(),
    ],
)
def test_a_refresh_in_the_middle_of_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask) -> None:
    reader = Index.build(DOCS, small_model(DOCS), tmp_path / "index", segment_docs=2)
    expected = ask(reader)

    def refreshed_after(*args):
        made = SearchedQuery(*args)
        monkeypatch.setattr(module, "SearchedQuery", SearchedQuery)
        writer = Index.open(tmp_path / "index")
        writer.remove(["b", "c", "d"])
        writer.merge()
        reader.refresh()
        return made

    monkeypatch.setattr(module, "SearchedQuery", refreshed_after)
    assert ask(reader) == expected
    assert len(reader) == 2


def test_a_refresh_does_not_undo_what_a_thread_has_done_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    Index.open(tmp_path / "index").add({"x": "green"})
    real = Index._reread

    def overtaken(self, committed):
        found = real(self, committed)
        monkeypatch.setattr(Index, "_reread", real)
        index.add({"y": "green"})
        return found

    monkeypatch.setattr(Index, "_reread", overtaken)
    assert index.refresh()
    assert list(index) == [*DOCS, "x", "y"]


@pytest.mark.slow
@pytest.mark.parametrize("change", ["add", "remove", "merge", "refresh"])
def test_a_copy_that_is_made_in_the_middle_of_a_change_loses_nothing(tmp_path: Path, change: str) -> None:
    path = tmp_path / "index"
    Index.build(DOCS, small_model(DOCS), path, segment_docs=3)
    copies: list[Index] = []

    class Copied(Index):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            copies.append(Index.latest(self))

    index = Index.open(path)
    Index.open(path).add({"x": "blue eyes"})
    index.__class__ = Copied
    if change == "add":
        index.add({"y": "blue toast"})
    elif change == "remove":
        index.remove(["a"])
    else:
        getattr(index, change)()
    expected = list(index)
    assert len(copies) > 1
    for copy in copies:
        copy.add({"z": "green toast"})
        assert list(Index.open(path)) == [*expected, "z"]
        copy.remove(["z"])


def test_a_place_without_a_name() -> None:
    for path in ("", 7):
        with pytest.raises(InputError, match="expected the path of a folder"):
            Index.build(DOCS, small_model(DOCS), path)


def test_changing_an_index_that_is_gone_leaves_nothing(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(MissingBundleError, match="no index at"):
        index.add({"x": "green"})
    assert not (tmp_path / "index").exists()
    assert index.search("toast")[0].text == DOCS["é"]
