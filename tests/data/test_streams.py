"""Preferences from files that are never all in memory."""

from __future__ import annotations

import gzip
import json
import logging
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from support.forking import changed, kill_while
from support.memory import growth_of
from support.random_data import random_preferences, random_texts
from tercet.data import watch_reading
from tercet.data.lines import sampled_digest
from tercet.data.lookup import rows_of_ids
from tercet.data.preference_files import count_preferences, preference_paths, stretches, write_preferences
from tercet.data.preference_text import PreferenceTriples
from tercet.errors import FormatError, InputError, ParameterError
from tercet.learn.sources import ArraySource
from tercet.learn.streams import StreamSource

N_QUERIES, N_DOCS = 12, 30
QUERIES = {f"q{row}": row for row in range(N_QUERIES)}
DOCS = {f"d{row}": row for row in range(N_DOCS)}


def some(n: int, seed: int = 0, weighted: bool = False) -> tc.Preferences:
    rng = np.random.default_rng(seed)
    prefs = random_preferences(rng, n, N_QUERIES, N_DOCS)
    if not weighted:
        return prefs
    weight, margin = rng.random(n).astype(np.float32) + 0.5, rng.random(n).astype(np.float32) + 0.5
    return tc.Preferences(prefs.query, prefs.better, prefs.worse, weight, margin)


def triples(prefs: tc.Preferences) -> PreferenceTriples:
    ids = [tuple(f"d{row}" for row in column) for column in (prefs.better, prefs.worse)]
    numbers = {name: np.asarray(getattr(prefs, name), np.float64) for name in ("weight", "margin")}
    given = {} if prefs.weight is None else numbers
    return PreferenceTriples(tuple(f"q{row}" for row in prefs.query), *ids, **given)


def write(path: Path, prefs: tc.Preferences) -> Path:
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        named = triples(prefs)
        columns = {"query": named.qid, "better": named.better, "worse": named.worse, **named.numbers()}
        table = pa.table({name: pa.array(list(column)) for name, column in columns.items()})
        parquet.write_table(table, path, row_group_size=37)
    else:
        write_preferences(path, triples(prefs))
    return path


def drawn(source: StreamSource, n: int, first: int = 0, most: int = 50) -> tc.Preferences:
    """What a training loop would get, in portions."""
    parts = []
    step = first
    while step < first + n:
        part = source.draw(step, no_weights)[: min(most, first + n - step)]
        if not len(part):
            break
        parts.append(part)
        step += len(part)
    weighted = parts[0].weight is not None
    return tc.Preferences(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("query", "better", "worse")),
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("weight", "margin") if weighted),
    )


def no_weights():
    raise AssertionError("what a file holds does not depend on the weights")


