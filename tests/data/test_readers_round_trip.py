"""What is written is read back unchanged, whatever the ids look like."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.data import read_qrels, read_run, write_qrels, write_run
from tercet.data.beir import read_beir, write_beir
from tercet.errors import InputError

pytestmark = pytest.mark.slow  # make test has it, make check has not

QUICK = settings(deadline=None, max_examples=50)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
IDS = st.one_of(
    st.sampled_from(["007", "7", "1e5", " ", " a b ", "query-id", "{", "#", "é", "e\u0301", "\u2028"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), min_size=1, max_size=8),
).filter(lambda text: not text.startswith("\ufeff"))
SOLID_IDS = IDS.filter(lambda text: text.split() == [text])
GRADES = st.integers(-2, 4) | st.integers(-(2**63), 2**63 - 1)
SCORES = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.sampled_from(["f", "f.gz", "f.tsv", "f.jsonl", "f.jsonl.gz"])


@contextmanager
def new_file(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, name)


def nested(ids: st.SearchStrategy[str], values: st.SearchStrategy) -> st.SearchStrategy:
    one = st.dictionaries(ids, values, min_size=1, max_size=4)
    return st.dictionaries(ids, one, min_size=1, max_size=4)


@QUICK
@given(qrels=nested(SOLID_IDS, GRADES), name=NAMES)
def test_qrels(qrels: dict[str, dict[str, int]], name: str) -> None:
    with new_file(name) as file:
        write_qrels(file, qrels)
        assert read_qrels(file) == qrels


@QUICK
@given(run=nested(SOLID_IDS, SCORES), name=NAMES)
def test_runs(run: dict[str, dict[str, float]], name: str) -> None:
    with new_file(name) as file:
        write_run(file, run)
        read = read_run(file)
    assert read == run
    for scores in read.values():
        assert list(scores.values()) == sorted(scores.values(), reverse=True)


@QUICK
@given(
    docs=st.dictionaries(IDS, TEXTS, min_size=1, max_size=4),
    queries=st.dictionaries(IDS, TEXTS.filter(str.strip), min_size=1, max_size=4),
    splits=st.sets(st.sampled_from(["train", "dev", "test-2", "v1.0"]), min_size=1),
    draw=st.data(),
)
def test_beir_folders(docs: dict[str, str], queries: dict[str, str], splits: set[str], draw: st.DataObject) -> None:
    judged = st.dictionaries(st.sampled_from(sorted(docs)), GRADES, min_size=1)
    one = st.dictionaries(st.sampled_from(sorted(queries)), judged, min_size=1)
    qrels = {split: draw.draw(one) for split in splits}
    with new_file("deep/collection") as folder:
        write_beir(folder, docs, queries, qrels)
        read = read_beir(folder)
        assert read_qrels(folder / "qrels" / f"{min(splits)}.tsv") == qrels[min(splits)]
    assert (read.docs, read.queries, read.qrels) == (docs, queries, qrels)
    assert list(read.docs) == list(docs)


def test_a_text_of_blanks_alone_stays(tmp_path: Path) -> None:
    docs = {"a": " ", "b": "\n\t", "c": "", "d": " tea "}
    write_beir(tmp_path / "new", docs, {"q": "tea"}, {"train": {"q": {"d": 1}}})
    assert read_beir(tmp_path / "new").docs == docs


BAD_IDS = ["", "a\tb", "a\nb", "a\r", "\ufeffa", "\ud800", 7]
BLANK_IDS = ["a b", " a", "a\u00a0", "\u3000", "a\x1cb", "a\x85"]


@pytest.mark.parametrize("bad", [*BAD_IDS, *BLANK_IDS])
def test_trec_refuses_to_write_ids_it_could_not_read(tmp_path: Path, bad: str) -> None:
    for write, table in [
        (write_qrels, {bad: {"d": 1}}),
        (write_qrels, {"q": {bad: 1}}),
        (write_run, {bad: {"d": 1.0}}),
        (write_run, {"q": {"good": 2.0, bad: 1.0}}),
    ]:
        with pytest.raises(InputError, match=r"^.*f: cannot write: the (query|document) id "):
            write(tmp_path / "f", table)  # type: ignore[operator]
    if isinstance(bad, str):
        with pytest.raises(InputError, match="cannot write: the tag "):
            write_run(tmp_path / "f", {"q": {"d": 1.0}}, tag=bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", BAD_IDS)
def test_beir_refuses_to_write_ids_it_could_not_read(tmp_path: Path, bad: str) -> None:
    with pytest.raises(InputError, match="cannot write: the document id"):
        write_beir(tmp_path / "new", {bad: "text"}, {"q": "text"}, {"train": {"q": {bad: 1}}})
    with pytest.raises(InputError, match="cannot write: the query id"):
        write_beir(tmp_path / "new", {"d": "text"}, {bad: "text"}, {"train": {bad: {"d": 1}}})
    assert list(tmp_path.iterdir()) == []


D, Q, J = {"d": "text"}, {"q": "text"}, {"train": {"q": {"d": 1}}}


@pytest.mark.parametrize(
    ("docs", "queries", "qrels", "message"),
    [
        ({}, Q, J, "there is no document"),
        (D, {}, J, "there is no query"),
        (D, Q, {}, "there is no split of judgements"),
        (D, Q, {"train": {}}, "split 'train' has no judgements"),
        (D, {"q": " \n"}, J, "query 'q' has an empty text; a query needs words"),
        ({"d": None}, Q, J, "the text of document 'd' is None; a string is needed"),
        ({"d": "\ud800"}, Q, J, r"the text of document 'd' holds half a surrogate pair, \\ud800"),
        (D, Q, {"train": {"other": {"d": 1}}}, "query 'other' of split 'train' is not in queries"),
        (D, Q, {"train": {"q": {"other": 1}}}, "document 'other' of split 'train' is not in docs"),
        (D, Q, {"../train": {"q": {"d": 1}}}, r"split '\.\./train'; it becomes a file name"),
        (D, Q, {1: {"q": {"d": 1}}}, r"split 1; it becomes a file name"),
        (D, Q, {"train": {"q": {"d": 1.5}}}, "grade 1.5 of query 'q', document 'd'; a whole number"),
    ],
)
def test_beir_refuses_to_write_what_it_could_not_read(
    tmp_path: Path, docs: dict, queries: dict, qrels: dict, message: str
) -> None:
    with pytest.raises(InputError, match=f"cannot write: {message}"):
        write_beir(tmp_path / "new", docs, queries, qrels)
    assert list(tmp_path.iterdir()) == []


def test_beir_is_not_written_over_something_else(tmp_path: Path) -> None:
    write_beir(tmp_path / "new", D, Q, J)
    with pytest.raises(InputError, match="a new or an empty folder is needed"):
        write_beir(tmp_path / "new", D, Q, {"dev": J["train"]})
    assert list(read_beir(tmp_path / "new").qrels) == ["train"]


def test_nothing_to_write_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the run holds no results"):
        write_run(tmp_path / "f", {"q": {}})
    with pytest.raises(InputError, match="there are no judgements"):
        write_qrels(tmp_path / "f", {})
    with pytest.raises(InputError, match="score nan of query 'q', document 'd'; it must be finite"):
        write_run(tmp_path / "f", {"q": {"d": float("nan")}})
    for score in (None, "x", 10**400):
        with pytest.raises(InputError, match=r"score .* of query 'q', document 'd'; it must be finite"):
            write_run(tmp_path / "f", {"q": {"d": score}})
    assert list(tmp_path.iterdir()) == []
