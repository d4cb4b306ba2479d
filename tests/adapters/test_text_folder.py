"""Folders of texts: what is a document, and what changes."""

from __future__ import annotations

import logging

import pytest

from tercet.adapters.text_folder import MOST_BYTES, TextFolder
from tercet.errors import InputError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tea.md").write_text("# Green tea\n\nSteep it at 80 degrees.\n")
    (tmp_path / "tools.py").write_text("def loadIndex(path):\n    return open_file(path)\n")
    (tmp_path / "memory.jsonl").write_text(
        '{"id": "m1", "text": "likes cocoa", "time": 7}\n\n{"text": "lives in Rome", "url": "https://example.org"}\n'
    )
    return tmp_path


def ids(folder: TextFolder, query: str) -> list[str]:
    return [hit.doc_id for hit in folder.index.search(query)]


def test_files_and_lines_are_documents(folder):
    read = TextFolder(folder)
    assert sorted(read.index) == ["memory.jsonl#3", "memory.jsonl#m1", "notes/tea.md", "tools.py"]
    [hit] = read.index.search("steep degrees")
    assert hit.stored_fields == {"title": "Green tea", "url": (folder / "notes" / "tea.md").as_uri()}
    assert read.content(hit.text) == "# Green tea\n\nSteep it at 80 degrees.\n"
    [hit] = read.index.search("cocoa")
    assert (hit.stored_fields["title"], hit.stored_fields["time"]) == ("memory.jsonl#m1", 7)
    assert read.index.search("Rome")[0].stored_fields["url"] == "https://example.org"


def test_paths_and_parts_of_identifiers_are_found(folder):
    read = TextFolder(folder)
    assert ids(read, "load index") == ["tools.py"]
    assert ids(read, "open file") == ["tools.py"]
    assert ids(read, "tools") == ["tools.py"]


def test_what_is_no_text_is_left_out(folder, caplog):
    (folder / "picture.png").write_bytes(b"\x89PNG\0\xff")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "empty.txt").write_text(" \n")
    (folder / "link.md").symlink_to(folder / "tools.py")
    for hidden in (".git", "node_modules"):
        (folder / hidden).mkdir()
        (folder / hidden / "config.txt").write_text("hidden")
    (folder / "large.txt").write_text("x" * (MOST_BYTES + 1))
    (folder / "broken.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    with caplog.at_level(logging.WARNING):
        assert len(TextFolder(folder).index) == 4
    assert "large.txt has more than" in caplog.text
    assert "broken.jsonl:2" in caplog.text


def test_changed_files_are_read_again(folder):
    for number in range(20):
        (folder / f"other{number}.txt").write_text(f"page number {number}")
    read = TextFolder(folder)
    assert not read.refresh()
    before = read.index
    (folder / "notes" / "coffee.md").write_text("Coffee needs hotter water.\n")
    (folder / "tools.py").unlink()
    (folder / "memory.jsonl").write_text('{"id": "m1", "text": "likes lemonade"}\n')
    assert read.refresh()
    assert ids(read, "hotter water") == ["notes/coffee.md"]
    assert ids(read, "open file") == []
    assert ids(read, "lemonade") == ["memory.jsonl#m1"]
    assert ids(read, "Rome") == []
    assert len(read.index) == 23
    assert "tools.py" in before  # whoever searches meanwhile has the whole version before


def test_many_changes_index_the_folder_anew(folder):
    read = TextFolder(folder)
    for number in range(20):
        (folder / f"other{number}.txt").write_text(f"page number {number}")
    assert read.refresh()
    assert read.index.model.doc_vectorizer.n_docs_ == 24


def test_a_folder_without_texts_is_refused(tmp_path):
    with pytest.raises(InputError, match="no file of UTF-8 text"):
        TextFolder(tmp_path)
