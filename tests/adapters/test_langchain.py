"""The retriever of LangChain: reasons, filters, feedback and changed documents."""

from __future__ import annotations

import pytest

from tercet.errors import InputError

pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
from langchain_core.documents import Document

from tercet.adapters.langchain import LearningRetriever

DOCUMENTS = [
    Document(id="reset", page_content="reset the password of an account", metadata={"team": "support"}),
    Document(id="change", page_content="change your password every year", metadata={"team": "security"}),
    Document(id="hours", page_content="opening hours of the office", metadata={"team": "support"}),
    Document(id="manager", page_content="a password manager for the office", metadata={"team": "security"}),
]


@pytest.fixture
def retriever(tmp_path):
    made = LearningRetriever.from_documents(DOCUMENTS, tmp_path / "taught.db", tmp_path / "index")
    yield made
    made.used.close()


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


def test_documents_come_with_their_reasons(retriever):
    [document] = retriever.invoke("opening hours", k=1)
    assert (document.id, document.page_content) == ("hours", "opening hours of the office")
    assert document.metadata["team"] == "support"
    assert document.metadata["why"].startswith(f"{document.metadata['score']:+.4f}  score")


def test_filters_leave_documents_out(retriever):
    assert set(ids(retriever.invoke("password", where={"team": "security"}))) == {"change", "manager"}


def test_feedback_by_id_is_learned_kept_and_undone(retriever, tmp_path):
    before = retriever.invoke("forgot password")
    last = before[-1].id
    action = retriever.feedback(before[0].metadata["query_id"], [last])
    assert ids(retriever.invoke("forgot password"))[0] == last
    retriever.used.close()
    again = LearningRetriever.open(tmp_path / "index", tmp_path / "taught.db")
    assert ids(again.invoke("forgot password"))[0] == last
    assert again.undo([action]) == [action]
    assert ids(again.invoke("forgot password")) == ids(before)
    again.used.close()


def test_documents_change(retriever, tmp_path):
    retriever.add_documents([Document(id="canteen", page_content="menu of the canteen")])
    retriever.delete(["hours"])
    assert ids(retriever.invoke("canteen")) == ["canteen"]
    assert ids(retriever.invoke("hours")) == []
    with pytest.raises(InputError, match="document 1 has no id"):
        retriever.add_documents([Document(page_content="nameless")])
