"""Which features do sparse rankers select, and do they select the same ones from other queries?

The 100 best documents by BM25 of every NFCorpus query become LETOR rows of 53 text features, beside as many that are
worth nothing: half of them noise, half true features of other rows. Each method learns from several draws of training
queries that share none, with its defaults, and ranks the documents of the dev queries, on which nothing is chosen. A
method is stable where few worthless features are selected and the same true ones by every draw.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

import tercet as tc
from common import Clock, parse_arguments, print_table, say_if_disturbed, write_json
from tercet.choose import standard_error
from tercet.data import LetorData
from tercet.data.beir import JudgedTexts, read_beir
from tercet.measure import measure_rows

DEPTH = 100
MEASURE = "nDCG(dcg='exp-log2')@10"
SIZES = {100: 5, 300: 5, 700: 3}  # training queries of a draw, and how many draws
FIELDS = ("title", "body", "all")

Matrix = NDArray[np.float32]


# -- rows -------------------------------------------------------------------------------------------------------------


def fields_of(text: str) -> dict[str, str]:
    """Title and abstract of a document; its title ends at the word "abstract"."""
    title, _, body = text.partition(" abstract ")
    return {"title": title if body else "", "body": body or title, "all": text}


def pairs_of_field(Q: sparse.csr_array, C: sparse.csr_array) -> Iterator[tuple[str, Matrix]]:
    """Features of every query with every document (n_queries, n_docs), from their counts of the same words."""
    n_docs = C.shape[0]
    asked, has = Q.sign().astype(np.float32), C.sign().astype(np.float32)
    n_with = np.asarray(has.sum(axis=0)).ravel()
    idf = np.log(1 + (n_docs - n_with + 0.5) / (n_with + 0.5)).astype(np.float32)
    lengths = np.asarray(C.sum(axis=1)).ravel().astype(np.float32)
    mean_length = lengths.mean()
    row = np.repeat(np.arange(n_docs), np.diff(C.indptr))
    share = np.asarray(C.sum(axis=0)).ravel() / C.sum()

    def against(values: NDArray[Any]) -> Matrix:
        """The sum over asked words of these values of a document's words."""
        weighted = sparse.csr_array((values.astype(np.float32), C.indices, C.indptr), shape=C.shape)
        return (asked @ weighted.T).toarray()

    tf, word = C.data.astype(np.float32), C.indices
    for k1, b in ((0.9, 0.4), (1.2, 0.75), (2.0, 0.9)):
        kept = tf + k1 * (1 - b + b * lengths[row] / mean_length)
        yield f"bm25 {k1} {b}", against(idf[word] * tf * (k1 + 1) / kept)
    tf_idf = (1 + np.log(tf)) * idf[word]
    norms = np.sqrt(np.bincount(row, tf_idf**2, n_docs))
    yield "tf-idf cosine", against(tf_idf / np.maximum(norms[row], 1e-9))
    yield "tf-idf sum", against(tf * idf[word])
    yield "tf sum", against(tf)
    yield "log tf sum", against(np.log1p(tf))
    yield "tf share", against(tf / np.maximum(lengths[row], 1))
    yield "words matched", against(np.ones_like(tf))
    yield "idf matched", against(idf[word])
    for mu in (100.0, 1000.0):
        smoothed = np.log1p(tf / (mu * share[word])).astype(np.float32)
        n_asked = np.asarray(asked.sum(axis=1)).ravel()
        yield f"Dirichlet {mu:g}", against(smoothed) + n_asked[:, None] * np.log(mu / (mu + lengths))
    for other in (0.1, 0.7):
        yield (
            f"Jelinek-Mercer {other}",
            against(np.log1p((1 - other) * tf / (np.maximum(lengths[row], 1) * other * share[word]))),
        )
    n_queries = Q.shape[0]
    for name, values in (("length", lengths), ("distinct", np.diff(C.indptr)), ("1 / length", 1 / (1 + lengths))):
        yield name, np.broadcast_to(values.astype(np.float32), (n_queries, n_docs))


def letor_rows(data: JudgedTexts, split: str) -> tuple[LetorData, list[str]]:
    """The best documents of each query by BM25 with their features, and the names of these.

    Documents without a match are left out, and queries without a relevant and an irrelevant one among the others.
    """
    judged, docs = data.split(split), [fields_of(text) for text in data.docs.values()]
    vectoriser = CountVectorizer(analyzer=tc.Analyser(stop_words="english", stemmer="english")).fit(
        [doc["all"] for doc in docs]
    )
    counts = {field: sparse.csr_array(vectoriser.transform([doc[field] for doc in docs])) for field in FIELDS}
    Q = sparse.csr_array(vectoriser.transform([data.queries[qid] for qid in judged]))
    _, first = next(pairs_of_field(Q, counts["all"]))
    numbers = {doc_id: number for number, doc_id in enumerate(data.docs)}
    queries, columns, grades, qids = [], [], [], []
    for query, (qid, own) in enumerate(judged.items()):
        order = np.argsort(-first[query], kind="stable")[:DEPTH]
        found = np.sort(order[first[query, order] > 0])  # in the order of the collection, which says nothing
        of_doc = {numbers[doc_id]: grade for doc_id, grade in own.items()}
        y = np.array([of_doc.get(int(doc), 0) for doc in found], dtype=np.int64)
        if y.any() and not y.all():
            queries.append(np.full(len(found), query))
            columns.append(found)
            grades.append(y)
            qids += [qid] * len(found)
    places = np.concatenate(queries), np.concatenate(columns)
    features = {
        f"{field}: {name}": values[places] for field in FIELDS for name, values in pairs_of_field(Q, counts[field])
    }
    asked = np.asarray(Q.sign().sum(axis=1), dtype=np.float32).ravel()[places[0]]
    for field in ("title", "all"):
        features[f"{field}: share of the query matched"] = features[f"{field}: words matched"] / np.maximum(asked, 1)
    return LetorData(np.column_stack(list(features.values())), np.concatenate(grades), np.array(qids)), list(features)


