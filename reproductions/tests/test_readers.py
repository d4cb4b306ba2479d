"""Readers of the data sets: content, what is left out, and mentions of titles."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproductions.readers import (
    GRAPH,
    TEXTS,
    LinkedTexts,
    find_mentions,
    make_offsets,
    read_kyoto,
    read_mnist,
    read_parses,
    read_wikispeedia,
)
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


def archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)  # the bytes name a test, whose name must not tell the time


def unpacked(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


class TestWikispeedia:
    def check(self, read: LinkedTexts) -> None:
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

    def test_missing_parts(self, tmp_path):
        for path in (tmp_path, tmp_path / "nowhere"):
            with pytest.raises(FormatError, match="Wikispeedia is"):
                read_wikispeedia(path)

    @pytest.mark.parametrize("content", [archive(FILES)[:-30], gzip.compress(b"no tar" * 200, mtime=0)])
    def test_broken_archives(self, tmp_path, content):
        (tmp_path / "w.tar.gz").write_bytes(content)
        with pytest.raises(FormatError, match="the tar archive is broken"):
            read_wikispeedia(tmp_path / "w.tar.gz")


def test_kyoto(tmp_path):
    record = {"id": "A1", "title_en": "Zen", "ja": ["座る。", "立つ。"], "en": ["Sit.", "Stand."], "more": 1}
    content = (json.dumps(record, ensure_ascii=False) + "\n\n").encode()
    (tmp_path / "docs.jsonl.gz").write_bytes(gzip.compress(content))
    articles = read_kyoto(tmp_path)
    assert articles == read_kyoto(tmp_path / "docs.jsonl.gz")
    assert (articles.ids, articles.titles_en) == (("A1",), ("Zen",))
    assert (articles.texts_ja, articles.texts_en) == (("座る。\n立つ。",), ("Sit.\nStand.",))
    with pytest.raises(FormatError, match="there is no such file"):
        read_kyoto(tmp_path / "nowhere.gz")


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


def test_mnist(tmp_path: Path) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    for name, content in {
        "train-images-idx3-ubyte.gz": gzip.compress(idx(pixels)),
        "train-labels-idx1-ubyte": idx(np.array([5, 0], np.uint8)),
        "t10k-images.idx3-ubyte": idx(pixels[:1]),
        "t10k-labels-idx1-ubyte.gz": gzip.compress(idx(np.array([9], np.uint8))),
    }.items():
        (tmp_path / name).write_bytes(content)
    X_train, y_train, X_test, y_test = read_mnist(tmp_path)
    assert (X_train.dtype, X_train.nnz) == (np.float32, 23)
    np.testing.assert_array_equal(X_train.toarray(), pixels.reshape(2, 12).astype(np.float32) / 255)
    np.testing.assert_array_equal(X_test.toarray(), pixels[:1].reshape(1, 12).astype(np.float32) / 255)
    assert (y_train.tolist(), y_test.tolist()) == ([5, 0], [9])
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(pixels))
    with pytest.raises(FormatError, match="begins with '00 00 08 03'"):
        read_mnist(tmp_path)


def test_parses_are_read_as_they_are(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"rank_{part}.features").write_text("3:0.5 20:1e-3\n\n0:2\n")
        (tmp_path / f"rank_{part}.labels").write_text("0.25\n-1\n0.5\n")
        (tmp_path / f"rank_{part}.qids").write_text("7\n007\n7\n")
    (tmp_path / "rank_train.features").write_text("1:1\n1:1\n1:1\n")
    train, test = read_parses(tmp_path)
    assert train.n_features == test.n_features == 21
    assert test.qid.tolist() == ["7", "7", "007"]
    assert test.y.tolist() == [0.25, 0.5, -1.0]
    assert test.X.toarray()[:, [0, 3, 20]].tolist() == [[0.0, 0.5, 0.001], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_made_up_queries_have_the_offsets_that_were_planted():
    train, test = make_offsets(400, 100, 10, 5, seed=3)
    again, _ = make_offsets(400, 100, 10, 5, seed=3)
    assert (train.X.tolist(), train.y.tolist()) == (again.X.tolist(), again.y.tolist())
    assert not {*train.qids.tolist()} & {*test.qids.tolist()}
    assert (train.n_queries, test.n_queries, len(train), train.n_features) == (400, 100, 4000, 5)
    # Half of the variance of features is the query's.
    assert train.X.var() == pytest.approx(1.0, abs=0.05)
    of_query = np.add.reduceat(train.X, train.starts[:-1], axis=0) / 10
    assert of_query.var() == pytest.approx(0.5 + 0.5 / 10, abs=0.05)
    # Grades: 1 of the offset, 1/4 of noise, and of the function what rows, or rows of one query, do not have in common.
    of_all, within_queries = [], []
    for seed in range(60):
        rows, _ = make_offsets(60, 1, 10, 5, seed)
        within = rows.y - np.repeat(np.add.reduceat(rows.y, rows.starts[:-1]) / 10, 10)
        of_all.append(rows.y.var())
        within_queries.append(within.var() * 10 / 9)
    assert np.mean(of_all) == pytest.approx(1.0 - (1 + 4 / 5) ** -2.5 + 1.0 + 0.25, abs=0.15)
    assert np.mean(within_queries) == pytest.approx(1.0 - (1 + 2 / 5) ** -2.5 + 0.25, abs=0.06)


def mentioned(text: str, *titles: str) -> list[str]:
    """The titles a text mentions that has a title of its own, "Home Page"."""
    links = find_mentions([text, *[""] * len(titles)], ["Home Page", *titles])
    assert links.dtype == np.int64
    assert set(links[:, 0]) <= {0}
    return [titles[to - 1] for to in links[:, 1]]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("He saw Fuji Musume there", "Fuji Musume (Wisteria Maiden)"),
        ("He saw Fuji\n  Musume, there", "Fuji Musume"),
        ("Sesshu's ink", "Sesshu"),
        ("the Tale of Genji.", "The Tale of Genji"),
        ("the Kyogoku clan (of Omi)", "the Kyogoku clan"),
        ("(Kabuki)", '"Kabuki"'),
        ("a Kabuki Dance here", "\"The 'Kabuki Dance'\" (a dance)"),
        ("at To-ji Temple", "To-ji Temple (Kyoto (city))"),
        ("Mt. Hiei is high", "Mt. Hiei"),
        ("sake brewing control was lifted", "sake brewing control"),
    ],
)
def test_finds(text, title):
    assert mentioned(text, title) == [title]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Sesshus and unSesshu", "Sesshu"),
        ("Sesshu-like", "Sesshu"),
        ("To-ji-machi", "To-ji Temple"),
        ("kyoto KYOTO", "Kyoto"),
        ("He left Kyoto. University followed", "Kyoto University"),
        ("Kyoto, University", "Kyoto University"),
        ("Zen is old", "Zen"),
        ("a kayu bowl", "kayu"),
        ("Together with There", "There"),
        ("100-yen coins 1868", "1868"),
        ("a Home Page", "Home"),
        ("", "Kyoto"),
        ("( )", "( )"),
        ("anything", ""),
    ],
)
def test_does_not_find(text, title):
    assert mentioned(text, title) == []


def test_a_hyphenated_word_is_one_word():
    assert mentioned("Zenrin-ji", "Zenrin") == []
    assert mentioned("Zenrin-ji", "Zenrin-ji") == ["Zenrin-ji"]


def test_the_longest_title_counts_and_covers_its_words():
    titles = ("Kyoto", "Kyoto University", "Kyoto University Library", "University Library Hall", "Library Hall")
    assert mentioned("Kyoto University Library Hall", *titles) == ["Kyoto University Library"]
    assert mentioned("Kyoto University Hall", *titles) == ["Kyoto University"]
    assert mentioned("Kyoto University Library, Kyoto", *titles) == ["Kyoto", "Kyoto University Library"]


def test_shared_titles_link_nothing_and_still_cover():
    titles = ("Matsuo Temple (Kyoto)", "Matsuo Temple (Nara)", "Matsuo", "Matsuo Temple")
    assert mentioned("Matsuo Temple", *titles) == []
    assert mentioned("Matsuo Temple of Matsuo", *titles) == ["Matsuo"]


def test_an_article_does_not_mention_itself_nor_what_its_title_holds():
    links = find_mentions(["Kyoto Tower is in Kyoto City", "Kyoto City and Kyoto City"], ["Kyoto Tower", "Kyoto City"])
    assert links.tolist() == [[0, 1]]
    assert find_mentions(["Kyoto Tower"] * 2, ["Kyoto Tower", "Kyoto"]).tolist() == [[1, 0]]


def test_no_articles_have_no_links():
    assert find_mentions([], []).shape == (0, 2)


TOKENS = st.sampled_from(["Ada", "Bede", "Cato", "Dido", "eel", ","])


def slowly(texts: list[list[str]], titles: list[list[str]]) -> set[tuple[int, int]]:
    """The same by comparing every title at every place."""
    usable = {}
    for at, title in enumerate(titles):
        if len(title) == 1 and (len(title[0]) < 4 or title[0].islower()):
            continue
        usable[tuple(title)] = -1 if titles.count(title) > 1 else at
    links = set()
    for i, text in enumerate(texts):
        at = 0
        while at < len(text):
            here = [title for title in usable if tuple(text[at : at + len(title)]) == title]
            best = max(here, key=len, default=None)
            at += len(best) if best else 1
            if best and usable[best] not in (i, -1):
                links.add((i, usable[best]))
    return links


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_equals_the_slow_way(data):
    n = data.draw(st.integers(1, 6))
    texts = data.draw(st.lists(st.lists(TOKENS, max_size=15), min_size=n, max_size=n))
    words = st.lists(TOKENS.filter(str.isalpha), min_size=1, max_size=3)
    titles = data.draw(st.lists(words, min_size=n, max_size=n))
    found = find_mentions([" ".join(text) for text in texts], [" ".join(title) for title in titles])
    assert list(map(tuple, found.tolist())) == sorted(slowly(texts, titles))
