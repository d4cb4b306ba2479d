"""Several processes for one plan: the same numbers, an order that is kept, and nothing lost when one of them dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import struct
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from support.linked_corpus import write_linked_corpus
from support.reproducing import Quiet
from tercet.errors import InputError
from tercet.repro import Plan, find_plan, read_plan, reproduce
from tercet.repro.cache import CellSetting, ComponentStore
from tercet.repro.code import files_behind
from tercet.repro.paper_results import PaperResults
from tercet.repro.pieces import CostPiece, CurvePiece, MethodPiece, papers_own, pieces_of, waits_for
from tercet.repro.piecework import Answer, PieceWorker, Request
from tercet.repro.processes import OtherProcesses, _ProcessHand, _serve
from tercet.repro.runner import PlanRun, _Ending
from tercet.weights import Identity, Weights

PLAN = """
seeds = 2
test_preferences = 200

[paper]
key = "tiny"
title = "Links"
authors = "A. Nobody"
venue = "Nowhere 2001"

[measures]
map = { title = "MAP", higher_is_better = true, tolerance = 0.02 }
error = { title = "Rank loss", higher_is_better = false, tolerance = 0.01 }

[datasets.wiki]
title = "Wiki"
reader = "wikispeedia"
files = ["wikispeedia"]

[datasets.short]
title = "Short"
reader = "wikispeedia"
files = ["wikispeedia"]
doc_words = 5

[[methods]]
key = "tfidf"
title = "TFIDF"
ranker = "CosineRanker"
seeds = 1

[[methods]]
key = "chosen"
title = "Chosen"
ranker = "LowRankRanker"
datasets = ["wiki"]
preferences = 9000
parameters = { n_components = 3, diagonal = "none" }
choose = { rate = [1e-6, 0.03, 0.1] }
choose_how = "halving"
early_stop = true

[[methods]]
key = "follows"
title = "Follows"
ranker = "LowRankRanker"
datasets = ["short"]
preferences = 2000
parameters = { n_components = 3, diagonal = "none" }
chosen_by = { method = "chosen", dataset = "wiki" }

[[methods]]
key = "lsi"
title = "LSI"
ranker = "LSIRanker"
datasets = ["wiki"]
parameters = { n_components = 3 }
seeds = 1

[[methods]]
key = "mix"
title = "Mix"
datasets = ["wiki"]
blend = ["chosen", "lsi"]

[[methods]]
key = "mixed-again"
title = "Mixed again"
datasets = ["wiki"]
blend = ["mix", "tfidf"]

[[methods]]
key = "ours"
title = "Ours"
ranker = "LowRankRanker"
datasets = ["wiki"]
preferences = 1000
parameters = { n_components = 2 }

[[methods]]
key = "slow"
title = "Slow"
ranker = "DenseRanker"
datasets = ["short"]
preferences = 300
last = true
seeds = 1
parameters = { rate = 1.0, schedule = "constant" }

[[tables]]
key = "main"
title = "links"
place = "Table 1"
datasets = ["wiki"]
measures = ["map"]
rows = [{ model = "tfidf" }, { model = "mixed-again", printed = { map = 0.3 } }]

[[tables]]
key = "short"
title = "short"
place = "Table 2"
datasets = ["short"]
measures = ["map"]
rows = [{ model = "follows" }, { model = "slow" }]

[[tables]]
key = "beside"
title = "ours"
kind = "ours"
datasets = ["wiki"]
measures = ["map"]
rows = [{ model = "ours" }]

