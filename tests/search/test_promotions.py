"""A promotion is a commit of the index: one moment, an entry in a list, and the model before can come back."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import tercet as tc
from support.bundles import reseal
from support.indexes import DOCS, answers, small_model
from tercet.errors import DamagedBundleError, InputError
from tercet.search import Index
from tercet.search.folder import model_name
from tercet.search.promotions import KEPT_MODELS, KEPT_PROMOTIONS, Evidence, Promotion
from tercet.weights import Identity, Weights


@pytest.fixture(autouse=True, scope="module")
def quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def louder(model: tc.TextModel, scale: float) -> tc.TextModel:
    return replace(model, weights=Weights([Identity(n_terms=model.weights.shape[0], scale=scale)]))


@pytest.mark.parametrize("latent", [False, True])
def test_a_promoted_model_is_the_one_that_the_index_opens_with_and_comes_back(tmp_path: Path, latent: bool) -> None:
    index = Index.build(DOCS, small_model(DOCS, latent=latent), tmp_path / "index")
    reader, own, first = Index.open(tmp_path / "index"), index.model, answers(index)
    other = small_model(DOCS, latent=True, seed=9)
    entry = Index.open(tmp_path / "index").promote(other, "rule", Evidence(61, 40, 12))
    assert (entry.number, entry.by, entry.undoes, entry.evidence) == (1, "rule", None, Evidence(61, 40, 12))
    assert (entry.before, entry.after) == (model_name(own), model_name(other))
    opened = Index.open(tmp_path / "index")
    assert answers(opened) == answers(index.with_model(other)) != first
    assert opened.promotions == (entry,)
    assert answers(reader) == first  # until it looks for the latest
    assert answers(reader.latest()) == answers(opened)
    assert answers(reader.latest(own_model=False)) == first
    back = opened.take_back()
    assert (back.number, back.undoes, back.before, back.after) == (2, 1, entry.after, entry.before)
    assert answers(opened) == answers(Index.open(tmp_path / "index")) == answers(reader.latest()) == first
    assert [each.number for each in Index.open(tmp_path / "index").promotions] == [1, 2]
    assert "61 wins, 40 losses, 12 ties" in str(entry)
    assert "undoes 1" in str(back)


def test_taking_back_goes_back_step_by_step_and_ends(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    models = [index.model, louder(index.model, 2), louder(index.model, 3)]
    for model in models[1:]:
        index.promote(model)
    assert [index.take_back().undoes, index.take_back().undoes] == [2, 1]
    assert model_name(Index.open(tmp_path / "index").model) == model_name(models[0])
    with pytest.raises(InputError, match="no promotion that could be taken back"):
        index.take_back()
    index.promote(models[2])
    assert index.take_back().undoes == 5
    assert model_name(index.model) == model_name(models[0])


def test_what_cannot_be_promoted_changes_nothing(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    files = {path: path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"another vectorizer.*Index the documents again"):
        index.promote(tc.TextModel.bm25(["quite other words"]))
    with pytest.raises(InputError, match="another vectorizer"):
        index.promote(Weights([Identity(n_terms=3)]))
    with pytest.raises(InputError, match="already; nothing was changed"):
        index.promote(small_model(DOCS))
    with pytest.raises(InputError, match="no longer 0123456789abcdef; nothing was changed"):
        index.promote(louder(index.model, 2), over="0123456789abcdef")
    with pytest.raises(InputError, match="model"):
        index.promote("a folder")  # type: ignore[arg-type]
    assert {path: path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()} == files
    in_memory = Index.build(DOCS)
    for change in (lambda: in_memory.promote(louder(in_memory.model, 2)), in_memory.take_back):
        with pytest.raises(InputError, match="in memory"):
            change()
    assert in_memory.promotions == ()


def test_an_index_that_was_never_promoted_is_what_it_was(tmp_path: Path) -> None:
    Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    assert "promotions" not in (tmp_path / "index" / "manifest.json").read_text()


def test_promotions_outlive_changes_of_documents_by_whoever_has_the_index_open(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    writer, promoted = Index.open(tmp_path / "index"), louder(index.model, 2)
    index.promote(promoted)
    writer.add({"more": "green sky"})
    writer.remove(["more"])
    writer.merge()
    opened = Index.open(tmp_path / "index")
    assert opened.promotions == index.promotions
    assert model_name(opened.model) == model_name(promoted)
    opened.save(tmp_path / "copy")
    copied = Index.open(tmp_path / "copy")
    assert (copied.promotions, model_name(copied.model)) == ((), model_name(promoted))
    Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    assert Index.open(tmp_path / "index").promotions == ()
    assert len(os.listdir(tmp_path / "index" / "models")) == 1


def test_the_latest_models_stay_and_older_ones_go(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    models = [louder(index.model, scale) for scale in range(2, KEPT_MODELS + 4)]
    for model in models:
        index.promote(model)
    kept = {model_name(model) for model in models[-KEPT_MODELS - 1 :]}
    assert set(os.listdir(tmp_path / "index" / "models")) == kept
    for _ in range(KEPT_MODELS):
        index.take_back()
    assert model_name(index.model) == model_name(models[-KEPT_MODELS - 1])
    with pytest.raises(InputError, match=f"was long ago.*the latest {KEPT_MODELS} are"):
        index.take_back()


def test_a_model_that_is_not_the_one_that_was_kept_does_not_come_back(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    before = tmp_path / "index" / "models" / model_name(index.model)
    index.promote(louder(index.model, 2))
    louder(index.model, 7).save(before)
    with pytest.raises(DamagedBundleError, match="digest differs"):
        index.take_back()
    assert len(Index.open(tmp_path / "index").promotions) == 1


def test_forged_promotions_lead_nowhere(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    index.promote(louder(index.model, 2))
    reseal(tmp_path / "index", lambda manifest: manifest["meta"]["promotions"][0].update(before="../../model"))
    with pytest.raises(DamagedBundleError, match="no name that Tercet gives"):
        Index.open(tmp_path / "index")


def test_the_list_of_entries_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tercet.search.index.KEPT_PROMOTIONS", 3)
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")
    for scale in range(2, 8):
        index.promote(louder(index.model, scale))
    assert [each.number for each in Index.open(tmp_path / "index").promotions] == [4, 5, 6]
    longest = Promotion(10**6, "2026-11-16T19:40:12.000Z", "rule", *4 * ["f" * 64], 10**6, Evidence(*3 * [10**9]))
    assert KEPT_PROMOTIONS * len(repr(longest)) < 1_000_000  # of a manifest


@pytest.mark.slow
def test_writers_and_promoters_take_turns(tmp_path: Path) -> None:
    index = Index.build(DOCS, small_model(DOCS), tmp_path / "index")

    def promote(first: int) -> None:
        mine = Index.open(tmp_path / "index")
        for scale in range(first, first + 5):
            mine.promote(louder(index.model, scale))

    def add(first: int) -> None:
        mine = Index.open(tmp_path / "index")
        for number in range(first, first + 5):
            mine.add({f"n{number}": "green sky"})

    threads = [threading.Thread(target=work, args=(10 * i + 10,)) for i, work in enumerate((promote, add, promote))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened = Index.open(tmp_path / "index")
    assert [each.number for each in opened.promotions] == list(range(1, 11))
    assert len(opened) == len(DOCS) + 5
    chain = [each.before for each in opened.promotions[1:]]
    assert chain == [each.after for each in opened.promotions[:-1]]
