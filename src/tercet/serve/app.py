"""HTTP API: parse, call the service, answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from tercet.errors import EngineError, InputError
from tercet.serve import answers, messages, requests
from tercet.serve.guard import Access, Buckets, Guard, Level, network_of
from tercet.serve.metrics import TEXT_TYPE
from tercet.serve.page import ready_pages
from tercet.serve.problems import PROBLEM_TYPE, TITLES, HttpProblem, problem_of
from tercet.serve.served import Served
from tercet.serve.service import Service, check_documents, check_query

BUILD: Final = version("tercet")

_READING: Final = (400, 401, 404, 421, 422, 429, 431, 500, 503)
_CHANGING: Final = (*_READING, 403, 409, 413, 415, 507)
_PERFORMED: Final[dict[str, Any]] = {"status_code": 202}


def _problems(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    reference = {"$ref": "#/components/schemas/ProblemDetails"}
    retry_after = {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}, "example": 1}
    return {
        status: {"description": TITLES[status], "content": {PROBLEM_TYPE: {"schema": reference}}}
        | ({"headers": {"Retry-After": retry_after}} if status in (429, 503) else {})
        for status in sorted(statuses)
    }


def create_app(service: Service, access: Access | None = None) -> Guard:
    """Return the application for a service; the caller closes the service."""
    access = access or Access()
    app = FastAPI(
        title="Tercet",
        version="1",
        summary="Search that gives its reasons and learns from teachers.",
        docs_url=None,  # its page loads scripts of other sites
        redoc_url=None,
        openapi_url=None,
    )
    routers = {level: _router(access, level) for level in ("open", "read", "teach")}
    _add_open(routers["open"], service)
    _add_reading(routers["read"], service, access)
    _add_teaching(routers["teach"], service)
    _add_documents(routers["teach"], service, access)
    for router in routers.values():
        app.include_router(router)
    _add_errors(app)
    openapi = _completed(app)
    per_minute = service.limits.strangers_per_minute
    strangers = Buckets(per_minute, max(1, round(per_minute / 6)))
    direct: dict[tuple[str, str], ASGIApp] = {("GET", "/search"): _Search(service, access)}
    for path, page in ready_pages(openapi).items():
        direct["GET", path] = direct["HEAD", path] = page
    return Guard(app, access, service.metrics, direct, strangers)


def _router(access: Access, level: Level) -> APIRouter:
    """Return a router whose routes check the token before reading the request."""

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def checked(request: Request) -> Response:
                access.check(level, request.scope)
                if request.method in ("GET", "HEAD", "DELETE") and await request.body():
                    raise HttpProblem(400, f"{request.method} takes no body at this path", "no-body")
                return await handle(request)

            return checked

    security: list[dict[str, list[str]]] = [{}] if level == "open" else [{}, {level: []}]
    responses = _problems(_CHANGING if level == "teach" else _READING)
    return APIRouter(route_class=Route, responses=responses, generate_unique_id_function=_named(security))


def _named(security: list[dict[str, list[str]]]) -> Callable[[APIRoute], str]:
    def name(route: APIRoute) -> str:
        route.openapi_extra = {"security": security}
        return f"{route.name}_{min(route.methods or {'any'}).lower()}"

    return name


def _add_errors(app: FastAPI) -> None:
    async def problem(request: Request, error: Exception) -> Response:
        return problem_of(error, request.method, request.headers.get("content-type", "")).response()

    for kind in (HttpProblem, RequestValidationError, HTTPException, InputError, EngineError, Exception):
        app.add_exception_handler(kind, problem)


class _Search:
    """``GET /search`` without routing, which costs as much as a search.

    FastAPI has the route for the OpenAPI document and for other methods.
    """

    def __init__(self, service: Service, access: Access) -> None:
        self._service, self._access = service, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state, headers = scope["state"], Headers(scope=scope)
        state["route"] = "/search"
        self._access.check("read", scope)
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            raise HttpProblem(400, "GET takes no body at this path", "no-body", closes=True)
        asked = requests.SearchQuery.from_query_string(scope["query_string"])
        client = network_of(scope["client"][0]) if scope.get("client") else "local"
        name = client if asked.client is None else f"{client}/{asked.client}"
        body = to_json(await self._service.search(asked, name), inf_nan_mode="null")
        length = str(len(body)).encode()
        sent = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": sent})
        await send({"type": "http.response.body", "body": body})


def _client(request: Request, name: str | None) -> str:
    """Return the address of a client (/64 prefix for IPv6), followed by the name in the request, if any."""
    address = network_of(request.client.host) if request.client is not None else "local"
    return address if name is None else f"{address}/{name}"


def _add_open(router: APIRouter, service: Service) -> None:
    @router.get("/health", response_model=messages.Health)
    async def health() -> Response:
        """Report the state of the service; 503 if actions are not learned."""
        now, shared = service.now, service.interleaver
        served = now.served
        facts: dict[str, Any] = {
            "version": served.version,
            "damaged": list(service.store.damaged),
            "documents": len(served.index),
            "index": served.index_label,
            "model": served.model_label,
            "loaded": served.loaded,
            "refused": service.reloader.refused,
            "interleaving": None if shared is None else shared.to_meta(now),
            "build": BUILD,
        }
        if service.teacher.failure is not None:
            raise HttpProblem(503, f"{service.teacher.failure}; reading goes on", "not-learning", 60.0, **facts)
        return JSONResponse({"status": "ok"} | facts)

    @router.get("/ready", response_model=messages.Ready)
    async def ready() -> Response:
        """Report readiness; 503 during shutdown and while the queue is full."""
        if not service.is_ready:
            raise HttpProblem(503, "the service ends, or its queue is full; ask another", "not-ready", 1.0)
        return JSONResponse({"ready": True})


def _add_reading(router: APIRouter, service: Service, access: Access) -> None:
    @router.get("/search", response_model=messages.SearchAnswer)
    async def search(params: Annotated[requests.SearchQuery, Query()]) -> None:  # `_Search` answers
        """Find documents by the learned ranking, and by the baseline for comparison."""

    @router.post("/rank", response_model=messages.Ranked, responses=_problems(_CHANGING))
    async def rank(body: requests.Rank) -> Response:
        """Rank the documents of another engine, with reasons."""
        check_query(service.served, body.query)
        ranked = await service.read(lambda served: answers.rank(served, body.query, body.ids, body.reasons))
        return JSONResponse(ranked)

    @router.get("/explain", response_model=messages.Reasons)
    async def explain(params: Annotated[requests.ExplainQuery, Query()]) -> Response:
        """Explain the score of a document, or its lead over another document."""
        check_query(service.served, params.q)

        def reasons(served: Served) -> dict[str, Any]:
            check_documents(served.index, [params.doc] if params.versus is None else [params.doc, params.versus])
            index = served.index if params.system == "learned" else served.baseline
            return answers.explain(served, index, params.q, params.doc, params.versus, params.k)

        return JSONResponse(await service.read(reasons))

    @router.get("/documents", response_model=messages.Document)
    async def document(params: Annotated[requests.DocumentQuery, Query()]) -> Response:
        """Return a document as indexed."""

        def stored(served: Served) -> dict[str, Any]:
            check_documents(served.index, [params.id])
            return answers.document(served.index, params.id)

        try:
            answer = await service.read(stored)
        except InputError as error:
            raise HttpProblem(404, "the index keeps no texts", "no-texts") from error
        return JSONResponse(answer)

    @router.get("/taught", response_model=messages.History)
    async def taught(params: Annotated[requests.LimitQuery, Query()]) -> Response:
        """List taught actions, latest first."""
        return JSONResponse(await service.read(lambda _: service.history(params.limit)))

    @router.get("/collection", response_model=messages.Collection)
    async def collection() -> Response:
        """Describe the collection, with example queries."""
        return JSONResponse(await service.read(lambda served: answers.collection(served, service.name)))

    @router.post("/events", status_code=202, response_model=messages.ClickLogged, responses=_problems(_CHANGING))
    async def events(request: Request, body: requests.Click) -> Response:
        """Log a click on a list."""
        client = _client(request, body.client)
        return JSONResponse(await service.click(client, body.query_id, body.doc), 202)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Return counts and times for Prometheus."""
        served = service.served
        about = {"build": BUILD, "index": served.index_label, "model": served.model_label}
        return Response(service.metrics.text(service.gauges(), about), media_type=TEXT_TYPE)


