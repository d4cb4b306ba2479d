"""Collections of the benchmark of memory: evidence to learn from, and tests that share no query with the evidence."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import tercet as tc
from common import Clock
from reproductions.readers import read_wikispeedia
from tercet.cli.docstrings import docstring_collection
from tercet.data import read_beir, read_table
from tercet.data.click_tables import read_click_log
from tercet.data.clicks import ClickLog

SHOP = Path(__file__).parents[1] / "examples" / "shop"
WITHHELD = 0.2  # share of documents, queries or threads
QUICK_LENGTH = 400  # characters of a document
BEGINNING = 1_000  # characters of an article of Wikispeedia; whole articles take hours
COMPLETE = "complete@5"  # share of queries whose answers are all among the first five

Docs = Mapping[str, str]
Qrels = Mapping[str, Mapping[str, int]]


class Skipped(Exception):
    """Data of a study that is not there."""


# -- cases ------------------------------------------------------------------------------------------------------------


class TestSet(NamedTuple):
    """Judgements to measure by. Hidden documents are left out of the ranking of their query."""

    qrels: Qrels
    hidden: Mapping[str, Collection[str]] = {}


@dataclass(frozen=True, eq=False)
class Case:
    """Evidence to learn from, and tests that share no query with the evidence.

    Attributes
    ----------
    docs : the catalog at the time of the tests
    train : judgements of past queries; links of documents where the case is ``linked``
    tests : judgements to measure by, "all" and kinds of answers
    clicks : a click log instead of judgements
    added : documents that were added to the catalog after training
    """

    name: str
    docs: Docs
    queries: Mapping[str, str]
    train: Qrels
    tests: Mapping[str, TestSet]
    measures: Sequence[str] = ("nDCG@10",)
    linked: bool = False
    clicks: ClickLog | None = None
    added: Set[str] = frozenset()

    def fit(self, seed: int, **settings: Any) -> tuple[tc.TextModel, Clock]:
        """Learn from the training part, with the settings that differ from the default call."""
        docs = {doc_id: text for doc_id, text in self.docs.items() if doc_id not in self.added}
        call: dict[str, Any] = {"random_state": seed, "options": {"verbose": False}, **settings}
        with (clock := Clock()).running():
            if self.linked:
                model = tc.fit_linked(docs, {source: list(targets) for source, targets in self.train.items()}, **call)
            elif self.clicks is not None:
                model = tc.fit(docs, clicks=self.clicks, **call)
            else:
                model = tc.fit(docs, {qid: self.queries[qid] for qid in self.train}, self.train, **call)
        return model, clock

    def appended(self) -> Docs:
        """Return every document with the texts of its past queries behind its own."""
        past: defaultdict[str, list[str]] = defaultdict(list)
        for text, doc_id in self.past_answers():
            past[doc_id].append(text)
        return {doc_id: "\n".join([text, *past[doc_id]]) for doc_id, text in self.docs.items()}

    def past_answers(self) -> Iterable[tuple[str, str]]:
        """Pairs of a past query's text and a document that answered the query, each pair once."""
        if self.clicks is not None:
            pairs = ((seen.query, doc_id) for seen in self.clicks.impressions for doc_id in seen.clicked)
        else:
            pairs = ((self.queries[qid], doc_id) for qid, judged in self.train.items() for doc_id in relevant(judged))
        return dict.fromkeys(pairs)

    def new_docs(self) -> Set[str]:
        """Documents that answered no past query."""
        return self.docs.keys() - {doc_id for _, doc_id in self.past_answers()}


def relevant(judged: Mapping[str, int]) -> list[str]:
    return [doc_id for doc_id, grade in judged.items() if grade > 0]


def by_kind(qrels: Qrels, new: Set[str], linked: bool = False) -> dict[str, TestSet]:
    """Tests by all answers, by known answers and by new answers.

    Answers of the other kind are hidden, and a document with links is hidden from its own ranking.
    """
    tests = {}
    for name, kind in (("all", None), ("known", False), ("new", True)):
        kept: dict[str, dict[str, int]] = {}
        hidden: dict[str, set[str]] = {}
        for qid, judged in qrels.items():
            others = {doc_id for doc_id in relevant(judged) if kind is not None and (doc_id in new) != kind}
            answers = {doc_id: grade for doc_id, grade in judged.items() if doc_id not in others}
            if relevant(answers):
                kept[qid], hidden[qid] = answers, others | ({qid} if linked else set())
        if kept:
            tests[name] = TestSet(kept, hidden)
    return tests


