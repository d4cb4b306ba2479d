"""A model of memory alone, for too few queries to validate by, or for a first result within seconds."""

from __future__ import annotations

import time
from typing import Final

from tercet.errors import InputError
from tercet.fitting.baselines import ordinary_start, start_summary, typical_best
from tercet.fitting.leaving_out import FEWEST_QUERIES
from tercet.fitting.mixes import make_memory, settings_of_memory
from tercet.fitting.options import FitOptions
from tercet.fitting.score_terms import Mix, words_of
from tercet.fitting.task import Task
from tercet.fitting.text_model import LearnedParts, TextModel
from tercet.report import Report

_USUAL: Final = Mix(weight=1.0)  # a document with very much evidence gains as much as a typical best score


def remember(task: Task, how: FitOptions, began: float) -> TextModel:
    """Remember the past queries of a task over BM25, without validation."""
    if task.past is None:
        raise InputError(f"too few texts have a class with others; give at least {FEWEST_QUERIES}, or test texts")
    space = ordinary_start(task, how)
    start = space.start
    settings = settings_of_memory(_USUAL, typical_best(space.queries, start), 1.0)
    texts = list(task.texts.values())
    memory = make_memory(task.past, space.Q, words_of(space), texts, task.doc_ids, settings)
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
    return TextModel(words, words, start, report, memory=memory, learned=LearnedParts(("memory",)))
