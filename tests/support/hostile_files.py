"""Files made to take a reader's time or memory: each can be written in any size, with what it is read by."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tercet import data
from tercet.data.clicks import click_preferences
from tercet.data.judgements import read_judgements

MEGABYTE = 1 << 20


class Attack(NamedTuple):
    """What is written, in so many ids, rows or megabytes, what it is read by, and how that ends; None: without error.

    ``quick`` and ``large`` are sizes for a test and for a measurement.
    """

    write: Callable[[Path, int], Path]
    read: Callable[[Path], Any]
    ends: str | None
    quick: int
    large: int


def _written(path: Path, *parts: str | bytes) -> Path:
    with open(path, "wb") as stream:
        for part in parts:
            stream.write(part.encode() if isinstance(part, str) else part)
    return path


def _ids(count: int) -> list[str]:
    return [f"d{number}" for number in range(count)]


def _clicks(folder: Path, count: int) -> Path:
    ids = _ids(count)
    lists = f"q\t{' '.join(ids)}\t{' '.join(ids[count // 2 :])}\n"
    return _written(folder / "clicks.tsv", "query-id\tshown-ids\tclicked-ids\n", lists)


def _repeated_id(folder: Path, count: int) -> Path:
    shown = " ".join([*_ids(count), f"d{count - 1}"])
    return _written(folder / "clicks.tsv", f"query-id\tshown-ids\tclicked-ids\nq\t{shown}\t\n")


def _repeated_key(folder: Path, count: int) -> Path:
    keys = [f'"k{number}":1' for number in [*range(count), count - 1]]
    return _written(folder / "rows.jsonl", "{", ",".join(keys), "}\n")


def _deep_json(folder: Path, count: int) -> Path:
    return _written(folder / "rows.jsonl", '{"id":"1","text":', "[" * count, "]" * count, "}\n")


def _many_values(folder: Path, megabytes: int) -> Path:
    numbers = "1.5," * (megabytes * MEGABYTE // 4)
    return _written(folder / "rows.jsonl", '{"id":"1","text":"a","x":[', numbers, "1]}\n")


def _long_line(folder: Path, megabytes: int) -> Path:
    return _written(folder / "long.txt", b"q 0 d1 1\n", *[b"x" * MEGABYTE] * megabytes)


def _long_line_latin(folder: Path, megabytes: int) -> Path:
    return _written(folder / "long.csv", b"id,text\n1,\xe9", *[b"x" * MEGABYTE] * megabytes)


def _open_quote(folder: Path, megabytes: int) -> Path:
    return _written(folder / "open.csv", 'id,text\n1,"', *["two words " * (MEGABYTE // 10) + "\n"] * megabytes)


def _many_cells(folder: Path, megabytes: int) -> Path:
    return _written(folder / "wide.csv", "id,text\n", "ab," * (megabytes * MEGABYTE // 3), "\n")


def _gzip_bomb(folder: Path, megabytes: int) -> Path:
    # Members of gzip may follow each other, so a large bomb need not be compressed as a whole.
    row = b'{"_id": "1", "text": "%s"}\n' % (b"tea " * 25_000)
    return _written(folder / "corpus.jsonl.gz", *[gzip.compress(row * (MEGABYTE // len(row)))] * megabytes)


def _bzip2_bomb(folder: Path, megabytes: int) -> Path:
    return _written(folder / "qrels.bz2", *[bz2.compress((b"q 0 %s 1\n" % (b"d" * 100_000)) * 10)] * megabytes)


def _packed_text(folder: Path, megabytes: int) -> Path:
    for label in ("cats", "dogs"):
        (folder / "texts" / label).mkdir(parents=True, exist_ok=True)
        _written(folder / "texts" / label / "1.txt", f"about {label}")
    _written(folder / "texts" / "cats" / "2.txt", *[gzip.compress(b"a " * (MEGABYTE // 2))] * megabytes)
    return folder / "texts"


def tar_block(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, linkname: str = "") -> bytes:
    """The header of a member, as bytes."""
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, size, linkname
    return member.tobuf(tarfile.GNU_FORMAT)


def _tar_header(folder: Path, megabytes: int) -> Path:
    header = tar_block("x", tarfile.GNUTYPE_LONGNAME, megabytes * MEGABYTE)
    content = [gzip.compress(b"a" * MEGABYTE)] * megabytes
    return _written(folder / "posts.tar.gz", gzip.compress(header), *content, gzip.compress(tar_block("a")))


def _tar_chain(folder: Path, count: int) -> Path:
    long_name = tar_block("x", tarfile.GNUTYPE_LONGNAME, 5) + b"name\0".ljust(512, b"\0")
    return _written(folder / "posts.tar", long_name * count, tar_block("a"), bytes(1024))


def _key_a_row(folder: Path, count: int) -> Path:
    return _written(folder / "rows.jsonl", *(f'{{"id":"{i}","text":"a","k{i}":1}}\n' for i in range(count)))


def _wide_then_narrow(folder: Path, count: int) -> Path:
    wide = ",".join(f'"k{i}":1' for i in range(9_000))
    rows = (f'{{"_id":"{i}","text":"a"}}\n' for i in range(count))
    return _written(folder / "corpus.jsonl", f'{{"_id":"x","text":"a",{wide}}}\n', *rows)


def _one_text(folder: Path, count: int) -> Path:
    rows = (f"tea,d{number},1\n" for number in range(count))
    return _written(folder / "judged.csv", "query,doc,grade\n", *rows)


def _one_list(folder: Path, count: int) -> Path:
    rows = (f"1,tea,{number},d{number},1\n" for number in range(count))
    return _written(folder / "clicks.csv", "session,query,position,doc,clicked\n", *rows)


def _one_session(folder: Path, count: int) -> Path:
    rows = (f"1,tea,{number % 2},d{number % 2},1\n" for number in range(count))
    return _written(folder / "clicks.csv", "session,query,position,doc,clicked\n", *rows)


def _long_number(folder: Path, megabytes: int) -> Path:
    return _written(folder / "run.txt", "q Q0 d 1 ", "9x" * (megabytes * MEGABYTE // 2), " tag\n")


def _preferences_of_clicks(path: Path) -> Any:
    return [
        click_preferences(impression.shown, impression.clicked) for impression in data.read_click_log(path).impressions
    ]


def _judged_by_text(path: Path) -> Any:
    return read_judgements(path, {f"q{number}": "tea" for number in range(5_000)})


ATTACKS = {
    "a list of clicks, half of it clicked": Attack(_clicks, _preferences_of_clicks, None, 20_000, 130_000),
    "a list that shows an id twice": Attack(_repeated_id, data.read_click_log, "is shown twice", 50_000, 250_000),
    "a JSON key twice": Attack(_repeated_key, lambda path: list(data.iter_rows(path)), "occurs twice", 50_000, 250_000),
    "JSON arrays inside each other": Attack(_deep_json, data.read_table, "nested deeper than 100", 10_000, 5_000_000),
    "a JSON array of numbers": Attack(_many_values, data.read_table, "more than 262,144 elements", 3, 15),
    "a line without an end": Attack(_long_line, data.read_qrels, "longer than 16,777,216 bytes", 17, 100),
    "a line without an end, Latin-1": Attack(
        _long_line_latin, lambda path: data.read_table(path, encoding="latin-1"), "longer than 16,777,216", 17, 100
    ),
    "a line of features without an end": Attack(_long_line, data.read_letor, "grade|number|longer", 17, 100),
    "a quote that is not closed": Attack(_open_quote, data.read_table, "the record is longer than", 18, 100),
    "a record of many cells": Attack(_many_cells, data.read_table, "more than 262,144 cells", 3, 15),
    "a gzip bomb": Attack(
        _gzip_bomb, lambda path: sum(1 for _ in data.iter_rows(path)), "more than 100 times", 120, 3_000
    ),
    "a bzip2 bomb": Attack(_bzip2_bomb, data.read_qrels, "more than 100 times", 120, 3_000),
    "a packed text in a labeled folder": Attack(
        _packed_text, data.read_labeled_folder, "longer than 16,777,216 bytes", 40, 8_000
    ),
    "a tar header": Attack(_tar_header, data.read_20newsgroups, "a header of 41,943,040 bytes", 40, 3_000),
    "tar headers of headers": Attack(_tar_chain, data.read_20newsgroups, "broken", 2_000, 100_000),
    "a key of its own in each row": Attack(_key_a_row, data.read_table, "10,001 columns or more", 12_000, 1_000_000),
    "a wide row before narrow ones": Attack(_wide_then_narrow, data.read_table, None, 3_000, 100_000),
    "many queries of one text": Attack(_one_text, _judged_by_text, "5,000 queries have the text 'tea'", 1_000, 100_000),
    "one list of many rows": Attack(_one_list, data.read_click_log, None, 20_000, 500_000),
    "one session of many lists": Attack(_one_session, data.read_click_log, None, 20_000, 500_000),
    "a number of many digits": Attack(_long_number, data.read_run, "a number is needed", 1, 15),
}


def tar_of(*members: tuple[str, bytes]) -> bytes:
    """An archive of files by name."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()
