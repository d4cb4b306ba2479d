"""Report of a fit of texts: all systems on the same queries, the course of learning, and its effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet.choose import standard_error
from tercet.fitting.baselines import RM3, Appended, Posteriors
from tercet.fitting.judged import Labels
from tercet.fitting.mixes import Case, Choice
from tercet.fitting.rankers import Candidate
from tercet.fitting.scored_columns import columns_notes, words_alone
from tercet.fitting.task import EVERY, KNOWN, LABELS, Facts, Fold, Space, Task, TextHeldOut, evidence_size, some_queries
from tercet.fitting.text_model import TextModel
from tercet.learn.loop import Event
from tercet.measure import Evaluation, HeldOutPreferences, HeldOutQueries, holm, paired_test
from tercet.measure.names import PAIR_ACCURACY, Measure, parse_measure, parse_measures
from tercet.report import Report, SystemResult, changes_between
from tercet.report.details import ByQuery, Curve, Details, Learning, QueryChange, Size, SystemComparison
from tercet.report.value import EvidenceResult
from tercet.text import Analyzer, Vectorizer
from tercet.weights import Weights
from tercet.weights.survey import is_sparse, n_entries

APPENDED: Final = "past queries appended"
POSTERIORS: Final = "posteriors of logistic regression"
_CURVE_POINTS: Final = 10
# A point of the curve ranks the validation queries; of a large collection some of them must do.
_MOST_CURVE_SCORES: Final = 500_000
_FEWEST_CURVE_QUERIES: Final = 20
_MOST_CURVE_WORDS: Final = 1_000_000  # of all documents, whose latent vectors are made for each point
_MOST_DIFFERENCES: Final = 400
_CHANGES_SHOWN: Final = 8
_LONGEST_TEXT: Final = 120
_PAIRS_SHOWN: Final = 24
_PAST_SHOWN: Final = 12
_MOST_PAIRED_WORDS: Final = 5_000  # among which the strongest pairs are sought, so at most 25 million of them
_SAME: Final = 1e-9  # differences below are those of rounding


class CurveRecorder:
    """Measures the model on held-out queries ten times while it learns, or three times where there is much to read; it
    only looks, so learning is the same."""

    def __init__(self, held_out: TextHeldOut, start: Weights) -> None:
        self.queries = some_queries(held_out, _MOST_CURVE_SCORES, _FEWEST_CURVE_QUERIES)
        self.start = float(self.queries.values(start).mean())
        self.curves: list[Curve] = []
        is_much = held_out.D.nnz > _MOST_CURVE_WORDS
        self._n_points = _CURVE_POINTS // 3 if is_much else _CURVE_POINTS

    def callback_for(self, candidate: Candidate, n_steps: int) -> Callable[[Event], None]:
        """A callback that records one candidate while it takes so many steps."""
        points: list[tuple[int, float]] = []
        number = len(self.curves)
        self.curves.append(Curve(candidate.label, ()))

        def look(event: Event) -> None:
            if points and event.step < points[-1][0]:
                points.clear()  # it learns anew, with another penalty: the last time counts
            total = event.total or n_steps
            every = max(1, total // self._n_points)
            due = not points or event.step // every > points[-1][0] // every
            if due or event.step == total:
                points.append((event.step, float(self.queries.values(event.weights()).mean())))
                self.curves[number] = Curve(candidate.label, tuple(points))

        return look

    def choose(self, candidate: Candidate) -> None:
        """Put the curve of the chosen candidate, or those of what it is the mean of, first."""
        chosen = [member.label for member in candidate.members]
        self.curves.sort(key=lambda curve: curve.name not in chosen)


def measures_of(measure: Measure) -> tuple[Measure, ...]:
    """Return the measures of a report: the measure that chooses, and the usual ones."""
    name = str(measure)
    return parse_measures([name] if name == PAIR_ACCURACY else list(dict.fromkeys([name, "nDCG@10", "AP", "RR"]))[:4])


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a fit, measured on test queries if given, else on the queries that folds left out.

    Attributes
    ----------
    facts : for the report
    space : the start, with columns for own vectors if there are any
    measures : the measure that chose, and others to report
    folds : folds that were learned without
    systems : name -> model of words, memory and all learned parts, learned from everything; empty without test queries
    """

    task: Task
    facts: Facts
    space: Space
    measures: tuple[Measure, ...]
    choice: Choice
    folds: Sequence[Fold]
    systems: Mapping[str, TextModel]

    @property
    def is_given(self) -> bool:
        """Whether test queries were given."""
        return bool(self.space.test)

    def evaluate(
        self, space: Space, values: Callable[[TextHeldOut, Fold, tuple[Measure, ...]], NDArray[np.float64]]
    ) -> Evaluation:
        """A system that learns nothing, in its space."""
        if self.is_given:
            held_out = space.test[0].held_out
            everything = Fold(KNOWN, self.task.sampler, self.task.size, lambda Q, D: [], self.task.past)
            return Evaluation(self.measures, held_out.qids, values(held_out, everything, self.measures))
        folds = [fold for fold in self.folds if fold.case == KNOWN]
        parts = [fold.parts(space.Q, space.D)[0].held_out for fold in folds]
        merged = Case(parts).mean([values(*one, self.measures) for one in zip(parts, folds, strict=True)])
        return Evaluation(self.measures, self.choice.qids[EVERY], merged)

    def learned(self, name: str = "learned") -> Evaluation | None:
        """A learned system, used or not; None if there is no such part."""
        if self.is_given:
            model = self.systems.get(name)
            return None if model is None else self._measured(model, self.space.test[0].held_out)
        after = self.choice.after[EVERY] if name == "learned" else self.choice.alone_after.get(name)
        return None if after is None else Evaluation(self.measures, self.choice.qids[EVERY], after)

    def evidence(self) -> tuple[EvidenceResult, ...]:
        """Gains in each case, or on each part of the test queries."""
        results = []
        if self.is_given:
            model = self.systems["learned"]
            for part in self.space.test[1:]:
                sides = part.held_out.evaluate(self.space.start), self._measured(model, part.held_out)
                results.append(self._between(part.name, evidence_size(part.held_out), *sides))
            return tuple(results)
        choice = self.choice
        for case, qids in choice.qids.items():
            if case != EVERY:
                measures = choice.measures[case]
                before, after = (Evaluation(measures, qids, side[case]) for side in (choice.before, choice.after))
                results.append(self._between(case, choice.sizes[case], before, after))
        return tuple(results)

    def _measured(self, model: TextModel, held_out: TextHeldOut) -> Evaluation:
        """A whole model on test queries."""
        measures = self.measures if held_out.measure in self.measures else (held_out.measure,)
        if model.memory is None:
            return held_out.evaluate(model.weights, measures)
        rows = model.memory.rows_in(self.task.doc_ids)
        values, margins = [], []
        for block, scores in model.weights.score_blocks(held_out.Q, held_out.D):
            model.memory.add_to(scores, held_out.Q[block], rows, held_out.D, model.n_words)
            if isinstance(held_out, HeldOutQueries):
                values.append(held_out.measured(block, scores, measures))
            else:
                prefs = held_out.preferences[
                    (held_out.preferences.query >= block.start) & (held_out.preferences.query < block.stop)
                ]
                row = prefs.query - block.start
                margins.append(scores[row, prefs.better] - scores[row, prefs.worse])
        if isinstance(held_out, HeldOutPreferences):
            values.append(held_out.shares(np.concatenate(margins))[:, None])
        return Evaluation(measures, held_out.qids, np.concatenate(values))

    def _between(self, name: str, size: int, start: Evaluation, learned: Evaluation) -> EvidenceResult:
        return EvidenceResult.between(name, size, (self.space.name, start), ("learned", learned))


