"""Base of all rankers: checked parameters, saving and loading, and the training of term-pair rankers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from numbers import Integral, Real
from os import PathLike
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_is_fitted

from tercet._lazy import sparse
from tercet.data.matrix import check_matrix
from tercet.data.preferences import Preferences, as_preferences
from tercet.errors import BundleError, DamagedBundleError, InputError, ParameterError
from tercet.learn.loop import Callback, Event, Run, Stopping, current_executor
from tercet.learn.sources import ArraySource, Source, as_source
from tercet.learn.state import Schedule, Sgd, State
from tercet.learn.stored import rank_texts
from tercet.learn.thin import largest_entries
from tercet.store import Bundle, write_bundle
from tercet.store.codec import decode
from tercet.store.kinds import RANKER
from tercet.store.old_names import OLD_FIELDS
from tercet.store.schema import members_of, unmarked
from tercet.weights import Explanation, Weights

POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")
SEED = Interval(Integral, 0, None, closed="left")

# Types of parameters, with the limits that are checked.
Positive = Annotated[float, POSITIVE]
NotNegative = Annotated[float, NOT_NEGATIVE]
Count = Annotated[int, COUNT]
Seed = Annotated[int, SEED]


# Parameters that a thinned ranker takes over from its ranker, if the ranker has them.
_SHARED_PARAMETERS = ("rate", "schedule", "margin", "epochs", "shuffle", "random_state", "verbose")


class Ranker(BaseEstimator):
    """Base of rankers of texts and of feature vectors: checked parameters, saving and loading.

    A ranker is a dataclass whose fields are the parameters. The type of a field gives its constraints: ``Positive``,
    ``Count``, ``bool``, ``Literal["a", "b"]``, a class, ``… | None``, or ``Annotated[type, constraint, …]`` with
    constraints of scikit-learn.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    # Parameters added since earlier versions -> the value with the behavior of earlier versions. A missing parameter in
    # a file means this value. A parameter with this value is not written, so that files are the same in every version.
    _added_parameters: ClassVar[dict[str, Any]] = {}
    # Removed parameters of earlier versions -> the only value that a file may have.
    _removed_parameters: ClassVar[dict[str, Any]] = {}
    _learns_in_rounds: ClassVar[bool] = False  # True if a cluster can train the ranker

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        names = [name for name in get_annotations(cls) if not (name.startswith("_") or name.endswith("_"))]
        hints = get_type_hints(cls, include_extras=True) if names else {}
        stated = cls.__dict__.get("_parameter_constraints", {})
        inherited: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            inherited |= base.__dict__.get("_parameter_constraints", {})
        cls._parameter_constraints = inherited | {name: _constraints_of(hints[name]) for name in names} | stated

    def save(self, path: str | PathLike[str]) -> None:
        """Write the ranker to a folder; ``tc.load`` restores the ranker, ready to rank and to learn on."""
        meta, arrays = self.to_state()
        write_bundle(path, kind=RANKER, meta=meta, arrays=arrays)

    @abstractmethod
    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON values and named arrays, as ``save`` writes them."""

    @classmethod
    @abstractmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        """Restore a saved ranker with these parameters, which are checked and complete."""

    @classmethod
    def _with_params(cls, params: dict[str, Any], where: str) -> Self:
        """Make a ranker with parameters read from a file."""
        ranker = cls(**params)
        try:
            ranker._check_params()
        except ParameterError as error:
            raise DamagedBundleError(f"{where}: {error}") from error
        return ranker

    @classmethod
    def _current_params(cls, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of an older file as the class has them now."""
        return {OLD_FIELDS.get(name, name): value for name, value in params.items()}

    def _saved_params(self) -> dict[str, Any]:
        params = self.get_params(deep=False)
        for name, value in params.items():
            if isinstance(value, np.generic):
                params[name] = value.item()
        added = self._added_parameters
        return {name: value for name, value in params.items() if name not in added or value != added[name]}

    def _check_params(self) -> None:
        try:
            self._validate_params()
        except InvalidParameterError as error:
            raise ParameterError(str(error)) from None


def _constraints_of(hint: Any) -> list[Any]:
    """Return the constraints of scikit-learn for a type."""
    constraints: list[Any] = []
    for member in members_of(hint):
        kind, stated = unmarked(member)
        if stated:
            constraints += stated
        elif kind is type(None):
            constraints.append(None)
        elif get_origin(kind) is Literal:
            constraints.append(StrOptions(set(get_args(kind))))
        elif kind in (int, float, str):
            raise TypeError(f"{hint} says nothing of the limits of a parameter")
        else:
            constraints.append("boolean" if kind is bool else kind)
    return constraints


