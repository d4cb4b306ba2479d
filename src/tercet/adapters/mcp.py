"""A server of the Model Context Protocol over an index that learns from its caller (extra ``mcp``)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tercet.adapters.text_folder import TextFolder
from tercet.adapters.used_index import UsedIndex
from tercet.errors import InputError, MissingExtraError, TercetError
from tercet.search import Hit, Index
from tercet.serve.snippets import Cards
from tercet.serve.watched import Watched

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
_MOST_RESULTS: Final = 100
INSTRUCTIONS: Final = (
    "Search documents with `search`, and read one with `fetch`. When a task is done, call `feedback` with the query_id "
    "of the search and the ids that helped: later searches learn from it. `why` explains a score, `undo` takes back "
    "what was learned."
)


class Library:
    """Tools over one index; each returns JSON values.

    Parameters
    ----------
    index : learning index
    content_of : function from the text of a document to the displayed text
    """

    def __init__(self, index: UsedIndex, content_of: Callable[[str], str] = str) -> None:
        self._index, self._content_of = index, content_of

    def search(self, query: str, limit: int = 10) -> dict[str, Any]:
        """Find documents for a query in plain words, best first. Returns query_id, for `feedback` and `why`, and
        results with id, title, url and the best passage as text; `fetch` gives the whole text."""
        if not 1 <= limit <= _MOST_RESULTS:
            raise InputError(f"limit must be from 1 to {_MOST_RESULTS}; got {limit}")
        query_id, hits = self._index.search(query, limit)
        cards = Cards(self._stems(query))
        return {"query_id": query_id, "results": [self._result(hit, cards) for hit in hits]}

    def fetch(self, id: str) -> dict[str, Any]:
        """Return a document with id, title, text, url and metadata. A fetched document counts as helpful, unless
        `feedback` for the search says otherwise.
        """
        hit = self._index.fetch(id)
        fields = dict(hit.stored_fields)
        card = Cards().card(id, hit.kept_text or "", fields)
        url = str(fields.pop("url", ""))
        fields.pop("title", None)
        text = self._content_of(hit.kept_text or "")
        return {"id": id, "title": card["title"], "text": text, "url": url, "metadata": fields}

    def feedback(self, query_id: str, used_ids: list[str], unused_ids: list[str] | None = None) -> dict[str, Any]:
        """Record the documents that helped with a search (used_ids) and the documents without help (unused_ids;
        by default the rest of the list). Later searches learn from feedback. Returns the number of the action, for
        `undo`.
        """
        return {"action": self._index.use(query_id, used_ids, unused_ids)}

    def why(self, query_id: str, id: str) -> dict[str, Any]:
        """Explain the score of a document for a search: words and past queries with what each adds."""
        hit = self._index.why(query_id, id)
        return {"id": id, "score": hit.score, "why": str(hit.why)}

    def undo(self, actions: list[int] | None = None) -> dict[str, Any]:
        """Undo the learning of actions with these numbers, or of the last action."""
        return {"undone": self._index.undo(actions)}

    def _stems(self, query: str) -> list[str]:
        model = self._index.index.model
        words = model.query_vectorizer  # type: ignore[union-attr]
        return [words.words_[column] for column in model.queries([query]).indices.tolist()]  # type: ignore[union-attr]

    def _result(self, hit: Hit, cards: Cards) -> dict[str, Any]:
        fields = hit.stored_fields
        card = cards.card(hit.doc_id, hit.kept_text or "", fields)
        url = str(fields.get("url") or "")
        sure = {} if hit.confidence is None else {"confidence": hit.confidence}
        result = {"id": hit.doc_id, "title": card["title"], "url": url, "text": card["snippet"]}
        return result | {"score": hit.score} | sure


def server(library: Library, name: str) -> Any:
    """Return an MCP server with the tools of a library."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as error:
        raise MissingExtraError("mcp", "mcp", "tercet mcp") from error
    made = MCPServer(name, instructions=INSTRUCTIONS, log_level="WARNING")
    for tool in (library.search, library.fetch, library.feedback, library.why, library.undo):
        made.add_tool(_told(tool, ToolError))
    return made


def _told(tool: Callable[..., dict[str, Any]], tool_error: type[Exception]) -> Callable[..., dict[str, Any]]:
    """A tool whose errors the caller can read."""
    from functools import wraps

    @wraps(tool)
    def call(*args: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*args, **named)
        except TercetError as error:
            raise tool_error(str(error)) from error

    return call


class IndexFolder:
    """An index on disk, which writers may change."""

    def __init__(self, path: Path) -> None:
        self._watched = Watched(path, lambda: Index.open(path))
        self.index = self._watched.open()

    @staticmethod
    def content(text: str) -> str:
        """Return a text as it is."""
        return text

    def refresh(self) -> bool:
        """Read changed files; return True after a change."""
        if not self._watched.has_news:
            return False
        self._watched.note()
        self.index = self.index.latest()
        return True


def run(path: Path, is_index: bool, taught: Path, tell: Callable[[str], None]) -> None:
    """Serve over standard input and output until the client ends it; changed files are read every other second."""
    source: IndexFolder | TextFolder = IndexFolder(path) if is_index else TextFolder(path)
    with UsedIndex(source.index, taught) as used:
        made = server(Library(used, source.content), f"tercet {path.resolve().name}")
        tell(f"{path}: {len(source.index):,} documents; {taught}: {used.store.n_actions:,} actions")
        is_closing = threading.Event()

        def watch() -> None:
            while not is_closing.wait(LOOK_SECONDS):
                try:
                    if source.refresh():
                        used.replace(source.index)
                except (TercetError, OSError) as error:
                    _log.warning("what changed is not read: %s", error)

        watcher = threading.Thread(target=watch, name="tercet-watcher", daemon=True)
        watcher.start()
        try:
            made.run("stdio")
        finally:
            is_closing.set()
            watcher.join()
