"""Write the golden index of this version: a small index on disk, and what it must answer when read again.

Run by hand, once for each release (``python tests/make_golden_index.py``); it refuses to overwrite without ``--force``.
Indexes of earlier versions stay, and ``test_index_golden.py`` reads all of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import tercet as tc
from tercet.search import Index
from tercet.weights import Identity, LowRank, Sparse, Weights

GOLDEN = Path(__file__).parents[1] / "golden-index"

DOCS = {
    "007": "Green avocado on toast",
    "1e5": "green eyes",
    "ü": "Blue sky über allem",
    "empty": "",
    "gone": "avocado avocado sky",
    "last": "toast and eyes",
}
ASKED = ("green avocado", "sky eyes guava", "toast", "guava")


def model() -> tc.TextModel:
    """A sparse part, the identity and a low-rank part with a per-document scale; numbers that float32 holds exactly."""
    words = tc.Vectorizer(weighting="bm25").fit(DOCS.values())
    n = len(words.words_)
    rng = np.random.default_rng(2010)
    W = np.where(rng.random((n, n)) < 0.2, rng.integers(-8, 9, (n, n)) / 16, 0).astype(np.float32)
    U, V = (rng.integers(-8, 9, (2, n, 2)) / 32).astype(np.float32)
    latent = LowRank(query_factors=U, doc_factors=V, typical_length=0.5)
    return tc.TextModel(words, words, Weights([Identity(n_terms=n), Sparse(weights=W), latent]))


def answers(index: Index) -> dict[str, Any]:
    return {
        "ids": list(index),
        "hits": {
            text: [
                [hit.doc_id, hit.score, hit.text, [list(pair) for pair in hit.why.pairs]]
                for hit in index.search(text, cutoff=False)
            ]
            for text in ASKED
        },
        "unknown": {text: list(index.search(text).unknown) for text in ASKED},
    }


def make(folder: Path) -> None:
    docs = dict(DOCS)
    last = docs.pop("last")
    index = Index.build(docs, model(), folder / "index", segment_docs=3)
    index.add({"last": last})
    index.remove(["gone"])
    text = json.dumps(answers(index), ensure_ascii=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--force", action="store_true", help="overwrite what is there")
    force = parser.parse_args(arguments).force
    folder = GOLDEN / tc.__version__
    if folder.exists():
        if not force:
            raise SystemExit(
                f"{folder} exists; golden files are kept as they were written. Use --force to replace them"
            )
        shutil.rmtree(folder)
    make(folder)
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
