"""Whether teaching runs dry: 1,000 preferences of one honest person, and what attackers can do meanwhile.

The documents are the docstrings of the demo, over BM25. The person asks queries of which the answer is known; where
that is among the first ten and the one above it is wrong, the person prefers it over that one, as the page offers.
Told are the share of preferences after which the better document is ahead, and how many of the others are between
documents in which the model sees the same words; the share that still holds at the end; and the mean reciprocal rank
on queries with other answers, before and after. "For life" is an allowance as it was once. Attackers prefer documents
at random, within an hour; then a teacher has a tenth as many preferences.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.cli.docstrings import docstring_collection
from tercet.data import JudgedTexts
from tercet.search import Index
from tercet.serve import Learner, Version
from tercet.serve.journal import Entry, Preferred, Trust
from tercet.weights import Identity, Weights

SHOWN = 10
SECONDS_EACH = 10  # between the preferences of a person
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Lesson:
    """What was preferred, in the order in which it was; and which of it the better document was ahead after."""

    entries: list[Preferred] = field(default_factory=list)
    effective: list[bool] = field(default_factory=list)
    same_words: int = 0  # of those without an effect, documents that the model cannot tell apart


class Person:
    """Prefers the known answer of a query over the one above it; queries come in the order of a seed."""

    def __init__(self, collection: JudgedTexts, seed: int) -> None:
        judged = collection.qrels["train"] | collection.qrels["validation"]
        self._answers = {collection.queries[qid]: set(docs) for qid, docs in judged.items()}
        self._rng = np.random.default_rng(seed)

    def preferences(self, version: Callable[[], Version]) -> Iterator[tuple[str, str, str]]:
        """Query, better and worse, as the list of the version that is current has them."""
        queries = sorted(self._answers)
        for _ in range(50):
            for i in self._rng.permutation(len(queries)).tolist():
                answers = self._answers[queries[i]]
                shown = [hit.doc_id for hit in version().index.search(queries[i], SHOWN)]
                for above, doc_id in pairwise(shown):
                    if doc_id in answers and above not in answers:
                        yield queries[i], doc_id, above
                        break


def taught(learner: Learner, person: Person, n: int, trust: Trust | None, first: int = 1) -> Lesson:
    lesson = Lesson()
    for query, better, worse in person.preferences(lambda: learner.current):
        number = first + len(lesson.entries)
        entry = Preferred(number, moment_of(SECONDS_EACH * number), "127.0.0.1", query, better, worse, trust)
        (outcome,) = learner.tell(entry).result().outcomes[number]
        lesson.entries.append(entry)
        lesson.effective.append(outcome.is_ahead)
        lesson.same_words += outcome.reason == "same"
        if len(lesson.entries) == n:
            break
    return lesson


def attacks(collection: JudgedTexts, n: int, n_names: int, seed: int) -> list[Entry]:
    """Preferences at random within an hour, of one address with so many names."""
    rng = np.random.default_rng([seed, 1])
    queries, docs = sorted(collection.queries.values()), np.array(list(collection.docs))
    entries: list[Entry] = []
    for number in range(1, n + 1):
        better, worse = rng.choice(docs, 2, replace=False).tolist()
        client = "10.0.0.9" if n_names == 1 else f"10.0.0.9/{rng.integers(n_names)}"
        query = queries[int(rng.integers(len(queries)))]
        entries.append(Preferred(number, moment_of(3600 * number / n), client, query, better, worse, "visitor"))
    return entries


def moment_of(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def reciprocal_ranks(version: Version, collection: JudgedTexts) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of the first answer among a hundred, for each test query; their answers are asked for by no other query."""
    values = []
    for qid, answers in collection.qrels["test"].items():
        hits = version.index.search(collection.queries[qid], 100)
        values.append(next((1 / rank for rank, hit in enumerate(hits, 1) if hit.doc_id in answers), 0.0))
    return np.array(values)


def held(version: Version, lesson: Lesson) -> float:
    """The share of preferences whose better document is ahead; which of contradicting ones is right is not asked."""
    leads = [version.index.versus(entry.query, entry.better, entry.worse).score for entry in lesson.entries]
    return float(np.mean(np.array(leads) > 0))


def changed(version: Version) -> float:
    """Sizes of the learned weights, added up: the base is BM25, whose weights of words on themselves are 1."""
    return float(np.abs(version.overlay.data).sum())


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    n, seed = 100 if arguments.quick else 1000, arguments.seed
    results: dict[str, Any] = {"machine": machine_facts(), "teaching": [], "attacks": []}
    print_facts(results["machine"])
    collection = docstring_collection(random_state=seed)
    words = tc.Vectoriser(weighting="bm25").fit(collection.docs.values())
    identity = Weights([Identity(n_terms=len(words.words_))])
    index = Index.build(collection.docs, tc.TextModel(words, words, identity))
    for title, trust in (("teacher", "teacher"), ("for life", None)):
        learner = Learner(index, [])
        before = reciprocal_ranks(learner.current, collection)
        lesson = taught(learner, Person(collection, seed), n, trust)
        learner.close()
        gains = reciprocal_ranks(learner.current, collection) - before
        by_tenth = [float(np.mean(part)) for part in np.array_split(np.array(lesson.effective), 10)]
        facts = {
            "allowance": title,
            "effective": float(np.mean(lesson.effective)),
            "by_tenth": by_tenth,
            "same_words": lesson.same_words,
            "held": held(learner.current, lesson),
            "mrr_before": float(before.mean()),
            "mrr_gain": float(gains.mean()),
            "half_interval": float(1.96 * gains.std(ddof=1) / np.sqrt(gains.size)),
            "changed": changed(learner.current),
        }
        results["teaching"].append(facts)
        print(f"{title}: {facts}", file=sys.stderr, flush=True)
    for n_names in (1, 1000):
        learner = Learner(index, attacks(collection, n, n_names, seed))
        attacked = reciprocal_ranks(learner.current, collection)
        size = changed(learner.current)
        lesson = taught(learner, Person(collection, seed), n // 10, "teacher", first=n + 1)
        learner.close()
        facts = {
            "names": n_names,
            "changed": size,
            "mrr_gain": float((attacked - before).mean()),
            "teacher_effective": float(np.mean(lesson.effective)),
            "same_words": lesson.same_words,
        }
        results["attacks"].append(facts)
        print(f"{n_names} names: {facts}", file=sys.stderr, flush=True)
    print_table(
        f"{n:,} preferences of one person",
        ["allowance", "effective", "last tenth", "same words", "held", "MRR", "gain", "changed"],
        [
            [
                facts["allowance"],
                f"{facts['effective']:.3f}",
                f"{facts['by_tenth'][-1]:.2f}",
                str(facts["same_words"]),
                f"{facts['held']:.3f}",
                f"{facts['mrr_before']:.4f}",
                f"{facts['mrr_gain']:+.4f} ±{facts['half_interval']:.4f}",
                f"{facts['changed']:.0f}",
            ]
            for facts in results["teaching"]
        ],
    )
    print_table(
        f"{n:,} preferences at random within an hour, from one address; then {n // 10} of a teacher",
        ["names", "changed", "MRR gain", "teacher's effective", "same words"],
        [
            [
                str(facts["names"]),
                f"{facts['changed']:.1f}",
                f"{facts['mrr_gain']:+.4f}",
                f"{facts['teacher_effective']:.3f}",
                str(facts["same_words"]),
            ]
            for facts in results["attacks"]
        ],
    )
    write_json(arguments.output, results)


if __name__ == "__main__":
    main()
