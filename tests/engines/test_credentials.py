"""Keys stay home: which key or password goes to which server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tercet.engines import PostgresIndex, QdrantIndex
from tercet.engines.credentials import HOSTS, credential
from tercet.errors import InputError

KEY = "s3cret-key"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("QDRANT_API_KEY", "PGPASSWORD"):
        monkeypatch.setenv(variable, KEY)
    monkeypatch.delenv(HOSTS, raising=False)


@pytest.fixture
def qdrant(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the client of Qdrant is given."""
    made: list[dict[str, Any]] = []
    client = pytest.importorskip("qdrant_client")
    monkeypatch.setattr(client, "QdrantClient", lambda **options: made.append(options))
    return made


@pytest.mark.parametrize(
    ("url", "hosts", "is_named", "sent"),
    [
        ("https://qdrant.example.org:6333", "", False, None),
        ("http://qdrant.example.org:6333", "", False, None),
        ("https://qdrant.example.org:6333", "", True, KEY),
        ("https://qdrant.example.org:6333", "qdrant.example.org", False, KEY),
        ("https://qdrant.example.org:6333", "other.org, QDRANT.example.org:6333", False, KEY),
        ("https://qdrant.example.org:6333", "qdrant.example.org:6334", False, None),
        ("https://qdrant.example.org.evil.org:6333", "qdrant.example.org", False, None),
        ("https://localhost.evil.org", "", False, None),
        ("http://localhost:6333", "", False, KEY),
        ("http://127.0.0.1:6333", "", False, KEY),
        ("http://[::1]:6333", "", False, KEY),
    ],
)
def test_a_key_of_the_environment_goes_where_the_user_says(qdrant, monkeypatch, url, hosts, is_named, sent) -> None:
    monkeypatch.setenv(HOSTS, hosts)
    QdrantIndex.connect(url, "papers", None, is_named=is_named)
    assert [options["api_key"] for options in qdrant] == [sent]


@pytest.mark.parametrize("given", [None, KEY])
def test_no_key_goes_over_plain_http(qdrant, given: str | None) -> None:
    with pytest.raises(InputError, match=r"the secret for 10\.0\.0\.5 would go there without encryption; use TLS"):
        QdrantIndex.connect("http://10.0.0.5:6333", "papers", given, is_named=True)
    assert qdrant == []


def test_a_folder_that_names_another_host_gets_no_key(qdrant, tmp_path: Path) -> None:
    engine = QdrantIndex.connect("https://evil.example.org", "papers", None)
    assert qdrant[0]["api_key"] is None
    assert engine._lack == (  # type: ignore[attr-defined]
        "; QDRANT_API_KEY was not sent to evil.example.org, which only the index names: add it to TERCET_SECRET_HOSTS "
        "to trust it"
    )


@pytest.mark.parametrize(
    ("url", "is_named", "expected"),
    [
        ("postgresql://me@db.example.org/papers", False, {"password": "", "sslmode": "require"}),
        ("postgresql://me@db.example.org/papers", True, {"password": KEY, "sslmode": "require"}),
        (
            "postgresql://me@db.example.org/papers?sslmode=verify-full",
            True,
            {"password": KEY, "sslmode": "verify-full"},
        ),
        ("postgresql://me@localhost/papers", False, {"password": KEY}),
        ("postgresql:///papers?host=/run/postgresql", False, {"password": KEY}),
        ("postgresql://me@localhost/papers?host=evil.org", False, {"password": "", "sslmode": "require"}),
        ("postgresql://me@localhost/papers?hostaddr=192.0.2.1", False, {"password": "", "sslmode": "require"}),
        ("postgresql://me@localhost/papers?host=localhost,evil.org", False, {"password": "", "sslmode": "require"}),
        (
            "postgresql://me@db.example.org/papers?sslmode=disable",
            False,
            {"password": "", "sslmode": "disable", "passfile": "/dev/null"},
        ),
        ("postgresql://me:own@db.example.org/papers", False, {"password": "own", "sslmode": "require"}),
    ],
)
def test_what_postgresql_is_given(monkeypatch: pytest.MonkeyPatch, url: str, is_named: bool, expected: dict) -> None:
    psycopg = pytest.importorskip("psycopg")
    engine: Any = PostgresIndex.connect(url, "papers", None, is_named=is_named)

    def stop(**options: Any) -> None:
        given = {name: options[name] for name in ("password", "sslmode", "passfile") if name in options}
        raise LookupError(given)

    monkeypatch.setattr(psycopg, "connect", stop)
    with pytest.raises(LookupError) as stopped:
        engine._open()
    assert stopped.value.args == (expected,)


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_no_password_goes_to_postgresql_without_tls(mode: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(InputError, match=r"the secret for db\.example\.org would go there without encryption"):
        PostgresIndex.connect(f"postgresql://me@db.example.org/papers?sslmode={mode}", "papers", None, is_named=True)


def test_what_is_said_where_there_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD")
    assert credential(["db.example.org"], 5432, None, "PGPASSWORD", is_named=True, is_encrypted=True) == (
        None,
        "; set PGPASSWORD",
    )
