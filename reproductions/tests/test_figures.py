"""Figures: bars as wide as the error, printed points, and curves."""

from __future__ import annotations

import numpy as np
import pytest
from paper_values import made_plan, made_results

from reproductions.figures import PRINTED, log_ticks, make_drawings
from reproductions.plan import (
    Curves,
    Cutoffs,
    Method,
    Model,
    Paper,
    PaperMeasure,
    PaperTable,
    Plan,
    PlanData,
    Row,
)
from reproductions.results import PaperResults

RNG = np.random.default_rng(0)
MEASURES = {f"ndcg{k}": PaperMeasure(f"N@{k}", True, 0.01, name=f"nDCG@{k}") for k in (1, 3, 5)}
VALUES = {model: {key: RNG.uniform(0, 1, 12) for key in MEASURES} for model in ("a", "b")}
TABLE = PaperTable("table", "t", ("rows",), ("ndcg1", "ndcg5"), (Row("a", printed={"ndcg1": 0.9, "ndcg5": 0.2}),))


@pytest.fixture
def drawn():
    """Draws the only figure of some results; returns it and its drawing."""
    pytest.importorskip("matplotlib")

    def draw(results):
        [drawing] = make_drawings(results)
        return drawing.figure(), drawing

    return draw


def test_lines_over_cutoffs_have_their_errors_and_the_printed_points(drawn):
    plan = made_plan("ab", measures=MEASURES, tables=(TABLE,), cutoffs=(cutoffs(),))
    results = made_results(plan, VALUES)
    figure, drawing = drawn(results)
    assert drawing.draw().startswith(b"\x89PNG")
    [axes] = figure.axes
    low, high = axes.get_ylim()
    ours = [row for row in drawing.rows if not row.get("printed")]
    for row in ours:
        assert row["standard_error"] == results.standard_error("rows", row["model"].lower(), f"ndcg{row['cutoff']}")
        assert low < row["value"] - row["standard_error"] < row["value"] + row["standard_error"] < high
    printed = {(row["model"], row["cutoff"]): row["value"] for row in drawing.rows if row.get("printed")}
    assert printed == {("A", 1): 0.9, ("A", 5): 0.2}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["A", "B", PRINTED]
    assert "standard error" in drawing.caption
    assert "printed" in drawing.caption


def cutoffs() -> Cutoffs:
    return Cutoffs("lines", "lines", "Figure 1", ("rows",), tuple(MEASURES), ("a", "b"))


def test_other_data_get_no_printed_points():
    data = {"rows": PlanData("Rows", "letor-folds", ("rows",), compare=False)}
    plan = made_plan("ab", measures=MEASURES, tables=(TABLE,), cutoffs=(cutoffs(),), datasets=data)
    [drawing] = make_drawings(made_results(plan, VALUES))
    assert not any(row.get("printed") for row in drawing.rows)
    assert "printed" not in drawing.caption


# -- curves -----------------------------------------------------------------------------------------------------------

STEPS = (10, 100, 1000)


def curve_results() -> PaperResults:
    """Curves of a dense and of a sparse method with a refit."""
    models = (Model("sparse", "Sparse", "weights_before_refit_"), Model("sparse-r", "Sparse-R"))
    plan = Plan(
        Paper("made", "A made-up paper", "A. Nobody", "Nowhere 2000"),
        measures={
            "error": PaperMeasure("Error", False, 0.01),
            "memory": PaperMeasure("Memory", False, 0.1),
            "density": PaperMeasure("Density", False, 0.1),
        },
        datasets={"news": PlanData("News", "20newsgroups", ("news",))},
        methods=(
            Method("dense", "Dense", "DenseRanker", preferences=1000),
            Method("fit", "Fit", "SparseRanker", preferences=1000, models=models),
        ),
        tables=(PaperTable("t", "t", ("news",), ("error",), (Row("dense", printed={"error": 0.2}), Row("sparse-r"))),),
        curves=(Curves("walk", "walk", "Figure 1", ("news",), ("dense", "fit"), 10, 3, test_preferences=400),),
    )
    points = [{"step": step, "seconds": 1.0, "error": 0.5 / step**0.1, "density": 0.5} for step in STEPS]
    results = PaperResults(plan, False, "0.0", data={"news": {"statistics": {}}})
    results.curves["walk", "news", "dense"] = {"series": {"weights_": points}}
    results.curves["walk", "news", "fit"] = {"series": {"weights_before_refit_": points, "weights_": points}}
    return results


def test_curves_have_a_band_and_the_printed_end(drawn):
    figure, drawing = drawn(curve_results())
    errors = [row["standard_error of error"] for row in drawing.rows if not row.get("printed")]
    expected = [np.sqrt(row["error"] * (1 - row["error"]) / 400) for row in drawing.rows if not row.get("printed")]
    assert errors == pytest.approx(expected)
    assert [(row["model"], row["step"], row["error"]) for row in drawing.rows if row.get("printed")] == [
        ("Dense", 1000, 0.2)
    ]
    assert sum("Poly" in type(band).__name__ for band in figure.axes[0].collections) == 3


@pytest.mark.parametrize("low", [0.013, 0.9, 1.01, 7.3, 480.0, 99_000.0])
@pytest.mark.parametrize("factor", [1.02, 1.3, 2.5, 12.0, 1000.0, 1e9])
def test_a_logarithmic_axis_has_several_labels_within_it(low, factor):
    ticks = log_ticks(low, low * factor)
    assert 2 <= len(set(ticks)) <= 9
    assert ticks == sorted(ticks)
    assert low <= ticks[0] < ticks[-1] <= low * factor
