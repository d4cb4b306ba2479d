"""Learning in rounds, without a cluster: against the oracles, and with everything else a fit can do."""

from __future__ import annotations

import operator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.learners import start_of
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.data import write_rows
from tercet.data.preferences import joined
from tercet.errors import DivergedError, InputError, ParameterError
from tercet.learn.state import rates
from tercet.scale import Cluster
from tercet.scale.changes import Result, RowChanges, agreement, pairwise
from tercet.scale.rounds import FIRST_STEPS, GROWTH, MOST_STEPS, Schedule

ROUND = 12


def some_data(seed: int, n_terms: int = 8) -> tuple[sparse.csr_array, tc.Preferences]:
    rng = np.random.default_rng(seed)
    return random_texts(rng, 15, n_terms), random_preferences(rng, 30, 15, 15)


def rounds_of(prefs, X, rate, schedule):
    """The preferences of each round as oracles take them, and their rates."""
    vectors, all_rates = as_vectors(prefs, X, X), rates(schedule, rate, 0, len(prefs), len(prefs)).astype(float)
    return [(vectors[at : at + ROUND], all_rates[at : at + ROUND]) for at in range(0, len(prefs), ROUND)]


# -- rounds are what the oracles say ----------------------------------------------------------------------------------


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


def rankers() -> list[tc.LowRankRanker]:
    return [
        tc.LowRankRanker(n_components=4, n_frequent=30, scale_documents=True),
        tc.LowRankRanker(n_components=4, tied=True, schedule="linear"),
        tc.LowRankRanker(n_components=20, learn_documents=False, spread=0.3, rate=1.0),
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
    last = ranker.history_[-1]
    assert last.step == 6000 or last.validation is not None
    assert {1500, 3000} <= set(seen)
    assert accuracy(ranker.weights_) > 0.9
    assert sum(facts.steps for facts in cluster.rounds) >= last.step
    assert all(facts.bytes_down > 0 and facts.seconds >= facts.driver_seconds for facts in cluster.rounds)


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
    with Cluster("here:2") as cluster:
        tc.LowRankRanker(n_components=10).fit(X, prefs)
    assert cluster.rounds[0].bytes_down < 4000
    assert cluster.rounds[0].bytes_up < 1000


def test_a_diverging_fit_says_so(checkerboard):
    X, y = checkerboard
    with Cluster("here:2"), pytest.raises(DivergedError, match="rate below"):
        tc.LowRankRanker(n_components=3, rate=1e30).fit(X, tc.Preferences.from_labels(y, 3000))


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (tc.DenseRanker(), "DenseRanker does not learn on a cluster; LowRankRanker does"),
        (tc.SparseRanker(), "SparseRanker does not learn on a cluster"),
        (tc.LowRankRanker(n_components=2, diagonal=None, normalize="latent"), "normalize='latent' is learned in one"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_mixed_is_refused(ranker, message, checkerboard):
    X, y = checkerboard
    with Cluster("here:2"), pytest.raises(ParameterError, match=message):
        ranker.fit(X, tc.Preferences.from_labels(y, 10))


@pytest.mark.parametrize("ranker", [tc.FTRLRanker(), tc.FenchelRanker(), tc.RankRLS()], ids=repr)
def test_rankers_of_features_are_refused(ranker):
    X, y, qid = some_rows(0)
    with Cluster("here:2"), pytest.raises(ParameterError, match=f"{type(ranker).__name__} does not learn on a cluster"):
        ranker.fit(X, y, qid)
    ranker.fit(X, y, qid)


def test_latent_semantic_indexing_is_refused(checkerboard):
    with Cluster("here:2"), pytest.raises(ParameterError, match="LSIRanker does not learn on a cluster"):
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
    steps = Schedule(n_shares).steps(done)
    assert steps % n_shares == 0
    assert FIRST_STEPS <= steps // n_shares <= MOST_STEPS
    assert steps <= max(GROWTH * done, FIRST_STEPS * n_shares)
    assert Schedule(n_shares, 7).steps(done) == 7


def test_agreement_takes_all_of_strangers_and_the_mean_of_equals():
    apart, together = np.array([2.0, 4.0, 0.0, 2.0]), np.array([2.0, 16.0, 0.0, 0.5])
    np.testing.assert_array_equal(agreement(apart, together), [1.0, 0.25, 1.0, 1.0])


@st.composite
def changes(draw):
    """The changes of some of ten rows."""
    rows = np.array(sorted(draw(st.sets(st.integers(0, 9), max_size=6))), dtype=np.int32)
    size = 2 * len(rows)
    values = np.array(draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size)), dtype=np.float32)
    values = values.reshape(len(rows), 2)
    change = RowChanges(rows, values, (values.astype(float) ** 2).sum(axis=1))
    return Result({"U": change}, np.array([float(len(rows)), 1.0]))


@given(shares=st.lists(changes(), min_size=1, max_size=6))
@settings(max_examples=50)
def test_changes_added_pairwise_are_the_sum(shares):
    total = pairwise(shares, operator.add)
    expected, squares = np.zeros((10, 2)), np.zeros(10)
    for share in shares:
        change = share.changes["U"]
        expected[change.rows] += change.values
        squares[change.rows] += change.squares
    change = total.changes["U"]
    found, found_squares = np.zeros((10, 2)), np.zeros(10)
    found[change.rows], found_squares[change.rows] = change.values, change.squares
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found_squares, squares)
    assert total.tally[1] == len(shares)
