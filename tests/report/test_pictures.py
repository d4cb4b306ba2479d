"""Pictures of learned pairs: what is chosen, counted and handed to the drawing; not pixels."""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from tercet import pictures
from tercet._installed import install_command
from tercet.cli.main import cli
from tercet.errors import InputError, MissingExtraError
from tercet.pictures import draw_pairs, look_at_pairs, picture
from tercet.weights import Dense, Diagonal, Identity, LowRank, Sparse, Weights, survey

LETTERS = "abcdefgh"


def some_weights(seed: int, n: int = 8, m: int = 8, kinds: str = "SDLI") -> tuple[Weights, np.ndarray]:
    rng = np.random.default_rng(seed)
    full = rng.standard_normal((n, m)).astype(np.float32)
    U, V = rng.standard_normal((n, 2)).astype(np.float32), rng.standard_normal((m, 2)).astype(np.float32)
    made = {
        "S": lambda: Sparse(weights=sparse.csr_array(full * (rng.random((n, m)) < 0.3)), scale=2.0),
        "D": lambda: Dense(weights=full, scale=-0.5),
        "L": lambda: LowRank(query_factors=U, doc_factors=V, scale=0.7),
        "I": lambda: Identity(n_terms=n, scale=3.0),
        "G": lambda: Diagonal(weights=full[0]),
    }
    weights = Weights([made[kind]() for kind in kinds])
    return weights, weights.rows(np.arange(n))


def between_words(W: np.ndarray, shared: bool) -> np.ndarray:
    return np.abs(W) * (1 - np.eye(*W.shape) if shared else 1)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    kinds=st.sampled_from(["S", "SIG", "D", "LI", "SDL"]),
    n=st.integers(1, 8),
    n_words=st.integers(1, 10),
)
def test_what_is_seen_is_the_w_there_is(seed, kinds, n, n_words):
    m = n if set(kinds) & set("IG") else 6
    weights, W = some_weights(seed, n, m, kinds)
    seen = look_at_pairs(weights, n_query_words=n_words, n_doc_words=n_words)
    shared = n == m
    np.testing.assert_array_equal(seen.block, W[np.ix_(seen.query_terms, seen.doc_terms)])
    assert seen.query_names == tuple(map(str, seen.query_terms))
    assert seen.doc_names == tuple(map(str, seen.doc_terms))
    assert len(set(seen.query_terms)) == len(seen.query_terms) <= n_words
    assert len(set(seen.doc_terms)) == len(seen.doc_terms) <= n_words
    # The strongest pairs of all are there, two rows at most for the sake of one column.
    size = between_words(W, shared)
    expected, times = [], dict.fromkeys(range(m), 0)
    for i in np.argsort(-size.max(axis=1), kind="stable"):
        j = int(size[i].argmax())
        if size[i, j] > 0 and times[j] < 2 and len(expected) < n_words:
            times[j] += 1
            expected.append(int(i))
    assert sorted(seen.query_terms.tolist()) == sorted(expected)
    if expected:
        assert int(size[expected[0]].argmax()) in seen.doc_terms


def test_a_word_with_itself_is_no_discovery_but_is_shown():
    W = np.diag([9.0, 8, 7, 6]) + np.array([[0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, -3.0]]) * 1.0
    seen = look_at_pairs(Weights([Sparse(weights=sparse.csr_array(W))]), vocabulary=["car", "auto", "sea", "fish"])
    assert set(seen.query_names) == {"car", "auto"}  # the other two only have themselves
    assert set(seen.doc_names) == {"car", "auto"}
    shown = {(q, d): seen.block[i, j] for i, q in enumerate(seen.query_names) for j, d in enumerate(seen.doc_names)}
    assert shown == {("car", "car"): 9, ("car", "auto"): 2, ("auto", "car"): 1, ("auto", "auto"): 8}


def test_no_document_word_brings_more_than_two_query_words():
    W = np.zeros((6, 6))
    W[:5, 5] = [9, 8, 7, 6, 5]  # five words that lead to the same one
    W[5, 0] = 1
    seen = look_at_pairs(Weights([Sparse(weights=sparse.csr_array(W))]), n_query_words=3)
    assert sorted(seen.query_terms.tolist()) == [0, 1, 5]


def test_rows_with_similar_weights_stand_together():
    W = np.zeros((8, 8))
    for topic in (0, 1):  # even words belong together, and so do odd ones
        words = np.arange(topic, 8, 2)
        W[np.ix_(words, words)] = np.arange(1, 17).reshape(4, 4)
    seen = look_at_pairs(Weights([Dense(weights=W.astype(np.float32))]))
    assert (seen.query_terms % 2).mean() == 0.5
    for terms in (seen.query_terms, seen.doc_terms):
        assert np.count_nonzero(np.diff(terms % 2)) == 1


def test_of_a_w_too_large_to_look_at_the_strongest_pair_is_found(rng, monkeypatch):
    monkeypatch.setattr(survey, "_MOST_ENTRIES", 200 * 20)
    monkeypatch.setattr("tercet.weights.base._BLOCK_BYTES", 8 * 200 * 3)
    U = rng.standard_normal((200, 3)).astype(np.float32)
    U[[77, 133]] *= 20
    seen = look_at_pairs(Weights([LowRank(query_factors=U, doc_factors=U)]), n_query_words=4)
    assert {77, 133} <= set(seen.query_terms.tolist())


def heat_map(figure):
    return figure.axes[0]


