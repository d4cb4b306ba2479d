"""Learning curves: what is kept, and that the CSV reads back and is whole."""

from __future__ import annotations

import csv
import os
from types import SimpleNamespace

import numpy as np
import pytest

from tercet.measure import CurvePoint, LearningCurve


def event(step, validation=None):
    return SimpleNamespace(
        step=step, seconds=0.1 * step, violation_rate=np.float32(0.25), loss=1 / 3, validation=validation
    )


def test_rows_are_kept_in_order():
    curve = LearningCurve()
    assert curve(event(np.int64(10))) is None
    curve(event(20, validation=np.float64(0.5)))
    assert len(curve) == 2
    assert curve.rows == (
        CurvePoint(10, 1.0, 0.25, 1 / 3, None),
        CurvePoint(20, 2.0, 0.25, 1 / 3, 0.5),
    )
    assert type(curve.rows[0].step) is int
    assert type(curve.rows[1].validation) is float


def test_rows_handed_out_do_not_grow():
    curve = LearningCurve()
    before = curve.rows
    curve(event(1))
    assert before == ()


def test_csv_reads_back(tmp_path):
    curve = LearningCurve()
    curve(event(10))
    curve(event(20, validation=0.1 + 0.2))
    path = tmp_path / "curve.csv"
    path.write_text("old")
    curve.to_csv(path)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "seconds", "violation_rate", "loss", "validation"]
    assert rows[0]["validation"] == ""
    assert float(rows[1]["validation"]) == 0.1 + 0.2
    assert float(rows[1]["loss"]) == 1 / 3
    assert os.listdir(tmp_path) == ["curve.csv"]


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    def full_disk(handle):
        raise OSError("No space left on device")

    curve = LearningCurve()
    curve(event(1))
    path = tmp_path / "curve.csv"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        curve.to_csv(str(path))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["curve.csv"]


def test_an_event_without_the_fields_is_refused():
    with pytest.raises(AttributeError, match="violation_rate"):
        LearningCurve()(SimpleNamespace(step=1, seconds=1.0, loss=0.1, validation=None))
