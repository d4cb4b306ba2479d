"""Judgements from clicks: the numbers of the equation, and the truth of the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import clicks as oracle
from tercet.data import ClickLog, Impression, read_qrels
from tercet.errors import InputError
from tercet.fitting.click_judgements import held_out_by_time, judgements_of_clicks, write_click_judgements
from tercet.simulate import Visitors, simulate_clicks

RNG = np.random.default_rng(0)
LISTS = {f"q{number}": [[f"{number}-{position}" for position in RNG.permutation(8)]] for number in range(30)}
GRADES = {query: {doc_id: 1 for doc_id in docs if RNG.random() < 0.3} for query, [docs] in LISTS.items()}
PEOPLE = Visitors(looking=0.9, chances=(0.1, 0.7))


@pytest.mark.parametrize("curve", [(1.0, 0.5, 0.3), tuple(PEOPLE.examination(8).tolist())])
@pytest.mark.parametrize("prior", [0.3, 1.0, 5.0])
def test_values_are_those_of_the_equation(curve, prior):
    log = simulate_clicks(LISTS, GRADES, 300, PEOPLE)
    expected = oracle.clicks_over_expected(log, curve, prior)
    judged = judgements_of_clicks(log, curve, prior=prior)
    found = {(query, doc_id): one.value for query, docs in judged.items() for doc_id, one in docs.items()}
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[pair] for pair in expected], list(expected.values()), rtol=1e-10)


def order_right(judged):
    """Share of relevant and other documents of a query that are in the right order."""
    right = [
        judged[query][better].value > judged[query][worse].value
        for query, [docs] in LISTS.items()
        for better in docs
        for worse in docs
        if query in judged and better in GRADES[query] and worse not in GRADES[query]
    ]
    return np.mean(right)


def test_relevant_documents_are_judged_above_others_and_the_true_curve_judges_best():
    log = simulate_clicks(LISTS, GRADES, 3000, PEOPLE)
    true = order_right(judgements_of_clicks(log, PEOPLE.examination(8).tolist()))
    assert true > 0.95
    assert true > order_right(judgements_of_clicks(log, (1.0,)))
    grades = judgements_of_clicks(log, PEOPLE.examination(8).tolist())
    relevant = [one.grade for query, docs in grades.items() for doc, one in docs.items() if doc in GRADES[query]]
    others = [one.grade for query, docs in grades.items() for doc, one in docs.items() if doc not in GRADES[query]]
    assert np.mean(relevant) > 2 > 1 > np.mean(others)


def test_the_last_tenth_is_ordered_better_than_it_was_shown():
    held_out = held_out_by_time(simulate_clicks(LISTS, GRADES, 3000, PEOPLE), PEOPLE.examination(8).tolist())
    assert held_out.judged > held_out.shown + 0.1
    assert held_out.n_preferences > 100


def test_no_clicks_judge_nothing():
    log = ClickLog((Impression("q", ("a", "b"), ()),) * 20)
    with pytest.raises(InputError, match="nothing was clicked"):
        judgements_of_clicks(log)
    assert held_out_by_time(log) is None


def test_a_query_with_a_blank_before_or_behind_it_is_numbered_as_one_with_a_blank_in_it(tmp_path):
    judged = judgements_of_clicks(ClickLog((Impression(" tea", ("a", "b"), ("b",)), Impression("x", ("a",), ("a",)))))
    texts = write_click_judgements(tmp_path / "judged.qrels", judged)
    assert texts.read_text().splitlines() == ["query_id\ttext", "q1\ttea", "q2\tx"]
    assert set(read_qrels(tmp_path / "judged.qrels")) == {"q1", "q2"}
