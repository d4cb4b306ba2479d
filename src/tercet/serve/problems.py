"""Errors as RFC 9457 problems in JSON, without internals."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tercet.errors import EngineError, InputError

_log = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"

TITLES = {
    400: "Bad request",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Cannot be done now",
    413: "Too large",
    415: "Not JSON",
    421: "Not this host",
    422: "Cannot be understood",
    429: "Too many requests",
    431: "Too large a head",
    500: "Internal error",
    503: "Busy",
    507: "Cannot be kept",
}


class HttpProblem(Exception):
    """Error answer to a request.

    Parameters
    ----------
    status : HTTP status
    detail : a sentence with the error and the remedy
    kind : name of the problem among those of the status
    retry_after : seconds
    closes : True closes the connection
    headers : more headers
    members : more members of the JSON, such as ``limit`` and ``value``
    """

    def __init__(
        self,
        status: int,
        detail: str,
        kind: str = "about",
        retry_after: float | None = None,
        *,
        closes: bool = False,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind, self.retry_after, self.members = status, detail, kind, retry_after, members
        self.closes, self.headers = closes, headers or {}

    def to_meta(self) -> dict[str, Any]:
        return {
            "type": f"urn:tercet:problem:{self.kind}" if self.kind != "about" else "about:blank",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": self.detail,
        } | self.members

    def response(self) -> Response:
        headers = {**self.headers, "Connection": "close"} if self.closes else {**self.headers}
        if self.retry_after is not None:
            # A whole number from 1 to 3600.
            headers["Retry-After"] = str(max(1, math.ceil(min(self.retry_after, 3600.0))))
        if self.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="tercet"'
        # In ASCII: a quoted request may have half a surrogate pair, which UTF-8 cannot encode.
        content = json.dumps(self.to_meta()).encode()
        return Response(content, self.status, headers, PROBLEM_TYPE)


def problem_of(error: Exception, method: str, content_type: str) -> HttpProblem:
    """Return the problem for an error; status 500 for a defect."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, RequestValidationError):
        media = content_type.partition(";")[0].strip().lower()
        if method == "POST" and media != "application/json" and not media.endswith("+json"):
            problem = f"the body is sent as {media[:80]!r}" if media else "the body has no content type"
            return HttpProblem(415, f"{problem}; send it as application/json", "media-type")
        return validation_problem(list(error.errors()))
    if isinstance(error, ValidationError):
        return validation_problem([{**fault, "loc": ("query", *fault["loc"])} for fault in error.errors()])
    if isinstance(error, EngineError):
        _log.warning("%s", error)  # details are for the log only
        return HttpProblem(503, "the engine that keeps the documents does not answer; try again soon", "engine", 5.0)
    if isinstance(error, InputError):
        return HttpProblem(422, str(error), "invalid")
    if isinstance(error, HTTPException):
        details = {404: "there is nothing at this path", 405: "this path takes other methods"}
        detail = details.get(error.status_code, str(error.detail))
        return HttpProblem(error.status_code, detail, headers=error.headers)
    return HttpProblem(500, "something went wrong here; the service's log says what", "internal")


def limit_problem(name: str, value: int, limit: int, unit: str) -> HttpProblem:
    """Return the problem for a value above a limit."""
    detail = f"{name} has {value} {unit}; at most {limit} are allowed"
    return HttpProblem(422, detail, "limit", name=name, limit=limit, value=value)


_LIMITS = ("le", "ge", "max_length", "min_length")


def validation_problem(errors: list[Mapping[str, Any]]) -> HttpProblem:
    """Return the problem for errors of pydantic; a limit is named with the value."""
    faults = [_fault(error) for error in errors[:20]]
    members = {key: faults[0][key] for key in ("name", "limit", "value") if key in faults[0]}
    detail = "; ".join(fault["detail"] for fault in faults)
    return HttpProblem(422, detail, "limit" if "limit" in members else "invalid", errors=faults, **members)


def _fault(error: Mapping[str, Any]) -> dict[str, Any]:
    where = [str(part) for part in error.get("loc", ())]
    name = (".".join(where[1:]) or (where[0] if where else "request"))[:200]
    sent, context = error.get("input"), error.get("ctx") or {}
    if error.get("type") == "json_invalid":
        reason = context.get("error", "it cannot be read")
        return {"name": "body", "in": "body", "detail": f"the body is not JSON: {reason} at character {name}"}
    fault: dict[str, Any] = {"name": name, "in": where[0] if where else "request"}
    limit = next((key for key in _LIMITS if isinstance(context.get(key), int)), None)
    value = _short(sent)
    if limit is not None:
        value = len(sent) if limit.endswith("length") and isinstance(sent, str | list) else value
        fault |= {"limit": context[limit], "value": value}
    value_note = "" if error.get("type") == "missing" else f"; found {value}"
    return fault | {"detail": f"{name}: {error.get('msg', 'is wrong')}{value_note}"}


def _short(value: Any) -> Any:
    if type(value) is int and abs(value) < 2**53:
        return value
    text = value if isinstance(value, str) else repr(value)
    if len(text) < 16 and text.isascii() and text.lstrip("-").isdigit():
        return int(text)  # query parameters are text
    return text if len(text) <= 80 else text[:79] + "…"
