"""Tell kinds of data apart by their content."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from tercet.data.recognition import recognize
from tercet.errors import FormatError, InputError

BEIR = {
    "corpus.jsonl": b'{"_id": "d", "text": "t"}\n',
    "queries.jsonl": b'{"_id": "q", "text": "t"}\n',
    "qrels/train.tsv": b"query-id\tcorpus-id\tscore\nq\td\t1\n",
}
IMAGES = b"\0\0\x08\x03" + bytes(12)


def packed_posts(name: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    return gzip.compress(stream.getvalue(), mtime=0)  # the bytes name a test, whose name must not tell the time


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"2 qid:1 1:0.5 3:1 # doc\n0 qid:1\n", "letor"),
        (b"# all of them\n2 qid:\xc3\xa9 1:0.5\r\n", "letor"),
        (b"\n# made by hand\n-1 1:0.5\n", "letor"),
        (b"1 2:3 4:5 6:7\n", "letor"),
        (b"query-id\tcorpus-id\tscore\r\nq\td\t1\r\n", "qrels"),
        (b"q 0 d 1\nq 0 e 0\n", "qrels"),
        (b"q\t0\td\t1\n", "qrels"),
        (b"q 1 d -1\n", "qrels"),
        (b"q Q0 d 1 2.5 tag\nq Q0 e 2 1 tag\n", "run"),
        (b"query-id\tbetter-id\tworse-id\nq\t1\t2\n", "triplets"),
        (b"query-id\tbetter-id\tworse-id\tweight\nq\t0\t2\t1\n", "triplets"),
        (b"query-id\tbetter-id\tworse-id\tmargin\nq\t0\t2\t1\n", "triplets"),
        (b'{"query": "q", "better": "a", "worse": "b"}\n', "triplets"),
        (b"query-id\tshown-ids\tclicked-ids\nq\t1 2\t2\n", "click-log"),
        (b'{"_id": "a", "text": "b"}', "documents"),
        (b"sku;name;rating;keywords\n7;tea;3;hot\n", "documents"),
        (b"query,product_id,label\ntea,7,3\n", "judgements"),
        (b"search term\tsku\tgrade\ntea\t7\t3\n", "judgements"),
        (b"query\tbetter\tworse\ntea\t7\t8\n", "triplets"),
        (b'{"q": "tea", "winner": 7, "loser": 8}', "triplets"),
        (b"source\ttarget\na\tb\n", "links"),
        (b"Type,Source,Destination,Anchor\na,/b,/c,see\n", "links"),
        (b'{"FromNodeId": 7, "ToNodeId": 8}', "links"),
        (b'{"id": "a", "links": ["b", "c"]}', "links"),
        (b"id,from,to,subject,body\n1,a,b,hello,there\n", "documents"),  # mail
        ("id,text\n1,café\n".encode("utf-16"), "documents"),
        (packed_posts("20news-bydate-train/sci.space/1"), "20newsgroups"),
        (packed_posts("./20news-bydate-test/sci.space/1"), "20newsgroups"),
        (packed_posts("QueryLevelNorm/Fold1/train.txt"), "letor-folds"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_files(tmp_path: Path, content: bytes, kind: str, packed: bool) -> None:
    plain = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    (tmp_path / "mystery").write_bytes(gzip.compress(plain) if packed else plain)
    assert recognize(tmp_path / "mystery") == kind


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (BEIR, "beir"),
        ({**BEIR, "index/part": b"x", "README": b""}, "beir"),
        ({"corpus.jsonl.gz": gzip.compress(BEIR["corpus.jsonl"])}, "beir"),
        ({"20news-bydate-train/a/1": b"", "20news-bydate-test/a/1": b""}, "20newsgroups"),
        ({f"Fold1/{part}": b"1 qid:1 1:1" for part in ("train.txt", "vali.txt.gz", "test.txt")}, "letor-folds"),
        ({"a/1": b"caf\xe9", "b/1": b"text", ".git/x": b"\0", "README": b"\0"}, "labeled-folder"),
    ],
)
def test_folders(tmp_path: Path, files: dict[str, bytes], kind: str) -> None:
    fill(tmp_path, files)
    assert recognize(tmp_path) == kind


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty; looked for grade qid:id feature:value lines"),
        (b"12\n13\n", "of no known kind; looked for grade qid:id feature:value lines"),
        (b"1:1 2:1\n", "of no known kind"),
        (b"a b\nc d\n", "of no known kind"),
        (b"q a b\n", "of no known kind"),
        (b'{"a": 1}', "a table of no known kind, with the columns a; documents have an id and a text"),
        (b"no,what\n1,tea\n", "a table of no known kind, with the columns no, what; documents have an id and a text"),
        (IMAGES, "this is not a text file; looked for"),
        (b"PK\x03\x04\0\0", "this is not a text file but a zip archive, as workbooks are; save a table as CSV"),
        (b"id,text,text\n1,a,b\n", "the columns 2 and 3 are both called 'text'"),
        (b'[{"id": 1, "text": "tea"}]', "this is a JSON array; a table has one object a line"),
        # Its id must not be its bytes, which hold the time: processes that share the tests would disagree on them.
        pytest.param(packed_posts("articles/1"), "an archive of no known kind; only 20 Newsgroups", id="archive"),
    ],
)
def test_files_of_no_kind_say_what_was_looked_for(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "mystery").write_bytes(content)
    with pytest.raises(InputError, match=rf"mystery(:1)?: .*{message}"):
        recognize(tmp_path / "mystery")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"a/1": b"text"},
        {"a/1": b"text", "b/c/1": b"text"},
        {"a/1": b"text", "b/1": b"\0\1"},
        {"a/1": b"text", "b/.hidden": b"text"},
        {"Fold1/train.txt": b"1 qid:1 1:1\n", "Fold2/train.txt": b"0 qid:1 1:1\n"},
        {"corpus.jsonl": b""},
        {"corpus.jsonl": b'{"id": 1}'},
        {"train-images-idx3-ubyte": IMAGES},
        {"20news-bydate-train/a/1": b""},
    ],
)
def test_folders_of_no_kind_say_what_was_looked_for(tmp_path: Path, files: dict[str, bytes]) -> None:
    fill(tmp_path, files)
    with pytest.raises(InputError, match=r"this folder is of no known kind; looked for corpus\.jsonl with"):
        recognize(tmp_path)


def test_folders_of_two_kinds_are_ambiguous(tmp_path: Path) -> None:
    fill(tmp_path, {**BEIR, "20news-bydate-train/a/1": b"", "20news-bydate-test/a/1": b""})
    with pytest.raises(InputError, match="this could be beir or 20newsgroups; give a folder that holds one of them"):
        recognize(tmp_path)


def test_what_is_broken_is_said_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing: there is no such file or folder"):
        recognize(tmp_path / "nothing")
    (tmp_path / "f").write_bytes(b"q\xe9 0 d 1\n")
    with pytest.raises(FormatError, match=r"f:1: byte 0xe9 at offset 1 is not UTF-8"):
        recognize(tmp_path / "f")
    (tmp_path / "f").write_bytes("q 0 d 1\n".encode("utf-16"))
    with pytest.raises(FormatError, match=r"f:1: the file is UTF-16"):
        recognize(tmp_path / "f")
    (tmp_path / "f").write_bytes(gzip.compress(b"q 0 d 1\n")[:-5])
    with pytest.raises(FormatError, match="the gzip data ends in the middle"):
        recognize(tmp_path / "f")
