"""Linear models for learning-to-rank plugins: what the JSON says, scored as the engines document it, is predict."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import tercet as tc
from support.letor_data import made_up
from tercet.cli.main import cli
from tercet.engines import linear_export, write_ltr
from tercet.errors import InputError
from tercet.fitting import FeatureModel

NAMES = ["BM25 of title", "price", *(f"f{j}" for j in range(8))]


@pytest.fixture(scope="module")
def model() -> FeatureModel:
    return tc.fit_letor(made_up(0), feature_names=NAMES)


def solr_score(features, model, document) -> float:
    """Solr's LinearModel: the sum of weight times value, of features that its store knows."""
    field_of = {
        one["name"]: one["params"]["field"]
        for one in features
        if one["store"] == model["store"] and one["class"] == "org.apache.solr.ltr.feature.FieldValueFeature"
    }
    assert model["class"] == "org.apache.solr.ltr.model.LinearModel"
    weights = model["params"]["weights"]
    assert [one["name"] for one in model["features"]] == list(weights), "a model needs a weight for each feature"
    return sum(weights[one["name"]] * document[field_of[one["name"]]] for one in model["features"])


def elasticsearch_score(features, model, document) -> float:
    """A model/linear: the features of its set by name, each a query whose score is the value."""
    value_of = {}
    for one in features["featureset"]["features"]:
        function = one["template"]["function_score"]
        assert (one["template_language"], function["boost_mode"]) == ("mustache", "replace")
        value_of[one["name"]] = document[function["field_value_factor"]["field"]]
    inner = model["model"]["model"]
    assert inner["type"] == "model/linear"
    return sum(weight * value_of[name] for name, weight in json.loads(inner["definition"]).items())


@pytest.mark.parametrize(("engine", "score"), [("solr", solr_score), ("elasticsearch", elasticsearch_score)])
def test_what_an_engine_would_score_is_predict(model, engine, score, tmp_path):
    written = write_ltr(tmp_path / "out", model, engine=engine, name="mine")
    features, weights = (json.loads((tmp_path / "out" / f"{name}.json").read_text()) for name in ("features", "model"))
    assert (features, weights) == (written.features, written.model)
    rows = made_up(1).X
    fields = [written.fields.get(name) for name in NAMES]
    documents = [dict(zip(fields, row.tolist(), strict=True)) for row in rows]
    scores = [score(features, weights, document) for document in documents]
    np.testing.assert_allclose(scores, model.predict(rows), rtol=1e-6, atol=1e-9)
    assert written.n_left_out == 10 - len(model.features())


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        (("title BM25", "title-BM25", "title_BM25_2"), ["title_BM25", "title_BM25_2", "title_BM25_2_3"]),
        (("длина", "частота", "length"), ["field", "field_2", "length"]),
    ],
)
@pytest.mark.parametrize("engine", ["solr", "elasticsearch"])
def test_no_two_features_take_their_values_from_one_field(names, fields, engine):
    ranker = tc.FTRLRanker(l1=0.0).fit([[1.0, 0.2, 3.0], [0.0, 0.7, 1.0]], [1, 0], qid=[7, 7])
    written = linear_export(FeatureModel(ranker, names), engine=engine)
    assert written.fields == dict(zip(names, fields, strict=True))
    assert all(f'"{field}"' in json.dumps(written.features) for field in fields)


def test_names_and_what_cannot_be_expressed(model):
    nameless = FeatureModel(model.ranker)
    assert all(name.startswith("feature_") for name in linear_export(nameless).fields)
    assert linear_export(model).fields.get("BM25 of title", "BM25_of_title") == "BM25_of_title"
    data = made_up(0)
    kernel = tc.RankRLS(kernel="gaussian", n_basis=5).fit(data.X, data.y, qid=data.qid)
    with pytest.raises(InputError, match="RankRLS with a kernel has no weights"):
        linear_export(FeatureModel(kernel))
    nothing = tc.FTRLRanker(l1=1e12).fit(data.X, data.y, qid=data.qid)
    with pytest.raises(InputError, match="no feature has a weight"):
        linear_export(FeatureModel(nothing))
    with pytest.raises(InputError, match="engine must be 'solr' or 'elasticsearch'; got 'vespa'"):
        linear_export(model, engine="vespa")
    with pytest.raises(InputError, match="a model of features is needed"):
        linear_export(None)


def test_the_command_writes_both_files_and_asks_before_it_replaces(model, tmp_path):
    model.save(tmp_path / "m")
    common = ["export", "ltr", str(tmp_path / "m"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, [*common, "--engine", "elasticsearch", "--name", "shop"])
    assert done.exit_code == 0, done.output
    assert "for POST /_ltr/_featureset/shop/_createmodel" in done.output
    assert "features with a weight" in done.output
    assert json.loads((tmp_path / "out" / "features.json").read_text())["featureset"]["name"] == "shop"
    again = CliRunner().invoke(cli, common)
    assert again.exit_code == 1
    assert "--replace" in again.output
    replaced = CliRunner().invoke(cli, [*common, "--replace"])
    assert replaced.exit_code == 0, replaced.output
    assert "schema/model-store" in replaced.output