def _add_teaching(router: APIRouter, service: Service) -> None:
    async def teach(request: Request, kind: str, query: str, pairs: Sequence[tuple[str, str]]) -> Response:
        return JSONResponse(await service.teach(_teacher(request), kind, query, pairs), 202)

    @router.post("/prefer", response_model=messages.Taught, **_PERFORMED)
    async def prefer(request: Request, body: requests.Prefer) -> Response:
        """Teach that a document is better than another for a query."""
        return await teach(request, "prefer", body.query, [(body.better, body.worse)])

    @router.post("/reject", response_model=messages.Taught, **_PERFORMED)
    async def reject(request: Request, body: requests.Reject) -> Response:
        """Teach that a document is not relevant for a query: the documents below are better."""
        return await teach(request, "reject", body.query, [(better, body.doc) for better in body.below])

    @router.post("/move", response_model=messages.Taught, **_PERFORMED)
    async def move(request: Request, body: requests.Move) -> Response:
        """Teach the position of a document for a query: ahead of some documents, behind others."""
        if not body.ahead_of and not body.behind:
            raise HttpProblem(422, "name documents in ahead_of or behind", "invalid")
        pairs = [(body.doc, doc) for doc in body.ahead_of] + [(doc, body.doc) for doc in body.behind]
        return await teach(request, "move", body.query, pairs)

    @router.post("/undo", response_model=messages.Undone, **_PERFORMED)
    async def undo(request: Request, body: requests.Undo) -> Response:
        """Undo actions, by default the last action of the token."""
        return JSONResponse(await service.undo(_teacher(request), body.actions), 202)


