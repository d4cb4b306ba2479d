"""The command line with LETOR files, as a user types it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import tercet as tc
from support.commands import run
from support.letor_data import made_up
from tercet.cli import letor_fit
from tercet.cli.letor import print_features
from tercet.data import LetorData, query_folds, read_letor, write_beir, write_letor
from tercet.fitting.feature_model import FeatureModel
from tercet.fitting.letor import FEATURE_RANKERS as RANKERS
from tercet.fitting.text_model import TextModel
from tercet.learn.linear import FTRLRanker
from tercet.learn.rls import RankRLS, choose_rls
from tercet.measure import Evaluation, measure_rows
from tercet.report import shown_interval
from tercet.text import Vectorizer
from tercet.weights import Identity, Weights

NAMES = [f"name {j}" for j in range(1, 11)]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("letor")
    write_letor(folder / "train.txt", made_up(0))
    write_letor(folder / "vali.txt", made_up(1, 20, first_query=100))
    write_letor(folder / "test.txt", made_up(2, 25, first_query=200, comments=True))
    write_letor(folder / "wide.txt", made_up(3, 5, n_features=12, first_query=300))
    (folder / "names.txt").write_text("\n".join(NAMES))
    return folder


@pytest.fixture(scope="module")
def model(files, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model"
    result = run(
        *("letor", "fit", files / "train.txt", "--validation", files / "vali.txt", "--test", files / "test.txt"),
        *("--names", files / "names.txt", "-o", path),
    )
    assert result.exit_code == 0, result.output
    assert f"{path}: written after" in result.output
    return path


def test_fit_prints_the_table_and_the_features_by_name_and_writes_nothing_unasked(files, model, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = run(
        *("letor", "fit", files / "train.txt", "--validation", files / "vali.txt", "--test", files / "test.txt"),
        *("--names", files / "names.txt"),
    )
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == f"{files / 'train.txt'}: a LETOR file, 30 queries, 360 rows, 10 features"
    report = tc.load(model).report
    assert str(report) in result.output
    assert f"sparsity ratio {report.features.sparsity_ratio:.4f}" in result.output
    shown = [re.fullmatch(r" +(\d+)  (name \d+) +([+-]\S+) +(█+)", line) for line in lines]
    rows = [(int(m[1]), m[2], float(m[3]), len(m[4])) for m in shown if m]
    expected = tc.load(model).features()
    assert [row[:2] for row in rows] == [(e.feature, e.name) for e in expected]
    assert [row[2] for row in rows] == pytest.approx([e.weight for e in expected], rel=1e-3)
    assert rows[0][3] == 24
    assert [row[3] for row in rows] == sorted((row[3] for row in rows), reverse=True)
    assert lines[-1].endswith("nothing was written, as no -o was given")
    assert "s of learning" in lines[-1]
    assert list(tmp_path.iterdir()) == []


def test_fit_cross_validates_and_shows_the_path(files):
    result = run("letor", "fit", files / "train.txt", "--folds", 3, "--choose", "sparsest", "--measure", "AP")
    assert result.exit_code == 0, result.output
    assert "Cross-validation by query in 3 folds chose" in result.output
    assert "the sparsest within one standard error of the best on AP" in result.output


def test_a_given_penalty(files, tmp_path):
    result = run(
        "letor", "fit", files / "train.txt", "--test", files / "test.txt", "--ranker", "ftrl:l1=2", "-o", tmp_path / "m"
    )
    assert result.exit_code == 0, result.output
    data = read_letor(files / "train.txt")
    expected = FTRLRanker(l1=2.0).fit(data.X, data.y, data.qid).coef_
    assert (tc.load(tmp_path / "m").ranker.coef_ == expected).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", RANKERS)
def test_every_ranker_can_be_asked_for(name, files, tmp_path):
    result = run(
        "letor", "fit", files / "train.txt", "--test", files / "test.txt", "--ranker", name, "-o", tmp_path / "m"
    )
    assert result.exit_code == 0, result.output
    found = tc.load(tmp_path / "m")
    assert type(found.ranker) is type(RANKERS[name]())
    assert bool(found.report.features.path) == name.endswith("ftrl")


@pytest.mark.slow
def test_the_seed_is_that_of_a_ranker_that_draws_too(files, tmp_path):
    for seed in (0, 7):
        chosen = ("--ranker", "mean", "--seed", seed, "-o", tmp_path / f"seed {seed}")
        assert run("letor", "fit", files / "train.txt", *chosen).exit_code == 0
    first, other = (tc.load(tmp_path / f"seed {seed}").ranker for seed in (0, 7))
    assert other.random_state == 7
    assert not np.array_equal(first.coef_, other.coef_)


def test_a_kernel_ranker_chooses_its_penalty_and_its_basis_is_bounded(files, tmp_path, monkeypatch):
    arguments = (
        "letor",
        "fit",
        files / "train.txt",
        "--test",
        files / "test.txt",
        "--ranker",
        "rankrls:kernel=gaussian",
    )
    result = run(*arguments, "-o", tmp_path / "m")
    assert result.exit_code == 0, result.output
    data = read_letor(files / "train.txt")
    whole = tc.load(tmp_path / "m").ranker
    expected = choose_rls(data.X, data.y, data.qid, l2s=letor_fit.L2S, ranker=RankRLS(kernel="gaussian")).ranker
    assert (whole.l2, whole.n_basis) == (expected.l2, None)
    assert f"RankRLS, gaussian, l2={expected.l2:g}: no weights of features." in result.output
    monkeypatch.setattr(letor_fit, "MANY_ROWS", 359)
    monkeypatch.setattr(letor_fit, "N_BASIS", 50)
    assert run(*arguments, "-o", tmp_path / "m").exit_code == 1  # a model is there
    assert run(*arguments, "-o", tmp_path / "m", "--replace").exit_code == 0
    assert tc.load(tmp_path / "m").ranker.basis_.shape == (50, 10)
    result = run("letor", "rank", files / "test.txt", "--model", tmp_path / "m")
    assert len(result.stdout.splitlines()) == 300
    result = run(*arguments[:-1], "rankrls")
    assert "RankRLS, l2=" in result.output
    assert "10 of 10 features" in result.output
    assert run(*arguments[:-1], "rankrls:l1=1").exit_code == 2


def write_folds(folder: Path, data: LetorData) -> None:
    parts = [left for _, left in query_folds(data.qid, 3)]
    for k in range(3):
        (folder / f"Fold{k + 1}").mkdir(parents=True)
        for position, name in enumerate(("train", "vali", "test")):
            rows = parts[(k + position) % 3]
            write_letor(folder / f"Fold{k + 1}" / f"{name}.txt", LetorData(data.X[rows], data.y[rows], data.qid[rows]))


def test_a_folder_of_folds_is_answered_with_the_command_for_one_fold(tmp_path):
    write_folds(tmp_path / "set", made_up(5, 24))
    result = run("letor", "fit", tmp_path / "set")
    assert result.exit_code == 1
    command = result.output.partition(": tercet ")[2].split()
    assert run(*command).exit_code == 0


# -- rank -------------------------------------------------------------------------------------------------------------


def test_rank_writes_a_score_for_each_row(files, model, tmp_path):
    expected = tc.load(model).predict(read_letor(files / "test.txt").X)
    result = run("letor", "rank", files / "test.txt", "--model", model)
    assert result.exit_code == 0, result.output
    assert [float(line) for line in result.stdout.splitlines()] == expected.tolist()
    assert "a LETOR file, 25 queries" in result.stderr
    result = run("letor", "rank", files / "test.txt", "--model", model, "-o", tmp_path / "scores.txt.gz")
    assert result.exit_code == 0, result.output
    packed = gzip.decompress((tmp_path / "scores.txt.gz").read_bytes()).decode()
    assert [float(line) for line in packed.splitlines()] == expected.tolist()


def test_a_ranker_saved_by_itself_ranks_too(files, tmp_path):
    data = read_letor(files / "train.txt")
    rows = read_letor(files / "vali.txt").X
    for ranker in (FTRLRanker(l1=1.0), RankRLS(), RankRLS(kernel="gaussian", n_basis=20)):
        ranker.fit(data.X, data.y, data.qid).save(tmp_path / "ranker")
        result = run("letor", "rank", files / "vali.txt", "--model", tmp_path / "ranker")
        assert result.exit_code == 0, result.output
        assert [float(line) for line in result.stdout.splitlines()] == ranker.predict(rows).tolist()
    RankRLS(kernel="precomputed").fit(data.X @ data.X.T, data.y, data.qid).save(tmp_path / "ranker")
    result = run("letor", "rank", files / "vali.txt", "--model", tmp_path / "ranker")
    assert result.exit_code == 1
    assert "ranks by a precomputed kernel matrix" in result.output


def test_features_that_training_never_saw_are_left_out_and_told_of(files, model):
    result = run("letor", "rank", files / "wide.txt", "--model", model)
    assert result.exit_code == 0, result.output
    assert "features up to 12, training up to 10: the others are left out" in result.stderr
    assert [float(line) for line in result.stdout.splitlines()] == tc.load(model).predict(
        read_letor(files / "wide.txt").X[:, :10]
    ).tolist()


# -- eval -------------------------------------------------------------------------------------------------------------


def test_eval_measures_as_measure_rows_does(files, model):
    data = read_letor(files / "test.txt")
    scores = tc.load(model).predict(data.X)
    result = run("letor", "eval", files / "test.txt", "--model", model)
    assert result.exit_code == 0, result.output
    names = [f"nDCG(dcg='exp-log2')@{k}" for k in (1, 3, 5, 10)] + ["AP"]
    assert table_of(result) == expected_table(measure_rows(data.y, scores, data.qid, names))
    result = run("letor", "eval", files / "test.txt", "--model", model, "-m", "AP(rel=2)", "-m", "P@5")
    assert table_of(result) == expected_table(measure_rows(data.y, scores, data.qid, ["AP(rel=2)", "P@5"]))


def table_of(result: Result) -> dict[str, str]:
    """Measure -> mean and interval of the one system shown; cells may take several lines."""
    heading, body = (
        [line.strip(edge).split(edge)[1:] for line in result.stdout.splitlines() if line.startswith(edge)]
        for edge in ("┃", "│")
    )
    names, cells = (
        ["".join(part.strip() for part in column).replace(" ", "") for column in zip(*rows, strict=True)]
        for rows in (heading, body)
    )
    return dict(zip(names, cells, strict=True))


def expected_table(evaluation: Evaluation) -> dict[str, str]:
    return {
        str(m): shown_interval(evaluation.mean(m), *evaluation.interval(m), digits=4).replace(" ", "")
        for m in evaluation.measures
    }


# -- what does not fit ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def beir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "beir"
    docs = {"a": "cats purr", "b": "dogs bark", "c": "fish swim"}
    queries = {str(i): text for i, text in enumerate(["purr", "bark", "swim"] * 4)}
    write_beir(folder, docs, queries, {"train": {q: {"abc"[int(q) % 3]: 1} for q in queries}})
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["letor", "fit", "{train}", "--vocabulary", "m"], "No such option"),
        (["letor", "fit", "{train}", "--validation", "dev"], "File 'dev' does not exist"),
        (["letor", "fit", "{train}", "--ranker", "magic"], "Invalid value for '--ranker'"),
        (["letor", "rank", "{train}"], "Missing option '--model'"),
        (["letor", "rank", "{train}", "--model", "{model}", "--split", "x"], "No such option"),
        (["letor", "eval", "{train}"], "Missing option '--model'"),
        (["letor", "frobnicate"], "No such command"),
        (["fit", "{beir}"], "Missing option '-o'"),
        (["fit", "{beir}", "-o", "{out}", "--folds", "3"], "No such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage(arguments, message, files, beir, model, tmp_path):
    positions = {"train": files / "train.txt", "vali": files / "vali.txt", "beir": beir, "model": model}
    result = run(*(a.format(**positions, out=tmp_path / "out") for a in arguments))
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_failures_are_one_line_that_says_what_is_wrong(files, beir, model, tmp_path):
    (tmp_path / "broken.txt").write_text("1 qid:1 1:0.5\n0 qid:1 0:2\n")
    (tmp_path / "flat.txt").write_text("1 qid:1 1:0.5\n1 qid:1 1:2\n")
    (tmp_path / "plain.txt").write_text("1 1:0.5\n0 1:2\n")
    (tmp_path / "names.txt").write_text("a\na\n")
    text_model = tmp_path / "texts"
    words = Vectorizer().fit(["cats purr"])
    TextModel(words, words, Weights([Identity(n_terms=2)])).save(text_model)
    for arguments, message in (
        (("letor", "fit", tmp_path / "broken.txt"), "broken.txt:2: feature id 0; ids start at 1"),
        (("letor", "fit", tmp_path / "flat.txt"), "nothing to learn from"),
        (("letor", "fit", tmp_path / "plain.txt"), "plain.txt:1: '1:0.5' where the qid should be"),
        (("letor", "fit", files / "train.txt", "--test", tmp_path / "broken.txt"), "broken.txt:2: "),
        (("letor", "fit", files / "train.txt", "--names", tmp_path / "names.txt"), "names.txt:2: name 'a' again"),
        (("letor", "fit", files / "train.txt", "-o", files / "vali.txt"), "nothing was written"),
        (("fit", files / "train.txt", "-o", tmp_path / "m"), "feature vectors have verbs of their own: tercet letor"),
        (("letor", "rank", files / "test.txt", "--model", text_model), "a model that was fitted to one"),
        (("eval", beir, "--model", model, "--split", "train"), "a text model is needed here"),
        (("letor", "eval", files / "test.txt", "--model", text_model), "a model that was fitted to one"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1, (arguments, result.output)
        assert message in result.output, result.output
        assert result.output.splitlines()[-1].startswith("error: ")
    assert not (tmp_path / "m").exists(), "something was written"


def test_a_model_of_a_ranker_without_weights_prints_none(capsys):
    class Other:
        n_features_in_ = 3

    print_features(FeatureModel(Other()))
    assert capsys.readouterr().out == ""


def test_a_feature_model_has_a_report_page_too(files, tmp_path):
    names = tmp_path / "names"
    names.write_text("".join(f"<b>{j}\n" for j in range(10)))
    done = run(
        "letor", "fit", files / "train.txt", "--validation", files / "vali.txt", "-o", tmp_path / "m", "--names", names
    )
    assert done.exit_code == 0, done.output
    assert "with report.html" in done.output
    page = (tmp_path / "m" / "report.html").read_text()
    model = tc.load(tmp_path / "m")
    assert model.report.verdict in page
    assert "What sparsity costs" in page
    assert "Features with a weight" in page
    assert "<b>" not in page
    assert all(f"{point.l1:.5g}" in page for point in model.report.features.path)
    again = run("report", tmp_path / "m", "-o", tmp_path / "again.html")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again.html").read_text() == page
    assert str(model.report) in run("report", tmp_path / "m").output
    assert '"verdict"' in run("report", tmp_path / "m", "--json").output