def with_worthless(rows: LetorData, seed: int) -> LetorData:
    """As many features again that say nothing: noise, and values that true features have in other rows."""
    rng = np.random.default_rng(seed)
    n_rows, n_true = rows.X.shape
    n_noise = n_true // 2
    noise = rng.standard_normal((n_rows, n_noise)).astype(np.float32)
    of_others = np.column_stack([rng.permutation(rows.X[:, column]) for column in range(n_true - n_noise)])
    return LetorData(np.hstack([rows.X, noise, of_others]), rows.y, rows.qid)


# -- methods ----------------------------------------------------------------------------------------------------------


def by_path(choose: str) -> Callable[[LetorData, int], Any]:
    def learn(rows: LetorData, seed: int) -> Any:
        model = tc.fit_letor(rows, measure=MEASURE, choose=choose, random_state=seed, verbose=False)
        return model.ranker

    return learn


def by_ranker(make: Callable[..., Any], **how: Any) -> Callable[[LetorData, int], Any]:
    return lambda rows, seed: make(random_state=seed, **how).fit(rows.X, rows.y, qid=rows.qid)


METHODS: dict[str, Callable[[LetorData, int], Any]] = {
    "FTRL path, best by cross-validation": by_path("best"),
    "FTRL path, sparsest within 1 s.e.": by_path("sparsest"),
    "MeanRanker()": by_ranker(tc.MeanRanker),
    "MeanRanker(largest=10)": by_ranker(tc.MeanRanker, largest=10),
    "StableRanker()": by_ranker(tc.StableRanker),
    "StableRanker(max_false=5)": by_ranker(tc.StableRanker, max_false=5.0),
}


def draws(rows: LetorData, n_queries: int, n_draws: int, seed: int) -> Iterator[LetorData]:
    """Rows of training queries, no query in two draws."""
    order = np.random.default_rng(seed).permutation(rows.qids)
    for number in range(n_draws):
        own = np.isin(rows.qid, order[number * n_queries : (number + 1) * n_queries])
        yield LetorData(rows.X[own], rows.y[own], rows.qid[own])


def agreement(supports: list[NDArray[np.bool_]]) -> float:
    """The mean over pairs of draws of features that both select, of those that one of them does."""
    return float(np.mean([(a & b).sum() / max((a | b).sum(), 1) for a, b in combinations(supports, 2)]))


def main() -> None:
    arguments = parse_arguments(__doc__)
    data = read_beir(arguments.data_home / "nfcorpus")
    (train, names), (dev, _) = (letor_rows(data, split) for split in ("train", "dev"))
    n_true = train.n_features
    train, dev = with_worthless(train, arguments.seed), with_worthless(dev, arguments.seed + 1)
    print(
        f"{train.n_queries:,} training queries with {len(train):,} rows, {dev.n_queries} dev queries with {len(dev):,}"
    )
    print(f"{n_true} true features, {train.n_features - n_true} worthless ones")
    records, clocks = [], []
    for n_queries, n_draws in {50: 2}.items() if arguments.quick else SIZES.items():
        first = None
        for method, learn in METHODS.items():
            supports, values, worthless, seconds = [], [], [], []
            for number, rows in enumerate(draws(train, n_queries, n_draws, arguments.seed)):
                clock = Clock()
                with clock.running():
                    ranker = learn(rows, number)
                clocks.append(clock)
                used = ranker.coef_ != 0
                supports.append(used[:n_true])
                worthless.append(int(used[n_true:].sum()))
                seconds.append(clock.processor)
                values.append(measure_rows(dev.y, ranker.predict(dev.X), dev.qid, MEASURE).values[:, 0])
            by_query = np.mean(values, axis=0)  # over draws
            often = np.mean(supports, axis=0)
            first = by_query if first is None else first
            records.append(
                {
                    "training queries": n_queries,
                    "method": method,
                    "draws": n_draws,
                    "true features": float(np.mean([support.sum() for support in supports])),
                    "worthless": float(np.mean(worthless)),
                    "agreement": agreement(supports),
                    "nDCG@10": float(by_query.mean()),
                    "s.e.": standard_error(by_query),
                    "to the first": float((by_query - first).mean()),
                    "its s.e.": standard_error(by_query - first),
                    "least, most of the draws": [float(f(np.mean(values, axis=1))) for f in (min, max)],
                    "seconds": float(np.median(seconds)),
                    "in every draw": [names[column] for column in np.flatnonzero(often == 1)],
                }
            )
            print(f"{n_queries} queries, {method}: done", flush=True)
    shown = ("training queries", "method", "true features", "worthless", "agreement")
    table = [
        [
            *(f"{record[name]:.2f}" if isinstance(record[name], float) else record[name] for name in shown),
            f"{record['nDCG@10']:.4f} ± {record['s.e.']:.4f}",
            f"{record['to the first']:+.4f} ± {record['its s.e.']:.4f}",
            " to ".join(f"{value:.4f}" for value in record["least, most of the draws"]),
            f"{record['seconds']:.1f}",
        ]
        for record in records
    ]
    print_table(
        "Features that draws of queries select, NFCorpus dev",
        [*shown, "nDCG@10", "to the first", "draws", "processor s"],
        table,
    )
    say_if_disturbed(clocks)
    write_json(arguments.output, {"rows": records})


if __name__ == "__main__":
    main()
