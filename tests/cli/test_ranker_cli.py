"""``tercet fit --ranker``: what is learned, by name, with its parameters, from the shell to the index."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from support.commands import ok, run
from support.corpora import synonyms
from tercet.data import LetorData, read_letor, write_beir, write_letor
from tercet.fitting.rankers import NAMED_RANKERS, NameWithParameters

SMALL = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "pairs"
    write_beir(folder, SMALL.docs, SMALL.queries, {"train": SMALL.qrels})
    return folder


def fit(data, output, *options):
    ok("fit", data, *options, "--steps", 2000, "-o", output)
    return tc.load(output)


@pytest.mark.slow
def test_text_to_sparse_w_to_index_to_query(data, tmp_path):
    model = fit(data, tmp_path / "model", "--ranker", "sparse:density=.05,refit_rate=.5")
    output = model.report.chosen
    assert (output["ranker"], output["density"], output["refit_rate"], output["steps"]) == ("sparse", 0.05, 0.5, 2000)
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert all(fact in page for fact in ("density", "bytes of weights", "Sparse"))
    ok("index", data, "--model", tmp_path / "model", "-o", tmp_path / "index")
    assert "say03" in ok("search", tmp_path / "index", "ask03", "--why")
    ok("export", "query", "ask03", "--model", tmp_path / "model", "-o", tmp_path / "query.txt")
    assert (tmp_path / "query.txt").read_text().startswith("text:(")


@pytest.mark.slow
def test_parameters_reach_the_ranker(data, tmp_path):
    model = fit(
        data,
        tmp_path / "model",
        *("--ranker", "sparse:l1=2e-5,shrink-every=7,refit=false,rate=.5,epochs=2,refit_start=identity"),
    )
    output = {name: model.report.chosen[name] for name in ("l1", "shrink_every", "refit", "rate", "epochs")}
    assert output == {"l1": 2e-5, "shrink_every": 7, "refit": False, "rate": 0.5, "epochs": 2}
    assert model.report.chosen["refit_start"] == "identity"


@pytest.mark.slow
def test_the_best_of_several_is_taken(data, tmp_path):
    model = fit(data, tmp_path / "model", "--ranker", "cosine", "--ranker", "low-rank:n_components=3")
    output = model.report.chosen
    assert (output["ranker"], output["n_components"]) == ("low-rank", 3)


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        ("rm3", "ranker is 'rm3'"),
        ("low-rank:density=.05", "low-rank has no parameter 'density'; its parameters: diagonal, "),
        ("sparse:density=2", "The 'density' parameter of SparseRanker must be"),
        ("sparse:glory=3", "sparse has no parameter 'glory'; its parameters: density, "),
        ("sparse:l1", "'l1' has no value; write KEY=VALUE, as in sparse:l1=1"),
        ("sparse:l1=1,l1=2", "sparse has 'l1' twice"),
        ("sparse:l1=much", "The 'l1' parameter of SparseRanker must be"),
        ("cosine:rate=3", "cosine has no parameter 'rate'; it has none"),
    ],
)
def test_what_does_not_apply_is_refused_before_anything_is_read(ranker, message, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("fit", tmp_path / "empty", "--ranker", ranker, "-o", tmp_path / "model")
    assert result.exit_code == 2
    assert message in result.output
    assert "Example: --ranker sparse:density=.05,l1=1e-6" in result.output


def test_help_names_every_ranker():
    shown = " ".join(ok("fit", "--help").split())
    assert all(name in shown.replace("low- rank", "low-rank") for name in NAMED_RANKERS)


@pytest.mark.slow
def test_values_are_typed(data, tmp_path):
    model = fit(data, tmp_path / "model", "--ranker", "hashed:identity=none,n_buckets=512")
    assert model.report.chosen["identity"] is None
    assert model.weights.parts[0].table.size == 512
    assert np.isfinite(model.weights.parts[0].table).all()


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((240, 4)).round(3)
    y, qid = (X[:, 0] + X[:, 2] > 1).astype(int), np.arange(240) // 8
    write_letor(tmp_path / "train.txt", LetorData(X, y, qid.astype(str)))
    return tmp_path / "train.txt"


@pytest.mark.parametrize(
    ("spec", "ranker"),
    [
        (
            "ftrl:batch_size=5,rate=.5,rho=2,epochs=3,l1=.1",
            tc.FTRLRanker(batch_size=5, rate=0.5, rho=2.0, epochs=3, l1=0.1),
        ),
        (
            "rankrls:kernel=gaussian,gamma=.5,n_basis=20,l2=2",
            tc.RankRLS(kernel="gaussian", gamma=0.5, n_basis=20, l2=2.0),
        ),
    ],
    ids=["MinBatSRank", "sparse RankRLS"],
)
def test_letor_fit_learns_the_same_coefficients_as_python(spec, ranker, rows, tmp_path):
    ok("letor", "fit", rows, "--ranker", spec, "-o", tmp_path / "model")
    learned = tc.load(tmp_path / "model").ranker
    data = read_letor(rows)
    ranker.fit(data.X, data.y, qid=data.qid)
    assert learned.get_params() == ranker.get_params()
    name = "coef_" if hasattr(ranker, "coef_") else "dual_coef_"
    np.testing.assert_array_equal(getattr(learned, name), getattr(ranker, name))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ftrl:gamma=.5", "ftrl has no parameter 'gamma'; its parameters: batch_size, epochs, "),
        ("ftrl:rate=-1", "The 'rate' parameter of FTRLRanker must be"),
        ("magic", "there is no ranker 'magic'; expected one of ftrl, "),
    ],
)
def test_letor_fit_says_which_parameters_there_are(spec, message, rows):
    result = run("letor", "fit", rows, "--ranker", spec)
    assert result.exit_code == 2
    assert message in result.output
    assert "Example: --ranker ftrl:batch_size=100" in result.output


@pytest.mark.slow
def test_fit_learns_the_same_weights_as_python(data, tmp_path):
    model = fit(data, tmp_path / "model", "--ranker", "sparse:rate=.5,l1=1e-5")
    same = tc.fit(
        SMALL.docs,
        SMALL.queries,
        SMALL.qrels,
        ranker=[NameWithParameters("sparse", {"rate": 0.5, "l1": 1e-5})],
        options={"n_steps": 2000, "verbose": False},
    )
    assert (model.weights.sparse != same.weights.sparse).nnz == 0
