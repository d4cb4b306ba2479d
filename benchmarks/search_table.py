"""Search as people feel it: the first search, one query, indexing texts, and growth, beside bm25s, tantivy and SciPy.

    python benchmarks/search_table.py --data-home DIR [--quick] [--only processes,query,texts,growth]

Processor time, the least of some runs, all engines over the same documents in the same run. Whole processes and the
text query take NFCorpus with English stems; growth takes the made-up documents of ``search_speed.py``, of 50,000 to
2,000,000 of them, of which tantivy has its own BM25 and all others the same weights. ``pip install bm25s tantivy``.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import Stemmer
import tantivy
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import Clock, machine_facts, median, parse_arguments, print_facts, print_table, verdict, write_json
from search_speed import K, bm25s_over, columns_of, documents_at, drawn_words, in_turn
from start_up import PYTHON, TERCET, cpu_seconds
from tercet.data import read_queries, read_table
from tercet.search import in_numpy

OURS, ENGINES = "tercet", ("tercet", "bm25s", "tantivy", "scipy")
QUERY = "vitamin D and breast cancer"
LIMIT_OF_TEXTS, WORDS_OF_A_TEXT = 100_000, 60
ENDINGS = ("", "", "", "s", "ed", "ing", "er", "ly")
Times = dict[str, float]

# Programs of a rival: the folder of its index and the query are its arguments.
BM25S = """
import sys, bm25s, Stemmer
retriever = bm25s.BM25.load(sys.argv[1], load_corpus=True)
tokens = bm25s.tokenize([sys.argv[2]], stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
print(retriever.retrieve(tokens, k=10, show_progress=False).documents)
"""
TANTIVY = """
import sys, tantivy
index = tantivy.Index.open(sys.argv[1])
searcher = index.searcher()
hits = searcher.search(index.parse_query(sys.argv[2], ["body"]), 10).hits
print([searcher.doc(address)["id"] for _, address in hits])
"""
SCIPY = """
import json, sys, numpy as np
from scipy import sparse
columns, words = sparse.load_npz(sys.argv[1] + "/columns.npz"), json.load(open(sys.argv[1] + "/words.json"))
terms = [words[word] for word in sys.argv[2].split() if word in words]
scores = columns[:, terms].sum(axis=1)
print(np.argsort(-scores)[:10])
"""


# -- the rivals' indexes ----------------------------------------------------------------------------------------------


def tantivy_index(texts: Any, tokenizer: str, path: Path | None = None) -> Any:
    """Index (id, text) pairs with one thread, in memory without a path."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("body", stored=False, tokenizer_name=tokenizer, index_option="freq")
    schema = builder.build()
    index = tantivy.Index(schema, path=None if path is None else str(path))
    writer = index.writer(256 * 2**20, num_threads=1)
    for doc_id, text in texts:
        writer.add_document(tantivy.Document(id=doc_id, body=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def tantivy_search(index: Any) -> Callable[[Any], Any]:
    searcher = index.searcher()

    def search(query: Any) -> list[Any]:
        parsed = index.parse_query(query, ["body"])
        return [searcher.doc(address)["id"] for _, address in searcher.search(parsed, K, count=False).hits]

    return search


def bm25s_index(texts: list[str], stemmer: Any, backend: str = "numba") -> Any:
    retriever = bm25s.BM25(k1=0.9, b=0.4, backend=backend)
    tokens = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    retriever.index(tokens, show_progress=False)
    return retriever


def scipy_search(columns: sparse.csc_array) -> Callable[[NDArray[Any]], Any]:
    """Sum the slices of the columns of a query's words, and partition."""
    starts, docs, values = columns.indptr, columns.indices, columns.data

    def search(terms: NDArray[Any]) -> Any:
        scores = np.zeros(columns.shape[0], dtype=np.float32)
        for term in terms.tolist():
            part = slice(starts[term], starts[term + 1])
            scores[docs[part]] += values[part]
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best], kind="stable")]

    return search


# -- the rows of the table --------------------------------------------------------------------------------------------


