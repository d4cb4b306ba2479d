"""Shared made-up data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse

import tercet as tc
from support.bundles import OLD
from support.corpora import Corpus, matching, synonyms
from tercet.store import write_bundle

settings.register_profile("tercet", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("tercet"), max_examples=10)  # of `make check`
settings.load_profile("tercet")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no process is left with one at the end. And hold properties that have a
    number of examples of their own to that of the quick profile, too."""
    n_slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -n_slow[item.path])
    if config.getoption("--hypothesis-profile") != "quick":
        return
    for item in items:
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > settings.default.max_examples:
            test._hypothesis_internal_use_settings = settings(own, max_examples=settings.default.max_examples)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def checkerboard() -> tuple[sparse.csr_array, np.ndarray]:
    """Texts of two classes that share no word, each word in few texts: word matching alone cannot rank them."""
    rng = np.random.default_rng(0)
    n, words = 120, 40
    y = np.arange(n) % 2
    X = np.zeros((n, words))
    for i in range(n):
        X[i, rng.choice(words // 2, 4, replace=False) * 2 + y[i]] = 1
    return sparse.csr_array((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)), y


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "model", **OLD)
    return tmp_path / "model"


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    # More than 200 documents and words, so that the recipe starts from their latent directions.
    return synonyms(0, n_pairs=80, n_docs=220, n_queries=300, n_common=50)


@pytest.fixture(scope="session")
def model(corpus: Corpus) -> tc.TextModel:
    return tc.fit(corpus.docs, corpus.queries, corpus.part(0, 200), options={"n_steps": 20_000})


@pytest.fixture(scope="session")
def rejected() -> tc.TextModel:
    true = matching(1)
    return tc.fit(true.docs, true.queries, true.qrels, measure="Success@10", options={"n_steps": 3000})
