"""What is learned while serving: the journal, votes, the replay and its bounds, versions for readers."""

from __future__ import annotations

import errno
import os
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from support.serving import made_docs, made_index, preferred
from tercet.data.clicks import MOST_PREFERENCES
from tercet.errors import FormatError, InputError, JournalError
from tercet.serve import Journal, Learner, LearningBounds, read_journal, replay
from tercet.serve import journal_file as journal_room
from tercet.serve.allowances import Allowances, Moment, Voter
from tercet.serve.journal import Clicked, Entry, Renewed, Trust, Withdrawn, entry_of
from tercet.serve.replay import Replay
from tercet.serve.snippets import passage_of, title_of
from tercet.serve.votes import ONE_CLICK, votes_of
from tercet.weights import Identity, Weights
from tercet.weights.value import unit_of

pytestmark = pytest.mark.slow  # make test has it, make check has not

INDEX = made_index()
LATENT = made_index(latent=True)
DOCS = list(made_docs())
QUERIES = ("green avocado", "blue sky", "avocado", "Green AVOCADO", "toast of the dark garden", "unknownword")
TIME = "2026-01-01T00:00:00Z"


def clicked(
    number: int,
    query: str,
    shown: tuple[str, ...],
    *chosen: str,
    client: str = "10.0.0.1",
    trust: Trust | None = None,
) -> Entry:
    return Clicked(number, TIME, client, query, shown, chosen, trust)


def withdrawn(number: int, *entries: int) -> Entry:
    return Withdrawn(number, TIME, "10.0.0.1", "undo", entries)


# -- the journal ----------------------------------------------------------------------------------------------------

ENTRIES = [
    preferred(1, "avocado \u202e é \U0001f951", "a", "b"),
    clicked(2, "eyes", ("a", "b"), "b"),
    withdrawn(3, 1, 2),
    preferred(4, 'quotes " and \\ and \n', "c", "d", "10.0.0.1/ann"),
    preferred(5, "green", "a", "b", "10.0.0.1/ann", "vouched"),
    Renewed(6, TIME, "local", "bake"),
]


def written(path, entries=ENTRIES):
    with Journal(path) as journal:
        for entry in entries:
            assert journal.append(lambda number, entry=entry: entry) == entry
    return path


def test_a_journal_gives_back_what_was_appended(tmp_path):
    path = written(tmp_path / "new" / "journal.jsonl")
    assert list(read_journal(path).entries) == ENTRIES
    with Journal(path) as journal:
        assert journal.entries == ENTRIES
        assert journal.n_bytes == path.stat().st_size
        journal.append(lambda number: preferred(number, "q", "a", "b"))
    assert [entry.number for entry in read_journal(path).entries] == [1, 2, 3, 4, 5, 6, 7]


def test_a_journal_cut_short_anywhere_keeps_every_whole_line(tmp_path):
    whole = written(tmp_path / "whole.jsonl").read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    path = tmp_path / "cut.jsonl"
    near = {end + off for end in ends for off in (-2, -1, 0, 1)}
    for size in sorted(near & set(range(len(whole) + 1)) | set(range(0, len(whole), 23))):
        path.write_bytes(whole[:size])
        kept = [end for end in ends if end <= size]
        with Journal(path) as journal:
            assert journal.entries == ENTRIES[: max(0, len(kept) - 1)]
            assert journal.torn_bytes == size - (kept[-1] if kept else 0)
            journal.append(lambda number: preferred(number, "again", "a", "b"))
        assert len(read_journal(path).entries) == max(0, len(kept) - 1) + 1