KINDS = ["p.tsv", "p.jsonl", "p.tsv.gz", "p.jsonl.gz", "p.parquet"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_a_file_gives_the_preferences_it_holds_pass_after_pass(name, weighted, tmp_path):
    prefs = some(200, weighted=weighted)
    source = StreamSource(write(tmp_path / name, prefs), QUERIES, DOCS, stretch=32)
    assert source.n_steps == 200
    assert drawn(source, 200) == prefs
    assert drawn(source, 200, first=200) == prefs
    assert drawn(source, 60, first=170)[30:] == prefs[:30]


@given(
    chunks=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    stretch=st.integers(1, 50),
    asked=st.lists(st.integers(0, 250), min_size=1, max_size=6),
    kind=st.sampled_from(KINDS),
)
@settings(max_examples=40, deadline=None)
def test_what_is_drawn_depends_on_the_step_alone(chunks, stretch, asked, kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stream")
    parts = [some(n, seed) for seed, n in enumerate(chunks)]
    paths = [write(folder / f"{at}{kind}", part) for at, part in enumerate(parts)]
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in ("query", "better", "worse")]
    whole = tc.Preferences(*columns)
    source = StreamSource(paths, QUERIES, DOCS, stretch=stretch)
    assert source.n_steps == len(whole)
    for step in asked:
        found = source.draw(step, no_weights)
        at = step % len(whole)
        assert 1 <= len(found) <= stretch
        assert found == whole[at : at + len(found)]
        other = StreamSource(paths, QUERIES, DOCS, stretch=7, n_steps=len(whole))
        other.restore(*source.state())
        one = other.draw(step, no_weights)[:1]
        assert one == whole[at : at + 1]


def test_a_resumed_source_goes_on_at_its_place_and_not_at_the_beginning(tmp_path, monkeypatch):
    import tercet.learn.streams as module

    path = write(tmp_path / "p.tsv", some(200))
    source = StreamSource(path, QUERIES, DOCS, stretch=16)
    drawn(source, 150)
    begun = []
    monkeypatch.setattr(module, "stretches", lambda *given: begun.append(given[1]) or stretches(*given))
    other = StreamSource(path, QUERIES, DOCS, stretch=16)
    other.restore(*source.state())
    assert other.draw(150, no_weights) == source.draw(150, no_weights)
    assert [place.within for place in begun] == [144]


@pytest.mark.parametrize("name", KINDS)
def test_a_watched_file_can_be_gone_on_in(name, tmp_path):
    path = write(tmp_path / name, some(100))
    source = StreamSource(path, QUERIES, DOCS, stretch=16)
    drawn(source, 60)
    told = []
    with watch_reading(lambda *seen: told.append(seen)):
        other = StreamSource(path, QUERIES, DOCS, stretch=16)
        other.restore(*source.state())
        assert other.draw(60, no_weights) == source.draw(60, no_weights)
    assert told or name == "p.parquet"


@pytest.mark.parametrize("name", KINDS)
def test_rankers_learn_the_same_bits_from_a_stream_as_from_arrays(name, tmp_path):
    rng = np.random.default_rng(1)
    Q, D = random_texts(rng, N_QUERIES, 20), random_texts(rng, N_DOCS, 20)
    prefs = some(300, weighted=True)
    path = write(tmp_path / name, prefs)
    for ranker in (
        tc.DiagonalRanker(epochs=2),
        tc.DenseRanker(epochs=2),
        tc.SparseRanker(l1=1e-5, epochs=2),
        tc.LowRankRanker(n_components=3, schedule="linear", epochs=2),
        tc.HashedRanker(n_buckets=64, epochs=2),
    ):
        whole = ranker.fit(Q, ArraySource(prefs), D).weights_.score(Q, D)
        streamed = ranker.fit(Q, StreamSource(path, QUERIES, DOCS, stretch=77), D).weights_.score(Q, D)
        assert np.array_equal(whole, streamed)


def test_one_pass_needs_no_count_and_more_are_refused_without_one(tmp_path):
    rng = np.random.default_rng(1)
    Q, D = random_texts(rng, N_QUERIES, 20), random_texts(rng, N_DOCS, 20)
    prefs = some(100)
    path = write(tmp_path / "p.tsv", prefs)
    source = StreamSource(path, QUERIES, DOCS, n_steps=None)
    assert source.n_steps is None
    ranker = tc.DenseRanker().fit(Q, source, D)
    assert ranker.n_steps_ == 100
    assert np.array_equal(ranker.weights_.score(Q, D), tc.DenseRanker().fit(Q, prefs, D).weights_.score(Q, D))
    with pytest.raises(ParameterError, match="epochs=2 needs to know where a pass ends"):
        tc.DenseRanker(epochs=2).fit(Q, source, D)


def test_fewer_steps_take_the_first_and_more_are_an_error(tmp_path):
    prefs = some(100)
    path = write(tmp_path / "p.tsv", prefs)
    assert drawn(StreamSource(path, QUERIES, DOCS, n_steps=40, stretch=16), 80) == prefs[np.arange(80) % 40]
    with pytest.raises(InputError, match="end after 100 preferences and 101 were expected"):
        drawn(StreamSource(path, QUERIES, DOCS, n_steps=101), 101)


# -- ids --------------------------------------------------------------------------------------------------------------


class Packed:
    """Looks many ids up at once, as packed ids on disk do."""

    def __init__(self, rows: dict[str, int]) -> None:
        self.rows, self.asked = rows, 0

    def get_many(self, ids):
        self.asked += 1
        return np.array([self.rows.get(one, -1) for one in ids])


def test_ids_are_looked_up_many_at_a_time_where_that_is_offered(tmp_path):
    prefs = some(100)
    packed = Packed(DOCS)
    source = StreamSource(write(tmp_path / "p.tsv", prefs), QUERIES, packed, stretch=50)
    assert drawn(source, 100) == prefs
    assert packed.asked == 2 * 3  # the header makes a third stretch of the last line
    assert rows_of_ids(packed, ["d3", "x"]).tolist() == rows_of_ids(DOCS, ["d3", "x"]).tolist() == [3, -1]


@pytest.mark.parametrize(
    ("line", "what"),
    [("x\td1\td2", "query 'x'"), ("q1\tx\td2", "better document 'x'"), ("q1\td1\tx", "worse document 'x'")],
)
def test_an_unknown_id_is_an_error_that_names_file_and_line(line, what, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text(f"q0\td0\td1\n\n{line}\n")
    with pytest.raises(FormatError, match=rf"p\.tsv:3: the {what} has no row"):
        drawn(StreamSource(path, QUERIES, DOCS), 2)


@pytest.mark.parametrize("n_steps", ["count", None])
def test_unknown_ids_can_be_left_out_and_are_counted(n_steps, tmp_path, caplog):
    path = tmp_path / "p.tsv"
    path.write_text("q0\td0\td1\nx\td0\td1\nq1\ty\td1\nq1\td2\td3\nq1\td2\tz\n")
    with caplog.at_level(logging.WARNING):
        source = StreamSource(path, QUERIES, DOCS, skip_unknown=True, n_steps=n_steps, stretch=2)
        assert drawn(source, 3 if n_steps is None else 2).better.tolist() == [0, 2]
    assert source.n_skipped == 3
    assert "3 of 5 preferences are left out" in caplog.text


@pytest.mark.parametrize("n_steps", ["count", None])
def test_queries_can_be_left_out(n_steps, tmp_path):
    prefs = some(200)
    rows = prefs.query[:2]
    kept = prefs[~np.isin(prefs.query, rows)]
    path = write(tmp_path / "p.tsv", prefs)
    source = StreamSource(path, QUERIES, DOCS, leave_out=rows, n_steps=n_steps, stretch=16)
    assert source.n_steps == (None if n_steps is None else len(kept))
    passed = list(source.one_pass())
    assert [len(part) for part in passed] == [len(part) for part in source.one_pass()]
    assert sum(map(len, passed)) == len(kept)
    assert drawn(source, len(kept)) == kept
    assert source.n_skipped == 0
    assert source.fingerprint() != StreamSource(path, QUERIES, DOCS, n_steps=source.n_steps).fingerprint()


def test_a_pass_that_is_too_short_says_so(tmp_path):
    path = write(tmp_path / "p.tsv", some(20))
    assert sum(map(len, StreamSource(path, QUERIES, DOCS, n_steps=7, stretch=4).one_pass())) == 7
    with pytest.raises(InputError, match="the files end after 20 preferences and 21 were expected"):
        list(StreamSource(path, QUERIES, DOCS, n_steps=21).one_pass())
    with pytest.raises(InputError, match="all preferences are of queries that are left out"):
        StreamSource(path, QUERIES, DOCS, leave_out=range(len(QUERIES)))


def test_files_without_any_known_id_are_refused(tmp_path):
    path = write(tmp_path / "p.tsv", some(5))
    with pytest.raises(InputError, match="none of the 5 preferences has ids that have a row"):
        StreamSource(path, {}, DOCS, skip_unknown=True)
    with pytest.raises(InputError, match="none of the 5 preferences has ids that have a row"):
        StreamSource(path, {}, DOCS, skip_unknown=True, n_steps=None).draw(0, no_weights)


# -- files ------------------------------------------------------------------------------------------------------------


def test_folders_patterns_and_lists_of_files(tmp_path):
    parts = [some(10, seed) for seed in range(3)]
    for name, part in zip(("b.tsv", "a.jsonl", "c.tsv.gz"), parts, strict=True):
        write(tmp_path / name, part)
    (tmp_path / "notes.txt").write_text("no preferences")
    (tmp_path / ".hidden.tsv").write_text("no preferences")
    assert drawn(StreamSource(tmp_path, QUERIES, DOCS), 30)[:10] == parts[1]
    assert [path.name for path in preference_paths(str(tmp_path / "*.tsv*"))] == ["b.tsv", "c.tsv.gz"]
    listed = StreamSource([tmp_path / "c.tsv.gz", tmp_path / "b.tsv"], QUERIES, DOCS)
    assert drawn(listed, 20)[:10] == parts[2]
    (tmp_path / "empty").mkdir()
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".a.tsv").write_text("q1\td1\td2\n")
    os.mkfifo(tmp_path / "pipe")
    for paths, message in (
        ([], "paths is empty"),
        (tmp_path / "empty", "holds no file that ends in"),
        (tmp_path / "hidden", "holds no file that ends in"),
        (str(tmp_path / "*.csv"), "no file matches"),
        (tmp_path / "none.tsv", "there is no such file"),
        (tmp_path / "pipe", "is a pipe or a device; a file is needed"),
    ):
        with pytest.raises(InputError, match=message):
            StreamSource(paths, QUERIES, DOCS)


LINES = ["q1\td1\td2", "", "  ", " q\td1\td2", "\t", "\u00a0", "é\td1\td2", "\r"]


@given(
    lines=st.lists(st.sampled_from(LINES), max_size=12),
    header=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
    ended=st.booleans(),
    marked=st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_counting_without_parsing_finds_what_parsing_finds(lines, header, end, ended, marked, tmp_path_factory):
    text = end.join([*(["query-id\tbetter-id\tworse-id"] * header), *lines, "q9\td1\td2"]) + end * ended
    path = tmp_path_factory.mktemp("count") / "p.tsv"
    path.write_bytes(b"\xef\xbb\xbf" * marked + text.encode())
    found = [line for part in stretches(path, size=3) for line in part.lines]
    assert count_preferences(path) == len(found) == 1 + sum(bool(line.strip()) for line in lines)


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
def test_broken_files_are_refused_with_their_line_at_whatever_stretch(text, message, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text(text)
    for size in (1, 2, 100):
        with pytest.raises(FormatError, match=message):
            list(stretches(path, size=size))


def test_a_damaged_gzip_file_is_told(tmp_path):
    path = tmp_path / "p.tsv.gz"
    path.write_bytes(gzip.compress("".join(f"q{n}\ta\tb\n" for n in range(5000)).encode())[:-40])
    for read in (lambda: list(stretches(path)), lambda: count_preferences(path)):
        with pytest.raises(FormatError, match="the gzip data ends in the middle"):
            read()


def test_fingerprints_follow_the_content_and_not_the_path(tmp_path):
    prefs = some(100)
    one, same = (write(tmp_path / name, prefs) for name in ("one.tsv", "same.tsv"))
    first = StreamSource(one, QUERIES, DOCS).fingerprint()
    assert StreamSource(same, QUERIES, DOCS).fingerprint() == first
    other = write(tmp_path / "other.tsv", some(100, seed=1))
    assert StreamSource(other, QUERIES, DOCS).fingerprint() != first
    assert StreamSource(one, QUERIES, DOCS, n_steps=99).fingerprint() != first
    moved = dict(zip(DOCS, reversed(range(N_DOCS)), strict=True))
    assert StreamSource(one, QUERIES, moved).fingerprint() != first


def test_a_digest_of_samples_notices_what_happens_to_files(tmp_path):
    path = tmp_path / "large"
    data = bytearray(np.random.default_rng(0).integers(0, 256, 6 << 20, dtype=np.uint8).tobytes())
    found = set()
    for change in ("none", "appended", "cut", "first", "last"):
        changed = bytearray(data)
        if change == "appended":
            changed += b"x"
        elif change == "cut":
            del changed[-1:]
        elif change != "none":
            changed[0 if change == "first" else -1] ^= 1
        path.write_bytes(changed)
        found.add(sampled_digest(path))
    assert len(found) == 5


def test_wrong_arguments_are_refused(tmp_path):
    path = write(tmp_path / "p.tsv", some(5))
    for wrong, message in (
        ({"n_steps": 0}, "n_steps must be an integer from 1"),
        ({"n_steps": "all"}, "n_steps must be an integer from 1"),
        ({"stretch": 0}, "stretch must be an integer from 1"),
    ):
        with pytest.raises(InputError, match=message):
            StreamSource(path, QUERIES, DOCS, **wrong)
    with pytest.raises(InputError, match="doc_rows must give the row of an id"):
        StreamSource(path, QUERIES, ["d1"])


# -- killed, and in bounded memory ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["p.tsv", "p.jsonl.gz"])
def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(name, tmp_path):
    path = write(tmp_path / name, some(20_000))
    rng = np.random.default_rng(1)
    Q, D = random_texts(rng, N_QUERIES, 20), random_texts(rng, N_DOCS, 20)
    manifest = tmp_path / "c" / "manifest.json"

    def learn(*callbacks) -> tc.SparseRanker:
        source = StreamSource(path, QUERIES, DOCS, stretch=1000)
        return tc.SparseRanker(l1=1e-5, refit=False, epochs=2).fit(Q, source, D, callbacks=callbacks)

    whole = learn().weights_.sparse
    for after in (0.0, 0.01, 0.05):
        checkpoint = tc.Checkpoint(tmp_path / "c", every=1)
        kill_while(lambda saved=checkpoint: learn(saved, lambda _: time.sleep(0.005)), changed(manifest), after)
    meta = json.loads(manifest.read_text())["meta"]
    assert meta["source"]["marks"]
    assert not meta["finished"]
    resumed = learn(tc.Checkpoint(tmp_path / "c", every=20_000)).weights_.sparse
    assert np.array_equal(whole.data, resumed.data)
    assert np.array_equal(whole.indices, resumed.indices)


MEMORY = """
from tercet.learn.streams import StreamSource
import tercet as tc
import numpy as np
from scipy import sparse
Q = sparse.csr_array(np.eye(4, dtype=np.float32))
rows = {f"a-somewhat-long-id-{n}": n for n in range(4)}
def work(path):
    tc.DiagonalRanker().fit(Q, StreamSource(path, rows, rows), Q)
work(sys.argv[1])
with Measured():
    work(sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["tsv", "parquet"])
def test_memory_is_that_of_a_stretch_however_long_the_file(ending, tmp_path):
    lines = [
        f"a-somewhat-long-id-{n % 4}\ta-somewhat-long-id-{n % 2}\ta-somewhat-long-id-{2 + n % 2}\n" for n in range(4)
    ]
    paths = [tmp_path / f"{name}.{ending}" for name in ("small", "large")]
    for path, n in zip(paths, (10_000, 500_000), strict=True):
        if ending == "tsv":
            path.write_text("".join(lines) * n)
        else:
            pa = pytest.importorskip("pyarrow")
            columns = zip(*(line.rstrip().split("\t") for line in lines), strict=True)
            table = pa.table(dict(zip(("query", "better", "worse"), (list(one) * n for one in columns), strict=True)))
            pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=100_000)
    # Three row numbers of each of the two million would take 24 MB, their lines of text 120.
    assert growth_of(MEMORY, *paths) < 20_000_000
