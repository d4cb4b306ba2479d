"""Confidence of hits: it is as often right as it says, for queries with and without an answer."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from tercet.errors import InputError
from tercet.search import Confidence


@pytest.fixture(scope="module")
def index():
    rng = np.random.default_rng(0)
    docs = {f"d{i}": " ".join(f"w{word}" for word in rng.choice(60, 8, replace=False)) for i in range(100)}
    return tc.Index.build(docs)


def asked(index, seed, n):
    """Queries of one to three words of a document, the more words the easier; every fifth query has no answer."""
    rng = np.random.default_rng(seed)
    queries, qrels = {}, {}
    for number in range(n):
        answer = f"d{rng.integers(100)}"
        words = rng.choice(index.text(answer).split(), int(rng.integers(1, 4)), replace=False)
        queries[str(number)] = " ".join(words)
        qrels[str(number)] = {answer: 1} if number % 5 else {}
    return queries, qrels


def said_and_true(index, confidence, queries, qrels):
    lists = [(index.search(queries[qid]), judged) for qid, judged in qrels.items()]
    said = np.concatenate([confidence(hits) for hits, _ in lists])
    return said, np.array([hit.doc_id in judged for hits, judged in lists for hit in hits])


def test_it_is_as_often_right_as_it_says(index):
    known = asked(index, 1, 300)
    confidence = Confidence.fit(index, *known)
    said, true = said_and_true(index, confidence, *known)
    assert said.mean() == pytest.approx(true.mean(), abs=1e-3)  # at the maximum of the likelihood
    said, true = said_and_true(index, confidence, *asked(index, 2, 1000))
    assert np.mean((said - true) ** 2) < 0.9 * true.mean() * (1 - true.mean())
    for low, high in ((0, 0.2), (0.2, 0.5), (0.5, 1)):
        there = (said >= low) & (said < high)
        assert there.sum() > 50
        assert true[there].mean() == pytest.approx(said[there].mean(), abs=0.1)


def test_its_weights_are_all_of_it(index):
    confidence = Confidence.fit(index, *asked(index, 1, 50))
    hits = index.search("w1 w2 w3")
    np.testing.assert_array_equal(Confidence(confidence.weights)(hits), confidence(hits))
    score, below, lead, position, constant = confidence.weights
    first, second, *_ = (hit.score for hit in hits)
    logit = score * second + below * (second - first) + lead * (first - second) + position * np.log(2) + constant
    assert confidence(hits)[1] == pytest.approx(1 / (1 + np.exp(-logit)))
    assert confidence(hits[:1]).shape == (1,)
    assert confidence(index.search("unknown")).shape == (0,)


def test_what_cannot_be_calibrated_is_refused(index):
    with pytest.raises(InputError, match="'q' is judged"):
        Confidence.fit(index, {}, {"q": {"d1": 1}})
    with pytest.raises(InputError, match="0 are good"):
        Confidence.fit(index, {"q": "w1"}, {"q": {}})
    with pytest.raises(InputError, match="k"):
        Confidence.fit(index, {"q": "w1"}, {"q": {"d1": 1}}, k=1)
