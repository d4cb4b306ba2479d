"""Reading bit by bit, and telling how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tercet.data import (
    iter_corpus,
    read_qrels,
    recognize,
    write_qrels,
)
from tercet.data.judgements import read_judgements
from tercet.errors import FormatError, InputError

# -- bit by bit -------------------------------------------------------------------------------------------------------


def test_documents_come_before_the_next_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"_id": "007", "text": "a"}\n{"_id": "7", "text": "b"}\n{"_id": "007", "text": "c"}\n')
    stream = iter_corpus(tmp_path / "f")
    assert [next(stream), next(stream)] == [("007", "a"), ("7", "b")]
    with pytest.raises(FormatError, match=":3: the id '007' is already used at line 1"):
        next(stream)


@pytest.mark.parametrize("name", ["f.tsv", "f.tsv.gz"])
def test_judgements_named_tsv_are_in_the_form_of_beir_and_keep_blanks(tmp_path: Path, name: str) -> None:
    qrels = {"a query": {"007": 1, "a b": 0}}
    write_qrels(tmp_path / name, qrels)
    assert read_qrels(tmp_path / name) == qrels
    assert recognize(tmp_path / name) == "qrels"
    with pytest.raises(InputError, match=r"'a query' holds a blank.*name the file \.csv"):
        write_qrels(tmp_path / "f.txt", qrels)
    write_qrels(tmp_path / "f.csv", qrels)
    assert read_judgements(tmp_path / "f.csv").qrels == qrels


@pytest.mark.parametrize(
    "content",
    [
        "query,docid,rating\nstar wars,007,3\nstar wars,11,0\nunrated,,\n",
        "Team Name,Case ID,Query Text,Doc ID,Doc Position,Title,Rating,year\n"
        "Us,8,star wars,007,1,Star Wars,3,1977\nUs,8,star wars,11,2,Alien,0,1979\nUs,8,unrated,,,,,\n",
    ],
    ids=["basic", "detailed"],
)
def test_an_export_of_quepid_is_a_table_of_judgements(tmp_path: Path, content: str) -> None:
    (tmp_path / "case.csv").write_text(content)
    assert recognize(tmp_path / "case.csv") == "judgements"
    read = read_judgements(tmp_path / "case.csv")
    assert read.qrels == {"star wars": {"007": 3, "11": 0}}
    assert read.n_ungraded == 1
