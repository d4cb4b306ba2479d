"""A small index, a service of it and a look at its page, for the tests of the page in a browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from tercet.search import Index
from tercet.weights import Identity, Sparse, Weights

HOSTILE = '<img src=x onerror="window.bad=1"><script>window.bad=1</script> avocado & </title> \u202e tfel'
DOCS = {
    "a": "Green avocado\nA green avocado on toast, with salt.",
    "b": "Green eyes\nWhat green vegetables do for the eyes.",
    "c": "Blue sky\nA blue sky over green fields, and green again.",
    "d": "Guacamole\nMash it with lime and salt.",
    "e/é ?#": "Avocado oil\nOil of the avocado for green salads.",
    "..": "Two dots\nA name that a path takes for the folder above, as no zebra would.",
    "h": f"{escape(HOSTILE)}\n{escape(HOSTILE)}\n{HOSTILE}",  # as text that has tags, and with tags
}
STORED_FIELDS = {
    "a": {"shelf": "fruit"},
    "b": {"shelf": "books"},
    "c": {"shelf": "books"},
    "e/é ?#": {"shelf": "fruit"},
}
LEARNED = {("avocado", "guacamole"): 2.5, ("avocado", "toast"): 0.4, ("avocado", "oil"): -0.6, ("green", "fields"): 0.5}
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
READ_TOKEN, TEACH_TOKEN = "the-reading-token", "the-teaching-token"
PATIENCE = 90.0  # seconds for a service to begin: the first one on a machine compiles


def build_index(path: Path) -> Path:
    words = tc.Vectorizer(weighting="bm25").fit(DOCS.values())
    n = len(words.words_)
    weights = np.zeros((n, n), dtype=np.float32)
    for (query_word, doc_word), weight in LEARNED.items():
        weights[words.index_[query_word], words.index_[doc_word]] = weight
    parts = [Identity(n_terms=n), Sparse(weights=sparse.csr_array(weights))]
    docs = [(doc_id, text, STORED_FIELDS.get(doc_id, {})) for doc_id, text in DOCS.items()]
    Index.build(docs, tc.TextModel(words, words, Weights(parts)), path)
    return path


class Served:
    """A service in a process of its own."""

    def __init__(self, index: Path, taught: Path, **environment: str) -> None:
        self._index, self._taught, self._environment, self._port = index, taught, environment, "0"

    def launch(self) -> None:
        command = [sys.executable, "-c", "from tercet.cli.main import main; main()", "serve", str(self._index)]
        # The first search of a process may have to compile: it gets all the time it wants.
        command += [
            "--port",
            self._port,
            "--show-field",
            "shelf",
            "--taught",
            str(self._taught),
        ]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        environment = os.environ | threads | self._environment
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def wait(self) -> None:
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", self.address)
        if found is None:
            self.stop()
            pytest.fail(f"the service said {self.address!r} instead of its address")
        self._port = found[1]  # the same after a restart, as a reload needs it

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=PATIENCE)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)

    def at(self, query: str) -> str:
        return f"{self.address}?q={quote(query)}"


def page_origin(address: str) -> tuple[str, str]:
    return re.match(r"http://[^/]+/", address)[0], "data:"  # type: ignore[index]


def order(page: Any, system: str = "learned") -> list[str]:
    """The documents of a list, once the answer is there."""
    from playwright.sync_api import expect

    expect(page.locator("#results[aria-busy]")).to_have_count(0)
    expect(page.locator(f"#{system} li").first).to_be_visible()
    return listed(page, system)


def listed(page: Any, system: str = "learned") -> list[str]:
    return page.locator(f"#{system} li").evaluate_all("rows => rows.map(row => row.dataset.id)")


def row_of(page: Any, doc_id: str, system: str = "learned") -> Any:
    return page.locator(f"#{system} li[data-id={doc_id!r}]")


def shown_number(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-").removeprefix("+"))


def version_of(page: Any) -> str:
    """Of the list that is shown; it is told in the history only."""
    return page.locator("#learned").get_attribute("data-version")


def changed(page: Any, **members: Any) -> None:
    """Have the service answer with other members than it does."""

    def answer(route: Any) -> None:
        found = route.fetch().json()
        route.fulfill(json=found | {name: make(found) for name, make in members.items()})

    page.route("**/search?*", answer)