def make_case(
    name: str, docs: Docs, queries: Mapping[str, str], train: Qrels, test: Qrels, quick: bool, **settings: Any
) -> Case:
    """Make a case of judgements; a quick one keeps few queries, and the beginnings of few documents."""
    if quick:
        train, test = (
            {qid: dict(islice(judged.items(), 5)) for qid, judged in islice(part.items(), n) if relevant(judged)}
            for part, n in ((train, 60), (test, 30))
        )
        linked = [*train, *test] if settings.get("linked") else []
        judged_ids = [doc_id for part in (train, test) for judged in part.values() for doc_id in judged]
        docs = {doc_id: docs[doc_id][:QUICK_LENGTH] for doc_id in (*linked, *judged_ids, *islice(docs, 100))}
        queries = docs if linked else queries
    case = Case(name, docs, queries, train, {}, **settings)
    return replace(case, tests=by_kind(test, case.new_docs(), case.linked))


def draw_share(ids: Iterable[str], rng: np.random.Generator) -> frozenset[str]:
    """Draw a fifth of the ids."""
    names = sorted(ids)
    return frozenset(names[i] for i in rng.permutation(len(names))[: round(WITHHELD * len(names))])


def with_past_queries(case: Case, n: int | None, rng: np.random.Generator) -> Case:
    """Draw n of the training queries. The kinds of the answers follow the queries drawn."""
    qids = sorted(case.train)
    train = {qids[i]: case.train[qids[i]] for i in sorted(rng.permutation(len(qids))[:n])}
    drawn = replace(case, train=train)
    return replace(
        drawn, tests=by_kind(case.tests["all"].qrels, drawn.new_docs()) if len(case.tests) > 1 else case.tests
    )


def grow(case: Case, seed: int) -> Case:
    """Withhold a fifth of the documents and all their evidence from training; tests have the documents again."""
    added = draw_share(case.docs, np.random.default_rng(seed))
    train = {
        qid: {doc_id: grade for doc_id, grade in judged.items() if doc_id not in added}
        for qid, judged in case.train.items()
    }
    train = {qid: judged for qid, judged in train.items() if relevant(judged)}
    clicks = case.clicks
    if clicks is not None:
        lists = [
            seen._replace(
                shown=tuple(doc_id for doc_id in seen.shown if doc_id not in added),
                clicked=tuple(doc_id for doc_id in seen.clicked if doc_id not in added),
            )
            for seen in clicks.impressions
        ]
        clicks = replace(clicks, impressions=tuple(lists)).subset([row for row, seen in enumerate(lists) if seen.shown])
    return replace(case, train=train, clicks=clicks, added=added, tests=by_kind(case.tests["all"].qrels, added))


# -- collections ------------------------------------------------------------------------------------------------------


def data_folder(options: argparse.Namespace, name: str) -> Path:
    if options.data_home is None:
        raise Skipped("name the folder with the data: --data-home DIR, or the variable TERCET_DATA")
    if not (options.data_home / name).exists():
        raise Skipped(f"there is no {options.data_home / name}")
    return Path(options.data_home / name)


def nfcorpus(options: argparse.Namespace, seed: int) -> Case:
    data = read_beir(data_folder(options, "nfcorpus"))
    return make_case("nfcorpus", data.docs, data.queries, data.split("train"), data.split("dev"), options.quick)


def toollens(options: argparse.Namespace, seed: int) -> Case:
    data = read_beir(data_folder(options, "toollens"))
    measures = ("nDCG@5", "R@5", COMPLETE, "Success@1")
    train, test = data.split("train"), data.split("test")
    case = make_case("toollens", data.docs, data.queries, train, test, options.quick, measures=measures)
    return replace(case, tests={"all": case.tests["all"]})


def wikispeedia(options: argparse.Namespace, seed: int) -> Case:
    """Beginnings of articles as queries for the articles they link to; the links of a fifth of them are the test."""
    texts = read_wikispeedia(data_folder(options, "wikispeedia"))
    docs = {doc_id: text[:BEGINNING] for doc_id, text in zip(texts.ids, texts.texts, strict=True)}
    links: dict[str, dict[str, int]] = {}
    for source, target in texts.links.tolist():
        links.setdefault(texts.ids[source], {})[texts.ids[target]] = 1
    train, test = divide(links, seed)
    return make_case("wikispeedia", docs, docs, train, test, options.quick, measures=("AP",), linked=True)