def make_report(
    outcome: Outcome,
    model: TextModel,
    spaces: Sequence[Space],
    chosen: dict[str, Any],
    curves: CurveRecorder,
    name: str,
    random_state: int,
    seconds: float,
) -> Report:
    """Evaluate all systems on queries that none has learned from, and write down everything that a reader may ask."""
    task, space, choice = outcome.task, outcome.space, outcome.choice
    measure, accepted, facts = str(outcome.measures[0]), choice.decision.accepted, outcome.facts

    def matching(one: Space) -> Evaluation:
        return outcome.evaluate(one, lambda held_out, fold, measures: held_out.evaluate(one.start, measures).values)

    # The start comes last of the baselines, next to the learned parts.
    evaluations = {one.name: matching(one) for one in sorted(spaces, key=lambda one: one is space)}
    start, learned = evaluations[space.name], outcome.learned()
    assert learned is not None
    parts = {name: outcome.learned(name) for name in ("words", "memory", "vectors")}
    rivals: dict[str, Evaluation] = {}
    settings = {}
    labels = task.sources.get(LABELS)
    if isinstance(labels, Labels):
        rivals[POSTERIORS] = outcome.evaluate(space, Posteriors(space, labels, task.qids).values)
    else:
        for bm25 in [words_alone(one) for one in spaces if one.vectorizer.weighting == "bm25"][:1]:
            expansion = RM3(bm25, task.counts(bm25.vectorizer))
            rivals["RM3"], settings["RM3"] = outcome.evaluate(bm25, expansion.values), expansion.setting
    if task.past is not None and task.past.rows.size:
        appended = Appended(space, task.counts(space.vectorizer))
        rivals[APPENDED] = outcome.evaluate(space, appended.values)
    learned_parts = {name: found for name, found in parts.items() if found is not None}
    if len(learned_parts) > 1:
        rivals |= {f"{name} alone": found for name, found in learned_parts.items()}
    if accepted:
        evaluations["learned"] = learned
    others = rivals | evaluations
    _, final = others.popitem()
    details = Details(
        name=_clean(name),
        data=facts.data | _facts_of_words(space.vectorizer),
        random_state=random_state,
        learning=_learning(choice, curves),
        rival_settings=settings,
        comparisons=_comparisons(final, others, measure),
        by_query=_by_query(space, final, start, measure, task.names) if accepted else None,
        pairs=_pairs(model) if accepted else (),
        size=_size(model.weights),
        past=_past(model),
    )
    return Report(
        measure=measure,
        n_train=facts.n_train,
        n_validation=len(choice.before[EVERY]),
        n_test=len(start.qids),
        split=facts.split if not outcome.is_given else f"{facts.split} Test queries were given.",
        systems=tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in evaluations.items()),
        accepted=accepted,
        decision=f"{choice.decision.text} {next_step(model)}",
        changes=changes_between(learned, start, measure),
        chosen=chosen,
        seconds=seconds,
        rivals=tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in rivals.items()),
        details=details,
        notes=(*facts.notes, *columns_notes(model.doc_vectorizer, model.weights)),
        rejected=None if accepted else SystemResult.from_evaluation("learned", learned),
        evidence=outcome.evidence(),
        crossed=not outcome.is_given,
    )


