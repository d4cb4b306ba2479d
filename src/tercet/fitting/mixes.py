"""Words and memory mixed: every setting is measured on the same left-out queries, and the best expected value wins.

    score(q, d) = words(q, d) + blend · q'd + weight · m / (|m| + half) + pooled · q'p_d     if d has evidence
    score(q, d) = words(q, d) + (blend + unseen) · q'd                                       otherwise

`tercet.memory` has m and p_d. A setting is chosen by its expected value over three cases: known answers, new answers
and repeated queries. Reported values are crossed: the value of a query is that of the setting which the queries of
other groups chose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain
from tercet.data.shards import StoredRows
from tercet.fitting.leaving_out import N_FOLDS
from tercet.fitting.task import (
    EVERY,
    KNOWN,
    NEW,
    RECENTLY,
    REPEATED,
    Decision,
    Fold,
    Past,
    Space,
    TextHeldOut,
    evidence_size,
)
from tercet.measure.blocks import measure_block
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
from tercet.measure.names import Measure
from tercet.memory import Memory, MemorySettings
from tercet.memory.value import kernel_values, pooled_rows, saturated, unit_rows
from tercet.text.fielded import FieldedVectoriser
from tercet.weights import Weights

SHAPES: Final = ((0.0, 2.0), (0.3, 2.0), (0.0, 3.0), (0.3, 1.0), (0.5, 1.0))  # threshold and power of the similarity
WEIGHTS: Final = (0.0, 0.5, 1.0, 2.0, 4.0)  # of memory, in units of a typical best score
POOLED: Final = (0.0, 0.5, 1.0)
UNSEEN: Final = (0.0, 1.0, 2.0, 4.0, 8.0)
_ROUNDS: Final = 3
_POOL: Final = 40  # best documents by each term, among which settings are compared
_MOST_POOLED: Final = 400_000  # scores of a part up to which all documents are compared
_BLOCK: Final = 2_000_000  # scores, and similarities, at a time
_FEWEST_DECIDING: Final = 5  # queries of a case that counts
_FEW_QUERIES: Final = 60  # below this a gain must be two standard errors

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Mix:
    """One setting.

    Attributes
    ----------
    words : number of the candidate; None for the start alone
    blend : extra weight of plain matching, in units of the candidate's own
    shape : number of the similarity's shape in `SHAPES`
    weight, pooled : weight of memory in both forms, in units of a typical best score
    unseen : extra weight of plain matching for documents without evidence
    vectors, amount : number of the map between own vectors, and its weight; None for no map
    """

    words: int | None = None
    blend: float = 0.0
    shape: int = 0
    weight: float = 0.0
    pooled: float = 0.0
    unseen: float = 0.0
    vectors: int | None = None
    amount: float = 0.0

    @property
    def has_memory(self) -> bool:
        return bool(self.weight or self.pooled or self.unseen)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the learned parts in use."""
        used = {"words": self.words is not None, "memory": self.has_memory, "vectors": self.vectors is not None}
        return tuple(name for name, is_used in used.items() if is_used)


