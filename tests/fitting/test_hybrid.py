"""Fits with own vectors: what they say is found, what they do not is left out, and what is kept can be served."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import tercet as tc
from tercet.cli.main import cli
from tercet.data import write_qrels
from tercet.errors import InputError
from tercet.text import Analyzer, FieldedVectorizer

K = 4
ANALYZER = Analyzer()
QUICK = {"ranker": "diagonal", "options": {"analyzer": ANALYZER, "n_steps": 3000, "verbose": False}}


def collection(seed=0, n_docs=120, n_queries=30, *, summary_by="vectors"):
    """Queries whose answers are told by turned vectors, or by words; vectors are noise then."""
    rng = np.random.default_rng(seed)
    words = np.array([f"word{i}" for i in range(20)])
    docs = {f"d{i}": " ".join(rng.choice(words, 4)) for i in range(n_docs)}
    queries = {f"q{i}": " ".join(rng.choice(words, 2)) for i in range(n_queries)}
    Z, X = rng.normal(size=(n_docs, K)), rng.normal(size=(n_queries, K))
    turned = np.linalg.qr(rng.normal(size=(K, K)))[0]
    worth = X @ turned @ Z.T
    if summary_by == "words":
        worth = np.array(
            [[len(set(q.split()) & set(d.split())) for d in docs.values()] for q in queries.values()]
        ) + 0.01 * rng.normal(size=worth.shape)
    qrels = {qid: {f"d{j}": 1 for j in np.argsort(-row)[:5].tolist()} for qid, row in zip(queries, worth, strict=True)}
    return docs, queries, qrels, (list(docs), Z), (list(queries), X)


@pytest.fixture(scope="module")
def fitted():
    docs, queries, qrels, doc_vectors, query_vectors = collection()
    model = tc.fit(docs, queries, qrels, doc_vectors=doc_vectors, query_vectors=query_vectors, **QUICK)
    return model, tc.as_documents(docs).with_vectors(doc_vectors), queries, query_vectors


@pytest.mark.slow
def test_what_vectors_say_is_found_and_told(fitted):
    model, *_ = fitted
    assert model.n_dims == K
    report = model.report
    names = [system.name for system in report.systems]
    assert names[0] == "own vectors"
    assert names[-1] == "learned"
    assert report.accepted
    assert any(
        note.startswith(f"Own vectors of {K} numbers, by a map") and "were kept" in note for note in report.notes
    )
    assert report.chosen["own vectors"].startswith("by a map")
    values = {system.name: system.values["nDCG@10"][0] for system in report.systems}
    assert values["learned"] > max(values["own vectors"], values["BM25"]) + 0.2


@pytest.mark.slow
def test_what_vectors_do_not_say_is_left_out():
    docs, queries, qrels, doc_vectors, query_vectors = collection(summary_by="words")
    model = tc.fit(docs, queries, qrels, doc_vectors=doc_vectors, query_vectors=query_vectors, **QUICK)
    assert model.n_dims == 0
    assert not isinstance(model.doc_vectorizer, FieldedVectorizer)
    assert any("were left out" in note for note in model.report.notes)
    assert tc.Index.build(docs, model).search(queries["q0"])  # documents need no vectors


def test_a_query_without_a_vector_is_scored_by_words_and_memory(fitted):
    model, docs, queries, _ = fitted
    text = queries["q0"]
    alone = model.words_alone()
    assert (alone.n_dims, alone.memory) == (0, None)
    expected = alone.rank({"q": text}, dict(docs.items()), k=len(docs))["q"]
    for doc_id, score in model.rank({"q": text}, docs, k=len(docs))["q"].items():
        remembered = 0.0
        if model.memory is not None:
            remembered = model.explain(text, docs.part([doc_id]), doc_id).score - expected[doc_id]
        assert score == pytest.approx(expected[doc_id] + remembered, rel=1e-6, abs=1e-6)


@pytest.mark.slow
def test_index_ranking_reasons_and_saving_agree(fitted, tmp_path):
    model, docs, queries, (qids, X) = fitted
    run = model.rank(queries, docs, 7, (qids, X))
    index = tc.Index.build(docs, model, tmp_path / "index")
    model.save(tmp_path / "model")
    reopened, again = tc.Index.open(tmp_path / "index"), tc.load(tmp_path / "model")
    assert again.rank(queries, docs, 7, (qids, X)) == run
    found = reopened.search_many(queries, 7, query_vectors=(qids, X))
    for number, qid in enumerate(qids):
        assert found[qid] == pytest.approx(run[qid], rel=1e-5)
        assert list(found[qid]) == list(run[qid])
        hits = index.search(queries[qid], 7, vector=X[number])
        assert [hit.doc_id for hit in hits] == list(run[qid])[: len(hits)]
    why = hits[0].why
    total = sum(contribution for *_, contribution in why.pairs) + sum(past.contribution for past in why.past)
    assert total == pytest.approx(hits[0].score, rel=1e-6)
    assert [pair[:2] for pair in why.pairs].count(("own vectors", "own vectors")) == 1
    versus = difference(hits)
    assert versus == pytest.approx(hits[0].score - hits[1].score, rel=1e-6)


def difference(hits):
    why = hits[0]._query.versus(hits[0]._row, hits[1]._row)
    return sum(contribution for *_, contribution in why.pairs) + sum(past.contribution for past in why.past)


def test_a_query_without_a_vector_is_asked_by_its_words_and_one_without_words_by_its_vector(fitted):
    model, docs, queries, (_, X) = fitted
    index = tc.Index.build(docs, model)
    by_words = index.search(queries["q0"], k=20)
    assert by_words
    assert all(pair[0] != "own vectors" for hit in by_words for pair in hit.why.pairs)
    assert not index.search("unheard")
    by_vector = index.search("unheard", k=3, vector=X[0])
    layout = model.doc_vectorizer.layout_
    expected = docs.vectors.astype(float) @ model.adapted_vectors(X[:1])[0].astype(float)
    assert [hit.doc_id for hit in by_vector] == [f"d{i}" for i in np.argsort(-expected)[:3]]
    assert [hit.score for hit in by_vector] == pytest.approx(np.sort(expected)[::-1][:3], rel=1e-5)
    assert layout.n_columns == len(model.doc_vectorizer.words_)


def test_documents_are_added_and_replaced_with_vectors(fitted):
    model, docs, _, (_, X) = fitted
    index = tc.Index.build(docs, model)
    best = index.search("unheard", k=1, vector=X[0])[0]
    new = tc.as_documents({"new": "word1"}).with_vectors({"new": 2 * docs.part([best.doc_id]).vectors[0]})
    index.add(new)
    hit = index.search("unheard", k=1, vector=X[0])[0]
    assert (hit.doc_id, hit.score) == ("new", pytest.approx(2 * best.score, rel=1e-5))
    with pytest.raises(InputError, match="come without; give some"):
        index.add(tc.as_documents({"newer": "word1"}))
    with pytest.raises(InputError, match="shape"):
        index.add(tc.as_documents({"newer": "word1"}).with_vectors({"newer": [1.0]}))


def test_a_thinned_model_keeps_its_map(fitted):
    model, _, _, (_, X) = fitted
    thin = model.thin(0.5)
    np.testing.assert_allclose(thin.adapted_vectors(X), model.adapted_vectors(X))


@pytest.mark.slow
def test_threes_learn_a_map_too():
    docs, queries, qrels, doc_vectors, query_vectors = collection(1)
    rng = np.random.default_rng(1)
    triplets = [(q, d, f"d{rng.integers(120)}") for q, judged in qrels.items() for d in judged for _ in range(4)]
    triplets = [three for three in triplets if three[2] not in qrels[three[0]]]
    model = tc.fit(docs, queries, preferences=triplets, doc_vectors=doc_vectors, query_vectors=query_vectors, **QUICK)
    assert model.n_dims == K


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query_vectors": None}, "query_vectors are missing"),
        ({"doc_vectors": {"d0": [0.0] * K}}, "document 'd1' has no vector"),
        ({"query_vectors": {"q1": [0.0] * K}}, "query 'q0' has no vector"),
        ({"query_vectors": (["q0"], [[0.0]])}, f"have {K} numbers and those of queries 1"),
    ],
)
def test_ids_and_widths_are_checked(changes, message):
    docs, queries, qrels, doc_vectors, query_vectors = collection()
    given = {"doc_vectors": doc_vectors, "query_vectors": query_vectors} | changes
    with pytest.raises(InputError, match=message):
        tc.fit(docs, queries, qrels, **given, **QUICK)


def test_a_model_of_words_takes_no_vectors():
    model = tc.TextModel.bm25(["green tea"])
    with pytest.raises(InputError, match="no own vectors"):
        model.queries(["tea"], [[1.0]])
    with pytest.raises(InputError, match="no own vectors"):
        model.adapted_vectors([[1.0]])


# -- command line and export ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_from_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    docs, queries, qrels, (doc_ids, Z), (qids, X) = collection()
    (tmp_path / "docs.csv").write_text("id,text\n" + "".join(f"{one},{text}\n" for one, text in docs.items()))
    (tmp_path / "queries.csv").write_text("id,text\n" + "".join(f"{one},{text}\n" for one, text in queries.items()))
    write_qrels(tmp_path / "judged.txt", qrels)
    np.save("d.npy", Z)
    (tmp_path / "d.ids").write_text("".join(f"{one}\n" for one in doc_ids))
    np.savez("q.npz", ids=np.array(qids), vectors=X)
    np.save("one.npy", X[0])

    def run(*arguments, fails=False):
        result = CliRunner().invoke(cli, [str(one) for one in arguments])
        assert (result.exit_code != 0) == fails, result.output
        return result.output

    texts = ["docs.csv", "--queries", "queries.csv", "--judgements", "judged.txt"]
    own = ["--vectors", "d.npy", "q.npz"]
    quick = ["--ranker", "diagonal", "--steps", "3000"]
    assert "were kept" in run("fit", *texts, *own, *quick, "-o", "model")
    assert "--doc-vectors" in run("index", "docs.csv", "--model", "model", "-o", "index", fails=True)
    run("index", "docs.csv", "--model", "model", "--doc-vectors", "d.npy", "-o", "index")
    best = run("search", "index", queries["q0"], "--vector", "one.npy", "-k", "1", "--why")
    assert "own vectors" in best
    run("search", "index", "--queries", "queries.csv", "--query-vectors", "q.npz", "-o", "found.run")
    measured = run("eval", *texts, *own, "--model", "model", "-m", "nDCG@10")
    assert "model" in measured
    assert next(iter(tc.data.read_run(tmp_path / "found.run")["q0"])) in best


def test_an_engine_asked_by_adapted_vectors_ranks_as_the_map_does(fitted):
    model, docs, _, (qids, X) = fitted
    engine = model.adapted_vectors(X) @ docs.vectors.T  # what any engine does
    rows = model.queries([""] * len(qids), X)
    np.testing.assert_allclose(engine, model.weights.score(rows, model.docs(docs)), rtol=1e-4, atol=1e-5)
