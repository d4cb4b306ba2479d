"""TextModel: ranking, reading and saving it, on made-up corpora whose answers are known."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import oracles
import tercet as tc
from support.corpora import TINY, bits, oracle_scores
from tercet.errors import BundleError, InputError
from tercet.store import read_bundle, write_bundle
from tercet.weights import Dense, Identity

# -- reading a model --------------------------------------------------------------------------------------------------


def test_rank_is_brute_force(model, corpus):
    queries = dict(list(corpus.queries.items())[:12])
    scores = oracle_scores(model, corpus.docs, list(queries.values()))
    doc_ids = list(corpus.docs)
    run = model.rank(queries, corpus.docs, k=7)
    assert list(run) == list(queries)
    for row, found in zip(scores, run.values(), strict=True):
        best = oracles.ranking(row.tolist())[:7]
        assert list(found) == [doc_ids[d] for d in best]
        assert list(found.values()) == pytest.approx([row[d] for d in best], rel=1e-6)
    assert len(model.rank(queries, corpus.docs, k=10**6)["q0"]) == len(corpus.docs)


@pytest.mark.parametrize("text", ["", "zeppelin", "the and of", "?!"])
def test_a_query_without_known_words_scores_nothing_and_keeps_the_order(model, corpus, text):
    assert model.rank({"q": text}, corpus.docs, k=3) == {"q": {"d0": 0.0, "d1": 0.0, "d2": 0.0}}
    why = model.explain(text, corpus.docs["d0"])
    assert (why.score, why.pairs) == (0.0, ())


def test_explanations_sum_to_the_scores(model, corpus):
    queries = dict(list(corpus.queries.items())[:6])
    run = model.rank(queries, corpus.docs, k=len(corpus.docs))
    for qid, text in queries.items():
        for doc_id in list(corpus.docs)[:15]:
            why = model.explain(text, corpus.docs[doc_id], doc_id)
            sizes = [abs(contribution) for _, _, contribution in why.pairs]
            assert sizes == sorted(sizes, reverse=True)
            total = sum(c for _, _, c in why.pairs) + sum(past.contribution for past in why.past)
            assert total == pytest.approx(why.score, abs=1e-9 * (1 + sum(sizes)))
            assert why.score == pytest.approx(run[qid][doc_id], abs=1e-9)
            words = text.split(), corpus.docs[doc_id].split()
            pairs = {(a, b) for a, b, _ in why.pairs if not b.startswith("past queries: ")}
            assert pairs <= {(a, b) for a in words[0] for b in words[1]}
            assert {past.text for past in why.past} <= set(corpus.queries.values())


def test_unknown_words_are_told_once_each_and_in_order(model):
    why = model.explain("Zeppelin ask01 XYLOPHONE zeppelin say02", "say01")
    assert why.unknown == ("zeppelin", "xylophone")
    assert "zeppelin, xylophone" in str(why)
    assert model.explain("ask01", "say01 zeppelin").unknown == ()


def test_related_words_are_a_row_of_w(model):
    words = model.query_vectorizer.words_
    W = model.weights.query_factors[words.index("ask05")].astype(float) @ model.weights.doc_factors.T
    W[words.index("ask05")] += model.weights.identity
    order = sorted(range(len(words)), key=lambda j: -abs(W[j]))[:6]
    related = model.related("ask05", 6)
    assert [word for word, _ in related] == [words[j] for j in order]
    assert [weight for _, weight in related] == pytest.approx([W[j] for j in order], abs=1e-5)
    assert model.related(" ASK05!", 6) == related


def test_the_strongest_pairs_are_pairs_of_w(model):
    pairs = model.strongest_pairs(10, min_docs=1)
    assert len(pairs) == 10
    for query_word, doc_word, weight in pairs:
        assert query_word != doc_word
        assert dict(model.related(query_word, 10**6))[doc_word] == pytest.approx(weight, rel=1e-5)
    assert sum(a.startswith("ask") and b == a.replace("ask", "say") for a, b, _ in pairs) >= 8


@pytest.mark.parametrize("word", ["zeppelin", "ask01 ask02", ""])
def test_what_is_no_word_of_the_model_has_no_related_words(model, word):
    with pytest.raises(InputError, match=f"the model does not know the word {word!r}"):
        model.related(word)


def test_weights_must_fit_the_vocabularies():
    words = tc.Vectorizer().fit(["green avocado", "green eyes"])
    with pytest.raises(InputError, match=r"weights have shape \(2, 2\), the vocabularies \(3, 3\)"):
        tc.TextModel(words, words, tc.Weights([Identity(n_terms=2)]))


# -- saving -----------------------------------------------------------------------------------------------------------


def two_vocabularies() -> tc.TextModel:
    french, english = tc.Vectorizer().fit(["le chat", "le chien"]), tc.Vectorizer().fit(["cat", "dog", "bird"])
    W = np.arange(9, dtype=np.float32).reshape(3, 3) / 7
    return tc.TextModel(french, english, tc.Weights([Dense(weights=W)]))


@pytest.mark.parametrize("kind", ["learned", "two vocabularies"])
def test_saved_and_loaded_it_is_the_same(kind, model, corpus, tmp_path):
    saved = model if kind == "learned" else two_vocabularies()
    saved.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert isinstance(loaded, tc.TextModel)
    assert bits(loaded.weights) == bits(saved.weights)
    assert loaded.query_vectorizer.words_ == saved.query_vectorizer.words_
    assert loaded.doc_vectorizer.words_ == saved.doc_vectorizer.words_
    assert (loaded.doc_vectorizer is loaded.query_vectorizer) == (kind == "learned")
    assert loaded.report == saved.report
    assert str(loaded.report) == str(saved.report)
    queries = dict(list(corpus.queries.items())[:5]) | {"x": "chat cat"}
    docs = corpus.docs | {"x": "chat cat bird"}
    assert loaded.rank(queries, docs) == saved.rank(queries, docs)
    loaded.save(tmp_path / "again")
    assert {p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()
    }


@pytest.mark.slow
def test_every_changed_byte_is_noticed(tmp_path):
    two_vocabularies().save(tmp_path)
    rng = np.random.default_rng(0)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for at in np.unique(np.linspace(0, len(whole) - 1, 250).astype(int)):
            changed = bytearray(whole)
            changed[at] ^= int(rng.integers(1, 256))
            path.write_bytes(changed)
            with pytest.raises(BundleError):
                tc.load(tmp_path)
        path.write_bytes(whole)
    tc.load(tmp_path)


def sealed_with(model: tc.TextModel, path, change) -> None:
    """Write the model with a changed manifest under a valid seal: what a buggy or hostile writer could do."""
    model.save(path)
    bundle = read_bundle(path)
    meta = copy.deepcopy(bundle.meta)
    change(meta)
    write_bundle(path, kind=bundle.kind, meta=meta, arrays=bundle.arrays)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("report"),
        lambda m: m.update(extra=1),
        lambda m: m.update(shared_vocabulary=False),
        lambda m: m["weights"]["parts"][0].update(kind="magic"),
        lambda m: m["queries"].update(n_docs=0),
        lambda m: m["report"].update(accepted=1),
        lambda m: m["report"]["systems"][0].update(values=[["AP", 1.0]]),
        lambda m: m["report"].update(change=[0.1]),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(rejected, tmp_path, change):
    sealed_with(rejected, tmp_path, change)
    with pytest.raises(BundleError):
        tc.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["report"]["systems"][0].update(values=[1]),
        lambda m: m["report"]["systems"][0].update(values=[[]]),
        lambda m: m["report"].update(systems=[]),
        lambda m: m["weights"].update(parts=[]),
        lambda m: m["weights"]["parts"][0].update(shape=[3, 3]),
        lambda m: m["weights"]["parts"][0].update(scale=10**400),
    ],
    ids=["value is a number", "value is empty", "no systems", "no parts", "another shape", "endless scale"],
)
def test_a_manifest_that_does_not_fit_is_refused_in_our_words(rejected, tmp_path, change):
    sealed_with(rejected, tmp_path, change)
    with pytest.raises(BundleError):
        tc.load(tmp_path)


# -- input that is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queries", "docs", "k", "message"),
    [
        ({}, TINY.docs, 5, "there are 0 queries and 3 documents; both are needed"),
        ({"q": "bark"}, {}, 5, "there are 1 queries and 0 documents; both are needed"),
        ({"q": "bark"}, TINY.docs, 0, "k must be an integer from 1; got 0"),
        ({"q": 5}, TINY.docs, 5, r"queries\['q'\] is 5; a text, a string, is needed"),
    ],
)
def test_what_cannot_be_ranked_is_named(rejected, queries, docs, k, message):
    with pytest.raises(InputError, match=message):
        rejected.rank(queries, docs, k)
