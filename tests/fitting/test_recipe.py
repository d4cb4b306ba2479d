"""The recipe of tc.fit and tc.fit_labeled, on made-up corpora whose answers are known."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import Stemmer
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import oracles
import tercet as tc
from support.corpora import TINY, Corpus, Qrels, bits, matching, synonyms, with_random_answers
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


def start_values(report: tc.report.Report, corpus: Corpus, qrels: Qrels) -> dict[str, dict[str, np.ndarray]]:
    """Measures of every start that the report has."""
    docs, queries = list(corpus.docs.values()), [corpus.queries[q] for q in qrels]
    names = [system.name for system in report.systems if system.name != "learned"]
    return {name: measured(STARTS[name](docs, queries), qrels, list(corpus.docs)) for name in names}


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
    expected = start_values(report, corpus, corpus.part(0, 200))
    assert [system.name for system in report.systems][-1] == "learned"
    assert expected.keys() >= {"tf-idf", "BM25"}
    for system in report.systems[:-1]:
        assert list(system.values) == ["nDCG@10", "AP", "RR"]
        for name, (mean, low, high) in system.values.items():
            values = expected[system.name][name]
            interval = stats.t.interval(0.95, 199, values.mean(), stats.sem(values)) if values.std() else [mean] * 2
            assert (mean, low, high) == pytest.approx((values.mean(), *interval), abs=1e-9), (system.name, name)
    learned, start = (system.values["nDCG@10"][0] for system in report.systems[:-3:-1])
    assert report.change[0] == pytest.approx(learned - start)
    assert (report.n_train, report.n_validation, report.n_test) == (200, 200, 200)


@pytest.mark.slow
def test_the_start_is_bm25_unless_another_is_clearly_better(model, corpus):
    values = start_values(model.report, corpus, corpus.part(0, 200))
    expected = {name: of_start["nDCG@10"] for name, of_start in values.items()}
    start = model.report.systems[-2].name
    assert model.report.chosen["vectors"] == start
    gains = {name: expected[name] - expected["BM25"] for name in expected.keys() - {"BM25"}}
    least = 0.02 * expected["BM25"].mean()
    clear = [name for name, gain in gains.items() if gain.mean() > max((1 + 30 / 200) * stats.sem(gain), least)]
    assert start == max(["BM25", *clear], key=lambda name: expected[name].mean())


def test_the_report_prints_its_numbers(model):
    text = str(model.report)
    for system in model.report.systems:
        row = next(line for line in text.splitlines() if line.startswith(system.name))
        for mean, low, high in system.values.values():
            assert f"{mean:.3f} [{low:.3f}, {high:.3f}]" in row
    assert "200 training queries, 200 of them left out in turn" in text
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
def test_noise_is_declined_about_as_often_as_one_standard_error_promises():
    rejected = 0
    for seed in range(5):
        noise = with_random_answers(matching(seed), seed)
        model = tc.fit(noise.docs, noise.queries, noise.part(0, 50), options=QUICK, random_state=seed)
        if not model.report.accepted:
            rejected += 1
            assert_is_its_start(model, noise)
    assert rejected >= 4  # five in six are expected


@pytest.mark.slow
def test_a_start_that_cannot_be_beaten_stays(rejected):
    assert rejected.report.decision.startswith("Nothing that was learned is better than ")
    assert "Next: tc.Index.build(docs, model)." in rejected.report.decision
    assert "--parts" not in rejected.report.decision
    assert_is_its_start(rejected, matching(1))


@pytest.mark.slow
def test_words_of_judged_queries_have_columns_and_words_of_other_queries_have_not():
    small = matching(0)
    queries = {q: f"{text} only{q}" for q, text in small.queries.items()}
    model = tc.fit(small.docs, queries, small.part(0, 60), options=QUICK)
    own = {word for word in model.query_vectorizer.words_ if word.startswith("only")}
    assert own == {f"only{q}" for q in small.part(0, 60)}


@pytest.mark.slow
def test_the_report_is_of_all_queries_left_out_in_turn():
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
        ({"qrels": {}}, "qrels have no query with a relevant document"),
        ({"qrels": {"q1": {"a": 0}, "q2": {}}}, "qrels have no query with a relevant document"),
        ({"docs": [1]}, "docs must be a mapping of ids to texts or records, .*; got list"),
        ({"qrels": [("q0", "a", 1)]}, "qrels must be a mapping, qid -> {doc_id: grade}; got list"),
        ({"qrels": {q: list(j) for q, j in TINY.qrels.items()}}, "qrels of query 'q0' must be doc_id -> grade"),
        ({"qrels": {q: {"a": 0.5} for q in TINY.qrels}}, "the grade of document 'a' for query 'q.*' is 0.5; grades"),
        ({"docs": dict.fromkeys("abc", "")}, "fitting needs words, but .* found none in the 3 texts"),
        ({"docs": dict.fromkeys("abc", "the and of")}, "fitting needs words, but .* found none in the 3 texts"),
        ({"docs": {**TINY.docs, "d": None}}, r"docs\['d'\] is None; a text, a string, is needed"),
        ({"measure": "glory"}, "Measure 'glory' is not known"),
        ({"measure": "PairAccuracy"}, "PairAccuracy is measured on preferences and clicks"),
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


@pytest.mark.slow
def test_the_measure_of_the_report_is_a_column_of_its_table():
    report = tiny(measure="MAP").report
    assert report.measure in report.systems[0].values


# -- labeled texts ---------------------------------------------------------------------------------------------------


def labeled(seed: int, n: int = 240, n_classes: int = 4) -> tuple[list[str], list[str]]:
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
def test_classes_are_learned_and_other_texts_are_ranked_by_them():
    texts, labels = labeled(1, 80)
    model = tc.fit_labeled(*labeled(0), options={"n_steps": 10_000})
    report = model.report
    assert report.accepted
    assert report.change[1] > 0.2
    assert (report.n_train, report.n_validation, report.n_test) == (240, 240, 240)
    assert "Each text was left out twice" in report.split
    assert [rival.name for rival in report.rivals] == ["posteriors of logistic regression"]
    Q, D = model.queries(texts), model.docs(texts)
    start = tc.Weights([Identity(n_terms=model.weights.shape[0])])
    means = []
    for weights in (start, model.weights):
        precision = []
        for i, row in enumerate(weights.score(Q, D).tolist()):
            ranked = [j for j in oracles.ranking(row) if j != i]  # a text is no answer to itself
            precision.append(average_precision([int(labels[j] == labels[i]) for j in ranked]))
        means.append(np.mean(precision))
    assert means[1] > means[0] + 0.2


@pytest.mark.slow
def test_shuffled_labels_are_declined():
    accepted = 0
    for seed in range(3):
        texts, labels = labeled(seed, 100)
        shuffled = np.random.default_rng(seed).permutation(labels).tolist()
        accepted += tc.fit_labeled(texts, shuffled, random_state=seed, options=QUICK).report.accepted
    assert accepted <= 1


@pytest.mark.parametrize(
    ("texts", "labels", "options", "message"),
    [
        (["a"] * 30, ["x"] * 29, {}, "there are 30 texts and 29 labels; each text has one"),
        (iter(["a"] * 30), ["x"] * 30, {}, "must be lists, one text and one label each; got list_iterator and list"),
        (["word"] * 11, ["x", "y"] * 5 + ["x"], {}, "11 labeled texts are too few"),
        ([], [], {}, "0 labeled texts are too few"),
        (["word"] * 30, ["x"] * 30, {}, "y has the single class .*x"),
        (["word"] * 30, list(map(str, range(30))), {}, "every class in y has one member"),
        ([""] * 30, ["x", "y"] * 15, {}, "fitting needs words"),
        (["word"] * 30, ["x", "y"] * 15, {"measure": "glory"}, "Measure 'glory' is not known"),
        ([None] * 30, ["x", "y"] * 15, {}, r"texts\[0\] must be a string, found NoneType"),
    ],
)
def test_labeled_texts_that_cannot_be_fitted_are_named(texts, labels, options, message):
    with pytest.raises(InputError, match=message):
        tc.fit_labeled(texts, labels, **options)


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
        ([{"source": "a", "color": "b"}], "Which column holds the target.* source, color"),
    ],
)
def test_links_that_are_none_are_refused(links, message):
    with pytest.raises(InputError, match=message):
        tc.fit_linked({"a": "one", "b": "two"}, links)
