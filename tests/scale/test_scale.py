"""Learning in rounds, without a cluster: against the oracles, and with everything else a fit can do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.learners import same_bits, start_of
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.data import write_rows
from tercet.data.preferences import joined
from tercet.errors import DivergedError, InputError, ParameterError
from tercet.learn.state import rates
from tercet.scale import Cluster
from tercet.scale.changes import DenseChange, Piece, SparseChange, agreement, cut_into_blocks, pairwise
from tercet.scale.mixing import RoundLength
from tercet.scale.rounds import MOST_STEPS, Schedule

ROUND = 12


def some_data(seed: int, n_terms: int = 8) -> tuple[sparse.csr_array, tc.Preferences]:
    rng = np.random.default_rng(seed)
    return random_texts(rng, 15, n_terms), random_preferences(rng, 30, 15, 15)


def rounds_of(prefs, X, rate, schedule):
    """The preferences of each round as oracles take them, and their rates."""
    vectors, all_rates = as_vectors(prefs, X, X), rates(schedule, rate, 0, len(prefs), len(prefs)).astype(float)
    return [(vectors[at : at + ROUND], all_rates[at : at + ROUND]) for at in range(0, len(prefs), ROUND)]


# -- rounds are what the oracles say ----------------------------------------------------------------------------------


@given(seed=st.integers(0, 50), n_shares=st.integers(1, 5), l1=st.sampled_from([0.0, 0.02, 0.2]))
@settings(max_examples=25)
def test_a_sparse_round_adds_changes_and_shrinks_by_its_total(seed, n_shares, l1):
    X, prefs = some_data(seed)
    expected = np.eye(8)
    for part, part_rates in rounds_of(prefs, X, 2.0, "inverse-sqrt"):
        shares = [
            oracles.sgd_dense(expected, some, some_rates)[0]
            for some, some_rates in oracles.in_shares(part, part_rates, n_shares)
        ]
        expected = oracles.mixed_sparse(expected, shares, l1 * part_rates.sum())
    ranker = tc.SparseRanker(rate=2.0, l1=l1, refit=False)
    with Cluster(f"here:{n_shares}", steps_per_round=ROUND):
        ranker.fit(X, prefs)
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), expected, atol=2e-4)


@given(seed=st.integers(0, 50), n_shares=st.integers(1, 5))
@settings(max_examples=15)
def test_a_diagonal_round_adds_changes(seed, n_shares):
    X, prefs = some_data(seed)
    expected = np.ones(8)
    for part, part_rates in rounds_of(prefs, X, 3.0, "constant"):
        shares = [
            oracles.sgd_diagonal(expected, some, some_rates)
            for some, some_rates in oracles.in_shares(part, part_rates, n_shares)
        ]
        expected = oracles.mixed_sum(expected, shares)
    ranker = tc.DiagonalRanker(rate=3.0, schedule="constant")
    with Cluster(f"here:{n_shares}", steps_per_round=ROUND):
        ranker.fit(X, prefs)
    np.testing.assert_allclose(ranker.weights_.diagonal, expected, atol=1e-4)


@given(
    seed=st.integers(0, 50),
    n_shares=st.integers(1, 5),
    form=st.sampled_from([{}, {"tied": True}, {"learn_documents": False, "spread": 0.5}]),
    learned=st.booleans(),
)
@settings(max_examples=40)
def test_a_low_rank_round_mixes_rows_by_agreement(seed, n_shares, form, learned):
    X, prefs = some_data(seed)
    ranker = tc.LowRankRanker(n_components=3, diagonal="learned" if learned else "identity", rate=0.5, **form)
    tied, options = ranker.tied, {"learn_diagonal": learned, "learn_documents": ranker.learn_documents}
    start = start_of(ranker, X, X)
    U, V, diagonal = start[0].T, start[1].T, start[2]
    for part, part_rates in rounds_of(prefs, X, 0.5, "constant"):
        after = []
        for some, some_rates in oracles.in_shares(part, part_rates, n_shares):
            if tied and not learned:
                one = oracles.sgd_tied(U.T, 1.0, some, some_rates)
                after.append((one.T, one.T, diagonal))
            elif tied:
                after.append(tied_and_learned(U, diagonal, some, some_rates))
            else:
                one, other, own = oracles.sgd_lowrank(U.T, V.T, diagonal, some, some_rates, **options)
                after.append((one.T, other.T, own))
        U = oracles.mixed_by_agreement(U, [share[0] for share in after])
        V = U if tied else oracles.mixed_by_agreement(V, [share[1] for share in after])
        diagonal = oracles.mixed_sum(diagonal, [share[2] for share in after])
    with Cluster(f"here:{n_shares}", steps_per_round=ROUND):
        ranker.fit(X, prefs)
    weights = ranker.weights_
    np.testing.assert_allclose(weights.query_factors, U, atol=1e-3)
    np.testing.assert_allclose(weights.doc_factors, V, atol=1e-3)
    if not ranker.learn_documents:
        np.testing.assert_array_equal(weights.doc_factors, start[1].T)
    if learned:
        np.testing.assert_allclose(weights.diagonal, diagonal, atol=1e-3)
    else:
        assert weights.identity == 1.0


def tied_and_learned(U, diagonal, preferences, step_rates):
    U, diagonal = U.copy(), diagonal.copy()
    for (q, better, worse), rate in zip(preferences, step_rates, strict=True):
        delta = better - worse
        if q @ (U @ U.T + np.diag(diagonal)) @ delta < 1.0:
            U, diagonal = (
                U + rate * (np.outer(q, delta @ U) + np.outer(delta, q @ U)),
                diagonal + rate * q * delta,
            )
    return U, U, diagonal


def some_rows(seed: int, n_queries: int = 14, dense: bool = True):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 4)
    X = rng.standard_normal((len(qid), 5)) * (rng.random((len(qid), 5)) < 0.6)
    y = rng.integers(0, 3, len(qid))
    y[::4], y[1::4] = 0, 1  # so that every query has pairs
    return (X if dense else sparse.csr_array(X)), y, qid


# -- what else a fit does ---------------------------------------------------------------------------------------------


def rankers() -> list[tc.SparseRanker | tc.LowRankRanker | tc.DiagonalRanker]:
    return [
        tc.SparseRanker(rate=5.0, l1=0.002, refit_start="sparse"),
        tc.SparseRanker(rate=5.0, l1=0.002, shrink_towards="identity", refit=False),
        tc.LowRankRanker(n_components=4, n_frequent=30, scale_documents=True),
        tc.LowRankRanker(n_components=4, tied=True, schedule="linear"),
        tc.LowRankRanker(n_components=20, learn_documents=False, spread=0.3, rate=1.0),
        tc.DiagonalRanker(),
    ]


@pytest.mark.parametrize("ranker", rankers(), ids=lambda ranker: type(ranker).__name__)
def test_it_learns_validates_and_stops_as_it_does_without(ranker, checkerboard):
    X, y = checkerboard
    source = tc.learn.SampledSource.from_labels(y, 6000)
    held_out = tc.Preferences.from_labels(y, 500, random_state=9)
    seen = []

    def accuracy(weights):
        better = weights.score_rows(X[held_out.query], X[held_out.better])
        return float((better > weights.score_rows(X[held_out.query], X[held_out.worse])).mean())

    ranker.set_params(validate_every=1500)
    with Cluster("here:3") as cluster:
        ranker.fit(X, source, validation=accuracy, callbacks=[lambda event: seen.append(event.step)])
    last = [event for event in ranker.history_ if event.total == 6000][-1]  # a refit comes after it
    assert last.step == 6000 or last.validation is not None
    assert {1500, 3000} <= set(seen)
    if not isinstance(ranker, tc.DiagonalRanker):  # which cannot pair two words
        assert accuracy(ranker.weights_) > 0.9
    assert sum(facts.steps for facts in cluster.rounds) >= last.step
    assert all(facts.bytes_down > 0 and facts.seconds >= facts.driver_seconds for facts in cluster.rounds)


def test_a_refit_learns_the_support_and_nothing_else(checkerboard):
    X, y = checkerboard
    prefs = tc.Preferences.from_labels(y, 2000)
    with Cluster("here:2") as cluster:
        ranker = tc.SparseRanker(rate=5.0, l1=0.003).fit(X, prefs)
    before, after = ranker.weights_before_refit_.sparse, ranker.weights_.sparse
    assert sum(facts.steps for facts in cluster.rounds) == 4000
    support = before.toarray() != 0
    assert not after.toarray()[~support].any()
    assert (after != before).nnz > 0


@pytest.mark.slow
def test_how_columns_are_numbered_does_not_change_bits(rng):
    """Columns of more than 65,536 words travel as wider numbers."""
    Q, docs = random_texts(rng, 30, 9), random_texts(rng, 30, 12)
    prefs = random_preferences(rng, 200, 30, 30)
    found = []
    for n_words in (1 << 16, (1 << 16) + 1):
        D = sparse.csr_array((docs.data, docs.indices, docs.indptr), shape=(30, n_words))
        ranker = tc.SparseRanker(rate=5.0, l1=0.002, refit=False)
        with Cluster("here:3", steps_per_round=50) as cluster:
            found.append(ranker.fit(Q, prefs, D)._state.to_state()[1])
        found[-1]["sent"] = np.array([facts.bytes_up for facts in cluster.rounds])
    assert (found[0].pop("sent") < found[1].pop("sent")).all()
    assert found[0]["levels"].size > 20
    for name in ("indptr", "columns", "levels"):
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_the_shares_of_a_round_do_not_depend_on_how_a_source_gives_its_preferences(checkerboard):
    """8,192 preferences come at once; a round may want more, and an array may end within one."""
    X, y = checkerboard
    source = tc.learn.SampledSource.from_labels(y, 20_000)
    drawn = joined([source.draw(at, lambda: None) for at in (0, 8192, 16384)])[:20_000]
    found = []
    for prefs in (source, drawn):
        with Cluster("here:2", steps_per_round=12_000) as cluster:
            found.append(tc.LowRankRanker(n_components=3).fit(X, prefs)._state.U)
        assert [facts.steps for facts in cluster.rounds] == [12_000, 8_000]
    np.testing.assert_array_equal(*found)


def test_partial_fit_learns_in_rounds(checkerboard):
    X, y = checkerboard
    prefs = tc.Preferences.from_labels(y, 600)
    with Cluster("here:2") as cluster:
        ranker = tc.LowRankRanker(n_components=3).partial_fit(X, prefs).partial_fit(X, prefs)
    assert ranker.n_steps_ == 1200
    assert [facts.steps for facts in cluster.rounds] == [256, 256, 88, 256, 256, 88]


@pytest.mark.parametrize("make", [*rankers()], ids=lambda ranker: type(ranker).__name__)
def test_a_run_that_is_resumed_has_the_same_bits(make, checkerboard, tmp_path: Path):
    X, y = checkerboard
    prefs = tc.Preferences.from_labels(y, 3000)
    make.set_params(**({"refit": False} if isinstance(make, tc.SparseRanker) else {}))
    with Cluster("here:2"):
        make.fit(X, prefs)
        whole = {name: array.copy() for name, array in make._state.to_state()[1].items()}

        def stop(event):
            if event.step > 1500:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            make.fit(X, prefs, callbacks=[stop, tc.Checkpoint(tmp_path / "run", every=500)])
        make.fit(X, prefs, callbacks=[tc.Checkpoint(tmp_path / "run", every=500)])
    for name, array in make._state.to_state()[1].items():
        np.testing.assert_array_equal(array, whole[name])
    for other in ("here:3", None):
        with pytest.raises(InputError, match="another run"):
            fit_on(other, make, X, prefs, tmp_path / "run")


def fit_on(address, ranker, X, prefs, path):
    if address is None:
        ranker.fit(X, prefs, callbacks=[tc.Checkpoint(path)])
    else:
        with Cluster(address):
            ranker.fit(X, prefs, callbacks=[tc.Checkpoint(path)])


@pytest.mark.parametrize("ranker", rankers(), ids=lambda ranker: type(ranker).__name__)
def test_of_stored_texts_only_those_of_a_share_travel(ranker, checkerboard, tmp_path: Path):
    """The texts are on disk, where workers may not reach them, so shares bring theirs along."""
    X, y = checkerboard
    prefs = tc.Preferences.from_labels(y, 600)
    stored = write_rows(tmp_path / "rows", [X], n_columns=X.shape[1])
    found = []
    for texts in (X, stored):
        with Cluster("here:2") as cluster:
            found.append({name: array.copy() for name, array in ranker.fit(texts, prefs)._state.to_state()[1].items()})
        assert (cluster.bytes_broadcast == 0) == (texts is not X)
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name])


def test_only_rows_of_the_words_of_a_share_travel():
    """Two texts of 1,000 words: what is sent follows them, not the words there are."""
    n = 1000
    X = sparse.csr_array(sparse.eye_array(n, format="csr", dtype=np.float32))
    prefs = tc.Preferences([0, 1] * 50, [2, 3] * 50, [3, 2] * 50)
    for ranker, most in ((tc.LowRankRanker(n_components=10), 4000), (tc.SparseRanker(refit=False), 8000)):
        with Cluster("here:2") as cluster:
            ranker.fit(X, prefs)
        assert cluster.rounds[0].bytes_down < most
        assert cluster.rounds[0].bytes_up < 1000


def test_a_diverging_fit_says_so(checkerboard):
    X, y = checkerboard
    with Cluster("here:2"), pytest.raises(DivergedError, match="rate below"):
        tc.LowRankRanker(n_components=3, rate=1e30).fit(X, tc.Preferences.from_labels(y, 3000))


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (
            tc.DenseRanker(),
            "DenseRanker does not learn in rounds.*SparseRanker and LowRankRanker do",
        ),
        (tc.HashedRanker(), "HashedRanker does not learn in rounds"),
        (tc.PrunedRanker(), "PrunedRanker does not learn in rounds"),
        (tc.LowRankRanker(n_components=2, diagonal=None, normalise="latent"), "normalise='latent' is learned in one"),
        (tc.SparseRanker(sparsify="thin", density=0.1), "sparsify='thin'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_mixed_is_refused(ranker, message, checkerboard):
    X, y = checkerboard
    with Cluster("here:2"), pytest.raises(ParameterError, match=message):
        ranker.fit(X, tc.Preferences.from_labels(y, 10))


@pytest.mark.parametrize(
    ("ranker", "how"),
    [
        (tc.SparseRanker(sparsify="thin", density=0.1), {}),
        (tc.SparseRanker(l1=1e-4), {"never": sparse.csr_array(([1.0], ([0], [2])), shape=(40, 40))}),
    ],
    ids=["thin", "never"],
)
def test_what_a_cluster_does_not_learn_on_stays_what_it_was(ranker, how, checkerboard):
    X, y = checkerboard
    prefs = tc.Preferences.from_labels(y, 100)
    ranker.fit(X, prefs, **how)
    before = ranker.weights_
    with Cluster("here:2"), pytest.raises(ParameterError):
        ranker.partial_fit(X, prefs)
    assert same_bits(ranker.weights_, before)
    assert ranker.partial_fit(X, prefs).n_steps_ == 200
    assert not how or not ranker.weights_.sparse.toarray()[0, 2]


@pytest.mark.parametrize("ranker", [tc.FTRLRanker(), tc.FenchelRanker(), tc.RankRLS()], ids=repr)
def test_rankers_of_features_are_refused(ranker):
    X, y, qid = some_rows(0)
    with Cluster("here:2"), pytest.raises(ParameterError, match=f"{type(ranker).__name__} does not learn in rounds"):
        ranker.fit(X, y, qid)
    ranker.fit(X, y, qid)


def test_latent_semantic_indexing_is_refused(checkerboard):
    with Cluster("here:2"), pytest.raises(ParameterError, match="LSIRanker does not learn in rounds"):
        tc.LSIRanker(n_components=3).fit(checkerboard[0])


@pytest.mark.parametrize(
    "address", ["local", "local:0", "local:x", "here:-1", "tcp://host", "http://host:1", "", 2, None]
)
def test_a_wrong_address_is_refused(address):
    with pytest.raises(InputError, match="a cluster is 'local:N'"):
        Cluster(address)


@pytest.mark.parametrize("options", [{"n_workers": 0}, {"steps_per_round": 0}, {"timeout": 0}, {"n_workers": True}])
def test_wrong_numbers_are_refused(options):
    with pytest.raises(ParameterError, match=next(iter(options))):
        Cluster("here:2", **options)


# -- parts ------------------------------------------------------------------------------------------------------------


@given(n_shares=st.integers(1, 40), done=st.integers(0, 10**9))
def test_rounds_grow_with_the_steps_and_give_every_share_the_same(n_shares, done):
    length = RoundLength(100, 0.2)
    steps = Schedule(n_shares).steps(done, None, length)
    assert steps % n_shares == 0
    assert 100 <= steps // n_shares <= MOST_STEPS
    assert steps <= max(0.2 * done, 100 * n_shares)
    assert Schedule(n_shares, 7).steps(done, None, length) == 7
    assert Schedule(n_shares).steps(done, 10**9 - done, length) == steps
    slowing = Schedule(n_shares).steps(done, 10**9 - done, RoundLength(100, 0.2, ending=0.2))
    assert slowing == Schedule(n_shares).steps(min(done, 10**9 - done), None, length)


def test_agreement_takes_all_of_strangers_and_the_mean_of_equals():
    apart, together = np.array([2.0, 4.0, 0.0, 2.0]), np.array([2.0, 16.0, 0.0, 0.5])
    np.testing.assert_array_equal(agreement(apart, together), [1.0, 0.25, 1.0, 1.0])


@st.composite
def changes(draw):
    """A change of a dense array and one of a sparse W, over the same rows."""
    n = draw(st.integers(0, 6))
    rows = np.array(sorted(draw(st.sets(st.integers(0, 9), min_size=n, max_size=n))), dtype=np.int32)
    values = np.array(draw(st.lists(st.integers(-3, 3), min_size=2 * n, max_size=2 * n)), dtype=np.float32).reshape(
        n, 2
    )
    found = sparse.csr_array(values)
    entries = found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data
    dense = DenseChange(rows, values, (values.astype(float) ** 2).sum(axis=1))
    return Piece({"dense": dense, "sparse": SparseChange(rows, entries)}, np.array([float(n), 1.0]))


@given(shares=st.lists(changes(), min_size=1, max_size=6), n_blocks=st.integers(1, 4))
@settings(max_examples=50)
def test_blocks_added_pairwise_are_the_sum(shares, n_blocks):
    heights = {"dense": 10, "sparse": 10}
    cut = [cut_into_blocks(share, heights, n_blocks) for share in shares]
    sums = [pairwise([pieces[block] for pieces in cut], Piece.__add__) for block in range(n_blocks)]
    expected, squares = np.zeros((10, 2)), np.zeros(10)
    for share in shares:
        expected[share.changes["dense"].rows] += share.changes["dense"].values
        squares[share.changes["dense"].rows] += share.changes["dense"].squares
    found, found_squares, found_sparse = np.zeros((10, 2)), np.zeros(10), np.zeros((10, 2))
    for piece in sums:
        dense, entries = piece.changes["dense"], piece.changes["sparse"]
        found[dense.rows] += dense.values
        found_squares[dense.rows] += dense.squares
        indptr, columns, values = entries.entries
        found_sparse[entries.rows] += sparse.csr_array(
            (values, columns, indptr), shape=(len(entries.rows), 2)
        ).toarray()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found_sparse, expected)
    np.testing.assert_allclose(found_squares, squares)
    assert sum(piece.tally[1] for piece in sums) == len(shares)
