"""Groups of words within each other and across: the proximal step is the minimiser, and learning is Algorithm 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.learn import WordGroups
from tercet.learn.grouped import GroupedState
from tercet.learn.state import rates

N_WORDS = 12
N_TERMS = 40


@st.composite
def trees(draw, n_words: int = N_WORDS) -> WordGroups:
    """Any tree: each word, then each group, is put below one of the groups, or none."""
    n_groups = draw(st.integers(1, 6))
    nodes = n_words + n_groups
    parents = [draw(st.sampled_from([-1, *range(n_words, nodes)])) for _ in range(n_words)]
    parents += [draw(st.sampled_from([-1, *range(node + 1, nodes)])) for node in range(n_words, nodes)]
    made = WordGroups.from_parents(parents, n_words)
    weight = [draw(st.floats(0, 2)) for _ in range(len(made))]
    return WordGroups(n_words, made.members, made.ends, np.array(weight), made.names)


@st.composite
def any_groups(draw, n_words: int = N_WORDS) -> WordGroups:
    groups = draw(st.lists(st.lists(st.integers(0, n_words - 1), min_size=1, unique=True), min_size=1, max_size=5))
    return WordGroups.from_groups(n_words, groups, weight=[draw(st.floats(0.1, 2)) for _ in groups])


def listed(groups: WordGroups, word_share: float) -> list[tuple[list[int], float]]:
    """All groups, words included, with their weights."""
    words = [([word], word_share) for word in range(groups.n_words)]
    return words + [
        (groups.words_of(g).tolist(), (1 - word_share) * float(groups.weight[g])) for g in range(len(groups))
    ]


def matrix(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N_WORDS, 3)) * (rng.random((N_WORDS, 1)) < 0.8) * rng.exponential(1.0, (N_WORDS, 1))


def shrunk(X: np.ndarray, groups: WordGroups, amount: float, word_share: float) -> np.ndarray:
    norms = np.linalg.norm(X, axis=1)
    left = groups.shrink(norms, amount, word_share)
    return X * np.divide(left, norms, out=np.zeros_like(norms), where=norms > 0)[:, None]


# -- the proximal step ------------------------------------------------------------------------------------------------


@given(groups=trees(), seed=st.integers(0, 10**6), amount=st.floats(0.01, 1), share=st.floats(0, 1))
@settings(max_examples=40)
def test_one_pass_over_a_tree_is_the_minimiser(groups, seed, amount, share):
    X, penalties = matrix(seed), listed(groups, share)
    assert groups.is_tree
    W = shrunk(X, groups, amount, share)
    np.testing.assert_allclose(W, oracles.shrink_nested(X, amount, penalties), atol=1e-12)
    np.testing.assert_allclose(W, oracles.shrink_overlapping(X, amount, penalties, 400), atol=2e-3)


@given(groups=any_groups(), seed=st.integers(0, 10**6), amount=st.floats(0.01, 1), share=st.floats(0, 1))
@settings(max_examples=25)
def test_passes_over_overlapping_groups_end_at_the_minimiser(groups, seed, amount, share):
    X, penalties = matrix(seed), listed(groups, share)
    W = shrunk(X, groups, amount, share)
    slow = oracles.shrink_overlapping(X, amount, penalties, 1500)
    np.testing.assert_allclose(W, slow, atol=2e-4)

    def objective(W: np.ndarray) -> float:
        return 0.5 * np.sum((X - W) ** 2) + amount * oracles.group_penalty(W, penalties)

    assert objective(W) <= objective(slow) + 1e-6
    rng = np.random.default_rng(seed)
    for size in (1e-3, 1e-1):
        assert objective(W) <= objective(W + size * rng.standard_normal(W.shape) * (W != 0)) + 1e-6


@given(groups=any_groups(), seed=st.integers(0, 10**6), amount=st.floats(0.1, 3))
@settings(max_examples=40)
def test_words_of_a_group_that_is_zero_are_exactly_zero(groups, seed, amount):
    norms = np.abs(np.random.default_rng(seed).standard_normal(N_WORDS)) + 0.1
    left = groups.shrink(norms, amount)
    assert np.all(left <= norms)
    dead = np.flatnonzero(left == 0)  # exactly the words of the groups that vanished
    gone = [groups.words_of(g) for g in range(len(groups)) if np.all(left[groups.words_of(g)] == 0)]
    assert dead.tolist() == np.unique(np.concatenate([*gone, np.empty(0, np.int32)])).tolist()
    untouched = np.setdiff1d(np.arange(N_WORDS), groups.members)
    np.testing.assert_allclose(left[untouched], norms[untouched])


def test_groups_of_one_word_are_an_l1_penalty_on_norms():
    norms = np.array([3.0, 0.4, 1.0, 0.0])
    alone = WordGroups.from_groups(4, [[0], [1], [2], [3]])
    np.testing.assert_allclose(alone.shrink(norms, 0.5), np.maximum(norms - 0.5, 0))
    np.testing.assert_allclose(alone.shrink(norms, 0.5, word_share=1.0), np.maximum(norms - 0.5, 0))


def test_a_flat_tree_is_the_group_lasso():
    groups = WordGroups.from_groups(4, [[0, 1], [2, 3]], weight=[1.0, 10.0])
    np.testing.assert_allclose(groups.shrink([3.0, 4.0, 1.0, 1.0], 0.5), [2.7, 3.6, 0, 0])


# -- learning ---------------------------------------------------------------------------------------------------------


def made_data(seed: int, n: int = 80):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, N_TERMS, density=0.15), random_texts(rng, 11, N_TERMS, density=0.15)
    return Q, D, random_preferences(rng, n, 9, 11)


def make(tree, by: str = "rows", **changes) -> tc.GroupSparseRanker:
    usual = {"l1": 0.03, "shrink_every": 7, "rate": 1.3, "refit": False, "word_share": 0.3}
    return tc.GroupSparseRanker(by=by, tree=tree, **usual | changes)


def halves(n: int = N_TERMS) -> list[str]:
    return [f"{'low' if word < n // 2 else 'high'}/{word % 5}" for word in range(n)]


def across(n: int = N_TERMS) -> list[list[str]]:
    return [[f"block {word // 10}", f"rest {word % 3}"] for word in range(n)]


def expected(ranker, Q, D, prefs, shrink) -> np.ndarray:
    penalties = listed(ranker.tree_, ranker.word_share)

    def of_side(W: np.ndarray, amount: float, by: str) -> np.ndarray:
        return shrink(W, amount, penalties) if by == "rows" else shrink(W.T, amount, penalties).T

    etas = rates(ranker.schedule, 1.3, 0, len(prefs), len(prefs)).astype(float)
    start, vectors = np.eye(N_TERMS), as_vectors(prefs, Q, D)
    return oracles.algorithm_1_by_groups(
        start, vectors, etas, ranker.l1, ranker.shrink_every, ranker.by, shrink=of_side
    )


@given(
    seed=st.integers(0, 10**6),
    T=st.integers(1, 30),
    by=st.sampled_from(["rows", "columns"]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
)
@settings(max_examples=25)
def test_learning_with_a_tree_is_algorithm_1(seed, T, by, share):
    Q, D, prefs = made_data(seed)
    ranker = make(halves(), by, shrink_every=T, word_share=share).fit(Q, prefs, D)
    assert ranker.tree_.is_tree
    np.testing.assert_allclose(
        ranker.weights_.sparse.toarray(), expected(ranker, Q, D, prefs, oracles.shrink_nested), atol=2e-5
    )


def test_learning_with_overlapping_groups_is_algorithm_1():
    Q, D, prefs = made_data(3)
    for by in ("rows", "columns"):
        ranker = make(across(), by, shrink_every=20, l1=0.05, word_share=0.7).fit(Q, prefs, D)
        assert not ranker.tree_.is_tree
        slow = expected(ranker, Q, D, prefs, lambda *given: oracles.shrink_overlapping(*given, 300))
        np.testing.assert_allclose(ranker.weights_.sparse.toarray(), slow, atol=2e-4)
        assert 0 < ranker.n_groups_ < N_TERMS


def test_words_alone_are_the_plain_group_lasso():
    Q, D, prefs = made_data(4)
    plain = make(None).fit(Q, prefs, D)
    same = make(halves(), word_share=1.0).fit(Q, prefs, D)
    np.testing.assert_allclose(same.weights_.sparse.toarray(), plain.weights_.sparse.toarray(), atol=2e-6)
    assert same.groups_.tolist() == plain.groups_.tolist()
    assert plain.tree_ is None


def test_whole_groups_vanish_and_their_words_stay_zero_when_refitted():
    Q, D, prefs = made_data(5)
    ranker = make(halves(), word_share=0.0, l1=0.1, refit=True).fit(Q, prefs, D)
    left = ranker.tree_.counts(ranker.groups_)
    asked = ranker.tree_.counts(np.unique(Q.indices))
    assert 0 < np.count_nonzero(left) < len(ranker.tree_)
    before = ranker.weights_before_refit_.sparse.toarray()
    after = ranker.weights_.sparse.toarray()
    assert np.array_equal(before.any(axis=1), after.any(axis=1))
    for g in np.flatnonzero(left == 0):
        assert asked[g]  # words of it were learned from
        assert not after[ranker.tree_.words_of(g)].any()
    etas = rates("inverse-sqrt", 1.3, 0, 80, 80).astype(float)
    support = np.broadcast_to(before.any(axis=1, keepdims=True), before.shape)
    vectors = as_vectors(prefs, Q, D)
    np.testing.assert_allclose(after, oracles.refit(support, vectors, etas, start=before.astype(float)), atol=2e-5)
    from_identity = make(halves(), word_share=0.0, l1=0.1, refit=True, refit_start="identity").fit(Q, prefs, D)
    np.testing.assert_allclose(
        from_identity.weights_.sparse.toarray(), oracles.refit(support, vectors, etas), atol=2e-5
    )


@pytest.mark.parametrize("tree", ["clusters", halves(), across()], ids=["clusters", "tree", "overlapping"])
def test_two_halves_are_the_whole_even_through_a_file(tree, tmp_path):
    Q, D, prefs = made_data(6)
    whole = make(tree, n_clusters=(2, 5)).fit(Q, prefs, D)
    half = make(tree, n_clusters=(2, 5)).partial_fit(Q, prefs[:33], D)
    half.save(tmp_path / "half")
    loaded = tc.load(tmp_path / "half")
    assert loaded.tree_ == half.tree_ == whole.tree_
    assert (loaded.tree == half.tree) if isinstance(tree, str) else (loaded.tree == half.tree_)
    assert same_bits(loaded.weights_, half.weights_)
    assert same_bits(whole.weights_, half.partial_fit(Q, prefs[33:], D).weights_)
    assert same_bits(whole.weights_, loaded.partial_fit(Q, prefs[33:], D).weights_)


TWO_TEXTS = sparse.csr_array(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], dtype=np.float32))


# -- making groups ----------------------------------------------------------------------------------------------------


def test_words_of_the_same_texts_are_clustered():
    rng = np.random.default_rng(0)
    topic = np.repeat(np.arange(4), 6)
    X = np.zeros((80, 25), dtype=np.float32)  # the last word is in no text
    for row in X:
        row[rng.choice(np.flatnonzero(topic == rng.integers(4)), 5, replace=False)] = 1
    tree = WordGroups.from_clusters(sparse.csr_array(X), (2, 4))
    found = {tuple(tree.words_of(g).tolist()) for g in range(len(tree)) if len(tree.words_of(g)) == 6}
    assert found == {tuple(range(first, first + 6)) for first in (0, 6, 12, 18)}
    assert (len(tree), tree.depth, tree.is_tree) == (6, 2, True)
    assert 24 not in tree.members
    assert tree == WordGroups.from_clusters(sparse.csr_array(X), [4, 2])
    twice = WordGroups.from_clusters(sparse.csr_array(X), 4, clusters_of_word=2)
    assert np.array_equal(np.bincount(twice.members, minlength=25), [2] * 24 + [0])
    assert len(WordGroups.from_clusters(sparse.csr_array(X), 100)) <= 24


def test_groups_by_paths_and_by_parents():
    paths = WordGroups.from_paths(["a/b", "a/c", None, "a", ["a/b", "d"]])
    assert dict(zip(paths.names, (paths.words_of(g).tolist() for g in range(4)), strict=True)) == {
        "a": [0, 1, 3, 4],
        "a/b": [0, 4],
        "a/c": [1],
        "d": [4],
    }
    assert paths.is_tree  # the one word of d is in a/b
    np.testing.assert_allclose(paths.weight, np.sqrt([4, 2, 1, 1]) / 3)
    assert not WordGroups.from_paths([["a", "b"], "a", "b"]).is_tree
    assert paths.counts([1, 2, 4]).tolist() == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("make_groups", "message"),
    [
        (lambda: WordGroups.from_groups(3, [[0, 3]]), "not one of the 3 columns"),
        (lambda: WordGroups.from_groups(3, [[0, 2**32 + 1]]), "not one of the 3 columns"),
        (lambda: WordGroups.from_groups(3, [[0.0, 1.5]]), "the columns of a group must be integers; got float64"),
        (lambda: WordGroups.from_groups(3, [[True, False, True]]), "must be integers; got bool"),
        (lambda: WordGroups.from_groups(3, [[0, 0]]), "a word twice"),
        (lambda: WordGroups.from_groups(3, [[]]), "no word"),
        (lambda: WordGroups.from_groups(3, [[0]], weight=[-1.0]), "below zero"),
        (lambda: WordGroups.from_groups(3, [[0]], weight=[1.0, 2.0]), "1 groups have 2 weights"),
        (lambda: WordGroups.from_groups(3, [[0]], names=["a", "b"]), "1 groups have 2 names"),
        (lambda: WordGroups.from_parents([3, 3, 0, -1], 3), "words are leaves"),
        (lambda: WordGroups.from_parents([3, 4, 3], 2), "numbers of 3 nodes"),
        (lambda: WordGroups.from_parents([1, 2, 1], 1), "circle"),
        (lambda: WordGroups.from_parents([2.7, 2.7, -1.0], 2), "parents must be integers; got float64"),
        (lambda: WordGroups.from_clusters(TWO_TEXTS, []), "n_clusters is empty"),
        (lambda: WordGroups.from_clusters(sparse.csr_array((3, 4), dtype=np.float32), 2), "no text has a word"),
        (lambda: WordGroups.from_clusters(TWO_TEXTS, 0), "n_clusters must be an integer from 1; got 0"),
        (lambda: WordGroups.from_clusters(TWO_TEXTS, [4, -2]), "n_clusters must be an integer from 1; got -2"),
        (lambda: WordGroups.from_clusters(TWO_TEXTS, 2.5), "n_clusters must be an integer from 1; got 2.5"),
        (lambda: WordGroups.from_clusters(TWO_TEXTS, np.array([2.0])), "n_clusters must be an integer from 1; got 2.0"),
        (lambda: WordGroups.from_clusters(TWO_TEXTS, 2, clusters_of_word=0), "clusters_of_word must be an integer"),
        (lambda: WordGroups.from_paths([None, ""]), "no word has a group"),
        (lambda: WordGroups.from_paths([3]), "3|not iterable"),
    ],
)
def test_groups_that_make_no_sense_are_refused(make_groups, message):
    with pytest.raises((InputError, TypeError), match=message):
        make_groups()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tree": ["a"] * 3}, InputError, "groups of 3 words; this side of W has 40"),
        ({"tree": {"puck": "sport"}}, InputError, "names words"),
        ({"tree": 3}, ParameterError, "'tree' parameter"),
        ({"tree": halves(), "word_share": 1.5}, ParameterError, "'word_share'"),
        ({"tree": "clusters", "n_clusters": 0}, ParameterError, "'n_clusters'"),
    ],
)
def test_trees_that_do_not_fit_are_refused(changes, error, message):
    Q, D, prefs = made_data(7)
    with pytest.raises(error, match=message):
        make(**changes).fit(Q, prefs, D)


def test_a_damaged_tree_is_refused():
    Q, D, prefs = made_data(8)
    meta, arrays = make(halves()).fit(Q, prefs, D)._state.to_state()
    with pytest.raises(DamagedBundleError, match="not one of the 40 columns"):
        GroupedState.from_state(meta, arrays | {"tree.members": -arrays["tree.members"]}, "state")
    with pytest.raises(DamagedBundleError, match=r"at most 1|word_share"):
        GroupedState.from_state(meta | {"word_share": 2.0}, arrays, "state")
