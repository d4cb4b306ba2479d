"""Low rank against a dense W, and U'V against U'U, by the number of links that they learn from.

Bai et al. (2010) find low rank better than a dense W, and U'V better than U'U, with 17 million links to learn from.
Wikispeedia has 75,000. ``wikispeedia`` learns from 10, 30 and 100 % of them. ``topics`` learns from .1, 1 and 10
million links of a made-up corpus with planted topics: half of a text's links lead to its own topic, four in ten to
the next topic, one in ten anywhere. Each model takes the rate with the best validation MAP on the first seed, from its
own grid, and stops early; all models get the same number of preferences.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import add_shared_options, check_data_home, machine_facts, print_facts, print_table, write_json
from reproductions.datasets import load_dataset
from reproductions.links import LinkTask
from reproductions.plan import find_plan
from tercet.data import JudgementSampler
from tercet.errors import DivergedError
from tercet.gpu import device
from tercet.learn import SampledSource
from tercet.weights import Identity, Weights

RATES = {"low rank": (0.03, 0.1, 0.3, 1.0), "dense": (0.03, 0.1, 0.3, 1.0, 3.0)}


@dataclass(frozen=True)
class Study:
    """Texts, a sampler for each amount of links, and MAP on validation and on test queries."""

    title: str
    X: sparse.csr_array
    samplers: dict[int, JudgementSampler]  # number of links -> sampler
    preferences: int
    n_components: int
    spreads: tuple[float, ...]
    validate: Callable[[Weights], float]
    test: Callable[[Weights], NDArray[np.float64]]  # by query


def wikispeedia(arguments: argparse.Namespace) -> Study:
    plan = find_plan("ssi")
    data = replace(plan.datasets["wiki"], max_features=arguments.words, split=arguments.split)
    task = load_dataset(data, arguments.data_home, plan.quick if arguments.quick else None).tasks[0]
    assert isinstance(task, LinkTask)
    samplers = {}
    for share in (0.1, 0.3, 1.0):
        sampler = task.sampler(share, "links")
        samplers[round(share * len(task.train_links))] = sampler
    return Study(
        f"Wikispeedia, {task.Q.shape[1]:,} words, {arguments.split} held out",
        task.Q,
        samplers,
        preferences=10_000 if arguments.quick else arguments.preferences or 600_000,
        n_components=200,
        spreads=(0.1,),
        validate=task.validation,
        test=task.held_out.values,
    )


def topics(arguments: argparse.Namespace) -> Study:
    small = arguments.quick
    n_docs, n_words, n_topics, n_queries = (2_000, 2_000, 20, 100) if small else (40_000, 10_000, 100, 500)
    rng = np.random.default_rng(arguments.seed)
    X, topic = topical_texts(rng, n_docs + 2 * n_queries, n_words, n_topics)
    docs, new = X[:n_docs], topic[n_docs:]
    order = np.argsort(topic[:n_docs], kind="stable")
    begins = np.searchsorted(topic[:n_docs][order], np.arange(n_topics + 1))
    samplers = {}
    for n_links in (1_000, 10_000) if small else (100_000, 1_000_000, 10_000_000):
        source = rng.integers(0, n_docs, n_links)
        kind = rng.random(n_links)
        goal = (topic[source] + (kind >= 0.5)) % n_topics
        size = begins[goal + 1] - begins[goal]
        target = order[begins[goal] + (rng.random(n_links) * size).astype(np.int64)]
        target = np.where(kind < 0.9, target, rng.integers(0, n_docs, n_links))
        pairs = np.unique(source * n_docs + target)
        source, target = np.divmod(pairs, n_docs)
        grades = np.ones(len(pairs), dtype=np.int64)
        samplers[n_links] = JudgementSampler(
            source, target, grades, n_docs=n_docs, uniform_over="judgements", exclude_self=True
        )

    def average_precision(first: int, weights: Weights, n: int) -> NDArray[np.float64]:
        """AP of new texts, whose relevant documents are those of their own topic and of the next."""
        values = np.empty(n)
        of_doc = topic[:n_docs]
        for block, scores in weights.score_blocks(X[n_docs + first : n_docs + first + n], docs):
            for row, one in zip(range(block.start, block.stop), scores, strict=True):
                own = new[first + row]
                relevant = (of_doc == own) | (of_doc == (own + 1) % n_topics)
                hits = relevant[np.argsort(-one, kind="stable")]
                precision = np.cumsum(hits) / np.arange(1, n_docs + 1)
                values[row] = precision[hits].mean()
        return values

    return Study(
        f"{n_docs:,} made-up texts on {n_topics} topics, {n_words:,} words",
        docs,
        samplers,
        preferences=10_000 if small else arguments.preferences or 4_000_000,
        n_components=100,
        spreads=(0.1, 1.0),
        validate=lambda weights: float(average_precision(0, weights, min(100, n_queries)).mean()),
        test=lambda weights: average_precision(n_queries, weights, n_queries),
    )


def topical_texts(
    rng: np.random.Generator, n_docs: int, n_words: int, n_topics: int
) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """Texts of 60 words by Zipf's law, one in eight from 200 words of the text's topic, as unit rows of tf-idf."""
    topic = rng.integers(0, n_topics, n_docs)
    of_topic = rng.integers(0, n_words, (n_topics, 200))
    common = np.exp(rng.random((n_docs, 60)) * np.log(n_words)).astype(np.int64) - 1
    topical = of_topic[topic[:, None], rng.integers(0, 200, (n_docs, 60))]
    words = np.where(rng.random((n_docs, 60)) < 0.125, topical, common)
    rows = np.repeat(np.arange(n_docs), 60)
    X = sparse.coo_array((np.ones(words.size), (rows, words.ravel())), shape=(n_docs, n_words)).tocsr()
    frequency = np.bincount(X.indices, minlength=n_words)
    X.data = np.log(n_docs / frequency[X.indices])
    X.data /= np.repeat(np.sqrt(X.power(2).sum(axis=1)), np.diff(X.indptr))
    return sparse.csr_array(X.astype(np.float32)), topic


def compare(study: Study, n_seeds: int, amounts: list[int] | None) -> list[dict[str, Any]]:
    every = study.preferences // 6

    def low_rank(spread: float, tied: bool) -> Callable[..., Any]:
        return lambda **given: tc.LowRankRanker(
            n_components=study.n_components, spread=spread, tied=tied, validate_every=every, **given
        )

    models: dict[str, tuple[str, Callable[..., Any]]] = {
        "dense W": ("dense", lambda **given: tc.DenseRanker(schedule="constant", validate_every=every, **given))
    }
    for spread in study.spreads:
        models[f"U'V + I, start {spread:g}"] = "low rank", low_rank(spread, tied=False)
        models[f"U'U + I, start {spread:g}"] = "low rank", low_rank(spread, tied=True)
    start = study.test(Weights([Identity(n_terms=study.X.shape[1])])).mean()
    print(f"\n{study.title}, {study.preferences:,} preferences each; tf-idf: {start:.4f}", flush=True)
    found: list[dict[str, Any]] = []
    for number, (n_links, sampler) in enumerate(study.samplers.items(), start=1):
        if amounts and number not in amounts:
            continue
        by_query = {}
        for name, (kind, make) in models.items():
            rate, values, steps, seconds = 0.0, [], [], 0.0
            for seed in range(n_seeds):
                best = None
                for candidate in RATES[kind] if not seed else (rate,):
                    ranker = make(rate=candidate, random_state=seed)
                    source = SampledSource(sampler, study.preferences, random_state=seed)
                    began = time.perf_counter()
                    try:
                        ranker.fit(study.X, source, validation=study.validate)
                    except DivergedError:
                        continue
                    seconds += time.perf_counter() - began
                    value = max(event.validation for event in ranker.history_ if event.validation is not None)
                    if best is None or value > best[0]:
                        best = value, candidate, ranker
                if best is None:
                    break
                rate = best[1]
                values.append(study.test(best[2].weights_))
                steps.append(best[2].n_steps_)
            if not values:
                print(f"{n_links:,} {name}: diverged at every rate", flush=True)
                continue
            by_query[name] = np.mean(values, axis=0)
            row = {"links": n_links, "model": name, "rate": rate, "steps": steps, "seconds": seconds}
            row |= {"MAP": by_query[name].mean(), "by seed": [one.mean() for one in values]}
            found.append(row)
            print(f"{n_links:,} {name}: {row['MAP']:.4f}, rate {rate:g}, steps {steps}, {seconds:.0f} s", flush=True)
        for first, second in [(name, "dense W") for name in by_query if name.startswith("U'V")] + [
            (name, name.replace("U'V", "U'U")) for name in by_query if name.startswith("U'V")
        ]:
            difference = by_query[first] - by_query[second]
            error = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
            found.append({"links": n_links, "pair": [first, second], "difference": difference.mean(), "error": error})
    print_table(
        f"{study.title}: difference in MAP with its paired 95 % interval over test queries",
        ["links", "pair", "difference"],
        [
            [f"{row['links']:,}", " less ".join(row["pair"]), f"{row['difference']:+.4f} ± {row['error']:.4f}"]
            for row in found
            if "pair" in row
        ],
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared_options(parser)
    parser.add_argument("study", choices=("wikispeedia", "topics"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: learn on a GPU")
    parser.add_argument("--words", type=int, default=10_000, help="most frequent words of Wikispeedia (default 10,000)")
    parser.add_argument("--split", choices=("links", "documents"), default="links", help="what is held out")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each model at its chosen rate (default 3)")
    parser.add_argument("--preferences", type=int, help="preferences of a fit (default 600,000; topics: 4,000,000)")
    parser.add_argument("--amount", type=int, action="append", help="1, 2 or 3: this amount of links alone; repeatable")
    arguments = parser.parse_args()
    check_data_home(parser, arguments)
    print_facts(machine_facts())
    study = wikispeedia(arguments) if arguments.study == "wikispeedia" else topics(arguments)
    with device(arguments.device, strict=arguments.device == "cuda"):
        found = compare(study, 1 if arguments.quick else arguments.seeds, arguments.amount)
    write_json(arguments.output, {"study": study.title, "rows": found})


if __name__ == "__main__":
    main()
