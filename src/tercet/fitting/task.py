"""A task: documents, queries, evidence to learn from, the three cases to choose by, and a measure.

Evidence is judgements, links, preferences and clicks, alone or together, or labels. A query left out of a source is
left out of all sources. Preferences are drawn from each source in proportion to the size of the source: judgements,
triplets, and lists with a click.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.click_counts import ClickCounts
from tercet.data.click_sessions import without_odd_sessions
from tercet.data.clicks import ClickLog
from tercet.data.lines import look_alikes
from tercet.data.sampling import MixtureSampler, Sampler
from tercet.errors import InputError
from tercet.fitting.click_evidence import end_of
from tercet.fitting.counted_pairs import CountedPairs
from tercet.fitting.examination import choose_examination
from tercet.fitting.judged import Judgements, Labels, Qrels, QueryNames, usable_judgements
from tercet.fitting.leaving_out import (
    FEWEST_QUERIES,
    N_FOLDS,
    Selection,
    alike_notes,
    folds_of,
    new_answers,
    split_text,
)
from tercet.fitting.preference_pairs import ClickPairs, PreferredPairs, Triplets, by_known_names
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
from tercet.measure.names import PAIR_ACCURACY, Measure, parse_measure
from tercet.text import Vectorizer
from tercet.text.counting import CountedTexts
from tercet.text.fielded import FieldedVectorizer, docs_for
from tercet.weights import Identity, Weights

TextHeldOut = HeldOutQueries | HeldOutPreferences
Evidence = Judgements | PreferredPairs | Labels
Mask = NDArray[np.bool_]
Parts = Callable[[sparse.csr_array, sparse.csr_array], "list[HeldOutPart]"]

EVERY: Final = "all answers"
KNOWN: Final = "known answers"
NEW: Final = "new answers"
REPEATED: Final = "repeated queries"
RECENTLY: Final = ", the last tenth of the log"  # suffix of the names of queries in the fold of repeated queries
JUDGED, LABELS, TRIPLETS, CLICKS = Judgements.name, Labels.name, PreferredPairs.name, ClickPairs.name
_LAST_TENTH = "clicks, the last tenth of the log"
_USUAL_WORDS: Final = 10  # in a query
_USUAL_NEW: Final = 0.3  # share of new answers without better knowledge
_MANY_QUERIES: Final = 1_000  # from this number, new answers are left out once, else three times
# Limits of the queries to choose a space by. Each query is ranked once for every weighting.
_MOST_SCORES: Final = 4_000_000
_FEWEST_CHOOSING: Final = 300
_MOST_CHOOSING: Final = 500
_FEWEST_TEXTS: Final = 20  # with labels
_MOST_LABELED: Final = 1_000  # texts to rank among themselves


# -- parts of a task --------------------------------------------------------------------------------------------------


class HeldOutPart(NamedTuple):
    """Held-out queries, or a part of their evidence, by name."""

    name: str
    held_out: TextHeldOut


@dataclass(frozen=True, eq=False)
class Past:
    """Evidence of past queries, the raw material of a `Memory`.

    Attributes
    ----------
    rows : row of each past query in Q
    evidence : CSR float32 (n_past, n_docs); negative for a document passed over
    times : how often people chose the document, aligned with ``evidence.data``; None for grades
    """

    rows: NDArray[np.int64]
    evidence: sparse.csr_array
    times: NDArray[np.int32] | None = None

    @property
    def known(self) -> Mask:
        """Mask of the documents with evidence, (n_docs,)."""
        mask = np.zeros(self.evidence.shape[1], dtype=bool)
        mask[self.evidence.indices] = True
        return mask


@dataclass(frozen=True, eq=False)
class Fold:
    """A part of the evidence, left out of one fit to measure the fit.

    Attributes
    ----------
    case : KNOWN, NEW or REPEATED; None for a fold of the report alone
    sampler : draws preferences from the rest of the evidence
    size : amount of remaining evidence, for the number of steps
    parts : held-out parts for Q and D; the first decides
    past : evidence for memory from the rest; None if documents have no memory
    """

    case: str | None
    sampler: Sampler
    size: int
    parts: Parts
    past: Past | None = None


@dataclass(frozen=True, eq=False)
class Facts:
    """Numbers of the collection, the number of training queries, the split of queries in words, and notes."""

    data: dict[str, Any]
    n_train: int
    split: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Space:
    """A way to weight words: matrices of all texts, and queries to choose among spaces."""

    name: str
    vectorizer: Vectorizer
    Q: sparse.csr_array
    D: sparse.csr_array
    queries: TextHeldOut
    given_start: Weights | None = None

    @property
    def match(self) -> Weights:
        """Weights of plain matching: the identity."""
        return Weights([Identity(n_terms=self.D.shape[1])])

    @property
    def start(self) -> Weights:
        """Weights to beat by learning: plain matching, or the given start."""
        return self.match if self.given_start is None else self.given_start


# -- the task ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Task:
    """Everything to learn from texts, apart from how words are weighted.

    Attributes
    ----------
    docs, texts : documents and queries by id, in the order of the rows of D and Q
    sources : evidence by name
    measure : measure of the choice and of the report
    seed : seed of the draw of left-out queries
    linked : queries are the documents, and no query is to find itself
    new_documents : expected share of new answers; None estimates the share
    """

    docs: Mapping[str, str]
    texts: Mapping[str, str]
    sources: Mapping[str, Evidence]
    measure: Measure
    seed: int
    linked: bool = False
    new_documents: float | None = None

    @classmethod
    def from_evidence(
        cls,
        docs: Mapping[str, str],
        queries: Mapping[str, str] | None,
        *,
        qrels: Qrels | None = None,
        preferences: Triplets | None = None,
        clicks: ClickLog | ClickCounts | None = None,
        measure: str | None = None,
        linked: bool = False,
        new_documents: float | None = None,
        min_sessions: int = 2,
        random_state: int = 0,
    ) -> Task:
        """Make a task of all evidence.

        Parameters
        ----------
        docs, queries : texts by id; without queries, triplets and clicks name queries by text
        qrels, preferences, clicks : evidence to learn from
        measure : by default nDCG@10 with enough judged queries, else the share of triplets and clicks in the right
            order
        linked : queries are the documents, and no query is to find itself
        new_documents : expected share of new answers; None estimates the share
        min_sessions : fewest sessions with a query before memory keeps the query
        """
        if queries is not None:  # otherwise queries are texts of triplets and clicks, read below
            _check_texts(docs, queries)
        names = QueryNames(queries)
        doc_rows = {doc_id: row for row, doc_id in enumerate(docs)}
        judged = None if qrels is None else usable_judgements(qrels, "qrels", docs, names.texts)
        pairs: dict[str, PreferredPairs] = {}
        if preferences is not None:
            pairs[TRIPLETS] = PreferredPairs.from_triplets(preferences, "preferences", names, doc_rows)
        if isinstance(clicks, ClickCounts):
            pairs[CLICKS] = CountedPairs.from_counts(clicks, names, doc_rows)
        elif clicks is not None:
            clicks = by_known_names(without_odd_sessions(clicks), names)
            examination = choose_examination(clicks)
            clicks = replace(clicks, notes=(*clicks.notes, f"click log: {examination.source}."))
            pairs[CLICKS] = ClickPairs.from_log(clicks, names, doc_rows, examination.chances, min_sessions)
        _check_texts(docs, names.texts)
        ranks = judged is not None and len(judged) >= (FEWEST_QUERIES if pairs else 1)
        chosen_by = parse_measure(measure or ("nDCG@10" if ranks else PAIR_ACCURACY))
        by_pairs = str(chosen_by) == PAIR_ACCURACY
        if not by_pairs and not ranks:
            raise InputError(f"triplets and clicks are measured by {PAIR_ACCURACY}; got {measure!r}")
        if by_pairs and not pairs:
            raise InputError(f"{PAIR_ACCURACY} is measured on preferences and clicks; give some, or another measure")
        sources: dict[str, Evidence] = {}
        if judged is not None:
            graded_by = parse_measure("nDCG@10") if by_pairs else chosen_by
            sources[JUDGED] = Judgements.from_qrels(judged, names.rows, doc_rows, graded_by, linked)
        return cls(docs, names.texts, sources | pairs, chosen_by, random_state, linked, new_documents)

    @classmethod
    def from_labels(cls, texts: Sequence[str], labels: Sequence[str], measure: str, random_state: int) -> Task:
        """Make each text a query for the other texts of its class. Texts to come have no past queries: no memory."""
        chosen_by = parse_measure(measure)
        labeled = Labels.from_labels(texts, labels, chosen_by)
        if len(texts) < _FEWEST_TEXTS:
            raise InputError(f"{len(texts)} labeled texts are too few; at least {_FEWEST_TEXTS} are needed")
        width = len(str(len(texts) - 1))
        named = {f"{number:0{width}d}": text for number, text in enumerate(texts)}
        return cls(named, named, {LABELS: labeled}, chosen_by, random_state, linked=True)

    @property
    def labeled(self) -> bool:
        """True if each text is a query for the other texts of its class."""
        return LABELS in self.sources

    @property
    def by_pairs(self) -> bool:
        """True if pairs of documents choose, not judgements."""
        return str(self.measure) == PAIR_ACCURACY

    @property
    def log(self) -> ClickPairs | None:
        source = self.sources.get(CLICKS)
        return source if isinstance(source, ClickPairs) else None

    @cached_property
    def doc_ids(self) -> tuple[str, ...]:
        return tuple(self.docs)

    @cached_property
    def qids(self) -> tuple[str, ...]:
        return tuple(self.texts)

    @cached_property
    def names(self) -> dict[str, str]:
        """Text of each query by its names in reports."""
        return dict(self.texts) | {qid + RECENTLY: text for qid, text in self.texts.items()}

    @cached_property
    def asked(self) -> Mask:
        """Mask of the queries with evidence, (n_queries,)."""
        return _mask(np.concatenate([source.rows for source in self.sources.values()]), len(self.texts))

    # -- texts as rows -----------------------------------------------------------------------------------------------

    @cached_property
    def _counted(self) -> CountedTexts:
        return CountedTexts(self.docs.values())

    def build(self, vectorizers: Sequence[Vectorizer]) -> list[tuple[sparse.csr_array, sparse.csr_array]]:
        """Q and D for each of several vectorizers with the same tokenizer; a fitted vectorizer keeps its words."""
        texts = list(self.texts.values())
        taught = [texts[row] for row in np.flatnonzero(self.asked)]
        if not self.linked and any(isinstance(words, FieldedVectorizer) for words in vectorizers):
            rows = [words.fit_transform_docs(docs_for(words, self.docs), queries=taught) for words in vectorizers]
            return [(words.transform_queries(texts), D) for words, D in zip(vectorizers, rows, strict=True)]
        first, *rest = vectorizers
        if hasattr(first, "words_"):
            counts = first.counts(self._counted)
        else:
            counts = first.fit_counts(self._counted, () if self.linked else taught)
        asked_counts = counts if self.linked else first.counts(texts)
        for words in rest:
            words.adopt(first, counts)
        return [(words.query_rows(asked_counts), words.doc_rows(counts)) for words in vectorizers]

    def spaces(self, vectorizers: Mapping[str, Vectorizer]) -> list[Space]:
        """Build a space for each named vectorizer."""
        matrices = self.build(list(vectorizers.values()))
        return [
            self.space(name, words, Q, D) for (name, words), (Q, D) in zip(vectorizers.items(), matrices, strict=True)
        ]

    def space(
        self, name: str, words: Vectorizer, Q: sparse.csr_array, D: sparse.csr_array, start: Weights | None = None
    ) -> Space:
        """A space of given rows."""
        return Space(name, words, Q, D, self._choosing(Q, D), start)

    def counts(self, words: Vectorizer) -> sparse.csr_array:
        """Word counts of documents, (n_docs, n_words)."""
        plain = words.plain_ if isinstance(words, FieldedVectorizer) else words
        return plain.counts(self._counted).rows(len(plain.words_))

    # -- learning ----------------------------------------------------------------------------------------------------

    @cached_property
    def _everything(self) -> tuple[Sampler, int, dict[str, Any]]:
        drawn = self._drawn(self._all_of(self.asked))
        assert drawn is not None  # no source is empty
        return drawn

    @property
    def sampler(self) -> Sampler:
        """Draws preferences from all training evidence."""
        return self._everything[0]

    @property
    def size(self) -> int:
        """Amount of training evidence, for the number of steps."""
        return self._everything[1]

    @cached_property
    def past(self) -> Past | None:
        """Evidence for memory from all training evidence; None if documents have no memory."""
        return self._past(self._all_of(self.asked))

    def _all_of(self, queries: Mask) -> Selection:
        return Selection(queries, np.zeros(len(self.docs), dtype=bool))

    def _drawn(self, keep: Selection) -> tuple[Sampler, int, dict[str, Any]] | None:
        """Sampler, size and facts of the selected evidence; None without any."""
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

    def _past(self, keep: Selection) -> Past | None:
        """Evidence for memory, summed over the sources."""
        evidence = sparse.csr_array((len(self.texts), len(self.docs)), dtype=np.float32)
        times = None
        for source in self.sources.values():
            if isinstance(source, Labels):
                return None
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
            # Indexing a sparse array would give a sparse array; indexing a sparse matrix gives numbers.
            counts = np.asarray(sparse.csr_matrix(times)[cells]).ravel().astype(np.int32)
        return Past(rows.astype(np.int64), evidence, counts)

    # -- leaving out -------------------------------------------------------------------------------------------------

    @property
    def _main_sources(self) -> list[str]:
        """Sources of the measured queries."""
        if not self.by_pairs:
            return [LABELS if self.labeled else JUDGED]
        return [name for name in self.sources if name != JUDGED] or [JUDGED]

    def _qids_of(self, names: Sequence[str]) -> set[str]:
        """Queries with evidence of some sources."""
        return {self.qids[row] for name in names for row in np.unique(self.sources[name].rows).tolist()}

    @cached_property
    def _measured(self) -> list[str]:
        """Queries of the main sources."""
        return sorted(self._qids_of(self._main_sources))

    @cached_property
    def _left_out(self) -> list[Mask]:
        """Left-out queries of each fold: equal parts of the measured queries, and equal parts of all other queries."""
        measured = self._measured
        if not self.can_validate:
            return []
        # Documents of the same text are separate documents, also as queries.
        enough = {"enough": _MOST_LABELED} if self.labeled else {}
        folds = folds_of(measured, self.seed, texts=None if self.linked else self.texts, **enough)
        unmeasured = sorted(self._qids_of(list(self.sources)) - set(measured))
        order = np.random.default_rng(self.seed).permutation(len(unmeasured))
        siblings = [[unmeasured[number] for number in part] for part in np.array_split(order, N_FOLDS)]
        left_out = [{*fold, *siblings[number % N_FOLDS]} for number, fold in enumerate(folds)]
        return [np.array([qid in out for qid in self.qids]) for out in left_out]

    @property
    def can_validate(self) -> bool:
        """True with enough queries to leave some out."""
        return len(self._measured) >= FEWEST_QUERIES

    @cached_property
    def known(self) -> tuple[Fold, ...]:
        """Folds of known answers; the same folds choose the tokenizer."""
        folds: list[Fold] = []
        for out in self._left_out:
            folds += self._fold(KNOWN, self._all_of(self.asked & ~out), partial(self._parts, out))
        return tuple(folds)

    def folds(self, D: sparse.csr_array) -> tuple[Fold, ...]:
        """Folds to choose and to decide by, for the document rows of the start; the cases of few folds come first."""
        if self.labeled:
            return self.known
        return (self.known[0], *self._new_folds(D), *self._recent(), *self.known[1:])

    def _fold(self, case: str | None, keep: Selection, parts: Parts) -> list[Fold]:
        """The fold with the selected evidence to learn from, if any."""
        drawn = self._drawn(keep)
        return [] if drawn is None else [Fold(case, drawn[0], drawn[1], parts, self._past(keep))]

    def _new_folds(self, D: sparse.csr_array) -> list[Fold]:
        """Folds of left-out answers."""
        rows, answers = self._answers()
        rng = np.random.default_rng(self.seed)
        folds: list[Fold] = []
        for _ in range(1 if rows.size >= _MANY_QUERIES else 3):
            left_out = new_answers(answers, D, rng)
            if left_out is None:
                break
            out, docs = _mask(rows[left_out[0]], self.asked.size), left_out[1]
            folds += self._fold(NEW, Selection(self.asked & ~out, docs), partial(self._new_part, out, docs))
        return folds

    def _new_part(self, queries: Mask, docs: Mask, Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
        held_out = self._main(queries).held_out(Q, D, self.qids).by_documents(docs)
        assert held_out is not None
        return [HeldOutPart(NEW, held_out.at_most(_MOST_CHOOSING))]

    def _recent(self) -> list[Fold]:
        """Leave out the last tenth of the log, and measure the repeated queries of the last tenth."""
        if self.log is None:
            return []
        keep = self._all_of(self.asked)._replace(before=end_of(self.log.log))
        asked_before = np.isin(self.log.query, self.log.select(keep).query)
        last = self.log.take(asked_before & (self.log.impression >= keep.before))
        if not last.size:
            return []

        def parts(Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            held_out = last.held_out(Q, D, [qid + RECENTLY for qid in self.qids])
            return [HeldOutPart(REPEATED if self.by_pairs else _LAST_TENTH, held_out)]

        return self._fold(REPEATED if self.by_pairs else None, keep, parts)

    @property
    def shares(self) -> dict[str, float]:
        """Expected share of each case among the queries to come."""
        return self._expected[0]

    @property
    def share_reason(self) -> str:
        """Origin of the share of new answers, in words."""
        return self._expected[1]

    @cached_property
    def _expected(self) -> tuple[dict[str, float], str]:
        if self.labeled:
            return {KNOWN: 1.0}, ""
        at_end = self.log.shares_at_end() if self.log is not None and self.by_pairs else None
        repeated = 0.0 if at_end is None else at_end[0]
        if self.new_documents is not None:
            new, reason = self.new_documents, "as given"
        elif at_end is not None:
            new, reason = at_end[1], "as in the last tenth of the log"
        else:
            _, answers = self._answers()
            times = np.bincount(answers.indices, minlength=len(self.docs))
            # Share of the answers of a single query: such an answer is left out with the query.
            alone = float((times[answers.indices] == 1).mean()) if answers.nnz else 0.0
            new = max(_USUAL_NEW, alone)
            reason = "the default" if new > alone else "as among the queries that were left out"
        return {KNOWN: (1 - new) * (1 - repeated), REPEATED: (1 - new) * repeated, NEW: new}, reason

    # -- measuring ---------------------------------------------------------------------------------------------------

    def _main(self, queries: Mask) -> Evidence:
        """Evidence to choose and report by: judgements or labels for a measure of rankings, else pairs."""
        if not self.by_pairs:
            return self.sources[self._main_sources[0]].select(self._all_of(queries))
        parts = [part for part in self._by_source(queries) if isinstance(part, PreferredPairs)]
        return parts[0] if len(parts) == 1 else PreferredPairs.stacked([part.by_query() for part in parts])

    def _answers(self) -> tuple[NDArray[np.int64], sparse.csr_array]:
        main = self._main(self.asked)
        assert not isinstance(main, Labels)
        return main.answers()

    def _by_source(self, queries: Mask) -> list[Evidence]:
        parts = (source.select(self._all_of(queries)) for source in self.sources.values())
        return [part for part in parts if part.size]

    def _choosing(self, Q: sparse.csr_array, D: sparse.csr_array) -> TextHeldOut:
        """Queries to choose the weighting of words by; no weights are learned from these queries."""
        if self.labeled:
            drawn = np.random.default_rng(self.seed).permutation(len(self.docs))[:_MOST_LABELED]
            return self._main(_mask(drawn, len(self.docs))).held_out(Q, D, self.qids)
        queries = self._main(self.asked).held_out(Q, D, self.qids)
        return some_queries(queries, _MOST_SCORES, _FEWEST_CHOOSING).at_most(_MOST_CHOOSING)

    def _parts(self, queries: Mask, Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
        """All of the evidence, and the evidence of each of several sources."""
        parts = [HeldOutPart(EVERY, self._main(queries).held_out(Q, D, self.qids))]
        if len(self.sources) > 1:
            parts += [HeldOutPart(source.name, source.held_out(Q, D, self.qids)) for source in self._by_source(queries)]
        return parts

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """Facts of the collection and the split for the report."""
        _, _, sizes = self._everything
        kind = "preferences" if [*self.sources] == [TRIPLETS] else " and ".join(self.sources)
        kind = "labeled texts" if self.labeled else "linked documents" if self.linked else kind
        kind = "judged queries" if kind == JUDGED else kind
        n_texts = {} if self.labeled else {"n_docs": len(self.docs), "n_queries": len(self.texts)}
        return Facts({"kind": kind} | n_texts | sizes, int(self.asked.sum()), self._split_text(), self._notes())

    def _split_text(self) -> str:
        left_out = self._left_out
        if not left_out:
            return "No queries were left out."
        n_queries = sum(int(out.sum()) for out in left_out[:N_FOLDS])
        text = split_text(len(left_out), n_queries, what="text" if self.labeled else "query")
        if len(self.sources) > 1:
            kinds = " and ".join(self.sources).capitalize()
            text += f" {kinds} are split alike: a query left out of one is left out of all."
        if self.log is not None:
            order = "by time" if self.log.log.is_timed else "in the order of the file"
            text += f" One fit left out the last tenth of the click log, {order}."
        return text

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if self._left_out and not self.linked:
            if JUDGED in self.sources and self._main_sources != [JUDGED]:
                notes.append(f"{len(self._qids_of([JUDGED]))} queries with judgements are too few to choose by.")
            notes += alike_notes(self._measured, self.texts)
        clicks = self.sources.get(CLICKS)
        if isinstance(clicks, ClickPairs | CountedPairs):
            notes += clicks.notes
        empty = [doc_id for doc_id, text in self.docs.items() if not text.strip()]
        if empty:
            notes.append(
                f"documents without a text, which no word of a query matches: {len(empty):,}, first {empty[0]!r}."
            )
        pairs = look_alikes(self.docs)
        if pairs:
            notes.append(
                f"pairs of document ids that are equal as numbers: {len(pairs):,}, first {pairs[0][0]!r} and "
                f"{pairs[0][1]!r}. Check that no file lost leading zeros."
            )
        return tuple(notes)


def _mask(rows: Sequence[int] | NDArray[np.int64], size: int) -> Mask:
    mask = np.zeros(size, dtype=bool)
    mask[rows] = True
    return mask


def _check_texts(docs: Mapping[str, str], queries: Mapping[str, str]) -> None:
    for name, texts in (("docs", docs), ("queries", queries)):
        if not isinstance(texts, Mapping):
            raise InputError(f"{name} must be a mapping, id -> text; got {type(texts).__name__}")
    if not docs or not queries:
        raise InputError(f"there are {len(docs)} documents and {len(queries)} queries; both are needed")


def evidence_size(held_out: TextHeldOut) -> int:
    """Count answers, or preferences."""
    if isinstance(held_out, HeldOutQueries):
        return int((held_out.grades.data > 0).sum())
    return len(held_out.preferences)


def some_queries(held_out: TextHeldOut, most_scores: int, fewest: int) -> TextHeldOut:
    """Evenly spaced queries within a number of scores; a long query counts as several."""
    n_words = held_out.Q.nnz / max(1, held_out.Q.shape[0])
    cost = held_out.D.shape[0] * max(1.0, n_words / _USUAL_WORDS)
    return held_out.at_most(max(fewest, int(most_scores / cost)))
