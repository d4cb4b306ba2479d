"""Every ranker of the papers behind tc.fit: one registry, and the same model, report, index and page for each."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import oracles
import tercet as tc
from support.corpora import bits, synonyms
from tercet.errors import InputError
from tercet.fitting.rankers import NAMED_RANKERS, NameWithParameters, candidates_of
from tercet.learn import RANKERS, CorrelatedRanker, MultiTaskRanker
from tercet.report.page import make_report_page

SMALL = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
LEARNS_FROM_PREFERENCES = sorted(NAMED_RANKERS.keys() - {"lsi", "cosine", "diagonal", "correlated"})


def fit(ranker=None, **options):
    """A small budget leaves one fold of known answers."""
    options = {"n_steps": 3000, "budget": 0.01} | options
    return tc.fit(SMALL.docs, SMALL.queries, SMALL.part(0, 48), ranker=ranker, options=options)


def test_every_ranker_has_a_name_or_a_reason_why_not():
    assert {named.cls for named in NAMED_RANKERS.values()} | {MultiTaskRanker} == set(RANKERS.values())


def test_a_ranker_says_what_a_step_costs():
    learned = tc.LowRankRanker(n_components=10)
    kept = tc.LowRankRanker(n_components=10, learn_documents=False)
    costs = [one.cost_per_step(3, 50) for one in (tc.DiagonalRanker(), kept, learned, tc.DenseRanker())]
    assert costs == sorted(set(costs))
    assert learned.cost_per_step(6, 100) == 2 * learned.cost_per_step(3, 50)
    assert tc.DenseRanker().cost_per_step(6, 100) == 4 * tc.DenseRanker().cost_per_step(3, 50)


@pytest.mark.parametrize(
    ("ranker", "unit"),
    [
        (tc.DenseRanker(), 1.0),
        (tc.LowRankRanker(identity_weight=5.0), 5.0),
        (tc.LowRankRanker(identity_weight=0.0, diagonal=None), 1.0),
        (tc.SparseRanker(sparsify="low-rank", density=0.1, low_rank=tc.LowRankRanker(identity_weight=4.0)), 4.0),
        (tc.SparseRanker(low_rank=tc.LowRankRanker(identity_weight=4.0)), 1.0),
        (CorrelatedRanker(identity_weight=10.0), 10.0),
    ],
)
def test_blends_are_in_units_of_the_identity_that_a_ranker_starts_from(ranker, unit):
    [candidate, *_] = candidates_of(ranker, 0)
    assert candidate.unit == unit


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED_RANKERS)
def test_a_ranker_by_name_makes_a_whole_model(name, tmp_path):
    model = fit(ranker=name)
    report = model.report
    if name in LEARNS_FROM_PREFERENCES:
        assert report.accepted
        assert report.chosen["ranker"] == name
    model.save(tmp_path / "model")
    again = tc.load(tmp_path / "model")
    assert bits(again.weights) == bits(model.weights)
    assert str(again.report) == str(report)
    query = "ask03 common01"
    run = model.rank({"q": query}, SMALL.docs)["q"]
    hits = tc.Index.build(SMALL.docs, model).search(query, k=5)
    np.testing.assert_allclose([hit.score for hit in hits], [run[hit.doc_id] for hit in hits], rtol=1e-4, atol=1e-6)
    best = hits[0].doc_id
    why = model.explain(query, SMALL.docs[best], best)
    assert why.score == pytest.approx(run[best], rel=1e-5)
    total = sum(contribution for *_, contribution in why.pairs) + sum(past.contribution for past in why.past)
    assert total == pytest.approx(why.score, rel=1e-5)
    assert report.chosen.get("ranker", "BM25") in make_report_page(report)


@pytest.mark.slow
def test_a_name_is_what_it_stands_for():
    assert bits(fit(ranker="low-rank").weights) == bits(fit().weights)


def test_an_estimator_is_taken_as_it_is_and_stays_so():
    ranker = tc.SparseRanker(density=0.3, rate=2.0, schedule="constant", refit=False, random_state=5)
    model = fit(ranker=ranker)
    with pytest.raises(NotFittedError):
        _ = ranker.weights_
    output = model.report.chosen
    assert (output["ranker"], output["density"], output["rate"], output["refit"]) == ("SparseRanker", 0.3, 2.0, False)
    assert output["l1 found"] > 0
    W = model.weights.parts[0].matrix
    assert W.nnz / np.prod(W.shape) == pytest.approx(0.3, rel=0.1)
    assert "random_state" not in output


def test_an_estimator_that_leaves_its_rate_is_also_tried_with_those_for_texts():
    own = tc.SparseRanker(density=0.3, random_state=5)
    as_it_is, *others = candidates_of(own, 0)
    assert as_it_is.ranker.get_params() == own.get_params()
    named = candidates_of(NameWithParameters("sparse", {"density": 0.3}), 5)
    assert [one.label for one in others] == [one.label for one in named]
    assert all(one.ranker.random_state == 5 for one in others)
    assert len(candidates_of(tc.SparseRanker(density=0.3, schedule="constant"), 0)) == 1


@pytest.mark.slow
def test_the_best_of_a_list_is_taken():
    cosine, sparse = fit(ranker="cosine"), fit(ranker="sparse")
    both = fit(ranker=["cosine", tc.DiagonalRanker(rate=1e-9), "sparse"])
    assert sparse.report.systems[-1].values["nDCG@10"][0] > cosine.report.systems[-1].values["nDCG@10"][0]
    assert both.report.chosen["ranker"] == "sparse"
    assert bits(both.weights) == bits(sparse.weights)


@pytest.mark.slow
def test_labels_links_and_preferences_take_a_ranker():
    texts = [f"{word} {i}" for i in range(20) for word in ("cat purr", "dog bark")]
    labeled = tc.fit_labeled(texts, ["cat", "dog"] * 20, ranker="sparse", options={"n_steps": 500})
    assert labeled.report.chosen["ranker"] == "sparse"
    docs = {f"{kind}{i}": f"{kind} {i}" for kind in ("cat", "dog") for i in range(10)}
    links = {one: [other for other in docs if other[:3] == one[:3] and other != one] for one in docs}
    triplets = [("purr", "cat0", "dog0")]
    for wrong in (
        lambda: tc.fit_linked(docs, links, ranker="prunned"),
        lambda: tc.fit(docs, preferences=triplets, ranker="prunned"),
    ):
        with pytest.raises(InputError, match="did you mean 'pruned'"):
            wrong()


def test_lsi_looks_at_preferences_only_to_choose_its_parameters():
    output = fit(ranker=tc.LSIRanker(n_components="auto", alpha="auto")).report.chosen
    assert output["alpha found"] in np.arange(21) / 20
    assert "steps" not in output


@pytest.mark.slow
def test_the_number_of_steps_can_be_given():
    assert fit(n_steps=2000).report.chosen["steps"] == 2000


def test_what_starts_from_more_directions_than_there_are_starts_at_random():
    candidate, *_ = candidates_of("low-rank", 0)
    assert candidate.fitting((150, 90)).ranker.start == "random"
    assert candidate.fitting((1000, 900)) is candidate
    own = tc.LowRankRanker(start="lsi", n_components=200, rate=0.2)
    [mine] = candidates_of(own, 0)
    assert mine.fitting((150, 90)).ranker.start == "lsi"  # the user's own is refused by the ranker, not changed


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (tc.Vectorizer(), "ranker is a Vectorizer; expected a term-pair ranker, one of low-rank"),
        (MultiTaskRanker(), "MultiTaskRanker learns two tasks, and a fit has one"),
        ("spares", "ranker is 'spares'; did you mean 'sparse'"),
        (tc.SparseRanker, r"ranker is the class SparseRanker; give an estimator, SparseRanker\(\)"),
        (tc.FTRLRanker(), r"FTRLRanker learns from rows of features \(tc.fit_letor\); texts need a term-pair ranker"),
        (3, "ranker is a int; expected a term-pair ranker, one of low-rank"),
        ([], "ranker is an empty list"),
        (["sparse", "glory"], "ranker is 'glory'"),
    ],
)
def test_what_cannot_be_learned_by_is_named_before_texts_are_read(ranker, message):
    with pytest.raises(InputError, match=message):
        tc.fit({}, {}, {}, ranker=ranker)


def test_a_wrong_parameter_is_named():
    with pytest.raises(InputError, match=re.escape("The 'density' parameter of SparseRanker must be")):
        fit(ranker=tc.SparseRanker(density=2.0))


def test_a_thinned_model_keeps_the_largest_weights_and_drops_its_report():
    model = fit()
    model = model.with_parts(["words"])
    W = model.weights.rows(np.arange(model.weights.shape[0]))
    thinned = model.thin(0.1)
    np.testing.assert_array_equal(thinned.weights.sparse.toarray(), oracles.largest_entries(W, 0.1))
    assert thinned.report is None
    q, D = thinned.queries(["ask03"]), thinned.docs(list(SMALL.docs.values()))
    scores = (q.toarray().astype(float) @ oracles.largest_entries(W, 0.1) @ D.toarray().astype(float).T)[0]
    ranked = thinned.rank({"q": "ask03"}, SMALL.docs, k=3)["q"]
    assert list(ranked) == [list(SMALL.docs)[row] for row in oracles.ranking(scores.tolist())[:3]]
    np.testing.assert_allclose(list(ranked.values()), np.sort(scores)[::-1][:3], rtol=1e-6)


@pytest.mark.parametrize(("given", "n_entries"), [({"density": 0.1}, 0.1), ({"density": 0.02}, 0.02)])
def test_a_density_is_reached_by_name(given, n_entries):
    model = fit(ranker=[NameWithParameters("sparse", given)])
    output = model.report.chosen
    assert (output["sparsify"], output["density"]) == ("low-rank", n_entries)
    W = model.weights.parts[0].matrix
    assert 0.5 * n_entries < W.nnz / np.prod(W.shape) <= n_entries * 1.01
    assert model.report.details.size.density < 2 * n_entries


@pytest.mark.parametrize("given", [{}, {"start": "random"}])
def test_documents_stay_where_that_is_asked_for_by_name(given):
    asked = NameWithParameters("low-rank", {"learn_documents": False, **given})
    output = fit(asked, n_steps=300).report.chosen  # too few documents for 200 directions of their own
    assert (output["learn_documents"], output["start"]) == (False, "random")


def test_a_penalty_of_ours_is_larger_over_fewer_steps_and_one_that_is_given_stays():
    [ours, *_] = candidates_of("sparse", 0)
    assert ours.fitting((99, 99), 100_000).ranker.l1 == pytest.approx(5 * ours.fitting((99, 99), 500_000).ranker.l1)
    [given, *_] = candidates_of(NameWithParameters("sparse", {"l1": 3e-6}), 0)
    assert given.fitting((99, 99), 100_000).ranker.l1 == 3e-6
    assert given.ranker.sparsify == "shrink"
    assert candidates_of("sparse", 0, labeled=True)[0].ranker.sparsify == "low-rank"
