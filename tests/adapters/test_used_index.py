"""An index that learns from use: what is learned, when, and how it is taken back."""

from __future__ import annotations

import pytest

import tercet as tc
from tercet.adapters.used_index import UsedIndex
from tercet.data.taught import read_taught
from tercet.errors import InputError, StoreError

DOCS = {
    "reset": "reset the password of an account",
    "change": "change your password every year",
    "hours": "opening hours of the office",
    "invoice": "when an invoice is due",
    "parking": "parking at the office",
}


@pytest.fixture
def used(tmp_path):
    with UsedIndex(tc.Index.build(DOCS), tmp_path / "taught.db") as made:
        yield made


def ids(used: UsedIndex, query: str) -> list[str]:
    return [hit.doc_id for hit in used.search(query).hits]


def scores(used: UsedIndex, query: str) -> list[tuple[str, float]]:
    return [(hit.doc_id, hit.score) for hit in used.search(query).hits]


def test_feedback_moves_similar_queries_and_undo_moves_them_back(used, tmp_path):
    before = scores(used, "forgot the password")
    first, second = (doc_id for doc_id, _ in before[:2])
    number = used.use(used.search("forgot my password").query_id, [second])
    assert ids(used, "forgot the password")[0] == second
    taught = read_taught(tmp_path / "taught.db")
    assert [(action.kind, action.query) for action in taught.actions] == [("use", "forgot my password")]
    assert (second, first) in taught.actions[0].pairs
    assert used.undo([number]) == [number]
    assert scores(used, "forgot the password") == before
    with pytest.raises(InputError, match="not an active one"):
        used.undo([number])


def test_a_word_that_no_document_has_is_learned(used):
    answer = used.search("bill")
    assert answer.hits == []
    used.use(answer.query_id, ["invoice"])
    [hit, *_] = used.search("the bill").hits
    assert hit.doc_id == "invoice"
    assert [past.text for past in hit.why.past] == ["bill"]
    assert ("bill", "invoic") in {pair[:2] for pair in hit.why.pairs}
    assert hit.why.score == pytest.approx(hit.score)


def test_what_was_fetched_counts_at_the_next_search(used):
    shown = ids(used, "office")
    used.fetch(shown[1])
    assert used.store.n_actions == 0
    assert ids(used, "the office")[0] == shown[1]
    used.fetch("invoice")  # in no list
    ids(used, "office")
    assert used.store.n_actions == 1


def test_feedback_takes_the_place_of_what_was_fetched(used, tmp_path):
    answer = used.search("office")
    first, second = (hit.doc_id for hit in answer.hits[:2])
    used.fetch(second)
    used.search("something else")
    used.use(answer.query_id, [first])
    assert ids(used, "office")[0] == first
    assert [(action.is_active, action.pairs[0][0]) for action in read_taught(tmp_path / "taught.db").actions] == [
        (False, second),
        (True, first),
    ]


def test_a_list_without_an_answer_lowers_its_documents(used):
    answer = used.search("office password")
    worst = answer.hits[0].doc_id
    used.use(answer.query_id, [], [worst])
    assert ids(used, "office password")[0] != worst


def test_what_was_taught_is_there_after_a_restart_and_after_documents_changed(tmp_path):
    index = tc.Index.build(DOCS)
    with UsedIndex(index, tmp_path / "taught.db") as used:
        used.use(used.search("bill").query_id, ["invoice"])
        expected = scores(used, "bill")
    with UsedIndex(index, tmp_path / "taught.db") as used:
        assert scores(used, "bill") == expected
        changed = index.latest()
        changed.add({"canteen": "menu of the canteen"})
        used.replace(changed)
        assert ids(used, "bill") == ["invoice"]
        assert ids(used, "canteen") == ["canteen"]
        used.use(used.search("lunch").query_id, ["canteen"])
        assert ids(used, "lunch") == ["canteen"]


def test_one_process_writes_the_file(used, tmp_path):
    with pytest.raises(StoreError, match=r"taught\.db"):
        UsedIndex(tc.Index.build(DOCS), tmp_path / "taught.db")


@pytest.mark.parametrize(
    ("query_id", "used_ids", "message"),
    [("nothing", ["reset"], "no list 'nothing'"), (None, ["nobody"], "no document 'nobody'"), (None, [], "no other")],
)
def test_what_cannot_be_learned_is_refused_and_not_kept(used, query_id, used_ids, message):
    shown = used.search("password").query_id
    unused = [] if not used_ids else None
    with pytest.raises(InputError, match=message):
        used.use(query_id or shown, used_ids, unused)
    assert used.store.n_actions == 0
