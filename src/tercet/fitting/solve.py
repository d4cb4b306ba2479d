"""Solve a task: choose how words match, train candidates on folds, mix words with memory, decide by the expected value,
and learn from everything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tercet.errors import InputError
from tercet.fitting.baselines import choose_start, ordinary_start, start_summary, typical_best
from tercet.fitting.leaving_out import FEWEST_QUERIES
from tercet.fitting.mixes import Choice, MixSearch, memory_of
from tercet.fitting.options import FitOptions
from tercet.fitting.outcome import Outcome, make_report, measures_of
from tercet.fitting.rankers import RankerChoice
from tercet.fitting.score_terms import Mix, ScoreTerms
from tercet.fitting.scored_columns import chosen_weights, words_alone
from tercet.fitting.task import EVERY, KNOWN, Facts, Fold, Space, Task
from tercet.fitting.text_model import LearnedParts, TextModel
from tercet.fitting.trials import Trained, Trials
from tercet.report import Report
from tercet.text.fielded import FieldedVectorizer
from tercet.weights import Weights

_USUAL: Final = Mix(weight=1.0)  # a document with very much evidence gains as much as a typical best score


def solve(task: Task, ranker: RankerChoice | None, how: FitOptions, seed: int) -> TextModel:
    """Learn from a task, and report on left-out queries."""
    began = time.perf_counter()
    if how.memory_only or not task.can_validate:
        return _remember(task, how, began)
    spaces, space = choose_start(task, how)
    folds = task.folds(space.D)
    trials = Trials(space, task, folds, ranker, how, seed)
    terms = _terms(trials.run(), space)
    blends = [candidate.blends for candidate in trials.candidates]
    mixer = MixSearch(terms, task.shares, blends, measures_of(task.measure), seed)
    choice = mixer.choose(start_name=space.name, share_reason=task.share_reason)
    mix, accepted = choice.mix, choice.decision.accepted
    unit = 1.0 if mix.words is None else trials.candidates[mix.words].unit  # weight of the identity
    weights, summary = _learned(mix, trials, space)
    model = _shipped(mix, accepted, weights, mixer, task, space, unit)
    used = mix if accepted else Mix()
    if used.parts or model.doc_vectorizer is space.vectorizer:  # the start without fields has other scores
        model = replace(model, confidence=mixer.confidence(used, unit if accepted else 1.0))
    if mix.has_memory:
        settings = mixer.settings(mix, unit)
        shape = {"threshold": settings.threshold, "power": settings.power}
        summary |= {"memory": mix.weight, "pooled memory": mix.pooled, "unseen": mix.unseen, **shape}
    facts = _facts(task.facts, choice, folds, trials.folds)
    outcome = Outcome(task, facts, space, mixer.measures, choice, trials.folds)
    report = make_report(outcome, model, spaces, summary, how.name, seed, time.perf_counter() - began)
    return replace(model, report=report)


def _terms(trained: Sequence[Trained], space: Space) -> list[tuple[str, ScoreTerms]]:
    """Terms of every fold, by case or by the name of a part that only the report measures."""
    terms: list[tuple[str, ScoreTerms]] = []
    for fold, weights in trained:
        for part in fold.parts(space.Q, space.D):
            part_terms = ScoreTerms(part.held_out, space, weights, fold.past)
            terms += part_terms.by_case(fold) if part.name in (EVERY, fold.case) else [(part.name, part_terms)]
    return terms


def _facts(facts: Facts, choice: Choice, planned: Sequence[Fold], taken: Sequence[Fold]) -> Facts:
    """Add the number of folds left out for lack of time."""
    n_taken, n_planned = (sum(fold.case == KNOWN for fold in folds) for folds in (taken, planned))
    if n_taken == n_planned:
        return facts
    split = (
        f"There was time for {n_taken} of {n_planned} folds: {len(choice.before[EVERY]):,} queries were left out "
        "of learning to choose by; then all were learned from."
    )
    return replace(facts, split=split)


# -- the model --------------------------------------------------------------------------------------------------------


def _learned(mix: Mix, trials: Trials, space: Space) -> tuple[Weights, dict[str, Any]]:
    """Weights of a mix, learned from everything, and a summary of the settings."""
    summary = start_summary(space)
    if mix.words is None:
        return space.start, summary
    weights, of_ranker = trials.learn(trials.candidates[mix.words], mix.blend)
    summary |= {**of_ranker, "blend": mix.blend}
    if isinstance(space.vectorizer, FieldedVectorizer):
        summary |= chosen_weights(space.vectorizer, weights)
    return weights, summary


def _shipped(
    mix: Mix, accepted: bool, weights: Weights, mixer: MixSearch, task: Task, space: Space, unit: float
) -> TextModel:
    """The model to ship, with the unused parts."""
    has_words = mix.words is not None
    if accepted:
        # Memory counts in the unit of the words.
        memory = memory_of(task.past, task, space, mixer.settings(mix, unit)) if mix.has_memory else None
        used = tuple(name for name, is_used in (("words", has_words), ("memory", mix.has_memory)) if is_used)
        learned = LearnedParts(used, space.start * unit if has_words else None)
        return TextModel(space.vectorizer, space.vectorizer, weights, memory=memory, learned=learned)
    has_columns = isinstance(space.vectorizer, FieldedVectorizer)
    plain = words_alone(space) if has_columns and space.given_start is None else space
    model = TextModel(plain.vectorizer, plain.vectorizer, plain.start)
    if plain.vectorizer is not space.vectorizer:
        return model  # this model searches documents without columns
    memory = memory_of(task.past, task, space, mixer.settings(mix, 1.0)) if mix.has_memory else None
    return replace(model, learned=LearnedParts((), weights * (1 / unit) if has_words else None, memory))


def _remember(task: Task, how: FitOptions, began: float) -> TextModel:
    """Remember the past queries of a task over BM25, without validation: a first result within seconds."""
    if task.past is None:
        raise InputError(f"too few texts have a class with others; give at least {FEWEST_QUERIES}")
    space = ordinary_start(task, how)
    memory = memory_of(task.past, task, space, _USUAL.settings(typical_best(space.queries, space.start), 1.0))
    facts, words = task.facts, space.vectorizer
    few = "1 query is" if facts.n_train == 1 else f"{facts.n_train:,} queries are"
    why = "" if task.can_validate else f": {few} too few; of {FEWEST_QUERIES} or more, some are left out in turn"
    report = Report(
        measure=str(task.measure),
        n_train=facts.n_train,
        n_validation=0,
        n_test=0,
        split=facts.split,
        systems=(),
        accepted=True,
        decision=f"Used: memory of past queries over {space.name}. Nothing was validated{why}.",
        chosen=start_summary(space) | {"memory": _USUAL.weight},
        seconds=time.perf_counter() - began,
        notes=facts.notes,
    )
    return TextModel(words, words, space.start, report, memory=memory, learned=LearnedParts(("memory",)))
