"""The Preferences value and the samplers that draw it from labels, judgements and links."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from tercet.data.preferences import PreferenceSampler
from tercet.data.sampling import JudgementSampler, LabelSampler
from tercet.errors import InputError

LARGEST = 2**31 - 1

# Query, better, worse with better and worse different, as columns.
triples = st.lists(
    st.tuples(st.integers(0, LARGEST), st.integers(0, LARGEST), st.integers(0, LARGEST)).filter(lambda t: t[1] != t[2]),
    max_size=20,
).map(lambda rows: [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []])


def columns_of(prefs: tc.Preferences) -> list[list[int]]:
    return [prefs.query.tolist(), prefs.better.tolist(), prefs.worse.tolist()]


def as_set(prefs: tc.Preferences) -> set[tuple[int, int, int]]:
    return set(zip(*columns_of(prefs), strict=True))


# -- the value ------------------------------------------------------------------------------------------------------


@given(columns=triples, dtype=st.sampled_from([np.int32, np.int64, np.uint32, np.uint64]))
def test_what_goes_in_comes_out_as_int32(columns, dtype):
    prefs = tc.Preferences(*(np.array(column, dtype=dtype) for column in columns))
    assert columns_of(prefs) == columns
    assert len(prefs) == len(columns[0])
    assert {prefs.query.dtype, prefs.better.dtype, prefs.worse.dtype} == {np.dtype(np.int32)}
    assert prefs.weight is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0, -1, -2], [1, 1, 1], [2, 2, 2]), r"query\[1\] is -1; row numbers run from 0 to 2147483647"),
        (([0, 0], [1, LARGEST + 1], [2, 2]), r"better\[1\] is 2147483648; row numbers run from 0 to 2147483647"),
        (
            ([0], [1], np.array([2**63], dtype=np.uint64)),
            r"worse\[0\] is 9223372036854775808; row numbers run from 0",
        ),
        (([0, 0, 0], [1, 5, 7], [2, 5, 7]), r"better\[1\] and worse\[1\] are both 5; they must differ"),
        (([0, 0], [1], [2]), "query, better and worse must have one length; got 2, 1 and 1"),
        (([[0]], [1], [2]), r"query must be one-dimensional; got shape \(1, 1\)"),
        ((0, [1], [2]), r"query must be one-dimensional; got shape \(\)"),
        (([0], [1.0], [2]), "better must hold integer row numbers; got dtype float64"),
        (([0], [1], [True]), "worse must hold integer row numbers; got dtype bool"),
        ((["0"], [1], [2]), "query must hold integer row numbers; got dtype <U1"),
        (([0], [1], [2], [[1.0]]), r"weight must have shape \(1,\); got \(1, 1\)"),
        (([0, 0], [1, 1], [2, 2], [1.0]), r"weight must have shape \(2,\); got \(1,\)"),
        (([0, 0], [1, 1], [2, 2], [1.0, 0.0]), r"weight\[1\] is 0.0; weights are positive and at most"),
        (([0, 0], [1, 1], [2, 2], [-1.0, -2.0]), r"weight\[0\] is -1.0; weights are positive and at most"),
        (([0, 0], [1, 1], [2, 2], [1.0, np.nan]), r"weight\[1\] is nan; weights are positive and at most"),
        (([0, 0], [1, 1], [2, 2], [np.inf, 1.0]), r"weight\[0\] is inf; weights are positive and at most"),
        (([0, 0], [1, 1], [2, 2], None, [1.0]), r"margin must have shape \(2,\); got \(1,\)"),
        (([0, 0], [1, 1], [2, 2], None, [1.0, 0.0]), r"margin\[1\] is 0.0; margins are positive and at most"),
        (([0, 0], [1, 1], [2, 2], None, [np.nan, 1.0]), r"margin\[0\] is nan; margins are positive and at most"),
        (([0], [1], [2], None, ["wide"]), "margin must hold numbers; got dtype <U4"),
    ],
)
def test_the_first_offending_position_is_named(columns, message):
    with pytest.raises(InputError, match=message):
        tc.Preferences(*columns)


@pytest.mark.parametrize(
    "columns",
    [
        ([[0], [0, 1]], [1, 1], [2, 2]),
        ([0], [1], [2], ["much"]),
        ([0], [1], [2], [1e39]),
    ],
    ids=["ragged rows", "a word as weight", "a weight beyond float32"],
)
def test_what_numpy_refuses_is_an_input_error(columns):
    with pytest.raises(InputError):
        tc.Preferences(*columns)


def test_nothing_can_be_changed_through_the_value():
    prefs = tc.Preferences([0], [1], [2], [3.0], [4.0])
    with pytest.raises(FrozenInstanceError):
        prefs.query = np.array([1])
    for array in (prefs.query, prefs.better, prefs.worse, prefs.weight, prefs.margin):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_changing_the_array_it_was_made_from_changes_nothing():
    query = np.array([0, 1], dtype=np.int32)
    prefs = tc.Preferences(query, [1, 1], [2, 2])
    before = prefs.fingerprint()
    query[0] = 9
    assert prefs.query.tolist() == [0, 1]
    assert prefs.fingerprint() == before


def test_the_callers_weights_stay_writeable():
    weight = np.ones(2, dtype=np.float32)
    prefs = tc.Preferences([0, 1], [1, 1], [2, 2], weight)
    weight[0] = 9
    assert prefs.weight.tolist() == [1.0, 1.0]


@given(columns=triples, data=st.data())
def test_slices_and_picks_are_those_of_each_column(columns, data):
    n = len(columns[0])
    prefs = tc.Preferences(*columns, np.arange(1, n + 1), np.arange(n + 1, 1, -1))
    picks = [data.draw(st.slices(n)), np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)]
    if n:
        picks.append(np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=9)), dtype=np.int64))
    for pick in picks:
        part = prefs[pick]
        assert columns_of(part) == [np.array(column, dtype=np.int64)[pick].tolist() for column in columns]
        assert part.weight.tolist() == prefs.weight[pick].tolist()
        assert part.margin.tolist() == prefs.margin[pick].tolist()


def test_one_preference_is_picked_by_a_slice_not_by_a_number():
    with pytest.raises(InputError, match="one-dimensional"):
        tc.Preferences([0], [1], [2])[0]


@given(columns=triples.filter(lambda c: c[0]), data=st.data())
def test_equality_is_of_content(columns, data):
    prefs = tc.Preferences(*columns)
    assert prefs == tc.Preferences(*columns)
    assert prefs != tc.Preferences(*columns, np.ones(len(prefs)))
    assert prefs != prefs[:-1]
    assert prefs != columns
    at = data.draw(st.integers(0, len(prefs) - 1))
    changed = [list(column) for column in columns]
    changed[0][at] = (changed[0][at] + 1) % LARGEST
    assert prefs != tc.Preferences(*changed)
    assert prefs.fingerprint() != tc.Preferences(*changed).fingerprint()


def test_equal_to_a_plain_value_is_neither_true_nor_an_error():
    assert (tc.Preferences([0], [1], [2]) == 5) is False


def test_a_number_too_small_for_float32_stays_positive():
    prefs = tc.Preferences([0, 0], [1, 1], [2, 3], [1e-50, 1e-60], [1e-50, 1.0])
    assert (prefs.weight > 0).all()
    assert (prefs.margin > 0).all()
    assert PreferenceSampler(prefs).draw(np.random.default_rng(0), 5)[0].tolist() == [0] * 5


def test_no_weight_differs_from_every_weight():
    weight = np.frombuffer(b"none", dtype=np.float32).copy()
    assert tc.Preferences([0], [1], [2]) != tc.Preferences([0], [1], [2], weight)


def test_digests_tell_weights_and_margins_apart():
    made = [
        tc.Preferences([0], [1], [2], *given)
        for given in ((), ([2.0],), (None, [2.0]), (None, [3.0]), ([2.0], [2.0]), ([2.0], [3.0]))
    ]
    assert len({prefs.fingerprint() for prefs in made}) == len(made)


def test_repr_says_how_many_and_whether_weighted():
    assert repr(tc.Preferences([0] * 1200, [1] * 1200, [2] * 1200)) == "Preferences(1,200)"
    assert repr(tc.Preferences([0], [1], [2], [0.5])) == "Preferences(1, weighted)"
    assert repr(tc.Preferences([0], [1], [2], [0.5], [2.0])) == "Preferences(1, weighted, with margins)"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ((3, 9), r"query\[2\] is row 3, but Q has 3 rows \(0 to 2\)"),
        ((4, 5), r"better\[1\] is row 5, but D has 5 rows \(0 to 4\)"),
        ((4, 8), r"worse\[0\] is row 8, but D has 8 rows \(0 to 7\)"),
    ],
)
def test_check_rows_names_the_first_row_that_does_not_exist(limits, message):
    prefs = tc.Preferences([0, 1, 3], [1, 5, 5], [8, 8, 2])
    prefs.check_rows(4, 9)
    with pytest.raises(InputError, match=message):
        prefs.check_rows(*limits)


# -- drawing by labels ----------------------------------------------------------------------------------------------

labels = st.lists(st.sampled_from("abcd"), min_size=3, max_size=25).filter(
    lambda y: len(set(y)) >= 2 and len(set(y)) < len(y)
)


def allowed_by_labels(y: list[str]) -> set[tuple[int, int, int]]:
    n = range(len(y))
    return {(q, b, w) for q in n for b in n if b != q and y[b] == y[q] for w in n if y[w] != y[q]}


@given(y=labels, seed=st.integers(0, 10**6), kind=st.sampled_from([list, np.array, lambda y: list(map(ord, y))]))
def test_same_class_is_better_and_another_is_worse(y, seed, kind):
    prefs = tc.Preferences.from_labels(kind(y), 300, random_state=seed)
    assert len(prefs) == 300
    assert as_set(prefs) <= allowed_by_labels(y)
    assert prefs == tc.Preferences.from_labels(kind(y), 300, random_state=seed)


@settings(max_examples=20)
@given(y=st.lists(st.sampled_from("abc"), min_size=4, max_size=6))
def test_everything_allowed_by_labels_is_drawn(y):
    allowed = allowed_by_labels(y)
    if not allowed:
        with pytest.raises(InputError):
            tc.Preferences.from_labels(y, 1)
        return
    assert as_set(tc.Preferences.from_labels(y, 4000)) == allowed


def test_labels_are_drawn_uniformly():
    y = ["a"] * 9 + ["b"] * 3 + ["c"] * 2 + ["alone"]
    query, better, worse = LabelSampler(y).draw(np.random.default_rng(0), 60_000)
    assert_uniform(np.bincount(query, minlength=15)[:14])
    assert not (query == 14).any()  # a class of one has no better document
    of_first = query == 0
    assert_uniform(np.bincount(better[of_first], minlength=15)[1:9])
    assert_uniform(np.bincount(worse[of_first], minlength=15)[9:])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", "a", "a"], "y has the single class .*'a'.*; at least two are needed"),
        (["a", "b", "c"], "every class in y has one member; a class needs two"),
        ([1.0, np.nan, 1.0, np.inf], r"y\[1\] is nan; labels are finite"),
        ([1.0, 2.0, -np.inf], r"y\[2\] is -inf; labels are finite"),
        (np.array(["a", "a", 1, 1], dtype=object), r"y\[2\] is 1 and y\[0\] is 'a'; labels are all strings or all num"),
        ([["a"], ["a", "b"]], "y must be a one-dimensional array of labels: "),
        ([], r"y must be a non-empty one-dimensional array of labels; got shape \(0,\)"),
        ([["a"], ["b"]], r"y must be a non-empty one-dimensional array of labels; got shape \(2, 1\)"),
        ("aab", r"y must be a non-empty one-dimensional array of labels; got shape \(\)"),
    ],
)
def test_labels_that_allow_no_preference_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        tc.Preferences.from_labels(y, 5)


@pytest.mark.parametrize(
    "y",
    [[None, None, "a", "a"], np.array([np.nan, np.nan, 1.0, 1.0, 2.0], dtype=object)],
    ids=["None", "NaN among objects"],
)
def test_labels_that_are_no_labels_are_refused(y):
    with pytest.raises(InputError):
        tc.Preferences.from_labels(y, 5)


def test_labels_of_any_type_of_number_are_taken():
    y = np.array([np.int64(1), 1, np.float64(1), np.int64(2)], dtype=object)
    assert tc.Preferences.from_labels(y, 5) == tc.Preferences.from_labels([1, 1, 1, 2], 5)


# -- drawing by judgements ------------------------------------------------------------------------------------------

qrels_strategy = st.dictionaries(
    st.integers(0, 4), st.dictionaries(st.integers(0, 5), st.integers(-1, 3), max_size=5), min_size=1, max_size=4
)


def allowed_by_qrels(qrels, n_docs):
    """With n_docs unjudged documents have grade 0 and only positive grades can be better."""
    allowed = set()
    for q, judged in qrels.items():
        grades = judged if n_docs is None else {d: judged.get(d, 0) for d in range(n_docs)}
        for b, grade in judged.items():
            if n_docs is None or grade > 0:
                allowed |= {(q, b, w) for w, lower in grades.items() if lower < grade}
    return allowed


@settings(max_examples=50)
@given(
    qrels=qrels_strategy,
    n_docs=st.sampled_from([None, 6, 8]),
    uniform_over=st.sampled_from(["queries", "judgements"]),
    seed=st.integers(0, 10**6),
)
def test_exactly_the_preferences_that_judgements_allow_are_drawn(qrels, n_docs, uniform_over, seed):
    allowed = allowed_by_qrels(qrels, n_docs)
    draw = {"n_docs": n_docs, "uniform_over": uniform_over, "random_state": seed}
    if not allowed:
        with pytest.raises(InputError, match="no judgement"):
            tc.Preferences.from_qrels(qrels, 1, **draw)
        return
    prefs = tc.Preferences.from_qrels(qrels, 5000, **draw)
    assert as_set(prefs) == allowed
    assert prefs == tc.Preferences.from_qrels(qrels, 5000, **draw)


@given(qrels=qrels_strategy)
def test_unjudged_documents_have_grade_0(qrels):
    judgements = [(q, d, g) for q, judged in qrels.items() for d, g in judged.items()]
    if not allowed_by_qrels(qrels, 7):
        return
    sampler = JudgementSampler(*np.array(judgements).T, n_docs=7)
    query, doc = (a.ravel() for a in np.meshgrid(np.arange(5), np.arange(7)))
    expected = [qrels.get(q, {}).get(d, 0) for q, d in zip(query.tolist(), doc.tolist(), strict=True)]
    assert sampler.grade_of(query, doc).tolist() == expected


def test_queries_or_judgements_are_drawn_uniformly():
    qrels = {0: dict.fromkeys(range(12), 1), 1: {3: 2, 4: 1}, 2: {5: 1}, 3: {5: 0}}
    by_query = tc.Preferences.from_qrels(qrels, 60_000, n_docs=20)
    assert_uniform(np.bincount(by_query.query, minlength=4)[:3])
    assert_uniform(np.bincount(by_query.better[by_query.query == 0], minlength=20)[:12])
    assert_uniform(np.bincount(by_query.worse[by_query.query == 0], minlength=20)[12:])
    by_judgement = tc.Preferences.from_qrels(qrels, 60_000, n_docs=20, uniform_over="judgements")
    counts = np.bincount(by_judgement.query, minlength=4)
    assert_uniform(counts[:3], expected=60_000 * np.array([12, 2, 1]) / 15)
    assert counts[3] == 0
    # 4 has a lower grade than 3, so it is drawn as often as any unjudged document.
    against_top = by_judgement.worse[(by_judgement.query == 1) & (by_judgement.better == 3)]
    assert_uniform(np.delete(np.bincount(against_top, minlength=20), 3))


def test_ids_are_looked_up():
    prefs = tc.Preferences.from_qrels(
        {"q7": {"x": 1, "y": 0}}, 3, query_rows={"q6": 0, "q7": 4}, doc_rows={"y": 9, "x": 2}
    )
    assert as_set(prefs) == {(4, 2, 9)}


def test_samplers_differ_in_their_fingerprint_when_they_draw_differently():
    base = {0: {1: 1, 2: 0}}
    samplers = [
        JudgementSampler.from_qrels(base),
        JudgementSampler.from_qrels(base, n_docs=3),
        JudgementSampler.from_qrels(base, n_docs=4),
        JudgementSampler.from_qrels(base, uniform_over="judgements"),
        JudgementSampler.from_qrels({0: {1: 2, 2: 0}}),
        JudgementSampler.from_qrels({0: {1: 1, 3: 0}}),
        JudgementSampler.from_links([(0, 1)], 4),
        LabelSampler(["a", "a", "b"]),
        LabelSampler(["a", "b", "b"]),
    ]
    assert len({sampler.fingerprint() for sampler in samplers}) == len(samplers)
    assert JudgementSampler.from_qrels({0: {2: 0, 1: 1}}).fingerprint() == samplers[0].fingerprint()


@pytest.mark.parametrize(
    ("qrels", "options", "message"),
    [
        ({}, {}, "there are no judgements to draw preferences from"),
        ({0: {}}, {}, "there are no judgements to draw preferences from"),
        ({0: {1: 1, 2: 1}}, {}, "no query has two different grades; give n_docs to draw unjudged documents"),
        ({0: {1: 0, 2: -1}}, {"n_docs": 5}, "no document has a grade above 0"),
        ({0: {5: 1}}, {"n_docs": 5}, "judgement 0 names document row 5, but n_docs is 5"),
        ({0: {1: 1, -1: 0}}, {}, r"document row -1; rows run from 0"),
        ({-3: {1: 1}}, {"n_docs": 5}, r"query row -3; rows run from 0"),
        ({0: {1: 1.0, 2: 0}}, {}, "the grade of document 1 for query 0 is 1.0; grades are integers"),
        ({0: {1: True, 2: 0}}, {}, "the grade of document 1 for query 0 is True; grades are integers"),
        ({0: {1: "1", 2: 0}}, {}, "the grade of document 1 for query 0 is '1'; grades are integers"),
        ({"q": {1: 1}}, {}, "qrels name query 'q'; without query_rows keys are integer row numbers"),
        ({0: {"d": 1}}, {}, "qrels name document 'd'; without doc_rows keys are integer row numbers"),
        ({"q": {1: 1}}, {"query_rows": {"p": 0}}, "qrels name query 'q', which is not among the query ids"),
        ({0: {"d": 1}}, {"doc_rows": {"e": 0}}, "qrels name document 'd', which is not among the document ids"),
        ({0: {"d": 1, "e": 0}}, {"doc_rows": {"d": 3, "e": 3}}, "query 0 judges document 3 twice"),
        ({0: {1: 1, 2: 0}}, {"uniform_over": "documents"}, "uniform_over must be .*; got 'documents'"),
    ],
)
def test_bad_judgements_are_named(qrels, options, message):
    with pytest.raises(InputError, match=message):
        tc.Preferences.from_qrels(qrels, 5, **options)


def test_a_judgement_given_twice_is_refused():
    with pytest.raises(InputError, match="query 1 judges document 4 twice"):
        JudgementSampler(np.array([0, 1, 1]), np.array([4, 4, 4]), np.array([1, 1, 0]), n_docs=9)


@pytest.mark.parametrize("n", [0, -1, 2.0, True, None, "5"])
def test_the_number_of_preferences_must_be_positive(n):
    for draw in (
        lambda: tc.Preferences.from_labels(["a", "a", "b"], n),
        lambda: tc.Preferences.from_qrels({0: {1: 1, 2: 0}}, n),
        lambda: tc.Preferences.from_links([(0, 1)], 3, n),
    ):
        with pytest.raises(InputError, match=f"n must be an integer from 1; got {n!r}"):
            draw()


def test_when_everything_is_relevant_the_message_says_so():
    with pytest.raises(InputError) as error:
        tc.Preferences.from_qrels({0: {0: 1, 1: 1}}, 1, n_docs=2)
    assert "no document has a grade above 0" not in str(error.value)


def test_the_one_document_of_a_lower_grade_is_found():
    prefs = tc.Preferences.from_qrels({0: dict.fromkeys(range(999), 1)}, 100, n_docs=1000)
    assert set(prefs.worse.tolist()) == {999}


@pytest.mark.parametrize(
    ("qrels", "n_docs"),
    [({2**32: {0: 1, 1: 0}}, None), ({0: {2**32 + 7: 1, 1: 0}}, None), ({0: {0: 1}}, 2**40), ({2**70: {0: 1}}, 2)],
)
def test_rows_beyond_int32_are_refused(qrels, n_docs):
    with pytest.raises(InputError):
        tc.Preferences.from_qrels(qrels, 3, n_docs=n_docs)


def test_unsigned_grades_are_grades():
    sampler = JudgementSampler(np.array([0, 0]), np.array([4, 5]), np.array([0, 2], dtype=np.uint8))
    _, better, worse = sampler.draw(np.random.default_rng(0), 1)
    assert (better.tolist(), worse.tolist()) == ([5], [4])


# -- drawing by links -----------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    links=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=14),
    seed=st.integers(0, 10**6),
    uniform_over=st.sampled_from(["queries", "judgements"]),
)
def test_linked_is_better_than_unlinked_and_never_itself(links, seed, uniform_over):
    linked = {(a, b) for a, b in links if a != b}
    allowed = {(a, b, c) for a, b in linked for c in range(5) if c != a and (a, c) not in linked}
    if not allowed:
        with pytest.raises(InputError, match="no judgement"):
            tc.Preferences.from_links(links, 5, 1)
        return
    prefs = tc.Preferences.from_links(links, 5, 3000, random_state=seed, uniform_over=uniform_over)
    assert as_set(prefs) == allowed
    assert prefs == tc.Preferences.from_links(links, 5, 3000, random_state=seed, uniform_over=uniform_over)


def test_repeated_links_count_once():
    links = [(0, 1)] * 50 + [(0, 2), (1, 2), (1, 2)]
    drawn = tc.Preferences.from_links(links, 6, 30_000)
    pairs = drawn.query * 6 + drawn.better
    assert_uniform(np.unique(pairs, return_counts=True)[1])
    assert np.unique(pairs).tolist() == [1, 2, 8]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([(0, 1), (1, 5), (9, 9)], r"links\[1\] is \(1, 5\); rows run from 0 to 4"),
        ([(0, 1), (-1, 2)], r"links\[1\] is \(-1, 2\); rows run from 0 to 4"),
        ([(0.0, 1.0)], r"links must be integer pairs \(from, to\); got shape \(1, 2\), float64"),
        ([(0, 1, 2)], r"links must be integer pairs \(from, to\); got shape \(1, 3\)"),
        ([], r"links must be integer pairs \(from, to\); got shape \(0,\)"),
        ([(2, 2)], "there are no judgements to draw preferences from"),
        ([(0, 1), (0, 2), (0, 3), (0, 4)], "no judgement can be the better side"),
    ],
)
def test_bad_links_are_named(links, message):
    with pytest.raises(InputError, match=message):
        tc.Preferences.from_links(links, 5, 3)


def assert_uniform(counts, expected=None) -> None:
    """Chi-square within five standard deviations of its mean: loose, and still far below any skew."""
    counts = np.asarray(counts, dtype=float)
    if expected is None:
        expected = np.full(counts.size, counts.sum() / counts.size)
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.size - 1
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom), counts


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None, True])
def test_what_is_no_seed_is_named(seed):
    draws = (
        lambda: tc.Preferences.from_labels([0, 0, 1], 3, random_state=seed),
        lambda: tc.Preferences.from_qrels({0: {0: 1, 1: 0}}, 3, random_state=seed),
        lambda: tc.Preferences.from_links([(0, 1)], 3, 3, random_state=seed),
    )
    for draw in draws:
        with pytest.raises(InputError, match="random_state must be an integer from 0; got"):
            draw()


# -- many judgements --------------------------------------------------------------------------------------------------


class LookedUpTogether:
    def __init__(self, ids):
        self.ids = list(ids)

    def get_many(self, ids):
        return np.array([self.ids.index(one) if one in self.ids else -1 for one in ids])


def test_ids_are_looked_up_one_by_one_or_many_at_once():
    rng = np.random.default_rng(0)
    qrels = {f"q{q}": {f"d{d}": int(rng.integers(0, 3)) for d in rng.choice(40, 8, replace=False)} for q in range(20)}
    numbered = {q: {int(d[1:]): grade for d, grade in judged.items()} for q, judged in enumerate(qrels.values())}
    queries, docs = list(qrels), [f"d{d}" for d in range(40)]
    rows = {"query_rows": {q: at for at, q in enumerate(queries)}, "doc_rows": {d: at for at, d in enumerate(docs)}}
    expected = JudgementSampler.from_qrels(numbered, n_docs=40)
    together = {"query_rows": LookedUpTogether(queries), "doc_rows": LookedUpTogether(docs)}
    for looked_up in (rows, together):
        found = JudgementSampler.from_qrels(qrels, n_docs=40, **looked_up)
        assert found.fingerprint() == expected.fingerprint()
        one, other = (sampler.draw(np.random.default_rng(3), 500) for sampler in (found, expected))
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        with pytest.raises(InputError, match="qrels name document 'x', which is not among the document ids"):
            JudgementSampler.from_qrels({"q1": {"x": 1}}, **looked_up)


@pytest.mark.slow
def test_links_are_kept_in_few_bytes():
    rng = np.random.default_rng(0)
    links = rng.integers(0, 5000, (200_000, 2)).astype(np.int32)
    sampler = JudgementSampler.from_links(links, 5000)
    kept = sum(array.nbytes for array in vars(sampler).values() if isinstance(array, np.ndarray))
    assert kept < 40 * len(links)
    query, better, worse = sampler.draw(rng, 2000)
    known = set(map(tuple, links.tolist()))
    assert all(pair in known for pair in zip(query.tolist(), better.tolist(), strict=True))
    assert not any(pair in known for pair in zip(query.tolist(), worse.tolist(), strict=True))
