"""What is no longer served is freed at once, not when the garbage collector looks at all there is; and given back."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.serving import eventually
from support.sharing import QUERY, candidate_of, search, sharing
from tercet.search import Index
from tercet.serve import allocator
from tercet.serve.reloading import Generation
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
    for name, generation in (("served", service.served), ("rival", rival_of(service))):
        version = generation.version
        alive |= {
            name: generation,
            f"{name} learner": generation.learner,
            f"{name} state": generation.learner._state,
            f"{name} version": version,
            f"{name} index": version.index,
            f"{name} view": version.index._view,
            f"{name} workspace": version.index._view.spare[0],
            f"{name} baseline": generation.baseline.index._view,
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
    assert taught.json()["effect"]["reason"] == "learned"


def use(api: Any, service: Service) -> None:
    """Ask and teach as visitors do, until both models have learned it."""
    teach(api, service)
    assert api.post("/undo", json={}).status_code == 202
    teach(api, service)
    for path in ("/learned", "/collection", "/health", "/metrics", "/versions"):
        assert api.get(path).status_code == 200
    assert eventually(lambda: rival_of(service).version.number == len(service.journal))
    search(api)


def rival_of(service: Service) -> Generation:
    return service.interleaver._rival.generation


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
        before = {name: served_now(service)[name] for name in ("served version", "served view", "served workspace")}
        teach(api, service)
        gc.collect()  # the client that tests ask by leaves circles behind
        assert kept(before) == []


# A large piece that is freed first is what makes glibc put later ones among others.
_APART = """
import ctypes, runpy, sys

class Mallinfo(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
if not hasattr(libc, "mallinfo2"):
    sys.exit("older than 2.33")
libc.mallinfo2.restype = Mallinfo
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
allocator = runpy.run_path(sys.argv[1])
if sys.argv[2] == "apart":
    allocator["keep_large_arrays_apart"]()
libc.free(libc.malloc(8 << 20))
before = libc.mallinfo2().hblkhd
libc.malloc(2 << 20)
print("apart" if libc.mallinfo2().hblkhd - before >= 2 << 20 else "among others")
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
@pytest.mark.parametrize(
    ("asked", "environment", "where"),
    [
        ("apart", {}, "apart"),
        ("not", {}, "among others"),
        ("apart", {"MALLOC_MMAP_THRESHOLD_": "33554432"}, "among others"),
        ("apart", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=33554432"}, "among others"),
    ],
)
def test_large_arrays_have_pages_of_their_own_unless_the_user_says_otherwise(asked, environment, where):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", _APART, allocator.__file__, asked],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "older than" in done.stderr:
        pytest.skip("this glibc does not tell how much is mapped")
    assert done.stdout.strip() == where, done.stderr


def test_other_c_libraries_are_left_as_they_are(monkeypatch):
    monkeypatch.setattr(allocator, "_of_glibc", allocator._of_glibc.__wrapped__)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert allocator._of_glibc("mallopt") is None
    allocator.keep_large_arrays_apart()
    allocator.return_free_memory()
