"""Report of a fit of texts: all systems on the same queries, the course of learning, and its effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet.fitting.baselines import Appended, Posteriors
from tercet.fitting.judged import Labels
from tercet.fitting.mixes import Case, Choice
from tercet.fitting.scored_columns import columns_notes
from tercet.fitting.task import EVERY, KNOWN, LABELS, Facts, Fold, Space, Task, TextHeldOut
from tercet.fitting.text_model import TextModel
from tercet.measure import Evaluation, holm, paired_test
from tercet.measure.names import PAIR_ACCURACY, Measure, parse_measure, parse_measures
from tercet.report import Report, SystemResult, changes_between
from tercet.report.details import ByQuery, Details, QueryChange, Size, SystemComparison
from tercet.report.value import EvidenceResult
from tercet.text import Analyzer, Vectorizer
from tercet.text.fielded import FieldedVectorizer
from tercet.weights import Weights

APPENDED: Final = "past queries appended"
POSTERIORS: Final = "posteriors of logistic regression"
_MOST_DIFFERENCES: Final = 400
_CHANGES_SHOWN: Final = 8
_LONGEST_TEXT: Final = 120
_PAIRS_SHOWN: Final = 24
_PAST_SHOWN: Final = 12
_MOST_PAIRED_WORDS: Final = 5_000  # vocabulary of the search for the strongest pairs: at most 25 million pairs
_SAME: Final = 1e-9  # smaller differences are rounding


def measures_of(measure: Measure) -> tuple[Measure, ...]:
    """Return the measures of a report: the measure of the choice, and the usual measures."""
    name = str(measure)
    return parse_measures([name] if name == PAIR_ACCURACY else list(dict.fromkeys([name, "nDCG@10", "AP", "RR"]))[:4])


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a fit, measured on the left-out queries of the folds.

    Attributes
    ----------
    facts : facts of the collection, for the report
    space : the start
    measures : the measure of the choice, and further measures to report
    folds : the folds in use
    """

    task: Task
    facts: Facts
    space: Space
    measures: tuple[Measure, ...]
    choice: Choice
    folds: Sequence[Fold]

    def evaluate(
        self, space: Space, values: Callable[[TextHeldOut, Fold, tuple[Measure, ...]], NDArray[np.float64]]
    ) -> Evaluation:
        """Evaluate a system without learning, in its space."""
        folds = [fold for fold in self.folds if fold.case == KNOWN]
        parts = [fold.parts(space.Q, space.D)[0].held_out for fold in folds]
        of_folds = [values(part, fold, self.measures) for part, fold in zip(parts, folds, strict=True)]
        merged = Case(parts).mean(of_folds)
        return self._of_all(merged)

    def learned(self) -> Evaluation:
        """Evaluate all learned parts, used or not."""
        return self._of_all(self.choice.after[EVERY])

    def alone(self) -> dict[str, Evaluation]:
        """Evaluate words and memory alone, if both were learned."""
        alone = self.choice.alone
        return {f"{name} alone": self._of_all(values) for name, values in alone.items()} if len(alone) > 1 else {}

    def _of_all(self, values: NDArray[np.float64]) -> Evaluation:
        return Evaluation(self.measures, self.choice.qids[EVERY], values)

    def evidence(self) -> tuple[EvidenceResult, ...]:
        """Gains in each case."""
        choice, results = self.choice, []
        for case, qids in choice.qids.items():
            if case != EVERY:
                before, after = (
                    Evaluation(choice.measures[case], qids, side[case]) for side in (choice.before, choice.after)
                )
                systems = (self.space.name, before), ("learned", after)
                results.append(EvidenceResult.between(case, choice.sizes[case], *systems))
        return tuple(results)


