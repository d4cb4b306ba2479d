"""Learning from triplets: a query, a better document and a worse one."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from support.corpora import synonyms
from tercet.errors import InputError
from tercet.fitting.judged import QueryNames
from tercet.fitting.preference_pairs import PreferredPairs
from tercet.measure.held_out import HeldOutPreferences

CORPUS = synonyms(3, n_pairs=12, n_docs=60, n_queries=80)


def triplets_of(qids, n_each=12, seed=0, right=True) -> list[tuple[str, str, str]]:
    """A relevant document before one that is not; the other way round, or at random, where nothing is right."""
    rng = np.random.default_rng(seed)
    doc_ids, triplets = list(CORPUS.docs), []
    for qid in qids:
        relevant = [d for d, grade in CORPUS.qrels[qid].items() if grade > 0]
        others = [d for d in doc_ids if d not in relevant]
        for _ in range(n_each):
            pair = relevant[rng.integers(len(relevant))], others[rng.integers(len(others))]
            triplets.append((qid, *(pair if right or rng.random() < 0.5 else pair[::-1])))
    return triplets


QUICK = {"n_steps": 10_000, "verbose": False}


@pytest.fixture(scope="module")
def model():
    return tc.fit(CORPUS.docs, CORPUS.queries, preferences=triplets_of(CORPUS.qrels), options=QUICK)


@pytest.mark.slow
def test_threes_are_held_out_by_query_and_reported_against_the_baselines(model):
    report = model.report
    assert report.accepted
    assert (report.n_train, report.n_validation, report.n_test) == (80, 80, 80)
    assert report.measure == "PairAccuracy"
    assert {"tf-idf", "BM25", "learned"} <= {system.name for system in report.systems}
    assert report.rivals[0].name == "past queries appended"
    assert "Each query was left out twice, in 5 folds" in report.split
    start, learned = (system.values["PairAccuracy"] for system in report.systems[-2:])
    assert learned[0] > start[0]
    assert learned[1] <= learned[0] <= learned[2]
    assert report.details.data["kind"] == "preferences"
    assert report.details.data["n_preferences"] == 80 * 12


@pytest.mark.slow
def test_threes_that_say_nothing_are_declined():
    report = tc.fit(
        CORPUS.docs, CORPUS.queries, preferences=triplets_of(CORPUS.qrels, right=False), options=QUICK
    ).report
    assert not report.accepted
    assert report.decision.startswith("Not used: ")


@pytest.mark.slow
def test_queries_may_be_texts(model):
    triplets = [(CORPUS.queries[qid], better, worse) for qid, better, worse in triplets_of(CORPUS.qrels)]
    assert len({query for query, *_ in triplets}) == 80
    fitted = tc.fit(CORPUS.docs, preferences=triplets, options=QUICK)
    assert fitted.report.n_train == model.report.n_train
    assert fitted.report.accepted


@pytest.mark.slow
def test_a_tie_counts_a_half(model):
    Q, D = model.queries(["nobody"]), model.docs(list(CORPUS.docs.values()))
    held_out = HeldOutPreferences(Q, D, tc.Preferences([0, 0], [1, 2], [3, 4]), ("q",))
    assert held_out(model.weights) == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "something to learn from: qrels, preferences or clicks"),
        ({"preferences": [("q1", "d1", "d2", 0)]}, r"preferences\[0\] has the weight 0; a positive number is needed"),
        ({"preferences": [("q1", "d1", "d2", 10**400)]}, r"preferences\[0\] has the weight 1000"),
        ({"preferences": [("q1", "nothing", "d1")]}, r"preferences\[0\] names document 'nothing'"),
        ({"preferences": [("nobody", "d1", "d2")]}, r"preferences\[0\] is of query 'nobody'"),
        ({"preferences": [("q1", "d1", "d1")]}, "'d1' is better than itself"),
        ({"preferences": [("q1", "d1")]}, r"preferences\[0\] must be a query, a better and a worse document"),
        ({"preferences": "q1"}, "preferences must be triplets"),
        ({"preferences": []}, "preferences have no preference"),
        ({"preferences": triplets_of(CORPUS.qrels), "measure": "AP"}, "measured by PairAccuracy; got 'AP'"),
    ],
)
def test_what_cannot_be_learned_from_says_why(arguments, message):
    with pytest.raises(InputError, match=message):
        tc.fit(CORPUS.docs, CORPUS.queries, **arguments)


def test_weights_may_be_numbers_of_numpy():
    three = next(iter(triplets_of(CORPUS.qrels)))[:3]
    names, rows = QueryNames(CORPUS.queries), {doc_id: row for row, doc_id in enumerate(CORPUS.docs)}
    weights = (2, np.int64(2), np.float32(2.0))
    found = [PreferredPairs.from_triplets([(*three, weight)], "preferences", names, rows).weight for weight in weights]
    assert [one.tolist() for one in found] == [[2.0]] * 3


def test_judgements_need_queries():
    with pytest.raises(InputError, match="judgements are of queries"):
        tc.fit(CORPUS.docs, qrels=CORPUS.qrels)
