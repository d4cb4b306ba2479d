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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel
from scipy import sparse
from starlette.testclient import TestClient

import tercet as tc
from tercet.search import Index
from tercet.serve import messages
from tercet.serve.app import create_app
from tercet.serve.guard import Access
from tercet.serve.service import Limits, Service
from tercet.weights import Identity, LowRank, Part, Sparse, Weights

HOSTILE = "<script>alert('x')</script> avocado\n<img src=x onerror=alert(1)> & \"quotes\" \u202e of green eyes"
_NOUNS = ("avocado", "eyes", "sky", "toast", "garden", "river", "stone", "lutein", "oil", "leaf")
_COLORS = ("green", "blue", "red", "pale", "dark")
HERE, ELSEWHERE = ("127.0.0.1", 5000), ("10.0.0.1", 5000)  # where a request comes from


def made_docs(n: int = 60, seed: int = 0) -> dict[str, str]:
    """Short texts over few words, so that every query finds many of them; the last one is hostile."""
    rng = np.random.default_rng(seed)
    docs = {}
    for at in range(n - 1):
        words = [*rng.choice(_NOUNS, 4), *rng.choice(_COLORS, 3)]
        docs[f"d{at}"] = f"{words[0]} and {words[4]} {words[1]}\n" + " ".join(words[2:] * 2)
    return docs | {"hostile/é": HOSTILE}


def made_index(path: Path | None = None, *, latent: bool = False, docs: dict[str, str] | None = None) -> Index:
    """BM25 and a few learned pairs, or a low-rank part as well."""
    docs = made_docs() if docs is None else docs
    words = tc.Vectorizer(weighting="bm25", analyzer=tc.Analyzer(html=False)).fit(made_docs().values())
    n = len(words.words_)
    rng = np.random.default_rng(1)
    pairs = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.05) / 4
    parts: list[Part] = [Identity(n_terms=n), Sparse(weights=sparse.csr_array(pairs.astype(np.float32)))]
    if latent:
        factors = [rng.normal(size=(n, 3)).astype(np.float32) / 8 for _ in range(2)]
        parts.append(LowRank(query_factors=factors[0], doc_factors=factors[1]))
    return Index.build(docs, tc.TextModel(words, words, Weights(parts)), path)


def client_of(service: Service, access: Access | None = None, client: tuple[str, int] = HERE) -> TestClient:
    """Return a client of a service in this process; by default it teaches, since it is of this machine."""
    return TestClient(create_app(service, access), base_url="http://127.0.0.1:8080", client=client)


@contextmanager
def served(
    taught: Path,
    index: Index | None = None,
    limits: Limits | None = None,
    access: Access | None = None,
    client: tuple[str, int] = HERE,
    **options: Any,
) -> Iterator[tuple[TestClient, Service]]:
    """A service in this process, and a client of it."""
    limits = limits or Limits(strangers_per_minute=1e6)
    service = Service(made_index() if index is None else index, taught, limits, **options)
    try:
        with client_of(service, access, client) as api:
            yield api, service
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
