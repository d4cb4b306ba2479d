"""Choice of settings, early stopping, curves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from reproductions.datasets import load_dataset
from reproductions.links import LinkTask
from reproductions.plan import Method, PlanData
from reproductions.tasks import measure_size
from reproductions.term_jobs import CurveJob, curve_steps, learn
from tercet.errors import DivergedError

RATES = (1e-6, 1e-4, 0.01, 0.3)


@pytest.fixture(scope="module")
def task(linked_home) -> LinkTask:
    [task] = load_dataset(PlanData("W", "wikispeedia", ("wikispeedia",)), linked_home).tasks
    assert isinstance(task, LinkTask)
    return task


def method(ranker: str = "LowRankRanker", **settings) -> Method:
    parameters = settings.pop("parameters", {"n_components": 3, "diagonal": "none", "validate_every": 300})
    return Method(
        "m",
        "M",
        ranker,
        preferences=9000,
        parameters=parameters,
        choose={"rate": RATES},
        **settings,
    )


def dense(ranker) -> np.ndarray:
    n, m = ranker.weights_.shape
    return ranker.weights_.score(sparse.eye_array(n, format="csr"), sparse.eye_array(m, format="csr"))


def test_settings_are_compared_after_all_steps(task):
    chooses = method(choose_on="training")
    fitted = learn(chooses, task, chooses.parameters, 0)
    tried = {one["rate"]: one["error"] for one in fitted.facts["tried"]}
    assert list(tried) == list(RATES)
    for rate, error in tried.items():
        alone = replace(chooses, choose={})
        straight = learn(alone, task, alone.parameters | {"rate": rate}, 0)
        others = task.train(10_000, 2000)
        assert (straight.ranker.margins(task.Q, others, task.D) <= 0).mean() == pytest.approx(error, abs=1e-4)
        if rate == fitted.facts["chosen"]["rate"]:
            np.testing.assert_array_equal(dense(fitted.ranker), dense(straight.ranker))
    assert tried[fitted.facts["chosen"]["rate"]] == min(tried.values())


def test_what_diverges_is_not_chosen(task):
    wild = replace(method(choose_on="training"), choose={"rate": (1e12, 0.1)})
    fitted = learn(wild, task, wild.parameters, 0)
    assert fitted.facts["chosen"] == {"rate": 0.1}
    assert fitted.facts["tried"][0] == {"rate": 1e12, "diverged": True}
    with pytest.raises(DivergedError, match="every setting diverged"):
        learn(replace(wild, choose={"rate": (1e12, 1e13)}), task, wild.parameters, 0)


def test_a_ranker_without_preferences_is_chosen_by_map_on_validation(task):
    lsi = Method("lsi", "LSI", "LSIRanker", parallel=True, choose={"n_components": (1, 2, 3)}, choose_on="validation")
    fitted = learn(lsi, task, {}, 0)
    tried = {one["n_components"]: one["map"] for one in fitted.facts["tried"]}
    for n, value in tried.items():
        assert task.validation(learn(lsi, task, {"n_components": n}, 0, chooses=False).ranker.weights_) == value
    assert tried[fitted.facts["chosen"]["n_components"]] == max(tried.values())
    assert fitted.ranker.n_components_ == fitted.facts["chosen"]["n_components"]


@pytest.mark.parametrize(
    ("ranker", "parameters"),
    [
        ("DenseRanker", {"rate": 1e-4, "schedule": "constant"}),
        ("DiagonalRanker", {"rate": 1e-4, "schedule": "constant"}),
        ("HashedRanker", {"rate": 1e-4, "schedule": "constant", "n_buckets": 1000}),
        ("PrunedRanker", {"rate": 1e-4, "schedule": "constant", "n_kept": 3, "n_rounds": 1}),
        ("MultiTaskRanker", {"rate": 1e-4, "n_components": 3}),
        ("CorrelatedLowRank", {"n_frequent": 10, "n_bins": 2, "n_components": 3, "schedule": "constant"}),
    ],
)
def test_every_ranker_that_learns_by_steps_stops_on_validation(task, ranker, parameters, monkeypatch):
    stops = Method("m", "M", ranker, preferences=1000, early_stop=True)
    values = iter([0.1, 0.2, 0.3, 0.25, 0.25, 0.25, 0.25, 0.2])
    monkeypatch.setattr(
        "reproductions.term_jobs.MethodView.validation", lambda self, task: lambda weights: next(values)
    )
    if ranker == "MultiTaskRanker":
        monkeypatch.setattr(LinkTask, "query_block", lambda self, name: self.Q)
        stops = replace(stops, second="words")
    fitted = learn(stops, task, parameters, 0)
    assert fitted.facts["still_improving"] is False
    assert 0 < fitted.ranker.n_steps_ < (2000 if ranker in ("PrunedRanker", "MultiTaskRanker") else 1000)
    rises = iter(np.arange(100) / 100)
    monkeypatch.setattr("reproductions.term_jobs.MethodView.validation", lambda self, task: lambda weights: next(rises))
    assert learn(stops, task, parameters, 0).facts["still_improving"] is True
    falls = iter(-np.arange(100) / 100)
    monkeypatch.setattr("reproductions.term_jobs.MethodView.validation", lambda self, task: lambda weights: next(falls))
    assert learn(stops, task, parameters, 0).facts["still_improving"] is False


# -- curves ---------------------------------------------------------------------------------------------------------

SPARSE = Method("m", "M", "SparseRanker", preferences=20_000, parameters={"l1": 1e-4, "rate": 0.1, "refit": True})


@pytest.mark.slow
def test_a_curve_ends_with_the_fit(task):
    steps = curve_steps(1000, SPARSE.preferences, 4)
    series = CurveJob(SPARSE, 200, SPARSE.parameters, steps).run(task)["series"]
    assert list(series) == ["weights_before_refit_", "weights_"]
    for points in series.values():
        assert [point["step"] for point in points] == [1000, 2714, 7368, 20_000]
    whole = learn(SPARSE, task, SPARSE.parameters, 0).ranker
    for name, points in series.items():
        assert points[-1]["density"] == measure_size(getattr(whole, name))["density"]
