"""What was taught as a part of the ranking: a fold of the store's actions, and the thread that publishes versions."""

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
from tercet.serve.served import Served, text_model
from tercet.serve.taught import TaughtStore

_log = logging.getLogger(__name__)

RULE: Final = OnlineRule(rate=50.0, l1=0.0, pairs=1024, step=1.0, weight=1.0)
MOST_PAIRS: Final = 10_000_000  # learned pairs of words, from which on nothing more is taught
_MOVE_MARGIN: Final = 0.1  # share of the usual margin: a moved document has to fit between two others
_MOVE_ROUNDS: Final = 10  # its pairs are gone through, until all of them hold
_SCALING_USES: Final = 100  # first uses, whose best scores tell how much memory counts
_PUBLISH_SECONDS: Final = 1.0  # from one version to the next
_ENGINE_SECONDS: Final = 2.0  # before an engine that does not answer is asked again


class Overlay:
    """Fold of actions over one index: the online learner learns words of all, and memory the queries of uses.

    Actions that the model has learned from are left out, and documents that the index lacks are passed over.
    """

    def __init__(self, base: Served, store: str, rule: OnlineRule = RULE) -> None:
        self.base = base
        self._model, self._docs = text_model(base.base), set[str]()
        self._learner = OnlineLearner(self._model.weights, rule, max_memory=None, n_words=self._model.n_words)
        self._memory = self._model.memory
        self._best_scores: list[float] = []
        self._first = max((rows.number for rows in self._model.taught if rows.store == store), default=0) + 1

    def warm_up(self) -> None:
        """Load the kernels by a step that changes nothing, so that the first to teach does not wait for them."""
        Q, D = (sparse.csr_array((2, width), dtype=np.float32) for width in self._model.weights.shape)
        OnlineLearner(self._model.weights, RULE).learn(Q, Preferences([0], [0], [1]), D)

    def has(self, action: Action) -> bool:
        """Return True unless the action is part of the model."""
        return action.number >= self._first

    def learn(self, actions: Iterable[Action]) -> None:
        """Take a step for each pair of the actions that count."""
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
        query_rows, better_rows, worse_rows, margins = map(np.array, zip(*steps, strict=True))
        prefs = Preferences(query_rows, better_rows, worse_rows, margin=margins)
        Q = self._model.queries(list(queries))
        D = sparse.csr_array(sparse.vstack([index.row(doc) for doc in docs], format="csr"))
        self._learner.learn(Q, prefs, D, self._lead_of_memory(Q, prefs, D, list(docs)))

    def _lead_of_memory(
        self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array, docs: list[str]
    ) -> NDArray[np.float64] | None:
        """Return how far memory puts each better document ahead; None without memory."""
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
        n_words, Q = self._model.n_words, self._model.queries([use.text for use in uses])
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
        """Return the same fold over the same documents, by a model that knows more words."""
        other = self._over(base)
        other._model = text_model(base.base)
        other._learner = self._learner.over(other._model.weights)
        return other

    def over(self, base: Served) -> Overlay | None:
        """Return the same fold over other documents; None where the model or a document of an action differs."""
        before = self.base.base
        if base.base.model is not before.model or not all(base.base.same_row(before, doc) for doc in self._docs):
            return None
        return self._over(base)

    def _over(self, base: Served) -> Overlay:
        other = object.__new__(Overlay)
        other.__dict__.update(vars(self), base=base)
        return other


class Published(NamedTuple):
    """What readers take: the version that is served, and the one that shares its lists, over the same documents."""

    served: Served
    rival: Served | None


class _Move(NamedTuple):
    served: Served
    rival: Served | None
    done: Future[Published]


class Teacher:
    """Publishes versions, at most one a second. Readers take `now`, one reference.

    Parameters
    ----------
    store : of actions
    served, rival : versions without an overlay

    Attributes
    ----------
    failure : why what is taught is not learned; None where all is well
    """

    def __init__(self, store: TaughtStore, served: Served, rival: Served | None = None) -> None:
        self.failure: str | None = None
        self._store, self._revision, self._last = store, 0, 0
        self._overlays: list[Overlay] = []
        self._changed, self._is_closing = threading.Condition(), False
        self._moves: list[_Move] = []
        self._waiting: list[tuple[int, Future[Published]]] = []
        self._published_at = 0.0
        self.now = self._folded(served, rival)
        self._thread = threading.Thread(target=self._run, name="tercet-teacher", daemon=True)
        self._thread.start()

    def learn(self, revision: int) -> Future[Published]:
        """Have a change of the store learned; the future gives the first version that has the change."""
        done: Future[Published] = Future()
        with self._changed:
            self._waiting.append((revision, done))
            self._changed.notify()
        return done

    def serve(self, served: Served, rival: Served | None) -> Published:
        """Serve other documents or another model; returns when readers have them."""
        move = _Move(served, rival, Future())
        with self._changed:
            self._moves.append(move)
            self._changed.notify()
        return move.done.result()

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()
        for _, done in self._waiting:
            done.cancel()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing or self._moves or self._waiting)
                rest = self._published_at + _PUBLISH_SECONDS - time.monotonic()
                if rest > 0:
                    self._changed.wait_for(lambda: self._is_closing or self._moves, rest)
                if self._is_closing:
                    return
                moves, self._moves = self._moves, []
            self._step(moves)

    def _step(self, moves: list[_Move]) -> None:
        try:
            served, rival = self.now.served, self.now.rival
            if moves:
                served, rival, _ = moves[-1]
            self.now = self._folded(served, rival)
            self.failure = None
        except Exception as error:
            self._overlays = []  # the next attempt folds from nothing
            for move in moves:
                move.done.set_exception(error)
            if not moves:
                self._fail(error)
            return
        finally:
            self._published_at = time.monotonic()
        for move in moves:
            move.done.set_result(self.now)
        with self._changed:
            due = [done for revision, done in self._waiting if revision <= self._revision]
            self._waiting = [(revision, done) for revision, done in self._waiting if revision > self._revision]
        for done in due:
            if done.set_running_or_notify_cancel():
                done.set_result(self.now)

    def _fail(self, error: Exception) -> None:
        """Tell those who wait. An engine that is away is asked again; anything else waits for the next action."""
        if isinstance(error, EngineError):
            _log.warning("what was taught is not learned yet: %s", error)
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing, _ENGINE_SECONDS)
            return
        _log.error("what was taught cannot be learned, and the version before is served", exc_info=error)
        self.failure = f"what was taught cannot be learned: {type(error).__name__}; the service's log says more"
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            if done.set_running_or_notify_cancel():
                done.set_exception(error)

    def _folded(self, served: Served, rival: Served | None) -> Published:
        """Return versions with all that the store has."""
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
        made = [overlay.served(self._revision) for overlay in overlays]
        return Published(made[0], made[1] if rival is not None else None)

    def _grown(self, base: Served, changes: list[Action]) -> Overlay | None:
        """Return the overlay there is with what changed; None where the fold has to start from nothing."""
        known = next((one for one in self._overlays if one.base.base is base.base), None)
        if known is None:
            known = next(filter(None, (one.over(base) for one in self._overlays)), None)
        if known is None or any(action.number <= self._last and known.has(action) for action in changes):
            return None
        known.learn(changes)
        return known
