"""Two rankings learned at once, over documents that they share (Bai et al. 2010, section 2.4.2).

With the query vocabularies joined, both tasks are one low-rank model without a diagonal. Its queries are the rows of
both tasks, each with words of its own vocabulary only:

    shared="both"       W = F'F over the joined vocabulary, of which documents use the last words: U_F'V_E, V_E'V_E
    shared="documents"  W = U'V with the joined vocabulary for queries and that of the documents: U_F'V_E, U_E'V_E

So the kernel, its state and the training loop are those of ``LowRankRanker``; only the preferences take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tercet.data.mapped_rows import Texts
from tercet.data.preferences import Preferences, as_preferences
from tercet.data.shards import StoredRows
from tercet.errors import InputError
from tercet.learn.base import Count, Positive, SgdRanker
from tercet.learn.loop import Callback, current_executor
from tercet.learn.lowrank import LowRankState, normal_factors, rare_words
from tercet.learn.matrices import check_texts
from tercet.learn.sources import ArraySource, Source, as_source
from tercet.learn.state import Schedule, State
from tercet.learn.stored import JoinedRows
from tercet.store.codec import decode
from tercet.store.digest import digest_of
from tercet.weights import LowRank, Weights

SecondTask = tuple[Any, Preferences | Source]  # its queries and its preferences


class TakingTurns(Source):
    """One preference of the first source, then one of the second, whose queries lie below those of the first.

    A pass ends with the first source. The second goes through its own preferences, again and again if they are fewer.
    """

    def __init__(self, first: Source, second: Source, n_queries: tuple[int, int], n_docs: int, margin: float) -> None:
        self.first, self.second = first, second
        self.n_queries = n_queries
        self.n_docs = n_docs
        self.margin = margin  # of preferences that have none of their own, where those of the other task have
        self.n_steps = None if first.n_steps is None else 2 * first.n_steps

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        turn, second_is_next = divmod(step, 2)
        first = self.first.draw(turn, weights)
        second = _drawn(self.second, turn, len(first))
        n = min(len(first), len(second))
        first, second = first[:n], second[:n]
        first.check_rows(self.n_queries[0], self.n_docs)
        second.check_rows(self.n_queries[1], self.n_docs, "Q2")
        return Preferences(
            _alternate(first.query, second.query + np.int32(self.n_queries[0])),
            _alternate(first.better, second.better),
            _alternate(first.worse, second.worse),
            _alternate_given(first.weight, second.weight, n, 1.0),
            _alternate_given(first.margin, second.margin, n, self.margin),
        )[second_is_next:]

    def fingerprint(self) -> str:
        return digest_of("turns", self.first.fingerprint(), self.second.fingerprint(), self.n_queries, self.margin)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for name, source in (("first", self.first), ("second", self.second)):
            meta[name], own = source.state()
            arrays |= {f"{name}.{key}": array for key, array in own.items()}
        return meta, arrays

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        stored = decode(BothSources, meta, where="source")
        for name, source in (("first", self.first), ("second", self.second)):
            own = {key.removeprefix(f"{name}."): a for key, a in arrays.items() if key.startswith(f"{name}.")}
            source.restore(getattr(stored, name), own)


@dataclass(frozen=True)
class BothSources:
    """What a checkpoint keeps of two sources that take turns."""

    first: dict[str, Any]
    second: dict[str, Any]


def _no_weights() -> Weights:
    raise InputError(
        "preferences of the second task come from a source that looks at the weights, which are those of the first; "
        "give Preferences or a SampledSource"
    )


def _drawn(source: Source, step: int, n: int) -> Preferences:
    """Up to n preferences from a step on; few that are given are repeated, so that chunks do not become short."""
    if isinstance(source, ArraySource) and len(source.prefs) < n:
        return source.take(step, n)
    return source.draw(step, _no_weights)


def _alternate(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.column_stack((first, second)).ravel()


def _alternate_given(
    first: NDArray[np.float32] | None, second: NDArray[np.float32] | None, n: int, otherwise: float
) -> NDArray[np.float32] | None:
    """The same for what may be left out, in one task or in both."""
    if first is None and second is None:
        return None
    filled = (np.full(n, otherwise, dtype=np.float32) if given is None else given for given in (first, second))
    return _alternate(*filled)


@dataclass(eq=False, kw_only=True)
class MultiTaskState(LowRankState):
    """The low-rank state of the joined vocabularies, of which the first ``n_first`` words are the first task's."""

    n_first: int

    @property
    def shape(self) -> tuple[int, int]:
        m = self.V.shape[0]
        return self.n_first, m - self.n_first if self.tied else m

    def snapshot(self) -> Weights:
        """The weights of the first task."""
        U, V = self._factors()
        return Weights([LowRank(query_factors=U[: self.n_first].copy(), doc_factors=V.copy())])

    def second(self) -> Weights:
        """The weights of the second task."""
        U, V = self._factors()
        V = V.copy()
        return Weights([LowRank(query_factors=V if self.tied else U[self.n_first :].copy(), doc_factors=V)])

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
    """``q_F'U_F'V_E d_E``, regularised by a second task over the same documents with queries in their language.

    Queries of the first task, such as Japanese ones, have a vocabulary of their own; those of the second, such as
    English ones, have that of the documents. Preferences of both are learned in turn, one step of each, so that V_E
    is a latent space for both (Bai et al. 2010, equations 9 and 10). ``weights_`` and all that ranks are the first
    task's; ``second_weights_`` are those of the other.

    Parameters
    ----------
    shared : {"both", "documents"}
        What the second task has of the first: its query words have the factors that they have in documents,
        ``V_E'V_E``, or their own, ``U_E'V_E``.
    n_components, spread, averaged : see ``LowRankRanker``
    n_frequent : int, optional
        As in ``LowRankRanker``; words of the first task's queries are counted there, all others in the documents.
    rate, schedule, margin, epochs, shuffle, validate_every, patience, random_state, verbose : see ``DenseRanker``
        Steps are those of both tasks.

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
    averaged: bool = False
    rate: Positive = 0.1
    schedule: Schedule = "constant"

    _state_class = MultiTaskState

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
        *,
        second: SecondTask | None = None,
    ) -> Self:
        """Learn from the start; see ``DenseRanker.fit``.

        Parameters
        ----------
        Q, prefs, D : the first task; ``validation`` and callbacks are shown its weights
        second : (Q2, prefs2)
            Queries of the second task, in the columns of D, and its preferences between rows of D. An epoch has one
            step of it for each of the first: fewer preferences are repeated, and what is left of more stays unused.
            None learns the first task alone, from the same start.
        """
        self._check_params()
        current_executor().check(self)
        self._forget()
        queries, docs = self._check_pair(Q, D)
        source = as_source(prefs, shuffle=self.shuffle, random_state=self.random_state)
        joined = self._joined(queries, docs, source, second)
        self._train(self._start(queries, docs), *joined, validation, callbacks)
        return self

    def partial_fit(self, Q: Any, prefs: Preferences, D: Any = None, *, second: SecondTask | None = None) -> Self:
        """Go on from where the ranker is: for each preference one step, and one of the second task if there is one.

        Two halves, of both tasks, give the same bits as the whole.
        """
        self._check_params()
        current_executor().check(self)
        queries, docs = self._check_pair(Q, D)
        prefs = as_preferences(prefs)
        if second is not None:
            as_preferences(second[1])  # what is wrong with them is told before a step is taken
        joined = self._joined(queries, docs, ArraySource(prefs), second, in_order=True)
        n_steps = len(prefs) * (1 if second is None else 2)
        self._train_on(self._state_to_go_on(queries, docs), *joined, n_steps)
        return self

    @property
    def second_weights_(self) -> Weights:
        """The learned weights of the second task; copied from the state each time."""
        check_is_fitted(self)
        assert isinstance(self._state, MultiTaskState)
        return self._state.second()

    def _joined(
        self,
        Q: Texts,
        D: Texts,
        source: Source,
        second: SecondTask | None,
        in_order: bool = False,
    ) -> tuple[Texts, Texts, Source]:
        """Queries of both tasks over the joined vocabulary, the documents, and the preferences in turn."""
        if isinstance(source, ArraySource):
            source.prefs.check_rows(Q.shape[0], D.shape[0])
        Q2: Texts = sparse.csr_array((0, D.shape[1]), dtype=np.float32)
        if second is not None:
            Q2 = check_texts(second[0], "Q2")
            if Q2.shape[1] != D.shape[1]:
                raise InputError(f"Q2 has {Q2.shape[1]} columns and D {D.shape[1]}; both must have one vocabulary")
            other = as_source(second[1], shuffle=self.shuffle and not in_order, random_state=self.random_state)
            source = TakingTurns(source, other, (Q.shape[0], Q2.shape[0]), D.shape[0], float(self.margin))
        n, m = Q.shape[1], D.shape[1]
        if any(isinstance(texts, StoredRows) for texts in (Q, Q2, D)):
            docs = JoinedRows([(D, n)], n + m) if self.shared == "both" else D
            return JoinedRows([(Q, 0), (Q2, n)], n + m), docs, source
        if self.shared == "both":
            D = sparse.csr_array(sparse.hstack((sparse.csr_array((D.shape[0], n), dtype=np.float32), D)))
        return sparse.csr_array(sparse.block_diag((Q, Q2))), D, source

    def _start(self, Q: Texts, D: Texts) -> MultiTaskState:
        n, m = Q.shape[1], D.shape[1]
        tied = self.shared == "both"
        U, V = normal_factors(n + m, None if tied else m, self.n_components, self.spread, self.random_state)
        state = MultiTaskState(
            U, V, np.empty(0, dtype=np.float32), learn_diagonal=False, scale_documents=False, n_first=n
        )
        if self.n_frequent is not None:
            rare_d = rare_words(D, self.n_frequent)
            rare_q = np.concatenate((rare_words(Q, self.n_frequent), rare_d))
            state.leave_out((rare_q, rare_q if tied else rare_d))
        if self.averaged:
            state.average()
        return state

    def _keep(self, state: State, Q: Texts, D: Texts) -> None:
        super()._keep(state, Q, D)
        self.n_features_in_, self.n_doc_features_ = state.shape  # of the first task, not of what was joined
