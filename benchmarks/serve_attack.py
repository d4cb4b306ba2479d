"""What votes of attackers do to other people's queries, by the rules of before and by those of now.

The documents are the docstrings of the demo, over BM25. The attackers want one document to come first: each prefers it,
for queries of its own, over what is found first. First, a thousand addresses of one IPv6 /64, which one person has, a
vote each. Then attackers among honest visitors, as shares of 1,000 visitors who vote five times each, everybody from an
address of its own, all of them within a day: honest ones prefer the known answer of a query over the one above it. Told
is the mean reciprocal rank on test queries that nobody votes on, and on those that honest visitors teach; in how many
test queries the chosen document comes first; and how much was changed. The rules of before count every IPv6 address by
itself, and have neither a bound for all visitors together nor a higher price for those who agree with nobody.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from serve_teaching import changed, moment_of, reciprocal_ranks
from tercet.cli.docstrings import docstring_collection
from tercet.data import JudgedTexts
from tercet.search import Index
from tercet.serve import LearningBounds, Version, replay
from tercet.serve.journal import Entry, Preferred
from tercet.weights import Identity, Weights

VOTES = 5  # of a visitor
BEFORE = LearningBounds(crowd=0.0, alone=1.0)
SHARES = (0.0, 0.05, 0.2, 0.5)


class Crowd:
    """Votes of attackers and of honest visitors, by a seed."""

    def __init__(self, collection: JudgedTexts, index: Index, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 7])
        judged = collection.qrels["train"] | collection.qrels["validation"]
        self._answers = {collection.queries[qid]: set(docs) for qid, docs in judged.items()}
        self._queries = sorted(self._answers)
        self._found = {query: [hit.doc_id for hit in index.search(query, 10)] for query in self._queries}
        self._teachable = [query for query in self._queries if self._lesson(query) is not None]
        self.target = str(self._rng.choice(list(collection.docs)))
        self.taught: set[str] = set()

    def _lesson(self, query: str) -> tuple[str, str] | None:
        """The known answer and what is above it, wrongly."""
        shown = self._found[query]
        for above, doc_id in pairwise(shown):
            if doc_id in self._answers[query] and above not in self._answers[query]:
                return doc_id, above
        return None

    def honest(self) -> tuple[str, str, str]:
        query = self._teachable[int(self._rng.integers(len(self._teachable)))]
        self.taught.add(query)
        lesson = self._lesson(query)
        assert lesson is not None
        return query, *lesson

    def attack(self) -> tuple[str, str, str]:
        while True:
            query = self._queries[int(self._rng.integers(len(self._queries)))]
            if self._found[query] and self._found[query][0] != self.target:
                return query, self.target, self._found[query][0]

    def votes(self, n_visitors: int, share: float) -> list[Entry]:
        """All of them vote in an order by chance, within a day."""
        n_bad = round(share * n_visitors)
        order = np.repeat(np.arange(n_visitors), VOTES)
        self._rng.shuffle(order)
        entries: list[Entry] = []
        for number, who in enumerate(order.tolist(), 1):
            vote = self.attack() if who < n_bad else self.honest()
            client = f"10.{who >> 8}.{who & 255}.1"
            entries.append(Preferred(number, moment_of(86_400 * number / order.size), client, *vote, "visitor"))
        return entries

    def one_network(self, n: int, told_apart: bool) -> list[Entry]:
        """A vote of each address of a /64; told apart as services did it before."""
        clients = (f"10.{i >> 8}.{i & 255}.1" if told_apart else f"2001:db8:1:2::{i + 1:x}" for i in range(n))
        votes = (self.attack() for _ in range(n))
        return [
            Preferred(number, moment_of(3600 * number / n), client, *vote, "visitor")
            for number, (client, vote) in enumerate(zip(clients, votes, strict=True), 1)
        ]


def first_of(version: Version, collection: JudgedTexts, target: str) -> int:
    hits = (version.index.search(collection.queries[qid], 1) for qid in collection.qrels["test"])
    return sum(bool(found) and found[0].doc_id == target for found in hits)


def taught_mrr(version: Version, crowd: Crowd, queries: Sequence[str]) -> float:
    values = []
    for query in queries:
        hits = version.index.search(query, 100)
        values.append(next((1 / rank for rank, hit in enumerate(hits, 1) if hit.doc_id in crowd._answers[query]), 0.0))
    return float(np.mean(values)) if values else float("nan")


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    n, seed = 100 if arguments.quick else 1000, arguments.seed
    facts = machine_facts()
    print_facts(facts)
    collection = docstring_collection(random_state=seed)
    words = tc.Vectoriser(weighting="bm25").fit(collection.docs.values())
    index = Index.build(collection.docs, tc.TextModel(words, words, Weights([Identity(n_terms=len(words.words_))])))
    rows: list[dict[str, Any]] = []

    def tell(title: str, rules: str, entries: Sequence[Entry], crowd: Crowd, bounds: LearningBounds) -> None:
        version = replay(index, entries, bounds)
        taught = sorted(crowd.taught)
        rows.append(
            {
                "attack": title,
                "rules": rules,
                "mrr": float(reciprocal_ranks(version, collection).mean()),
                "taught_mrr": taught_mrr(version, crowd, taught),
                "first": first_of(version, collection, crowd.target),
                "changed": changed(version),
            }
        )
        print(rows[-1], file=sys.stderr, flush=True)

    tell("none", "", [], Crowd(collection, index, seed), BEFORE)
    for rules, bounds in (("before", BEFORE), ("now", LearningBounds())):
        crowd = Crowd(collection, index, seed)
        tell(f"{n:,} addresses of a /64", rules, crowd.one_network(n, rules == "before"), crowd, bounds)
    for share in SHARES:
        for rules, bounds in (("before", BEFORE), ("now", LearningBounds())):
            crowd = Crowd(collection, index, seed)
            tell(f"{share:.0%} of {n:,} visitors", rules, crowd.votes(n, share), crowd, bounds)
    print_table(
        f"a chosen document put first; {len(collection.qrels['test'])} test queries",
        ["attackers", "rules", "MRR", "MRR of what is taught", "chosen comes first", "changed"],
        [
            [
                row["attack"],
                row["rules"],
                f"{row['mrr']:.3f}",
                "" if np.isnan(row["taught_mrr"]) else f"{row['taught_mrr']:.3f}",
                str(row["first"]),
                f"{row['changed']:.0f}",
            ]
            for row in rows
        ],
    )
    write_json(arguments.output, {"machine": facts, "attacks": rows})


if __name__ == "__main__":
    main()
