"""Learning from vectors on disk, by `fit_vectors`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tercet as tc
from support.commands import ok, run
from support.corpora import synonyms
from support.learners import Killed, kill_at, same_bits
from tercet.data import JudgementSampler, recognise
from tercet.errors import InputError
from tercet.fitting.stored import StoredQueries, fit_vectors, judgement_sampler
from tercet.measure import parse_measure
from tercet.text.vectors import Vectors, vectorize
from tercet.weights import Identity, Weights

CORPUS = synonyms(0, n_pairs=20, n_docs=80, n_queries=60)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of vectors."""
    folder = tmp_path_factory.mktemp("home")
    vectorize(CORPUS.docs, CORPUS.queries, folder / "vectors", analyzer=tc.Analyzer(stop_words="english"))
    return folder


@pytest.fixture(scope="module")
def vectors(home: Path) -> Vectors:
    return Vectors.open(home / "vectors", verify="open")


def test_vectors_are_those_of_the_vectorizer(home, vectors):
    vectorizer = tc.Vectorizer(analyzer=tc.Analyzer(stop_words="english"))
    D = vectorizer.fit_transform_docs(CORPUS.docs.values(), queries=CORPUS.queries.values())
    assert (vectors.docs != D).nnz == 0
    assert (vectors.queries != vectorizer.transform_queries(CORPUS.queries.values())).nnz == 0
    assert recognise(home / "vectors") == "vectors"


# -- fit ------------------------------------------------------------------------------------------------------------


def test_a_model_is_learned_from_judgements_and_measured(vectors, tmp_path):
    test = CORPUS.part(40)
    model = fit_vectors(vectors, CORPUS.part(0, 40), test=test, n_steps=20_000, verbose=False)
    assert "36 training queries, 4 for validation, 20 untouched" in str(model.report)
    assert "Learning was accepted: on 4 validation queries" in str(model.report)
    start, learned = (system.values["nDCG@10"][0] for system in model.report.systems)
    assert learned > start + 0.1
    ranked = model.rank({qid: CORPUS.queries[qid] for qid in test}, CORPUS.docs, k=81)
    assert learned == pytest.approx(tc.evaluate(test, ranked, ["nDCG@10"]).mean("nDCG@10"))
    model.save(tmp_path / "model")
    assert "written" in ok("report", tmp_path / "model", "-o", tmp_path / "report.html")


def test_validation_judgements_decide(vectors):
    model = fit_vectors(vectors, CORPUS.part(0, 40), validation=CORPUS.part(40), n_steps=20_000, verbose=False)
    assert "36 training queries, 20 for validation, 4 untouched" in str(model.report)
    assert "on 20 validation queries" in str(model.report)


def test_preferences_of_a_query_belong_to_one_part(vectors):
    prefs = tc.Preferences(*judgement_sampler(vectors, CORPUS.part(0, 40)).draw(np.random.default_rng(0), 3000))
    with pytest.raises(InputError, match="in both preferences and validation"):
        fit_vectors(vectors, prefs, "diagonal", validation=CORPUS.part(30, 50))
    parts = {"validation": CORPUS.part(40, 50), "test": CORPUS.part(50)}
    model = fit_vectors(vectors, prefs, "diagonal", verbose=False, **parts)
    assert (model.report.n_train, model.report.n_validation, model.report.n_test) == (40, 10, 10)
    assert model.report.chosen["steps"] == 3000


def test_preferences_that_say_nothing_are_declined(vectors):
    drawn = judgement_sampler(vectors, CORPUS.part(0, 40)).draw(np.random.default_rng(0), 3000)
    turned = np.arange(3000) % 2 == 1  # half of them the other way round
    better, worse = np.where(turned, drawn[2], drawn[1]), np.where(turned, drawn[1], drawn[2])
    ranker = tc.LowRankRanker(n_components=20, identity_weight=5.0, schedule="linear", rate=0.1, verbose=False)
    model = fit_vectors(vectors, tc.Preferences(drawn[0], better, worse), ranker)
    assert "Learning was rejected; the model is tf-idf" in model.report.decision
    assert same_bits(model.weights, Weights([Identity(n_terms=vectors.docs.shape[1])]))


