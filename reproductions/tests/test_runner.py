"""The runner: cached results, needs between jobs, several processes, and runs that are killed or interrupted."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from parent_process import start_child_and_wait
from reproducing import PLANS, run_quietly

import reproductions.runner
import reproductions.term_jobs
from reproductions.plan import Plan
from reproductions.plan_reading import read_plan
from reproductions.runner import Job, needs, plan_jobs
from tercet.errors import DivergedError, InputError

pytestmark = pytest.mark.slow
N_JOBS = 2 + 2 + 2 + 1 + 2 + 2 + 2 + 1 + 1  # tfidf, chosen, follows, lsi, mix, mixed-again, ours, slow, a curve


@pytest.fixture(scope="module")
def plan() -> Plan:
    return read_plan(PLANS / "jobs.toml")


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


# -- jobs -----------------------------------------------------------------------------------------------------------


def test_first_seeds_come_first_and_slow_methods_last(plan):
    jobs = plan_jobs(plan, {"wiki": 1, "short": 1})
    assert len(jobs) == N_JOBS
    seeds = [job.seed for job in jobs]
    assert seeds == sorted(seeds)
    first = [job.method for job in jobs if job.seed == 0]
    assert first[-1] == "slow"
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
    chosen = results.fits["wiki", "chosen", 0][0]["facts"]["chosen"]
    assert chosen["rate"] > 1e-6
    assert [path for path in (output / "cache").iterdir() if path.is_dir()] == []  # weights of components


def test_a_job_that_fails_takes_those_with_it_that_need_it(linked_home, plan, tmp_path, monkeypatch):
    def diverge(*_: object, **__: object) -> None:
        raise DivergedError("too large a rate")

    monkeypatch.setattr(reproductions.term_jobs._Lesson, "choose", diverge)
    results, _ = run_quietly(plan, linked_home, tmp_path)
    assert results.failed[0] == "Wiki, Chosen, seed 0: too large a rate"
    assert all("left out, since Wiki," in line for line in results.failed[1:])
    assert {method for _, method, _ in results.fits} == {"tfidf", "lsi", "ours", "slow"}


# -- the cache ------------------------------------------------------------------------------------------------------


def test_nothing_is_done_twice(serial, linked_home, plan, monkeypatch):
    output, first, _ = serial
    monkeypatch.setattr(reproductions.term_jobs, "make_ranker", lambda *_: pytest.fail("a cached job was done again"))
    results, lines = run_quietly(plan, linked_home, output)
    assert sum(line.endswith(": cached") for line in lines) == N_JOBS
    assert results.fits == first.fits
    assert results.curves == first.curves


def test_titles_do_not_count_and_parameters_do(serial, linked_home, plan, tmp_path):
    output = tmp_path / "copy"
    shutil.copytree(serial[0], output)
    titled = replace(plan, methods=tuple(replace(method, title="Other", note="!") for method in plan.methods))
    _, lines = run_quietly(titled, linked_home, output, only=("short",))
    assert [line.endswith(": cached") for line in lines].count(True) == 2  # but not those that need another data set
    slow = replace(plan.method("slow"), parameters={"rate": 2.0, "schedule": "constant"})
    changed = replace(plan, methods=tuple(slow if method.key == "slow" else method for method in plan.methods))
    _, lines = run_quietly(changed, linked_home, output, only=("short",))
    done = [line.partition(":")[0].partition(" ")[2] for line in lines if line.endswith(" s")]
    assert done == ["Short, Slow, seed 0"]


def test_other_code_has_other_results(linked_home, plan, tmp_path, monkeypatch):
    run_quietly(plan, linked_home, tmp_path, only=("short",))
    n_cached = len(cached(tmp_path))
    monkeypatch.setattr(reproductions.runner, "source_digest", lambda: "other")
    run_quietly(plan, linked_home, tmp_path, only=("short",))
    assert len(cached(tmp_path)) == 2 * n_cached


@pytest.mark.parametrize("damage", [b"", b'{"settings"', b"{}"])
def test_a_damaged_result_is_made_again(damage, linked_home, plan, tmp_path):
    run_quietly(plan, linked_home, tmp_path, only=("short",))
    [file, *_] = sorted((tmp_path / "cache").iterdir())
    sound = file.read_bytes()
    file.write_bytes(damage)
    run_quietly(plan, linked_home, tmp_path, only=("short",))
    assert json.loads(file.read_bytes())["settings"] == json.loads(sound)["settings"]


def test_an_interrupted_run_continues(serial, linked_home, plan, tmp_path):
    lines: list[str] = []

    def interrupt(line: str) -> None:
        lines.append(line)
        if len(lines) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproductions.runner.reproduce(plan, linked_home, tmp_path, tell=interrupt)
    n_cached = len(list((tmp_path / "cache").glob("*.json")))
    assert n_cached == 5
    _, lines = run_quietly(plan, linked_home, tmp_path)
    assert sum(line.endswith(": cached") for line in lines) == n_cached
    assert cached(tmp_path) == cached(serial[0])


# -- processes ------------------------------------------------------------------------------------------------------


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
    assert n_before <= len(list((tmp_path / "cache").glob("*.json"))) < N_JOBS
    results, lines = run_quietly(plan, linked_home, tmp_path)
    assert sum(line.endswith(": cached") for line in lines) >= n_before
    assert cached(tmp_path) == cached(serial[0])
    assert list(results.fits) == list(serial[1].fits)
    assert list(results.curves) == list(serial[1].curves)


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_processes_end_with_the_one_that_started_them(tmp_path):
    file = tmp_path / "pid"
    parent = multiprocessing.get_context("spawn").Process(target=start_child_and_wait, args=(file,))
    parent.start()
    deadline = time.monotonic() + 300
    while not (file.exists() and file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    child = int(file.read_text())
    assert _runs(child)
    parent.kill()  # nothing of it can tell the child
    parent.join()
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(child)
