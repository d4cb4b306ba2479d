"""Memory of past queries on the links of Wikispeedia: MAP of tf-idf, low rank, and each with memory.

The memory of document d for article q is ``m = Σ cos(q, a)^p`` over the articles a with a training link to d. The score
is ``s(q, d) + weight · m / (m + half)``, with power, weight and half chosen by validation MAP.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from reproductions.datasets import load_dataset
from reproductions.links import LinkTask
from reproductions.plan import find_plan
from tercet.learn import SampledSource
from tercet.measure import HeldOutQueries, paired_test, parse_measure
from tercet.weights import Weights

POWERS, WEIGHTS, HALVES = (1.0, 2.0, 3.0, 4.0), (0.1, 0.2, 0.5, 1.0, 2.0, 5.0), (0.1, 0.3, 1.0, 3.0)
AP = (parse_measure("AP"),)


def scores_of(weights: Weights, held_out: HeldOutQueries) -> NDArray[np.float64]:
    return np.concatenate([scores for _, scores in weights.score_blocks(held_out.Q, held_out.D)])


def memory_of(held_out: HeldOutQueries, articles: sparse.csr_array, links: sparse.csr_array) -> dict[float, Any]:
    """Return the memory of each document for each query, by power."""
    similarity = (held_out.Q @ articles.T).toarray()
    similarity[similarity > 1 - 1e-6] = 0.0  # the article itself
    return {power: np.asarray((links.T @ (similarity**power).T).T) for power in POWERS}


def measured(held_out: HeldOutQueries, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return held_out.measured(slice(0, len(scores)), scores, AP)[:, 0]


def main() -> None:
    arguments = parse_arguments(__doc__)
    print_facts(machine_facts())
    plan = find_plan("ssi")
    data = replace(plan.datasets["wiki"], max_features=30_000)
    task = load_dataset(data, arguments.data_home, plan.quick if arguments.quick else None).tasks[0]
    assert isinstance(task, LinkTask)
    n = task.D.shape[0]
    train = task.train_links
    links = sparse.csr_array((np.ones(len(train)), train.T), shape=(n, n))
    ours = tc.LowRankRanker(
        n_components=200, start="lsi", identity_weight=20.0, schedule="linear", rate=0.1, random_state=arguments.seed
    )
    sampler = task.sampler(1.0, "queries")
    ours.fit(task.Q, SampledSource(sampler, 2_000 if arguments.quick else 240_000, random_state=arguments.seed))
    parts = {"validation": task.validation, "test": task.held_out}
    memories = {name: memory_of(part, task.Q, links) for name, part in parts.items()}
    rows, found = [], []
    for name, weights in (("tf-idf", tc.CosineRanker().fit(task.Q).weights_), ("U'V + 20 I", ours.weights_)):
        scores = {part: scores_of(weights, held_out) for part, held_out in parts.items()}
        scale = float(np.mean(np.sort(scores["validation"], axis=1)[:, -10:]))  # so that weights mean the same

        def with_memory(
            part: str, power: float, weight: float, half: float, own: Any = scores, scale: float = scale
        ) -> Any:
            m = memories[part][power]
            return measured(parts[part], own[part] / scale + weight * m / (m + half))

        values = {each: with_memory("validation", *each).mean() for each in product(POWERS, WEIGHTS, HALVES)}
        best = max(values, key=lambda each: values[each])
        alone, both = measured(parts["test"], scores["test"]), with_memory("test", *best)
        test = paired_test(both, alone)
        gain = f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]"
        rows.append([name, f"{alone.mean():.3f}", f"{both.mean():.3f}", gain, str(best)])
        found.append({"model": name, "alone": alone.mean(), "with memory": both.mean(), "chosen": best})
    head = ["model", "MAP", "with memory", "difference", "power, weight, half"]
    print_table(f"Wikispeedia, {len(parts['test'].qids):,} test queries", head, rows)
    write_json(arguments.output, {"rows": found})


if __name__ == "__main__":
    main()
