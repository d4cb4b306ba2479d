"""Memory of given evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from tercet.memory import Memory, MemorySettings


def remember(
    evidence: Mapping[str, Mapping[str, float]], texts: Mapping[str, str], rows: Any, settings: MemorySettings
) -> Memory:
    """Make memory of evidence by query and document; ``rows`` are query rows in the order of ``evidence``."""
    doc_ids = list(dict.fromkeys(doc_id for judged in evidence.values() for doc_id, value in judged.items() if value))
    largest = max(value for judged in evidence.values() for value in judged.values())
    R = np.zeros((len(evidence), len(doc_ids)), dtype=np.float32)
    for row, judged in enumerate(evidence.values()):
        for doc_id, value in judged.items():
            if value:
                R[row, doc_ids.index(doc_id)] = value / largest
    return Memory([texts[qid] for qid in evidence], rows, sparse.csr_array(R), doc_ids, settings)