def next_step(model: TextModel, serve: str = "tc.Index.build(docs, model)", use: str = "") -> str:
    """A sentence with the next call, or with a command: to ``serve`` the model, or to ``use`` what was rejected."""
    rejected = () if model.parts else model.unused_parts
    return f"To use it anyway: {use or f'model.with_parts({list(rejected)})'}." if rejected else f"Next: {serve}."


def _facts_of_words(words: Vectorizer) -> dict[str, Any]:
    analyzer = words.analyzer or Analyzer()
    stop_words = (
        analyzer.stop_words if isinstance(analyzer.stop_words, str | None) else f"{len(analyzer.stop_words)} words"
    )
    return {
        "n_words": len(words.index_),
        "mean_length": words.mean_length_,
        "tokenizer": analyzer.tokenizer,
        "stop_words": stop_words or "none",
        "stemmer": analyzer.stemmer or "none",
        "ngrams": list(analyzer.ngrams),
    }


def _learning(choice: Choice, curves: CurveRecorder) -> Learning:
    before, after = (side[EVERY][:, 0] for side in (choice.before, choice.after))
    gain = after - before
    error = standard_error(gain)
    return Learning(
        start=float(before.mean()),
        final=float(after.mean()),
        difference=float(gain.mean()),
        standard_error=None if np.isnan(error) else error,
        n_queries=gain.size,
        curves=tuple(curves.curves),
        curve_start=curves.start,
        curve_queries=len(curves.queries.qids),
    )


