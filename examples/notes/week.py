"""A week in which an agent uses `tercet mcp`: hit@5 before, day by day, and after all is undone.

    python examples/notes/week.py
    python examples/notes/week.py --notes 100 --uses 200 --days 5

Starts `tercet mcp` on a folder of made-up notes as a child process, and talks to it over standard input and output by
the client of the MCP SDK (extra mcp). The agent fetches the right note if the note is among ten results, or names it in
feedback. Otherwise it asks once more in the words of the notes, and says in feedback which note answered both.
hit@5 is measured by other questions than those of the week.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from notes import Question, questions, write_notes


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool and return its JSON value."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise SystemExit(f"{tool}: {result.content[0].text}")
    return json.loads(result.content[0].text)


async def hit_at_5(client: Client, asked: list[Question]) -> float:
    """Share of questions with the answer among the first five."""
    hits = 0
    for question in asked:
        answer = await call(client, "search", query=question.text, limit=5)
        hits += question.answer in ids(answer)
    return hits / len(asked)


async def use(client: Client, question: Question, by_feedback: bool) -> None:
    """Search, once more in other words if the answer is not among the results, and use the answer."""
    first = await call(client, "search", query=question.text)
    lists = [first]
    if question.answer not in ids(first):
        lists.append(await call(client, "search", query=question.rephrased))
    if question.answer not in ids(lists[-1]):
        return
    if by_feedback or len(lists) > 1:
        for one in lists:
            await call(client, "feedback", query_id=one["query_id"], used_ids=[question.answer])
    else:
        await call(client, "fetch", id=question.answer)


def ids(answer: dict[str, Any]) -> list[str]:
    """Ids of the results of a search."""
    return [result["id"] for result in answer["results"]]


async def play(n_notes: int, n_uses: int, n_days: int, seed: int) -> None:
    """Print hit@5 before, after each day, and after all is undone."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "notes")
        folder.mkdir()
        notes = write_notes(folder, n_notes, seed)
        week, held_out = questions(notes, n_uses, seed + 1), questions(notes, 200, seed + 2)
        played = {question.text for question in week}
        held_out = [question for question in held_out if question.text not in played]
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "tercet", "mcp", str(folder)], env=dict(os.environ)
        )
        async with Client(stdio_client(command)) as client:
            print(f"{n_notes} notes, {n_uses} uses, {len(held_out)} held-out questions, seed {seed}")
            print(f"before      hit@5 {await hit_at_5(client, held_out):.3f}", flush=True)
            began = time.perf_counter()
            for day in range(n_days):
                for number in range(day * n_uses // n_days, (day + 1) * n_uses // n_days):
                    await use(client, week[number], number % 2 == 0)
                print(f"after day {day + 1} hit@5 {await hit_at_5(client, held_out):.3f}", flush=True)
            calls = 2 * n_uses + n_days * len(held_out)
            print(f"about {calls} calls, {(time.perf_counter() - began) / calls * 1000:.1f} ms each")
            n_undone = 0
            while (await client.call_tool("undo", {})).is_error is False:
                n_undone += 1
            print(f"undone: {n_undone} actions")
            print(f"undone      hit@5 {await hit_at_5(client, held_out):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=120, help="files in the folder (default 120, at most 190)")
    parser.add_argument("--uses", type=int, default=200, help="questions of the week (default 200)")
    parser.add_argument("--days", type=int, default=5, help="days on which hit@5 is printed (default 5)")
    parser.add_argument("--seed", type=int, default=0, help="of notes and questions (default 0)")
    given = parser.parse_args()
    asyncio.run(play(given.notes, given.uses, given.days, given.seed))
