"""A service whose lists two models share, and its visitors."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from starlette.testclient import TestClient

import tercet as tc
from support.serving import client_of, made_index
from tercet.data.ubi import CLICK_SECONDS
from tercet.measure.duels import VISIT
from tercet.search import Index
from tercet.serve import messages, reloading
from tercet.serve.guard import Access
from tercet.serve.impressions import ImpressionLog
from tercet.serve.interleaving import Interleaver
from tercet.serve.service import Service
from tercet.serve.watched import Watched
from tercet.weights import Identity, Sparse, Weights

QUERY = "green avocado"
QUERIES = ("green avocado", "blue eyes", "pale toast", "dark river", "red stone", "green leaf", "oil", "sky garden")
NOON = 1_772_366_400.0
SETTLED = (VISIT + 1) * CLICK_SECONDS + 1  # seconds after which a visit that begins now counts


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def candidate_of(model: tc.TextModel, seed: int = 5) -> tc.TextModel:
    """Another model over the same words."""
    n, rng = model.weights.shape[0], np.random.default_rng(seed)
    pairs = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.1) / 3
    parts = [Identity(n_terms=n), Sparse(weights=sparse.csr_array(pairs.astype(np.float32)))]
    return replace(model, weights=Weights(parts))


@contextmanager
def sharing(tmp_path: Path, *, baseline: bool = False, access: Access | None = None, **options: Any):
    """A service of an index on disk that shares its lists with a candidate on disk; it looks when told to."""
    if not (tmp_path / "index").exists():
        index = made_index(tmp_path / "index")
        candidate_of(index.model).save(tmp_path / "candidate")
    clock = options.pop("clock", None) or Clock()
    log = ImpressionLog(tmp_path / "impressions", clock=clock)
    folder = tmp_path / "candidate"
    interleaver = Interleaver(log, None if baseline else Watched(folder, lambda: tc.load(folder)), **options)
    source = Watched(tmp_path / "index", lambda: Index.open(tmp_path / "index"))
    try:
        service = Service(
            source.open(),
            tmp_path / "taught.db",
            impressions=log,
            source=source,
            look_seconds=0,
            interleaver=interleaver,
        )
    except BaseException:
        log.close()
        raise
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            client_of(service, access) as api,
        ):
            patch.setattr(reloading, "_COUNT_SECONDS", 3600.0)
            yield api, service, clock
    finally:
        service.close()


def search(api: TestClient, query: str = QUERY, **params: Any) -> dict[str, Any]:
    answer = api.get("/search", params={"q": query, "client": "reader-1"} | params)
    assert answer.status_code == 200, answer.text
    messages.SearchAnswer.model_validate(answer.json())
    return answer.json()


def ids(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["learned"]]


def logged(tmp_path: Path) -> list[dict[str, Any]]:
    files = sorted((tmp_path / "impressions").glob("ubi_queries-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def lists_of(service: Service, query: str, k: int) -> tuple[list[str], list[str]]:
    """What is served alone, and what the candidate would serve."""
    now = service.now
    assert now.rival is not None
    return tuple([hit.doc_id for hit in one.index.search(query, k)] for one in now)  # type: ignore[return-value]


def visit(tmp_path: Path, api: TestClient, n: int, team: int, start: int = 0) -> None:
    """Visitors of one list each, who click what one side added."""
    for number in range(start, start + n):
        answer = search(api, QUERIES[number % len(QUERIES)], client=f"visitor-{number}")
        record = logged(tmp_path)[-1]
        teams = record["query_attributes"]["interleaved"]["teams"]
        if team in teams:
            click = {"query_id": answer["query_id"], "doc": ids(answer)[teams.index(team)]}
            assert api.post("/events", json=click | {"client": f"visitor-{number}"}).status_code == 202
