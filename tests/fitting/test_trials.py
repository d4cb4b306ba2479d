"""What is tried, on what is left out, in the time there is; what is learned from everything then."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import tercet as tc
from support.corpora import Corpus, synonyms
from tercet.fitting.baselines import choose_start
from tercet.fitting.options import FitOptions
from tercet.fitting.rankers import NameWithParameters
from tercet.fitting.task import KNOWN, NEW, Task
from tercet.fitting.trials import Trials
from tercet.weights import LowRank

# Where numbers do not matter: few steps.
QUICK = {"n_steps": 3000}

# -- documents as they are, and means ----------------------------------------------------------------------------------

FOUR_WIDE = NameWithParameters("low-rank", {"n_components": 4})


def factors(weights: tc.Weights) -> LowRank:
    [part] = (part for part in weights.parts if isinstance(part, LowRank))
    return part


def in_full(weights: tc.Weights) -> np.ndarray:
    return weights.rows(np.arange(weights.shape[0]))


def trials_of(corpus: Corpus, ranker: object = None, **options: object) -> Trials:
    """Trials on the folds of a corpus, as a fit has them."""
    how = FitOptions(**options)
    task = Task.from_evidence(corpus.docs, corpus.queries, qrels=corpus.qrels)
    _, space = choose_start(task, how)
    return Trials(space, task, task.folds(space.D), ranker, how, 0)


SMALL = synonyms(3, n_pairs=12, n_docs=40, n_queries=20)


@pytest.mark.slow
def test_a_mean_is_that_of_weights_whose_identity_counts_one_and_takes_no_fit():
    trials = trials_of(SMALL, FOUR_WIDE, **QUICK)
    assert [one.mean_of != () for one in trials.candidates] == [False, False, True]
    learned, kept = trials.candidates[2].mean_of
    assert (learned.ranker.keeps_documents, kept.ranker.keeps_documents) == (False, True)
    for trained in trials.run():
        one, other, mean = map(in_full, trained.weights)
        np.testing.assert_allclose(mean, (one + other) / 2, atol=1e-5)
        assert mean.trace() == pytest.approx((one.trace() + other.trace()) / 2)
        assert [weights.identity for weights in trained.weights] == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.slow
def test_documents_stay_where_latent_semantic_indexing_puts_them():
    trials = trials_of(SMALL, FOUR_WIDE, **QUICK)
    [number] = [number for number, one in enumerate(trials.members) if one.ranker.keeps_documents]
    parts = [factors(trained.weights[number]) for trained in trials.run()]
    for part in parts:
        np.testing.assert_array_equal(part.doc_factors, parts[0].doc_factors)  # whatever the fold
        assert np.abs(part.query_factors - part.doc_factors).max() > 0.01  # and queries have learned


@pytest.mark.slow
def test_estimators_start_from_their_own_directions():
    """They share a decomposition of documents, unless one has another seed or leaves rare words out."""
    plain = {"start": "lsi", "n_components": 3, "learn_documents": False, "rate": 1.0}
    rankers = [tc.LowRankRanker(**plain, **own) for own in ({}, {"random_state": 5}, {"n_frequent": 20})]
    trials = trials_of(SMALL, rankers, n_steps=300)
    for ranker, learned in zip(rankers, trials.run()[0].weights, strict=True):
        alone = ranker.fit(trials.space.Q, tc.Preferences([0], [0], [1]), trials.space.D).weights_
        np.testing.assert_array_equal(factors(learned).doc_factors, factors(alone).doc_factors)


@pytest.mark.slow
def test_a_chosen_mean_is_learned_from_everything_in_the_size_of_one():
    trials = trials_of(SMALL, FOUR_WIDE, **QUICK)
    trials.run()
    mean = trials.candidates[2]
    weights, summary = trials.learn(mean, 0.5)
    assert summary["mean with"].endswith("documents as they are")
    assert factors(weights).query_factors.shape[1] == 4
    assert weights.identity == pytest.approx(1.5)
    # Where the two agree on four directions, nothing is lost.
    expected = in_full(trials.learn(mean, 0.0)[0]) + 0.5 * np.eye(weights.shape[0])
    np.testing.assert_allclose(in_full(weights), expected, atol=1e-5)


def long_texts(n_docs: int = 230, n_words: int = 300) -> Corpus:
    rng = np.random.default_rng(0)
    docs = {f"d{i}": " ".join(f"word{w}" for w in rng.integers(n_words, size=60)) for i in range(n_docs)}
    queries = {f"q{i}": " ".join(docs[f"d{i}"].split()[:2]) for i in range(40)}
    return Corpus(docs, queries, {qid: {f"d{qid[1:]}": 1} for qid in queries})


@pytest.mark.slow
def test_a_budget_bounds_steps_and_folds():
    corpus = long_texts()
    hasty, slow = (trials_of(corpus, budget=budget) for budget in (1e-3, 1000.0))
    assert len(hasty.folds) < len(slow.folds)
    assert hasty.folds[0].case == KNOWN
    assert {fold.case for fold in hasty.folds} == {fold.case for fold in slow.folds}  # no case is left out
    assert all(hasty.n_steps(one) <= slow.n_steps(one) for one in slow.members)
    assert hasty.n_steps(hasty.members[0], hasty.folds[0]) <= hasty.n_steps(hasty.members[0])
    assert trials_of(corpus, n_steps=77).n_steps(hasty.members[0]) == 77


def test_where_no_space_of_documents_can_be_found_documents_learn():
    """There are fewer documents than components: factors start at random."""
    trials = trials_of(SMALL, **QUICK)
    assert trials.candidates == trials.members
    assert not any(one.ranker.keeps_documents for one in trials.members)


# -- documents ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_learning_what_is_popular_counts_as_much_as_documents_are_known():
    """Most queries prefer one of a few favorites to the document they name, the others the document they name."""
    rng = np.random.default_rng(0)
    docs = {f"favorite{i}": f"best{i} seller" for i in range(4)} | {f"d{i}": f"name{i} filler" for i in range(60)}
    queries = {f"q{i}": f"name{i} wanted" for i in range(60)}
    triplets = []
    for i in range(60):
        favorite = f"favorite{rng.integers(4)}"
        triplets.append((f"q{i}", *((favorite, f"d{i}") if rng.random() < 0.7 else (f"d{i}", favorite))))
    closed, open_to_new = (
        tc.fit(docs, queries, preferences=triplets, new_documents=share, options={"n_steps": 2000}).report
        for share in (0.0, 1.0)
    )
    changes = [{result.name: result.change[0] for result in report.evidence} for report in (closed, open_to_new)]
    assert closed.accepted
    assert changes[0][KNOWN] > 0.8
    assert changes[1][NEW] >= -0.01
    assert "new answers 100%, as given" in open_to_new.decision


@pytest.mark.slow
@pytest.mark.parametrize("ranker", [None, "sparse"])
def test_documents_that_are_judged_to_answer_nothing_teach(ranker):
    """Of two documents that match alike the large one is wanted; the small ones answer no query at all."""
    words = [f"word{i}" for i in range(20)]
    docs = {f"{word} {size}": f"{word} {size}" for word in words for size in ("small", "large")}
    queries = {word: f"{word} please" for word in words}
    qrels = {word: {f"{word} large": 1, f"{word} small": 0} for word in words}
    model = tc.fit(docs, queries, qrels, ranker=ranker, options=QUICK | {"analyzer": tc.Analyzer()})
    assert model.report.accepted
    assert model.report.systems[-1].values["RR"][0] > model.report.systems[-2].values["RR"][0] + 0.3


# -- how long it may take ---------------------------------------------------------------------------------------------


def test_a_tiny_budget_is_enough_for_a_model():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    began = time.process_time()
    hasty = tc.fit(small.docs, small.queries, small.qrels, options={"budget": 1e-3})
    assert hasty.report.n_train == 60
    assert hasty.report.n_test == hasty.report.n_validation < 60
    output = f"There was time for [1-9] of 10 folds: {hasty.report.n_test} queries were left out"
    assert re.match(output, hasty.report.split)
    assert time.process_time() - began < 20
    assert hasty.rank({"q": "ask03"}, small.docs, k=3)["q"]
