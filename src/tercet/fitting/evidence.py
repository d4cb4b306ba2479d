"""What says which document is better, in one task: judgements, triplets and clicks, alone or together.

A query that is left out in one source is left out in all. What is learned from is drawn from each source in proportion
to how much it has: judgements, triplets, and lists with a click.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.click_sessions import without_odd_sessions
from tercet.data.clicks import ClickLog
from tercet.data.preferences import PreferenceSampler
from tercet.data.sampling import MixtureSampler, Sampler
from tercet.errors import InputError
from tercet.fitting.examination import choose_examination
from tercet.fitting.preference_pairs import PreferredPairs, QueryNames, pairs_of_clicks, pairs_of_triplets
from tercet.fitting.task import (
    EVERY,
    FEWEST_QUERIES,
    N_FOLDS,
    Facts,
    Fold,
    HeldOutPart,
    Qrels,
    Task,
    TextHeldOut,
    Triplets,
    alike_notes,
    check_disjoint,
    check_enough,
    document_notes,
    folds_of,
    parts_by_documents,
    split_text,
    withheld_documents,
)
from tercet.fitting.texts import JudgementRows, check_texts, matrices_of, usable_judgements
from tercet.measure.names import PAIR_ACCURACY, parse_measure
from tercet.text import Vectoriser
from tercet.text.counting import CountedTexts

_JUDGED, _TRIPLETS, _CLICKS = "judgements", "triplets", "clicks"
_SPLITS = ("validation", "test")


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
    random_state: int = 0,
) -> tuple[Task, str]:
    """One task of all that is given, and what chooses in it.

    Parameters
    ----------
    docs, queries : texts by id; without queries, those of triplets and clicks are texts
    qrels, preferences, clicks : what to learn from
    validation, test : judgements, or triplets, of other queries
    measure : what chooses; by default nDCG@10 where judgements can be held out, else the share of triplets and clicks
        in the right order
    """
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
        sources[_JUDGED] = usable["qrels"]
    if preferences is not None:
        sources[_TRIPLETS] = triplets["preferences"].qids
    if log is not None:
        sources[_CLICKS] = log.qids
    held = {name: {*usable.get(name, ()), *(triplets[name].qids if name in triplets else ())} for name in _SPLITS}
    free = {
        source: [qid for qid in by_query if qid not in held["validation"] | held["test"]]
        for source, by_query in sources.items()
    }
    is_judged = bool(usable.get("validation")) or (
        validation is None and len(free.get(_JUDGED, ())) >= (FEWEST_QUERIES if len(sources) > 1 else 1)
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
        docs, names.texts, doc_rows, free, held, usable, triplets, log, clicks, chosen_by, random_state
    )
    return evidence.task(), chosen_by


# -- the task ---------------------------------------------------------------------------------------------------------


class _Drawn(NamedTuple):
    """What draws from some of the evidence: how much of it, facts of it, and which documents it has something on."""

    sampler: Sampler
    size: int
    data: dict[str, Any]
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Evidence:
    """All sources, ready to be learned from and to be measured by.

    ``sources`` have the queries that can be learned from; ``given`` those of validation and test, where there are some.
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
    measure: str
    seed: int
    query_rows: dict[str, int] = field(init=False)
    judged: JudgementRows | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "query_rows", {qid: row for row, qid in enumerate(self.texts)})
        every = {qid: judged for part in self.usable.values() for qid, judged in part.items()}
        measure = "nDCG@10" if self.measure == PAIR_ACCURACY else self.measure
        judged = JudgementRows.from_qrels(every, self.query_rows, self.doc_rows, measure) if every else None
        object.__setattr__(self, "judged", judged)

    def task(self) -> Task:
        free = {qid for qids in self.sources.values() for qid in qids}
        drawn = self._drawn(free)
        if drawn is None:
            raise InputError("there is nothing to learn from beside the queries that are held out")
        rng = np.random.default_rng(self.seed)
        left_out: list[list[str]] = []
        notes: list[str] = []
        if self.given["validation"]:
            folds = [self._fold(free, self.given["validation"], rng)]
            choosing = free | self.given["validation"]  # nothing is learned where the start is chosen
        else:
            left_out = self._left_out(notes)
            folds = [self._fold(free - set(out), set(out), rng) for out in left_out]
            choosing = free
        if (recent := self._recent()) is not None:
            folds.insert(1, recent)  # where there is not time for all folds, it is among the first
        kind = "preferences" if list(self.sources) == [_TRIPLETS] else " and ".join(self.sources)
        data = {"kind": kind, "n_docs": len(self.docs), "n_queries": len(self.texts)} | drawn.data
        ordered = [qid for qid in self.texts if qid in free]
        named = dict(self.texts) | {_recently(qid): text for qid, text in self.texts.items()}
        said = (*notes, *self._notes(), *document_notes(self.docs))
        facts = Facts(data, len(ordered), self._split_text(left_out), named, said)

        counted = CountedTexts(self.docs.values())

        def report_on(vectoriser: Vectoriser, Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            return self._parts(self.given["test"], drawn.known, Q, D)

        return Task(
            drawn.sampler,
            drawn.size,
            facts,
            lambda vectorisers: matrices_of(vectorisers, self.docs, self.texts, ordered, counted),
            tuple(fold for fold in folds if fold is not None),
            lambda Q, D: self._main(choosing, Q, D),
            report_on if self.given["test"] else None,
            qids=tuple(self.texts),
        )

    # -- learning ----------------------------------------------------------------------------------------------------

    def _drawn(
        self, qids: Set[str], withheld: NDArray[np.bool_] | None = None, before: int | None = None
    ) -> _Drawn | None:
        """What draws from the evidence of some queries.

        Parameters
        ----------
        withheld : documents that are never the better one, by row of D
        before : of the log, only what stands before this place
        """
        samplers: dict[str, tuple[Sampler, float]] = {}
        data: dict[str, Any] = {}
        known = np.zeros(len(self.docs), dtype=bool)
        for source, usable in self.sources.items():
            named = [qid for qid in usable if qid in qids]
            if source == _JUDGED:
                assert self.judged is not None
                judged = self.judged.subset(self.judged.named(named))
                judged = judged if withheld is None else judged.drop(withheld)
                if not judged.answered.any():
                    continue
                size = data["n_judgements"] = judged.grades.nnz
                sampler: Sampler = judged.sampler()
                known |= judged.answered
            else:
                pairs = self.triplets["preferences"] if source == _TRIPLETS else self.log
                assert pairs is not None
                kept = np.ones(pairs.query.size, dtype=bool)
                if withheld is not None:  # what is left of them would be where they are the worse ones
                    kept = ~(withheld[pairs.better] | withheld[pairs.worse])
                if pairs.position is not None and before is not None:
                    kept &= pairs.position < before
                pairs = pairs.for_queries(named, kept)
                if not pairs.query.size:
                    continue
                if pairs.position is None:
                    size = data["n_preferences"] = pairs.query.size
                else:
                    size = data["n_lists"] = pairs.n_lists
                    data["n_click_preferences"] = pairs.query.size
                sampler = PreferenceSampler(pairs.preferences(self.query_rows))
                known[pairs.better] = True
                known[pairs.worse] = True  # what was shown and passed over is not new
            samplers[source] = sampler, float(size)
        if not samplers:
            return None
        total = round(sum(size for _, size in samplers.values()))
        if len(samplers) == 1:
            return _Drawn(next(iter(samplers.values()))[0], total, data, known)
        mixture = MixtureSampler(list(samplers.values()))
        shares = zip(samplers, mixture.shares, strict=True)
        data["draws"] = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        return _Drawn(mixture, total, data, known)

    # -- leaving out -------------------------------------------------------------------------------------------------

    def _left_out(self, notes: list[str]) -> list[list[str]]:
        """The queries that each fold leaves out: those that the measure is of in equal parts, and so the others."""
        main = [_JUDGED] if self.measure != PAIR_ACCURACY else [one for one in self.sources if one != _JUDGED]
        main = main or [_JUDGED]
        what = {_JUDGED: "judged queries", _TRIPLETS: "queries with preferences", _CLICKS: "queries with clicks"}
        measured = {qid for source in main for qid in self.sources[source]}
        otherwise = f"validation {'judgements' if main == [_JUDGED] else 'preferences'}"
        check_enough(len(measured), " and ".join(what[source] for source in main), otherwise)
        if _JUDGED in self.sources and main != [_JUDGED]:
            notes.append(f"{len(self.sources[_JUDGED])} queries with judgements are too few to choose by.")
        folds = folds_of(sorted(measured), self.seed, texts=self.texts)
        notes += alike_notes(sorted(measured), self.texts)
        others = sorted({qid for qids in self.sources.values() for qid in qids} - measured)
        if not others:
            return folds
        order = np.random.default_rng(self.seed).permutation(len(others))
        siblings = [[others[number] for number in part] for part in np.array_split(order, N_FOLDS)]
        return [[*fold, *siblings[number % N_FOLDS]] for number, fold in enumerate(folds)]

    def _fold(self, learned: Set[str], out: Set[str], rng: np.random.Generator) -> Fold | None:
        drawn = self._drawn(learned)
        if drawn is None:
            return None
        withheld = withheld_documents(drawn.known, self._answers(out), rng)
        drawn = self._drawn(learned, withheld) or drawn
        return Fold(drawn.sampler, lambda Q, D: self._parts(out, drawn.known, Q, D))

    def _recent(self) -> Fold | None:
        """What was clicked last, by what came before it: the last tenth of the log, of queries that came before."""
        if self.log is None or self.log.position is None or self.clicks is None:
            return None
        since = round(len(self.clicks.impressions) * 0.9)
        free = {qid for qids in self.sources.values() for qid in qids}
        drawn = self._drawn(free, before=since)
        known_before = self.log.for_queries(free, self.log.position < since)
        last = self.log.for_queries(known_before.qids, self.log.position >= since)
        if drawn is None or not last.query.size:
            return None

        def parts(Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            held_out = last.held_out(Q, D, self.query_rows)
            held_out = replace(held_out, qids=tuple(map(_recently, held_out.qids)))
            reported = HeldOutPart("clicks, the last tenth of the log", held_out, last.n_lists)
            return (
                [HeldOutPart(EVERY, held_out, last.n_lists), reported] if self.measure == PAIR_ACCURACY else [reported]
            )

        return Fold(drawn.sampler, parts)

    # -- measuring ---------------------------------------------------------------------------------------------------

    def _main(self, qids: Set[str], Q: sparse.csr_array, D: sparse.csr_array) -> TextHeldOut:
        """What chooses, or reports: judgements where the measure is one of rankings, else triplets and clicks."""
        if self.measure != PAIR_ACCURACY:
            assert self.judged is not None
            return self.judged.subset(self.judged.named(qids)).evaluator(Q, D)
        return PreferredPairs.joined(self._pairs(qids)).held_out(Q, D, self.query_rows)

    def _pairs(self, qids: Set[str]) -> list[PreferredPairs]:
        """Triplets and clicks of some queries, of each source that has some."""
        parts = [part.for_queries(qids) for part in self.triplets.values()]
        triplets = [part for part in parts if part.query.size]
        clicks = [] if self.log is None else [self.log.for_queries(qids)]
        return [*([PreferredPairs.joined(triplets)] if triplets else []), *(part for part in clicks if part.query.size)]

    def _answers(self, qids: Set[str]) -> sparse.csr_array:
        """(n_queries, n_docs), not zero where a document answers, or is the better one."""
        if self.measure != PAIR_ACCURACY:
            assert self.judged is not None
            judged = self.judged.subset(self.judged.named(qids)).grades
            answers = sparse.csr_array((judged.data > 0, judged.indices, judged.indptr), shape=judged.shape)
            answers.eliminate_zeros()
            return answers
        pairs = PreferredPairs.joined(self._pairs(qids))
        _, number = np.unique(pairs.query, return_inverse=True)
        entries = np.ones(pairs.query.size, dtype=bool), (number.ravel(), pairs.better)
        return sparse.csr_array(entries, shape=(len(pairs.qids), len(self.docs)))

    def _parts(
        self, qids: Set[str], known: NDArray[np.bool_], Q: sparse.csr_array, D: sparse.csr_array
    ) -> list[HeldOutPart]:
        """All, by documents, and where there are several sources what is reported of each."""
        parts = parts_by_documents(self._main(qids, Q, D), known)
        if len(self.sources) == 1 and self.log is None:
            return parts
        if self.judged is not None and (numbers := self.judged.named(qids)).size:
            judged = self.judged.subset(numbers)
            parts.append(HeldOutPart("judgements", judged.evaluator(Q, D), judged.grades.nnz))
        for pairs in self._pairs(qids):
            name, size = ("triplets", pairs.query.size)
            if pairs.position is not None:
                name, size = "clicks, queries that nothing was learned from", pairs.n_lists
            parts.append(HeldOutPart(name, pairs.held_out(Q, D, self.query_rows), size))
        return parts

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


def _recently(qid: str) -> str:
    """What a query is called where the last lists of it are measured, which it has beside its own value."""
    return f"{qid}, the last tenth of the log"
