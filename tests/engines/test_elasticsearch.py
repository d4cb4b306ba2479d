"""Queries rewritten for Elasticsearch and OpenSearch, run by the Lucene classes that those engines build them of."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from support.exports import DOCS, engine_chain, read_bulk, small_model
from support.lucene import lucene, missing
from support.ranked_texts import QUERIES, model_of, texts
from tercet.cli.main import cli
from tercet.engines import boosted_query, write_rank_features
from tercet.engines.elasticsearch import index_settings, rewrite
from tercet.engines.impacts import ImpactRows
from tercet.engines.rank_features import held_by_lucene
from tercet.errors import InputError
from tercet.weights import Dense, Identity, LowRank, Sparse

needs_lucene = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """A low-rank model's documents, as exported, in an index with the mapping that is asked for."""
    docs = texts(7)
    model = model_of(docs, low_rank=True, seed=7)
    path = tmp_path_factory.mktemp("bulk") / "docs.ndjson"
    write_rank_features(path, model, docs, max_terms=1000)
    settings = index_settings(model, "body")
    fields = settings["mappings"]["properties"]
    asked = {"tokenizer": ["keyword", {}]}
    text = {"type": "text", "analyzer": engine_chain(settings, path.parent), "search_analyzer": asked}
    fields = fields | {"body": text}
    rows = [{"_id": doc_id, "body": docs[doc_id], **added} for doc_id, added in read_bulk(path).items()]
    output = settings["settings"]["similarity"]["tercet"]
    lucene()("index", name="elastic", fields=fields, docs=rows, k1=output["k1"], b=output["b"])
    return {"docs": docs, "model": model}


def found_by(body: dict, docs: dict[str, str]) -> tuple[list[str], np.ndarray]:
    [answer] = lucene()("search", name="elastic", bodies=[body])
    scores = dict(answer["hits"])
    return [doc_id for doc_id, _ in answer["hits"]], np.array([scores.get(doc_id, np.nan) for doc_id in docs])


@needs_lucene
@pytest.mark.parametrize("clauses", ["rank_feature", "sparse_vector"])
def test_folded_scores_are_the_models_but_for_a_number_of_the_query(engine, clauses):
    docs, model = engine["docs"], engine["model"]
    for query in QUERIES:
        body = rewrite(model, query, form="folded", size=len(docs), clauses=clauses)
        _, scores = found_by(body, docs)
        exact = model.weights.score(model.queries([query]), model.docs(list(docs.values())))[0]
        gap = scores - exact
        assert np.ptp(gap) < 0.01 * scores.max()  # each feature is off by 1/512 of itself at most
        assert gap.min() > 0


@needs_lucene
def test_impacts_are_scores_without_what_is_negative(engine):
    docs, model = engine["docs"], engine["model"]
    words = model.query_vectoriser
    D = model.docs(list(docs.values()))
    for query in QUERIES:
        _, scores = found_by(rewrite(model, query, form="impacts", size=len(docs)), docs)
        row = model.queries([query])
        said = sum(
            np.maximum(model.weights.score(np.eye(len(words.words_))[[j]], D)[0], 0) * value
            for j, value in zip(row.indices, row.data, strict=True)
        )
        assert np.nan_to_num(scores) == pytest.approx(said, rel=2e-3, abs=1e-6)


@needs_lucene
@pytest.mark.parametrize("text_field", [None, "body"])
def test_what_is_rescored_is_in_the_order_of_the_model(engine, text_field):
    docs, model = engine["docs"], engine["model"]
    for query in QUERIES:
        body = rewrite(model, query, size=30, window=30, text_field=text_field, max_terms=8)
        listed, _ = found_by(body, docs)
        first, _ = found_by({"query": body["query"], "size": 30}, docs)
        assert set(listed) == set(first)  # of the window, and no others
        positions = [list(docs).index(doc_id) for doc_id in listed]
        exact = model.weights.score(model.queries([query]), model.docs(list(docs.values())))[0]
        assert (np.diff(exact[positions]) < 0.02 * np.abs(exact).max()).all()


@needs_lucene
def test_boosted_terms_are_those_of_the_query_string(engine):
    docs, model = engine["docs"], engine["model"]
    for query in QUERIES:
        body = rewrite(model, query, form="boosted", text_field="body", size=len(docs))
        _, scores = found_by(body, docs)
        text = boosted_query(model, query, digits=9).text
        _, same = found_by(
            {"query": {"query_string": {"query": text, "default_field": "body"}}, "size": len(docs)}, docs
        )
        assert np.isfinite(scores).any()
        np.testing.assert_allclose(scores, same, rtol=1e-5)


