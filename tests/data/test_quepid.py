"""Judgements as Quepid exports them."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.data import QuepidJudgements, read_quepid, recognise, write_quepid
from tercet.data.judgements import read_judgements
from tercet.errors import FormatError, InputError


def read(folder: Path, content: str) -> QuepidJudgements:
    (folder / "f").write_text(content, newline="")
    assert recognise(folder / "f") == "quepid"
    (folder / "g").write_bytes(gzip.compress(content.encode()))
    assert read_quepid(folder / "g") == read_quepid(folder / "f")
    return read_quepid(folder / "f")


def test_the_basic_export_of_a_case(tmp_path: Path) -> None:
    # A leading line break, unrated queries with and without commas, a formula sign, quotes and a line break in a text.
    found = read(
        tmp_path,
        '\nquery,docid,rating\nstar wars,007,3\nstar wars,1e5,0\n"a ""b"", c",7,2.0\nno ratings\nnone,,\n'
        ' -not,x y,1\n"two\nlines",z,1\n',
    )
    assert found.ratings == {
        "star wars": {"007": 3, "1e5": 0},
        'a "b", c': {"7": 2},
        "-not": {"x y": 1},
        "two\nlines": {"z": 1},
    }
    assert found.unrated == ("no ratings", "none")


def test_a_snapshot_has_documents_without_a_rating(tmp_path: Path) -> None:
    found = read(tmp_path, "query,docid,rating\r\na,1,2\r\na,2,\r\nb,1,\r\n")
    assert (found.ratings, found.unrated) == ({"a": {"1": 2}}, ("b",))


def test_the_detailed_export_names_its_columns_otherwise(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "Team Name,Case Name,Case ID,Query Text,Doc ID,Doc Position,Title,Rating,year\n"
        'Us,"Movies, old",8,star wars,11,1,Star Wars,3,1977\nUs,"Movies, old",8,trek,,,,,\n',
    )
    assert (found.ratings, found.unrated) == ({"star wars": {"11": 3}}, ("trek",))


def test_a_book_has_a_column_for_each_rater_and_the_grade_is_their_mean(tmp_path: Path) -> None:
    found = read(tmp_path, "query,docid,Ann,Bo\na,1,3.0,\na,2,1.0,2.0\na,3,,\nb,1,0.0,1.0\n")
    assert found.ratings == {"a": {"1": 3, "2": 2}, "b": {"1": 1}}
    found = read(tmp_path, "query,docid,Ann,Bo,Cy\na,1,3,0,0\na,2,3,3,0\na,3,0,1,0\na,4,3,1,\n")
    assert found.ratings == {"a": {"1": 1, "2": 2, "3": 0, "4": 2}}


def test_a_click_log_is_no_book_of_raters(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,docid,position,clicked\ntea,a,1,0\ntea,b,2,1\n")
    assert recognise(tmp_path / "log.csv") == "click-log"
    with pytest.raises(FormatError, match="found the columns 'query,docid,position,clicked'"):
        read_quepid(tmp_path / "log.csv")


@pytest.mark.parametrize(("encoding", "named"), [("cp1252", "cp1252"), ("utf-16", None), ("utf-8", None)])
def test_judgements_are_read_in_their_encoding(tmp_path: Path, encoding: str, named: str | None) -> None:
    (tmp_path / "f").write_bytes('query,docid,rating\n"café, noir",1,3\n'.encode(encoding))
    read = read_judgements(tmp_path / "f", encoding=named)
    assert (read.qrels, read.form) == ({"café, noir": {"1": 3}}, "judgements of Quepid")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query,doc,rating\na,1,2\n", ":1: found the columns 'query,doc,rating'; the first line must name the columns"),
        ("Team Name,Case Name,Query Text,Score\n", ":1: found the columns 'Team Name,Case Name"),
        ("query,docid,rating\na,1,good\n", ":2: rating 'good'; a number is needed"),
        ("query,docid,rating\na,1,2.5\n", ":2: rating 2.5; a whole number is needed"),
        ("query,docid,rating\na,1,nan\n", ":2: rating 'nan'; a finite number"),
        ("query,docid,rating\na,b,1,2\n", ":2: 4 cells under 3 columns; quote a text that holds a comma"),
        ("query,docid,rating\na,,2\n", ":2: rating 2 without a document id"),
        ("query,docid,rating\n,1,2\n", ":2: the query is empty; a query needs words"),
        ('query,docid,rating\n"a\nb",1,2\nc,1,x\n', ":4: rating 'x'"),
        ('query,docid,rating\na,1,2\n"b"c,1,2\n', ":3: broken CSV: ',' expected after '\"'"),
        ('query,docid,rating\na,1,2\n"b,1,2\n', ":3: broken CSV: unexpected end of data"),
        ("query,docid,rating\na,1,2\na,1,3\n", ":3: query 'a', document '1' has rating 3 here and 2 before"),
        ("query,docid,rating\na,,\n", ": the file holds no ratings"),
        ("", ": the file holds no ratings"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "f").write_text(content)
    with pytest.raises(FormatError, match=rf"/f{message}"):
        read_quepid(tmp_path / "f")


def test_texts_become_the_ids_of_the_queries_that_have_them() -> None:
    judged = QuepidJudgements({"a": {"1": 2}, "b": {"1": 0}}, ("c",))
    assert judged.qrels({"q1": "a", "q2": "b", "q3": "c", "q4": "a"}) == {
        "q1": {"1": 2},
        "q2": {"1": 0},
        "q4": {"1": 2},
    }
    with pytest.raises(InputError, match="the query 'b' is rated and is not among the 1 queries"):
        judged.qrels({"q1": "a"})


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=6).filter(
    lambda text: text.strip() and not text.startswith((" -", " =", " +", " @", "\ufeff"))
)
ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"), min_size=1, max_size=4)


@settings(deadline=None, max_examples=50)
@given(
    ratings=st.dictionaries(texts, st.dictionaries(ids, st.integers(-1, 4), max_size=3), max_size=3).filter(
        lambda ratings: any(ratings.values())
    ),
    name=st.sampled_from(["f.csv", "f.csv.gz"]),
)
def test_what_is_written_is_read(ratings: dict[str, dict[str, int]], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        write_quepid(file, ratings)
        read = read_quepid(file)
    assert read.ratings == {text: grades for text, grades in ratings.items() if grades}
    assert set(read.unrated) == {text for text, grades in ratings.items() if not grades}


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ({}, "there are no ratings"),
        ({"a": {}}, "there are no ratings"),
        ({" ": {"d": 1}}, "is no text with words"),
        ({" -a": {"d": 1}}, "begins with a blank and a sign"),
        ({"a\rb": {"d": 1}}, "holds a carriage return"),
        ({"a": {"": 1}}, "the document id is empty"),
        ({"a": {"d": 1.5}}, "rating 1.5 of query 'a', document 'd'; a whole number is needed"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path: Path, ratings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_quepid(tmp_path / "f.csv", ratings)
    assert not list(tmp_path.iterdir())
