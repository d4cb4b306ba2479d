"""Whole runs of small plans: results, pages, the cache, several processes, stops, a GPU and missing data."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import re
import signal
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reproducing import PLANS, results_in, run, run_quietly

import reproductions.runner
import reproductions.term_jobs
from reproductions.folds import QueryRows
from reproductions.plan import Plan, find_plan
from reproductions.runner import Job, needs, plan_jobs
from support.host_gpu import COMPILER, HostGpu
from tercet.data import LetorData, write_letor
from tercet.errors import DeviceError, InputError

pytestmark = pytest.mark.slow
N_JOBS = 2 + 2 + 2 + 1 + 2 + 2 + 2 + 1 + 1  # tfidf, chosen, follows, lsi, mix, mixed-again, ours, slow, a curve


@pytest.fixture(scope="module")
def plan() -> Plan:
    return find_plan(str(PLANS / "jobs.toml"))


@pytest.fixture(scope="module")
def serial(linked_home, plan, tmp_path_factory):
    output = tmp_path_factory.mktemp("serial")
    return output, *run_quietly(plan, linked_home, output)


def cached(output: Path) -> dict[str, object]:
    """The cached results without their times."""

    def timeless(value: object) -> object:
        if isinstance(value, dict):
            return {name: timeless(own) for name, own in value.items() if "seconds" not in name and name != "took"}
        return [timeless(own) for own in value] if isinstance(value, list) else value

    return {path.name: timeless(json.loads(path.read_text())) for path in sorted((output / "cache").glob("*.json"))}


# -- queries with links -----------------------------------------------------------------------------------------------


def test_slow_methods_come_first_then_first_seeds(plan):
    jobs = plan_jobs(plan, {"wiki": 1, "short": 1})
    assert len(jobs) == N_JOBS
    assert jobs[0].method == "slow"
    seeds = [job.seed for job in jobs]
    assert seeds == sorted(seeds)
    assert Job("wiki", "chosen", curves="walk") in jobs


def test_jobs_need_what_they_use(plan):
    assert needs(plan, Job("wiki", "chosen")) == []
    assert needs(plan, Job("wiki", "chosen", 1)) == [Job("wiki", "chosen")]
    assert needs(plan, Job("wiki", "chosen", curves="walk")) == [Job("wiki", "chosen")]
    assert needs(plan, Job("short", "follows", 1)) == [Job("wiki", "chosen")]
    assert needs(plan, Job("wiki", "mix")) == [Job("wiki", "chosen"), Job("wiki", "lsi")]
    assert needs(plan, Job("wiki", "mix", 1)) == [Job("wiki", "chosen", 1)]  # LSI has one seed, and is fitted for it


def test_a_run_has_a_result_of_every_job(serial):
    output, results, lines = serial
    assert results.failed == []
    assert len(lines) == len(cached(output)) == N_JOBS
    assert len(results.fits) == N_JOBS - 1
    assert results.fits["wiki", "chosen", 0][0]["facts"]["chosen"]["rate"] > 1e-6


def test_nothing_is_done_twice(serial, linked_home, plan, monkeypatch):
    output, first, _ = serial
    monkeypatch.setattr(reproductions.term_jobs, "make_ranker", lambda *_: pytest.fail("a cached job was done again"))
    titled = replace(plan, methods=tuple(replace(method, title="Other", note="!") for method in plan.methods))
    results, lines = run_quietly(titled, linked_home, output)
    assert sum(line.endswith(": cached") for line in lines) == N_JOBS
    assert (results.fits, results.curves) == (first.fits, first.curves)


def test_other_parameters_are_learned_and_a_job_that_fails_takes_those_with_it_that_need_it(
    serial, linked_home, plan, tmp_path
):
    (tmp_path / "cache").mkdir()
    for file in (serial[0] / "cache").glob("*.json"):
        (tmp_path / "cache" / file.name).write_bytes(file.read_bytes())
    chosen = replace(plan.method("chosen"), choose={"rate": (1e12,)})
    changed = replace(plan, methods=tuple(chosen if one.key == "chosen" else one for one in plan.methods))
    results, lines = run_quietly(changed, linked_home, tmp_path)
    assert results.failed[0].startswith("Wiki, Chosen, seed 0: ")
    assert all("left out, since Wiki," in line for line in results.failed[1:])
    assert {method for _, method, _ in results.fits} == {"tfidf", "lsi", "ours", "slow"}
    assert not any(re.search(r" \d+ s$", line) for line in lines)


def test_a_stopped_run_goes_on(serial, linked_home, plan, tmp_path):
    lines: list[str] = []

    def interrupt(line: str) -> None:
        lines.append(line)
        if len(lines) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproductions.runner.reproduce(plan, linked_home, tmp_path, tell=interrupt)
    n_cached = len(cached(tmp_path))
    assert n_cached == 5
    _, lines = run_quietly(plan, linked_home, tmp_path)
    assert sum(line.endswith(": cached") for line in lines) == n_cached
    assert cached(tmp_path) == cached(serial[0])


def test_two_processes_give_the_bits_of_one_and_a_killed_process_ends_the_run(serial, linked_home, plan, tmp_path):
    """The parent kills one of its children before the last results; the next run continues."""
    n_lines, n_before = 0, N_JOBS - 3

    def kill_one(line: str) -> None:
        nonlocal n_lines
        n_lines += 1
        if n_lines == n_before:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    with pytest.raises(InputError, match="with fewer --jobs"):
        reproductions.runner.reproduce(plan, linked_home, tmp_path, tell=kill_one, jobs=2)
    assert n_before <= len(cached(tmp_path)) < N_JOBS
    results, lines = run_quietly(plan, linked_home, tmp_path)
    assert sum(line.endswith(": cached") for line in lines) >= n_before
    assert cached(tmp_path) == cached(serial[0])
    assert list(results.fits) == list(serial[1].fits)


# -- rows with classes ------------------------------------------------------------------------------------------------

CLASSES = PLANS / "classes.toml"


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


@pytest.fixture(scope="module")
def classes(home, tmp_path_factory):
    output = tmp_path_factory.mktemp("classes") / "tiny"
    result = run(CLASSES, "--data-home", home, "-o", output)
    assert result.exit_code == 0, result.output
    return output, result


def test_numbers_stand_beside_the_paper(classes):
    found = results_in(classes[0])
    main = {(record["model"], record["measure"]): record for record in found["tables"]["main"]}
    assert main["Sparse-R", "map"]["verdict"] == "better"
    assert main["Sparse", "map"]["verdict"] == ""
    assert main["Dense", "map"]["learned_from"] == "300 preferences"
    assert main["Dense", "map"]["ours"] > main["Identity", "map"]["ours"]
    assert main["Sparse", "density"]["ours"] == pytest.approx(0.3, rel=0.2)
    assert main["Identity", "memory"]["ours"] == pytest.approx((24 * 40 + 8) / 2**20, rel=0.5)
    own = {(record["model"], record["measure"]): record["ours"] for record in found["tables"]["own"]}
    assert own["Thin", "density"] == pytest.approx(0.2, abs=0.001)
    assert {(r["dataset"], r["fact"]): r["verdict"] for r in found["tables"]["statistics"]} == {
        ("news", "training samples"): "same",
        ("news", "classes"): "differs",
        ("digits", "testing samples"): "same",
    }
    assert [record["verdict"] for record in found["tables"]["elsewhere"]] == ["not compared"]
    assert {record["word"]: record["shared"] for record in found["tables"]["related"]}["absent"] == 0
    # The curve's last point is the fit itself.
    walk = [row for row in found["figures"]["walk-news"] if row["model"] == "Dense" and not row.get("printed")]
    assert walk[-1]["step"] == 300


def test_the_page_has_every_row_and_needs_nothing_else(classes):
    page = (classes[0] / "index.html").read_text()
    assert not re.search(r"https?:|//|@import|<link|<script", re.sub(r"base64,[^\"]*", "", page))
    for text in ("A Tiny &lt;Paper&gt;", "a note &amp; more", "Sparse-R", "w0x0", "learning helps"):
        assert text in page
    assert "paper 0.990\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.009, " in page


def test_without_matplotlib_only_the_pictures_are_missing(classes, home, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (tmp_path / "cache").symlink_to(classes[0] / "cache")
    result = run(CLASSES, "--data-home", home, "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert not list(tmp_path.glob("*.png"))
    assert "Not drawn" in (tmp_path / "index.html").read_text()


def test_a_quick_run_compares_nothing(home, tmp_path):
    result = run(CLASSES, "--data-home", home, "-o", tmp_path, "--quick")
    assert result.exit_code == 0, result.output
    found = results_in(tmp_path)
    assert found["overview"]["quick"]
    assert {record["verdict"] for record in found["tables"]["main"]} <= {"", "not compared"}
    assert "its numbers mean little" in (tmp_path / "index.html").read_text()


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
def test_word_pairs_are_learned_on_a_gpu_into_results_of_its_own(classes, home, tmp_path, monkeypatch):
    gpu = HostGpu()
    monkeypatch.setattr("tercet.gpu.find_gpu", lambda: gpu)
    result = run(CLASSES, "--data-home", home, "-o", tmp_path, "--device", "cuda")
    assert result.exit_code == 0, result.output
    assert {"pairs_advance", "lowrank_advance"} <= set(gpu.launched)
    assert not cached(classes[0]).keys() & cached(tmp_path).keys()
    assert "learned on host" in (tmp_path / "index.html").read_text()
    tables = (results_in(folder)["tables"]["main"] for folder in (classes[0], tmp_path))
    for one, other in zip(*tables, strict=True):  # the same preferences, one after the other
        if one["measure"] == "map":
            assert other["ours"] == pytest.approx(one["ours"], abs=1e-4)


def test_without_a_gpu_nothing_is_begun(home, tmp_path, monkeypatch):
    def find_none():
        raise DeviceError("this machine has no GPU")

    monkeypatch.setattr("tercet.gpu.find_gpu", find_none)
    result = run(CLASSES, "--data-home", home, "-o", tmp_path / "out", "--device", "cuda")
    assert result.exit_code == 1
    assert "this machine has no GPU" in result.output
    assert not (tmp_path / "out").exists()


def test_missing_data_is_skipped_and_named(home, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mnist").symlink_to(home / "mnist")
    result = run(CLASSES, "--data-home", tmp_path / "home", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "News is skipped: looked for" in result.output
    page = (tmp_path / "out/index.html").read_text()
    assert "News is not here: looked for 20news-bydate.tar.gz: not there" in page
    assert str(tmp_path) not in page
    (tmp_path / "home" / "mnist").unlink()
    result = run(CLASSES, "--data-home", tmp_path / "home", "-o", tmp_path / "other")
    assert result.exit_code == 1
    assert "none of the data sets is below" in result.output


def test_the_index_names_every_paper(tmp_path):
    result = run("index", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "index.html").read_text()
    for key in ("chen2010", "ssi", "minbatsrank", "rankrls"):
        assert f"python -m reproductions {key}" in page
    assert "no paper 'chen1910'; known: chen2010" in run("chen1910").output


# -- rows of LETOR ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    home = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    parts = []
    for at in range(3):
        X = rng.random((40, 7)).round(3)
        y = np.digitize(X[:, 0] + 0.3 * X[:, 1] + 0.3 * rng.random(40), (0.9, 1.2))
        parts.append(QueryRows(X, y, np.repeat([f"q{query}" for query in range(4 * at, 4 * at + 4)], 10)))
    for fold in range(3):
        (home / "here" / f"Fold{fold + 1}").mkdir(parents=True)
        for at, name in enumerate(("train", "vali", "test")):
            part = parts[(fold + at) % 3]
            write_letor(home / "here" / f"Fold{fold + 1}" / f"{name}.txt", LetorData(part.X, part.y, part.qid))
    (home / "elsewhere").mkdir()  # a place without folds is passed over
    output = tmp_path_factory.mktemp("out") / "tiny"
    result = run(PLANS / "features.toml", "--data-home", home, "-o", output)
    assert result.exit_code == 0, result.output
    return output, home


def test_rows_and_orderings_of_folds(features):
    tables = results_in(features[0])["tables"]
    first = tables["accuracy"][0]
    assert (first["paper"], first["verdict"], first["learned_from"]) == (0.1234, "better", "6 settings")
    assert [record["verdict"] for record in tables["statistics"]] == ["same", "same", "not run"]
    by_query, by_fold = tables["orderings"]
    assert "fold" in by_fold["verdict"]
    assert by_query["kind"] in ("hold", "opposite", "not decided")
    assert len(tables["paired"]) == 2 * 2
    assert all(record["p_holm"] >= record["p"] for record in tables["paired"])
    page = (features[0] / "index.html").read_text()
    assert "Crossed, by cross-validation" in page
    assert "Secret: never published" in page
    assert "looked for away, gone.tar.gz: not there" in page
    assert (features[0] / "figure-1-here.png").read_bytes().startswith(b"\x89PNG")


def test_a_seed_that_lacks_a_fold_is_not_shown(features):
    results, lines = run_quietly(find_plan(str(PLANS / "features.toml")), features[1], features[0])
    assert all(line.endswith(": cached") or "is skipped" in line for line in lines)
    whole_run = results.values("here", "rs", "map")
    results.fits["here", "rs", 1].pop()
    assert results.values("here", "rs", "map") == whole_run[:1]