def test_weights_of_preferences_count_where_they_are_held_out(vectors):
    drawn = tc.Preferences(*judgement_sampler(vectors, CORPUS.part(0, 40)).draw(np.random.default_rng(0), 3000))
    weight = np.random.default_rng(7).choice([0.125, 8.0], len(drawn))
    weighted = tc.Preferences(drawn.query, drawn.better, drawn.worse, weight)
    start, plain = (
        fit_vectors(vectors, prefs, "diagonal", verbose=False).report.systems[0].values["PairAccuracy"][0]
        for prefs in (weighted, drawn)
    )
    assert start != plain


def test_a_fit_goes_on_from_its_checkpoint(vectors, tmp_path):
    qrels = CORPUS.part(0, 40)
    expected = fit_vectors(vectors, qrels, "diagonal", n_steps=20_000, verbose=False)
    callbacks = [tc.Checkpoint(tmp_path / "kept", every=1), kill_at(9000)]
    with pytest.raises(Killed):
        fit_vectors(vectors, qrels, "diagonal", n_steps=20_000, verbose=False, callbacks=callbacks)
    kept = [tc.Checkpoint(tmp_path / "kept", every=1)]
    resumed = fit_vectors(vectors, qrels, "diagonal", n_steps=20_000, verbose=False, callbacks=kept)
    assert same_bits(resumed.weights, expected.weights)


def test_verbs_of_texts_take_no_vectors(home, tmp_path):
    words = tc.Vectorizer().fit(["cats purr"])
    tc.TextModel(words, words, Weights([Identity(n_terms=2)])).save(tmp_path / "words")
    for command in (("index", home / "vectors", "--model", tmp_path / "words"), ("fit", home / "vectors")):
        result = run(*command, "-o", tmp_path / "x")
        assert result.exit_code == 1
        assert "recognised as 'vectors'" in result.output


# -- the recipe -----------------------------------------------------------------------------------------------------


def test_a_fit_has_the_bits_of_one_in_memory(vectors):
    qrels = CORPUS.part(0, 40)
    D, Q = vectors.docs.copy(), vectors.queries.copy()
    rows = [{name: at for at, name in enumerate(names)} for names in (CORPUS.queries, CORPUS.docs)]
    sampler = JudgementSampler.from_qrels(qrels, n_docs=81, query_rows=rows[0], doc_rows=rows[1])
    source = tc.learn.SampledSource(sampler, 5000, random_state=3)
    expected = tc.SparseRanker(random_state=3, verbose=False).fit(Q, source, D)
    ranker = tc.SparseRanker(random_state=3, verbose=False)
    held_out = {"validation": CORPUS.part(40, 50), "test": CORPUS.part(50)}
    fitted = fit_vectors(vectors, qrels, ranker, n_steps=5000, random_state=3, **held_out)
    assert same_bits(ranker.weights_, expected.weights_)
    assert fitted.report.n_train == 40


def test_a_tenth_of_the_queries_is_held_out_for_each(vectors):
    qrels = CORPUS.part(0, 60)
    model = fit_vectors(vectors, qrels, n_steps=20_000, verbose=False)
    assert (model.report.n_train, model.report.n_validation, model.report.n_test) == (48, 6, 6)
    assert model.report.split == "6 of the training queries were held out for validation and 6 for test."
    assert not model.report.crossed
    assert model.report.accepted
    assert [system.name for system in model.report.systems] == ["tf-idf", "learned"]


def test_what_does_not_help_is_declined(vectors):
    rng = np.random.default_rng(0)
    doc_ids = list(CORPUS.docs)
    noise = {qid: {doc_ids[rng.integers(len(doc_ids))]: 1} for qid in CORPUS.part(0, 40)}
    parts = {"validation": CORPUS.part(40, 50), "test": CORPUS.part(50)}
    model = fit_vectors(vectors, noise, n_steps=20_000, verbose=False, **parts)
    assert not model.report.accepted
    assert "Learning was rejected; the model is tf-idf" in model.report.decision
    assert same_bits(model.weights, Weights([Identity(n_terms=vectors.docs.shape[1])]))
    assert [system.name for system in model.report.systems] == ["tf-idf"]


