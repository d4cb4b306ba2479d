"""Search with numbers of documents that every document has, against the same search by words alone.

Documents are those of ``search_speed.py``; two columns of numbers stand behind their words. Queries have few words, as
people type them, or many, as expanded ones have.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import time

import numpy as np
from scipy import sparse

from common import machine_facts, median, parse_arguments, print_facts, print_table, write_json
from search_speed import N_TERMS, documents
from tercet.learn.joint import joined
from tercet.search import Index
from tercet.text.fielded import ColumnLayout
from tercet.weights import Identity, LowRank, Part, Weights

LAYOUT = ColumnLayout(N_TERMS, 0, 2)
N_QUERIES, K = 100, 10


def queries(n_words: int, rng: np.random.Generator) -> sparse.csr_array:
    """Rows over all columns, words as likely as any other among the 2,000 most frequent, and what all queries have."""
    terms = np.sort(np.array([rng.choice(2000, n_words, replace=False) for _ in range(N_QUERIES)]), axis=1)
    Q = np.zeros((N_QUERIES, LAYOUT.n_columns), dtype=np.float32)
    Q[np.arange(N_QUERIES)[:, None], terms] = n_words**-0.5
    Q[:, -1] = 1
    return sparse.csr_array(Q)


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts()
    print_facts(facts)
    rng = np.random.default_rng(0)
    n_docs = 20_000 if arguments.quick else 200_000
    words = documents(n_docs, rng)
    numbers = sparse.csr_array(rng.normal(size=(n_docs, 2)).astype(np.float32))
    D = sparse.csr_array(sparse.hstack([words, numbers, sparse.csr_array((n_docs, 1))], format="csr"), dtype=np.float32)
    U = (0.1 * rng.normal(size=(N_TERMS, 100))).astype(np.float32)
    forms: dict[str, list[Part]] = {
        "word matching": [Identity(n_terms=N_TERMS)],
        "low rank, 100": [LowRank(query_factors=U, doc_factors=U), Identity(n_terms=N_TERMS)],
    }
    rows, results = [], {}
    for name, parts in forms.items():
        index = Index.build_rows([str(i) for i in range(n_docs)], D, joined(Weights(parts), np.zeros(2), LAYOUT))
        both = index.with_model(joined(Weights(parts), np.array([0.2, -0.1]), LAYOUT))
        for n_words in (3, 100):
            Q = queries(n_words, rng)
            milliseconds: dict[str, list[float]] = {"words": [], "words and numbers": []}
            for i in range(N_QUERIES):  # side by side, so that both see the same machine
                for which, searched in (("words", index), ("words and numbers", both)):
                    began = time.perf_counter()
                    searched.search_row(Q[[i]], K)
                    milliseconds[which].append(1000 * (time.perf_counter() - began))
            plain, numbered = (median(times[5:]) for times in milliseconds.values())
            rows.append([name, str(n_words), f"{plain:.2f}", f"{numbered:.2f}", f"{numbered / plain:.1f}"])
            results[f"{name}, {n_words} words"] = {"words_ms": plain, "numbers_ms": numbered}
    print_table(
        f"{n_docs:,} documents, the best {K}, milliseconds of a query (median)",
        ["W of words", "query words", "by words", "and two numbers", "times"],
        rows,
    )
    write_json(arguments.output, {"machine": facts, "milliseconds": results})


if __name__ == "__main__":
    main()
