"""Uses of documents as past queries, to add to memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tercet._lazy import sparse
from tercet.memory.value import Memory, MemorySettings, unit_rows
from tercet.weights.base import widened

NOT_USED: Final = -0.1  # evidence of a shown but unused document; a used document has 1
SHAPE: Final = (0.0, 3.0)  # threshold and power of the similarity, without queries to choose by


class Use(NamedTuple):
    """A query, the ids of the used documents, and the ids of shown but unused documents."""

    text: str
    used: Sequence[str]
    unused: Sequence[str] = ()


def with_uses(memory: Memory | None, uses: Sequence[Use], Q: sparse.csr_array, weight: float = 1.0) -> Memory:
    """Return memory with past queries added.

    Parameters
    ----------
    memory : memory to extend, if any
    uses : in their order
    Q : the queries of the uses, over all words of the index
    weight : strength of new memory: a typical best score

    Examples
    --------
    >>> memory = with_uses(None, [Use("tea", ["a"], ["b"])], sparse.csr_array([[1.0]]), weight=3.0)
    >>> print(memory.evidence.toarray(), memory.scores(sparse.csr_array([[2.0]])).toarray().round(2))
    [[ 1.  -0.1]] [[ 2.  -0.5]]
    """
    n_before = 0 if memory is None else len(memory.doc_ids)
    added: dict[str, int] = {}

    def column(doc_id: str) -> int:
        at = None if memory is None else memory.ids.find(doc_id)
        return added.setdefault(doc_id, n_before + len(added)) if at is None else at

    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for row, use in enumerate(uses):
        answers = dict.fromkeys(use.used, 1.0)
        amounts = answers | {doc_id: NOT_USED for doc_id in use.unused if doc_id not in answers}
        rows += [row] * len(amounts)
        columns += [column(doc_id) for doc_id in amounts]
        values += amounts.values()
    shape = (len(uses), n_before + len(added))
    evidence = sparse.csr_array((np.array(values, np.float32), (rows, columns)), shape=shape)
    queries = unit_rows(Q, Q.shape[1]).astype(np.float32)
    texts = [use.text for use in uses]
    if memory is None:
        threshold, power = SHAPE
        settings = MemorySettings(weight=weight, threshold=threshold, power=power)
        return Memory(texts, queries, evidence, list(added), settings)
    n_past = len(memory.texts)
    before = widened(memory.queries, n_past, Q.shape[1]), widened(memory.evidence, n_past, shape[1])
    times = None
    if memory.times is not None:
        times = np.concatenate([memory.times, (evidence.data > 0).astype(np.int32)])
    return Memory(
        [*memory.texts, *texts],
        sparse.csr_array(sparse.vstack([before[0], queries], format="csr")),
        sparse.csr_array(sparse.vstack([before[1], evidence], format="csr")),
        [*memory.doc_ids, *added],
        memory.settings,
        times,
    )
