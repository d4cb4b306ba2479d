"""The retrievers of LlamaIndex and Haystack in the guide, run as they stand there; both libraries are in no extra."""

from __future__ import annotations

from typing import Any

import pytest

from support.documents import PROJECT, blocks_of
from tercet.adapters.used_index import UsedIndex


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Run the block of a library, and close the index afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    namespace: dict[str, Any] = {}

    def run(library: str) -> dict[str, Any]:
        blocks = blocks_of(PROJECT / "docs" / "guides" / "agents.md")
        [block] = [block for block in blocks if block.not_run == f"needs {library}"]
        exec(compile("\n" * (block.line - 1) + block.text, block.document, "exec", dont_inherit=True), namespace)
        return namespace

    yield run
    for value in namespace.values():
        if isinstance(used := getattr(value, "used", value), UsedIndex):
            used.close()


def test_llamaindex(recipe):
    pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed")
    made = recipe("LlamaIndex")
    before, after = (made["first"], made["second"]), made["retriever"].retrieve("forgot password")
    assert [one.node_id for one in after] == [before[1].node_id, before[0].node_id]
    assert after[0].get_content() == "reset the password of an account"
    assert after[0].metadata["why"].startswith(f"{after[0].score:+.4f}  score")


def test_haystack(recipe):
    pytest.importorskip("haystack", reason="Haystack is not installed")
    made = recipe("Haystack")
    before = made["answer"]["documents"]
    after = made["pipeline"].run({"retriever": {"query": "forgot password", "top_k": 1}})["retriever"]["documents"]
    assert [one.id for one in after] == [before[-1].id]
    assert after[0].content == "reset the password of an account"
    assert after[0].meta["why"].startswith(f"{after[0].score:+.4f}  score")
