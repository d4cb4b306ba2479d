"""A made shop of Debian packages with a click log whose truth is known: what are clicks worth, judgements, and both?

    python examples/shop/shop.py shop/                # makes the shop, learns from it, prints nDCG@10 by the truth
    python examples/shop/shop.py shop/ --make-only    # products.csv, clicks.csv, judged.csv and truth.csv alone

The packages come from ``apt-cache dumpavail``, or from a file with such a list: ``--packages FILE``.

A package is relevant for a query when it has the tag (debtags, such as ``works-with::audio``) that the query was made
from. Tags are nowhere in the products. Queries are one to three words that packages with the tag use more than others
do. Half of the sessions are shown the ten best of BM25, the others those of tf-idf, as where a shop tries a second
ranking. People look at rank r with probability r^-0.7, and click what they look at with probability 0.8 where it is
relevant, and 0.1 where it is not (`tercet.simulate`). A quarter of the queries is in neither the click log nor the
judgements; all figures are on these, by the truth.
"""

from __future__ import annotations

import argparse
import csv
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

import tercet as tc
from tercet.data import ClickLog, read_table
from tercet.measure import paired_test
from tercet.simulate import Visitors, simulate_clicks
from tercet.text import Analyzer, Vectorizer
from tercet.weights import Identity, Weights

N_PACKAGES, N_QUERIES, N_LISTS, N_JUDGED = 5_000, 1_600, 30_000, 300
UNTOUCHED_SHARE = 0.25  # queries that are in neither clicks nor judgements
SHOWN, JUDGED_DEPTH = 10, 20
VISITORS = Visitors(looking=0.7, chances=(0.1, 0.8))
FACETS = ("works-with", "use", "field", "game", "sound", "network", "admin", "security", "hardware", "culture", "web")
BEGIN = datetime(2026, 3, 1, 6)


@dataclass(frozen=True)
class Package:
    """One entry of a package list."""

    name: str
    description: str
    section: str
    size: int
    installed: str
    tags: frozenset[str]


# -- the package list -------------------------------------------------------------------------------------------------


def read_packages(path: Path | None) -> list[Package]:
    """The packages of a file, or of this machine, each name once, those with a tag of `FACETS` only."""
    if path is not None:
        text = path.read_text(encoding="utf-8", errors="replace")
    elif shutil.which("apt-cache"):
        text = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True).stdout.decode(
            "utf-8", "replace"
        )
    else:
        sys.exit("there is no apt-cache here; name a package list, as `apt-cache dumpavail` writes it: --packages FILE")
    packages: dict[str, Package] = {}
    for entry in entries(text):
        tags = entry.get("Tag", "").replace(",", " ").split()
        topics = frozenset(tag for tag in tags if tag.partition("::")[0] in FACETS)
        if topics and entry.get("Description"):
            packages.setdefault(
                entry["Package"],
                Package(
                    entry["Package"],
                    entry["Description"],
                    entry.get("Section", ""),
                    int(entry.get("Size", 0)),
                    entry.get("Installed-Size", ""),
                    topics,
                ),
            )
    if not packages:
        where = "the package lists are empty here; run `apt-get update`, or name a list" if path is None else str(path)
        sys.exit(f"no tagged package was found: {where} (--packages FILE, as `apt-cache dumpavail` writes it)")
    return list(packages.values())


def entries(text: str) -> Iterator[dict[str, str]]:
    """Fields by name, of each entry of a package list; lines that begin with a blank go on with the field above."""
    entry: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if not line.strip():
            if entry:
                yield entry
            entry = {}
        elif line[0] in " \t":
            entry[name] += "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            entry[name] = value.strip()
    if entry:
        yield entry


# -- the shop ---------------------------------------------------------------------------------------------------------


