"""``tercet mcp``: names and shapes of the tools, and a week of use through a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import tercet as tc
from tercet.adapters.mcp import IndexFolder, Library, server
from tercet.adapters.text_folder import TextFolder
from tercet.adapters.used_index import UsedIndex
from tercet.data.taught import read_taught

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from mcp import Client, StdioServerParameters, stdio_client

PROJECT = Path(__file__).parents[2]


def asked(client_of: Any, work: Callable[[Callable[..., Awaitable[dict[str, Any]]]], Awaitable[None]]) -> None:
    """Do some work with a connected client."""

    async def run() -> None:
        async with Client(client_of) as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(tool, arguments)
                text = result.content[0].text
                return {"error": text} if result.is_error else json.loads(text)

            await work(call)

    asyncio.run(run())


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "invoice.md").write_text("# Invoices\n\nAn invoice is due after 30 days.\n")
    (folder / "office.md").write_text("# Office\n\nThe office opens at nine.\n")
    (folder / "parking.md").write_text("Parking at the office is free.\n")
    return folder


def test_tools_have_the_shapes_that_clients_expect(notes, tmp_path):
    source = TextFolder(notes)
    with UsedIndex(source.index, tmp_path / "taught.db") as used:
        made = server(Library(used, source.content), "notes")

        async def work(call):
            answer = await call("search", query="invoice due")
            [result] = answer["results"]
            assert (result["id"], result["title"]) == ("invoice.md", "Invoices")
            assert result["url"] == (notes / "invoice.md").as_uri()
            assert result["text"].endswith("An invoice is due after 30 days.")
            document = await call("fetch", id="invoice.md")
            assert document == {
                "id": "invoice.md",
                "title": "Invoices",
                "text": "# Invoices\n\nAn invoice is due after 30 days.\n",
                "url": (notes / "invoice.md").as_uri(),
                "metadata": {},
            }
            empty = await call("search", query="bill")
            assert empty["results"] == []
            assert (await call("feedback", query_id=empty["query_id"], used_ids=["invoice.md"])) == {"action": 1}
            assert [one["id"] for one in (await call("search", query="my bill"))["results"]] == ["invoice.md"]
            why = await call("why", query_id=empty["query_id"], id="invoice.md")
            assert 'asked before: "bill" (similarity 1.00)' in why["why"]
            assert (await call("undo")) == {"undone": [1]}
            assert (await call("search", query="my bill"))["results"] == []

        asked(made, work)


def test_errors_say_what_to_do(notes, tmp_path):
    source = TextFolder(notes)
    with UsedIndex(source.index, tmp_path / "taught.db") as used:

        async def work(call):
            assert "use an id that a search returned" in (await call("fetch", id="nobody"))["error"]
            assert "search again" in (await call("feedback", query_id="x", used_ids=["office.md"]))["error"]
            assert "limit must be from 1 to 100" in (await call("search", query="office", limit=0))["error"]
            assert "nothing to undo" in (await call("undo"))["error"]

        asked(server(Library(used, source.content), "notes"), work)


def test_an_index_on_disk_follows_its_writers(tmp_path):
    index = tc.Index.build({"a": "green tea"}, path=tmp_path / "index")
    source = IndexFolder(tmp_path / "index")
    assert not source.refresh()
    index.add({"b": "black tea"})
    assert source.refresh()
    assert [hit.doc_id for hit in source.index.search("black")] == ["b"]


@pytest.mark.slow
def test_the_command_serves_a_folder_and_keeps_what_was_taught(notes):
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "tercet", "mcp", str(notes)], env=dict(os.environ)
    )

    async def work(call):
        answer = await call("search", query="bill")
        assert (await call("feedback", query_id=answer["query_id"], used_ids=["invoice.md"])) == {"action": 1}
        (notes / "canteen.md").write_text("The canteen has soup.\n")
        for _ in range(100):
            if [one["id"] for one in (await call("search", query="soup"))["results"]] == ["canteen.md"]:
                break
            await asyncio.sleep(0.2)
        assert [one["id"] for one in (await call("search", query="soup"))["results"]] == ["canteen.md"]
        assert [one["id"] for one in (await call("search", query="bill"))["results"]] == ["invoice.md"]

    asked(stdio_client(command), work)
    assert [action.query for action in read_taught(notes.with_name("notes.taught.db")).actions] == ["bill"]


@pytest.mark.slow
def test_a_week_of_use_answers_better_until_it_is_undone():
    script = PROJECT / "examples" / "notes" / "week.py"
    done = subprocess.run(
        [sys.executable, script, "--notes", "60", "--uses", "100", "--days", "1"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after, undone = map(float, re.findall(r"hit@5 (\.\d+|\d\.\d+)", done.stdout))
    assert after > before + 0.1
    assert undone == before
