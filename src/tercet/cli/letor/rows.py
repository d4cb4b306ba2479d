"""Rows of LETOR files, models of features, and what is shown of them."""

from __future__ import annotations

from pathlib import Path

from tercet.cli.terminal import echo
from tercet.data import LetorData, read_letor
from tercet.errors import BundleError
from tercet.fitting import FeatureModel
from tercet.fitting.feature_model import fit_width, weights_of
from tercet.learn.features import FeatureRanker
from tercet.loading import load
from tercet.measure import Evaluation

MOST_FEATURES_SHOWN = 50
BAR_WIDTH = 24
_LONGEST_LABEL = 40


def read_rows(path: Path, *, comments: bool = False, err: bool = False) -> LetorData:
    """Read a LETOR file and say what is in it."""
    rows = read_letor(path, comments=comments)
    echo(f"{path}: a LETOR file, {rows.n_queries:,} queries, {len(rows):,} rows, {rows.n_features:,} features", err=err)
    return rows


def open_feature_model(path: Path) -> FeatureModel:
    """A feature model, or a ranker of feature vectors saved by itself as one."""
    model = load(path)
    if isinstance(model, FeatureRanker):
        model = FeatureModel(model)
    if isinstance(model, FeatureModel) and getattr(model.ranker, "kernel", None) == "precomputed":
        raise BundleError(f"{path} ranks by a kernel matrix that is given to it; a LETOR file has features")
    if not isinstance(model, FeatureModel):
        raise BundleError(f"{path} holds a {type(model).__name__}; a LETOR file needs a model that was fitted to one")
    return model


def open_rows(path: Path, model: FeatureModel) -> LetorData:
    """The rows of a LETOR file with the columns that a model knows."""
    rows, note = fit_width(read_rows(path, comments=True, err=True), model.n_features, str(path))
    if note is not None:
        echo(f"note: {note}", err=True)
    return rows


def evaluations(data: Path, models: tuple[Path, ...], measures: tuple[str, ...]) -> dict[str, Evaluation]:
    """What each model reaches on the rows of a file, by the name that was typed."""
    opened = {str(path): open_feature_model(path) for path in models}
    how = (measures,) if measures else ()
    return {name: model.evaluate(open_rows(data, model), *how) for name, model in opened.items()}


def print_features(model: FeatureModel) -> None:
    """Every feature with a weight, the strongest first, and a bar as long as its weight is large."""
    if weights_of(model.ranker) is None:
        return
    features = model.features()
    shown = features[:MOST_FEATURES_SHOWN]
    number = max((len(str(row.feature)) for row in shown), default=0)
    width = min(max((len(row.name or "") for row in shown), default=0), _LONGEST_LABEL)
    for row in shown:
        bar = "█" * max(1, round(BAR_WIDTH * abs(row.weight / features[0].weight)))
        name = f"  {(row.name or '')[:width]:<{width}}" if width else ""
        echo(f"  {row.feature:>{number}}{name}  {row.weight:+.4g}".ljust(number + width + 16) + f"  {bar}")
    if len(features) > len(shown):
        echo(f"  and {len(features) - len(shown):,} more with smaller weights")
