"""Memory that grows by uses, against memory made at once and against its equation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from support.memories import remember
from tercet.memory import Memory, MemorySettings, Use, with_uses

QUERIES = np.array([[3.0, 4.0, 0.0], [0.0, 2.0, 0.0], [1.0, 1.0, 1.0]])
USES = [Use("green tea", ["a"], ["b", "c"]), Use("tea", ["b", "c"]), Use("green tea pot", ["d"], ["a"])]
ASKED = sparse.csr_array([[1.0, 2.0, 0.0]])


def scores(memory: Memory) -> dict[str, float]:
    return dict(zip(memory.doc_ids, memory.scores(ASKED).toarray()[0].tolist(), strict=True))


def test_scores_are_those_of_the_equation():
    memory = with_uses(None, USES, sparse.csr_array(QUERIES), weight=2.0)
    unit = QUERIES / np.linalg.norm(QUERIES, axis=1, keepdims=True)
    similarity = (unit @ (ASKED.toarray()[0] / np.linalg.norm(ASKED.toarray()))) ** memory.settings.power
    evidence = {"a": [1, 0, -0.1], "b": [-0.1, 1, 0], "c": [-0.1, 1, 0], "d": [0, 0, 1]}
    for doc_id, amounts in evidence.items():
        m = float(similarity @ amounts)
        assert scores(memory)[doc_id] == pytest.approx(2.0 * m / (abs(m) + 0.5), rel=1e-6)


def test_uses_one_by_one_and_at_once_are_the_same():
    Q = sparse.csr_array(QUERIES)
    memory = None
    for row, use in enumerate(USES):
        memory = with_uses(memory, [use], Q[[row]], weight=2.0)
    assert memory is not None
    at_once = with_uses(None, USES, Q, weight=2.0)
    assert list(memory.texts) == list(at_once.texts)
    assert scores(memory) == scores(at_once)


def test_a_memory_keeps_its_settings_its_counts_and_what_it_has():
    settings = MemorySettings(weight=5.0, power=1.0)
    rows = sparse.csr_array([[1.0, 0.0]])
    before = remember({"q": {"a": 1}}, {"q": "green"}, rows, settings)
    counted = Memory(before.texts, before.queries, before.evidence, before.doc_ids, settings, np.array([4], np.int32))
    memory = with_uses(counted, USES[:2], sparse.csr_array(QUERIES[:2]))  # over a word more
    assert memory.settings == settings
    assert memory.n_terms == 3
    assert memory.times is not None
    assert memory.times.tolist() == [4, 1, 0, 0, 1, 1]
    assert [past.times for past in memory.explain(sparse.csr_array([[1.0, 0.0, 0.0]]), "a", ASKED).past] == [4, 1]


def test_a_document_that_was_used_is_not_unused_as_well():
    memory = with_uses(None, [Use("tea", ["a"], ["a", "b"])], sparse.csr_array([[1.0]]))
    assert memory.evidence.toarray()[0].tolist() == pytest.approx([1.0, -0.1])
