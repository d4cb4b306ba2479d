"""PostgreSQL alone: a silent server, a full disk, other versions, passwords, pgvector that is missing."""

from __future__ import annotations

import itertools
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tercet as tc
from support.databases import PostgresServer, postgres_server
from support.indexes import DOCS, answers, small_model
from tercet.engines import PostgresIndex, open_index, postgres
from tercet.engines import engine as engine_module
from tercet.errors import EngineAwayError, EngineError, InputError, MissingExtraError

pytestmark = pytest.mark.slow  # make test has it, make check has not

numbers = itertools.count()


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "pause", lambda _: None)


def name() -> str:
    return f"trouble-{next(numbers)}"


def build(server: PostgresServer, folder: Path, docs: Any = DOCS, **options: Any) -> PostgresIndex:
    options = {"url": server.url, "collection": name()} | options
    return PostgresIndex.build(docs, small_model(DOCS), folder / "index", **options)


def statement(server: PostgresServer, *texts: str) -> list[Any]:
    """The rows of the last of some statements, given by somebody who may do all."""
    engine: Any = PostgresIndex.connect(server.url, "any", None)
    return [engine._rows("preparing the test", text) for text in texts][-1]


def test_a_server_that_says_nothing(database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "SECONDS", 0.4)
    index = build(database, tmp_path)
    database.freeze()
    started = time.monotonic()
    try:
        with pytest.raises(EngineAwayError, match="searching was tried 3 times"):
            index.search("green", 2)
    finally:
        database.thaw()
    assert time.monotonic() - started < 60  # and not for ever
    monkeypatch.undo()
    assert answers(open_index(tmp_path / "index")) == answers(tc.Index.build(DOCS, small_model(DOCS)))


def test_statements_that_take_too_long(database: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "SECONDS", 0.5)
    engine: Any = PostgresIndex.connect(database.url, "any", None)
    with pytest.raises(EngineError, match=r"sleeping(: canceling statement| was tried 3 times)"):
        engine._rows("sleeping", "SELECT pg_sleep(3)")


def test_a_server_that_is_full(database: PostgresServer, tmp_path: Path) -> None:
    index = build(database, tmp_path)
    more = {f"d{i}": ("green sky", "toast", "eyes blue", "")[i % 4] for i in range(20)}
    statement(
        database,
        "CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.doc_id = 'd3' THEN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END IF; "
        "RETURN NEW; END $$",
        f'CREATE TRIGGER full_disk BEFORE INSERT ON "{index.collection}" FOR EACH ROW EXECUTE FUNCTION full_disk()',
    )
    with pytest.raises(EngineError, match=r"writing .* documents: could not extend file"):
        index.add(more)
    assert list(index) == list(DOCS)
    statement(database, f'DROP TRIGGER full_disk ON "{index.collection}"')
    index.add(more)
    assert list(index) == [*DOCS, *more]


def test_other_versions_are_refused(database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(database, tmp_path)
    monkeypatch.setattr(postgres, "OLDEST", (99, 1))
    with pytest.raises(EngineError, match=r"has pgvector 0\.\d+; supported are 99\.1 and later"):
        open_index(tmp_path / "index")


def test_a_foreign_table_is_not_touched(database: PostgresServer, tmp_path: Path) -> None:
    foreign = name()
    statement(
        database, f'CREATE TABLE "{foreign}" (id int PRIMARY KEY, price int)', f'INSERT INTO "{foreign}" VALUES (1, 2)'
    )
    with pytest.raises(EngineError, match="already, which was not made by Tercet; nothing in it was changed"):
        build(database, tmp_path, collection=foreign)
    assert [list(row) for row in statement(database, f'SELECT * FROM "{foreign}"')] == [[1, 2]]
    assert not (tmp_path / "index").exists()


def test_nul_characters_are_refused(database: PostgresServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="document 'x' has a NUL character"):
        build(database, tmp_path, {"x": "green\0tea"})


def test_passwords_are_in_no_file_and_no_message(
    database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    variable = "PGPASSWORD"
    statement(database, "CREATE ROLE guarded LOGIN PASSWORD 's3cret/@'", "GRANT ALL ON SCHEMA public TO guarded")
    monkeypatch.delenv(variable, raising=False)
    with caplog.at_level(logging.DEBUG):
        index = build(database, tmp_path, url=database.url_as("guarded:s3cret%2F%40@"))
        assert index.search("green")
        output = repr(index)
        for secret in ("wr0ng", None):
            monkeypatch.delenv(variable, raising=False)
            if secret:
                monkeypatch.setenv(variable, secret)
            with pytest.raises(EngineError, match=rf"refuses: .*(; set {variable}|no password)") as raised:
                open_index(tmp_path / "index")
            output += str(raised.value)
        monkeypatch.setenv(variable, "s3cret/@")
        assert len(open_index(tmp_path / "index")) == 5
    output += caplog.text
    output += "".join(path.read_text("latin-1") for path in (tmp_path / "index").rglob("*") if path.is_file())
    assert "s3cret" not in output
    assert "guarded" not in repr(index)


@pytest.mark.parametrize(
    "url", ["", "ftp://me:s3cret@host/db", "x://h:99999/d", "localhost", "postgresql://me:s3cret@h", 3]
)
def test_urls_that_are_none(tmp_path: Path, url: Any) -> None:
    with pytest.raises(InputError, match="url") as raised:
        PostgresIndex.build(DOCS, small_model(DOCS), tmp_path / "index", url=url)
    assert "s3cret" not in str(raised.value)
    assert not (tmp_path / "index").exists()


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match="postgres"):
        PostgresIndex.connect("postgresql://localhost/papers", "name", None)


def test_a_database_without_pgvector(database: PostgresServer, tmp_path: Path) -> None:
    statement(database, "CREATE ROLE reader LOGIN", "CREATE DATABASE bare")
    url = database.url_as("reader@").removesuffix("postgres") + "bare"
    with pytest.raises(EngineError, match=r"has no pgvector, and it could not be installed there: .*permission denied"):
        build(database, tmp_path, url=url)
    bare = build(database, tmp_path / "own", url=database.url.removesuffix("postgres") + "bare")
    assert len(bare) == 5