def _teacher(request: Request) -> str:
    return request.scope["state"]["holder"] or "local"


def _add_documents(router: APIRouter, service: Service, access: Access) -> None:
    def check_token() -> None:
        # Unlike teaching, a change of documents cannot be undone, so loopback alone does not suffice.
        if not access.teach_tokens:
            raise HttpProblem(403, "changing documents needs a teaching token; set TERCET_TEACH_TOKEN", "no-token")

    @router.post("/documents", response_model=messages.DocumentsChanged)
    async def add(body: requests.NewDocuments) -> Response:
        """Add documents, all or none; on disk and served before the answer."""
        check_token()
        docs = [(doc.id, doc.text, doc.stored_fields) for doc in body.documents]
        return JSONResponse(await service.add_documents(docs, body.replace))

    @router.delete("/documents", response_model=messages.DocumentsChanged)
    async def remove(params: Annotated[requests.DocumentQuery, Query()]) -> Response:
        """Remove a document; removed from disk and from lists before the answer."""
        check_token()
        return JSONResponse(await service.remove_document(params.id))


def _completed(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document with problems and tokens."""
    made = app.openapi()
    schemas = made["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemDetails"] = messages.ProblemDetails.model_json_schema()
    made["components"]["securitySchemes"] = {
        "read": {"type": "http", "scheme": "bearer", "description": "Any token, if the service has tokens."},
        "teach": {"type": "http", "scheme": "bearer", "description": "A teaching token, if the service has one."},
    }
    return made
