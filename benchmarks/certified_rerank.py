"""How many documents an engine without negative weights must list until the top ten is surely exact, on NFCorpus.

The default model of `tercet fit` is thinned, since a low-rank part cannot be bounded by words. Each dev query is asked
of an embedded index with the positive part of its weights alone, and what that lists is ranked again with all of them;
every answer is compared with that of an index with all weights. No other engine is run.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

import tercet as tc
from common import parse_arguments, print_table, write_json
from tercet.data import read_beir
from tercet.engines import certified_search, positive_query
from tercet.learn.thin import largest_entries
from tercet.search import Index
from tercet.weights import Identity, Sparse, Weights

K, MEASURE = 10, "nDCG@10"
DENSITIES = (0.02, 0.005, 0.001)


class PositiveOnly:
    """An engine that adds up positive weights, played by an embedded index that only matches words."""

    def __init__(self, docs: Mapping[str, str], model: tc.TextModel) -> None:
        self.words, n = model.doc_vectoriser.index_, model.weights.shape[1]
        self.D = model.docs(list(docs.values()))
        self.positions = {doc_id: row for row, doc_id in enumerate(docs)}
        self.index = Index.build_rows(list(docs), self.D, Weights([Identity(n_terms=n)]))

    def top(self, weights: Mapping[str, float], n: int) -> Sequence[tuple[str, float]]:
        columns = [self.words[word] for word in weights]
        row = sparse.csr_array((list(weights.values()), columns, [0, len(columns)]), shape=(1, len(self.words)))
        return [(hit.doc_id, hit.score) for hit in self.index.search_row(row, n)]

    def documents(self, doc_ids: Sequence[str]) -> tuple[Sequence[int], sparse.csr_array]:
        rows = [self.positions[doc_id] for doc_id in doc_ids]
        return rows, self.D[rows]


def main() -> None:
    arguments = parse_arguments(__doc__)
    collection = read_beir(arguments.data_home / "nfcorpus")
    judged = collection.qrels["dev"]
    fitted = tc.fit(
        collection.docs, collection.queries, collection.qrels["train"], test=judged, random_state=arguments.seed
    )
    queries = {qid: collection.queries[qid] for qid in (list(judged)[:40] if arguments.quick else judged)}
    rows, results = [], {}
    for density in DENSITIES:
        thinned = Weights([Sparse(weights=largest_entries(fitted.weights, density))])
        model = replace(fitted, weights=thinned)
        engine, full = PositiveOnly(collection.docs, model), Index.build(collection.docs, model)
        run = full.search_many(queries, K)
        depths, sizes, signed = [], [], []
        for qid, text in queries.items():
            found = certified_search(model, text, engine, K)
            assert list(found.hits) == list(run[qid].items()), f"{qid} is not what all weights find"
            asked = positive_query(model, text)
            if asked.words:
                depths.append(found.depth)
                sizes.append(len(asked.words))
                signed.append(1 - len(asked.weights) / len(asked.words))
        quality = tc.evaluate({qid: judged[qid] for qid in queries}, run, [MEASURE]).mean(MEASURE)
        summary = {
            "words": float(np.median(sizes)),
            "negative": float(np.mean(signed)),
            "median": float(np.median(depths)),
            "p90": float(np.quantile(depths, 0.9)),
            "largest": int(max(depths)),
            MEASURE: quality,
        }
        results[str(density)] = summary
        rows.append(
            [
                f"{density:.1%}",
                f"{summary['words']:,.0f}",
                f"{summary['negative']:.0%}",
                f"{summary['median']:.0f}",
                f"{summary['p90']:.0f}",
                f"{summary['largest']:,}",
                f"{quality:.4f}",
            ]
        )
    title = (
        f"Documents ranked again for an exact top {K}: {len(queries)} dev queries of NFCorpus, seed {arguments.seed}"
    )
    print_table(title, ["entries kept", "words a query", "negative", "median K", "90 %", "largest K", MEASURE], rows)
    write_json(arguments.output, {"seed": arguments.seed, "results": results})


if __name__ == "__main__":
    main()