def whole_processes(docs: dict[str, str], folder: Path, quick: bool) -> dict[str, Times]:
    """``tercet search`` with a warm and an empty cache of kernels, and what compiling adds to the first demo."""
    tc.Index.build(docs, path=folder / "tercet", analyzer=english())
    retriever = bm25s_index(list(docs.values()), Stemmer.Stemmer("english"), "numpy")  # which starts sooner
    retriever.save(folder / "bm25s", corpus=list(docs), show_progress=False)
    (folder / "tantivy").mkdir()
    tantivy_index(docs.items(), "en_stem", folder / "tantivy")
    vectorizer = tc.Vectorizer(weighting="bm25")
    (folder / "scipy").mkdir()
    sparse.save_npz(folder / "scipy" / "columns.npz", vectorizer.fit_transform_docs(docs.values()).tocsc())
    (folder / "scipy" / "words.json").write_text(json.dumps(vectorizer.index_))
    commands = {OURS: [*TERCET, "search", str(folder / "tercet"), QUERY]}
    for name, program in (("bm25s", BM25S), ("tantivy", TANTIVY), ("scipy", SCIPY)):
        commands[name] = [*PYTHON, program, str(folder / name), QUERY]
    runs = 2 if quick else 5
    later: Times = dict.fromkeys(commands, np.inf)
    with tempfile.TemporaryDirectory() as cache:
        first = {name: cpu_seconds(command, cache) for name, command in commands.items()}
        for _ in range(runs):
            for name, command in commands.items():
                later[name] = min(later[name], cpu_seconds(command, cache))
    rows = {"search, warm": later, "search, first ever": first}
    if not quick:
        with tempfile.TemporaryDirectory() as cache:
            demo = [*TERCET, "demo", "-o", str(folder / "demo")]
            cold, warm = cpu_seconds(demo, cache), cpu_seconds(demo, cache)
        print(f"make demo: {cold:.1f} CPU s with an empty cache of kernels, {warm:.1f} afterwards")
        rows["compiling in the first make demo"] = {OURS: cold - warm}
    return rows


def one_text_query(docs: dict[str, str], queries: list[str], clock: Clock) -> Times:
    """Microseconds of a query from its text to the ids of the ten best."""
    ids, stemmer = list(docs), Stemmer.Stemmer("english")
    index = tc.Index.build(docs, analyzer=english())
    retriever, engine = bm25s_index(list(docs.values()), stemmer), tantivy_index(docs.items(), "en_stem")
    vectorizer = index.model.query_vectorizer
    by_columns = scipy_search(vectorizer.transform_docs(docs.values()).tocsc())
    by_tantivy = tantivy_search(engine)

    def by_bm25s(text: str) -> list[str]:
        tokens = bm25s.tokenize([text], stopwords="en", stemmer=stemmer, show_progress=False)
        return [ids[d] for d in retriever.retrieve(tokens, k=K, show_progress=False, n_threads=0).documents[0]]

    engines: dict[str, Callable[[str], Any]] = {
        OURS: lambda text: [hit.doc_id for hit in index.search(text, K)],
        "bm25s": by_bm25s,
        "tantivy": lambda text: by_tantivy("".join(c if c.isalnum() else " " for c in text)),
        "scipy": lambda text: [ids[d] for d in by_columns(vectorizer.transform_queries([text]).indices)],
    }
    times = in_turn(engines, queries, 5, clock, time.process_time)
    return {name: 1000 * median(each) for name, each in times.items()}


