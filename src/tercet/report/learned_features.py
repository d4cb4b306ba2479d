"""What the page of a model of features shows besides: its weights, and what sparsity costs."""

from __future__ import annotations

from collections.abc import Sequence

from tercet.report.charts import curves
from tercet.report.details import FeatureDetails
from tercet.report.html import Html, element
from tercet.report.table import Cell, Table
from tercet.report.value import Report

MOST_SHOWN = 50
Weighted = Sequence[tuple[str, float]]  # features by name, strongest first


def weights_section(weights: Weighted) -> Html:
    """The features with a weight, strongest first."""
    items = [
        element(
            "li",
            element("span", name, class_="words"),
            element("span", f"{weight:+.4g}", class_="weight " + ("good" if weight > 0 else "bad")),
        )
        for name, weight in weights[:MOST_SHOWN]
    ]
    rest = len(weights) - MOST_SHOWN
    return element(
        "section",
        element("h2", "Features with a weight"),
        element("p", "A score is the sum of weight times value, of features as they are given.", class_="soft"),
        element("ol", *items, class_="pairs"),
        element("p", f"and {rest:,} more with smaller weights", class_="soft") if rest > 0 else None,
    )


def path_section(report: Report, features: FeatureDetails) -> Html:
    """Every penalty that was learned at: features used against the measure on the queries that chose."""
    assert features.chosen is not None
    chosen = features.path[features.chosen]
    best: dict[int, float] = {}
    better = max if report.higher_is_better else min
    for point in features.path:
        best[point.n_used] = better(point.value, best.get(point.n_used, point.value))
    table = Table("Penalties", ["penalty", "features", report.measure], n_labels=1, marked=features.chosen)
    table.rows = [
        [Cell(f"{point.l1:.5g}"), Cell(f"{point.n_used:,}"), Cell(f"{point.value:.4f}")] for point in features.path
    ]
    said = "; ".join(f"{n_used:,} features {value:.4f}" for n_used, value in sorted(best.items()))
    return element(
        "section",
        element("h2", "What sparsity costs"),
        element(
            "p",
            f"{len(features.path)} penalties, from the weakest that leaves no feature; taken is the {features.choose}, "
            f"{chosen.l1:.5g}, with {chosen.n_used:,} of {features.n_features:,} features. "
            "The values are of the queries that chose.",
            class_="soft",
        ),
        element(
            "figure",
            curves(
                [(report.measure, [(float(n_used), value) for n_used, value in sorted(best.items())])],
                reference=("taken", chosen.value),
                final=None,
                x_label="features used",
                label=f"{report.measure} by the number of features used: {said}",
            ),
            element("figcaption", f"{report.measure} of the best ranker with so many features."),
        )
        if len(best) > 1
        else None,
        table.as_html(),
    )
