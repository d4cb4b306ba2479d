"""A weights value as an index uses it: queries expanded, documents as latent factors, a few of them scored exactly."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.errors import InputError
from tercet.kernels.postings import score_latent, score_rows_of
from tercet.kernels.rows import CsrRows, QueryRow
from tercet.search import in_numpy
from tercet.store.digest import state_digest
from tercet.weights import LowRank, Mapped, Part, Weights
from tercet.weights.scoring import Matrix, as_matrix, in_double

_EXPANDED_BYTES = 64 * 2**20  # a block of queries expanded to all words


@dataclass(frozen=True, eq=False)
class LatentPart:
    """A low-rank part behind any number of word maps, the outermost first."""

    maps: tuple[Mapped, ...]
    part: LowRank
    scale: float

    @classmethod
    def from_part(cls, part: Part) -> LatentPart | None:
        if not part.is_low_rank:
            return None
        maps, scale = [], 1.0
        while part.inner is not None:
            maps.append(cast(Mapped, part))
            scale *= part.scale
            part = part.inner
        return cls(tuple(maps), cast(LowRank, part), scale * part.scale)

    def queries(self, Q: Matrix | QueryRow) -> NDArray[np.float64]:
        for word_map in self.maps:
            Q = word_map.map_queries(as_matrix(Q))
        return self.part.latent_queries(Q) * self.scale  # (n_q, n_components)

    def _mapped_docs(self, D: Matrix) -> Matrix:
        for word_map in self.maps:
            D = word_map.map_docs(D)
        return D

    def factors(self, D: Matrix) -> NDArray[np.float64]:
        """Latent documents (n_d, n_components), a per-document scale folded in."""
        D = self._mapped_docs(D)
        latent, doc_scale = self.part.latent_docs(D), self.part.doc_scale(D)
        return latent if doc_scale is None else latent * doc_scale[:, None]

    def score(self, latent_query: NDArray[np.float64], docs: CsrRows, short: bool) -> NDArray[np.float64]:
        """Scores in double precision, from the words of the documents and not from stored factors."""
        if self.maps:
            shape = len(docs.indptr) - 1, self.maps[0].shape[1]
            docs = self._mapped_docs(sparse.csr_array((docs.data, docs.indices, docs.indptr), shape=shape))
        rows = in_double(docs)
        typical = -1.0 if self.part.typical_length is None else float(self.part.typical_length)
        if short:
            return in_numpy.score_latent(rows, self.part.doc_factors, latent_query, typical)
        scores = np.empty(len(rows.indptr) - 1)
        score_latent(rows, self.part.doc_factors, latent_query, typical, scores)
        return scores


@dataclass(eq=False, slots=True)
class ExpandedQueries:
    """Expanded queries: the weighted words of each plain part, and latent vectors.

    Query i has from part p the entries from starts[i, p] to stops[i, p] of ``terms`` and ``weights``; the latent
    vectors of each low-rank part are (n_q, n_components).
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    terms: NDArray[np.int32]
    weights: NDArray[np.float64]
    latent: tuple[NDArray[np.float64], ...]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def most_terms(self) -> int:
        """Bound of the words of a query."""
        return self.terms.size if len(self) == 1 else int((self.stops - self.starts).sum(axis=1).max(initial=0))

    def one(self, i: int) -> ExpandedQueries:
        """A query by itself."""
        if len(self) == 1:
            return self
        only = slice(i, i + 1)
        return replace(
            self, starts=self.starts[only], stops=self.stops[only], latent=tuple(x[only] for x in self.latent)
        )

    def words(self) -> in_numpy.Words:
        """The words of a lone query, a list for each plain part."""
        parts = []
        for start, stop in zip(self.starts[0].tolist(), self.stops[0].tolist(), strict=True):
            words = zip(self.terms[start:stop].tolist(), self.weights[start:stop].tolist(), strict=True)
            parts.append(sorted((term, weight) for term, weight in words if weight != 0.0))
        return parts

    def with_part(self, rows: CsrRows) -> ExpandedQueries:
        """Return the queries with the words of another plain part, a row for each query."""
        more = _assembled([rows], len(self), self.latent)
        return replace(
            self,
            starts=np.hstack([self.starts, more.starts + len(self.terms)]),
            stops=np.hstack([self.stops, more.stops + len(self.terms)]),
            terms=np.concatenate([self.terms, more.terms]),
            weights=np.concatenate([self.weights, more.weights]),
        )


