"""Journals for property tests of what is learned from them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.serving import TIME, clicked, made_docs, preferred, withdrawn
from tercet.serve.journal import Entry, Renewed, Trust

QUERIES = ("green avocado", "blue sky", "avocado", "Green AVOCADO", "toast of the dark garden", "unknownword")


@st.composite
def journals(draw: Any, most: int = 14) -> list[Entry]:
    """Few documents and queries, so that the same questions come up again and again."""
    docs = list(made_docs())[:5]
    entries: list[Entry] = []
    for number in range(1, draw(st.integers(1, most)) + 1):
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
