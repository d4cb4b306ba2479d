"""What each export of a text model keeps of it: nDCG@10 on NFCorpus dev, which nothing was learned from or chosen on.

No engine is run. Synonyms and boosted clauses are summed over BM25 as Lucene does with them, impacts of documents over
the words of a query as Anserini and PISA do.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

import tercet as tc
from common import parse_arguments, print_table, write_json
from tercet.data import read_beir
from tercet.export import boosted_query, write_anserini, write_synonyms

MEASURE = "nDCG@10"
CLAUSES = (512, 128, 32)

WordWeights = Callable[[str], dict[str, float]]  # of the words that a query asks the engine for


def rows_of(texts: Sequence[str], asks: WordWeights, vectoriser: tc.Vectoriser) -> sparse.csr_array:
    """Each query as a row over the words of the model."""
    rows = sparse.lil_array((len(texts), len(vectoriser.words_)))
    for at, text in enumerate(texts):
        for word, weight in asks(text).items():
            rows[at, vectoriser.index_[word]] = weight
    return rows.tocsr()


def counted(vectoriser: tc.Vectoriser, stands_for: dict[str, dict[str, float]] | None = None) -> WordWeights:
    """The known words of a text as often as they occur, each replaced by what it stands for."""

    def asks(text: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for word in (vectoriser.analyser or tc.Analyser())(text):
            if word in vectoriser.index_:
                for other, boost in (stands_for or {}).get(word, {word: 1.0}).items():
                    found[other] = found.get(other, 0.0) + boost
        return found

    return asks


def read_synonyms(path: Path) -> dict[str, dict[str, float]]:
    """The lines ``word => other|boost, …`` of words without special characters."""
    stands_for = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            word, others = line.split(" => ")
            stands_for[word] = {other: float(boost) for other, boost in (o.rsplit("|", 1) for o in others.split(", "))}
    return stands_for


def main() -> None:
    arguments = parse_arguments(__doc__)
    collection = read_beir(arguments.data_home / "nfcorpus")
    judged = collection.qrels["dev"]
    model = tc.fit(
        collection.docs, collection.queries, collection.qrels["train"], test=judged, random_state=arguments.seed
    )
    words = model.query_vectoriser
    texts, ids = [collection.queries[qid] for qid in judged], list(collection.docs)
    docs = model.docs(list(collection.docs.values())).astype(np.float64)
    # BM25 as engines know it: all of idf, which the model shares between queries and documents, in the documents.
    bm25 = docs.copy()
    bm25.data *= (words.idf_**words.idf_power * words.doc_scale_)[bm25.indices]

    def value(scores: np.ndarray) -> float:
        best = np.argsort(-scores, axis=1, kind="stable")[:, :100]
        found = zip(judged, best, scores, strict=True)
        run = {qid: {ids[d]: float(row[d]) for d in order} for qid, order, row in found}
        return tc.evaluate(judged, run, [MEASURE]).mean(MEASURE)

    def by_bm25(asks: WordWeights) -> float:
        return value((rows_of(texts, asks, words) @ bm25.T).toarray())

    results = {"the model": value(model.weights.score(model.queries(texts), docs))}
    with tempfile.TemporaryDirectory() as folder:
        synonyms, impacts = Path(folder, "synonyms.txt"), Path(folder, "docs.jsonl")
        write_anserini(impacts, model, collection.docs)
        weights = sparse.lil_array(docs.shape)
        for at, line in enumerate(impacts.read_text().splitlines()):
            for word, impact in json.loads(line)["vector"].items():
                weights[at, words.index_[word]] = impact
        asked = rows_of(texts, counted(words), words)
        results["documents as impacts"] = value((asked @ weights.tocsr().T).toarray())
        for n in CLAUSES:
            results[f"a query of {n} boosted clauses"] = by_bm25(
                lambda text, n=n: dict(boosted_query(model, text, max_terms=n).clauses)
            )
        write_synonyms(synonyms, model)
        results["Solr synonyms"] = by_bm25(counted(words, read_synonyms(synonyms)))
    results["BM25"] = by_bm25(counted(words))
    title = f"{MEASURE} on {len(judged)} dev queries of NFCorpus, seed {arguments.seed}"
    print_table(title, ["scored as", MEASURE], [[name, f"{found:.4f}"] for name, found in results.items()])
    write_json(arguments.output, {"measure": MEASURE, "seed": arguments.seed, "results": results})


if __name__ == "__main__":
    main()
