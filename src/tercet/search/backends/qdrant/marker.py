"""The point that makes a collection ours: number 0, without a vector, so that no search ever finds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, EngineError
from tercet.search.backends.qdrant.engine import MISSING, Engine, Point
from tercet.store import Fields

ROW: Final = 0
MOST_ROWS: Final = 2**39  # numbers that an index may give to documents, those that are gone included
_KEY: Final = "tercet"
_FORMAT: Final = 1


@dataclass(frozen=True)
class Limits:
    """What no document exceeds: dimensions of its vector, the vector's length, and the value of a word."""

    dimensions: int = 0
    length: float = 0.0
    value: float = 0.0

    def with_documents(self, D: sparse.csr_array, factors: NDArray[np.float32] | None) -> Limits:
        """Limits that hold for more documents, too."""
        if not D.shape[0]:
            return self
        squares = np.add.reduceat(np.append(D.data.astype(np.float64) ** 2, 0.0), D.indptr[:-1])
        squares[np.diff(D.indptr) == 0] = 0.0  # there reduceat gives the next row's first
        n = int(np.diff(D.indptr).max())
        if factors is not None:
            squares += np.einsum("ij,ij->i", factors, factors, dtype=np.float64)
            n += factors.shape[1]
        length, value = float(np.sqrt(squares.max())), float(D.data.max(initial=0.0))
        return Limits(
            self.dimensions if n <= self.dimensions else n + n // 8,  # with room for more, so that they hardly change
            self.length if 1.01 * length <= self.length else 1.125 * length,
            self.value if value <= self.value else 1.125 * value,
        )


@dataclass(frozen=True)
class Marker:
    """What a collection says of itself.

    Attributes
    ----------
    index : which index it is, given by chance when it was begun
    vectoriser, factors : fingerprints of what made the words of its documents, and their latent dimensions
    n_terms, n_components : numbers of both
    texts : whether documents have their texts
    next_row : the number that the next document gets, at least
    complete : whether the first upload has ended
    changes : how many there were
    """

    index: str
    vectoriser: str
    factors: str
    n_terms: int
    n_components: int
    texts: bool
    next_row: int
    complete: bool = False
    changes: int = 0
    limits: Limits = Limits()

    @property
    def always(self) -> int:
        """The dimension that every document with a known word has, where latent dimensions make all of them count."""
        return self.n_terms + self.n_components

    @property
    def first_row(self) -> int:
        return first_row(self.index)

    def with_rows_taken(self, end: int) -> Self:
        """Numbers below ``end`` are never given to other documents, since readers may remember those that had them."""
        return self.changed(next_row=max(self.next_row, end))

    def point(self) -> Point:
        told = asdict(self) | {"format": _FORMAT}
        return Point(ROW, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32), {_KEY: told})

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any], where: str) -> Self:
        try:
            fields = Fields(payload[_KEY], where)
            if (found := fields.take("format", int)) != _FORMAT:
                raise EngineError(f"{where} has format {found}; this version of Tercet reads {_FORMAT}")
            limits = Fields(fields.take("limits", dict), f"{where}: limits")
            own = cls(
                fields.take("index", str),
                fields.take("vectoriser", str),
                fields.take("factors", str),
                fields.take("n_terms", int),
                fields.take("n_components", int),
                fields.take("texts", bool),
                fields.take("next_row", int),
                fields.take("complete", bool),
                fields.take("changes", int),
                Limits(limits.take("dimensions", int), limits.take("length", float), limits.take("value", float)),
            )
            fields.done()
        except DamagedBundleError as error:
            raise EngineError(str(error)) from error
        return own

    def changed(self, **how: Any) -> Self:
        return replace(self, changes=self.changes + 1, **how)


def first_row(index: str) -> int:
    """The number of the first document of an index. Others begin elsewhere: no number means something else to them.

    So whoever still searches a collection that was made anew notices.
    """
    return int(index[:6], 16) * MOST_ROWS + 1


def read_marker(engine: Engine) -> Marker | None:
    """The marker of a collection; None where it is not one of ours, or is not there."""
    return _marker_in(engine) if engine.problem() is None else None


def _marker_in(engine: Engine) -> Marker | None:
    payload = engine.payload(ROW)
    if payload is None or _KEY not in payload:
        return None
    return Marker.from_payload(payload, f"{engine.url}, collection {engine.collection!r}")


def own_marker(engine: Engine, index: str) -> Marker:
    """The marker of the collection that belongs to an index; any other is an error."""
    where = f"{engine.url}, collection {engine.collection!r},"
    problem = engine.problem()
    if problem is not None:
        raise EngineError(f"{where} {problem}" + ("" if problem == MISSING else "; it is not the one of this index"))
    marker = _marker_in(engine)
    if marker is None:
        raise EngineError(f"{where} was not made by Tercet; it is not the one of this index")
    if marker.index != index:
        raise EngineError(f"{where} belongs to another index of Tercet; this one's is gone or was replaced")
    return marker


def refuse_taken(engine: Engine) -> None:
    """An error where there is a collection of that name already, whoever's it is. Nothing in it is changed."""
    problem = engine.problem()
    if problem == MISSING:
        return
    if problem is None:
        problem = "was not made by Tercet" if _marker_in(engine) is None else "is that of another index"
    raise EngineError(
        f"{engine.url} has a collection {engine.collection!r} already, which {problem}; nothing in it was changed. "
        "Name another collection, or remove that one"
    )