AnyRanker = TypeVar("AnyRanker", bound=Ranker)
# Function of a number of directions and a seed: singular values and directions of the documents.
DirectionsOf = Callable[[int, int], tuple[NDArray[np.float64], NDArray[np.float64]]]


class SavedRanker(NamedTuple):
    """Saved ranker without class and parameters, and the classes allowed inside."""

    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    where: str  # name of the file in errors
    classes: Mapping[str, type[Ranker]]


class TermPairRanker(Ranker):
    """Ranker with the score ``q'Wd``; after ``fit`` its weights are the value ``weights_``.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import CosineRanker
    >>> X = sparse.csr_array([[1.0, 0.0], [0.6, 0.8]])
    >>> ranker = CosineRanker().fit(X)
    >>> isinstance(ranker, TermPairRanker), ranker.score_matrix(X, X).round(1).tolist()
    (True, [[1.0, 0.6], [0.6, 1.0]])
    """

    most_steps = 500_000  # most steps of a fit by default: more preferences rarely repay their time
    _thinned_class: ClassVar[Callable[..., Any]]  # class returned by ``thin``; set by SparseRanker, a subclass

    @property
    @abstractmethod
    def weights_(self) -> Weights:
        """Learned weights: a value, not changed by further training."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    # -- before learning ----------------------------------------------------------------------------------------

    def cost_per_step(self, n_query_words: float, n_doc_words: float) -> float:
        """Estimate the numbers that a step reads and writes, by the number of words of a query and of two documents.

        By default a step takes all pairs of words. Entries of W lie far apart in memory, therefore each counts 50
        times.
        """
        return 50.0 * n_query_words * 2 * n_doc_words

    @property
    def takes_sources(self) -> bool:
        """True if ``fit`` takes a `Source`; False if only `Preferences`, which choose parameters."""
        return True

    @property
    def keeps_documents(self) -> bool:
        """True if the factors of documents stay at their start and only queries learn."""
        return False

    @property
    def unit(self) -> float:
        """Weight of the identity at the start; 1 without an identity."""
        return 1.0

    def _shared_arguments(self, directions_of: DirectionsOf) -> dict[str, Any]:
        """Return arguments of ``fit`` for a start made of given directions; see `shared_arguments`."""
        return {}

    # -- using --------------------------------------------------------------------------------------------------

    def margins(self, Q: Any, prefs: Preferences, D: Any = None) -> NDArray[np.float64]:
        """``score(better) - score(worse)``, one per preference."""
        check_is_fitted(self)
        Q, D = self._check_pair(Q, D)
        prefs = as_preferences(prefs)
        prefs.check_rows(Q.shape[0], D.shape[0])
        margins = np.empty(len(prefs))
        for start in range(0, len(prefs), 4096):
            part = prefs[start : start + 4096]
            queries = Q[part.query]
            margins[start : start + 4096] = self.weights_.score_rows(
                queries, D[part.better]
            ) - self.weights_.score_rows(queries, D[part.worse])
        return margins

    def score_matrix(self, Q: Any, D: Any) -> NDArray[np.float64]:
        """Scores of all documents for all queries, dense (n_q, n_d); for small blocks."""
        check_is_fitted(self)
        Q, D = self._check_pair(Q, D)
        return self.weights_.score(Q, D)

    def rank(self, Q: Any, D: Any, k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The k best documents of each query and their scores, best first; ties by lower row."""
        check_is_fitted(self)
        Q, D = self._check_pair(Q, D)
        return rank_texts(self.weights_, Q, D, k)

    def explain(self, q: Any, d: Any) -> Explanation:
        """Return the term pairs whose contributions sum to the score of the one-row matrices q and d."""
        check_is_fitted(self)
        return self.weights_.explain(check_matrix(q, "q"), check_matrix(d, "d"))

    def related(self, column: int, k: int = 10) -> list[tuple[int, float]]:
        """Return the k document columns with the largest weights for a query column, with the weights."""
        check_is_fitted(self)
        return self.weights_.related(column, k)

    def thin(self, density: float, Q: Any = None, prefs: Preferences | Source | None = None, D: Any = None) -> Any:
        """Return a `SparseRanker` of the share ``density`` of the entries of W, the largest by size.

        With preferences these entries learn on from their weights. A low-rank W is read block by block, never as a
        whole.
        """
        check_is_fitted(self)
        shared = {name: value for name, value in self.get_params().items() if name in _SHARED_PARAMETERS}
        thinned = self._thinned_class(largest_entries(self.weights_, density), refit=False, **shared)
        return thinned if prefs is None else thinned.refit_on_support(Q, prefs, D)

    # -- checking -----------------------------------------------------------------------------------------------

    def _check_pair(self, Q: Any, D: Any) -> tuple[sparse.csr_array, sparse.csr_array]:
        queries = check_matrix(Q, "Q")
        docs = queries if D is None or D is Q else check_matrix(D, "D")
        if hasattr(self, "n_features_in_"):
            for matrix, name, width in (
                (queries, "Q", self.n_features_in_),
                (docs, "D", self.n_doc_features_),
            ):
                if matrix.shape[1] != width:
                    raise InputError(
                        f"{name} has {matrix.shape[1]} columns, but this {type(self).__name__} was fitted with {width}"
                    )
        return queries, docs

    def _note_widths(self, Q: sparse.csr_array, D: sparse.csr_array) -> None:
        self.n_features_in_ = Q.shape[1]
        self.n_doc_features_ = D.shape[1]


