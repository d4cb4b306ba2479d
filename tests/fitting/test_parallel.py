"""Texts in two languages: `fit_parallel`."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from tercet.errors import InputError
from tercet.fitting import cross_language, parallel
from tercet.learn.lsi import common_directions, directions_of, mapped_to
from tercet.measure import parse_measure
from tercet.weights import LowRank, Weights


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
        patch.setattr(
            cross_language, "WIDTHS", (15,)
        )  # fewer than there are meanings, so that there is something to learn
        patch.setattr(cross_language, "FOR_TRANSLATIONS", {"margin": 0.3, "rate": 0.05})  # few words, so few steps
        return tc.fit_parallel(queries, docs, verbose=False), queries, docs


def test_what_was_learned_is_better_than_both_starts_and_says_so(learned):
    model, _, _ = learned
    report = model.report
    assert report.accepted
    assert {system.name for system in report.systems[:3]} == {"CL-LSI", "ridge map", "both"}
    assert report.systems[3].name == "learned"
    means = [system.values["RR"][0] for system in report.systems]
    assert means[3] > max(means[:3]) + 0.05
    assert report.verdict == "better"
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


def test_nothing_is_learned_from_what_is_held_out(monkeypatch):
    queries, docs, _ = two_languages(100)
    seen = {}
    starts, split = parallel.best_starts, parallel._split
    monkeypatch.setattr(
        parallel,
        "best_starts",
        lambda Q, D, translations, *rest: (seen.update(translations=translations), starts(Q, D, translations, *rest))[
            1
        ],
    )
    monkeypatch.setattr(parallel, "_split", lambda *rest: seen.setdefault("parts", split(*rest)))
    tc.fit_parallel(queries, docs, n_steps=8192, verbose=False)
    train, *held_out = (set(part.tolist()) for part in seen["parts"])
    assert set(seen["translations"][:, 0].tolist()) == train
    assert not train & set.union(*held_out)


def test_learning_that_does_not_help_is_declined_and_the_model_is_the_start(monkeypatch):
    queries, docs, _ = two_languages(100)
    monkeypatch.setattr(cross_language, "FOR_TRANSLATIONS", {"margin": 0.1, "rate": 1e-12})
    model = tc.fit_parallel(queries, docs, n_steps=8192, verbose=False)
    assert not model.report.accepted
    assert model.report.rejected is not None
    assert f"the model is {model.report.systems[-1].name}" in model.report.decision
    assert model.report.chosen["start"] == model.report.systems[-1].name


def test_judgements_are_learned_from_where_there_are_some():
    queries, docs, meant = two_languages(200, 30)
    # What shares a meaning with another of a fixed partner is to be found, which no translation says.
    qrels = {}
    for i, row in enumerate(meant):
        wanted = {(m + 1) % 30 for m in row if m % 2}
        found = {str(j): 1 for j, other in enumerate(meant) if j != i and len(wanted & set(other.tolist())) >= 2}
        if found:
            qrels[str(i)] = found
    model = tc.fit_parallel(queries, docs, qrels=qrels, measure="AP", n_steps=40_000, verbose=False)
    assert model.report.measure == "AP"
    assert model.report.accepted
    assert model.report.systems[-1].values["AP"][0] > model.report.systems[-2].values["AP"][0]


def test_less_is_better_where_the_measure_says_so():
    queries, docs, _ = two_languages(60, 8)
    model = tc.fit_parallel(
        queries, docs, qrels={qid: {qid: 1} for qid in queries}, measure="RankLoss", n_steps=500, verbose=False
    )
    assert model.report.systems[-1].values["RankLoss"][0] < 0.4  # by chance it is a half
    assert re.search(r"RankLoss changed by [+-]0\.\d+ from both's 0\.\d+, with", model.report.decision)


def test_two_spaces_side_by_side_count_alike():
    rng = np.random.default_rng(0)
    Q, D = (sparse.csr_array(rng.random((30, n)).astype(np.float32)) for n in (8, 6))
    rows = np.arange(30)
    translations = np.column_stack([rows, rows])
    A, B = (directions_of(texts, "texts", 3, 0) for texts in (Q, D))
    one, other = (
        Weights([LowRank(query_factors=U, doc_factors=V, typical_length=1.0, unit_queries=True)])
        for U, V in (common_directions(Q, D, 3, 0), (A, mapped_to(A, B, Q, D, translations)))
    )
    scores = cross_language.side_by_side(one, other, Q, D).score(Q, D)
    q, d = (
        np.hstack([latent / np.sqrt((np.linalg.norm(latent, axis=1) ** 2).mean()) for latent in spaces])
        for spaces in (
            [Q @ weights.query_factors for weights in (one, other)],
            [D @ weights.doc_factors for weights in (one, other)],
        )
    )
    expected = (q @ d.T) / np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(d, axis=1))
    np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize(("bonus", "chosen"), [(0.0, "both"), (0.01, "both"), (0.3, "CL-LSI")])
def test_one_start_alone_is_taken_where_it_is_clearly_better(bonus, chosen):
    rng = np.random.default_rng(0)
    Q, D = (sparse.csr_array(rng.random((30, n)).astype(np.float32)) for n in (8, 6))

    def values(weights):
        alone = weights.query_factors.shape[1] == 3
        return np.full(40, 0.5) + (bonus + np.random.default_rng(1).normal(0, 0.2, 40) if alone else 0.0)

    validation = SimpleNamespace(values=values, measure=parse_measure("RR"))
    translations = np.repeat(np.arange(30)[:, None], 2, axis=1)
    name, starts = cross_language.best_starts(Q, D, translations, validation, 0, (3,))
    assert name == chosen
    assert {one: weights.query_factors.shape[1] for one, weights in starts.items()} == {
        "CL-LSI": 3,
        "ridge map": 3,
        "both": 6,
    }


def test_languages_without_blanks_are_cut_into_pairs_of_characters():
    assert parallel._analyzer_for(["東京都は日本の首都です。"]).tokenizer == "characters"
    assert parallel._analyzer_for(["Tōkyō ist die Hauptstadt Japans (東京都)."]).tokenizer == "words"
    assert parallel._analyzer_for(["Столица", ""]).tokenizer == "words"


def test_what_is_wrong_with_mates_is_said():
    queries, docs, _ = two_languages(40)
    for translations, message in (
        ([("0", "no")], r"translations\[0\] is \('0', 'no'\); there is no text 'no'"),
        ([("0",)], "a pair"),
        ([("0", "1"), ("0", "2")], "the text '0' has more than one translation"),
        ([("0", "1"), ("2", "1")], "the text '1' has more than one translation"),
        ([(str(i), str(i)) for i in range(19)], "19 translations are too few to learn from; give at least 20"),
        ([(str(i), str(i)) for i in range(20)], "12 translations are too few"),
    ):
        with pytest.raises(InputError, match=message):
            tc.fit_parallel(queries, docs, translations)
    with pytest.raises(InputError, match="qrels name document 'no', which is not among the document ids"):
        tc.fit_parallel(queries, docs, qrels={"0": {"no": 1}})
    with pytest.raises(InputError, match=r"the grade of document '1' for query '0' is 1\.5; grades are integers"):
        tc.fit_parallel(queries, docs, qrels={"0": {"1": 1.5}})