def indexing(n_docs: int, rng: np.random.Generator, folder: Path) -> Times:
    """Processor seconds to index texts with English stems and stop words, onto disk where the engine has one."""
    syllables = ["".join(pair) for pair in zip("bcdfglmnprstv" * 5, "aeiou" * 13, strict=True)]
    share = np.cumsum(1 / (np.arange(300_000) + 10.0))

    def word(number: int) -> str:
        stem, ending = divmod(number, len(ENDINGS))
        letters = []
        while stem or not letters:
            stem, letter = divmod(stem, len(syllables))
            letters.append(syllables[letter])
        return "".join(letters) + ENDINGS[ending]

    words = np.array([word(number) for number in range(share.size)], dtype=object)
    lengths = rng.integers(WORDS_OF_A_TEXT // 2, 3 * WORDS_OF_A_TEXT // 2 + 1, n_docs)
    drawn = words[np.searchsorted(share / share[-1], rng.random(int(lengths.sum())))]
    ends = np.cumsum(lengths)
    texts = [" ".join(drawn[end - n : end]) for n, end in zip(lengths.tolist(), ends.tolist(), strict=True)]
    docs = {f"d{number}": text for number, text in enumerate(texts)}
    (folder / "texts").mkdir()
    engines: dict[str, Callable[[], Any]] = {
        OURS: lambda: tc.Index.build(docs, path=folder / "texts-tercet", analyzer=english()),
        "bm25s": lambda: bm25s_index(texts, Stemmer.Stemmer("english")),
        "tantivy": lambda: tantivy_index(docs.items(), "en_stem", folder / "texts"),
    }
    tc.Index.build({"d": texts[0]})  # compiles
    times = {}
    for name, index in engines.items():
        started = time.process_time()
        index()
        times[name] = time.process_time() - started
    return times


def growth(n_docs: int, n_queries: int, seed: int, folder: Path, clock: Clock) -> Times:
    """Milliseconds of a plain query of 2 to 8 words, one by one."""
    path = folder / f"growth-{n_docs}"
    script = Path(__file__).with_name("search_speed.py")
    build = [sys.executable, str(script), "--build", str(path), "--docs", str(n_docs), "--seed", str(seed)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    index = tc.Index.open(path, verify="never")
    columns = columns_of(index, n_docs, seed)
    words = np.array([f"w{term}" for term in range(columns.shape[1])], dtype=object)

    def texts() -> Any:
        for start in range(0, n_docs, 65_536):
            D = documents_at(start, n_docs, seed)
            named = words[D.indices]
            for row, (a, b) in enumerate(zip(D.indptr[:-1].tolist(), D.indptr[1:].tolist(), strict=True)):
                yield str(start + row), " ".join(named[a:b])

    by_tantivy, by_bm25s = tantivy_search(tantivy_index(texts(), "whitespace")), bm25s_over(columns)
    by_columns = scipy_search(columns)
    assert by_bm25s is not None
    rng = np.random.default_rng(seed)
    asked = []
    for _ in range(n_queries):
        terms = np.unique(drawn_words(int(rng.integers(2, 9)), rng)).astype(np.int32)
        row = sparse.csr_array((np.ones(terms.size), terms, np.array([0, terms.size])), shape=(1, columns.shape[1]))
        asked.append((terms, row, terms.tolist(), " ".join(words[terms])))
    for terms, row, *_ in asked[:20]:
        exact = np.sort(columns[:, terms].astype(np.float64).sum(axis=1))[::-1]
        scores = [hit.score for hit in index.search_row(row, K)]
        assert np.allclose(scores, exact[: len(scores)], rtol=1e-5), "another answer than SciPy's"
    engines: dict[str, Callable[[Any], Any]] = {
        OURS: lambda query: index.search_row(query[1], K),
        "bm25s": lambda query: by_bm25s([query[2]]),
        "tantivy": lambda query: by_tantivy(query[3]),
        "scipy": lambda query: by_columns(query[0]),
    }
    in_numpy.budget.left = 0  # as after the first second of searching: by kernels
    times = in_turn(engines, asked, 3, clock, time.process_time)
    return {name: float(each.mean()) for name, each in times.items()}


def english() -> tc.Analyzer:
    return tc.Analyzer(stop_words="english", stemmer="english")


# -- the table --------------------------------------------------------------------------------------------------------

AIMS = {
    "search, warm": ("CPU s", 0.35),
    "search, first ever": ("CPU s", 1.5),
    "compiling in the first make demo": ("CPU s", 8.0),
    "one text query, 3,633 documents": ("µs", 60.0),
    "index 100,000 texts": ("CPU s", 8.0),
    "plain query, 50,000 documents": ("ms", 0.07),
}


def print_rows(rows: dict[str, Times]) -> None:
    lines = []
    for name, times in rows.items():
        unit, aim = AIMS.get(name, ("CPU s" if name.startswith("index") else "ms", None))
        met = "" if aim is None else f"{aim:g}: {verdict(times[OURS], aim, at_most=True)}"
        lines.append((f"{name}, {unit}", *(f"{times[each]:.3g}" if each in times else "" for each in ENGINES), met))
    print_table("Search", ("", *ENGINES, "aim"), lines)


def main() -> None:
    arguments = parse_arguments(__doc__, only=str)
    facts, clock, quick = machine_facts("bm25s", "tantivy"), Clock(), arguments.quick
    print_facts(facts)
    wanted = (arguments.only or "processes,query,texts,growth").split(",")
    home = arguments.data_home / "nfcorpus"
    rows: dict[str, Times] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if "processes" in wanted:
            rows |= whole_processes(read_table(home / "corpus.jsonl.gz"), folder, quick)
        if "query" in wanted:
            queries = list(read_queries(home / "queries.jsonl").values())[: 50 if quick else 300]
            docs = read_table(home / "corpus.jsonl.gz")
            rows["one text query, 3,633 documents"] = one_text_query(docs, queries, clock)
        if "texts" in wanted:
            n_docs = LIMIT_OF_TEXTS // (10 if quick else 1)
            rows[f"index {n_docs:,} texts"] = indexing(n_docs, np.random.default_rng(arguments.seed), folder)
        if "growth" in wanted:
            sizes = [50_000] if quick else [50_000, 500_000, 2_000_000]
            for n_docs in sizes:
                times = growth(n_docs, 100 if quick else 200, arguments.seed, folder, clock)
                rows[f"plain query, {n_docs:,} documents"] = times
            if len(sizes) > 1:
                first, last = (rows[f"plain query, {n:,} documents"] for n in (sizes[0], sizes[-1]))
                powers = {name: np.log(last[name] / first[name]) / np.log(sizes[-1] / sizes[0]) for name in ENGINES}
                print("growth with n documents: " + ", ".join(f"{name} n^{p:.2f}" for name, p in powers.items()))
    print_rows(rows)
    write_json(arguments.output, {"facts": facts, "rows": rows})


if __name__ == "__main__":
    main()