@needs_lucene
def test_the_settings_of_an_index_cut_texts_as_the_model_does(tmp_path):
    for analyser in (
        tc.Analyser(stop_words="english", stemmer="english"),
        tc.Analyser(lowercase=False),
        tc.Analyser(stemmer="german", stop_words=["und", "der"]),
        tc.Analyser(stop_words=["Die", "DER"]),
        tc.Analyser(stop_words=["Die", "DER"], lowercase=False),
    ):
        lines = [*texts(8).values(), "Die Häuser und der Fluß", "Running U.S.A. x86_64 don't — naïve"]
        model = tc.TextModel.bm25(lines, analyser)
        found = lucene()("analysed", chain=engine_chain(index_settings(model, "body"), tmp_path), texts=lines)
        assert [[term for term, _, _ in line] for line in found] == [analyser(line) for line in lines]


# -- without an engine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lowercase", "dropped"), [(True, ["the", "of"]), (False, ["The", "OF"])])
def test_stop_words_are_dropped_in_whatever_case_the_model_drops_them(lowercase, dropped):
    model = tc.TextModel.bm25(DOCS.values(), tc.Analyser(stop_words=["The", "OF"], lowercase=lowercase))
    filters = index_settings(model, "body")["settings"]["analysis"]["filter"]
    assert filters["tercet_stop"]["stopwords"] == dropped


@given(st.floats(min_value=2.0**-100, max_value=2.0**100, width=32))
def test_rounding_is_to_what_lucene_keeps(value):
    held = held_by_lucene(np.array([value]))
    assert held[0].view(np.int32) & 0x7FFF == 0
    assert held[0] == pytest.approx(value, rel=2**-9)


def test_folded_rows_score_as_the_model():
    """The sum over a query's clauses, minus what was added, in NumPy."""
    rng = np.random.default_rng(3)
    words = tc.Vectoriser(weighting="bm25").fit(DOCS.values())
    n = len(words.words_)
    parts = [
        Identity(n_terms=n, scale=2.0),
        LowRank(query_factors=rng.normal(size=(n, 3)).astype("f4"), doc_factors=rng.normal(size=(n, 3)).astype("f4")),
        LowRank(
            query_factors=rng.normal(size=(n, 2)).astype("f4"),
            doc_factors=rng.normal(size=(n, 2)).astype("f4"),
            typical_length=1.5,
            unit_queries=True,
            scale=-0.7,
        ),
    ]
    model = tc.TextModel(words, words, tc.Weights(parts))
    rows = ImpactRows(model, DOCS, fold=True)
    values = np.zeros((len(DOCS), len(rows.words)))
    for at, (_, columns, exact) in enumerate(rows.exact()):
        values[at, columns] = exact
    assert values.min() >= 0
    for query in ("hockey", "ball puck", "quiet hockey bat"):
        found = boosted_query(model, query, max_terms=None, index="folded")
        assert not found.negative
        weights = np.zeros(len(rows.words))
        for word, weight in found.clauses:
            weights[rows.words.index(word)] = weight
        exact = model.weights.score(model.queries([query]), model.docs(list(DOCS.values())))[0]
        assert np.ptp(values @ weights - exact) == pytest.approx(0, abs=1e-5)


