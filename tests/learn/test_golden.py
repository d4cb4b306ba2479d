"""Models written by released versions are read by this one and answer as they did."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support import make_golden
from support.make_golden import GOLDEN, feature_answers, ranker_answers, text_answers
from tercet.errors import BundleError
from tercet.store.old_names import OLD_FIELDS

VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
NAMES = [*make_golden.RANKERS, "text", *make_golden.FEATURE_RANKERS, make_golden.FEATURE_MODEL]
REMOVED = {"grouped": ("GroupSparseRanker", "SparseRanker")}  # folder: the class, and what to fit instead
# W thinned while learning around a fixed identity: is read as the sum of both, and shrinks when learned on.
OLDER = "sparse-thinned"
OLDER_FIELDS = {"around_identity", "frozen", "thin_to", "thin_over"}  # of the state of a SparseRanker
every_version = pytest.mark.parametrize("version", VERSIONS)
every_ranker = pytest.mark.parametrize("name", make_golden.RANKERS)
every_feature_ranker = pytest.mark.parametrize("name", make_golden.FEATURE_RANKERS)


@cache
def expected(version: str, file: str = make_golden.EXPECTED) -> dict[str, Any]:
    return json.loads((GOLDEN / version / file).read_text(encoding="utf-8"))


def expected_features(version: str) -> dict[str, Any]:
    return expected(version, make_golden.EXPECTED_FEATURES)


def matrices(version: str) -> tuple[sparse.csr_array, sparse.csr_array]:
    data = expected(version)["data"]
    return tuple(sparse.csr_array(np.array(data[name], dtype=np.float32)) for name in ("Q", "D"))


def assert_same(found: Any, stored: Any, where: str) -> None:
    """The same structure, numbers to 1e-6, everything else exactly."""
    if isinstance(stored, dict):
        assert isinstance(found, dict), where
        stored = {OLD_FIELDS.get(key, key): value for key, value in stored.items()}
        assert set(found) == set(stored), where
        for key, value in stored.items():
            assert_same(found[key], value, f"{where}.{key}")
    elif isinstance(stored, list):
        assert isinstance(found, (list, tuple)), where
        assert len(found) == len(stored), where
        for at, (one, other) in enumerate(zip(found, stored, strict=True)):
            assert_same(one, other, f"{where}[{at}]")
    elif isinstance(stored, float):
        assert found == pytest.approx(stored, rel=1e-6, abs=1e-6), where
    else:
        assert found == stored, where
        assert type(found) is type(stored), where


def test_there_are_golden_files_of_this_version():
    assert tc.__version__ in VERSIONS
    assert sorted(p.name for p in (GOLDEN / tc.__version__).iterdir()) == sorted(
        [*NAMES, *REMOVED, OLDER, "expected.json", "features.json"]
    )


@every_version
@every_ranker
def test_a_ranker_scores_as_it_did(version, name):
    stored = expected(version)["rankers"][name]
    ranker = tc.load(GOLDEN / version / name)
    assert type(ranker).__name__ == stored["class"]
    params = ranker.get_params()
    for added, value in type(ranker)._added_parameters.items():
        if added not in stored["params"]:
            assert params.pop(added) == value
    params |= {name: value for name, value in type(ranker)._removed_parameters.items() if name in stored["params"]}
    found = {"class": type(ranker).__name__, "params": params}
    found |= ranker_answers(ranker, *matrices(version))
    assert_same(found, {key: value for key, value in stored.items() if key != "after_more"}, name)


@every_version
@every_ranker
def test_a_ranker_learns_on_as_it_did(version, name):
    stored = expected(version)["rankers"][name]
    Q, D = matrices(version)
    ranker = tc.load(GOLDEN / version / name)
    ranker.partial_fit(Q, tc.Preferences(*expected(version)["more"]), D)
    found = ranker_answers(ranker, Q, D)
    assert_same(found, stored["after_more"], name)
    if name != "cosine":
        assert found["scores"] != stored["scores"]


def test_a_ranker_of_an_older_form_scores_as_it_did(tmp_path):
    stored = expected("0.1.0")["rankers"][OLDER]
    Q, D = matrices("0.1.0")
    ranker = tc.load(GOLDEN / "0.1.0" / OLDER)
    found = ranker_answers(ranker, Q, D)
    assert_same(found, {key: stored[key] for key in found}, OLDER)
    ranker.save(tmp_path / "again")
    assert_same(ranker_answers(tc.load(tmp_path / "again"), Q, D), found, OLDER)
    assert ranker.partial_fit(Q, tc.Preferences(*expected("0.1.0")["more"]), D).n_steps_ > 60


@pytest.mark.parametrize("name", REMOVED)
def test_a_ranker_of_a_removed_class_is_refused_by_its_name(name):
    removed, instead = REMOVED[name]
    with pytest.raises(BundleError, match=f"holds a {removed}, which was removed .* Fit a {instead}"):
        tc.load(GOLDEN / "0.1.0" / name)


@every_version
def test_a_text_model_answers_as_it_did(version):
    stored = expected(version)["text"]
    model = tc.load(GOLDEN / version / "text")
    answers = text_answers(model, stored)
    assert_same(answers, {key: stored[key] for key in answers}, "text")
    # What was learned shows: the word that counts most is the synonym nobody told it.
    assert {(word, related[0][0]) for word, related in stored["related"].items()} == set(make_golden.SYNONYMS)


@every_version
@every_feature_ranker
def test_a_ranker_of_feature_vectors_scores_as_it_did(version, name):
    stored = expected_features(version)["rankers"][name]
    ranker = tc.load(GOLDEN / version / name)
    params = ranker.get_params()
    for added, value in type(ranker)._added_parameters.items():
        if added not in stored["params"]:
            assert params.pop(added) == value
    params |= {name: value for name, value in type(ranker)._removed_parameters.items() if name in stored["params"]}
    found = {"class": type(ranker).__name__, "params": params}
    found |= feature_answers(ranker, expected_features(version)["test"])
    assert_same(found, {key: value for key, value in stored.items() if key != "after_more"}, name)


@every_version
def test_a_ranker_of_feature_vectors_learns_on_as_it_did(version):
    answers = expected_features(version)
    more, stored = answers["more"], answers["rankers"]["ftrl"]
    ranker = tc.load(GOLDEN / version / "ftrl").partial_fit(np.array(more["X"]), more["y"], more["qid"])
    found = feature_answers(ranker, answers["test"])
    assert_same(found, stored["after_more"], "ftrl")
    assert found["scores"] != stored["scores"]


@every_version
def test_a_feature_model_answers_as_it_did(version):
    answers = expected_features(version)
    model = tc.load(GOLDEN / version / make_golden.FEATURE_MODEL)
    found = feature_answers(model, answers["test"])
    assert_same(found, {key: answers["model"][key] for key in found}, "model")
    # What was learned shows: the two features that the grades were made of.
    assert {name for _, name, _ in answers["model"]["features"][:2]} == {"BM25", "age"}


def without(names):
    """Return a hook of JSON that drops these names, and gives old names their new form."""
    return lambda mapping: {OLD_FIELDS.get(name, name): value for name, value in mapping.items() if name not in names}


@pytest.mark.parametrize("name", NAMES)
def test_written_again_it_has_the_same_bytes(name, tmp_path):
    folder = GOLDEN / tc.__version__ / name
    loaded = tc.load(folder)
    loaded.save(tmp_path / "again")
    again, stored = (
        {path.name: path.read_bytes() for path in place.iterdir()} for place in (tmp_path / "again", folder)
    )
    removed = getattr(getattr(loaded, "ranker", loaded), "_removed_parameters", {})
    if removed or any(name.encode() in stored["manifest.json"] for name in OLD_FIELDS):
        removed = {*removed, *OLDER_FIELDS}
        manifests = [json.loads(files.pop("manifest.json"), object_hook=without(removed)) for files in (again, stored)]
        assert manifests[0].pop("checksum") != manifests[1].pop("checksum")
        assert manifests[0] == manifests[1]
    assert again == stored


@every_version
@pytest.mark.parametrize("name", NAMES)
def test_golden_files_stay_small(version, name):
    assert sum(path.stat().st_size for path in (GOLDEN / version / name).iterdir()) < 20_000


@pytest.mark.slow
def test_golden_files_are_not_overwritten_unless_forced(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_golden, "GOLDEN", tmp_path)
    folder: Path = tmp_path / tc.__version__
    make_golden.main([])
    made = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit, match="Use --force to replace them"):
        make_golden.main([])
    (folder / "expected.json").write_text("{}")
    make_golden.main(["--force"])
    assert (folder / "expected.json").read_bytes() == made[folder / "expected.json"]
    assert capsys.readouterr().out.count("wrote") == 4


def test_missing_golden_files_are_added_and_no_other_is_touched(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_golden, "GOLDEN", tmp_path)
    folder: Path = tmp_path / tc.__version__
    folder.mkdir()
    (folder / "expected.json").write_text("{}")
    make_golden.main(["--missing"])
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["expected.json", "features.json", *make_golden.FEATURE_RANKERS, make_golden.FEATURE_MODEL]
    )
    assert kept[folder / "expected.json"] == b"{}"
    assert capsys.readouterr().out.count("wrote") == 1
    make_golden.main(["--missing"])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == kept
    assert capsys.readouterr().out == ""
