"""A Qdrant server for tests: what an index uses of its REST API, on loopback, with faults."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

Fault = Callable[[str, str], int | str | None]  # method and path -> a status to answer, "lost" for no answer, or None


Json = dict[str, Any]


class Collection:
    """Points in memory, and the configuration the collection was created with."""

    def __init__(self, config: Json) -> None:
        self.config = config
        self.points: dict[str, Json] = {}

    def put(self, points: Sequence[Json]) -> None:
        self.points |= {point["id"]: point for point in points}

    def records(self, points: Iterable[Json], payload: bool | list[str], vector: bool | list[str]) -> list[Json]:
        """Points as an answer has them, with the parts of them that were asked for."""
        return [
            {"id": point["id"]}
            | ({"payload": _chosen(point["payload"], payload)} if payload else {})
            | ({"vector": _chosen(point["vector"], vector)} if vector else {})
            for point in points
        ]

    def nearest(self, using: str, asked: Json, limit: int) -> list[tuple[Json, float]]:
        """The points of largest inner product, in single precision; those that share no dimension are not listed."""
        weights = dict(zip(asked["indices"], asked["values"], strict=True))
        listed = []
        for point in self.points.values():
            vector = point["vector"].get(using, {"indices": [], "values": []})
            entries = zip(vector["indices"], vector["values"], strict=True)
            products = [weights[term] * value for term, value in entries if term in weights]
            if products:
                listed.append((point, single(sum(products))))
        return sorted(listed, key=lambda pair: -pair[1])[:limit]

    def scroll(self, first: str, limit: int) -> tuple[list[Json], str | None]:
        """A page of points by id, and the id that the next page begins with."""
        listed = [point for key, point in sorted(self.points.items()) if key >= first]
        return listed[:limit], listed[limit]["id"] if len(listed) > limit else None


def _chosen(part: Json, names: bool | list[str]) -> Json:
    return part if names is True else {name: part[name] for name in names or () if name in part}


def single(value: float) -> float:
    """As a server writes it: the shortest number that is this one in single precision."""
    return float(str(np.float32(value)))


class FakeQdrant(ThreadingHTTPServer):
    """Answers until `close`. ``fault`` may spoil requests; ``seen`` lists them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.version = "1.15.4"
        self.collections: dict[str, Collection] = {}
        self.fault: Fault | None = None
        self.seen: list[tuple[str, str]] = []
        self.api_key: str | None = None
        self.lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # which a client that was killed leaves
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    # -- what it answers: status and result -----------------------------------------------------------------------

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Any]:
        found = re.fullmatch(r"/collections/([^/]+)(/.*)?", path)
        if found is None:
            return 404, "Not found"
        name, rest = found.group(1), found.group(2) or ""
        if rest == "/exists":
            return 200, {"exists": name in self.collections}
        if not rest and method == "PUT":
            if name in self.collections:
                return 409, f"Collection `{name}` already exists!"
            self.collections[name] = Collection(body)
            return 200, True
        collection = self.collections.get(name)
        if collection is None:
            return 404, f"Collection `{name}` doesn't exist!"
        if not rest:
            if method == "DELETE":
                del self.collections[name]
                return 200, True
            return 200, self.info(collection)
        return self.points(collection, method, rest, body)

    def points(self, collection: Collection, method: str, rest: str, body: Json) -> tuple[int, Any]:
        done = {"operation_id": 0, "status": "completed"}
        if (method, rest) == ("PUT", "/points"):
            collection.put(body["points"])
            return 200, done
        if rest == "/points/delete":
            for row in body["points"]:
                collection.points.pop(row, None)
            return 200, done
        shown = body.get("with_payload", True), body.get("with_vector", False)
        if rest == "/points":
            listed = [collection.points[row] for row in body["ids"] if row in collection.points]
            return 200, collection.records(listed, *shown)
        if rest == "/points/query/batch":
            return 200, [{"points": self.nearest(collection, each)} for each in body["searches"]]
        if rest == "/points/scroll":
            page, following = collection.scroll(body.get("offset") or "", body["limit"])
            return 200, {"points": collection.records(page, *shown), "next_page_offset": following}
        if rest == "/points/count":
            return 200, {"count": len(collection.points)}
        return 404, "Not found"

    def nearest(self, collection: Collection, body: Json) -> list[Json]:
        listed = collection.nearest(body["using"], body["query"]["nearest"], body["limit"])
        records = collection.records(
            (point for point, _ in listed), body["with_payload"], body.get("with_vector", False)
        )
        found = [record | {"score": score, "version": 0} for record, (_, score) in zip(records, listed, strict=True)]
        if body["limit"] >= 128 and not body["params"]["exact"]:
            return found[::2]  # servers of several shards leave some out, though not as many
        return found

    def info(self, collection: Collection) -> Json:
        params = {"vectors": collection.config.get("vectors") or {}, "shard_number": 1}
        params["sparse_vectors"] = collection.config.get("sparse_vectors")
        hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
        optimizer = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0}
        config = {
            "params": params,
            "hnsw_config": hnsw,
            "optimizer_config": optimizer | {"flush_interval_sec": 5},
            "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
        }
        state = {"status": "green", "optimizer_status": "ok", "segments_count": 1, "payload_schema": {}}
        return state | {"config": config}


class _Handler(BaseHTTPRequestHandler):
    server: FakeQdrant
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _handle(self) -> None:
        path = self.path.partition("?")[0]
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        server = self.server
        with server.lock:
            server.seen.append((self.command, path))
            fault = server.fault(self.command, path) if server.fault is not None else None
            if isinstance(fault, int):
                return self._send(fault, {"status": {"error": "spoilt for the test"}, "time": 0.0})
            if server.api_key is not None and self.headers.get("api-key") != server.api_key:
                return self._send(401, {"status": {"error": "no key"}, "time": 0.0})
            if path == "/":
                return self._send(200, {"title": "qdrant", "version": server.version, "commit": "test"})
            status, result = server.answer(self.command, path, body)
        if fault == "lost":
            self.close_connection = True
            self.connection.close()
            return None
        if status == 200:
            return self._send(200, {"result": result, "status": "ok", "time": 0.0})
        return self._send(status, {"status": {"error": result}, "time": 0.0})

    def _send(self, status: int, output: Any) -> None:
        data = json.dumps(output).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def fake_qdrant() -> Iterator[FakeQdrant]:
    """A server that is gone at the end of the block."""
    server = FakeQdrant()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


def changes(server: FakeQdrant) -> list[tuple[str, str]]:
    """The requests that change something."""
    reading = ("/points", "/points/query/batch", "/points/scroll", "/points/count")
    return [each for each in server.seen if each[0] != "GET" and not (each[0] == "POST" and each[1].endswith(reading))]


class Spoil:
    """Spoils the next requests to a path: each with one of the given faults, then none."""

    def __init__(self, ending: str, *faults: int | str, method: str | None = None) -> None:
        self.ending, self.faults, self.method = ending, list(faults), method

    def __call__(self, method: str, path: str) -> int | str | None:
        meant = path.endswith(self.ending) and self.method in (None, method)
        return self.faults.pop(0) if meant and self.faults else None