def test_preferences_of_a_query_are_held_out_together(vectors):
    prefs = tc.Preferences(*judgement_sampler(vectors, CORPUS.part(0, 60)).draw(np.random.default_rng(0), 30_000))
    ranker = tc.LowRankRanker(n_components=20, identity_weight=5.0, schedule="linear", rate=0.1, verbose=False)
    model = fit_vectors(vectors, prefs, ranker)
    assert (model.report.n_train, model.report.n_validation, model.report.n_test) == (48, 6, 6)
    assert model.report.measure == "PairAccuracy"
    assert ranker.n_steps_ < 30_000
    assert model.report.accepted
    start, learned = (system.values["PairAccuracy"][0] for system in model.report.systems)
    assert learned > start
    judged = fit_vectors(
        vectors, prefs[prefs.query < 40], "diagonal", validation=CORPUS.part(40, 50), test=CORPUS.part(50)
    )
    assert (judged.report.n_validation, judged.report.n_test, judged.report.measure) == (10, 10, "nDCG@10")


def test_two_vocabularies_are_learned_and_measured(tmp_path):
    queries, docs = (tc.Vectorizer().fit(side.values()) for side in (CORPUS.queries, CORPUS.docs))
    two = vectorize(CORPUS.docs, CORPUS.queries, tmp_path / "two", vectorizer=docs, query_vectorizer=queries)
    model = fit_vectors(two, CORPUS.part(0, 40), n_steps=2000, test=CORPUS.part(40), verbose=False)
    assert model.weights.shape == (len(queries.words_), len(docs.words_))
    assert [system.name for system in model.report.systems] == ["learned"]
    assert "nothing to compare it with" in str(model.report)


def test_measuring_by_blocks_is_measuring_the_whole(vectors, monkeypatch):
    weights = Weights([Identity(n_terms=vectors.docs.shape[1])])
    test = CORPUS.part(40)
    queries = StoredQueries(vectors, test, parse_measure("AP"))
    whole = queries.evaluate(weights, ["nDCG@10", "AP"])
    monkeypatch.setattr("tercet.data.matrix.BLOCK_ENTRIES", 20)
    monkeypatch.setattr("tercet.fitting.stored._QUERIES_AT_ONCE", 3)
    parted = queries.evaluate(weights, ["nDCG@10", "AP"])
    np.testing.assert_array_equal(parted.values, whole.values)
    assert parted.qids == whole.qids == tuple(test)
    asked = {qid: CORPUS.queries[qid] for qid in test}
    everything = tc.TextModel(vectors.vectorizer, vectors.vectorizer, weights).rank(asked, CORPUS.docs, k=81)
    np.testing.assert_allclose(parted.values, tc.evaluate(test, everything, ["nDCG@10", "AP"]).values)


def test_what_cannot_be_learned_says_why(vectors, tmp_path):
    with pytest.raises(InputError, match=r"qrels: .* query 'nobody'"):
        fit_vectors(vectors, {"nobody": {"d1": 1}})
    with pytest.raises(InputError, match=r"qrels: .* document 'nothing'"):
        fit_vectors(vectors, {"q1": {"nothing": 1}})
    with pytest.raises(InputError, match=r"test: .* grade above 0"):
        fit_vectors(vectors, CORPUS.part(0, 40), test={"q1": {"d1": 0}})
    with pytest.raises(InputError, match="query 'q39' is judged in both qrels and test"):
        fit_vectors(vectors, CORPUS.part(0, 40), test=CORPUS.part(39))
    with pytest.raises(InputError, match="n_steps"):
        fit_vectors(vectors, CORPUS.part(0, 40), n_steps=0)
    with pytest.raises(InputError, match="expected a term-pair ranker, or one of low-rank"):
        fit_vectors(vectors, CORPUS.part(0, 40), "best")
    with pytest.raises(InputError, match="1 queries with preferences are too few to hold any out"):
        fit_vectors(vectors, tc.Preferences([0], [1], [2]))
    with pytest.raises(InputError, match="preferences are measured by PairAccuracy"):
        fit_vectors(vectors, tc.Preferences(range(40), [1] * 40, [2] * 40), measure="AP")
    with pytest.raises(InputError, match="learn_from must be judgements or Preferences; got SampledSource"):
        fit_vectors(vectors, tc.learn.SampledSource(judgement_sampler(vectors, CORPUS.part(0, 40)), 2000))
    with pytest.raises(InputError, match="n_steps is for preferences drawn"):
        fit_vectors(vectors, tc.Preferences([0], [1], [2]), n_steps=10)
    without = vectorize(CORPUS.docs, None, tmp_path / "vectors")
    with pytest.raises(InputError, match="has no queries"):
        fit_vectors(without, CORPUS.part(0, 40))
