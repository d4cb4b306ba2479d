"""The code blocks of the documents, and a folder of small made-up data in which they run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tercet as tc
from support.corpora import Corpus, synonyms
from support.letor_data import made_up
from support.linked_corpus import write_linked_corpus
from support.random_data import random_preferences, random_texts
from tercet.data import (
    Impression,
    write_beir,
    write_letor,
    write_qrels,
    write_run,
)

PROJECT = Path(__file__).parents[2]
# Notebooks are not among them: `make docs` runs each as a whole.
PAGES = [path for path in sorted((PROJECT / "docs").rglob("*.md")) if path.parent.name != "notebooks"]
DOCUMENTS = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *PAGES]
SHELL = ("tercet ", "make ", "pip ", "pipx ", ".venv/bin/")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


@dataclass(frozen=True)
class Block:
    """A code block: where its first line stands, its language, its text, and why it is not run."""

    document: str
    line: int
    language: str
    text: str
    not_run: str = ""

    @property
    def where(self) -> str:
        return f"{self.document}:{self.line}"

    def commands(self) -> Iterator[list[str]]:
        """The commands of a shell block as lists of words, without what is said of them."""
        for line in self.text.splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def blocks_of(path: Path) -> list[Block]:
    """Fenced blocks and indented ones; a block is indented after a blank line, outside of lists."""
    document = path.relative_to(PROJECT).as_posix()
    lines = [*path.read_text(encoding="utf-8").splitlines(), ""]
    blocks: list[Block] = []
    number, reason, in_list = 0, "", False
    while number < len(lines):
        line = lines[number]
        start = number + 1  # the next line, and the number of this one
        if marker := NOT_RUN.fullmatch(line.strip()):
            reason = marker[1]
        elif line.startswith("```"):
            number = lines.index("```", start)
            if not line.startswith("```{"):  # what is said to Sphinx: a list of pages, a note
                blocks.append(Block(document, start + 1, line[3:], "\n".join(lines[start:number]), reason))
            reason = ""
        elif line.startswith("    ") and not in_list and not lines[number - 1].strip():
            while lines[number + 1].startswith("    "):
                number += 1
            text = "\n".join(indented[4:] for indented in lines[start - 1 : number + 1])
            language = "sh" if text.startswith(SHELL) else ""
            blocks.append(Block(document, start, language, text, reason))
            reason = ""
        elif line.strip():
            in_list = bool(re.match(r"\s*([-*]|\d+\.) ", line)) or (in_list and line.startswith(" "))
        number += 1
    return blocks


# -- the data they speak of ------------------------------------------------------------------------------------------


def made_corpus() -> Corpus:
    """Documents MED-0, MED-1, … of which every other one has the words that documents search for, and queries."""
    corpus = synonyms(0, n_pairs=20, n_docs=80, n_queries=60)
    docs = {f"MED-{row}": text for row, text in enumerate(corpus.docs.values())}
    for doc_id in list(docs)[:-1:2]:
        docs[doc_id] += " avocado acne milk inverse FFT music player"
    qrels = {qid: {f"MED-{d[1:]}": grade for d, grade in grades.items()} for qid, grades in corpus.qrels.items()}
    return Corpus(docs, corpus.queries, qrels)


def write_data(folder: Path) -> None:
    """Every file and folder that the documents name before a command of theirs has written it."""
    corpus = made_corpus()
    parts = {"train": corpus.part(0, 30), "dev": corpus.part(30, 45), "test": corpus.part(45)}
    write_beir(folder / "nfcorpus", corpus.docs, corpus.queries, parts)
    write_beir(
        folder / "more",
        {f"NEW-{i}": f"avocado say{i:02d}" for i in range(5)},
        {"q": "avocado"},
        {"train": {"q": {"NEW-1": 1}}},
    )
    (folder / "queries.jsonl").write_bytes((folder / "nfcorpus" / "queries.jsonl").read_bytes())
    write_qrels(folder / "train.tsv", parts["train"])
    write_qrels(folder / "test.tsv", parts["test"])
    write_qrels(folder / "qrels.txt", parts["test"])
    rng = np.random.default_rng(0)
    ids = list(corpus.docs)
    for name in ("run", "bm25", "a", "b"):
        run = {qid: dict(zip(ids, rng.random(len(ids)).tolist(), strict=True)) for qid in corpus.queries}
        write_run(folder / f"{name}.trec", run)
    shown = [tuple(ids[d] for d in rng.choice(80, 5, replace=False)) for _ in range(300)]
    log = [Impression(text, one, one[2:3]) for one, text in zip(shown, list(corpus.queries.values()) * 5, strict=True)]
    (folder / "clicks.jsonl").write_text("".join(json.dumps(one._asdict()) + "\n" for one in log))
    write_triplets(folder, corpus)
    write_tables(folder, corpus)
    for name, seed in (("train", 1), ("vali", 2), ("test", 3), ("new", 4), ("big", 5)):
        write_letor(folder / f"{name}.txt", made_up(seed, n_queries=40, first_query=1000 * seed))
    (folder / "pairs.tsv").write_text("query\tdocument\tweight\nask01\tsay01\t0.5\nask02\tsay03\tnever\n")
    (folder / "names.txt").write_text("".join(f"feature {i}\n" for i in range(1, 11)))
    write_linked_corpus(folder)


def made_triplets(corpus: Corpus) -> list[tuple[str, str, str]]:
    """Preferences of the training queries, by ids."""
    ids = list(corpus.docs)
    return [
        (qid, better, worse)
        for row, (qid, grades) in enumerate(corpus.part(0, 30).items())
        for better, worse in zip(grades, ids[row:], strict=False)
        if worse not in grades
    ]


def write_triplets(folder: Path, corpus: Corpus) -> None:
    """Preferences of the training queries: as a table, as Parquet, and as a folder."""
    import pyarrow
    import pyarrow.parquet

    columns = [list(column) for column in zip(*made_triplets(corpus), strict=True)]
    (folder / "preferences").mkdir()
    for path in (folder / "preferences.tsv", folder / "log.tsv", folder / "preferences" / "log.tsv"):
        path.write_text(
            "".join("\t".join(row) + "\n" for row in [("query", "better", "worse"), *made_triplets(corpus)])
        )
    pyarrow.parquet.write_table(pyarrow.table(columns, ("query", "better", "worse")), folder / "more.parquet")


def write_tables(folder: Path, corpus: Corpus) -> None:
    """The documents as products in three formats, and judgements that name queries by their texts."""
    import pandas

    rows = [
        {"sku": doc_id, "name": text[:10], "description": text, "price": row / 4, "tags": "new"}
        for row, (doc_id, text) in enumerate(corpus.docs.items())
    ]
    products = pandas.DataFrame(rows)
    products.to_csv(folder / "products.csv", index=False)
    products.to_parquet(folder / "products.parquet")
    products.to_json(folder / "products.jsonl", orient="records", lines=True)
    grades = [(corpus.queries[q], d, grade) for q, judged in corpus.qrels.items() for d, grade in judged.items()]
    judged = pandas.DataFrame(grades, columns=["Search Term", "Product ID", "Stars"])
    judged.to_csv(folder / "judged.csv", index=False, sep=";")
    rng = np.random.default_rng(0)
    clicks = [
        {
            "session_id": number,
            "timestamp": number,
            "search_term": corpus.queries[f"q{number % 60}"],
            "position": position,
        }
        | {"product_id": doc_id, "clicked": int(doc_id in corpus.qrels[f"q{number % 60}"])}
        for number in range(300)
        for position, doc_id in enumerate(rng.choice(list(corpus.docs), 5, replace=False), start=1)
    ]
    pandas.DataFrame(clicks).to_csv(folder / "clicks.csv", index=False)
    by_pair = pandas.DataFrame(clicks).groupby(["search_term", "product_id"])
    counts = by_pair.agg(shown=("clicked", "size"), clicked=("clicked", "sum")).reset_index()
    counts["expected"] = counts["shown"] * counts["clicked"].sum() / counts["shown"].sum()
    counts.to_parquet(folder / "evidence.parquet")
    links = [(row["sku"], rows[(number + step) % 80]["sku"]) for number, row in enumerate(rows) for step in (2, 4, 6)]
    pandas.DataFrame(links, columns=["source", "target"]).to_csv(folder / "links.tsv", index=False, sep="\t")
    pages = [{"id": row["sku"], "text": row["description"]} for row in rows]
    for page in pages:
        page["links"] = [target for source, target in links if source == page["id"]]
    pandas.DataFrame(pages).to_json(folder / "pages.jsonl", orient="records", lines=True)


def names(document: str) -> dict[str, Any]:
    """What the Python of a document takes for given."""
    corpus = made_corpus()
    rng = np.random.default_rng(0)
    texts = random_texts(rng, 40, 30)
    prefs = random_preferences(rng, 500, 40, 40)
    taken = {
        "__name__": "__main__",
        "np": np,
        "tc": tc,
        "docs": corpus.docs,
        "queries": corpus.queries,
        "qrels": corpus.qrels,
        "preferences": [(corpus.queries[qid], better, worse) for qid, better, worse in made_triplets(corpus)],
        "log": [(text, tuple(corpus.docs)[:3], tuple(corpus.docs)[1:2]) for text in corpus.queries.values()],
        "more": {"NEW-1": "avocado oil"},
        "changed": {"MED-10": "another avocado"},
        "X": texts,
        "Q": texts,
        "D": texts,
        "prefs": prefs,
        "prefs_or_source": prefs,
        "column": 3,
        "words": [f"w{i}" for i in range(30)],
    }
    return taken