class Scorer:
    """Splits weights into plain parts, for expanding queries to words, and low-rank parts.

    The fingerprint names latent documents. The last ``n_added`` words, unknown to low-rank parts, do not change the
    fingerprint.
    """

    def __init__(self, weights: Weights, n_added: int = 0) -> None:
        self.weights = weights
        self.plain: list[Part] = []
        self.latent: list[LatentPart] = []
        low_rank: list[Part] = []
        for part in weights.parts:
            latent = LatentPart.from_part(part)
            if latent is None:
                self.plain.append(part)
            else:
                self.latent.append(latent)
                low_rank.append(part)
        self.n_terms = weights.shape[1]
        self.n_components = sum(latent.part.query_factors.shape[1] for latent in self.latent)
        fitted = [part.ungrown(n_added) for part in low_rank]
        self.fingerprint = state_digest(Weights(fitted)) if fitted else ""

    def with_part(self, part: Part) -> Scorer:
        """Return the scorer with another plain part and the same latent documents."""
        scorer = copy(self)
        scorer.weights, scorer.plain = Weights([*self.weights.parts, part]), [*self.plain, part]
        return scorer

    def factors(self, D: Matrix) -> NDArray[np.float32]:
        """Return latent documents for a segment, (n_d, n_components)."""
        with np.errstate(over="ignore"):
            factors = np.hstack([part.factors(D) for part in self.latent]).astype(np.float32)
        if not np.isfinite(factors).all():
            raise InputError("latent documents of these weights are beyond 3.4e38, the largest number of an index")
        return factors

    def expand(self, Q: Matrix | QueryRow) -> Iterator[ExpandedQueries]:
        """Expand queries, in blocks of bounded memory."""
        thin = all(part.is_diagonal for part in self.plain)
        height = 1024 if thin else max(1, _EXPANDED_BYTES // (8 * max(1, self.n_terms)))
        for start in range(0, Q.shape[0], height):
            yield self.expanded(Q if Q.shape[0] <= height else as_matrix(Q)[start : start + height])

    def expanded(self, Q: Matrix | QueryRow) -> ExpandedQueries:
        """Expand a query, or all queries of a block."""
        latent = tuple([part.queries(Q) for part in self.latent])
        expanded = [part.expand_entries(Q if part.is_diagonal else as_matrix(Q)) for part in self.plain]
        return _assembled(expanded, len(Q.indptr) - 1, latent)

    def exact(
        self,
        query: ExpandedQueries,
        words: NDArray[np.float64] | None,
        rows: CsrRows,
        listed: NDArray[np.int32],
        docs: CsrRows | None,
    ) -> NDArray[np.float64]:
        """Return scores of listed rows in double precision, for a lone query.

        Kernels score a query spread over ``words``, NumPy a query without ``words``. ``docs`` are the same documents
        for low-rank parts.
        """
        if words is None:
            scores = in_numpy.score_rows(rows, listed, query.words())
        else:
            scores = np.empty(len(listed))
            score_rows_of(listed, rows, words, scores)
        for part, latent in zip(self.latent, query.latent, strict=True):
            assert docs is not None
            scores += part.score(latent[0], docs, words is None)
        return scores


class ExactScores:
    """Scores of documents as rows of a matrix, equal to the bit to the scores of an index.

    Parameters
    ----------
    scorer : scorer of the weights
    query : expanded query of `Scorer.expand`
    """

    def __init__(self, scorer: Scorer, query: ExpandedQueries) -> None:
        self._scorer, self._query = scorer, query
        self._words = np.zeros((len(scorer.plain), scorer.n_terms))
        for part, (start, stop) in enumerate(zip(query.starts[0], query.stops[0], strict=True)):
            self._words[part, query.terms[start:stop]] = query.weights[start:stop]
        self.terms: NDArray[np.int32] = np.flatnonzero(self._words.any(axis=0)).astype(np.int32)

    @property
    def totals(self) -> NDArray[np.float64]:
        """Weights of the query's ``terms``, summed over all plain parts."""
        return self._words[:, self.terms].sum(axis=0)

    def __call__(self, D: sparse.csr_array) -> NDArray[np.float64]:
        """The score of each row of canonical CSR float32."""
        rows = CsrRows(D.indptr.astype(np.uint32), D.indices.astype(np.int32), D.data.astype(np.float32))
        for array in rows:
            array.flags.writeable = False  # read-only like arrays of segments: one compiled kernel serves both
        listed = np.arange(D.shape[0], dtype=np.int32)
        words = None if in_numpy.covers_rows(len(listed)) else self._words
        return self._scorer.exact(self._query, words, rows, listed, rows)


def _assembled(parts: list[CsrRows], n: int, latent: tuple[NDArray[np.float64], ...]) -> ExpandedQueries:
    if len(parts) == 1:
        indptr, terms, weights = parts[0]
        ends = indptr.astype(np.int64)
        return ExpandedQueries(
            ends[:-1].reshape(n, 1), ends[1:].reshape(n, 1), terms.astype(np.int32, copy=False), weights, latent
        )
    starts, stops = np.empty((n, len(parts)), dtype=np.int64), np.empty((n, len(parts)), dtype=np.int64)
    before = 0
    for p, (indptr, terms, _) in enumerate(parts):
        starts[:, p], stops[:, p] = indptr[:-1], indptr[1:]
        starts[:, p] += before
        stops[:, p] += before
        before += len(terms)
    all_terms = np.concatenate([np.empty(0, np.int32), *(terms for _, terms, _ in parts)]).astype(np.int32)
    all_weights = np.concatenate([np.empty(0), *(weights for _, _, weights in parts)])
    return ExpandedQueries(starts, stops, all_terms, all_weights, latent)
