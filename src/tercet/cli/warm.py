"""``tercet warm``: compiles what verbs will need, by running them on a little made-up data."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from tercet.cli.terminal import echo
from tercet.errors import InputError

N_TEXTS, N_WORDS, N_FEATURES = 120, 60, 12


@dataclass(frozen=True)
class Workshop:
    """A folder for a moment, with what verbs work on; each thing is made when it is first wanted."""

    folder: Path

    def run(self, *arguments: object) -> None:
        """Run a verb and keep what it says to ourselves."""
        from tercet.cli.main import cli

        words, said = [str(argument) for argument in arguments], StringIO()
        try:
            with redirect_stdout(said), redirect_stderr(said):
                cli.main(words, prog_name="tercet", standalone_mode=False)
        except SystemExit as error:
            if error.code:
                raise InputError(f"tercet {' '.join(words)}: {said.getvalue().strip()}") from None

    def _made(self, name: str, make: Callable[[Path], Any]) -> Path:
        path = self.folder / name
        if not path.exists():
            make(path)
        return path

    @property
    def data(self) -> Path:
        """A BEIR folder whose queries and documents share words by topic."""
        return self._made("data", _write_texts)

    @property
    def model(self) -> Path:
        return self._made("model", lambda path: self.run("fit", self.data, "--quiet", "-o", path))

    @property
    def rows(self) -> Path:
        """A LETOR file."""
        return self._made("rows.txt", _write_rows)

    def index(self, weights: str) -> Path:
        """An index on disk, by BM25 or with a part of W of this kind beside it."""
        model = self._made(f"{weights}-model", lambda path: _save_model(weights, path))
        return self._made(
            f"{weights}-index", lambda path: self.run("index", self.data, "--quiet", "--model", model, "-o", path)
        )


def _texts() -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 6, N_TEXTS)
    words = np.array([f"word{i:02}" for i in range(N_WORDS)])
    texts = [" ".join(words[(10 * topic + rng.integers(0, 20, 8)) % N_WORDS]) for topic in topics]
    docs = {f"d{i}": text for i, text in enumerate(texts)}
    queries = {f"q{i}": " ".join(text.split()[:3]) for i, text in enumerate(texts[:60])}
    qrels = {qid: {f"d{d}": 1 for d in np.flatnonzero(topics == topics[int(qid[1:])])[:6]} for qid in queries}
    return docs, queries, qrels


def _write_texts(folder: Path) -> None:
    from tercet.data import write_beir

    docs, queries, qrels = _texts()
    write_beir(folder, docs, queries, {"train": qrels})


def _write_rows(path: Path) -> None:
    from tercet.data import LetorData, write_letor

    rng = np.random.default_rng(0)
    X, qid = rng.random((400, N_FEATURES), dtype=np.float32), np.repeat(np.arange(40), 10).astype(str)
    y = np.clip(np.rint(4 * X[:, 0] + rng.normal(0, 0.3, len(X))), 0, 4).astype(np.int64)
    write_letor(path, LetorData(X, y, qid))


def _save_model(weights: str, folder: Path) -> None:
    from scipy import sparse

    from tercet.fitting import TextModel
    from tercet.text import Vectoriser
    from tercet.weights import Identity, LowRank, Sparse, Weights

    vectoriser = Vectoriser(weighting="bm25").fit(_texts()[0].values())
    n, rng = vectoriser.n_features_in_, np.random.default_rng(0)
    parts: list[Any] = [Identity(n_terms=n)]
    if weights == "low rank":
        U, V = rng.normal(0, 0.1, (2, n, 4)).astype(np.float32)
        parts.append(LowRank(query_factors=U, doc_factors=V))
    elif weights == "sparse":
        parts.append(Sparse(weights=sparse.random_array((n, n), density=0.1, rng=rng, format="csr", dtype=np.float32)))
    TextModel(vectoriser, vectoriser, Weights(parts)).save(folder)


def _search(shop: Workshop) -> None:
    for weights in ("BM25", "low rank", "sparse"):
        shop.run("search", shop.index(weights), "word01 word02", "--why")


def _serve(shop: Workshop) -> None:
    from tercet.engines import open_index
    from tercet.serve.learner import Learner

    _search(shop)
    for weights in ("BM25", "low rank"):
        Learner(open_index(shop.index(weights)), ())


def _learn(shop: Workshop) -> None:
    log = shop.folder / "clicks.jsonl"
    log.write_text('{"query": "word01 word02", "shown": ["d1", "d2"], "clicked": ["d2"]}\n' * 20)
    model = shop.folder / "BM25-model"
    shop.index("BM25")
    shop.run("learn", model, log, "--docs", shop.data, "--quiet", "-o", shop.folder / "learned")


def _letor(shop: Workshop) -> None:
    model = shop.folder / "letor"
    shop.run("letor", "fit", shop.rows, "--quiet", "-o", model)
    shop.run("letor", "eval", shop.rows, "--model", model)


WORK: dict[str, Callable[[Workshop], Any]] = {
    "fit": lambda shop: shop.model,
    "index": lambda shop: shop.index("low rank"),
    "search": _search,
    "serve": _serve,
    "learn": _learn,
    "eval": lambda shop: shop.run("eval", shop.data, "--split", "train", "--model", shop.model),
    "letor": _letor,
}


@click.command()
@click.argument("verbs", nargs=-1, type=click.Choice(list(WORK)))
def warm(verbs: tuple[str, ...]) -> None:
    """Compile what VERBS need before they are called, as in a container's recipe; without VERBS, what all need.

    Kernels are compiled when they are first run and kept in the user's cache, or below NUMBA_CACHE_DIR if that is set.
    Afterwards the folder may be read-only.
    """
    from tercet.kernels.compiler import cache_folder, keeping_fails

    with TemporaryDirectory(prefix="tercet-warm-") as folder:
        shop = Workshop(Path(folder))
        for verb in verbs or WORK:
            began = time.process_time()
            WORK[verb](shop)
            echo(f"{verb}: {time.process_time() - began:.1f} s of processor time")
    if keeping_fails():
        raise InputError(f"{cache_folder()} cannot be written to, so nothing was kept")
    echo(f"compiled kernels are in {cache_folder()}")
