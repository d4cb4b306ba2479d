"""Confidence of hits: it is as often right as it says, for queries with and without an answer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tercet as tc
from tercet.cli.main import cli
from tercet.errors import InputError
from tercet.measure import Confidence

N_DOCS = 100


@pytest.fixture(scope="module")
def docs():
    rng = np.random.default_rng(0)
    return {f"d{i}": " ".join(f"w{word}" for word in rng.choice(60, 8, replace=False)) for i in range(N_DOCS)}


def asked(docs, seed, n, n_words=(1, 4)):
    """Queries of one to three words of a document, the more words the easier; every fifth query has no answer."""
    rng = np.random.default_rng(seed)
    queries, qrels = {}, {}
    for number in range(n):
        answer = f"d{rng.integers(N_DOCS)}"
        words = rng.choice(docs[answer].split(), int(rng.integers(*n_words)), replace=False)
        queries[str(number)] = " ".join(words)
        qrels[str(number)] = {answer: 1} if number % 5 else {}
    return queries, qrels


def confident_and_right(index, queries, qrels):
    lists = [(index.search(queries[qid]), judged) for qid, judged in qrels.items()]
    confident = np.array([hit.confidence for hits, _ in lists for hit in hits])
    return confident, np.array([hit.doc_id in judged for hits, judged in lists for hit in hits])


def calibration_error(confident, right):
    """Expected calibration error over tenths."""
    tenth = np.minimum((confident * 10).astype(int), 9)
    gaps = [abs(confident[tenth == number].sum() - right[tenth == number].sum()) for number in range(10)]
    return sum(gaps) / len(confident)


def test_it_is_as_often_right_as_it_says(docs):
    index = tc.Index.build(docs)
    known = asked(docs, 1, 300)
    index.calibrate(*known)
    confident, right = confident_and_right(index, *known)
    assert confident.mean() == pytest.approx(right.mean(), abs=1e-3)  # at the maximum of the likelihood
    confident, right = confident_and_right(index, *asked(docs, 2, 1000))
    assert np.mean((confident - right) ** 2) < 0.9 * right.mean() * (1 - right.mean())
    assert calibration_error(confident, right) < 0.02


def test_a_fitted_model_is_calibrated_by_the_queries_that_were_left_out(docs):
    """Queries have words of their own for the words of documents, so that scores change with what is learned."""
    queries, qrels = asked(docs, 3, 400, (2, 4))
    queries = {qid: text.replace("w", "q") for qid, text in queries.items()}
    answered = [qid for qid, judged in qrels.items() if judged]
    train = answered[:260]
    model = tc.fit(docs, {qid: queries[qid] for qid in train}, {qid: qrels[qid] for qid in train})
    assert model.report.accepted
    assert model.confidence is not None
    index = tc.Index.build(docs, model)
    test = {qid: qrels[qid] for qid in answered[260:]}
    confident, right = confident_and_right(index, queries, test)
    assert confident[right].mean() > 2 * confident[~right].mean()
    assert calibration_error(confident, right) < 0.08


def test_the_calibration_is_kept_with_the_index(docs, tmp_path):
    index = tc.Index.build(docs, path=tmp_path / "index")
    assert index.search("w1 w2")[0].confidence is None
    confidence = index.calibrate(*asked(docs, 1, 100))
    [*expected] = [(hit.doc_id, hit.confidence) for hit in index.search("w1 w2")]
    opened = tc.Index.open(tmp_path / "index")
    assert opened.model.confidence == confidence
    assert [(hit.doc_id, hit.confidence) for hit in opened.search("w1 w2")] == expected
    assert [hit.confidence for hit in opened.search("w1 w2", k=1)] == [expected[0][1]]
    assert opened.search("w1 w2").to_frame()["confidence"].tolist() == [value for _, value in expected]
    done = CliRunner().invoke(cli, ["search", str(tmp_path / "index"), "w1 w2", "--json"])
    assert done.exit_code == 0, done.output
    assert [hit["confidence"] for hit in json.loads(done.stdout)["hits"]] == pytest.approx([v for _, v in expected])
    opened.take_back()
    assert opened.search("w1 w2")[0].confidence is None


def test_another_model_is_not_calibrated(docs):
    index = tc.Index.build(docs)
    index.calibrate(*asked(docs, 1, 100))
    assert index.model.confidence is not None
    assert index.model.thin(0.5).confidence is None
    index.add({"new": "w1 and words that nobody knows"})
    assert index.search("w1")[0].confidence is not None


def test_its_weights_are_all_of_it():
    confidence = Confidence((1.0, 0.5, 0.25, -0.125, -2.0))
    probabilities = confidence([4.0, 3.0])
    logit = 3.0 + 0.5 * -1.0 + 0.25 * 1.0 - 0.125 * np.log(2) - 2.0
    assert probabilities[1] == pytest.approx(1 / (1 + np.exp(-logit)))
    assert confidence([4.0]).shape == (1,)
    assert confidence([]).shape == (0,)


def test_queries_that_cannot_calibrate_are_refused(docs):
    index = tc.Index.build(docs)
    with pytest.raises(InputError, match="'q' is judged"):
        index.calibrate({}, {"q": {"d1": 1}})
    with pytest.raises(InputError, match="0 are right"):
        index.calibrate({"q": "w1"}, {"q": {}})
    with pytest.raises(InputError, match="k"):
        index.calibrate({"q": "w1"}, {"q": {"d1": 1}}, k=1)