class ScoreTerms:
    """Terms of the score on held-out queries, for one fold's words and past queries.

    Parameters
    ----------
    held_out : queries with all their answers, or with known or new answers
    words : weights of each candidate, scaled to an identity of weight 1
    maps : weights of each map between own vectors
    past : evidence that the fold may use; None without memory
    """

    def __init__(
        self, held_out: TextHeldOut, space: Space, words: Sequence[Weights], maps: Sequence[Weights], past: Past | None
    ) -> None:
        self.held_out = held_out
        self.space, self.words, self.maps = space, words, maps
        self.past = past if past is not None and past.rows.size else None
        self.known = np.zeros(0, dtype=bool) if self.past is None else self.past.known
        if self.past is not None:
            n_words = words_of(space)
            asked = space.Q[self.past.rows]
            self._by_term = unit_rows(asked, n_words).T.tocsr()
            evidence = sparse.csr_array(self.past.evidence[:, np.flatnonzero(self.known)])
            self._pooled = pooled_rows(asked[:, :n_words], evidence).T.tocsr()

    def by_case(self, fold: Fold) -> list[tuple[str, ScoreTerms]]:
        """Terms for each case: of left-out queries also their known answers, and their new ones."""
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
        """Terms of a block of queries, (n_block, n_docs) each; those that some mixes need, or all."""
        Q, D = self.held_out.Q, self.held_out.D
        assert not isinstance(Q, StoredRows)
        assert not isinstance(D, StoredRows)
        Q = Q[rows]
        needed = None if mixes is None else {key for mix in mixes for key in _keys(mix)}
        terms: dict[Any, NDArray[np.float32]] = {"start": self.space.start.score(Q, D).astype(np.float32)}
        terms["match"] = terms["start"]
        if self.space.given_start is not None:
            terms["match"] = self.space.match.score(Q, D).astype(np.float32)
        for name, weights in (("words", self.words), ("maps", self.maps)):
            for number, one in enumerate(weights):
                if needed is None or (name, number) in needed:
                    terms[name, number] = one.score(Q, D).astype(np.float32)
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
                    some = (prefs.query >= block.start) & (prefs.query < block.stop)
                    rows = prefs.query[some] - block.start
                    margins[number, some] = scores[rows, prefs.better[some]] - scores[rows, prefs.worse[some]]
        if isinstance(held_out, HeldOutPreferences):
            values[:] = np.stack([held_out.shares(one) for one in margins])[:, :, None]
        return values


class Pool:
    """The documents of each query that a setting can bring to the top, with all terms, (n_queries, n_pooled) each."""

    def __init__(self, terms: ScoreTerms) -> None:
        held_out = terms.held_out
        self.held_out = held_out
        self.qids = held_out.qids
        blocks = []
        for block in terms.blocks():
            dense = terms.dense(block)
            columns = _pooled_columns(dense, held_out, block, terms.known)
            row = np.arange(columns.shape[0])[:, None]
            blocks.append((columns, {key: term[row, np.maximum(columns, 0)] for key, term in dense.items()}))
        width = max(columns.shape[1] for columns, _ in blocks)
        self.columns = np.concatenate([_widened(columns, width, -1) for columns, _ in blocks])
        keys = blocks[0][1].keys()
        self.terms = {key: np.concatenate([_widened(block[key], width, 0) for _, block in blocks]) for key in keys}
        self.is_pad = self.columns < 0
        if isinstance(held_out, HeldOutQueries):
            grades = [_graded(held_out.grades, self.columns, row) for row in range(len(self.qids))]
            self.grades = sparse.csr_array(np.array(grades, dtype=np.int64).reshape(self.columns.shape))
        else:
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
        return measure_block(scores, self.grades, self.held_out.measure)[:, 0]

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
    if mix.vectors is not None:
        scores += np.float32(mix.amount) * terms["maps", mix.vectors]
    if mix.weight:
        scores += np.float32(mix.weight * scale) * terms["memory", mix.shape]
    if mix.pooled:
        scores += np.float32(mix.pooled * scale) * terms["pooled"]
    if mix.unseen:
        scores += np.float32(mix.unseen) * terms["unseen"]
    return scores


def _keys(mix: Mix) -> list[Any]:
    keys: list[Any] = [("words", mix.words), ("maps", mix.vectors)]
    return [*keys, *([("memory", mix.shape)] if mix.weight else []), *(["pooled"] if mix.pooled else [])]


def words_of(space: Space) -> int:
    """Number of columns that are words; those of fields, numbers and vectors stand behind them."""
    words = space.vectoriser
    return words.layout_.n_words if isinstance(words, FieldedVectoriser) else space.D.shape[1]


