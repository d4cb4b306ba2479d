"""Rankings learned together, with shared factors of words (Bai et al. 2010, section 2.4.2).

Equation 9 scores queries of the first language F against documents of the language E: ``f(q_F, d_E) = q_F'U_F'V_E
d_E``. Equation 10 adds a task within E, ``q_E'V_E'V_E d_E`` (``shared="both"``). The paper's alternative,
``q_E'U_E'V_E d_E`` (``shared="documents"``), shares V_E alone. Each preference of one task is followed by a preference
of the other.

With joined vocabularies all tasks are one low-rank model without a diagonal. Its queries are the rows of all tasks,
each with words of its vocabulary only:

    shared="both"       W = F'F over the joined vocabulary. Documents use the last words: U_F'V_E, V_E'V_E.
                        Documents of a third task use the first words: U_F'U_F. Reversed first task: V_E'U_F
    shared="documents"  W = U'V: joined vocabulary for queries, vocabulary of the documents: U_F'V_E, U_E'V_E

Kernel, state and training loop are those of ``LowRankRanker``; the preferences of the tasks take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tercet.data.matrix import check_matrix
from tercet.data.preferences import Preferences, as_preferences
from tercet.errors import InputError, ParameterError
from tercet.learn.base import Count, Positive, SgdRanker
from tercet.learn.loop import Callback, current_executor
from tercet.learn.lowrank import LowRankState
from tercet.learn.sources import ArraySource, Source, as_source
from tercet.learn.starts import (
    Factors,
    GivenStart,
    Rare,
    for_cosine,
    normal_factors,
    rare_words,
    turned,
)
from tercet.learn.state import Schedule, State
from tercet.store.codec import decode
from tercet.store.digest import digest_of
from tercet.store.schema import OMIT_DEFAULT
from tercet.weights import LowRank, Weights

SecondTask = tuple[Any, Preferences | Source]  # queries and preferences
ThirdTask = tuple[Any, Preferences | Source, Any]  # queries, preferences and documents


class Turn(NamedTuple):
    """One task: its preferences, its numbers of texts, and the positions of its texts among the texts of all tasks."""

    source: Source
    n_queries: int
    n_docs: int
    first_query: int = 0
    first_doc: int = 0
    turned_round: bool = False  # True if documents of the first task search its queries


_NAMES = ("first", "second", "third", "fourth")


class TakingTurns(Source):
    """One preference of the first task, one of the second, and so on in turn.

    A pass ends with the first task. Other tasks repeat their preferences as needed.
    """

    def __init__(self, tasks: Sequence[Turn], margin: float) -> None:
        self.tasks = tuple(tasks)
        self.margin = margin  # margin of preferences without margins, if another task has margins
        self.looks_at_weights = any(task.source.looks_at_weights for task in self.tasks)
        n_steps = self.tasks[0].source.n_steps
        self.n_steps = None if n_steps is None else len(self.tasks) * n_steps

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        turn, next_task = divmod(step, len(self.tasks))
        drawn = [self.tasks[0].source.draw(turn, weights)]
        drawn += [
            _drawn(task.source, turn, len(drawn[0]), (lambda: turned(weights())) if task.turned_round else _no_weights)
            for task in self.tasks[1:]
        ]
        n = min(map(len, drawn))
        drawn = [prefs[:n] for prefs in drawn]
        for number, (task, prefs) in enumerate(zip(self.tasks, drawn, strict=True)):
            prefs.check_rows(task.n_queries, task.n_docs, "D" if task.turned_round else ("Q", "Q2", "Q3")[number])
        queries, docs = (
            [np.int32(first) for first in firsts]
            for firsts in zip(*((task.first_query, task.first_doc) for task in self.tasks), strict=True)
        )
        return Preferences(
            _alternate([prefs.query + first for prefs, first in zip(drawn, queries, strict=True)]),
            _alternate([prefs.better + first for prefs, first in zip(drawn, docs, strict=True)]),
            _alternate([prefs.worse + first for prefs, first in zip(drawn, docs, strict=True)]),
            _alternate_given([prefs.weight for prefs in drawn], n, 1.0),
            _alternate_given([prefs.margin for prefs in drawn], n, self.margin),
        )[next_task:]

    def fingerprint(self) -> str:
        n_queries = tuple(task.n_queries for task in self.tasks)
        return digest_of("turns", *(task.source.fingerprint() for task in self.tasks), n_queries, self.margin)

    def begin(self) -> None:
        for task in self.tasks:
            task.source.begin()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for name, task in zip(_NAMES, self.tasks, strict=False):
            meta[name], source_arrays = task.source.state()
            arrays |= {f"{name}.{key}": array for key, array in source_arrays.items()}
        return meta, arrays

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        stored = decode(StoredTurns, meta, where="source")
        for name, task in zip(_NAMES, self.tasks, strict=False):
            source_arrays = {key.removeprefix(f"{name}."): a for key, a in arrays.items() if key.startswith(f"{name}.")}
            task.source.restore(getattr(stored, name) or {}, source_arrays)


@dataclass(frozen=True)
class StoredTurns:
    """Checkpoint of sources in turn."""

    first: dict[str, Any]
    second: dict[str, Any]
    third: Annotated[dict[str, Any] | None, OMIT_DEFAULT] = None
    fourth: Annotated[dict[str, Any] | None, OMIT_DEFAULT] = None


def _no_weights() -> Weights:
    raise InputError(
        "preferences of another task come from a source that looks at the weights, which are those of the first; "
        "give Preferences or a SampledSource"
    )


def _drawn(source: Source, step: int, n: int, weights: Callable[[], Weights]) -> Preferences:
    """Return up to n preferences from a step on; repeat few given preferences, to avoid short chunks."""
    if isinstance(source, ArraySource) and len(source.prefs) < n:
        return source.take(step, n)
    return source.draw(step, weights)


def _alternate(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.column_stack(columns).ravel()


def _alternate_given(
    columns: Sequence[NDArray[np.float32] | None], n: int, otherwise: float
) -> NDArray[np.float32] | None:
    """Alternate optional columns; missing in all tasks, or filled with a value."""
    if all(column is None for column in columns):
        return None
    return _alternate([np.full(n, otherwise, dtype=np.float32) if values is None else values for values in columns])


def _placed(texts: Sequence[tuple[sparse.csr_array, int]], width: int) -> sparse.csr_array:
    """Stack texts, with the columns of each moved to a first column."""
    moved = []
    for rows, first in texts:
        indices = rows.indices + np.int32(first)
        moved.append(sparse.csr_array((rows.data, indices, rows.indptr), (rows.shape[0], width)))
    return moved[0] if len(moved) == 1 else sparse.csr_array(sparse.vstack(moved, format="csr"))


@dataclass(eq=False, kw_only=True)
class MultiTaskState(LowRankState):
    """Low-rank state of the joined vocabularies; the first ``n_first`` words belong to the first task."""

    n_first: int

    @property
    def shape(self) -> tuple[int, int]:
        m = self.V.shape[0]
        return self.n_first, m - self.n_first if self.tied else m

    def snapshot(self) -> Weights:
        """The weights of the first task."""
        U, V = self._factors()
        return self._weights(U[: self.n_first].copy(), V.copy())

    def second(self) -> Weights:
        """The weights of the second task."""
        U, V = self._factors()
        V = V.copy()
        return self._weights(V if self.tied else U[self.n_first :].copy(), V)

    def third(self) -> Weights:
        """The weights of the third task."""
        U = self._factors()[0][: self.n_first].copy()
        return self._weights(U, U)

    def _weights(self, U: NDArray[np.float32], V: NDArray[np.float32]) -> Weights:
        length = 1.0 if self.cosine else None
        return Weights([LowRank(query_factors=U, doc_factors=V, typical_length=length, unit_queries=self.cosine)])

    def _factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Factors of all query words, and of document words."""
        [part] = super().snapshot().parts
        assert isinstance(part, LowRank)
        return part.query_factors, part.doc_factors[self.n_first if self.tied else 0 :]

    def check(self) -> None:
        n, m = self.U.shape[0], self.V.shape[0]
        if not 0 < self.n_first < n or (not self.tied and n - self.n_first != m) or self.diagonal.size:
            raise InputError(
                f"{self.n_first} words of a first task do not fit factors of {n} query and {m} other words"
            )
        super().check()


