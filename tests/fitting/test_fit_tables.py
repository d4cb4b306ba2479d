"""``tc.fit`` takes documents, judgements and triplets as records and frames, with the model of the same mappings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tercet as tc
from tercet.errors import InputError

ANIMALS = {"a": "cats purr", "b": "dogs bark", "c": "fish swim"}
QUERIES = {f"q{i}": f"{('feline', 'canine', 'finny')[i % 3]} {i}" for i in range(12)}
QRELS = {qid: {"abc"[i % 3]: 2, "abc"[(i + 1) % 3]: 0} for i, qid in enumerate(QUERIES)}
TRIPLETS = [(qid, "abc"[i % 3], "abc"[(i + 1) % 3]) for i, qid in enumerate(QUERIES)]
PRODUCTS = [{"sku": doc_id, "name": text, "price": 1.5} for doc_id, text in ANIMALS.items()]


def fit(docs, queries=None, qrels=None, **given):
    ranker = tc.DenseRanker(rate=0.3, schedule="linear")  # a single one, and no mean of several
    return tc.fit(docs, queries, qrels, ranker=ranker, **given, options={"n_steps": 200, "verbose": False})


def ranking(model):
    return model.rank(QUERIES, ANIMALS)


@pytest.fixture(scope="module")
def judged():
    return ranking(fit(ANIMALS, QUERIES, QRELS))


@pytest.fixture(scope="module")
def preferred():
    return ranking(fit(ANIMALS, QUERIES, preferences=TRIPLETS))


def grades(query, doc="doc", grade="grade"):
    return [{query: qid, doc: doc_id, grade: g} for qid, judged in QRELS.items() for doc_id, g in judged.items()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("docs", "queries", "qrels"),
    [
        (PRODUCTS, QUERIES, QRELS),
        ({doc_id: {"title": text} for doc_id, text in ANIMALS.items()}, QUERIES, grades("qid", "sku", "relevance")),
        (pd.DataFrame(PRODUCTS), QUERIES, pd.DataFrame(grades("query")).astype({"grade": float})),
        (pl.DataFrame(PRODUCTS), [{"qid": q, "query": t} for q, t in QUERIES.items()], pl.DataFrame(grades("query"))),
        (
            pl.DataFrame(PRODUCTS).to_arrow(),
            pl.DataFrame({"id": list(QUERIES), "text": list(QUERIES.values())}),
            [{**row, "query": QUERIES[row["query"]]} for row in grades("query")],
        ),
    ],
    ids=["records", "mapping-of-records", "pandas", "polars", "arrow-and-query-texts"],
)
def test_judgements_in_any_form(docs, queries, qrels, judged):
    assert ranking(fit(docs, queries, qrels)) == judged


@pytest.mark.slow
@pytest.mark.parametrize(
    "triplets",
    [
        [{"query": q, "better": b, "worse": w, "by": "me"} for q, b, w in TRIPLETS],
        pd.DataFrame(TRIPLETS, columns=["query_id", "winner", "loser"]),
        iter([(QUERIES[q], b, w) for q, b, w in TRIPLETS]),
        np.array(TRIPLETS),
    ],
    ids=["records", "pandas", "query-texts", "array"],
)
def test_threes_in_any_form(triplets, preferred):
    assert ranking(fit(PRODUCTS, QUERIES, preferences=triplets)) == preferred


@pytest.mark.slow
def test_ids_that_are_whole_numbers_are_those_strings():
    docs = dict(enumerate(ANIMALS.values()))
    queries = {np.int64(number): text for number, text in enumerate(QUERIES.values())}
    qrels = {i: {i % 3: 2, (i + 1) % 3: 0} for i in queries}
    triplets = [(i, i % 3, (i + 1) % 3) for i in queries]
    clicks = [(text, [(i + 1) % 3, i % 3], [i % 3]) for i, text in queries.items()]
    in_strings = [
        {str(doc_id): text for doc_id, text in docs.items()},
        {str(qid): text for qid, text in queries.items()},
        {str(qid): {str(doc_id): grade for doc_id, grade in judged.items()} for qid, judged in qrels.items()},
    ]
    model = fit(docs, queries, qrels)
    assert model.rank(queries, docs) == fit(*in_strings).rank(*in_strings[1::-1])
    assert {hit.doc_id for hit in tc.Index.build(docs, model).search("cats", k=1)} == {"0"}
    learned = fit(docs, queries, preferences=triplets, clicks=clicks)
    triplets = [tuple(map(str, three)) for three in triplets]
    clicks = [(text, [*map(str, shown)], [*map(str, clicked)]) for text, shown, clicked in clicks]
    expected = fit(*in_strings[:2], preferences=triplets, clicks=clicks)
    assert learned.rank(queries, docs) == expected.rank(*in_strings[1::-1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"docs": {1: "tea", "1": "milk"}}, r"docs has the id '1' twice"),
        ({"docs": {None: "tea"}}, r"docs has the id None; ids are strings or whole numbers"),
        ({"qrels": {"q0": {"a": 1}, 1.5: {"a": 1}}}, r"qrels has the id 1.5; ids are strings or whole numbers"),
        ({"qrels": {"q0": {1: 1, "1": 1}}}, r"qrels have an id both as a string and as a number"),
        ({"preferences": [("q0", "a", None)]}, r"preferences\[0\] has the id None; ids are strings or whole numbers"),
    ],
)
def test_what_is_no_id_is_told(given, message):
    with pytest.raises(InputError, match=message):
        fit(**{"docs": ANIMALS, "queries": QUERIES, "qrels": None, **given})


@pytest.mark.slow
def test_a_model_ranks_what_it_was_fitted_to(judged):
    model = fit(pd.DataFrame(PRODUCTS), QUERIES, QRELS)
    assert model.rank(QUERIES, pl.DataFrame(PRODUCTS)) == judged
    assert model.rank(list(QUERIES.values()), PRODUCTS) == {QUERIES[qid]: run for qid, run in judged.items()}


@pytest.mark.slow
def test_texts_of_queries_may_stand_in_the_judgements():
    rows = [{**row, "query": QUERIES[row["query"]]} for row in grades("query")]
    model = fit(ANIMALS, qrels=rows)
    by_text = fit(ANIMALS, list(QUERIES.values()), {QUERIES[qid]: judged for qid, judged in QRELS.items()})
    assert ranking(model) == ranking(by_text)
    shouted = [{**row, "query": row["query"].upper() if i % 2 else row["query"]} for i, row in enumerate(rows)]
    assert ranking(fit(ANIMALS, qrels=shouted)) == ranking(by_text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"qrels": [{"query": "q0", "doc": "a", "grade": 0.5}]}, r"qrels\[0\]: grade 0.5; a whole number is needed"),
        ({"qrels": [{"query": "", "doc": "a", "grade": 1}]}, r"qrels\[0\]: query is empty; a query needs words"),
        ({"qrels": [{"query": "q0", "doc": None, "grade": 1}]}, r"qrels\[0\]: doc is empty; every row needs an id"),
        ({"qrels": [{"query": "bark", "doc": "a", "grade": 1}]}, r"qrels\[0\]: query 'bark' is not among the queries"),
        (
            {"qrels": pd.DataFrame({"query": ["q0", "q0"], "doc": ["a", "a"], "grade": [1, 2]})},
            r"qrels\[1\]: query 'q0', document 'a' has grade 2 here and 1 at qrels\[0\]",
        ),
        (
            {"qrels": [{"query": "q0", "doc": "a", "points": 1}]},
            r"Which column holds the grade\?",
        ),
        ({"qrels": grades("qid"), "queries": None}, "qrels name queries by their ids, in 'qid'; give queries"),
        (
            {"preferences": [{"query": "q0", "better": "a", "worse": "a"}], "qrels": None},
            r"preferences\[0\]: better and",
        ),
        ({"docs": [{"sku": "a", "name": "tea"}, {"sku": "", "name": "x"}]}, r"docs\[1\]: sku is empty"),
        ({"docs": np.zeros(3)}, "docs must be a mapping of ids to texts or records"),
        ({"queries": 3}, "queries must be a mapping of ids to texts"),
    ],
)
def test_what_is_wrong_is_named_by_its_row(arguments, message):
    given = {"docs": ANIMALS, "queries": QUERIES, "qrels": QRELS, **arguments}
    with pytest.raises(InputError, match=message):
        fit(**given)


@pytest.mark.slow
@pytest.mark.parametrize("evidence", [{"qrels": QRELS}, {"preferences": TRIPLETS}])
def test_the_report_names_documents_without_a_text_and_ids_that_are_one_number(evidence):
    docs = ANIMALS | {"007": "birds sing", "d": " ", "7": "bees hum", "e": "", "7.0": "ants march"}
    notes = " ".join(fit(docs, QUERIES, **evidence).report.notes)
    assert "documents without a text, which no word of a query matches: 2, first 'd'." in notes
    assert "equal as numbers: 2, first '007' and '7'." in notes
    assert "without a text" not in " ".join(fit(ANIMALS, QUERIES, **evidence).report.notes)
