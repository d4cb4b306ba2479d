"""A dataclass to JSON values and arrays, and back: whatever does not fit is refused, and the message says where."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.store.codec import decode, encode
from tercet.store.schema import LENGTH, OMIT_DEFAULT, Bounds, Csr, SameAs, Shape, Via


class Change(NamedTuple):
    qid: str
    before: float


@dataclass(frozen=True)
class Inner:
    name: str
    weights: Annotated[NDArray[np.float32], Shape("n")]


@dataclass(frozen=True, eq=False)
class Value:
    rate: Annotated[float, Bounds(above=0)]
    steps: int
    rule: Literal["constant", "linear"]
    names: tuple[str, ...]
    pair: tuple[int, float]
    changes: tuple[Change, ...]
    settings: dict[str, Any]
    error: float | None
    inner: Inner
    several: tuple[Inner, ...]
    U: Annotated[NDArray[np.float32], Shape("n_terms", "n_components")]
    V: Annotated[NDArray[np.float32], Shape(None, "n_components"), SameAs("U")]
    W: Annotated[sparse.csr_array, Csr("n_terms", 3)]
    rare: Annotated[NDArray[np.uint8] | None, Shape("n_terms", bounds=Bounds(most=1))]
    n_terms: Annotated[int, LENGTH]
    held: Annotated[bool, OMIT_DEFAULT] = False
    folder: Annotated[Path, Via(str, str, Path)] = Path("a")
    scratch: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.steps == 13:
            raise InputError("13 steps are unlucky")


def value() -> Value:
    U = np.ones((2, 4), np.float32)
    return Value(
        rate=0.5,
        steps=3,
        rule="linear",
        names=("a", "b"),
        pair=(1, 2.0),
        changes=(Change("q", 0.25),),
        settings={"x": [1, None]},
        error=None,
        inner=Inner("i", np.zeros(5, np.float32)),
        several=(Inner("s", np.ones(1, np.float32)),),
        U=U,
        V=U,
        W=sparse.csr_array(np.array([[0, 1, 0], [2, 0, 0]], np.float32)),
        rare=None,
        n_terms=2,
    )


META = {
    "rate": 0.5,
    "steps": 3,
    "rule": "linear",
    "names": ["a", "b"],
    "pair": [1, 2.0],
    "changes": [["q", 0.25]],
    "settings": {"x": [1, None]},
    "error": None,
    "inner": {"name": "i"},
    "several": [{"name": "s"}],
    "tied": True,
    "folder": "a",
}
ARRAYS = {"inner.weights", "several.0.weights", "U", "W.data", "W.indices", "W.indptr"}


def test_what_is_written():
    meta, arrays = encode(value())
    assert meta == META
    assert set(arrays) == ARRAYS
    assert (arrays["W.indices"].dtype, arrays["W.indptr"].dtype) == (np.int32, np.int64)


def test_what_is_read_is_what_was_written():
    meta, arrays = encode(value())
    back = decode(Value, meta, arrays)
    assert encode(back)[0] == meta
    assert back.V is back.U
    assert back.n_terms == 2
    assert back.changes == (Change("q", 0.25),)
    assert back.pair == (1, 2.0)
    assert back.folder == Path("a")
    assert (back.W != value().W).nnz == 0


def test_a_field_at_its_default_can_be_left_out_where_that_is_said():
    meta, arrays = encode(value())
    assert decode(Value, {**meta, "held": True}, arrays).held
    del meta["folder"]
    with pytest.raises(DamagedBundleError, match="folder is missing"):
        decode(Value, meta, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": "fast"}, r"m\.rate is 'fast' \(str\); expected a number"),
        ({"rate": 0}, r"m\.rate is 0 \(int\); expected a number above 0"),
        ({"rate": float("nan")}, r"m\.rate is nan; expected a finite number"),
        ({"rate": 10**400}, r"m\.rate is a number that no float holds"),
        ({"steps": True}, r"m\.steps is True \(bool\); expected a whole number"),
        ({"steps": 3.0}, r"m\.steps is 3.0 \(float\); expected a whole number"),
        ({"rule": "square"}, r"m\.rule is 'square' \(str\); expected one of 'constant', 'linear'"),
        ({"names": "ab"}, r"m\.names is 'ab' \(str\); expected a list"),
        ({"names": ["a", 2]}, r"m\.names\.1 is 2 \(int\); expected text"),
        ({"pair": [1]}, r"m\.pair is \[1\] \(list\); expected a list of 2"),
        ({"changes": [["q"]]}, r"m\.changes\.0 is \['q'\] \(list\); expected a list of 2"),
        ({"settings": []}, r"m\.settings is \[\] \(list\); expected a mapping"),
        ({"error": "none"}, r"m\.error is 'none' \(str\); expected a number or nothing"),
        ({"inner": {"name": None}}, r"m\.inner\.name is None; expected text"),
        ({"inner": 3}, r"m\.inner is 3 \(int\); expected a mapping"),
        ({"several": [{"nam": "s"}]}, r"m\.several\.0\.nam is unknown; known here: name"),
        ({"scratch": []}, r"m\.scratch is unknown"),
        ({"tied": 1}, r"m\.tied is 1 \(int\); expected true or false"),
        ({"tied": False}, "m has no array 'V'"),
        ({"steps": 13}, "m does not fit together: 13 steps are unlucky"),
        ({"several": []}, r"m has unexpected arrays \['several.0.weights'\]"),
    ],
)
def test_meta_that_does_not_fit_is_refused(change, message):
    meta, arrays = encode(value())
    with pytest.raises(DamagedBundleError, match=message):
        decode(Value, {**meta, **change}, arrays, where="m")


@pytest.mark.parametrize("missing", sorted(META))
def test_a_missing_key_is_named(missing):
    meta, arrays = encode(value())
    del meta[missing]
    with pytest.raises(DamagedBundleError, match=f"{missing} is missing"):
        decode(Value, meta, arrays)


@pytest.mark.parametrize("missing", sorted(ARRAYS))
def test_a_missing_array_is_named(missing):
    meta, arrays = encode(value())
    del arrays[missing]
    with pytest.raises(DamagedBundleError, match=f"has no array '{missing}'"):
        decode(Value, meta, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"U": np.ones((3, 4), np.float32)}, "array 'W.indptr' has shape"),
        ({"U": np.ones((2, 4))}, "array 'U' is of type float64; expected float32"),
        ({"U": np.full((2, 4), np.nan, np.float32)}, "array 'U' has values that are not finite"),
        ({"rare": np.ones(3, np.uint8)}, r"array 'rare' has shape \(3,\); expected \(2\)"),
        ({"rare": np.full(2, 2, np.uint8)}, "array 'rare' has values that are not at most 1"),
        ({"W.indices": np.array([0, 3], np.int32)}, "columns that are not from 0 to 2"),
        ({"W.indptr": np.array([0, 3, 2])}, "row pointers that do not rise"),
        ({"other": np.ones(1)}, "unexpected arrays"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    meta, arrays = encode(value())
    with pytest.raises(DamagedBundleError, match=message):
        decode(Value, meta, {**arrays, **change})


class Shown:
    kind: ClassVar[str]


@dataclass(frozen=True)
class Circle(Shown):
    kind = "circle"
    radius: float


@dataclass(frozen=True)
class Square(Shown):
    kind = "square"
    side: int


@dataclass(frozen=True)
class Picture:
    shapes: tuple[Shown, ...]


KINDS = {Shown: {"circle": Circle, "square": Square}}


def test_a_base_class_is_told_apart_by_kind():
    picture = Picture((Circle(1.0), Square(2)))
    meta, _ = encode(picture)
    assert meta == {"shapes": [{"kind": "circle", "radius": 1.0}, {"kind": "square", "side": 2}]}
    assert decode(Picture, meta, kinds=KINDS) == picture
    assert decode(Circle, {"kind": "circle", "radius": 1.0}) == Circle(1.0)
    with pytest.raises(
        DamagedBundleError, match=r"shapes\.0\.kind is 'star' \(str\); expected one of 'circle', 'square'"
    ):
        decode(Picture, {"shapes": [{"kind": "star"}]}, kinds=KINDS)
    with pytest.raises(DamagedBundleError, match=r"shapes\.0\.kind is missing; expected one of"):
        decode(Picture, {"shapes": [{}]}, kinds=KINDS)
    with pytest.raises(DamagedBundleError, match=r"shapes\.0\.side is unknown; known here: kind, radius"):
        decode(Picture, {"shapes": [{"kind": "circle", "radius": 1, "side": 2}]}, kinds=KINDS)


class Words:
    """Says itself how it is stored."""

    def __init__(self, words: list[str], counts: NDArray[np.int64]) -> None:
        self.words, self.counts = words, counts

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"words": self.words}, {"counts": self.counts}

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Words:
        if meta.keys() != {"words"} or arrays.keys() != {"counts"}:
            raise DamagedBundleError(f"words have {sorted(meta)} and {sorted(arrays)}")
        return cls(meta["words"], arrays["counts"])


@dataclass(frozen=True)
class Sides:
    queries: Words
    docs: Annotated[Words, SameAs("queries", "shared")]
    more: Annotated[Words | None, OMIT_DEFAULT] = None


def test_what_says_itself_how_it_is_stored_has_its_arrays_under_its_name():
    own, other = Words(["a"], np.array([1])), Words(["b"], np.array([2]))
    meta, arrays = encode(Sides(own, other))
    assert meta == {"queries": {"words": ["a"]}, "shared": False, "docs": {"words": ["b"]}}
    assert {name: array.tolist() for name, array in arrays.items()} == {"queries.counts": [1], "docs.counts": [2]}
    read = decode(Sides, meta, arrays)
    assert (read.docs.words, read.docs.counts.tolist(), read.more) == (["b"], [2], None)
    meta, arrays = encode(Sides(own, own, other))
    read = decode(Sides, meta, arrays)
    assert read.docs is read.queries
    assert read.more is not None
    with pytest.raises(DamagedBundleError, match=r"m has unexpected arrays \['docs\.counts'\]"):
        decode(Sides, meta, {**arrays, "docs.counts": np.array([2])}, where="m")
    with pytest.raises(DamagedBundleError, match=r"words have \['words'\] and \['counts', 'extra'\]"):
        decode(Sides, meta, {**arrays, "queries.extra": np.array([2])})
    with pytest.raises(DamagedBundleError, match=r"m\.queries is 3 \(int\); expected a mapping"):
        decode(Sides, {**meta, "queries": 3}, arrays, where="m")


def test_arrays_are_copied_where_asked_and_ties_stay():
    meta, arrays = encode(value())
    assert decode(Value, meta, arrays).U is arrays["U"]
    copy = decode(Value, meta, arrays, copy=True)
    assert copy.U is not arrays["U"]
    assert copy.V is copy.U


@dataclass(frozen=True, slots=True)
class Slotted:
    name: str
    n: int


@dataclass(frozen=True)
class Doubled:
    n: int

    def __init__(self, n: int) -> None:
        object.__setattr__(self, "n", 2 * n)


@dataclass(frozen=True)
class Defaulted:
    name: str
    labels: Annotated[dict[str, int], OMIT_DEFAULT] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list, init=False)
    weight: Annotated[float, OMIT_DEFAULT] = 1.0


def test_classes_are_made_as_their_init_makes_them():
    assert decode(Slotted, {"name": "a", "n": 1}) == Slotted("a", 1)
    assert decode(Doubled, {"n": 2}).n == 4
    assert vars(decode(Defaulted, {"name": "a"})) == vars(Defaulted("a"))
    assert decode(Defaulted, {"name": "a"}).labels is not decode(Defaulted, {"name": "a"}).labels
    assert vars(decode(Noted, {"n": 1})) == {"n": 1, "note": ""}
    with pytest.raises(AttributeError):
        decode(Noted, {"n": 1}).n = 2  # type: ignore[misc]


@dataclass(frozen=True)
class Noted:
    n: int
    note: Annotated[str, OMIT_DEFAULT] = ""
