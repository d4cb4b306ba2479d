"""Bad days of PostgreSQL and seekdb, on real servers: away, silent, full, of another version, with a foreign table."""

from __future__ import annotations

import itertools
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.databases import DatabaseServer, database_server, free_port
from support.indexes import DOCS, answers, small_model
from tercet.errors import (
    BundleError,
    EngineAwayError,
    EngineError,
    InputError,
    MissingBundleError,
    MissingExtraError,
)
from tercet.search import Index, open_index
from tercet.search.backends import backend_class, postgres, seekdb
from tercet.search.backends import engine as engine_module
from tercet.search.backends.remote_index import RemoteIndex

pytestmark = pytest.mark.slow  # make test has it, make check has not

numbers = itertools.count()
MANY = {f"d{i}": ("green sky", "toast", "eyes of blue", "")[i % 4] for i in range(20)}
MODULES: dict[str, Any] = {"postgres": postgres, "seekdb": seekdb}
both = pytest.mark.parametrize("backend", ["postgres", "seekdb"])


@pytest.fixture(scope="module", params=["postgres", "seekdb"])
def database(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    with database_server(request.param) as server:
        yield server


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, of which none is made."""
    made: list[float] = []
    monkeypatch.setattr(engine_module, "pause", made.append)
    return made


def build(server: DatabaseServer, folder: Path, docs: Any = DOCS, **options: Any) -> RemoteIndex:
    options = {"url": server.url, "collection": "tercet-index", "batch_docs": 2} | options
    return server.index_class.build(docs, small_model(DOCS, latent=True), folder / "index", **options)


def name() -> str:
    return f"trouble-{next(numbers)}"


def statement(server: DatabaseServer, *texts: str) -> list[Any]:
    """The rows of the last of some statements, given by somebody who may do all."""
    engine = server.index_class.connect(server.url, "any", None)
    answers = [engine._ask("preparing the test", text) for text in texts]  # type: ignore[attr-defined]
    return answers[-1]


# -- away, silent, slow -----------------------------------------------------------------------------------------------


@both
def test_a_server_that_is_away(backend: str, tmp_path: Path, pauses: list[float], caplog: Any) -> None:
    pytest.importorskip("psycopg" if backend == "postgres" else "pymysql")
    scheme, port = {"postgres": "postgresql", "seekdb": "seekdb"}[backend], free_port()
    url = f"{scheme}://me:s3cret@127.0.0.1:{port}/papers"
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(EngineAwayError, match="does not answer: asking for its version was tried 3") as raised,
    ):
        backend_class(backend).build(DOCS, small_model(DOCS), tmp_path / "index", url=url)
    assert f"{scheme}://127.0.0.1:{port}/papers" in str(raised.value)
    assert "s3cret" not in str(raised.value) + caplog.text
    assert not (tmp_path / "index").exists()
    assert len(pauses) == 2


def test_a_server_that_is_killed_and_comes_back(database: DatabaseServer, tmp_path: Path) -> None:
    index = build(database, tmp_path, collection=name())
    expected = answers(index)
    database.kill()
    with pytest.raises(EngineAwayError, match="searching was tried 3 times"):
        index.search("green", 2)
    with pytest.raises(EngineAwayError):
        open_index(tmp_path / "index")
    database.start()
    assert answers(index) == expected == answers(open_index(tmp_path / "index"))


@pytest.mark.parametrize("change", ["build", "add", "replace"])
def test_an_upload_goes_on_where_it_was(
    database: DatabaseServer, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change != "build" and database.backend == "seekdb":
        pytest.skip("the same code as with PostgreSQL; a start of seekdb takes seconds")
    monkeypatch.setattr("tercet.search.backends.remote_index.BATCH_DOCS", 2)
    collection = name()
    embedded = Index.build(MANY if change == "build" else DOCS, small_model(DOCS, latent=True))
    docs = MANY if change == "build" else MANY | ({"a": "blue"} if change == "replace" else {})

    def kill(sent: int) -> None:
        if sent == 8:
            database.kill()

    def changed(progress: Any = None) -> RemoteIndex:
        if change == "build":
            return build(database, tmp_path, docs, collection=collection, progress=progress)
        index = open_index(tmp_path / "index")
        assert isinstance(index, RemoteIndex)
        getattr(index, change)(docs, progress)
        return index

    if change != "build":
        build(database, tmp_path, collection=collection)
        getattr(embedded, change)(docs)
    with pytest.raises(EngineAwayError):
        changed(kill)
    assert json.loads((tmp_path / "index" / "upload.json").read_text())["sent"] == 8
    database.start()
    if change == "build":
        with pytest.raises(MissingBundleError, match="has not ended; give the same command again"):
            open_index(tmp_path / "index")
        with pytest.raises(BundleError, match="of other documents than these"):
            build(database, tmp_path, dict(reversed(MANY.items())), collection=collection)
    index = changed()
    assert list(index) == list(embedded)
    assert answers(index) == answers(embedded)
    assert not (tmp_path / "index" / "upload.json").exists()


def test_a_server_that_says_nothing(database: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULES[database.backend], "SECONDS", 0.4)
    index = build(database, tmp_path, collection=name())
    database.freeze()
    started = time.monotonic()
    try:
        with pytest.raises(EngineAwayError, match="searching was tried 3 times"):
            index.search("green", 2)
    finally:
        database.thaw()
    assert time.monotonic() - started < 15
    monkeypatch.undo()
    assert answers(open_index(tmp_path / "index")) == answers(Index.build(DOCS, small_model(DOCS, latent=True)))


def test_statements_that_take_too_long(database: DatabaseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULES[database.backend], "SECONDS", 0.5)
    engine: Any = database.index_class.connect(database.url, "any", None)
    sleep = "SELECT pg_sleep(3)" if database.backend == "postgres" else "SELECT sleep(3)"
    with pytest.raises(EngineError, match=r"sleeping (took longer than 0 s|was tried 3 times)"):
        engine._ask("sleeping", sleep)


# -- full, of another version, of somebody else -----------------------------------------------------------------------


def test_a_server_that_is_full(database: DatabaseServer, tmp_path: Path) -> None:
    if database.backend == "seekdb":
        import pymysql

        engine: Any = database.index_class.connect(database.url, "any", None)
        said = engine._error("writing 2 points", pymysql.err.OperationalError(4184, "Server out of disk space"))
        assert "is full or at a limit: writing 2 points: Server out of disk space" in str(said)
        return
    collection = name()
    index = build(database, tmp_path, collection=collection)
    statement(
        database,
        "CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.doc_id = 'd3' THEN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END IF; "
        "RETURN NEW; END $$",
        f'CREATE TRIGGER full_disk BEFORE INSERT ON "{collection}" FOR EACH ROW EXECUTE FUNCTION full_disk()',
    )
    with pytest.raises(EngineError, match=r"is full or at a limit: writing .* points: could not extend file"):
        index.add(MANY)
    assert list(index) == list(DOCS)
    statement(database, f'DROP TRIGGER full_disk ON "{collection}"')
    index.add(MANY)
    assert list(index) == [*DOCS, *MANY]


def test_other_versions_are_refused(database: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(database, tmp_path, collection=name())
    if database.backend == "postgres":
        monkeypatch.setattr(postgres, "OLDEST", (99, 1))
        problem = r"has pgvector 0\.\d+; supported are 99\.1 and later"
    else:
        monkeypatch.setattr(seekdb, "SUPPORTED", (7,))
        problem = "says that it is '5.7.25-OceanBase seekdb-v1.*supported is seekdb"
    with pytest.raises(EngineError, match=problem):
        open_index(tmp_path / "index")


def test_tables_of_others_are_not_touched(database: DatabaseServer, tmp_path: Path) -> None:
    quote = '"' if database.backend == "postgres" else "`"
    foreign, alike = name(), name()
    statement(
        database,
        f"CREATE TABLE {quote}{foreign}{quote} (id int PRIMARY KEY, price int)",
        f"INSERT INTO {quote}{foreign}{quote} VALUES (1, 2)",
    )
    with pytest.raises(EngineError, match=r"which is a table with the columns \['id', 'price'\].*nothing in it was"):
        build(database, tmp_path, collection=foreign)
    assert [list(row) for row in statement(database, f"SELECT * FROM {quote}{foreign}{quote}")] == [[1, 2]]
    engine = database.index_class.connect(database.url, alike, None)
    engine.create()  # of the same columns, and without a marker
    with pytest.raises(EngineError, match="which was not made by Tercet; nothing in it was changed"):
        build(database, tmp_path, collection=alike)
    assert not (tmp_path / "index").exists()


def test_a_table_that_was_swapped(database: DatabaseServer, tmp_path: Path) -> None:
    collection = name()
    index = build(database, tmp_path, collection=collection)
    index._view.engine.drop()
    with pytest.raises(EngineError, match=f"collection '{collection}', is not there"):
        open_index(tmp_path / "index")
    with pytest.raises(EngineError, match=rf"{collection}.* (does not|doesn't) exist"):
        index.search("green")
    (tmp_path / "index").rename(tmp_path / "first")
    build(database, tmp_path, collection=collection)
    with pytest.raises(EngineError, match="belongs to another index of Tercet"):
        open_index(tmp_path / "first")
    with pytest.raises(EngineError, match="belongs to another index by now"):
        index.search("green")


# -- passwords and URLs -----------------------------------------------------------------------------------------------


def test_passwords_are_in_no_file_and_no_message(
    database: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    if database.backend == "postgres":
        variable = "PGPASSWORD"
        statement(database, "CREATE ROLE guarded LOGIN PASSWORD 's3cret/@'", "GRANT ALL ON SCHEMA public TO guarded")
    else:
        variable = "SEEKDB_PASSWORD"
        statement(database, "CREATE USER guarded IDENTIFIED BY 's3cret/@'", "GRANT ALL PRIVILEGES ON test.* TO guarded")
    monkeypatch.delenv(variable, raising=False)
    with caplog.at_level(logging.DEBUG):
        index = build(database, tmp_path, url=database.url_as("guarded:s3cret%2F%40@"), collection=name())
        assert index.search("green")
        shown = repr(index)
        for secret in ("wr0ng", None):
            monkeypatch.delenv(variable, raising=False)
            if secret:
                monkeypatch.setenv(variable, secret)
            with pytest.raises(EngineError, match=rf"refuses: .*(; set {variable}|no password)") as raised:
                open_index(tmp_path / "index")
            shown += str(raised.value)
        monkeypatch.setenv(variable, "s3cret/@")
        assert len(open_index(tmp_path / "index")) == 5
    shown += caplog.text
    shown += "".join(path.read_text("latin-1") for path in (tmp_path / "index").rglob("*") if path.is_file())
    assert "s3cret" not in shown
    assert "guarded" not in repr(index)


@both
@pytest.mark.parametrize(
    "url", ["", "ftp://me:s3cret@host/db", "x://h:99999/d", "localhost", "SCHEME://me:s3cret@h", 3]
)
def test_urls_that_are_none(backend: str, tmp_path: Path, url: Any) -> None:
    if isinstance(url, str):
        url = url.replace("SCHEME", {"postgres": "postgresql", "seekdb": "seekdb"}[backend])
    with pytest.raises(InputError, match="url") as raised:
        backend_class(backend).build(DOCS, small_model(DOCS), tmp_path / "index", url=url)
    assert "s3cret" not in str(raised.value)
    assert not (tmp_path / "index").exists()


@both
def test_the_extra_is_named(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg" if backend == "postgres" else "pymysql", None)
    scheme = {"postgres": "postgresql", "seekdb": "seekdb"}[backend]
    with pytest.raises(MissingExtraError, match=backend):
        backend_class(backend).connect(f"{scheme}://localhost/papers", "name", None)


def test_a_database_without_pgvector(database: DatabaseServer, tmp_path: Path) -> None:
    if database.backend != "postgres":
        pytest.skip("seekdb has its vectors built in")
    statement(database, "CREATE ROLE reader LOGIN", "CREATE DATABASE bare")
    url = database.url_as("reader@").removesuffix("postgres") + "bare"
    with pytest.raises(EngineError, match=r"has no pgvector, and it could not be installed there: .*permission denied"):
        build(database, tmp_path, url=url)
    assert not (tmp_path / "index").exists() or (tmp_path / "index" / "upload.json").exists()
    made = build(database, tmp_path / "own", url=database.url.removesuffix("postgres") + "bare")
    assert len(made) == 5
