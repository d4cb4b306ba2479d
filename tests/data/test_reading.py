"""Reading bit by bit, and telling how far it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tercet.cli import progress
from tercet.cli.progress import ProgressLines, show_reading
from tercet.data import (
    iter_corpus,
    iter_qrels,
    iter_queries,
    iter_run,
    read_corpus,
    read_qrels,
    recognise,
    watch_reading,
    write_qrels,
)
from tercet.data.judgements import read_judgements
from tercet.errors import FormatError, InputError


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.jsonl"
    file.write_text("".join(json.dumps({"_id": str(i), "text": "x" * 1000}) + "\n" for i in range(1000)))
    return file


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_watcher_is_told_how_much_of_the_file_itself_was_read(corpus: Path, packed: bool) -> None:
    if packed:
        corpus.write_bytes(gzip.compress(corpus.read_bytes(), 0))
    output: list[tuple[Path, int, int]] = []
    with watch_reading(lambda *news: output.append(news)):
        docs = read_corpus(corpus)
    size = corpus.stat().st_size
    done = [at for _, at, _ in output]
    assert {(path, total) for path, _, total in output} == {(corpus, size)}
    assert done == sorted(done)
    assert done[-1] == size
    assert 5 < len(done) < 50
    assert done[0] < size / 4
    before = len(output)
    assert read_corpus(corpus) == docs, "watching changes what is read"
    assert len(output) == before, "still watched after the block"


def test_a_file_that_is_left_early_is_told_as_done(corpus: Path) -> None:
    output: list[int] = []
    with watch_reading(lambda path, done, size: output.append(done)):
        documents = iter_corpus(corpus)
        next(documents)
        documents.close()
        del documents
    assert output[0] < output[-1] == corpus.stat().st_size


def read_and_fail(corpus: Path) -> None:
    read_corpus(corpus)
    read_corpus(corpus.with_name("nothing"))


def test_blocks_within_blocks_and_errors_restore_the_watcher(corpus: Path) -> None:
    outer: list[int] = []
    with watch_reading(lambda path, done, size: outer.append(done)):
        with pytest.raises(FormatError), watch_reading(None):
            read_and_fail(corpus)
        assert outer == []
        read_corpus(corpus)
    assert outer


def test_a_line_now_and_then_reports_progress(corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    with show_reading():
        read_corpus(corpus)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(progress, "SAY_EVERY_SECONDS", 0.0)
    show = ProgressLines()
    show.reading(corpus, 25, 100)
    show.reading(corpus, 100, 100)
    assert capsys.readouterr().err == f"reading {corpus}: 25%\n"


# -- bit by bit -------------------------------------------------------------------------------------------------------


def test_documents_and_queries_come_before_the_next_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"_id": "007", "text": "a"}\n{"_id": "7", "text": "b"}\n{"_id": "007", "text": "c"}\n')
    for read in (iter_corpus, iter_queries):
        stream = read(tmp_path / "f")
        assert [next(stream), next(stream)] == [("007", "a"), ("7", "b")]
        with pytest.raises(FormatError, match=":3: \"_id\" '007' is already used at line 1"):
            next(stream)


def test_a_run_comes_query_by_query(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("007 Q0 1e5 1 2 t\n007 Q0 a 2 1 t\n7 Q0 a 1 1 t\n007 Q0 b 1 1 t\n")
    stream = iter_run(tmp_path / "f")
    assert [next(stream), next(stream)] == [("007", {"1e5": 2.0, "a": 1.0}), ("7", {"a": 1.0})]
    with pytest.raises(FormatError, match=":4: query '007' again, after other queries; read_run gathers its results"):
        next(stream)
    (tmp_path / "f").write_text("q Q0 a 1 2 t\nq Q0 a 2 1 t\n")
    with pytest.raises(FormatError, match=":2: query 'q' already has document 'a' at line 1"):
        list(iter_run(tmp_path / "f"))
    (tmp_path / "f").write_text("\n")
    with pytest.raises(FormatError, match="the file holds no results"):
        list(iter_run(tmp_path / "f"))


def test_judgements_come_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("query-id\tcorpus-id\tscore\n007\t1e5\t1\nbroken\n")
    stream = iter_qrels(tmp_path / "f")
    assert next(stream) == ("007", "1e5", 1)
    with pytest.raises(FormatError, match=":3: 1 columns"):
        next(stream)
    (tmp_path / "f").write_text("")
    with pytest.raises(FormatError, match="the file holds no judgements"):
        list(iter_qrels(tmp_path / "f"))


@pytest.mark.parametrize("name", ["f.tsv", "f.tsv.gz"])
def test_judgements_named_tsv_are_in_the_form_of_beir_and_keep_blanks(tmp_path: Path, name: str) -> None:
    qrels = {"a query": {"007": 1, "a b": 0}}
    write_qrels(tmp_path / name, qrels)
    assert read_qrels(tmp_path / name) == qrels
    assert recognise(tmp_path / name) == "qrels"
    with pytest.raises(InputError, match=r"'a query' holds a blank.*name the file \.csv"):
        write_qrels(tmp_path / "f.txt", qrels)
    write_qrels(tmp_path / "f.csv", qrels)
    assert read_judgements(tmp_path / "f.csv").qrels == qrels


@pytest.mark.parametrize(
    "content",
    [
        "query,docid,rating\nstar wars,007,3\nstar wars,11,0\nunrated,,\n",
        "Team Name,Case ID,Query Text,Doc ID,Doc Position,Title,Rating,year\n"
        "Us,8,star wars,007,1,Star Wars,3,1977\nUs,8,star wars,11,2,Alien,0,1979\nUs,8,unrated,,,,,\n",
    ],
    ids=["basic", "detailed"],
)
def test_an_export_of_quepid_is_a_table_of_judgements(tmp_path: Path, content: str) -> None:
    (tmp_path / "case.csv").write_text(content)
    assert recognise(tmp_path / "case.csv") == "judgements"
    read = read_judgements(tmp_path / "case.csv")
    assert read.qrels == {"star wars": {"007": 3, "11": 0}}
    assert read.n_ungraded == 1
