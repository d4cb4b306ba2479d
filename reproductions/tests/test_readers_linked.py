"""Readers of Wikispeedia and the Kyoto articles: content, removed parts, errors of broken copies."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproductions.readers import read_kyoto, read_wikispeedia, wikispeedia
from reproductions.readers.wikispeedia import GRAPH, TEXTS
from support.linked_corpus import article
from tercet.errors import FormatError

COMMENTS = "# The list of all things.\n# FORMAT:   a   b\n#\n\n"


FILES: dict[str, bytes] = {
    f"{TEXTS}/%C3%85land.txt": article("Åland", "   Islands near Finland.\n\n   Many of them."),
    f"{TEXTS}/AC%2FDC.txt": article("AC/DC", '   They said it is "Retrieved from " something.'),
    f"{TEXTS}/Zebra.txt": article("Zebra", "   Striped."),
    f"{GRAPH}/articles.tsv": f"{COMMENTS}Zebra\n%C3%85land\nFinland\nAC%2FDC\n".encode(),
    f"{GRAPH}/links.tsv": (
        f"{COMMENTS}Zebra\tAC%2FDC\n%C3%85land\tZebra\r\nZebra\t%C3%85land\nZebra\tZebra\nZebra\tAC%2FDC\n"
        "%C3%85land\tFinland\nFinland\tZebra\n"
    ).encode(),
    f"{GRAPH}/categories.tsv": b"not looked at",
}


def archive(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return gzip.compress(packed.getvalue(), mtime=0)  # the bytes name a test, whose name must not tell the time


def unpacked(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


class TestWikispeedia:
    def check(self, read: wikispeedia.LinkedTexts) -> None:
        assert read.ids == ("Zebra", "Åland", "AC/DC")
        assert read.links.dtype == np.int64
        assert read.links.tolist() == [[0, 1], [0, 2], [1, 0]]
        assert len(read) == 3
        assert read.texts == (
            "Zebra\n\n   Striped.",
            "Åland\n\n   Islands near Finland.\n\n   Many of them.",
            'AC/DC\n\n   They said it is "Retrieved from " something.',
        )

    def test_is_the_same_packed_and_unpacked(self, tmp_path):
        self.check(read_wikispeedia(unpacked(tmp_path / "folder", FILES)))
        packed = unpacked(tmp_path / "packed", {"wikispeedia.tar.gz": archive(FILES)})
        self.check(read_wikispeedia(packed))
        self.check(read_wikispeedia(packed / "wikispeedia.tar.gz"))
        dotted = archive({f"./{name}": content for name, content in reversed(FILES.items())})
        (tmp_path / "plain.tar").write_bytes(gzip.decompress(dotted))
        self.check(read_wikispeedia(tmp_path / "plain.tar"))

    def test_a_gzipped_file_of_a_folder_is_unpacked(self, tmp_path):
        self.check(read_wikispeedia(unpacked(tmp_path, {name: gzip.compress(file) for name, file in FILES.items()})))

    def test_takes_nothing_else_from_an_archive_and_writes_nothing(self, tmp_path):
        others = {
            f"{TEXTS}/._Zebra.txt": b"\xff",
            f"deeper/{TEXTS}/Zebra.txt": b"no",
        }
        file = tmp_path / "in" / "w.tar.gz"
        file.parent.mkdir()
        file.write_bytes(archive(others | FILES))
        self.check(read_wikispeedia(file))
        assert [path.name for path in tmp_path.rglob("*")] == ["in", "w.tar.gz"]

    def test_a_text_without_what_every_article_has_is_kept_whole(self, tmp_path):
        bare = FILES | {f"{TEXTS}/Zebra.txt": b'Only this. Retrieved from "nowhere".'}
        assert read_wikispeedia(unpacked(tmp_path, bare)).texts[0] == 'Only this. Retrieved from "nowhere".'

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({f"{GRAPH}/links.tsv": b"# c\n\nZebra\n"}, r"links.tsv:3: 1 columns; 2 are needed"),
            ({f"{GRAPH}/links.tsv": b"Zebra\tUnicorn\n"}, "links.tsv:1: the article 'Unicorn' is not listed"),
            ({f"{GRAPH}/links.tsv": b"Zebra\tZebra\n\xff"}, "links.tsv:2: byte 0xff is not UTF-8"),
            ({f"{GRAPH}/articles.tsv": b"Zebra\t1\n"}, r"articles.tsv:1: 2 columns; 1 are needed"),
            ({f"{TEXTS}/Zebra.txt": b"a\n\xff"}, "Zebra.txt:2: byte 0xff is not UTF-8"),
        ],
    )
    def test_broken_contents(self, tmp_path, changes, message):
        (tmp_path / "w.tar.gz").write_bytes(archive(FILES | changes))
        for path in (tmp_path / "w.tar.gz", unpacked(tmp_path / "folder", FILES | changes)):
            with pytest.raises(FormatError, match=message):
                read_wikispeedia(path)

    def test_missing_parts(self, tmp_path):
        for path in (tmp_path, tmp_path / "nowhere"):
            with pytest.raises(FormatError, match="there are no texts here; Wikispeedia is"):
                read_wikispeedia(path)
        without = {name: content for name, content in FILES.items() if "links" not in name}
        with pytest.raises(FormatError, match=rf"{GRAPH}/links\.tsv is missing"):
            read_wikispeedia(unpacked(tmp_path / "b", without))

    @pytest.mark.parametrize("content", [archive(FILES)[:-30], gzip.compress(b"no tar" * 200, mtime=0)])
    def test_broken_archives(self, tmp_path, content):
        (tmp_path / "w.tar.gz").write_bytes(content)
        with pytest.raises(FormatError, match="the tar archive is broken"):
            read_wikispeedia(tmp_path / "w.tar.gz")

    @settings(deadline=None, max_examples=20)
    @given(
        names=st.lists(st.text("aé/ %.~", min_size=1, max_size=6), min_size=1, max_size=6, unique=True),
        data=st.data(),
    )
    def test_any_names_and_links_come_back(self, tmp_path_factory, names, data):
        ends = st.integers(0, len(names) - 1)
        links = data.draw(st.lists(st.tuples(ends, ends), max_size=12))
        files = {f"{TEXTS}/{quote(name, safe='')}.txt": f"text {at}".encode() for at, name in enumerate(names)}
        rows = "".join(f"{quote(names[a])}\t{quote(names[b])}\n" for a, b in links)
        files[f"{GRAPH}/links.tsv"] = rows.encode()
        files[f"{GRAPH}/articles.tsv"] = "".join(f"{quote(name)}\n" for name in names).encode()
        file = tmp_path_factory.mktemp("w") / "w.tar.gz"
        file.write_bytes(archive(files))
        read = read_wikispeedia(file)
        assert read.ids == tuple(names)
        assert read.texts == tuple(f"text {at}" for at in range(len(names)))
        assert list(map(tuple, read.links.tolist())) == sorted({(a, b) for a, b in links if a != b})
        assert read.links.shape[1] == 2


TRANSLATIONS: list[dict[str, Any]] = [
    {
        "id": "A1",
        "category": "BDS",
        "title_ja": "禅",
        "title_en": "Zen",
        "ja": ["座る。", "立つ。"],
        "en": ["Sit.", "Stand."],
    },
    {
        "id": "A2",
        "category": "ROD",
        "title_ja": "道",
        "title_en": "Road",
        "ja": ["長い。"],
        "en": ["", "Long."],
        "more": 1,
    },
]


def jsonl(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


class TestKyoto:
    @pytest.mark.parametrize("name", ["docs.jsonl", "docs.jsonl.gz"])
    def test_reads_file_and_folder(self, tmp_path, name):
        content = jsonl(TRANSLATIONS[0]) + b"\n" + jsonl(TRANSLATIONS[1])
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        translations = read_kyoto(tmp_path)
        assert translations == read_kyoto(tmp_path / name)
        assert len(translations) == 2
        assert translations.ids == ("A1", "A2")
        assert translations.categories == ("BDS", "ROD")
        assert translations.titles_ja == ("禅", "道")
        assert translations.titles_en == ("Zen", "Road")
        assert translations.texts_ja == ("座る。\n立つ。", "長い。")
        assert translations.texts_en == ("Sit.\nStand.", "\nLong.")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (jsonl(TRANSLATIONS[0]) + b"{\n", r":2: an article as JSON is needed"),
            (jsonl(TRANSLATIONS[0]) + b"[]\n", r":2: an article as JSON is needed"),
            (jsonl(TRANSLATIONS[0], TRANSLATIONS[1], TRANSLATIONS[0]), r":3: the article 'A1' is there already"),
            (jsonl(TRANSLATIONS[0] | {"en": ["Sit.", 3]}), r":1: an article as JSON is needed: TypeError"),
            (jsonl({key: TRANSLATIONS[0][key] for key in TRANSLATIONS[0] if key != "en"}), r":1: .*KeyError\('en'\)"),
            (jsonl(TRANSLATIONS[0]) + b"\xff\n", r":2: byte 0xff"),
            (b"\n", r": the file holds no articles"),
        ],
    )
    def test_broken_lines(self, tmp_path, content, message):
        (tmp_path / "docs.jsonl").write_bytes(content)
        with pytest.raises(FormatError, match=r"docs\.jsonl" + message):
            read_kyoto(tmp_path)

    def test_a_missing_file_is_named(self, tmp_path):
        for path in (tmp_path, tmp_path / "nowhere.gz"):
            with pytest.raises(FormatError, match="there is no such file"):
                read_kyoto(path)
