"""Packed strings are a sequence, and packed ids are found whatever their hashes are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.store import strings as module
from tercet.store.strings import PackedIds, PackedStrings

texts = st.lists(st.text(st.sampled_from("aé漢 "), max_size=3), max_size=8)


@given(texts)
def test_packed_strings_are_a_sequence(listed: list[str]) -> None:
    packed = PackedStrings.pack(listed)
    assert list(packed) == [packed[i] for i in range(len(packed))] == listed
    assert packed[1:-1] == listed[1:-1]
    assert PackedStrings.pack(packed) is packed
    if listed:
        assert (packed[-1], packed.index(listed[-1])) == (listed[-1], listed.index(listed[-1]))


@given(texts, texts, st.booleans())
def test_ids_are_found_also_where_hashes_are_the_same(mine: list[str], theirs: list[str], clash: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if clash:
            patch.setattr(module, "hash_of", len)
        ids, others = PackedIds.pack(list(dict.fromkeys(mine))), PackedIds.pack(list(dict.fromkeys(theirs)))
        rows, other_rows = ids.shared(others)
        assert [ids[int(row)] for row in rows] == [others[int(row)] for row in other_rows]
        assert sorted(ids[int(row)] for row in rows) == sorted(set(mine) & set(theirs))
        for doc_id in theirs:
            assert (doc_id in ids) == (doc_id in mine)
        twice = PackedIds.pack(mine).repeated()
        assert mine.count(twice) > 1 if twice is not None else len(ids) == len(mine)
