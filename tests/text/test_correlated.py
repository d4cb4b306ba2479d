"""Correlated words: DICE, the bins, and the maps of Algorithm 1 and of equations 6 and 7."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import oracles
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.text import Analyzer, CorrelatedWords, Vectorizer
from tercet.weights import Dense, Mapped, Weights


def random_units(seed: int, n_units: int = 14, n_words: int = 11) -> sparse.csr_array:
    """Counts with few different frequencies, so that many DICE are equal; some words and some units are empty."""
    rng = np.random.default_rng(seed)
    return sparse.csr_array(rng.integers(1, 4, (n_units, n_words)) * (rng.random((n_units, n_words)) < rng.random()))


@given(seed=st.integers(0, 10**6), n_frequent=st.integers(1, 13), n_bins=st.integers(1, 6))
def test_bins_are_the_best_by_dice(seed, n_frequent, n_bins):
    X = random_units(seed)
    if not X.nnz:
        return
    words = CorrelatedWords(n_frequent=n_frequent, n_bins=n_bins).fit(X)
    frequent, S, DICE = oracles.correlated_bins(X.toarray(), n_frequent, n_bins)
    assert words.frequent_.tolist() == frequent
    assert [[b for b in row if b >= 0] for row in words.bins_.tolist()] == S
    for i in range(X.shape[1]):
        assert words.nearest(i) == [(frequent[r], np.float32(dice)) for r, dice in zip(S[i], DICE[i], strict=True)]
        assert words.nearest(i, 1) == words.nearest(i)[:1]
    np.testing.assert_array_equal(words.dice_[:, 0][words.frequent_], 1.0)  # a frequent word's best match is itself
    np.testing.assert_array_equal(words.occur_, (X.toarray() != 0).sum(axis=0))


@given(seed=st.integers(0, 10**6), n_frequent=st.integers(1, 13), n_bins=st.integers(1, 4))
def test_mapped_scores_are_those_of_algorithm_1_and_of_equation_6(seed, n_frequent, n_bins):
    X = random_units(seed)
    if not X.nnz:
        return
    words = CorrelatedWords(n_frequent=n_frequent, n_bins=n_bins).fit(X)
    _, S, _ = oracles.correlated_bins(X.toarray(), n_frequent, n_bins)
    rng = np.random.default_rng(seed)
    F = len(words.frequent_)
    W = rng.standard_normal((F, F)).astype(np.float32)
    part = Dense(weights=W)
    M, first = words.matrix(), words.matrix("first")
    together = Weights([Mapped(A=M, B=M, part=part)])
    by_bin = Weights([Mapped(A=M_p, B=M_p, part=part) for M_p in words.matrices()])
    replaced = Weights([Mapped(A=first, B=first, part=part)])
    for _ in range(3):
        q, d = (rng.random(11) * (rng.random(11) < 0.5) for _ in range(2))
        Q, D = sparse.csr_array(q[None]), sparse.csr_array(d[None])
        features = oracles.correlated_hashing(q, d, S, F, n_bins)
        assert together.score(Q, D)[0, 0] == pytest.approx((W * features).sum(), rel=1e-5, abs=1e-6)
        features = oracles.correlated_hashing_by_bin(q, d, S, F, n_bins)
        assert by_bin.score(Q, D)[0, 0] == pytest.approx((W * features).sum(), rel=1e-5, abs=1e-6)
        features = oracles.correlated_hashing(q, d, S, F, 1)
        assert replaced.score(Q, D)[0, 0] == pytest.approx((W * features).sum(), rel=1e-5, abs=1e-6)


def test_the_maps_add_up():
    words = CorrelatedWords(n_frequent=5, n_bins=3).fit(random_units(3))
    whole, maps = words.matrix(), words.matrices()
    assert (whole.shape, whole.dtype, len(maps)) == ((5, 11), np.float32, 3)
    np.testing.assert_allclose(sum(maps).toarray(), whole.toarray())
    with pytest.raises(InputError, match="variant must be 'mean' or 'first'; got 'median'"):
        words.matrix("median")


TEXTS = [
    "Star Trek aired. The starfleet of the Star Trek series.",
    "A star shines\nA trek tires. Star Trek! Starfleet",
    "Star light, trek mules",
]


def test_units_are_documents():
    vectorizer = Vectorizer(analyzer=Analyzer(stop_words="english")).fit(TEXTS)
    star, trek, shines = (vectorizer.index_[word] for word in ("star", "trek", "shines"))
    by_document = CorrelatedWords().fit(TEXTS, vectorizer=vectorizer)
    assert by_document.occur_[[star, trek, shines]].tolist() == [3, 3, 1]
    assert dict(by_document.nearest(trek))[star] == 1.0
    same = CorrelatedWords().fit(vectorizer.transform_docs(TEXTS))  # rows are the units
    assert same.bins_.tolist() == by_document.bins_.tolist()


def test_two_words_in_a_row_are_matched_with_single_words():
    vectorizer = Vectorizer(analyzer=Analyzer(stop_words="english", ngrams=(1, 2))).fit(TEXTS)
    words = CorrelatedWords(n_frequent=3, n_bins=2).fit(TEXTS, vectorizer=vectorizer)
    assert [vectorizer.words_[column] for column in words.frequent_] == ["star", "trek", "starfleet"]
    found = words.nearest(vectorizer.index_["star trek"])
    assert [(vectorizer.words_[column], round(dice, 3)) for column, dice in found] == [("starfleet", 1), ("star", 0.8)]
    matrix = vectorizer.transform_docs(TEXTS)
    for again in (
        CorrelatedWords(n_frequent=3, n_bins=2).fit(matrix, vectorizer=vectorizer),
        CorrelatedWords(n_frequent=3, n_bins=2).fit(
            matrix, among=[i for i, word in enumerate(vectorizer.words_) if " " not in word]
        ),
    ):
        np.testing.assert_array_equal(again.bins_, words.bins_)
    pairs_only = Vectorizer(analyzer=Analyzer(ngrams=(2, 2))).fit(TEXTS)
    with pytest.raises(InputError, match=r"no single words .* ngrams=\(2, 2\)"):
        CorrelatedWords().fit(TEXTS, vectorizer=pairs_only)


def test_the_matrix_given_stays_as_it_is():
    X = sparse.csr_array(([True, True, False], [1, 1, 0], [0, 3, 3]), shape=(2, 2))
    words = CorrelatedWords(n_frequent=2, n_bins=1).fit(X)
    assert words.occur_.tolist() == [0, 1]
    assert X.nnz == 3


def test_state_round_trip_and_manners():
    words = CorrelatedWords(n_frequent=6, n_bins=3).fit(random_units(5))
    meta, arrays = words.to_state()
    again = CorrelatedWords.from_state(meta, arrays)
    assert again.get_params() == words.get_params()
    assert again.to_state()[0] == meta
    for name, array in again.to_state()[1].items():
        np.testing.assert_array_equal(array, arrays[name])
    assert (again.matrix() != words.matrix()).nnz == 0
    of_sentences = CorrelatedWords.from_state(meta | {"unit": "sentence"}, arrays)  # an earlier version wrote it
    assert of_sentences.to_state()[0] == meta
    assert clone(words).get_params() == words.get_params()
    refitted = CorrelatedWords(n_frequent=6, n_bins=3).fit(random_units(5))
    np.testing.assert_array_equal(refitted.bins_, words.bins_)


def test_saved_state_that_does_not_fit_is_refused():
    words = CorrelatedWords(n_frequent=6, n_bins=3).fit(random_units(5))
    meta, arrays = words.to_state()
    outside, gap = words.bins_.copy(), words.bins_.copy()
    outside[0, 0] = 6
    gap[0] = (-1, 0, 1)
    for changed in (
        (meta | {"n_bins": 4}, arrays),
        (meta | {"n_bins": 0}, arrays),
        (meta | {"n_frequent": 5}, arrays),
        (meta | {"unit": "page"}, arrays),
        (meta | {"more": 1}, arrays),
        ({}, arrays),
        (meta, arrays | {"more": words.bins_}),
        (meta, {name: a for name, a in arrays.items() if name != "dice"}),
        (meta, arrays | {"bins": words.bins_.astype(np.int64)}),
        (meta, arrays | {"bins": words.bins_[:-1]}),
        (meta, arrays | {"bins": outside}),
        (meta, arrays | {"bins": gap, "dice": np.where(gap < 0, 0, words.dice_)}),
        (meta, arrays | {"dice": words.dice_ + 1}),
        (meta, arrays | {"dice": words.dice_ * np.float32(np.nan)}),
        (meta, arrays | {"frequent": words.frequent_[[0, 0, 1, 2, 3, 4]]}),
        (meta, arrays | {"frequent": words.frequent_ + 11}),
        (meta, arrays | {"frequent": words.frequent_[:0]}),
        (meta, arrays | {"occur": -words.occur_}),
    ):
        with pytest.raises(DamagedBundleError):
            CorrelatedWords.from_state(*changed)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [({"n_frequent": 0}, "n_frequent"), ({"n_bins": 2.0}, "n_bins")],
)
def test_wrong_parameters(parameters, name):
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of CorrelatedWords must be"):
        CorrelatedWords(**parameters)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CorrelatedWords().fit(TEXTS), "pass vectorizer="),
        (lambda: CorrelatedWords().fit(sparse.csr_array((3, 4))), "none of the words"),
        (lambda: CorrelatedWords().fit(random_units(5), among=[11]), "integers from 0 to 10"),
        (lambda: CorrelatedWords().fit(random_units(5), among=[True]), "integers from 0 to 10"),
        (lambda: CorrelatedWords().fit(random_units(5), vectorizer=Vectorizer().fit(TEXTS[2:])), "11 columns"),
        (lambda: CorrelatedWords(n_bins=2).fit(random_units(5)).nearest(11), "column 11 does not exist"),
        (lambda: CorrelatedWords(n_bins=2).fit(random_units(5)).nearest(0, 3), "from 1 to the 2 bins"),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
