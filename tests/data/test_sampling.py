"""How samplers draw worse documents, and samplers less some queries and documents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
from tercet.data.preferences import Preferences, PreferenceSampler
from tercet.data.sampling import JudgementSampler, LabelSampler, MixtureSampler
from tercet.errors import InputError, ParameterError
from tercet.learn.sources import HardSource
from tercet.weights import Identity, Weights

N_DRAWN = 100_000
GRADED = {0: {0: 2, 1: 1, 2: 1, 3: 0}, 1: {1: 1, 4: 3}, 2: {1: 1}, 3: {5: 0}}

qrels_strategy = st.dictionaries(
    st.integers(0, 4), st.dictionaries(st.integers(0, 5), st.integers(-1, 3), max_size=5), min_size=1, max_size=4
)


def drawn(sampler, n=2000, seed=0):
    return np.stack(sampler.draw(np.random.default_rng(seed), n))


def assert_drawn_as(sampler, expected) -> None:
    """Within six standard deviations for each preference, and never one of probability 0."""
    counts = np.zeros(expected.shape)
    np.add.at(counts, tuple(drawn(sampler, N_DRAWN, seed=1)), 1)
    assert not counts[expected == 0].any()
    spread = np.sqrt(N_DRAWN * expected * (1 - expected))
    assert (np.abs(counts - N_DRAWN * expected) <= 6 * spread + 1e-9).all()


@pytest.mark.parametrize("uniform_over", ["queries", "judgements"])
@pytest.mark.parametrize("popular", [0.0, 0.3, 1.0])
def test_worse_documents_are_drawn_as_often_as_documents_are_relevant(popular, uniform_over):
    sampler = JudgementSampler.from_qrels(GRADED, n_docs=8, popular=popular, uniform_over=uniform_over)
    assert_drawn_as(sampler, oracles.drawn_shares(GRADED, 8, popular, uniform_over))
    links = [(0, 1), (0, 2), (1, 2), (3, 2), (2, 0)]
    sampler = JudgementSampler.from_links(links, 5, popular=popular, uniform_over=uniform_over)
    linked = {q: {b: 1 for a, b in links if a == q} for q in range(4)}
    assert_drawn_as(sampler, oracles.drawn_shares(linked, 5, popular, uniform_over, itself=True))


def test_rejection_that_finds_no_popular_document_looks_through_all_of_them():
    # One document is nearly always the better one, so that others are found after the rounds of rejection.
    judged = {q: {0: 1} for q in range(400)} | {400: {1: 1}, 401: {2: 1}}
    sampler = JudgementSampler.from_qrels(judged, n_docs=9, popular=1.0)
    _, better, worse = drawn(sampler)
    assert set(worse[better == 0].tolist()) == {1, 2}
    assert np.isclose((worse[better == 0] == 1).mean(), 0.5, atol=0.05)


def test_where_one_document_is_ever_relevant_worse_ones_are_drawn_uniformly():
    sampler = JudgementSampler.from_qrels({0: {4: 1}, 1: {4: 1}}, n_docs=6, popular=1.0)
    assert_drawn_as(sampler, oracles.drawn_shares({0: {4: 1}, 1: {4: 1}}, 6))


def test_without_popularity_the_same_calls_of_the_generator_are_made():
    sampler = JudgementSampler.from_qrels(GRADED, n_docs=8, popular=0.0)
    rng = np.random.default_rng(5)
    judged_pairs = [[0, 1, 2], [4, 1], [1]]  # above grade 0, of each query, best first
    query = rng.integers(0, 3, 300)
    number = rng.integers(0, np.array([3, 2, 1])[query])
    better = np.array([judged_pairs[q][n] for q, n in zip(query.tolist(), number.tolist(), strict=True)])
    worse, positions = np.empty(300, np.int64), np.arange(300)
    while positions.size:
        worse[positions] = rng.integers(0, 8, positions.size)
        at = zip(query[positions].tolist(), better[positions].tolist(), worse[positions].tolist(), strict=True)
        positions = positions[[GRADED[q].get(w, 0) >= GRADED[q][b] for q, b, w in at]]
    assert np.array_equal(drawn(sampler, 300, seed=5), [query, better, worse])


def test_fingerprints_tell_popularity_and_withheld_documents_apart():
    plain = JudgementSampler.from_qrels(GRADED, n_docs=8)
    same = [plain.with_popular(0.5).with_popular(0.0), plain.drop(), plain.drop(docs=[7], as_worse=True)]
    assert {sampler.fingerprint() for sampler in same} == {plain.fingerprint()}
    others = [plain, plain.with_popular(0.5), plain.with_popular(1), plain.drop(docs=[7]), plain.drop([0])]
    assert len({sampler.fingerprint() for sampler in others}) == 5
    labels = LabelSampler(["a", "a", "a", "b", "b"])
    assert labels.drop().fingerprint() == labels.fingerprint() != labels.drop([4]).fingerprint()


@pytest.mark.parametrize("popular", [-0.1, 1.1, np.nan, "much", True])
def test_a_share_lies_between_0_and_1(popular):
    with pytest.raises(InputError, match="popular must be a share between 0 and 1"):
        JudgementSampler.from_qrels(GRADED, n_docs=8, popular=popular)


def test_popular_documents_need_the_number_of_documents():
    with pytest.raises(InputError, match="needs n_docs"):
        JudgementSampler.from_qrels(GRADED, popular=0.5)


# -- less some queries and documents --------------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    qrels=qrels_strategy,
    queries=st.sets(st.integers(0, 5)),
    docs=st.sets(st.integers(0, 7)),
    as_worse=st.booleans(),
    popular=st.sampled_from([0.0, 0.5]),
    itself=st.booleans(),
)
def test_what_is_withheld_is_as_if_it_had_never_been_judged(qrels, queries, docs, as_worse, popular, itself):
    rows = np.array([(q, d, g) for q, judged in qrels.items() for d, g in judged.items()], dtype=int).reshape(-1, 3).T
    left = {
        q: {d: g for d, g in judged.items() if d not in docs} for q, judged in qrels.items() if q not in queries
    } or {0: {}}
    absent = () if as_worse else docs
    try:
        sampler = JudgementSampler(*rows, n_docs=8, popular=popular, exclude_self=itself)
    except InputError:
        assume(False)
    allowed = oracles.drawn_shares(left, 8, popular, itself=itself, absent=absent)
    if not allowed.any():
        with pytest.raises(InputError):
            sampler.drop(list(queries), list(docs), as_worse=as_worse)
        return
    rest = sampler.drop(list(queries), list(docs), as_worse=as_worse)
    triplets = set(zip(*np.nonzero(allowed), strict=True))
    assert set(zip(*drawn(rest, 500), strict=True)) <= triplets
    assert rest.queries.tolist() == sorted({q for q, _, _ in triplets})


def test_preferences_that_touch_withheld_rows_are_left_out():
    sampler = PreferenceSampler(Preferences([0, 0, 1, 2], [1, 2, 1, 3], [2, 3, 3, 2], [1.0, 2.0, 3.0, 4.0]))
    assert set(zip(*drawn(sampler.drop([2], [2])), strict=True)) == {(1, 1, 3)}
    assert set(zip(*drawn(sampler.drop(docs=[2], as_worse=True)), strict=True)) == {(0, 1, 2), (1, 1, 3), (2, 3, 2)}
    with pytest.raises(InputError, match="no preferences"):
        sampler.drop(docs=[1, 2, 3])


@given(y=st.lists(st.sampled_from("abc"), min_size=3, max_size=12), rows=st.sets(st.integers(0, 11)))
def test_withheld_texts_are_never_drawn(y, rows):
    kept = [i for i in range(len(y)) if i not in rows]
    try:
        whole = LabelSampler(y)
    except InputError:
        assume(False)
    try:
        expected = LabelSampler([y[i] for i in kept])
    except InputError:
        with pytest.raises(InputError):
            whole.drop(list(rows))
        return
    found = whole.drop(list(rows))
    assert np.array_equal(drawn(found, 200), np.array(kept)[drawn(expected, 200)])


def test_a_mixture_is_of_what_is_left_of_each():
    judged = JudgementSampler.from_qrels({0: {1: 1}}, n_docs=4)
    preferred = PreferenceSampler(Preferences([1], [2], [3]))
    mixture = MixtureSampler([(judged, 3.0), (preferred, 1.0)])
    rest = mixture.drop(queries=[1])
    assert rest.shares.tolist() == [1.0]
    assert set(drawn(rest)[0].tolist()) == {0}
    with pytest.raises(InputError, match="no sampler of the mixture"):
        mixture.drop(docs=[1, 2])
    with pytest.raises(InputError, match="docs must hold row numbers"):
        mixture.drop(docs=["a"])
    with pytest.raises(ParameterError, match="as_worse"):
        MixtureSampler([(judged, 1), (LabelSampler([0, 0, 1]), 1)]).drop(as_worse=True)
    popular = MixtureSampler([(judged, 3.0), (preferred, 1.0)]).with_popular(0.5)
    assert popular.fingerprint() != mixture.fingerprint() == popular.with_popular(0.0).fingerprint()


def test_hard_negatives_are_no_withheld_documents():
    X = sparse.eye_array(4, format="csr")
    sampler = JudgementSampler.from_qrels({0: {1: 1}}, n_docs=4).drop(docs=[0])
    source = HardSource(sampler, X, X, 100, depth=1, hard=1.0)
    assert set(source.draw(0, lambda: Weights([Identity(n_terms=4)])).worse.tolist()) == {2, 3}
