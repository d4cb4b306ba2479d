"""The smallest piece of a reproduction with feature vectors: one method, one split, one seed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from tercet.errors import DivergedError
from tercet.repro.features.choosing import choose, learn, prepared, try_all
from tercet.repro.features.costs import peak_bytes
from tercet.repro.features.data import Rows, Split
from tercet.repro.features.measuring import MEGABYTES, OF_THE_RANKER, SECONDS, USED, by_query
from tercet.repro.features.plan import Method
from tercet.repro.features.rankers import n_used
from tercet.repro.running import Deadline

_FITS_TO_TIME = 5
_SECONDS_TO_TIME = 3.0  # no further fit after so many

# Whose code the numbers come from.
CODE = (
    "kernels/*",
    "data/letor*",
    "learn/base",
    "learn/features",
    "learn/linear/*",
    "learn/rls/*",
    "measure/*",
    "repro/features/choosing",
    "repro/features/costs",
    "repro/features/data",
    "repro/features/jobs",
    "repro/features/measuring",
    "repro/features/rankers",
    "repro/readers/parses",
)


@dataclass(frozen=True)
class SplitJob:
    """A method on a split with a seed; ``traced`` also measures what was not chosen on the test part, to show it."""

    method: Method
    split: Split
    seed: int
    choose_by: str  # name of a measure of rankings
    measures: tuple[str, ...]  # names
    higher_is_better: bool = True  # of the measure that chooses
    with_memory: bool = False
    traced: bool = False

    def setting(self, data_digest: str) -> dict[str, Any]:
        """Everything the result depends on; titles are not among it."""
        method = self.method
        return {
            "what": "split",
            "data": data_digest,
            "split": self.split.name,
            "seed": self.seed if method.seeds > 1 or method.choose_on == "cross-validation" else 0,
            "per_query": method.per_query,
            "drawn_as": method.drawn_as,
            "ranker": method.ranker,
            "parameters": method.parameters,
            "choose": {name: list(values) for name, values in method.choose.items()},
            "choose_by": self.choose_by,
            "higher_is_better": self.higher_is_better,
            "with_memory": self.with_memory,
            "choose_on": method.choose_on,
            "cv_folds": method.cv_folds,
            "rule": method.rule,
            "most_used": method.most_used,
            "measures": list(self.measures),
            "traced": self.traced,
            "lightgbm": _version("lightgbm") if method.ranker == "LambdaMART" else "",
        }

    def run(self, deadline: Deadline) -> dict[str, Any]:
        """Choose, learn, time and measure."""
        method, split = self.method, self.split
        fixed = method.parameters | ({"random_state": self.seed} if method.seeds > 1 else {})
        tried = try_all(method, split, self.choose_by, self.seed, fixed, deadline)
        if tried.cut:
            return {"cut": True, "left out": True}
        if not tried.points:
            raise DivergedError(f"every setting diverged, {tried.diverged} of {tried.diverged}")
        point = choose(tried.points, method, split.test.n_features, self.higher_is_better)
        more, learned_from = prepared(method, split.both() if tried.crossed else split.train, self.seed)
        parameters = fixed | more | point.parameters
        ranker = point.ranker or learn(method.ranker, parameters, learned_from)
        used, n_features = n_used(ranker), split.test.n_features
        values = by_query(ranker.predict(split.test.X), split.test, self.measures)
        own = {USED: None if used is None else used / n_features}
        own[SECONDS] = self._seconds(parameters, learned_from)
        if self.with_memory:
            own[MEGABYTES] = peak_bytes(lambda: learn(method.ranker, parameters, learned_from)) / 1e6
        return {
            "chosen": point.parameters,
            "n_used": used,
            "n_features": n_features,
            "n_rows": len(learned_from),
            "n_drawn": len(more["n_basis"]) if more else len(learned_from),
            "own": own,
            "values": {name: found.tolist() for name, found in values.items()},
            "grid": [
                {"parameters": each.parameters, "validation": each.mean, "used": each.used}
                | ({"test": self._test_mean(each.ranker)} if self.traced and each.ranker is not None else {})
                for each in tried.points
            ],
            "diverged": tried.diverged,
            "unfinished": tried.unfinished,
        }

    def _test_mean(self, ranker: Any) -> float:
        test = self.split.test
        return float(by_query(ranker.predict(test.X), test, [self.choose_by])[self.choose_by].mean())

    def _seconds(self, parameters: dict[str, Any], data: Rows) -> float:
        """The median of some fits; everything is compiled by now."""
        taken: list[float] = []
        while len(taken) < _FITS_TO_TIME and sum(taken) < _SECONDS_TO_TIME:
            started = time.perf_counter()
            learn(self.method.ranker, parameters, data)
            taken.append(time.perf_counter() - started)
        return float(np.median(taken))


def names_to_measure(names: list[str]) -> tuple[str, ...]:
    """Names of measures of rankings, each once."""
    return tuple(dict.fromkeys(name for name in names if name not in OF_THE_RANKER))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
