"""Good files of every format, and what is particular to folders, archives and binary files."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from tercet.data import labeled, read_qrels, read_run
from tercet.data.beir import read_beir
from tercet.data.labeled import read_20newsgroups, read_labeled_folder
from tercet.data.letor import read_letor
from tercet.data.recognition import recognize
from tercet.data.triplets import read_triplets
from tercet.errors import FormatError, InputError


def test_a_beir_folder_as_it_is_published(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    corpus = (
        '\ufeff{"_id": "007", "title": "Bond", "text": "A spy.", "metadata": {"url": "x"}}\r\n'
        '{"_id": "7", "title": "", "text": "No title."}\r\n'
        '{"_id": "1e5", "title": null, "text": ""}\n'
        '{"_id": "blank", "title": " ", "text": "t"}'
    )
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(corpus.encode()))
    (tmp_path / "queries.jsonl").write_text('{"_id": " q 1", "text": "spy", "split": "train"}\n')
    header = "query-id\tcorpus-id\tscore\r\n"
    (tmp_path / "qrels" / "test.tsv").write_text(header + " q 1\t007\t2\r\n q 1\t1e5\t0\r\n")
    (tmp_path / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(f"{header} q 1\t7\t1\n".encode()))
    (tmp_path / "qrels" / ".hidden.tsv").write_text("not ours")
    (tmp_path / "qrels" / "notes.txt").write_text("not ours")
    read = read_beir(tmp_path)
    assert read.docs == {"007": "Bond\nA spy.", "7": "No title.", "1e5": "", "blank": "t"}
    assert read.queries == {" q 1": "spy"}
    assert read.qrels == {"dev": {" q 1": {"7": 1}}, "test": {" q 1": {"007": 2, "1e5": 0}}}


def test_qrels_and_runs_keep_ids_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("007\t0\td-1\t2\n7  Q0  1e5  -1\n007 0 d-1 2\n")
    assert read_qrels(tmp_path / "qrels") == {"007": {"d-1": 2}, "7": {"1e5": -1}}
    (tmp_path / "run").write_text("007 Q0 1e5 1 2.50 t\n007 Q0 1.0e5 2 -1e-3 t\n")
    assert read_run(tmp_path / "run") == {"007": {"1e5": 2.5, "1.0e5": -0.001}}


@pytest.mark.parametrize(
    "content",
    [
        "query-id\tbetter-id\tworse-id\tweight\nq\ta\tb\t2\nq\tb\tc\t0.5\n",
        '{"worse": "b", "better": "a", "query": "q", "weight": 2}\n'
        '{"query": "q", "better": "b", "worse": "c", "weight": 0.5}',
    ],
)
def test_preferences_with_weights(tmp_path: Path, content: str) -> None:
    (tmp_path / "f").write_text(content)
    assert recognize(tmp_path / "f") == "triplets"
    assert read_triplets(tmp_path / "f").triplets == [("q", "a", "b", 2.0), ("q", "b", "c", 0.5)]


def test_letor_columns_go_up_to_the_largest_id_even_if_its_value_is_zero(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1 qid:1 1:1 9:0\n-1 qid:a\u00a0b 2:1e-60\n", encoding="utf-8")
    read = read_letor(tmp_path / "f")
    assert read.X.shape == (2, 9)
    assert read.X.nnz == 1  # 1e-60 is zero in float32
    assert read.X.has_canonical_format
    assert (read.qid.tolist(), read.comments) == (["1", "a\u00a0b"], None)


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_labeled_folders_are_sorted_and_skip_what_is_hidden(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "b/2.txt": b"b two\r\n",
            "b/10.txt": b"\xef\xbb\xbfb ten",
            "a/x": gzip.compress("é".encode()),
            "a/.DS_Store": b"\0\xff",
            ".git/config": b"\xff",
            "README": b"\xff",
        },
    )
    read = read_labeled_folder(tmp_path)
    assert read.texts == ["é", "b ten", "b two\r\n"]
    assert read.labels == ["a", "b", "b"]
    assert read.names == ["a/x", "b/10.txt", "b/2.txt"]
    assert len(read) == 3


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"README": b""}, "data: there is no text here; a subfolder for each class is needed"),
        ({"a/1": b"", "a/2": b""}, "data: only one class, 'a'; at least two are needed"),
        ({"a/1": b"", "b/.x": b""}, "data/b: the class has no texts; remove the folder or add a file"),
        (
            {"a/1": b"", "b/c/1": b""},
            "data/b/c: this is not a file; a class folder holds a file for each text",
        ),
        (
            {"a/1": b"", "b/1": b"one\ntwo\ncaf\xe9"},
            "data/b/1:3: byte 0xe9 at offset 11 is not utf-8; "
            'name the encoding the texts are in, for instance encoding="latin-1"',
        ),
        (
            {"a/1": b"", "b/1": gzip.compress(b"one")[:-2]},
            "data/b/1: the gzip data ends in the middle; the file is truncated, fetch or compress it again",
        ),
    ],
)
def test_broken_labeled_folders(
    files: dict[str, bytes], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(Path("data"), files)
    with pytest.raises(FormatError) as caught:
        read_labeled_folder("data")
    assert str(caught.value) == message


def test_labeled_folders_in_another_encoding(tmp_path: Path) -> None:
    fill(tmp_path, {"a/1": b"caf\xe9", "b/1": b""})
    assert read_labeled_folder(tmp_path, encoding="latin-1").texts == ["café", ""]
    with pytest.raises(InputError, match="unknown encoding 'martian'"):
        read_labeled_folder(tmp_path, encoding="martian")
    with pytest.raises(InputError, match="unknown encoding 'hex'"):  # which is of bytes
        read_labeled_folder(tmp_path, encoding="hex")
    with pytest.raises(FormatError, match="there is no such folder"):
        read_labeled_folder(tmp_path / "none")


POSTS = {
    f"20news-bydate-{part}/{group}/{name}": f"From: {part}\n{group} {name} \xe9".encode("latin-1")
    for part in ("train", "test")
    for group in ("sci.space", "alt.atheism")
    for name in ("53", "101")
}


def archive(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return stream.getvalue()


def test_20newsgroups_is_the_same_packed_and_extracted(tmp_path: Path) -> None:
    folder = fill(tmp_path / "extracted", POSTS)
    (tmp_path / "packed").write_bytes(gzip.compress(archive({"./" + k: v for k, v in POSTS.items()})))
    (tmp_path / "plain.tar").write_bytes(archive(dict(reversed(POSTS.items()))))
    train, test = read_20newsgroups(folder)
    assert train.names == ["alt.atheism/101", "alt.atheism/53", "sci.space/101", "sci.space/53"]
    assert train.labels == ["alt.atheism"] * 2 + ["sci.space"] * 2
    assert test.texts[0] == "From: test\nalt.atheism 101 é"
    assert read_20newsgroups(tmp_path / "packed") == (train, test)
    assert read_20newsgroups(tmp_path / "plain.tar") == (train, test)


def test_20newsgroups_takes_nothing_else_from_an_archive(tmp_path: Path) -> None:
    others = {
        "20news-bydate-train/sci.space/._53": b"no",
        "README": b"no",
    }
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").write_bytes(archive({**others, **POSTS}, {"link": "/etc/passwd"}))
    train, test = read_20newsgroups(tmp_path / "in" / "f")
    assert len(train) == len(test) == 4
    assert "no" not in train.texts + test.texts
    assert [file.name for file in tmp_path.rglob("*")] == ["in", "f"]


GZIPPED = gzip.compress(archive(POSTS), mtime=0)
LONG = gzip.compress(archive(POSTS) + bytes(1 << 20), mtime=0)  # tar -b 2048 fills the end like this


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GZIPPED[: len(GZIPPED) // 2], "the gzip data ends in the middle"),
        (GZIPPED[:-3], "the gzip data ends in the middle"),
        (GZIPPED[:-6] + b"\0\0" + GZIPPED[-4:], "the gzip data is damaged"),
        (LONG[:-6] + b"\0\0" + LONG[-4:], "the gzip data is damaged"),
        (archive(POSTS)[:700], "the tar archive is broken"),
        (b"hello", "the tar archive is broken"),
        (archive({"README": b""}), r"the archive has no posts 20news-bydate-train/<group>/<file>"),
        (
            archive({k: v for k, v in POSTS.items() if "train" in k}),
            "the archive has no posts 20news-bydate-test",
        ),
        (
            archive(POSTS, {"20news-bydate-train/sci.space/1": "/etc/passwd"}),
            "20news-bydate-train/sci.space/1 in the archive is not an ordinary file",
        ),
    ],
)
def test_broken_20newsgroups_archives(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "20news.tar.gz").write_bytes(content)
    with pytest.raises(FormatError, match=rf"20news\.tar\.gz: {message}"):
        read_20newsgroups(tmp_path / "20news.tar.gz")


def test_20newsgroups_has_bounds_and_no_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("20news-bydate-train/a/1"))
    file.write_bytes(stream.getvalue())
    with pytest.raises(FormatError, match="20news-bydate-train/a/1 is in the archive twice"):
        read_20newsgroups(file)
    file.write_bytes(archive(POSTS))
    monkeypatch.setattr(labeled, "LARGEST_ARCHIVE", 100)
    with pytest.raises(FormatError, match="brings it beyond any real copy"):
        read_20newsgroups(file)
    with pytest.raises(FormatError, match=r"20news-bydate-train: there is no such folder"):
        read_20newsgroups(tmp_path)
