"""Evidence in one task: judgements, links, preferences and clicks, alone or together.

A query that is left out in one source is left out in all. Preferences are drawn from each source in proportion to its
size: judgements, triplets, and lists with a click.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.click_sessions import without_odd_sessions
from tercet.data.clicks import ClickLog
from tercet.data.preferences import PreferenceSampler
from tercet.data.sampling import MixtureSampler, Sampler
from tercet.errors import InputError
from tercet.fitting.click_judgements import LAST_SHARE, past_clicks
from tercet.fitting.examination import Examination, choose_examination
from tercet.fitting.judged import (
    FEWEST_CHOOSING,
    MOST_CHOOSING,
    MOST_SCORES,
    JudgementRows,
    check_texts,
    matrices_of,
    usable_judgements,
    weighted_alike,
)
from tercet.fitting.leaving_out import (
    FEWEST_QUERIES,
    N_FOLDS,
    alike_notes,
    check_enough,
    folds_of,
    new_answers,
    split_text,
)
from tercet.fitting.preference_pairs import PreferredPairs, QueryNames, pairs_of_clicks, pairs_of_triplets
from tercet.fitting.task import (
    EVERY,
    KNOWN,
    NEW,
    RECENTLY,
    REPEATED,
    Facts,
    Fold,
    HeldOutPart,
    Past,
    Qrels,
    Task,
    TextHeldOut,
    Triplets,
    check_disjoint,
    document_notes,
    evidence_size,
    some_queries,
)
from tercet.measure.names import PAIR_ACCURACY, parse_measure
from tercet.text import Vectoriser
from tercet.text.counting import CountedTexts
from tercet.text.fielded import FieldedVectoriser

JUDGED, TRIPLETS, CLICKS = "judgements", "triplets", "clicks"
_SPLITS = ("validation", "test")
_LAST_TENTH = "clicks, the last tenth of the log"
_USUAL_NEW: Final = 0.3  # share of new answers where nothing better is known
_MANY_QUERIES: Final = 1_000  # of which new answers are left out once; of fewer, three times


def evidence_task(
    docs: Mapping[str, str],
    queries: Mapping[str, str] | None,
    *,
    qrels: Qrels | None = None,
    preferences: Triplets | None = None,
    clicks: ClickLog | None = None,
    validation: Qrels | Triplets | None = None,
    test: Qrels | Triplets | None = None,
    measure: str | None = None,
    linked: bool = False,
    new_documents: float | None = None,
    min_sessions: int = 2,
    random_state: int = 0,
) -> tuple[Task, str]:
    """Make one task of all evidence, and name the measure that chooses.

    Parameters
    ----------
    docs, queries : texts by id; without queries, those of triplets and clicks are texts
    qrels, preferences, clicks : evidence to learn from
    validation, test : judgements, or triplets, of other queries
    measure : by default nDCG@10 if judgements can be held out, else the share of triplets and clicks in the right order
    linked : queries are the documents, and no query is to find itself
    new_documents : expected share of answers that are new; None estimates the share
    min_sessions : sessions that asked a query of a click log before memory keeps the query
    """
    if queries is not None:  # otherwise queries are texts of triplets and clicks, read below
        check_texts(docs, queries)
    names = QueryNames(queries)
    examination = None
    if clicks is not None:
        clicks = without_odd_sessions(clicks)
        examination = choose_examination(clicks)
        clicks = replace(clicks, notes=(*clicks.notes, f"click log: {examination.source}."))
    given: dict[str, Any] = dict(zip(_SPLITS, (validation, test), strict=True))
    judged = {"qrels": qrels} | {name: part for name, part in given.items() if isinstance(part, Mapping)}
    listed = {"preferences": preferences} | {name: part for name, part in given.items() if name not in judged}
    usable = {name: usable_judgements(part, name, docs, names.texts) for name, part in judged.items()}
    doc_rows = {doc_id: row for row, doc_id in enumerate(docs)}
    triplets = {
        name: pairs_of_triplets(part, name, names, doc_rows) for name, part in listed.items() if part is not None
    }
    log = None
    if clicks is not None and examination is not None:
        log = pairs_of_clicks(clicks, names, doc_rows, examination.chances)
    check_texts(docs, names.texts)
    check_disjoint(usable)
    check_disjoint({name: part.qids for name, part in triplets.items()})
    sources: dict[str, Mapping[str, Any]] = {}
    if qrels is not None:
        sources[JUDGED] = usable["qrels"]
    if preferences is not None:
        sources[TRIPLETS] = triplets["preferences"].qids
    if log is not None:
        sources[CLICKS] = log.qids
    held = {name: {*usable.get(name, ()), *(triplets[name].qids if name in triplets else ())} for name in _SPLITS}
    free = {
        source: [qid for qid in by_query if qid not in held["validation"] | held["test"]]
        for source, by_query in sources.items()
    }
    is_judged = bool(usable.get("validation")) or (
        validation is None and len(free.get(JUDGED, ())) >= (FEWEST_QUERIES if len(sources) > 1 else 1)
    )
    is_judged &= test is None or bool(usable.get("test"))
    if usable.get("validation") and not is_judged:
        raise InputError("validation has judgements, so test needs some, too; or give triplets to validate on")
    chosen_by = str(parse_measure(measure or ("nDCG@10" if is_judged else PAIR_ACCURACY)))
    if chosen_by != PAIR_ACCURACY and not is_judged:
        raise InputError(f"triplets and clicks are measured by {PAIR_ACCURACY}; got {measure!r}")
    compared = {qid for part in (*triplets.values(), *([] if log is None else [log])) for qid in part.qids}
    for name, qids in held.items():
        if chosen_by == PAIR_ACCURACY and qids and compared.isdisjoint(qids):
            raise InputError(
                f"{name} has judgements, and {PAIR_ACCURACY} is measured on triplets and clicks, of which its queries "
                f"have none; give triplets as {name}" + ("" if measure else ", or judgements to validate on, too")
            )
    evidence = _Evidence(
        docs,
        names.texts,
        doc_rows,
        free,
        held,
        usable,
        triplets,
        log,
        clicks,
        examination,
        chosen_by,
        linked,
        new_documents,
        min_sessions,
        random_state,
    )
    return evidence.task(), chosen_by


class _Drawn(NamedTuple):
    """A sampler of some evidence, the size of the evidence, and facts about it."""

    sampler: Sampler
    size: int
    data: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Evidence:
    """All sources, ready to learn from and to measure by.

    ``sources`` are the queries to learn from; ``given`` the queries of validation and test, where given.
    """

    docs: Mapping[str, str]
    texts: Mapping[str, str]
    doc_rows: Mapping[str, int]
    sources: Mapping[str, Sequence[str]]
    given: Mapping[str, Set[str]]
    usable: Mapping[str, Mapping[str, Any]]
    triplets: Mapping[str, PreferredPairs]
    log: PreferredPairs | None
    clicks: ClickLog | None
    examination: Examination | None
    measure: str
    linked: bool
    new_documents: float | None
    min_sessions: int
    seed: int

    @cached_property
    def query_rows(self) -> dict[str, int]:
        return {qid: row for row, qid in enumerate(self.texts)}

    @cached_property
    def judged(self) -> JudgementRows | None:
        every = {qid: judged for part in self.usable.values() for qid, judged in part.items()}
        measure = "nDCG@10" if self.measure == PAIR_ACCURACY else self.measure
        return JudgementRows.from_qrels(every, self.query_rows, self.doc_rows, measure, self.linked) if every else None

    @cached_property
    def free(self) -> set[str]:
        """Queries to learn from."""
        return {qid for qids in self.sources.values() for qid in qids}

    def task(self) -> Task:
        drawn = self._drawn(self.free)
        if drawn is None:
            raise InputError("there is nothing to learn from beside the queries that are held out")
        notes: list[str] = []
        left_out = [] if self.given["validation"] else self._left_out(notes)
        # Nothing is learned where the start is chosen, so that validation queries can choose, too.
        choosing = self.free | self.given["validation"]
        kind = "preferences" if list(self.sources) == [TRIPLETS] else " and ".join(self.sources)
        kind = "linked documents" if self.linked else "judged queries" if kind == JUDGED else kind
        data = {"kind": kind, "n_docs": len(self.docs), "n_queries": len(self.texts)} | drawn.data
        ordered = [qid for qid in self.texts if qid in self.free]
        named = dict(self.texts) | {_recently(qid): text for qid, text in self.texts.items()}
        said = (*notes, *self._notes(), *document_notes(self.docs))
        facts = Facts(data, len(ordered), self._split_text(left_out), named, said)
        counted = CountedTexts(self.docs.values())
        past = self._past(self.free)

        def build(vectorisers: Sequence[Vectoriser]) -> list[tuple[sparse.csr_array, sparse.csr_array]]:
            if self.linked:
                return weighted_alike(vectorisers, counted, counted)
            return matrices_of(vectorisers, self.docs, self.texts, ordered, counted)

        def counts(words: Vectoriser) -> sparse.csr_array:
            plain = words.plain_ if isinstance(words, FieldedVectoriser) else words
            return plain.counts(counted).rows(len(plain.words_))

        def report_on(vectoriser: Vectoriser, Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            return self._parts(self.given["test"], Q, D, by_documents=past.known)

        without = map(self._known_fold, map(set, left_out) if left_out else [self.given["validation"]])
        known = tuple(fold for fold in without if fold is not None)
        if not known:
            raise InputError("there is nothing to learn from beside the queries that are left out")
        shares, reason = self._shares(left_out)
        return Task(
            drawn.sampler,
            drawn.size,
            facts,
            build,
            lambda D: tuple(self._folds(known, D)),
            lambda Q, D: some_queries(self._main(choosing, Q, D), MOST_SCORES, FEWEST_CHOOSING).at_most(MOST_CHOOSING),
            known,
            report_on if self.given["test"] else None,
            past,
            shares,
            reason,
            counts,
            doc_ids=tuple(self.docs),
            qids=tuple(self.texts),
        )

    # -- learning ----------------------------------------------------------------------------------------------------

    def _drawn(
        self, qids: Set[str], withheld: NDArray[np.bool_] | None = None, before: int | None = None
    ) -> _Drawn | None:
        """Draw from the evidence of some queries.

        Parameters
        ----------
        withheld : mask of documents that are never the better one, (n_docs,)
        before : end of the part of the log to draw from
        """
        samplers: dict[str, tuple[Sampler, float]] = {}
        data: dict[str, Any] = {}
        for source, usable in self.sources.items():
            named = [qid for qid in usable if qid in qids]
            if source == JUDGED:
                assert self.judged is not None
                judged = self.judged.subset(named)
                judged = judged if withheld is None else judged.drop(withheld)
                if not judged.qids:
                    continue
                size = data["n_judgements"] = judged.grades.nnz
                sampler: Sampler = judged.sampler()
            else:
                pairs = self._chosen_pairs(source, named, withheld, before)
                if not pairs.query.size:
                    continue
                if pairs.position is None:
                    size = data["n_preferences"] = pairs.query.size
                else:
                    size = data["n_lists"] = pairs.n_lists
                    data["n_click_preferences"] = pairs.query.size
                sampler = PreferenceSampler(pairs.preferences(self.query_rows))
            samplers[source] = sampler, float(size)
        if not samplers:
            return None
        total = round(sum(size for _, size in samplers.values()))
        if len(samplers) == 1:
            return _Drawn(next(iter(samplers.values()))[0], total, data)
        mixture = MixtureSampler(list(samplers.values()))
        shares = zip(samplers, mixture.shares, strict=True)
        data["draws"] = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        return _Drawn(mixture, total, data)

    def _chosen_pairs(
        self, source: str, qids: Sequence[str], withheld: NDArray[np.bool_] | None, before: int | None
    ) -> PreferredPairs:
        """Triplets or clicks of some queries, without documents that are withheld."""
        pairs = self.triplets["preferences"] if source == TRIPLETS else self.log
        assert pairs is not None
        kept = np.ones(pairs.query.size, dtype=bool)
        if withheld is not None:  # the rest of their pairs would only say that they are worse
            kept = ~(withheld[pairs.better] | withheld[pairs.worse])
        if pairs.position is not None and before is not None:
            kept &= pairs.position < before
        return pairs.for_queries(qids, kept)

    def _past(self, qids: Set[str], withheld: NDArray[np.bool_] | None = None, before: int | None = None) -> Past:
        """Evidence for memory; the parameters are those of `_drawn`."""
        shape = len(self.texts), len(self.docs)
        evidence = sparse.csr_array(shape, dtype=np.float32)
        times: sparse.csr_array | None = None
        for source, usable in self.sources.items():
            named = [qid for qid in usable if qid in qids]
            if source == JUDGED:
                assert self.judged is not None
                judged = self.judged.subset(named)
                cells = judged.grades.tocoo()
                relevant = cells.data > 0
                values = cells.data[relevant] / max(1, cells.data.max(initial=1))
                rows, columns = judged.rows[cells.row[relevant]], cells.col[relevant]
            elif source == TRIPLETS:
                rows, columns, values = _wins(self._chosen_pairs(source, named, withheld, before), self.query_rows)
            else:
                assert self.examination is not None
                log = self._log if before is None else self._log.subset(range(before))
                kept = set(named)
                found = [
                    (self.query_rows[one.query], self.doc_rows[one.doc_id], one.evidence, one.n_clicks)
                    for one in past_clicks(log, self.examination.chances, min_sessions=self.min_sessions)
                    if one.query in kept and one.doc_id in self.doc_rows
                ]
                columns_of = np.array(found, dtype=np.float64).reshape(-1, 4).T
                rows, columns, values = columns_of[0].astype(np.int64), columns_of[1].astype(np.int64), columns_of[2]
                times = sparse.csr_array((columns_of[3].astype(np.int32), (rows, columns)), shape=shape)
            evidence = sparse.csr_array(
                evidence + sparse.csr_array((values.astype(np.float32), (rows, columns)), shape=shape)
            )
        if withheld is not None:
            evidence.data[withheld[evidence.indices]] = 0
        evidence.eliminate_zeros()
        evidence.sort_indices()
        past_rows = np.flatnonzero(np.diff(evidence.indptr))
        evidence = evidence[past_rows]
        counts = None
        if times is not None and evidence.nnz:
            rows = np.repeat(past_rows, np.diff(evidence.indptr))
            # A sparse array would give a sparse array here; of a sparse matrix these are plain numbers.
            counts = np.asarray(sparse.csr_matrix(times)[rows, evidence.indices]).ravel().astype(np.int32)
        return Past(past_rows.astype(np.int64), evidence, counts)

    @cached_property
    def _log(self) -> ClickLog:
        """The click log with queries by id."""
        assert self.clicks is not None
        names = QueryNames(self.texts)
        lists = (one._replace(query=names.find(one.query) or one.query) for one in self.clicks.impressions)
        return replace(self.clicks, impressions=tuple(lists))

    # -- leaving out -------------------------------------------------------------------------------------------------

    def _left_out(self, notes: list[str]) -> list[list[str]]:
        """Queries that each fold leaves out: equal parts of the measured queries, and equal parts of the others."""
        main = [JUDGED] if self.measure != PAIR_ACCURACY else [one for one in self.sources if one != JUDGED]
        main = main or [JUDGED]
        what = {JUDGED: "judged queries", TRIPLETS: "queries with preferences", CLICKS: "queries with clicks"}
        measured = {qid for source in main for qid in self.sources[source]}
        otherwise = f"validation {'judgements' if main == [JUDGED] else 'preferences'}"
        check_enough(len(measured), " and ".join(what[source] for source in main), otherwise)
        if JUDGED in self.sources and main != [JUDGED]:
            notes.append(f"{len(self.sources[JUDGED])} queries with judgements are too few to choose by.")
        # Documents that are queries of the same text are documents of their own.
        folds = folds_of(sorted(measured), self.seed, texts=None if self.linked else self.texts)
        notes += () if self.linked else alike_notes(sorted(measured), self.texts)
        others = sorted(self.free - measured)
        if not others:
            return folds
        order = np.random.default_rng(self.seed).permutation(len(others))
        siblings = [[others[number] for number in part] for part in np.array_split(order, N_FOLDS)]
        return [[*fold, *siblings[number % N_FOLDS]] for number, fold in enumerate(folds)]

    def _folds(self, known: Sequence[Fold], D: sparse.csr_array) -> list[Fold]:
        """Folds of all cases, those of few folds first."""
        others = [*self._new_folds(D), self._recent()]
        return [fold for fold in (known[0], *others, *known[1:]) if fold is not None]

    def _known_fold(self, out: Set[str]) -> Fold | None:
        return self._fold(KNOWN, self.free - out, lambda Q, D: self._parts(out, Q, D))

    def _fold(
        self,
        case: str | None,
        learned: Set[str],
        parts: Callable[[sparse.csr_array, sparse.csr_array], list[HeldOutPart]],
        withheld: NDArray[np.bool_] | None = None,
        before: int | None = None,
    ) -> Fold | None:
        drawn = self._drawn(learned, withheld, before)
        return (
            None
            if drawn is None
            else Fold(case, drawn.sampler, drawn.size, parts, self._past(learned, withheld, before))
        )

    def _new_folds(self, D: sparse.csr_array) -> list[Fold | None]:
        """Folds whose answers nothing is learned from."""
        qids, answers = self._answers(self.free)
        rng = np.random.default_rng(self.seed)
        folds: list[Fold | None] = []
        for _ in range(1 if len(qids) >= _MANY_QUERIES else 3):
            left_out = new_answers(answers, D, rng)
            if left_out is None:
                break
            out, docs = {qids[number] for number in left_out.queries}, left_out.docs

            def parts(Q: sparse.csr_array, D: sparse.csr_array, out: Any = out, docs: Any = docs) -> list[HeldOutPart]:
                held_out = self._main(out, Q, D).by_documents(docs)
                assert held_out is not None
                held_out = held_out.at_most(MOST_CHOOSING)
                return [HeldOutPart(NEW, held_out, evidence_size(held_out))]

            folds.append(self._fold(NEW, self.free - out, parts, docs))
        return folds

    def _recent(self) -> Fold | None:
        """Leave out the last tenth of the log, and measure its queries that were asked before."""
        if self.log is None or self.log.position is None or self.clicks is None:
            return None
        since = self._since
        asked_before = self.log.for_queries(self.free, self.log.position < since).qids
        last = self.log.for_queries(asked_before, self.log.position >= since)
        if not last.query.size:
            return None
        decides = self.measure == PAIR_ACCURACY

        def parts(Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            held_out = last.held_out(Q, D, self.query_rows)
            held_out = replace(held_out, qids=tuple(map(_recently, held_out.qids)))
            return [HeldOutPart(REPEATED if decides else _LAST_TENTH, held_out, last.n_lists)]

        return self._fold(REPEATED if decides else None, self.free, parts, before=since)

    @cached_property
    def _since(self) -> int:
        assert self.clicks is not None
        return round(len(self.clicks.impressions) * (1 - LAST_SHARE))

    def _shares(self, left_out: Sequence[Sequence[str]]) -> tuple[dict[str, float], str]:
        """Expected shares of the cases, and the origin of the share of new answers in words."""
        repeated, ended = 0.0, None
        if self.clicks is not None and self.measure == PAIR_ACCURACY:
            first, last = (self._log.impressions[part] for part in (slice(self._since), slice(self._since, None)))
            clicked = [one for one in last if one.clicked]
            asked, chosen = {one.query for one in first}, {doc_id for one in first for doc_id in one.clicked}
            if clicked:
                repeated = sum(one.query in asked for one in clicked) / len(clicked)
                choices = [doc_id for one in clicked for doc_id in one.clicked if doc_id in self.doc_rows]
                ended = sum(doc_id not in chosen for doc_id in choices) / max(1, len(choices))
        if self.new_documents is not None:
            new, reason = self.new_documents, "as given"
        elif ended is not None:
            new, reason = ended, "as in the last tenth of the log"
        else:
            _, answers = self._answers(self.free)
            times = np.bincount(answers.indices, minlength=len(self.docs))
            if left_out:  # of its own answers a query that is left out takes one time with it
                times -= 1
            else:
                _, answers = self._answers(self.given["validation"])
            alone = float((times[answers.indices] < 1).mean()) if answers.nnz else 0.0
            new = max(_USUAL_NEW, alone)
            reason = "the default" if new > alone else "as among the queries that were left out"
        return {KNOWN: (1 - new) * (1 - repeated), REPEATED: (1 - new) * repeated, NEW: new}, reason

    # -- measuring ---------------------------------------------------------------------------------------------------

    def _main(self, qids: Set[str], Q: sparse.csr_array, D: sparse.csr_array) -> TextHeldOut:
        """Evidence that chooses and reports: judgements if the measure is one of rankings, else pairs."""
        if self.measure != PAIR_ACCURACY:
            assert self.judged is not None
            return self.judged.subset(qids).evaluator(Q, D)
        return PreferredPairs.joined(self._pairs(qids)).held_out(Q, D, self.query_rows)

    def _pairs(self, qids: Set[str]) -> list[PreferredPairs]:
        """Triplets and clicks of some queries, of each source that has some."""
        parts = [part.for_queries(qids) for part in self.triplets.values()]
        triplets = [part for part in parts if part.query.size]
        clicks = [] if self.log is None else [self.log.for_queries(qids)]
        return [*([PreferredPairs.joined(triplets)] if triplets else []), *(part for part in clicks if part.query.size)]

    def _answers(self, qids: Set[str]) -> tuple[list[str], sparse.csr_array]:
        """Queries, and (n_queries, n_docs), non-zero where a document answers or is the better one."""
        if self.measure != PAIR_ACCURACY:
            assert self.judged is not None
            judged = self.judged.subset(qids)
            return list(judged.qids), judged.answers()
        pairs = PreferredPairs.joined(self._pairs(qids))
        numbers, number = np.unique(pairs.query, return_inverse=True)
        name_of = {number: qid for qid, number in pairs.qids.items()}
        entries = np.ones(pairs.query.size, dtype=np.int8), (number.ravel(), pairs.better)
        answers = sparse.csr_array(entries, shape=(numbers.size, len(self.docs)))
        answers.sum_duplicates()
        return [name_of[number] for number in numbers.tolist()], answers

    def _parts(
        self,
        qids: Set[str],
        Q: sparse.csr_array,
        D: sparse.csr_array,
        by_documents: NDArray[np.bool_] | None = None,
    ) -> list[HeldOutPart]:
        """All of the evidence, the evidence by known and new documents, and by source where there are several."""
        main = self._main(qids, Q, D)
        parts = [HeldOutPart(EVERY, main, evidence_size(main))]
        if by_documents is not None:
            for name, chosen in ((KNOWN, by_documents), (NEW, ~by_documents)):
                part = main.by_documents(chosen)
                if part is not None:
                    parts.append(HeldOutPart(name, part, evidence_size(part)))
        sources = []
        if self.judged is not None and (judged := self.judged.subset(qids)).qids:
            sources.append(HeldOutPart(JUDGED, judged.evaluator(Q, D), judged.grades.nnz))
        for pairs in self._pairs(qids):
            name, size = TRIPLETS, pairs.query.size
            if pairs.position is not None:
                name, size = CLICKS, pairs.n_lists
            sources.append(HeldOutPart(name, pairs.held_out(Q, D, self.query_rows), size))
        return [*parts, *sources] if len({*self.sources, *(part.name for part in sources)}) > 1 else parts

    # -- words -------------------------------------------------------------------------------------------------------

    def _split_text(self, left_out: Sequence[Sequence[str]]) -> str:
        text = split_text(len(left_out), sum(map(len, left_out[:N_FOLDS])), tested=bool(self.given["test"]))
        if len(self.sources) > 1:
            text += f" So of {' and '.join(self.sources)} each; a query left out in one is left out in all."
        if self.clicks is not None:
            order = "by time" if self.clicks.is_timed else "in the order of the file"
            text += f" Of the click log the last tenth, {order}, was left out of one fit."
        return text

    def _notes(self) -> tuple[str, ...]:
        if self.clicks is None:
            return ()
        shown = [doc_id for impression in self.clicks.impressions for doc_id in impression.shown]
        n_unknown = sum(doc_id not in self.doc_rows for doc_id in shown)
        unknown = f"{n_unknown:,} of {len(shown):,} documents shown in the click log are unknown and were passed over."
        return (*self.clicks.notes, *([unknown] if n_unknown else []))


def _wins(
    pairs: PreferredPairs, query_rows: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Evidence of triplets by row of Q and D: ``2 (wins - losses) / (wins + losses + 1)``, so 1 for a single win."""
    prefs = pairs.preferences(query_rows)
    weight = np.ones(len(prefs)) if prefs.weight is None else prefs.weight.astype(np.float64)
    rows = np.concatenate([prefs.query, prefs.query]).astype(np.int64)
    columns = np.concatenate([prefs.better, prefs.worse]).astype(np.int64)
    width = int(columns.max(initial=0)) + 1
    keys, number = np.unique(rows * width + columns, return_inverse=True)
    total = np.bincount(number.ravel(), np.concatenate([weight, weight]), minlength=keys.size)
    net = np.bincount(number.ravel(), np.concatenate([weight, -weight]), minlength=keys.size)
    return keys // width, keys % width, 2 * net / (total + 1)


def _recently(qid: str) -> str:
    """Name of a query for its lists in the last tenth of the log."""
    return qid + RECENTLY
