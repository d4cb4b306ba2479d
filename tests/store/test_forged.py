"""Saved things of every kind with right checksums and wrong content: a typed error, bounded memory, or no harm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.bundles import posix_only
from support.forging import KINDS, attempt, bundles_in, forge, reseal_others, seal
from support.learners import LEARNERS
from tercet.errors import BundleError
from tercet.store import read_bundle

pytestmark = posix_only


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A kind as it is saved, made once; what it is read beside stays next to it."""
    made: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("forged") / "clean"
            KINDS[name].make(made[name])
            KINDS[name].use(made[name])
        return made[name]

    return of


def copied(path: Path) -> Path:
    copy = path.parent / "forged"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=5, suppress_health_check=list(HealthCheck), database=None)
@given(rng=st.randoms(use_true_random=False))
def test_what_is_forged_is_refused_by_a_typed_error_or_does_no_harm(saved, name: str, rng: Random) -> None:
    path = copied(saved(name))
    output = forge(path, rng)
    try:
        attempt(KINDS[name].use, path)
    except Exception as error:
        error.add_note(f"{name}: {output}")
        raise


def changed(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None], folder: str = ".") -> Path:
    """A copy of something saved in which a manifest and its arrays are changed, and everything is sealed again."""
    path = copied(path)
    bundle = path / folder
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    arrays = {name: array.copy() for name, array in read_bundle(bundle).arrays.items()}
    before = read_bundle(bundle).digest
    change(manifest["meta"], arrays)
    seal(bundle, manifest, arrays)
    reseal_others(path, {before: read_bundle(bundle).digest})
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SparseRanker", "DenseRanker", "LowRankRanker"])
@pytest.mark.parametrize("step", [2**53 + 1, 2**63 - 1, 2**63, 10**30, -1])
def test_a_step_that_no_run_reaches(saved, name: str, step: int) -> None:
    path = changed(saved(name), lambda meta, _: meta["state"].update(step=step))
    with pytest.raises(BundleError, match="step is "):
        KINDS[name].use(path)


@pytest.mark.parametrize("inner", ["", 10**30, None, []])
@pytest.mark.slow
def test_a_ranker_inside_another_that_is_none(saved, inner: Any) -> None:
    path = changed(saved("CorrelatedRanker"), lambda meta, _: meta["params"].update(ranker=inner))
    with pytest.raises(BundleError, match=r"params\.ranker is "):
        KINDS["CorrelatedRanker"].use(path)


def test_ids_that_are_not_utf_8(saved) -> None:
    def change(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["id_letters"][0] = 0xFF

    path = changed(saved("index"), change, "segments/000000")
    with pytest.raises(BundleError, match="are not UTF-8"):
        KINDS["index"].use(path)


@pytest.mark.slow
def test_every_saved_kind_is_forged(saved) -> None:
    """Nothing is saved under a name that no forger has tried."""
    from tercet.store import kinds

    tried = {
        json.loads((folder / "manifest.json").read_bytes())["kind"]
        for name in KINDS
        if name not in LEARNERS  # which are all of one kind
        for folder in bundles_in(saved(name))
    }
    known = {value for name, value in vars(kinds).items() if name.isupper() and isinstance(value, str)}
    assert known == tried


def test_unsigned_digests_follow_what_was_forged(saved) -> None:
    """The forger seals whatever names the digest of what was changed, or nothing but digests would be tested."""
    assert attempt(KINDS["index"].use, changed(saved("index"), lambda meta, arrays: None)) == "taken"

    def change(meta: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["post_docs"][0] = np.iinfo(np.uint16).max

    path = changed(saved("index"), change, "segments/000000")
    with pytest.raises(BundleError, match="postings has columns that are not from 0"):
        KINDS["index"].use(path)
