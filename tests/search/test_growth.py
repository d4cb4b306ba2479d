"""Words that only later documents have are found, explained, saved, and taken in by every model over the index."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tercet as tc
from support.indexes import KINDS, N_TERMS, answers, random_weights
from support.memories import remember
from tercet.data.documents import as_documents
from tercet.errors import DamagedBundleError, InputError
from tercet.memory.value import MemorySettings
from tercet.search import Index
from tercet.text import FieldedVectorizer, Vectorizer
from tercet.weights import Identity, LowRank, Weights

WORDS = [f"w{i:02d}" for i in range(N_TERMS)]
NEW = {"x": "guava w03 w07", "y": "kiwi guava w05", "z": "guava guava"}
ASKED = ("w01 w02", "guava", "kiwi w05", "w07 kiwi guava")


def old_docs(n: int = 30) -> dict[str, str]:
    rng = np.random.default_rng(0)
    return {"all": " ".join(WORDS)} | {f"d{i}": " ".join(rng.choice(WORDS, 6)) for i in range(n)}


def made_model(*kinds: str, weighting: str = "bm25") -> tc.TextModel:
    words = tc.Vectorizer(weighting=weighting).fit(old_docs().values())
    parts = random_weights(np.random.default_rng(3), list(kinds)).parts
    same = Identity(n_terms=N_TERMS)
    return tc.TextModel(words, words, Weights([same if part.kind == "identity" else part for part in parts]))


def exact(index: Index, docs: dict[str, str], text: str) -> dict[str, float]:
    return index.model.rank({"q": text}, docs, k=len(docs))["q"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_new_words_are_found_with_weights_of_any_kind(kind: str, tmp_path: Path) -> None:
    docs, model = old_docs(), made_model(kind)
    index = Index.build(docs, model, tmp_path / "index")
    before = answers(index, ASKED[:1])
    assert index.search("guava").unknown == ("guava",)
    index.add(NEW)
    everything = docs | NEW
    assert answers(Index.open(tmp_path / "index"), ASKED) == answers(index, ASKED)
    assert [hit for hit in answers(index, ASKED[:1])[0] if hit[0] in docs][:3] == before[0][:3]
    assert not index.search("guava").unknown
    for text in ASKED:
        scores = exact(index, everything, text)
        hits = index.search(text, k=100, cutoff=False)
        assert len({hit.doc_id for hit in hits}) == len(hits) > 0
        for hit in hits:
            assert hit.score == pytest.approx(scores[hit.doc_id], rel=1e-5, abs=1e-6)
            assert sum(pair[2] for pair in hit.why.pairs) == pytest.approx(hit.score, rel=1e-5, abs=1e-6)
    assert ("guava", "guava") in [pair[:2] for pair in index.explain("guava", "z").pairs]


def test_a_new_word_ranks_as_bm25_ranks_it(tmp_path: Path) -> None:
    index = Index.build(old_docs(), path=tmp_path / "index")
    index.add(NEW)
    assert [hit.doc_id for hit in index.search("kiwi guava")] == ["y", "z", "x"]
    words = index.model.query_vectorizer
    assert words.words_[-2:] == ["guava", "kiwi"]
    assert words.document_frequency_[-2:].tolist() == [3, 1]
    assert words.n_docs_ == 31


def test_words_survive_more_documents_merging_removal_and_copies(tmp_path: Path) -> None:
    index = Index.build(old_docs(), path=tmp_path / "index")
    reader = Index.open(tmp_path / "index")
    index.add(NEW)
    index.replace({"x": "lime guava", "d3": "lime"})
    assert reader.refresh()
    index.remove(["y"])
    index.merge()
    later = reader.latest()
    index.save(tmp_path / "copy")
    for opened in (index, later, Index.open(tmp_path / "index"), Index.open(tmp_path / "copy")):
        assert {hit.doc_id for hit in opened.search("lime")} == {"x", "d3"}
        assert {hit.doc_id for hit in opened.search("guava")} == {"x", "z"}
        assert not opened.search("kiwi")
        assert opened.model.query_vectorizer.words_[-3:] == ["guava", "kiwi", "lime"]
    rebuilt = Index.build(NEW, index.model, tmp_path / "rebuilt")  # the vocabulary of the grown model
    assert {hit.doc_id for hit in Index.open(tmp_path / "rebuilt").search("kiwi")} == {"y"}
    assert rebuilt.model is index.model


def test_documents_that_a_model_never_saw_are_indexed_with_all_their_words() -> None:
    index = Index.build(old_docs() | NEW, made_model("identity"), segment_docs=8)
    assert {hit.doc_id for hit in index.search("guava")} == set(NEW)


def test_models_from_before_take_in_the_words_of_an_index(tmp_path: Path) -> None:
    model = made_model("identity", "lowrank")
    index = Index.build(old_docs(), model, tmp_path / "index")
    index.add(NEW)
    learned = replace(model, weights=model.weights * 2.0)
    for opened in (index.with_model(learned), Index.open(tmp_path / "index", learned)):
        assert opened.search("guava")[0].score == pytest.approx(2 * index.search("guava")[0].score)
    grown = index.model
    index.add({"more": "papaya"})
    assert index.with_model(grown).search("papaya")[0].doc_id == "more"
    index.promote(learned)
    index.promote(replace(index.model, weights=index.model.weights * 2.0))
    assert Index.open(tmp_path / "index").search("papaya")[0].doc_id == "more"
    index.take_back()
    index.take_back()
    assert answers(Index.open(tmp_path / "index"), ASKED) == answers(index, ASKED)
    elsewhere = Index.build(old_docs(), model)
    elsewhere.add({"other": "mango"})
    with pytest.raises(InputError, match="another vectorizer"):
        index.with_model(elsewhere.model)


def test_latent_documents_are_not_made_again(tmp_path: Path) -> None:
    index = Index.build(old_docs(), made_model("identity", "scaled"), tmp_path / "index")
    [kept] = (tmp_path / "index" / "factors").iterdir()
    index.add(NEW)
    assert len(list((tmp_path / "index" / "factors").iterdir())) == 2
    assert kept.is_dir()
    own = index.model.weights.parts[1]
    assert isinstance(own, LowRank)
    factors = np.array(own.query_factors)
    factors[-1] = 1.0  # what is learned of a new word counts
    learned = Weights([index.model.weights.parts[0], replace(own, query_factors=factors)])
    other = index.with_model(replace(index.model, weights=learned))
    best = other.search("kiwi", k=1)[0]
    assert best.score == pytest.approx(exact(other, old_docs() | NEW, "kiwi")[best.doc_id], rel=1e-5)


def test_memory_goes_on_after_new_words() -> None:
    model = made_model("identity")
    memory = remember({"q": {"d4": 1}}, {"q": "w01 w02"}, model.queries(["w01 w02"]), MemorySettings())
    index = Index.build(old_docs(), replace(model, memory=memory))
    before = index.search("w01 w02", k=1)[0]
    index.add(NEW)
    after = index.search("w01 w02", k=1)[0]
    assert (after.doc_id, after.score) == (before.doc_id, before.score)
    assert index.search("guava w01")[0].doc_id in NEW


@pytest.mark.slow
def test_threads_may_search_while_words_come(tmp_path: Path) -> None:
    index = Index.build(old_docs(), made_model("identity", "lowrank"), tmp_path / "index")
    failures: list[BaseException] = []
    done = threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                for hit in index.search("w01 new3 new7", k=3):
                    assert hit.why.score == pytest.approx(hit.score)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for i in range(12):
            index.add({f"n{i}": f"new{i} w01"})
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert index.search("new7")[0].doc_id == "n7"


def test_some_models_keep_their_words() -> None:
    words = Vectorizer(max_features=5).fit(old_docs().values())
    index = Index.build(old_docs(), tc.TextModel(words, words, Weights([Identity(n_terms=5)])))
    index.add(NEW)
    assert index.search("guava").unknown == ("guava",)
    rows = as_documents({"a": {"title": "tea", "text": "green"}, "b": {"title": "cake", "text": "sweet"}})
    fielded = FieldedVectorizer(fields=["title"]).fit(rows)
    model = tc.TextModel(fielded, fielded, Weights([Identity(n_terms=len(fielded.words_))]))
    columns = Index.build(rows, model)
    columns.add(as_documents({"c": {"title": "guava", "text": "guava"}}))
    assert columns.search("guava").unknown == ("guava",)


def test_a_grown_vectorizer_is_saved_whole() -> None:
    words, _ = Vectorizer().fit(["green tea", "tea"]).grow(["apple tea", "zebra apple"])
    meta, arrays = words.to_state()
    again = Vectorizer.from_state(meta, arrays)
    assert again.words_ == words.words_ == ["green", "tea", "apple", "zebra"]
    assert again.added.frequency.tolist() == [2, 1]
    assert again.as_fitted().words_ == ["green", "tea"]
    assert (again.transform_docs(["zebra tea"]) != words.transform_docs(["zebra tea"])).nnz == 0
    for n_added in (1, 4, 5):
        with pytest.raises(DamagedBundleError):
            Vectorizer.from_state(meta | {"n_added": n_added}, arrays)
