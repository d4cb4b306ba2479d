"""Measure words and memory of `tc.fit`, apart and together, on data that training never saw.

nfcorpus     NFCorpus, dev queries
toollens     ToolLens, test requests, by default and for a closed catalog
wikispeedia  links of Wikispeedia articles that training has no link of
newsgroups   20 Newsgroups, test posts, beside the posteriors of logistic regression
shop         click log of the made shop of examples/, known and new products apart
docstrings   docstrings of NumPy, SciPy and scikit-learn
faq          made-up FAQ, new questions for known threads and for new threads
growing      a fifth of the documents added after training: nfcorpus, docstrings, faq and shop
curve        100, 300, 1,000 and all past queries: nfcorpus and toollens
small        30, 60 and 120 of NFCorpus' training queries, five draws for each seed

Every table has the ablation: start (nothing learned), words, memory, both, and the model that the call shipped. BM25 is
over stems, without stop words. "appended" is BM25 over documents with their past queries appended. No fit is given a
test part.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import tercet as tc
from common import (
    ARCHIVE,
    Clock,
    add_shared_options,
    machine_facts,
    newsgroups_rows,
    print_facts,
    print_table,
    read_newsgroups,
    verdict,
    write_json,
)
from memory_cases import CASES, COMPLETE, QUICK_LENGTH, Case, Docs, Skipped, data_folder, grow, with_past_queries
from tercet.choose import Gain
from tercet.data.labeled import LabeledTexts
from tercet.errors import InputError
from tercet.measure import average_precision_of_classes
from tercet.search.growth import GrowingVocabulary
from tercet.weights import Identity, Weights

Values = NDArray[np.float64]  # one value for each query
Record = dict[str, Any]

PARTS: dict[str, list[str]] = {"start": [], "words": ["words"], "memory": ["memory"], "both": ["words", "memory"]}
SYSTEMS = ("BM25", "appended", *PARTS, "shipped")
# Calls of `tc.fit` that differ from the default call.
CALLS: dict[str, dict[str, dict[str, Any]]] = {"toollens": {"default": {}, "closed": {"new_documents": 0}}}
AIMS = {"nfcorpus": ("nDCG@10", 0.42), "toollens": ("nDCG@5", 0.90)}
CPU_AIM, WALL_AIM = 40, 25  # seconds of a fit on NFCorpus
GROWING = ("nfcorpus", "docstrings", "faq", "shop")
CURVES = ("nfcorpus", "toollens")
CURVE_SIZES = (100, 300, 1_000, None)  # past queries; None is all
SMALL_SIZES, DRAWS = (30, 60, 120), 5
SMALL_AIM = -0.01  # shipped less BM25, in the mean of all draws and seeds
SAME = 0.001  # a smaller loss does not count as a loss
DEPTH = 10  # of every cutoff
MOST_SCORES = 5_000_000  # kept at a time


# -- measuring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outcome:
    """Values of one fit, by (test, measure) and by system."""

    seed: int
    clock: Clock
    parts: tuple[str, ...]
    values: dict[tuple[str, str], dict[str, Values]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.shipped}, {self.clock.processor:.1f} s CPU, {self.clock.wall:.1f} s wall"

    @property
    def shipped(self) -> str:
        return "+".join(self.parts) or "start"

    def add(self, system: str, values: Mapping[tuple[str, str], Values]) -> None:
        for key, of_queries in values.items():
            self.values.setdefault(key, {})[system] = of_queries


def measure(case: Case, seed: int, what: str, **settings: Any) -> Outcome:
    """Fit once, and measure the model, its parts and the rivals."""
    model, clock = case.fit(seed, **settings)
    outcome = Outcome(seed, clock, model.parts)
    print(f"  {case.name}, {what}, seed {seed}: {outcome}", flush=True)
    outcome.add("BM25", values_of(case, stemmed_bm25(case.docs), case.docs))
    if not case.linked:  # past queries of whole articles would make documents of many articles
        docs = case.appended()
        outcome.add("appended", values_of(case, stemmed_bm25(docs), docs))
    for system, part in variants(model):
        if case.added:
            growth = GrowingVocabulary(part)
            growth.rows([case.docs[doc_id] for doc_id in sorted(case.added)])
            part = growth.model
        outcome.add(system, values_of(case, part, case.docs))
    return outcome


def stemmed_bm25(docs: Docs) -> tc.TextModel:
    """BM25 as engines have it: k1 1.2, b .75, English stems, English stop words left out."""
    return tc.TextModel.bm25(docs.values(), tc.Analyzer(stop_words="english", stemmer="english"))


def variants(model: tc.TextModel) -> Iterator[tuple[str, tc.TextModel]]:
    """Yield the model with each set of parts that was learned, and as it was shipped."""
    for system, parts in PARTS.items():
        try:
            yield system, model.with_parts(parts)
        except InputError:  # a part was not learned
            continue
    yield "shipped", model


def values_of(case: Case, model: tc.TextModel, docs: Docs) -> dict[tuple[str, str], Values]:
    """Rank the catalog for every test query, and return each measure of each test."""
    names = ["R@5" if name == COMPLETE else name for name in case.measures]
    n_hidden = max(len(hidden) for test in case.tests.values() for hidden in (*test.hidden.values(), ()))
    depth = len(docs) if "AP" in names else min(len(docs), DEPTH + n_hidden)
    n_rows = max(1, MOST_SCORES // depth)
    qids = list(dict.fromkeys(qid for test in case.tests.values() for qid in test.qrels))
    blocks: defaultdict[tuple[str, str], list[Values]] = defaultdict(list)
    for start in range(0, len(qids), n_rows):
        run = model.rank({qid: case.queries[qid] for qid in qids[start : start + n_rows]}, docs, k=depth)
        for kind, test in case.tests.items():
            qrels = {qid: test.qrels[qid] for qid in run if qid in test.qrels}
            if not qrels:
                continue
            ranked = {
                qid: {doc_id: score for doc_id, score in run[qid].items() if doc_id not in test.hidden.get(qid, ())}
                for qid in qrels
            }
            result = tc.evaluate(qrels, ranked, list(dict.fromkeys(names)))
            for name in case.measures:
                values = (result["R@5"] > 1 - 1e-9).astype(np.float64) if name == COMPLETE else result[name]
                blocks[kind, name].append(values)
    return {key: np.concatenate(parts) for key, parts in blocks.items()}


# -- tables -----------------------------------------------------------------------------------------------------------


def show(
    title: str, options: argparse.Namespace, study: str, outcomes: Mapping[str, Sequence[Outcome]]
) -> list[Record]:
    """Print means over fits, ± their standard deviation, and return the mean of every fit."""
    records: list[Record] = []
    for what, fits in outcomes.items():
        costs = {"cpu": [fit.clock.processor for fit in fits], "wall": [fit.clock.wall for fit in fits]}
        parts = [fit.shipped for fit in fits]
        for kind, name in dict.fromkeys(key for fit in fits for key in fit.values):
            values = [fit.values[kind, name] for fit in fits if (kind, name) in fit.values]
            systems = {
                system: [float(found[system].mean()) for found in values if system in found]
                for system in dict.fromkeys((*SYSTEMS, *values[0]))
            }
            n_queries = int(np.mean([found["shipped"].size for found in values]))
            record = {"what": what, "test": kind, "measure": name, "queries": n_queries, "systems": systems}
            records.append({**record, **costs, "parts": parts})
    columns = list(records[0]["systems"])
    rows = [
        [
            ", ".join((record["what"], record["test"], record["measure"])),
            record["queries"],
            *(cell(record["systems"][system]) for system in columns),
            *(f"{np.mean(record[name]):.1f}" for name in ("cpu", "wall")),
            ", ".join(f"{name} {n}" for name, n in Counter(record["parts"]).items()),
        ]
        for record in records
    ]
    head = ["call, test, measure", "queries", *columns, "CPU s", "wall s", "shipped, fits"]
    print_table(f"{title}; mean ± standard deviation over fits; {origin(options, study)}", head, rows)
    return records


def cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.4f}" + (f" ± {spread:.4f}" if spread >= 0.00005 else "")


def origin(options: argparse.Namespace, study: str) -> str:
    """Say which seeds and which command a table has."""
    seeds = " ".join(map(str, options.seeds))
    quick = " --quick" if options.quick else ""
    return f"seeds {seeds}; python benchmarks/memory.py {study} --seeds {seeds}{quick}"


def described(case: Case) -> str:
    past = f"{len(case.train):,} past queries" if case.clicks is None else f"{len(case.clicks.impressions):,} lists"
    return f"{case.name}: {len(case.docs):,} documents, {past}"


# -- studies ----------------------------------------------------------------------------------------------------------


def collection(study: str, options: argparse.Namespace) -> Record:
    """All evidence of one collection."""
    cases = {seed: CASES[study](options, seed) for seed in options.seeds}
    outcomes = {
        what: [measure(case, seed, what, **settings) for seed, case in cases.items()]
        for what, settings in CALLS.get(study, {"default": {}}).items()
    }
    records = show(described(case_of(cases)), options, study, outcomes)
    name, aim = AIMS.get(study, ("", 0.0))
    for record in (one for one in records if (one["test"], one["measure"]) == ("all", name)):
        value = float(np.mean(record["systems"]["shipped"]))
        print(f"{record['what']}, {name}: {value:.4f}, aim {aim:.2f}: {verdict(value, aim)}")
    if study == "nfcorpus":
        for name, aim in (("cpu", CPU_AIM), ("wall", WALL_AIM)):
            spent = float(np.mean(records[0][name]))
            print(f"{name} seconds of a fit: {spent:.1f}, aim {aim}: {verdict(spent, aim, at_most=True)}")
    return {"records": records}


def case_of(cases: Mapping[int, Case]) -> Case:
    return next(iter(cases.values()))


def newsgroups(options: argparse.Namespace) -> Record:
    """Each test post as a query for the others of its group. Test posts have no past queries, so words count alone."""
    if not (options.data_home and (options.data_home / "20news-bydate-train").exists()):
        data_folder(options, ARCHIVE)
    train, test = read_newsgroups(options.data_home)
    if options.quick:
        train, test = few_posts(train), few_posts(test)
    data = newsgroups_rows(train, test)
    rival = LogisticRegression(max_iter=1000).fit(data.X, data.y)
    expected = sparse.csr_array(rival.predict_proba(data.X_test).astype(np.float32))
    same_class = Weights([Identity(n_terms=len(rival.classes_))])  # inner products of class posteriors
    posteriors = average_precision_of_classes(same_class, expected, data.y_test)
    fits, gaps = [], []
    for seed in options.seeds:
        with (clock := Clock()).running():
            model = tc.fit_labeled(train.texts, train.labels, random_state=seed, options={"verbose": False})
        fits.append(Outcome(seed, clock, model.parts))
        print(f"  newsgroups, seed {seed}: {fits[-1]}", flush=True)
        for system, part in variants(model):
            values = average_precision_of_classes(part.weights, part.docs(test.texts), test.labels)
            fits[-1].add(system, {("all", "AP"): values})
        fits[-1].add("posteriors", {("all", "AP"): posteriors})
        gaps.append(Gain.between(posteriors, values))
    records = show(f"20 Newsgroups: {len(train):,} training posts", options, "newsgroups", {"default": fits})
    mean, error = (float(np.mean(part)) for part in ([gap.mean for gap in gaps], [gap.error for gap in gaps]))
    print(f"shipped less posteriors of logistic regression: {mean:+.4f} ± {error:.4f}")
    return {"records": records, "gaps": [gap.mean for gap in gaps]}


def few_posts(posts: LabeledTexts) -> LabeledTexts:
    """The beginnings of about a hundred posts, for a quick run."""
    rows = range(0, len(posts), 1 + len(posts) // 100)
    texts = [posts.texts[row][:QUICK_LENGTH] for row in rows]
    return LabeledTexts(texts, *([column[row] for row in rows] for column in (posts.labels, posts.names)))


def growing(options: argparse.Namespace) -> Record:
    """Catalogs that grew by a fifth after training, and new answers against BM25."""
    results: Record = {}
    rows = []
    for name in GROWING:
        with skipping(f"growing, {name}"):
            cases = {seed: grow(CASES[name](options, seed), seed) for seed in options.seeds}
            fits = [measure(case, seed, "a fifth added") for seed, case in cases.items()]
            records = show(f"{described(case_of(cases))}, a fifth added", options, "growing", {"grown": fits})
            new = [fit.values["new", "nDCG@10"] for fit in fits]
            gains = [Gain.between(values["BM25"], values["shipped"]) for values in new]
            mean = Gain(*np.mean([gain[:2] for gain in gains], axis=0), gains[0].n_queries)
            shown = [*zip(options.seeds, gains, strict=True), ("mean", mean)]
            rows += [[f"{name}, {seed}", f"{g.mean:+.4f} ± {g.error:.4f}", within(g)] for seed, g in shown]
            results[name] = {"records": records, "gains": [[gain.mean, gain.error] for gain in gains]}
    title = "New answers, shipped less BM25 ± standard error of the paired difference; the mean has the mean error"
    print_table(
        f"{title}; {origin(options, 'growing')}", ["collection, seed", "difference", "not below by one error"], rows
    )
    return results


def within(gain: Gain) -> str:
    return "yes" if gain.mean >= -gain.error else "NO"


def curve(options: argparse.Namespace) -> Record:
    """More and more past queries, drawn anew for each seed."""
    results: Record = {}
    for name in CURVES:
        with skipping(f"curve, {name}"):
            cases = {seed: CASES[name](options, seed) for seed in options.seeds}
            n_queries = len(case_of(cases).train)
            sizes = [size for size in CURVE_SIZES if size is None or size < n_queries]
            outcomes = {
                f"{size or n_queries:,} queries": [
                    measure(with_past_queries(case, size, np.random.default_rng(seed)), seed, f"{size or n_queries:,}")
                    for seed, case in cases.items()
                ]
                for size in sizes
            }
            results[name] = show(f"{described(case_of(cases))}, some of them", options, "curve", outcomes)
    return results


def small(options: argparse.Namespace) -> Record:
    """Few past queries of NFCorpus: shipped less BM25, dev queries."""
    case = CASES["nfcorpus"](options, 0)
    draws, sizes = (1, SMALL_SIZES[:1]) if options.quick else (DRAWS, SMALL_SIZES)
    outcomes = {
        f"{size} queries": [
            measure(with_past_queries(case, size, np.random.default_rng(draw)), seed, f"{size} queries, draw {draw}")
            for draw in range(draws)
            for seed in options.seeds
        ]
        for size in sizes
    }
    records = show(f"{described(case)}, some of them", options, "small", outcomes)
    rows, gains = [], {}
    for record in (one for one in records if one["test"] == "all"):
        gain = np.subtract(record["systems"]["shipped"], record["systems"]["BM25"])
        rows.append([record["what"], f"{gain.mean():+.4f}", f"{gain.min():+.4f}", f"{np.mean(gain < -SAME):.0%}"])
        rows[-1].append(verdict(gain.mean(), SMALL_AIM))
        gains[record["what"]] = gain.tolist()
    title = f"Shipped less BM25, aim {SMALL_AIM:+.2f} in the mean; draws for each seed: {draws}"
    head = ["past queries", "mean", "worst", f"behind by more than {SAME}", "aim"]
    print_table(f"{title}; {origin(options, 'small')}", head, rows)
    return {"records": records, "gains": gains}


STUDIES: dict[str, Callable[[argparse.Namespace], Record]] = {
    "nfcorpus": partial(collection, "nfcorpus"),
    "toollens": partial(collection, "toollens"),
    "wikispeedia": partial(collection, "wikispeedia"),
    "newsgroups": newsgroups,
    "shop": partial(collection, "shop"),
    "docstrings": partial(collection, "docstrings"),
    "faq": partial(collection, "faq"),
    "growing": growing,
    "curve": curve,
    "small": small,
}


# -- the command ------------------------------------------------------------------------------------------------------


@contextmanager
def skipping(what: str) -> Iterator[None]:
    """Say what is skipped because its data is not there."""
    try:
        yield
    except Skipped as reason:
        print(f"\n{what}: skipped, {reason}", flush=True)


def study_name(text: str) -> str:
    if text not in STUDIES:
        raise argparse.ArgumentTypeError(f"there is no study {text!r}; there are {', '.join(STUDIES)}")
    return text


def warm_up() -> None:
    """Compile the kernels, or load them, before any fit is timed."""
    animals = ("cats purr", "dogs bark", "fish swim")
    docs = {str(i): animals[i % 3] for i in range(30)}
    tc.fit(docs, docs, {qid: {str((int(qid) + 3) % 30): 1} for qid in docs}, options={"verbose": False})


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", type=study_name, metavar="STUDY", help="default: all of them, some hours")
    add_shared_options(parser)
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="default: 0 1 2; with --quick 0 alone")
    parser.add_argument("--packages", type=Path, metavar="FILE", help="package list of the shop, instead of apt's")
    options = parser.parse_args(words)
    options.seeds = options.seeds or list(range(options.seed, options.seed + (1 if options.quick else 3)))
    facts = machine_facts()
    print_facts(facts)
    warm_up()
    results: Record = {}
    for name in options.studies or STUDIES:
        with skipping(name):
            results[name] = STUDIES[name](options)
    write_json(options.output, {"machine": facts, "seeds": options.seeds, "quick": options.quick, "results": results})


if __name__ == "__main__":
    main()
