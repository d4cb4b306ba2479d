"""Words and features learned together: against the equations, and what the two must be as one W."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from oracles import joint_sgd
from tercet import Preferences
from tercet.errors import InputError, ParameterError
from tercet.learn import DenseRanker, DiagonalRanker, LowRankRanker, SparseRanker
from tercet.learn.joint import JointRanker, joined, taken_apart, words_of
from tercet.text.fielded import ColumnLayout
from tercet.weights import Dense, Diagonal, Identity, LowRank, Sparse, Weights

LAYOUT = ColumnLayout(6, 2, 3)


def made(n_queries=8, n_docs=12, n_prefs=90, seed=0, layout=LAYOUT):
    """Queries, documents and preferences; Q and D as a FieldedVectorizer lays them out."""
    rng = np.random.default_rng(seed)
    Q, D = np.zeros((n_queries, layout.n_columns)), np.zeros((n_docs, layout.n_columns))
    Q[:, : layout.n_words] = rng.random((n_queries, layout.n_words)) * (rng.random((n_queries, layout.n_words)) < 0.5)
    Q[:, -1] = 1
    D[:, : layout.any_query] = rng.normal(size=(n_docs, layout.any_query)) * (
        rng.random((n_docs, layout.any_query)) < 0.6
    )
    docs = rng.permuted(np.tile(np.arange(n_docs), (n_prefs, 1)), axis=1)
    prefs = Preferences(rng.integers(n_queries, size=n_prefs), docs[:, 0], docs[:, 1])
    return sparse.csr_array(Q.astype(np.float32)), sparse.csr_array(D.astype(np.float32)), prefs


def phi(Q, D, layout=LAYOUT):
    """Features of every query and document (n_q, n_d, n_features)."""
    Q, D, n = Q.toarray().astype(float), D.toarray().astype(float), layout.n_words
    fields = [Q[:, :n] @ D[:, n * (f + 1) : n * (f + 2)].T for f in range(layout.n_fields)]
    numbers = [np.outer(Q[:, -1], D[:, layout.first_number + j]) for j in range(layout.n_numbers)]
    return np.stack([*fields, *numbers], axis=2)


@pytest.mark.parametrize("learn_documents", [True, False])
@pytest.mark.parametrize("chunk_size", [1, 7, 64])
def test_steps_are_those_of_the_equations(chunk_size, learn_documents):
    Q, D, prefs = made()
    ranker = LowRankRanker(
        n_components=3, identity_weight=2.0, rate=0.1, schedule="constant", learn_documents=learn_documents
    )
    prior = np.array([0.5, 0, 0, 0.25, 0])
    joint = JointRanker(layout=LAYOUT, ranker=ranker, prior=prior, l1=1.5, feature_rate=0.3, chunk_size=chunk_size).fit(
        Q, prefs, D
    )
    words_q, words_d = (matrix.toarray().astype(float) for matrix in words_of(LAYOUT, Q, D))
    start = ranker._start(*words_of(LAYOUT, Q, D))
    differences = phi(Q, D)
    U, V, w = joint_sgd(
        start.U.T.astype(float),
        start.V.T.astype(float),
        2.0,
        [(words_q[q], words_d[a], words_d[b]) for q, a, b in zip(prefs.query, prefs.better, prefs.worse, strict=True)],
        [differences[q, a] - differences[q, b] for q, a, b in zip(prefs.query, prefs.better, prefs.worse, strict=True)],
        np.full(len(prefs), 0.1),
        prior,
        1.5,
        0.3,
        1.0,
        chunk_size,
        learn_documents=learn_documents,
    )
    assert joint.feature_weights_ == pytest.approx(w, abs=1e-4)
    assert pytest.approx(U.T, abs=1e-4) == joint._state.inner.U
    assert pytest.approx(V.T, abs=1e-4) == joint._state.inner.V
    assert (w != prior).any()


@pytest.mark.parametrize(
    "part",
    [
        Identity(n_terms=6, scale=2.0),
        Diagonal(weights=np.arange(6, dtype=np.float32)),
        Dense(weights=np.arange(36, dtype=np.float32).reshape(6, 6)),
        Sparse(weights=sparse.random_array((6, 6), density=0.4, rng=0, format="csr"), scale=-1.0),
        LowRank(query_factors=np.ones((6, 2), np.float32), doc_factors=np.ones((6, 2), np.float32), typical_length=1.0),
    ],
    ids=lambda part: part.kind,
)
def test_one_w_scores_as_words_and_features(part):
    Q, D, _ = made()
    w = np.array([1.5, -2.0, 0.25, 0.0, -0.5])
    both = joined(Weights([part]), w, LAYOUT)
    assert both.shape == (LAYOUT.n_columns, LAYOUT.n_columns)
    alone = Weights([part]).score(*words_of(LAYOUT, Q, D))
    assert both.score(Q, D) == pytest.approx(alone + phi(Q, D) @ w, abs=1e-5)
    words, same = taken_apart(both, LAYOUT)
    assert same == pytest.approx(w)
    assert words.rows(np.arange(6)) == pytest.approx(Weights([part]).rows(np.arange(6)))
    why = both.explain(Q[[0]], D[[1]])
    assert why.contribution.sum() == pytest.approx(why.score, abs=1e-9)


def test_the_sparse_end_leaves_every_weight_at_its_prior():
    Q, D, prefs = made()
    prior = [0.5, 0, 0, 0, 0]
    joint = JointRanker(layout=LAYOUT, prior=prior)
    end = joint.sparse_end(Q, prefs, D)
    assert joint.set_params(l1=end).fit(Q, prefs, D).feature_weights_.tolist() == prior
    assert joint.set_params(l1=0.3 * end).fit(Q, prefs, D).feature_weights_.tolist() != prior


def test_w_alone_leaves_words_as_they_are():
    Q, D, prefs = made()
    weights = JointRanker(layout=LAYOUT, identity_weight=3.0).fit(Q, prefs, D).weights_
    assert weights.identity == 3.0
    assert weights.query_factors is None


def test_a_sparse_w_learns_beside_numbers():
    """Without a penalty W is what a dense one is; a refit learns the support again, beside the same features."""
    Q, D, prefs = made()
    plain = {"rate": 0.5, "schedule": "constant"}
    dense = JointRanker(layout=LAYOUT, ranker=DenseRanker(**plain)).fit(Q, prefs, D)
    same = JointRanker(layout=LAYOUT, ranker=SparseRanker(l1=0.0, refit=False, **plain)).fit(Q, prefs, D)
    assert same.feature_weights_ == pytest.approx(dense.feature_weights_, abs=1e-4)
    assert same.score_matrix(Q, D) == pytest.approx(dense.score_matrix(Q, D), abs=1e-3)
    refitted = JointRanker(layout=LAYOUT, ranker=SparseRanker(l1=0.05, shrink_every=5, **plain)).fit(Q, prefs, D)
    shrunk = JointRanker(layout=LAYOUT, ranker=SparseRanker(l1=0.05, shrink_every=5, refit=False, **plain))
    support = shrunk.fit(Q, prefs, D).weights_.rows(np.arange(6))[:, :6] != 0
    assert 0 < support.sum() < 36
    assert not (refitted.weights_.rows(np.arange(6))[:, :6] != 0)[~support].any()


@pytest.mark.parametrize(
    "ranker",
    [SparseRanker(l1=1e-4, rate=1.0), SparseRanker(density=0.5, sparsify="low-rank"), DiagonalRanker(rate=1.0)],
)
def test_any_ranker_learns_w_of_words(ranker):
    Q, D, prefs = made()
    joint = JointRanker(layout=LAYOUT, ranker=ranker).fit(Q, prefs, D)
    assert (joint.feature_weights_ != 0).any()
    assert np.mean(joint.margins(Q, prefs, D) > 0) > np.mean(ranker.fit(Q, prefs, D).margins(Q, prefs, D) > 0.0) - 0.2


def test_numbers_that_decide_are_found():
    rng = np.random.default_rng(0)
    layout = ColumnLayout(4, 0, 3)
    Q, D, _ = made(20, 200, 1, layout=layout)
    D = sparse.csr_array(
        np.hstack([np.abs(D.toarray()[:, :4]), rng.normal(size=(200, 3)), np.zeros((200, 1))]).astype(np.float32)
    )
    true = phi(Q, D, layout) @ np.array([1.0, 0.0, -0.5]) + words_of(layout, Q)[0] @ words_of(layout, D)[0].T
    query, a, b = rng.integers(20, size=4000), rng.integers(100, size=4000), 100 + rng.integers(100, size=4000)
    ahead = true[query, a] > true[query, b]
    prefs = Preferences(query, np.where(ahead, a, b), np.where(ahead, b, a))
    joint = JointRanker(layout=layout, ranker=DiagonalRanker(rate=1.0))
    joint.set_params(l1=0.1 * joint.sparse_end(Q, prefs, D)).fit(Q, prefs, D)
    popular, noise, price = joint.feature_weights_
    assert popular > 0 > price
    assert abs(noise) < 0.1 * popular
    assert np.mean(joint.margins(Q, prefs, D) > 0) > 0.95


def test_what_does_not_fit_is_refused():
    Q, D, prefs = made()
    with pytest.raises(InputError, match="22 and 22 columns; the layout has 8"):
        JointRanker(layout=ColumnLayout(6, 0, 1)).fit(Q, prefs, D)
    with pytest.raises(ParameterError, match="5 finite numbers"):
        JointRanker(layout=LAYOUT, prior=[1.0]).fit(Q, prefs, D)
    with pytest.raises(InputError, match="TextModel"):
        JointRanker(layout=LAYOUT).fit(Q, prefs, D).save("nowhere")


def test_the_ranker_of_the_words_says_how_to_step():
    Q, D, prefs = made()
    ranker = JointRanker(layout=LAYOUT, ranker=LowRankRanker(epochs=7, margin=3.0, patience=None)).fit(Q, prefs, D)
    assert ranker.n_steps_ == 7 * len(prefs)
    assert ranker.ranker.get_params()["epochs"] == 7  # as it was given, not fitted
    assert not hasattr(ranker.ranker, "n_steps_")
