"""The HTTP API: parse, ask the service, answer."""

from __future__ import annotations

import logging
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from tercet.errors import EngineError, InputError
from tercet.report.html import style_policy
from tercet.serve import answers, messages, requests
from tercet.serve.access_log import AccessLog
from tercet.serve.answers import Deadline
from tercet.serve.bounds import ID_CHARS
from tercet.serve.generations import Generation
from tercet.serve.guard import Access, Guard
from tercet.serve.learner import Version
from tercet.serve.metrics import TEXT_TYPE
from tercet.serve.networks import household
from tercet.serve.problems import PROBLEM_TYPE, HttpProblem, validation_problem
from tercet.serve.rates import Rates
from tercet.serve.reference import reference_page
from tercet.serve.service import Service
from tercet.serve.teaching import check_documents, check_query

_log = logging.getLogger(__name__)

BUILD = version("tercet")
PAGE = Path(__file__).parent / "page"
_SUFFIXES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PUBLIC = frozenset({"/health", "/ready", "/openapi.json", "/docs"})  # and the page: they tell nothing of the documents

_PAGE_FILES = {path.name: path for path in PAGE.iterdir() if path.suffix in _SUFFIXES}
OPEN_PATHS = _PUBLIC | {"/"} | {f"/{name}" for name in _PAGE_FILES}  # that need no token

_PROBLEMS = {
    400: "The request is broken.",
    401: "A token is needed.",
    403: "The token may not do this, or a page of another site asks.",
    404: "There is no such document, word, entry or list.",
    405: "The path takes other methods.",
    408: "The body came too slowly.",
    409: "It is there already, nothing there can be taken back, or nothing is logged.",
    413: "The body is larger than 1 MB, or 64 KiB at /prefer and /events.",
    415: "The body is not sent as application/json.",
    421: "The service is not known by this host name.",
    422: "Something is missing, wrong or beyond a limit, which is named.",
    429: "Too many changes, or too many that cannot be understood; Retry-After says when.",
    500: "A defect of the service.",
    503: "Too much to do, or the deadline passed; Retry-After says when.",
    507: "The journal or the index cannot be written, or as much is learned as may be, so nothing is kept.",
}
_DOC_ID = InPath(min_length=1, max_length=ID_CHARS, description="Id of a document.", examples=["MED-10"])
_READING = (400, 401, 404, 421, 422, 500, 503)
_CHANGING = (*_READING, 403, 408, 409, 413, 415, 429, 507)


def _problems(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    reference = {"$ref": "#/components/schemas/ProblemDetails"}
    retry_after = {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}, "example": 1}
    return {
        status: {"description": _PROBLEMS[status], "content": {PROBLEM_TYPE: {"schema": reference}}}
        | ({"headers": {"Retry-After": retry_after}} if status in (429, 503) else {})
        for status in sorted(statuses)
    }


def create_app(service: Service, access: Access | None = None, access_log: AccessLog | None = None) -> FastAPI:
    """The application for a service; whoever makes it also closes the service and the log."""
    app = FastAPI(
        title="Tercet",
        version="1",
        summary="Search that gives its reasons and learns from preferences.",
        docs_url=None,  # its page would load scripts from elsewhere; ours needs none
        redoc_url=None,
        responses=_problems(_READING),
    )
    access = access or Access()
    app.add_middleware(
        Guard,
        access=access,
        metrics=service.metrics,
        open_paths=OPEN_PATHS,
        access_log=access_log,
        check_rate=lambda address, path: _rates_of(service, path).check(address),
    )
    _add_errors(app, service)
    _add_reading(app, service, access)
    _add_changing(app, service, access)
    _add_documents(app, service, access)
    _add_page(app)
    _complete(app)
    return app


def _rates_of(service: Service, path: str) -> Rates:
    """What rations requests with a body: clicks for the log are none of what is taught."""
    return service.clicking if path == "/events" else service.changing