def docstrings(options: argparse.Namespace, seed: int) -> Case:
    """Descriptions as queries for the functions they describe; a fifth of the descriptions is the test."""
    data = docstring_collection(["numpy"] if options.quick else ("numpy", "scipy", "sklearn"))
    train, test = divide({qid: judged for part in data.qrels.values() for qid, judged in part.items()}, seed)
    return make_case("docstrings", data.docs, data.queries, train, test, options.quick)


def divide(qrels: Qrels, seed: int) -> tuple[Qrels, Qrels]:
    """Divide queries at random into a training part and a test part."""
    to_test = draw_share(qrels, np.random.default_rng(seed))
    train = {qid: judged for qid, judged in qrels.items() if qid not in to_test}
    return train, {qid: judged for qid, judged in qrels.items() if qid in to_test}


def shop(options: argparse.Namespace, seed: int) -> Case:
    """Make the shop of examples/ with its click log; untouched queries are the test, by the simulated truth.

    Known products have a click in the log. The test "asked before" has the queries of the log.
    """
    if str(SHOP) not in sys.path:
        sys.path.append(str(SHOP))
    from shop import make_shop, read_packages, read_truth

    sizes = {"n_packages": 1_000, "n_queries": 60, "n_lists": 600, "n_judged": 0} if options.quick else {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        try:
            make_shop(read_packages(options.packages), folder, seed=seed, **sizes)
        except SystemExit as error:  # no package list, or too short a list
            raise Skipped(str(error)) from error
        docs, clicks = dict(read_table(folder / "products.csv")), read_click_log(folder / "clicks.csv")
        untouched, asked = read_truth(folder), read_truth(folder, untouched=False)
    queries = {text: text for text in (*untouched, *asked)}
    case = Case("shop", docs, queries, {}, {}, clicks=clicks)
    return replace(case, tests={**by_kind(untouched, case.new_docs()), "asked before": TestSet(asked)})


@dataclass(frozen=True)
class FaqPlan:
    """Sizes and chances of the made-up FAQ.

    The chances were set before anything was learned, such that BM25 has an nDCG@10 of about .7.
    """

    n_threads: int = 300
    n_concepts: int = 100
    n_questions: int = 6  # of each thread
    n_trained: int = 4  # of them, in a known thread
    n_synonyms: int = 3  # of each concept; no answer contains a synonym
    said: float = 0.9  # chance that a question mentions a concept of its thread
    matched: float = 0.65  # chance that a mention is the word of the answer, not a synonym
    habit: float = 0.4  # chance that a question has a word that only askers of its thread use
    n_fillers: int = 150
    in_answer: int = 20
    in_question: int = 3


def faq(options: argparse.Namespace, seed: int) -> Case:
    """Make up a FAQ: an answer for each thread, about three concepts, and questions that paraphrase the concepts.

    A fifth of the threads is new: none of their questions is in training.
    """
    plan = FaqPlan(n_threads=50, n_concepts=25) if options.quick else FaqPlan()
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, plan.n_fillers + 1)

    def fillers(n: int) -> list[str]:
        return [f"filler{i}" for i in rng.choice(plan.n_fillers, n, p=weights / weights.sum())]

    def question(thread: int, concepts: Sequence[int]) -> str:
        words = [f"habit{thread}"] if rng.random() < plan.habit else []
        for concept in concepts:
            if rng.random() < plan.said:
                synonym = "abcdefgh"[rng.integers(plan.n_synonyms)]
                words.append(f"say{concept}" if rng.random() < plan.matched else f"ask{concept}{synonym}")
        return " ".join(rng.permutation(words + fillers(plan.in_question)))

    docs, queries = {}, {}
    parts: dict[str, dict[str, dict[str, int]]] = {"train": {}, "test": {}}
    for thread in range(plan.n_threads):
        concepts = rng.choice(plan.n_concepts, 3, replace=False).tolist()
        said = [f"say{concept}" for concept in concepts for _ in range(1 + rng.integers(3))]
        docs[f"thread{thread}"] = " ".join(rng.permutation(said + fillers(plan.in_answer)))
        n_trained = 0 if thread >= round((1 - WITHHELD) * plan.n_threads) else plan.n_trained
        for number in range(plan.n_questions):
            qid = f"thread{thread}-{number}"
            queries[qid] = question(thread, concepts)
            parts["train" if number < n_trained else "test"][qid] = {f"thread{thread}": 1}
    return make_case("faq, made up", docs, queries, parts["train"], parts["test"], quick=False)


CASES: dict[str, Callable[[argparse.Namespace, int], Case]] = {
    "nfcorpus": nfcorpus,
    "toollens": toollens,
    "wikispeedia": wikispeedia,
    "shop": shop,
    "docstrings": docstrings,
    "faq": faq,
}
