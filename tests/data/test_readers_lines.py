"""Opening, lines, numbers, ids and atomic writing: what every reader relies on."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.data import limits
from tercet.data.lines import (
    open_bytes,
    open_lines,
    parse_float,
    parse_int,
    parse_json_object,
    split_columns,
    write_atomically,
)
from tercet.errors import FormatError, InputError


@settings(deadline=None, max_examples=50)
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")), min_size=1),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    packed=st.booleans(),
    ended=st.booleans(),
)
def test_lines_come_back_whatever_the_packing(
    texts: list[str], end: str, mark: bool, packed: bool, ended: bool
) -> None:
    if texts[0].startswith("\ufeff") or not texts[-1]:
        texts = ["first", *texts, "last"]
    content = b"\xef\xbb\xbf" * mark + (end.join(texts) + end * ended).encode()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "no-suffix-that-tells")
        file.write_bytes(gzip.compress(content) if packed else content)
        assert list(open_lines(file)) == list(enumerate(texts, start=1))


def test_only_the_newline_ends_a_line(tmp_path: Path) -> None:
    # str.splitlines would cut at each of these, and with it an id or a text.
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    (tmp_path / "f").write_bytes(text.encode() + b"\n")
    assert list(open_lines(tmp_path / "f")) == [(1, text)]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    assert list(open_lines(tmp_path / "f")) == []


def test_gzip_members_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(gzip.compress(b"a\n") + gzip.compress(b"b\n"))
    assert list(open_lines(tmp_path / "f")) == [(1, "a"), (2, "b")]


def test_wrong_bytes_are_named_with_line_and_offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = b"\xef\xbb\xbfplain\r\ncaf\xe9\n"
    Path("latin.txt").write_bytes(content)
    with pytest.raises(FormatError) as caught:
        list(open_lines("latin.txt"))
    assert str(caught.value) == (
        "latin.txt:2: byte 0xe9 at offset 13 is not UTF-8; "
        "convert the file, for instance from Latin-1: iconv -f LATIN1 -t UTF-8"
    )
    assert content[13] == 0xE9
    Path("wide.txt").write_bytes("q1".encode("utf-16"))
    with pytest.raises(FormatError, match=r"^wide\.txt:1: the file is UTF-16; convert it"):
        list(open_lines("wide.txt"))


@pytest.mark.parametrize("kept", [2, 5, 12, -9, -1])
def test_truncated_gzip_is_an_error_wherever_it_ends(tmp_path: Path, kept: int) -> None:
    packed = gzip.compress(os.urandom(500).hex().encode() + b"\nsecond\n", mtime=0)
    (tmp_path / "f.gz").write_bytes(packed[:kept])
    with pytest.raises(FormatError, match=r"f\.gz:\d: the gzip data ends in the middle"):
        list(open_lines(tmp_path / "f.gz"))


def test_damaged_gzip_is_an_error_with_the_line_reached(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"one\ntwo\n", mtime=0))
    packed[-6] ^= 0xFF  # the checksum
    (tmp_path / "f.gz").write_bytes(packed)
    with pytest.raises(FormatError, match=r"f\.gz:\d: the gzip data is damaged \(CRC check failed"):
        list(open_lines(tmp_path / "f.gz"))
    with (
        pytest.raises(FormatError, match=r"f\.gz: the gzip data is damaged"),
        open_bytes(tmp_path / "f.gz") as s,
    ):
        s.read()


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nothing\.txt: there is no such file"):
        list(open_lines(tmp_path / "nothing.txt"))
    with pytest.raises(FormatError, match="this is a folder; a file is needed"):
        list(open_lines(tmp_path))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONGEST_LINE", 100)
    (tmp_path / "f").write_bytes(b"x" * 99 + b"\n" + b"y" * 101)
    with pytest.raises(FormatError, match=r"f:2: the line is longer than 100 bytes"):
        list(open_lines(tmp_path / "f"))


@pytest.mark.parametrize("text", ["nan", "-inf", "Infinity", "1e999", "1_000", "١", "", "0x1p3", "1,5"])
def test_parse_float_takes_finite_plain_numbers_only(text: str) -> None:
    with pytest.raises(FormatError, match=r"^f:3: score '.*'; a .*number.* is needed$"):
        parse_float(text, "f", 3, "score")


@pytest.mark.parametrize("text", ["1.0", "1_0", "²", "١", "", "9" * 5000, str(2**63), "1e3"])
def test_parse_int_takes_whole_plain_numbers_only(text: str) -> None:
    with pytest.raises(FormatError, match=r"^f:3: grade .*; a whole number.* is needed$"):
        parse_int(text, "f", 3, "grade")


@settings(deadline=None, max_examples=50)
@given(value=st.floats(allow_nan=False, allow_infinity=False), whole=st.integers(-(2**63), 2**63 - 1))
def test_numbers_come_back_exactly(value: float, whole: int) -> None:
    assert parse_float(repr(value), "f", 1, "score") == value
    assert parse_int(str(whole), "f", 1, "grade") == whole


def test_columns_are_split_at_ascii_blanks_only() -> None:
    assert split_columns(" q1\t0  d\u00a01\u30002 1 ") == ["q1", "0", "d\u00a01\u30002", "1"]
    assert split_columns("\u00e9".join(["", ""]) + " ") == ["\u00e9"]
    assert split_columns(" \t ") == []


def test_a_repeated_json_key_counts_at_the_top_only() -> None:
    assert parse_json_object('{"a": {"b": 1, "b": 2}, "c": 1}', "f", 1)["c"] == 1
    with pytest.raises(FormatError, match='f:1: the key "a" occurs twice'):
        parse_json_object('{"a": 1, "a": {"b": 2}}', "f", 1)


@pytest.mark.parametrize("name", ["plain.txt", "packed.txt.gz"])
def test_writing_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    with write_atomically(file) as stream:
        stream.write("old\n")
    before = file.read_bytes()
    with pytest.raises(TypeError), write_atomically(file) as stream:
        stream.writelines(["new\n" * 100_000, None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="half a surrogate pair"), write_atomically(file) as stream:
        stream.write("a\ud800b")
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    assert [text for _, text in open_lines(file)] == ["old"]


def test_the_name_appears_only_when_all_is_written(tmp_path: Path) -> None:
    file = tmp_path / "f.txt"
    with write_atomically(file) as stream:
        stream.write("é\n")
        stream.flush()
        assert not file.exists()
    assert file.read_bytes() == b"\xc3\xa9\n"


def test_packed_files_are_gzip_and_the_same_each_time(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "a.gz") as stream:
        stream.write("text")
    packed = (tmp_path / "a.gz").read_bytes()
    assert packed[3:8] == bytes(5)  # no name and no time in the header
    assert gzip.decompress(packed) == b"text"


def test_writing_goes_through_a_link_and_keeps_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with write_atomically(tmp_path / "link") as stream:
        stream.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "kept").read_text() == "new"
    (tmp_path / "usual").write_text("")
    assert (tmp_path / "kept").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_writing_where_it_cannot_be_is_an_input_error(tmp_path: Path) -> None:
    for position, message in [
        (tmp_path / "no" / "f", "cannot write: No such file or directory"),
        (tmp_path, "cannot write: this is not an ordinary file"),
    ]:
        with pytest.raises(InputError, match=message), write_atomically(position):
            pass


@pytest.mark.parametrize("name", ["run.txt", "run.gz"])
def test_a_full_disk_is_named_with_the_file_and_leaves_the_old_one(name, tmp_path, monkeypatch):
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / name).write_text("old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with (
        pytest.raises(InputError, match=rf"{name}: cannot write: No space left on device"),
        write_atomically(tmp_path / name) as stream,
    ):
        stream.write("new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, "old")]
