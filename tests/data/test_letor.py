"""LETOR text, chunks and folds: exact, strict, and the same whatever the blocks."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
from tercet.data import (
    LetorData,
    LetorStream,
    query_folds,
    read_letor,
    read_letor_folds,
    write_letor,
)
from tercet.data import letor_text as reading
from tercet.data.lines import sampled_digest
from tercet.errors import FormatError, InputError

QUICK = settings(deadline=None, max_examples=40)
SMALL_FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
DIGITS = st.text("0123456789", max_size=24)
PLACE: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    PLACE.append(tmp_path_factory.mktemp("letor"))
    yield
    PLACE.pop()


def new_file(content: str | bytes) -> Path:
    # Hypothesis calls a test many times, and tmp_path would be shared by them all.
    file = Path(tempfile.mkdtemp(dir=PLACE[0]), "train.txt")
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def same(a: LetorData, b: LetorData) -> None:
    assert sparse.issparse(a.X) == sparse.issparse(b.X)
    assert a.X.dtype == b.X.dtype == np.float32
    left, right = (one.X.toarray() if sparse.issparse(one.X) else one.X for one in (a, b))
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()
    assert (a.y.tolist(), a.qid.tolist(), a.comments) == (b.y.tolist(), b.qid.tolist(), b.comments)
    assert (a.starts.tolist(), a.qids.tolist()) == (b.starts.tolist(), b.qids.tolist())


@st.composite
def sets(draw: st.DrawFn) -> LetorData:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    names = st.text(st.characters(exclude_categories=["Cs", "Z", "C"], exclude_characters="#"), min_size=1, max_size=5)
    ids = draw(st.lists(names, min_size=len(sizes), max_size=len(sizes), unique=True))
    n_rows, width = sum(sizes), draw(st.integers(1, 5))
    cells = st.one_of(
        st.just(0.0), st.just(-0.0), st.sampled_from([0.1, 1e-6, 123456.78, 1.5e-44, 3.4e38]), SMALL_FLOATS
    )
    X = np.array(draw(st.lists(cells, min_size=n_rows * width, max_size=n_rows * width)), np.float32)
    X = X.reshape(n_rows, width)
    y = draw(st.lists(st.integers(-1, 4), min_size=n_rows, max_size=n_rows))
    words = st.sampled_from(["", "doc 12", "#", "docid = é", "a  b"])
    comments = draw(st.none() | st.lists(words, min_size=n_rows, max_size=n_rows))
    if comments is not None and not any(comments):
        comments = None
    return LetorData(X, y, np.repeat(ids, sizes), comments)


# -- numbers ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**18 - 1), st.integers(-40, 40))
@settings(deadline=None, max_examples=50)
def test_long_decimals_and_far_exponents_are_pythons_float(mantissa: int, power: int) -> None:
    text = f"{mantissa}e{power}"
    if float(text) >= 2.0**128 - 2.0**103:
        return
    read = read_letor(new_file(f"1 qid:1 1:{text} 2:1\n"), dense=True)
    assert read.X[0, 0] == np.float32(float(text))


@pytest.mark.parametrize(
    "text",
    ["9007199254740993", "0.5e-45", "-0", "-0.0", "1e-400", "340282346638528859811704183484516925440", "3.4028235e38"],
)
def test_what_is_not_settled_goes_to_python(text: str) -> None:
    read = read_letor(new_file(f"1 qid:1 1:{text} 2:1\n"), dense=True)
    assert read.X[:, :1].tobytes() == np.float32(float(text)).tobytes()


@given(
    sign=st.sampled_from(["", "-", "+"]),
    whole=DIGITS,
    part=st.none() | DIGITS,
    exponent=st.none() | st.integers(-60, 30),
    letter=st.sampled_from("eE"),
)
@settings(deadline=None, max_examples=50)
def test_any_decimal_is_read_as_pythons_float(
    sign: str, whole: str, part: str | None, exponent: int | None, letter: str
) -> None:
    text = sign + whole + ("" if part is None else f".{part}") + ("" if exponent is None else f"{letter}{exponent}")
    file = new_file(f"1 qid:1 1:{text} 2:1\n")
    try:
        wanted = float(text)
    except ValueError:
        with pytest.raises(FormatError, match=r":1: feature 1 has value .*; a number is needed"):
            read_letor(file)
        return
    if abs(wanted) >= 2.0**128 - 2.0**103:  # float32 rounds to infinity
        with pytest.raises(FormatError, match=r":1: feature 1 has value .*; a finite number within float32 is needed"):
            read_letor(file)
        return
    assert read_letor(file, dense=True).X[:, :1].tobytes() == np.float32(wanted).tobytes()


# -- rows -------------------------------------------------------------------------------------------------------


TEXT = (
    "\ufeff# made by hand\r\n"
    "2 qid:007 1:0.5 3:-1e-3 #doc 12 # é\r\n"
    "\n"
    "0.0\tqid:007\t\r\n"
    "  -1 qid:b 01:+.25 2:5. 10:0# \n"
    "+3 qid:é 2:1"
)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_everything_a_file_may_hold(packed: bool) -> None:
    file = new_file(gzip.compress(TEXT.encode()) if packed else TEXT)
    read = read_letor(file)
    wanted = np.zeros((4, 10), np.float32)
    wanted[[0, 0, 2, 2, 3], [0, 2, 0, 1, 1]] = [0.5, -1e-3, 0.25, 5, 1]
    assert sparse.issparse(read.X)
    assert read.X.nnz == 5
    np.testing.assert_array_equal(read.X.toarray(), wanted)
    np.testing.assert_array_equal(read_letor(file, dense=True).X, wanted)
    assert read.y.dtype == np.int64
    assert read.y.tolist() == [2, 0, -1, 3]
    assert read.qid.tolist() == ["007", "007", "b", "é"]
    assert (read.qids.tolist(), read.starts.tolist(), read.n_queries, len(read)) == (
        ["007", "b", "é"],
        [0, 2, 3, 4],
        3,
        4,
    )
    assert read.comments == ("doc 12 # é", "", "", "")
    assert read_letor(file, comments=False).comments is None
    assert read_letor(file, n_features=12).n_features == 12


def test_the_reader_finds_what_a_slow_one_finds() -> None:
    random = np.random.default_rng(1)
    lines = []
    for row in range(60):
        ids = np.flatnonzero(random.random(30) < random.choice([0.05, 0.9])) + 1
        cells = " ".join(f"{i}:{float(random.normal() * 10.0 ** random.integers(-20, 9))!r}" for i in ids.tolist())
        lines.append(f"{random.integers(0, 3)} qid:{row // 7} {cells} # row {row}")
    file = new_file("\n".join(lines))
    rows = oracles.svmlight_rows(file.read_text())
    wanted = np.zeros((60, 30), np.float32)
    for row, (_, _, cells, _) in enumerate(rows):
        for feature, value in cells.items():
            wanted[row, feature - 1] = value
    targets, qids, _, comments = zip(*rows, strict=True)
    read = read_letor(file, 30)
    np.testing.assert_array_equal(sparse.csr_array(read.X).toarray(), wanted)
    assert (tuple(read.y), tuple(map(str, read.qid)), read.comments) == (targets, qids, comments)


def test_dense_or_sparse_is_decided_by_what_is_not_zero() -> None:
    assert not sparse.issparse(read_letor(new_file("1 qid:1 1:1 4:0\n")).X)
    assert sparse.issparse(read_letor(new_file("1 qid:1 1:1 5:0\n")).X)
    assert sparse.issparse(read_letor(new_file("1 qid:1 1:1\n"), dense=False).X)


@pytest.mark.slow
@given(sets(), st.integers(1, 60), st.booleans())
@QUICK
def test_blocks_and_chunks_change_nothing(data: LetorData, n_bytes: int, dense: bool) -> None:
    file = new_file("")
    write_letor(file, data)
    whole = read_letor(file, dense=dense)
    with file.open("rb") as stream:
        parts = list(reading.read_blocks(stream, file, None, comments=True, block_bytes=n_bytes))
    X, y, qid = reading.stack(parts, data.n_features, dense)
    comments = tuple(comment for part in parts for comment in part.comments or ())
    same(LetorData(X, y, qid, comments if any(comments) else None), whole)
    for width in (None, data.n_features):
        chunks = list(LetorStream(file, width, chunk_bytes=n_bytes, dense=dense, comments=True))
        if n_bytes == 1:
            assert [chunk.qids.tolist() for chunk in chunks] == [[qid] for qid in data.qids.tolist()]
        assert [qid for chunk in chunks for qid in chunk.qids.tolist()] == whole.qids.tolist()
        X = np.vstack([sparse.csr_array(chunk.X).toarray() for chunk in chunks])
        np.testing.assert_array_equal(X, sparse.csr_array(whole.X).toarray())
        assert np.concatenate([chunk.y for chunk in chunks]).tolist() == whole.y.tolist()
        if whole.comments:
            found = [comment for chunk in chunks for comment in chunk.comments or [""] * len(chunk)]
            assert tuple(found) == whole.comments


def test_chunks_share_one_layout_and_width() -> None:
    file = new_file("".join(f"1 qid:{q} {cells}\n" for q, cells in enumerate(["1:1 2:1 3:1", "1:1", "2:1 9:1"])))
    chunks = list(LetorStream(file, chunk_bytes=1))
    assert [chunk.X.shape for chunk in chunks] == [(1, 9)] * 3
    assert len({type(chunk.X) for chunk in chunks}) == 1
    given_width = list(LetorStream(file, 9, chunk_bytes=1))
    assert [type(chunk.X) for chunk in given_width] == [np.ndarray] * 3
    with pytest.raises(FormatError, match=r":3: feature id 9; n_features=8 was asked for"):
        list(LetorStream(file, 8, chunk_bytes=1))


# -- what is refused --------------------------------------------------------------------------------------------

FORM = "a line is: grade qid:id feature:value … # comment"
BROKEN = [
    ("1 qid:1 1:1\n1 qid:1 0:2\n", ":2: feature id 0; ids start at 1"),
    ("1 qid:1 -3:2\n", ":1: feature id -3; ids start at 1"),
    ("1 qid:1 5:1 3:1\n", ":1: feature id 3 after 5; ids must ascend within a line"),
    ("1 qid:1 5:1 5:0\n", ":1: feature id 5 occurs twice"),
    ("1 qid:1 3000000000:1\n", ":1: feature id 3000000000; the largest possible is 2147483647"),
    ("1 qid:1 99999999999999:1\n", ":1: feature id 99999999999999; the largest possible is 2147483647"),
    ("1 qid:1 a:1\n", ":1: feature id 'a'; a whole number is needed"),
    ("1 qid:1 1:a\n", ":1: feature 1 has value 'a'; a number is needed"),
    ("1 qid:1 1:\n", ":1: feature 1 has value ''; a number is needed"),
    ("1 qid:1 1: 2\n", ":1: feature 1 has value ''; a number is needed"),
    ("1 qid:1 1:1e\n", ":1: feature 1 has value '1e'; a number is needed"),
    ("1 qid:1 1:1x 2:1\n", ":1: feature 1 has value '1x'; a number is needed"),
    ("1 qid:1 1:nan\n", ":1: feature 1 has value 'nan'; a finite number within float32 is needed"),
    ("1 qid:1 1:-Infinity\n", ":1: feature 1 has value '-Infinity'; a finite number within float32 is needed"),
    ("\n1 qid:1 1:1 7:1e39\n", ":2: feature 7 has value '1e39'; a finite number within float32 is needed"),
    ("1 qid:1\t7:-1e999\n", ":1: feature 7 has value '-1e999'; a finite number within float32 is needed"),
    ("1 qid:1 2\n", ":1: '2'; features are written id:value"),
    ("1 qid:1 1_0:2\n", ":1: feature id '1_0'; a whole number in plain digits is needed"),
    ("1 qid:1 1:1_0\n", ":1: '1:1_0'; id:value in plain digits is needed"),
    ("1 qid:1 +1:2\n", ":1: '+1:2'; id:value in plain digits is needed"),
    ("1 qid:1 1:١\n", ":1: '1:١'; id:value in plain digits is needed"),
    ("1 qid:1 1:1 qid:2\n", ":1: 'qid:2' is out of place; qid comes once, right after the grade"),
    ("1.5 qid:1 1:1\n", ":1: grade '1.5'; a whole number of at most 9 digits is needed"),
    ("high qid:1 1:1\n", ":1: grade 'high'; a whole number of at most 9 digits is needed"),
    ("1234567890 qid:1 1:1\n", ":1: grade '1234567890'; a whole number of at most 9 digits is needed"),
    ("1 1:1\n", f":1: '1:1' where the qid should be; {FORM}"),
    ("1 qid:1 1:1\n0\n", f":2: no qid; {FORM}"),
    ("1 qi\n", f":1: 'qi' where the qid should be; {FORM}"),
    ("1 qid: 1:1\n", ":1: the qid is empty; every id needs at least one character"),
    ("1 qid:" + "7" * 300, f":1: the qid begins '{'7' * 40}' and has more than 255 bytes; is this a LETOR file?"),
    ("1 qid:a\0 1:1\n", r":1: the qid 'a\x00' holds a zero byte"),
    (
        "1 qid:1 1:1\n1 qid:2 1:1\n\n0 qid:2 1:1\n0 qid:1 1:1\n",
        ":5: query '1' again, after other queries; its rows began at line 1. "
        "Put the rows of a query together: sort -s -k2,2 FILE",
    ),
    ("", ": the file holds no rows"),
    ("# nothing\n\n", ": the file holds no rows"),
    ("1 qid:1\n2 qid:1 # no features\n", ": no line has a feature; features are written id:value"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_the_sentence_a_broken_file_gets(
    content: str, message: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = new_file(content)
    with pytest.raises(FormatError) as caught:
        read_letor(file)
    assert str(caught.value) == f"{file}{message}"
    with pytest.raises(FormatError) as caught:
        list(LetorStream(file, chunk_bytes=block_bytes))
    assert str(caught.value) == f"{file}{message}"


@given(st.text("01 :.-eq#id\n\t", max_size=30))
@settings(deadline=None, max_examples=100)
def test_what_a_slow_reader_refuses_is_refused(text: str) -> None:
    text = f"1 qid:1 1:1\n{text}"
    file = new_file(text)
    try:
        rows = oracles.svmlight_rows(text)
    except ValueError:
        with pytest.raises(FormatError, match=r":\d+: "):
            read_letor(file)
        return
    targets, qids, cells, comments = zip(*rows, strict=True)
    runs = [name for name, before in zip(qids, [None, *qids], strict=False) if name != before]
    if len(set(runs)) < len(runs) or any(target != int(target) for target in targets):
        with pytest.raises(FormatError):
            read_letor(file)
        return
    try:
        found = read_letor(file, dense=False)
    except FormatError as error:
        assert "grade" in error.message  # noqa: PT017  (such as 1e0, which is whole and yet refused)
        return
    assert (tuple(found.y), tuple(map(str, found.qid)), found.comments or ("",) * len(rows)) == (
        targets,
        qids,
        comments,
    )
    for row, (start, stop) in enumerate(pairwise(found.X.indptr)):
        stored = dict(zip((found.X.indices[start:stop] + 1).tolist(), found.X.data[start:stop].tolist(), strict=True))
        assert stored == {feature: float(np.float32(value)) for feature, value in cells[row].items() if value}


def test_encodings_and_packing_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_bytes(b"1 qid:1 1:1\n1 qid:\xff 1:1\n")
    with pytest.raises(FormatError, match=r"data\.txt:2: byte 0xff at offset 18 is not UTF-8; convert"):
        read_letor(file)
    file.write_bytes("1 qid:1 1:1\n".encode("utf-16"))
    with pytest.raises(FormatError, match=r"data\.txt:1: the file is UTF-16"):
        read_letor(file)
    file.write_bytes(gzip.compress(b"1 qid:1 1:1\n")[:-4])
    with pytest.raises(FormatError, match=r"data\.txt:\d: the gzip data ends in the middle"):
        read_letor(file)
    with pytest.raises(FormatError, match="there is no such file"):
        read_letor(tmp_path / "nothing")
    monster = tmp_path / "monster"
    monster.write_bytes(b"1" * 100)
    with pytest.raises(FormatError, match=r"grade '1111"):
        read_letor(monster)


def test_wrong_parameters_say_what() -> None:
    file = new_file("1 qid:1 1:1\n")
    for call in (
        lambda: read_letor(file, 0),
        lambda: read_letor(file, 2.5),  # type: ignore[arg-type]
        lambda: read_letor(file, "2"),  # type: ignore[arg-type]
        lambda: list(LetorStream(file, chunk_bytes=0)),
    ):
        with pytest.raises(InputError, match=r"must be .*[Gg]ot (0|2\.5|'2')"):
            call()


# -- the value --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"X": [1.0, 2.0, 3.0]}, "Got shape (3,)"),
        ({"X": [[1.0], [np.nan], [0.0]]}, "not finite"),
        ({"X": [[1.0], [1e39], [0.0]]}, "not finite numbers within float32"),
        ({"X": sparse.csr_array(np.array([[1.0], [-1e39], [0.0]]))}, "not finite numbers within float32"),
        ({"y": np.array([1, 2**63, 0], np.uint64)}, "y[1] is 9223372036854775808; grades are whole numbers within 64"),
        ({"X": sparse.csr_array(np.array([[1.0], [np.inf], [0.0]]))}, "not finite"),
        ({"y": [1, 2]}, "3 grades, one per row. Got shape (2,)"),
        ({"y": [1, 2, 0.5]}, "y[2] is 0.5; grades are whole numbers"),
        ({"y": [1, np.nan, 0.5]}, "y[1] is nan; grades are whole numbers"),
        ({"qid": [1.0, 1.0, 2.0]}, "3 strings or integers, one per row. Got shape (3,), dtype float64"),
        ({"qid": ["a", "b", "a"]}, "Query 'a' is at row 2 again, after other queries; its rows began at row 0."),
        ({"qid": ["a", "", ""]}, "The qid of row 1 is empty"),
        ({"comments": ["x"]}, "comments must be 3 strings"),
    ],
)
def test_a_wrong_value_says_what_and_where(change: dict[str, object], complaint: str) -> None:
    good = {"X": [[1.0], [2.0], [3.0]], "y": [1.0, 0.0, 2.0], "qid": [7, 7, 8]}
    assert LetorData(**good).qid.tolist() == [7, 7, 8]  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        LetorData(**{**good, **change})  # type: ignore[arg-type]
    assert complaint in str(caught.value)


def test_a_value_cannot_be_written_to_and_leaves_the_callers_array_alone() -> None:
    X = np.ones((2, 1), np.float32)
    data = LetorData(X, [1, 0], ["a", "a"])
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 2
    X[0, 0] = 3


# -- writing ----------------------------------------------------------------------------------------------------


@given(sets(), st.booleans(), st.sampled_from(["f", "f.gz"]))
@QUICK
def test_what_is_written_is_read_back_to_the_bit(data: LetorData, dense: bool, name: str) -> None:
    if not dense:
        X = sparse.csr_array(data.X)
        X.eliminate_zeros()
        data = LetorData(X, data.y, data.qid, data.comments)
    file = new_file("").with_name(name)
    write_letor(file, data)
    same(read_letor(file, dense=dense), data)


def test_values_are_written_in_their_fewest_decimals(tmp_path: Path) -> None:
    X = np.array([[0.1, 1, 0.000123, 1234.5, -0.25, 16777216, 0.1234567, 1e-30]], np.float32)
    write_letor(tmp_path / "f", LetorData(X[:, :7], [1], ["a"]))
    cells = "1:0.1 2:1 3:0.000123 4:1234.5 5:-0.25 6:16777216 7:0.1234567"
    assert (tmp_path / "f").read_text() == f"1 qid:a {cells}\n"
    write_letor(tmp_path / "f", LetorData(X[:, 7:], [1], ["a"]))
    assert (tmp_path / "f").read_text() == "1 qid:a 1:1e-30\n"


@pytest.mark.parametrize(
    ("X", "y", "qid", "complaint"),
    [
        ([["a"]], [1], ["q"], "X must be a .rows, features. array of numbers: could not convert string to float"),
        ([[1.0], [1.0, 2.0]], [1, 0], ["q", "q"], "X must be a .rows, features. array of numbers: "),
        ([[1.0], [2.0]], [[1], [1, 2]], ["q", "q"], "y is no array of one value per row: "),
        ([[1.0], [2.0]], [1, 0], [["q"], ["q", "r"]], "qid is no array of one value per row: "),
    ],
)
def test_rows_of_several_lengths_and_words_are_refused(X: list, y: list, qid: list, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        LetorData(X, y, qid)


@pytest.mark.filterwarnings("error")
def test_grades_of_half_a_float_are_whole_numbers() -> None:
    assert LetorData([[1.0]], np.array([2], np.float16), ["q"]).y.tolist() == [2]


@pytest.mark.parametrize(
    ("ids", "numbers"),
    [
        (["10", "-9"], [10, -9]),
        (["10", "007"], None),
        (["10", "q"], None),
        (["10", "٣"], None),
        (["10", "+9"], None),
        (["10", "9223372036854775808"], None),
        ([10, 9], [10, 9]),
        (np.array([10, 2**63], np.uint64), None),
    ],
)
def test_query_ids_are_numbers_if_every_id_prints_as_its_number(ids: list, numbers: list | None) -> None:
    data = LetorData(np.eye(2), [1, 0], ids)
    names = [str(one) for one in ids]
    assert (data.qid.tolist(), data.qids.tolist()) == (numbers or names, names)
    assert data.qid.dtype == (np.int64 if numbers else data.qids.dtype)
    for one, other in zip(query_folds(data.qid, 2), query_folds(names, 2), strict=True):
        assert [rows.tolist() for rows in one] == [rows.tolist() for rows in other]


@pytest.mark.parametrize("qid", [["a", "a", "b", "c"], [2, 2, 1, 7]])
def test_queries_of_a_column_of_a_frame_are_those_of_a_list(qid: list) -> None:
    columns = [pd.Series(qid), pd.Series(qid, dtype=object), pd.Series(qid, dtype="category")]
    for column in columns:
        assert LetorData(np.eye(4), [1, 0, 1, 0], column).qid.tolist() == qid
        for one, other in zip(query_folds(column, 2), query_folds(qid, 2), strict=True):
            assert [rows.tolist() for rows in one] == [rows.tolist() for rows in other]
    mixed = pd.Series([*qid[:3], None], dtype=object)
    for refused in (mixed, pd.Series(["1", 1, "1", 1], dtype=object)):
        with pytest.raises(InputError, match=r"qid must hold .*strings or integers"):
            query_folds(refused, 2)
        with pytest.raises(InputError, match=r"qid must hold .*strings or integers"):
            LetorData(np.eye(4), [1, 0, 1, 0], refused)


def test_several_sets_are_one_file(tmp_path: Path) -> None:
    sets = [LetorData([[0.5, 0]], [1], ["a"]), LetorData([[1.0, 0.25]], [2], ["b"])]
    write_letor(tmp_path / "f", iter(sets))
    assert read_letor(tmp_path / "f").X.tolist() == [[0.5, 0], [1.0, 0.25]]
    for wrong, complaint in [
        ([*sets, sets[0]], "query 'a' is in two chunks"),
        ([sets[0], LetorData([[1.0]], [1], ["c"])], "1 features, those before have 2"),
        ([], "no rows"),
    ]:
        with pytest.raises(InputError, match=complaint):
            write_letor(tmp_path / "f", iter(wrong))
    assert len(read_letor(tmp_path / "f")) == 2  # a failed writing leaves what was there


@pytest.mark.parametrize(
    ("qid", "comment"),
    [("a b", ""), ("a#b", ""), ("a" * 256, ""), ("a\u00a0", ""), ("a", " x"), ("a", "x\ny"), ("a", "x\r")],
)
def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, qid: str, comment: str) -> None:
    with pytest.raises(InputError, match="cannot write"):
        write_letor(tmp_path / "f", LetorData([[1.0]], [1], [qid], [comment]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (LetorData([[1.0], [1.0]], [1, -(10**9)], ["a", "a"]), r"y\[1\] is -1000000000; grades have at most 9 digits"),
        (LetorData([[1.0]], [-(2**63)], ["a"]), r"y\[0\] is -9223372036854775808; grades have at most 9 digits"),
        (LetorData(np.zeros((1, 0)), [1], ["a"]), "0 features; a file holds from 1 to"),
        (LetorData(sparse.csr_array((1, 2**31), dtype=np.float32), [1], ["a"]), "2147483648 features"),
    ],
)
def test_sets_no_file_can_hold_are_not_written(tmp_path: Path, data: LetorData, complaint: str) -> None:
    with pytest.raises(InputError, match=f"cannot write: {complaint}"):
        write_letor(tmp_path / "f", data)
    assert list(tmp_path.iterdir()) == []


# -- folds ------------------------------------------------------------------------------------------------------


def fold_files(n_folds: int = 2) -> dict[str, bytes]:
    names = [(f"Fold{fold}", part) for fold in range(1, n_folds + 1) for part in ("train", "vali", "test")]
    return {
        f"{fold}/{part}.txt": f"1 qid:{part} 1:0.{i + 1} {i + 1}:1\n".replace(" 1:1\n", "\n").encode()
        for i, (fold, part) in enumerate(names)
    }


def packed(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["folder", "tar", "tar.gz"])
def test_folds_from_a_folder_or_an_archive(tmp_path: Path, kind: str) -> None:
    files = fold_files(11)
    position = tmp_path / "set"
    if kind == "folder":
        for name, content in files.items():
            (position / name).parent.mkdir(parents=True, exist_ok=True)
            (position / name).write_bytes(content)
        (position / "Fold2" / "vali.txt").unlink()
        (position / "Fold2" / "vali.txt.gz").write_bytes(gzip.compress(files["Fold2/vali.txt"]))
        (position / "notes").mkdir()
    else:
        inside = {f"QueryLevelNorm/{name}": content for name, content in reversed(files.items())}
        position.write_bytes(packed({**inside, "README": b"x"}, "w:gz" if kind == "tar.gz" else "w"))
    folds = read_letor_folds(position)
    assert [fold.name for fold in folds] == [f"Fold{i}" for i in range(1, 12)]
    shapes = {data.X.shape for fold in folds for data in (fold.train, fold.vali, fold.test)}
    assert shapes == {(1, 33)}
    assert folds[1].vali.qid.tolist() == ["vali"]
    first = sparse.csr_array(folds[1].vali.X).toarray()[0]
    assert np.flatnonzero(first).tolist() == [0, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop("Fold2/vali.txt"), "Fold2 has no vali.txt; a set of folds holds"),
        (lambda files: files.clear(), "there is no fold here; a set of folds holds"),
        (
            lambda files: files.update({"Fold1/test.txt": b"1 qid:1 0:1\n"}),
            r"Fold1/test\.txt:1: feature id 0; ids start",
        ),
        (
            lambda files: files.update({"x/Fold1/test.txt": b"1 qid:1 1:1\n"}),
            r"Fold1/test\.txt is here twice",
        ),
    ],
)
def test_broken_sets_of_folds(tmp_path: Path, change: Callable[[dict[str, bytes]], object], message: str) -> None:
    files = fold_files()
    change(files)
    (tmp_path / "set").write_bytes(packed(files))
    with pytest.raises(FormatError, match=message):
        read_letor_folds(tmp_path / "set")
    if "twice" not in message:
        (tmp_path / "folder").mkdir()
        for name, content in files.items():
            (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "folder" / name).write_bytes(content)
        with pytest.raises(FormatError, match=message):
            read_letor_folds(tmp_path / "folder")


def test_damaged_archives_are_noticed(tmp_path: Path) -> None:
    whole = packed(fold_files())
    (tmp_path / "set").write_bytes(whole[:-6])
    with pytest.raises(FormatError, match="gzip data"):
        read_letor_folds(tmp_path / "set")
    (tmp_path / "set").write_bytes(gzip.compress(b"no tar at all" * 100))
    with pytest.raises(FormatError, match="the tar archive is broken"):
        read_letor_folds(tmp_path / "set")


def test_a_digest_of_samples_notices_what_happens_to_files(tmp_path: Path) -> None:
    path = tmp_path / "large"
    data = bytearray(np.random.default_rng(0).integers(0, 256, 6 << 20, dtype=np.uint8).tobytes())
    found = set()
    for change in ("none", "appended", "cut", "first", "last"):
        changed = bytearray(data)
        if change == "appended":
            changed += b"x"
        elif change == "cut":
            del changed[-1:]
        elif change != "none":
            changed[0 if change == "first" else -1] ^= 1
        path.write_bytes(changed)
        found.add(sampled_digest(path))
    assert len(found) == 5
