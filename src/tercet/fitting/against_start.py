"""Keep learned weights only if better than the start on held-out queries, and report on further queries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.choose import Gain
from tercet.fitting.mixes import Decision
from tercet.fitting.text_model import TextModel
from tercet.measure.held_out import HeldOut
from tercet.report import Report, SystemResult, changes_between
from tercet.text import Vectorizer
from tercet.weights import Weights


def learned_or_start(
    vectorizers: tuple[Vectorizer, Vectorizer],
    learned: Weights,
    starts: Mapping[str, Weights],
    validation: HeldOut,
    test: HeldOut,
    measures: Sequence[str],
    began: float,
    **facts: Any,
) -> TextModel:
    """Make a model of the learned weights if better than the start on validation queries, else of the start.

    Parameters
    ----------
    vectorizers : of queries and of documents
    starts : possible starts of learning by name, the actual start last; empty for two vocabularies
    measures : of the table, on test queries
    began : time of the beginning of the fit
    facts : further fields of the `Report`
    """
    evaluation, measure = test.evaluate(learned, measures), str(test.measure)
    evaluations = {name: test.evaluate(weights, measures) for name, weights in starts.items()}
    systems = tuple(SystemResult.from_evaluation(*named) for named in evaluations.items())
    result = SystemResult.from_evaluation("learned", evaluation)
    weights, changes = learned, {}
    text = "queries and documents have vocabularies of their own, so there is nothing to compare it with"
    decision = Decision(True, f"The model is what was learned: {text}.")
    if starts:
        name, start = list(starts.items())[-1]
        before, after = validation.values(start), validation.values(learned)
        gain = Gain.between(before, after, higher_is_better=validation.measure.higher_is_better)
        decided_by = {"measure": str(validation.measure), "queries": "validation queries"}
        decision = decide(gain, before, after, start=name, **decided_by)
        changes = changes_between(evaluation, evaluations[name], measure)
        weights = learned if decision.accepted else start
    report = Report(
        measure=measure,
        n_validation=len(validation.qids),
        n_test=len(test.qids),
        systems=(*systems, result) if decision.accepted else systems,
        accepted=decision.accepted,
        decision=decision.text,
        changes=changes,
        rejected=None if decision.accepted else result,
        seconds=time.perf_counter() - began,
        **facts,
    )
    return TextModel(*vectorizers, weights, report)


def decide(
    gain: Gain, before: NDArray[np.float64], after: NDArray[np.float64], *, start: str, measure: str, queries: str
) -> Decision:
    """Accept learning only if better than the start on held-out queries by more than a standard error."""
    verdict = "accepted" if gain.is_clear else f"rejected; the model is {start}"
    return Decision(
        gain.is_clear,
        f"Learning was {verdict}: on {gain.n_queries} {queries} {measure} changed by "
        f"{(after - before).mean():+.3f} from {start}'s {before.mean():.3f}, with a standard error of "
        f"{gain.error:.3f}.",
    )
