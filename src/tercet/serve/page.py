"""Static pages: the search page and the OpenAPI document."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_FOLDER: Final = Path(__file__).parent / "page"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class ReadyPage:
    """Prepared answer, plain and compressed."""

    def __init__(self, body: bytes, media_type: str) -> None:
        self._etag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
        headers = {"cache-control": "no-cache", "etag": self._etag, "vary": "accept-encoding"}
        packed = {**headers, "content-encoding": "gzip"}
        self._plain = Response(body, 200, headers, media_type)
        self._packed = Response(gzip.compress(body, mtime=0), 200, packed, media_type)
        self._known = Response(b"", 304, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["route"], headers = "page", Headers(scope=scope)
        answer = self._packed if "gzip" in headers.get("accept-encoding", "") else self._plain
        if headers.get("if-none-match") == self._etag:
            answer = self._known
        await answer(scope, receive, send)


def ready_pages(openapi: Mapping[str, Any]) -> dict[str, ReadyPage]:
    """Return the open pages by path."""
    files = [path for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES]
    pages = {f"/{path.name}": ReadyPage(path.read_bytes(), _TYPES[path.suffix]) for path in files}
    pages["/"] = pages["/index.html"]
    pages["/openapi.json"] = ReadyPage(json.dumps(openapi).encode(), "application/json")
    return pages
