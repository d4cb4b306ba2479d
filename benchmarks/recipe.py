"""What `tc.fit` is worth where it is hard: few queries, documents that training never saw, classes.

Each verb makes a default call on training parts alone, and then looks at test parts once:

small       NFCorpus' training queries cut to a few, many draws: what is shipped against an ordinary stemmed BM25
documents   documents that are relevant in training and documents that are not, apart
nfcorpus    all of NFCorpus' training queries
labelled    20 Newsgroups, all classes and some, beside the posteriors of logistic regression
steps       what each step of the recipe adds
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import (
    Clock,
    add_shared_options,
    check_data_home,
    machine_facts,
    newsgroups_rows,
    print_facts,
    print_table,
    read_newsgroups,
    write_json,
)
from reproductions.readers import read_wikispeedia
from reproductions.rivals import ClassPosteriors
from tercet.choose import Gain, standard_error
from tercet.cli.docstrings import docstring_collection
from tercet.data import read_beir
from tercet.data.labelled import LabelledTexts
from tercet.fitting.rankers import NameWithParameters
from tercet.measure import average_precision_of_classes
from tercet.weights import Identity

Qrels = Mapping[str, Mapping[str, int]]
Values = NDArray[np.float64]  # a measure of each query

SIZES = (30, 60, 120, 240)
CLASSES = (20, 10, 5, 2)
COLLECTIONS = ("docstrings", "nfcorpus", "wikispeedia")
WITHHELD = 0.2  # of the documents, and of the queries to test on
# What differs from the default call, each with the steps before it.
DOCUMENTS_LEARN = {"ranker": NameWithParameters("low-rank", {"learn_documents": True})}
STEPS: dict[str, dict[str, Any]] = {
    "learned, one model, whatever new documents pay": DOCUMENTS_LEARN | {"n_models": 1, "accept": "seen"},
    "… nothing at their cost": DOCUMENTS_LEARN | {"n_models": 1},
    "… also with documents as they are": {"n_models": 1},
    "… as many models as there is time for": {},
}
SAME = 0.001  # a fit that is behind by less does not count as worse
QUICK_STEPS = 2_000


# -- collections ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Collection:
    """Texts and judgements. Where it is ``linked``, queries are the documents, and no query is to find itself."""

    name: str
    docs: Mapping[str, str]
    queries: Mapping[str, str]
    qrels: Qrels
    measure: str = "nDCG@10"
    linked: bool = False

    def fit(
        self, docs: Mapping[str, str], qrels: Qrels, options: argparse.Namespace, seed: int, **settings: Any
    ) -> Fitted:
        """The default call, with nothing but these documents and judgements, and what differs from it."""
        settings = default_call(options, seed) | settings
        with (clock := Clock()).running():
            if self.linked:
                model = tc.fit_linked(docs, {source: list(linked) for source, linked in qrels.items()}, **settings)
            else:
                model = tc.fit(docs, {qid: self.queries[qid] for qid in qrels}, qrels, **settings)
        return Fitted(model, clock.processor)

    def held_out(self, model: tc.TextModel, qrels: Qrels) -> tc.HeldOutQueries:
        """Queries to measure by, as the model sees them, in the whole collection."""
        doc_rows = {doc_id: row for row, doc_id in enumerate(self.docs)}
        Q = model.queries([self.queries[qid] for qid in qrels])
        D = model.docs(list(self.docs.values()))
        query_rows = {qid: row for row, qid in enumerate(qrels)}
        held_out = tc.HeldOutQueries.from_qrels(qrels, Q, D, query_rows, doc_rows, self.measure)
        return replace(held_out, exclude=np.array([doc_rows[qid] for qid in qrels])) if self.linked else held_out


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a call shipped, and the seconds of processor time it took."""

    model: tc.TextModel
    seconds: float

    @property
    def accepted(self) -> bool:
        assert self.model.report is not None
        return self.model.report.accepted

    @property
    def decision(self) -> str:
        return "accepted" if self.accepted else "rejected"

    @property
    def start(self) -> tc.Weights:
        """What learning began with: words that match themselves, weighted and cut as the recipe chose."""
        return match(self.model.doc_vectoriser)