def test_a_damaged_line_is_named(tmp_path):
    path = written(tmp_path / "journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(1, len(lines)):
        for place in range(0, len(lines[at]) - 1, 7):
            broken = bytearray(lines[at])
            broken[place] ^= 1
            path.write_bytes(b"".join([*lines[:at], bytes(broken), *lines[at + 1 :]]))
            with pytest.raises(FormatError) as caught:
                Journal(path)
            # A byte that became a line break makes two bad lines of one; the first is named.
            assert caught.value.line == at + 1
            assert str(path) in str(caught.value)


def test_lines_that_were_moved_or_taken_out_are_noticed(tmp_path):
    path = written(tmp_path / "journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    for broken in (lines[:2] + lines[3:], [lines[0], lines[2], lines[1], *lines[3:]], lines[1:], [lines[0], *lines]):
        path.write_bytes(b"".join(broken))
        with pytest.raises(FormatError):
            read_journal(path)


def test_one_service_has_a_journal_at_a_time(tmp_path):
    with Journal(tmp_path / "journal.jsonl"), pytest.raises(JournalError, match="in use by another"):
        Journal(tmp_path / "journal.jsonl")
    Journal(tmp_path / "journal.jsonl").close()


def test_new_folders_are_synced_where_they_are_listed(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(journal_room, "sync_folder", synced.append)
    Journal(tmp_path / "new" / "newer" / "journal.jsonl").close()
    assert set(synced) == {tmp_path, tmp_path / "new", tmp_path / "new" / "newer"}


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be moved there")
def test_a_journal_that_is_not_at_its_place_takes_nothing(tmp_path):
    path, aside = tmp_path / "journal.jsonl", tmp_path / "journal.jsonl.1"

    def append(journal):
        journal.append(lambda number: preferred(number, "q", "a", "b"))

    with Journal(path) as journal:
        append(journal)
        path.rename(aside)
        with pytest.raises(JournalError, match="not at its place"):
            append(journal)
        path.write_bytes(aside.read_bytes())
        with pytest.raises(JournalError, match="another file"):
            append(journal)
        aside.replace(path)
        append(journal)
        whole = path.read_bytes()
        for changed in (whole + b"more", whole[:-5], b""):
            path.write_bytes(changed)
            with pytest.raises(JournalError, match="somebody else changed"):
                append(journal)
            assert path.read_bytes() == changed
        path.write_bytes(whole)
        append(journal)
    assert [entry.number for entry in read_journal(path).entries] == [1, 2, 3]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_what_the_disk_refuses_is_not_kept(tmp_path, monkeypatch, call):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(lambda number: preferred(number, "q", "a", "b"))
        before = path.read_bytes()
        real, times = getattr(os, call), []

        def full(file, *rest):
            times.append(1)
            if len(times) == 1:
                if call == "write":
                    real(file, rest[0][:10])
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(file, *rest)

        monkeypatch.setattr(os, call, full)
        with pytest.raises(JournalError, match="No space"):
            journal.append(lambda number: preferred(number, "lost", "a", "b"))
        assert path.read_bytes() == before
        journal.append(lambda number: preferred(number, "kept", "a", "b"))
    assert [entry.query for entry in read_journal(path).entries] == ["q", "kept"]


def test_a_journal_that_cannot_be_put_right_takes_no_more(tmp_path, monkeypatch):
    with Journal(tmp_path / "journal.jsonl") as journal:
        with monkeypatch.context() as patched:

            def broken(*_):
                raise OSError(errno.EIO, "Input/output error")

            patched.setattr(os, "fsync", broken)
            with pytest.raises(JournalError):
                journal.append(lambda number: preferred(number, "q", "a", "b"))
        with pytest.raises(JournalError, match="until a restart"):
            journal.append(lambda number: preferred(number, "q", "a", "b"))


def test_a_full_journal_takes_no_more(tmp_path):
    with Journal(tmp_path / "journal.jsonl", most_bytes=300) as journal:
        journal.append(lambda number: preferred(number, "q", "a", "b"))
        with pytest.raises(JournalError, match="300 are the most"):
            journal.append(lambda number: preferred(number, "q", "a", "b"))
        assert len(journal) == 1


@pytest.mark.parametrize(
    "meta",
    [
        None,
        [],
        {"kind": []},
        {"kind": "praise"},
        {"kind": "prefer"},
        ENTRIES[0].to_meta() | {"more": 1},
        ENTRIES[0].to_meta() | {"number": True},
        ENTRIES[1].to_meta() | {"shown": "ab"},
        ENTRIES[2].to_meta() | {"entries": [1, "2"]},
        ENTRIES[4].to_meta() | {"trust": "everybody"},
        ENTRIES[4].to_meta() | {"time": "yesterday"},
        ENTRIES[5].to_meta() | {"reason": "undo"},
    ],
)
def test_what_is_no_entry_is_refused(meta):
    with pytest.raises(InputError):
        entry_of(meta)


# -- votes ----------------------------------------------------------------------------------------------------------


def test_clicks_prefer_the_clicked_over_the_skipped_above():
    votes = list(votes_of(clicked(1, "q", ("a", "b", "c", "d", "e"), "b", "d"), LearningBounds()))
    assert {(vote.better, vote.worse) for vote in votes} == {("b", "a"), ("d", "a"), ("d", "c")}
    weights = {vote.worse: vote.parts / ONE_CLICK for vote in votes if vote.better == "d"}
    assert weights["c"] / weights["a"] == pytest.approx(0.5, abs=1e-5)  # 1 / log2(1 + 3) of rank 1's


def test_one_list_counts_no_more_than_one_click():
    shown = tuple(f"d{rank}" for rank in range(100))
    votes = list(votes_of(clicked(1, "q", shown, *shown[1::2]), LearningBounds()))
    assert len(votes) == MOST_PREFERENCES
    assert sum(vote.parts for vote in votes) <= ONE_CLICK
    assert list(votes_of(clicked(1, "q", shown, shown[0]), LearningBounds())) == []


# -- the replay -----------------------------------------------------------------------------------------------------


@st.composite
def journals(draw):
    """Few documents and queries, so that the same questions come up again and again."""
    docs = DOCS[:5]
    entries: list[Entry] = []
    for number in range(1, draw(st.integers(1, 14)) + 1):
        kind = draw(st.sampled_from(["prefer", "prefer", "prefer", "clicks", "withdraw", "renew"]))
        client = draw(st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.1/ann"]))
        trust: Trust | None = draw(st.sampled_from([None, None, "visitor", "vouched", "teacher"]))
        order = draw(st.permutations(docs))
        query = draw(st.sampled_from(QUERIES))
        if kind == "prefer":
            hours = draw(st.sampled_from([0.0, 0.0, number, 100.0]))  # clocks may be set back
            entries.append(preferred(number, query, order[0], order[1], client, trust, hours))
        elif kind == "clicks":
            entries.append(clicked(number, query, tuple(order), *order[1:3], client=client, trust=trust))
        elif kind == "renew":
            entries.append(Renewed(number, TIME, "local", "promote"))
        else:
            gone = draw(st.lists(st.integers(1, max(1, number - 1)), min_size=1, max_size=3, unique=True))
            entries.append(withdrawn(number, *gone))
    return entries


TIGHT = LearningBounds(client=0.3, teacher=0.3, step=0.1, weight=0.05, pairs=8)


@settings(max_examples=50, deadline=None)
@given(journals(), st.data(), st.sampled_from([LearningBounds(), TIGHT]), st.sampled_from([INDEX, LATENT]))
def test_entries_in_any_portions_give_the_bits_of_one_replay(entries, data, bounds, index):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=5)))
    portions = Replay(index, bounds)
    for start, stop in zip([0, *cuts], [*cuts, len(entries)], strict=True):
        portions.apply(entries[start:stop])
    whole = Replay(index, bounds)
    whole.apply(entries)
    assert_same(portions, whole)


@settings(max_examples=50, deadline=None)
@given(journals(), st.sampled_from([LearningBounds(), TIGHT]))
def test_what_was_withdrawn_never_was(entries, bounds):
    gone = {number for entry in entries if isinstance(entry, Withdrawn) for number in entry.entries}
    left = [
        entry
        for entry in entries
        if isinstance(entry, Renewed) or (entry.number not in gone and not isinstance(entry, Withdrawn))
    ]
    with_them, without = Replay(INDEX, bounds), Replay(INDEX, bounds)
    with_them.apply(entries)
    without.apply(left)
    assert_same(with_them, without)


def assert_same(one: Replay, other: Replay) -> None:
    first, second = one.overlay.matrix(), other.overlay.matrix()
    for name in ("indptr", "indices", "data"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
    assert [(taken.position, taken.entries) for taken in one.steps] == [(t.position, t.entries) for t in other.steps]
    last = Moment(100, 0.0)
    for trust in (None, "visitor", "vouched", "teacher"):
        for client in ("10.0.0.1", "10.0.0.2", "10.0.0.1/ann"):
            assert one.allowances.spent(Voter(client, trust), last) == other.allowances.spent(
                Voter(client, trust), last
            )


@pytest.mark.parametrize("index", [INDEX, LATENT], ids=["sparse", "latent"])
def test_a_preference_puts_the_better_document_ahead(index):
    before = index.search("green avocado", 10)
    worse, better = before[0].doc_id, before[6].doc_id
    version = replay(index, [preferred(1, "green avocado", better, worse)])
    scores = {hit.doc_id: hit.score for hit in version.index.search("green avocado", 60)}
    old = {hit.doc_id: hit.score for hit in before}
    target = LearningBounds.margin * max(abs(old[better]), abs(old[worse]))
    assert scores[better] - scores[worse] == pytest.approx(target, rel=1e-5)
    assert version.name == "v1"
    assert [hit.score for hit in index.search("green avocado", 10)] == [hit.score for hit in before]


def test_nothing_changes_where_the_better_one_is_ahead_already():
    hits = INDEX.search("green avocado", 60)
    version = replay(INDEX, [preferred(1, "green avocado", hits[0].doc_id, hits[-1].doc_id)])
    assert version.overlay.nnz == 0
    assert version.index is INDEX


@pytest.mark.parametrize("others", [["10.0.0.1"], ["10.0.0.2"], ["10.0.0.1/ann"]])
def test_contradictory_preferences_cancel_exactly(others):
    top = [hit.doc_id for hit in INDEX.search("green avocado", 4)]
    there = [preferred(1, "green avocado", top[3], top[0])]
    back = [preferred(2, "Green AVOCADO!", top[0], top[3], client) for client in others]
    assert replay(INDEX, there).overlay.nnz > 0
    assert replay(INDEX, there + back).digest == replay(INDEX, []).digest
    one_way = clicked(1, "green avocado", (top[0], top[3]), top[3])
    other_way = clicked(2, "green avocado", (top[3], top[0]), top[0], client=others[0])
    assert replay(INDEX, [one_way]).overlay.nnz > 0
    assert replay(INDEX, [one_way, other_way]).overlay.nnz == 0


def test_saying_it_again_and_again_counts_once_for_a_client():
    top = [hit.doc_id for hit in INDEX.search("green avocado", 4)]
    once = replay(INDEX, [preferred(1, "green avocado", top[3], top[0])])
    often = replay(INDEX, [preferred(n, "green avocado", top[3], top[0]) for n in range(1, 20)])
    assert often.digest == once.digest
    against = [preferred(n, "green avocado", top[0], top[3], f"10.0.0.{n}") for n in range(20, 22)]
    outvoted = replay(INDEX, [preferred(n, "green avocado", top[3], top[0]) for n in range(1, 20)] + against)
    assert outvoted.digest == replay(INDEX, [preferred(1, "green avocado", top[0], top[3])]).digest


def noisy(n: int, client, trust: Trust | None = None, hours: float = 0.0) -> list[Entry]:
    """Votes at random, all of them within so many hours."""
    rng = np.random.default_rng(5)
    entries = []
    for number in range(1, n + 1):
        better, worse = rng.choice(DOCS[:-1], 2, replace=False)
        query = str(rng.choice(["green", "blue", "red avocado", "pale sky", "oil"]))
        when = hours * number / n
        entries.append(preferred(number, query, str(better), str(worse), client(number), trust, when))
    return entries


def changed(entries: list[Entry], bounds: LearningBounds) -> float:
    return float(np.abs(replay(INDEX, entries, bounds).overlay.data).sum())


def reasons_of(entries: list[Entry], bounds: LearningBounds) -> set[str]:
    """What came of the votes of entries, each looked at when it was cast."""
    state, reasons = Replay(INDEX, bounds), set()
    for entry in entries:
        state.apply([entry])
        reasons |= {outcome.reason for outcome in state.outcomes(entry)}
    return reasons


@pytest.mark.parametrize("trust", [None, "visitor"])
def test_a_noisy_client_has_a_bounded_effect(trust):
    for client, most in ((lambda _: "10.0.0.1", 0.5), (lambda n: f"10.0.0.1/{n}", 5.0)):
        entries = noisy(200, client, trust)
        assert changed(entries, LearningBounds(client=0.5)) <= most * 1.0001
        assert changed(entries, LearningBounds(client=1e9)) > most


def test_a_noisy_client_that_goes_on_for_days_has_no_more_than_comes_back():
    one, many = (lambda _: "10.0.0.1"), (lambda n: f"10.0.0.1/{n}")
    bounds = LearningBounds(client=0.5, renewal=24.0)
    for hours in (12.0, 24.0, 72.0):
        assert changed(noisy(200, one, "visitor", hours), bounds) <= 0.5 * (1 + hours / 24) * 1.0001
        assert changed(noisy(200, many, "visitor", hours), bounds) <= 5.0 * (1 + hours / 24) * 1.0001
    slowly = changed(noisy(200, one, "visitor", 72.0), bounds)
    assert slowly > changed(noisy(200, one, "visitor"), bounds)
    assert changed(noisy(200, one, None, 72.0), bounds) == changed(noisy(200, one), bounds), "for life, as it was"


def test_names_that_are_vouched_for_have_more_together_and_no_more_each():
    bounds = LearningBounds(client=0.05)
    assert changed(noisy(200, lambda _: "10.0.0.1/ann", "vouched"), bounds) <= 0.05 * 1.0001
    many = noisy(200, lambda n: f"10.0.0.1/{n}", "vouched")
    assert 0.5 < changed(many, bounds) <= 5.0 * 1.0001


def test_many_people_behind_one_proxy_do_not_silence_each_other():
    entries = noisy(310, lambda n: f"10.0.0.1/reader-{n}", "vouched")
    assert "allowance" not in reasons_of(entries, LearningBounds(client=3.0))
    assert "allowance" in reasons_of(
        noisy(310, lambda n: f"10.0.0.1/reader-{n}", "visitor"), LearningBounds(client=3.0)
    )


@pytest.mark.parametrize("trust", [None, "visitor"])
def test_no_name_of_a_client_gives_more_than_another(trust):
    spent = []
    for name in ("10.0.0.1/*", "10.0.0.1/ann", "10.0.0.1/teacher"):
        state = Replay(INDEX, LearningBounds(client=0.5))
        state.apply(noisy(200, lambda _, name=name: name, trust))
        spent.append(state.allowances.spent(Voter(name, trust), Moment(200, 0.0)))
    assert spent[0] == spent[1] == spent[2]
    assert spent[0][0] <= 0.5


def test_a_teacher_is_not_silenced_and_does_not_pay_for_visitors():
    """However much others have said: the teacher's word is ahead at once, the thousandth time as the first."""
    state = Replay(INDEX, LearningBounds(client=0.5))
    entries = noisy(200, lambda _: "127.0.0.1", "visitor")
    state.apply(entries)
    spent = [state.outcomes(entry)[0].reason for entry in entries].count("allowance")
    assert spent > 100
    rng = np.random.default_rng(6)
    for number in range(201, 1201):
        better, worse = (str(doc) for doc in rng.choice(DOCS[:-1], 2, replace=False))
        entry = preferred(number, str(rng.choice(QUERIES[:5])), better, worse, "127.0.0.1", "teacher")
        state.apply([entry])
        (outcome,) = state.outcomes(entry)
        contrast = state._contrast(next(question for question, _ in state._asked(entry)))
        assert outcome.is_ahead or not contrast.doc_terms.size, (number, outcome)


def test_allowances_come_back_with_time_and_when_a_model_is_made_of_what_was_taught():
    bounds = LearningBounds(client=1.0, teacher=4.0, renewal=24.0)
    allowances, ann, teacher = Allowances(bounds, 1.0), Voter("10.0.0.1/ann", "visitor"), Voter("::1", "teacher")
    assert allowances.charge(1.0, {ann: 1}, Moment(1, 0.0))[0] == 1.0
    share, before = allowances.charge(1.0, {ann: 1}, Moment(2, 6 * 3600.0))
    assert share == 0.25
    assert allowances.hours_to_renew(ann, Moment(2, 6 * 3600.0)) == 24.0
    assert allowances.charge(1.0, {ann: 1}, Moment(3, 0.0))[0] == 0.0, "a clock that was set back gives nothing"
    assert allowances.charge(1.0, {ann: 1}, Moment(3, 6 * 3600.0))[0] == 0.0
    assert allowances.charge(4.0, {teacher: 1}, Moment(3, 0.0))[0] == 1.0
    allowances.renew(4)
    assert allowances.spent(ann, Moment(3, 6 * 3600.0)) == (1.0, 0.25), (
        "that of the address is larger, and comes back as soon"
    )
    assert allowances.spent(ann, Moment(4, 6 * 3600.0)) == (0.0, 0.0)
    assert allowances.charge(4.0, {teacher: 1}, Moment(5, 0.0))[0] == 1.0
    for_life = Allowances(LearningBounds(client=1.0, renewal=0.0), 1.0)
    for_life.charge(1.0, {ann: 1}, Moment(1, 0.0))
    assert for_life.charge(1.0, {ann: 1}, Moment(2, 1e9))[0] == 0.0
    assert for_life.hours_to_renew(ann, Moment(2, 1e9)) == np.inf
    allowances.refund(before)
    assert allowances.spent(ann, Moment(2, 6 * 3600.0))[0] == 0.75


def test_the_last_word_of_a_client_counts():
    top = [hit.doc_id for hit in INDEX.search("green avocado", 4)]
    there = preferred(1, "green avocado", top[3], top[0], trust="visitor")
    back = preferred(2, "green avocado", top[0], top[3], trust="visitor")
    again = preferred(3, "green avocado", top[3], top[0], trust="visitor")
    assert replay(INDEX, [there, back]).digest == replay(INDEX, [back]).digest
    assert replay(INDEX, [there, back, again]).digest == replay(INDEX, [there]).digest
    other = preferred(4, "green avocado", top[0], top[3], "10.0.0.2", "visitor")
    state = Replay(INDEX, LearningBounds())
    state.apply([there, other])
    assert state.overlay.matrix().nnz == 0
    assert [state.outcomes(entry)[0].reason for entry in (there, other)] == ["cancelled", "cancelled"]
    taught = preferred(5, "green avocado", top[3], top[0], "10.0.0.3", "teacher")
    state.apply([taught, preferred(6, "green avocado", top[0], top[3], "10.0.0.4", "visitor")])
    assert [state.outcomes(entry)[0].reason for entry in (there, other)] == ["learned", "outvoted"]
    assert state.outcomes(taught)[0].is_ahead


def test_outcomes_say_why():
    docs = made_docs() | {"twin": made_docs()["d0"]}
    index = made_index(docs=docs)
    hits, oily = [hit.doc_id for hit in index.search("green avocado", 60)], index.search("oil", 60)
    entries = [
        preferred(1, "green avocado", hits[5], hits[0], trust="visitor"),
        preferred(2, "blue sky", "d0", "twin", trust="visitor"),
        preferred(3, "unknownword", hits[0], hits[5], trust="visitor"),
        preferred(4, "oil", oily[0].doc_id, oily[-1].doc_id, trust="visitor"),
        clicked(5, "green", (hits[1], hits[2]), hits[1], trust="visitor"),
    ]
    state = Replay(index, LearningBounds())
    state.apply(entries)
    outcomes = [state.outcomes(entry) for entry in entries]
    assert [[outcome.reason for outcome in each] for each in outcomes] == [
        ["learned"],
        ["same"],
        ["unknown"],
        ["ahead"],
        [],
    ]
    for bounds, reason in ((LearningBounds(step=1e-4), "bounded"), (LearningBounds(client=1e-4), "allowance")):
        state = Replay(index, bounds)
        state.apply(entries[:1])
        (outcome,) = state.outcomes(entries[0])
        assert (outcome.reason, outcome.is_ahead) == (reason, False)
        assert outcome.renewed_in == (24.0 if reason == "allowance" else 0.0)


def test_journals_of_before_replay_to_the_same_answers(tmp_path):
    """Written and replayed by a service whose allowances were for life; sums of sizes are what it gave."""
    rng = np.random.default_rng(5)
    entries: list[Entry] = []
    for number in range(1, 301):
        order = [str(doc) for doc in rng.choice(DOCS[:-1], 5, replace=False)]
        query = str(rng.choice(["green", "blue", "red avocado", "pale sky", "oil"]))
        client = str(rng.choice(["10.0.0.1", "10.0.0.1/ann", "10.0.0.2"]))
        if number % 5 == 0:
            entries.append(clicked(number, query, tuple(order), *order[1:3], client=client))
        elif number % 17 == 0:
            entries.append(withdrawn(number, number - 7))
        else:
            entries.append(preferred(number, query, order[0], order[1], client))
    path = written(tmp_path / "journal.jsonl", entries)
    assert b"trust" not in path.read_bytes()
    kept = read_journal(path).entries
    for bounds, size, n_pairs in (
        (LearningBounds(), 11.732397583313286, 105),
        (LearningBounds(client=0.3, step=0.1, weight=0.05, pairs=8), 0.8635978384263581, 52),
        (LearningBounds(client=2.0), 5.160685170718352, 85),
    ):
        overlay = replay(INDEX, kept, bounds).overlay
        assert float(np.abs(overlay.data.astype(np.float64)).sum()) == pytest.approx(size, rel=1e-6)
        assert overlay.nnz == n_pairs


def test_steps_and_weights_are_bounded():
    entries = noisy(100, lambda n: f"10.0.0.{n}")
    for bounds in (LearningBounds(step=0.01), LearningBounds(weight=0.005), LearningBounds(pairs=3)):
        state = Replay(INDEX, bounds)
        state.apply(entries)
        assert state.steps
        before = None
        for at in range(1, 12):
            one = replay(INDEX, entries[:at], bounds).overlay
            if before is not None and at <= 8:
                # Places of distinct questions only grow at the end, so each entry adds one step.
                change = (one - before).data
                assert np.sqrt((change.astype(np.float64) ** 2).sum()) <= bounds.step * 1.001
                assert len(change) <= bounds.pairs
            before = one
        assert np.abs(state.overlay.matrix().data).max() <= bounds.weight * 1.0001


def test_steps_are_measured_by_the_weights_of_the_base():
    n = INDEX.model.weights.shape[0]
    assert unit_of(Weights([Identity(n_terms=n, scale=3.0)])) == 3.0
    assert unit_of(Weights([Identity(n_terms=n, scale=0.0)])) == 1.0
    model = tc.TextModel(INDEX.model.query_vectoriser, INDEX.model.doc_vectoriser, INDEX.model.weights * 64.0)
    entries = noisy(30, lambda _: "10.0.0.1")
    plain, scaled = replay(INDEX, entries), replay(INDEX.with_model(model), entries)
    assert np.allclose(scaled.overlay.toarray(), plain.overlay.toarray() * 64, rtol=1e-4, atol=1e-6)


def test_entries_on_documents_that_are_gone_have_no_effect():
    docs = made_docs()
    gone = INDEX.search("green avocado", 2)[1].doc_id
    del docs[gone]
    fewer = made_index(docs=docs)
    others = [hit.doc_id for hit in fewer.search("green avocado", 5)]
    entries = [preferred(1, "green avocado", gone, others[0]), preferred(2, "green avocado", others[4], others[0])]
    assert replay(fewer, entries).digest == replay(fewer, [entries[1]]).digest
    assert replay(fewer, [preferred(1, "nonsense", others[4], others[0])]).overlay.nnz == 0


def test_pairs_are_traced_to_their_entries():
    top = [hit.doc_id for hit in INDEX.search("green avocado", 8)]
    version = replay(INDEX, [preferred(1, "green avocado", top[7], top[0]), preferred(2, "blue sky", top[0], top[7])])
    for query_word, _, weight, entries in version.strongest(1000):
        assert weight != 0
        assert entries == ((1,) if query_word in ("green", "avocado") else (2,))
    assert len(version.strongest(3)) == 3


def test_the_row_of_a_document_is_that_of_its_text():
    docs = made_docs()
    for doc_id in ("d0", "d17", "hostile/é"):
        assert (INDEX.row(doc_id) != INDEX.model.docs([docs[doc_id]])).nnz == 0


# -- versions -------------------------------------------------------------------------------------------------------


def test_readers_always_see_a_whole_version():
    entries = noisy(60, lambda _: "10.0.0.1")
    learner = Learner(INDEX, entries[:5])
    seen: dict[str, str] = {}
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            version = learner.current
            scores = tuple(hit.score for hit in version.index.search("green avocado", 20))
            assert seen.setdefault(version.name, repr((version.digest, scores))) == repr((version.digest, scores))

    readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for start in range(5, 60, 5):
            last = [learner.tell(entry) for entry in entries[start : start + 5]][-1].result(timeout=20)
    finally:
        stop.set()
    for reader in readers:
        reader.join(timeout=20)
    learner.close()
    assert last.number == 60
    assert len(seen) > 1
    for name, found in seen.items():
        version = replay(INDEX, entries[: int(name[1:])])
        scores = tuple(hit.score for hit in version.index.search("green avocado", 20))
        assert found == repr((version.digest, scores))


def test_what_was_told_before_closing_is_applied():
    entries = noisy(20, lambda _: "10.0.0.1")
    learner = Learner(INDEX, [])
    for entry in entries:
        learner.tell(entry)
    learner.close()
    assert learner.current.digest == replay(INDEX, entries).digest


def test_a_learner_that_fails_leaves_the_last_version(monkeypatch, caplog):
    learner = Learner(INDEX, noisy(3, lambda _: "10.0.0.1"))
    before = learner.current

    def broken(*_):
        raise RuntimeError("a defect")

    monkeypatch.setattr(Replay, "apply", broken)
    first = learner.tell(preferred(4, "green", "d0", "d1"))
    learner.close()
    assert first.cancelled()
    assert learner.current is before
    assert learner.failure == "the learner stopped: RuntimeError"
    assert learner.tell(preferred(5, "green", "d0", "d1")).cancelled()
    assert "a defect" in caplog.text


# -- what is shown --------------------------------------------------------------------------------------------------


def test_passages_hold_the_words_of_the_query():
    text = "Title here\n" + "filler words " * 60 + "the avocado and then green eyes " + "more filler " * 60
    passage = passage_of(text, ["avocado", "eye"])
    assert "avocado" in passage
    assert "eyes" in passage
    assert passage.startswith("…")
    assert passage.endswith("…")
    assert len(passage) <= 242
    assert passage_of(text, ["nothing"]).startswith("filler")
    assert passage_of("", ["x"]) == ""


def test_titles_are_first_lines():
    assert title_of("\n  \n The   title \nbody") == "The title"
    assert len(title_of("word " * 100)) <= 121
    assert title_of("x" * 500).endswith("…")
    assert title_of("") == ""