@dataclass(eq=False, repr=False, kw_only=True)
class MultiTaskRanker(SgdRanker):
    """``q_F'U_F'V_E d_E`` (Bai et al. 2010, equation 9), regularized by more tasks over the same words (equation 10).

    Queries of the first task, such as Japanese queries, have their own vocabulary; queries of the second task, such as
    English queries, have the vocabulary of the documents. Preferences of both tasks take turns, step by step: V_E
    becomes a latent space for both. A third task has queries and documents in the language of the first task's queries,
    and regularizes U_F. The first task may also be learned in both directions: a text of either language looks for its
    translation in the other language. ``weights_`` and all rankings belong to the first task; ``second_weights_`` and
    ``third_weights_`` to the other tasks.

    Parameters
    ----------
    shared : {"both", "documents"}
        Factors of the second task's query words: their factors in documents, ``V_E'V_E``, or separate factors,
        ``U_E'V_E``.
    n_components, spread, normalize : see ``LowRankRanker``; ``"latent"`` applies to all tasks
    n_frequent : int, optional
        As in ``LowRankRanker``; query words of the first task are counted in its queries, all other words in the
        documents.
    rate, schedule, margin, epochs, shuffle, validate_every, patience, random_state, verbose : see ``DenseRanker``;
        steps are the steps of all tasks

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> Q, Q2, D = (sparse.eye_array(n, 3, format="csr") for n in (2, 3, 3))
    >>> ranker = MultiTaskRanker(n_components=2, epochs=200)
    >>> ranker = ranker.fit(Q, Preferences([0], [0], [1]), D, second=(Q2, Preferences([1], [1], [2])))
    >>> bool(ranker.margins(Q, Preferences([0], [0], [1]), D)[0] > 0)
    True
    """

    shared: Literal["both", "documents"] = "both"
    n_components: Count = 100
    spread: Positive = 0.1
    n_frequent: Count | None = None
    normalize: Literal["latent"] | None = None
    rate: Positive = 0.1
    schedule: Schedule = "constant"

    _state_class = MultiTaskState
    _added_parameters: ClassVar[dict[str, Any]] = {"normalize": None}

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
        *,
        second: SecondTask | None = None,
        third: ThirdTask | None = None,
        reverse: Preferences | Source | None = None,
        start: Weights | None = None,
    ) -> Self:
        """Learn from the start; see ``DenseRanker.fit``.

        Parameters
        ----------
        Q, prefs, D : the first task; ``validation`` and callbacks get its weights
        second : (Q2, prefs2)
            Queries of the second task, in the columns of D, and its preferences between rows of D. An epoch takes as
            many steps of the second task as of the first: fewer preferences are repeated, surplus preferences stay
            unused. None learns the first task alone, from the same start.
        third : (Q3, prefs3, D3)
            Queries and documents of a third task, both in the columns of Q, and its preferences; ``U_F'U_F`` gives the
            scores. Needs a second task and ``shared="both"``.
        reverse : Preferences or Source
            The reversed first task: a row of D is the query, rows of Q are better and worse. Needs ``shared="both"``. A
            ``HardSource`` ranks the rows of Q for rows of D.
        start : Weights, optional
            Start from these weights of the first task, such as those of ``LSIRanker.fit_parallel``. With
            ``shared="documents"`` query words of the second task start with their factors in documents.
        """
        queries, docs, source = self._checked(Q, prefs, D)
        joined = self._joined(queries, docs, source, second, third, reverse)
        self._train(self._start(queries, docs, start), *joined, validation, callbacks)
        return self

    def partial_fit(
        self,
        Q: Any,
        prefs: Preferences,
        D: Any = None,
        *,
        second: SecondTask | None = None,
        third: ThirdTask | None = None,
        reverse: Preferences | None = None,
    ) -> Self:
        """Continue: for each preference one step of the first task, and one of each other task.

        Two halves, of all tasks, give the same bits as the whole.
        """
        self._check_params()
        current_executor().check(self)
        queries, docs = self._check_pair(Q, D)
        prefs = as_preferences(prefs)
        other_tasks = [task[1] for task in (second, third) if task is not None]
        other_tasks += [] if reverse is None else [reverse]
        for task_prefs in other_tasks:
            as_preferences(task_prefs)  # errors are raised before the first step
        joined = self._joined(queries, docs, ArraySource(prefs), second, third, reverse, in_order=True)
        self._train_on(self._state_to_go_on(queries, docs), *joined, len(prefs) * (1 + len(other_tasks)))
        return self

    @property
    def second_weights_(self) -> Weights:
        """The learned weights of the second task; copied from the state each time."""
        check_is_fitted(self)
        assert isinstance(self._state, MultiTaskState)
        return self._state.second()

    @property
    def third_weights_(self) -> Weights:
        """The learned weights of the third task, ``U_F'U_F``; copied from the state each time."""
        check_is_fitted(self)
        assert isinstance(self._state, MultiTaskState)
        return self._state.third()

    def _joined(
        self,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        source: Source,
        second: SecondTask | None,
        third: ThirdTask | None,
        reverse: Preferences | Source | None,
        in_order: bool = False,
    ) -> tuple[sparse.csr_array, sparse.csr_array, Source]:
        """Queries of all tasks over the joined vocabulary, the documents, and the preferences in turn."""
        if isinstance(source, ArraySource):
            source.prefs.check_rows(Q.shape[0], D.shape[0])
        if third is not None and (second is None or self.shared != "both"):
            raise ParameterError("a third task comes beside a second one, and needs shared='both'")
        if reverse is not None and self.shared != "both":
            raise ParameterError("a task that is turned round needs shared='both'")
        n, m = Q.shape[1], D.shape[1]

        def texts_of(texts: Any, name: str, width: int, like: str) -> sparse.csr_array:
            rows = check_matrix(texts, name)
            if rows.shape[1] != width:
                raise InputError(
                    f"{name} has {rows.shape[1]} columns and {like} {width}; both must have one vocabulary"
                )
            return rows

        def source_of(prefs: Any) -> Source:
            return as_source(prefs, shuffle=self.shuffle and not in_order, random_state=self.random_state)

        Q2: sparse.csr_array = sparse.csr_array((0, m), dtype=np.float32)
        queries, docs = [(Q, 0), (Q2, n)], [(D, n)]
        tasks = [Turn(source, Q.shape[0], D.shape[0])]
        if second is not None:
            Q2 = texts_of(second[0], "Q2", m, "D")
            queries = [(Q, 0), (Q2, n)]
            tasks.append(Turn(source_of(second[1]), Q2.shape[0], D.shape[0], Q.shape[0]))
        if third is not None:
            Q3, D3 = texts_of(third[0], "Q3", n, "Q"), texts_of(third[2], "D3", n, "Q")
            queries, docs = [*queries, (Q3, 0)], [*docs, (D3, 0)]
            above = Q.shape[0] + Q2.shape[0]
            tasks.append(Turn(source_of(third[1]), Q3.shape[0], D3.shape[0], above, D.shape[0]))
        if reverse is not None:
            above, before = (sum(rows.shape[0] for rows, _ in texts) for texts in (queries, docs))
            tasks.append(Turn(source_of(reverse), D.shape[0], Q.shape[0], above, before, turned_round=True))
            queries, docs = [*queries, (D, n)], [*docs, (Q, 0)]
        together = TakingTurns(tasks, float(self.margin)) if len(tasks) > 1 else source
        return _placed(queries, n + m), _placed(docs, n + m) if self.shared == "both" else D, together

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array, given: Weights | None = None) -> MultiTaskState:
        n, m = Q.shape[1], D.shape[1]
        rare: Rare | None = None
        if self.n_frequent is not None:
            rare = rare_words(Q, self.n_frequent), rare_words(D, self.n_frequent)
        if given is not None:
            start = GivenStart.from_weights(given)
            return self._state_with(self._given_factors(start, (n, m)), start.cosine, rare)
        tied = self.shared == "both"
        U, V = normal_factors(n + m, None if tied else m, self.n_components, self.spread, self.random_state)
        return self._state_of(U, V, n, False, rare)

    def _given_factors(self, given: GivenStart, shape: tuple[int, int]) -> Factors:
        if given.diagonal is not None or given.scaled:
            raise ParameterError("tasks over two vocabularies have low rank alone; the start has more")
        return given.factors(self.n_components, shape, tied=False)

    def _state_with(self, factors: Factors, cosine: bool, rare: Rare | None) -> MultiTaskState:
        """Return the state with these factors in the first task; document words share factors in every task."""
        U, V = for_cosine(factors) if cosine or self.normalize else factors
        joined = np.concatenate((U, V))
        return self._state_of(joined, joined if self.shared == "both" else V, U.shape[0], cosine, rare)

    def _state_of(
        self, U: NDArray[np.float32], V: NDArray[np.float32], n_first: int, cosine: bool, rare: Rare | None
    ) -> MultiTaskState:
        cosine = cosine or self.normalize == "latent"
        nothing = np.empty(0, dtype=np.float32)
        state = MultiTaskState(
            U, V, nothing, learn_diagonal=False, scale_documents=False, n_first=n_first, cosine=cosine
        )
        if rare is not None:
            rare_q = np.concatenate(rare)
            state.leave_out((rare_q, rare_q if state.tied else rare[1]))
        return state

    def _keep(self, state: State, Q: sparse.csr_array, D: sparse.csr_array) -> None:
        super()._keep(state, Q, D)
        self.n_features_in_, self.n_doc_features_ = (
            state.shape
        )  # numbers of the first task, not of the joined vocabulary
