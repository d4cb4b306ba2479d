"""Leaving queries and documents out in turn, and choosing by what is measured there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.corpora import synonyms
from tercet.data.preferences import Preferences
from tercet.errors import InputError
from tercet.fitting import out_of_fold
from tercet.fitting.out_of_fold import OutOfFold, Pool, Tried, choose_crossed
from tercet.fitting.task import EVERY, N_FOLDS, NEW, SEEN, Fold, Task, folds_of, split_text, withheld_documents
from tercet.fitting.texts import judged_task, labelled_task
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
from tercet.measure.names import parse_measure, parse_measures
from tercet.weights import Identity, LowRank, Weights

# -- folds ------------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(1, 1500), st.integers(0, 3), st.sampled_from([40, 500, 1000]), st.randoms())
def test_folds_leave_every_query_out_as_often_or_enough_of_them(n, seed, enough, shuffled):
    qids = [f"q{i}" for i in range(n)]
    folds = folds_of(qids, seed, enough=enough)
    again = shuffled.sample(qids, n)
    assert folds_of(again, seed, enough=enough) == folds  # whatever the order they come in
    assert all(fold == sorted(set(fold)) and len(fold) <= enough for fold in folds)
    if len(folds) < N_FOLDS:
        left_out = [qid for fold in folds for qid in fold]
        assert len(set(left_out)) == len(left_out) >= enough  # as few folds as give enough
        assert len(left_out) - len(folds[-1]) < enough
        return
    repeats = [folds[first : first + N_FOLDS] for first in range(0, len(folds), N_FOLDS)]
    assert len(repeats) == (2 if n < 300 else 1)
    for repeat in repeats:
        assert len(repeat) == N_FOLDS
        sizes = [len(fold) for fold in repeat]
        assert max(sizes) - min(sizes) <= 1
        assert sorted(qid for fold in repeat for qid in fold) == sorted(qids)
    if n > 40 and len(repeats) == 2:
        assert sorted(repeats[0]) != sorted(repeats[1])


def test_another_seed_leaves_others_out_together():
    qids = [f"q{i}" for i in range(400)]
    assert sorted(folds_of(qids, 0)) != sorted(folds_of(qids, 1))


@pytest.mark.parametrize(
    ("n_folds", "n_queries", "what", "text"),
    [
        (0, 0, "query", "Validation queries were given."),
        (10, 60, "query", "Each query was left out twice, in 5 folds, to choose"),
        (5, 400, "text", "Each text was left out once, in 5 folds, to choose"),
        (1, 1500, "text", "1,500 texts were left out of one fit, to choose"),
        (3, 600, "query", "600 queries were left out of 3 fits, to choose"),
    ],
)
def test_how_queries_are_left_out_is_said(n_folds, n_queries, what, text):
    said = split_text(n_folds, n_queries, tested=False, what=what)
    assert said.startswith(text)
    reported_on_others = split_text(n_folds, n_queries, tested=True, what=what)
    assert reported_on_others == said.replace("to choose and to report on", "to choose")
    assert (reported_on_others != said) == (n_folds > 0)


# -- documents --------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 60), st.floats(0, 1))
def test_documents_are_withheld_only_where_few_answers_are_new(seed, n_queries, n_docs, share):
    rng = np.random.default_rng(seed)
    known = rng.random(n_docs) < share
    answers = sparse.csr_array(rng.random((n_queries, n_docs)) < 0.2, dtype=np.int64)
    withheld = withheld_documents(known, answers, np.random.default_rng(0))
    has_new = [any(not known[doc] for doc in np.flatnonzero(row)) for row in answers.toarray()]
    assert not (withheld & ~known).any()
    if sum(has_new) >= 0.3 * n_queries:
        assert not withheld.any()
    else:
        assert withheld.sum() == round(0.1 * known.sum())
    assert (withheld == withheld_documents(known, answers, np.random.default_rng(0))).all()


def drawn(fold: Fold, n: int = 30_000) -> tuple[set[int], set[int]]:
    """Rows of queries, and of better documents, that a fold draws."""
    query, better, _ = fold.sampler.draw(np.random.default_rng(0), n)
    return set(query.tolist()), set(better.tolist())


def answers_of(held_out: HeldOutQueries) -> set[int]:
    grades = held_out.grades.tocoo()
    return set(grades.col[grades.data > 0].tolist())


def check_folds(task: Task, query_rows: dict[str, int], n_folds: int) -> None:
    """No fold draws a query that it is measured by; a document is new where it is never drawn as the better one."""
    [space] = task.spaces({"BM25": tc.Vectoriser(weighting="bm25")})
    assert len(task.folds) == n_folds
    for fold in task.folds:
        parts = {part.name: part for part in fold.parts(space.Q, space.D)}
        every = parts[EVERY].held_out
        queries, better = drawn(fold)
        left_out = {query_rows[qid] for qid in every.qids}
        assert not queries & left_out
        in_training = answers_of(every) & better
        assert (SEEN in parts) == bool(in_training)
        assert (NEW in parts) == bool(answers_of(every) - better)
        for name, docs in ((SEEN, in_training), (NEW, answers_of(every) - better)):
            if name in parts:
                assert answers_of(parts[name].held_out) == docs
                assert set(parts[name].held_out.qids) <= set(every.qids)
                assert parts[name].size == (parts[name].held_out.grades.data > 0).sum()
        assert NEW in parts  # where there are judgements to withhold, some answers are new
    learned, _ = drawn(Fold(task.sampler, task.folds[0].parts))
    assert learned == {query_rows[qid] for qid in task.facts.texts if qid in query_rows} - {
        row for qid, row in query_rows.items() if qid not in space.queries.qids
    }


def test_what_a_fold_is_measured_by_it_never_draws():
    corpus = synonyms(3, n_pairs=12, n_docs=60, n_queries=40)
    task = judged_task(corpus.docs, corpus.queries, corpus.qrels, None, None, "nDCG@10", 0)
    check_folds(task, {qid: row for row, qid in enumerate(corpus.queries)}, 2 * N_FOLDS)
    assert task.facts.n_train == 40


def test_with_validation_given_there_is_one_fold_that_learns_from_all_else():
    corpus = synonyms(3, n_pairs=12, n_docs=60, n_queries=40)
    task = judged_task(
        corpus.docs, corpus.queries, corpus.part(0, 25), corpus.part(25, 35), corpus.part(35), "nDCG@10", 0
    )
    [space] = task.spaces({"BM25": tc.Vectoriser(weighting="bm25")})
    [fold] = task.folds
    rows = {qid: row for row, qid in enumerate(corpus.queries)}
    every, *_ = fold.parts(space.Q, space.D)
    assert every.held_out.qids == tuple(corpus.part(25, 35))
    assert space.queries.qids == tuple(corpus.part(0, 35))  # nothing is learned where the start is chosen
    assert drawn(fold)[0] <= {rows[qid] for qid in corpus.part(0, 25)}
    assert drawn(Fold(task.sampler, fold.parts))[0] == {rows[qid] for qid in corpus.part(0, 25)}
    tested = {part.name: part.held_out for part in space.test}
    assert tested[EVERY].qids == tuple(corpus.part(35))
    # What is reported on is new where no training query has it as an answer, and nothing is withheld then.
    answered = {doc_id for judged in corpus.part(0, 25).values() for doc_id in judged}
    doc_ids = list(corpus.docs)
    for name, is_seen in ((SEEN, True), (NEW, False)):
        docs = answers_of(tested[name]) if name in tested else set()
        expected = {d for judged in corpus.part(35).values() for d in judged if (d in answered) == is_seen}
        assert {doc_ids[row] for row in docs} == expected


def test_a_document_is_withheld_with_all_its_judgements_but_never_all_of_them():
    docs = {f"d{i}": f"word{i}" for i in range(3)}
    queries = {f"q{i}": "word0" for i in range(20)}
    one_answer = judged_task(docs, queries, {qid: {"d0": 1} for qid in queries}, None, None, "RR", 0)
    for fold in one_answer.folds:
        assert drawn(fold, 500)[1] == {0}


def test_texts_left_out_teach_nothing_and_are_ranked_among_themselves():
    texts = [f"{'cat' if i % 2 else 'dog'} word{i}" for i in range(40)]
    task = labelled_task(texts, ["x", "y"] * 20, None, "AP", 0)
    [space] = task.spaces({"tf-idf": tc.Vectoriser()})
    assert len(task.folds) == 2 * N_FOLDS
    for fold in task.folds:
        [part] = fold.parts(space.Q, space.D)
        rows = set(map(int, part.held_out.qids))
        query, better, worse = fold.sampler.draw(np.random.default_rng(0), 2000)
        assert not rows & {*query.tolist(), *better.tolist(), *worse.tolist()}
        assert part.held_out.D.shape[0] == len(rows) == part.size == 8
    query, _, _ = task.sampler.draw(np.random.default_rng(0), 5000)
    assert set(query.tolist()) == set(range(40))


# -- measuring by documents, and blends -------------------------------------------------------------------------------


def measured(scores: Sequence[float], grades: Sequence[int], shown: Sequence[bool]) -> tuple[float, float]:
    """AP and nDCG@10 of the documents that are shown, in the plainest way."""
    ranked = [grades[doc] for doc in oracles.ranking(list(scores)) if shown[doc]]
    precision = [sum(g > 0 for g in ranked[: k + 1]) / (k + 1) for k, grade in enumerate(ranked) if grade > 0]
    gain, ideal = (
        sum(max(g, 0) / np.log2(k + 2) for k, g in enumerate(order[:10]))
        for order in (ranked, sorted(ranked, reverse=True))
    )
    return float(np.mean(precision)), gain / ideal


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_queries_by_documents_and_blends_are_what_anyone_would_compute(seed, excluded, hiding):
    rng = np.random.default_rng(seed)
    n_queries, n_docs, n_words = 6, 12, 5
    Q, D = (np.round(rng.random((n, n_words)), 1) * (rng.random((n, n_words)) < 0.6) for n in (n_queries, n_docs))
    grades = rng.integers(-1, 3, (n_queries, n_docs)) * (rng.random((n_queries, n_docs)) < 0.4)
    hidden = (rng.random((n_queries, n_docs)) < 0.2) & (grades == 0)
    exclude = np.array([int(np.flatnonzero(row <= 0)[0]) for row in grades])
    chosen = rng.random(n_docs) < 0.5
    held_out = HeldOutQueries(
        sparse.csr_array(Q, dtype=np.float32),
        sparse.csr_array(D, dtype=np.float32),
        sparse.csr_array(grades),
        tuple(f"q{i}" for i in range(n_queries)),
        parse_measure("AP"),
        exclude if excluded else None,
        sparse.csr_array(hidden, dtype=np.int64) if hiding else None,
    )
    U, V = (rng.normal(size=(n_words, 2)).astype(np.float32) for _ in range(2))
    weights, match = Weights([LowRank(query_factors=U, doc_factors=V)]), Weights([Identity(n_terms=n_words)])
    measures = parse_measures(["AP", "nDCG@10"])
    factors = (0.0, 0.5, 3.0)
    part = held_out.by_documents(chosen)
    rows = [i for i in range(n_queries) if ((grades[i] > 0) & chosen).any()]
    if not rows:
        assert part is None
        return
    assert part is not None
    assert part.qids == tuple(f"q{i}" for i in rows)
    ours = part.measures_of_blends(weights, match, factors, measures)
    assert ours.shape == (len(factors), len(rows), 2)
    for position, factor in enumerate(factors):
        blend = weights + match * factor
        np.testing.assert_allclose(ours[position], part.evaluate(blend, measures).values, atol=1e-12)
        scores = blend.score(part.Q, part.D)
        expected = []
        for number, row in enumerate(rows):
            shown = ~((grades[row] > 0) & ~chosen)  # other answers are not there
            if hiding:
                shown &= ~hidden[row]
            if excluded:
                shown[exclude[row]] = False
            expected.append(measured(scores[number].tolist(), grades[row].tolist(), shown.tolist()))
        np.testing.assert_allclose(ours[position], expected, atol=1e-12)
    [alone] = held_out.measures_of_blends(weights, match, [0.0], (held_out.measure,))
    np.testing.assert_array_equal(alone[:, 0], held_out.values(weights))


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 2**32), st.booleans())
def test_preferences_by_documents_and_blends_are_what_anyone_would_compute(seed, weighted):
    rng = np.random.default_rng(seed)
    Q, D = (sparse.csr_array(np.round(rng.random((n, 4)), 1), dtype=np.float32) for n in (5, 8))
    query = np.sort(rng.integers(0, 5, 20))
    better = rng.integers(0, 8, 20)
    worse = (better + rng.integers(1, 8, 20)) % 8
    weight = rng.random(20) + 0.1 if weighted else None
    rows = np.unique(query)
    prefs = Preferences(query, better, worse, weight)
    held_out = HeldOutPreferences(Q, D, prefs, tuple(f"q{row}" for row in rows))
    chosen = rng.random(8) < 0.4
    U, V = (rng.normal(size=(4, 2)).astype(np.float32) for _ in range(2))
    weights, match = Weights([LowRank(query_factors=U, doc_factors=V)]), Weights([Identity(n_terms=4)])
    part = held_out.by_documents(chosen)
    kept = [i for i in range(20) if chosen[better[i]]]
    if not kept:
        assert part is None
        return
    assert part is not None
    ours = part.measures_of_blends(weights, match, (0.0, 2.0), (held_out.measure,))
    for position, factor in enumerate((0.0, 2.0)):
        scores = (weights + match * factor).score(Q, D)
        expected = {}
        for row in rows.tolist():
            own = [i for i in kept if query[i] == row]
            right = [0.5 * (1 + np.sign(scores[row, better[i]] - scores[row, worse[i]])) for i in own]
            if own:
                expected[f"q{row}"] = np.average(right, weights=None if weight is None else weight[own])
        assert part.qids == tuple(expected)
        np.testing.assert_allclose(ours[position, :, 0], list(expected.values()), atol=1e-12)
    with pytest.raises(InputError, match="preferences are measured by PairAccuracy alone; got AP"):
        part.measures_of_blends(weights, match, (0.0,), parse_measures(["AP"]))


# -- values of several folds ------------------------------------------------------------------------------------------


def test_a_query_that_was_left_out_twice_has_the_mean_of_both():
    pool = Pool()
    pool.add("a part", ("x", "y"), np.array([[[1.0, 10.0], [2.0, 20.0]], [[3.0, 30.0], [4.0, 40.0]]]))
    pool.add("a part", ("z", "x"), np.array([[[5.0, 50.0], [7.0, 70.0]], [[6.0, 60.0], [9.0, 90.0]]]))
    pool.add("another", ("x",), np.zeros((2, 1, 2)))
    assert pool.names == ["a part", "another"]
    assert pool.qids("a part") == ("x", "y", "z")
    assert pool.values("a part").tolist() == [
        [[4.0, 40.0], [2.0, 20.0], [5.0, 50.0]],
        [[6.0, 60.0], [4.0, 40.0], [6.0, 60.0]],
    ]


# -- choosing ---------------------------------------------------------------------------------------------------------

Values = dict[str, dict[str, float]]  # part -> query -> value


def pool_of(settings_values: Sequence[Values]) -> Pool:
    """A pool of some settings; each query in one fold."""
    pool = Pool()
    for name in settings_values[0]:
        qids = tuple(settings_values[0][name])
        pool.add(name, qids, np.array([[[values[name][qid]] for qid in qids] for values in settings_values]))
    return pool


def chosen_of(start: Values, candidates: Sequence[Sequence[Values]], **how: object) -> out_of_fold.Choice:
    tried = [
        Tried(number, [10.0 * number + position for position in range(len(values))], pool_of(values))
        for number, values in enumerate(candidates)
    ]
    given = {"higher_is_better": True, "start_name": "BM25", "measure": "AP"} | how
    return choose_crossed(pool_of([start]), tried, **given)  # type: ignore[arg-type]


def mean_and_error(before: Values, after: Values, name: str, qids: set[str], sign: float) -> tuple[float, float]:
    gain = [sign * (after[name][qid] - before[name][qid]) for qid in before[name] if qid in qids]
    if len(gain) < 2:
        return float(np.mean(gain)), float("inf")
    return float(np.mean(gain)), float(np.std(gain, ddof=1) / np.sqrt(len(gain)))


def best_by(start: Values, listed: Sequence[Values], qids: set[str], sign: float, accept: str) -> int:
    """The setting with the best mean, of those that do not harm new documents, where there are such."""
    harmless = []
    for number, values in enumerate(listed):
        judged = [qid for qid in start.get(NEW, ()) if qid in qids]
        if accept == "all" and judged:
            mean, error = mean_and_error(start, values, NEW, qids, sign)
            if mean < -out_of_fold._MOST_RISKED * error:
                continue
        harmless.append(number)
    means = {
        number: mean_and_error(start, listed[number], EVERY, qids, sign)[0] for number in harmless or range(len(listed))
    }
    best = max(means.values())
    return min(number for number, mean in means.items() if mean == best)


def groups_of(qids: set[str], seed: int) -> dict[str, int]:
    ordered = sorted(qids)
    order = np.random.default_rng(seed).permutation(len(ordered))
    return {ordered[number]: position % N_FOLDS for position, number in enumerate(order)}


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["all", "seen"]), st.booleans(), st.integers(2, 40), st.booleans())
def test_the_choice_is_crossed_as_anyone_would_cross_it(seed, accept, higher, n_queries, has_more):
    rng = np.random.default_rng(seed)
    qids = [f"q{i}" for i in range(n_queries)]
    parts = {EVERY: qids, SEEN: qids[: n_queries // 2 + 1], NEW: qids[n_queries // 2 :]}
    if has_more:  # a part of other queries
        parts["triplets"] = [f"t{i}" for i in range(30)]
    if rng.random() < 0.2:
        del parts[NEW]

    def values(lift: float) -> Values:
        return {name: {qid: float(np.round(rng.random(), 1) + lift) for qid in own} for name, own in parts.items()}

    start = values(0.0)
    candidates = [[values(rng.normal(0, 0.2)) for _ in range(3)] for _ in range(2)]
    listed = [one for candidate in candidates for one in candidate]
    sign = 1.0 if higher else -1.0
    choice = chosen_of(start, candidates, higher_is_better=higher, accept=accept, random_state=seed % 7)
    everyone = {qid for own in parts.values() for qid in own}
    best = best_by(start, listed, everyone, sign, accept)
    assert (choice.tried.candidate, choice.blend) == (best // 3, 10.0 * (best // 3) + best % 3)
    group = groups_of(everyone, seed % 7)
    crossed: Values = {name: {} for name in parts}
    for number in range(N_FOLDS):
        others = {qid for qid in everyone if group[qid] != number}
        setting = best_by(start, listed, others, sign, accept) if others & set(qids) else best
        for name, own in parts.items():
            crossed[name] |= {qid: listed[setting][name][qid] for qid in own if group[qid] == number}
    for name, own in parts.items():
        assert choice.before[name][:, 0].tolist() == [start[name][qid] for qid in own]
        assert choice.after[name][:, 0].tolist() == [crossed[name][qid] for qid in own], name
    mean, error = mean_and_error(start, crossed, EVERY, everyone, sign)
    is_kept = mean > error
    if NEW in parts and accept == "all":
        new, new_error = mean_and_error(start, crossed, NEW, everyone, sign)
        is_kept = is_kept and new >= -new_error
    assert choice.decision.accepted == is_kept
    assert choice.decision.text.startswith("Learning was accepted" if is_kept else "Learning was rejected; the model i")


def constant(n: int, values: dict[str, float], noise: float = 0.0) -> Values:
    rng = np.random.default_rng(0)
    return {name: {f"q{i}": value + noise * rng.normal() for i in range(n)} for name, value in values.items()}


START = constant(20, {EVERY: 0.5, SEEN: 0.5, NEW: 0.5})
HARMS = constant(20, {EVERY: 0.8, SEEN: 0.9, NEW: 0.3})
HELPS = constant(20, {EVERY: 0.6, SEEN: 0.6, NEW: 0.5})


def test_what_takes_from_new_documents_is_not_chosen_where_something_else_helps():
    by_default = chosen_of(START, [[HARMS], [HELPS]])
    assert (by_default.tried.candidate, by_default.decision.accepted) == (1, True)
    assert "On answers that no other query had, new documents, it changed by +0.000 from 0.500" in (
        by_default.decision.text
    )
    seen = chosen_of(START, [[HARMS], [HELPS]], accept="seen")
    assert (seen.tried.candidate, seen.decision.accepted) == (0, True)
    assert "changed by -0.200 from 0.500" in seen.decision.text
    assert "a loss, which accept='seen' allows" in seen.decision.text


def test_where_all_of_them_harm_learning_is_declined_and_says_why():
    choice = chosen_of(START, [[HARMS]])
    assert not choice.decision.accepted
    assert choice.decision.text.startswith("Learning was rejected; the model is BM25: AP changed by +0.300")
    assert "at the cost of new documents" in choice.decision.text
    assert "accept='seen' takes it all the same" in choice.decision.text
    assert (choice.after[EVERY][:, 0] == 0.8).all()  # what is rejected is shown
    assert chosen_of(START, [[HARMS]], accept="seen").decision.accepted


def test_of_equals_the_first_is_taken_and_no_gain_is_no_gain():
    choice = chosen_of(START, [[HELPS, HELPS], [HELPS]])
    assert (choice.tried.candidate, choice.blend) == (0, 0.0)
    same = chosen_of(START, [[START]])
    assert not same.decision.accepted
    assert "changed by +0.000 from BM25's 0.500, with a standard error of 0.000" in same.decision.text


def test_a_setting_that_some_queries_like_by_chance_is_not_reported_by_them():
    """Each of many settings is good for one query alone: the best of them gains where it chose, and nowhere else."""
    n = 20
    start = constant(n, {EVERY: 0.5})
    lucky = [{EVERY: {f"q{i}": 1.5 if i == one else 0.5 - 0.01 for i in range(n)}} for one in range(n)]
    choice = chosen_of(start, [lucky])
    best = np.mean([list(values[EVERY].values()) for values in lucky], axis=1).max()
    assert best > 0.5
    assert choice.after[EVERY].mean() < 0.5
    assert not choice.decision.accepted


# -- the folds of a fit, end to end -----------------------------------------------------------------------------------


def test_out_of_fold_values_are_those_of_the_weights_that_each_fold_trains():
    corpus = synonyms(3, n_pairs=12, n_docs=30, n_queries=30)
    task = judged_task(corpus.docs, corpus.queries, corpus.qrels, None, None, "AP", 0)
    [space] = task.spaces({"BM25": tc.Vectoriser(weighting="bm25")})
    measures = parse_measures(["AP", "nDCG@10"])
    folds = OutOfFold(space, task.folds, measures)
    n_words = space.D.shape[1]
    rng = np.random.default_rng(0)
    trained = [
        Weights([LowRank(query_factors=U, doc_factors=V)])
        for U, V in ((rng.normal(size=(2, n_words, 2)).astype(np.float32)) for _ in task.folds)
    ]
    [pool] = folds.fit(lambda fold, number: [trained[number]], [(0.0, 2.0)])
    doc_ids = list(corpus.docs)
    expected: dict[str, list[list[tuple[float, float]]]] = {}
    rows = {qid: row for row, qid in enumerate(corpus.queries)}
    for parts, weights in zip(folds.parts, trained, strict=True):
        for qid in parts[0].held_out.qids:
            grades = [corpus.qrels[qid].get(doc_id, 0) for doc_id in doc_ids]
            expected.setdefault(qid, []).append(
                [
                    measured(
                        (weights + space.match * blend).score(space.Q[[rows[qid]]], space.D)[0].tolist(),
                        grades,
                        [True] * len(doc_ids),
                    )
                    for blend in (0.0, 2.0)
                ]
            )
    assert set(pool.qids(EVERY)) == set(corpus.qrels)
    assert {len(values) for values in expected.values()} == {2}  # few queries are left out twice
    means = np.array([np.mean(expected[qid], axis=0) for qid in pool.qids(EVERY)])  # (n_queries, n_blends, n_measures)
    np.testing.assert_allclose(pool.values(EVERY), means.transpose(1, 0, 2), atol=1e-12)
    start = folds.start()
    assert start.qids(NEW) == pool.qids(NEW)
    assert folds.size(EVERY) == sum(grade > 0 for judged in corpus.qrels.values() for grade in judged.values())
    assert folds.measures_of(EVERY) == measures


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qrels", "preferences"])
def test_queries_of_the_same_text_are_left_out_together(kind, monkeypatch):
    """Else what was learned from the one would be measured on the other."""
    left_out = []

    def noted(*args, **how):
        left_out.append(folds_of(*args, **how))
        return left_out[-1]

    for module in ("texts", "evidence"):
        monkeypatch.setattr(f"tercet.fitting.{module}.folds_of", noted)
    docs = {f"d{number}": f"word{number} other{number}" for number in range(24)}
    queries = {f"q{number}": f"word{number // 2}" if number % 2 else f" Word{number // 2}" for number in range(24)}
    asked = {"qrels": {qid: {f"d{qid[1:]}": 1} for qid in queries}}
    if kind == "preferences":
        asked = {"preferences": [(qid, f"d{qid[1:]}", f"d{(int(qid[1:]) + 1) % 24}") for qid in queries]}
    how = {"ranker": "dense", "n_steps": 200, "verbose": False, **asked}
    assert not [note for note in tc.fit(docs, queries, **how).report.notes if "flatters" in note]
    [folds] = left_out
    assert {qid for fold in folds for qid in fold} == set(queries)
    for fold in folds:
        assert {f"q{int(qid[1:]) ^ 1}" for qid in fold} == set(fold)
    few = {qid: f"word{int(qid[1:]) % 5}" for qid in queries}
    notes = tc.fit(docs, few, **how).report.notes
    assert any(note.startswith("24 queries have 5 different texts") and "flatters" in note for note in notes)
