"""Hits in frames and notebooks: what can be seen is what a user asked for, and nothing of it is HTML."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from support.indexes import DOCS, small_model
from tercet.errors import MissingExtraError
from tercet.search import Index, Results

ROWS: list[dict[str, Any]] = [
    {"id": "a<b>", "text": "green <i>tea</i>", "price": 1.5, "score": "x"},
    {"id": "b", "text": "black tea", "price": None, "color": "<script>"},
]


@pytest.fixture
def hits() -> Results:
    return Index.build(ROWS).search("tea guava")


def test_a_frame_has_ids_scores_texts_and_what_is_carried(hits: Results) -> None:
    frame = hits.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["doc_id"].tolist() == [hit.doc_id for hit in hits]
    assert frame["score"].tolist() == [hit.score for hit in hits]
    assert sorted(frame.columns) == ["color", "doc_id", "price", "score", "stored_fields.score", "text"]
    assert frame.set_index("doc_id").loc["a<b>", "stored_fields.score"] == "x"
    assert pd.DataFrame(hits).columns.tolist() == ["doc_id", "score"]
    assert Index.build(DOCS, keep_texts=False).search("green").to_frame().columns.tolist() == ["doc_id", "score"]
    assert len(Results().to_frame()) == 0
    for stored_fields in ({"score": 1, "stored_fields.score": 2}, {"stored_fields.score": 2, "score": 1}):
        [row] = (
            Index.build([("a", "green tea", stored_fields)]).search("tea").to_frame().drop(columns=["score"]).to_numpy()
        )
        assert sorted(row[2:]) == [1, 2]


@pytest.mark.parametrize(
    ("missing", "kind"),
    [(["pandas"], pl.DataFrame), (["pandas", "polars"], pa.Table), (["pandas", "polars", "pyarrow"], None)],
)
def test_a_frame_of_whatever_is_installed(
    hits: Results, missing: list[str], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in missing:
        monkeypatch.setitem(sys.modules, package, None)
    if kind is None:
        with pytest.raises(MissingExtraError, match="a frame needs pandas, polars or pyarrow"):
            hits.to_frame()
    else:
        assert isinstance(hits.to_frame(), kind)


def test_a_run_is_a_frame(hits: Results) -> None:
    run = Index.build(DOCS).search_many({"q": "green", "empty": "guava"})
    frame = run.to_frame()
    assert frame.columns.tolist() == ["qid", "doc_id", "score"]
    assert dict(zip(frame["doc_id"], frame["score"], strict=True)) == run["q"]
    assert repr(run) == f"SearchRun(2 queries, {len(frame)} hits)"


def test_reprs_are_short(hits: Results) -> None:
    assert repr(hits[0]) == f"Hit(doc_id={hits[0].doc_id!r}, score={hits[0].score!r})"
    assert repr(hits) == f"Results({hits[0].doc_id!r}: {hits[0].score:.4g}, {hits[1].doc_id!r}: {hits[1].score:.4g})"
    many = Index.build({f"d{i}": "tea" for i in range(900)}).search("tea", 900)
    assert repr(many).endswith(", … 897 more)")
    assert len(repr(many)) < 120
    assert many._repr_html_().count("<tr") == 51
    assert "850 more hits" in many._repr_html_()


def test_notebooks_show_tables_without_foreign_html(hits: Results) -> None:
    for shown in (hits._repr_html_(), hits[0]._repr_html_(), hits[0].why._repr_html_()):
        assert shown.startswith("<div")
        assert "<b>" not in shown
        assert "<script" not in shown
        assert "<i>" not in shown
    assert "a&lt;b&gt;" in hits._repr_html_()
    assert "the model does not know: guava" in hits._repr_html_()
    assert f"{hits[0].score:+.4f}" in hits[0].why._repr_html_()
    assert "the model does not know: guava" in hits[0].why._repr_html_()
    assert "nothing found" in Results()._repr_html_()
    latent = Index.build(DOCS, small_model(DOCS, latent=True)).search("sky")
    assert f"{latent.left_off} hits below the last match are left off" in latent._repr_html_()
