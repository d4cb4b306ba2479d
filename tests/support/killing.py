"""A service that is killed at random moments while all goes on, and what must be there after each restart.

Preferences arrive and are undone, lists are shared with a candidate, logged and clicked, documents come and go, and
models are promoted and taken back.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from support.serving import Running, made_docs, made_index
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.loading import load
from tercet.search import Index
from tercet.serve import Action, read_taught
from tercet.serve.served import Served
from tercet.serve.teacher import Overlay
from tercet.weights import Weights

# Imports and loads kernels once and forks a service for each line it reads, since that takes longer than all the rest.
_PROGRAM = """
import os, sys, signal
from tercet.cli.main import cli
import tercet.serve.run
from tercet.search import Index
from tercet.serve.served import Served
from tercet.serve.teacher import Overlay
Overlay(Served.from_index(Index.open(sys.argv[2])), "").warm_up()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for _ in iter(sys.stdin.readline, ""):
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(0)
        try:
            cli(sys.argv[1:], standalone_mode=True)
        finally:
            print("ended", flush=True)  # instead of an address, so that nobody waits for one
            os._exit(1)
    print(child, flush=True)
"""


TOKEN = "of-the-kills-test"
QUERIES = ("green avocado", "blue sky", "oil", "red toast")


@dataclass
class Tally:
    """What was seen over all restarts."""

    restarts: int = 0
    acknowledged: int = 0
    actions: int = 0
    lists: int = 0
    documents: int = 0
    models: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Asker(threading.Thread):
    """Asks one thing after the other until the service is killed; what was being asked then is in ``pending``."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=60)
        self.random = random.Random(seed)
        self.pending: Any = None
        self.unexpected: list[str] = []

    def run(self) -> None:
        try:
            while True:
                self.turn()
        except (OSError, http.client.HTTPException, ValueError):
            pass  # the kill
        finally:
            self.connection.close()

    def turn(self) -> None:
        raise NotImplementedError

    def ask(self, method: str, path: str, body: Any = None, may_be: tuple[int, ...] = ()) -> Any:
        """What is answered; None where it is refused by one of the statuses that may be."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.connection.getresponse()
        output = json.loads(answer.read())
        if answer.status not in (200, 202, *may_be):
            self.unexpected.append(f"{path} answered {answer.status}: {output}")
        return output if answer.status in (200, 202) else None


class Teacher(Asker):
    """Sends one preference after the other, now and then undoes one, and notes what was acknowledged."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(address, seed)
        self.acknowledged: dict[int, dict[str, Any]] = {}
        self.undone: set[int] = set()

    def turn(self) -> None:
        if self.random.random() < 0.15 and (active := self.acknowledged.keys() - self.undone):
            output = self.ask("POST", "/undo", {"actions": [self.random.choice(sorted(active))]})
            self.undone.update(output["undone"])
            return
        better, worse = self.random.sample(list(made_docs())[:-1], 2)
        body = {"query": self.random.choice(QUERIES), "better": better, "worse": worse}
        self.acknowledged[self.ask("POST", "/prefer", body)["action"]] = body


