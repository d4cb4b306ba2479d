"""What is lost where results end at the last match, on NFCorpus, whose relevant documents are known.

The default model of `tercet fit` is learned from the training judgements. Each dev query is searched with and without
the cut-off, to 10 and to 100 documents: how many hits are left off, how many of them are relevant, and what that costs
in nDCG and AP. Queries that keep one to three hits of ten are those whose words the model has learned nothing about.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import tercet as tc
from common import parse_arguments, print_table, write_json
from tercet.data import read_beir
from tercet.search import Index, Results

MEASURES = ("nDCG@10", "nDCG@100", "AP@100")


def run_of(results: dict[str, Results]) -> dict[str, dict[str, float]]:
    return {qid: {hit.doc_id: hit.score for hit in hits} for qid, hits in results.items()}


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=True)
    data = read_beir(arguments.data_home / "nfcorpus")
    qrels = data.split("dev")
    queries = data.queries_of("dev")
    model = tc.fit(data.docs, data.queries, data.split("train"), test=qrels, random_state=arguments.seed)
    index = Index.build(data.docs, model)
    rows = []
    for k in (10, 100):
        whole = {qid: index.search(text, k, cutoff=False) for qid, text in queries.items()}
        shortened = {qid: index.search(text, k) for qid, text in queries.items()}
        n_relevant = [
            sum(qrels[qid].get(hit.doc_id, 0) > 0 for qid in run for hit in run[qid]) for run in (whole, shortened)
        ]
        means = [tc.evaluate(qrels, run_of(run), list(MEASURES)).mean for run in (whole, shortened)]
        rows.append(
            {
                "k": k,
                "hits": sum(map(len, whole.values())),
                "left off": sum(hits.left_off for hits in shortened.values()),
                "relevant hits": n_relevant[0],
                "relevant left off": n_relevant[0] - n_relevant[1],
                "queries shortened": sum(hits.left_off > 0 for hits in shortened.values()),
                **{name: " to ".join(f"{mean(name):.4f}" for mean in means) for name in MEASURES},
            }
        )
    print_table("Results that end at the last match, NFCorpus dev", list(rows[0]), [list(row.values()) for row in rows])
    write_json(arguments.output, {"rows": rows})


if __name__ == "__main__":
    main()
