"""What is no longer served is freed at once, not when the garbage collector looks at all there is; and given back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.serving import eventually
from support.sharing import QUERY, candidate_of, search, sharing
from tercet.search import Index
from tercet.serve.service import Service


@contextmanager
def without_collector() -> Iterator[None]:
    """Only what nobody refers to is freed; circles stay."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def served_now(service: Service) -> dict[str, weakref.ref[Any]]:
    """All that goes with what is served, and with whom its lists are shared."""
    alive: dict[str, Any] = {}
    for name, served in zip(("served", "rival"), service.now, strict=True):
        alive |= {
            name: served,
            f"{name} index": served.index,
            f"{name} view": served.index._view,
            f"{name} workspace": served.index._view.spare[0],
            f"{name} baseline": served.baseline._view,
        }
    return {name: weakref.ref(one) for name, one in alive.items()}


def kept(before: dict[str, weakref.ref[Any]]) -> list[str]:
    """What is still there; a thread that has answered may hold something for a moment."""

    def there() -> list[str]:
        return [name for name, reference in before.items() if reference() is not None]

    eventually(lambda: not there(), seconds=20.0)
    return there()


def teach(api: Any, service: Service) -> None:
    first, *_, last = (hit.doc_id for hit in service.served.index.search(QUERY))
    taught = api.post("/prefer", json={"query": QUERY, "better": last, "worse": first})
    assert taught.json()["served"]


def use(api: Any, service: Service) -> None:
    """Ask and teach as visitors do, until both models have learned it."""
    teach(api, service)
    assert api.post("/undo", json={}).status_code == 202
    teach(api, service)
    for path in ("/taught", "/collection", "/health", "/metrics"):
        assert api.get(path).status_code == 200
    assert [one.revision for one in service.now] == [service.store.revision] * 2
    search(api)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["documents", "candidate", "promotion"])
def test_a_generation_is_gone_once_another_is_served(tmp_path, change):
    with sharing(tmp_path) as (api, service, _):
        own = service.served.base.model
        use(api, service)
        with without_collector():
            before = served_now(service)
            if change == "candidate":
                candidate_of(own, seed=6).save(tmp_path / "candidate")
                assert service.reloader.look_at_candidate()
                before = {name: one for name, one in before.items() if name.startswith("rival")}
            else:
                writer = Index.open(tmp_path / "index")
                if change == "documents":
                    writer.add({"more": "green avocado oil"})
                else:
                    writer.promote(candidate_of(own, seed=7))
                assert service.reloader.look()
            assert kept(before) == []
        use(api, service)


@pytest.mark.slow
def test_a_version_is_gone_once_another_is_served(tmp_path):
    with sharing(tmp_path) as (api, service, _):
        use(api, service)
        before = {name: served_now(service)[name] for name in ("served", "served view", "served workspace")}
        teach(api, service)
        gc.collect()  # the client that tests ask by leaves circles behind
        assert kept(before) == []
