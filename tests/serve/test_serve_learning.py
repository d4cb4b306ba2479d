"""What is learned while serving: votes, the replay and its bounds, versions for readers."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from oracles.teaching import taught
from support.drawn_journals import journals
from support.serving import clicked, made_docs, made_index, noisy, preferred, withdrawn, written
from tercet.data.clicks import MOST_PREFERENCES
from tercet.kernels.votes import recorded_steps
from tercet.learn.online import LEAST_SLOTS, SLOT_BYTES, OnlineLearner
from tercet.serve import Learner, LearningBounds, read_journal, replay
from tercet.serve.allowances import Moment, Voter
from tercet.serve.bounds import ENTRIES_BEHIND
from tercet.serve.journal import Entry, Renewed, Withdrawn
from tercet.serve.replay import Replay
from tercet.serve.snippets import passage_of, title_of
from tercet.serve.votes import ONE_CLICK, votes_of
from tercet.weights import Identity, Weights
from tercet.weights.value import unit_of

pytestmark = pytest.mark.slow  # make test has it, make check has not

INDEX = made_index()
LATENT = made_index(latent=True)
DOCS = list(made_docs())


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
@given(journals(), st.sampled_from([LearningBounds(), TIGHT]), st.sampled_from([INDEX, LATENT]))
def test_a_replay_is_what_plain_python_gives(entries, bounds, index):
    state = Replay(index, bounds)
    state.apply(entries)
    W, shares = taught(index, entries, bounds)
    assert np.allclose(state.overlay.matrix().toarray(), W, atol=1e-4 * max(1e-3, np.abs(W).max()))
    assert [step.share for step in state.steps()] == pytest.approx(shares, abs=1e-4)


def test_going_back_takes_few_steps_and_gives_the_same_bits():
    entries = noisy(1200, lambda n: f"10.0.{n % 7}.1", "teacher", hours=1200.0)
    state = Replay(INDEX, TIGHT)
    state.apply(entries[:900])
    for start in range(900, 1200, 25):
        state.apply(entries[start : start + 25])
    for number, gone in enumerate((1200, 1100, 700, 2), 1201):
        before = state.n_taken
        entries.append(withdrawn(number, gone))
        state.apply(entries[-1:])
        assert state.n_taken - before <= 2 * (1200 - gone) + 2 * 256
        whole = Replay(INDEX, TIGHT)
        whole.apply(entries)
        assert_same(state, whole)


def test_it_can_be_asked_how_long_steps_will_take(monkeypatch):
    monkeypatch.setattr(Replay, "_votes_at_once", lambda _: 30)
    entries = noisy(100, lambda _: "10.0.0.1", "teacher")
    state, whole = Replay(INDEX, LearningBounds()), Replay(INDEX, LearningBounds())
    advance, left = state.overlay.advance, []

    def output(*given):
        left.append((state._going.done, state.seconds_left))
        advance(*given)

    monkeypatch.setattr(state.overlay, "advance", output)
    state.apply(entries)
    assert [done for done, _ in left] == [0, 30, 60, 90]
    assert all(seconds > 0 for _, seconds in left)
    assert state.seconds_left == 0
    monkeypatch.undo()
    whole.apply(entries)
    assert_same(state, whole)


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
    assert one.steps() == other.steps()
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
        assert state.steps()
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
    strongest = version.strongest(1000)
    for query_word, _, weight, behind in strongest.pairs:
        assert weight != 0
        assert behind == ((1,) if query_word in ("green", "avocado") else (2,), 1)
    assert strongest.is_whole
    assert version.strongest(3).pairs == strongest.pairs[:3]


def test_pairs_are_traced_as_a_look_at_every_step_does():
    """Votes of all kinds on questions that share words, some withdrawn; of many entries the latest are named."""
    top = [hit.doc_id for hit in INDEX.search("green avocado", 12)]
    entries = noisy(2000, lambda number: f"10.0.{number % 50}.1", "visitor")
    entries += [clicked(2001, "green", tuple(top), top[5], top[9]), withdrawn(2002, *range(3, 2000, 11))]
    state = Replay(INDEX, LearningBounds(client=1e6, crowd=1e6))
    state.apply(entries)
    box, n_columns = state.box, INDEX.model.weights.shape[1]
    expected: dict[int, list[int]] = {}
    for question in np.flatnonzero(box.questions.column("last") >= 0):
        keys, _ = recorded_steps(np.array([question]), n_columns, *box.rows[1:])
        for key in keys.tolist():
            expected.setdefault(key, []).extend(box.entries(int(box.questions.all.last[question])))
    assert max(map(len, expected.values())) > ENTRIES_BEHIND
    *_, behind = state.look_behind(np.array(sorted(expected), np.int64))
    for key, numbers in expected.items():
        assert behind[key] == (tuple(sorted(set(numbers))[-ENTRIES_BEHIND:]), len(numbers))


def test_who_looks_behind_pairs_takes_turns_with_the_learner_and_stops_when_it_is_late(monkeypatch):
    entries = [preferred(i, query, *DOCS[i : i + 2]) for i, query in enumerate(["green", "blue sky"] * 3, 1)]
    learner = Learner(INDEX, entries)
    try:
        for name, value in (("_LOOKED_AT_FIRST", 2), ("_LAST_STRETCH", 2), ("_STRETCH_SECONDS", 0.0)):
            monkeypatch.setattr(sys.modules[Replay.__module__], name, value)
        late = iter([False, True])
        early, whole = learner.current.strongest(1000, lambda: next(late)), learner.current.strongest(1000)
        assert (early.is_whole, whole.is_whole) == (False, True)
        named = [{number for pair in each.pairs for number in pair.behind.entries} for each in (early, whole)]
        assert named[0] == {number for number in named[1] if number > 2}
        assert named[1] > named[0] > set()
        looks = learner.current.look_behind(np.array([0], np.int64))
        next(looks)
        assert learner._applying.acquire(blocking=False)
        learner._applying.release()
    finally:
        learner.close()


def long_texts() -> tc.Index:
    names = [f"doc{letter}" for letter in "abcdef"]
    return tc.Index.build({name: " ".join(f"{name}{at}" for at in range(400)) for name in names})


LONG_QUERY = " ".join(f"doca{at} docb{at}" for at in range(8))


def test_whatever_is_in_a_journal_is_learned(monkeypatch):
    """A limit on memory would stop the learner, each start after it, and the bake that makes room."""
    index = long_texts()
    entries = [preferred(i, LONG_QUERY, f"doc{letter}", "doca", trust="teacher") for i, letter in enumerate("bcdef", 1)]
    learned = replay(index, entries)
    assert learned.overlay.nnz > LEAST_SLOTS
    monkeypatch.setitem(OnlineLearner.__init__.__kwdefaults__, "max_memory", LEAST_SLOTS * SLOT_BYTES)
    assert replay(index, entries).digest == learned.digest


def test_room_is_made_for_the_pairs_that_a_step_may_change():
    state = Replay(long_texts(), LearningBounds())
    state.apply([preferred(1, LONG_QUERY, "docb", "doca", trust="teacher")])
    assert state.box.most_pairs > 8 * state.bounds.teacher_pairs
    assert 0 < state.overlay.n_pairs <= state.bounds.teacher_pairs
    assert state.overlay._table[0].size <= 8 * state.bounds.teacher_pairs


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
            last = [learner.tell(entry) for entry in entries[start : start + 5]][-1].result(timeout=90)
    finally:
        stop.set()
    for reader in readers:
        reader.join(timeout=90)
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
