"""Files of preferences: which are meant, and what is refused."""

from __future__ import annotations

import gzip
import os

import pytest

from tercet.data import read_preferences
from tercet.data.preference_files import preference_paths
from tercet.errors import FormatError, InputError


def test_folders_patterns_and_lists_of_files(tmp_path):
    for name in ("b.tsv", "a.jsonl", "c.tsv.gz", "d.parquet", "notes.txt", ".hidden.tsv"):
        (tmp_path / name).write_text("")

    def names(paths):
        return [path.name for path in preference_paths(paths)]

    assert names(tmp_path) == ["a.jsonl", "b.tsv", "c.tsv.gz", "d.parquet"]
    assert names(str(tmp_path / "*.tsv*")) == ["b.tsv", "c.tsv.gz"]
    assert names([tmp_path / "c.tsv.gz", tmp_path / "b.tsv"]) == ["c.tsv.gz", "b.tsv"]
    (tmp_path / "empty").mkdir()
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".a.tsv").write_text("q1\td1\td2\n")
    os.mkfifo(tmp_path / "pipe")
    for paths, message in (
        ([], "paths is empty"),
        (tmp_path / "empty", "holds no file that ends in"),
        (tmp_path / "hidden", "holds no file that ends in"),
        (str(tmp_path / "*.csv"), "no file matches"),
        (tmp_path / "pipe", "is a pipe or a device; a file is needed"),
    ):
        with pytest.raises(InputError, match=message):
            preference_paths(paths)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q\ta\tb\nq\ta\n", r"p\.tsv:2: 2 columns"),
        ("q\ta\tb\nq\ta\ta\n", r"p\.tsv:2: better and worse are both 'a'"),
        ("q\ta\tb\nq\t\ta\n", r"p\.tsv:2: the better document's id is empty"),
        ("q\ta\tb\t1\nq\ta\tb\t-1\n", r"p\.tsv:2: weight -1.0; a positive"),
        ("q\ta\tb\t1\nq\ta\tb\t1_0\n", r"p\.tsv:2: weight '1_0'; a number in plain digits"),
        ("q\ta\tb\t1\nq\ta\tb\n", r"p\.tsv:2: no weight here and one on the lines before"),
        ("q\ta\tb\n" * 5 + "q\ta\tb\t1\n", r"p\.tsv:6: a weight here and none on the lines before"),
        ("", "the file holds no preferences"),
        ("query-id\tbetter-id\tworse-id\n", "the file holds no preferences"),
    ],
)
def test_broken_files_are_refused_with_their_line(text, message, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        read_preferences(path)


def test_a_damaged_gzip_file_is_told(tmp_path):
    path = tmp_path / "p.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"q{n}\ta\tb\n" for n in range(5000)).encode())[:-40])
    with pytest.raises(FormatError, match="the gzip data ends in the middle"):
        read_preferences(path)
