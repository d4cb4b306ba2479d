"""Settings compared on the way: the survivor has the bits of a fit that never stopped."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from reproductions.cache import RunDeadline
from scipy import sparse

from reproductions.datasets import load_dataset
from reproductions.links import LinkTask
from reproductions.plan import Data, Method
from reproductions.term_jobs import CurveJob, curve_steps, learn
from support.linked_corpus import write_linked_corpus
from tercet.errors import DivergedError
from tercet.fitting.halving import PausableFit, halved
from tercet.learn.loop import Event

RATES = (1e-6, 1e-4, 0.01, 0.3)


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> LinkTask:
    home = write_linked_corpus(tmp_path_factory.mktemp("home"))
    [task] = load_dataset(Data("W", "wikispeedia", ("wikispeedia",)), home).tasks
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
        choose_how="halving",
        **settings,
    )


def dense(ranker) -> np.ndarray:
    n, m = ranker.weights_.shape
    return ranker.weights_.score(sparse.eye_array(n, format="csr"), sparse.eye_array(m, format="csr"))


@pytest.mark.parametrize("choose_on", ["training", "validation"])
@pytest.mark.parametrize("early_stop", [False, True])
def test_the_survivor_has_the_bits_of_a_straight_fit(task, early_stop, choose_on):
    chooses = method(early_stop=early_stop, choose_on=choose_on)
    fitted = learn(chooses, task, chooses.parameters, 0)
    alone = replace(chooses, choose={})
    straight = learn(alone, task, alone.parameters | fitted.facts["chosen"], 0)
    np.testing.assert_array_equal(dense(fitted.ranker), dense(straight.ranker))
    assert fitted.ranker.n_steps_ == straight.ranker.n_steps_
    tried = fitted.facts["tried"]
    assert [one["rate"] for one in tried] == list(RATES)
    name = "map" if choose_on == "validation" else "error"
    assert sorted(one["share"] for one in tried) == [0.25, 0.25, 0.5, 0.5]
    best = max if choose_on == "validation" else min
    finalists = [one for one in tried if one["share"] == 0.5]
    assert best(finalists, key=lambda one: one[name])["rate"] == fitted.facts["chosen"]["rate"]
    assert fitted.seconds > 0
    assert fitted.facts["choosing_seconds"] > 0


def test_all_steps_are_compared_where_that_is_asked_for(task):
    chooses = replace(method(choose_on="training"), choose_how="full")
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


@pytest.mark.parametrize("choose_how", ["full", "halving"])
def test_what_diverges_is_not_chosen(task, choose_how):
    wild = replace(method(choose_on="training"), choose={"rate": (1e12, 0.1)}, choose_how=choose_how)
    fitted = learn(wild, task, wild.parameters, 0)
    assert fitted.facts["chosen"] == {"rate": 0.1}
    assert fitted.facts["tried"][0] == {"rate": 1e12, "diverged": True}
    with pytest.raises(DivergedError, match="every setting diverged"):
        learn(replace(wild, choose={"rate": (1e12, 1e13)}), task, wild.parameters, 0)


def staged(stages: dict[float, int], begun: list[float]):
    """``begin`` of fits of 100 steps: each has its value for weights, and diverges after so many steps (100: never)."""

    def begin(setting):
        value = setting["value"]
        begun.append(value)

        def fit(pause):
            for step in range(10, 110, 10):
                if step > stages[value]:
                    raise DivergedError(f"{value} diverged after {step - 10} steps")
                pause(Event(step, 100, 0.0, 0.0, 0.0, None, lambda: value))

        return PausableFit(SimpleNamespace(weights_=value), fit)

    return begin


@pytest.mark.parametrize(
    ("stages", "best", "begun_again", "diverged"),
    [
        ({0.1: 100, 0.2: 100, 0.3: 100, 0.4: 100}, 0.4, [], []),
        ({0.1: 100, 0.2: 100, 0.3: 100, 0.4: 70}, 0.3, [0.3], [0.4]),  # after the last rung
        ({0.1: 100, 0.2: 80, 0.3: 70, 0.4: 70}, 0.1, [0.3, 0.2, 0.1], [0.2, 0.3, 0.4]),
        ({0.1: 100, 0.2: 100, 0.3: 40, 0.4: 40}, 0.2, [0.2], [0.3, 0.4]),  # all that are left, before it
    ],
)
def test_where_the_survivor_diverges_the_next_best_is_learned_anew(stages, best, begun_again, diverged):
    begun: list[float] = []
    settings = [{"value": value} for value in stages]
    number, fit, tried = halved(settings, staged(stages, begun), lambda weights: weights, higher_is_better=True)
    assert (settings[number]["value"], fit.weights, fit.has_ended) == (best, best, True)
    assert begun == [*stages, *begun_again]
    assert [value for value, one in zip(stages, tried, strict=True) if one == {"diverged": True}] == diverged
    assert all("share" in one for one in tried if one != {"diverged": True})


def test_where_all_diverge_at_last_the_error_says_so():
    settings = [{"value": value} for value in (0.1, 0.2)]
    with pytest.raises(DivergedError, match=r"every setting diverged, the last one so: 0\.1 diverged after 90 steps"):
        halved(settings, staged({0.1: 90, 0.2: 60}, []), lambda weights: weights, higher_is_better=True)


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


# -- deadlines ------------------------------------------------------------------------------------------------------


class OverAfter(RunDeadline):
    """A deadline that comes with the so-manieth event."""

    left: ClassVar[list[int]] = []

    @property
    def is_over(self) -> bool:
        return self.left[0] <= 0

    def __call__(self, event: object) -> bool:
        self.left[0] -= 1
        return self.is_over


def deadline_after(n_events: int) -> RunDeadline:
    OverAfter.left = [n_events]
    return OverAfter()


SPARSE = Method("m", "M", "SparseRanker", preferences=20_000, parameters={"l1": 1e-4, "rate": 0.1, "refit": True})


def test_a_refit_obeys_the_deadline(task):
    whole = learn(SPARSE, task, SPARSE.parameters, 0)
    assert not whole.cut
    n_events = len(whole.ranker.history_)
    assert n_events == 10  # five chunks of the sparse phase, and of the refit
    in_sparse = learn(SPARSE, task, SPARSE.parameters, 0, deadline=deadline_after(2))
    assert in_sparse.cut
    assert in_sparse.ranker.n_steps_ == 8192
    assert len(in_sparse.ranker.history_) == 3  # one chunk of the refit, which ended there
    in_refit = learn(SPARSE, task, SPARSE.parameters, 0, deadline=deadline_after(7))
    assert in_refit.cut
    assert (in_refit.facts["steps_taken"], in_refit.facts["run"]) == (8192, 2)
    assert in_refit.ranker.n_steps_ == 20_000
    np.testing.assert_array_equal(
        in_refit.ranker.weights_before_refit_.sparse.toarray(), whole.ranker.weights_before_refit_.sparse.toarray()
    )


class OverAtLook(RunDeadline):
    """A deadline that comes with the so-manieth look at it."""

    left: ClassVar[list[int]] = []

    @property
    def is_over(self) -> bool:
        self.left[0] -= 1
        return self.left[0] < 0


def curve(task: LinkTask, looks: int) -> dict:
    OverAtLook.left = [looks]
    steps = curve_steps(1000, SPARSE.preferences, 4)
    return CurveJob(SPARSE, "wiki", 0, 200, SPARSE.parameters, steps, deadline=OverAtLook()).run(task)


def test_a_curve_that_was_cut_ends_where_it_was(task):
    whole = curve(task, 10**6)
    steps = [1000, 2714, 7368, 20_000]
    for points in whole["series"].values():
        assert [point["step"] for point in points] == steps
    assert list(whole["series"]) == ["weights_before_refit_", "weights_"]
    assert not whole["cut"]
    in_sparse = curve(task, 3)
    assert in_sparse["cut"]
    assert list(in_sparse["series"]) == ["weights_before_refit_"]  # what was left then is no support to refit
    assert [point["step"] for point in in_sparse["series"]["weights_before_refit_"]] == steps[:3]
    in_refit = curve(task, 4 + 4 + 4)
    assert in_refit["cut"]
    assert [point["step"] for point in in_refit["series"]["weights_before_refit_"]] == steps
    refits = [point["step"] for point in in_refit["series"]["weights_"]]
    assert refits == steps[: len(refits)]
    assert 0 < len(refits) < 4
    assert curve(task, 0) == {"cut": True, "left out": True}


def test_a_curve_that_was_cut_within_a_slice_says_so(task, monkeypatch):
    monkeypatch.setattr("reproductions.term_jobs._SLICE", 500)
    cut = curve(task, 5)
    assert cut["series"]["weights_before_refit_"][-1]["step"] % 500 == 0
    assert cut["cut"]
    whole = curve(task, 10**6)
    monkeypatch.undo()
    errors = [[point["error"] for point in one["series"]["weights_"]] for one in (whole, curve(task, 10**6))]
    assert errors[0] == errors[1]
