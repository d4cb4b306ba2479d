"""The recipe of tc.fit and tc.fit_labelled, on made-up corpora whose answers are known."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import Stemmer
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import oracles
import tercet as tc
from support.corpora import TINY, Corpus, Qrels, bits, matching, oracle_scores, synonyms, with_random_answers
from tercet.errors import InputError
from tercet.fitting.task import KNOWN, NEW
from tercet.weights import Identity

# Where numbers do not matter: few steps.
QUICK = {"n_steps": 3000}

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


def stems(text: str) -> list[str]:
    """Words of two letters or more, reduced to their stems."""
    return Stemmer.Stemmer("english").stemWords(re.findall(r"\b\w\w+\b", text.lower()))


def tfidf_scores(docs: list[str], queries: list[str]) -> np.ndarray:
    vectorizer = TfidfVectorizer(sublinear_tf=True, analyzer=stems, dtype=np.float32).fit(docs)
    return (vectorizer.transform(queries) @ vectorizer.transform(docs).T).toarray()


def bm25_scores(docs: list[str], queries: list[str], k1: float = 1.2, b: float = 0.75) -> np.ndarray:
    counter = CountVectorizer(analyzer=stems)
    tf = counter.fit_transform(docs).toarray().astype(float)
    asked = counter.transform(queries).toarray()
    df = (tf > 0).sum(axis=0)
    idf = np.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
    length = tf.sum(axis=1, keepdims=True) / tf.sum(axis=1).mean()
    return asked @ (idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length))).T


STARTS = {
    "tf-idf": tfidf_scores,
    "BM25": bm25_scores,
    "BM25 .9/.4": lambda docs, queries: bm25_scores(docs, queries, 0.9, 0.4),
    "BM25 2/.75": lambda docs, queries: bm25_scores(docs, queries, 2.0, 0.75),
}


def all_scores(model: tc.TextModel, corpus: Corpus, qrels: Qrels) -> dict[str, dict[str, np.ndarray]]:
    """Measures of every system that the report has."""
    docs, queries = list(corpus.docs.values()), [corpus.queries[q] for q in qrels]
    names = [system.name for system in model.report.systems if system.name != "learned"]
    scores = {name: STARTS[name](docs, queries) for name in names}
    scores["learned"] = oracle_scores(model, corpus.docs, queries)
    return {name: measured(own, qrels, list(corpus.docs)) for name, own in scores.items()}


# -- learning where there is something to learn -----------------------------------------------------------------------


@pytest.mark.slow
def test_synonyms_are_learned_and_the_gain_is_real(model, corpus):
    report = model.report
    assert report.accepted
    assert report.chosen["start"] == "lsi"
    assert report.decision.startswith("Used: words")
    assert "words" in model.parts
    assert report.change[1] > 0.2  # the low end of the interval
    # Queries that no part of the fit has seen.
    unseen = corpus.part(280)
    run = model.rank({q: corpus.queries[q] for q in unseen}, corpus.docs, k=len(corpus.docs))
    before = model.with_parts([]).rank({q: corpus.queries[q] for q in unseen}, corpus.docs, k=len(corpus.docs))
    assert tc.evaluate(unseen, run).mean("nDCG@10") > 0.7
    assert tc.evaluate(unseen, before).mean("nDCG@10") < 0.4
    assert sum(model.related(f"ask{j:02d}", 1)[0][0] == f"say{j:02d}" for j in range(80)) > 60


@pytest.mark.slow
def test_the_report_is_what_anyone_would_compute(model, corpus):
    report = model.report
    expected = all_scores(model, corpus, corpus.part(240, 280))
    assert [system.name for system in report.systems][-1] == "learned"
    assert {system.name for system in report.systems} == set(expected) >= {"tf-idf", "BM25", "learned"}
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


@pytest.mark.slow
def test_the_start_is_chosen_on_validation(model, corpus):
    """The ordinary BM25, unless another is clearly better."""
    expected = {name: m["nDCG@10"] for name, m in all_scores(model, corpus, corpus.part(200, 240)).items()}
    start = model.report.systems[-2].name
    assert model.report.chosen["vectors"] == start
    gains = {name: expected[name] - expected["BM25"] for name in expected.keys() - {"learned", "BM25"}}
    clear = [name for name, gain in gains.items() if gain.mean() > stats.sem(gain)]
    best = max(["BM25", *clear], key=lambda name: expected[name].mean())
    assert start == best


def test_the_report_prints_its_numbers(model):
    text = str(model.report)
    for system in model.report.systems:
        row = next(line for line in text.splitlines() if line.startswith(system.name))
        for mean, low, high in system.values.values():
            assert f"{mean:.3f} [{low:.3f}, {high:.3f}]" in row
    assert "200 training queries, 40 for validation, 40 untouched" in text
    assert text.endswith(model.report.decision)


@pytest.mark.slow
def test_a_measure_where_lower_is_better_is_lowered():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    report = tc.fit(small.docs, small.queries, small.qrels, measure="RankLoss", options=QUICK).report
    assert report.accepted
    assert report.change[2] < 0
    assert re.search(r"RankLoss is expected to change by -0\.\d+", report.decision)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_and_another_seed_another_split():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=30)
    given = {"ranker": tc.DenseRanker(rate=0.3, schedule="linear"), "options": QUICK}
    fitted = [tc.fit(small.docs, small.queries, small.qrels, **given, random_state=s) for s in (4, 4, 5)]
    assert bits(fitted[0].weights) == bits(fitted[1].weights)
    assert str(fitted[0].report) == str(fitted[1].report)
    assert str(fitted[0].report) != str(fitted[2].report)


# -- and where there is not -------------------------------------------------------------------------------------------


def assert_is_its_start(model: tc.TextModel, corpus: Corpus) -> None:
    report = model.report
    name = report.systems[-1].name
    assert not report.accepted
    assert f"You have {name}." in report.decision
    assert model.parts == ()
    assert model.memory is None
    assert report.compared == (report.rejected, report.systems[-1])
    assert f"Verdict: {report.verdict}; rejected, so the model is {name}" in str(report)
    assert {"tf-idf", "BM25"} <= {system.name for system in report.systems} <= STARTS.keys()
    assert bits(model.weights) == bits(tc.Weights([Identity(n_terms=model.weights.shape[0])]))
    queries = list(corpus.queries.values())[:10]
    scores = STARTS[name](list(corpus.docs.values()), queries)
    ours = model.weights.score(model.queries(queries), model.docs(list(corpus.docs.values())))
    # BM25 scores are ours times a factor of the query.
    np.testing.assert_allclose(ours / ours.max(axis=1)[:, None], scores / scores.max(axis=1)[:, None], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("given", "n_seeds"), [(True, 10), (False, 5)])
def test_noise_is_declined_about_as_often_as_one_standard_error_promises(given, n_seeds):
    rejected = 0
    for seed in range(n_seeds):
        noise = with_random_answers(matching(seed), seed)
        parts = {"validation": noise.part(50, 75)} if given else {}
        model = tc.fit(
            noise.docs, noise.queries, noise.part(0, 50), **parts, test=noise.part(75), options=QUICK, random_state=seed
        )
        if model.report.accepted:
            assert model.report.change[1] <= 0  # the interval on untouched queries then claims nothing
        else:
            rejected += 1
            assert_is_its_start(model, noise)
    assert rejected >= 0.68 * n_seeds  # five in six are expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_noise_to_learn_from_does_no_harm_where_words_match(seed):
    true = matching(seed)
    noise = with_random_answers(true, seed)
    model = tc.fit(
        true.docs,
        true.queries,
        noise.part(0, 60),
        validation=true.part(60, 80),
        test=true.part(80),
        random_state=seed,
        options=QUICK,
    )
    values = [system.values["nDCG@10"][0] for system in model.report.systems]
    assert values[-1] > values[0] - 0.02
    if not model.report.accepted:
        assert_is_its_start(model, true)


@pytest.mark.slow
def test_a_start_that_cannot_be_beaten_stays(rejected):
    assert rejected.report.decision.startswith("Nothing that was learned is better than ")
    assert "Next: tc.Index.build(docs, model)." in rejected.report.decision
    assert "--parts" not in rejected.report.decision
    assert_is_its_start(rejected, matching(1))


@pytest.mark.slow
def test_words_of_training_queries_have_columns_and_words_of_held_out_queries_have_not():
    small = matching(0)
    queries = {q: f"{text} only{q}" for q, text in small.queries.items()}
    model = tc.fit(
        small.docs, queries, small.part(0, 60), validation=small.part(60, 80), test=small.part(80), options=QUICK
    )
    own = {word for word in model.query_vectorizer.words_ if word.startswith("only")}
    assert own == {f"only{q}" for q in small.part(0, 60)}


@pytest.mark.slow
def test_the_report_without_test_queries_is_of_all_that_were_left_out():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=30)
    report = tc.fit(small.docs, small.queries, small.qrels, options=QUICK).report
    assert report.crossed
    assert "30 training queries, 30 of them left out in turn. Each query was left out twice, in 5 folds" in str(report)
    for system in report.systems:
        if system.name in STARTS:
            scores = STARTS[system.name](list(small.docs.values()), [small.queries[q] for q in small.qrels])
            expected = measured(scores, small.qrels, list(small.docs))
            for name, values in expected.items():
                assert system.values[name][0] == pytest.approx(values.mean(), abs=1e-9)
    by_name = {result.name: result for result in report.evidence}
    assert by_name.keys() == {KNOWN, NEW}
    assert by_name[KNOWN].size <= sum(grade > 0 for judged in small.qrels.values() for grade in judged.values())
    assert "new answers (" in str(report)
    again = tc.report.Report.from_state(
        {name: value for name, value in json.loads(report.to_json()).items() if name != "verdict"}, {}
    )
    assert again == report


# -- input that is wrong, or nearly -----------------------------------------------------------------------------------


def tiny(**changes):
    given = {"docs": TINY.docs, "queries": TINY.queries, "qrels": TINY.qrels, "options": {"n_steps": 300}} | changes
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
        ({"docs": [1]}, "docs must be a mapping of ids to texts or records, .*; got list"),
        ({"qrels": [("q0", "a", 1)]}, "qrels must be a mapping, qid -> {doc_id: grade}; got list"),
        ({"qrels": {q: list(j) for q, j in TINY.qrels.items()}}, "qrels of query 'q0' must be doc_id -> grade"),
        ({"test": TINY.part(29)}, "query 'q29' is judged in both qrels and"),
        ({"qrels": {q: {"a": 0.5} for q in TINY.qrels}}, "the grade of document 'a' for query 'q.*' is 0.5; grades"),
        ({"docs": dict.fromkeys("abc", "")}, "fitting needs words, but .* found none in the 3 texts"),
        ({"docs": dict.fromkeys("abc", "the and of")}, "fitting needs words, but .* found none in the 3 texts"),
        ({"docs": {**TINY.docs, "d": None}}, r"docs\['d'\] is None; a text, a string, is needed"),
        ({"measure": "glory"}, "Measure 'glory' is not known"),
        ({"options": {"n_steps": 1.5}}, r"n_steps .* got 1\.5"),
        ({"options": {"budget": 0}}, "budget .* got 0"),
        ({"options": {"budget": "an hour"}}, "budget .* got 'an hour'"),
        ({"options": {"min_sessions": 0}}, "min_sessions .* got 0"),
        ({"options": {"steps": 3}}, "options: .*'steps'.* n_steps"),
        ({"new_documents": 1.1}, r"new_documents .* got 1\.1"),
        ({"new_documents": "few"}, "new_documents .* got 'few'"),
        ({"options": {"analyzer": "english"}}, "The 'analyzer' parameter of Vectorizer must be None or an Analyzer"),
        ({"qrels": {q: {"a": 1, "b": 1, "c": 1} for q in TINY.qrels}}, "no judgement can be the better side"),
    ],
)
def test_what_cannot_be_fitted_is_named(changes, message):
    with pytest.raises(InputError, match=message):
        tiny(**changes)


@pytest.mark.slow
def test_queries_without_a_relevant_document_are_left_out():
    report = tiny(qrels={**TINY.part(0, 20), "q25": {"a": 0}, "q26": {}}).report
    assert report.n_train == report.n_validation == report.n_test == 20


@pytest.mark.slow
def test_empty_texts_and_queries_of_unknown_words_are_no_trouble():
    model = tiny(docs={**TINY.docs, "empty": "", "stop words": "the of and"})
    assert model.rank({"q": "bark"}, {"empty": "", "b": "dogs bark"})["q"]["empty"] == 0.0
    unknown = tiny(queries=dict.fromkeys(TINY.queries, "the"))
    assert not unknown.report.accepted


@pytest.mark.slow
def test_a_model_of_few_queries_can_be_saved(tmp_path):
    model = tiny(qrels=TINY.part(0, 12))
    model.save(tmp_path / "model")
    assert tc.load(tmp_path / "model").report.n_test == 12


def test_one_untouched_query_is_enough_to_fit():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    model = tc.fit(
        small.docs, small.queries, small.part(0, 40), validation=small.part(40, 59), test=small.part(59), options=QUICK
    )
    assert model.report.accepted


def test_the_report_of_one_untouched_query_can_be_saved(tmp_path):
    model = tiny(qrels=TINY.part(0, 20), validation=TINY.part(20, 28), test=TINY.part(28, 29))
    assert np.isnan(model.report.systems[0].values["RR"][1]), "one query has no interval"
    model.save(tmp_path / "model")
    assert str(tc.load(tmp_path / "model").report) == str(model.report)


def test_a_query_cannot_be_in_validation_and_test():
    with pytest.raises(InputError, match="q25"):
        tiny(qrels=TINY.part(0, 20), validation=TINY.part(20, 26), test=TINY.part(25))


def test_held_out_grades_are_integers_too():
    halves = {q: dict.fromkeys(judged, 0.5) for q, judged in TINY.part(20, 25).items()}
    with pytest.raises(InputError, match="grades are integers"):
        tiny(qrels=TINY.part(0, 20), validation=halves, test=TINY.part(25))


@pytest.mark.slow
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


@pytest.mark.slow
def test_classes_are_learned_and_reported_as_anyone_would_compute():
    texts, labels = labelled(1, 80)
    model = tc.fit_labelled(*labelled(0), test=(texts, labels), options={"n_steps": 10_000})
    report = model.report
    assert report.accepted
    assert report.change[1] > 0.2
    assert (report.n_train, report.n_validation, report.n_test) == (240, 240, 80)
    assert not report.crossed
    start = tc.Weights([Identity(n_terms=model.weights.shape[0])])
    systems = [
        (one, of.score(model.queries(texts), model.docs(texts)))
        for one, of in zip(report.systems[-2:], (start, model.weights), strict=True)
    ]
    classifier = LogisticRegression().fit(model.docs(labelled(0)[0]), labelled(0)[1])
    posteriors = classifier.predict_proba(model.docs(texts)).astype(np.float32)
    assert [rival.name for rival in report.rivals] == ["posteriors of logistic regression"]
    for system, scores in [*systems, (report.rivals[0], posteriors @ posteriors.T)]:
        precision = []
        for i, row in enumerate(scores.tolist()):
            ranked = [j for j in oracles.ranking(row) if j != i]  # a text is no answer to itself
            precision.append(average_precision([int(labels[j] == labels[i]) for j in ranked]))
        assert system.values["AP"][0] == pytest.approx(np.mean(precision), abs=1e-9)


@pytest.mark.slow
def test_test_texts_give_no_words_and_all_others_are_learned_from():
    texts, labels = labelled(0, 60)
    own_words = [f"{text} own{i}" for i, text in enumerate(texts)]
    model = tc.fit_labelled(own_words[:40], labels[:40], test=(own_words[40:], labels[40:]), options=QUICK)
    own = {word for word in model.query_vectorizer.words_ if word.startswith("own")}
    assert own == {f"own{i}" for i in range(40)}
    assert (model.report.n_train, model.report.n_validation, model.report.n_test) == (40, 40, 20)
    without = tc.fit_labelled(own_words[:40], labels[:40], options=QUICK).report
    assert (without.n_train, without.n_test, without.crossed) == (40, 40, True)
    assert "Each text was left out twice" in without.split


@pytest.mark.slow
def test_shuffled_labels_are_declined():
    accepted = 0
    for seed in range(3):
        texts, labels = labelled(seed, 100)
        shuffled = np.random.default_rng(seed).permutation(labels).tolist()
        accepted += tc.fit_labelled(texts, shuffled, random_state=seed, options=QUICK).report.accepted
    assert accepted <= 1


@pytest.mark.parametrize(
    ("texts", "labels", "options", "message"),
    [
        (["a"] * 30, ["x"] * 29, {}, "there are 30 texts and 29 labels; each text has one"),
        (iter(["a"] * 30), ["x"] * 30, {}, "must be lists, one text and one label each; got list_iterator and list"),
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


# -- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_links_are_learned_and_no_document_finds_itself():
    # An odd document links to the even one after it, which shares no word with it but belongs to the same topic.
    rng = np.random.default_rng(0)
    docs, links = {}, {}
    for i in range(120):
        topic = i // 2 % 6
        words = rng.integers(8, size=4)
        side = "ab"[i % 2]
        docs[f"d{i}"] = " ".join(f"topic{topic}{side}{word}" for word in words)
    for i in range(0, 120, 2):
        links[f"d{i}"] = [f"d{j}" for j in range(1, 120, 2) if j // 2 % 6 == i // 2 % 6]
    model = tc.fit_linked(docs, links, options=QUICK | {"analyzer": tc.Analyzer()})
    assert model.report.accepted
    start, learned = model.report.systems[-2], model.report.systems[-1]
    assert learned.values["AP"][0] > start.values["AP"][0] + 0.3
    again = tc.fit_linked(
        docs,
        {source: [source, *targets] for source, targets in links.items()},
        options=QUICK | {"analyzer": tc.Analyzer()},
    )
    assert bits(again.weights) == bits(model.weights)  # a link to itself says nothing


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (7, "links must be a mapping, id -> ids it links to, pairs .* got int"),
        ("links.tsv", "got the string 'links.tsv': read_links reads a file"),
        ({"a": "b"}, "links of 'a' must be a list of ids"),
        ({"a": ["nowhere"]}, r"links\['a'\]: document 'nowhere' is not among the documents"),
        ({"nowhere": ["a"]}, "document 'nowhere' is not among the documents"),
        ([("a", "b", "c")], r"links\[0\] must be two ids, those of source and target; got \('a', 'b', 'c'\)"),
        (
            [("a", "b"), ("a", 0.5)],
            r"links\[1\]: target is 0.5, a number with a point; ids are strings or whole numbers",
        ),
        ([("a", "nowhere")], r"links\[0\]: document 'nowhere' is not among the documents"),
        ([{"source": "a", "target": "nowhere"}], r"links\[0\]: document 'nowhere' is not among the documents"),
        ([{"source": "a", "colour": "b"}], "Which column holds the target.* source, colour"),
    ],
)
def test_links_that_are_none_are_refused(links, message):
    with pytest.raises(InputError, match=message):
        tc.fit_linked({"a": "one", "b": "two"}, links)
