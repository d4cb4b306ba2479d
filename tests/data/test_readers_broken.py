"""Broken files and the exact sentence each of them gets."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tercet.data import read_beir, read_qrels, read_queries, read_run, read_table
from tercet.data.letor import read_letor
from tercet.data.triplets import read_triplets
from tercet.errors import FormatError, InputError

WANTS_4 = "TREC judgements have 4 (qid, iteration, document id, grade)"
HEADER = "query-id\tcorpus-id\tscore\n"

BROKEN: list[tuple[Callable[[str], object], str, str]] = [
    (read_qrels, "q 0 d 1\nq 0 d2\n", f":2: 3 columns; {WANTS_4}"),
    (
        read_qrels,
        "q 0 d 1\n\nq 0 e 1\nq 0 d 2\n",
        ":4: query 'q', document 'd' has grade 2 here and 1 at line 1",
    ),
    (
        read_qrels,
        HEADER + "q\td\t1\nq\td\t0\n",
        ":3: query 'q', document 'd' has grade 0 here and 1 at line 2",
    ),
    (
        read_qrels,
        HEADER + "q d 1\n",
        r":2: 1 cell under 3 columns; quote a text that holds '\t' or a line break",
    ),
    (read_qrels, HEADER + "\td\t1\n", ":2: query-id is empty; every row needs an id"),
    (read_qrels, HEADER + "q\t\t1\n", ":2: corpus-id is empty; every row needs an id"),
    (
        read_qrels,
        HEADER + "q\td\t1\n" + HEADER,
        ":3: score 'score'; a grade is a whole number, and 0 is not relevant",
    ),
    (read_qrels, HEADER, ": the table has no rows"),
    (
        read_run,
        "q Q0 d 1 2.5\n",
        ":1: 5 columns; a run has 6 (qid, Q0, document id, rank, score, tag)",
    ),
    (read_run, "q Q0 d 1 nan t\n", ":1: score 'nan'; a finite number is needed"),
    (read_run, "q Q0 d 1 high t\n", ":1: score 'high'; a number is needed"),
    (read_run, "q Q0 d 2.5 1 t\n", ":1: rank '2.5'; a whole number is needed"),
    (
        read_run,
        "q Q0 d 1 2 t\np Q0 d 1 2 t\n\nq Q0 d 2 1 t\n",
        ":4: query 'q' already has document 'd'",
    ),
    (read_run, "\n \n", ": the file holds no results"),
    (
        read_triplets,
        "query,better,worse\nq,c,c\n",
        ":2: better and worse are both 'c'; a preference needs two documents",
    ),
    (
        read_triplets,
        "query,better,worse\nq,,b\n",
        ":2: better is empty; every row needs an id",
    ),
    (
        read_triplets,
        "query,better,worse\nq,a\n",
        ":2: 2 cells under 3 columns; quote a text that holds ',' or a line break",
    ),
    (
        read_triplets,
        "query,better,worse,weight\nq,a,b,-2\n",
        ":2: weight '-2'; a positive, finite number is needed",
    ),
    (
        read_triplets,
        '{"query": "q", "better": "a\\tz", "worse": "b"}',
        r""":1: better 'a\tz' holds a tab or a line break, which would break a row of a file""",
    ),
    (
        read_triplets,
        "query-id\tbetter-id\tworse-id\n",
        ": the file holds no preferences",
    ),
    (
        read_table,
        '{"_id": "a", "text": ""}\n{"_id": "b" "text"}',
        ":2: column 13: broken JSON: Expecting ',' delimiter",
    ),
    (
        read_table,
        '{"_id": 1e5, "text": "b"}',
        ":1: _id is 100000.0, a number with a point; ids are strings or whole numbers",
    ),
    (read_table, '{"_id": null, "text": "b"}', ":1: _id is empty; every row needs an id"),
    (
        read_table,
        '{"_id": "a", "text": "x\\ud800"}',
        r":1: 'text' holds half a surrogate pair, \ud800, which is no character",
    ),
    (
        read_table,
        '\n{"_id": "a", "text": "1"}\n{"_id": "b", "text": ""}\n\n{"_id": "a", "text": "3"}\n',
        ":5: the id 'a' is already used at line 2",
    ),
    (read_queries, '{"_id": "a", "text": " "}', ":1: text is empty; a query needs words"),
    (read_queries, '{"_id": "a", "text": "1"}\n{"_id": "a", "text": "2"}', ":2: the id 'a' is already used"),
]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("read", "content", "message"), BROKEN)
def test_broken_files_say_where_and_what(
    read: Callable[[str], object],
    content: str,
    message: str,
    packed: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    raw = content.encode()
    Path("data.txt").write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(FormatError) as caught:
        read("data.txt")
    assert str(caught.value) == f"data.txt{message}"


def test_a_file_may_be_packed_by_bzip2(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_bytes(bz2.compress(b"1 qid:1 1:0.5 3:1 \n2 qid:1 2:1\n"))
    rows = read_letor(file, dense=True)
    assert (rows.X.tolist(), rows.y.tolist()) == ([[0.5, 0, 1], [0, 1, 0]], [1, 2])
    file.write_bytes(b"BZh9 qid:1 1:1\n")  # a text that begins like one
    with pytest.raises(FormatError, match=":1: grade 'BZh9'; a whole number"):
        read_letor(file)


@pytest.mark.parametrize("read", [read_qrels, read_run, read_table, read_queries, read_letor])
def test_every_reader_checks_encoding_and_packing(read: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    content = b"id,text\nid 1:1\n" if read in (read_table, read_queries) else b"1 qid:1 1:1\n"
    file.write_bytes(b"\xff" + content)
    with pytest.raises(FormatError, match=r"data\.txt:1: byte 0xff at offset 0 is not UTF-8; convert"):
        read(file)
    file.write_bytes(gzip.compress(content)[:-4])
    with pytest.raises(FormatError, match=r"data\.txt(:\d)?: the gzip data ends in the middle"):
        read(file)
    file.write_bytes(bz2.compress(content)[:-4])
    with pytest.raises(FormatError, match=r"data\.txt(:\d)?: the bzip2 data ends in the middle"):
        read(file)
    packed = bz2.compress(content)
    file.write_bytes(packed[:10] + bytes(4) + packed[14:])  # its checksum
    with pytest.raises(FormatError, match=r"data\.txt(:\d)?: the bzip2 data is damaged \(Invalid data stream\)"):
        read(file)
    with pytest.raises(FormatError, match="there is no such file"):
        read(tmp_path / "nothing")
    with pytest.raises(FormatError, match="this is a folder"):
        read(tmp_path)


def test_a_feature_beyond_what_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1 qid:1 1:1\n1 qid:1 7:1\n")
    with pytest.raises(FormatError, match=r"f:2: feature id 7; n_features=6 was asked for"):
        read_letor(tmp_path / "f", n_features=6)
    assert read_letor(tmp_path / "f", n_features=9).X.shape == (2, 9)
    with pytest.raises(InputError, match=r"n_features must be an integer from 1 to 2147483647; got 0"):
        read_letor(tmp_path / "f", n_features=0)


GOOD_FOLDER = {
    "corpus.jsonl": '{"_id": "d", "text": "a text"}\n',
    "queries.jsonl": '{"_id": "q", "text": "words"}\n',
    "qrels/train.tsv": HEADER + "q\td\t1\n",
}
LAYOUT = "a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/*.tsv, plain or with .gz"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus.jsonl": None}, f"beir/corpus.jsonl: there is no such file; {LAYOUT}"),
        ({"queries.jsonl": None}, f"beir/queries.jsonl: there is no such file; {LAYOUT}"),
        ({"qrels/train.tsv": None}, f"beir/qrels: there is no file of judgements, *.tsv, here; {LAYOUT}"),
        ({"corpus.jsonl.gz": ""}, "beir: both corpus.jsonl and corpus.jsonl.gz are here; remove one of them"),
        (
            {"qrels/train.tsv.gz": ""},
            "beir/qrels: both train.tsv and train.tsv.gz are here; remove one of them",
        ),
        (
            {"qrels/train.tsv": HEADER + "q\td\t1\nx\td\t1\n"},
            "beir/qrels/train.tsv:3: query 'x' is not among the queries, neither as an id nor as a text",
        ),
        (
            {"qrels/dev.tsv": HEADER + "q\td\t1\nq\tD\t1\n"},
            "beir/qrels/dev.tsv:3: document 'D' is not among the documents",
        ),
        ({"qrels/dev.tsv": HEADER}, "beir/qrels/dev.tsv: the table has no rows"),
    ],
)
def test_broken_beir_folders_name_the_file(
    changes: dict[str, str | None], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in {**GOOD_FOLDER, **changes}.items():
        file = Path("beir", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            file.write_text(content)
    with pytest.raises(FormatError) as caught:
        read_beir("beir")
    assert str(caught.value) == message


def test_a_beir_folder_that_is_not_there() -> None:
    with pytest.raises(FormatError, match="no/folder: there is no such folder; a BEIR folder holds"):
        read_beir("no/folder")
