"""A tiny Wikispeedia and a tiny Kyoto, in the real formats."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from urllib.parse import quote

import numpy as np

from reproductions.readers import GRAPH, TEXTS

TOPICS = ("stars", "rivers", "music")
N = 36


def text_of(i: int, rng: np.random.Generator) -> str:
    own = [f"{TOPICS[i % 3]}{j}" for j in rng.integers(0, 12, 14)]
    return " ".join([*own, *(f"common{j}" for j in rng.integers(0, 20, 10)), f"only{i} only{i}"])


def write_linked_corpus(folder: Path) -> Path:
    """Articles that link within their topic; the same as parallel texts whose Japanese words are other words."""
    rng = np.random.default_rng(5)
    wiki = folder / "wikispeedia"
    (wiki / TEXTS).mkdir(parents=True)
    (wiki / GRAPH).mkdir()
    texts = [text_of(i, rng) for i in range(N)]
    names = [f"Article_{i}" for i in range(N - 1)] + ["1990s"]
    for name, text in zip(names, texts, strict=True):
        (wiki / TEXTS / f"{name}.txt").write_bytes(article(name, text))
    (wiki / GRAPH / "articles.tsv").write_text("# all\n\n" + "\n".join(names) + "\n")
    links = [(i, j) for i in range(N) for j in range(N) if i != j and i % 3 == j % 3 and rng.random() < 0.6]
    links += [(i, N - 1) for i in range(N - 1)]
    lines = [f"{names[i]}\t{names[j]}" for i, j in sorted(set(links))]
    (wiki / GRAPH / "links.tsv").write_text("# links\n\n" + "\n".join(lines) + "\n")
    (folder / "kyoto-ja-en").mkdir()
    with gzip.open(folder / "kyoto-ja-en" / "docs.jsonl.gz", "wt") as file:
        for i in range(N):
            mentioned = [j for a, j in links if a == i and j != N - 1][:5]
            english = texts[i] + " " + " ".join(f"Title number{j}x" for j in mentioned)
            japanese = texts[i].replace("common", "futsu").translate(str.maketrans("aeiou", "uoaei"))
            row = {"id": f"K{i}", "category": "X", "title_ja": f"J{i}", "title_en": f"Title number{i}x"}
            file.write(json.dumps(row | {"ja": [japanese], "en": [english]}) + "\n")
    return folder


def article(title: str, body: str) -> bytes:
    return (
        f"   #copyright\n\n{title}\n\n2007 Schools Wikipedia Selection. Related subjects: History of\nmany things\n\n"
        f'{body}\n   Retrieved from "\n   http://en.wikipedia.org/wiki/{quote(title)}"\n'
        "   This reference article is mainly selected from the English Wikipedia\n   with only minor checks and "
        "changes (see www.wikipedia.org for details\n   of authors and sources). See also our Disclaimer.\n\n"
    ).encode()
