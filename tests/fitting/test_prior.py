"""A prior of the user's own on W: synonyms, and words that never belong together."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tercet as tc
from support.commands import ok, run
from support.corpora import bits, synonyms
from tercet.data import write_beir
from tercet.data.word_pairs import WordPair, as_word_pairs, read_word_pairs
from tercet.errors import FormatError, InputError
from tercet.report.page import make_report_page

SMALL = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
KNOWN = {(f"ask{i:02d}", f"say{i:02d}"): 1.0 for i in range(12)}


def fit(prior=None, ranker=None):
    """With queries to choose and to report on there is one fold of known answers."""
    parts = {"validation": SMALL.part(36, 48), "test": SMALL.part(48)}
    options = {"n_steps": 2000, "prior": prior}
    return tc.fit(SMALL.docs, SMALL.queries, SMALL.part(0, 36), **parts, ranker=ranker, options=options)


def weight(model, query_word, doc_word):
    words = model.query_vectorizer.index_
    return model.weights.rows(np.array([words[query_word]]))[0, words[doc_word]]


@pytest.mark.slow
@pytest.mark.parametrize("ranker", ["low-rank", "sparse", "diagonal", "correlated", "lsi", "cosine"])
def test_known_pairs_are_in_the_start_and_in_what_is_learned(ranker):
    plain, model = fit(ranker=ranker), fit(KNOWN, ranker=ranker)
    names = [system.name for system in model.report.systems]
    start = names[-2] if model.report.accepted else names[-1]
    assert start.endswith(" with prior")
    by_name = {system.name: system.values["nDCG@10"][0] for system in model.report.systems}
    assert by_name[start] > by_name[start.removesuffix(" with prior")] + 0.2
    assert model.report.systems[-1].values["nDCG@10"][0] > plain.report.systems[-1].values["nDCG@10"][0] - 0.02
    assert weight(model, "ask03", "say03") > 0.5
    assert model.report.details.data["n_known_pairs"] == 12
    assert "known pairs of words" in make_report_page(model.report)


@pytest.mark.slow
def test_what_is_known_needs_not_be_learned():
    scores = {}
    for prior in (None, dict.fromkeys(KNOWN, 40.0)):
        model = fit(prior, ranker=tc.DenseRanker(rate=0.1, schedule="linear"))
        learned = weight(model, "ask03", "say03") - (0.0 if prior is None else 40.0)
        scores[prior is None] = abs(learned)
    assert scores[False] < 0.2 * scores[True]  # the margins that are left are reached already


@pytest.mark.slow
def test_pairs_that_never_count_have_no_weight():
    never = [("ask03", "say03", "never"), ("ask04", "say04", 0)]
    plain = fit(ranker="sparse")
    model = fit(never, ranker="sparse")
    assert weight(plain, "ask03", "say03") != 0
    assert weight(model, "ask03", "say03") == weight(model, "ask04", "say04") == 0
    assert weight(model, "ask05", "say05") != 0
    thinned = fit(never, ranker=tc.SparseRanker(sparsify="low-rank", density=0.3))
    assert weight(thinned, "ask03", "say03") == 0
    with pytest.raises(InputError, match="pairs that never have a weight is for the ranker 'sparse'; got 'low-rank'"):
        fit(never)


@pytest.mark.slow
def test_words_are_cut_as_texts_are_and_unknown_ones_are_named():
    texts = {"a": "running shoes", "b": "sprint spikes", "c": "swimming pool"}
    queries = {str(i): text for i, text in enumerate(["running", "sprints", "pools"] * 4)}
    qrels = {q: {"abc"[int(q) % 3]: 1} for q in queries}
    analyzer = tc.Analyzer(stop_words="english", stemmer="english")
    prior = [("Runs", "sprinting", 0.5), ("running", "glory", 1.0), ("ice cream", "pool", 1.0)]
    model = tc.fit(texts, queries, qrels, options={"prior": prior, "analyzer": analyzer, "n_steps": 500})
    assert model.report.details.data["n_known_pairs"] == 1
    assert "words of the prior that the texts do not have as one word: glory, ice cream." in str(model.report)
    assert weight(model, "run", "sprint") >= 0.5


@pytest.mark.slow
def test_the_same_prior_in_any_form_is_the_same_model(tmp_path):
    rows = [(query, doc, 1.0) for query, doc in KNOWN]
    (tmp_path / "pairs.tsv").write_text("query\tdocument\tweight\n" + "".join(f"{q}\t{d}\t{w}\n" for q, d, w in rows))
    (tmp_path / "pairs.csv").write_text("Query word,Document word\n" + "".join(f"{q},{d}\n" for q, d, _ in rows))
    lines = [json.dumps({"query": q, "doc": d, "weight": w}) for q, d, w in rows]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    nested = {query: {doc: 1.0} for query, doc in KNOWN}
    records = [{"query": q, "document": d, "weight": w} for q, d, w in rows]
    forms = [KNOWN, rows, nested, records, *(tmp_path / f"pairs.{end}" for end in ("tsv", "csv", "jsonl"))]
    assert len({tuple(as_word_pairs(form)) for form in forms}) == 1
    assert bits(fit(str(tmp_path / "pairs.tsv")).weights) == bits(fit(KNOWN).weights)


def test_never_and_zero_are_read(tmp_path):
    (tmp_path / "pairs.tsv").write_text("query\tdocument\tweight\ncar\tautomobile\t.5\njaguar\tzoo\tNever\na\tb\t0\n")
    assert read_word_pairs(tmp_path / "pairs.tsv") == [
        WordPair("car", "automobile", 0.5),
        WordPair("jaguar", "zoo", None),
        WordPair("a", "b", None),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query\tdocument\tweight\ncar\tauto\tmuch\n", r"pairs.tsv:2: the weight of 'car' and 'auto' is 'much'"),
        ("query\tdocument\tweight\ncar\tauto\tinf\n", r"pairs.tsv:2: the weight of 'car' and 'auto' is 'inf'"),
        ("query\tweight\ncar\t1\n", "Which column holds the document word"),
        ("query\tdocument\n\tauto\n", "pairs.tsv:2: a pair has two words"),
        ("query\tdocument\tweight\ncar\tauto\t\n", "pairs.tsv:2: the pair of 'car' and 'auto' has no weight"),
        ('{"query": "a", "document": "b"}\n{"query": "a"}\n', "pairs.tsv:2: a pair has two words; found None"),
        (
            '{"query": "a", "document": "b", "weight": 1}\n{"query": "c", "document": "d"}\n',
            "pairs.tsv:2: .* no weight",
        ),
    ],
)
def test_a_wrong_file_is_named_with_its_line(text, message, tmp_path):
    (tmp_path / "pairs.tsv").write_text(text)
    with pytest.raises(FormatError, match=message):
        fit(tmp_path / "pairs.tsv")


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([], "the prior has no pair"),
        ([("car",)], r"prior\[0\] must be a query word, a document word and a weight"),
        ({"car": 1.0}, "expected \\(query word, document word\\): weight"),
        ([("car", "auto", "much")], r"prior\[0\]: the weight of 'car' and 'auto' is 'much'"),
        (7, "prior must be pairs of words, or the path of a table"),
    ],
)
def test_what_is_no_prior_is_named(prior, message):
    with pytest.raises(InputError, match=message):
        fit(prior)


@pytest.mark.slow
def test_from_the_shell(tmp_path):
    write_beir(tmp_path / "data", SMALL.docs, SMALL.queries, {"train": SMALL.qrels})
    (tmp_path / "pairs.tsv").write_text(
        "query\tdocument\tweight\nask03\tsay03\tnever\nask04\tsay04\t2\nask05\tnone\t1\n"
    )
    said = ok(
        *("fit", tmp_path / "data", "--ranker", "sparse", "--prior", tmp_path / "pairs.tsv", "--steps", 2000),
        *("-o", tmp_path / "model"),
    )
    assert "with prior" in said
    assert "do not have as one word: none" in said
    assert weight(tc.load(tmp_path / "model"), "ask03", "say03") == 0
    refused = run("fit", tmp_path / "data", "--prior", tmp_path / "pairs.tsv", "-o", tmp_path / "m")
    assert "is for the ranker 'sparse'" in refused.output
