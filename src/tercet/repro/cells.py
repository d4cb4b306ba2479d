"""The smallest piece of a reproduction: one fit on one data set with one seed. Done once, then kept on disk."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tercet.data import Preferences
from tercet.errors import TercetError
from tercet.learn import SparseRanker
from tercet.repro.datasets import Loaded
from tercet.repro.learners import RIVALS, make_learner, warm_up
from tercet.repro.measuring import measure_model, measure_size, wrong_preferences
from tercet.repro.plan import Fit
from tercet.store import write_file_atomically
from tercet.store.canonical import canonical_bytes, parse_json
from tercet.weights import Weights

FORMAT = 1  # of cells; a higher one leaves all older cells aside
TEST_SEED = 1000  # added to the seed for test preferences
# Whose code the numbers come from.
_CODE = ("kernels/*", "data/*", "weights/*", "learn/*", "measure/*", "repro/cells", "repro/learners", "repro/measuring")
_FACTS = ("l1_", "n_fits_", "n_steps_")


@cache
def code_digest() -> str:
    """Of the code that makes the numbers, so that a cell is never taken for that of another learner."""
    found = hashlib.sha256()
    root = Path(__file__).parents[1]
    for pattern in _CODE:
        for file in sorted(root.glob(f"{pattern}.py")):
            found.update(f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True)
class Cells:
    """A folder of finished cells; ``fresh`` leaves what is there aside."""

    folder: Path
    fresh: bool = False

    def get(
        self, name: str, setting: dict[str, Any], work: Callable[[], dict[str, Any]]
    ) -> tuple[dict[str, Any], bool]:
        """The result of this setting and whether it was there already; else the work is done and kept."""
        setting = setting | {"format": FORMAT, "version": version("tercet"), "code": code_digest()}
        digest = hashlib.sha256(canonical_bytes(setting)).hexdigest()
        path = self.folder / f"{name}-{digest[:16]}.json"
        if path.exists() and not self.fresh:
            try:
                content = parse_json(path.read_bytes(), str(path))
            except TercetError:  # cut short or changed by hand: as good as none
                content = None
            if isinstance(content, dict) and content.get("setting") == setting and content.get("result"):
                return content["result"], True
        result = work()
        data = canonical_bytes({"setting": setting, "result": result})
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file_atomically(path, data)
        # As a later run will read it, so that both give the same bytes.
        return parse_json(data, str(path))["result"], False


@dataclass(frozen=True)
class Job:
    """A fit on a data set with a seed, and the words to look up in its models."""

    fit: Fit
    dataset: str
    seed: int
    test_preferences: int
    parameters: dict[str, Any]
    lookups: dict[str, tuple[str, ...]]  # model -> query words
    n_related: int = 5

    def setting(self, data_digest: str) -> dict[str, Any]:
        """Everything the result depends on; titles are not among it."""
        return {
            "what": "fit",
            "data": data_digest,
            "ranker": self.fit.ranker,
            "parameters": self.parameters,
            "preferences": self.fit.preferences,
            "test_preferences": self.test_preferences,
            "seed": self.seed,
            "models": [[model.key, model.weights, model.thin] for model in self.fit.all_models()],
            "lookups": {model: list(words) for model, words in self.lookups.items()},
            "n_related": self.n_related,
        }

    def run(self, data: Loaded) -> dict[str, Any]:
        """Learn, measure every model, look up words."""
        warm_up(self.fit.ranker)
        learner = make_learner(self.fit.ranker, self.parameters, self.seed)
        test = Preferences.from_labels(data.y_test, self.test_preferences, random_state=TEST_SEED + self.seed)
        X_test = data.X_test
        started = time.perf_counter()
        if self.fit.ranker in RIVALS:
            learner.fit(data.X, data.y)
            X_test = learner.represent(data.X_test)
        elif self.fit.preferences:
            prefs = Preferences.from_labels(data.y, self.fit.preferences, random_state=self.seed)
            started = time.perf_counter()
            learner.fit(data.X, prefs)
        else:
            learner.fit(data.X)
        seconds = time.perf_counter() - started
        models, related = {}, {}
        for model in self.fit.all_models():
            started = time.perf_counter()
            source = learner if model.thin is None else learner.thin(model.thin)
            weights: Weights = getattr(source, model.weights)
            thinning = 0.0 if model.thin is None else time.perf_counter() - started
            size = {} if self.fit.ranker in RIVALS else measure_size(weights)
            models[model.key] = measure_model(weights, X_test, data.y_test, test) | size
            models[model.key]["seconds"] = seconds + thinning
            if model.key in self.lookups:
                related[model.key] = look_up(weights, data, self.lookups[model.key], self.n_related)
        facts = {name: getattr(learner, name) for name in _FACTS if hasattr(learner, name)}
        return {"facts": facts, "models": models, "related": related}


def look_up(weights: Weights, data: Loaded, words: tuple[str, ...], k: int) -> dict[str, list[list[Any]]]:
    """The k words that count most for each query word, by size; nothing for a word that has no column."""
    if data.words is None:
        return {word: [] for word in words}
    column = {word: at for at, word in enumerate(data.words)}
    return {
        word: [[data.words[j], w] for j, w in weights.related(column[word], k)] if word in column else []
        for word in words
    }


@dataclass(frozen=True)
class CurveJob:
    """Error and density of a fit after growing numbers of steps."""

    fit: Fit
    dataset: str
    seed: int
    test_preferences: int
    parameters: dict[str, Any]
    steps: tuple[int, ...]

    def setting(self, data_digest: str) -> dict[str, Any]:
        return {
            "what": "curve",
            "data": data_digest,
            "ranker": self.fit.ranker,
            "parameters": self.parameters,
            "test_preferences": self.test_preferences,
            "seed": self.seed,
            "steps": list(self.steps),
        }

    def run(self, data: Loaded) -> dict[str, Any]:
        """Train in slices, which gives the same bits as training at once.

        Where the ranker refits, a second curve goes over the steps of the refit on the final support.
        """
        warm_up(self.fit.ranker)
        prefs = Preferences.from_labels(data.y, self.fit.preferences, random_state=self.seed)
        test = Preferences.from_labels(data.y_test, self.test_preferences, random_state=TEST_SEED + self.seed)

        def point(step: int, seconds: float, weights: Weights) -> dict[str, float]:
            error = float(wrong_preferences(weights, data.X_test, test).mean())
            return {"step": step, "seconds": seconds, "error": error, "density": measure_size(weights)["density"]}

        learner = make_learner(self.fit.ranker, self.parameters, self.seed)
        points, done, seconds = [], 0, 0.0
        for step in self.steps:
            started = time.perf_counter()
            learner.partial_fit(data.X, prefs[done:step])
            seconds += time.perf_counter() - started
            points.append(point(step, seconds, learner.weights_))
            done = step
        found = {"weights_": points}
        if isinstance(learner, SparseRanker) and learner.refit:
            support = learner.weights_.sparse
            refitted = []
            for step in self.steps:
                started = time.perf_counter()
                again = SparseRanker.from_weights(support, **learner.get_params())
                again.refit(data.X, prefs[:step])
                refitted.append(point(step, time.perf_counter() - started, again.weights_))
            found = {"weights_before_refit_": points, "weights_": refitted}
        return {"series": found}


def curve_steps(first: int, last: int, points: int) -> tuple[int, ...]:
    """Steps that grow by a constant factor, the last one included.

    Examples
    --------
    >>> curve_steps(10, 1000, 3)
    (10, 100, 1000)
    """
    return tuple(sorted({round(step) for step in np.geomspace(min(first, last), last, points)}))