@dataclass(eq=False, repr=False, kw_only=True)
class SgdRanker(TermPairRanker):
    """Term-pair ranker trained by stochastic gradient descent on the margin rank loss.

    Subclasses set ``_state_class`` and ``_start``. The fields are the parameters: a subclass adds fields, and gives a
    default to each field without a default here.
    """

    rate: Positive
    schedule: Schedule
    margin: Positive = 1.0
    epochs: Count = 1
    shuffle: bool = False
    validate_every: Count | None = None
    patience: Count | None = 3
    random_state: Seed = 0
    verbose: bool | None = None

    _state_class: ClassVar[type[State]]
    _run_class: ClassVar[type[Run]] = Run

    @abstractmethod
    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> State:
        """Return the state before the first step."""

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn from the start.

        Parameters
        ----------
        Q, D : query and document matrices, CSR, in memory or mapped; ``D=None`` means D is Q
        prefs : Preferences, or a source of preferences
        validation : callable ``Weights -> float``, higher is better
            Called every ``validate_every`` steps. The best weights are kept, the start included. Training ends when
            more than ``patience`` calls in a row bring no better value.
        callbacks : callables that get an Event after each chunk and end the training by returning True;
            a ``Checkpoint`` among the callbacks makes the run resumable
        """
        queries, docs, source = self._checked(Q, prefs, D)
        self._train(self._start(queries, docs), queries, docs, source, validation, callbacks)
        return self

    def _checked(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any,
    ) -> tuple[sparse.csr_array, sparse.csr_array, Source]:
        """Check the parameters and the data of a fit; return matrices and source."""
        self._check_params()
        current_executor().check(self)
        self._forget()
        queries, docs = self._check_pair(Q, D)
        source = as_source(prefs, shuffle=self.shuffle, random_state=self.random_state)
        if isinstance(source, ArraySource):
            source.prefs.check_rows(queries.shape[0], docs.shape[0])
        return queries, docs, source

    def _train(
        self,
        state: State,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        source: Source,
        validation: Callable[[Weights], float] | None,
        callbacks: Sequence[Callback],
        rounds: int = 1,
    ) -> None:
        """All epochs of the source, in each of the rounds."""
        if source.n_steps is None and self.epochs > 1:
            raise ParameterError(
                f"epochs={self.epochs} needs to know where a pass ends, and this source does not tell; give it n_steps"
            )
        # Parameters may be NumPy numbers; a checkpoint holds plain numbers.
        total = None if source.n_steps is None else source.n_steps * int(self.epochs) * rounds
        every = int(self.validate_every or max(1, (source.n_steps or 100_000) // (10 if self.epochs == 1 else 1)))
        patience = None if self.patience is None else int(self.patience)
        run = self._run_class(
            state,
            source,
            Q,
            D,
            self._sgd(),
            total=total,
            validation=validation,
            stopping=Stopping(every=every, patience=patience),
        )
        self.history_: list[Event] = []
        self._keep(run.go([self.history_.append, *callbacks], type(self).__name__, self.verbose), Q, D)

    def partial_fit(self, Q: Any, prefs: Preferences, D: Any = None) -> Self:
        """Take one more step per preference, in their order.

        Two halves give the same bits as the whole.
        """
        self._check_params()
        current_executor().check(self)
        queries, docs = self._check_pair(Q, D)
        prefs = as_preferences(prefs)
        prefs.check_rows(queries.shape[0], docs.shape[0])
        self._train_on(self._state_to_go_on(queries, docs), queries, docs, ArraySource(prefs), len(prefs))
        return self

    def _state_to_go_on(self, Q: sparse.csr_array, D: sparse.csr_array) -> State:
        if self.schedule == "linear":
            raise ParameterError(
                "schedule='linear' falls to zero over a known number of steps, which partial_fit does not know; "
                "use 'constant' or 'inverse-sqrt'"
            )
        return self._state if hasattr(self, "_state") else self._start(Q, D)

    def _train_on(self, state: State, Q: sparse.csr_array, D: sparse.csr_array, source: Source, n_steps: int) -> None:
        """Take ``n_steps`` steps from the present state."""
        run = Run(state, source, Q, D, self._sgd(), total=n_steps)
        self.__dict__.pop("_snapshot", None)
        try:
            learned = run.go((), type(self).__name__, self.verbose)
        except BaseException:
            # Steps change the state in place: after divergence the ranker is not fitted. An error before the first step
            # leaves the state unchanged.
            if run.begun:
                self._forget()
            raise
        self._keep(learned, Q, D)

    def _sgd(self) -> Sgd:
        return Sgd(rate=float(self.rate), schedule=self.schedule, margin=float(self.margin))

    def _keep(self, state: State, Q: sparse.csr_array, D: sparse.csr_array) -> None:
        self._note_widths(Q, D)
        self._state = state
        self.n_steps_ = state.step

    def _forget(self) -> None:
        for name in ("_state", "_snapshot", "n_steps_", "n_features_in_", "n_doc_features_"):
            if hasattr(self, name):
                delattr(self, name)

    @property
    def weights_(self) -> Weights:
        # Made at first use: a snapshot of a dense W costs more than the steps of a short partial_fit.
        check_is_fitted(self)
        if not hasattr(self, "_snapshot"):
            self._snapshot: Weights = self._state.snapshot()
        return self._snapshot

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self)
        state, arrays = self._state.to_state()
        return {"class": type(self).__name__, "params": self._saved_params(), "state": state}, arrays

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        ranker = cls._with_params(params, saved.where)
        stored = decode(SavedState, saved.meta, where=saved.where)
        ranker._state = cls._state_class.from_state(stored.state, saved.arrays, f"{saved.where} state")
        ranker.n_steps_ = ranker._state.step
        ranker.n_features_in_, ranker.n_doc_features_ = ranker._state.shape
        return ranker


@dataclass(frozen=True)
class SavedState:
    """Saved step-by-step ranker without class and parameters."""

    state: dict[str, Any]


# Removed classes of saved rankers -> the class to fit instead.
REMOVED_RANKERS: Final = {"GroupSparseRanker": "SparseRanker", "StableRanker": "MeanRanker"}


def load_ranker(bundle: Bundle, classes: Mapping[str, type[AnyRanker]]) -> AnyRanker:
    """Load a ranker from a bundle; ``classes`` are the classes allowed for the ranker and for a ranker inside."""
    where = f"{bundle.path}: meta"
    name, params = bundle.meta.get("class"), bundle.meta.get("params")
    if not isinstance(name, str) or not isinstance(params, dict):
        raise DamagedBundleError(f"{where} does not name the class of a ranker and its parameters")
    if name in REMOVED_RANKERS:
        raise BundleError(
            f"{bundle.path} holds a {name}, which was removed from Tercet. Fit a {REMOVED_RANKERS[name]} on the same "
            "data and save it"
        )
    if name not in classes:
        raise BundleError(
            f"{bundle.path} holds a ranker of unknown class {name!r}; known: {', '.join(sorted(classes))}"
        )
    params = classes[name]._current_params(params)
    removed = classes[name]._removed_parameters
    params = {key: value for key, value in params.items() if key not in removed or value != removed[key]}
    params = {**classes[name]._added_parameters, **params}
    names = set(classes[name]._get_param_names())
    unknown, missing = sorted(set(params) - names), sorted(names - set(params))
    if unknown or missing:
        raise BundleError(f"{bundle.path}: parameters of {name} do not fit: unknown {unknown}, missing {missing}")
    rest = {key: value for key, value in bundle.meta.items() if key not in ("class", "params")}
    return classes[name]._from_bundle(params, SavedRanker(rest, bundle.arrays, where, classes))
