"""Chen et al.'s 20 Newsgroups under other readings of what the paper leaves open: the range of Sparse and Sparse-R.

The base has the paper's settings as the reproduction reads them: C = 200, rate C/√t, T = 100, 100,000 preferences,
10.1 % of W, sublinear tf-idf of the 10,000 most frequent words without stop words. Each other row changes one thing.
Printed: Identity .185 and .323, Sparse .360 and .114, Sparse-R .426 and .090 (MAP and error).
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
from typing import Any

import numpy as np

import tercet as tc
from common import (
    Newsgroups,
    add_shared_options,
    check_data_home,
    error_of_ranker,
    machine_facts,
    print_facts,
    print_table,
    read_newsgroups,
    write_json,
)
from tercet.gpu import device
from tercet.measure import average_precision_of_classes
from tercet.weights import Weights

ENGLISH = {"stop_words": "english", "html": False}
PREPARATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "base": (ENGLISH, {"sublinear_tf": True}),
    "tf instead of 1 + log tf": (ENGLISH, {"sublinear_tf": False}),
    "stop words kept": ({"html": False}, {"sublinear_tf": True}),
    "stop words kept, tf": ({"html": False}, {"sublinear_tf": False}),
    "stemmed": (ENGLISH | {"stemmer": "english"}, {"sublinear_tf": True}),
    "BM25 weights": (ENGLISH, {"weighting": "bm25"}),
}
BASE: dict[str, Any] = {"rate": 200.0, "shrink_every": 100, "density": 0.101}
SETTINGS: dict[str, dict[str, Any]] = {
    **{f"C = {rate:g}": {"rate": rate} for rate in (25.0, 50.0, 100.0, 400.0, 800.0)},
    **{f"T = {steps:,}": {"shrink_every": steps} for steps in (1, 10, 1_000, 10_000)},
    "9.1 % of W": {"density": 0.091},
    "11.1 % of W": {"density": 0.111},
    "two passes": {"epochs": 2},
    "refitted from the identity": {"refit_start": "identity"},
    "rate 1, constant": {"rate": 1.0, "schedule": "constant"},
    "rate 3, constant": {"rate": 3.0, "schedule": "constant"},
}


def prepared(data_home: Any, analyzer: dict[str, Any], vectorizer: dict[str, Any]) -> Newsgroups:
    train, test = read_newsgroups(data_home)
    words = tc.Vectorizer(analyzer=tc.Analyzer(**analyzer), max_features=10_000, **vectorizer)
    X, X_test = words.fit_transform_docs(train.texts), words.transform_docs(test.texts)
    return Newsgroups(X, np.array(train.labels), X_test, np.array(test.labels))


def learn(data: Newsgroups, settings: dict[str, Any], seed: int, quick: bool) -> dict[str, Any]:
    """MAP over 500 test queries and error on 20,000 test preferences, of the start, Sparse and Sparse-R."""
    steps, n_test = (5_000, 2_000) if quick else (100_000, 20_000)
    prefs = tc.Preferences.from_labels(data.y, steps, random_state=seed)
    test = tc.Preferences.from_labels(data.y_test, n_test, random_state=1000 + seed)
    queries = np.arange(0, len(data.y_test), max(1, len(data.y_test) // 500))[:500]
    ranker = tc.SparseRanker(**{"refit_start": "sparse"} | BASE | settings, refit=True, random_state=seed)
    ranker.fit(data.X, prefs)

    def measured(weights: Weights) -> list[float]:
        mean = average_precision_of_classes(weights, data.X_test, data.y_test, queries).mean()
        return [float(mean), error_of_ranker(tc.SparseRanker.from_weights(weights.sparse), data.X_test, test)]

    cosine = tc.CosineRanker().fit(data.X)
    start = average_precision_of_classes(cosine.weights_, data.X_test, data.y_test, queries).mean()
    return {
        "identity": [float(start), error_of_ranker(cosine, data.X_test, test)],
        "sparse": measured(ranker.weights_before_refit_),
        "sparse-r": measured(ranker.weights_),
        "density": ranker.density_,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared_options(parser)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: learn on a GPU")
    parser.add_argument("--seeds", type=int, default=3, help="orders of the samples (default 3)")
    parser.add_argument("--reading", action="append", help="this row alone, as in 'T = 10'; repeatable")
    arguments = parser.parse_args()
    check_data_home(parser, arguments)
    print_facts(machine_facts())
    rows: list[list[str]] = []
    found: list[dict[str, Any]] = []
    cases = [(name, name, {}) for name in PREPARATIONS] + [(name, "base", own) for name, own in SETTINGS.items()]
    data: dict[str, Newsgroups] = {}
    wanted = arguments.reading or [name for name, *_ in cases[: 7 if arguments.quick else None]]
    for name, preparation, settings in (case for case in cases if case[0] in wanted):
        if preparation not in data:
            data = {"base": data["base"]} if "base" in data else {}
            data[preparation] = prepared(arguments.data_home, *PREPARATIONS[preparation])
        with device(arguments.device, strict=arguments.device == "cuda"):
            runs = [learn(data[preparation], settings, seed, arguments.quick) for seed in range(arguments.seeds)]
        found.append({"reading": name, "seeds": runs})
        cells = [name, f"{np.mean([run['density'] for run in runs]):.1%}"]
        for model in ("identity", "sparse", "sparse-r"):
            means, errors = np.array([run[model] for run in runs]).T
            cells += [f"{means.mean():.3f}", f"{errors.mean():.4f} ± {(errors.max() - errors.min()) / 2:.4f}"]
        rows.append(cells)
        print(*cells, flush=True)
    head = ["reading", "W kept", "Identity: MAP", "error", "Sparse: MAP", "error", "Sparse-R: MAP", "error"]
    print_table(f"20 Newsgroups, {arguments.seeds} seeds: mean, and half the range of the error", head, rows)
    write_json(arguments.output, {"rows": found})


if __name__ == "__main__":
    main()
