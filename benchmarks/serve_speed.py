"""Answers per second and times of the service, beside a FastAPI app of twenty lines with bm25s over the same documents.

Each runs in a process of its own on this machine, and is asked in turns by 1, 8 and 64 clients that keep their
connections. Three services are asked: a BM25 index, one with a learned model, and the BM25 one without its guard. The
plain app needs bm25s, which is no dependency of Tercet.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json

CLIENTS = (1, 8, 64)
SECONDS = 4.0

PLAIN = """
import json, sys
import bm25s, uvicorn
from fastapi import FastAPI

ids, texts = zip(*json.load(open(sys.argv[1])).items())
retriever = bm25s.BM25()
retriever.index(bm25s.tokenize(list(texts), show_progress=False), show_progress=False)
app = FastAPI()

@app.get("/search")
def search(q: str, k: int = 10):
    found, scores = retriever.retrieve(bm25s.tokenize(q, show_progress=False), k=k, show_progress=False)
    rows = zip(found[0].tolist(), scores[0].tolist())
    return {"hits": [{"id": ids[row], "score": score, "text": texts[row][:200]} for row, score in rows]}

uvicorn.run(app, port=int(sys.argv[2]), log_level="error")
"""

SERVICE = """
import sys
from tercet.cli.main import cli
if sys.argv[1] == "--no-guard":
    from tercet.serve import guard, run
    async def unguarded(self, scope, receive, send):
        scope.setdefault("state", {}).update(started=__import__("time").monotonic(), holder="", is_local=True)
        await self._app(scope, receive, send)
    guard.Guard.__call__ = unguarded
cli(sys.argv[2:])
"""


class Asker:
    """A client with one connection."""

    def __init__(self, port: int, queries: list[str]) -> None:
        self.port, self.queries, self.times = port, queries, list[float]()

    async def run(self, until: float, start: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        at = start
        while time.perf_counter() < until:
            query, at = self.queries[at % len(self.queries)], at + 1
            began = time.perf_counter()
            writer.write(f"GET /search?k=10&q={quote(query)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            self.times.append(1000 * (time.perf_counter() - began))
        writer.close()


async def load(port: int, queries: list[str], n_clients: int, seconds: float) -> list[float]:
    until = time.perf_counter() + seconds
    clients = [Asker(port, queries) for _ in range(n_clients)]
    await asyncio.gather(*(client.run(until, 7 * i) for i, client in enumerate(clients)))
    return [took for client in clients for took in client.times]


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def made_documents(n: int, seed: int) -> dict[str, str]:
    """Texts of some 60 words with the frequencies of a language."""
    rng = np.random.default_rng(seed)
    words = np.array(["".join(rng.choice(list("abcdefghijklmnoprstuvw"), 6)) for _ in range(40_000)])
    ranks = np.minimum(rng.zipf(1.15, (n, 60)) - 1, words.size - 1)
    return {f"d{i}": " ".join(words[row]) for i, row in enumerate(ranks)}


def collection(name: str, folder: Path, n: int, seed: int) -> tuple[dict[str, str], list[str], list[Path]]:
    """Documents, queries of three words, and indexes: BM25, and with a learned model."""
    import tercet as tc
    from tercet.search import Index
    from tercet.weights import Identity, LowRank, Weights

    docs = made_documents(n, seed)
    rng = np.random.default_rng(seed + 1)
    texts = list(docs.values())
    queries = []
    for _ in range(200):
        words = sorted(set(texts[rng.integers(n)].split()))
        queries.append(" ".join(rng.choice(words, min(3, len(words)), replace=False)))
    plain = Index.build(docs, path=folder / f"{name}-bm25")
    model = plain.model
    assert isinstance(model, tc.TextModel)
    n_words = model.weights.shape[0]
    factors = (rng.normal(size=(n_words, 50)) / 50).astype(np.float32)
    learned = Weights([Identity(n_terms=n_words, scale=15.0), LowRank(query_factors=factors, doc_factors=factors)])
    words = model.doc_vectoriser
    Index.build(docs, tc.TextModel(words, words, learned), folder / f"{name}-learned")
    return docs, queries, [folder / f"{name}-bm25", folder / f"{name}-learned"]


def started(command: list[str], stack: ExitStack) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    return process


def measured(name: str, folder: Path, n: int, seed: int, seconds: float) -> list[dict[str, Any]]:
    docs, queries, indexes = collection(name, folder, n, seed)
    (folder / f"{name}.json").write_text(json.dumps(docs))
    rows = []
    with ExitStack() as stack:
        ports: dict[str, tuple[int, int]] = {}
        plain_port = 18_000 + os.getpid() % 1000
        plain = started([sys.executable, "-c", PLAIN, str(folder / f"{name}.json"), str(plain_port)], stack)
        ports["plain app"] = (plain_port, plain.pid)
        bm25, learned = indexes
        kinds = (("BM25", bm25, "--guard"), ("learned", learned, "--guard"), ("no guard", bm25, "--no-guard"))
        for kind, index, guard in kinds:
            command = [sys.executable, "-c", SERVICE, guard, "serve", str(index), "--port", "0"]
            process = started([*command, "--taught", str(folder / f"{name}-{kind}.db")], stack)
            assert process.stdout is not None
            ports[kind] = (int(process.stdout.readline().rstrip("/\n").rpartition(":")[2]), process.pid)
        for port, _ in ports.values():
            wait_for(port, queries)
        for n_clients in CLIENTS:
            for kind, (port, process_id) in ports.items():
                before = processor_seconds(process_id)
                times = asyncio.run(load(port, queries, n_clients, seconds))
                cost = 1000 * (processor_seconds(process_id) - before) / len(times)
                p50, p99 = np.percentile(times, [50, 99])
                row = {"documents": n, "clients": n_clients, "service": kind, "per_second": len(times) / seconds}
                rows.append(row | {"p50_ms": p50, "p99_ms": p99, "cpu_ms": cost})
    return rows


def wait_for(port: int, queries: list[str]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            asyncio.run(load(port, queries, 2, 1.0))
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise SystemExit(f"nobody answers on port {port}")


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts()
    print_facts(facts)
    sizes = {"small": 5_000} if arguments.quick else {"small": 5_000, "large": 200_000}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, n in sizes.items():
            rows += measured(name, Path(folder), n, arguments.seed, 2.0 if arguments.quick else SECONDS)
    plain = {(row["documents"], row["clients"]): row for row in rows if row["service"] == "plain app"}
    table = []
    for row in rows:
        beside = plain[row["documents"], row["clients"]]
        table.append(
            [
                f"{row['documents']:,}",
                str(row["clients"]),
                row["service"],
                f"{row['per_second']:.0f}",
                f"{row['per_second'] / beside['per_second']:.2f}",
                f"{row['p50_ms']:.1f}",
                f"{row['p99_ms']:.1f}",
                f"{row['p99_ms'] / beside['p99_ms']:.2f}",
                f"{row['cpu_ms']:.2f}",
            ]
        )
    head = ["documents", "clients", "service", "answers/s", "of plain", "p50 ms", "p99 ms", "of plain's", "CPU ms each"]
    print_table("In turns on this machine, the asker on the same cores", head, table)
    write_json(arguments.output, {"machine": facts, "rows": rows})


if __name__ == "__main__":
    main()