def _add_errors(app: FastAPI, service: Service) -> None:
    def answered(request: Request, problem: HttpProblem) -> Response:
        request.scope["state"]["problem"] = problem  # for the logs
        return problem.response()

    @app.exception_handler(HttpProblem)
    async def problem(request: Request, error: HttpProblem) -> Response:
        return answered(request, error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        if request.method == "POST":
            try:
                _rates_of(service, request.scope["path"]).charge(_client(request, None))
            except HttpProblem as too_many:
                return answered(request, too_many)
        if request.method == "POST" and not _is_json(sent_as := request.headers.get("content-type", "")):
            said = f"the body is sent as {sent_as[:80]!r}" if sent_as else "the body has no content type"
            return answered(request, HttpProblem(415, f"{said}; send it as application/json", "media-type"))
        return answered(request, validation_problem(list(error.errors())))

    @app.exception_handler(InputError)
    async def wrong_input(request: Request, error: InputError) -> Response:
        return answered(request, HttpProblem(422, str(error), "invalid"))

    @app.exception_handler(EngineError)
    async def engine_away(request: Request, error: EngineError) -> Response:
        # Where the engine is and what it said is for the log.
        _log.warning("%s %s: %s", request.method, request.url.path, error)
        detail = "the engine that keeps the documents does not answer; try again soon"
        return answered(request, HttpProblem(503, detail, "engine", 5.0))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        details = {404: "there is nothing at this path", 405: "this path takes other methods"}
        found = HttpProblem(error.status_code, details.get(error.status_code, str(error.detail)))
        response = answered(request, found)
        response.headers.update(error.headers or {})
        return response


def _is_json(content_type: str) -> bool:
    media = content_type.partition(";")[0].strip().lower()
    return media == "application/json" or media.endswith("+json")


def _client(request: Request, name: str | None) -> str:
    """Who asks: the address, of IPv6 its /64, and a slash and the name where the request gives one."""
    address = household(request.client.host) if request.client is not None else "local"
    return address if name is None else f"{address}/{name}"


def _add_reading(app: FastAPI, service: Service, access: Access) -> None:
    def deadline(request: Request) -> Deadline:
        return Deadline(request.scope["state"]["started"], service.limits.deadline_ms)

    @app.get("/search", response_model=messages.SearchAnswer)
    async def search(request: Request, params: Annotated[requests.SearchQuery, Query()]) -> Response:
        """Find documents: the learned list beside that of matching words alone."""
        client, is_vouched = _client(request, params.client), access.vouches(request.headers)
        wanted = (params.q, params.k, deadline(request), params.all, client, params.filter, is_vouched, params.log)
        return JSONResponse(await service.search(*wanted))

    @app.get("/explain", response_model=messages.Reasons)
    async def explain(request: Request, params: Annotated[requests.ExplainQuery, Query()]) -> Response:
        """Say why a document has its score, or why it is ahead of another."""
        check_query(service.version, params.q)

        def reasons(version: Version, now: Generation) -> dict[str, Any]:
            check_documents(now, [params.doc] if params.versus is None else [params.doc, params.versus])
            index = version.index if params.system == "learned" else now.baseline.index
            return answers.explain(version, index, params.q, params.doc, params.versus, params.k)

        return JSONResponse(await service.read(deadline(request), reasons))

    @app.get("/related", response_model=messages.RelatedWords)
    async def related(request: Request, params: Annotated[requests.RelatedQuery, Query()]) -> Response:
        """List the document words that count most for a query word."""
        try:
            answer = await service.read(
                deadline(request), lambda version, _: answers.related(version, params.word, params.k)
            )
        except InputError as error:
            raise HttpProblem(404, f"the model does not know the word {params.word[:80]!r}", "unknown-word") from error
        return JSONResponse(answer)

    @app.get("/documents/{doc_id:path}", response_model=messages.Document)
    async def document(request: Request, doc_id: Annotated[str, _DOC_ID]) -> Response:
        """Give a document as it was indexed."""
        return await stored_document(request, doc_id)

    @app.get("/documents", response_model=messages.Document)
    async def document_by_query(request: Request, params: Annotated[requests.DocumentQuery, Query()]) -> Response:
        """The same for an id that is no part of a path, such as two dots."""
        return await stored_document(request, params.id)

    async def stored_document(request: Request, doc_id: str) -> Response:
        def stored(_: Version, now: Generation) -> dict[str, Any]:
            check_documents(now, [doc_id])
            return answers.document(now.index, doc_id)

        try:
            answer = await service.read(deadline(request), stored)
        except InputError as error:
            raise HttpProblem(404, "the index keeps no texts", "no-texts") from error
        return JSONResponse(answer)

    @app.get("/versions", response_model=messages.History)
    async def versions(request: Request, params: Annotated[requests.LimitQuery, Query()]) -> Response:
        """List what changed, the latest first."""
        history = await service.read(deadline(request), lambda *_: service.teaching.history(params.limit))
        return JSONResponse({"version": service.version.name, "total": len(service.journal), "versions": history})

    @app.get("/learned", response_model=messages.LearnedOnline)
    async def learned(request: Request, params: Annotated[requests.LimitQuery, Query()]) -> Response:
        """List what was learned online: pairs of words, and the entries behind them."""
        until = deadline(request)
        answer = await service.read(
            until,
            lambda version, _: answers.learned(
                version, service.teaching.history(params.limit, active_only=True), params.limit, until
            ),
        )
        return JSONResponse(answer)

    @app.get("/collection", response_model=messages.Collection)
    async def collection(request: Request) -> Response:
        """Say what is searched, with queries to begin with."""
        return JSONResponse(await service.collection(deadline(request)))

    @app.get("/health", response_model=messages.Health)
    async def health() -> Response:
        """Say whether the service is well; 503 when it no longer learns."""
        now = service.serving
        version = now.version
        facts = {
            "version": version.name,
            "exact_in": now.learner.exact_in(version),
            "documents": len(now.index),
            "index": now.index_label,
            "model": now.model_label,
            "loaded": now.loaded,
            "refused": service.reloader.refused,
            "interleaving": None if service.interleaver is None else service.interleaver.to_meta(),
            "build": BUILD,
        }
        if service.learner.failure is not None:
            raise HttpProblem(503, f"{service.learner.failure}; reading goes on", "learner-stopped", 60.0, **facts)
        return JSONResponse({"status": "ok"} | facts)

    @app.get("/ready", response_model=messages.Ready)
    async def ready() -> Response:
        """Say whether to send requests here: 503 while it ends, and while all that may wait do."""
        if not service.is_ready:
            raise HttpProblem(503, "the service ends, or has more to do than it takes; ask another", "not-ready", 1.0)
        return JSONResponse({"ready": True})

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"example": "tercet_version 12.0\n"}}}},
    )
    async def metrics() -> Response:
        """Counts and times for Prometheus."""
        now = service.serving
        about = {"build": BUILD, "index": now.index_label, "model": now.model_label}
        return Response(service.metrics.text(service.gauges(), about), media_type=TEXT_TYPE)


