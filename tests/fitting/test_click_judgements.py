"""Judgements from clicks: the numbers of the equation, and the truth of the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import clicks as oracle
from tercet.data import ClickLog, Impression
from tercet.data.clicks import click_preferences
from tercet.errors import InputError
from tercet.fitting.click_judgements import (
    clicks_over_expected,
    judgements_of_clicks,
    preferred_rows,
)
from tercet.simulate import Visitors, simulate_clicks

RNG = np.random.default_rng(0)
LISTS = {f"q{number}": [[f"{number}-{position}" for position in RNG.permutation(8)]] for number in range(30)}
GRADES = {query: {doc_id: 1 for doc_id in docs if RNG.random() < 0.3} for query, [docs] in LISTS.items()}
PEOPLE = Visitors(looking=0.9, chances=(0.1, 0.7))


def values_of(log, curve, **how):
    """(query, document) -> clicks over expected clicks."""
    shown = log.columns
    pairs = zip(shown.pair_query.tolist(), shown.pair_doc.tolist(), strict=True)
    names = [(shown.queries[query], shown.docs[doc]) for query, doc in pairs]
    return dict(zip(names, clicks_over_expected(shown, curve, **how).tolist(), strict=True))


@pytest.mark.parametrize("curve", [(1.0, 0.5, 0.3), tuple(PEOPLE.examination(8).tolist())])
@pytest.mark.parametrize("prior", [0.3, 1.0, 5.0])
def test_values_are_those_of_the_equation(curve, prior):
    log = simulate_clicks(LISTS, GRADES, 300, PEOPLE)
    expected = oracle.clicks_over_expected(log, curve, prior)
    found = values_of(log, curve, prior=prior)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[pair] for pair in expected], list(expected.values()), rtol=1e-10)


def order_right(value):
    """Share of relevant and other documents of a query that are in the right order."""
    right = [
        value[query, better] > value[query, worse]
        for query, [docs] in LISTS.items()
        for better in docs
        for worse in docs
        if (query, better) in value and better in GRADES[query] and worse not in GRADES[query]
    ]
    return np.mean(right)


def test_relevant_documents_are_judged_above_others_and_the_true_curve_judges_best():
    log = simulate_clicks(LISTS, GRADES, 3000, PEOPLE)
    true = order_right(values_of(log, PEOPLE.examination(8).tolist()))
    assert true > 0.95
    assert true > order_right(values_of(log, (1.0,)))
    qrels = judgements_of_clicks(log, PEOPLE.examination(8).tolist())
    relevant = [grade for query, docs in qrels.items() for doc, grade in docs.items() if doc in GRADES[query]]
    others = [grade for query, docs in qrels.items() for doc, grade in docs.items() if doc not in GRADES[query]]
    assert np.mean(relevant) > 2 > 1 > np.mean(others)


def test_no_clicks_judge_nothing():
    log = ClickLog((Impression("q", ("a", "b"), ()),) * 20)
    with pytest.raises(InputError, match="nothing was clicked"):
        judgements_of_clicks(log)


def test_a_list_with_more_than_64_pairs_keeps_those_that_weigh_most():
    """Beside a short list, and in the order of the log."""
    docs = tuple(f"d{number}" for number in range(40))
    log = ClickLog((Impression("q", docs[:2], docs[:1]), Impression("q", docs, docs[20:24])))
    better, worse, weight = preferred_rows(log.columns, None)
    expected = click_preferences(docs, docs[20:24], "all", most=np.inf)
    assert len(expected) == 64
    names = [log.columns.docs[log.columns.pair_doc[log.columns.pair[row]]] for row in (*better, *worse)]
    found = list(zip(names[: better.size], names[better.size :], weight.tolist(), strict=True))
    assert found == [("d0", "d1", pytest.approx(1 / np.log2(3))), *expected]


@pytest.mark.parametrize("impression", [Impression("q", ("a", "a"), ("a",)), Impression("q", ("a", "b"), ("c",))])
def test_a_list_that_shows_a_document_twice_or_not_at_all_is_refused(impression):
    with pytest.raises(InputError, match=r"impressions\[1\]: document"):
        judgements_of_clicks(ClickLog((Impression("q", ("a", "b"), ("b",)), impression)))
