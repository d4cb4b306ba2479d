"""Texts in two languages: `fit_parallel`."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from support.learners import same_bits
from tercet.errors import InputError
from tercet.fitting import parallel


def two_languages(n=300, n_meanings=40, seed=0):
    """Texts on five of so many meanings, each of which has two words in either language, and one at random."""
    rng = np.random.default_rng(seed)
    meant = [rng.choice(n_meanings, 5, replace=False) for _ in range(n)]

    def text(sign, meanings):
        meanings = [*meanings, rng.integers(n_meanings)]
        return " ".join(f"{sign}{meaning}{'ab'[rng.integers(2)]}" for meaning in meanings)

    queries, docs = ({str(i): text(sign, row) for i, row in enumerate(meant)} for sign in "xy")
    return queries, docs, meant


@pytest.fixture(scope="module")
def learned():
    queries, docs, _ = two_languages()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "WIDTHS", (15,))  # fewer than the meanings, so that there is something to learn
        return tc.fit_parallel(queries, docs, verbose=False), queries, docs


def test_what_was_learned_is_better_than_the_start_and_says_so(learned):
    model, _, _ = learned
    report = model.report
    assert report.accepted
    assert [system.name for system in report.systems] == ["CL-LSI", "learned"]
    before, after = (system.values["RR"][0] for system in report.systems)
    assert after > before + 0.02
    assert (report.n_train, report.n_validation, report.n_test) == (200, 50, 50)


def test_it_is_searched_explained_and_saved_like_any_model(learned, tmp_path):
    model, queries, docs = learned
    hits = tc.Index.build(docs, model).search(queries["7"], k=5)
    run = model.rank({"q": queries["7"]}, docs, k=5)["q"]
    assert [hit.doc_id for hit in hits] == list(run)
    why = model.explain(queries["7"], docs[hits[0].doc_id])
    assert why.score == pytest.approx(hits[0].score, abs=1e-5)
    assert sum(pair[2] for pair in why.pairs) == pytest.approx(why.score, abs=1e-5)
    model.save(tmp_path / "model")
    assert tc.load(tmp_path / "model").rank({"q": queries["7"]}, docs, k=5)["q"] == pytest.approx(run)


def test_mates_may_be_named_and_others_stay_without_one():
    queries, docs, _ = two_languages(120)
    renamed = {f"d{key}": text for key, text in docs.items()}
    translations = [(key, f"d{key}") for key in list(queries)[:100]]
    named = tc.fit_parallel(queries, renamed, translations, n_steps=8192, verbose=False)
    same = tc.fit_parallel(queries, renamed, dict(translations), n_steps=8192, verbose=False)
    assert str(named.report.systems) == str(same.report.systems)
    assert named.report.n_train + named.report.n_validation + named.report.n_test == 100


def test_nothing_is_learned_from_what_is_held_out():
    """Held-out translations may be wrong, and the model stays the same."""
    queries, docs, _ = two_languages(100)
    pairs = np.column_stack([np.arange(100)] * 2)
    train, *held_out = parallel._split(pairs, 0)
    assert sum(map(len, (train, *held_out))) == 100
    assert len({tuple(pair) for part in (train, *held_out) for pair in part.tolist()}) == 100
    first = tc.fit_parallel(queries, docs, n_steps=8192, verbose=False)
    rotated = {str(a): str(b) for (a, _), (b, _) in zip(held_out[1], np.roll(held_out[1], 1, axis=0), strict=True)}
    second = tc.fit_parallel(queries, docs, {**{key: key for key in docs}, **rotated}, n_steps=8192, verbose=False)
    assert same_bits(first.weights, second.weights)


def test_learning_that_does_not_help_is_declined_and_the_model_is_the_start(monkeypatch):
    queries, docs, _ = two_languages(100)
    monkeypatch.setattr(parallel, "_RATE", 1e-12)
    model = tc.fit_parallel(queries, docs, n_steps=8192, verbose=False)
    assert not model.report.accepted
    assert model.report.rejected is not None
    assert [system.name for system in model.report.systems] == ["CL-LSI"]
    assert "the model is CL-LSI" in model.report.decision


def test_what_is_wrong_with_mates_is_said():
    queries, docs, _ = two_languages(40)
    for translations, message in (
        ([("0", "no")], r"translations\[0\] is \('0', 'no'\); there is no text 'no'"),
        ([("0",)], "a pair"),
        ([("0", "1"), ("0", "2")], "the text '0' has more than one translation"),
        ([("0", "1"), ("2", "1")], "the text '1' has more than one translation"),
        ([(str(i), str(i)) for i in range(19)], "19 translations are too few"),
    ):
        with pytest.raises(InputError, match=message):
            tc.fit_parallel(queries, docs, translations)