def _add_changing(app: FastAPI, service: Service, access: Access) -> None:
    def admitted(request: Request, name: str | None) -> str:
        client = _client(request, name)
        service.admit(client)
        return client

    changing = {"status_code": 202, "responses": _problems(_CHANGING)}

    @app.post("/prefer", response_model=messages.Taught, **changing)  # type: ignore[arg-type]
    async def prefer(request: Request, given: requests.Prefer) -> Response:
        """Say that for a query one document is better than another."""
        client = admitted(request, given.client)
        trust = access.trust(client, request.headers)
        return JSONResponse(await service.teaching.prefer(client, given.query, given.better, given.worse, trust), 202)

    @app.post("/clicks", response_model=messages.Taught, **changing)  # type: ignore[arg-type]
    async def clicks(request: Request, given: requests.Clicks) -> Response:
        """Report a list and its clicks: a clicked document is better than those above it that were not."""
        client = admitted(request, given.client)
        trust = access.trust(client, request.headers)
        return JSONResponse(await service.teaching.clicks(client, given.query, given.shown, given.clicked, trust), 202)

    @app.post("/events", response_model=messages.ClickLogged, **changing)  # type: ignore[arg-type]
    async def events(request: Request, given: requests.Click) -> Response:
        """Report a click on a list, for the impressions log; who may read may do that."""
        client = _client(request, given.client)
        return JSONResponse(await service.click(client, given.query_id, given.doc), 202)

    @app.post("/undo", response_model=messages.TakenBack, **changing)  # type: ignore[arg-type]
    async def undo(request: Request, given: requests.Undo) -> Response:
        """Take back an entry of one's own, or several at once."""
        client = admitted(request, None)
        if sum(named is not None for named in (given.entry, given.entries, given.receipts)) > 1:
            raise HttpProblem(422, "name an entry, entries or receipts, not several of them", "invalid")
        numbers = given.entries if given.entry is None else [given.entry]
        return JSONResponse(await service.teaching.undo(client, numbers, given.receipts), 202)

    @app.post("/revoke", response_model=messages.TakenBack, **changing)  # type: ignore[arg-type]
    async def revoke(request: Request, given: requests.Revoke) -> Response:
        """Take back any entries, or all of a client."""
        return JSONResponse(await service.teaching.revoke(admitted(request, None), given.entries, given.client), 202)


