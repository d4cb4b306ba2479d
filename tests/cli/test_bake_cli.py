"""``tercet bake`` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tercet as tc
from support.commands import ok, run
from support.serving import made_index, preferred
from tercet.search import Index
from tercet.serve import Journal, read_journal, replay

QUERY = "green avocado"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    ids = [hit.doc_id for hit in made_index(tmp_path / "index").search(QUERY)]
    with Journal(tmp_path / "index.journal" / "journal.jsonl") as journal:
        for worse in ids[:3]:
            journal.append(lambda number, worse=worse: preferred(number, QUERY, ids[4], worse))
    return tmp_path / "index"


def hits(index: Index) -> list[tuple[str, float]]:
    return [(hit.doc_id, hit.score) for hit in index.search(QUERY)]


def test_a_journal_is_baked_promoted_and_taken_back(index: Path, tmp_path: Path) -> None:
    journal = tmp_path / "index.journal" / "journal.jsonl"
    taught = hits(replay(Index.open(index), read_journal(journal).entries).index)
    assert taught != hits(Index.open(index))
    said = ok("bake", tmp_path / "index.journal", "-o", tmp_path / "model")
    assert "entries 1 to 3" in said
    assert "0 entries; the others are archived beside it" in said
    assert hits(Index.open(index, tc.load(tmp_path / "model"))) == taught
    ok("index", index, "--model", tmp_path / "model")
    baked = replay(Index.open(index), read_journal(journal).entries)
    assert (hits(baked.index), baked.n_baked) == (taught, 3)
    ok("index", index, "--undo")
    assert hits(replay(Index.open(index), read_journal(journal).entries).index) == taught
    assert run("bake", index, "-o", tmp_path / "model").exit_code == 1  # it is there
    assert "entries 1 to 3" in ok("bake", index, "-o", tmp_path / "model", "--replace")


def test_a_journal_that_a_service_has_is_left_to_it(index: Path, tmp_path: Path) -> None:
    journal = tmp_path / "index.journal" / "journal.jsonl"
    with Journal(journal):
        before = journal.read_bytes()
        said = ok("bake", journal, "-o", tmp_path / "model")
        assert f"{journal} is in use; the service archives these entries when it takes the model up" in said
        assert journal.read_bytes() == before


def test_what_cannot_be_baked(index: Path, tmp_path: Path) -> None:
    moved = (tmp_path / "index.journal").rename(tmp_path / "elsewhere")
    for source, word in ((moved, "name it by --index"), (index, "has no journal"), (tmp_path, "neither an index")):
        result = run("bake", source, "-o", tmp_path / "model")
        assert result.exit_code == 1
        assert word in result.output
    assert not (tmp_path / "model").exists()
    assert "entries 1 to 3" in ok("bake", moved, "--index", index, "-o", tmp_path / "model")
    result = run("bake", moved, "--index", index, "--model", tmp_path / "model", "-o", tmp_path / "again")
    assert "nothing to bake" in result.output
    assert run("bake", index, "--index", index, "-o", tmp_path / "again").exit_code == 2
