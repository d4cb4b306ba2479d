"""Linear models of features for the learning-to-rank plugins of Solr and Elasticsearch."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tercet.data.lines import write_atomically
from tercet.errors import InputError
from tercet.fitting import FeatureModel
from tercet.fitting.feature_model import weights_of

Engine = Literal["solr", "elasticsearch"]
FEATURES_NAME, MODEL_NAME = "features.json", "model.json"
_SOLR = "org.apache.solr.ltr"
_NO_FIELD_NAME = re.compile(r"\W+", re.ASCII)


@dataclass(frozen=True)
class LinearExport:
    """The two JSON values for an engine: ``features`` first, then ``model``.

    Attributes
    ----------
    features, model : JSON as in the engine's documentation
    fields : feature -> field of a document with the feature's value
    n_left_out : number of features without a weight

    Examples
    --------
    >>> export = LinearExport([], {"name": "tercet"}, {"BM25": "BM25"}, n_left_out=3)
    >>> export.fields
    {'BM25': 'BM25'}
    """

    features: Any
    model: dict[str, Any]
    fields: dict[str, str]
    n_left_out: int


def linear_export(model: FeatureModel, *, engine: Engine = "solr", name: str = "tercet") -> LinearExport:
    """Write a linear model as features and weights.

    Parameters
    ----------
    model : model with weights of features; kernels are refused
    engine : "solr", or "elasticsearch", also for OpenSearch
    name : name of the model, of Solr's feature store and of Elasticsearch's feature set

    Notes
    -----
    A model knows the names of features, but not their computation in an engine. Each feature is the value of the
    document's field with the same name: other characters than ASCII letters, digits and _ become _, and a second equal
    name ends with the number of the feature. Replace a feature computed by a query, such as a BM25 score, by hand.
    Weights are for features in the scale of the training data. Engines add in single precision.

    Examples
    --------
    >>> from tercet.learn.linear import FTRLRanker
    >>> ranker = FTRLRanker(l1=0.5, rate=1.0).fit([[1.0, 0.2], [0.0, 0.2]], [1, 0], qid=[7, 7])
    >>> linear_export(FeatureModel(ranker, ("BM25", "length"))).model["params"]
    {'weights': {'BM25': 0.6708203932499369}}
    """
    if not isinstance(model, FeatureModel):
        raise InputError(f"a model of features is needed, as fit_letor gives it; got {type(model).__name__}")
    weights = weights_of(model.ranker)
    if weights is None:
        raise InputError(
            f"a {type(model.ranker).__name__} with a kernel has no weights of features; engines take linear models only"
        )
    rows = sorted(model.features(), key=lambda row: row.feature)
    if not rows:
        raise InputError("no feature has a weight, so there is nothing to export")
    names = [row.name or f"feature_{row.feature}" for row in rows]
    fields = dict(zip(names, _field_names(names, [row.feature for row in rows]), strict=True))
    values = dict(zip(names, (row.weight for row in rows), strict=True))
    if engine not in ("solr", "elasticsearch"):
        raise InputError(f"engine must be 'solr' or 'elasticsearch'; got {engine!r}")
    features, exported = (_solr if engine == "solr" else _elasticsearch)(fields, values, name)
    return LinearExport(features, exported, fields, int(np.count_nonzero(weights == 0)))


def _field_names(names: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """Return a different field name for each feature."""
    fields: dict[str, None] = {}
    for name, number in zip(names, numbers, strict=True):
        field = _NO_FIELD_NAME.sub("_", name).strip("_") or "field"
        while field in fields:
            field += f"_{number}"
        fields[field] = None
    return list(fields)


def _solr(fields: dict[str, str], weights: dict[str, float], name: str) -> tuple[Any, dict[str, Any]]:
    kind = f"{_SOLR}.feature.FieldValueFeature"
    features = [
        {"store": name, "name": feature, "class": kind, "params": {"field": field}} for feature, field in fields.items()
    ]
    model = {
        "class": f"{_SOLR}.model.LinearModel",
        "store": name,
        "name": name,
        "features": [{"name": feature} for feature in weights],
        "params": {"weights": weights},
    }
    return features, model


def _elasticsearch(fields: dict[str, str], weights: dict[str, float], name: str) -> tuple[Any, dict[str, Any]]:
    def value_of(field: str) -> dict[str, Any]:
        factor = {"field": field, "missing": 0}
        score = {"query": {"match_all": {}}, "field_value_factor": factor, "boost_mode": "replace"}
        return {"function_score": score}

    features = [
        {"name": feature, "params": [], "template_language": "mustache", "template": value_of(field)}
        for feature, field in fields.items()
    ]
    # The model definition is a string of JSON.
    model = {"name": name, "model": {"type": "model/linear", "definition": json.dumps(weights)}}
    return {"featureset": {"name": name, "features": features}}, {"model": model}


def write_ltr(
    folder: str | PathLike[str], model: FeatureModel, *, engine: Engine = "solr", name: str = "tercet"
) -> LinearExport:
    """Write ``features.json`` and ``model.json`` of `linear_export` into a folder, each as a whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from tercet.learn.linear import FTRLRanker
    >>> ranker = FTRLRanker(l1=0.5, rate=1.0).fit([[1.0, 0.2], [0.0, 0.2]], [1, 0], qid=[7, 7])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ltr(f"{folder}/ltr", FeatureModel(ranker, ("BM25", "length"))).n_left_out
    1
    """
    written = linear_export(model, engine=engine, name=name)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for file, value in ((FEATURES_NAME, written.features), (MODEL_NAME, written.model)):
        with write_atomically(Path(folder, file)) as stream:
            stream.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    return written
