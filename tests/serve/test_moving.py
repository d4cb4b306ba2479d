"""Where documents change, a learner goes on from what it has: the bits are those of a replay from nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.serving import made_docs, made_index, preferred
from tercet.search import Index
from tercet.serve import Learner, replay
from tercet.serve.bounds import LearningBounds
from tercet.serve.journal import Clicked, Entry, Renewed, Withdrawn
from tercet.serve.replay import Replay

IDS = list(made_docs())[:12]
QUERIES = ["green avocado", "blue sky toast", "lutein", "no such"]
TIME = "2026-01-01T00:00:00Z"


def next_entry(rng: np.random.Generator, number: int) -> Entry:
    query, docs = QUERIES[rng.integers(4)], [str(doc) for doc in rng.choice([*IDS, "late"], 3, replace=False)]
    client, trust = f"10.0.0.{rng.integers(2)}", (None, "visitor", "vouched", "teacher")[rng.integers(4)]
    kind = rng.random()
    if kind < 0.15 and number > 1:
        return Withdrawn(number, TIME, client, "undo", (int(rng.integers(1, number)),))
    if kind < 0.2:
        return Renewed(number, TIME, "local", "bake")
    if kind < 0.5:
        return Clicked(number, TIME, client, query, tuple(docs), (docs[1],), trust)
    return preferred(number, query, docs[0], docs[1], client, trust, hours=number / 2)


def changed(index: Index, rng: np.random.Generator) -> Index:
    """Some documents of an index are others, or gone, or there again, or only kept elsewhere; as another object."""
    other = index.latest()
    doc_id = str(rng.choice([*IDS, "late"]))
    kind = rng.integers(4)
    if kind == 0 and doc_id in other:
        other.remove([doc_id])
    elif kind == 1:
        other.replace({doc_id: f"{rng.choice(['green', 'sky'])} avocado {rng.choice(['toast', 'oil'])}"})
    elif kind == 2:
        other.add({f"n{rng.integers(10**9)}": "green lutein"})
    else:
        other.merge()
    return other


def check_moving(seed: int, index: Index) -> None:
    rng = np.random.default_rng(seed)
    entries: list[Entry] = []
    learner = Learner(index, [])
    try:
        for _ in range(8):
            portion = [next_entry(rng, len(entries) + i) for i in range(1, int(rng.integers(1, 6)))]
            applied = [learner.tell(entry) for entry in portion]
            if applied and rng.random() < 0.7:
                applied[-1].result(timeout=30)  # else it moves while it learns
            entries += portion
            if rng.random() < 0.3:
                entries.append(next_entry(rng, len(entries) + 1))  # which the one before is never told
            index = changed(index, rng)
            moved = Learner(index, entries, before=learner)
            learner.close()
            learner = moved
            expected, again = replay(index, entries), Replay(index, LearningBounds())
            again.apply(entries)
            found = learner.current
            assert (found.number, found.digest, found.inactive) == (len(entries), expected.digest, expected.inactive)
            assert learner._state.steps() == again.steps()
    finally:
        learner.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_learner_moves_to_other_documents(seed):
    check_moving(seed, made_index())


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_learner_moves_to_whatever_documents_become(seed):
    check_moving(seed, made_index(latent=bool(seed % 2)))


def test_what_was_looked_up_but_not_applied_is_looked_up_again():
    index = made_index()
    entry = preferred(1, "green avocado", IDS[0], IDS[1])
    state = Replay(index, LearningBounds())
    state.prepare([entry])
    fewer = index.latest()
    fewer.remove([IDS[1]])
    moved = state.over(fewer)
    moved.apply([entry])
    assert moved.steps() == []


def test_nothing_is_learned_again_for_documents_that_nobody_spoke_of():
    index = made_index()
    entries = [preferred(i, "green avocado", IDS[i], IDS[i - 1]) for i in range(1, 6)]
    with_state = Learner(index, entries)
    other = index.latest()
    other.add({"new": "green avocado"})
    moved = Learner(other, entries, before=with_state)
    assert moved._state.n_taken == with_state._state.n_taken == 5
    assert moved.current.digest == with_state.current.digest
    assert "new" in moved.current.index
    fewer = other.latest()
    fewer.remove([IDS[4]])
    last = Learner(fewer, entries, before=moved)
    assert last._state.n_taken > 5
    for learner in (with_state, moved, last):
        learner.close()
    anew = Learner(index.with_model(made_index().model), entries, before=last)
    assert anew._state.n_taken == 5  # another model, even one with the same weights, learns anew
    anew.close()
