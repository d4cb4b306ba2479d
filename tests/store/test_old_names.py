"""Files from before a field was renamed load under its new name."""

from __future__ import annotations

from tercet.search.segment import StoredSegment
from tercet.store.codec import decode, encode
from tercet.store.old_names import with_new_arrays
from tercet.text import Analyzer


def test_fields_of_an_old_file_are_those_of_the_class():
    analyzer = Analyzer(tokenizer="characters")
    meta, _ = encode(analyzer)
    meta["cut"] = meta.pop("tokenizer")
    assert decode(Analyzer, meta) == analyzer
    segment = StoredSegment("v", 1, 1, texts=True, limits=(1, 1.0), stored_fields=True)
    meta, _ = encode(segment)
    meta["carried"], meta["vectoriser"] = meta.pop("stored_fields"), meta.pop("vectorizer")
    assert decode(StoredSegment, meta) == segment


def test_arrays_of_an_old_segment_have_their_new_names():
    assert with_new_arrays({"carried_letters": 1, "text_starts": 2}) == {"stored_fields_letters": 1, "text_starts": 2}