class Visitor(Asker):
    """Searches and clicks, and notes which lists it was shown."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(address, seed)
        self.lists: list[str] = []

    def turn(self) -> None:
        output = self.ask("GET", f"/search?q={quote(self.random.choice(QUERIES))}")
        if output is not None and output["query_id"]:
            self.lists.append(output["query_id"])
            if self.random.random() < 0.5:
                self.ask("POST", "/events", {"query_id": output["query_id"], "doc": output["learned"][0]["id"]})


class Keeper(Asker):
    """Adds and removes documents, and notes which are there, and which request nobody was told the end of."""

    def __init__(self, address: str, seed: int, there: set[str]) -> None:
        super().__init__(address, seed)
        self.there = there
        self.n_changes = 0

    def turn(self) -> None:
        if len(self.there) > 20:
            doc_id = self.random.choice(sorted(self.there))
            self.pending = (False, [doc_id])
            self.ask("DELETE", f"/documents?id={doc_id}")
            self.there.discard(doc_id)
        else:
            ids = [f"kept-{self.random.getrandbits(60)}" for _ in range(3)]
            self.pending = (True, ids)
            self.ask("POST", "/documents", {"documents": [{"id": one, "text": "green avocado sky"} for one in ids]})
            self.there.update(ids)
        self.pending = None
        self.n_changes += 1


def kill_again_and_again(folder: Path, restarts: int, seed: int = 0) -> Tally:
    """Start, let all go on, kill -9; after each start everything acknowledged so far is there, and what is served is
    the fold of the actions over what was committed last."""
    index = made_index(folder / "index")
    for name, scale in (("candidate", 2.0), ("other", 0.5)):
        louder(index, scale).save(folder / name)
    taught = folder / "index.taught.db"
    command = [sys.executable, "-c", _PROGRAM, "serve", str(folder / "index"), "--port", "0"]
    command += ["--teach-token", TOKEN, "--look-every", "0.05"]
    command += ["--log-impressions", str(folder / "log"), "--interleave", str(folder / "candidate")]
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    tally, dice = Tally(), random.Random(seed)
    acknowledged: dict[int, dict[str, Any]] = {}
    undone: set[int] = set()
    lists: list[str] = []
    there: set[str] = set()
    pending: Any = None
    with open(folder / "errors.txt", "w") as errors:
        forker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | single
        )
    too_late = threading.Timer(60 + 20 * restarts, forker.kill)
    too_late.start()
    assert forker.stdin is not None
    assert forker.stdout is not None
    child = 0
    try:
        assert forker.stdout.readline().strip() == "ready", (folder / "errors.txt").read_text()
        for _ in range(restarts):
            forker.stdin.write("start\n")
            forker.stdin.flush()
            lines = [forker.stdout.readline().strip(), forker.stdout.readline().strip()]
            assert all(lines), (folder / "errors.txt").read_text()
            child = int(next(line for line in lines if line.isdigit()))
            address = next((line for line in lines if line.startswith("http")), None)
            assert address is not None, (folder / "errors.txt").read_text()
            tally.restarts += 1
            tally.problems += _faults(Running(forker, address), folder / "index", taught, acknowledged, undone)
            tally.problems += _wrong_documents(folder / "index", there, pending)
            teachers = [Teacher(address, dice.randrange(2**30)) for _ in range(2)]
            visitor = Visitor(address, dice.randrange(2**30))
            keeper = Keeper(address, dice.randrange(2**30), there)
            for at, asker in enumerate([*teachers, visitor, keeper]):
                asker.name = f"asker-{at}"
                asker.start()
            _let_teach(teachers, dice.randrange(20))
            if dice.random() < 0.5:
                tally.models[change_model(folder, dice)] += 1
                time.sleep(dice.uniform(0.0, 0.5))
            os.kill(child, signal.SIGKILL)
            child = 0
            for asker in (*teachers, visitor, keeper):
                asker.join(timeout=90)
                tally.problems += asker.unexpected
            for teacher in teachers:
                acknowledged |= teacher.acknowledged
                undone |= teacher.undone
            lists += visitor.lists
            tally.documents += keeper.n_changes
            pending = keeper.pending
    finally:
        too_late.cancel()
        if child:
            os.kill(child, signal.SIGKILL)
        forker.kill()
        forker.communicate()
    tally.acknowledged, tally.actions = len(acknowledged), len(read_taught(taught).actions)
    tally.lists = len(lists)
    lost = set(lists) - set(_logged(folder / "log"))
    tally.problems += [f"{len(lost)} lists were shown and are not in the log"] if lost else []
    return tally


def _let_teach(teachers: Sequence[Teacher], least: int) -> None:
    """Wait until so many entries were acknowledged, but not for long."""
    end = time.monotonic() + 5
    while sum(len(teacher.acknowledged) for teacher in teachers) < least and time.monotonic() < end:
        time.sleep(0.001)


def louder(index: Index, scale: float) -> TextModel:
    """The model of an index with other weights for what it learned."""
    model = index.model
    assert isinstance(model, TextModel)
    identity, pairs = model.weights.parts[:2]
    return replace(model, weights=Weights([identity, pairs.scaled(scale)]))


def change_model(folder: Path, dice: random.Random) -> str:
    """Have the service take up another model: one from elsewhere, or the one before."""
    index = Index.open(folder / "index")
    kind = dice.choice(["promoted", "taken back"])
    try:
        if kind == "promoted":
            index.promote(load(folder / "other"))
        else:
            index.take_back()
    except InputError:  # it is there already, or there is nothing to take back
        return "unchanged"
    return kind


def _logged(log: Path) -> Iterator[str]:
    for path in log.glob("ubi_queries-*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            with suppress(ValueError):  # cut short by a kill
                yield json.loads(line)["query_id"]


def _wrong_documents(folder: Path, there: set[str], pending: Any) -> list[str]:
    """What differs from what was acknowledged; a request without an answer happened as a whole or not at all."""
    index = {doc_id for doc_id in Index.open(folder) if doc_id.startswith("kept-")}
    is_new, ids = pending or (True, [])
    done = (there | set(ids)) if is_new else there - set(ids)
    if index not in (there, done):
        return [f"{len(there - index)} documents are gone, {len(index - done)} are there that should not be"]
    there.clear()
    there.update(index)
    return []


def _faults(
    service: Running, folder: Path, taught: Path, acknowledged: dict[int, dict[str, Any]], undone: set[int]
) -> list[str]:
    actions = {action.number: action for action in read_taught(taught).actions}
    faults = []
    for number, body in acknowledged.items():
        if number not in actions:
            faults.append(f"action {number} was acknowledged and is gone")
        elif not _is_what_was_said(actions[number], body):
            faults.append(f"action {number} is not what was acknowledged")
    faults += [f"action {number} was undone, and counts" for number in undone if actions[number].is_active]
    overlay = Overlay(Served.from_index(Index.open(folder)), read_taught(taught).store)
    overlay.learn(actions.values())
    index, end = overlay.served(0).index, time.monotonic() + 60
    for query in QUERIES:
        expected = {hit.doc_id: hit.score for hit in index.search(query, 60)}
        while True:  # what was committed last is taken up soon after the start
            path, headers = f"/search?k=20&log=false&q={quote(query)}", {"Authorization": f"Bearer {TOKEN}"}
            answer = service.ask(path, headers=headers).json()
            ranked = {hit["id"]: hit["score"] for hit in answer["learned"]}
            if all(score == expected.get(doc_id, score) for doc_id, score in ranked.items()):
                break
            if time.monotonic() > end:
                return [*faults, f"{query}: {ranked} is not the fold of what was taught, {expected}"]
            time.sleep(0.02)
    return faults


def _is_what_was_said(action: Action, body: dict[str, Any]) -> bool:
    return (action.query, action.pairs) == (body["query"], ((body["better"], body["worse"]),))
