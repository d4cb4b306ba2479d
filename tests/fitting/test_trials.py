"""What is tried, on what is left out, in the time there is; what is learned from everything then."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

import tercet as tc
from support.corpora import Corpus, synonyms
from tercet.fitting import trials
from tercet.fitting.rankers import NameWithParameters
from tercet.fitting.task import EVERY, NEW, SEEN
from tercet.weights import Identity, LowRank

# Where numbers do not matter: few steps, and no mean of several models is tried.
QUICK = {"n_steps": 3000}

# -- documents as they are, and means ----------------------------------------------------------------------------------

FOUR_WIDE = NameWithParameters("low-rank", {"n_components": 4})


def factors(weights: tc.Weights) -> LowRank:
    [part] = (part for part in weights.parts if isinstance(part, LowRank))
    return part


def in_full(weights: tc.Weights) -> np.ndarray:
    return weights.rows(np.arange(weights.shape[0]))


@pytest.fixture
def tried(monkeypatch) -> list[list[tuple[trials.Candidate, tc.Weights]]]:
    """For every family and fold in turn, the candidates and their weights."""
    families: list[list[trials.Candidate]] = []
    found: list[list[tuple[trials.Candidate, tc.Weights]]] = []
    try_family, fit_folds = trials.Search._try, trials.OutOfFold.fit

    def trying(self, family):
        families.append(family)
        return try_family(self, family)

    def fitting(self, train, blends):
        def kept(fold, number):
            found.append([])
            for one, weights in zip(families[-1], train(fold, number), strict=True):
                found[-1].append((one, weights))
                yield weights

        return fit_folds(self, kept, blends)

    monkeypatch.setattr(trials.Search, "_try", trying)
    monkeypatch.setattr(trials.OutOfFold, "fit", fitting)
    return found


@pytest.mark.slow
def test_a_mean_is_that_of_weights_whose_identity_counts_one_and_takes_no_fit(tried):
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=20)
    tc.fit(small.docs, small.queries, small.qrels, ranker=FOUR_WIDE, options=QUICK)
    assert {len(one) for one in tried} == {1, 3, 5}
    for family in tried:
        by_itself = {one: weights for one, weights in family if not one.mean_of}
        means = [(one, weights) for one, weights in family if one.mean_of]
        assert len(means) == len(by_itself) - 1
        for one, weights in means:
            learned, kept = one.mean_of
            assert (learned.keeps_documents, kept.keeps_documents) == (False, True)
            expected = [in_full(by_itself[member]) / member.ranker.identity_weight for member in one.mean_of]
            np.testing.assert_allclose(in_full(weights), np.mean(expected, axis=0), atol=1e-5)
            assert one.unit == pytest.approx(weights.identity) == 1.0


@pytest.mark.slow
def test_documents_stay_where_latent_semantic_indexing_puts_them(tried):
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=20)
    tc.fit(small.docs, small.queries, small.qrels, ranker=FOUR_WIDE, options=QUICK)
    stayed = [(one, factors(weights)) for family in tried for one, weights in family if one.keeps_documents]
    stayed = [(one, part) for one, part in stayed if not one.mean_of]
    by_identity = {}
    for one, part in stayed:
        first = by_identity.setdefault(one.ranker.identity_weight, part)
        assert part.doc_factors.tobytes() == first.doc_factors.tobytes()  # whatever the fold
        assert np.abs(part.query_factors - part.doc_factors).max() > 0.01  # and queries have learned
    assert sorted(by_identity) == [5.0, 60.0]


@pytest.mark.slow
def test_a_chosen_mean_is_learned_from_everything_in_the_size_of_one(monkeypatch):
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=40)
    choose = trials.choose_crossed

    def the_mean(start, tried, **options):
        return choose(start, [next(one for one in tried if one.candidate.mean_of)], **options)

    monkeypatch.setattr(trials, "choose_crossed", the_mean)
    model = tc.fit(small.docs, small.queries, small.qrels, ranker=FOUR_WIDE, options=QUICK)
    assert model.report.accepted
    assert model.report.chosen["mean with"].endswith("documents as they are")
    assert factors(model.weights).query_factors.shape[1] == 4
    assert sum(isinstance(part, Identity) for part in model.weights.parts) == 1
    assert model.weights.identity == pytest.approx(1 + model.report.chosen["blend"])


def long_texts(n_docs: int = 230, n_words: int = 300) -> Corpus:
    rng = np.random.default_rng(0)
    docs = {f"d{i}": " ".join(f"word{w}" for w in rng.integers(n_words, size=60)) for i in range(n_docs)}
    queries = {f"q{i}": " ".join(docs[f"d{i}"].split()[:2]) for i in range(40)}
    return Corpus(docs, queries, {qid: {f"d{qid[1:]}": 1} for qid in queries})


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "stay"), [(1e-3, True), (20.0, False)])
def test_where_there_is_time_for_few_steps_queries_alone_learn(tried, monkeypatch, budget, stay):
    monkeypatch.setattr(trials, "n_steps_for", lambda n, labelled, most: min(most, 200))
    corpus = long_texts()
    tc.fit(corpus.docs, corpus.queries, corpus.qrels, options={"budget": budget})
    members = [one for family in tried for one, _ in family if not one.mean_of]
    assert all(one.keeps_documents for one in members) == stay
    assert any(one.keeps_documents for one in members)


@pytest.mark.slow
def test_where_no_space_of_documents_can_be_found_documents_learn(tried):
    """There are fewer documents than components: factors start at random."""
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=20)
    tc.fit(small.docs, small.queries, small.qrels, options=QUICK)
    assert tried
    assert not any(one.keeps_documents or one.mean_of for family in tried for one, _ in family)


# -- what is left out -------------------------------------------------------------------------------------------------


@pytest.fixture
def spied(monkeypatch) -> dict[str, list]:
    """Of every fit in turn, the fold that it leaves out, or None, and rows of queries and better documents it draws."""
    seen: dict[str, list] = {"folds": [], "parts": [], "queries": [], "better": []}
    fit_folds = trials.OutOfFold.fit
    current = [None]

    class SpyingSource(trials.SampledSource):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            seen["folds"].append(current[0])
            for name in ("queries", "better"):
                seen[name].append(set())

        def draw(self, step, weights):
            prefs = super().draw(step, weights)
            seen["queries"][-1].update(prefs.query.tolist())
            seen["better"][-1].update(prefs.better.tolist())
            return prefs

    def spying(self, train, blends):
        def output(fold, number):
            current[0] = number
            return train(fold, number)

        seen["parts"] = [{part.name: part.held_out for part in parts} for parts in self.parts]
        pool = fit_folds(self, output, blends)
        current[0] = None
        return pool

    monkeypatch.setattr(trials, "SampledSource", SpyingSource)
    monkeypatch.setattr(trials.OutOfFold, "fit", spying)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("given", [(), ("validation",), ("test",), ("validation", "test")])
def test_queries_left_out_are_never_trained_on(spied, given):
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    parts = {"validation": small.part(0, 10), "test": small.part(10, 20)}
    train = small.part(20)
    report = tc.fit(small.docs, small.queries, train, **{name: parts[name] for name in given}, options=QUICK).report
    qids = list(small.queries)
    left_out = [set(by_name[EVERY].qids) for by_name in spied["parts"]]
    assert set(spied["folds"]) == {*range(len(left_out)), None}
    final = []
    for fold, queries, better in zip(spied["folds"], spied["queries"], spied["better"], strict=True):
        trained = {qids[row] for row in queries}
        if fold is None:
            final.append(trained)
            continue
        assert not trained & left_out[fold]
        assert trained <= train.keys()
        # A document is new where this fit has never drawn it as the better one, and seen where it could.
        for name, is_new in ((NEW, True), (SEEN, False)):
            if name in spied["parts"][fold]:
                grades = spied["parts"][fold][name].grades
                answers = set(grades.indices[grades.data > 0].tolist())
                assert not answers & better if is_new else answers <= better
    assert final == [train.keys()] * len(final)  # the model learns from all training queries
    assert final
    if "validation" in given:
        assert left_out == [parts["validation"].keys()]
    else:
        assert set().union(*left_out) == train.keys()
    n_left_out = len(set().union(*left_out))
    assert (report.n_train, report.n_validation) == (40, n_left_out)
    assert report.crossed == ("test" not in given)
    assert report.n_test == (10 if "test" in given else n_left_out)


# -- new documents ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_learning_what_is_popular_is_not_accepted_at_the_cost_of_new_documents():
    """Most queries prefer one of a few favourites to the document they name, the others the document they name."""
    rng = np.random.default_rng(0)
    docs = {f"favourite{i}": f"best{i} seller" for i in range(4)} | {f"d{i}": f"name{i} filler" for i in range(60)}
    queries = {f"q{i}": f"name{i} wanted" for i in range(60)}
    triplets = []
    for i in range(60):
        favourite = f"favourite{rng.integers(4)}"
        triplets.append((f"q{i}", *((favourite, f"d{i}") if rng.random() < 0.7 else (f"d{i}", favourite))))
    by_default, seen = (
        tc.fit(docs, queries, preferences=triplets, options={"n_steps": 2000}).report for accept in ("all", "seen")
    )
    changes = [{result.name: result.change for result in report.evidence} for report in (by_default, seen)]
    assert seen.accepted
    assert "which accept='seen' allows" in seen.decision
    assert changes[1][SEEN][0] > 0.8
    assert changes[1][NEW][0] < -0.8
    # By default what is learned takes nothing from new documents, or is rejected.
    assert changes[0][NEW][0] > -0.2 if by_default.accepted else "new documents" in by_default.decision
    assert by_default.change[0] < seen.change[0] or not by_default.accepted


@pytest.mark.slow
@pytest.mark.parametrize("ranker", [None, "sparse"])
def test_documents_that_are_judged_to_answer_nothing_teach(ranker):
    """Of two documents that match alike the large one is wanted; the small ones answer no query at all."""
    words = [f"word{i}" for i in range(20)]
    docs = {f"{word} {size}": f"{word} {size}" for word in words for size in ("small", "large")}
    queries = {word: f"{word} please" for word in words}
    qrels = {word: {f"{word} large": 1, f"{word} small": 0} for word in words}
    model = tc.fit(docs, queries, qrels, ranker=ranker, options=QUICK | {"analyser": tc.Analyser()})
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
