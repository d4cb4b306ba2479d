"""Preferences in Parquet files: what is read, and what is refused by row group and row."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tercet.data import iter_preferences, read_preferences
from tercet.data.parquet import is_parquet, parquet_batches, parquet_rows
from tercet.data.preference_files import StreamPosition, count_preferences, stretches
from tercet.errors import FormatError, MissingExtraError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

GOOD = {"query": ["q1", "q2", "007", "q1"], "better": ["a", "b", "é", "a"], "worse": ["b", "a", "1e5", "c"]}


def write(path, columns, **options):
    parquet.write_table(pa.table(columns), path, **options)
    return path


def read(path, **place):
    return [triples for _, _, triples in parquet_batches(path, **place)]


def test_ids_stay_as_they_are(tmp_path):
    path = write(tmp_path / "p.parquet", GOOD)
    [found] = read(path)
    assert (found.qid, found.better, found.worse) == tuple(map(tuple, GOOD.values()))
    assert found.weight is None
    assert found.margin is None
    assert parquet_rows(path) == count_preferences(path) == 4


def test_the_reader_of_preferences_takes_parquet_too(tmp_path):
    path = write(tmp_path / "p.parquet", {**GOOD, "weight": [1.0, 2.0, 0.5, 4.0]}, row_group_size=3)
    lines = ["\t".join(map(str, row)) for row in zip(*GOOD.values(), [1.0, 2.0, 0.5, 4.0], strict=True)]
    (tmp_path / "p.tsv").write_text("\n".join(lines), encoding="utf-8")
    for reader in (read_preferences, lambda file: next(iter_preferences(file))):
        mine, theirs = reader(path), reader(tmp_path / "p.tsv")
        n = len(mine)
        assert n == (4 if reader is read_preferences else 3)
        assert (mine.qid, mine.better, mine.worse) == (theirs.qid[:n], theirs.better[:n], theirs.worse[:n])
        assert mine.weight.tolist() == theirs.weight[:n].tolist()
    with pytest.raises(FormatError, match="the column 'worse' is missing"):
        read_preferences(write(tmp_path / "q.parquet", {name: GOOD[name] for name in ("query", "better")}))


@pytest.mark.parametrize("kind", ["large_string", "dictionary", "string_view"])
def test_strings_of_every_kind_are_read(kind, tmp_path):
    kinds = {
        "large_string": pa.large_string(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
        "string_view": pa.string_view(),
    }
    try:
        columns = {name: pa.array(values).cast(kinds[kind]) for name, values in GOOD.items()}
        path = write(tmp_path / "p.parquet", columns)
    except pa.ArrowNotImplementedError as error:
        pytest.skip(f"pyarrow {pa.__version__} cannot write {kind}, which it reads: {error}")
    [found] = read(path)
    assert found.qid == tuple(GOOD["query"])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int32(), pa.uint8(), pa.float16()])
def test_numbers_of_every_kind_are_read(kind, tmp_path):
    numbers = pa.array(np.array([1, 2, 3, 4], dtype=kind.to_pandas_dtype()), type=kind)
    [found] = read(write(tmp_path / "p.parquet", {**GOOD, "margin": numbers}))
    assert found.weight is None
    assert found.margin.tolist() == [1, 2, 3, 4]


def test_any_place_can_be_gone_to(tmp_path):
    path = write(tmp_path / "p.parquet", GOOD, row_group_size=3)
    assert [(group, list(rows), one.qid) for group, rows, one in parquet_batches(path, size=2)] == [
        (0, [1, 2], ("q1", "q2")),
        (0, [3], ("007",)),
        (1, [1], ("q1",)),
    ]
    assert [(group, list(rows), one.qid) for group, rows, one in parquet_batches(path, 0, 1, size=2)] == [
        (0, [2], ("q2",)),
        (0, [3], ("007",)),
        (1, [1], ("q1",)),
    ]
    assert [one.after for one in stretches(path, StreamPosition(1, 0))] == [StreamPosition(1, 1)]
    assert list(stretches(path, StreamPosition(1, 1))) == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"query": ["q"], "better": ["a"]}, "the column 'worse' is missing; found query, better"),
        (
            {**GOOD, "wieght": [1.0] * 4},
            "unknown column 'wieght'; the columns are query, better, worse, weight, margin",
        ),
        ({**GOOD, "query": [1, 2, 3, 4]}, "the column 'query' is of type int64; ids are strings"),
        ({**GOOD, "weight": ["1"] * 4}, "the column 'weight' is of type string; numbers are needed"),
        ({**GOOD, "weight": [True] * 4}, "the column 'weight' is of type bool; numbers are needed"),
        ({**GOOD, "better": ["a", "b", None, "a"]}, "row group 1, row 1: better is null; every row needs one"),
        ({**GOOD, "weight": [1.0, None, 1.0, 1.0]}, "row group 0, row 2: weight is null"),
        ({**GOOD, "weight": [1.0, 1.0, 1.0, 0.0]}, "row group 1, row 2: weight 0.0; a positive, finite number"),
        ({**GOOD, "margin": [1.0, np.nan, 1.0, 1.0]}, "row group 0, row 2: margin nan; a positive, finite number"),
        ({**GOOD, "query": ["q", "", "q", "q"]}, "row group 0, row 2: the query id is empty"),
        ({**GOOD, "worse": ["b", "a", "a\tb", "c"]}, "row group 1, row 1: the worse id 'a\\\\tb' holds a tab"),
        ({**GOOD, "worse": ["b", "a", "é", "c"]}, "row group 1, row 1: better and worse are both 'é'"),
        ({name: pa.array([], pa.string()) for name in GOOD}, "the file holds no preferences"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(columns, message, tmp_path):
    path = write(tmp_path / "p.parquet", columns, row_group_size=2)
    with pytest.raises(FormatError, match=message):
        read(path)


def test_all_that_is_wrong_is_listed(tmp_path):
    columns = {
        "query": ["q1", "q1", "", "q2", "q1", None],
        "better": ["a", "b", "a", "c", "b", "a"],
        "worse": ["b", "b", "c", "a", "a", "b"],
        "weight": [1.0, 1.0, -1.0, np.nan, 1.0, 1.0],
    }
    path = write(tmp_path / "p.parquet", columns, row_group_size=3)
    problems = []
    batches = list(parquet_batches(path, refused=problems.append))
    assert [one for _, _, triples in batches for one in triples.better] == ["a", "b"]
    assert {(problem.kind, problem.message) for problem in problems} == {
        ("id", "row group 0, row 3: the query id is empty; every id needs at least one character"),
        ("format", "row group 0, row 2: better and worse are both 'b'; a preference needs two documents"),
        ("format", "row group 1, row 3: query is null; every row needs one"),
        ("format", "row group 1, row 1: weight nan; a positive, finite number is needed"),
    }


def test_a_damaged_file_is_refused(tmp_path):
    path = write(tmp_path / "p.parquet", GOOD)
    path.write_bytes(path.read_bytes()[:-20])
    assert is_parquet(path)
    with pytest.raises(FormatError, match="the Parquet data cannot be read"):
        read(path)
    assert not is_parquet(tmp_path / "none")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "p.parquet", GOOD)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"needs pyarrow: .*pip install .*\[parquet\]'"):
        read(path)


@pytest.mark.slow
def test_nobody_pays_for_parquet_who_does_not_read_it():
    program = "import sys, tercet, tercet.learn.streams; sys.exit('pyarrow.parquet' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
