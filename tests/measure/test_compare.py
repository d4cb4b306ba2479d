"""Comparing systems: in the library and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from support.corpora import Corpus
from tercet.cli.main import cli
from tercet.data import LetorData, write_beir, write_letor, write_qrels, write_run
from tercet.errors import InputError
from tercet.learn.linear import FTRLRanker
from tercet.measure import compare, compare_evaluations, evaluate, holm, paired_test

DOCS = [f"d{i}" for i in range(12)]
QRELS = {f"q{i}": {DOCS[j]: 1 + (i + j) % 2 for j in range(i % 3 + 1)} for i in range(30)}


def system(seed: int, skill: float) -> dict[str, dict[str, float]]:
    """Scores that are noise and, the more skill, the grades."""
    rng = np.random.default_rng(seed)
    return {qid: {d: float(skill * grades.get(d, 0) + rng.normal()) for d in DOCS} for qid, grades in QRELS.items()}


RUNS = {"poor": system(0, 0.0), "fair": system(1, 0.7), "good": system(2, 3.0)}


def test_every_pair_is_tested_as_by_itself_and_corrected_over_all() -> None:
    found = compare(QRELS, RUNS, ["nDCG@10", "RR"])
    asked = [(str(one.measure), one.system, one.against) for one in found.contrasts]
    pairs = [("fair", "poor"), ("good", "poor"), ("good", "fair")]
    assert asked == [(measure, *pair) for measure in ("nDCG@10", "RR") for pair in pairs]
    single = {name: evaluate(QRELS, run, ["nDCG@10", "RR"]) for name, run in RUNS.items()}
    tests = [paired_test(single[a], single[b], measure=measure) for measure, a, b in asked]
    assert [one.test for one in found.contrasts] == tests
    assert [one.p_adjusted for one in found.contrasts] == holm([test.p_value for test in tests]).tolist()
    best = found.contrasts[1]
    assert best.p_adjusted < 0.01 < 0.5 < best.test.difference + 0.3
    for name, one in single.items():
        assert found.systems[name].values.tolist() == one.values.tolist()


def test_wins_are_wins_also_where_lower_is_better() -> None:
    found = compare(QRELS, {"poor": RUNS["poor"], "good": RUNS["good"]}, ["RankLoss", "AP"])
    for one in found.contrasts:
        assert one.wins > one.losses
        assert one.wins + one.ties + one.losses == 30
    loss, precision = found.contrasts
    assert loss.test.difference < 0 < precision.test.difference
    difference = found.systems["good"]["AP"] - found.systems["poor"]["AP"]
    assert (precision.wins, precision.losses) == ((difference > 0).sum(), (difference < 0).sum())
    same = compare(QRELS, {"a": RUNS["good"], "b": RUNS["good"]}, "AP").contrasts[0]
    assert (same.wins, same.ties, same.losses, same.p_adjusted) == (0, 30, 0, 1.0)


def test_a_baseline_is_what_the_others_are_tested_against() -> None:
    found = compare(QRELS, RUNS, "AP", baseline="fair")
    assert [(one.system, one.against) for one in found.contrasts] == [("poor", "fair"), ("good", "fair")]
    assert [one.p_adjusted for one in found.contrasts] == holm([one.test.p_value for one in found.contrasts]).tolist()


@pytest.mark.parametrize("method", ["wilcoxon", "permutation"])
def test_other_tests_and_their_seed(method: str) -> None:
    def once(seed: int) -> float:
        found = compare(QRELS, RUNS, "AP", method=method, n=200, random_state=seed)
        return found.contrasts[0].test.p_value

    assert once(3) == once(3)
    assert compare(QRELS, RUNS, "AP", method=method, n=200).contrasts[1].test.method == method


def test_the_queries_that_differ_most() -> None:
    found = compare(QRELS, RUNS, ["AP", "P@1"])
    rows = found.largest("good", "poor", k=4)
    difference = np.abs(found.systems["good"]["AP"] - found.systems["poor"]["AP"])
    assert [abs(a - b) for _, a, b in rows] == sorted(difference, reverse=True)[:4]
    by_rank = found.largest("good", "poor", "P@1", k=100)
    assert {abs(a - b) for _, a, b in by_rank} == {1.0}, "queries on which they do not differ are shown"
    with pytest.raises(InputError, match="There is no system 'best'; there are 'poor', 'fair', 'good'"):
        found.largest("best", "poor")


def without(run: dict[str, dict[str, float]], *qids: str) -> dict[str, dict[str, float]]:
    return {qid: docs for qid, docs in run.items() if qid not in qids}


def test_a_query_without_results_counts_as_worst_and_is_told() -> None:
    found = compare(QRELS, {"a": RUNS["fair"], "b": without(RUNS["good"], "q1", "q4")}, "AP")
    assert found.missing == {"b": ("q1", "q4")}
    assert found.systems["b"]["AP"][[1, 4]].tolist() == [0, 0]
    assert found.notes() == ["b has no results for 2 judged queries ('q1', 'q4'): counted with the worst value"]
    assert len(found.systems["a"].qids) == 30


def test_the_queries_that_all_have_are_compared_when_asked() -> None:
    runs = {"a": without(RUNS["fair"], "q7"), "b": without(RUNS["good"], "q1", "q7") | {"q4": {}, "new": {"d1": 1.0}}}
    found = compare(QRELS, runs, "AP", missing="skip")
    assert found.left_out == ("q1", "q4", "q7")
    assert set(found.systems["a"].qids) == set(found.systems["b"].qids) == QRELS.keys() - set(found.left_out)
    kept = {qid: grades for qid, grades in QRELS.items() if qid not in found.left_out}
    assert found.systems["a"].mean("AP") == evaluate(kept, RUNS["fair"], "AP").mean("AP")
    assert found.notes() == [
        "a has no results for 1 judged query ('q7'): left out for all systems",
        "b has no results for 3 judged queries ('q1', 'q4', 'q7'): left out for all systems",
        "compared on the 27 judged queries that every system has results for",
        "b has results for 1 queries without judgements: not measured",
    ]


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ({"a": RUNS["good"]}, {}, "at least two systems. Got 1"),
        (
            {"a": RUNS["good"], "b": {}},
            {},
            "System 'b' has no result for any of the 30 judged queries. A system without",
        ),
        ({"a": RUNS["good"], "b": {"x": {"d": 1.0}}}, {"missing": "skip"}, "System 'b' has no result for any"),
        ({"a": RUNS["good"], "b": {"q1": {}}}, {}, "System 'b' has no result for any"),
        (
            {"a": {"q1": {"d": 1.0}}, "b": {"q2": {"d": 1.0}}},
            {"missing": "skip"},
            "none of the 30 judged queries that every system has results for",
        ),
        (RUNS, {"baseline": "best"}, "The baseline 'best' is not among the systems: 'poor', 'fair', 'good'"),
        (RUNS, {"method": "z"}, "'method' must be one of"),
        (RUNS, {"missing": "ignore"}, "'missing' must be 'zero' or 'skip'"),
    ],
)
def test_what_cannot_be_compared_is_an_error(runs: dict, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare(QRELS, runs, "AP", **options)


def test_evaluations_must_be_of_the_same_queries_and_measures() -> None:
    one = evaluate(QRELS, RUNS["good"], "AP")
    for other in (evaluate(QRELS, RUNS["good"], "RR"), evaluate({"q1": QRELS["q1"]}, RUNS["good"], "AP")):
        with pytest.raises(InputError, match="System 'b' was measured on other queries, or by other measures"):
            compare_evaluations({"a": one, "b": other})


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_a_correction_keeps_the_order_and_is_never_above_that_of_bonferroni(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert (np.asarray(p_values) <= corrected).all()
    assert (corrected <= np.minimum(len(p_values) * np.asarray(p_values), 1) + 1e-15).all()
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(corrected[order]) >= 0).all()


def test_a_correction_refuses_what_is_no_p_value() -> None:
    with pytest.raises(InputError, match=r"numbers between 0 and 1. Got \[0.5, 1.5\]"):
        holm([0.5, 1.5])


# -- the command ------------------------------------------------------------------------------------------------------


def tercet(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_qrels(folder / "qrels.txt", QRELS)
    for name, run in RUNS.items():
        write_run(folder / f"{name}.trec", run)
    write_run(folder / "short.trec", without(RUNS["good"], "q0"))
    return folder


def options(files: Path, *names: str) -> list[object]:
    return [
        "--judgements",
        files / "qrels.txt",
        *(part for name in names for part in ("--run", files / f"{name}.trec")),
    ]


def test_the_command_prints_means_tests_and_queries(files: Path) -> None:
    result = tercet("eval", *options(files, "poor", "good"), "-m", "AP")
    assert result.exit_code == 0, result.output
    found = compare(QRELS, {"poor": RUNS["poor"], "good": RUNS["good"]}, "AP")
    [one] = found.contrasts
    for expected in (
        f"{found.systems['good'].mean('AP'):.4f}",
        f"{one.test.difference:+.4f} [{one.test.low:+.4f}, {one.test.high:+.4f}]",
        "p corrected (Holm), 1 test in all",
        f"largest differences by AP, {files / 'good.trec'} against {files / 'poor.trec'}:",
    ):
        assert expected in result.output
    rows = [line.split() for line in result.output.splitlines() if line.startswith("  ")]
    assert [row[3] for row in rows] == [qid for qid, _, _ in found.largest("good", "poor")]


def test_a_query_of_several_lines_is_shown_on_one(files: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"_id": qid, "text": f"first {qid}\n\tsecond"}) for qid in QRELS]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines), encoding="utf-8")
    given = options(files, "poor", "good")
    result = tercet("eval", *given, "-m", "AP", "--queries", tmp_path / "queries.jsonl")
    rows = [line.split() for line in result.output.splitlines() if line.startswith("  ")]
    assert [row[4:] for row in rows] == [["first", row[3], "second"] for row in rows]
    assert len(rows) == 5


def test_the_command_speaks_json_and_knows_a_baseline_by_its_last_name(files: Path) -> None:
    result = tercet("eval", *options(files, "poor", "fair", "good"), "--baseline", "poor.trec", "--json", "-m", "AP")
    assert result.exit_code == 0, result.output
    output = json.loads(result.output)
    assert [Path(one["system"]).stem for one in output["contrasts"]] == ["fair", "good"]
    assert output["systems"][str(files / "good.trec")]["AP"]["mean"] == evaluate(QRELS, RUNS["good"], "AP").mean("AP")
    assert output["queries"] == 30


def test_the_command_tells_of_queries_without_results(files: Path) -> None:
    arguments = ("eval", *options(files, "poor", "short"), "-m", "AP")
    assert "short.trec has no results for 1 judged query ('q0'): counted with" in tercet(*arguments).output


def test_a_system_without_a_run_is_an_error_and_no_zero(files: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.trec").write_text("")
    write_run(tmp_path / "foreign.trec", {"x": {"d": 1.0}})
    for name, code, message in (
        ("empty", 1, "empty.trec: the file holds no results"),
        ("foreign", 1, "foreign.trec' has no result for any of the 30 judged queries"),
        ("nowhere", 2, "nowhere.trec' does not exist"),
    ):
        result = tercet("eval", *options(files, "good"), "--run", tmp_path / f"{name}.trec")
        assert (result.exit_code, message in result.output) == (code, True), result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "poor.trec", "--run", "good.trec"], "--run needs DATA or --judgements"),
        (["--judgements", "qrels.txt", "--run", "good.trec", "--run", "good.trec"], "good.trec is named twice"),
    ],
)
def test_wrong_usage(files: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(files)
    result = tercet("eval", *arguments)
    assert (result.exit_code, message in result.output) == (2, True), result.output


def test_a_table_of_judgements_names_queries_by_their_texts(files: Path, tmp_path: Path) -> None:
    texts = {qid: f"words of {qid}" for qid in QRELS}
    rows = [f"{texts[qid]},{doc_id},{grade}\n" for qid, grades in QRELS.items() for doc_id, grade in grades.items()]
    (tmp_path / "case.csv").write_text("".join(["query,docid,rating\n", *rows, "unrated,,\n"]))
    with open(tmp_path / "queries.jsonl", "w") as stream:
        stream.writelines(json.dumps({"_id": qid, "text": text}) + "\n" for qid, text in texts.items())
    runs = options(files, "poor", "good")[2:]
    judged = ["--judgements", tmp_path / "case.csv", "--queries", tmp_path / "queries.jsonl"]
    result = tercet("eval", *judged, *runs, "-m", "AP", "--json")
    by_ids = tercet("eval", *options(files, "poor", "good"), "-m", "AP", "--json")
    assert json.loads(result.stdout) == json.loads(by_ids.stdout)
    assert "left out, without a grade: 1 row" in result.stderr
    result = tercet("eval", "--judgements", tmp_path / "case.csv", *runs)
    assert result.exit_code == 1
    assert "names queries by their texts; give their ids, too: --queries FILE" in result.output
    assert "words of q" in tercet("eval", *judged, *runs).output, "the texts of the queries are not shown"


def test_feature_models_are_compared_on_a_letor_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)).astype(np.float32)
    data = LetorData(X, (X[:, 0] > 0.6).astype(int), np.repeat(np.arange(12), 5))
    write_letor(tmp_path / "test.txt", data)
    for column, name in enumerate(("good", "noise")):
        only = np.zeros_like(X)
        only[:, 0] = X[:, column]
        FTRLRanker().fit(only, data.y, qid=data.qid).save(tmp_path / name)
    models = [part for name in ("noise", "good") for part in ("--model", tmp_path / name)]
    result = tercet("letor", "eval", tmp_path / "test.txt", *models, "-m", "AP", "--json")
    assert result.exit_code == 0, result.output
    [one] = json.loads(result.stdout)["contrasts"]
    assert (Path(one["system"]).name, one["wins"] + one["ties"] + one["losses"]) == ("good", 12)


@pytest.mark.slow
def test_models_and_runs_are_measured_on_the_same_split(tmp_path: Path, model: tc.TextModel, corpus: Corpus) -> None:
    docs = {doc_id.replace(" ", "-"): text for doc_id, text in corpus.docs.items()}
    qrels = {
        qid: {doc_id.replace(" ", "-"): grade for doc_id, grade in grades.items()}
        for qid, grades in corpus.part(240, 260).items()
    }
    write_beir(tmp_path / "data", docs, corpus.queries, {"test": qrels})
    model.save(tmp_path / "model")
    write_run(tmp_path / "run.trec", model.rank({qid: corpus.queries[qid] for qid in qrels}, docs, 1000))
    systems = ["--model", tmp_path / "model", "--run", tmp_path / "run.trec"]
    result = tercet("eval", tmp_path / "data", *systems, "--json")
    assert result.exit_code == 0, result.output
    assert {one["difference"] for one in json.loads(result.stdout)["contrasts"]} == {0.0}
    rows = [line.split("│") for line in tercet("eval", tmp_path / "data", *systems).output.splitlines() if "│" in line]
    rows = rows[:2]  # of the first table
    assert rows[0][2:] == rows[1][2:]
