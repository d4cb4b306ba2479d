"""Reproductions on rows with classes: files, numbers beside the paper, missing data, printed tables typed again."""

from __future__ import annotations

import gzip
import io
import re
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from reproducing import PLANS, results_in, run
from scipy import sparse

from reproductions.plan_reading import find_plan
from reproductions.rankers import make_ranker
from reproductions.tasks import n_nonzero
from support.host_gpu import COMPILER, HostGpu
from tercet._installed import install_command
from tercet.errors import DeviceError, InputError
from tercet.weights import Identity, Sparse, Weights

pytestmark = pytest.mark.slow  # make test has it, make check has not

# -- a tiny paper over tiny data, in the real formats --------------------------------------------------------------

PLAN_FILE = PLANS / "classes.toml"
PAPER = "chen2010"

N_JOBS = 2 * 3 + 1 + 2 + 2 * 2 + 2  # news: three fits, a rival, two curves; digits: two fits; rows: one


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Four groups with words of their own and shared ones; bars as digits; rows of two classes."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("home")
    with tarfile.open(folder / "20news-bydate.tar.gz", "w:gz") as archive:
        for part, n in (("train", 40), ("test", 24)):
            for i in range(n):
                own = [f"w{i % 4}x{j}" for j in rng.integers(0, 8, 6)]
                post = " ".join([*own, *(f"common{j}" for j in rng.integers(0, 12, 10))]).encode("latin-1")
                member = tarfile.TarInfo(f"20news-bydate-{part}/group{i % 4}/{i}")
                member.size = len(post)
                archive.addfile(member, io.BytesIO(post))
    (folder / "mnist").mkdir()
    for part, n in (("train", 30), ("t10k", 12)):
        labels = np.arange(n) % 3
        images = rng.integers(0, 160, (n, 3, 4))
        images[np.arange(n), labels] += 90
        (folder / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / "mnist" / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    (folder / "rows").mkdir()
    for part in ("train", "test"):
        lines = [f"{i % 2} {i % 2 + 1}:{i + 1} {3 + i % 7}:1" for i in range(14)]
        (folder / "rows" / f"{part}.svm").write_text("\n".join(lines) + "\n")
    return folder


# -- end to end ---------------------------------------------------------------------------------------------------


def test_everything_is_written(whole):
    output, result = whole
    names = {path.name for path in output.iterdir()}
    tables = {"statistics", "main", "own", "elsewhere", "orderings", "related", "walk-news"}
    assert names >= {"results.json", "index.html", "cache"} | {f"{name}.csv" for name in tables}
    assert len(list((output / "cache").iterdir())) == N_JOBS
    assert f"open {output / 'index.html'}" in result.output.replace("\n", "")
    assert len(re.findall(r": \d+ s$", result.output, re.M)) == N_JOBS


def test_results_say_what_was_measured(whole):
    found = results_in(whole[0])
    fits = {(cell["dataset"], cell["method"], cell["seed"]): cell for cell in found["methods"]}
    searched, given = fits["news", "sparse-fit", 0], fits["news", "sparse-fit", 1]
    assert searched["facts"]["l1_"] == given["facts"]["l1_"]
    assert given["facts"]["n_fits_"] == 1
    assert searched["models"]["sparse"]["density"] == pytest.approx(0.3, rel=0.1001)
    assert ("news", "lowrank", 1) not in fits
    assert fits["news", "dense", 0]["models"]["dense"] != fits["news", "dense", 1]["models"]["dense"]
    assert fits["news", "lowrank", 0]["models"]["thin"]["density"] == pytest.approx(0.2, abs=0.001)
    n_words = found["data"]["news"]["statistics"]["dictionary size"]
    assert fits["news", "identity", 0]["models"]["identity"]["memory"] == pytest.approx((24 * n_words + 8) / 2**20)
    learned, start = (fits["news", key, 0]["models"][key]["map"] for key in ("dense", "identity"))
    assert learned > start
    walk = [row for row in found["figures"]["walk-news"] if not row.get("printed")]
    assert {row["model"] for row in walk} == {"Dense", "Sparse", "Sparse-R"}
    # The curve's last point is the fit itself, on fewer test preferences.
    last = [row for row in walk if row["model"] == "Dense"][-1]
    assert last["step"] == 300
    assert last["density"] == fits["news", "dense", 0]["models"]["dense"]["density"]
    ends = {row["model"]: row["density"] for row in walk}
    assert ends["Sparse"] == searched["models"]["sparse"]["density"]
    assert ends["Sparse-R"] == searched["models"]["sparse-r"]["density"]


def test_numbers_stand_beside_the_paper(whole):
    records = results_in(whole[0])["tables"]
    main = {(record["model"], record["measure"]): record for record in records["main"]}
    assert main["Dense", "map"]["place"] == "Table II, Dense, MAP"
    assert main["Dense", "map"]["difference"] == pytest.approx(main["Dense", "map"]["ours"] - 0.99)
    assert main["Dense", "map"]["paper_plus_minus"] == 0.009
    assert [record["params"] for record in records["main"]] == [""] * 4 + ["60²"] * 4 + [""] * 8
    assert "params" not in records["elsewhere"][0]
    assert main["Sparse-R", "map"]["verdict"] == "better"
    assert main["Sparse", "map"]["verdict"] == ""
    assert main["Dense", "map"]["learned_from"] == "300 preferences"
    assert {(r["dataset"], r["fact"]): r["verdict"] for r in records["statistics"]} == {
        ("news", "training samples"): "same",
        ("news", "classes"): "differs",
        ("digits", "testing samples"): "same",
    }
    assert [record["verdict"] for record in records["elsewhere"]] == ["not compared"]
    assert {record["word"]: record["shared"] for record in records["related"]}["absent"] == 0
    assert {(r["dataset"], r["measure"]) for r in records["orderings"]} == {
        (dataset, measure) for dataset in ("news", "digits") for measure in ("map", "error", "density")
    }


def test_the_page_has_every_row_and_needs_nothing_else(whole):
    page = (whole[0] / "index.html").read_text()
    assert not re.search(r"https?:|//|@import|<link|<script", re.sub(r"base64,[^\"]*", "", page))
    for text in ("A Tiny &lt;Paper&gt;", "a note &amp; more", "Sparse-R", "w0x0", "learning helps"):
        assert text in page
    assert "Table II: results" in page  # the place of printed numbers is told once, in the title
    assert "Table II, " not in page
    assert "paper 0.990\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.009, " in page
    assert page.count(">Params<") == 1
    if list(whole[0].glob("*.png")):
        assert page.count("data:image/png;base64,") == 1


def test_without_matplotlib_only_the_pictures_are_missing(whole, home, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (tmp_path / "cache").symlink_to(whole[0] / "cache")
    result = run(PLAN_FILE, "--data-home", home, "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert f"No PNG files: drawing figures needs matplotlib: {install_command('plot')}" in result.output
    assert not list(tmp_path.glob("*.png"))
    assert (tmp_path / "walk-news.csv").read_text() == (whole[0] / "walk-news.csv").read_text()
    assert "Not drawn" in (tmp_path / "index.html").read_text()


def test_a_quick_run_compares_nothing(home, tmp_path):
    result = run(PLAN_FILE, "--data-home", home, "-o", tmp_path, "--quick", "--only", "news")
    assert result.exit_code == 0, result.output
    found = results_in(tmp_path)
    assert found["quick"]
    assert found["data"]["news"]["statistics"]["testing samples"] == 20
    assert {record["verdict"] for record in found["tables"]["main"]} <= {"", "not compared"}
    assert "its numbers mean little" in (tmp_path / "index.html").read_text()
    assert "Table III: rows. " in result.output  # not asked for: a line, no table


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_word_pairs_are_learned_on_a_gpu_into_results_of_its_own(whole, home, tmp_path, monkeypatch):
    gpu = HostGpu()
    monkeypatch.setattr("tercet.gpu.find_gpu", lambda: gpu)
    (tmp_path / "cache").mkdir()
    for file in (whole[0] / "cache").iterdir():
        (tmp_path / "cache" / file.name).write_bytes(file.read_bytes())
    result = run(PLAN_FILE, "--data-home", home, "-o", tmp_path, "--device", "cuda")
    assert result.exit_code == 0, result.output
    assert {"pairs_advance", "lowrank_advance"} <= set(gpu.launched)
    assert len(list((tmp_path / "cache").iterdir())) == 2 * N_JOBS
    here, there = (results_in(folder) for folder in (whole[0], tmp_path))
    assert (here["gpu"], there["gpu"]) == ("", "host")
    assert "learned on host" in (tmp_path / "index.html").read_text()
    for one, other in zip(here["methods"], there["methods"], strict=True):  # the same preferences, one after the other
        for model, means in one["models"].items():
            assert other["models"][model]["map"] == pytest.approx(means["map"], abs=1e-4)
            assert other["models"][model]["error"] == pytest.approx(means["error"], abs=1e-2)


@pytest.fixture
def no_gpu(monkeypatch):
    def find_none():
        raise DeviceError("this machine has no GPU")

    monkeypatch.setattr("tercet.gpu.find_gpu", find_none)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_card_nothing_is_begun(home, tmp_path):
    result = run(PLAN_FILE, "--data-home", home, "-o", tmp_path / "out", "--device", "cuda")
    assert result.exit_code == 1
    assert "this machine has no GPU" in result.output
    assert not (tmp_path / "out").exists()


def test_non_zeros_of_several_parts_are_counted_once():
    off = sparse.csr_array(np.array([[-1.0, 2.0], [0.0, 0.0]], dtype=np.float32))
    assert n_nonzero(Weights([Identity(n_terms=2), Sparse(weights=off)])) == 2
    assert n_nonzero(Weights([Identity(n_terms=2)])) == 2


def test_the_same_seed_gives_the_same_numbers(whole, home, tmp_path):
    result = run(PLAN_FILE, "--data-home", home, "-o", tmp_path, "--only", "digits")
    assert result.exit_code == 0, result.output
    first, second = (
        {
            (cell["method"], cell["seed"], model, name): value
            for cell in results_in(folder)["methods"]
            if cell["dataset"] == "digits"
            for model, values in cell["models"].items()
            for name, value in values.items()
            if not name.endswith("seconds")
        }
        for folder in (whole[0], tmp_path)
    )
    assert second
    assert second.items() <= first.items()


# -- what is missing or wrong -------------------------------------------------------------------------------------


def test_missing_data_is_skipped_and_named(home, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mnist").symlink_to(home / "mnist")
    result = run(PLAN_FILE, "--data-home", tmp_path / "home", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    archive = tmp_path / "home" / "20news-bydate.tar.gz"
    assert f"News is skipped: looked for {archive}: not there" in result.output
    page = (tmp_path / "out/index.html").read_text()
    assert "News is not here: looked for 20news-bydate.tar.gz: not there" in page
    for file in (tmp_path / "out").iterdir():
        assert not file.is_file() or str(tmp_path).encode() not in file.read_bytes(), file.name


def test_no_data_at_all_is_an_error(tmp_path):
    result = run(PLAN_FILE, "--data-home", tmp_path, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert f"Error: none of the data sets is below {tmp_path}: looked for" in result.output
    assert not (tmp_path / "out").exists()


def test_unknown_names(home, tmp_path):
    assert "no paper 'chen1910'; known: chen2010" in run("chen1910", "--data-home", home).output
    result = run(PLAN_FILE, "--data-home", home, "--only", "tv", "-o", tmp_path)
    assert "no data set 'tv' in tiny; known: news, digits, rows" in result.output
    with pytest.raises(InputError, match="no paper"):
        find_plan("nothing.toml")


# -- the paper, typed in a second time ----------------------------------------------------------------------------

TABLE_2 = """
20ng   Identity 0.185 0.323 0.2    | Diagonal 0.190 0.318 0.2   | SGD FLR 0.258 0.197 1294
20ng   SGD DLR  0.399 0.099 943.1  | Sparse   0.360 0.114 154.2 | Sparse-R 0.426 0.090 154.2
rcv1   Identity 0.380 0.230 0.2    | Diagonal 0.390 0.223 0.2   | SGD FLR 0.451 0.087 717.2
rcv1   SGD DLR  0.453 0.046 360.2  | Sparse   0.463 0.036 105.4 | Sparse-R 0.501 0.029 105.4
mnist  Identity 0.453 0.221 0.018  | Diagonal 0.460 0.318 0.018 | SGD FLR 0.610 0.096 6.796
mnist  SGD DLR  0.654 0.082 6.121  | Sparse   0.654 0.083 4.301 | Sparse-R 0.669 0.075 4.301
"""
TABLE_3 = """
clinton: clinton government health people gay
cpu: mac drive scsi card jon
graphics: graphics tiff image color polygon
handgun: gun weapons handgun militia fbi
hockey: hockey game espn colorado team
motorcycle: bike brake turbo rpi cylinder
religions: god religions bible christian jesus
"""


def test_the_printed_numbers_are_those_of_chen_et_al(paper):
    printed = {}
    for line in TABLE_2.strip().splitlines():
        dataset, _, entries = line.partition(" ")
        for entry in entries.split("|"):
            *title, precision, error, memory = entry.split()
            printed[dataset, " ".join(title)] = (float(precision), float(error), float(memory))
    tables = [table for table in paper.tables if table.kind == "paper"]
    assert [(table.position, *table.datasets) for table in tables] == [
        ("Table II (a)", "20ng"),
        ("Table II (b)", "rcv1"),
        ("Table II (c)", "mnist"),
    ]
    assert [key for key, measure in paper.measures.items() if measure.compare] == ["map", "error"]
    assert printed == {
        (*table.datasets, paper.model(row.model).title): tuple(row.printed[name] for name in ("map", "error", "memory"))
        for table in tables
        for row in table.rows
        if row.printed
    }
    assert {name: tuple(facts.values()) for name, facts in paper.statistics[0].printed.items()} == {
        "20ng": (11_314, 7_532, 20, 10_000, 10**8),
        "rcv1": (15_564, 518_571, 53, 10_000, 10**8),
        "mnist": (60_000, 10_000, 10, 784, 614_656),
    }
    lines = (line.split(": ") for line in TABLE_3.strip().splitlines())
    assert paper.words[0].printed == {word: tuple(related.split()) for word, related in lines}


def test_the_settings_are_those_of_chen_et_al(paper):
    methods = {method.key: method for method in paper.methods}
    assert {methods[key].preferences for key in ("diagonal", "flr", "dlr", "sparse-fit")} == {100_000}
    assert methods["flr"].parameters == {"rate": 0.01, "schedule": "constant"}
    assert methods["dlr"].parameters == {"rate": 200.0, "schedule": "inverse-sqrt"}
    assert methods["diagonal"].parameters == methods["flr"].parameters
    sparse = methods["sparse-fit"].parameters_for("20ng")
    start = sparse["refit_start"]
    assert (sparse["rate"], sparse["schedule"], sparse["shrink_every"], start) == (200.0, "inverse-sqrt", 100, "sparse")
    for dataset, memory, n_words in (("20ng", 154.2, 10_000), ("rcv1", 105.4, 10_000), ("mnist", 4.301, 784)):
        printed = (memory * 2**20 - 8 * (n_words + 1)) / 16 / n_words**2
        for key in ("sparse-fit", "sparse-identity-fit"):
            assert methods[key].parameters_for(dataset)["density"] == pytest.approx(printed, abs=0.0005)


def test_a_parameter_may_be_a_ranker(paper):
    [method] = [method for method in paper.methods if method.key == "on-low-rank-fit"]
    first = make_ranker(method.ranker, method.parameters, seed=3).low_rank
    assert (type(first).__name__, first.epochs, first.random_state, first.verbose) == ("LowRankRanker", 5, 3, False)
