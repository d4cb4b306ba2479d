"""Load saved models and indexes."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

from tercet.errors import BundleError
from tercet.store import Bundle, read_bundle
from tercet.store.kinds import FEATURE_MODEL, INDEX, RANKER, REMOTE_KINDS, TEXT_MODEL


def load(path: str | PathLike[str]) -> Any:
    """Load a ranker, text model, feature model or index.

    Every byte is checked against its checksum. Nothing in the file is executed.

    Examples
    --------
    >>> import tempfile
    >>> from tercet import TextModel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     TextModel.bm25(["green tea"]).save(f"{folder}/model")
    ...     type(load(f"{folder}/model")).__name__
    'TextModel'
    """
    bundle = read_bundle(path)
    if bundle.kind == INDEX:
        from tercet.search import Index

        return Index.open(path)
    if bundle.kind in REMOTE_KINDS:
        raise BundleError(f"{path} is an index in another engine; open it with tercet.engines.open_index")
    if bundle.kind not in READERS:
        raise BundleError(
            f"{path} holds a {bundle.kind!r}, which cannot be loaded; expected a ranker, a text model, a feature "
            "model or an index"
        )
    return READERS[bundle.kind](bundle)


# A reader imports its class on use: opening a text model imports no learner.


def _read_ranker(bundle: Bundle) -> Any:
    from tercet.learn import RANKERS
    from tercet.learn.base import load_ranker

    known: dict[str, Any] = {**RANKERS, **_feature_rankers()}
    return load_ranker(bundle, known)


def _read_text_model(bundle: Bundle) -> Any:
    from tercet.fitting.text_model import TextModel

    return TextModel.from_bundle(bundle)


def _read_feature_model(bundle: Bundle) -> Any:
    from tercet.fitting.feature_model import FeatureModel

    return FeatureModel.from_bundle(bundle, _feature_rankers())


def _feature_rankers() -> dict[str, Any]:
    from tercet.learn.linear import LINEAR_RANKERS
    from tercet.learn.rls import RLS_RANKERS

    return {**LINEAR_RANKERS, **RLS_RANKERS}


READERS: dict[str, Callable[[Bundle], Any]] = {
    RANKER: _read_ranker,
    TEXT_MODEL: _read_text_model,
    FEATURE_MODEL: _read_feature_model,
}
