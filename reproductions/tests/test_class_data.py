"""Rows with classes from SVMlight files: choice of files, preprocessing and test queries."""

from __future__ import annotations

import bz2
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reproductions.datasets import load_dataset, with_data_found
from reproductions.plan import PlanData, find_plan
from reproductions.tasks import ClassTask, WeightedMatch
from tercet.errors import FormatError, MissingDataError
from tercet.measure import average_precision_of_classes
from tercet.weights import Identity, Weights

PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
SMALL = PlanData("Rows", "svmlight", ("rows/small_train.svm", "rows/small_test.svm"), compare=False, note="Others.")
ROWS = PlanData(
    "Rows",
    "svmlight",
    ("rows/all_train.multiclass", "rows/all_test.multiclass"),
    n_features=40,
    max_features=12,
    unit_length=True,
    test_queries=9,
    instead=(SMALL,),
)


def write_rows(path: Path, n: int, n_classes: int, ending: str = "") -> Path:
    """As LIBSVM lays them out: a class, ascending ids from 1, a blank at the end of the line."""
    rng = np.random.default_rng(n)
    lines = []
    for i in range(n):
        ids = sorted({1 + i % n_classes, *(1 + rng.integers(0, 40, 6)).tolist()})
        lines.append(f"{i % n_classes} " + "".join(f"{j}:{rng.random():.6f} " for j in ids))
    path.parent.mkdir(exist_ok=True)
    file = path.with_name(path.name + ending)
    file.write_bytes(PACK[ending](("\n".join(lines) + "\n").encode()))
    return file


@pytest.fixture
def home(tmp_path) -> Path:
    write_rows(tmp_path / "rows/all_train.multiclass", 60, 5, ".bz2")
    write_rows(tmp_path / "rows/all_test.multiclass", 70, 7, ".bz2")
    write_rows(tmp_path / "rows/small_train.svm", 12, 3)
    write_rows(tmp_path / "rows/small_test.svm", 9, 3)
    return tmp_path


def load_task(data: PlanData, home: Path) -> ClassTask:
    [task] = load_dataset(data, home).tasks
    assert isinstance(task, ClassTask)
    return task


@pytest.mark.parametrize("ending", PACK)
def test_files_may_be_packed(home, ending):
    for part, n, n_classes in (("train", 60, 5), ("test", 70, 7)):
        (home / f"rows/all_{part}.multiclass.bz2").unlink()
        write_rows(home / f"rows/all_{part}.multiclass", n, n_classes, ending)
    # Two of the classes are in the test half alone.
    assert list(load_dataset(ROWS, home).statistics.values()) == [60, 70, 7, 12, 144]


def test_a_missing_file_is_named(home):
    (home / "rows/all_test.multiclass.bz2").unlink()
    with pytest.raises(MissingDataError, match=r"all_test.multiclass; or for .*small_train.svm"):
        load_dataset(ROWS, home)


def test_a_prepared_task_is_the_same(home, tmp_path):
    first = load_dataset(ROWS, home, prepared=tmp_path / "data")
    (home / "rows/all_test.multiclass.bz2").unlink()
    again = load_dataset(ROWS, home, prepared=tmp_path / "data")
    assert again.statistics == first.statistics
    [one], [other] = first.tasks, again.tasks
    for name in ("Q", "Q_test"):
        np.testing.assert_array_equal(getattr(one, name).toarray(), getattr(other, name).toarray())
    np.testing.assert_array_equal(one.y_test, other.y_test)
    assert one.test_queries == other.test_queries == 9


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:-20], r"all_test\.multiclass\.bz2: .* Compressed file ended"),
        (lambda raw: raw[:40] + bytes(30) + raw[70:], r"all_test\.multiclass\.bz2: .* Invalid data stream"),
        (lambda raw: bz2.compress(b"3 1:1 \n4 41:1 \n"), r"all_test\.multiclass\.bz2: .* of 40 features: .*41"),
    ],
    ids=["truncated", "damaged", "too-many-features"],
)
def test_a_file_that_is_there_and_wrong_is_an_error_not_a_reason_to_read_others(home, damage, message):
    file = home / "rows/all_test.multiclass.bz2"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FormatError, match=message):
        load_dataset(ROWS, home)


def test_the_words_of_most_training_rows_are_kept_in_unit_length(home):
    task, whole = load_task(ROWS, home), load_task(replace(ROWS, max_features=None, unit_length=False), home)
    n_rows = np.bincount(whole.Q.indices, minlength=40)
    kept = np.sort(np.argsort(-n_rows, kind="stable")[:12])
    for found, full in ((task.Q, whole.Q), (task.Q_test, whole.Q_test)):
        expected = full.toarray()[:, kept].astype(float)
        length = np.sqrt((expected**2).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(found.toarray(), expected / np.where(length == 0, 1, length), atol=1e-6)


def test_a_sample_of_queries_is_asked_against_all_documents(home):
    task, weights = load_task(ROWS, home), Weights([Identity(n_terms=12)])
    measured = task.measure(WeightedMatch(weights), task.test(50, 0))
    everyone = average_precision_of_classes(weights, task.Q_test, task.y_test)
    asked = np.sort(np.random.default_rng(0).choice(70, 9, replace=False))
    assert measured.by_query["map"] == everyone[asked].tolist()
    assert measured.means["map"] == everyone[asked].mean()
    more = replace(task, test_queries=71).measure(WeightedMatch(weights), task.test(50, 0))
    assert more.by_query["map"] == everyone.tolist()


def test_chen_et_al_are_compared_on_libsvms_rcv1_and_not_on_a_subset(tmp_path):
    def found():
        return with_data_found(find_plan("chen2010"), tmp_path, None, tmp_path / "data").datasets["rcv1"]

    for part in ("train", "test"):
        write_rows(tmp_path / f"rcv1/rcv1_level2_multiclass_{part}.svm.gz", 8, 2)
    assert (found().compare, found().test_queries, "subset" in found().description) == (False, None, True)
    for part in ("train", "test"):
        write_rows(tmp_path / f"rcv1/rcv1_{part}.multiclass", 8, 2, ".bz2")
    assert (found().compare, found().test_queries, found().n_features) == (True, 1_000, 47_236)
