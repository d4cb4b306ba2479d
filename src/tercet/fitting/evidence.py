"""What says which document is better, in one task: judgements, threes and clicks, alone or together.

A query that is held out in one source is held out in all. What is learned from is drawn from each source in proportion
to how much it has: judgements, threes, and lists with a click.
"""

from __future__ import annotations

from array import array as growing_array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.clicks import ClickLog, Skipped, click_preferences
from tercet.data.judgements import plain_text
from tercet.data.preferences import Preferences, PreferenceSampler
from tercet.data.sampling import JudgementSampler, MixtureSampler, Sampler
from tercet.errors import InputError
from tercet.fitting.task import (
    FEWEST_QUERIES,
    Facts,
    HeldOutPart,
    Matrices,
    Qrels,
    Task,
    Threes,
    check_disjoint,
    hold_out,
)
from tercet.fitting.texts import check_texts, matrices_of, usable_judgements
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
from tercet.measure.names import PAIR_ACCURACY, parse_measure
from tercet.text import Vectoriser

# Preferences over what was skipped above a click all contradict the order that was shown: whatever showed the lists has
# every one of them wrong, and a model learned from them alone unlearns matching. Over all that was shown, each weighted
# by the chance that it was looked at, neither order of two equally good documents is favoured.
SKIPPED: Final[Skipped] = "all"
_JUDGED, _THREES, _CLICKS = "judgements", "threes", "clicks"
_SPLITS = ("validation", "test")


def evidence_task(
    docs: Mapping[str, str],
    queries: Mapping[str, str] | None,
    *,
    qrels: Qrels | None = None,
    preferences: Threes | None = None,
    clicks: ClickLog | None = None,
    validation: Qrels | Threes | None = None,
    test: Qrels | Threes | None = None,
    measure: str | None = None,
    random_state: int = 0,
) -> tuple[Task, str]:
    """One task of all that is given, and what chooses in it.

    Parameters
    ----------
    docs, queries : texts by id; without queries, those of threes and clicks are texts
    qrels, preferences, clicks : what to learn from
    validation, test : judgements, or threes, of other queries
    measure : what chooses; by default nDCG@10 where judgements can be held out, else the share of threes and clicks in
        the right order
    """
    names = _QueryNames(queries)
    given: dict[str, Any] = dict(zip(_SPLITS, (validation, test), strict=True))
    judged = {"qrels": qrels} | {name: part for name, part in given.items() if isinstance(part, Mapping)}
    listed = {"preferences": preferences} | {name: part for name, part in given.items() if name not in judged}
    usable = {name: usable_judgements(part, name, docs, names.texts) for name, part in judged.items()}
    doc_rows = {doc_id: row for row, doc_id in enumerate(docs)}
    threes = {name: _threes(part, name, names, doc_rows) for name, part in listed.items() if part is not None}
    log = None if clicks is None else _click_pairs(clicks, names, doc_rows)
    check_texts(docs, names.texts)
    check_disjoint(usable)
    check_disjoint({name: part.qids for name, part in threes.items()})
    sources: dict[str, Mapping[str, Any]] = {}
    if qrels is not None:
        sources[_JUDGED] = usable["qrels"]
    if preferences is not None:
        sources[_THREES] = threes["preferences"].qids
    if log is not None:
        sources[_CLICKS] = log.qids
    split = _Split(sources, usable, threes, random_state)
    is_judged = bool(usable.get("validation") or (qrels is not None and set(usable["qrels"]) & split.validation))
    is_judged &= bool(usable.get("test") or (qrels is not None and set(usable["qrels"]) & split.test))
    if usable.get("validation") and not is_judged:
        raise InputError("validation has judgements, so test needs some, too; or give threes to validate on")
    chosen_by = str(parse_measure(measure or ("nDCG@10" if is_judged else PAIR_ACCURACY)))
    if chosen_by != PAIR_ACCURACY and not is_judged:
        raise InputError(f"threes and clicks are measured by {PAIR_ACCURACY}; got {measure!r}")
    evidence = _Evidence(docs, names.texts, doc_rows, sources, split, usable, threes, log, clicks, chosen_by)
    return evidence.task(), chosen_by


# -- queries ----------------------------------------------------------------------------------------------------------


