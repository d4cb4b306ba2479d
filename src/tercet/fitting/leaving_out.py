"""Leave evidence out: queries in turn, and whole answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from tercet.data.cells import plain_text

FEWEST_QUERIES: Final = 10  # a fit with fewer queries holds none out
N_FOLDS: Final = 5
_FEW: Final = 300  # up to this number, queries are left out twice
_ENOUGH: Final = 500  # queries to decide by; further queries stay in the training part of every fold
_SIMILAR: Final = 0.6  # cosine of similar documents, left out together
_LARGEST_GROUP: Final = 0.05  # share of the catalog
_MOST_DOCUMENTS: Final = 0.1  # share of answers to leave out together
_MOST_QUERIES: Final = 0.5  # share of queries to leave out with the answers
_FEWEST_NEW: Final = 5  # queries with new answers
_MOST_TO_COMPARE: Final = 20_000  # documents; in a larger set, each document is a group


class Selection(NamedTuple):
    """Evidence to learn from.

    Attributes
    ----------
    queries : mask of the queries to keep, (n_queries,)
    withheld : mask of the documents to leave out, (n_docs,)
    before : number of lists to keep, from the beginning of a click log
    """

    queries: NDArray[np.bool_]
    withheld: NDArray[np.bool_]
    before: float = inf


def folds_of(
    qids: Sequence[str], random_state: int, *, enough: int = _ENOUGH, texts: Mapping[str, str] | None = None
) -> list[list[str]]:
    """Split queries into folds of a fifth each, up to ``enough`` queries; few queries are left out twice.

    Queries of the same text share a fold, so that no model has learned the text of a left-out query. With too few
    texts, queries of the same text may be in different folds.

    Examples
    --------
    >>> folds = folds_of([f"q{i}" for i in range(20)], 0)
    >>> len(folds), sorted(sum(folds[:5], [])) == sorted(f"q{i}" for i in range(20))
    (10, True)
    >>> [len(fold) for fold in folds_of([f"q{i}" for i in range(4000)], 0)]
    [500]
    >>> folds = folds_of([f"q{i}" for i in range(20)], 0, texts={f"q{i}": f"text {i // 2}" for i in range(20)})
    >>> folds[0]
    ['q16', 'q17', 'q2', 'q3']
    """
    alike = {} if texts is None else queries_by_text(sorted(qids), texts)
    if FEWEST_QUERIES <= len(alike) < len(qids):
        together = {same[0]: same for same in alike.values()}
        firsts = folds_of(list(together), random_state, enough=enough)
        return [[qid for first in fold for qid in together[first]] for fold in firsts]
    ordered, rng = sorted(qids), np.random.default_rng(random_state)
    n_repeats = 2 if len(ordered) < _FEW else 1
    folds: list[list[str]] = []
    for _ in range(n_repeats):
        parts = np.array_split(rng.permutation(len(ordered)), N_FOLDS)
        folds += [[ordered[number] for number in sorted(part[:enough])] for part in parts]
    sizes = np.cumsum([len(fold) for fold in folds])
    n_needed = int(np.searchsorted(sizes, enough)) + 1
    return folds[:n_needed] if n_needed < N_FOLDS else folds


def queries_by_text(qids: Iterable[str], texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Group queries by text, ignoring case and blanks."""
    alike: dict[str, list[str]] = {}
    for qid in qids:
        alike.setdefault(plain_text(texts[qid]), []).append(qid)
    return alike


def alike_notes(qids: Sequence[str], texts: Mapping[str, str]) -> tuple[str, ...]:
    """Note queries of the same text in different folds."""
    n_texts = len(queries_by_text(qids, texts))
    if n_texts == len(qids) or n_texts >= FEWEST_QUERIES:
        return ()
    return (
        f"{len(qids):,} queries have {n_texts} different texts, too few to leave all queries of a text out together. "
        "Measured values are too high: queries of one text were in learning and in measuring.",
    )


def split_text(n_folds: int, n_queries: int, what: str = "query") -> str:
    """Describe the folds of queries, or texts."""
    why = "to choose and report on the model; the final model learned from all"
    if n_folds < N_FOLDS:
        many = {"query": "queries", "text": "texts"}[what]
        folds = "one fit" if n_folds == 1 else f"{n_folds} fits"
        return f"{n_queries:,} {many} were left out of {folds}, {why}."
    times = "once" if n_folds == N_FOLDS else "twice"
    return f"Each {what} was left out {times}, in {N_FOLDS} folds, {why}."


