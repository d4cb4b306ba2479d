"""Adapters: collections of ir_datasets and transformers of PyTerrier, with and without those libraries."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

import tercet as tc
from support.corpora import synonyms
from tercet._installed import install_command
from tercet.adapters import ir_datasets as adapter
from tercet.adapters import pyterrier as transformers
from tercet.adapters.ir_datasets import read_ir_datasets
from tercet.cli.main import cli
from tercet.errors import InputError, MissingExtraError

# -- ir_datasets ------------------------------------------------------------------------------------------------------


class Doc(NamedTuple):
    doc_id: str
    title: str
    text: str

    def default_text(self) -> str:
        return f"{self.title} {self.text}"


class Query(NamedTuple):
    query_id: str
    text: str


class Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    iteration: str


class StubDataset:
    """The methods of an ir_datasets data set that are called."""

    def __init__(self, docs=None, queries=None, qrels=None):
        self.docs, self.queries, self.qrels = docs, queries, qrels

    def has_docs(self):
        return self.docs is not None

    def has_queries(self):
        return self.queries is not None

    def has_qrels(self):
        return self.qrels is not None

    def docs_iter(self):
        return iter(self.docs)

    def queries_iter(self):
        return iter(self.queries)

    def qrels_iter(self):
        return iter(self.qrels)


DOCS = [Doc("007", "ice", "hockey"), Doc("1e5", "", "baseball")]
QUERIES = [Query("q1", "puck"), Query("q2", "bat")]


@pytest.fixture
def library() -> SimpleNamespace:
    registered = {
        "made/up": StubDataset(DOCS, QUERIES),
        "made/up/train": StubDataset(DOCS, QUERIES[:1], [Qrel("q1", "007", 2, "0")]),
        "made/up/test": StubDataset(DOCS, QUERIES[1:], [Qrel("q2", "1e5", 1, "0"), Qrel("q2", "007", 0, "0")]),
        "made/up/train/half": StubDataset(DOCS, QUERIES, [Qrel("q1", "007", 1, "0")]),
        "made/up/other": StubDataset([], [], [Qrel("q1", "x", 1, "0")]),
        "made/upper/test": StubDataset(DOCS, QUERIES, [Qrel("q1", "007", 1, "0")]),
        "questions": StubDataset(None, QUERIES),
        "documents": StubDataset(DOCS, None),
        "judged": StubDataset(DOCS, QUERIES, [Qrel("q1", "007", 1, "0")]),
    }
    return SimpleNamespace(
        load=registered.__getitem__,
        registry=registered,
        docs_parent_id=lambda name: name if name in ("made/up/other",) else "made/up",
    )


def test_the_splits_of_a_collection_are_right_below_it(library):
    found = read_ir_datasets("made/up", library)
    assert found.docs == {"007": "ice hockey", "1e5": " baseball"}
    assert found.queries == {"q1": "puck", "q2": "bat"}
    assert found.qrels == {"train": {"q1": {"007": 2}}, "test": {"q2": {"1e5": 1, "007": 0}}}


def test_a_data_set_with_judgements_is_one_split(library):
    assert read_ir_datasets("ir_datasets:made/up/test", library).qrels.keys() == {"test"}
    assert read_ir_datasets("judged", library).qrels == {"train": {"q1": {"007": 1}}}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("made/down", "ir_datasets knows no data set 'made/down'; there are made/up"),
        ("questions", "questions of ir_datasets has no documents"),
        ("documents", "documents of ir_datasets has no queries"),
    ],
)
def test_names_that_cannot_be_read_are_said(library, name, message):
    with pytest.raises(InputError, match=message):
        read_ir_datasets(name, library)


def test_a_missing_library_is_named_with_its_extra(monkeypatch, model, corpus):
    for name in ("ir_datasets", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it raises ImportError
    with pytest.raises(MissingExtraError, match=re.escape(f"ir_datasets: {install_command('ir-datasets')}")):
        read_ir_datasets("made/up")
    with pytest.raises(MissingExtraError, match=re.escape(f"pandas: {install_command('pyterrier')}")):
        transformers.TercetRetriever(model, corpus.docs).transform(None)
    done = CliRunner().invoke(cli, ["fit", "ir_datasets:made/up", "-o", "nowhere"])
    assert done.exit_code == 1
    assert install_command("ir-datasets") in done.output


@pytest.mark.slow
def test_importing_the_package_imports_no_other_library():
    # scikit-learn loads pandas by itself where it is installed.
    program = (
        "import sys, sklearn.utils; theirs = set(sys.modules); import tercet, tercet.adapters.ir_datasets; "
        "print({'ir_datasets', 'pyterrier', 'pandas'} & (set(sys.modules) - theirs))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_fit_takes_a_collection_of_ir_datasets(monkeypatch, tmp_path):
    corpus = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    docs = [Doc(d, "", text) for d, text in corpus.docs.items()]
    queries = [Query(q, text) for q, text in corpus.queries.items()]
    qrels = [Qrel(q, d, g, "0") for q, judged in corpus.qrels.items() for d, g in judged.items()]
    registered = {"made/up": StubDataset(docs, queries, qrels)}
    stub = SimpleNamespace(load=registered.__getitem__, registry=registered, docs_parent_id=lambda name: name)
    monkeypatch.setattr(adapter, "_import", lambda: stub)
    done = CliRunner().invoke(
        cli,
        ["fit", "ir_datasets:made/up", "-o", str(tmp_path / "model"), "--steps", "1000"],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    assert "a collection of ir_datasets, 41 documents, 60 queries (judged: train 60)" in done.output
    report = tc.load(tmp_path / "model").report
    assert report.details.name == "ir_datasets:made/up"
    same = tc.fit({d.doc_id: d.default_text() for d in docs}, corpus.queries, corpus.qrels, options={"n_steps": 1000})
    assert report.decision.partition(" Next: ")[0] == same.report.decision.partition(" Next: ")[0]


@pytest.mark.slow
def test_the_real_library_is_read_as_the_stub():
    library = pytest.importorskip("ir_datasets")
    formats = importlib.import_module("ir_datasets.formats")
    generic = [formats.GenericDoc("007", "ice hockey")], [formats.GenericQuery("q1", "puck")]

    class Made(formats.BaseDocs, formats.BaseQueries, formats.BaseQrels):
        def docs_iter(self):
            return iter(generic[0])

        def docs_cls(self):
            return formats.GenericDoc

        def docs_handler(self):
            return self

        def queries_iter(self):
            return iter(generic[1])

        def queries_cls(self):
            return formats.GenericQuery

        def queries_handler(self):
            return self

        def qrels_iter(self):
            return iter([formats.TrecQrel("q1", "007", 1, "0")])

        def qrels_cls(self):
            return formats.TrecQrel

        def qrels_handler(self):
            return self

    made = Made()
    if "tercet-made-up" not in list(library.registry):
        library.registry.register("tercet-made-up", library.Dataset(made))
    found = read_ir_datasets("ir_datasets:tercet-made-up")
    assert found.docs == {"007": "ice hockey"}
    assert found.queries == {"q1": "puck"}
    assert found.qrels == {"train": {"q1": {"007": 1}}}
    with pytest.raises(InputError, match="knows no data set 'tercet-made-down'"):
        read_ir_datasets("tercet-made-down")


# -- PyTerrier --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda model: transformers.TercetRetriever("model", {"a": "b"}), "a text model is needed"),
        (lambda model: transformers.TercetRetriever(model, {}), "there are no documents to retrieve from"),
        (lambda model: transformers.TercetRetriever(model, {"a": "b"}, k=0), "k must be an integer from 1"),
        (lambda model: transformers.TercetReranker(None), "a text model is needed"),
    ],
)
def test_wrong_transformers_are_refused(model, make, message):
    with pytest.raises(InputError, match=message):
        make(model)


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


def test_a_retriever_gives_the_run_of_the_model(pandas, model, corpus):
    asked = dict(list(corpus.queries.items())[:5])
    frame = pandas.DataFrame({"qid": list(asked), "query": list(asked.values()), "topic": range(5)})
    found = transformers.TercetRetriever(model, corpus.docs, k=7).transform(frame)
    assert set(found.columns) == {"qid", "query", "topic", "docno", "score", "rank"}
    run = model.rank(asked, corpus.docs, k=7)
    for qid, rows in found.groupby("qid", sort=False):
        assert dict(zip(rows["docno"], rows["score"], strict=True)) == run[qid]
        assert rows["rank"].tolist() == list(range(7))
        assert rows["topic"].nunique() == 1
    assert list(dict.fromkeys(found["qid"])) == list(asked)
    assert "docno" not in frame.columns
    again = transformers.TercetRetriever(model, corpus.docs, k=7)(found.drop_duplicates("qid"))
    assert again["docno"].tolist() == found["docno"].tolist()


def test_a_reranker_sorts_each_query_by_its_own_scores(pandas, model, corpus):
    rng = np.random.default_rng(0)
    ids = list(corpus.docs)
    rows = [(q, corpus.queries[q], d, corpus.docs[d]) for q in ("q9", "q1") for d in rng.choice(ids, 6, replace=False)]
    frame = pandas.DataFrame(rows, columns=["qid", "query", "docno", "text"]).assign(score=1.0, rank=0, kept="x")
    found = transformers.TercetReranker(model).transform(frame)
    assert set(found.columns) == set(frame.columns)
    assert list(dict.fromkeys(found["qid"])) == ["q9", "q1"]
    for _, of_query in found.groupby("qid", sort=False):
        assert of_query["rank"].tolist() == list(range(6))
        assert of_query["score"].tolist() == sorted(of_query["score"], reverse=True)
    for row in found.itertuples():
        assert row.score == pytest.approx(model.explain(row.query, corpus.docs[row.docno], row.docno).score, abs=1e-9)
    assert frame["score"].eq(1.0).all()


def test_equal_scores_keep_the_order_they_had(pandas, model, corpus):
    text = next(iter(corpus.docs.values()))
    query = next(iter(corpus.queries.values()))
    frame = pandas.DataFrame([{"qid": "1", "query": query, "docno": d, "text": text} for d in ("b", "c", "a")])
    assert transformers.TercetReranker(model).transform(frame)["docno"].tolist() == ["b", "c", "a"]


def test_frames_without_rows_or_columns(pandas, model, corpus):
    retriever, reranker = transformers.TercetRetriever(model, corpus.docs), transformers.TercetReranker(model)
    nothing = retriever.transform(pandas.DataFrame({"qid": [], "query": []}))
    assert list(nothing.columns) == ["qid", "query", "docno", "score", "rank"]
    assert len(nothing) == 0
    columns = {"qid": [], "query": [], "docno": [], "text": []}
    assert list(reranker.transform(pandas.DataFrame(columns)).columns) == [*columns, "score", "rank"]
    with pytest.raises(InputError, match="needs the columns qid, query; there is no query"):
        retriever.transform(pandas.DataFrame({"qid": ["1"]}))
    with pytest.raises(InputError, match="there is no text"):
        reranker.transform(pandas.DataFrame({"qid": ["1"], "query": ["a"], "docno": ["d"]}))
    with pytest.raises(InputError, match="row 0 has None for 'query'"):
        retriever.transform(pandas.DataFrame({"qid": ["1"], "query": [None]}))


def test_they_are_transformers_where_pyterrier_is_installed(pandas, model, corpus):
    pyterrier = pytest.importorskip("pyterrier")
    texts = pandas.DataFrame({"docno": list(corpus.docs), "text": list(corpus.docs.values())})
    get_text = pyterrier.apply.generic(lambda frame: frame.merge(texts, on="docno"))
    pipeline = (
        (transformers.TercetRetriever(model, corpus.docs, k=10) % 5) >> get_text >> transformers.TercetReranker(model)
    )
    found = pipeline.search(corpus.queries["q3"])
    best = list(model.rank({"1": corpus.queries["q3"]}, corpus.docs, k=5)["1"])
    assert found.sort_values("rank")["docno"].tolist() == best
