"""The two kinds of papers: those of term-pair models, and those of feature vectors."""

from __future__ import annotations

from pathlib import Path

from tercet.repro import reporting, runner
from tercet.repro.features import reporting as feature_reporting
from tercet.repro.features.plan import FeaturePlan
from tercet.repro.features.runner import FeatureResults, reproduce_features
from tercet.repro.plan import Plan
from tercet.repro.runner import Results
from tercet.repro.running import Listener
from tercet.repro.sheet import Sheet
from tercet.repro.written import write_report


def reproduce(
    plan: Plan | FeaturePlan,
    data_home: Path,
    output: Path,
    *,
    listener: Listener,
    quick: bool = False,
    only: tuple[str, ...] = (),
    seeds: int | None = None,
    fresh: bool = False,
    budget: float | None = None,
) -> Results | FeatureResults:
    """Run a plan, keeping every finished cell in ``output/cells``. Takes minutes to hours.

    Parameters
    ----------
    plan : what to run
    data_home : folder with the data sets; one that is missing is skipped
    quick : little of everything, to see that everything works
    only : keys of data sets; all when empty
    seeds : instead of the plan's number
    fresh : do again what is kept
    budget : minutes; everything runs with the first seed before anything runs with the second. What has not begun
        when the time is over is left out, and nothing that was cut short is kept.
    """
    if isinstance(plan, FeaturePlan):
        return reproduce_features(
            plan,
            data_home,
            output,
            listener=listener,
            quick=quick,
            only=only,
            seeds=seeds,
            fresh=fresh,
            budget=budget,
        )
    return runner.reproduce(
        plan,
        data_home,
        output,
        listener=listener,
        quick=quick,
        only=only,
        seeds=seeds,
        fresh=fresh,
        budget=budget,
    )


def write_results(results: Results | FeatureResults, output: Path) -> tuple[list[Sheet], str]:
    """Write tables, figures and the page; returns the tables, and what is missing to draw figures or ""."""
    if isinstance(results, FeatureResults):
        report = feature_reporting.report_on(results)
    else:
        report = reporting.report_on(results)
    return report.sheets, write_report(report, output)
