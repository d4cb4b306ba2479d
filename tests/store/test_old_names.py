"""Files from before a field was renamed load under its new name."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tercet.report import Report
from tercet.search.segment import StoredSegment
from tercet.store.codec import decode, encode
from tercet.store.old_names import OLD_FIELDS, with_new_arrays
from tercet.text import Analyzer

CLASSES = {cls.__name__: cls for cls in (Analyzer, Report, StoredSegment)}


def test_fields_of_an_old_file_are_those_of_the_class():
    analyzer = Analyzer(tokenizer="characters")
    meta, _ = encode(analyzer)
    meta["cut"] = meta.pop("tokenizer")
    assert decode(Analyzer, meta) == analyzer
    segment = StoredSegment("v", 1, 1, texts=True, limits=(1, 1.0), stored_fields=True)
    meta, _ = encode(segment)
    meta["carried"] = meta.pop("stored_fields")
    assert decode(StoredSegment, meta) == segment


def test_arrays_of_an_old_segment_have_their_new_names():
    assert with_new_arrays({"carried_letters": 1, "text_starts": 2}) == {"stored_fields_letters": 1, "text_starts": 2}


@pytest.mark.parametrize("name", OLD_FIELDS)
def test_the_table_speaks_of_fields_that_there_are(name):
    known = {field.name for field in fields(CLASSES[name])}
    assert set(OLD_FIELDS[name].values()) <= known
    assert not set(OLD_FIELDS[name]) & known
