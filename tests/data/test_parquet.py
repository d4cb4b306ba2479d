"""Preferences in Parquet files: read as any table of triplets, and refused by row."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tercet.data.tables import is_parquet
from tercet.data.triplets import read_triplets
from tercet.errors import FormatError, MissingExtraError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

GOOD = {"query": ["q1", "q2", "007", "q1"], "better": ["a", "b", "é", "a"], "worse": ["b", "a", "1e5", "c"]}


def write(path, columns, **options):
    parquet.write_table(pa.table(columns), path, **options)
    return path


def test_threes_are_those_of_the_same_lines(tmp_path):
    path = write(tmp_path / "p.parquet", GOOD, row_group_size=3)
    assert read_triplets(path).triplets == list(zip(*GOOD.values(), strict=True))
    weights = [1.0, 2.0, 0.5, 4.0]
    write(path, {**GOOD, "weight": weights, "margin": weights})
    lines = ["\t".join(map(str, row)) for row in zip(*GOOD.values(), weights, weights, strict=True)]
    header = "\t".join([*GOOD, "weight", "margin"])
    (tmp_path / "p.tsv").write_text("\n".join([header, *lines]), encoding="utf-8")
    mine, theirs = read_triplets(path), read_triplets(tmp_path / "p.tsv")
    assert mine.triplets == theirs.triplets


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
    assert read_triplets(path).triplets == list(zip(*GOOD.values(), strict=True))


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int32(), pa.uint8(), pa.float16()])
def test_weights_of_every_kind_are_read(kind, tmp_path):
    numbers = pa.array(np.array([1, 2, 3, 4], dtype=kind.to_pandas_dtype()), type=kind)
    read = read_triplets(write(tmp_path / "p.parquet", {**GOOD, "weight": numbers}))
    assert [weight for *_, weight in read.triplets] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"query": ["q"], "better": ["a"]}, "Which column holds the worse document"),
        ({**GOOD, "weight": [True] * 4}, "row 1: weight True; a positive, finite number"),
        ({**GOOD, "better": ["a", "b", None, "a"]}, "row 3: better is empty"),
        ({**GOOD, "weight": [1.0, None, 1.0, 1.0]}, "row 2: weight None; a positive, finite number"),
        ({**GOOD, "weight": [1.0, 1.0, 1.0, 0.0]}, "row 4: weight 0.0; a positive, finite number"),
        ({**GOOD, "query": ["q", "", "q", "q"]}, "row 2: query is empty"),
        ({**GOOD, "worse": ["b", "a", "a\tb", "c"]}, "row 3: worse 'a\\\\tb' holds a tab"),
        ({**GOOD, "worse": ["b", "a", "é", "c"]}, "row 3: better and worse are both 'é'"),
        ({name: pa.array([], pa.string()) for name in GOOD}, "holds no "),
    ],
)
def test_what_is_wrong_is_named_with_its_row(columns, message, tmp_path):
    path = write(tmp_path / "p.parquet", columns, row_group_size=2)
    with pytest.raises(FormatError, match=message):
        read_triplets(path)


def test_bad_rows_may_be_left_out(tmp_path):
    columns = {
        "query": ["q1", "q1", "", "q2", "q1", None],
        "better": ["a", "b", "a", "c", "b", "a"],
        "worse": ["b", "b", "c", "a", "a", "b"],
        "weight": [1.0, 1.0, 1.0, -1.0, 1.0, 1.0],
    }
    problems = []
    read = read_triplets(write(tmp_path / "p.parquet", columns, row_group_size=3), refused=problems.append)
    assert read.triplets == [("q1", "a", "b", 1.0), ("q1", "b", "a", 1.0)]
    assert [problem.message for problem in problems] == [
        "row 2: better and worse are both 'b'; a preference needs two documents",
        "row 3: query is empty; a query needs words",
        "row 4: weight -1.0; a positive, finite number is needed",
        "row 6: query is empty; a query needs words",
    ]


def test_a_damaged_file_is_refused(tmp_path):
    path = write(tmp_path / "p.parquet", GOOD)
    path.write_bytes(path.read_bytes()[:-20])
    assert is_parquet(path)
    with pytest.raises(FormatError, match="the Parquet data cannot be read"):
        read_triplets(path)
    assert not is_parquet(tmp_path / "none")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "p.parquet", GOOD)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"needs pyarrow: .*pip install .*\[parquet\]'"):
        read_triplets(path)


@pytest.mark.slow
def test_nobody_pays_for_parquet_who_does_not_read_it():
    program = "import sys, tercet, tercet.data.triplets; sys.exit('pyarrow.parquet' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
