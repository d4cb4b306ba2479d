"""A small index and a service of it, in this process or in one of its own, for the tests of serving."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel
from scipy import sparse
from starlette.testclient import TestClient

import tercet as tc
from tercet.search import Index
from tercet.serve import Journal, messages
from tercet.serve.app import create_app
from tercet.serve.bounds import Limits
from tercet.serve.guard import Access
from tercet.serve.journal import Clicked, Entry, Preferred, Trust, Withdrawn
from tercet.serve.service import Service
from tercet.weights import Identity, LowRank, Part, Sparse, Weights

HOSTILE = "<script>alert('x')</script> avocado\n<img src=x onerror=alert(1)> & \"quotes\" \u202e of green eyes"
_NOUNS = ("avocado", "eyes", "sky", "toast", "garden", "river", "stone", "lutein", "oil", "leaf")
_COLOURS = ("green", "blue", "red", "pale", "dark")
TIME = "2026-01-01T00:00:00Z"


def made_docs(n: int = 60, seed: int = 0) -> dict[str, str]:
    """Short texts over few words, so that every query finds many of them; the last one is hostile."""
    rng = np.random.default_rng(seed)
    docs = {}
    for at in range(n - 1):
        words = [*rng.choice(_NOUNS, 4), *rng.choice(_COLOURS, 3)]
        docs[f"d{at}"] = f"{words[0]} and {words[4]} {words[1]}\n" + " ".join(words[2:] * 2)
    return docs | {"hostile/é": HOSTILE}


def made_index(path: Path | None = None, *, latent: bool = False, docs: dict[str, str] | None = None) -> Index:
    """BM25 and a few learned pairs, or a low-rank part as well."""
    docs = made_docs() if docs is None else docs
    words = tc.Vectoriser(weighting="bm25", analyser=tc.Analyser(html=False)).fit(made_docs().values())
    n = len(words.words_)
    rng = np.random.default_rng(1)
    pairs = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.05) / 4
    parts: list[Part] = [Identity(n_terms=n), Sparse(weights=sparse.csr_array(pairs.astype(np.float32)))]
    if latent:
        factors = [rng.normal(size=(n, 3)).astype(np.float32) / 8 for _ in range(2)]
        parts.append(LowRank(query_factors=factors[0], doc_factors=factors[1]))
    return Index.build(docs, tc.TextModel(words, words, Weights(parts)), path)


def preferred(
    number: int,
    query: str,
    better: str,
    worse: str,
    client: str = "10.0.0.1",
    trust: Trust | None = None,
    hours: float = 0.0,
) -> Entry:
    """An entry so many hours after the first of January; without trust, as services wrote it before."""
    time = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    return Preferred(number, time, client, query, better, worse, trust)


@contextmanager
def served(
    journal: Path, index: Index | None = None, limits: Limits | None = None, access: Access | None = None
) -> Iterator[tuple[TestClient, Service]]:
    """A service in this process, and a client of it."""
    service = Service(
        made_index() if index is None else index, journal, limits or Limits(write_burst=1000, deadline_ms=60_000)
    )
    try:
        app = create_app(service, access)
        with TestClient(app, base_url="http://127.0.0.1:8080", client=("10.0.0.1", 5000)) as client:
            yield client, service
    finally:
        service.close()


class Answer:
    """What came back over a real connection."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> Any:
        return json.loads(self.body)


class Running:
    """A service in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address

    def ask(
        self,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float = 20,
        method: str | None = None,
    ) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address.rstrip("/") + path, data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as found:
                return Answer(found.status, found.headers, found.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())


@contextmanager
def running(index: Path, *options: str, patience: float = 60, **environment: str) -> Iterator[Running]:
    """Start ``tercet serve`` on a free port; it is gone at the end of the block, however that is left."""
    program = "import sys; from tercet.cli.main import main; sys.argv[0] = 'tercet'; main()"
    # Whatever Python warns of is an error in there, too.
    command = [sys.executable, "-W", "error", "-c", program, "serve", str(index), "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    too_late = threading.Timer(patience, process.kill)
    too_late.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith("http://"), process.communicate()[1]
        yield Running(process, line)
    finally:
        too_late.cancel()
        if process.poll() is None:
            process.kill()
        process.communicate()


def eventually(holds: Callable[[], bool], seconds: float = 90.0) -> bool:
    """Whether it holds before so many seconds are over, on a machine that may be busy."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def refused(response: Any, status: int, word: str) -> Any:
    """The body of a problem, which says ``word``."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    messages.ProblemDetails.model_validate(body)
    assert body["status"] == status
    assert word in body["detail"]
    return body


def checked(response: Any, model: type[BaseModel], status: int = 200) -> Any:
    """The body of an answer that is as the OpenAPI document says."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    model.model_validate(response.json(), strict=False)
    assert set(response.json()) == set(model.model_fields)
    return response.json()


def clicked(
    number: int,
    query: str,
    shown: tuple[str, ...],
    *chosen: str,
    client: str = "10.0.0.1",
    trust: Trust | None = None,
) -> Entry:
    return Clicked(number, TIME, client, query, shown, chosen, trust)


def withdrawn(number: int, *entries: int) -> Entry:
    return Withdrawn(number, TIME, "10.0.0.1", "undo", entries)


def noisy(n: int, client: Callable[[int], str], trust: Trust | None = None, hours: float = 0.0) -> list[Entry]:
    """Votes at random, all of them within so many hours."""
    rng, docs = np.random.default_rng(5), list(made_docs())[:-1]
    entries: list[Entry] = []
    for number in range(1, n + 1):
        better, worse = rng.choice(docs, 2, replace=False)
        query = str(rng.choice(["green", "blue", "red avocado", "pale sky", "oil"]))
        when = hours * number / n
        entries.append(preferred(number, query, str(better), str(worse), client(number), trust, when))
    return entries


def written(path: Path, entries: Sequence[Entry]) -> Path:
    """A journal of these entries."""
    with Journal(path) as journal:
        for entry in entries:
            assert journal.append(lambda number, entry=entry: entry) == entry
    return path
