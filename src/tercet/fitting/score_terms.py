"""Terms of the score of words and memory on left-out queries; a sum of terms measures any mix.

    score(q, d) = words(q, d) + blend · q'd + weight · m / (|m| + half) + pooled · q'p_d     if d has evidence
    score(q, d) = words(q, d) + (blend + unseen) · q'd                                       otherwise

`tercet.memory` has m and p_d.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.fitting.task import EVERY, KNOWN, NEW, Fold, Past, Space, TextHeldOut
from tercet.kernels.topk import top_k
from tercet.measure.formulas import dcg, measure_block
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
from tercet.measure.names import Measure
from tercet.memory import MemorySettings
from tercet.memory.value import kernel_values, pooled_rows, saturated, unit_rows
from tercet.text.fielded import FieldedVectorizer
from tercet.weights import Weights

SHAPES: Final = ((0.0, 2.0), (0.3, 2.0), (0.0, 3.0), (0.3, 1.0), (0.5, 1.0))  # threshold and power of the similarity
_POOL: Final = 40  # best documents by each term, to compare settings on
_MOST_POOLED: Final = 400_000  # scores of a part; smaller parts compare settings on all documents
_BLOCK: Final = 2_000_000  # scores, and similarities, at a time

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Mix:
    """A setting of words and memory.

    Attributes
    ----------
    words : number of the candidate; None for the start alone
    blend : extra weight of plain matching, in units of the candidate's own
    shape : number of the similarity's shape in `SHAPES`
    weight, pooled : weight of memory in both forms, in units of a typical best score
    unseen : extra weight of plain matching for documents without evidence
    """

    words: int | None = None
    blend: float = 0.0
    shape: int = 0
    weight: float = 0.0
    pooled: float = 0.0
    unseen: float = 0.0

    @property
    def has_memory(self) -> bool:
        return bool(self.weight or self.pooled or self.unseen)

    def settings(self, scale: float, unit: float) -> MemorySettings:
        """Settings of memory, for a typical best score ``scale`` and weights with an identity of weight ``unit``."""
        threshold, power = SHAPES[self.shape]
        return MemorySettings(
            weight=self.weight * scale * unit,
            pooled=self.pooled * scale * unit,
            threshold=threshold,
            power=power,
            unseen=self.unseen * unit,
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the learned parts in use."""
        used = {"words": self.words is not None, "memory": self.has_memory}
        return tuple(name for name, is_used in used.items() if is_used)


