"""The task of texts: judgements, links, preferences and clicks, alone or together, and the three cases to choose by.

A query that is left out in one source is left out in all. Preferences are drawn from each source in proportion to its
size: judgements, triplets, and lists with a click.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.click_sessions import without_odd_sessions
from tercet.data.clicks import ClickLog
from tercet.data.sampling import MixtureSampler, Sampler
from tercet.errors import InputError
from tercet.fitting.click_judgements import end_of
from tercet.fitting.examination import choose_examination
from tercet.fitting.judged import Judgements, check_texts, usable_judgements
from tercet.fitting.leaving_out import (
    FEWEST_QUERIES,
    N_FOLDS,
    Selection,
    alike_notes,
    folds_of,
    new_answers,
    split_text,
)
from tercet.fitting.preference_pairs import ClickPairs, PreferredPairs, QueryNames, by_known_names
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
from tercet.fitting.text_rows import rows_of_texts
from tercet.measure.names import PAIR_ACCURACY, parse_measure
from tercet.text import Vectoriser
from tercet.text.counting import CountedTexts
from tercet.text.fielded import FieldedVectoriser, docs_for

JUDGED, TRIPLETS, CLICKS = Judgements.name, PreferredPairs.name, ClickPairs.name
_LAST_TENTH = "clicks, the last tenth of the log"
_USUAL_NEW: Final = 0.3  # share of new answers where nothing better is known
_MANY_QUERIES: Final = 1_000  # of which new answers are left out once; of fewer, three times
# The queries that choose are ranked once for every way to weight words.
_MOST_SCORES: Final = 4_000_000
_FEWEST_CHOOSING: Final = 300
_MOST_CHOOSING: Final = 500

Source = Judgements | PreferredPairs
Mask = NDArray[np.bool_]
Parts = Callable[[sparse.csr_array, sparse.csr_array], list[HeldOutPart]]


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
    doc_rows = {doc_id: row for row, doc_id in enumerate(docs)}
    given: dict[str, Any] = {"qrels": qrels, "preferences": preferences, "validation": validation, "test": test}
    graded = {
        name: usable_judgements(part, name, docs, names.texts)
        for name, part in given.items()
        if (name == "qrels" and part is not None) or (name in ("validation", "test") and isinstance(part, Mapping))
    }
    triplets = {
        name: PreferredPairs.from_triplets(part, name, names, doc_rows)
        for name, part in given.items()
        if part is not None and name not in graded
    }
    log = None
    if clicks is not None:
        clicks = by_known_names(without_odd_sessions(clicks), names)
        examination = choose_examination(clicks)
        clicks = replace(clicks, notes=(*clicks.notes, f"click log: {examination.source}."))
        log = ClickPairs.from_log(clicks, names, doc_rows, examination.chances, min_sessions)
    check_texts(docs, names.texts)
    check_disjoint(graded)
    n_queries, no_query = len(names.texts), _mask([], len(names.texts))
    queries_of = {name: _mask([names.rows[qid] for qid in judged], n_queries) for name, judged in graded.items()}
    queries_of |= {name: _mask(part.query, n_queries) for name, part in triplets.items()}
    queries_of |= {} if log is None else {CLICKS: _mask(log.query, n_queries)}
    qids = tuple(names.texts)
    check_disjoint({name: dict.fromkeys(qids[row] for row in np.flatnonzero(queries_of[name])) for name in triplets})
    to_choose, to_report = queries_of.get("validation", no_query), queries_of.get("test", no_query)
    free = np.any([queries_of.get(name, no_query) for name in ("qrels", "preferences", CLICKS)], axis=0)
    free &= ~(to_choose | to_report)
    to_learn = (JUDGED, qrels), (TRIPLETS, preferences), (CLICKS, clicks)
    trained = tuple(name for name, part in to_learn if part is not None)
    n_judged = (queries_of.get("qrels", no_query) & free).sum()
    is_judged = validation is None and n_judged >= (FEWEST_QUERIES if len(trained) > 1 else 1)
    is_judged = (is_judged or "validation" in graded) and (test is None or "test" in graded)
    if "validation" in graded and not is_judged:
        raise InputError("validation has judgements, so test needs some, too; or give triplets to validate on")
    chosen_by = parse_measure(measure or ("nDCG@10" if is_judged else PAIR_ACCURACY))
    by_pairs = str(chosen_by) == PAIR_ACCURACY
    if not by_pairs and not is_judged:
        raise InputError(f"triplets and clicks are measured by {PAIR_ACCURACY}; got {measure!r}")
    compared = np.any([no_query, *(queries for name, queries in queries_of.items() if name not in graded)], axis=0)
    for name, queries_of_part in (("validation", to_choose), ("test", to_report)):
        if by_pairs and queries_of_part.any() and not (queries_of_part & compared).any():
            raise InputError(
                f"{name} has judgements, and {PAIR_ACCURACY} is measured on triplets and clicks, of which its queries "
                f"have none; give triplets as {name}" + ("" if measure else ", or judgements to validate on, too")
            )
    sources: dict[str, Source] = {}
    if graded:
        every = {qid: by_query for part in graded.values() for qid, by_query in part.items()}
        graded_by = parse_measure("nDCG@10") if by_pairs else chosen_by
        sources[JUDGED] = Judgements.from_qrels(every, names.rows, doc_rows, graded_by, linked)
    if triplets:
        sources[TRIPLETS] = PreferredPairs.stacked(list(triplets.values()))
    if log is not None:
        sources[CLICKS] = log
    queries_by_part = free, to_choose, to_report
    evidence = _Evidence(
        docs, names.texts, sources, trained, *queries_by_part, by_pairs, linked, new_documents, random_state
    )
    return evidence.task(), str(chosen_by)


def _mask(rows: Sequence[int] | NDArray[np.int64], size: int) -> Mask:
    mask = np.zeros(size, dtype=bool)
    mask[rows] = True
    return mask


@dataclass(frozen=True, eq=False)
class _Evidence:
    """All sources, to learn from and to measure by.

    Attributes
    ----------
    sources : by name; ``trained`` names those that are learned from
    free, validation, test : masks of the queries to learn from, and of those of the given parts, (n_queries,)
    by_pairs : whether pairs of documents choose, not judgements
    """

    docs: Mapping[str, str]
    texts: Mapping[str, str]
    sources: Mapping[str, Source]
    trained: tuple[str, ...]
    free: Mask
    validation: Mask
    test: Mask
    by_pairs: bool
    linked: bool
    new_documents: float | None
    seed: int

    @cached_property
    def qids(self) -> tuple[str, ...]:
        return tuple(self.texts)

    @property
    def log(self) -> ClickPairs | None:
        source = self.sources.get(CLICKS)
        return source if isinstance(source, ClickPairs) else None

    def task(self) -> Task:
        drawn = self._drawn(self._all_of(self.free))
        if drawn is None:
            raise InputError("there is nothing to learn from beside the queries that are held out")
        sampler, size, sizes = drawn
        notes: list[str] = []
        left_out = [] if self.validation.any() else self._left_out(notes)
        # Nothing is learned where the start is chosen, so that validation queries can choose, too.
        choosing = self.free | self.validation
        kind = "preferences" if self.trained == (TRIPLETS,) else " and ".join(self.trained)
        kind = "linked documents" if self.linked else "judged queries" if kind == JUDGED else kind
        data = {"kind": kind, "n_docs": len(self.docs), "n_queries": len(self.texts)} | sizes
        asked = list(self.texts.values())
        taught = [asked[row] for row in np.flatnonzero(self.free)]
        named = dict(self.texts) | {_recently(qid): text for qid, text in self.texts.items()}
        notes += [*self._log_notes(), *document_notes(self.docs)]
        facts = Facts(data, len(taught), self._split_text(left_out), named, tuple(notes))
        counted = CountedTexts(self.docs.values())
        past = self._past(self._all_of(self.free))

        def build(vectorisers: Sequence[Vectoriser]) -> list[tuple[sparse.csr_array, sparse.csr_array]]:
            if self.linked:
                return rows_of_texts(vectorisers, counted, counted)
            if any(isinstance(words, FieldedVectoriser) for words in vectorisers):
                rows = [words.fit_transform_docs(docs_for(words, self.docs), queries=taught) for words in vectorisers]
                return [(words.transform_queries(asked), D) for words, D in zip(vectorisers, rows, strict=True)]
            return rows_of_texts(vectorisers, counted, asked, taught)

        def counts(words: Vectoriser) -> sparse.csr_array:
            plain = words.plain_ if isinstance(words, FieldedVectoriser) else words
            return plain.counts(counted).rows(len(plain.words_))

        def choose_by(Q: sparse.csr_array, D: sparse.csr_array) -> TextHeldOut:
            queries = self._main(choosing).held_out(Q, D, self.qids)
            return some_queries(queries, _MOST_SCORES, _FEWEST_CHOOSING).at_most(_MOST_CHOOSING)

        known: list[Fold] = []
        for out in left_out or [self.validation]:
            known += self._fold(KNOWN, self._all_of(self.free & ~out), partial(self._parts, out))
        if not known:
            raise InputError("there is nothing to learn from beside the queries that are left out")
        shares, reason = self._shares(left_out)
        return Task(
            sampler,
            size,
            facts,
            build,
            lambda D: (known[0], *self._new_folds(D), *self._recent(), *known[1:]),  # the cases of few folds first
            choose_by,
            tuple(known),
            (lambda words, Q, D: self._parts(self.test, Q, D, past.known)) if self.test.any() else None,
            past,
            shares,
            reason,
            counts,
            doc_ids=tuple(self.docs),
            qids=self.qids,
        )

    def _all_of(self, queries: Mask) -> Selection:
        return Selection(queries, np.zeros(len(self.docs), dtype=bool))

    # -- learning ----------------------------------------------------------------------------------------------------

    def _drawn(self, keep: Selection) -> tuple[Sampler, int, dict[str, Any]] | None:
        """Sampler of the selected evidence, its size, and facts about it; None if there is no such evidence."""
        parts = [part for source in self.sources.values() if (part := source.select(keep)).size]
        if not parts:
            return None
        data: dict[str, Any] = {name: number for part in parts for name, number in part.facts.items()}
        size = sum(part.size for part in parts)
        if len(parts) == 1:
            return parts[0].sampler(), size, data
        mixture = MixtureSampler([(part.sampler(), float(part.size)) for part in parts])
        shares = zip(parts, mixture.shares, strict=True)
        data["draws"] = ", ".join(f"{part.name} {share:.0%}" for part, share in shares)
        return mixture, size, data

    def _past(self, keep: Selection) -> Past:
        """Evidence for memory; that of several sources adds up."""
        evidence = sparse.csr_array((len(self.texts), len(self.docs)), dtype=np.float32)
        times = None
        for source in self.sources.values():
            of_source, times = source.select(keep).past(len(self.texts))  # clicks, with times, come last
            evidence = sparse.csr_array(evidence + of_source)
        evidence.data[keep.withheld[evidence.indices]] = 0
        evidence.eliminate_zeros()
        evidence.sort_indices()
        rows = np.flatnonzero(np.diff(evidence.indptr))
        evidence = evidence[rows]
        counts = None
        if times is not None and evidence.nnz:
            cells = np.repeat(rows, np.diff(evidence.indptr)), evidence.indices
            # A sparse array would give a sparse array here; of a sparse matrix these are plain numbers.
            counts = np.asarray(sparse.csr_matrix(times)[cells]).ravel().astype(np.int32)
        return Past(rows.astype(np.int64), evidence, counts)

    # -- leaving out -------------------------------------------------------------------------------------------------

    def _left_out(self, notes: list[str]) -> list[Mask]:
        """Queries that each fold leaves out: equal parts of the measured queries, and equal parts of the others."""
        main = [name for name in self.trained if name != JUDGED] if self.by_pairs else []
        main = main or [JUDGED]
        what = {JUDGED: "judged queries", TRIPLETS: "queries with preferences", CLICKS: "queries with clicks"}
        masks = {name: self.free & _mask(self.sources[name].rows, self.free.size) for name in self.trained}
        qids_of = {name: {self.qids[row] for row in np.flatnonzero(mask)} for name, mask in masks.items()}
        measured = sorted(set().union(*(qids_of[name] for name in main)))
        if len(measured) < FEWEST_QUERIES:
            raise InputError(
                f"{len(measured)} {' and '.join(what[name] for name in main)} are too few to leave any out to choose "
                f"by; give at least {FEWEST_QUERIES}, or validation "
                f"{'judgements' if main == [JUDGED] else 'preferences'}"
            )
        if JUDGED in self.trained and main != [JUDGED]:
            notes.append(f"{len(qids_of[JUDGED])} queries with judgements are too few to choose by.")
        # Documents that are queries of the same text are documents of their own.
        folds = folds_of(measured, self.seed, texts=None if self.linked else self.texts)
        notes += () if self.linked else alike_notes(measured, self.texts)
        others = sorted(set().union(*qids_of.values()) - set(measured))
        order = np.random.default_rng(self.seed).permutation(len(others))
        siblings = [[others[number] for number in part] for part in np.array_split(order, N_FOLDS)]
        left_out = [{*fold, *siblings[number % N_FOLDS]} for number, fold in enumerate(folds)]
        return [np.array([qid in out for qid in self.qids]) for out in left_out]

    def _fold(self, case: str | None, keep: Selection, parts: Parts) -> list[Fold]:
        """The fold that learns from the selected evidence, if there is any."""
        drawn = self._drawn(keep)
        return [] if drawn is None else [Fold(case, drawn[0], drawn[1], parts, self._past(keep))]

    def _new_folds(self, D: sparse.csr_array) -> list[Fold]:
        """Folds whose answers nothing is learned from."""
        rows, answers = self._main(self.free).answers()
        rng = np.random.default_rng(self.seed)
        folds: list[Fold] = []
        for _ in range(1 if rows.size >= _MANY_QUERIES else 3):
            left_out = new_answers(answers, D, rng)
            if left_out is None:
                break
            out, docs = _mask(rows[left_out[0]], self.free.size), left_out[1]
            folds += self._fold(NEW, Selection(self.free & ~out, docs), partial(self._new_part, out, docs))
        return folds

    def _new_part(self, queries: Mask, docs: Mask, Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
        held_out = self._main(queries).held_out(Q, D, self.qids).by_documents(docs)
        assert held_out is not None
        held_out = held_out.at_most(_MOST_CHOOSING)
        return [HeldOutPart(NEW, held_out, evidence_size(held_out))]

    def _recent(self) -> list[Fold]:
        """Leave out the last tenth of the log, and measure its queries that were asked before."""
        if self.log is None:
            return []
        keep = self._all_of(self.free)._replace(before=end_of(self.log.log))
        asked_before = np.isin(self.log.query, self.log.select(keep).query)
        last = self.log.take(asked_before & (self.log.impression >= keep.before))
        if not last.size:
            return []

        def parts(Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            held_out = last.held_out(Q, D, self.qids)
            held_out = replace(held_out, qids=tuple(map(_recently, held_out.qids)))
            return [HeldOutPart(REPEATED if self.by_pairs else _LAST_TENTH, held_out, last.size)]

        return self._fold(REPEATED if self.by_pairs else None, keep, parts)

    def _shares(self, left_out: Sequence[Mask]) -> tuple[dict[str, float], str]:
        """Expected shares of the cases, and the origin of the share of new answers in words."""
        at_end = self.log.shares_at_end() if self.log is not None and self.by_pairs else None
        repeated = 0.0 if at_end is None else at_end[0]
        if self.new_documents is not None:
            new, reason = self.new_documents, "as given"
        elif at_end is not None:
            new, reason = at_end[1], "as in the last tenth of the log"
        else:
            _, answers = self._main(self.free).answers()
            times = np.bincount(answers.indices, minlength=len(self.docs))
            if left_out:  # of its own answers a query that is left out takes one time with it
                times -= 1
            else:
                _, answers = self._main(self.validation).answers()
            alone = float((times[answers.indices] < 1).mean()) if answers.nnz else 0.0
            new = max(_USUAL_NEW, alone)
            reason = "the default" if new > alone else "as among the queries that were left out"
        return {KNOWN: (1 - new) * (1 - repeated), REPEATED: (1 - new) * repeated, NEW: new}, reason

    # -- measuring ---------------------------------------------------------------------------------------------------

    def _main(self, queries: Mask) -> Source:
        """Evidence that chooses and reports: judgements if the measure is one of rankings, else pairs."""
        if not self.by_pairs:
            return self.sources[JUDGED].select(self._all_of(queries))
        parts = [part for part in self._by_source(queries) if isinstance(part, PreferredPairs)]
        return parts[0] if len(parts) == 1 else PreferredPairs.stacked([part.by_query() for part in parts])

    def _by_source(self, queries: Mask) -> list[Source]:
        parts = (source.select(self._all_of(queries)) for source in self.sources.values())
        return [part for part in parts if part.size]

    def _parts(
        self, queries: Mask, Q: sparse.csr_array, D: sparse.csr_array, by_documents: Mask | None = None
    ) -> list[HeldOutPart]:
        """All of the evidence, the evidence by known and new documents, and by source where there are several."""
        main = self._main(queries).held_out(Q, D, self.qids)
        parts = [HeldOutPart(EVERY, main, evidence_size(main))]
        if by_documents is not None:
            for name, chosen in ((KNOWN, by_documents), (NEW, ~by_documents)):
                part = main.by_documents(chosen)
                if part is not None:
                    parts.append(HeldOutPart(name, part, evidence_size(part)))
        sources = self._by_source(queries)
        if len({*self.trained, *(source.name for source in sources)}) > 1:
            parts += [HeldOutPart(one.name, one.held_out(Q, D, self.qids), one.size) for one in sources]
        return parts

    # -- words -------------------------------------------------------------------------------------------------------

    def _split_text(self, left_out: Sequence[Mask]) -> str:
        n_queries = sum(int(out.sum()) for out in left_out[:N_FOLDS])
        text = split_text(len(left_out), n_queries, tested=bool(self.test.any()))
        if len(self.trained) > 1:
            text += f" So of {' and '.join(self.trained)} each; a query left out in one is left out in all."
        if self.log is not None:
            order = "by time" if self.log.log.is_timed else "in the order of the file"
            text += f" Of the click log the last tenth, {order}, was left out of one fit."
        return text

    def _log_notes(self) -> tuple[str, ...]:
        if self.log is None:
            return ()
        shown = self.log.log.columns
        is_unknown = self.log.doc_row[shown.pair_doc[shown.pair]] < 0
        unknown = (
            f"{is_unknown.sum():,} of {is_unknown.size:,} documents shown in the click log are unknown and were passed "
            "over."
        )
        return (*self.log.log.notes, *([unknown] if is_unknown.any() else []))


def _recently(qid: str) -> str:
    """Name of a query for its lists in the last tenth of the log."""
    return qid + RECENTLY
