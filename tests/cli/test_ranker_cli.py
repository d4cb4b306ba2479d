"""``tercet fit --ranker``: what is learned, by name, with its parameters, from the shell to the picture."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from support.commands import ok, run
from support.corpora import synonyms
from tercet.data import write_beir
from tercet.fitting.rankers import NAMED_RANKERS

SMALL = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "pairs"
    write_beir(folder, SMALL.docs, SMALL.queries, {"train": SMALL.qrels})
    return folder


def fit(data, output, *options):
    ok("fit", data, *options, "--steps", 2000, "--quiet", "-o", output)
    return tc.load(output)


@pytest.mark.slow
def test_text_to_sparse_w_to_index_to_picture(data, tmp_path):
    pytest.importorskip("matplotlib")
    model = fit(data, tmp_path / "model", "--ranker", "sparse", "--density", "0.05", "--set", "refit_rate=0.5")
    told = model.report.chosen
    assert (told["ranker"], told["density"], told["refit_rate"], told["steps"]) == ("sparse", 0.05, 0.5, 2000)
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert all(fact in page for fact in ("density", "bytes of weights", "Sparse"))
    ok("index", data, "--model", tmp_path / "model", "-o", tmp_path / "index")
    assert "say03" in ok("search", tmp_path / "index", "ask03", "--why")
    ok("picture", tmp_path / "model", "-o", tmp_path / "pairs.png")
    assert (tmp_path / "pairs.png").stat().st_size > 1000
    ok("export", "synonyms", "--model", tmp_path / "model", "-o", tmp_path / "synonyms.txt")
    assert (tmp_path / "synonyms.txt").exists()


def test_parameters_reach_the_ranker(data, tmp_path):
    model = fit(
        data,
        tmp_path / "model",
        *("--ranker", "sparse", "--l1", "2e-5", "--shrink-every", "7", "--no-refit", "--rate", "0.5", "--epochs", "2"),
        *("--set", "shrink-towards=identity"),
    )
    told = {name: model.report.chosen[name] for name in ("l1", "shrink_every", "refit", "rate", "epochs")}
    assert told == {"l1": 2e-5, "shrink_every": 7, "refit": False, "rate": 0.5, "epochs": 2}
    assert model.report.chosen["shrink_towards"] == "identity"
    assert model.report.details.learning.curves[0].points[-1][0] == 4000


def test_the_best_of_several_is_taken(data, tmp_path):
    model = fit(data, tmp_path / "model", "--ranker", "cosine", "--ranker", "low-rank", "--set", "n_components=3")
    told = model.report.chosen
    assert (told["ranker"], told["n_components"]) == ("low-rank", 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranker", "rm3"], "ranker is 'rm3'; expected a term-pair ranker, or one of low-rank"),
        (["--density", "0.05"], "low-rank has no parameter 'density' (sparse has one); low-rank has "),
        (["--ranker", "sparse", "--density", "2"], "The 'density' parameter of SparseRanker must be"),
        (["--ranker", "sparse", "--set", "alpha=0.3"], "sparse has no parameter 'alpha' (lsi has one)"),
        (["--ranker", "sparse", "--set", "glory=3"], "sparse has no parameter 'glory'; sparse has "),
        (["--ranker", "sparse", "--set", "l1"], "--set takes NAME=VALUE"),
        (["--ranker", "sparse", "--l1", "1", "--set", "l1=1"], "l1 is given twice"),
        (["--ranker", "sparse", "--set", "l1=much"], "The 'l1' parameter of SparseRanker must be"),
        (["--ranker", "cosine", "--rate", "3"], "cosine has no parameter 'rate'"),
    ],
)
def test_what_does_not_apply_is_refused_before_anything_is_read(options, message, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("fit", tmp_path / "empty", *options, "-o", tmp_path / "model")
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())


def test_help_names_every_ranker():
    shown = " ".join(ok("fit", "--help").split())
    assert all(name in shown.replace("low- rank", "low-rank") for name in NAMED_RANKERS)


def test_values_are_typed(data, tmp_path):
    model = fit(data, tmp_path / "model", "--ranker", "hashed", "--set", "identity=none", "--set", "n_buckets=512")
    assert model.report.chosen["identity"] is None
    assert model.weights.parts[0].table.size == 512
    assert np.isfinite(model.weights.parts[0].table).all()
