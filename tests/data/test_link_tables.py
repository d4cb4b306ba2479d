"""Links between documents, as people have them, and what is said of those that are wrong."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.data import read_links
from tercet.data.link_tables import as_links
from tercet.errors import FormatError, InputError

DOCS = {"a": "one", "007": "two", "Paris, Texas": "three"}
LINKS = {"a": ["007", "Paris, Texas"], "007": ["a"]}
PAIRS = [(source, target) for source, targets in LINKS.items() for target in targets]


def written(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("l.tsv", "source\ttarget\na\t007\na\tParis, Texas\n007\ta\n", "CSV separated by tabs; source: source"),
        ("l.csv", 'From,n,To\na,1,007\na,2,"Paris, Texas"\n007,3,a\n', "CSV separated by commas; source: From"),
        ("l.csv.gz", "Source;Destination\na;007\na;Paris, Texas\n007;a\n", "target: Destination"),
        ("l.jsonl", "".join(json.dumps({"src": s, "dst": t}) + "\n" for s, t in PAIRS), "JSONL; source: src"),
        ("l.jsonl", "".join(json.dumps({"id": s, "links": t}) + "\n" for s, t in LINKS.items()), "target: links"),
        ("l.jsonl", "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in LINKS.items()), "JSONL"),
    ],
)
def test_links_are_read_from_what_people_have(tmp_path, name, text, form):
    links = read_links(written(tmp_path / name, text), DOCS)
    assert links.links == LINKS
    assert links.n_links == 3
    assert form in links.form


def test_links_are_read_from_parquet_and_by_named_columns(tmp_path):
    path = tmp_path / "l.parquet"
    pq.write_table(pa.Table.from_pylist([{"source_id": s, "target_id": t} for s, t in PAIRS]), path)
    assert read_links(path, DOCS).links == LINKS
    pq.write_table(pa.Table.from_pylist([{"id": s, "references": t} for s, t in LINKS.items()]), path)
    assert read_links(path, DOCS).links == LINKS
    other = written(tmp_path / "l.tsv", "page\tnext\na\t007\n")
    assert read_links(written(tmp_path / "l.csv", "id;links\na;7 8\nb;a\n")).links == {"a": ["7", "8"], "b": ["a"]}
    columns = {"source": "page", "target": "next"}
    assert read_links(other, DOCS, columns=columns).links == {"a": ["007"]}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("source\ttarget\na\t7\n", 2, "document '7' is not among the documents; '007' is: was it read as a number"),
        ("source,target\na,007\na\n", 3, "1 cell under 2 columns"),
        ("source,target\na,\n", 2, "target is empty; every row needs an id"),
        ("a\t007\nb\ta\n", 1, "the first line must name the columns; found '007'"),
        ('{"source": "a", "target": 0.5}\n', 1, "target is 0.5, a number with a point"),
        ('{"source": "a", "target": ["007", ""]}\n', 1, "target is empty"),
        ("source,color,grade\na,007,1\n", None, "Which column holds the target"),
        ("source,target\na,a\n", None, "the file holds no links between two documents"),
        ("", None, "the file is empty"),
    ],
)
def test_a_wrong_link_is_named_by_file_and_line(tmp_path, text, line, message):
    path = written(tmp_path / "links.tsv", text)
    with pytest.raises(FormatError) as error:
        read_links(path, DOCS)
    assert message in str(error.value)
    assert error.value.line == line
    assert str(path) in str(error.value)


def test_links_to_unknown_documents_are_bad_rows(tmp_path):
    path = written(tmp_path / "links.tsv", "source\ttarget\na\t007\na\tmoon\nmars\ta\na\ta\n")
    problems = []
    links = read_links(path, DOCS, refused=problems.append)
    assert (links.links, links.n_own) == ({"a": ["007"]}, 1)
    assert [problem.line for problem in problems] == [3, 4]
    with pytest.raises(FormatError, match="'moon' is not among the documents"):
        read_links(path, DOCS)


def test_all_that_is_wrong_with_links_is_listed(tmp_path):
    path = written(tmp_path / "links.tsv", "source\ttarget\na\t007\n\tb\na\ta\na\t007\na\n")
    problems = []
    links = read_links(path, DOCS, refused=problems.append)
    assert (links.links, links.n_own) == ({"a": ["007"]}, 1)
    assert [(problem.kind, problem.line) for problem in problems] == [("id", 3), ("format", 6)]


@pytest.mark.parametrize(
    "links",
    [
        LINKS,
        PAIRS,
        iter(PAIRS),
        [list(pair) for pair in PAIRS],
        np.array(PAIRS),
        [{"source": s, "target": t} for s, t in PAIRS],
        [{"source": s, "target": t} for s, t in LINKS.items()],
        pd.DataFrame(PAIRS, columns=["From", "To"]),
        pa.table({"source": [s for s, _ in PAIRS], "target": [t for _, t in PAIRS]}),
        dict.fromkeys(PAIRS).keys(),
    ],
)
def test_links_in_memory_may_be_a_mapping_pairs_records_or_a_frame(links):
    assert as_links(links, DOCS) == LINKS


def test_whole_numbers_are_ids_by_their_digits():
    assert as_links({1: [2]}, {"1", "2"}) == as_links(np.array([[1, 2]]), {"1", "2"}) == {"1": ["2"]}
    with pytest.raises(InputError, match=r"links\[0\]: document '7' is not among the documents; '007' is"):
        as_links([(7, 7)], DOCS)


IDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=6)


@pytest.mark.slow
@given(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=8))
def test_what_is_written_as_jsonl_comes_back(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("links") / "links.jsonl"
    path.write_text("".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in pairs), encoding="utf-8")
    expected = {(s, t) for s, t in pairs if s != t}
    if not expected:
        return
    links = read_links(path).links
    assert {(s, t) for s, targets in links.items() for t in targets} == expected