def make_report(
    outcome: Outcome,
    model: TextModel,
    spaces: Sequence[Space],
    chosen: dict[str, Any],
    name: str,
    random_state: int,
    seconds: float,
) -> Report:
    """Evaluate all systems on left-out or test queries, and gather the facts of the fit."""
    task, space, choice = outcome.task, outcome.space, outcome.choice
    measure, accepted, facts = str(outcome.measures[0]), choice.decision.accepted, outcome.facts

    def matching(baseline: Space) -> Evaluation:
        return outcome.evaluate(
            baseline, lambda held_out, fold, measures: held_out.evaluate(baseline.start, measures).values
        )

    # The start comes last of the baselines, next to the learned parts.
    starts = sorted(spaces, key=lambda baseline: baseline is space)
    evaluations = {baseline.name: matching(baseline) for baseline in starts}
    start, learned = evaluations[space.name], outcome.learned()
    rivals: dict[str, Evaluation] = {}
    labels = task.sources.get(LABELS)
    if isinstance(labels, Labels):
        rivals[POSTERIORS] = outcome.evaluate(space, Posteriors(space, labels, task.qids).values)
    if task.past is not None and task.past.rows.size:
        appended = Appended(space, task.counts(space.vectorizer))
        rivals[APPENDED] = outcome.evaluate(space, appended.values)
    rivals |= outcome.alone()
    if accepted:
        evaluations["learned"] = learned
    baselines = rivals | evaluations
    _, final = baselines.popitem()
    words = model.doc_vectorizer
    notes_on_columns = columns_notes(words, model.weights) if isinstance(words, FieldedVectorizer) else ()
    details = Details(
        name=_clean(name),
        data=facts.data | _facts_of_words(space.vectorizer),
        random_state=random_state,
        comparisons=_comparisons(final, baselines, measure),
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
        split=facts.split,
        systems=tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in evaluations.items()),
        accepted=accepted,
        decision=f"{choice.decision.text} {next_step(model)}",
        changes=changes_between(learned, start, measure),
        chosen=chosen,
        seconds=seconds,
        rivals=tuple(SystemResult.from_evaluation(name, evaluation) for name, evaluation in rivals.items()),
        details=details,
        notes=(*facts.notes, *notes_on_columns),
        rejected=None if accepted else SystemResult.from_evaluation("learned", learned),
        evidence=outcome.evidence(),
        crossed=True,
        expected=choice.decision.gain,
    )


def next_step(model: TextModel, serve: str = "tc.Index.build(docs, model)", use: str = "") -> str:
    """A sentence with the next call, or with a command: to ``serve`` the model, or to ``use`` the rejected parts."""
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


def _comparisons(final: Evaluation, baselines: Mapping[str, Evaluation], measure: str) -> tuple[SystemComparison, ...]:
    """Compare the model with each other system; empty for a single query."""
    if len(final.qids) < 2:
        return ()
    tests = {name: paired_test(final, baseline, measure=measure) for name, baseline in baselines.items()}
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
    sample = order[np.linspace(0, order.size - 1, min(order.size, _MOST_DIFFERENCES)).astype(np.int64)]

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
        differences=tuple((sign * gain[sample]).round(6).tolist()),
        gains=changes(order[gain[order] > _SAME][:_CHANGES_SHOWN]),
        losses=changes(order[gain[order] < -_SAME][::-1][:_CHANGES_SHOWN]),
    )


def _pairs(model: TextModel) -> tuple[tuple[str, str, float], ...]:
    """The strongest pairs of words; of a large vocabulary, among frequent words."""
    words = model.doc_vectorizer
    frequency = np.sort(words.document_frequency_)[::-1]
    min_docs = 10 if words.n_docs_ >= 1000 else max(1, words.n_docs_ // 100)
    if frequency.size > _MOST_PAIRED_WORDS:
        min_docs = max(min_docs, int(frequency[_MOST_PAIRED_WORDS]) + 1)
    weights: dict[tuple[str, str], float] = {}
    for query_word, doc_word, weight in model.strongest_pairs(2 * _PAIRS_SHOWN, min_docs=min_docs):
        if weights.get((doc_word, query_word)) != weight:  # a symmetric model has each pair twice
            weights[query_word, doc_word] = weight
    return tuple((query_word, doc_word, weight) for (query_word, doc_word), weight in weights.items())[:_PAIRS_SHOWN]


def _past(model: TextModel) -> tuple[tuple[str, str, float], ...]:
    """Past queries with the strongest evidence, each once."""
    if model.memory is None:
        return ()
    entries = model.memory.evidence
    rows = np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
    strongest: dict[int, tuple[str, str, float]] = {}
    for number in np.argsort(-entries.data, kind="stable").tolist():
        row, column, evidence = int(rows[number]), int(entries.indices[number]), float(entries.data[number])
        if row not in strongest and evidence > 0:
            strongest[row] = _clean(model.memory.texts[row]), _clean(model.memory.doc_ids[column]), evidence
        if len(strongest) == _PAST_SHOWN:
            break
    return tuple(strongest.values())


def _size(weights: Weights) -> Size:
    n, m = weights.shape
    _, arrays = weights.to_state()
    parts = " + ".join(f"{part.scale:g} · {type(part).__name__}" for part in weights.parts)
    n_bytes = sum(array.nbytes for array in arrays.values())
    return Size(n, m, parts, weights.n_stored, n_bytes, weights.density)


def _clean(text: str) -> str:
    """Shorten a text to a line without surrogates, which UTF-8 cannot encode."""
    line = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "…"
