"""Bad days of PostgreSQL, on a real server: away, silent, full, of another version, with a foreign table."""

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

from support.databases import PostgresServer, free_port, postgres_server
from support.indexes import DOCS, answers, small_model
from tercet.engines import PostgresIndex, open_index, postgres_engine
from tercet.engines import engine as engine_module
from tercet.errors import (
    BundleError,
    EngineAwayError,
    EngineError,
    InputError,
    MissingBundleError,
    MissingExtraError,
)
from tercet.search import Index
from tercet.search.folder import MODELS
from tercet.store import read_bundle, write_bundle

pytestmark = pytest.mark.slow  # make test has it, make check has not

numbers = itertools.count()
MANY = {f"d{i}": ("green sky", "toast", "eyes blue", "")[i % 4] for i in range(20)}


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, of which none is made."""
    made: list[float] = []
    monkeypatch.setattr(engine_module, "pause", made.append)
    return made


def build(server: PostgresServer, folder: Path, docs: Any = DOCS, **options: Any) -> PostgresIndex:
    options = {"url": server.url, "collection": "tercet-index", "batch_docs": 2} | options
    return PostgresIndex.build(docs, small_model(DOCS, latent=True), folder / "index", **options)


def name() -> str:
    return f"trouble-{next(numbers)}"


def statement(server: PostgresServer, *texts: str) -> list[Any]:
    """The rows of the last of some statements, given by somebody who may do all."""
    engine = PostgresIndex.connect(server.url, "any", None)
    answers = [engine._ask("preparing the test", text) for text in texts]  # type: ignore[attr-defined]
    return answers[-1]


# -- away, silent, slow -----------------------------------------------------------------------------------------------


def test_a_server_that_is_away(tmp_path: Path, pauses: list[float], caplog: Any) -> None:
    pytest.importorskip("psycopg")
    port = free_port()
    url = f"postgresql://me:s3cret@127.0.0.1:{port}/papers"
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(EngineAwayError, match="does not answer: asking for its version was tried 3") as raised,
    ):
        PostgresIndex.build(DOCS, small_model(DOCS), tmp_path / "index", url=url)
    assert f"postgresql://127.0.0.1:{port}/papers" in str(raised.value)
    assert "s3cret" not in str(raised.value) + caplog.text
    assert not (tmp_path / "index").exists()
    assert len(pauses) == 2


def test_a_server_that_is_killed_and_comes_back(database: PostgresServer, tmp_path: Path) -> None:
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
    database: PostgresServer, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tercet.engines.remote_index.BATCH_DOCS", 2)
    collection = name()
    embedded = Index.build(MANY if change == "build" else DOCS, small_model(DOCS, latent=True))
    docs = MANY if change == "build" else MANY | ({"a": "blue"} if change == "replace" else {})

    def kill(sent: int) -> None:
        if sent == 8:
            database.kill()

    def changed(progress: Any = None) -> PostgresIndex:
        if change == "build":
            return build(database, tmp_path, docs, collection=collection, progress=progress)
        index = open_index(tmp_path / "index")
        assert isinstance(index, PostgresIndex)
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


def test_a_server_that_says_nothing(database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_engine, "SECONDS", 0.4)
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


def test_statements_that_take_too_long(database: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_engine, "SECONDS", 0.5)
    engine: Any = PostgresIndex.connect(database.url, "any", None)
    with pytest.raises(EngineError, match=r"sleeping (took longer than 0 s|was tried 3 times)"):
        engine._ask("sleeping", "SELECT pg_sleep(3)")


# -- full, of another version, of somebody else -----------------------------------------------------------------------


def test_a_server_that_is_full(database: PostgresServer, tmp_path: Path) -> None:
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


def test_other_versions_are_refused(database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(database, tmp_path, collection=name())
    monkeypatch.setattr(postgres_engine, "OLDEST", (99, 1))
    with pytest.raises(EngineError, match=r"has pgvector 0\.\d+; supported are 99\.1 and later"):
        open_index(tmp_path / "index")


def test_tables_of_others_are_not_touched(database: PostgresServer, tmp_path: Path) -> None:
    foreign, alike = name(), name()
    statement(
        database,
        f'CREATE TABLE "{foreign}" (id int PRIMARY KEY, price int)',
        f'INSERT INTO "{foreign}" VALUES (1, 2)',
    )
    with pytest.raises(EngineError, match=r"which is a table with the columns \['id', 'price'\].*nothing in it was"):
        build(database, tmp_path, collection=foreign)
    assert [list(row) for row in statement(database, f'SELECT * FROM "{foreign}"')] == [[1, 2]]
    engine = PostgresIndex.connect(database.url, alike, None)
    engine.create()  # of the same columns, and without a marker
    with pytest.raises(EngineError, match="which was not made by Tercet; nothing in it was changed"):
        build(database, tmp_path, collection=alike)
    assert not (tmp_path / "index").exists()


def test_a_table_that_was_swapped(database: PostgresServer, tmp_path: Path) -> None:
    collection = name()
    index = build(database, tmp_path, collection=collection)
    index._view.engine.drop()
    with pytest.raises(EngineError, match=f"collection '{collection}', is not there"):
        open_index(tmp_path / "index")
    with pytest.raises(EngineError, match=rf"{collection}.* does not exist"):
        index.search("green")
    (tmp_path / "index").rename(tmp_path / "first")
    build(database, tmp_path, collection=collection)
    with pytest.raises(EngineError, match="belongs to another index of Tercet"):
        open_index(tmp_path / "first")
    with pytest.raises(EngineError, match="belongs to another index by now"):
        index.search("green")


@pytest.mark.parametrize("collection", ['x"; DROP TABLE papers; --', "x" * 64, ""])
def test_a_folder_that_names_no_table(database: PostgresServer, tmp_path: Path, collection: str) -> None:
    build(database, tmp_path, collection=name())
    folder = tmp_path / "index"
    meta = read_bundle(folder).meta | {"collection": collection}
    write_bundle(folder, kind=PostgresIndex.kind, meta=meta, arrays={}, siblings=(MODELS,))
    with pytest.raises(InputError, match="collection is"):
        open_index(folder)


# -- passwords and URLs -----------------------------------------------------------------------------------------------


def test_passwords_are_in_no_file_and_no_message(
    database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    variable = "PGPASSWORD"
    statement(database, "CREATE ROLE guarded LOGIN PASSWORD 's3cret/@'", "GRANT ALL ON SCHEMA public TO guarded")
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
    assert not (tmp_path / "index").exists() or (tmp_path / "index" / "upload.json").exists()
    made = build(database, tmp_path / "own", url=database.url.removesuffix("postgres") + "bare")
    assert len(made) == 5