@pytest.mark.slow
def test_the_heat_map_shows_the_weights_centred_at_zero_with_words():
    weights, _ = some_weights(3, kinds="LI")
    seen = look_at_pairs(weights, vocabulary=list(LETTERS))
    axes = heat_map(draw_pairs(seen))
    [image] = axes.images
    np.testing.assert_array_equal(np.asarray(image.get_array()), seen.block)
    own = seen.query_terms[:, None] == seen.doc_terms
    assert image.norm.vmax == -image.norm.vmin == np.abs(seen.block[~own]).max()
    assert [label.get_text() for label in axes.get_yticklabels()] == list(seen.query_names)
    assert [label.get_text() for label in axes.get_xticklabels()] == list(seen.doc_names)
    outlined = {(round(p.get_y() + 0.46), round(p.get_x() + 0.46)) for p in axes.patches}
    assert outlined == {(int(i), int(j)) for i, j in np.argwhere(own)} != set()


@pytest.mark.slow
def test_a_text_model_is_drawn_with_its_words(model, tmp_path):
    seen = picture(model, tmp_path / "pairs.svg")
    words = model.query_vectorizer.words_
    assert seen.query_names == tuple(words[i] for i in seen.query_terms)
    # Queries say ask07 where documents say say07; that is what there is to learn.
    best = {q: seen.doc_names[row.argmax()] for q, row in zip(seen.query_names, seen.block, strict=True)}
    assert any(q.startswith("ask") and d == q.replace("ask", "say") for q, d in best.items())
    assert "<svg" in (tmp_path / "pairs.svg").read_text()


@pytest.mark.slow
def test_words_are_never_read_as_formulas_and_long_ones_are_cut(tmp_path):
    weights, _ = some_weights(3, kinds="D")
    words = ["$x^$", "$\\frac$", "a_b", "w" * 40, *LETTERS[:4]]
    picture(weights, tmp_path / "pairs.png", vocabulary=words)
    shown = [
        label.get_text() for label in heat_map(draw_pairs(look_at_pairs(weights, vocabulary=words))).get_yticklabels()
    ]
    assert "$x^$" in shown
    assert "w" * 13 + "…" in shown


@pytest.mark.slow
@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PDF", b"%PDF")])
def test_the_name_says_the_format_and_the_same_model_gives_the_same_bytes(tmp_path, name, start):
    weights, _ = some_weights(1)
    picture(weights, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert first.startswith(start)
    picture(weights, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.slow
def test_a_ranker_is_drawn_and_a_model_without_pairs_too(tmp_path, checkerboard):
    X, y = checkerboard
    ranker = tc.SparseRanker(l1=1e-4, rate=1.0).fit(X, tc.Preferences.from_labels(y, 2000, random_state=0))
    seen = picture(ranker, tmp_path / "ranker.png")
    np.testing.assert_array_equal(seen.block, ranker.weights_.rows(seen.query_terms)[:, seen.doc_terms])
    for nothing in (tc.CosineRanker().fit(X), Weights([Sparse(weights=sparse.csr_array((3, 3)))])):
        assert picture(nothing, tmp_path / "nothing.png").block.size == 0


# -- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_failure_leaves_the_old_picture_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "pairs.png").write_bytes(b"the old one")

    class Torn:
        def savefig(self, file, **_):
            file.write(b"half of")
            raise OSError("disk full")

    monkeypatch.setattr(pictures, "draw_pairs", lambda seen: Torn())
    with pytest.raises(OSError, match="disk full"):
        picture(some_weights(1)[0], tmp_path / "pairs.png")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("pairs.png", b"the old one")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w, p: picture(w, p / "pairs.jpg"), r"pairs\.jpg .*ends in \.png, \.svg, \.pdf"),
        (lambda w, p: picture(w, p / "pairs"), r"ends in \.png, \.svg, \.pdf"),
        (lambda w, p: picture(w, p / "none" / "pairs.png"), "no folder"),
        (lambda w, p: picture(w, p / "a.png", vocabulary=["a"]), r"got 1 for weights of shape \(8, 8\)"),
        (lambda w, p: look_at_pairs(some_weights(0, 8, 6, "D")[0], vocabulary=list("abcdefgh")), r"shape \(8, 6\)"),
        (lambda w, p: picture("model", p / "a.png"), "a text model, a ranker or weights; got str"),
        (lambda w, p: picture(w, p / "a.png", n_doc_words=0), "n_doc_words must be an integer from 1; got 0"),
        (lambda w, p: picture(w, p / "a.png", n_query_words=True), "n_query_words must be an integer from 1; got True"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, call, message):
    with pytest.raises(InputError, match=message):
        call(some_weights(1)[0], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_text_model_brings_its_words(model):
    with pytest.raises(InputError, match="has its own words"):
        look_at_pairs(model, vocabulary=["a"])


def test_without_matplotlib_the_error_says_what_to_install(tmp_path, monkeypatch):
    true_import = builtins.__import__

    def without(name: str, *rest, **more):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return true_import(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=re.escape(f"needs matplotlib: {install_command('plot')}")):
        picture(some_weights(1)[0], tmp_path / "pairs.png")
    assert list(tmp_path.iterdir()) == []


# -- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_verb_draws_what_was_saved(model, tmp_path):
    model.save(tmp_path / "model")
    output: Path = tmp_path / "pairs.png"
    arguments = ["report", str(tmp_path / "model"), "-o", str(output)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert result.output == f"{output}: written\n"
    assert output.read_bytes().startswith(b"\x89PNG")
    result = CliRunner().invoke(cli, ["report", str(tmp_path / "model"), "-o", str(tmp_path / "pairs.gif")])
    assert result.exit_code == 1
    assert "ends in .png, .svg, .pdf" in result.output
