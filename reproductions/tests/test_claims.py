"""One rule for verdicts: the plan's own test of a pair, corrected, wherever the pair comes up; else its interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from paper_values import made_plan, made_results

from reproductions.claims import PairDecisions
from reproductions.plan import Claim, PairedTests, PaperMeasure
from reproductions.results import PaperResults
from reproductions.tables import make_tables
from tercet.measure import holm, paired_test

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
    assert "paired tests of this page" not in table.notes[0]


def test_a_pair_among_the_paired_tests_takes_their_corrected_verdict():
    tables = tables_of(made_plan("abcd", claims=CLAIMS, comparisons=(TESTS,)))
    p = [paired_test(VALUES[model]["map"], A, "wilcoxon").p_value for model in "bcd"]
    corrected = holm(p)
    assert corrected[0] > 0.05 > corrected[1]  # else the example shows nothing
    orderings, tests = tables["orderings"], tables["tests"]
    assert verdicts(orderings) == ["not decided", "holds", "not decided"]
    assert verdicts(tests) == ["no difference seen", "worse", "no difference seen"]
    assert [record["p_holm"] for record in orderings.records] == pytest.approx(corrected)
    assert [record["low"] for record in orderings.records] == [None] * 3  # no second rule beside it
    assert [record["decided_by"] for record in orderings.records] == ["tests"] * 3
    assert "Wilcoxon test, Holm" in orderings.rows[0][3].detail


def test_a_pair_in_two_tables_of_tests_is_tested_once():
    again = PairedTests("again", "c and d", "rows", ("map",), ("a", "c", "d"), "", "wilcoxon")
    tables = tables_of(made_plan("abcd", comparisons=(TESTS, again)))
    first = {frozenset((r["first"], r["second"])): r for r in tables["tests"].records}
    second = {frozenset((r["first"], r["second"])): r for r in tables["again"].records}
    for pair in first.keys() & second.keys():
        assert second[pair]["p_holm"] == first[pair]["p_holm"]
        assert second[pair]["corrected_in"] == "tests"
        assert {first[pair]["verdict"], second[pair]["verdict"]} in ({"better", "worse"}, {"no difference seen"})
    new = second[frozenset("cd")]
    assert new["p_holm"] == new["p"]  # the only test of its own
    assert "the 1 tests" in tables["again"].notes[0]


def test_a_quick_run_decides_nothing():
    tables = tables_of(made_plan("abcd", claims=CLAIMS, comparisons=(TESTS,)), quick=True)
    assert {*verdicts(tables["orderings"]), *verdicts(tables["tests"])} == {"not compared"}


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
    assert (record["better"], record["worse"], record["n"]) == (2 / 40, 5 / 40, 10)
    del results.fits["rows", "b", 0]
    assert results.paired("rows", "a", "b", "error") is None
    assert not make_tables(results)[-1].has_numbers


def test_orderings_of_our_own_models_are_a_table_of_their_own():
    own = replace(CLAIMS[1], ours=True)
    tables = tables_of(made_plan("abcd", claims=(CLAIMS[0], own)))
    assert verdicts(tables["orderings"]) == ["the opposite holds"]
    assert verdicts(tables["our-orderings"]) == ["holds"]
