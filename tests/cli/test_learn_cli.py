"""``tercet learn`` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tercet as tc
from support.commands import ok, run
from support.corpora import synonyms
from support.indexes import small_model
from tercet.cli.inputs import read_data_pointer, write_data_pointer
from tercet.cli.main import cli
from tercet.data import write_beir
from tercet.errors import FormatError
from tercet.fitting import click_log
from tercet.fitting.click_log import learn_from_clicks
from tercet.search import Index
from tercet.store import claim_folder
from tercet.text.vectors import vectorise

DOCS = {"a": "green avocado", "b": "avocado toast with oil", "c": "blue sky", "d": "green sky oil"}
QUERIES = {"q1": "avocado", "q2": "sky"}
CLICKS = [
    {"query": "q1", "shown": ["a", "b", "c"], "clicked": ["b"]},
    {"query": "green sky", "shown": ["c", "d"], "clicked": ["d"]},
    {"query": "q2", "shown": ["d", "c"], "clicked": []},
]
LINES = "".join(json.dumps(one) + "\n" for one in CLICKS)


def bits(path: Path) -> bytes:
    return tc.load(path).weights.parts[-1].weights.data.tobytes()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_beir(tmp_path / "data", DOCS, QUERIES, {"train": {"q1": {"a": 1}}})
    return tmp_path / "data"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_model(DOCS, latent=True).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    (tmp_path / "clicks.jsonl").write_text(LINES * 100)
    return tmp_path / "clicks.jsonl"


@pytest.mark.slow
def test_a_fitted_model_knows_where_its_documents_are(tmp_path):
    corpus = synonyms(0, 4, 60, 60)
    write_beir(tmp_path / "data", corpus.docs, corpus.queries, {"train": corpus.qrels})
    ok("fit", tmp_path / "data", "-o", tmp_path / "model", "--steps", 1000, "--quiet")
    assert read_data_pointer(tmp_path / "model") == {"data": tmp_path / "data"}
    log = tmp_path / "clicks.jsonl"
    log.write_text(json.dumps({"query": "q0", "shown": ["d0", "d1"], "clicked": ["d1"]}) + "\n")
    n_parts = len(tc.load(tmp_path / "model").weights.parts)
    told = ok("learn", tmp_path / "model", log)
    assert "1 impression, 1 with clicks, 1 preference," in told
    assert "unknown" not in told
    assert len(tc.load(tmp_path / "model").weights.parts) == n_parts + 1
    assert (tmp_path / "model" / "report.html").exists()


def test_what_is_learned_is_what_the_library_learns_and_once(model, data, clicks, tmp_path):
    expected = learn_from_clicks(tc.load(model), clicks, DOCS, queries=QUERIES)
    before = tc.load(model).weights
    told = ok("learn", model, clicks, "--docs", data, "-o", tmp_path / "out")
    assert "line 300: 300 impressions, 200 with clicks, 200 preferences" in told
    assert bits(tmp_path / "out") == expected.weights.parts[-1].weights.data.tobytes()
    assert len(tc.load(model).weights.parts) == len(before.parts), "the model itself stays"
    ranked = tc.load(tmp_path / "out").rank({"q": "avocado"}, DOCS)["q"]
    assert next(iter(ranked)) == "b"
    again = ok("learn", model, clicks, "--docs", data, "-o", tmp_path / "out")
    assert "line 300: 300 impressions" in again
    assert bits(tmp_path / "out") == expected.weights.parts[-1].weights.data.tobytes()


def test_documents_may_be_an_index_vectors_a_folder_or_a_corpus(model, data, clicks, tmp_path):
    Index.build(DOCS, tc.load(model), tmp_path / "index")
    found = set()
    vectorise(DOCS, None, tmp_path / "vectors", vectoriser=tc.load(model).doc_vectoriser)
    for at, docs in enumerate((data, tmp_path / "index", tmp_path / "vectors", data / "corpus.jsonl")):
        queries = [] if docs == data else ["--queries", data / "queries.jsonl"]
        ok("learn", model, clicks, "--docs", docs, *queries, "-o", tmp_path / f"{at}")
        found.add(bits(tmp_path / f"{at}"))
    assert len(found) == 1


def test_ids_of_queries_are_those_of_the_vectors_a_model_was_fitted_to(model, data, clicks, tmp_path):
    vectorise(DOCS, QUERIES, tmp_path / "vectors", vectoriser=tc.load(model).doc_vectoriser)
    ok("learn", model, clicks, "--docs", data, "-o", tmp_path / "by-texts")
    ok("learn", model, clicks, "--docs", tmp_path / "vectors", "-o", tmp_path / "by-rows")
    write_data_pointer(model, data=tmp_path / "vectors")
    Index.build(DOCS, tc.load(model), tmp_path / "index")
    ok("learn", model, clicks, "-o", tmp_path / "remembered")
    ok("learn", model, clicks, "--docs", tmp_path / "index", "-o", tmp_path / "beside-an-index")
    found = {bits(tmp_path / name) for name in ("by-texts", "by-rows", "remembered", "beside-an-index")}
    assert len(found) == 1


def test_the_model_learns_in_place_and_passes_on_where_its_data_are(model, data, clicks, tmp_path):
    write_data_pointer(model, data=data)
    ok("learn", model, clicks, "-o", tmp_path / "out")
    assert read_data_pointer(tmp_path / "out") == {"data": data}
    expected = bits(tmp_path / "out")
    whole = clicks.read_text()
    for share in (0.3, 0.8, 1.0):
        clicks.write_text(whole[: int(share * len(whole))])
        ok("learn", model, clicks)
    assert bits(model) == expected
    assert (tmp_path / "model.learning" / "manifest.json").exists()


def test_what_is_missing_is_told(model, data, clicks, tmp_path):
    nowhere = run("learn", model, clicks)
    assert nowhere.exit_code == 1
    assert "does not say where its documents are" in nowhere.output
    write_data_pointer(model, data=tmp_path / "gone")
    gone = run("learn", model, clicks)
    assert gone.exit_code == 1
    assert "gone, which is not there any more; name --docs" in gone.output
    (model / "data.json").write_text('{"dada": "x"}')
    with pytest.raises(FormatError, match="it names data, corpus, queries"):
        read_data_pointer(model)
    (model / "data.json").unlink()
    other = small_model({"a": "other words"})
    Index.build({"a": "other words"}, other, tmp_path / "index")
    wrong = run("learn", model, clicks, "--docs", tmp_path / "index")
    assert wrong.exit_code == 1
    assert "another vectoriser" in wrong.output
    unknown = tmp_path / "unknown.jsonl"
    unknown.write_text('{"query": "zebra", "shown": ["x", "a"], "clicked": ["a"]}\n{"query": "sky')
    told = ok("learn", model, unknown, "--docs", data, "-o", tmp_path / "out")
    assert "1 of 2 documents shown are unknown" in told
    assert "1 impressions are of queries without a word" in told
    assert "the last line has no end yet" in told
    assert run("learn", model, tmp_path / "none.jsonl").exit_code == 2


def test_a_second_run_is_refused_at_once_and_a_new_log_is_taken_when_told(model, data, clicks, tmp_path):
    (tmp_path / "model.learning" / "running").mkdir(parents=True)  # left by a kill, and held by nobody
    ok("learn", model, clicks, "--docs", data)
    assert not (tmp_path / "model.learning" / "running").exists()
    with claim_folder(tmp_path / "model.learning" / "running", "held"):
        began = time.monotonic()
        refused = run("learn", model, clicks, "--docs", data)
        assert time.monotonic() - began < 10
    assert refused.exit_code == 1
    assert f"another run is learning for {model}; let it end" in refused.output
    clicks.write_text(LINES.replace("green sky", "green oil"))
    other = run("learn", model, clicks, "--docs", data)
    assert other.exit_code == 1
    assert "--new-log" in other.output
    assert "line 3: 303 impressions" in ok("learn", model, clicks, "--docs", data, "--new-log")
    assert "line 3: 303 impressions" in ok("learn", model, clicks, "--docs", data)


def test_an_interrupted_run_says_that_the_log_goes_on(model, data, clicks, tmp_path, monkeypatch):
    class Interrupted(click_log._LogRun):
        def _learn(self, lines):
            super()._learn(lines)
            os.kill(os.getpid(), signal.SIGINT)

    expected = learn_from_clicks(tc.load(model), clicks, DOCS, queries=QUERIES)
    with monkeypatch.context() as patched:
        patched.setattr(click_log, "_LogRun", Interrupted)
        stopped = run("learn", model, clicks, "--docs", data, "--every", 5)
    assert stopped.exit_code == 1
    assert "line 5: 5 impressions" in stopped.output
    assert "interrupted before the end of" in stopped.output
    ok("learn", model, clicks, "--docs", data)
    assert bits(model) == expected.weights.parts[-1].weights.data.tobytes()


def followed(model: Path, clicks: Path, data: Path) -> int:
    """A follower in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            cli(
                ["learn", str(model), str(clicks), "--follow", "--docs", str(data), "--every", "5"],
                standalone_mode=False,
            )
            code = 0
        finally:
            os._exit(code)
    return child


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def line_reached(model: Path) -> int:
    folder = model.with_name("model.learning")
    return tc.store.read_bundle(folder).meta["line"] if (folder / "manifest.json").exists() else 0


@pytest.mark.slow
def test_a_follower_learns_what_comes_and_ends_well_when_told_to(model, data, clicks, tmp_path):
    ok("learn", model, clicks, "--docs", data, "-o", tmp_path / "whole")
    whole = clicks.read_text()
    clicks.unlink()
    child = followed(model, clicks, data)
    time.sleep(0.3)
    clicks.write_text(whole[:1000])
    wait_until(lambda: line_reached(model) > 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for stop, told in ((9000, signal.SIGTERM), (len(whole), signal.SIGINT)):
        child = followed(model, clicks, data)
        with open(clicks, "a") as log:
            log.write(whole[clicks.stat().st_size : stop])
        wait_until(lambda end=stop: line_reached(model) >= whole[:end].count("\n") - 4)
        os.kill(child, told)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert line_reached(model) == whole[:stop].count("\n")
    assert bits(model) == bits(tmp_path / "whole")
