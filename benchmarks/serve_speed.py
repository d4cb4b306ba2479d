"""Answers per second and times of the service, beside a FastAPI app of twenty lines with bm25s over the same documents.

Each runs in a process of its own on this machine, and is asked in turns by 1, 8 and 64 clients that keep their
connections, five times; the ratios are medians of the ratios within a round. Three services are asked: a BM25 index,
one with a learned model, and the BM25 one without its guard. The documents are those of `tercet demo` with its model,
and 200,000 made-up ones with a model of 50 latent numbers a document. The plain app needs bm25s, which is no dependency
of Tercet.
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
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json

CLIENTS = (1, 8, 64)
SECONDS, ROUNDS = 4.0, 5

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
        await self._direct.get((scope["method"], scope["path"]), self._app)(scope, receive, send)
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


def demo_collection(folder: Path, seed: int) -> tuple[dict[str, str], list[Path]]:
    """Documents of the demo; an index by BM25, and the demo's own."""
    from click.testing import CliRunner

    from tercet.cli.docstrings import docstring_collection
    from tercet.cli.main import cli
    from tercet.search import Index

    docs = dict(docstring_collection(random_state=seed).docs)
    Index.build(docs, path=folder / "demo-bm25")
    done = CliRunner().invoke(cli, ["demo", "-o", str(folder / "demo"), "--seed", str(seed)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return docs, [folder / "demo-bm25", folder / "demo" / "index"]


def made_collection(folder: Path, n: int, seed: int) -> tuple[dict[str, str], list[Path]]:
    """Made-up documents; an index by BM25, and one with a model of latent numbers."""
    import tercet as tc
    from tercet.search import Index
    from tercet.weights import Identity, LowRank, Weights

    docs = made_documents(n, seed)
    model = Index.build(docs, path=folder / "made-bm25").model
    assert isinstance(model, tc.TextModel)
    n_words = model.weights.shape[0]
    factors = (np.random.default_rng(seed).normal(size=(n_words, 50)) / 50).astype(np.float32)
    learned = Weights([Identity(n_terms=n_words, scale=15.0), LowRank(query_factors=factors, doc_factors=factors)])
    words = model.doc_vectorizer
    Index.build(docs, tc.TextModel(words, words, learned), folder / "made-learned")
    return docs, [folder / "made-bm25", folder / "made-learned"]


def drawn_queries(docs: dict[str, str], seed: int) -> list[str]:
    """200 queries of three words of a document each."""
    rng = np.random.default_rng(seed + 1)
    texts = list(docs.values())
    queries = []
    while len(queries) < 200:
        words = sorted({word for word in texts[rng.integers(len(texts))].split() if word.isalpha()})
        if len(words) >= 3:
            queries.append(" ".join(rng.choice(words, 3, replace=False)))
    return queries


def started(command: list[str], stack: ExitStack) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    return process


def measured(
    docs: dict[str, str], indexes: list[Path], folder: Path, seed: int, seconds: float, rounds: int
) -> list[dict[str, Any]]:
    name, queries = str(len(docs)), drawn_queries(docs, seed)
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
        for n_clients, _, (kind, (port, process_id)) in product(CLIENTS, range(rounds), ports.items()):
            before = processor_seconds(process_id)
            times = asyncio.run(load(port, queries, n_clients, seconds))
            cost = 1000 * (processor_seconds(process_id) - before) / len(times)
            p50, p99 = np.percentile(times, [50, 99])
            row = {"documents": len(docs), "clients": n_clients, "service": kind, "per_second": len(times) / seconds}
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
    rounds = 1 if arguments.quick else ROUNDS
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        collections = [demo_collection(folder, arguments.seed)]
        if not arguments.quick:
            collections.append(made_collection(folder, 200_000, arguments.seed))
        for docs, indexes in collections:
            rows += measured(docs, indexes, folder, arguments.seed, SECONDS, rounds)
    head = ["documents", "clients", "service", "answers/s", "of plain", "p50 ms", "p99 ms", "of plain's", "CPU ms each"]
    print_table(f"medians of {rounds} rounds, the asker on the same cores", head, table_of(rows))
    write_json(arguments.output, {"machine": facts, "rows": rows})


def table_of(rows: list[dict[str, Any]]) -> list[list[str]]:
    by_kind: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_kind.setdefault((row["documents"], row["clients"], row["service"]), []).append(row)
    table = []
    for (n_docs, n_clients, kind), same in by_kind.items():
        plain = by_kind[n_docs, n_clients, "plain app"]
        middle = {name: np.median([row[name] for row in same]) for name in ("per_second", "p50_ms", "p99_ms", "cpu_ms")}
        ratio = {
            name: np.median([row[name] / other[name] for row, other in zip(same, plain, strict=True)])
            for name in ("per_second", "p99_ms")
        }
        figures = [f"{middle['per_second']:.0f}", f"{ratio['per_second']:.2f}", f"{middle['p50_ms']:.1f}"]
        figures += [f"{middle['p99_ms']:.1f}", f"{ratio['p99_ms']:.2f}", f"{middle['cpu_ms']:.2f}"]
        table.append([f"{n_docs:,}", str(n_clients), kind, *figures])
    return table


if __name__ == "__main__":
    main()