def _pooled_columns(
    terms: Mapping[Any, NDArray[np.float32]], held_out: TextHeldOut, block: slice, known: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Documents of each query to compare, rising, -1 behind them, (n_block, n_pooled)."""
    n_docs = held_out.D.shape[0]
    if isinstance(held_out, HeldOutPreferences):
        prefs = held_out.preferences
        some = (prefs.query >= block.start) & (prefs.query < block.stop)
        row = np.tile(prefs.query[some] - block.start, 2)
        keys = np.unique(row * np.int64(n_docs) + np.concatenate([prefs.better[some], prefs.worse[some]]))
        return _ragged(keys // n_docs, keys % n_docs, block.stop - block.start)
    kept = np.zeros((block.stop - block.start, n_docs), dtype=bool)
    if len(held_out.qids) * n_docs <= _MOST_POOLED or n_docs <= _POOL:
        kept[:] = True
    else:
        for key, term in terms.items():
            if key == "match" and terms["match"] is terms["start"]:
                continue
            top = np.argpartition(-term, _POOL, axis=1)[:, :_POOL]
            np.put_along_axis(kept, top, True, axis=1)
        judged = held_out.grades[block].tocoo()
        kept[judged.row, judged.col] = True
    if held_out.exclude is not None:
        kept[np.arange(kept.shape[0]), held_out.exclude[block]] = False
    if held_out.hidden is not None:
        hidden = held_out.hidden[block].tocoo()
        kept[hidden.row, hidden.col] = False
    rows, columns = np.nonzero(kept)
    return _ragged(rows, columns, kept.shape[0])


def _ragged(rows: NDArray[Any], columns: NDArray[Any], n_rows: int) -> NDArray[np.int32]:
    """Columns of each row in the order given, padded with -1, (n_rows, width)."""
    sizes = np.bincount(rows, minlength=n_rows)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    padded = np.full((n_rows, max(1, int(sizes.max(initial=0)))), -1, dtype=np.int32)
    padded[rows, np.arange(rows.size) - starts[rows]] = columns
    return padded


def _widened(rows: NDArray[Any], width: int, value: float) -> NDArray[Any]:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=value)


def _graded(grades: sparse.csr_array, columns: NDArray[np.int32], row: int) -> NDArray[np.int64]:
    """Grades of a query's pooled documents."""
    entries = slice(*grades.indptr[row : row + 2])
    of_doc = dict(zip(grades.indices[entries].tolist(), grades.data[entries].tolist(), strict=True))
    return np.array([of_doc.get(doc, 0) for doc in columns[row].tolist()], dtype=np.int64)


# -- choosing ---------------------------------------------------------------------------------------------------------


class Case:
    """Values of the queries of one case, from one or several folds; a query that was left out twice has the mean."""

    def __init__(self, folds: Sequence[Pool | TextHeldOut]) -> None:
        self.qids = tuple(dict.fromkeys(qid for fold in folds for qid in fold.qids))
        position = {qid: number for number, qid in enumerate(self.qids)}
        self._positions = [np.array([position[qid] for qid in fold.qids]) for fold in folds]

    def size(self, sizes: Sequence[int]) -> int:
        """Evidence of all queries from that of each fold; a query that was left out twice counts once."""
        return round(sum(sizes) * len(self.qids) / sum(map(len, self._positions)))

    def mean(self, values: Sequence[Values]) -> Values:
        """Merge the values of the folds, (n_queries of the fold, …) each, to (n_queries, …)."""
        out = np.zeros((len(self.qids), *values[0].shape[1:]))
        times = np.zeros(len(self.qids))
        for positions, some in zip(self._positions, values, strict=True):
            out[positions] += some
            times[positions] += 1
        return out / times.reshape(-1, *[1] * (out.ndim - 1))


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen setting and its evidence.

    Attributes
    ----------
    mix : setting of the model, or of what was rejected
    decision : whether the mix is used, and why
    before, after : case -> values (n_queries, n_measures) of the start and, crossed, of the mix
    alone : part name -> the best mix of that part alone
    alone_after : part name -> crossed values of all answers (n_queries, n_measures)
    qids, sizes, measures : case -> queries, their answers or preferences, and the measures of the values
    """

    mix: Mix
    decision: Decision
    before: Mapping[str, Values]
    after: Mapping[str, Values]
    alone: Mapping[str, Mix]
    alone_after: Mapping[str, Values]
    qids: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]
    measures: Mapping[str, tuple[Measure, ...]]


class MixSearch:
    """Search for the best mix.

    Parameters
    ----------
    terms : case and terms of each fold; other names than those of cases are reported, and decide nothing
    shares : expected share of each case
    blends : of each candidate, the extra weights of plain matching to try
    amounts : weights of own vectors to try
    """

    def __init__(
        self,
        terms: Sequence[tuple[str, ScoreTerms]],
        shares: Mapping[str, float],
        blends: Sequence[Sequence[float]],
        amounts: Sequence[float],
        measures: tuple[Measure, ...],
        random_state: int,
    ) -> None:
        self._terms = terms
        self.measures = measures
        self._sign = 1.0 if measures[0].higher_is_better else -1.0
        self._blends, self._amounts = blends, amounts
        self._n_maps = len(terms[0][1].maps)
        self._can_remember = all(one.past is not None for _, one in terms)
        self.cases = {name: Case([one.held_out for case, one in terms if case == name]) for name in dict(terms)}
        sizes: dict[str, int] = {}
        for name in (KNOWN, NEW, REPEATED):
            if name in self.cases:
                sizes[name] = len(self.cases[name].qids)
        fewest = min(_FEWEST_DECIDING, max(sizes.values()))
        given = {name: shares.get(name, 0.0) for name, size in sizes.items() if size >= fewest}
        given = given if any(given.values()) else dict.fromkeys(given, 1.0)
        self.shares = {name: share / sum(given.values()) for name, share in given.items()}
        self._pools = {name: [Pool(one) for case, one in terms if case == name] for name in self.shares}
        # Pairs of documents that were shown cannot tell how many others an extra weight would bring above them.
        self._is_ranked = all(isinstance(one.held_out, HeldOutQueries) for case, one in terms if case in self.shares)
        self._unseen = UNSEEN if self._is_ranked else UNSEEN[:1]
        self._scales: dict[Mix, float] = {}
        self._values: dict[Mix, dict[str, Values]] = {}
        self._groups = _groups(self.cases, random_state)

    def scale(self, mix: Mix) -> float:
        """A typical best score by words: the unit of memory's weights."""
        words = Mix(mix.words, mix.blend)
        if words not in self._scales:
            pools = self._pools[KNOWN] if KNOWN in self._pools else next(iter(self._pools.values()))
            best = np.concatenate([pool.best_scores(words) for pool in pools])
            self._scales[words] = float(np.median(best)) if np.median(best) > 0 else 1.0
        return self._scales[words]

    def values(self, mix: Mix) -> dict[str, Values]:
        """The measure of each query by case."""
        if mix not in self._values:
            scale = self.scale(mix)
            self._values[mix] = {
                name: self.cases[name].mean([pool.values(mix, scale) for pool in pools])
                for name, pools in self._pools.items()
            }
        return self._values[mix]

    def expected(self, mix: Mix, group: int | None = None) -> float:
        """Expected value over the cases; with a group, by the queries of the other groups."""
        value = 0.0
        for name, values in self.values(mix).items():
            some = values if group is None else values[self._groups[name] != group]
            value += self.shares[name] * float(some.mean() if some.size else values.mean())
        return self._sign * value

    def climb(self, mix: Mix, *, memory: bool, vectors: bool) -> Mix:
        """Improve a mix one group of settings after another, until nothing improves the expected value."""
        for _ in range(_ROUNDS):
            before = mix
            for options in self._options(memory, vectors):
                mix = max([mix, *options(mix)], key=self.expected)
            if mix == before:
                break
        return mix

    def _options(self, memory: bool, vectors: bool) -> list[Callable[[Mix], list[Mix]]]:
        """Functions that give the neighbours of a mix."""
        steps: list[Callable[[Mix], list[Mix]]] = [lambda mix: [replace(mix, blend=blend) for blend in self._of(mix)]]
        if vectors:
            steps.append(
                lambda mix: [
                    replace(mix, vectors=number, amount=amount * (1 + max(0.0, mix.blend)))
                    for number in range(self._n_maps)
                    for amount in self._amounts
                ]
            )
        if memory and self._can_remember:
            steps += [
                lambda mix: [replace(mix, weight=w, unseen=u) for w in WEIGHTS for u in self._unseen],
                lambda mix: [replace(mix, shape=number) for number in range(len(SHAPES))] if mix.weight else [],
                lambda mix: [replace(mix, pooled=p, unseen=u) for p in POOLED for u in self._unseen],
            ]
        return steps

    def _of(self, mix: Mix) -> Sequence[float]:
        return () if mix.words is None else self._blends[mix.words]

    def choose(self, *, start_name: str, share_reason: str) -> Choice:
        """Choose the mix with the best expected value, and decide whether to use it."""
        start = Mix()
        numbers: list[int | None] = [None, *range(len(self._blends))]
        firsts = [Mix(number, 0.0) for number in numbers]
        for mix in [self.climb(mix, memory=False, vectors=False) for mix in firsts]:
            self.climb(mix, memory=True, vectors=self._n_maps > 0)
        kinds = {"learned": list(self._values)}
        alone = ("words", "memory", "vectors")
        kinds |= {name: [mix for mix in self._values if mix.parts == (name,)] for name in alone}
        chosen = {name: self._crossed(mixes) for name, mixes in kinds.items() if mixes}
        exact = {start, *(mix for _, by_group in chosen.values() for mix in by_group)}
        values = self.exact(sorted(exact, key=repr))
        before = {name: of_mix[start] for name, of_mix in values.items()}

        def crossed(kind: str, case: str) -> Values:
            _, by_group = chosen[kind]
            of_mix, group = values[case], self._groups[case]
            return np.stack([of_mix[by_group[number]][row] for row, number in enumerate(group)])

        after = {name: crossed("learned", name) for name in self.cases}
        mix = chosen["learned"][0]
        decision = self._decide(mix, before, after, start_name, share_reason)
        apart = {name: chosen[name][0] for name in alone if name in chosen}
        return Choice(
            mix,
            decision,
            before,
            after,
            apart,
            {name: crossed(name, EVERY) for name in apart},
            {name: case.qids for name, case in self.cases.items()},
            {
                name: case.size([evidence_size(one.held_out) for kind, one in self._terms if kind == name])
                for name, case in self.cases.items()
            },
            {name: self._measures_of(one) for name, one in self._terms},
        )

    def _crossed(self, mixes: Sequence[Mix]) -> tuple[Mix, list[Mix]]:
        """The best mix by all queries, and for each group the best by the queries of the others."""
        return self._best(mixes), [self._best(mixes, group) for group in range(N_FOLDS)]

    def _best(self, mixes: Sequence[Mix], group: int | None = None) -> Mix:
        """The mix of the best expected value; where pairs decide, the best with memory within one standard error of it.

        Pairs are between documents that were shown, so that no pair rewards memory for the documents that it finds
        beyond them.
        """
        best = max(mixes, key=lambda mix: self.expected(mix, group))
        others = [mix for mix in mixes if mix.has_memory]
        if self._is_ranked or best.has_memory or not others:
            return best
        remembering = max(others, key=lambda mix: self.expected(mix, group))
        _, error = self._gain(self.values(Mix()), self.values(best), group)
        return remembering if self.expected(remembering, group) >= self.expected(best, group) - error else best

    def _gain(
        self, before: Mapping[str, Values], after: Mapping[str, Values], group: int | None = None
    ) -> tuple[float, float]:
        """Expected gain over the cases, and its standard error; with a group, by the queries of the other groups."""
        mean, variance = 0.0, 0.0
        for name, share in self.shares.items():
            if share:
                gain = self._gains(before[name], after[name], self._groups[name] != group)
                mean, variance = mean + share * gain.mean, variance + (share * gain.error) ** 2
        return mean, float(np.sqrt(variance))

    def _gains(self, before: Values, after: Values, rows: NDArray[np.bool_]) -> Gain:
        """Gain over some queries of a case, or over all if the case has no others."""
        rows = rows if rows.any() else ~rows
        return Gain.between(self._sign * before[rows], self._sign * after[rows])

    def exact(self, mixes: Sequence[Mix]) -> dict[str, dict[Mix, Values]]:
        """Case -> mix -> all measures of each query, every document ranked."""
        scales = {mix: self.scale(mix) for mix in mixes}
        found: dict[str, dict[Mix, Values]] = {}
        for name, case in self.cases.items():
            of_fold = [one.exact(mixes, scales, self._measures_of(one)) for kind, one in self._terms if kind == name]
            found[name] = {mix: case.mean([values[number] for values in of_fold]) for number, mix in enumerate(mixes)}
        return found

    def _measures_of(self, terms: ScoreTerms) -> tuple[Measure, ...]:
        own = terms.held_out.measure
        return self.measures if own in self.measures else (own,)

    def _decide(
        self, mix: Mix, before: Mapping[str, Values], after: Mapping[str, Values], start: str, share_reason: str
    ) -> Decision:
        first, last = ({name: values[:, 0] for name, values in side.items()} for side in (before, after))
        gains = {name: Gain.between(self._sign * first[name], self._sign * last[name]) for name in self.shares}
        shares = {name: share for name, share in self.shares.items() if share}
        mean, error = self._gain(first, last)
        n_errors = 2 if len(self.cases[EVERY].qids) < _FEW_QUERIES else 1
        accepted = bool(mix.parts) and mean > n_errors * error
        by_case = ", ".join(
            f"{name} {self._sign * gain.mean:+.3f} ({gain.n_queries} queries)" for name, gain in gains.items()
        )
        parts = " and ".join(mix.parts) or "nothing"
        new = (
            f"; {shares.get(NEW, 0.0):.0%} of the answers are expected to be new, {share_reason}"
            if share_reason and NEW in self.shares
            else ""
        )
        measure, value = self.measures[0], self._sign * mean
        if accepted:
            return Decision(
                True,
                f"Used: {parts}. {measure} is expected to change by {value:+.3f} (standard error {error:.3f}) from "
                f"{start}: {by_case}{new}.",
            )
        names = list(dict.fromkeys("words" if name == "vectors" else name for name in mix.parts))
        anyway = f" To use it anyway: model.with_parts({names})" if names else ""
        why = f"less than {n_errors} standard errors ({error:.3f})" if mean > 0 else "no gain"
        return Decision(
            False,
            f"Not used: {parts}. {measure} is expected to change by {value:+.3f} from {start}, {why}: {by_case}{new}. "
            f"You have {start}.{anyway}",
        )


def _groups(cases: Mapping[str, Case], random_state: int) -> dict[str, NDArray[np.int64]]:
    """A number below 5 for each query, the same in all cases."""
    names = {name: [qid.removesuffix(RECENTLY) for qid in case.qids] for name, case in cases.items()}
    ordered = sorted({qid for of_case in names.values() for qid in of_case})
    order = np.random.default_rng(random_state).permutation(len(ordered))
    number_of = {ordered[row]: position % N_FOLDS for position, row in enumerate(order.tolist())}
    return {name: np.array([number_of[qid] for qid in of_case], dtype=np.int64) for name, of_case in names.items()}


# -- the model --------------------------------------------------------------------------------------------------------


def make_memory(
    past: Past,
    Q: sparse.csr_array,
    n_words: int,
    texts: Sequence[str],
    doc_ids: Sequence[str],
    settings: MemorySettings,
) -> Memory:
    """Memory of past queries; ``texts`` of all rows of Q, ``doc_ids`` of all documents."""
    known = np.flatnonzero(past.known)
    rows = unit_rows(Q[past.rows], n_words).astype(np.float32)
    evidence = sparse.csr_array(past.evidence[:, known])
    return Memory(
        tuple(texts[row] for row in past.rows.tolist()),
        rows,
        evidence,
        tuple(doc_ids[row] for row in known.tolist()),
        settings,
        past.times,
    )


def settings_of_memory(mix: Mix, scale: float, unit: float) -> MemorySettings:
    """Settings of memory beside weights whose own identity has the weight ``unit``."""
    threshold, power = SHAPES[mix.shape]
    return MemorySettings(
        weight=mix.weight * scale * unit,
        pooled=mix.pooled * scale * unit,
        threshold=threshold,
        power=power,
        unseen=mix.unseen * unit,
    )