def test_words_that_are_asked_keep_more_documents():
    docs = texts(9, n=80)
    model = model_of(docs, low_rank=True, seed=9)
    words = model.query_vectoriser
    asked = ["milk acne", "milk", "milk sugar"]
    rows = ImpactRows(model, docs, queries=asked, mean_terms=3)
    kept = np.zeros(len(words.words_))
    own = model.docs(list(docs.values())).toarray() > 0
    exact = model.weights.score(np.eye(len(words.words_)), model.docs(list(docs.values()))).T
    for at, (_, columns, _) in enumerate(rows.exact()):
        assert set(np.flatnonzero(own[at] & (exact[at] > 0))) <= set(columns.tolist())
        kept[[j for j in columns if not own[at, j]]] += 1
    milk, heart = words.index_["milk"], words.index_["heart"]
    assert kept[milk] == np.count_nonzero((exact[:, milk] > 0) & ~own[:, milk])
    assert kept[heart] < kept[milk]
    assert rows.n_left_out > 0
    with pytest.raises(InputError, match="keep all"):
        ImpactRows(model, docs, fold=True, queries=asked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "splade"}, "form must be one of"),
        ({"form": "boosted"}, "name its text_field"),
        ({"clauses": "knn"}, "clauses must be"),
        ({"size": 0}, "size must be an integer from 1"),
        ({"window": "x"}, "window must be an integer"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        rewrite(small_model({}), "hockey", **options)


def test_what_cannot_be_folded_or_cut_alike_is_refused(tmp_path):
    negative = small_model({("hockey", "bat"): -0.5})
    with pytest.raises(InputError, match="the word 'bat' the weight -"):
        rewrite(negative, "hockey", form="folded")
    assert rewrite(negative, "unheard", form="folded")["query"] == {"match_none": {}}
    other = tc.TextModel.bm25(DOCS.values(), tc.Analyser(pattern=r"\S+"))
    with pytest.raises(InputError, match="cannot tokenise texts"):
        index_settings(other, "body")
    dotted = tc.TextModel.bm25(["a.b c"], tc.Analyser(pattern=r"\S+"))
    with pytest.raises(InputError, match="has a dot in it"):
        write_rank_features(tmp_path / "x", dotted, {"d": "a.b"})
    plain = tc.TextModel.bm25(["ice tea"]).query_vectoriser
    across = tc.TextModel(plain, dotted.doc_vectoriser, tc.Weights([Dense(weights=np.ones((2, 2)))]))
    with pytest.raises(InputError, match=r"the word 'a\.b' has a dot in it"):
        write_rank_features(tmp_path / "x", across, {"d": "a.b"})
    taken = tc.Vectoriser(analyser=tc.Analyser(pattern=r"\S+")).fit(["§0+ ice"])
    factors = np.ones((2, 1), dtype=np.float32)
    latent = tc.TextModel(taken, taken, tc.Weights([LowRank(query_factors=factors, doc_factors=factors)]))
    with pytest.raises(InputError, match="has the name of a latent feature"):
        ImpactRows(latent, {"d": "ice"}, fold=True)
    assert list(tmp_path.iterdir()) == []


def test_the_commands_write_bulk_lines_and_bodies(tmp_path):
    model = small_model({("hockey", "puck"): 0.8})
    model.save(tmp_path / "model")
    (tmp_path / "corpus.jsonl").write_text(
        "\n".join(json.dumps({"_id": d, "title": "", "text": t}) for d, t in DOCS.items())
    )
    (tmp_path / "asked.jsonl").write_text(json.dumps({"_id": "q", "text": "hockey"}))
    run = CliRunner().invoke
    positions = [str(tmp_path / "corpus.jsonl"), "--model", str(tmp_path / "model")]
    out = tmp_path / "docs.ndjson"
    asked = ["--queries", str(tmp_path / "asked.jsonl"), "--terms", "4"]
    done = run(cli, ["export", "documents", *positions, "--form", "elasticsearch", *asked, "-o", str(out)])
    assert done.exit_code == 0, done.output
    written = read_bulk(out)
    assert list(written) == list(DOCS)
    assert written["d1"]["tercet_impacts"]["hockey"] > 0
    for form in ("impacts", "folded", "rescore"):
        done = run(cli, ["export", "query", "hockey", "--form", form, "--model", str(tmp_path / "model")])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout) == rewrite(model, "hockey", form=form)
    done = run(cli, ["export", "documents", *positions, "--terms", "2", "-o", str(tmp_path / "few.jsonl")])
    assert done.exit_code == 0, done.output
    assert all(len(json.loads(line)["vector"]) <= 2 for line in (tmp_path / "few.jsonl").read_text().splitlines())
    boosted = ["export", "query", "hockey", "--form", "boosted", "--model", str(tmp_path / "model")]
    assert run(cli, boosted).exit_code == 2
    assert run(cli, [*boosted, "--field", "body"]).exit_code == 0


def test_a_low_rank_part_next_to_sparse_pairs_is_folded_where_nothing_is_negative():
    words = tc.Vectoriser(weighting="bm25").fit(DOCS.values())
    n = len(words.words_)
    pairs = sparse.csr_array(np.full((n, n), 0.1, dtype=np.float32))
    factors = np.ones((n, 1), dtype=np.float32)
    both = [Sparse(weights=pairs), LowRank(query_factors=-factors, doc_factors=factors)]
    model = tc.TextModel(words, words, tc.Weights(both))
    vector = rewrite(model, "hockey", form="folded", clauses="sparse_vector")["query"]["sparse_vector"]["query_vector"]
    assert {"§0-", "puck", "hockey"} <= set(vector)
    assert len(vector) == n + 1