def default_call(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    return {"random_state": seed, "verbose": False, **({"n_steps": QUICK_STEPS} if options.quick else {})}


def match(words: tc.Vectoriser) -> tc.Weights:
    return tc.Weights([Identity(n_terms=len(words.words_))])


def stemmed_bm25(docs: Mapping[str, str]) -> tc.TextModel:
    """BM25 as engines have it out of the box: k1 1.2, b .75, English stems, English stop words left out."""
    analyser = tc.Analyser(stop_words="english", stemmer="english")
    words = tc.Vectoriser(analyser=analyser, weighting="bm25", k1=1.2, b=0.75).fit(docs.values())
    return tc.TextModel(words, words, match(words))


def nfcorpus(options: argparse.Namespace) -> tuple[Collection, Qrels]:
    """The collection with its training judgements, and those of dev."""
    data = read_beir(options.data_home / "nfcorpus")
    return Collection("nfcorpus", dict(data.docs), data.queries, data.split("train")), data.split("dev")


def wikispeedia(options: argparse.Namespace) -> Collection:
    texts = read_wikispeedia(options.data_home / "wikispeedia")
    docs = dict(zip(texts.ids, texts.texts, strict=True))
    qrels: dict[str, dict[str, int]] = {}
    for source, target in texts.links.tolist():
        qrels.setdefault(texts.ids[source], {})[texts.ids[target]] = 1
    return Collection("wikispeedia", docs, docs, qrels, measure="AP", linked=True)


def docstrings(options: argparse.Namespace) -> Collection:
    data = docstring_collection(["numpy"] if options.quick else ("numpy", "scipy", "sklearn"))
    qrels = {qid: judged for part in data.qrels.values() for qid, judged in part.items()}
    return Collection("docstrings", data.docs, data.queries, qrels)


READERS: dict[str, Callable[[argparse.Namespace], Collection]] = {
    "docstrings": docstrings,
    "nfcorpus": lambda options: nfcorpus(options)[0],
    "wikispeedia": wikispeedia,
}


def warm_up() -> None:
    """Load the compiled kernels, or compile them once, so that no fit pays for it."""
    animals = ("cats purr", "dogs bark", "fish swim")
    docs = {str(i): animals[i % 3] for i in range(30)}
    qrels = {qid: {str((int(qid) + 3) % 30): 1} for qid in docs}
    tc.fit(docs, docs, qrels, options={"n_steps": 10, "verbose": False})


def difference(before: Values, after: Values) -> str:
    """The mean difference and its standard error over the same queries."""
    gain = Gain.between(before, after)
    return f"{gain.mean:+.4f} ± {gain.error:.4f}"


# -- few queries ------------------------------------------------------------------------------------------------------


def small(options: argparse.Namespace) -> dict[str, Any]:
    """NFCorpus' training queries cut to a few, dev untouched by all that is learned or chosen.

    The standard errors are those of drawing queries: all fits are measured by the same dev queries.
    """
    collection, dev = nfcorpus(options)
    bm25 = stemmed_bm25(collection.docs)
    ordinary = collection.held_out(bm25, dev)(bm25.weights)
    print(f"stemmed BM25 on {len(dev)} dev queries: {collection.measure} {ordinary:.4f}", flush=True)
    qids = sorted(collection.qrels)
    fits: list[dict[str, Any]] = []
    for seed in range(options.seed, options.seed + options.draws):
        for size in options.sizes:
            drawn = np.random.default_rng(seed).permutation(len(qids))[:size]
            subset = {qids[i]: collection.qrels[qids[i]] for i in sorted(drawn)}
            fitted = collection.fit(collection.docs, subset, options, seed)
            held_out = collection.held_out(fitted.model, dev)
            value, start = held_out(fitted.model.weights), held_out(fitted.start)
            row = {"queries": size, "seed": seed, "model": value, "start": start, "seconds": fitted.seconds}
            fits.append(row | {"accepted": fitted.accepted})
            gains = f"{value - ordinary:+.4f}, start {start - ordinary:+.4f}"
            print(f"  {size} queries, draw {seed}: {gains}, {fitted.decision}, {fitted.seconds:.1f} s", flush=True)
    rows = [_small_row(size, [fit for fit in fits if fit["queries"] == size], ordinary) for size in options.sizes]
    print_table(
        f"{collection.measure} on dev less that of stemmed BM25, {options.draws} draws; mean ± standard error",
        ["queries", "shipped", "worst", "below", "start", "shipped − start", "accepted", "seconds"],
        rows,
    )
    return {"stemmed BM25": ordinary, "fits": fits}


def _small_row(size: int, fits: Sequence[Mapping[str, Any]], ordinary: float) -> list[str]:
    model, start = (np.array([fit[name] for fit in fits]) - ordinary for name in ("model", "start"))
    shown = [f"{values.mean():+.4f} ± {standard_error(values):.4f}" for values in (model, start, model - start)]
    accepted = np.mean([fit["accepted"] for fit in fits])
    seconds = np.mean([fit["seconds"] for fit in fits])
    below = np.mean(model < -SAME)
    return [str(size), shown[0], f"{model.min():+.4f}", f"{below:.0%}", *shown[1:], f"{accepted:.0%}", f"{seconds:.1f}"]


# -- documents that training never saw --------------------------------------------------------------------------------


def documents(options: argparse.Namespace) -> dict[str, Any]:
    """A fifth of the documents is withheld from what is learned from, a fifth of the queries from everything.

    *Seen* are documents that are relevant to a query that was learned from, *new* all others. Each kind is measured
    with the relevant documents of the other kind left out of the ranking; irrelevant ones of both compete.
    """
    how = {"judgements": "in the collection without judgements", "documents": "added to the collection after learning"}
    results: dict[str, Any] = {}
    rows = []
    for name in options.collections:
        collection = READERS[name](options)
        split = Split.drawn(collection, options.withhold, options.seed)
        fitted = collection.fit(split.docs, split.train, options, options.seed)
        bm25 = stemmed_bm25(split.docs)
        values = by_kind(collection, split, bm25, bm25.weights)
        for kind, found in by_kind(collection, split, fitted.model, fitted.start, fitted.model.weights).items():
            values[kind] += found
        print(f"{name}: {split}; learning was {fitted.decision}, {fitted.seconds:.0f} s", flush=True)
        for kind, (ordinary, start, shipped) in values.items():
            means = [f"{part.mean():.4f}" for part in (ordinary, start, shipped)]
            gains = difference(start, shipped), difference(ordinary, shipped)
            rows.append([f"{name}, {collection.measure}", kind, str(shipped.size), *means, *gains])
        by_system = {kind: [float(part.mean()) for part in parts] for kind, parts in values.items()}
        results[name] = {"accepted": fitted.accepted, "seconds": fitted.seconds, "means": by_system}
    print_table(
        f"Held-out queries; a fifth of the documents withheld, {how[options.withhold]}; seed {options.seed}",
        ["", "relevant", "queries", "stemmed BM25", "start", "shipped", "shipped − start", "shipped − BM25"],
        rows,
    )
    return results


@dataclass(frozen=True, eq=False)
class Split:
    """What is learned from, and the queries to test on; ``seen`` are the documents that are relevant in training."""

    docs: Mapping[str, str]
    train: Qrels
    test: Qrels
    seen: frozenset[str]

    @classmethod
    def drawn(cls, collection: Collection, withhold: str, seed: int, n_queries: int | None = None) -> Split:
        """With ``n_queries``, only so many of the training queries are learned from."""
        rng = np.random.default_rng(seed)
        withheld = _fifth(collection.docs, rng)
        to_test = _fifth(collection.qrels, rng)
        docs = collection.docs
        if withhold == "documents":
            docs = {doc_id: text for doc_id, text in docs.items() if doc_id not in withheld}
        train = {
            qid: {doc_id: grade for doc_id, grade in judged.items() if doc_id not in withheld}
            for qid, judged in collection.qrels.items()
            if qid not in to_test and not (collection.linked and qid not in docs)
        }
        train = {qid: judged for qid, judged in train.items() if any(judged.values())}
        qids = sorted(train)
        train = {qids[i]: train[qids[i]] for i in sorted(rng.permutation(len(qids))[:n_queries])}
        seen = {doc_id for judged in train.values() for doc_id, grade in judged.items() if grade > 0}
        test = {qid: judged for qid, judged in collection.qrels.items() if qid in to_test}
        return cls(docs, train, test, frozenset(seen))

    def __str__(self) -> str:
        return (
            f"{len(self.train):,} training queries, {len(self.docs):,} documents, {len(self.seen):,} of them relevant "
            f"there, {len(self.test):,} test queries"
        )


def _fifth(ids: Iterable[str], rng: np.random.Generator) -> set[str]:
    names = sorted(ids)
    return {names[i] for i in rng.permutation(len(names))[: round(WITHHELD * len(names))]}


def by_kind(collection: Collection, split: Split, model: tc.TextModel, *weights: tc.Weights) -> dict[str, list[Values]]:
    """Values by query of weights over the words of a model, for each kind of relevant documents."""
    held_out = collection.held_out(model, split.test)
    is_seen = np.array([doc_id in split.seen for doc_id in collection.docs])
    kinds = {"all": np.ones_like(is_seen), "seen": is_seen, "new": ~is_seen}
    parts = {kind: of_kind(held_out, is_kind) for kind, is_kind in kinds.items()}
    return {kind: [part.values(one) for one in weights] for kind, part in parts.items() if part is not None}


def of_kind(held_out: tc.HeldOutQueries, is_kind: NDArray[np.bool_]) -> tc.HeldOutQueries | None:
    """The queries with relevant documents of a kind, all other relevant documents hidden; None where there are none."""
    grades = held_out.grades.tocoo()
    is_wanted = is_kind[grades.col]
    wanted, hidden = (
        sparse.csr_array((grades.data[kept], (grades.row[kept], grades.col[kept])), shape=grades.shape)
        for kept in (is_wanted, ~is_wanted & (grades.data > 0))
    )
    rows = np.flatnonzero(wanted.max(axis=1).toarray().ravel() > 0)
    if not rows.size:
        return None
    return replace(
        held_out,
        Q=held_out.Q[rows],
        grades=wanted[rows],
        hidden=hidden[rows],
        qids=tuple(held_out.qids[row] for row in rows),
        exclude=None if held_out.exclude is None else held_out.exclude[rows],
    )


# -- the steps of the recipe ------------------------------------------------------------------------------------------


def steps(options: argparse.Namespace) -> dict[str, Any]:
    """Each step of the recipe beside the one before it, on the test queries of `documents`."""
    results: dict[str, Any] = {}
    for name in options.collections:
        collection = READERS[name](options)
        split = Split.drawn(collection, "judgements", options.seed, options.queries)
        print(f"{name}: {split}", flush=True)
        words = tc.Vectoriser(weighting="bm25", k1=0.9, b=0.4).fit(split.docs.values())
        plain, ordinary = tc.TextModel(words, words, match(words)), stemmed_bm25(split.docs)
        systems: dict[str, dict[str, list[Values]]] = {
            "BM25, k1 .9, b .4, no stems": by_kind(collection, split, plain, plain.weights),
            "BM25, k1 1.2, b .75, stems": by_kind(collection, split, ordinary, ordinary.weights),
        }
        seconds: dict[str, float] = {}
        for step, settings in STEPS.items():
            fitted = collection.fit(split.docs, split.train, options, options.seed, **settings)
            weights = {"the start that training queries choose": fitted.start, step: fitted.model.weights}
            for system, one in weights.items():
                if system not in systems:
                    systems[system] = by_kind(collection, split, fitted.model, one)
            seconds[step] = fitted.seconds
            print(f"  {step}: {fitted.decision}, {fitted.seconds:.0f} s", flush=True)
        rows, above = [], None
        for system, values in systems.items():
            means = [f"{part.mean():.4f}" for [part] in values.values()]
            gains = [difference(above[kind][0], part) if above else "" for kind, [part] in values.items()]
            rows.append([system, *means, *gains, f"{seconds[system]:.0f}" if system in seconds else ""])
            above = values
        kinds = list(systems[step])
        print_table(
            f"{name}, {collection.measure} on {len(split.test):,} test queries, seed {options.seed}; changes from the "
            "row above",
            ["step", *kinds, *(f"change, {kind}" for kind in kinds), "seconds"],
            rows,
        )
        means = {
            system: {kind: float(part.mean()) for kind, [part] in parts.items()} for system, parts in systems.items()
        }
        results[name] = {"means": means, "seconds": seconds}
    return results


# -- all training queries ---------------------------------------------------------------------------------------------


def whole(options: argparse.Namespace) -> dict[str, Any]:
    """All of NFCorpus' training queries; dev is looked at when the model is there."""
    collection, dev = nfcorpus(options)
    bm25 = stemmed_bm25(collection.docs)
    ordinary = collection.held_out(bm25, dev).values(bm25.weights)
    print(f"stemmed BM25 on {len(dev)} dev queries: {collection.measure} {ordinary.mean():.4f}", flush=True)
    rows, fits = [], []
    for seed in range(options.seed, options.seed + options.seeds):
        fitted = collection.fit(collection.docs, collection.qrels, options, seed)
        held_out = collection.held_out(fitted.model, dev)
        start, model = (held_out.values(weights) for weights in (fitted.start, fitted.model.weights))
        means = [f"{values.mean():.4f}" for values in (start, model)]
        rows.append([str(seed), *means, difference(start, model), difference(ordinary, model), f"{fitted.seconds:.1f}"])
        fits.append({"start": start.mean(), "model": model.mean(), "seconds": fitted.seconds})
    print_table(
        f"NFCorpus, {collection.measure} on dev; differences ± standard errors over queries",
        ["seed", "start", "shipped", "shipped − start", "shipped − BM25", "seconds"],
        rows,
    )
    values = np.array([fit["model"] for fit in fits])
    print(f"mean {values.mean():.4f} ± {standard_error(values):.4f} over seeds")
    return {"stemmed BM25": ordinary.mean(), "fits": fits}


# -- classes ----------------------------------------------------------------------------------------------------------


def labelled(options: argparse.Namespace) -> dict[str, Any]:
    """20 Newsgroups: each test post is a query against all others, those of its group are relevant."""
    train, test = read_newsgroups(options.data_home)
    names = sorted(set(train.labels))
    rows, results = [], {}
    for n in options.classes:
        groups = {names[i] for i in np.linspace(0, len(names) - 1, n).round().astype(int)}
        some, asked = (of_groups(part, groups) for part in (train, test))
        with (clock := Clock()).running():
            model = tc.fit_labelled(
                some.texts, some.labels, test=(asked.texts, asked.labels), **default_call(options, options.seed)
            )
        assert model.report is not None
        assert model.report.compared is not None
        values = [system.values["AP"][0] for system in (model.report.compared[1], model.report.systems[-1])]
        data = newsgroups_rows(some, asked)
        with (rival_clock := Clock()).running():
            rival = ClassPosteriors().fit(data.X, data.y)
        posteriors = average_precision_of_classes(rival.weights_, rival.represent(data.X_test), data.y_test).mean()
        seconds = clock.processor, rival_clock.processor
        decision = Fitted(model, clock.processor).decision
        print(f"{len(groups)} classes: {values[-1]:.4f}, {decision}, {model.report.chosen}", flush=True)
        shown = [f"{value:.4f}" for value in (*values, posteriors)]
        rows.append([str(len(groups)), str(len(asked)), *shown, *(f"{spent:.1f}" for spent in seconds)])
        results[str(len(groups))] = {"start": values[0], "model": values[1], "posteriors": posteriors, "s": seconds}
    print_table(
        "20 Newsgroups, MAP of test posts, each against all others; seconds of processor time",
        ["classes", "queries", "start", "shipped", "posteriors", "seconds, fit", "of posteriors"],
        rows,
    )
    return results


def of_groups(posts: LabelledTexts, groups: set[str]) -> LabelledTexts:
    kept = [i for i, label in enumerate(posts.labels) if label in groups]
    return LabelledTexts(*([column[i] for i in kept] for column in (posts.texts, posts.labels, posts.names)))


# -- the command ------------------------------------------------------------------------------------------------------


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def names_of(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if wrong := [name for name in names if name not in READERS]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(READERS)}")
    return names


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Callable[[argparse.Namespace], dict[str, Any]]) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, description=run.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        add_shared_options(added)
        added.set_defaults(run=run)
        return added

    one = verb("small", small)
    one.add_argument("--sizes", type=numbers, default=SIZES, help="how many queries are drawn (default 30,60,120,240)")
    one.add_argument("--draws", type=int, default=20, help="draws of each size (default 20); --seed is the first")
    one = verb("documents", documents)
    one.add_argument("--withhold", choices=("judgements", "documents"), default="judgements", help="what of a document")
    one.add_argument("--collections", type=names_of, default=COLLECTIONS, help=f"default {','.join(COLLECTIONS)}")
    one = verb("nfcorpus", whole)
    one.add_argument("--seeds", type=int, default=3, help="how many fits (default 3); --seed is the first")
    one = verb("labelled", labelled)
    one.add_argument("--classes", type=numbers, default=CLASSES, help="how many, evenly spaced (default 20,10,5,2)")
    one = verb("steps", steps)
    one.add_argument("--collections", type=names_of, default=COLLECTIONS, help=f"default {','.join(COLLECTIONS)}")
    one.add_argument(
        "--queries", type=int, metavar="N", help="learn from so many of the training queries (default all)"
    )
    options = parser.parse_args(words)
    if getattr(options, "collections", None) != ("docstrings",):
        check_data_home(parser, options)
    facts = machine_facts()
    print_facts(facts)
    warm_up()
    results = options.run(options)
    write_json(options.output, {"machine": facts, "results": results})


if __name__ == "__main__":
    main()
