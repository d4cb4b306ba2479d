"""Solve a task: choose how words match, train candidates on folds, mix words with memory, decide by the expected value,
and learn from everything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tercet.fitting.baselines import choose_start, start_summary
from tercet.fitting.mixes import Choice, MixSearch, make_memory, settings_of_memory
from tercet.fitting.options import FitOptions
from tercet.fitting.outcome import Outcome, make_report, measures_of
from tercet.fitting.rankers import RankerChoice
from tercet.fitting.score_terms import Mix, ScoreTerms, words_of
from tercet.fitting.scored_columns import chosen_weights, words_alone
from tercet.fitting.task import EVERY, KNOWN, Facts, Fold, Space, Task
from tercet.fitting.text_model import LearnedParts, TextModel
from tercet.fitting.trials import FinalModel, Trained, Trials
from tercet.fitting.unvalidated import remember


def solve(task: Task, ranker: RankerChoice | None, how: FitOptions, seed: int) -> TextModel:
    """Learn from a task, and report on left-out queries or on the given test queries."""
    began = time.perf_counter()
    if how.memory_only or not task.can_validate:
        return remember(task, how, began)
    spaces, space = choose_start(task, how)
    folds = task.folds(space.D)
    trials = Trials(space, task, folds, ranker, how, seed)
    trained = trials.run()
    blends = [one.blends for one in trials.candidates]
    mixer = MixSearch(_terms(trained, space), task.shares, blends, measures_of(task.measure), seed)
    choice = mixer.choose(start_name=space.name, share_reason=task.share_reason)
    mix = choice.mix
    builder = _ModelBuilder(task, trials, mixer, space)
    model, chosen = builder.shipped(mix, choice.decision.accepted)
    used = mix if choice.decision.accepted else Mix()
    if used.parts or model.doc_vectorizer is space.vectorizer:  # the start without fields has other scores
        model = replace(model, confidence=mixer.confidence(used, builder.unit(used)))
    facts = _facts(task.facts, choice, folds, trials.folds)
    outcome = Outcome(task, facts, space, mixer.measures, choice, trials.folds)
    report = make_report(outcome, model, spaces, chosen, how.name, seed, time.perf_counter() - began)
    return replace(model, report=report)


def _terms(trained: Sequence[Trained], space: Space) -> list[tuple[str, ScoreTerms]]:
    """Terms of every fold by case, or by the name of a part of the report alone."""
    terms: list[tuple[str, ScoreTerms]] = []
    for fold, weights in ((one.fold, one.weights) for one in trained):
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


class _ModelBuilder:
    """Models of a mix, learned from everything; the words of a mix are learned once."""

    def __init__(self, task: Task, trials: Trials, mixer: MixSearch, space: Space) -> None:
        self.task, self.trials, self.mixer, self.space = task, trials, mixer, space
        self._words: dict[tuple[int, float], FinalModel] = {}

    def unit(self, mix: Mix) -> float:
        """Identity weight at the start of the mix's candidate: the unit of all parts."""
        return 1.0 if mix.words is None else self.trials.candidates[mix.words].unit

    def learned(self, mix: Mix) -> tuple[TextModel, dict[str, Any]]:
        """The model of a mix, and a summary of its settings."""
        space, unit = self.space, self.unit(mix)
        words, weights, word_map, summary = space.vectorizer, space.start, None, start_summary(space)
        if mix.words is not None:
            candidate = self.trials.candidates[mix.words]
            key = mix.words, mix.blend
            if key not in self._words:
                self._words[key] = self.trials.learn(candidate, mix.blend)
            final = self._words[key]
            weights, word_map = final.weights, final.words
            summary |= {**final.summary, "blend": mix.blend, **chosen_weights(words, weights)}
        memory = None
        if mix.has_memory:
            assert self.task.past is not None
            settings = settings_of_memory(mix, self.mixer.scale(mix), unit)
            texts = list(self.task.texts.values())
            memory = make_memory(self.task.past, space.Q, words_of(space), texts, self.task.doc_ids, settings)
            shape = {"threshold": settings.threshold, "power": settings.power}
            summary |= {"memory": mix.weight, "pooled memory": mix.pooled, "unseen": mix.unseen, **shape}
        return TextModel(words, words, weights, words=word_map, memory=memory), summary

    def shipped(self, mix: Mix, accepted: bool) -> tuple[TextModel, dict[str, Any]]:
        """The model to ship, with the unused parts, and a summary."""
        learned, summary = self.learned(mix)
        has_words = mix.words is not None
        if accepted:
            # Rejected words are not learned from all evidence. Memory counts in the unit of the words.
            used = tuple(name for name, is_used in (("words", has_words), ("memory", mix.has_memory)) if is_used)
            start = self.space.start * self.unit(mix) if has_words else None
            return replace(learned, learned=LearnedParts(used, start)), summary
        plain = self.space if self.space.given_start is not None else words_alone(self.space)
        model = TextModel(plain.vectorizer, plain.vectorizer, plain.start)
        if plain.vectorizer is not learned.doc_vectorizer:
            return model, summary  # documents need no columns to be searched
        other, memory = learned.weights * (1 / self.unit(mix)) if has_words else None, learned.memory
        if memory is not None:
            memory = replace(memory, settings=settings_of_memory(mix, self.mixer.scale(mix), 1.0))
        return replace(model, learned=LearnedParts((), other, memory)), summary
