"""Times of `tercet mcp` without the wire: search, feedback and undo of a `UsedIndex` over 10,000 documents.

Documents are made up: 60 words, as unequal as in language. A caller asks for a document by four of its words, one of
which is a nickname that no document has, and says which document was used. ``--quick`` has a tenth of it.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.adapters.used_index import UsedIndex

N_DOCS, N_WORDS, LENGTH, N_USES, BUDGET_MS = 10_000, 20_000, 60, 1_000, 50


def timed(call: Callable[[], Any], milliseconds: list[float]) -> Any:
    start = time.perf_counter()
    answer = call()
    milliseconds.append(1000 * (time.perf_counter() - start))
    return answer


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    share = 10 if arguments.quick else 1
    rng = np.random.default_rng(arguments.seed)
    chances = 1 / np.arange(1, N_WORDS + 1)
    chances /= chances.sum()
    texts = {
        f"d{i}": " ".join(f"w{word}" for word in rng.choice(N_WORDS, LENGTH, p=chances)) for i in range(N_DOCS // share)
    }
    ids = list(texts)
    times: dict[str, list[float]] = {"search": [], "feedback": [], "undo of the last": []}
    with tempfile.TemporaryDirectory() as folder, UsedIndex(tc.Index.build(texts), f"{folder}/taught.db") as used:
        used.search("w1")
        for use in range(N_USES // share):
            doc_id = ids[rng.integers(len(ids))]
            words = rng.choice(texts[doc_id].split(), 3)
            query = f"nick{doc_id} {' '.join(words)}"
            answer = timed(partial(used.search, query, 5), times["search"])
            action = timed(partial(used.use, answer.query_id, [doc_id]), times["feedback"])
            if use % 100 == 99:
                timed(partial(used.undo, [action]), times["undo of the last"])
    rows = []
    for name, values in times.items():
        half = values[len(values) // 2 :]
        rows.append([name, len(values), *(f"{x:.1f}" for x in (*np.percentile(values, (50, 99)), np.median(half)))])
    facts = machine_facts()
    print_facts(facts)
    head = ["", "number", "median ms", "99 % ms", "median ms of the later half"]
    print_table(f"{len(texts):,} documents, {N_USES // share:,} uses; an answer may take {BUDGET_MS} ms", head, rows)
    write_json(arguments.output, {"facts": facts, "milliseconds": times})


if __name__ == "__main__":
    main()
