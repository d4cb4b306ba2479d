"""Mixes of words and memory against slow oracles: scores, measures, expected and crossed values, models."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from oracles.memory import mixed_scores
from support.corpora import Corpus, bits, matching, oracle_scores, synonyms, with_random_answers
from tercet.data import Impression
from tercet.data.clicks import ClickLog
from tercet.fitting.mixes import POOLED, UNSEEN, WEIGHTS, Case, MixSearch, memory_of
from tercet.fitting.score_terms import SHAPES, Mix, Pool, ScoreTerms
from tercet.fitting.task import EVERY, KNOWN, NEW, REPEATED, Fold, Space, Task
from tercet.measure.names import parse_measures
from tercet.weights import Dense, Identity

CORPUS = synonyms(3, n_pairs=8, n_docs=40, n_queries=30)
# Two answers of each query, so that its answers are in a component of ten queries.
CORPUS.qrels = {qid: {f"d{4 * (row % 10) + i}": 2 - i for i in range(2)} for row, qid in enumerate(CORPUS.qrels)}
SCALE = 0.7
MEASURES = parse_measures(["nDCG@10", "AP", "RR"])


def judged(measure: str = "nDCG@10") -> tuple[Task, Space]:
    task = Task.from_evidence(CORPUS.docs, CORPUS.queries, qrels=CORPUS.qrels, measure=measure)
    [space] = task.spaces({"BM25": tc.Vectorizer(weighting="bm25")})
    return task, space


def preferred() -> tuple[Task, Space]:
    rng = np.random.default_rng(1)
    docs = list(CORPUS.docs)
    triplets = [
        (qid, better, worse)
        for qid, grades in CORPUS.qrels.items()
        for better in grades
        for worse in rng.choice(docs, 2).tolist()
        if worse not in grades
    ]
    task = Task.from_evidence(CORPUS.docs, CORPUS.queries, preferences=triplets)
    [space] = task.spaces({"BM25": tc.Vectorizer(weighting="bm25")})
    return task, space


def random_words(space: Space, n: int = 2) -> list[tc.Weights]:
    """Candidates: the identity and some noise."""
    rng = np.random.default_rng(0)
    n_words = space.D.shape[1]
    noise = [Dense(weights=rng.normal(0, 0.1, (n_words, n_words)).astype(np.float32)) for _ in range(n)]
    return [tc.Weights([Identity(n_terms=n_words), one]) for one in noise]


def terms_of(task: Task, space: Space, case: str) -> tuple[Fold, ScoreTerms]:
    fold = next(fold for fold in task.folds(space.D) if fold.case == case)
    return fold, ScoreTerms(fold.parts(space.Q, space.D)[0].held_out, space, random_words(space), fold.past)


def oracle(mix: Mix, fold: Fold, terms: ScoreTerms, scale: float = SCALE) -> np.ndarray:
    """Scores (n_queries, n_docs) of a mix, from the equations."""
    space, held_out = terms.space, terms.held_out
    eye = np.eye(space.D.shape[1])
    W = eye if mix.words is None else terms.words[mix.words].rows(np.arange(len(eye))) + mix.blend * eye
    threshold, power = SHAPES[mix.shape]
    Q, D, P, R = (
        rows.toarray().astype(float) for rows in (held_out.Q, space.D, space.Q[fold.past.rows], fold.past.evidence)
    )
    known = [doc for doc in range(R.shape[1]) if np.any(R[:, doc] != 0)]
    columns = [known.index(doc) if doc in known else -1 for doc in range(R.shape[1])]
    return mixed_scores(
        Q,
        D,
        W,
        P,
        R[:, known],
        columns,
        weight=mix.weight * scale,
        pooled=mix.pooled * scale,
        threshold=threshold,
        power=power,
        half=0.5,
        unseen=mix.unseen,
    )


mixes = st.builds(
    Mix,
    words=st.sampled_from([None, 0, 1]),
    blend=st.sampled_from([0.0, 0.5, 2.0]),
    shape=st.integers(0, len(SHAPES) - 1),
    weight=st.sampled_from(WEIGHTS),
    pooled=st.sampled_from(POOLED),
    unseen=st.sampled_from(UNSEEN),
).map(lambda mix: replace(mix, blend=0.0) if mix.words is None else mix)


def evaluated(scores: np.ndarray, terms: ScoreTerms) -> np.ndarray:
    """Measures (n_queries, n_measures) of scores by tc.evaluate; equal scores are in the order of the documents."""
    held_out = terms.held_out
    hidden = np.zeros(scores.shape, dtype=bool) if held_out.hidden is None else held_out.hidden.toarray() != 0
    run, qrels = {}, {}
    for row, qid in enumerate(held_out.qids):
        order = [d for d in np.argsort(-scores[row].round(5), kind="stable") if not hidden[row, d]]
        run[qid] = {f"d{d}": float(-rank) for rank, d in enumerate(order)}
        grades = held_out.grades[[row]].toarray().ravel()
        qrels[qid] = {f"d{d}": int(grades[d]) for d in np.flatnonzero(grades)}
    found = tc.evaluate(qrels, run, [str(measure) for measure in MEASURES])
    return np.stack([found[str(measure)] for measure in MEASURES], axis=1)


# -- scores and measures ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tasks() -> dict[str, tuple[Task, Space]]:
    return {"judged": judged(), "preferred": preferred()}


@pytest.mark.slow
@pytest.mark.parametrize("case", [KNOWN, NEW])
@settings(max_examples=20)
@given(mix=mixes)
def test_values_of_a_mix_are_those_of_the_equations(tasks, case, mix):
    fold, terms = terms_of(*tasks["judged"], case)
    exact = terms.exact([mix], {mix: SCALE}, MEASURES)[0]
    np.testing.assert_allclose(exact, evaluated(oracle(mix, fold, terms), terms), atol=1e-6)
    np.testing.assert_allclose(Pool(terms).values(mix, SCALE), exact[:, 0], atol=1e-12)


@pytest.mark.slow
@settings(max_examples=10)
@given(mix=mixes)
def test_values_of_preferences_are_those_of_the_equations(tasks, mix):
    fold, terms = terms_of(*tasks["preferred"], KNOWN)
    held_out, scores = terms.held_out, oracle(mix, fold, terms)
    shares: list[list[float]] = [[] for _ in held_out.qids]
    prefs = held_out.preferences
    for query, better, worse in zip(prefs.query, prefs.better, prefs.worse, strict=True):
        margin = round(scores[query, better] - scores[query, worse], 5)
        shares[query].append(0.5 * (1 + np.sign(margin)))
    exact = terms.exact([mix], {mix: SCALE}, (held_out.measure,))[0, :, 0]
    np.testing.assert_allclose(exact, [np.mean(one) for one in shares], atol=1e-6)
    np.testing.assert_allclose(Pool(terms).values(mix, SCALE), exact, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["AP", "RR", "P@3", "RankLoss"])
@pytest.mark.parametrize("is_hidden", [False, True])
def test_pooled_values_are_exact_where_all_documents_are_pooled(is_hidden, measure):
    task, space = judged(measure)
    _, terms = terms_of(task, space, KNOWN)
    if is_hidden:  # one of the two answers of each query
        terms.held_out = terms.held_out.by_documents(np.arange(len(CORPUS.docs)) % 4 == 0)
        assert terms.held_out.hidden.nnz
    for mix in (Mix(), Mix(0, 0.5, weight=1.0, unseen=2.0), Mix(1, pooled=1.0)):
        exact = terms.exact([mix], {mix: SCALE}, parse_measures([measure]))[0, :, 0]
        np.testing.assert_allclose(Pool(terms).values(mix, SCALE), exact, atol=1e-12)


def test_best_documents_by_any_term_are_pooled_and_their_values_are_exact_at_the_top(monkeypatch):
    monkeypatch.setattr("tercet.fitting.score_terms._MOST_POOLED", 0)
    monkeypatch.setattr("tercet.fitting.score_terms._POOL", 12)
    task, space = judged("RR")
    _, terms = terms_of(task, space, KNOWN)
    pool = Pool(terms)
    n_pooled = (pool.columns >= 0).sum(axis=1)
    assert (n_pooled >= 12).all()
    assert (n_pooled < len(CORPUS.docs) + 1).all()
    for mix in (Mix(), Mix(0), Mix(1)):  # one term alone: the best by it are there
        exact = terms.exact([mix], {mix: SCALE}, parse_measures(["RR"]))[0, :, 0]
        found = pool.values(mix, SCALE)
        np.testing.assert_allclose(found[exact >= 1 / 12], exact[exact >= 1 / 12], atol=1e-12)


@pytest.mark.slow
@settings(max_examples=10)
@given(mix=mixes, unit=st.sampled_from([1.0, 5.0, 60.0]))
def test_a_model_of_a_mix_has_its_scores_in_the_unit_of_its_words(tasks, mix, unit):
    task, space = tasks["judged"]
    fold, terms = terms_of(task, space, KNOWN)
    words = terms.space.start if mix.words is None else terms.words[mix.words] + space.match * mix.blend
    memory = None
    if mix.has_memory:
        memory = memory_of(fold.past, task, space, mix.settings(SCALE, unit))
    model = tc.TextModel(space.vectorizer, space.vectorizer, words * unit, memory=memory)
    expected = unit * oracle(mix, fold, terms)
    queries = {qid: CORPUS.queries[qid] for qid in terms.held_out.qids}
    run = model.rank(queries, CORPUS.docs, k=len(CORPUS.docs))
    for row, qid in zip(expected, queries, strict=True):
        assert [run[qid][doc_id] for doc_id in CORPUS.docs] == pytest.approx(row.tolist(), rel=1e-4, abs=1e-4 * unit)


# -- choosing ---------------------------------------------------------------------------------------------------------


def search_of(task: Task, space: Space, shares: dict[str, float] | None = None, seed: int = 0) -> MixSearch:
    words = random_words(space)
    listed = []
    for fold in task.folds(space.D):
        for part in fold.parts(space.Q, space.D):
            terms = ScoreTerms(part.held_out, space, words, fold.past)
            listed += terms.by_case(fold) if part.name in (EVERY, fold.case) else [(part.name, terms)]
    measures = MEASURES if str(space.queries.measure) == "nDCG@10" else (space.queries.measure,)
    return MixSearch(listed, task.shares if shares is None else shares, [(0.0, 1.0)] * 2, measures, seed)


MIXES = [Mix(), Mix(0), Mix(1, 1.0, weight=2.0), Mix(pooled=0.5, unseen=4.0), Mix(weight=4.0, shape=2)]


@pytest.mark.slow
def test_the_expected_value_weighs_cases_by_their_shares(tasks):
    task, space = tasks["judged"]
    search = search_of(task, space, {KNOWN: 0.6, NEW: 0.2, REPEATED: 0.2})  # a case that nothing measures
    assert search.shares == pytest.approx({KNOWN: 0.75, NEW: 0.25})
    exact = search.exact(MIXES)
    for mix in MIXES:
        means = {case: exact[case][mix][:, 0].mean() for case in (KNOWN, NEW)}
        assert search.expected(mix)[0] == pytest.approx(0.75 * means[KNOWN] + 0.25 * means[NEW])
    alone = search_of(task, space, {KNOWN: 0.0, NEW: 1.0})
    assert alone.expected(MIXES[3])[0] == pytest.approx(exact[NEW][MIXES[3]][:, 0].mean())


@pytest.mark.slow
def test_a_lower_value_is_better_where_the_measure_says_so():
    search = search_of(*judged("RankLoss"))
    exact = search.exact(MIXES)
    best = max(MIXES, key=search.expected)
    loss = {mix: sum(share * exact[case][mix][:, 0].mean() for case, share in search.shares.items()) for mix in MIXES}
    assert best == min(MIXES, key=loss.__getitem__)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["judged", "preferred"])
def test_a_value_is_that_of_the_setting_which_other_groups_chose(tasks, kind):
    search = search_of(*tasks[kind])
    choice = search.choose(start_name="BM25", share_reason="")
    tried = list(search._values)
    exact = search.exact(tried)
    for group in range(5):

        def by_others(mix: Mix, group: int = group) -> float:
            return sum(
                share * search.values(mix)[case][search._groups[case] != group].mean()
                for case, share in search.shares.items()
            )

        best = max(map(by_others, tried))
        allowed = [mix for mix in tried if by_others(mix) == pytest.approx(best, abs=1e-12)]
        for case, own in search._groups.items():
            rows = own == group
            if rows.any():
                found = choice.after[case][rows]
                assert any(np.allclose(found, exact[case][mix][rows]) for mix in allowed)
    for case in search.cases:
        np.testing.assert_allclose(choice.before[case], exact[case][Mix()])


@pytest.mark.slow
def test_pairs_keep_memory_that_is_within_one_standard_error_of_the_best(tasks):
    search = search_of(*tasks["preferred"])
    rival, memories = Mix(0), [Mix(weight=w, shape=shape) for w in WEIGHTS[1:] for shape in range(len(SHAPES))]
    memories += [replace(mix, weight=-mix.weight) for mix in memories]  # for documents that were not preferred
    values = {mix: search.values(mix) for mix in (Mix(), rival, *memories)}

    def expected(mix: Mix) -> float:
        return sum(share * values[mix][case].mean() for case, share in search.shares.items())

    errors = [
        share * np.std(values[rival][case] - values[Mix()][case], ddof=1) / np.sqrt(len(values[rival][case]))
        for case, share in search.shares.items()
    ]
    least = expected(rival) - np.sqrt(np.sum(np.square(errors)))
    kept = [mix for mix in memories if expected(mix) >= least]
    assert kept
    assert len(kept) < len(memories)
    for mix in memories:
        assert search.best([rival, mix]) == (mix if mix in kept else rival)
    ranked = search_of(*tasks["judged"])  # rankings see every document, so the best is the best
    assert ranked.best([rival, *memories]) == max([rival, *memories], key=ranked.expected)


@pytest.mark.slow
def test_a_query_is_in_one_group_whatever_the_case():
    log = [Impression(f"ask{i % 8:02d}", (f"d{i % 5}", f"d{5 + i % 7}"), (f"d{5 + i % 7}",)) for i in range(200)] + [
        Impression(f"say{i % 8:02d}", ("d1", "d2"), ("d2",)) for i in range(40)
    ]
    order = np.random.default_rng(0).permutation(len(log))
    task = Task.from_evidence(CORPUS.docs, None, clicks=ClickLog(tuple(log[i] for i in order)))
    [space] = task.spaces({"BM25": tc.Vectorizer(weighting="bm25")})
    search = search_of(task, space)
    assert REPEATED in search.cases
    group_of: dict[str, int] = {}
    for name, case in search.cases.items():
        for qid, group in zip(case.qids, search._groups[name], strict=True):
            assert group_of.setdefault(qid.split(",")[0], group) == group
    assert len(set(group_of.values())) == 5


def test_a_query_that_was_left_out_twice_has_the_mean():
    task, space = judged()
    parts = [fold.parts(space.Q, space.D)[0].held_out for fold in task.known]
    case = Case(parts)
    assert sorted(case.qids) == sorted(CORPUS.qrels)
    value_of = [{qid: float(number + 10 * int(qid[1:])) for qid in part.qids} for number, part in enumerate(parts)]
    merged = case.mean([np.array(list(one.values())) for one in value_of])
    for qid, value in zip(case.qids, merged, strict=True):
        assert value == pytest.approx(np.mean([one[qid] for one in value_of if qid in one]))
    assert case.size([2 * len(part.qids) for part in parts]) == 2 * len(CORPUS.qrels)


# -- the decision -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_handful_of_queries_with_new_answers_vetoes_nothing():
    docs = {f"d{i}": f"thing{i} text" for i in range(40)}
    queries = {f"q{i}": f"ask{i % 3} words{i}" for i in range(80)}
    qrels = {qid: {"d30": 1} for qid in queries} | {"q79": {"d20": 1}}
    report = tc.fit(docs, queries, qrels, ranker="diagonal", options={"n_steps": 200}).report
    assert {result.name: result.n_queries for result in report.evidence} == {KNOWN: 79, NEW: 1}
    assert report.accepted
    assert "new answers" not in report.decision


@pytest.mark.slow
@pytest.mark.parametrize("n_queries", [30, 80])
@pytest.mark.parametrize("seed", range(3))
def test_a_gain_must_exceed_one_standard_error_or_two_of_few_queries(n_queries, seed):
    noise = with_random_answers(matching(seed), seed)
    report = tc.fit(
        noise.docs, noise.queries, noise.part(0, n_queries), ranker="diagonal", options={"n_steps": 300}
    ).report
    n_errors = 2 if n_queries < 60 else 1
    found = re.search(r"expected to change by ([+-][\d.]+)", report.decision)
    if found is None:
        assert report.decision.startswith("Nothing that was learned is better")
        return
    change = float(found[1])
    if report.accepted:
        error = float(re.search(r"standard error ([\d.]+)", report.decision)[1])
        assert change > n_errors * (error - 0.0006)
    elif change > 0:
        error = float(re.search(r"standard error ([\d.]+)", report.decision)[1])
        assert change <= n_errors * (error + 0.0006)
    else:
        assert "no gain" in report.decision


# -- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ranker", ["low-rank", "diagonal"])
def test_a_fitted_model_has_the_scores_of_the_equations(ranker):
    corpus = synonyms(4, n_pairs=12, n_docs=50, n_queries=80)
    some = {qid: corpus.queries[qid] for qid in corpus.part(60)}
    model = tc.fit(corpus.docs, corpus.queries, corpus.part(0, 60), ranker=ranker, options={"n_steps": 2000})
    assert "memory" in model.parts
    changed = {**corpus.docs, "new": "say01 common02", "newer": corpus.queries["q0"]}
    del changed["d0"], changed["d3"]
    expected = oracle_scores(model, changed, list(some.values()))
    run = model.rank(some, changed, k=len(changed))
    for row, qid in zip(expected, some, strict=True):
        assert [run[qid][doc_id] for doc_id in changed] == pytest.approx(row.tolist(), rel=1e-4, abs=1e-4)


def arrays_of(model: tc.TextModel) -> list:
    parts = [bits(model.weights)]
    for memory in (model.memory, model.learned.other_memory):
        if memory is not None:
            meta, arrays = memory.to_state()
            parts += [meta, {name: array.tobytes() for name, array in arrays.items()}]
    if model.learned.other_weights is not None:
        parts.append(bits(model.learned.other_weights))
    return parts


def fit_again(corpus: Corpus, seed: int = 0, **more: object) -> tc.TextModel:
    return tc.fit(corpus.docs, corpus.queries, corpus.qrels, random_state=seed, options={"n_steps": 1500}, **more)


@pytest.mark.slow
def test_more_threads_and_the_same_seed_give_the_same_bits(monkeypatch):
    corpus = synonyms(5, n_pairs=10, n_docs=30, n_queries=40)
    fitted = []
    for processors in ({0}, {0, 1, 2, 3}, {0, 1, 2, 3}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, own=processors: own, raising=False)
        fitted.append(fit_again(corpus, ranker=["low-rank", "sparse", "diagonal"]))
    for model in fitted[1:]:
        assert arrays_of(model) == arrays_of(fitted[0])
        assert str(model.report) == str(fitted[0].report)


@pytest.mark.slow
def test_another_seed_gives_another_split():
    corpus = synonyms(5, n_pairs=10, n_docs=30, n_queries=40)
    one, other = (fit_again(corpus, seed, ranker="diagonal") for seed in (0, 1))
    assert str(one.report) != str(other.report)