class ScoreTerms:
    """Terms of the score on held-out queries, for the words and past queries of a fold.

    Parameters
    ----------
    held_out : queries with all their answers, or with known or new answers
    words : weights of each candidate, scaled to an identity of weight 1
    past : past queries of the fold; None without memory
    """

    def __init__(self, held_out: TextHeldOut, space: Space, words: Sequence[Weights], past: Past | None) -> None:
        self.held_out = held_out
        self.space, self.words = space, words
        self.past = past if past is not None and past.rows.size else None
        self.known = np.zeros(0, dtype=bool) if self.past is None else self.past.known
        if self.past is not None:
            n_words = words_of(space)
            asked = space.Q[self.past.rows]
            self._by_term = unit_rows(asked, n_words).T.tocsr()
            evidence = sparse.csr_array(self.past.evidence[:, np.flatnonzero(self.known)])
            self._pooled = pooled_rows(asked[:, :n_words], evidence).T.tocsr()

    def by_case(self, fold: Fold) -> list[tuple[str, ScoreTerms]]:
        """Terms for each case: all, known and new answers of left-out queries."""
        if fold.case != KNOWN:
            return [(str(fold.case), self)]
        if self.past is None:
            return [(EVERY, self), (KNOWN, self)]
        cases: list[tuple[str, ScoreTerms]] = [(EVERY, self)]
        for name, chosen in ((KNOWN, self.known), (NEW, ~self.known)):
            part = self.held_out.by_documents(chosen)
            if part is not None:
                cases.append((name, copy(self)))
                cases[-1][1].held_out = part
        return cases

    def dense(self, rows: slice, mixes: Iterable[Mix] | None = None) -> dict[Any, NDArray[np.float32]]:
        """Terms of a block of queries, (n_block, n_docs) each: the terms of given mixes, or all terms."""
        Q, D = self.held_out.Q, self.held_out.D
        Q = Q[rows]
        needed = None if mixes is None else {key for mix in mixes for key in _keys(mix)}
        terms: dict[Any, NDArray[np.float32]] = {"start": self.space.start.score(Q, D).astype(np.float32)}
        terms["match"] = terms["start"]
        if self.space.given_start is not None:
            terms["match"] = self.space.match.score(Q, D).astype(np.float32)
        for number, weights in enumerate(self.words):
            if needed is None or ("words", number) in needed:
                terms["words", number] = weights.score(Q, D).astype(np.float32)
        if self.past is not None:
            asked = unit_rows(Q, self._by_term.shape[0])
            cosine = sparse.csr_array(asked @ self._by_term)
            for number, shape in enumerate(SHAPES):
                if needed is None or ("memory", number) in needed:
                    kernel = cosine.copy()  # dropping zeros changes indices in place
                    kernel.data = kernel_values(cosine.data, *shape)
                    kernel.eliminate_zeros()
                    m = (kernel @ self.past.evidence).toarray()
                    terms["memory", number] = saturated(m, MemorySettings.half).astype(np.float32)
            if needed is None or "pooled" in needed:
                terms["pooled"] = np.zeros_like(terms["start"])
                terms["pooled"][:, self.known] = (asked @ self._pooled).toarray()
            terms["unseen"] = np.zeros_like(terms["start"])
            words = self._by_term.shape[0]
            plain = terms["match"] if words == Q.shape[1] else (Q[:, :words] @ D[:, :words].T).toarray()
            terms["unseen"][:, ~self.known] = plain[:, ~self.known]
        return terms

    def blocks(self) -> Iterator[slice]:
        """Blocks of queries within bounded memory."""
        n_queries, n_docs = self.held_out.Q.shape[0], self.held_out.D.shape[0]
        n_past = 0 if self.past is None else self.past.rows.size
        height = max(1, _BLOCK // max(1, n_docs, n_past))
        for start in range(0, n_queries, height):
            yield slice(start, min(start + height, n_queries))

    def exact(self, mixes: Sequence[Mix], scales: Mapping[Mix, float], measures: tuple[Measure, ...]) -> Values:
        """Measures of each query by ranking all documents, (n_mixes, n_queries, n_measures)."""
        held_out = self.held_out
        values = np.empty((len(mixes), len(held_out.qids), len(measures)))
        margins = np.empty((len(mixes), 0 if isinstance(held_out, HeldOutQueries) else len(held_out.preferences)))
        for block in self.blocks():
            terms = self.dense(block, mixes)
            for number, mix in enumerate(mixes):
                scores = total(terms, mix, scales[mix]).astype(np.float64)
                if isinstance(held_out, HeldOutQueries):
                    values[number, block] = held_out.measured(block, scores, measures)
                else:
                    prefs = held_out.preferences
                    in_block = (prefs.query >= block.start) & (prefs.query < block.stop)
                    rows = prefs.query[in_block] - block.start
                    margins[number, in_block] = (
                        scores[rows, prefs.better[in_block]] - scores[rows, prefs.worse[in_block]]
                    )
        if isinstance(held_out, HeldOutPreferences):
            values[:] = np.stack([held_out.shares(mix_margins) for mix_margins in margins])[:, :, None]
        return values

    def best(self, mix: Mix, scale: float, k: int) -> tuple[list[Values], list[NDArray[np.bool_]]]:
        """Scores above 0 of each query's k best documents, best first, and True for each document that answers it."""
        held_out, scores, right = self.held_out, [], []
        assert isinstance(held_out, HeldOutQueries)
        for block in self.blocks():
            values = total(self.dense(block, [mix]), mix, scale).astype(np.float64)
            if held_out.hidden is not None:
                values[held_out.hidden[block].nonzero()] = -np.inf
            answers = held_out.grades[block].toarray() > 0
            for row, answer in zip(values, answers, strict=True):
                top = np.argsort(-row, kind="stable")[:k]
                top = top[row[top] > 0]
                scores.append(row[top])
                right.append(answer[top])
        return scores, right


class Pool:
    """Documents that may reach the top of each query under some setting, with all terms, (n_queries, n_pooled) each."""

    def __init__(self, terms: ScoreTerms) -> None:
        held_out = terms.held_out
        self.held_out = held_out
        self.qids = held_out.qids
        blocks, ideal = [], []
        for block in terms.blocks():
            dense = terms.dense(block)
            columns = _pooled_columns(dense, held_out, block)
            row = np.arange(columns.shape[0])[:, None]
            pooled: dict[Any, NDArray[Any]] = {key: term[row, np.maximum(columns, 0)] for key, term in dense.items()}
            if isinstance(held_out, HeldOutQueries):
                grades = np.maximum(held_out.grades[block].toarray(), 0)
                pooled["grades"] = np.where(columns < 0, 0, grades[row, columns])
                if _is_top_ndcg(held_out.measure):
                    best = -np.sort(-grades, axis=1)[:, : held_out.measure.cutoff]
                    ideal.append(dcg(best, held_out.measure))
            blocks.append((columns, pooled))
        width = max(columns.shape[1] for columns, _ in blocks)
        self.columns = np.concatenate([_widened(columns, width, -1) for columns, _ in blocks])
        keys = blocks[0][1].keys()
        self.terms = {key: np.concatenate([_widened(terms[key], width, 0) for _, terms in blocks]) for key in keys}
        self.is_pad = self.columns < 0
        self._ideal = np.concatenate(ideal) if ideal else None
        if isinstance(held_out, HeldOutPreferences):
            prefs = held_out.preferences
            self.better, self.worse = (
                np.array([np.searchsorted(self._docs(row), doc) for row, doc in zip(prefs.query, docs, strict=True)])
                for docs in (prefs.better, prefs.worse)
            )

    def _docs(self, row: int) -> NDArray[np.int32]:
        return self.columns[row][~self.is_pad[row]]

    def values(self, mix: Mix, scale: float) -> Values:
        """The measure of each query, (n_queries,)."""
        scores = total(self.terms, mix, scale)
        if isinstance(self.held_out, HeldOutPreferences):
            rows = self.held_out.preferences.query
            margins = scores[rows, self.better] - scores[rows, self.worse]
            return self.held_out.shares(margins.astype(np.float64))
        scores = np.where(self.is_pad, -np.inf, scores)
        measure = self.held_out.measure
        if self._ideal is None or measure.cutoff is None:
            return measure_block(scores, self.terms["grades"], measure)[:, 0]
        shape = scores.shape[0], min(measure.cutoff, scores.shape[1])
        top, best = np.empty(shape, dtype=np.int32), np.empty(shape)
        top_k(scores.astype(np.float64), shape[1], top, best)
        gain = dcg(np.take_along_axis(self.terms["grades"], top, axis=1), measure)
        return gain / np.maximum(self._ideal, 1e-12)

    def best_scores(self, mix: Mix) -> NDArray[np.float32]:
        """The best score of each query by words alone, (n_queries,)."""
        scores = total(self.terms, Mix(mix.words, mix.blend), 0.0)
        best: NDArray[np.float32] = np.where(self.is_pad, -np.inf, scores).max(axis=1)
        return best


def total(terms: Mapping[Any, NDArray[np.float32]], mix: Mix, scale: float) -> NDArray[np.float32]:
    """Scores of a mix from its terms."""
    if mix.words is None:
        scores = terms["start"].copy()
    else:
        scores = terms["words", mix.words] + np.float32(mix.blend) * terms["match"]
    if mix.weight:
        scores += np.float32(mix.weight * scale) * terms["memory", mix.shape]
    if mix.pooled:
        scores += np.float32(mix.pooled * scale) * terms["pooled"]
    if mix.unseen:
        scores += np.float32(mix.unseen) * terms["unseen"]
    return scores


def _keys(mix: Mix) -> list[Any]:
    keys: list[Any] = [("words", mix.words)]
    return [*keys, *([("memory", mix.shape)] if mix.weight else []), *(["pooled"] if mix.pooled else [])]


def words_of(space: Space) -> int:
    """Number of word columns; columns of fields and numbers follow."""
    words = space.vectorizer
    return words.layout_.n_words if isinstance(words, FieldedVectorizer) else space.D.shape[1]


def _pooled_columns(terms: Mapping[Any, NDArray[np.float32]], held_out: TextHeldOut, block: slice) -> NDArray[np.int32]:
    """Documents of each query to compare, in rising order, padded with -1, (n_block, n_pooled)."""
    n_docs = held_out.D.shape[0]
    if isinstance(held_out, HeldOutPreferences):
        prefs = held_out.preferences
        in_block = (prefs.query >= block.start) & (prefs.query < block.stop)
        row = np.tile(prefs.query[in_block] - block.start, 2)
        keys = np.unique(row * np.int64(n_docs) + np.concatenate([prefs.better[in_block], prefs.worse[in_block]]))
        return _ragged(keys // n_docs, keys % n_docs, block.stop - block.start)
    is_pooled = np.zeros((block.stop - block.start, n_docs), dtype=bool)
    if len(held_out.qids) * n_docs <= _MOST_POOLED or n_docs <= _POOL:
        is_pooled[:] = True
    else:
        for key, term in terms.items():
            if key == "match" and terms["match"] is terms["start"]:
                continue
            top = np.argpartition(-term, _POOL, axis=1)[:, :_POOL]
            np.put_along_axis(is_pooled, top, True, axis=1)
        if not _is_top_ndcg(held_out.measure):
            judged = held_out.grades[block].tocoo()
            is_pooled[judged.row, judged.col] = True
    if held_out.hidden is not None:
        hidden = held_out.hidden[block].tocoo()
        is_pooled[hidden.row, hidden.col] = False
    rows, columns = np.nonzero(is_pooled)
    return _ragged(rows, columns, is_pooled.shape[0])


def _is_top_ndcg(measure: Measure) -> bool:
    """True for nDCG@k, a function of the best k documents and the ideal ranking."""
    return measure.name == "nDCG" and measure.cutoff is not None


def _ragged(rows: NDArray[Any], columns: NDArray[Any], n_rows: int) -> NDArray[np.int32]:
    """Columns of each row in the order given, padded with -1, (n_rows, width)."""
    sizes = np.bincount(rows, minlength=n_rows)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    padded = np.full((n_rows, max(1, int(sizes.max(initial=0)))), -1, dtype=np.int32)
    padded[rows, np.arange(rows.size) - starts[rows]] = columns
    return padded


def _widened(rows: NDArray[Any], width: int, value: float) -> NDArray[Any]:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=value)
