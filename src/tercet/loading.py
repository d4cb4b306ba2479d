"""Opening whatever was saved."""

from __future__ import annotations

from os import PathLike
from typing import Any

from tercet.errors import BundleError
from tercet.learn import RANKERS
from tercet.learn.base import KIND as RANKER_KIND
from tercet.learn.base import load_ranker
from tercet.learn.linear import LINEAR_RANKERS
from tercet.model import KIND as MODEL_KIND
from tercet.model import TextModel
from tercet.store import read_bundle


def load(path: str | PathLike[str]) -> Any:
    """Read a saved ranker or text model; its kind is recognised.

    Every byte is checked against the checksums written with it, and nothing in the file is executed.
    """
    bundle = read_bundle(path)
    if bundle.kind == RANKER_KIND:
        known: dict[str, Any] = {**RANKERS, **LINEAR_RANKERS}
        return load_ranker(bundle, known)
    if bundle.kind == MODEL_KIND:
        return TextModel.from_bundle(bundle)
    raise BundleError(
        f"{path} holds a {bundle.kind!r}, which is not something to load; expected a ranker or a text model"
    )
