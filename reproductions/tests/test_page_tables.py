"""Tables and pages of made-up results: verdicts, one for each pair of models, their counts, and the index page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproductions.pages import make_overview, write_results
from reproductions.plan import Claim, Method, PairedTests, Paper, PaperMeasure, PaperTable, Plan, PlanData, Row
from reproductions.results import PaperResults
from reproductions.tables import PairDecisions, make_tables
from reproductions.verdicts import compare
from tercet.measure import holm, paired_test

AP = PaperMeasure("MAP", higher_is_better=True, tolerance=0.02, spread="standard error")


def made_plan(models: Sequence[str], **shown: Any) -> Plan:
    """Make a plan with a data set "rows" and a method for each model."""
    measures = shown.pop("measures", {"map": AP})
    return Plan(
        Paper("made", "A made-up paper", "A. Nobody", "Nowhere 2000"),
        measures=measures,
        datasets=shown.pop("datasets", {"rows": PlanData("Rows", "letor-folds", ("rows",))}),
        methods=tuple(Method(model, model.title(), "FTRLRanker") for model in models),
        **shown,
    )


def made_results(plan: Plan, by_query: Mapping[str, Mapping[str, Sequence[float]]], **found: Any) -> PaperResults:
    """Make results of the first data set: model -> measure -> a value for each query."""
    dataset = next(iter(plan.datasets))
    n_queries = max(len(values) for measured in by_query.values() for values in measured.values())
    data = {"splits": ["Fold1"], "queries": [str(i) for i in range(n_queries)], "statistics": {"features": 4}}
    results = PaperResults(plan, found.pop("quick", False), "0.0", data={dataset: data}, **found)
    for model, measured in by_query.items():
        names = {plan.name_of(key): [float(value) for value in values] for key, values in measured.items()}
        means = {name: sum(values) / len(values) for name, values in names.items()} | {"seconds": 0.5}
        fit = {
            "facts": {},
            "related": {},
            "models": {model: {"means": means, "by_query": names}},
            "took": 1.0,
        }
        results.fits[dataset, model, 0] = [fit]
    return results


# -- verdicts ---------------------------------------------------------------------------------------------------------

NUMBERS = st.floats(-1000, 1000, allow_nan=False)


@given(NUMBERS, NUMBERS, st.floats(0, 10), st.booleans(), st.booleans())
def test_exactly_one_verdict_holds(ours, printed, tolerance, higher, relative):
    measure = PaperMeasure("m", higher, tolerance, relative)
    verdict = compare(ours, printed, measure)
    allowed = tolerance * abs(printed) if relative else tolerance
    near = abs(ours - printed) <= allowed
    ahead = ours > printed if higher else ours < printed
    assert verdict.text.startswith("same" if near else "better" if ahead else "short by ")
    assert verdict.tone == ("good" if near or ahead else "bad")


# -- orderings and paired tests ---------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
N = 20
NOISE = RNG.normal(0, 0.02, N)
# "a" is below "b" by an amount that an interval takes for sure and Wilcoxon over several pairs does not; "c" is far
# below, "d" the same as "a" but for noise.
B = RNG.uniform(0.4, 0.6, N)
A = B - 0.004 + RNG.normal(0, 0.0072, N)
VALUES = {
    "a": {"map": A},
    "b": {"map": B},
    "c": {"map": B - 0.2 + NOISE},
    "d": {"map": A + NOISE - NOISE.mean()},
}
CLAIMS = tuple(
    Claim(f"a is above {worse}", "Section 1", "a", (worse,), ("map",), ("rows",)) for worse in ("b", "c", "d")
)
TESTS = PairedTests("tests", "All against a", "rows", ("map",), ("b", "c", "d"), "a", "wilcoxon")


def tables_of(plan, values=VALUES, **found):
    return {table.key: table for table in make_tables(made_results(plan, values, **found))}


def verdicts(table):
    return [record["verdict"] for record in table.records]


def test_without_tests_the_interval_decides():
    assert paired_test(A, B).high < 0  # the whole interval is on the other side
    table = tables_of(made_plan("abcd", claims=CLAIMS))["orderings"]
    assert verdicts(table) == ["the opposite holds", "holds", "not decided"]
    assert table.records[0]["low"] == pytest.approx(paired_test(A, B).low)


def test_a_pair_among_the_paired_tests_takes_their_corrected_verdict():
    tables = tables_of(made_plan("abcd", claims=CLAIMS, comparisons=(TESTS,)))
    p = [paired_test(VALUES[model]["map"], A, "wilcoxon").p_value for model in "bcd"]
    corrected = holm(p)
    assert corrected[0] > 0.05 > corrected[1]  # else the example shows nothing
    orderings, tests = tables["orderings"], tables["tests"]
    assert verdicts(orderings) == ["not decided", "holds", "not decided"]
    assert verdicts(tests) == ["no difference seen", "worse", "no difference seen"]
    assert [record["p_holm"] for record in tests.records] == pytest.approx(corrected)
    assert "Wilcoxon test, Holm" in orderings.rows[0][3].detail


@pytest.mark.parametrize("with_tests", [False, True])
def test_no_two_verdicts_on_a_page_contradict(with_tests):
    """Every pair, asked in both directions, has one answer."""
    plan = made_plan("abcd", comparisons=(TESTS,) if with_tests else ())
    decisions = PairDecisions(made_results(plan, VALUES))
    opposite = {"better": "worse", "worse": "better", "no difference seen": "no difference seen"}
    for one in "abcd":
        for other in set("abcd") - {one}:
            there, back = (decisions.decide("rows", *pair, "map").outcome for pair in ((one, other), (other, one)))
            assert back == opposite[there]


def test_only_seeds_that_both_have_are_paired():
    """Seeds have different test preferences, so a seed that failed for one model is dropped for the pair."""
    error = PaperMeasure("error", higher_is_better=False, tolerance=0.02)
    claim = Claim("a is above b", "Section 1", "a", ("b",), ("error",), ("rows",))
    plan = made_plan("ab", measures={"error": error}, claims=(claim,))
    results = PaperResults(plan, False, "0.0", data={"rows": {}})
    queries = {seed: np.arange(40) // 4 + seed for seed in (0, 1, 2)}  # of the test preferences
    wrong = {("a", 0): [0, 5], ("a", 2): [1, 2, 3], ("b", 0): [0, 5, 8, 9, 20], ("b", 1): [7]}
    for (model, seed), positions in wrong.items():
        tested = np.bincount(queries[seed])
        counts = np.bincount(queries[seed][positions], minlength=len(tested))
        measured = {"means": {"error": len(positions) / 40}, "by_query": {}, "wrong": counts.tolist()}
        fit = {"facts": {}, "related": {}, "models": {model: measured}, "tested": tested.tolist()}
        results.fits["rows", model, seed] = [fit]
    assert results.common_seeds("rows", ("a", "b")) == (0,)
    test = results.paired("rows", "a", "b", "error")
    a, b = (np.bincount(np.array(wrong[model, 0]) // 4, minlength=10) / 4 for model in "ab")
    assert (test.n, test.difference) == (10, pytest.approx(np.mean(a - b)))
    [record] = make_tables(results)[-1].records
    assert (record["better"], record["worse"]) == (2 / 40, 5 / 40)
    del results.fits["rows", "b", 0]
    assert results.paired("rows", "a", "b", "error") is None
    assert not make_tables(results)[-1].has_numbers


def test_orderings_of_our_own_models_are_a_table_of_their_own():
    own = replace(CLAIMS[1], ours=True)
    tables = tables_of(made_plan("abcd", claims=(CLAIMS[0], own)))
    assert verdicts(tables["orderings"]) == ["the opposite holds"]
    assert verdicts(tables["our-orderings"]) == ["holds"]


def test_standard_errors_of_the_rank_loss_count_queries_not_tuples():
    error = PaperMeasure("error", higher_is_better=False, tolerance=0.02)
    plan = made_plan(("tfidf", "slow"), measures={"error": error}, datasets={"wiki": PlanData("W", "wikispeedia")})
    results = PaperResults(plan, False, "0", data={"wiki": {}})
    tested = [50] * 20
    # All preferences of a quarter of the queries.
    some = {"means": {"error": 0.25}, "by_query": {}, "wrong": [50] * 5 + [0] * 15}
    none = {"means": {"error": 0.0}, "by_query": {}, "wrong": [0] * 20}
    results.fits["wiki", "tfidf", 0] = [{"models": {"tfidf": some}, "tested": tested}]
    results.fits["wiki", "slow", 0] = [{"models": {"slow": none}, "tested": tested}]
    by_query = np.r_[np.ones(5), np.zeros(15)]
    assert results.standard_error("wiki", "tfidf", "error") == pytest.approx(by_query.std(ddof=1) / np.sqrt(20))
    test = results.paired("wiki", "slow", "tfidf", "error")
    assert test.difference == pytest.approx(-0.25)
    assert test.n == 20
    assert test.low == pytest.approx(paired_test(np.zeros(20), by_query).low)


# -- pages ------------------------------------------------------------------------------------------------------------

PAGE_RNG = np.random.default_rng(1)
PB = PAGE_RNG.uniform(0.3, 0.7, 30)
PAGE_VALUES = {"a": {"map": PB + 0.2}, "b": {"map": PB}, "c": {"map": PB - 0.001 * PAGE_RNG.normal(size=30)}}
DATA = {
    "rows": PlanData("Rows", "letor-folds", ("rows",)),
    "gone": PlanData("Gone", "letor-folds", ("gone",)),
    "other": PlanData("Other", "letor-folds", ("other",), compare=False),
}
MEAN = float(PB.mean())
ROWS = (
    Row("a", printed={"map": MEAN + 0.2}, plus_minus={"map": 0.004}, params="200D"),
    Row("b", printed={"map": MEAN - 0.1}),
    Row("c", printed={"map": MEAN + 0.5}),
    Row(title="d", reason="it was never described", printed={"map": 0.5}),
)
TABLES = (
    PaperTable("first", "results", ("rows",), ("map",), ROWS, position="Table 1"),
    PaperTable("second", "more results", ("gone",), ("map",), ROWS[:2], position="Table 2"),
)
PAGE_CLAIMS = (
    Claim("a is best", "Section 1", "a", ("b", "c"), ("map",), ("rows",)),
    Claim("b is above c", "Section 2", "b", ("c",), ("map",), ("rows",)),
    Claim("c is above a", "Section 3", "c", ("a",), ("map",), ("rows",)),
    Claim("a is above b, ours", "Section 3", "a", ("b",), ("map",), ("rows",), ours=True),
)
PLAN = made_plan(
    "abc",
    datasets=DATA,
    measures={"map": PaperMeasure("MAP", True, 0.02, spread="standard error", name="nDCG@1")},
    tables=TABLES,
    claims=PAGE_CLAIMS,
)


def results_of(plan=PLAN, values=PAGE_VALUES, **found):
    return made_results(plan, values, **({"missing": {"gone": "looked for gone: not there"}} | found))


def counts_of(**found):
    results = results_of(**found)
    return make_overview(results, make_tables(results))["counts"]


def test_numbers_and_orderings_are_counted_by_kind_and_ours_apart():
    counts = counts_of()
    assert counts["table"] == {"same": 1, "better": 1, "short": 1, "not run": 3}  # two of them are of missing data
    assert counts["orderings"] == {"hold": 1, "not decided": 1, "opposite": 1}
    assert counts["our-orderings"] == {"hold": 1}


def test_what_is_short_within_the_standard_error_says_so():
    wide = {"a": {"map": np.tile([0.0, 1.0], 5)}, "b": {"map": PB[:10]}, "c": {"map": PB[:10]}}
    short = replace(TABLES[0], rows=(Row("a", printed={"map": 0.6}),))  # with a standard error of .17
    plan = replace(PLAN, tables=(short,), claims=())
    assert counts_of(plan=plan, values=wide)["table"] == {"short within the error": 1}


def test_quick_runs_other_data_and_measures_that_say_nothing_are_not_compared():
    assert "same" not in counts_of(quick=True)["table"]
    other = replace(PLAN, datasets={"other": DATA["other"]}, claims=())
    table = replace(TABLES[0], datasets=("other",))
    assert counts_of(plan=replace(other, tables=(table,)), missing={})["table"] == {"not compared": 3, "not run": 1}
    measures = {"map": replace(PLAN.measures["map"], compare=False)}
    first = replace(PLAN, measures=measures, tables=TABLES[:1])
    assert counts_of(plan=first)["table"] == {"not compared": 3, "not run": 1}


def test_the_page_tells_what_was_not_trained_to_the_end_what_is_missing_and_what_failed(tmp_path):
    results = results_of(failed=["Rows, B, seed 0: diverged"])
    results.fits["rows", "b", 0][0]["facts"]["still_improving"] = True
    write_results(results, tmp_path / "made")
    page = (tmp_path / "made" / "index.html").read_text()
    assert "<td>B\N{NO-BREAK SPACE}†</td>" in page
    assert "<td>A</td>" in page
    assert "Gone is not here: looked for gone: not there." in page
    assert "Rows, B, seed 0: diverged" in page


def test_the_index_has_the_counts_of_a_run_and_a_complete_run_replaces_a_quick_one(tmp_path):
    paper = replace(PLAN.paper, key="rankrls")
    for quick, name in ((True, "rankrls-quick"), (False, "rankrls")):
        write_results(results_of(plan=replace(PLAN, paper=paper), quick=quick), tmp_path / name)
        page = (tmp_path / "index.html").read_text()
        assert ("A quick run: its numbers mean little." in page) == quick
        assert f'href="{name}/index.html"' in page
    assert "1 same, 1 better, 1 short" in page
    assert "python -m reproductions chen2010" in page