# -- new answers ------------------------------------------------------------------------------------------------------


def new_answers(
    answers: sparse.csr_array, D: sparse.csr_array, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
    """Choose queries and answers to leave out together, so that no remaining query has a left-out answer.

    Whole components of the graph of queries and answers are left out. If a single component holds more than half of the
    queries, groups of similar documents are left out instead, each with all of its queries.

    Parameters
    ----------
    answers : (n_queries, n_docs), non-zero for answers
    D : document rows, to find similar documents

    Returns
    -------
    Numbers of the queries, and a mask of the answers, (n_docs,); None if too few queries would be left out, or too few
    would remain.

    Examples
    --------
    >>> answers = sparse.csr_array(np.kron(np.eye(10), np.ones((2, 1))))
    >>> queries, docs = new_answers(answers, sparse.eye_array(10, format="csr"), np.random.default_rng(0))
    >>> queries.tolist(), int(docs.sum())
    ([4, 5, 8, 9, 12, 13], 3)
    """
    n_queries, n_docs = answers.shape
    if n_queries < FEWEST_QUERIES:
        return None
    n_wanted = max(_FEWEST_NEW, min(_ENOUGH, n_queries // N_FOLDS))
    graph = sparse.csr_array(
        (np.ones(answers.nnz, dtype=np.int8), answers.indices, answers.indptr), shape=answers.shape
    )
    joined = sparse.block_array([[None, graph], [graph.T, None]], format="csr")
    component = connected_components(joined, directed=False)[1]
    of_query = component[:n_queries]
    docs = np.zeros(n_docs, dtype=bool)
    if np.bincount(of_query).max() <= _MOST_QUERIES * n_queries:
        order = rng.permutation(np.unique(of_query))
        n_chosen = int(np.searchsorted(np.cumsum(np.bincount(of_query)[order]), n_wanted)) + 1
        queries = np.flatnonzero(np.isin(of_query, order[:n_chosen]))
        docs[answers[queries].indices] = True
    else:
        docs = _left_out_groups(answers, D, rng)
        queries = np.unique(answers.tocoo().row[docs[answers.tocoo().col]])
    if queries.size < _FEWEST_NEW or n_queries - queries.size < FEWEST_QUERIES // 2:
        return None
    return queries.astype(np.int64), docs


def _left_out_groups(answers: sparse.csr_array, D: sparse.csr_array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of the answers in randomly drawn groups of similar documents, (n_docs,)."""
    docs_with_answers = np.unique(answers.indices)
    group = np.arange(docs_with_answers.size)
    if docs_with_answers.size <= _MOST_TO_COMPARE:
        rows = sparse.csr_array(D[docs_with_answers], dtype=np.float32)
        length = np.sqrt(rows.multiply(rows).sum(axis=1))
        rows = sparse.csr_array(sparse.diags_array(1 / np.maximum(length, 1e-12)) @ rows)
        similar = sparse.csr_array(rows @ rows.T)
        similar.data = similar.data * (similar.data >= _SIMILAR)
        similar.eliminate_zeros()
        group = connected_components(similar, directed=False)[1]
    sizes = np.bincount(group)
    n_queries_of = np.bincount(answers.indices, minlength=answers.shape[1])[docs_with_answers]
    in_group = np.bincount(group, n_queries_of)
    most_docs, most_queries = max(1, _MOST_DOCUMENTS * docs_with_answers.size), _MOST_QUERIES * answers.shape[0]
    docs = np.zeros(answers.shape[1], dtype=bool)
    n_docs = n_queries = 0
    for number in rng.permutation(sizes.size):
        if sizes[number] > max(1, _LARGEST_GROUP * answers.shape[1]) or n_queries + in_group[number] > most_queries:
            continue
        if n_docs + sizes[number] > most_docs:
            break
        docs[docs_with_answers[group == number]] = True
        n_docs, n_queries = n_docs + sizes[number], n_queries + in_group[number]
    return docs
