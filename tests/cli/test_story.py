"""The story that the demo tells: one gesture moves a result for its query and for others, and the words are named."""

from __future__ import annotations

import io

from rich.console import Console

from tercet.cli.story import ANSWER, ARTICLES, OTHERS, QUERY, moved_to_top, tell_story
from tercet.search import Index


def test_the_gesture_brings_the_answer_to_the_top_and_to_queries_that_nobody_taught():
    before = Index.build(ARTICLES)
    after = before.with_model(moved_to_top(before, QUERY, ANSWER))
    assert before.search(QUERY, 1)[0].doc_id != ANSWER
    assert after.search(QUERY, 1)[0].doc_id == ANSWER
    for query in OTHERS:
        assert ANSWER not in [hit.doc_id for hit in before.search(query, len(ARTICLES))]
        assert ANSWER in [hit.doc_id for hit in after.search(query, len(ARTICLES))]


def test_the_story_is_told_with_ranks_and_words():
    shown = io.StringIO()
    tell_story(Console(file=shown, width=110))
    text = shown.getvalue()
    assert "← you drag this one to the top" in text
    for query in (QUERY, *OTHERS):
        [row] = [line for line in text.splitlines() if line.startswith(f"│ {query} ")]
        assert "→" in row
    assert "again." in text
