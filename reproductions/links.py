"""Tasks of queries with links: the documents a query links to should come before all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reproductions.plan import WordSelection
from reproductions.tasks import (
    TEST_SEED,
    ClassTask,
    Measured,
    WeightedMatch,
    WordMap,
    wrong_preferences,
)
from tercet.data import JudgementSampler, Preferences
from tercet.errors import InputError
from tercet.measure import HeldOutQueries, parse_measure
from tercet.text import CorrelatedWords

TEST_SHARE, VALIDATION_SHARE = 0.3, 0.1  # of all links or documents, and of the links that are left
VALIDATION_DOCS = 0.15  # of the documents that are left
_SPLIT_SEED = 0
_MEASURES = (parse_measure("AP"), parse_measure("P@10"))

Links = NDArray[np.int64]  # (n, 2): article that links, document linked to


@dataclass(frozen=True, eq=False)
class LinkTask:
    """Articles that link to documents; rows a, a + n, a + 2 n, … of Q are queries of article a.

    ``hides_itself``: document a is article a or a translation, and no answer. With documents split, tests rank
    documents from ``first_test_doc`` on, validation ranks documents from ``first_validation_doc`` to there, and
    training sees neither; otherwise both are 0.
    """

    Q: sparse.csr_array
    D: sparse.csr_array
    n_articles: int
    train_links: Links
    validation_links: Links
    test_links: Links
    hides_itself: bool
    test_queries: int
    validation_queries: int
    first_test_doc: int = 0
    first_validation_doc: int = 0
    words: list[str] | None = None
    query_blocks: Mapping[str, slice] = field(default_factory=dict)
    doc_blocks: Mapping[str, slice] = field(default_factory=dict)

    def statistics(self) -> dict[str, int]:
        return {
            "documents": self.D.shape[0],
            "query texts": self.Q.shape[0],
            "links": sum(map(len, (self.train_links, self.validation_links, self.test_links))),
            "training links": len(self.train_links),
            "validation links": len(self.validation_links),
            "test links": len(self.test_links),
            "test queries": len(self.held_out.qids),
            "words of queries": self.Q.shape[1],
            "words of documents": self.D.shape[1],
            "words in a document": round(self.D.nnz / self.D.shape[0]),
        }

    # -- preferences --------------------------------------------------------------------------------------------

    def train(self, n: int, seed: int, share: float = 1.0, uniform_over: str = "links") -> Preferences:
        rng = np.random.default_rng(seed)
        article, better, worse = self.sampler(share, uniform_over).draw(rng, n)
        n_draws = self.Q.shape[0] // self.n_articles
        return Preferences(article + self.n_articles * rng.integers(0, n_draws, n), better, worse)

    def sampler(self, share: float, uniform_over: str) -> JudgementSampler:
        links = self.train_links
        if share < 1:  # smaller shares are parts of larger ones
            order = np.random.default_rng(_SPLIT_SEED).permutation(len(links))
            links = links[np.sort(order[: max(1, round(share * len(links)))])]
        return JudgementSampler(
            links[:, 0],
            links[:, 1],
            np.ones(len(links), dtype=np.int64),
            n_docs=self.first_validation_doc or self.D.shape[0],
            uniform_over="queries" if uniform_over == "queries" else "judgements",
            exclude_self=self.hides_itself,
        )

    def test(self, n: int, seed: int) -> Preferences:
        """Draw links of test queries, each with a document that is not linked.

        Queries are positions among the test queries, documents positions among the ranked documents.
        """
        rng = np.random.default_rng(TEST_SEED + seed)
        grades, hidden = self.held_out.grades, self.held_out.hidden
        assert hidden is not None
        relevant = grades.tocoo()
        drawn = rng.integers(0, relevant.nnz, n)
        query, better = relevant.row[drawn], relevant.col[drawn]
        known = (grades + hidden.astype(grades.dtype)).tocsr()
        n_docs = known.shape[1]
        keys = np.sort(known.tocoo().row.astype(np.int64) * n_docs + known.tocoo().col)
        worse = np.empty(n, dtype=np.int64)
        left = np.arange(n)
        while left.size:
            worse[left] = rng.integers(0, n_docs, left.size)
            pairs = query[left].astype(np.int64) * n_docs + worse[left]
            nearest = np.minimum(np.searchsorted(keys, pairs), keys.size - 1)
            left = left[keys[nearest] == pairs]
        return Preferences(query, better, worse)

    def parallel(self) -> NDArray[np.int64]:
        """Return articles with translations to learn from.

        If translations are the answers, the training articles; otherwise all articles but test and validation queries.
        """
        if not self.hides_itself:
            return np.unique(self.train_links[:, 0])
        asked = np.array([int(name) for name in (*self.held_out.qids, *self.validation.qids)])
        return np.setdiff1d(np.arange(self.n_articles), asked)

    # -- measuring ----------------------------------------------------------------------------------------------

    @cached_property
    def held_out(self) -> HeldOutQueries:
        known = np.concatenate([self.train_links, self.validation_links])
        return self._held_out(self.test_links, known, self.test_queries, self.first_test_doc)

    @cached_property
    def validation(self) -> HeldOutQueries:
        return self._held_out(
            self.validation_links, self.train_links, self.validation_queries, self.first_validation_doc
        )

    def _held_out(self, links: Links, known: Links, n_queries: int, first_doc: int) -> HeldOutQueries:
        """Make held-out queries of some linking articles, without known links among the ranked documents."""
        articles = np.unique(links[:, 0])
        if articles.size == 0:
            raise InputError("there are no links left to measure on")
        chosen = np.random.default_rng(_SPLIT_SEED).permutation(articles)[:n_queries]
        last = self.first_test_doc if first_doc < self.first_test_doc else self.D.shape[0]

        def within(pairs: Links) -> Links:
            kept = (pairs[:, 1] >= first_doc) & (pairs[:, 1] < last) & np.isin(pairs[:, 0], chosen)
            return pairs[kept] - (0, first_doc)

        if self.hides_itself:
            known = np.concatenate([known, np.stack([chosen, chosen], axis=1)])
        return HeldOutQueries.from_links(
            within(links),
            self.Q,
            self.D[first_doc:last],
            known=within(known),
            exclude_self=False,  # where documents are split, rows of Q and D differ; hidden above
            measure=_MEASURES[0],
        )

    def measure(self, match: WeightedMatch, prefs: Preferences) -> Measured:
        held_out = self.held_out
        Q, D = match.queries(held_out.Q), held_out.D
        blocks, wrong = [], np.empty(len(prefs), dtype=bool)
        for block, scores in match.weights.score_blocks(Q, D):
            inside = np.flatnonzero((prefs.query >= block.start) & (prefs.query < block.stop))
            row = prefs.query[inside] - block.start
            wrong[inside] = scores[row, prefs.better[inside]] <= scores[row, prefs.worse[inside]]
            blocks.append(held_out.measured(block, scores, _MEASURES))
        precision = np.concatenate(blocks)  # (n_queries, 2)
        means = {name: float(precision[:, column].mean()) for column, name in enumerate(("map", "p10"))}
        by_query = {name: precision[:, column].tolist() for column, name in enumerate(("map", "p10"))}
        return Measured(means | {"error": float(wrong.mean())}, by_query, np.flatnonzero(wrong).tolist())

    def wrong(self, match: WeightedMatch, prefs: Preferences) -> NDArray[np.bool_]:
        return wrong_preferences(match, self.held_out.Q, self.held_out.D, prefs)

    # -- words --------------------------------------------------------------------------------------------------

    @cached_property
    def _word_maps(self) -> dict[WordSelection, WordMap]:
        return {}

    def word_map(self, spec: WordSelection) -> WordMap:
        """Made once for each specification; correlations are counted in all documents, which need no links."""
        if spec not in self._word_maps:
            self._word_maps[spec] = self._correlated(spec) if spec.correlated else self._selected(spec)
        return self._word_maps[spec]

    def query_block(self, name: str) -> sparse.csr_array:
        return sparse.csr_array(self.Q[:, self.query_blocks[name]])

    def _selected(self, spec: WordSelection) -> WordMap:
        one_vocabulary = self.query_blocks.keys() == self.doc_blocks.keys()
        selectors = []
        for X, blocks in ((self.Q, self.query_blocks), (self.D, self.doc_blocks)):
            columns = np.arange(X.shape[1])[blocks.get(spec.block or "", slice(None))]
            if spec.n_frequent is not None and spec.n_frequent < columns.size:
                counted = self.D if one_vocabulary else X
                frequency = np.bincount(counted.indices, minlength=counted.shape[1])[columns]
                columns = np.sort(columns[np.argsort(-frequency, kind="stable")[: spec.n_frequent]])
            ones = np.ones(columns.size, dtype=np.float32)
            shape = columns.size, X.shape[1]
            selectors.append(sparse.csr_array((ones, (np.arange(columns.size), columns)), shape=shape))
        return WordMap(*selectors)

    def _correlated(self, spec: WordSelection) -> WordMap:
        first = next(iter(self.doc_blocks.values()), slice(None))  # single words come first
        every = np.arange(self.D.shape[1])
        words = CorrelatedWords(n_frequent=spec.n_frequent or 30_000, n_bins=int(spec.correlated or 1))
        words.fit(self.D, among=every[first])
        mapped = np.isin(every, every[self.doc_blocks.get(spec.block or "", slice(None))])
        if spec.rare_only:
            mapped[words.frequent_] = False
        M = sparse.csr_array(words.matrix() @ sparse.diags_array(mapped.astype(np.float32), format="csr"))
        M.eliminate_zeros()
        return WordMap(M, M, lambda column, k: words.nearest(column)[:k])


@dataclass(frozen=True)
class LinkSplit:
    """Links for training, validation and testing, and the first held-out documents."""

    train: Links
    validation: Links
    test: Links
    first_validation_doc: int = 0
    first_test_doc: int = 0


def split_links(links: Links, *, by: str, n_articles: int) -> LinkSplit:
    """Split links at random, or split documents and drop links between the parts."""
    rng = np.random.default_rng(_SPLIT_SEED)
    if by == "documents":
        first_test = round((1 - TEST_SHARE) * n_articles)
        first_validation = round((1 - VALIDATION_DOCS) * first_test)

        def among(first: int, last: int) -> Links:
            return links[((links >= first) & (links < last)).all(axis=1)]

        parts = among(0, first_validation), among(first_validation, first_test), among(first_test, n_articles)
        return LinkSplit(*parts, first_validation, first_test)
    order = links[rng.permutation(len(links))]
    n_test = round(TEST_SHARE * len(links))
    test, rest = order[:n_test], order[n_test:]
    n_validation = max(1, round(VALIDATION_SHARE * len(rest)))
    return LinkSplit(rest[n_validation:], rest[:n_validation], test)


PreferenceTask = ClassTask | LinkTask