[[curves]]
key = "walk"
title = "training and test"
place = "Figure 2"
datasets = ["wiki"]
methods = ["chosen"]
first = 100
points = 3
test_preferences = 100
beside = "training error"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return write_linked_corpus(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Plan:
    path = tmp_path_factory.mktemp("plan") / "tiny.toml"
    path.write_text(PLAN)
    return read_plan(path)


@pytest.fixture(scope="module")
def alone(home, plan, tmp_path_factory) -> tuple[Path, Quiet]:
    output, said = tmp_path_factory.mktemp("alone"), Quiet()
    reproduce(plan, home, output, listener=said)
    return output, said


def cells(output: Path) -> dict[str, object]:
    """The cells but for what they took, in seconds."""

    def timeless(value: object) -> object:
        if isinstance(value, dict):
            return {name: timeless(own) for name, own in value.items() if "seconds" not in name and name != "took"}
        return [timeless(own) for own in value] if isinstance(value, list) else value

    return {path.name: timeless(json.loads(path.read_text())) for path in sorted((output / "cells").iterdir())}


# -- several processes ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_give_the_bits_of_one(alone, home, plan, tmp_path):
    said = Quiet()
    results = reproduce(plan, home, tmp_path, listener=said, jobs=2)
    assert cells(tmp_path) == cells(alone[0])
    assert sorted(line.split(":")[0] for line in said.lines) == sorted(line.split(":")[0] for line in alone[1].lines)
    assert results.jobs == 2
    assert results.seconds > 0
    again = reproduce(plan, home, alone[0], listener=Quiet())
    assert list(again.cells) == list(results.cells)
    assert list(again.curves) == list(results.curves)
    assert again.tested.keys() == results.tested.keys()
    for key, queries in again.tested.items():
        np.testing.assert_array_equal(queries, results.tested[key])
    assert {cell["took"]["jobs"] for runs in results.cells.values() for cell in runs} == {2}
    assert not (tmp_path / "components").exists()


@pytest.mark.slow
def test_a_process_that_is_killed_loses_its_piece_and_nothing_else(alone, home, plan, tmp_path, monkeypatch):
    said = Quiet()
    killed: list[int] = []
    begin = OtherProcesses.begin

    def begin_and_kill(self, hand, request) -> None:
        begin(self, hand, request)
        if not killed and isinstance(request.piece, MethodPiece) and request.piece.method == "chosen":
            killed.append(hand.process.pid)
            os.kill(hand.process.pid, signal.SIGKILL)

    monkeypatch.setattr(OtherProcesses, "begin", begin_and_kill)
    results = reproduce(plan, home, tmp_path, listener=said, jobs=2)
    assert killed
    [first, *others] = results.failed
    assert first.startswith("Wiki, Chosen, seed 0: its process ended before it was done (killed by signal 9")
    assert all("left out, since Chosen on Wiki failed" in line or "since Mix" in line for line in others)
    finished = {method for _, method, _ in results.cells}
    assert finished == {"tfidf", "lsi", "ours", "slow"}
    assert len(list((tmp_path / "cells").iterdir())) == sum(map(len, results.cells.values()))
    again = reproduce(plan, home, tmp_path, listener=Quiet())  # goes on where it was
    assert again.failed == []
    assert cells(tmp_path) == cells(alone[0])


@pytest.mark.parametrize(
    "request_", [Request("wiki"), Request("wiki", MethodPiece("wiki", "lsi", 0))], ids=["data", "piece"]
)
def test_a_process_that_dies_in_the_middle_of_its_answer_is_named(request_, monkeypatch):
    ours, theirs = multiprocessing.Pipe()
    os.write(theirs.fileno(), struct.pack("!i", 100) + b"cut")  # 3 of 100 bytes
    theirs.close()
    died = SimpleNamespace(join=lambda seconds: None, exitcode=-signal.SIGKILL)
    hand = _ProcessHand(request=request_, process=died, pipe=ours)
    force = OtherProcesses.__new__(OtherProcesses)
    force.hands = [hand]
    started = []
    monkeypatch.setattr(force, "_start", started.append, raising=False)
    request, answer = force.next()
    assert request is request_
    assert answer.failed.endswith("ended before it was done (killed by signal 9, as it is when memory runs out)")
    assert answer.failed.startswith("its process" if request_.piece else "the process that read wiki")
    assert started == [hand]


@pytest.mark.parametrize("budget", [None, 60.0])
def test_what_waits_for_a_failure_has_failed_and_what_waits_for_a_cut_is_left_out(plan, budget):
    first, second = (MethodPiece("wiki", "chosen", seed) for seed in (0, 1))
    for ending, failed, cut in (
        (_Ending(failed="diverged"), "Wiki, Chosen, seed 1: left out, since Chosen on Wiki failed or has not run", ""),
        (_Ending(cut="left out"), "", "Wiki, Chosen, seed 1: left out"),
    ):
        results = PaperResults(plan, False, "0", budget=budget, data={"wiki": {}})
        run = PlanRun(results, [first, second], None, None, Quiet(), {first: ending})
        assert not run._may_begin(second)
        assert (run.endings[second].failed, run.endings[second].cut) == (failed, cut)


@pytest.mark.parametrize(
    ("method", "texts", "words", "large"),
    [
        ("dense", 4_600, 30_000, False),  # 30,000² pairs of words would be
        ("dense", 9_000, 2_000, True),
        ("pruned-1000", 4_600, 30_000, True),
        ("pruned-10", 4_600, 20_000, False),
        ("uv", 4_600, 30_000, False),
    ],
)
def test_a_w_kept_by_texts_is_as_large_as_texts_make_it(method, texts, words, large):
    plan = find_plan("ssi")
    results = PaperResults(plan, False, "0")
    sizes = {"documents": texts, "query texts": texts, "words of queries": words, "words of documents": words}
    results.data["wiki"] = {"statistics": sizes}
    piece = MethodPiece("wiki", method, 0)
    run = PlanRun(results, [piece], None, None, Quiet())
    assert run._is_large(piece) is large
    whole = replace(plan.method(method), parameters={})
    run.plan = replace(plan, methods=tuple(whole if one.key == method else one for one in plan.methods))
    assert run._is_large(piece) is (whole.ranker != "LowRankRanker" and 4 * words**2 > 10**9)


def test_a_cost_study_whose_package_is_missing_has_failed():
    cost = CostPiece(0)
    run = PlanRun(PaperResults(find_plan("rankrls"), False, "0"), [cost], None, None, Quiet())
    run._end(cost, Answer(unavailable=("needs LightGBM", "needs LightGBM: pip install '.[bench]'")))
    assert run.endings[cost].failed.endswith(": needs LightGBM: pip install '.[bench]'")


@pytest.mark.slow
def test_an_interrupted_run_ends_its_processes_and_keeps_what_is_done(home, plan, tmp_path, monkeypatch):
    forces: list[OtherProcesses] = []
    start = OtherProcesses.__init__
    monkeypatch.setattr(OtherProcesses, "__init__", lambda self, *given: (forces.append(self), start(self, *given))[1])

    class Interrupts(Quiet):
        def done(self, text: str) -> None:
            super().done(text)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(plan, home, tmp_path, listener=Interrupts(), jobs=2)
    assert all(not hand.process.is_alive() for hand in forces[0].hands)
    assert list((tmp_path / "cells").iterdir())


class Busy:
    """Is at a request for a long time, and says who it is before."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def do(self, request: Request) -> None:
        self.file.write_text(str(os.getpid()))
        time.sleep(120)


def _start_and_wait(file: Path) -> None:
    pipe, theirs = multiprocessing.get_context("spawn").Pipe()
    multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, Busy(file))).start()
    pipe.send((Request("wiki"), False))
    time.sleep(120)


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_processes_end_with_the_one_that_started_them(tmp_path):
    file = tmp_path / "pid"
    parent = multiprocessing.get_context("spawn").Process(target=_start_and_wait, args=(file,))
    parent.start()
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    child = int(file.read_text())
    assert _runs(child)
    parent.kill()  # nothing of it can tell the child
    parent.join()
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(child)


@pytest.mark.slow
def test_a_budget_goes_for_all_processes(home, plan, tmp_path):
    results = reproduce(plan, home, tmp_path, listener=Quiet(), jobs=2, budget=1e-6)
    assert not results.cells
    assert "Wiki, TFIDF, seed 0: left out" in results.cut
    assert results.failed == []


@pytest.mark.parametrize("name", ["jobs", "seeds"])
def test_there_is_at_least_one(name, home, plan, tmp_path):
    with pytest.raises(InputError, match=f"{name} is 0; at least 1"):
        reproduce(plan, home, tmp_path, listener=Quiet(), **{name: 0})


# -- components of blends -------------------------------------------------------------------------------------------


def test_a_blend_that_is_done_later_learns_nothing_again(alone, home, plan, tmp_path, monkeypatch):
    worker = PieceWorker(plan, home, tmp_path)
    worker.load("wiki")
    facts = {}
    for method in ("chosen", "lsi"):
        facts["wiki", method] = worker.do(Request("wiki", MethodPiece("wiki", method, 0))).result["facts"]
    assert len(list((tmp_path / "components").iterdir())) == 2
    monkeypatch.setattr("tercet.repro.term_jobs.make_ranker", None)  # a new process that learns fails
    later = PieceWorker(plan, home, tmp_path)
    later.load("wiki")
    mixed = later.do(Request("wiki", MethodPiece("wiki", "mix", 0), facts))
    assert not mixed.failed
    [there] = [cell for name, cell in cells(alone[0]).items() if name.startswith("wiki-mix-0")]
    [made] = [cell for name, cell in cells(tmp_path).items() if name.startswith("wiki-mix-0")]
    assert made == there


def test_weights_of_another_setting_are_no_component(tmp_path):
    store = ComponentStore(tmp_path / "components")
    cell, other = (CellSetting("a-0", {"rate": rate}, ("tercet.weights.plain",)) for rate in (1, 2))
    weights = Weights([Identity(n_terms=3, scale=2.0)])
    store.write(cell, {"model": weights})
    assert str(store.read(cell, "model")) == str(weights)
    assert store.read(other, "model") is None
    store.write(other, {"model": weights})
    assert store.read(cell, "model") is None  # the older one is gone
    store.remove(["a-1", "a"])
    assert str(store.read(other, "model")) == str(weights)
    store.remove(["a-0"])
    assert not any(store.folder.iterdir())
    store.close()
    assert not store.folder.exists()


# -- order ----------------------------------------------------------------------------------------------------------


def test_the_papers_own_come_first_then_ours_then_costs(plan):
    assert papers_own(plan) == {"tfidf", "chosen", "follows", "lsi", "mix", "mixed-again", "slow"}
    pieces = pieces_of(plan, {"wiki": 1, "short": 1}, None, costs=True)
    keys = [(piece.method, piece.seed) for piece in pieces if isinstance(piece, MethodPiece)]
    assert keys[-2:] == [("ours", 0), ("ours", 1)]
    assert keys.index(("slow", 0)) == keys.index(("chosen", 1)) - 1
    assert not any(isinstance(piece, CostPiece) for piece in pieces)
    assert waits_for(plan, CurvePiece("wiki", "chosen", "walk")) == [("wiki", "chosen", 0), ("wiki", "chosen", 0)]
    assert waits_for(plan, MethodPiece("short", "follows", 1)) == [("wiki", "chosen", 0)]
    assert waits_for(plan, MethodPiece("wiki", "mix", 1)) == [("wiki", "chosen", 1), ("wiki", "lsi", 1)]


def test_what_another_method_chose_is_taken(alone):
    found = {name: cell["result"] for name, cell in cells(alone[0]).items()}
    [chosen] = [own["facts"]["chosen"] for name, own in found.items() if name.startswith("wiki-chosen-0")]
    settings = {name: cell["setting"] for name, cell in cells(alone[0]).items()}
    for name, setting in settings.items():
        if name.startswith("short-follows"):
            assert setting["parameters"]["rate"] == chosen["rate"]
    assert sum(name.startswith("short-follows") for name in settings) == 2


# -- code -----------------------------------------------------------------------------------------------------------


def test_a_number_depends_on_the_code_of_its_own_learner_only(alone):
    lowrank = files_behind(["tercet.repro.term_jobs", "tercet.learn.lowrank"])
    rls = files_behind(["tercet.repro.row_jobs", "tercet.learn.rls.ranker"])
    assert {"tercet.kernels.lowrank", "tercet.learn.loop", "tercet.measure.formulas"} <= lowrank.keys()
    assert not any(name.startswith(("tercet.learn.rls", "tercet.learn.linear")) for name in lowrank)
    assert not {"tercet.learn.sparse", "tercet.kernels.sparse"} & lowrank.keys()
    assert "tercet.learn.rls.solving" in rls
    assert not {"tercet.learn.lowrank", "tercet.kernels.lowrank", "tercet.repro.term_jobs"} & rls.keys()
    assert {"tercet.choose", "tercet.fitting.rankers"} <= lowrank.keys() & rls.keys()  # what both use


def test_a_data_set_that_cannot_be_read_is_an_error_that_says_why(plan, tmp_path):
    (tmp_path / "wikispeedia").mkdir()
    (tmp_path / "wikispeedia" / "wikispeedia.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"wikispeedia\.tar\.gz"):
        reproduce(plan, tmp_path, tmp_path / "out", listener=Quiet())
