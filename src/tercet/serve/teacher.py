"""Overlay of taught actions, and the thread that publishes versions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.data.taught import USE, Action
from tercet.errors import EngineError
from tercet.learn.online import OnlineLearner, OnlineRule
from tercet.memory import Use, with_uses
from tercet.serve.served import Served, query_rows, text_model
from tercet.serve.taught import TaughtStore

_log = logging.getLogger(__name__)

RULE: Final = OnlineRule()
MOST_PAIRS: Final = 10_000_000  # taught pairs of words
_MOVE_MARGIN: Final = 0.1  # share of the usual margin: a moved document has to fit between two others
_MOVE_ROUNDS: Final = 10  # passes over the pairs of a move
_SCALING_USES: Final = 100  # first uses, whose best scores set the weight of memory
_PUBLISH_SECONDS: Final = 1.0  # between two versions
_ENGINE_SECONDS: Final = 2.0  # between attempts while an engine does not answer


class Overlay:
    """Overlay of actions on an index: the online learner learns words, and memory remembers the queries of uses.

    Actions in the model are left out. Documents outside the index are skipped.
    """

    def __init__(self, base: Served, store: str, rule: OnlineRule = RULE) -> None:
        self.base = base
        self._model, self._docs = text_model(base.base), set[str]()
        self._learner = OnlineLearner(self._model.weights, rule, n_words=self._model.n_words)
        self._memory = self._model.memory
        self._best_scores: list[float] = []
        self._first = max((rows.number for rows in self._model.taught if rows.store == store), default=0) + 1

    def warm_up(self) -> None:
        """Load the kernels by a step without effect."""
        Q, D = (sparse.csr_array((2, width), dtype=np.float32) for width in self._model.weights.shape)
        OnlineLearner(self._model.weights, RULE).learn(Q, Preferences([0], [0], [1]), D)

    def has(self, action: Action) -> bool:
        """Return True unless the action is part of the model."""
        return action.number >= self._first

    def learn(self, actions: Iterable[Action]) -> None:
        """Take a step for each pair of the active actions."""
        queries: dict[str, int] = {}
        docs: dict[str, int] = {}
        steps: list[tuple[int, int, int, float]] = []
        uses: list[Action] = []
        index = self.base.base
        for action in actions:
            self._docs.update(doc for pair in action.pairs for doc in pair)
            if not (action.is_active and self.has(action)):
                continue
            if action.kind == USE:
                uses.append(action)
            pairs = [pair for pair in action.pairs if pair[0] in index and pair[1] in index]
            is_move = action.kind == "move"
            query, margin = queries.setdefault(action.query, len(queries)), _MOVE_MARGIN if is_move else 1.0
            for better, worse in pairs * (_MOVE_ROUNDS if is_move else 1):
                steps.append((query, docs.setdefault(better, len(docs)), docs.setdefault(worse, len(docs)), margin))
        if uses:
            self._remember(uses)
        if not steps:
            return
        query_numbers, better_rows, worse_rows, margins = map(np.array, zip(*steps, strict=True))
        prefs = Preferences(query_numbers, better_rows, worse_rows, margin=margins)
        Q = query_rows(self._model, list(queries))
        D = sparse.csr_array(sparse.vstack([index.row(doc) for doc in docs], format="csr"))
        self._learner.learn(Q, prefs, D, self._lead_of_memory(Q, prefs, D, list(docs)))

    def _lead_of_memory(
        self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array, docs: list[str]
    ) -> NDArray[np.float64] | None:
        """Return the lead of each better document by memory, or None without memory."""
        if self._model.memory is None:
            return None
        lead = np.zeros(len(prefs))
        for step, (query, *both) in enumerate(zip(prefs.query, prefs.better, prefs.worse, strict=True)):
            row = Q[[query]]
            hits = self.base.base.hits_of(row, [docs[doc] for doc in both])
            words = self._model.weights.score_rows(Q[[query, query]], D[both])
            lead[step] = hits[0].score - hits[1].score - (words[0] - words[1])
        return lead

    def _remember(self, actions: Sequence[Action]) -> None:
        """Add the queries of uses to memory."""
        uses = [Use(action.query, *map(list, zip(*action.pairs, strict=True))) for action in actions]
        n_words, Q = self._model.n_words, query_rows(self._model, [use.text for use in uses])
        self._memory = with_uses(self._memory, uses, Q if n_words is None else Q[:, :n_words])
        if self._model.memory is None:
            for use in uses[: _SCALING_USES - len(self._best_scores)]:
                self._best_scores += [hit.score for hit in self.base.base.search(use.text, 1)]
            weight = float(np.median(self._best_scores)) if self._best_scores else self._learner.unit
            self._memory = replace(self._memory, settings=replace(self._memory.settings, weight=weight))

    def served(self, revision: int) -> Served:
        """Return the version with the overlay."""
        return self.base.with_overlay(self._learner.matrix(), self._memory, revision)

    def widened(self, base: Served) -> Overlay:
        """Return the same fold over the same documents, for a model with more words."""
        overlay = self._with_base(base)
        overlay._model = text_model(base.base)
        overlay._learner = self._learner.with_base(overlay._model.weights)
        return overlay

    def with_documents(self, base: Served) -> Overlay | None:
        """Return the same fold over other documents, or None if the model or a document of an action differs."""
        before = self.base.base
        if base.base.model is not before.model or not all(base.base.same_row(before, doc) for doc in self._docs):
            return None
        return self._with_base(base)

    def _with_base(self, base: Served) -> Overlay:
        overlay = object.__new__(Overlay)
        overlay.__dict__.update(vars(self), base=base)
        return overlay


class Published(NamedTuple):
    """Served version, and the version that it is interleaved with, over the same documents."""

    served: Served
    rival: Served | None


class _Replacement(NamedTuple):
    served: Served
    rival: Served | None
    done: Future[Published]


class Teacher:
    """Thread that publishes versions, at most one a second. Readers take one reference, `now`.

    Parameters
    ----------
    store : store of actions
    served, rival : versions without an overlay

    Attributes
    ----------
    failure : reason why actions are not learned, or None
    """

    def __init__(self, store: TaughtStore, served: Served, rival: Served | None = None) -> None:
        self.failure: str | None = None
        self._store, self._revision, self._last = store, 0, 0
        self._overlays: list[Overlay] = []
        self._changed, self._is_closing = threading.Condition(), False
        self._replacements: list[_Replacement] = []
        self._waiting: list[tuple[int, Future[Published]]] = []
        self._published_at = 0.0
        self.now = self._folded(served, rival)
        self._thread = threading.Thread(target=self._run, name="tercet-teacher", daemon=True)
        self._thread.start()

    def learn(self, revision: int) -> Future[Published]:
        """Request a version with a change of the store; the future returns the first such version."""
        future: Future[Published] = Future()
        with self._changed:
            self._waiting.append((revision, future))
            self._changed.notify()
        return future

    def serve(self, served: Served, rival: Served | None) -> Published:
        """Publish other documents or another model, and wait for the version."""
        replacement = _Replacement(served, rival, Future())
        with self._changed:
            self._replacements.append(replacement)
            self._changed.notify()
        return replacement.done.result()

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()
        for _, future in self._waiting:
            future.cancel()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing or self._replacements or self._waiting)
                rest = self._published_at + _PUBLISH_SECONDS - time.monotonic()
                if rest > 0:
                    self._changed.wait_for(lambda: self._is_closing or self._replacements, rest)
                if self._is_closing:
                    return
                replacements, self._replacements = self._replacements, []
            self._publish(replacements)

    def _publish(self, replacements: list[_Replacement]) -> None:
        try:
            served, rival = self.now.served, self.now.rival
            if replacements:
                served, rival, _ = replacements[-1]
            self.now = self._folded(served, rival)
            self.failure = None
        except Exception as error:
            self._overlays = []  # the next attempt folds all actions
            for replacement in replacements:
                replacement.done.set_exception(error)
            if not replacements:
                self._fail(error)
            return
        finally:
            self._published_at = time.monotonic()
        for replacement in replacements:
            replacement.done.set_result(self.now)
        with self._changed:
            due = [future for revision, future in self._waiting if revision <= self._revision]
            self._waiting = [(revision, future) for revision, future in self._waiting if revision > self._revision]
        for future in due:
            if future.set_running_or_notify_cancel():
                future.set_result(self.now)

    def _fail(self, error: Exception) -> None:
        """Retry while an engine does not answer; otherwise report the failure to the waiting requests."""
        if isinstance(error, EngineError):
            _log.warning("the last action is not learned yet: %s", error)
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, _ENGINE_SECONDS)
            return
        _log.error("actions cannot be learned; the version before is served", exc_info=error)
        self.failure = f"actions cannot be learned: {type(error).__name__}; the service's log says more"
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

    def _folded(self, served: Served, rival: Served | None) -> Published:
        """Return versions with all actions of the store."""
        changes, _ = self._store.since(self._revision)
        everything: list[Action] | None = None
        overlays: list[Overlay] = []
        for base in (served, rival):
            if base is None:
                continue
            overlay = self._grown(base, changes)
            if overlay is None:
                if everything is None:
                    everything, _ = self._store.since(0)
                overlay = Overlay(base, self._store.id)
                overlay.learn(everything)
            overlays.append(overlay)
        every = [*changes, *(everything or ())]
        self._revision = max((action.revision for action in every), default=self._revision)
        self._last = max((action.number for action in every), default=self._last)
        if not self._overlays:
            overlays[0].warm_up()
        self._overlays = overlays
        versions = [overlay.served(self._revision) for overlay in overlays]
        return Published(versions[0], versions[1] if rival is not None else None)

    def _grown(self, base: Served, changes: list[Action]) -> Overlay | None:
        """Return the existing overlay with the changes, or None if all actions must be folded again."""
        overlay = next((folded for folded in self._overlays if folded.base.base is base.base), None)
        if overlay is None:
            overlay = next(filter(None, (overlay.with_documents(base) for overlay in self._overlays)), None)
        if overlay is None or any(action.number <= self._last and overlay.has(action) for action in changes):
            return None
        overlay.learn(changes)
        return overlay
