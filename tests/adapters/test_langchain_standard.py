"""LangChain's own standard tests of retrievers.

The Makefile installs langchain-tests without its dependencies: six pytest plugins that would change all other tests.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
pytest.importorskip("langchain_tests", reason="langchain-tests is not installed")
from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests

from tercet.adapters.langchain import LearningRetriever

DOCUMENTS = [Document(id=f"page{number}", page_content=f"page {number} of the manual") for number in range(5)]


@pytest.mark.anyio  # runs the asynchronous ones
class TestStandard(RetrieversIntegrationTests):
    """The standard tests of LangChain for retrievers."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture(autouse=True)
    def _opened(self, tmp_path):
        self.folder = tmp_path
        self.opened: list[LearningRetriever] = []
        yield
        for one in self.opened:
            one.used.close()

    @property
    def retriever_constructor(self) -> Any:
        def construct(**settings: Any) -> LearningRetriever:
            taught = self.folder / f"{len(self.opened)}.db"
            self.opened.append(LearningRetriever.from_documents(DOCUMENTS, taught, **settings))
            return self.opened[-1]

        return construct

    @property
    def retriever_query_example(self) -> str:
        return "manual page"
