"""Health, errors, the OpenAPI document, tokens and hosts, and whatever else is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

import tercet as tc
from support.serving import ELSEWHERE, checked, client_of, made_index, refused, running, served
from tercet.serve import messages, read_taught, requests
from tercet.serve.guard import BODY_BYTES, HEAD_BYTES, STRANGER_BODY_BYTES, Access, Buckets
from tercet.serve.problems import TITLES
from tercet.serve.service import Limits, Service

INDEX = made_index()
QUERY = "green avocado"
READ, TEACH = "the-reading-token", "the-teaching-token"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def api(tmp_path):
    with served(tmp_path / "taught.db", INDEX) as (client, _):
        yield client


# -- health, errors, the OpenAPI document ---------------------------------------------------------------------------


@pytest.mark.slow
def test_health_and_metrics(api):
    health = checked(api.get("/health"), messages.Health)
    assert (health["status"], health["version"], health["documents"]) == ("ok", "v0", 60)
    assert (health["refused"], health["build"]) == (None, tc.__version__)
    api.get("/search", params={"q": QUERY})
    api.get("/search", params={"q": QUERY, "k": 0})
    api.get("/no/such/path")
    api.post("/prefer", json={"query": QUERY, "better": "d3", "worse": "d9"})
    response = api.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = response.text.splitlines()
    assert 'tercet_requests_total{method="GET",route="/search",status="200"} 1.0' in lines
    assert 'tercet_requests_total{method="GET",route="/search",status="422"} 1.0' in lines
    assert 'tercet_request_seconds_bucket{le="+Inf",route="/search"} 2.0' in lines
    assert 'tercet_request_seconds_count{route="/search"} 2.0' in lines
    for line in (
        "tercet_version 1.0",
        "tercet_revision 1.0",
        "tercet_actions 1.0",
        "tercet_queue_length 0.0",
        "tercet_learner_up 1.0",
    ):
        assert line in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
    for line in lines:
        assert line.startswith("# ") or float(line.rpartition(" ")[2]) >= 0


def test_clients_see_no_trace_of_a_defect(tmp_path, monkeypatch, caplog):
    with served(tmp_path / "taught.db", INDEX) as (api, service):

        async def broken(*_: object) -> None:
            raise RuntimeError("secret path /home/me")

        monkeypatch.setattr(service, "search", broken)
        response = api.get("/search", params={"q": QUERY})
        refused(response, 500, "log")
        assert "secret" not in response.text
        assert "Traceback" not in response.text
        assert "secret" in caplog.text
        assert response.headers["x-content-type-options"] == "nosniff"


def test_paths_and_methods_that_are_not_there(api):
    refused(api.get("/nothing"), 404, "nothing at this path")
    refused(api.get("/app.py"), 404, "nothing at this path")
    refused(api.get("/..%2fapp.py"), 404, "nothing at this path")
    refused(api.get(f"/{'a' * 300}.html"), 404, "nothing at this path")
    refused(api.get("/a%00.html"), 404, "nothing at this path")
    response = api.post("/search")
    refused(response, 405, "other methods")
    assert response.headers["allow"] == "GET"


def test_the_openapi_document_is_complete(api):
    made = api.get("/openapi.json").json()
    assert set(made["paths"]) == {
        "/search",
        "/explain",
        "/documents",
        "/rank",
        "/taught",
        "/collection",
        "/health",
        "/ready",
        "/metrics",
        "/prefer",
        "/reject",
        "/move",
        "/events",
        "/undo",
    }
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], path
            for parameter in operation.get("parameters", ()):
                assert parameter["schema"].get("examples") or parameter.get("examples"), (path, parameter["name"])
                assert parameter.get("description") or parameter["schema"].get("description"), path
            if method == "post":
                body = operation["requestBody"]["content"]["application/json"]
                name = body["schema"]["$ref"].rpartition("/")[2]
                [example] = made["components"]["schemas"][name]["examples"]
                getattr(requests, name).model_validate(example)
            assert {"422", "500", "503"} <= set(operation["responses"])
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert list(answer["content"]) == ["application/problem+json"]
                    assert int(status) in TITLES
    references = json.dumps(made).split('"$ref": "#/components/schemas/')[1:]
    assert {text.partition('"')[0] for text in references} <= set(made["components"]["schemas"])


# -- the page and safety --------------------------------------------------------------------------------------------


def test_the_page_comes_with_a_strict_policy(api):
    for path in ("/", "/index.html"):
        response = api.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/html")
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert response.headers["x-frame-options"] == "DENY"


def test_tokens_read_and_teach(tmp_path):
    access = Access("read-secret", {"ann": "teach-secret"})
    with served(tmp_path / "taught.db", INDEX, access=access) as (api, _):

        def status(method: str, path: str, token: str | None, **given: Any) -> int:
            headers = {} if token is None else {"Authorization": token}
            return api.request(method, path, headers=headers, **given).status_code

        search = ("GET", f"/search?q={QUERY}")
        for token, expected in (
            (None, 401),
            ("Bearer wrong", 401),
            ("Basic read-secret", 401),
            ("Bearer ", 401),
            ("Bearer é", 401),
            ("Bearer read-secret", 200),
            ("bearer  read-secret ", 200),
            ("Bearer teach-secret", 200),
        ):
            sent = None if token is None else token.encode("latin-1")
            assert status(*search, sent) == expected, token
        given = {"json": {"query": QUERY, "better": "d3", "worse": "d9"}}
        assert status("POST", "/prefer", None, **given) == 401
        assert status("POST", "/prefer", "Bearer read-secret", **given) == 403
        assert status("POST", "/prefer", "Bearer teach-secret", **given) == 202
        for path in ("/metrics", "/taught", "/collection", "/documents?id=d1"):
            assert status("GET", path, None) == 401
        for path in ("/health", "/openapi.json", "/"):
            assert status("GET", path, None) == 200
        assert api.get(search[1]).headers["www-authenticate"].startswith("Bearer")


def test_pages_of_other_sites_are_kept_out(api):
    refused(api.get("/health", headers={"Host": "rebound.example"}), 421, "rebound.example")
    for broken in ("", "[::1", "127.0.0.1@evil.example", "127.0.0.1.evil.example"):
        refused(api.get("/health", headers={"Host": broken}), 421, "host")
    assert api.get("/health", headers={"Host": "localhost:1"}).status_code == 200
    assert api.get("/health", headers={"Host": "[::1]:1"}).status_code == 200
    refused(api.post("/undo", json={}, headers={"Origin": "http://evil.example"}), 403, "another site")
    for origin in ("null", "http://[", "http://127.0.0.1:8081", "http://127.0.0.1:8080@evil.example"):
        refused(api.post("/undo", json={}, headers={"Origin": origin}), 403, "another site")
    refused(api.post("/undo", json={}, headers={"Origin": "http://127.0.0.1:8080"}), 409, "nothing to undo")


@pytest.mark.slow
def test_a_real_service_answers_over_a_connection(tmp_path):
    made_index(tmp_path / "index")
    with running(tmp_path / "index", TERCET_READ_TOKEN=READ, TERCET_TEACH_TOKEN=f"ann:{TEACH}") as service:
        assert service.address.startswith("http://127.0.0.1:")
        assert service.ask("/health").json()["status"] == "ok"
        assert service.ask("/taught").status == 401
        given = {"query": QUERY, "better": "d3", "worse": "d9"}
        assert service.ask("/prefer", given, {"Authorization": f"Bearer {TEACH}"}).status == 202
        assert service.ask("/taught", headers={"Authorization": f"Bearer {READ}"}).json()["total"] == 1
        service.process.terminate()
        _, err = service.process.communicate(timeout=90)
        assert service.process.returncode == 0, err
        assert "60 documents" in err
    [action] = read_taught(tmp_path / "index.taught.db").actions
    assert action.token == "ann"


# -- sizes, framing and rates ---------------------------------------------------------------------------------------


TOKENS = Access(None, {"ann": TEACH}, None)
ANN = {"Authorization": f"Bearer {TEACH}"}


def padded(size: int) -> bytes:
    body = json.dumps({"query": QUERY, "better": "d3", "worse": "d9"}).encode()
    return body + b" " * (size - len(body))


def test_bodies_are_bounded_with_and_without_a_token(tmp_path):
    def pieces(size: int) -> Any:
        body = padded(size)
        yield from (body[at : at + 65_536] for at in range(0, size, 65_536))

    with served(tmp_path / "taught.db", INDEX, access=TOKENS, client=ELSEWHERE) as (api, _):
        for most, headers, status in ((STRANGER_BODY_BYTES, {}, 401), (BODY_BYTES, ANN, 202)):
            for made in (padded, pieces):
                assert api.post("/prefer", content=made(most), headers=JSON | headers).status_code == status
                response = api.post("/prefer", content=made(most + 1), headers=JSON | headers)
                assert refused(response, 413, f"{most:,}")["limit"] == most
                assert response.headers["connection"] == "close"
        endless = JSON | ANN | {"Content-Length": "999999999999999999999999"}
        refused(api.post("/prefer", content=b"{}", headers=endless), 413, "1,000,000")


def test_a_head_that_is_too_large_and_one_that_frames_its_body_twice_end_the_connection(api):
    most = HEAD_BYTES - 400
    assert api.get("/health", headers={"X-Long": "x" * most}).status_code == 200
    for given in ({"headers": {"X-Long": "x" * HEAD_BYTES}}, {"params": {"q": "x" * HEAD_BYTES}}):
        response = api.get("/health", **given)
        refused(response, 431, "16,384")
        assert response.headers["connection"] == "close"
    twice = JSON | {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    response = api.post("/prefer", content=b"{}", headers=twice)
    refused(response, 400, "Transfer-Encoding")
    assert response.headers["connection"] == "close"


def test_requests_without_a_token_are_rationed_by_address_and_others_are_not(tmp_path):
    limits = Limits(strangers_per_minute=30)
    with served(tmp_path / "taught.db", INDEX, limits, TOKENS, ELSEWHERE) as (api, service):
        paths = ("/search?q=green", "/style.css", "/", "/openapi.json", "/nothing")
        statuses = [api.get(paths[i % 5]).status_code for i in range(8)]
        assert statuses == [200, 200, 200, 200, 404, 429, 429, 429]
        refusal = api.get("/openapi.json")
        refused(refusal, 429, "without a token")
        assert 1 <= int(refusal.headers["retry-after"]) <= 2
        assert api.get("/openapi.json", headers={"Authorization": "Bearer wrong"}).status_code == 429
        assert [api.get("/search", params={"q": QUERY}, headers=ANN).status_code for _ in range(20)] == [200] * 20
        other = client_of(service, TOKENS, ("10.0.0.2", 1))
        assert other.get("/openapi.json").status_code == 200
        here = client_of(service, TOKENS)
        assert [here.get("/openapi.json").status_code for _ in range(20)] == [200] * 20
        behind = [here.get("/openapi.json", headers={"X-Forwarded-For": "10.0.0.9"}).status_code for _ in range(9)]
        assert behind.count(429) == 4, "this machine is a proxy for somebody"


def test_an_address_of_ipv6_is_its_network(tmp_path):
    with served(tmp_path / "taught.db", INDEX, Limits(strangers_per_minute=12), TOKENS, ELSEWHERE) as (_, service):
        app = client_of(service, TOKENS).app
        statuses = [
            TestClient(app, "http://127.0.0.1:8080", client=(f"2001:db8:1:2::{i}", 1)).get("/openapi.json").status_code
            for i in range(4)
        ]
        assert statuses == [200, 200, 429, 429]
        assert (
            TestClient(app, "http://127.0.0.1:8080", client=("2001:db8:1:3::1", 1)).get("/openapi.json").status_code
            == 200
        )


def test_buckets_fill_again_and_forget_names():
    now = [0.0]
    buckets = Buckets(60, 2, lambda: now[0])
    assert [buckets.take("a"), buckets.take("a")] == [0.0, 0.0]
    assert buckets.take("a") == pytest.approx(1.0)
    now[0] = 0.5
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0.0
    now[0] = 1.0
    assert buckets.take("a") == 0.0
    for at in range(10_050):
        buckets.take(str(at))
    assert len(buckets._levels) == 10_000


@pytest.mark.parametrize("path", ["/prefer%0A", "//prefer", "/x/../prefer", "/PREFER", "/prefer/", "/prefer%2f"])
def test_no_spelling_of_a_path_gets_past_the_token(tmp_path, path):
    with served(tmp_path / "taught.db", INDEX, access=TOKENS, client=ELSEWHERE) as (api, service):
        given = {"query": QUERY, "better": "d3", "worse": "d9"}
        assert api.post(path, json=given).status_code in (307, 401, 404, 405)
        assert service.store.n_actions == 0


def test_pages_are_made_once_and_known_again(api):
    for path in ("/", "/style.css", "/openapi.json", "/app.js"):
        first = api.get(path)
        again = api.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e400", "9" * 400, '{"a": 1}', "null", "[1]", "-1e999"]
)
def test_a_stored_field_that_is_no_number_is_an_error(tmp_path, value):
    made_index(tmp_path / "index")
    with served(tmp_path / "taught.db", tc.Index.open(tmp_path / "index"), access=TOKENS) as (api, _):
        body = f'{{"documents": [{{"id": "new", "text": "tea", "stored_fields": {{"price": {value}}}}}]}}'
        response = api.post("/documents", content=body, headers=JSON | ANN)
        refused(response, 422, "stored_fields.price")
        assert api.get("/health").json()["documents"] == 60


# -- whatever is sent -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_request_makes_the_service_fail(tmp_path):
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.strategies import one_of
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    service = Service(INDEX, tmp_path / "taught.db", Limits(strangers_per_minute=1e9))
    try:
        app = client_of(service, Access(hosts=None)).app
        described = schemathesis.openapi.from_asgi("/openapi.json", app)
        n_operations = 0
        for found in described.get_all_operations():
            operation = found.ok()
            n_operations += 1

            @settings(
                max_examples=25,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=one_of(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))
            def answered(case: Any) -> None:
                response = case.call()
                # 503 and 507 are promised where there is too much to do; here there is not.
                assert response.status_code < 500
                excluded = [positive_data_acceptance]
                if response.status_code == 413:  # rejected for the size, before the schema
                    excluded.append(negative_data_rejection)
                case.validate_response(response, excluded_checks=excluded)

            answered()
        assert n_operations == 16
    finally:
        service.close()