def make_shop(
    packages: list[Package],
    folder: Path,
    *,
    n_packages: int = N_PACKAGES,
    n_queries: int = N_QUERIES,
    n_lists: int = N_LISTS,
    n_judged: int = N_JUDGED,
    seed: int = 0,
) -> None:
    """Write products.csv, clicks.csv, judged.csv and truth.csv."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(packages))[:n_packages]
    goods = [packages[row] for row in sorted(order.tolist())]
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "products.csv", "sku,name,description,category,price,installed_kb", product_rows(goods))
    queries = make_queries(goods, n_queries, rng)
    relevant = {query: {good.name for good in goods if tag in good.tags} for query, tag in queries.items()}
    names = [good.name for good in goods]
    ranked = [
        {query: [names[row] for row in rows] for query, rows in zip(queries, found, strict=True)}
        for found in (best_of(goods, list(queries), JUDGED_DEPTH, weighting) for weighting in ("bm25", "tfidf"))
    ]
    untouched = list(queries)[: round(UNTOUCHED_SHARE * len(queries))]
    asked = list(queries)[len(untouched) :]
    write_rows(
        folder / "truth.csv",
        "query,sku,grade,clicked_or_judged",
        ((q, sku, 1, int(q not in untouched)) for q in queries for sku in sorted(relevant[q])),
    )
    write_rows(
        folder / "judged.csv",
        "query,sku,grade",
        ((q, sku, int(sku in relevant[q])) for q in asked[:n_judged] for sku in ranked[0][q]),
    )
    write_rows(
        folder / "clicks.csv",
        "session_id,timestamp,search_term,position,product_id,clicked",
        click_rows(
            simulate_clicks(
                {query: [order[query][:SHOWN] for order in ranked] for query in asked},
                {query: dict.fromkeys(relevant[query], 1) for query in asked},
                n_lists,
                VISITORS,
                seed=seed,
            )
        ),
    )


def product_rows(goods: Iterable[Package]) -> Iterator[tuple[object, ...]]:
    """As an export has them: texts with quotes and commas, prices in two decimals, gaps."""
    for good in goods:
        title = good.name.replace("-", " ")
        price = f"{1 + good.size / 2**20:.2f}" if good.size else ""
        yield good.name, title, good.description, good.section, price, good.installed


def make_queries(goods: list[Package], n_queries: int, rng: np.random.Generator) -> dict[str, str]:
    """Queries in random order, each with the tag it was made from."""
    cut = Analyzer(stop_words="english")
    words = [frozenset(cut(f"{good.name} {good.description}")) for good in goods]
    n_with = Counter(word for some in words for word in some)
    tags = Counter(tag for good in goods for tag in good.tags)
    chosen: dict[str, list[str]] = {}
    for tag, n_tagged in sorted(tags.items()):
        if not 8 <= n_tagged <= len(goods) // 10:
            continue
        inside = Counter(word for some, good in zip(words, goods, strict=True) if tag in good.tags for word in some)
        lift = {
            word: n / n_tagged * np.log(n * len(goods) / (n_tagged * n_with[word]))
            for word, n in inside.items()
            if n >= 3 and n * len(goods) > 2 * n_tagged * n_with[word] and not word.isdigit()
        }
        best = sorted(lift, key=lambda word: (-lift[word], word))[:25]
        if len(best) >= 3:
            chosen[tag] = best
    if not chosen:
        sys.exit("no tag has eight packages and three words of its own; give a longer package list")
    queries: dict[str, str] = {}
    for _ in range(50 * n_queries):
        tag = list(chosen)[rng.integers(len(chosen))]
        n_words = min(1 + rng.integers(3), len(chosen[tag]))
        some = rng.choice(len(chosen[tag]), n_words, replace=False)
        queries.setdefault(" ".join(chosen[tag][row] for row in sorted(some)), tag)
        if len(queries) == n_queries:
            break
    return queries


def best_of(goods: list[Package], queries: list[str], depth: int, weighting: str) -> list[list[int]]:
    """The rows that a weighting of words finds first for each query."""
    texts = [f"{good.name.replace('-', ' ')}\n{good.description}" for good in goods]
    words = Vectorizer(analyzer=Analyzer(stop_words="english"), weighting=weighting)
    D = words.fit_transform_docs(texts)
    start = Weights([Identity(n_terms=D.shape[1])])
    docs, _ = start.rank(words.transform_queries(queries), D, depth)
    return docs.tolist()


def click_rows(log: ClickLog) -> Iterator[tuple[object, ...]]:
    """One row for each document that was shown, as a warehouse gives them."""
    for number, (impression, session) in enumerate(zip(log.impressions, log.sessions, strict=True)):
        when = BEGIN + timedelta(seconds=60 * 86_400 * number / len(log.impressions))
        for rank, sku in enumerate(impression.shown, start=1):
            clicked = int(sku in impression.clicked)
            yield session, f"{when:%Y-%m-%dT%H:%M:%SZ}", impression.query, rank, sku, clicked


def write_rows(path: Path, head: str, rows: Iterable[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(head.split(","))
        writer.writerows(rows)


def read_truth(folder: Path, untouched: bool = True) -> dict[str, dict[str, int]]:
    """What is relevant for the queries that are in neither log nor judgements; or for those that are."""
    truth: dict[str, dict[str, int]] = {}
    with (folder / "truth.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if (row["clicked_or_judged"] == "0") == untouched:
                truth.setdefault(row["query"], {})[row["sku"]] = int(row["grade"])
    return truth


# -- what a user would type -------------------------------------------------------------------------------------------

FITS = {
    "clicks only": "--clicks clicks.csv",
    "judgements only": "--judgements judged.csv",
    "both": "--clicks clicks.csv --judgements judged.csv",
}


def run(command: str, folder: Path, show: bool = True) -> float:
    """Run a tercet command in a folder, and return the seconds of processor time it took."""
    print(f"$ {command}", flush=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = [sys.executable, "-m", *shlex.split(command)]
    subprocess.run(arguments, cwd=folder, check=True, stdout=None if show else subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(folder: Path) -> None:
    """The commands of a user, and nDCG@10 by the truth of what they gave."""
    seconds = {}
    for name, evidence in FITS.items():
        output = name.partition(" ")[0]
        replace = " --replace" if (folder / output).exists() else ""
        seconds[name] = run(f"tercet fit products.csv {evidence} -o {output}/{replace}", folder)
        print(flush=True)
    replace = " --replace" if (folder / "index").exists() else ""
    run(f"tercet index products.csv --model both/ -o index/{replace}", folder)
    run('tercet search index/ "music player" -k 3', folder)
    docs = read_table(folder / "products.csv")
    truth = read_truth(folder)
    queries = {query: query for query in truth}
    words = Vectorizer(analyzer=tc.load(folder / "both").doc_vectorizer.analyzer, weighting="bm25").fit(docs.values())
    models = {"BM25": tc.TextModel(words, words, Weights([Identity(n_terms=len(words.words_))]))}
    models |= {name: tc.load(folder / name.partition(" ")[0]) for name in FITS}
    values = {
        name: tc.evaluate(truth, model.rank(queries, docs), "nDCG@10")["nDCG@10"] for name, model in models.items()
    }
    print(f"\nnDCG@10 by the truth, {len(truth):,} queries that are in neither log nor judgements:")
    for name, of_query in values.items():
        line = f"  {name:<16} {of_query.mean():.3f}"
        if name != "BM25":
            test = paired_test(of_query, values["BM25"])
            line += f"  {test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]  {seconds[name]:.0f} s of CPU time"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the shop is made")
    parser.add_argument("--packages", type=Path, metavar="FILE", help="a package list, instead of apt's")
    parser.add_argument("--make-only", action="store_true", help="make the shop and learn nothing")
    parser.add_argument("--lists", type=int, default=N_LISTS, metavar="N", help="lists in the click log")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.perf_counter()
    make_shop(read_packages(options.packages), options.folder, n_lists=options.lists, seed=options.seed)
    print(f"{options.folder}: made in {time.perf_counter() - began:.0f} s", flush=True)
    if not options.make_only:
        compare(options.folder)


if __name__ == "__main__":
    main()
