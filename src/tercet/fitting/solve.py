"""Solve a task: choose how words match, train candidates on folds, mix words with memory, decide by the expected value,
and learn from everything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tercet.fitting.baselines import choose_start, start_summary
from tercet.fitting.hybrid import AMOUNTS, SETTINGS, VectorMaps, VectorPair
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
from tercet.text.fielded import OWN_VECTORS


def solve(
    task: Task,
    ranker: RankerChoice | None,
    how: FitOptions,
    seed: int,
    vectors: VectorPair | None = None,
) -> TextModel:
    """Learn from a task, and report on left-out queries or on the given test queries."""
    began = time.perf_counter()
    if how.memory_only or not task.can_validate:
        return remember(task, how, began)
    spaces, space = choose_start(task, how)
    folds = task.folds(space.D)
    trials = Trials(space, task, folds, ranker, how, seed)
    trained = trials.run()
    own = None if vectors is None else VectorMaps(space, task, vectors, how.n_steps, seed)
    mixed = space if own is None else own.space
    blends = [one.blends for one in trials.candidates]
    amounts = () if own is None else AMOUNTS
    mixer = MixSearch(_terms(trained, mixed, own), task.shares, blends, amounts, measures_of(task.measure), seed)
    choice = mixer.choose(start_name=space.name, share_reason=task.share_reason)
    mix = choice.mix
    builder = _ModelBuilder(task, trials, mixer, space, own)
    model, chosen = builder.shipped(mix, choice.decision.accepted)
    used = mix if choice.decision.accepted else Mix()
    if used.parts or model.doc_vectorizer is space.vectorizer:  # the start without fields has other scores
        model = replace(model, confidence=mixer.confidence(used, builder.unit(used)))
    systems = {}
    if mixed.test:
        systems = {name: builder.learned(one, own)[0] for name, one in (("learned", mix), *choice.alone.items())}
    facts = _facts(task.facts, choice, folds, trials.folds, own)
    if own is not None:
        spaces = [own.raw, *(mixed if one is space else one for one in spaces)]
    outcome = Outcome(task, facts, mixed, mixer.measures, choice, trials.folds, systems)
    report = make_report(outcome, model, spaces, chosen, how.name, seed, time.perf_counter() - began)
    return replace(model, report=report)


def _terms(trained: Sequence[Trained], mixed: Space, own: VectorMaps | None) -> list[tuple[str, ScoreTerms]]:
    """Terms of every fold by case, or by the name of a part of the report alone."""
    terms: list[tuple[str, ScoreTerms]] = []
    for fold, weights in ((one.fold, one.weights) for one in trained):
        words = weights if own is None else [own.widened(one) for one in weights]
        maps = [] if own is None else own.maps(fold.sampler)
        for part in fold.parts(mixed.Q, mixed.D):
            part_terms = ScoreTerms(part.held_out, mixed, words, maps, fold.past)
            terms += part_terms.by_case(fold) if part.name in (EVERY, fold.case) else [(part.name, part_terms)]
    return terms


def _facts(
    facts: Facts, choice: Choice, planned: Sequence[Fold], taken: Sequence[Fold], own: VectorMaps | None
) -> Facts:
    """Add the use of own vectors, and the number of folds left out for lack of time."""
    if own is not None:
        mix = choice.mix
        is_used = mix.vectors is not None and choice.decision.accepted
        label = SETTINGS[mix.vectors].label if mix.vectors is not None else "no map of which was better than words"
        note = f"Own vectors of {own.vectors.n_dims} numbers, {label}, were {'kept' if is_used else 'left out'}."
        facts = replace(facts, notes=(*facts.notes, note))
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

    def __init__(self, task: Task, trials: Trials, mixer: MixSearch, space: Space, own: VectorMaps | None) -> None:
        self.task, self.trials, self.mixer, self.space, self.own = task, trials, mixer, space, own
        self._words: dict[tuple[int, float], FinalModel] = {}

    def unit(self, mix: Mix) -> float:
        """Identity weight at the start of the mix's candidate: the unit of all parts."""
        return 1.0 if mix.words is None else self.trials.candidates[mix.words].unit

    def learned(self, mix: Mix, own: VectorMaps | None) -> tuple[TextModel, dict[str, Any]]:
        """The model of a mix, and a summary of its settings; with ``own``, texts have columns for own vectors."""
        mixed = self.space if own is None else own.space
        words, unit = mixed.vectorizer, self.unit(mix)
        weights, word_map, summary = mixed.start, None, start_summary(self.space)
        if mix.words is not None:
            candidate = self.trials.candidates[mix.words]
            key = mix.words, mix.blend
            if key not in self._words:
                self._words[key] = self.trials.learn(candidate, mix.blend)
            final = self._words[key]
            weights, word_map = final.weights, final.words
            weights = weights if own is None else own.widened(weights)
            summary |= {**final.summary, "blend": mix.blend, **chosen_weights(words, weights)}
        if mix.vectors is not None:
            assert own is not None
            weights = weights + own.map(mix.vectors, self.task.sampler) * (mix.amount * unit)
            summary |= {OWN_VECTORS: SETTINGS[mix.vectors].label, "weight of own vectors": mix.amount}
        memory = None
        if mix.has_memory:
            assert self.task.past is not None
            settings = settings_of_memory(mix, self.mixer.scale(mix), unit)
            texts = list(self.task.texts.values())
            memory = make_memory(self.task.past, mixed.Q, words_of(mixed), texts, self.task.doc_ids, settings)
            shape = {"threshold": settings.threshold, "power": settings.power}
            summary |= {"memory": mix.weight, "pooled memory": mix.pooled, "unseen": mix.unseen, **shape}
        return TextModel(words, words, weights, words=word_map, memory=memory), summary

    def shipped(self, mix: Mix, accepted: bool) -> tuple[TextModel, dict[str, Any]]:
        """The model to ship, with the unused parts, and a summary."""
        learned, summary = self.learned(mix, None if mix.vectors is None else self.own)
        has_words = mix.words is not None or mix.vectors is not None
        if accepted:
            # Rejected words are not learned from all evidence. Memory counts in the unit of the words.
            used = tuple(name for name, is_used in (("words", has_words), ("memory", mix.has_memory)) if is_used)
            start = self.space.start if mix.vectors is None or self.own is None else self.own.space.start
            return replace(learned, learned=LearnedParts(used, start * self.unit(mix) if has_words else None)), summary
        plain = self.space if self.space.given_start is not None else words_alone(self.space)
        model = TextModel(plain.vectorizer, plain.vectorizer, plain.start)
        if plain.vectorizer is not learned.doc_vectorizer:
            return model, summary  # documents need no columns, or vectors, to be searched
        other, memory = learned.weights * (1 / self.unit(mix)) if has_words else None, learned.memory
        if memory is not None:
            memory = replace(memory, settings=settings_of_memory(mix, self.mixer.scale(mix), 1.0))
        return replace(model, learned=LearnedParts((), other, memory)), summary