def _comparisons(final: Evaluation, others: Mapping[str, Evaluation], measure: str) -> tuple[SystemComparison, ...]:
    """The model against each other system; none where there is one query only."""
    if len(final.qids) < 2:
        return ()
    tests = {name: paired_test(final, other, measure=measure) for name, other in others.items()}
    corrected = holm([test.p_value for test in tests.values()]).tolist()
    return tuple(
        SystemComparison(name, test.difference, test.low, test.high, test.p_value, p)
        for (name, test), p in zip(tests.items(), corrected, strict=True)
    )


def _by_query(space: Space, final: Evaluation, start: Evaluation, measure: str, texts: Mapping[str, str]) -> ByQuery:
    before, after = start[measure], final[measure]
    sign = 1.0 if parse_measure(measure).higher_is_better else -1.0
    gain = sign * (after - before)
    order = np.argsort(-gain, kind="stable")
    shown = order[np.linspace(0, order.size - 1, min(order.size, _MOST_DIFFERENCES)).astype(np.int64)]

    def changes(rows: NDArray[np.int64]) -> tuple[QueryChange, ...]:
        return tuple(
            QueryChange(_clean(final.qids[row]), _clean(texts[final.qids[row]]), float(before[row]), float(after[row]))
            for row in rows
        )

    return ByQuery(
        other=space.name,
        n_better=int((gain > _SAME).sum()),
        n_same=int((np.abs(gain) <= _SAME).sum()),
        n_worse=int((gain < -_SAME).sum()),
        differences=tuple((sign * gain[shown]).round(6).tolist()),
        gains=changes(order[gain[order] > _SAME][:_CHANGES_SHOWN]),
        losses=changes(order[gain[order] < -_SAME][::-1][:_CHANGES_SHOWN]),
    )


def _pairs(model: TextModel) -> tuple[tuple[str, str, float], ...]:
    """The strongest pairs, sought among the words in most documents where there are many words."""
    words = model.doc_vectorizer
    frequency = np.sort(words.document_frequency_)[::-1]
    min_docs = 10 if words.n_docs_ >= 1000 else max(1, words.n_docs_ // 100)
    if frequency.size > _MOST_PAIRED_WORDS:
        min_docs = max(min_docs, int(frequency[_MOST_PAIRED_WORDS]) + 1)
    shown: dict[tuple[str, str], float] = {}
    for one, other, weight in model.strongest_pairs(2 * _PAIRS_SHOWN, min_docs=min_docs):
        if shown.get((other, one)) != weight:  # a symmetric model has each pair twice
            shown[one, other] = weight
    return tuple((one, other, weight) for (one, other), weight in shown.items())[:_PAIRS_SHOWN]


def _past(model: TextModel) -> tuple[tuple[str, str, float], ...]:
    """Past queries with the strongest evidence, each once."""
    if model.memory is None:
        return ()
    entries = model.memory.evidence
    rows = np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
    shown: dict[int, tuple[str, str, float]] = {}
    for number in np.argsort(-entries.data, kind="stable").tolist():
        row, column, evidence = int(rows[number]), int(entries.indices[number]), float(entries.data[number])
        if row not in shown and evidence > 0:
            shown[row] = _clean(model.memory.texts[row]), _clean(model.memory.doc_ids[column]), evidence
        if len(shown) == _PAST_SHOWN:
            break
    return tuple(shown.values())


def _size(weights: Weights) -> Size:
    n, m = weights.shape
    _, arrays = weights.to_state()
    density = n_entries(weights) / (n * m) if is_sparse(weights) else 1.0
    parts = " + ".join(f"{part.scale:g} · {type(part).__name__}" for part in weights.parts)
    n_bytes = sum(array.nbytes for array in arrays.values())
    return Size(n, m, parts, weights.n_stored, n_bytes, float(density))


def _clean(text: str) -> str:
    """One short line that can be saved: half a surrogate pair could not."""
    line = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "…"