def _add_documents(app: FastAPI, service: Service, access: Access) -> None:
    def admit(request: Request) -> None:
        # Teaching can be taken back and this cannot, so a machine that others use as well does not let them.
        if access.write_token is None:
            raise HttpProblem(403, "documents are changed where there is a write token; none is set", "no-token")
        service.admit(_client(request, None))

    changing = {"response_model": messages.DocumentsChanged, "responses": _problems(_CHANGING)}

    @app.post("/documents", **changing)  # type: ignore[arg-type]
    async def add(request: Request, given: requests.NewDocuments) -> Response:
        """Add documents, all or none; on disk, and found, when this answers."""
        admit(request)
        docs = [(doc.id, doc.text, doc.stored_fields) for doc in given.documents]
        return JSONResponse(await service.add_documents(docs, given.replace))

    @app.delete("/documents/{doc_id:path}", **changing)  # type: ignore[arg-type]
    async def remove(request: Request, doc_id: Annotated[str, _DOC_ID]) -> Response:
        """Remove a document; gone from disk and from answers when this answers."""
        admit(request)
        return JSONResponse(await service.remove_document(doc_id))

    @app.delete("/documents", **changing)  # type: ignore[arg-type]
    async def remove_by_query(request: Request, params: Annotated[requests.DocumentQuery, Query()]) -> Response:
        """The same for an id that is no part of a path, such as two dots."""
        admit(request)
        return JSONResponse(await service.remove_document(params.id))


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return await file("index.html")

    @app.get("/docs", include_in_schema=False)
    async def reference() -> Response:
        return HTMLResponse(reference_page(app.openapi()), headers={"Content-Security-Policy": style_policy()})

    @app.get("/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        # Looked up by name, so that no name that is sent ever becomes a path.
        path = _PAGE_FILES.get(name)
        if path is None:
            raise HttpProblem(404, "there is nothing at this path")
        return FileResponse(path, media_type=_SUFFIXES[path.suffix], headers={"Cache-Control": "no-cache"})


def _complete(app: FastAPI) -> None:
    """Add to the OpenAPI document what FastAPI does not know: problems, tokens, examples of answers."""
    made = app.openapi()
    schemas = made["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["ProblemDetails"] = messages.ProblemDetails.model_json_schema()
    made["components"]["securitySchemes"] = {
        "read": {"type": "http", "scheme": "bearer", "description": "Any of the tokens, where there are some."},
        "write": {"type": "http", "scheme": "bearer", "description": "The write token, where there is one."},
        "revoke": {
            "type": "http",
            "scheme": "bearer",
            "description": "The revoke token, where there is one.",
        },
    }
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            reads = method == "get" or path == "/events"
            scheme = "read" if reads else "revoke" if path == "/revoke" else "write"
            token: list[dict[str, list[str]]] = [{}, {scheme: []}]
            operation["security"] = [{}] if path in _PUBLIC else token
            for status, answer in operation["responses"].items():
                for media in answer.get("content", {}).values():
                    name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
                    if name == "ProblemDetails" and status != "422":
                        media["example"] = HttpProblem(int(status), _PROBLEMS[int(status)]).to_meta()
                    elif examples := schemas.get(name, {}).get("examples"):
                        media["example"] = examples[0]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None:
                name = body["schema"]["$ref"].rpartition("/")[2]
                body["example"] = schemas[name]["examples"][0]