class _QueryNames:
    """Queries of all sources, each under one id: its own, or its text.

    Texts that differ in case and blanks alone are one query. New texts are taken in where there were no queries, or
    where these are called by their texts.
    """

    def __init__(self, queries: Mapping[str, str] | None) -> None:
        if queries is not None and not isinstance(queries, Mapping):
            raise InputError(f"queries must be a mapping, id -> text; got {type(queries).__name__}")
        self.texts: dict[str, str] = dict(queries or {})
        self._by_text: dict[str, str] = {}
        for qid, text in self.texts.items():
            self._by_text.setdefault(plain_text(text), qid)
        self.are_texts = all(qid == text for qid, text in self.texts.items())

    def find(self, query: str) -> str | None:
        """The id of a query that is named by it, or by its text."""
        return query if query in self.texts else self._by_text.get(plain_text(query))

    def take_in(self, query: str) -> str:
        """The id of a query, which is a new text where it is not known."""
        known = self.find(query)
        if known is not None:
            return known
        self.texts[query] = query
        self._by_text[plain_text(query)] = query
        return query


# -- threes and clicks, as pairs of documents -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Which document of two is better, by query, as columns.

    Attributes
    ----------
    qids : the queries, in the order they came, each with its number
    query, better, worse : number of the query, rows of the documents
    weight : or None where all count the same
    place : of clicks, the number of the list in the log
    """

    qids: dict[str, int]
    query: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    place: NDArray[np.int64] | None = None

    @property
    def n_lists(self) -> int:
        """How many lists of a log have some."""
        return 0 if self.place is None else int(np.unique(self.place).size)

    def of(self, qids: Iterable[str], where: NDArray[np.bool_] | None = None) -> _Pairs:
        """The pairs of some queries, and of those only the ones that `where` picks."""
        numbers = np.array([self.qids[qid] for qid in qids if qid in self.qids], dtype=np.int64)
        kept = np.isin(self.query, numbers)
        if where is not None:
            kept &= where
        present = set(np.unique(self.query[kept]).tolist())
        columns = (self.query, self.better, self.worse, self.weight, self.place)
        return _Pairs(
            {qid: number for qid, number in self.qids.items() if number in present},
            *(None if column is None else column[kept] for column in columns),  # type: ignore[arg-type]
        )

    def preferences(self, query_rows: Mapping[str, int]) -> Preferences:
        """By row of Q and D, queries rising."""
        row_of = np.zeros(max(self.qids.values(), default=-1) + 1, dtype=np.int64)
        for qid, number in self.qids.items():
            row_of[number] = query_rows[qid]
        rows = row_of[self.query]
        order = np.argsort(rows, kind="stable")
        weight = None if self.weight is None else self.weight[order]
        return Preferences(rows[order], self.better[order], self.worse[order], weight)

    def held_out(self, Q: sparse.csr_array, D: sparse.csr_array, query_rows: Mapping[str, int]) -> HeldOutPreferences:
        """To measure by, with the rows of these queries only."""
        qids = tuple(sorted(self.qids, key=query_rows.__getitem__))
        preferences = self.preferences({qid: row for row, qid in enumerate(qids)})
        return HeldOutPreferences(Q[[query_rows[qid] for qid in qids]], D, preferences, qids)

    @staticmethod
    def stacked(parts: Sequence[_Pairs]) -> _Pairs:
        """Parts of one source again as one."""
        columns = zip(*((part.query, part.better, part.worse, part.weight, part.place) for part in parts), strict=True)
        stacked = [None if column[0] is None else np.concatenate(column) for column in columns]
        return _Pairs({qid: number for part in parts for qid, number in part.qids.items()}, *stacked)  # type: ignore[arg-type]

    @staticmethod
    def joined(parts: Sequence[_Pairs]) -> _Pairs:
        """Several sources as one; in the share of a query, each of its sources counts the same."""
        if len(parts) == 1:
            return parts[0]
        qids: dict[str, int] = {}
        columns: list[list[NDArray[Any]]] = [[], [], [], []]
        for part in parts:
            row_of = np.zeros(max(part.qids.values(), default=-1) + 1, dtype=np.int64)
            for qid, number in part.qids.items():
                row_of[number] = qids.setdefault(qid, len(qids))
            weight = np.ones(part.query.size) if part.weight is None else part.weight
            total = np.bincount(part.query, weight, minlength=row_of.size)[part.query]
            for column, values in zip(
                columns, (row_of[part.query], part.better, part.worse, weight / total), strict=True
            ):
                column.append(values)
        query, better, worse, weight = map(np.concatenate, columns)
        return _Pairs(qids, query, better, worse, weight)


class _Columns:
    """Collects pairs as they come."""

    def __init__(self) -> None:
        self.qids: dict[str, int] = {}
        self._rows = tuple(growing_array("q") for _ in range(4))
        self._weight = growing_array("d")

    def add(self, qid: str, better: int, worse: int, weight: float = 1.0, place: int = 0) -> None:
        number = self.qids.setdefault(qid, len(self.qids))
        for column, value in zip(self._rows, (number, better, worse, place), strict=True):
            column.append(value)
        self._weight.append(weight)

    def pairs(self, *, are_placed: bool) -> _Pairs:
        query, better, worse, place = (np.array(column, dtype=np.int64) for column in self._rows)
        weight = np.array(self._weight, dtype=np.float64)
        is_plain = not are_placed and bool((weight == 1.0).all())
        return _Pairs(self.qids, query, better, worse, None if is_plain else weight, place if are_placed else None)


def _threes(part: Threes, name: str, names: _QueryNames, doc_rows: Mapping[str, int]) -> _Pairs:
    """Threes, checked; a fourth number is a weight."""
    if isinstance(part, str | bytes | Mapping) or not isinstance(part, Iterable):
        raise InputError(f"{name} must be threes (query, better document, worse document); got {type(part).__name__}")
    columns = _Columns()
    may_add = names.are_texts
    for number, three in enumerate(part):
        if isinstance(three, str) or not isinstance(three, Sequence) or len(three) not in (3, 4):
            raise InputError(f"{name}[{number}] must be a query, a better and a worse document; got {three!r}")
        query, better, worse = three[:3]
        if not all(isinstance(side, str) for side in (query, better, worse)):
            raise InputError(f"{name}[{number}] must be three strings; got {three!r}")
        if better == worse:
            raise InputError(f"{name}[{number}] says that document {better!r} is better than itself")
        weight = three[3] if len(three) == 4 else 1.0
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
            raise InputError(f"{name}[{number}] has the weight {weight!r}; a positive number is needed")
        qid = names.take_in(query) if may_add else names.find(query)
        if qid is None:
            raise InputError(f"{name}[{number}] is of query {query!r}, which is not among the queries")
        for doc_id in (better, worse):
            if doc_id not in doc_rows:
                raise InputError(f"{name}[{number}] names document {doc_id!r}; there is no such document")
        columns.add(qid, doc_rows[better], doc_rows[worse], float(weight))
    if not columns.qids:
        raise InputError(f"{name} have no preference")
    return columns.pairs(are_placed=False)


def _click_pairs(log: ClickLog, names: _QueryNames, doc_rows: Mapping[str, int]) -> _Pairs:
    """Preferences of clicks, between documents that are known, each with the place of its list."""
    columns = _Columns()
    any_known = False
    for place, impression in enumerate(log.impressions):
        any_known = any_known or any(doc_id in doc_rows for doc_id in impression.shown)
        for better, worse, weight in click_preferences(impression.shown, impression.clicked, SKIPPED, most=inf):
            if better in doc_rows and worse in doc_rows:
                columns.add(names.take_in(impression.query), doc_rows[better], doc_rows[worse], weight, place)
    if not any_known and log.impressions:
        shown, known = log.impressions[0].shown[0], next(iter(doc_rows), "")
        raise InputError(
            f"no document that clicks name is among the documents: the log shows {shown!r}, and a document is called "
            f"{known!r}; are these the documents that the log is about?"
        )
    if not columns.qids:
        raise InputError("clicks say nothing: in no list is a document clicked and another one not")
    return columns.pairs(are_placed=True)


# -- what is held out -------------------------------------------------------------------------------------------------


class _Split:
    """Queries to choose on and to report on; the others are learned from.

    Attributes
    ----------
    validation, test : ids of held-out queries
    text : a sentence on it
    notes : what the reader should know
    """

    def __init__(
        self,
        sources: Mapping[str, Mapping[str, Any]],
        usable: Mapping[str, Mapping[str, Any]],
        threes: Mapping[str, _Pairs],
        random_state: int,
    ) -> None:
        self.validation, self.test = (
            {*usable.get(name, ()), *(threes[name].qids if name in threes else ())} for name in _SPLITS
        )
        given = {_JUDGED: usable, _THREES: threes, _CLICKS: {}}
        self.notes: tuple[str, ...] = ()
        sentences = []
        for source, by_query in sources.items():
            free = {qid: True for qid in by_query if qid not in self.validation and qid not in self.test}
            if len(sources) > 1 and len(free) < FEWEST_QUERIES:
                self.notes += (f"{len(free)} queries with {source} are too few to hold any out.",)
                continue
            what = {_JUDGED: "judged queries", _THREES: "queries with preferences", _CLICKS: "queries with clicks"}
            parts = [given[source].get(name) or None for name in _SPLITS]
            otherwise = f"validation and test {'judgements' if source == _JUDGED else 'preferences'}"
            _, (to_choose, to_report), sentence = hold_out(
                free, parts, random_state, what=what[source], otherwise=otherwise
            )
            self.validation |= to_choose.keys()
            self.test |= to_report.keys()
            sentences.append(sentence)
        self.text = sentences[0] if sentences else "Validation and test queries were given."
        if len(sources) > 1:
            self.text += f" So of {' and '.join(sources)} each; a query held out in one is held out in all."

    def learned(self, by_query: Iterable[str]) -> list[str]:
        """Those queries that are learned from."""
        return [qid for qid in by_query if qid not in self.validation and qid not in self.test]


@dataclass(frozen=True, eq=False)
class _Evidence:
    """All sources, ready to be learned from and to be measured by."""

    docs: Mapping[str, str]
    texts: Mapping[str, str]
    doc_rows: Mapping[str, int]
    sources: Mapping[str, Mapping[str, Any]]
    split: _Split
    usable: Mapping[str, Mapping[str, Any]]
    threes: Mapping[str, _Pairs]
    log: _Pairs | None
    clicks: ClickLog | None
    measure: str
    query_rows: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "query_rows", {qid: row for row, qid in enumerate(self.texts)})

    # -- learning ----------------------------------------------------------------------------------------------------

    def task(self) -> Task:
        samplers: dict[str, tuple[Sampler, float]] = {}
        kind = "preferences" if list(self.sources) == [_THREES] else " and ".join(self.sources)
        data: dict[str, Any] = {"kind": kind, "n_docs": len(self.docs), "n_queries": len(self.texts)}
        learned: set[str] = set()
        for source, by_query in self.sources.items():
            qids = self.split.learned(by_query)
            if source == _JUDGED:
                qrels = {qid: by_query[qid] for qid in qids}
                if not qrels:
                    continue
                size = data["n_judgements"] = sum(map(len, qrels.values()))
                sampler: Sampler = JudgementSampler.from_qrels(
                    qrels, n_docs=len(self.docs), query_rows=self.query_rows, doc_rows=self.doc_rows
                )
            else:
                pairs = self._learned_pairs(source, qids)
                if not pairs.query.size:
                    continue
                if pairs.place is None:
                    size = data["n_preferences"] = pairs.query.size
                else:
                    size = data["n_lists"] = pairs.n_lists
                    data["n_click_preferences"] = pairs.query.size
                sampler = PreferenceSampler(pairs.preferences(self.query_rows))
                qids = list(pairs.qids)
            samplers[source] = sampler, float(size)
            learned.update(qids)
        if not samplers:
            raise InputError("there is nothing to learn from beside the queries that are held out")
        total = sum(size for _, size in samplers.values())
        mixture = MixtureSampler(list(samplers.values()))
        if len(samplers) > 1:
            shares = zip(samplers, mixture.shares, strict=True)
            data["draws"] = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        one = next(iter(samplers.values()))[0]
        ordered = [qid for qid in self.texts if qid in learned]
        facts = Facts(data, len(ordered), self._split_text(), self.texts, self._parts, self._notes())
        return Task(mixture if len(samplers) > 1 else one, round(total), facts, self._builder(ordered))

    def _learned_pairs(self, source: str, qids: list[str]) -> _Pairs:
        if source == _THREES:
            return self.threes["preferences"].of(qids)
        assert self.log is not None
        return self.log.of(qids, self._place < self._tenth(8))

    # -- measuring ---------------------------------------------------------------------------------------------------

    def _builder(self, learned: list[str]) -> Callable[[Vectoriser], Matrices]:
        def build(vectoriser: Vectoriser) -> Matrices:
            Q, D = matrices_of(vectoriser, self.docs, self.texts, learned)
            to_choose, to_report = (self._main(split, Q, D) for split in _SPLITS)
            return Q, D, to_choose, to_report

        return build

    def _main(self, split: str, Q: sparse.csr_array, D: sparse.csr_array) -> HeldOutQueries | HeldOutPreferences:
        """What chooses, or reports: judgements where the measure is one of rankings, else threes and clicks."""
        if self.measure != PAIR_ACCURACY:
            return HeldOutQueries.from_qrels(self._judged(split), Q, D, self.query_rows, self.doc_rows, self.measure)
        pairs = [part for part in (self._threes(split), self._clicks(split)) if part is not None]
        return _Pairs.joined(pairs).held_out(Q, D, self.query_rows)

    def _parts(self, Q: sparse.csr_array, D: sparse.csr_array) -> tuple[HeldOutPart, ...]:
        """What is reported of each source; nothing where there is one, which the table is of."""
        parts = []
        if (judged := self._judged("test")) and (len(self.sources) > 1 or self.measure == PAIR_ACCURACY):
            measure = "nDCG@10" if self.measure == PAIR_ACCURACY else self.measure
            held_out = HeldOutQueries.from_qrels(judged, Q, D, self.query_rows, self.doc_rows, measure)
            parts.append(HeldOutPart("judgements", held_out, sum(map(len, judged.values()))))
        threes = self._threes("test")
        if threes is not None and len(self.sources) > 1:
            parts.append(HeldOutPart("threes", threes.held_out(Q, D, self.query_rows), threes.query.size))
        unseen, last = self._clicks("test"), self._last()
        for name, pairs in (("queries that nothing was learned from", unseen), ("the last tenth of the log", last)):
            if pairs is not None:
                parts.append(HeldOutPart(f"clicks, {name}", pairs.held_out(Q, D, self.query_rows), pairs.n_lists))
        return tuple(parts)

    def _judged(self, split: str) -> dict[str, Mapping[str, int]]:
        held_out = getattr(self.split, split)
        given = self.usable.get(split) or {}
        drawn = {qid: judged for qid, judged in self.usable["qrels"].items() if qid in held_out}
        return {**given, **drawn}

    def _threes(self, split: str) -> _Pairs | None:
        held_out = getattr(self.split, split)
        parts = [part.of(held_out) for name, part in self.threes.items() if name in (split, "preferences")]
        parts = [part for part in parts if part.query.size]
        return _Pairs.joined(parts) if parts else None

    def _clicks(self, split: str) -> _Pairs | None:
        """Queries that nothing is learned from; those that choose have the last tenth but one of the others besides."""
        if self.log is None:
            return None
        pairs = self.log.of(getattr(self.split, split))
        if split == "validation":
            before = self._place < self._tenth(9)
            recent = self.log.of(self.split.learned(self.log.qids), before & (self._place >= self._tenth(8)))
            pairs = _Pairs.stacked([self.log.of(self.split.validation, before), recent])
        return pairs if pairs.query.size else None

    # -- the log -----------------------------------------------------------------------------------------------------

    def _last(self) -> _Pairs | None:
        """The last tenth of the log, without the queries that chose."""
        if self.log is None:
            return None
        qids = [qid for qid in self.log.qids if qid not in self.split.validation]
        pairs = self.log.of(qids, self._place >= self._tenth(9))
        return pairs if pairs.query.size else None

    @property
    def _place(self) -> NDArray[np.int64]:
        assert self.log is not None
        assert self.log.place is not None
        return self.log.place

    def _tenth(self, n: int) -> int:
        """Where the n-th tenth of the log ends."""
        assert self.clicks is not None
        return round(len(self.clicks.impressions) * n / 10)

    def _split_text(self) -> str:
        text = self.split.text
        if self.clicks is not None:
            order = "by time" if self.clicks.is_timed else "in the order of the file"
            text += (
                f" Of the click log the last tenth, {order}, was held out to report on, the one before to choose on."
            )
        return text

    def _notes(self) -> tuple[str, ...]:
        if self.clicks is None:
            return self.split.notes
        shown = [doc_id for impression in self.clicks.impressions for doc_id in impression.shown]
        n_unknown = sum(doc_id not in self.doc_rows for doc_id in shown)
        unknown = f"{n_unknown:,} of {len(shown):,} documents shown in the click log are unknown and were passed over."
        return (*self.split.notes, *self.clicks.notes, *([unknown] if n_unknown else []))
