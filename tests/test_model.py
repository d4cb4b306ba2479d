"""TextModel, and the recipe of tc.fit and tc.fit_labelled, on made-up corpora whose answers are known."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import oracles
import tercet as tc
from tercet import recipe
from tercet.errors import BundleError, InputError
from tercet.store import read_bundle, write_bundle
from tercet.weights import Dense, Identity

Qrels = dict[str, dict[str, int]]


@dataclass
class Corpus:
    docs: dict[str, str]
    queries: dict[str, str]
    qrels: Qrels

    def part(self, start: int, stop: int | None = None) -> Qrels:
        return dict(list(self.qrels.items())[start:stop])


def synonyms(seed: int, n_pairs: int, n_docs: int, n_queries: int, n_common: int = 30) -> Corpus:
    """Queries say ``ask07`` where documents say ``say07``; shared words match at random, so matching words misleads."""
    rng = np.random.default_rng(seed)

    def pick(kind: str, n: int, size: int) -> list[str]:
        return [f"{kind}{j:02d}" for j in rng.choice(n, size, replace=False)]

    docs = {
        f"d{i}": " ".join(pick("say", n_pairs, 4) + pick("common", n_common, 1 + int(rng.integers(4))))
        for i in range(n_docs)
    }
    queries, qrels = {}, {}
    for i in range(n_queries):
        asked = pick("ask", n_pairs, 2)
        queries[f"q{i}"] = " ".join(asked + pick("common", n_common, 1))
        hits = {d: sum(word.replace("ask", "say") in text for word in asked) for d, text in docs.items()}
        qrels[f"q{i}"] = {d: n for d, n in hits.items() if n}
    docs["every word"] = " ".join(f"ask{j:02d}" for j in range(n_pairs))  # so that fresh queries are known
    return Corpus(docs, queries, qrels)


def matching(seed: int) -> Corpus:
    """Each query is two words, and the documents with both are relevant: nothing is left to learn."""
    rng = np.random.default_rng(seed)
    docs = {f"d{i}": " ".join(f"w{j:02d}" for j in rng.choice(40, 6, replace=False)) for i in range(60)}
    queries, qrels = {}, {}
    for i in range(100):
        answer = f"d{rng.integers(60)}"
        words = set(rng.choice(docs[answer].split(), 2, replace=False).tolist())
        queries[f"q{i}"] = " ".join(sorted(words))
        qrels[f"q{i}"] = {d: 1 for d, text in docs.items() if words <= set(text.split())}
    return Corpus(docs, queries, qrels)


def with_random_answers(corpus: Corpus, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    ids = list(corpus.docs)
    return replace(corpus, qrels={q: {ids[d]: 1 for d in rng.choice(len(ids), 3, False)} for q in corpus.qrels})


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    # More than 200 documents and words, so that the recipe starts from their latent directions.
    return synonyms(0, n_pairs=80, n_docs=220, n_queries=300, n_common=50)


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> tc.TextModel:
    return tc.fit(
        corpus.docs, corpus.queries, corpus.part(0, 200), validation=corpus.part(200, 240), test=corpus.part(240, 280)
    )


def bits(weights: tc.Weights) -> tuple[dict, dict[str, bytes]]:
    meta, arrays = weights.to_state()
    return meta, {name: array.tobytes() for name, array in arrays.items()}


# -- measures and scores, written again in the plainest way -----------------------------------------------------------


def ndcg_at_10(grades: list[int]) -> float:
    gain = [sum(g / np.log2(rank + 2) for rank, g in enumerate(order[:10])) for order in (grades, sorted(grades)[::-1])]
    return gain[0] / gain[1]


def average_precision(grades: list[int]) -> float:
    at = [rank for rank, g in enumerate(grades) if g > 0]
    return float(np.mean([(i + 1) / (rank + 1) for i, rank in enumerate(at)]))


def reciprocal_rank(grades: list[int]) -> float:
    return 1 / (1 + next(rank for rank, g in enumerate(grades) if g > 0))


MEASURES = {"nDCG@10": ndcg_at_10, "AP": average_precision, "RR": reciprocal_rank}


def measured(scores: np.ndarray, qrels: Qrels, doc_ids: list[str]) -> dict[str, np.ndarray]:
    """Every measure of every query, from dense scores."""
    ranked = [
        [judged.get(doc_ids[d], 0) for d in oracles.ranking(row.tolist())]
        for row, judged in zip(scores, qrels.values(), strict=True)
    ]
    return {name: np.array([formula(grades) for grades in ranked]) for name, formula in MEASURES.items()}


def tfidf_scores(docs: list[str], queries: list[str]) -> np.ndarray:
    vectoriser = TfidfVectorizer(sublinear_tf=True, stop_words="english", dtype=np.float32).fit(docs)
    return (vectoriser.transform(queries) @ vectoriser.transform(docs).T).toarray()


def bm25_scores(docs: list[str], queries: list[str], k1: float = 0.9, b: float = 0.4) -> np.ndarray:
    counter = CountVectorizer(stop_words="english")
    tf = counter.fit_transform(docs).toarray().astype(float)
    asked = counter.transform(queries).toarray()
    df = (tf > 0).sum(axis=0)
    idf = np.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
    length = tf.sum(axis=1, keepdims=True) / tf.sum(axis=1).mean()
    return asked @ (idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length))).T


def learned_scores(model: tc.TextModel, docs: list[str], queries: list[str]) -> np.ndarray:
    weights = model.weights
    W = weights.query_factors.astype(float) @ weights.doc_factors.T.astype(float)
    W += weights.identity * np.eye(len(W))
    return model.queries(queries).toarray().astype(float) @ W @ model.docs(docs).toarray().astype(float).T


def all_scores(model: tc.TextModel, corpus: Corpus, qrels: Qrels) -> dict[str, dict[str, np.ndarray]]:
    docs, queries = list(corpus.docs.values()), [corpus.queries[q] for q in qrels]
    return {
        "tf-idf": measured(tfidf_scores(docs, queries), qrels, list(corpus.docs)),
        "BM25": measured(bm25_scores(docs, queries), qrels, list(corpus.docs)),
        "learned": measured(learned_scores(model, docs, queries), qrels, list(corpus.docs)),
    }


# -- learning where there is something to learn -----------------------------------------------------------------------


def test_synonyms_are_learned_and_the_gain_is_real(model, corpus):
    report = model.report
    assert report.accepted
    assert report.chosen["start"] == "lsi"
    assert "Learning was accepted" in report.decision
    assert report.change[1] > 0.2  # the low end of the interval
    # Queries that no part of the fit has seen.
    unseen = corpus.part(280)
    run = model.rank({q: corpus.queries[q] for q in unseen}, corpus.docs, k=len(corpus.docs))
    start = replace(model, weights=tc.Weights([Identity(n_terms=model.weights.shape[0])]))
    before = start.rank({q: corpus.queries[q] for q in unseen}, corpus.docs, k=len(corpus.docs))
    assert tc.evaluate(unseen, run).mean("nDCG@10") > 0.7
    assert tc.evaluate(unseen, before).mean("nDCG@10") < 0.4
    assert sum(model.related(f"ask{j:02d}", 1)[0][0] == f"say{j:02d}" for j in range(80)) > 60


def test_the_report_is_what_anyone_would_compute(model, corpus):
    report = model.report
    expected = all_scores(model, corpus, corpus.part(240, 280))
    assert [system.name for system in report.systems][-1] == "learned"
    assert {system.name for system in report.systems} == set(expected)
    for system in report.systems:
        assert list(system.values) == ["nDCG@10", "AP", "RR"]
        for name, (mean, low, high) in system.values.items():
            values = expected[system.name][name]
            interval = stats.t.interval(0.95, 39, values.mean(), stats.sem(values)) if values.std() else [mean] * 2
            assert (mean, low, high) == pytest.approx((values.mean(), *interval), abs=1e-9), (system.name, name)
    start = report.systems[-2].name
    paired = stats.ttest_rel(expected["learned"]["nDCG@10"], expected[start]["nDCG@10"])
    interval = paired.confidence_interval()
    difference = (expected["learned"]["nDCG@10"] - expected[start]["nDCG@10"]).mean()
    assert report.change[:3] == pytest.approx((difference, interval.low, interval.high), abs=1e-9)
    assert report.change[3] == pytest.approx(paired.pvalue, rel=1e-6)
    assert (report.n_train, report.n_validation, report.n_test) == (200, 40, 40)


def test_the_decision_is_made_on_validation(model, corpus):
    expected = {name: m["nDCG@10"] for name, m in all_scores(model, corpus, corpus.part(200, 240)).items()}
    start = max(("tf-idf", "BM25"), key=lambda name: expected[name].mean())
    assert (model.report.systems[-2].name, model.report.chosen["vectors"]) == (start, start)
    gain = expected["learned"] - expected[start]
    assert (
        f"on 40 validation queries nDCG@10 changed by {gain.mean():+.3f} from {start}'s {expected[start].mean():.3f}, "
        f"with a standard error of {stats.sem(gain):.3f}."
    ) in model.report.decision


def test_the_report_prints_its_numbers(model):
    text = str(model.report)
    for system in model.report.systems:
        row = next(line for line in text.splitlines() if line.startswith(system.name))
        for mean, low, high in system.values.values():
            assert f"{mean:.3f} [{low:.3f}, {high:.3f}]" in row
    assert "200 training queries, 40 for validation, 40 untouched" in text
    assert text.endswith(model.report.decision)


def test_a_measure_where_lower_is_better_is_lowered():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    report = tc.fit(small.docs, small.queries, small.qrels, measure="RankLoss").report
    assert report.accepted
    assert report.change[2] < 0
    assert re.search(r"RankLoss changed by -0\.\d+", report.decision)


def test_the_same_seed_gives_the_same_bits_and_another_seed_another_split():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    fitted = [tc.fit(small.docs, small.queries, small.qrels, random_state=s) for s in (4, 4, 5)]
    assert bits(fitted[0].weights) == bits(fitted[1].weights)
    assert str(fitted[0].report) == str(fitted[1].report)
    assert str(fitted[0].report) != str(fitted[2].report)


# -- and where there is not -------------------------------------------------------------------------------------------


def assert_is_its_start(model: tc.TextModel, corpus: Corpus) -> None:
    report = model.report
    name = report.systems[-1].name
    assert not report.accepted
    assert f"Learning was declined; the model is {name}" in report.decision
    assert report.change is None
    assert {system.name for system in report.systems} == {"tf-idf", "BM25"}
    assert bits(model.weights) == bits(tc.Weights([Identity(n_terms=model.weights.shape[0])]))
    queries = list(corpus.queries.values())[:10]
    scores = {"tf-idf": tfidf_scores, "BM25": bm25_scores}[name](list(corpus.docs.values()), queries)
    ours = model.weights.score(model.queries(queries), model.docs(list(corpus.docs.values())))
    # BM25 scores are ours times a factor of the query.
    np.testing.assert_allclose(ours / ours.max(axis=1)[:, None], scores / scores.max(axis=1)[:, None], atol=1e-6)


def test_noise_is_declined_about_as_often_as_one_standard_error_promises():
    declined = 0
    for seed in range(16):
        noise = with_random_answers(matching(seed), seed)
        parts = {"validation": noise.part(50, 75), "test": noise.part(75)}
        model = tc.fit(noise.docs, noise.queries, noise.part(0, 50), **parts, random_state=seed)
        if model.report.accepted:
            assert model.report.change[1] <= 0  # the interval on untouched queries then claims nothing
        else:
            declined += 1
            assert_is_its_start(model, noise)
    assert declined >= 11  # five in six are expected


@pytest.mark.parametrize("seed", range(4))
def test_noise_to_learn_from_is_declined_where_words_match(seed):
    true = matching(seed)
    noise = with_random_answers(true, seed)
    model = tc.fit(
        true.docs, true.queries, noise.part(0, 60), validation=true.part(60, 80), test=true.part(80), random_state=seed
    )
    assert_is_its_start(model, true)


def test_a_start_that_cannot_be_beaten_stays():
    true = matching(1)
    model = tc.fit(true.docs, true.queries, true.qrels, measure="Success@10")
    assert "changed by +0.000 from" in model.report.decision
    assert_is_its_start(model, true)


# -- what is held out -------------------------------------------------------------------------------------------------


@pytest.fixture
def spied(monkeypatch) -> dict[str, list]:
    """Query rows of every preference that was drawn, and the judgements of each held-out part."""
    seen: dict[str, list] = {"queries": [], "held_out": []}

    class SpyingSource(recipe.SampledSource):
        def draw(self, step, weights):
            prefs = super().draw(step, weights)
            seen["queries"].append(np.unique(prefs.query))
            return prefs

    class SpyingHeldOut(recipe.HeldOutQueries):
        @classmethod
        def from_qrels(cls, qrels, *rest):
            seen["held_out"].append(qrels)
            return super().from_qrels(qrels, *rest)

    monkeypatch.setattr(recipe, "SampledSource", SpyingSource)
    monkeypatch.setattr(recipe, "HeldOutQueries", SpyingHeldOut)
    return seen


@pytest.mark.parametrize("given", [(), ("validation",), ("test",), ("validation", "test")])
def test_held_out_queries_are_never_trained_on(spied, given):
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    parts = {"validation": small.part(0, 10), "test": small.part(10, 20)}
    train = small.part(20)
    report = tc.fit(small.docs, small.queries, train, **{name: parts[name] for name in given}).report
    validation, test = spied["held_out"][:2]
    qids = list(small.queries)
    trained = {qids[row] for row in np.unique(np.concatenate(spied["queries"]))}
    assert not trained & (validation.keys() | test.keys())
    assert not validation.keys() & test.keys()
    for name, held_out in (("validation", validation), ("test", test)):
        if name in given:
            assert held_out == parts[name]
        else:
            assert held_out.items() <= train.items()
            assert len(held_out) == 4
    assert trained == train.keys() - validation.keys() - test.keys()
    assert (report.n_train, report.n_validation, report.n_test) == (len(trained), len(validation), len(test))


def test_words_of_training_queries_have_columns_and_words_of_held_out_queries_have_not():
    small = matching(0)
    queries = {q: f"{text} only{q}" for q, text in small.queries.items()}
    model = tc.fit(small.docs, queries, small.part(0, 60), validation=small.part(60, 80), test=small.part(80))
    own = {word for word in model.query_vectoriser.words_ if word.startswith("only")}
    assert own == {f"only{q}" for q in small.part(0, 60)}


# -- reading a model --------------------------------------------------------------------------------------------------


def test_rank_is_brute_force(model, corpus):
    queries = dict(list(corpus.queries.items())[:12])
    scores = learned_scores(model, list(corpus.docs.values()), list(queries.values()))
    doc_ids = list(corpus.docs)
    run = model.rank(queries, corpus.docs, k=7)
    assert list(run) == list(queries)
    for row, found in zip(scores, run.values(), strict=True):
        best = oracles.ranking(row.tolist())[:7]
        assert list(found) == [doc_ids[d] for d in best]
        assert list(found.values()) == pytest.approx([row[d] for d in best], abs=1e-9)
    assert len(model.rank(queries, corpus.docs, k=10**6)["q0"]) == len(corpus.docs)


@pytest.mark.parametrize("text", ["", "zeppelin", "the and of", "?!"])
def test_a_query_without_known_words_scores_nothing_and_keeps_the_order(model, corpus, text):
    assert model.rank({"q": text}, corpus.docs, k=3) == {"q": {"d0": 0.0, "d1": 0.0, "d2": 0.0}}
    why = model.explain(text, corpus.docs["d0"])
    assert (why.score, why.pairs) == (0.0, ())


def test_explanations_sum_to_the_scores(model, corpus):
    queries = dict(list(corpus.queries.items())[:6])
    run = model.rank(queries, corpus.docs, k=len(corpus.docs))
    for qid, text in queries.items():
        for doc_id in list(corpus.docs)[:15]:
            why = model.explain(text, corpus.docs[doc_id])
            sizes = [abs(contribution) for _, _, contribution in why.pairs]
            assert sizes == sorted(sizes, reverse=True)
            assert sum(c for _, _, c in why.pairs) == pytest.approx(why.score, abs=1e-9 * (1 + sum(sizes)))
            assert why.score == pytest.approx(run[qid][doc_id], abs=1e-9)
            words = text.split(), corpus.docs[doc_id].split()
            assert {(a, b) for a, b, _ in why.pairs} <= {(a, b) for a in words[0] for b in words[1]}


def test_unknown_words_are_told_once_each_and_in_order(model):
    why = model.explain("Zeppelin ask01 the XYLOPHONE zeppelin say02", "say01")
    assert why.unknown == ("zeppelin", "xylophone")
    assert "zeppelin, xylophone" in str(why)
    assert model.explain("ask01", "say01 zeppelin").unknown == ()


def test_related_words_are_a_row_of_w(model):
    words = model.query_vectoriser.words_
    W = model.weights.query_factors[words.index("ask05")].astype(float) @ model.weights.doc_factors.T
    W[words.index("ask05")] += model.weights.identity
    order = sorted(range(len(words)), key=lambda j: -abs(W[j]))[:6]
    related = model.related("ask05", 6)
    assert [word for word, _ in related] == [words[j] for j in order]
    assert [weight for _, weight in related] == pytest.approx([W[j] for j in order], abs=1e-5)
    assert model.related(" ASK05!", 6) == related


def test_the_strongest_pairs_are_pairs_of_w(model):
    pairs = model.strongest_pairs(10, min_docs=1)
    assert len(pairs) == 10
    for query_word, doc_word, weight in pairs:
        assert query_word != doc_word
        assert dict(model.related(query_word, 10**6))[doc_word] == pytest.approx(weight, rel=1e-5)
    assert sum(a.startswith("ask") and b == a.replace("ask", "say") for a, b, _ in pairs) >= 8


@pytest.mark.parametrize("word", ["zeppelin", "ask01 ask02", ""])
def test_what_is_no_word_of_the_model_has_no_related_words(model, word):
    with pytest.raises(InputError, match=f"the model does not know the word {word!r}"):
        model.related(word)


def test_weights_must_fit_the_vocabularies():
    words = tc.Vectoriser().fit(["green avocado", "green eyes"])
    with pytest.raises(InputError, match=r"weights have shape \(2, 2\), the vocabularies \(3, 3\)"):
        tc.TextModel(words, words, tc.Weights([Identity(n_terms=2)]))


# -- saving -----------------------------------------------------------------------------------------------------------


def two_vocabularies() -> tc.TextModel:
    french, english = tc.Vectoriser().fit(["le chat", "le chien"]), tc.Vectoriser().fit(["cat", "dog", "bird"])
    W = np.arange(9, dtype=np.float32).reshape(3, 3) / 7
    return tc.TextModel(french, english, tc.Weights([Dense(weights=W)]))


@pytest.mark.parametrize("kind", ["learned", "two vocabularies"])
def test_saved_and_loaded_it_is_the_same(kind, model, corpus, tmp_path):
    saved = model if kind == "learned" else two_vocabularies()
    saved.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert isinstance(loaded, tc.TextModel)
    assert bits(loaded.weights) == bits(saved.weights)
    assert loaded.query_vectoriser.words_ == saved.query_vectoriser.words_
    assert loaded.doc_vectoriser.words_ == saved.doc_vectoriser.words_
    assert (loaded.doc_vectoriser is loaded.query_vectoriser) == (kind == "learned")
    assert loaded.report == saved.report
    assert str(loaded.report) == str(saved.report)
    queries = dict(list(corpus.queries.items())[:5]) | {"x": "chat cat"}
    docs = corpus.docs | {"x": "chat cat bird"}
    assert loaded.rank(queries, docs) == saved.rank(queries, docs)
    loaded.save(tmp_path / "again")
    assert {p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "model").iterdir()
    }


def test_every_changed_byte_is_noticed(tmp_path):
    two_vocabularies().save(tmp_path)
    rng = np.random.default_rng(0)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for at in np.unique(np.linspace(0, len(whole) - 1, 250).astype(int)):
            changed = bytearray(whole)
            changed[at] ^= int(rng.integers(1, 256))
            path.write_bytes(changed)
            with pytest.raises(BundleError):
                tc.load(tmp_path)
        path.write_bytes(whole)
    tc.load(tmp_path)


@pytest.fixture(scope="module")
def declined() -> tc.TextModel:
    true = matching(1)
    return tc.fit(true.docs, true.queries, true.qrels, measure="Success@10")


def sealed_with(model: tc.TextModel, path, change) -> None:
    """Write the model with a changed manifest under a valid seal: what a buggy or hostile writer could do."""
    model.save(path)
    bundle = read_bundle(path)
    meta = copy.deepcopy(bundle.meta)
    change(meta)
    write_bundle(path, kind=bundle.kind, meta=meta, arrays=bundle.arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("report"),
        lambda m: m.update(extra=1),
        lambda m: m.update(shared_vocabulary=False),
        lambda m: m["weights"]["parts"][0].update(kind="magic"),
        lambda m: m["queries"].update(n_docs=0),
        lambda m: m["report"].update(accepted=1),
        lambda m: m["report"]["systems"][0].update(values=[["AP", 1.0]]),
        lambda m: m["report"].update(change=[0.1]),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(declined, tmp_path, change):
    sealed_with(declined, tmp_path, change)
    with pytest.raises(BundleError):
        tc.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["report"]["systems"][0].update(values=[1]),
        lambda m: m["report"]["systems"][0].update(values=[[]]),
        lambda m: m["report"].update(systems=[]),
        lambda m: m["weights"].update(parts=[]),
        lambda m: m["weights"]["parts"][0].update(shape=[3, 3]),
        lambda m: m["weights"]["parts"][0].update(scale=10**400),
    ],
    ids=["value is a number", "value is empty", "no systems", "no parts", "another shape", "endless scale"],
)
def test_a_manifest_that_does_not_fit_is_refused_in_our_words(declined, tmp_path, change):
    sealed_with(declined, tmp_path, change)
    with pytest.raises(BundleError):
        tc.load(tmp_path)


# -- input that is wrong, or nearly -----------------------------------------------------------------------------------

TINY = Corpus(
    {"a": "cats purr", "b": "dogs bark", "c": "fish swim"},
    {f"q{i}": ["purr", "bark", "swim"][i % 3] for i in range(30)},
    {f"q{i}": {"abc"[i % 3]: 1} for i in range(30)},
)


def tiny(**changes):
    given = {"docs": TINY.docs, "queries": TINY.queries, "qrels": TINY.qrels} | changes
    return tc.fit(given.pop("docs"), given.pop("queries"), given.pop("qrels"), **given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"docs": {}}, "there are 0 documents and 30 queries; both are needed"),
        ({"queries": {}}, "there are 3 documents and 0 queries; both are needed"),
        ({"qrels": {"q99": {"a": 1}}}, "qrels judge query 'q99', which is not among the queries"),
        ({"qrels": {"q1": {"z": 1}}}, "qrels judge document 'z' for query 'q1'; there is no such document"),
        ({"test": {"q1": {"z": 1}}}, "test judge document 'z' for query 'q1'; there is no such document"),
        ({"validation": {"q99": {"a": 1}}}, "validation judge query 'q99', which is not among the queries"),
        ({"qrels": {}}, "qrels have no query with a relevant document"),
        ({"qrels": {"q1": {"a": 0}, "q2": {}}}, "qrels have no query with a relevant document"),
        ({"validation": {}}, "validation have no query with a relevant document"),
        ({"test": {"q1": {"a": -1}}}, "test have no query with a relevant document"),
        ({"validation": TINY.part(3, 6)}, "query 'q3' is judged in both qrels and"),
        ({"test": TINY.part(29)}, "query 'q29' is judged in both qrels and"),
        ({"qrels": TINY.part(0, 9)}, "9 judged queries are too few to hold any out for validation and testing; give"),
        ({"qrels": TINY.part(0, 9), "test": TINY.part(20)}, "9 judged queries are too few to hold any out for valid"),
        ({"qrels": {q: {"a": 0.5} for q in TINY.qrels}}, "the grade of document 'a' for query 'q.*' is 0.5; grades"),
        ({"docs": dict.fromkeys("abc", "")}, "fitting needs words, but .* found none in the 3 texts"),
        ({"docs": dict.fromkeys("abc", "the and of")}, "fitting needs words, but .* found none in the 3 texts"),
        ({"docs": {**TINY.docs, "d": None}}, r"texts\[3\] must be a string, found NoneType"),
        ({"measure": "glory"}, "Measure 'glory' is not known"),
        ({"analyser": "english"}, "The 'analyser' parameter of Vectoriser must be None or an Analyser"),
        ({"qrels": {q: {"a": 1, "b": 1, "c": 1} for q in TINY.qrels}}, "no judgement can be the better side"),
    ],
)
def test_what_cannot_be_fitted_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        tiny(**changes)


@pytest.mark.parametrize(
    ("queries", "docs", "k", "message"),
    [
        ({}, TINY.docs, 5, "there are 0 queries and 3 documents; both are needed"),
        ({"q": "bark"}, {}, 5, "there are 1 queries and 0 documents; both are needed"),
        ({"q": "bark"}, TINY.docs, 0, "k must be at least 1; got 0"),
        ({"q": 5}, TINY.docs, 5, r"texts\[0\] must be a string, found int"),
    ],
)
def test_what_cannot_be_ranked_is_named(declined, queries, docs, k, message):
    with pytest.raises(InputError, match=message):
        declined.rank(queries, docs, k)


def test_queries_without_a_relevant_document_are_left_out():
    report = tiny(qrels={**TINY.part(0, 20), "q25": {"a": 0}, "q26": {}}).report
    assert report.n_train + report.n_validation + report.n_test == 20


def test_empty_texts_and_queries_of_unknown_words_are_no_trouble():
    model = tiny(docs={**TINY.docs, "empty": "", "stop words": "the of and"})
    assert model.rank({"q": "bark"}, {"empty": "", "b": "dogs bark"})["q"]["empty"] == 0.0
    unknown = tiny(queries=dict.fromkeys(TINY.queries, "the"))
    assert not unknown.report.accepted


def test_a_model_of_few_queries_can_be_saved(tmp_path):
    model = tiny(qrels=TINY.part(0, 12))
    model.save(tmp_path / "model")
    assert tc.load(tmp_path / "model").report.n_test == 2


def test_one_untouched_query_is_enough_to_fit():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    model = tc.fit(small.docs, small.queries, small.part(0, 40), validation=small.part(40, 59), test=small.part(59))
    assert model.report.accepted


def test_a_query_cannot_be_in_validation_and_test():
    with pytest.raises(InputError, match="q25"):
        tiny(qrels=TINY.part(0, 20), validation=TINY.part(20, 26), test=TINY.part(25))


def test_held_out_grades_are_integers_too():
    halves = {q: dict.fromkeys(judged, 0.5) for q, judged in TINY.part(20, 25).items()}
    with pytest.raises(InputError, match="grades are integers"):
        tiny(qrels=TINY.part(0, 20), validation=halves, test=TINY.part(25))


def test_the_measure_of_the_report_is_a_column_of_its_table():
    report = tiny(measure="MAP").report
    assert report.measure in report.systems[0].values


# -- labelled texts ---------------------------------------------------------------------------------------------------


def labelled(seed: int, n: int = 240, n_classes: int = 4) -> tuple[list[str], list[str]]:
    """Texts of a class share a vocabulary of thirty words, of which each text has three."""
    rng = np.random.default_rng(seed)
    y = [f"class {i % n_classes}" for i in range(n)]
    texts = [
        " ".join(
            [f"c{i % n_classes}w{j}" for j in rng.choice(30, 3, replace=False)]
            + [f"noise{j}" for j in rng.choice(20, int(rng.integers(1, 5)), replace=False)]
        )
        for i in range(n)
    ]
    return texts, y


def test_classes_are_learned_and_reported_as_anyone_would_compute():
    texts, labels = labelled(1, 80)
    model = tc.fit_labelled(*labelled(0), test=(texts, labels))
    report = model.report
    assert report.accepted
    assert report.change[1] > 0.2
    assert (report.n_train, report.n_validation, report.n_test) == (216, 24, 80)
    start = tc.Weights([Identity(n_terms=model.weights.shape[0])])
    for system, weights in zip(report.systems[-2:], (start, model.weights), strict=True):
        precision = []
        for i, row in enumerate(weights.score(model.queries(texts), model.docs(texts)).tolist()):
            ranked = [j for j in oracles.ranking(row) if j != i]  # a text is no answer to itself
            precision.append(average_precision([int(labels[j] == labels[i]) for j in ranked]))
        assert system.values["AP"][0] == pytest.approx(np.mean(precision), abs=1e-9)


def test_held_out_texts_give_no_words():
    texts, labels = labelled(0, 100)
    model = tc.fit_labelled([f"{text} own{i}" for i, text in enumerate(texts)], labels)
    own = [word for word in model.query_vectoriser.words_ if word.startswith("own")]
    assert len(own) == model.report.n_train == 80
    assert (model.report.n_validation, model.report.n_test) == (10, 10)


def test_shuffled_labels_are_declined():
    accepted = 0
    for seed in range(5):
        texts, labels = labelled(seed, 300)
        shuffled = np.random.default_rng(seed).permutation(labels).tolist()
        accepted += tc.fit_labelled(texts, shuffled, random_state=seed).report.accepted
    assert accepted <= 2


@pytest.mark.parametrize(
    ("texts", "labels", "options", "message"),
    [
        (["a"] * 30, ["x"] * 29, {}, "there are 30 texts and 29 labels; each text has one"),
        (["word"] * 11, ["x", "y"] * 5 + ["x"], {}, "11 labelled texts are too few"),
        ([], [], {}, "training texts and labels: there are no texts"),
        (["word"] * 30, ["x"] * 30, {}, "y has the single class .*x"),
        (["word"] * 30, list(map(str, range(30))), {}, "every class in y has one member"),
        ([""] * 30, ["x", "y"] * 15, {}, "fitting needs words"),
        (["word"] * 30, ["x", "y"] * 15, {"measure": "glory"}, "Measure 'glory' is not known"),
        ([None] * 30, ["x", "y"] * 15, {}, r"texts\[0\] must be a string, found NoneType"),
    ],
)
def test_labelled_texts_that_cannot_be_fitted_are_named(texts, labels, options, message):
    with pytest.raises(InputError, match=message):
        tc.fit_labelled(texts, labels, **options)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ((["word"] * 3, ["x"] * 2), "3 .*texts and 2 labels"),
        (([], []), "test texts and labels: there are no texts"),
    ],
    ids=["lengths differ", "empty"],
)
def test_test_texts_are_checked_as_well(test, message):
    with pytest.raises(InputError, match=message):
        tc.fit_labelled(["red apple", "blue sky"] * 15, ["x", "y"] * 15, test=test)
