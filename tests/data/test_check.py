"""Checking whole data sets: every problem is found, where it is, and only what a reader refuses is an error."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.cli.main import cli
from tercet.data import (
    check,
    read_beir,
    read_clicks,
    read_labelled_folder,
    read_letor,
    read_letor_folds,
    read_preferences,
    read_qrels,
    read_run,
    read_svmlight,
    write_beir,
)
from tercet.data.checking.findings import CheckReport
from tercet.data.checking.near_duplicates import look_alikes, near_texts, number_of, words_of
from tercet.data.click_tables import read_click_log
from tercet.data.documents import read_table
from tercet.data.judgements import read_judgements
from tercet.data.link_tables import read_links
from tercet.data.threes import read_threes
from tercet.errors import FormatError, InputError
from tercet.text.vectors import vectorise

HEADER = "query-id\tcorpus-id\tscore\n"
QUICK = settings(deadline=None, max_examples=50)


def found(report: CheckReport) -> dict[str, list[tuple[str, int | None]]]:
    """Problems as ``severity kind: [(file name, line)]``."""
    return {
        f"{group.severity} {group.kind}": [(Path(one.path).name, one.line) for one in group.first]
        for group in report.groups
    }


def refusal(read: Callable[[Path], object], path: Path) -> FormatError | None:
    """What a reader raises, or None when it takes the data."""
    try:
        read(path)
    except FormatError as error:
        return error
    return None


def messages(report: CheckReport) -> str:
    return "\n".join(str(problem) for group in report.groups for problem in group.first)


def test_vectors_are_read_to_the_last_byte(tmp_path):
    vectorise({"a": "blue sky", "b": "green sky"}, {"q": "sky"}, tmp_path / "v")
    report = check(tmp_path / "v")
    assert (report.kind, report.counts, report.n_errors) == ("vectors", {"documents": 2, "queries": 1}, 0)
    vectorise({"a": "blue sky"}, None, tmp_path / "w")
    assert check(tmp_path / "w").counts == {"documents": 1}
    shard = max((tmp_path / "v" / "queries").rglob("*.safetensors"), key=lambda file: file.stat().st_size)
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    assert list(found(check(tmp_path / "v"))) == ["error damaged"]


def beir(folder: Path, **changed: str | bytes) -> Path:
    """A folder without a problem, but for the files given in another form."""
    files: dict[str, str | bytes] = {
        "corpus": '{"_id": "d1", "text": "green avocado"}\n{"_id": "d2", "text": "blue eyes"}\n',
        "queries": '{"_id": "q1", "text": "avocado"}\n{"_id": "q2", "text": "eyes"}\n',
        "train": HEADER + "q1\td1\t1\n",
        "test": HEADER + "q2\td2\t1\nq2\td1\t0\n",
        **changed,
    }
    (folder / "qrels").mkdir(parents=True)
    for name, content in files.items():
        path = folder / (f"{name}.jsonl" if name in ("corpus", "queries") else f"qrels/{name}.tsv")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def test_a_folder_without_a_problem(tmp_path: Path) -> None:
    report = check(beir(tmp_path / "b"))
    assert (report.kind, report.groups, report.n_errors, report.n_warnings) == ("beir", (), 0, 0)
    assert report.counts == {"documents": 2, "queries": 2, "splits": 2, "judgements": 3}
    assert str(report).endswith("2 documents, 2 queries, 2 splits, 3 judgements\nno errors, no warnings")


def test_all_problems_of_documents_are_listed(tmp_path: Path) -> None:
    corpus = (
        b'{"_id": "d1", "text": "green avocado"}\n'
        b'{"_id": "d1", "text": "again"}\n'
        b'{"_id": "d3", "text" "broken"}\n'
        b'{"_id": "d4", "text": "GREEN   avocado"}\n'
        b'{"_id": "d5", "text": " ", "title": ""}\n'
        b'{"_id": 7, "text": "a number"}\n'
        b'{"_id": "d7"}\n'
        b'{"_id": "d2", "text": "blue eyes"}\n'
    ) + b'{"_id": "d9", "text": "caf\xe9"}\n'
    report = check(beir(tmp_path / "b", corpus=corpus))
    assert found(report) == {
        "error duplicate-id": [("corpus.jsonl", 2)],
        "error json": [("corpus.jsonl", 3)],
        "error id": [("corpus.jsonl", 6)],
        "error format": [("corpus.jsonl", 7)],
        "error encoding": [("corpus.jsonl", 9)],
        "warning duplicate-text": [("corpus.jsonl", 4)],
        "warning empty-text": [("corpus.jsonl", 5)],
    }
    assert "\"_id\" 'd1' is already used at line 1" in messages(report)
    assert "document 'd4' has the text of 'd1' at line 1" in messages(report)


def test_all_problems_of_queries_are_listed(tmp_path: Path) -> None:
    queries = (
        '\ufeff{"_id": "q1", "text": "avocado"}\n{"_id": "q2", "text": "eyes"}\n{"_id": "q3", "text": " "}\n'
        '{"_id": "q2", "text": "other"}\n{"_id": "q5", "text": "Eyes!"}\n{"_id": "q6", "text": "zebra"}\n'
    )
    report = check(beir(tmp_path / "b", queries=queries))
    assert found(report) == {
        "error empty-text": [("queries.jsonl", 3)],
        "error duplicate-id": [("queries.jsonl", 4)],
        "warning byte-order-mark": [("queries.jsonl", 1)],
        "warning duplicate-query": [("queries.jsonl", 5)],
        "warning unmatched-query": [("queries.jsonl", 6)],
        "warning unjudged-query": [("queries.jsonl", 5), ("queries.jsonl", 6)],
    }


def test_all_problems_of_judgements_are_listed(tmp_path: Path) -> None:
    train = HEADER + "q1\td1\t1\nq9\td1\t1\nq1\td9\t1\nq1\td1\t2\nq1\td1\t1\nq1\td2\thigh\nq1\td2\n"
    report = check(beir(tmp_path / "b", train=train, test="q2\td2\t0\n"))
    assert found(report) == {
        "error unknown-id": [("train.tsv", 3), ("train.tsv", 4)],
        "error contradiction": [("train.tsv", 5)],
        "error format": [("test.tsv", 1), ("train.tsv", 7), ("train.tsv", 8)],
        "warning repeated-line": [("train.tsv", 6)],
        "warning unjudged-query": [("queries.jsonl", 2)],
    }
    report = check(beir(tmp_path / "c", test=HEADER + "q2\td2\t0\nq2\td1\t-1\n"))
    assert found(report) == {"warning no-relevant": [("test.tsv", 2)]}


def test_queries_that_are_learned_from_and_measured_on_are_told(tmp_path: Path) -> None:
    words = [f"word{i}" for i in range(10)]
    queries = {
        "a": "Green, avocado",
        "b": "avocado GREEN",
        "c": " ".join(words),
        "d": " ".join(words[:9]),
        "e": " ".join(words[:8]),
        "f": "eyes",
        "g": "blue",
    }
    judged = {"train": ["a", "c", "f"], "test": ["b", "d", "e", "f", "g"]}
    qrels = {split: {qid: {"d": 1} for qid in qids} for split, qids in judged.items()}
    write_beir(tmp_path / "b", {"d": "green avocado eyes blue " + " ".join(words)}, queries, qrels)
    report = check(tmp_path / "b")
    assert found(report) == {
        "warning shared-query": [("queries.jsonl", 6)],
        "warning near-query": [("queries.jsonl", 2), ("queries.jsonl", 4)],
    }
    assert "query 'b' of test has the same words as 'a' of train, at line 1" in messages(report)
    assert "query 'd' of test has 90% of its words in common with 'c' of train, at line 3" in messages(report)


def test_ids_stay_texts_and_are_told_where_a_number_would_join_them(tmp_path: Path) -> None:
    docs = {"007": "one", "7": "two", "1e5": "three", "100000": "four", "08": "five"}
    write_beir(tmp_path / "b", docs, {"q": "one"}, {"train": {"q": {"007": 1}}})
    report = check(tmp_path / "b")
    assert found(report) == {"warning look-alike-ids": [("corpus.jsonl", 2), ("corpus.jsonl", 4)]}
    assert "the ids '007', at line 1, and '7' are two documents here and one number elsewhere" in messages(report)
    (tmp_path / "b" / "qrels" / "train.tsv").write_text(HEADER + "q\t8\t1\nq\t007\t1\n")
    assert "document '8' is judged here and is not in corpus.jsonl; '08' is: was it read as a number" in messages(
        check(tmp_path / "b")
    )


def test_missing_and_unreadable_files_do_not_hide_the_others(tmp_path: Path) -> None:
    folder = beir(tmp_path / "b", corpus=gzip.compress(b'{"_id": "d1", "text": "t"}\n' * 99)[:-9])
    (folder / "queries.jsonl").unlink()
    (folder / "qrels" / "train.tsv").write_bytes(HEADER.encode("utf-16"))
    (folder / "qrels" / "test.tsv").write_text("")
    assert found(check(folder)) == {
        "error missing": [("queries.jsonl", None)],
        "error packing": [("corpus.jsonl", 1)],
        "error empty-file": [("test.tsv", None)],
        "error encoding": [("train.tsv", 1)],
    }


def test_only_the_first_of_a_kind_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q 0 d 1\n" * 30 + "q 0 e\n" * 50)
    report = check(tmp_path / "qrels")
    counts = {group.kind: (group.count, len(group.first)) for group in report.groups}
    assert counts == {"repeated-line": (29, 20), "format": (50, 20)}
    assert (report.n_errors, report.n_warnings) == (50, 29)
    assert "… and 30 more" in str(report)
    assert [len(group.first) for group in check(tmp_path / "qrels", most_shown=3).groups] == [3, 3]


FILES: list[tuple[str, str, dict[str, list[int | None]]]] = [
    ("qrels", "q 0 d 1\nq 0 e\nq 0 d 2\nq 0 d 1\np 0 d 0\n", {
        "error format": [2], "error contradiction": [3], "warning repeated-line": [4], "warning no-relevant": [5]}),
    ("run", "q Q0 d 1 9 t\nq Q0 d 2 8 t\nq Q0 e 3 8.5 t\nq X f 2 7 t\nq Q0 g 5 6 u\nq Q0 h 6 x t\n07 Q0 d 1 1 t\n"
     "7 Q0 d 1 1 t\n", {
        "error duplicate-id": [2], "error format": [6], "warning second-column": [4], "warning tags": [5],
        "warning rank-order": [3], "warning look-alike-ids": [8]}),
    ("preferences", "q\ta\tb\nq\tb\ta\nq\ta\ta\nq\ta\tc\t2\nq\ta\n", {
        "error format": [3, 4, 5], "warning contradiction": [2]}),
    ("clicks", "query-id\tshown-ids\tclicked-ids\nq\ta b\ta\nq\ta b\tc\nq\ta\n", {
        "error format": [3, 4], "warning no-preference": [None]}),
    ("letor", "1 qid:1 1:1\n1 qid:2 2:1 1:1\n0 qid:02 1:nan\n0 qid:2 1:1\n1 qid:1 1:2\n0 qid:02 1:1\n", {
        "error format": [2, 3], "error scattered-query": [5], "warning no-relevant": [4, 6],
        "warning look-alike-ids": [6]}),
    ("svmlight", "1 1:1\nx 1:1\n2 qid:1 1:1\n3 0:1\n1 1:1\n2 2:1\n", {"error format": [2, 4, 3]}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "content", "problems"), FILES, ids=[kind for kind, _, _ in FILES])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_all_problems_of_a_file_are_listed(
    tmp_path: Path, kind: str, content: str, problems: dict[str, list[int | None]], packed: bool
) -> None:
    (tmp_path / "f").write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    report = check(tmp_path / "f")
    assert report.kind == kind, "its kind was not guessed from the lines that are right"
    assert found(report) == {key: [("f", line) for line in lines] for key, lines in problems.items()}


def test_two_documents_at_one_rank_are_told(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("q Q0 a 1 2.0 t\nq Q0 b 1 1.0 t\nr Q0 a 1 2.0 t\nr Q0 b 2 2.0 t\n")
    assert found(check(tmp_path / "run")) == {"warning rank-order": [("run", 2)]}


def test_a_table_of_judgements_is_checked_by_the_queries_its_reader_finds(tmp_path: Path) -> None:
    file = tmp_path / "judged.csv"
    file.write_text("query,doc,grade\nTea,a,1\ntea,a,0\nmilk,b,0\nMilk,c,2\n")
    report = check(file)
    assert found(report) == {"error contradiction": [("judged.csv", 3)]}
    assert report.counts == {"queries": 2, "judgements": 3}
    file.write_text("query,query_id,doc,grade\ntea,q1,a,1\nmilk,q1,b,1\n")
    assert found(check(file)) == {"error format": [("judged.csv", 3)]}


def test_links_of_documents_to_themselves_alone_are_none(tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    file.write_text("source,target\na,a\n")
    assert found(check(file)) == {"error empty-file": [("links.csv", None)], "warning own-link": [("links.csv", 2)]}


def test_a_bad_row_before_the_first_time_of_a_click_log_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("query,doc,clicked,time\nx,1\ntea,a,1,2026-01-01\ntea,b,0,2026-01-01\n")
    assert found(check(file)) == {"error format": [("log.csv", 2)]}


def test_folds_that_test_on_what_they_learn_from(tmp_path: Path) -> None:
    (tmp_path / "set" / "Fold1").mkdir(parents=True)
    parts = {"train": "1 qid:1 1:1\n", "vali": "1 qid:2 1:1\n1 qid:1 1:1\n", "test": "1 qid:3 x\n1 qid:3 1:1\n"}
    for name, content in parts.items():
        (tmp_path / "set" / "Fold1" / f"{name}.txt").write_text(content)
    expected = {"error format": [("test.txt", 1)], "warning shared-query": [("vali.txt", 2)]}
    assert found(check(tmp_path / "set")) == expected
    with tarfile.open(tmp_path / "set.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "set", "set")
    assert found(check(tmp_path / "set.tar.gz")) == expected
    (tmp_path / "set" / "Fold1" / "train.txt").unlink()
    assert found(check(tmp_path / "set"))["error missing"] == [("set", None)]


def test_labelled_texts(tmp_path: Path) -> None:
    files = {"a/1": b"same text", "a/2": b"", "b/1": b"same  TEXT", "b/2": b"caf\xe9", "b/3": b"own"}
    for name, content in files.items():
        (tmp_path / "f" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "f" / name).write_bytes(content)
    (tmp_path / "f" / "c").mkdir()
    report = check(tmp_path / "f", "labelled-folder")
    assert found(report) == {
        "error encoding": [("2", 1)],
        "error format": [("c", None)],
        "warning empty-text": [("2", None)],
        "warning duplicate-text": [("1", None)],
    }
    assert "of another class, 'a'" in messages(report)
    # A file in the place of a folder is told, as everything else is.
    assert found(check(tmp_path / "f" / "a" / "1", "labelled-folder")) == {"error missing": [("1", None)]}


def test_what_is_of_no_kind_says_so(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("what is this\n")
    assert found(check(tmp_path / "f")) == {"error unknown-kind": [("f", None)]}
    (tmp_path / "f").write_bytes("q 0 d 1\n".encode("utf-16"))
    assert found(check(tmp_path / "f")) == {"error encoding": [("f", 1)]}
    assert found(check(tmp_path / "f", "qrels")) == {"error encoding": [("f", 1)]}
    with pytest.raises(InputError, match="'kind' must be one of beir, "):
        check(tmp_path / "f", "spreadsheet")
    with pytest.raises(InputError, match="there is no such file or folder"):
        check(tmp_path / "nothing")


# -- an error exactly where a reader refuses --------------------------------------------------------------------------

READERS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "qrels": (read_qrels, ["q 0 d 1", "q 0 e 0", "p 0 d 1", "q 0 d 2", "q d 1", HEADER.strip(), "q\td\t1", "q 0 d x"]),
    "run": (read_run, ["q Q0 d 1 2 t", "q Q0 e 2 1 t", "p Q0 d 1 inf t", "p Q0 d 9 1 t", "q Q0 d 1 t"]),
    "preferences": (
        read_preferences,
        ["q\ta\tb", "q\tb\ta", "q\ta\tb\t1", "q\ta\ta", '{"query": "q", "better": "a", "worse": "b"}', "q\ta\tb\t-1"],
    ),
    "clicks": (
        read_clicks,
        [
            "query-id\tshown-ids\tclicked-ids",
            "q\ta b\tb",
            "q\ta b\t",
            "q\ta b\tc",
            '{"query": "q", "shown": ["a"], "clicked": []}',
            "q\t\t",
        ],
    ),
    "letor": (
        lambda path: read_letor(path),
        [
            "1 qid:1 1:1",
            "0 qid:1 2:1",
            "1 qid:2 1:1",
            "1 qid:2",
            "1 1:1",
            "# comment",
            "1 qid:3 1:x",
            "1 qid:3 2:1 1:1",
        ],
    ),
    "svmlight": (read_svmlight, ["1 1:1", "-1.5 2:1", "1 qid:1 1:1", "1 0:1", "# comment", "1"]),
    "documents": (read_table, ["id,title,price", "a,tea,1", "a,milk,2", "b,,3", 'c,"x', 'x",1', "d,x", ",x,1"]),
    "judgements": (
        read_judgements,
        [
            "query,query_id,doc,grade",
            "tea,q1,a,1",
            "tea,q1,b,0",
            "query,doc,grade",
            "milk,q1,b,0",
            "tea,a,1",
            "Tea,a,1",
            "TEA,a,2",
            "tea,a,",
            "tea,,1",
            "tea,,",
        ],
    ),
    "threes": (read_threes, ["query,better,worse", "tea,a,b", "tea,b,a", "tea,a,a", ",a,b", "tea,a", "tea,a,b,c"]),
    "links": (read_links, ["source,target", "a,b", "a,a", "a,", "b,a", "a,b,c", "# comment", "a b"]),
    "click-log": (
        read_click_log,
        [
            "query,doc,clicked,time",
            "tea,a,1,2026-01-01",
            "tea,b,0,2026-01-01",
            "tea,c,0,",
            "tea,d,2",
            "tea,e,often,2026-01-01",
            ",f,0,2026-01-01",
        ],
    ),
}


@pytest.mark.parametrize("kind", READERS)
@QUICK
@given(data=st.data())
def test_a_file_has_errors_exactly_where_its_reader_refuses_it(kind: str, data: st.DataObject) -> None:
    read, lines = READERS[kind]
    chosen = data.draw(st.lists(st.sampled_from([*lines, lines[0], lines[1], "", "caf\udce9"]), max_size=5))
    content = "\n".join(chosen).encode(errors="surrogateescape")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "f")
        file.write_bytes(content)
        report = check(file, kind)
        refused = refusal(read, file)
    told = {one.line for group in report.groups if group.severity == "error" for one in group.first}
    assert bool(told) == (refused is not None), f"the reader says {refused}, the check {messages(report)!r}"
    assert refused is None or refused.line in told


@QUICK
@given(content=st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode(errors="surrogatepass")))
def test_whatever_a_file_holds_is_told_and_nothing_breaks(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "f")
        for written in (content, b"\x1f\x8b" + content, gzip.compress(content)):
            file.write_bytes(written)
            for kind in (None, *READERS):
                report = check(file, kind)
                read = READERS[kind][0] if kind is not None else None
                if read is not None and refusal(read, file) is not None:
                    assert report.n_errors


DOCUMENTS = [
    '{"_id": "1", "text": "a b"}',
    '{"_id": "2", "text": ""}',
    '{"_id": "2", "text": "c"}',
    "{",
    '{"_id": "3"}',
]
QUERIES = ['{"_id": "1", "text": "a b"}', '{"_id": "2", "text": "b"}', '{"_id": "3", "text": ""}', "[]", "caf\udce9"]
JUDGEMENTS = [HEADER.strip(), "1\t1\t1", "1\t1\t2", "2\t2\t0", "3\t1\t1", "1\t4\t1", "1 1 1"]


@QUICK
@given(data=st.data())
def test_a_folder_has_errors_exactly_where_its_reader_refuses_it(data: st.DataObject) -> None:
    def draw(good: list[str], all_lines: list[str]) -> bytes:
        more = data.draw(st.lists(st.sampled_from(all_lines), max_size=2))
        return "\n".join(good + more).encode(errors="surrogateescape")

    with tempfile.TemporaryDirectory() as folder:
        root = beir(
            Path(folder, "b"),
            corpus=draw(DOCUMENTS[:2], DOCUMENTS),
            queries=draw(QUERIES[:2], QUERIES),
            train=draw(JUDGEMENTS[:2], JUDGEMENTS),
            test=draw(JUDGEMENTS[:1], JUDGEMENTS),
        )
        report = check(root)
        refused = refusal(read_beir, root)
    assert bool(report.n_errors) == (refused is not None), f"the reader says {refused}, the check {messages(report)!r}"


def test_many_errors_in_a_large_file_and_one_without_end(tmp_path: Path) -> None:
    rows = [f"1 qid:{i // 7} 1:{i}" for i in range(30_000)]
    for at in (0, 9_999, 20_000, 29_999):
        rows[at] = "broken"
    (tmp_path / "f").write_text("\n".join(rows))
    report = check(tmp_path / "f", "letor")
    assert found(report)["error format"] == [("f", at + 1) for at in (0, 9_999, 20_000, 29_999)]
    assert report.counts["rows"] == 29_996
    (tmp_path / "f").write_text("x\n" * 5_000)
    report = check(tmp_path / "f", "letor")
    assert report.n_errors == 1_001
    assert "the rest is not looked at" in messages(check(tmp_path / "f", "letor", most_shown=2_000))


def test_good_folds_and_labels_are_read_as_they_are_checked(tmp_path: Path) -> None:
    for label in ("a", "b"):
        (tmp_path / "l" / label).mkdir(parents=True)
        (tmp_path / "l" / label / "1").write_text(label)
    assert check(tmp_path / "l").counts == {"texts": len(read_labelled_folder(tmp_path / "l")), "classes": 2}
    (tmp_path / "s" / "Fold1").mkdir(parents=True)
    for number, part in enumerate(("train", "vali", "test")):
        (tmp_path / "s" / "Fold1" / f"{part}.txt").write_text(f"1 qid:{number} 1:1\n")
    [fold] = read_letor_folds(tmp_path / "s")
    report = check(tmp_path / "s")
    assert report.counts == {"folds": 1, "rows": 3, "queries": 3, "features": fold.train.n_features}
    assert report.groups == ()


# -- likeness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [("007", "7"), ("1e5", "100000"), ("1E+2", "100"), ("-0", "0.0"), ("7.50", "7.5"), (".5", "0.5"), ("+3", "3")],
)
def test_ids_that_are_one_number(one: str, other: str) -> None:
    assert number_of(one) == number_of(other) is not None
    assert look_alikes([one, "x", other]) == [(one, other)]


@pytest.mark.parametrize("identifier", ["d7", "", "1e", "0x7", "٧", "1_000", "7 ", "nan", "--1", "1" * 61, "1e9999999"])
def test_ids_that_are_no_number(identifier: str) -> None:
    assert number_of(identifier) is None


def test_long_ids_keep_all_their_digits() -> None:
    one, other = "1" * 50 + "1", "1" * 50 + "2"
    assert number_of(one) != number_of(other)


SENTENCES = st.lists(st.sampled_from([f"w{i}" for i in range(14)]), max_size=14).map(" ".join)


@QUICK
@given(
    first=st.lists(SENTENCES, max_size=8),
    second=st.lists(SENTENCES, max_size=8),
    threshold=st.sampled_from([0.5, 0.8, 0.9, 1.0]),
)
def test_near_texts_are_those_that_comparing_every_pair_finds(
    first: list[str], second: list[str], threshold: float
) -> None:
    ones = {f"a{i}": text for i, text in enumerate(first)}
    others = {f"b{i}": text for i, text in enumerate(second)}
    wanted = []
    for key, text in others.items():
        words = set(words_of(text))
        likest = [
            (len(words & set(words_of(one))) / len(words | set(words_of(one))), name)
            for name, one in ones.items()
            if words and one
        ]
        if likest and max(likest)[0] >= threshold:
            best = max(likeness for likeness, _ in likest)
            wanted.append((key, next(name for likeness, name in likest if likeness == best), best))
    assert list(near_texts(ones, others, threshold)) == wanted


# -- the command ------------------------------------------------------------------------------------------------------


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [str(one) for one in arguments])
    return result.exit_code, result.output


def test_the_command_lists_problems_and_fails_on_errors_only(tmp_path: Path) -> None:
    good = beir(tmp_path / "good", queries='{"_id": "q1", "text": "avocado"}\n{"_id": "q2", "text": "zebra"}\n')
    code, output = run("check", good)
    assert code == 0
    assert "warning: unmatched-query (1)\n" in output
    assert f"{good}/queries.jsonl:2: query 'q2', 'zebra', has no word that is in any document" in output
    assert output.endswith("no errors, 1 warning\n")
    bad = beir(tmp_path / "bad", train=HEADER + "q1\td1\t1\nq1\td8\t1\nq1\td9\t1\n")
    code, output = run("check", bad, "-k", 1)
    assert code == 1
    assert f"{bad}/qrels/train.tsv:3: document 'd8' is judged here and is not in corpus.jsonl\n" in output
    assert "  … and 1 more\n" in output
    assert output.endswith("2 errors, no warnings\n")


def test_the_command_speaks_json(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("q 0 é 1\nq 0 d\nq 0 e 1\n")
    code, output = run("check", tmp_path / "f", "--json")
    assert code == 1
    told = json.load(io.StringIO(output))
    assert {key: told[key] for key in ("kind", "errors", "warnings", "counts")} == {
        "kind": "qrels",
        "errors": 1,
        "warnings": 0,
        "counts": {"queries": 1, "judgements": 2},
    }
    [problem] = told["problems"]
    assert (problem["severity"], problem["kind"], problem["count"]) == ("error", "format", 1)
    assert problem["first"][0]["line"] == 2
    assert run("check", tmp_path / "f", "--kind", "run")[0] == 1
    assert run("check", tmp_path / "f", "--kind", "nonsense")[0] == 2
    assert run("check", tmp_path / "nothing")[0] == 2
