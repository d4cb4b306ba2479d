"""What each export of a text model keeps of it in Lucene: nDCG@10, size of the index and time of a query.

On the dev queries of NFCorpus, which nothing was learned from or chosen on: the points are a curve, and where impacts
are kept by what is asked, the training queries say what that is. Everything is indexed and searched by Lucene 9.9 in a
process of its own (`make engines` installs it): impacts by Anserini's commands, the others by the Lucene classes that
Elasticsearch, OpenSearch and Solr build their queries of. Times are of the engine alone, one thread, the faster of two.
``--model DIR`` keeps the model there, and takes it from there the next time.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tercet as tc
from common import median, parse_arguments, print_table, write_json
from tercet.data import read_beir
from tercet.engines import write_anserini, write_rank_features, write_synonyms
from tercet.engines.elasticsearch import index_settings, rewrite
from tercet.engines.rank_features import FOLDED_FIELD, IMPACTS_FIELD

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.exports import engine_chain, read_bulk
from support.lucene import Lucene, missing

MEASURE, K, BODY = "nDCG@10", 10, "body"
LARGEST = (64, 256)  # impacts that are kept of each document
ASKED = (32, 128)  # on average, where queries say which
FIRST_PHASE = 128
CLAUSES = (512, 128, 32)
WINDOWS = (20, 50, 100)
SECONDS = 600  # an index of millions of features


@dataclass(frozen=True)
class Point:
    label: str
    value: float
    megabytes: float | None = None
    ms: float | None = None

    def row(self) -> list[str]:
        size = "" if self.megabytes is None else f"{self.megabytes:.1f}"
        return [self.label, f"{self.value:.4f}", size, "" if self.ms is None else f"{self.ms:.2f}"]


class Measured:
    """A model, a collection and the judged queries on which its exports are measured."""

    def __init__(self, model: tc.TextModel, docs: Mapping[str, str], queries: Mapping[str, str], judged: Any) -> None:
        self.model, self.docs, self.judged = model, docs, judged
        self.texts = {qid: queries[qid] for qid in judged}
        self.words = model.query_vectoriser
        self.engine = Lucene(SECONDS)
        self.points: list[Point] = []

    def add(self, label: str, answers: list[list[dict[str, Any]]], n_bytes: int | None) -> None:
        run = {qid: dict(answer["hits"]) for qid, answer in zip(self.texts, answers[0], strict=True)}
        times = np.min([[answer["ms"] for answer in one] for one in answers], axis=0)
        size = None if n_bytes is None else n_bytes / 1e6
        self.points.append(Point(label, self.value(run), size, median(times.tolist())))
        print(*self.points[-1].row(), sep="  ", flush=True)

    def value(self, run: Mapping[str, Mapping[str, float]]) -> float:
        return tc.evaluate(self.judged, run, [MEASURE]).mean(MEASURE)

    def by_the_model(self) -> None:
        scores = self.model.weights.score(
            self.model.queries(list(self.texts.values())), self.model.docs(list(self.docs.values()))
        )
        ids, best = list(self.docs), np.argsort(-scores, axis=1, kind="stable")[:, :K]
        listed = zip(self.texts, best, scores, strict=True)
        self.points.append(
            Point("the model", self.value({qid: {ids[d]: float(row[d]) for d in order} for qid, order, row in listed}))
        )
        print(*self.points[-1].row(), sep="  ", flush=True)

    def impacts(self, label: str, folder: Path, **options: Any) -> None:
        """By Anserini: documents as it reads them, plain words as queries."""
        (folder / "docs").mkdir(parents=True)
        write_anserini(folder / "docs" / "docs.jsonl", self.model, self.docs, **options)
        n_bytes = self.engine("anserini", folder=str(folder / "docs"), target=str(folder / "index"))["bytes"]
        known = [
            " ".join(w for w in self.words.analyser(text) if w in self.words.index_) for text in self.texts.values()
        ]
        asked = {"target": str(folder / "index"), "queries": known, "k": K}
        self.add(label, [self.engine("anserini_search", **asked) for _ in range(2)], n_bytes)

    def index(self, name: str, fields: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> int:
        """Some fields of the documents, by the mapping that is asked for."""
        docs = [{"_id": doc_id, **{field: values[field] for field in fields}} for doc_id, values in rows.items()]
        summary: int = self.engine("index", name=name, fields=fields, docs=docs, k1=self.words.k1, b=self.words.b)[
            "bytes"
        ]
        return summary

    def bodies(self, label: str, name: str, n_bytes: int, bodies: Sequence[Mapping[str, Any]]) -> None:
        self.add(label, [self.engine("search", name=name, bodies=bodies) for _ in range(2)], n_bytes)

    def rewritten(self, label: str, name: str, n_bytes: int, **options: Any) -> None:
        self.bodies(
            label, name, n_bytes, [rewrite(self.model, text, size=K, **options) for text in self.texts.values()]
        )


def in_anserini(measured: Measured, train: Sequence[str], folder: Path, quick: bool) -> None:
    for n in LARGEST[:1] if quick else LARGEST:
        measured.impacts(f"impacts, the {n} largest of each document", folder / f"{n}", max_terms=n)
    for n in ASKED[:1] if quick else ASKED:
        measured.impacts(f"impacts, {n} by what is asked", folder / f"asked-{n}", queries=train, mean_terms=n)


def in_text(measured: Measured, fields: dict[str, Any], folder: Path, quick: bool) -> None:
    """What needs no new field: the text, words of queries boosted or replaced by synonyms."""
    rows = {doc_id: {BODY: text} for doc_id, text in measured.docs.items()}
    keyword = {"tokenizer": ["keyword", {}]}  # words of queries are stems already
    n_bytes = measured.index("text", {BODY: fields[BODY] | {"search_analyzer": keyword}}, rows)
    for n in CLAUSES[-1:] if quick else CLAUSES:
        measured.rewritten(f"text, {n} boosted clauses", "text", n_bytes, form="boosted", text_field=BODY, max_terms=n)
    write_synonyms(folder / "synonyms.txt", measured.model)
    chain = fields[BODY]["analyzer"]
    more = [["synonymGraph", {"synonyms": "synonyms.txt", "format": "solr", "expand": "true"}], ["delimitedBoost", {}]]
    asked = chain | {"filter": [*chain["filter"], *more]}
    n_bytes = measured.index("synonyms", {BODY: fields[BODY] | {"search_analyzer": asked}}, rows)
    texts = list(measured.texts.values())
    solr = [{"query": {"distinct_terms": {BODY: text}}, "size": K} for text in texts]
    measured.bodies("text, Solr synonyms", "synonyms", n_bytes, solr)
    n_bytes = measured.index("bm25", {BODY: fields[BODY]}, rows)
    plain = [{"query": {"match": {BODY: text}}, "size": K} for text in texts]
    measured.bodies("text, BM25", "bm25", n_bytes, plain)


def in_two_phases(measured: Measured, fields: dict[str, Any], train: Sequence[str], folder: Path, quick: bool) -> None:
    """By the fields that `tercet export documents --form elasticsearch` adds."""
    path = folder / "docs.ndjson"
    write_rank_features(path, measured.model, measured.docs, queries=train, mean_terms=FIRST_PHASE)
    rows = {doc_id: {BODY: measured.docs[doc_id], **summary} for doc_id, summary in read_bulk(path).items()}
    n_bytes = measured.index("both", {name: fields[name] for name in (IMPACTS_FIELD, FOLDED_FIELD)}, rows)
    for window in WINDOWS[:1] if quick else WINDOWS:
        label = f"{FIRST_PHASE} impacts by what is asked, then {window} documents folded"
        measured.rewritten(label, "both", n_bytes, window=window)
    n_bytes = measured.index("folded", {FOLDED_FIELD: fields[FOLDED_FIELD]}, rows)
    measured.rewritten("all documents folded", "folded", n_bytes, form="folded")
    keyword = {"search_analyzer": {"tokenizer": ["keyword", {}]}}
    n_bytes = measured.index("worded", {BODY: fields[BODY] | keyword, FOLDED_FIELD: fields[FOLDED_FIELD]}, rows)
    for window in WINDOWS[:1] if quick else WINDOWS:
        label = f"text, 32 boosted clauses, then {window} documents folded"
        measured.rewritten(label, "worded", n_bytes, text_field=BODY, window=window)


def main() -> None:
    arguments = parse_arguments(__doc__, model=Path)
    if (needed := missing()) is not None:
        raise SystemExit(needed)
    collection = read_beir(arguments.data_home / "nfcorpus")
    judged = collection.qrels["dev"]
    if arguments.model is not None and arguments.model.exists():
        model = tc.load(arguments.model)
    else:
        model = tc.fit(
            collection.docs, collection.queries, collection.qrels["train"], test=judged, random_state=arguments.seed
        )
        if arguments.model is not None:
            model.save(arguments.model)
    train = [collection.queries[qid] for qid in collection.qrels["train"]]
    measured = Measured(model, collection.docs, collection.queries, judged)
    measured.by_the_model()
    settings = index_settings(model, BODY)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fields = settings["mappings"]["properties"]
        fields[BODY] = {"type": "text", "analyzer": engine_chain(settings, folder)}
        run = partial(dict, measured=measured, folder=folder, quick=arguments.quick)
        in_two_phases(**run(fields=fields, train=train))
        in_text(**run(fields=fields))
        in_anserini(**run(train=train))
    measured.engine.close()
    title = (
        f"{MEASURE} on {len(judged)} dev queries of NFCorpus, seed {arguments.seed}, Lucene {measured.engine.version}"
    )
    print_table(title, ["form", MEASURE, "MB", "ms a query"], [point.row() for point in measured.points])
    results = [asdict(point) for point in measured.points]
    write_json(arguments.output, {"measure": MEASURE, "seed": arguments.seed, "points": results})


if __name__ == "__main__":
    main()
