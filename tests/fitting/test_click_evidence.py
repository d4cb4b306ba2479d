"""Preferences and evidence of a click log."""

from __future__ import annotations

import numpy as np
import pytest

from tercet.data import ClickLog, Impression
from tercet.data.clicks import click_preferences
from tercet.errors import InputError
from tercet.fitting.click_evidence import past_clicks, preferred_rows


def test_a_list_with_more_than_64_pairs_keeps_those_that_weigh_most():
    """Beside a short list, and in the order of the log."""
    docs = tuple(f"d{number}" for number in range(40))
    log = ClickLog((Impression("q", docs[:2], docs[:1]), Impression("q", docs, docs[20:24])))
    better, worse, weight = preferred_rows(log.columns, None)
    expected = click_preferences(docs, docs[20:24], "all", most=np.inf)
    assert len(expected) == 64
    names = [log.columns.docs[log.columns.pair_doc[log.columns.pair[row]]] for row in (*better, *worse)]
    found = list(zip(names[: better.size], names[better.size :], weight.tolist(), strict=True))
    assert found == [("d0", "d1", pytest.approx(1 / np.log2(3))), *expected]


@pytest.mark.parametrize("impression", [Impression("q", ("a", "a"), ("a",)), Impression("q", ("a", "b"), ("c",))])
def test_a_list_that_shows_a_document_twice_or_not_at_all_is_refused(impression):
    with pytest.raises(InputError, match=r"impressions\[1\]: document"):
        past_clicks(ClickLog((Impression("q", ("a", "b"), ("b",)), impression)))
