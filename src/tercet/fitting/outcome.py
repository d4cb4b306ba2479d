"""What a fit of texts says of itself: all systems on the untouched queries, how learning went, and what it changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet.choose import standard_error
from tercet.data.shards import StoredRows
from tercet.fitting.baselines import RM3
from tercet.fitting.out_of_fold import Choice, OutOfFold
from tercet.fitting.rankers import Candidate
from tercet.fitting.scored_columns import columns_notes, words_alone
from tercet.fitting.task import EVERY, Facts, Space, TextHeldOut, some_queries
from tercet.fitting.text_model import TextModel
from tercet.learn.loop import Event
from tercet.measure import Evaluation, holm, paired_test
from tercet.measure.names import PAIR_ACCURACY, Measure, parse_measure, parse_measures
from tercet.report import Report, SystemResult, changes_between
from tercet.report.details import ByQuery, Curve, Details, Learning, QueryChange, Size, SystemComparison
from tercet.report.value import EvidenceResult
from tercet.text import Analyser, Vectoriser
from tercet.weights import Weights
from tercet.weights.survey import is_sparse, n_entries

_CURVE_POINTS: Final = 10
# A point of the curve ranks the validation queries; of a large collection some of them must do.
_MOST_CURVE_SCORES: Final = 2_000_000
_FEWEST_CURVE_QUERIES: Final = 20
_MOST_CURVE_WORDS: Final = 1_000_000  # of all documents, whose latent vectors are made for each point
_MOST_DIFFERENCES: Final = 400
_CHANGES_SHOWN: Final = 8
_LONGEST_TEXT: Final = 120
_PAIRS_SHOWN: Final = 24
_MOST_PAIRED_WORDS: Final = 5_000  # among which the strongest pairs are sought, so at most 25 million of them
_SAME: Final = 1e-9  # differences below are those of rounding


@dataclass(frozen=True, eq=False)
class Outcome:
    """How learning ended: what was chosen and why, what was left out, and what was learned from everything in the end.

    ``learned`` is None where it was rejected and there is nothing to measure it by.
    """

    measure: str
    choice: Choice
    chosen: dict[str, Any]
    curves: CurveRecorder
    out_of_fold: OutOfFold
    name: str
    random_state: int
    learned: Weights | None


class CurveRecorder:
    """Measures the model on held-out queries ten times while it learns, or three times where there is much to read; it
    only looks, so learning is the same."""

    def __init__(self, held_out: TextHeldOut, start: Weights) -> None:
        self.queries = some_queries(held_out, _MOST_CURVE_SCORES, _FEWEST_CURVE_QUERIES)
        self.start = float(self.queries.values(start).mean())
        self.curves: list[Curve] = []
        is_much = not isinstance(held_out.D, StoredRows) and held_out.D.nnz > _MOST_CURVE_WORDS
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


def measures_of(measure: str) -> tuple[Measure, ...]:
    """What a report is by: the measure that chooses, and the usual ones."""
    names = [measure] if measure == PAIR_ACCURACY else list(dict.fromkeys([measure, "nDCG@10", "AP", "RR"]))[:4]
    return parse_measures(names)


class _Reported:
    """What systems are reported on: queries that were given for it, or those that folds left out."""

    def __init__(self, outcome: Outcome, space: Space) -> None:
        self.outcome = outcome
        self.space = space
        self.measures = outcome.out_of_fold.measures

    @property
    def is_given(self) -> bool:
        return bool(self.space.test)

    def evaluate(self, space: Space, values: Callable[[TextHeldOut, tuple[Measure, ...]], Any]) -> Evaluation:
        """A system that learns nothing, in its space."""
        if self.is_given:
            held_out = space.test[0].held_out
            return Evaluation(self.measures, held_out.qids, values(held_out, self.measures))
        pool = OutOfFold(space, self.outcome.out_of_fold.folds, self.measures).evaluate(values)
        return Evaluation(self.measures, pool.qids(EVERY), pool.values(EVERY)[0])

    def learned(self) -> Evaluation:
        """What was learned, accepted or not."""
        if self.is_given:
            assert self.outcome.learned is not None
            return self.space.test[0].held_out.evaluate(self.outcome.learned, self.measures)
        return Evaluation(self.measures, self._qids(EVERY), self.outcome.choice.after[EVERY])

    def evidence(self) -> tuple[EvidenceResult, ...]:
        """What learning brought on each part of what was left out or given."""
        if self.is_given:
            assert self.outcome.learned is not None
            learned, start = self.outcome.learned, self.space.start
            return tuple(
                self._between(part.name, part.size, part.held_out.evaluate(start), part.held_out.evaluate(learned))
                for part in self.space.test[1:]
            )
        choice, folds = self.outcome.choice, self.outcome.out_of_fold
        results = []
        for name in choice.before:
            if name == EVERY:
                continue
            measures, qids = folds.measures_of(name), self._qids(name)
            sides = (Evaluation(measures, qids, side[name]) for side in (choice.before, choice.after))
            results.append(self._between(name, folds.size(name), *sides))
        return tuple(results)

    def _between(self, name: str, size: int, start: Evaluation, learned: Evaluation) -> EvidenceResult:
        return EvidenceResult.between(name, size, (self.space.name, start), ("learned", learned))

    def _qids(self, name: str) -> tuple[str, ...]:
        return self.outcome.choice.tried.pool.qids(name)


def make_report(
    model: TextModel, facts: Facts, spaces: Sequence[Space], space: Space, outcome: Outcome, seconds: float
) -> Report:
    """Evaluate all systems on queries that none has learned from, and write down everything that a reader may ask."""
    measure, accepted = outcome.measure, outcome.choice.decision.accepted
    reported = _Reported(outcome, space)

    def matching(one: Space) -> Evaluation:
        return reported.evaluate(one, lambda held_out, measures: held_out.evaluate(one.start, measures).values)

    # The start comes last of the baselines, next to what was learned from it.
    evaluations = {one.name: matching(one) for one in sorted(spaces, key=lambda one: one is space)}
    start, learned = evaluations[space.name], reported.learned()
    if accepted:
        evaluations["learned"] = learned
    rivals, settings = {}, {}
    for bm25 in [words_alone(one) for one in spaces if one.vectoriser.weighting == "bm25"][:1]:  # words may be others
        expansion = RM3(bm25)
        rivals["RM3"], settings["RM3"] = reported.evaluate(bm25, expansion.values), expansion.setting
    others = rivals | evaluations
    _, final = others.popitem()
    details = Details(
        name=_clean(outcome.name),
        data=facts.data | _facts_of_words(space.vectoriser),
        random_state=outcome.random_state,
        learning=_learning(outcome),
        rival_settings=settings,
        comparisons=_comparisons(final, others, measure),
        by_query=_by_query(space, final, start, measure, facts.texts) if accepted else None,
        pairs=_pairs(model) if accepted else (),
        size=_size(model.weights),
    )
    return Report(
        measure=measure,
        n_train=facts.n_train,
        n_validation=len(outcome.choice.before[EVERY]),
        n_test=len(start.qids),
        split=facts.split if not reported.is_given else f"{facts.split} Test queries were given.",
        systems=tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in evaluations.items()),
        accepted=accepted,
        decision=outcome.choice.decision.text,
        changes=changes_between(learned, start, measure),
        chosen=outcome.chosen,
        seconds=seconds,
        rivals=tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in rivals.items()),
        details=details,
        notes=(*facts.notes, *columns_notes(model.doc_vectoriser, model.weights)),
        rejected=None if accepted else SystemResult.from_evaluation("learned", learned),
        evidence=reported.evidence(),
        crossed=not reported.is_given,
    )


def _facts_of_words(words: Vectoriser) -> dict[str, Any]:
    analyser = words.analyser or Analyser()
    stop_words = (
        analyser.stop_words if isinstance(analyser.stop_words, str | None) else f"{len(analyser.stop_words)} words"
    )
    return {
        "n_words": len(words.index_),
        "mean_length": words.mean_length_,
        "tokenizer": analyser.tokenizer,
        "stop_words": stop_words or "none",
        "stemmer": analyser.stemmer or "none",
        "ngrams": list(analyser.ngrams),
    }


def _learning(outcome: Outcome) -> Learning:
    before, after = (side[EVERY][:, 0] for side in (outcome.choice.before, outcome.choice.after))
    gain = after - before
    error = standard_error(gain)
    return Learning(
        start=float(before.mean()),
        final=float(after.mean()),
        difference=float(gain.mean()),
        standard_error=None if np.isnan(error) else error,
        n_queries=gain.size,
        curves=tuple(outcome.curves.curves),
        curve_start=outcome.curves.start,
        curve_queries=len(outcome.curves.queries.qids),
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
    words = model.doc_vectoriser
    frequency = np.sort(words.document_frequency_)[::-1]
    min_docs = 10 if words.n_docs_ >= 1000 else max(1, words.n_docs_ // 100)
    if frequency.size > _MOST_PAIRED_WORDS:
        min_docs = max(min_docs, int(frequency[_MOST_PAIRED_WORDS]) + 1)
    shown: dict[tuple[str, str], float] = {}
    for one, other, weight in model.strongest_pairs(2 * _PAIRS_SHOWN, min_docs=min_docs):
        if shown.get((other, one)) != weight:  # a symmetric model has each pair twice
            shown[one, other] = weight
    return tuple((one, other, weight) for (one, other), weight in shown.items())[:_PAIRS_SHOWN]


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
