"""Opening whatever was saved."""

from __future__ import annotations

from os import PathLike
from typing import Any

from tercet.errors import BundleError
from tercet.fitting.feature_model import KIND as FEATURE_MODEL_KIND
from tercet.fitting.feature_model import FeatureModel
from tercet.fitting.model import KIND as MODEL_KIND
from tercet.fitting.model import TextModel
from tercet.learn import RANKERS
from tercet.learn.base import KIND as RANKER_KIND
from tercet.learn.base import load_ranker
from tercet.learn.linear import LINEAR_RANKERS
from tercet.learn.rls import RLS_RANKERS
from tercet.search.backends.qdrant import KIND as QDRANT_KIND
from tercet.search.folder import KIND as INDEX_KIND
from tercet.search.opening import open_index
from tercet.store import read_bundle


def load(path: str | PathLike[str]) -> Any:
    """Read a saved ranker, text model, feature model or index; its kind is recognised.

    Every byte is checked against the checksums written with it, and nothing in the file is executed.
    """
    bundle = read_bundle(path)
    if bundle.kind == RANKER_KIND:
        known: dict[str, Any] = {**RANKERS, **LINEAR_RANKERS, **RLS_RANKERS}
        return load_ranker(bundle, known)
    if bundle.kind == MODEL_KIND:
        return TextModel.from_bundle(bundle)
    if bundle.kind == FEATURE_MODEL_KIND:
        return FeatureModel.from_bundle(bundle, {**LINEAR_RANKERS, **RLS_RANKERS})
    if bundle.kind in (INDEX_KIND, QDRANT_KIND):
        return open_index(path)
    raise BundleError(
        f"{path} holds a {bundle.kind!r}, which is not something to load; expected a ranker, a text model, a "
        "feature model or an index"
    )
