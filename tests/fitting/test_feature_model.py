"""Models of feature vectors: the file, names and ids."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tercet as tc
from support.bundles import arrays_file, reseal
from support.letor_data import made_up
from tercet.data import LetorData, read_feature_names
from tercet.errors import BundleError, DamagedBundleError, FormatError, InputError
from tercet.fitting.feature_model import FeatureModel
from tercet.fitting.letor import fit_letor
from tercet.learn.linear import (
    FTRLRanker,
)

NAMES = tuple(f"name {j}" for j in range(1, 11))


@pytest.fixture(scope="module")
def train() -> LetorData:
    return made_up(0)


@pytest.fixture(scope="module")
def vali() -> LetorData:
    return made_up(1, 20, first_query=100)


@pytest.fixture(scope="module")
def held() -> LetorData:
    return made_up(2, 25, first_query=200)


@pytest.fixture(scope="module")
def model(train, vali, held) -> FeatureModel:
    return fit_letor(train, validation=vali, test=held, feature_names=NAMES)


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_saved_model_comes_back(model, held, tmp_path):
    model.save(tmp_path / "m")
    again = tc.load(tmp_path / "m")
    assert isinstance(again, FeatureModel)
    assert (again.predict(held.X) == model.predict(held.X)).all()
    assert again.features() == model.features()
    assert again.report == model.report
    assert str(again.report) == str(model.report)
    # The ranker inside learns on, to the bit.
    for each in (again, model):
        each.save(tmp_path / "copy")
    more = [tc.load(tmp_path / name).ranker.partial_fit(held.X, held.y, held.qid).coef_ for name in ("m", "copy")]
    assert (more[0] == more[1]).all()


def test_a_model_without_names_and_report_comes_back(train, tmp_path):
    FeatureModel(FTRLRanker(l1=0.0).fit(train.X, train.y, train.qid)).save(tmp_path / "m")
    again = tc.load(tmp_path / "m")
    assert (again.feature_names, again.report) == (None, None)
    assert again.features()[0].name is None


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    data = made_up(3, 4, 4, 3)
    path = tmp_path_factory.mktemp("small") / "m"
    fit_letor(data, folds=2, l1s=[1.0, 0.0], feature_names=["é", "b", "c"]).save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("which", ["manifest", "arrays"])
def test_every_damaged_byte_is_a_typed_error(small, tmp_path, which):
    shutil.copytree(small, tmp_path / "m")
    path = tmp_path / "m" / "manifest.json" if which == "manifest" else arrays_file(tmp_path / "m")
    original = path.read_bytes()
    for position in range(0, len(original), 7 if which == "manifest" else 3):
        changed = bytearray(original)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(BundleError):
            tc.load(tmp_path / "m")
    path.write_bytes(original[:-1])
    with pytest.raises(BundleError):
        tc.load(tmp_path / "m")
    path.write_bytes(original)
    assert tc.load(tmp_path / "m").n_features == 3


def at(*keys, to):
    def change(manifest):
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = to

    return change


REPORT = ("meta", "report")
FORGERIES = {
    "no ranker": (lambda m: m["meta"].pop("ranker"), "ranker is missing"),
    "another ranker": (at("meta", "ranker", "class", to="Weights"), "unknown class 'Weights'"),
    "a class that scores pairs of terms": (at("meta", "ranker", "class", to="SparseRanker"), "unknown class"),
    "a wrong parameter": (at("meta", "ranker", "params", "rate", to=-1), "rate"),
    "an unknown field": (at("meta", "extra", to=1), r"meta\.extra is unknown"),
    "names of numbers": (at("meta", "feature_names", to=[1, 2, 3]), "expected text"),
    "too few names": (at("meta", "feature_names", to=["a"]), "1 feature names and 3 features"),
    "a report of another model": (at(*REPORT, "n_features", to=4), "the report is of 4 features"),
    "a report with more": (at(*REPORT, "extra", to=4), r"report\.extra is unknown"),
    "a report with less": (lambda m: m["meta"]["report"].pop("split"), "split is missing"),
    "systems of other measures": (lambda m: m["meta"]["report"]["systems"][0]["values"].pop(), "the same measures"),
    "a system of words": (at(*REPORT, "systems", 0, "values", 0, to=["AP", "a", 1, 1]), "expected a number"),
    "a choice there is not": (at(*REPORT, "chosen", to=2), "2 penalties, and chosen is number 2"),
    "a negative choice": (at(*REPORT, "chosen", to=-1), "2 penalties, and chosen is number -1"),
    "no choice": (at(*REPORT, "chosen", to=None), "2 penalties, and chosen is number None"),
    "a path without choice": (at(*REPORT, "path", to=[]), "0 penalties, and chosen is number"),
    "a rule there is not": (at(*REPORT, "choose", to="worst"), r"report\.choose is 'worst'"),
    "a point of three": (at(*REPORT, "path", 0, to=[1.0, 2, 0.5]), r"report\.path\.0"),
    "half a feature": (at(*REPORT, "path", 0, to=[1.0, 0.5, 0.5, 0.0]), r"report\.path\.0"),
    "a point of words": (at(*REPORT, "path", 0, to=["a", 2, 0.5, 0.0]), r"report\.path\.0"),
    "too large a number": (at(*REPORT, "path", 0, to=[10**400, 2, 0.5, 0.0]), r"report\.path\.0"),
    "too few differences": (lambda m: m["meta"]["report"]["changes"].pop(), "one difference for each measure"),
    "a difference of two": (at(*REPORT, "changes", 0, to=[1.0, 2.0]), "expected a list of 4"),
    "notes of numbers": (at(*REPORT, "notes", to=[1]), "expected text"),
    "folds of truth": (at(*REPORT, "used_by_fold", to=[True]), r"report\.used_by_fold\.0"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_models_are_refused(name, small, tmp_path):
    change, message = FORGERIES[name]
    shutil.copytree(small, tmp_path / "m")
    reseal(tmp_path / "m", change)
    with pytest.raises(BundleError, match=message):
        tc.load(tmp_path / "m")


def test_an_array_too_many_is_refused(small, tmp_path):
    from tercet.store import read_bundle, write_bundle

    bundle = read_bundle(small)
    write_bundle(tmp_path / "m", kind=bundle.kind, meta=bundle.meta, arrays={**bundle.arrays, "other": np.zeros(1)})
    with pytest.raises(DamagedBundleError, match="unexpected array 'other'"):
        tc.load(tmp_path / "m")


def test_what_is_not_fitted_is_no_model():
    with pytest.raises(InputError, match="FTRLRanker is not fitted"):
        FeatureModel(FTRLRanker())
    failed = FTRLRanker()
    with pytest.raises(InputError, match="nothing to learn from"):
        failed.fit([[1.0], [2.0]], [1, 1], qid=[0, 0])
    with pytest.raises(InputError, match="FTRLRanker is not fitted"):
        FeatureModel(failed)


def test_a_model_takes_only_what_is_of_its_kind(model, held):
    with pytest.raises(InputError, match="data must be LetorData, as read_letor gives it; got ndarray"):
        model.evaluate(held.X)
    with pytest.raises(InputError, match="the report is of 0 features, the ranker of 10"):
        FeatureModel(model.ranker, report=replace(model.report, features=None))


# -- names and ids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a b\nc\n\nd", "\ufeffa b\r\n c\r\nd\r\n"])
def test_feature_names_are_read_line_by_line(text, tmp_path):
    (tmp_path / "names.txt").write_text(text, newline="", encoding="utf-8")
    assert read_feature_names(tmp_path / "names.txt", 3) == ("a b", "c", "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb", "names.txt: 2 names for 3 features"),
        ("a\nb\nc\nd", "names.txt: 4 names for 3 features"),
        ("a\nb\na", "names.txt:3: name 'a' again; line 1 has it already"),
    ],
)
def test_wrong_names_are_refused_with_their_line(text, message, tmp_path):
    (tmp_path / "names.txt").write_text(text)
    with pytest.raises(FormatError) as caught:
        read_feature_names(tmp_path / "names.txt", 3)
    assert message in str(caught.value)
