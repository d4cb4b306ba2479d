"""Tasks of queries with links: splits, hidden documents, measures and words; fits on them, choices and curves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from reproductions.datasets import load_dataset
from reproductions.links import LinkTask, split_links
from reproductions.plan import Curves, Method, PlanData, WordSelection
from reproductions.tasks import WeightedMatch, measure_size
from reproductions.term_jobs import fit_method, run_curve
from support.linked_corpus import N
from support.random_data import random_texts
from tercet.errors import DivergedError
from tercet.weights import Identity, LowRank, Weights


def wiki(**settings) -> PlanData:
    return PlanData("W", "wikispeedia", ("wikispeedia",), **settings)


def load_task(data: PlanData, linked_home: Path) -> LinkTask:
    [task] = load_dataset(data, linked_home).tasks
    assert isinstance(task, LinkTask)
    return task


# -- tasks ---------------------------------------------------------------------------------------------------------


def made_task(seed: int, hides_itself: bool = True) -> LinkTask:
    rng = np.random.default_rng(seed)
    X = random_texts(rng, 15, 9)
    pairs = np.array([(i, j) for i in range(15) for j in range(15) if i != j and rng.random() < 0.5])
    split = split_links(pairs, by="links", n_articles=15)
    parts = split.train, split.validation, split.test
    return LinkTask(X, X, 15, *parts, hides_itself, test_queries=8, validation_queries=8)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_measures_are_those_of_a_ranking_without_what_is_known(seed):
    task = made_task(seed)
    weights = Weights([Identity(n_terms=9)])
    prefs = task.test(500, 1)
    found = task.measure(WeightedMatch(weights), prefs)
    scores = (task.Q @ task.D.T).toarray().astype(float)
    known = {tuple(link) for link in [*task.train_links.tolist(), *task.validation_links.tolist()]}
    wanted = {tuple(link) for link in task.test_links.tolist()}
    tested = sorted(np.random.default_rng(0).permutation(np.unique(task.test_links[:, 0]))[:8].tolist())
    precisions, tens = [], []
    for q in tested:
        shown = [d for d in range(15) if d != q and (q, d) not in known]
        ranking = sorted(shown, key=lambda d, q=q: (-scores[q, d], d))
        relevant = [(q, d) in wanted for d in ranking]
        at = np.flatnonzero(relevant) + 1
        precisions.append(np.mean(np.arange(1, len(at) + 1) / at))
        tens.append(sum(relevant[:10]) / 10)
    np.testing.assert_allclose(found.by_query["map"], precisions)
    np.testing.assert_allclose(found.by_query["p10"], tens)
    rows = np.array(tested)[prefs.query]
    margin = scores[rows, prefs.better] - scores[rows, prefs.worse]
    assert found.wrong == np.flatnonzero(margin <= 1e-12).tolist()
    assert np.flatnonzero(task.wrong(WeightedMatch(weights), prefs)).tolist() == found.wrong
    for q, better, worse in zip(rows.tolist(), prefs.better.tolist(), prefs.worse.tolist(), strict=True):
        assert (q, better) in wanted
        assert (q, worse) not in wanted | known
        assert q != worse


@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.1, 0.5, 1.0]), over=st.sampled_from(["links", "queries"]))
@settings(max_examples=20)
def test_training_sees_training_links_only(seed, share, over):
    task = made_task(seed)
    prefs = task.train(300, 0, share, over)
    links = {tuple(link) for link in task.train_links.tolist()}
    drawn = set(zip(prefs.query.tolist(), prefs.better.tolist(), strict=True))
    assert drawn <= links
    assert len(drawn) <= max(1, round(share * len(links)))
    assert all(q != d and (q, d) not in drawn for q, d in zip(prefs.query.tolist(), prefs.worse.tolist(), strict=True))


def test_splits_share_nothing_and_lose_only_links_across():
    links = np.array([(i, j) for i in range(20) for j in range(20) if i != j])
    split = split_links(links, by="links", n_articles=20)
    together = np.concatenate([split.train, split.validation, split.test])
    assert split.first_test_doc == split.first_validation_doc == 0
    assert len(np.unique(together, axis=0)) == len(together) == len(links)
    assert len(split.test) == round(0.3 * len(links))
    split = split_links(links, by="documents", n_articles=20)
    assert (split.first_validation_doc, split.first_test_doc) == (12, 14)
    assert (split.test >= 14).all()
    assert ((split.validation >= 12) & (split.validation < 14)).all()
    assert (split.train < 12).all()
    assert [len(split.train), len(split.validation), len(split.test)] == [12 * 11, 2, 6 * 5]


def test_documents_set_aside_are_never_drawn_in_training_and_ranked_alone(linked_home):
    task = load_task(wiki(split="documents"), linked_home)
    first = task.first_test_doc
    prefs = task.train(2000, 0)
    assert max(prefs.query.max(), prefs.better.max(), prefs.worse.max()) < task.first_validation_doc < first
    assert task.validation.D.shape[0] == first - task.first_validation_doc
    assert task.held_out.D.shape[0] == task.D.shape[0] - first
    found = task.measure(WeightedMatch(Weights([Identity(n_terms=task.D.shape[1])])), task.test(100, 0))
    assert found.means["map"] > 0.5


def test_links_to_years_are_left_out(linked_home):
    task = load_task(wiki(), linked_home)
    every = np.concatenate([task.train_links, task.validation_links, task.test_links])
    assert N - 1 not in every[:, 1]


def test_keyword_queries_have_words_of_their_article(linked_home):
    task = load_task(wiki(query_words=3, query_draws=4), linked_home)
    assert task.Q.shape[0] == 4 * N
    assert (np.diff(task.Q.indptr) == 3).all()
    for row in range(task.Q.shape[0]):
        assert set(task.Q[[row]].indices) <= set(task.D[[row % N]].indices)
    np.testing.assert_allclose(np.sqrt(task.Q.power(2).sum(axis=1)), 1, rtol=1e-6)
    assert task.train(500, 0).query.max() >= N


def test_documents_can_be_cut(linked_home):
    task = load_task(wiki(doc_words=5), linked_home)
    assert np.diff(task.D.indptr).max() <= 5
    assert np.diff(task.Q.indptr).max() > 5


# -- words ---------------------------------------------------------------------------------------------------------


def test_a_fit_on_some_words_scores_as_if_there_were_no_others(linked_home):
    task = load_task(wiki(), linked_home)
    method = Method("x", "x", "LowRankRanker", preferences=200, map=WordSelection(n_frequent=20))
    fitted = fit_method(method, task, {"n_components": 3}, 0)
    frequency = np.bincount(task.D.indices, minlength=task.D.shape[1])
    kept = np.sort(np.argsort(-frequency, kind="stable")[:20])
    lifted = fitted.match(method.all_models()[0]).weights
    inside = fitted.ranker.weights_.score(task.Q[:, kept], task.D[:, kept])
    np.testing.assert_allclose(lifted.score(task.Q, task.D), inside, atol=1e-6)


def test_correlated_words_replace_the_rare_ones(linked_home):
    task = load_task(wiki(), linked_home)
    word_map = task.word_map(WordSelection(n_frequent=15, correlated=2, rare_only=True))
    frequency = np.bincount(task.D.indices, minlength=task.D.shape[1])
    kept = np.argsort(-frequency, kind="stable")[:15]
    assert word_map.A.shape == (15, task.D.shape[1])
    assert word_map.A[:, kept].nnz == 0
    assert word_map.A.nnz > 0
    assert task.word_map(WordSelection(n_frequent=15, correlated=2, rare_only=True)) is word_map


def test_two_word_terms_are_a_block_beside_the_words(linked_home):
    task = load_task(wiki(bigrams=True), linked_home)
    words, pairs = task.doc_blocks["words"], task.doc_blocks["pairs"]
    assert all(" " not in word for word in task.words[words])
    assert all(" " in word for word in task.words[pairs])
    word_map = task.word_map(WordSelection(block="pairs", n_frequent=15, correlated=2))
    assert word_map.A[:, words].nnz == 0
    selected = task.word_map(WordSelection(block="words"))
    np.testing.assert_array_equal((task.D @ selected.B.T).toarray(), task.D[:, words].toarray())


def test_two_languages(linked_home):
    task = load_task(PlanData("K", "kyoto", ("kyoto-ja-en",)), linked_home)
    assert task.hides_itself
    ja, en = task.query_blocks["ja"], task.query_blocks["en"]
    assert (en.stop - en.start) == task.D.shape[1]
    np.testing.assert_array_equal(task.query_block("en").toarray(), task.D.toarray())
    english = task.word_map(WordSelection(block="en"))
    scores = english.lift(Weights([Identity(n_terms=task.D.shape[1])])).score(task.Q, task.D)
    np.testing.assert_allclose(scores, (task.D @ task.D.T).toarray(), atol=1e-6)
    asked = {int(name) for name in (*task.held_out.qids, *task.validation.qids)}
    assert set(task.parallel().tolist()) == set(range(N)) - asked
    translations = load_task(PlanData("K", "kyoto", ("kyoto-ja-en",), relevant="translation"), linked_home)
    every = np.concatenate([translations.train_links, translations.validation_links, translations.test_links])
    assert (every[:, 0] == every[:, 1]).all()
    assert len(every) == N
    # Translations that are asked for, or chosen on, are never learned from: by SSI or by cross-language LSI.
    assert set(translations.parallel().tolist()) == set(translations.train_links[:, 0].tolist())
    assert len(translations.parallel()) == len(translations.train_links) < N
    assert ja.stop == en.start


def test_a_plan_starts_from_mates_and_draws_hard_negatives(linked_home):
    task = load_task(PlanData("K", "kyoto", ("kyoto-ja-en",), relevant="translation"), linked_home)
    block = WordSelection(block="ja")
    lsi = fit_method(Method("lsi", "LSI", "LSIRanker", parallel=True, map=block), task, {"n_components": 4}, 0)
    method = Method(
        "x", "x", "LowRankRanker", preferences=20_000, parallel=True, negatives="hard", early_stop=True, map=block
    )
    parameters = {"n_components": 4, "diagonal": "none", "normalize": "latent", "margin": 0.3}
    still = fit_method(method, task, parameters | {"rate": 1e-30}, 0)
    assert still.ranker.n_steps_ == 0, "nothing was better than the start, which is cross-language LSI"
    ours, theirs = (fitted.match(method.all_models()[0]).weights.rank(task.Q, task.D, N) for fitted in (still, lsi))
    np.testing.assert_array_equal(ours[0], theirs[0])
    fitted = fit_method(method, task, parameters | {"rate": 0.01}, 0)
    assert task.validation(fitted.match(method.all_models()[0]).weights) >= task.validation(
        lsi.match(method.all_models()[0]).weights
    )


def test_a_plan_learns_three_tasks_at_once(linked_home):
    task = load_task(PlanData("K", "kyoto", ("kyoto-ja-en",)), linked_home)
    method = Method(
        "x", "x", "MultiTaskRanker", preferences=500, second="en", third=True, map=WordSelection(block="ja")
    )
    fitted = fit_method(method, task, {"n_components": 3}, 0)
    assert fitted.ranker.n_steps_ == 1500
    words = task.query_blocks["ja"]
    assert fitted.ranker.third_weights_.shape == (words.stop - words.start,) * 2


def test_a_blend_is_the_best_amount_on_validation(linked_home):
    task = load_task(wiki(), linked_home)
    width = task.D.shape[1]
    good = Weights([Identity(n_terms=width)])
    noise = np.random.default_rng(0).standard_normal((width, 4)).astype(np.float32)
    bad = Weights([LowRank(query_factors=noise, doc_factors=noise[::-1].copy())])
    models = {"good": good, "bad": bad}

    def blended(*keys: str):
        return fit_method(Method("x", "x", blend=keys), task, {}, 0, component=models.__getitem__)

    assert blended("good", "bad").facts["amount_"] < 0.2
    both = blended("bad", "good").ranker
    assert task.validation(both) >= max(task.validation(good) - 0.05, task.validation(bad))
    assert blended("good", "good").facts["amount_"] == 0.0


# -- choosing -------------------------------------------------------------------------------------------------------

RATES = (1e-6, 1e-4, 0.01, 0.3)


@pytest.fixture(scope="module")
def task(linked_home) -> LinkTask:
    return load_task(wiki(), linked_home)


def method(ranker: str = "LowRankRanker", **settings) -> Method:
    parameters = settings.pop("parameters", {"n_components": 3, "diagonal": "none", "validate_every": 300})
    return Method(
        "m",
        "M",
        ranker,
        preferences=9000,
        parameters=parameters,
        choose={"rate": RATES},
        **settings,
    )


def dense(ranker) -> np.ndarray:
    n, m = ranker.weights_.shape
    return ranker.weights_.score(sparse.eye_array(n, format="csr"), sparse.eye_array(m, format="csr"))


def test_settings_are_compared_after_all_steps(task):
    chooses = method(choose_on="training")
    fitted = fit_method(chooses, task, chooses.parameters, 0)
    tried = {one["rate"]: one["value"] for one in fitted.facts["tried"]}
    assert list(tried) == list(RATES)
    for rate, error in tried.items():
        alone = replace(chooses, choose={})
        straight = fit_method(alone, task, alone.parameters | {"rate": rate}, 0)
        others = task.train(10_000, 2000)
        assert (straight.ranker.margins(task.Q, others, task.D) <= 0).mean() == pytest.approx(error, abs=1e-4)
        if rate == fitted.facts["chosen"]["rate"]:
            np.testing.assert_array_equal(dense(fitted.ranker), dense(straight.ranker))
    assert tried[fitted.facts["chosen"]["rate"]] == min(tried.values())


def test_what_diverges_is_not_chosen(task):
    wild = replace(method(choose_on="training"), choose={"rate": (1e12, 0.1)})
    fitted = fit_method(wild, task, wild.parameters, 0)
    assert fitted.facts["chosen"] == {"rate": 0.1}
    assert fitted.facts["tried"][0] == {"rate": 1e12, "diverged": True}
    with pytest.raises(DivergedError):
        fit_method(replace(wild, choose={"rate": (1e12, 1e13)}), task, wild.parameters, 0)


def test_a_ranker_without_preferences_is_chosen_by_map_on_validation(task):
    lsi = Method("lsi", "LSI", "LSIRanker", parallel=True, choose={"n_components": (1, 2, 3)}, choose_on="validation")
    fitted = fit_method(lsi, task, {}, 0)
    tried = {one["n_components"]: one["value"] for one in fitted.facts["tried"]}
    for n, value in tried.items():
        assert (
            task.validation(fit_method(replace(lsi, choose={}), task, {"n_components": n}, 0).ranker.weights_) == value
        )
    assert tried[fitted.facts["chosen"]["n_components"]] == max(tried.values())
    assert fitted.ranker.n_components_ == fitted.facts["chosen"]["n_components"]


# -- curves ---------------------------------------------------------------------------------------------------------

SPARSE = Method("m", "M", "SparseRanker", preferences=20_000, parameters={"l1": 1e-4, "rate": 0.1, "refit": True})


@pytest.mark.slow
def test_a_curve_ends_with_the_fit(task):
    curves = Curves("c", "C", "Figure 1", ("wiki",), ("m",), first=1000, points=4, test_preferences=200)
    series = run_curve(curves, SPARSE, SPARSE.parameters, task)["series"]
    assert list(series) == ["weights_before_refit_", "weights_"]
    for points in series.values():
        assert [point["step"] for point in points] == [1000, 2714, 7368, 20_000]
    whole = fit_method(SPARSE, task, SPARSE.parameters, 0).ranker
    for name, points in series.items():
        assert points[-1]["density"] == measure_size(getattr(whole, name))["density"]
