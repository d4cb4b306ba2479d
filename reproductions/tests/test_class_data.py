"""Rows with classes from SVMlight files: choice of files, preprocessing and test queries."""

from __future__ import annotations

import bz2
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reproductions.datasets import found_data, load_dataset, with_data_found
from reproductions.plan import PlanData
from reproductions.plan_reading import find_plan
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
def test_the_papers_files_come_first_packed_or_not(home, ending):
    for part, n, n_classes in (("train", 60, 5), ("test", 70, 7)):
        (home / f"rows/all_{part}.multiclass.bz2").unlink()
        write_rows(home / f"rows/all_{part}.multiclass", n, n_classes, ending)
    found = found_data(ROWS, home)
    assert (found.compare, found.instead, found.files) == (True, (), ROWS.files)
    assert found.description == "MAP is over 9 test queries drawn with a fixed seed, each against all test documents."
    # Two of the classes are in the test half alone.
    facts = load_dataset(ROWS, home).statistics
    assert list(facts.values()) == [60, 70, 7, 12, 144]


def test_others_are_read_instead_and_say_so(home):
    (home / "rows/all_test.multiclass.bz2").unlink()
    found = found_data(ROWS, home)
    lacking = "Others. The paper's own files are not complete: there is no rows/all_test.multiclass."
    assert found == replace(SMALL, note=lacking)
    assert load_dataset(ROWS, home).statistics["training samples"] == 12
    (home / "rows/all_train.multiclass.bz2").unlink()
    assert found_data(ROWS, home) == SMALL
    (home / "rows/small_test.svm").unlink()
    assert found_data(ROWS, home) == ROWS
    with pytest.raises(
        MissingDataError, match=r"all_train.multiclass, .*all_test.multiclass; or for .*small_train.svm"
    ):
        load_dataset(ROWS, home)


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
    assert task.digest() != replace(task, test_queries=None).digest()
    more = replace(task, test_queries=71).measure(WeightedMatch(weights), task.test(50, 0))
    assert more.by_query["map"] == everyone.tolist()


def test_chen_et_al_are_compared_on_libsvms_rcv1_and_not_on_a_subset(tmp_path):
    plan = find_plan("chen2010")
    for part in ("train", "test"):
        write_rows(tmp_path / f"rcv1/rcv1_level2_multiclass_{part}.svm.gz", 8, 2)
    subset = with_data_found(plan, tmp_path).datasets["rcv1"]
    assert (subset.compare, subset.test_queries, "subset" in subset.description) == (False, None, True)
    for part in ("train", "test"):
        write_rows(tmp_path / f"rcv1/rcv1_{part}.multiclass", 8, 2, ".bz2")
    whole = with_data_found(plan, tmp_path).datasets["rcv1"]
    assert (whole.compare, whole.test_queries, whole.n_features, whole.max_features) == (True, 1_000, 47_236, 10_000)
