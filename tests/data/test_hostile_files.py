"""Files made to harm: time linear in the input, memory bounded, and a message for each."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import random
import re
import tarfile
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.hostile_files import ATTACKS, MEGABYTE, Attack, tar_block, tar_of
from tercet import data
from tercet.data import limits
from tercet.data.archives import archive_members
from tercet.data.clicks import MOST_PREFERENCES, click_preferences, examination_guess
from tercet.data.shown_lists import ListKey, ShownLists
from tercet.data.values import GatheredColumns
from tercet.errors import LONGEST_MESSAGE, FormatError, InputError


def outcome(attack: Attack, path: Path) -> str | None:
    try:
        attack.read(path)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_files_are_read_in_linear_time_or_refused(tmp_path: Path, name: str) -> None:
    attack = ATTACKS[name]
    path = attack.write(tmp_path, attack.quick)
    began = time.process_time()
    message = outcome(attack, path)
    seconds = time.process_time() - began
    if attack.ends is None:
        assert message is None
    else:
        assert message is not None
        assert re.search(attack.ends, message)
        assert len(message) < LONGEST_MESSAGE + len(str(path)) + 100
    # Each takes well below a second where it is linear, and from half a minute up where it is not.
    assert seconds < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "a JSON array of numbers",
        "a line without an end",
        "a line without an end, Latin-1",
        "a quote that is not closed",
        "a record of many cells",
        "a gzip bomb",
        "a packed text in a labeled folder",
        "a tar header",
        "a wide row before narrow ones",
    ],
)
def test_hostile_files_take_at_most_three_times_their_size_and_100_megabytes(tmp_path: Path, name: str) -> None:
    attack = ATTACKS[name]
    path = attack.write(tmp_path, attack.quick)
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")))
    tracemalloc.start()
    try:
        outcome(attack, path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * size + 100 * MEGABYTE


# -- archives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tar_block("../../etc/passwd"), "the member '../../etc/passwd' climbs out of the archive"),
        (tar_block("/etc/passwd"), "the member '/etc/passwd' climbs out of the archive"),
        (tar_block("20news-bydate-train/a/../../b"), "climbs out of the archive"),
        (tar_block("20news-bydate-train/a/1", tarfile.SYMTYPE, linkname="/etc/passwd"), "is not an ordinary file"),
        (tar_block("20news-bydate-train/a/1", tarfile.LNKTYPE, linkname="../b"), "is not an ordinary file"),
        (tar_block("20news-bydate-train/a/1", tarfile.FIFOTYPE), "is not an ordinary file"),
        (tar_block("20news-bydate-train/a/1", tarfile.GNUTYPE_SPARSE), "is stored with holes, which is not read"),
        (tar_block("20news-bydate-train/a/1", size=1 << 40), "beyond any real copy of 20 Newsgroups"),
        (tar_block("20news-bydate-train/a/1", size=6_000), r"broken \(unexpected end of data\)"),
        (tar_block("x", tarfile.XHDTYPE, 9) + b"9 path=a\n".ljust(512, b"\0"), "the tar archive is broken"),
        (tar_block("x", tarfile.XHDTYPE, 9) + b"99 path=\n".ljust(512, b"\0"), "the tar archive is broken"),
        (tar_block("x", tarfile.XHDTYPE, 11) + b"11 size=-9\n".ljust(512, b"\0") + tar_block("a"), "no posts"),
    ],
)
def test_what_an_archive_may_not_hold(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "posts.tar").write_bytes(content + bytes(1024))
    with pytest.raises(FormatError, match=f"posts.tar: .*{message}"):
        data.read_20newsgroups(tmp_path / "posts.tar")


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("packed", [False, True])
def test_archives_of_every_form_are_read_as_tarfile_reads_them(tmp_path: Path, format: int, packed: bool) -> None:
    names = ["a/1", f"deep/{'d' * 90}/{'n' * 90}", "ä/é"]
    if format != tarfile.USTAR_FORMAT:
        names.append("long/" + "x" * 300)
    contents = {name: bytes(random.Random(name).randbytes(size)) for size, name in enumerate(names, start=511)}
    path = tmp_path / "archive"
    with tarfile.open(path, "w:gz" if packed else "w", format=format) as archive:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in contents.items():
            (tmp_path / "one").write_bytes(content)
            archive.add(tmp_path / "one", name)
    read = [(member, None if content is None else content.read()) for member, content in archive_members(path)]
    assert [(member.name, member.is_folder, content) for member, content in read] == [
        ("a", True, None),
        *((name, False, content) for name, content in contents.items()),
    ]


POSTS = tar_of(*((f"20news-bydate-{part}/{group}/1", b"text") for part in ("train", "test") for group in ("a", "b")))


@settings(max_examples=300, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, len(POSTS) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    stop=st.integers(0, len(POSTS)),
    packed=st.booleans(),
)
def test_a_damaged_archive_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, changes, stop, packed) -> None:
    content = bytearray(POSTS)
    for position, byte in changes:
        content[position] = byte
    path = tmp_path_factory.mktemp("tar") / "posts.tar"
    path.write_bytes(gzip.compress(content)[:stop] if packed else content[:stop])
    with contextlib.suppress(FormatError):
        train, test = data.read_20newsgroups(path)
        assert len(train) + len(test) == 4


# -- packed files -----------------------------------------------------------------------------------------------------


def test_a_packed_file_may_unpack_to_so_many_times_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ALWAYS_UNPACKED", 1_000)
    lines = random.Random(1).choices("abcdefghij", k=20_000)
    text = "".join(f"q{i} 0 {letter} 1\n" for i, letter in enumerate(lines))
    (tmp_path / "right.gz").write_bytes(gzip.compress(text.encode()))
    assert len(data.read_qrels(tmp_path / "right.gz")) == 20_000
    packed = gzip.compress(b"q 0 d 1\n" * 100_000)
    (tmp_path / "bomb.gz").write_bytes(packed)
    with pytest.raises(
        FormatError, match=rf"bomb\.gz: the gzip data of {len(packed):,} bytes unpacks to more than 100"
    ):
        data.read_qrels(tmp_path / "bomb.gz")


def test_many_small_bombs_in_a_folder_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ALWAYS_UNPACKED", MEGABYTE)
    for number in range(20):
        folder = tmp_path / "texts" / str(number % 2)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_bytes(gzip.compress(b"a " * 50_000))
    with pytest.raises(FormatError, match=r"texts: the packed data of .* unpacks to more than 100 times"):
        data.read_labeled_folder(tmp_path / "texts")


def test_a_parquet_file_says_how_large_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = 1_100_000
    table = arrow.table({name: arrow.repeat(name[0], rows) for name in ("query", "better", "worse")})
    parquet.write_table(table, tmp_path / "same.parquet")
    with pytest.raises(FormatError, match=r"1,100,000 rows in .* bytes, as made to fill the memory"):
        list(data.iter_rows(tmp_path / "same.parquet"))
    monkeypatch.setattr(limits, "ALWAYS_UNPACKED", 1_000)
    text = arrow.table({"id": ["1"], "text": ["a" * 5_000_000]})
    parquet.write_table(text, tmp_path / "text.parquet", compression="zstd")
    with pytest.raises(FormatError, match=r"the Parquet data of .* unpacks to more than 100 times as many"):
        data.read_table(tmp_path / "text.parquet")


# -- texts ------------------------------------------------------------------------------------------------------------


def test_half_a_surrogate_pair_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    rows = {
        "text": r'{"_id": "1", "text": "\ud800"}',
        "_id": r'{"_id": "\udfff", "text": "a"}',
        "title": r'{"_id": "1", "text": "a", "title": "\ud800"}',
        "stored_fields": r'{"_id": "1", "text": "a", "stored_fields": "\ud800"}',
        "key": r'{"_id": "1", "text": "a", "\ud800": 1}',
    }
    for name, row in rows.items():
        (tmp_path / name).write_text(row)
        with pytest.raises(FormatError, match="half a surrogate pair"):
            data.read_table(tmp_path / name)


def test_a_zero_byte_is_a_character_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "a\0b", "text": "green\0tea"}))
    docs = data.read_table(tmp_path / "rows.jsonl")
    assert dict(docs) == {"a\0b": "green\0tea"}


def test_deep_json_in_a_cell_and_in_a_manifest_is_no_error_of_python(tmp_path: Path) -> None:
    deep = "[" * 100_000
    (tmp_path / "clicks.csv").write_text(f'query,shown,clicked\ntea,"{deep}",a\n')
    with pytest.raises(FormatError, match=r"clicks\.csv:2: shown .* is no JSON array of ids"):
        data.read_click_log(tmp_path / "clicks.csv")
    events = 'action_name,user_query,event_attributes\nclick,tea,"{}"\n'.replace("{}", deep)
    (tmp_path / "events.csv").write_text(events)
    with pytest.raises(FormatError, match=r"events\.csv"):
        data.read_click_log(tmp_path / "events.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "manifest.json").write_text(deep)
    with pytest.raises(InputError, match="of no known kind"):
        data.recognize(tmp_path / "folder")


def test_a_message_about_a_file_is_short_whatever_the_file_says() -> None:
    message = str(FormatError("f", 1, "begins " + "x" * 10**6 + " ends"))
    assert len(message) < LONGEST_MESSAGE
    assert message.startswith("f:1: begins xxx")
    assert message.endswith(" ends")


# -- the same answers as the slow ways --------------------------------------------------------------------------------


def slow_click_preferences(shown, clicked, skipped, examination):
    """All pairs, sorted."""
    looked = [
        examination_guess(rank) if examination is None else examination[min(rank, len(examination)) - 1]
        for rank in range(1, len(shown) + 1)
    ]
    chosen = dict.fromkeys(clicked)
    pairs = [
        (better, worse, looked[rank])
        for better in chosen
        for rank, worse in enumerate(shown)
        if worse not in chosen and (skipped == "all" or rank < shown.index(better))
    ]
    return pairs if len(pairs) <= MOST_PREFERENCES else sorted(pairs, key=lambda pair: -pair[2])[:MOST_PREFERENCES]


@settings(max_examples=300, deadline=None)
@given(
    n_shown=st.integers(1, 60),
    seed=st.integers(0, 10**6),
    skipped=st.sampled_from(["above", "all"]),
    examination=st.none() | st.lists(st.sampled_from([0.1, 0.5, 1.0]), min_size=1, max_size=20),
)
def test_click_preferences_are_those_of_all_pairs(n_shown, seed, skipped, examination) -> None:
    shown = list(range(n_shown))
    clicked = random.Random(seed).sample(shown, random.Random(seed).randint(0, n_shown))
    expected = slow_click_preferences(shown, clicked, skipped, examination)
    assert click_preferences(shown, clicked, skipped, most=float("inf"), examination=examination) == expected


@settings(max_examples=200, deadline=None)
@given(
    by_id=st.booleans(),
    events=st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 3))),
)
def test_clicks_go_to_the_lists_that_a_search_of_all_finds(by_id, events) -> None:
    lists, clicks = ShownLists(), []
    for is_click, group, doc, position in events:
        key = ListKey(group, "q", by_id)
        if is_click:
            clicks.append((key, f"d{doc}", len(clicks)))
            lists.click(key, f"d{doc}")
        else:
            lists.show(key, [f"d{doc}"], [float(position)], [None])
    expected = []
    for key, doc_id, order in clicks:
        matching = [one for one in lists._of_key.get(key, ()) if doc_id in one.positions]
        before = [one for one in matching if one.began <= order]
        if matching:
            expected.append((id(before[-1] if before else matching[0]), doc_id))
    lists.close()
    assert {(id(one), doc_id) for one in lists.lists for doc_id in one.clicks} == set(expected)
    assert lists.n_lost == len(clicks) - len(expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.none() | st.integers(0, 3)), max_size=30))
def test_columns_hold_what_the_rows_have(rows) -> None:
    columns = GatheredColumns(("a",))
    for row in rows:
        columns.add(row, lambda message: FormatError("rows", None, message))
    finished = columns.finished()
    assert list(finished) == list(dict.fromkeys(["a", *(name for row in rows for name in row)]))
    for name, column in finished.items():
        assert list(column) == [row.get(name) for row in rows]
        assert column[1:3] == [row.get(name) for row in rows[1:3]]


# -- the table of limits ----------------------------------------------------------------------------------------------

LIMIT = re.compile(r"^\| `([A-Z_]+)`(?: \(`([\w.]+)`\))? \| ([\d,]+) \|", re.MULTILINE)
LIMITS = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"


def test_every_limit_is_in_the_docs_with_its_default() -> None:
    listed = {
        (module or "tercet.data.limits", name): int(default.replace(",", ""))
        for name, module, default in LIMIT.findall(LIMITS.read_text(encoding="utf-8"))
    }
    assert listed == {(module, name): getattr(importlib.import_module(module), name) for module, name in listed}
    named = {name for name in vars(limits) if name.isupper()}
    assert {name for module, name in listed if module == "tercet.data.limits"} == named
