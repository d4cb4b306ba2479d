"""Pages that need no token, made once: the search page, the reference of the API and its OpenAPI document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tercet.report.html import Html, element, page, style_policy

_FOLDER: Final = Path(__file__).parent / "page"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class ReadyPage:
    """An answer whose bytes are ready; a reader who has them already gets 304."""

    def __init__(self, body: bytes, media_type: str, **headers: str) -> None:
        self._etag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._headers = {"cache-control": "no-cache", "etag": self._etag, **headers}
        self._body, self._type = body, media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["route"] = "page"
        is_known = Headers(scope=scope).get("if-none-match") == self._etag
        answer = Response(b"" if is_known else self._body, 304 if is_known else 200, self._headers, self._type)
        await answer(scope, receive, send)


def ready_pages(openapi: Mapping[str, Any]) -> dict[str, ReadyPage]:
    """Return what is open to everybody, by path."""
    files = [path for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES]
    pages = {f"/{path.name}": ReadyPage(path.read_bytes(), _TYPES[path.suffix]) for path in files}
    pages["/"] = pages["/index.html"]
    pages["/openapi.json"] = ReadyPage(json.dumps(openapi).encode(), "application/json")
    reference = reference_page(openapi).encode()
    pages["/docs"] = ReadyPage(reference, "text/html", content_security_policy=style_policy())
    return pages


def reference_page(made: Mapping[str, Any]) -> str:
    """A page with every path of an OpenAPI document: what it does, takes and answers, with examples."""
    operations = [
        (path, method, operation) for path, methods in made["paths"].items() for method, operation in methods.items()
    ]
    contents = element("ul", *(_entry(path, method, operation) for path, method, operation in operations))
    sections = [_section(path, method, operation) for path, method, operation in operations]
    return page(
        "Tercet: reference of the API",
        element(
            "main",
            element("h1", "Reference of the API"),
            element("p", made["info"].get("summary", ""), " ", element("a", "openapi.json", href="openapi.json")),
            contents,
            *sections,
        ),
    )


def _anchor(path: str, method: str) -> str:
    return f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}"


def _entry(path: str, method: str, operation: Mapping[str, Any]) -> Html:
    link = element("a", element("code", f"{method.upper()} {path}"), href=f"#{_anchor(path, method)}")
    return element("li", link, " ", operation.get("description", ""))


def _section(path: str, method: str, operation: Mapping[str, Any]) -> Html:
    needs = [name for scheme in operation.get("security", ()) for name in scheme]
    token = f"Needs the {needs[0]} token, where there is one." if needs else "Open to everybody."
    parameters = operation.get("parameters", ())
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    answers = [_answer(status, answer) for status, answer in operation["responses"].items()]
    return element(
        "section",
        element("h2", element("code", f"{method.upper()} {path}"), id=_anchor(path, method)),
        element("p", operation.get("description", ""), " ", token),
        _table(("parameter", "in", "what it is"), [_parameter(one) for one in parameters]) if parameters else None,
        element("h3", "Body") if body else None,
        _example(body["example"]) if body else None,
        element("details", element("summary", "Answers"), *answers),
    )


def _parameter(parameter: Mapping[str, Any]) -> tuple[object, ...]:
    schema = parameter.get("schema", {})
    about = parameter.get("description") or schema.get("description", "")
    default = f" Default: {schema['default']}." if schema.get("default") is not None else ""
    needed = " Required." if parameter.get("required") else ""
    return element("code", parameter["name"]), parameter["in"], f"{about}{default}{needed}"


def _answer(status: str, answer: Mapping[str, Any]) -> Html:
    examples = [media["example"] for media in answer.get("content", {}).values() if "example" in media]
    shown = _example(examples[0]) if examples else None
    return element("div", element("h3", f"{status}: {answer.get('description', '')}"), shown)


def _example(example: object) -> Html:
    text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    return element("pre", element("code", text))


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> Html:
    lines = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element(
        "table",
        element("thead", element("tr", *(element("th", name, scope="col") for name in head))),
        element("tbody", *lines),
    )
