"""Power cuts: states that a disk may be in, made from the system calls of a program, and what must be in each.

    PYTHONPATH=src:tests python -m support.power_cuts [--points 400] [--seed 0]      # needs strace

A program runs under strace and says on standard output what it acknowledges. A power cut may come after any call. What
was synced by then is there. Of the rest, each state keeps nothing, all, or a drawn part: writes are dropped, cut short
or zeroed, and of the changes to folders that were not synced a beginning is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

_CALLS: Final = "openat,close,read,write,pwrite64,lseek,ftruncate,fsync,fdatasync,rename,renameat,unlink,unlinkat,mkdir"
_LINE: Final = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")
_STRING: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_PAGE: Final = 512  # bytes that a disk writes at once
_DRAWN: Final = 3  # states of each kind at a point

Kind = Literal["create", "mkdir", "rename", "unlink", "write", "truncate", "sync", "sync folder", "said"]


@dataclass
class Call:
    """A system call on the folder, or a line that the program said."""

    kind: Kind
    path: Path = Path()
    to: Path = Path()
    inode: int = -1
    offset: int = 0
    data: bytes = b""


@dataclass
class Cut:
    """State of a disk: files that exist, by path."""

    files: dict[Path, bytes] = field(default_factory=dict)
    folders: set[Path] = field(default_factory=set)

    def write(self, root: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        for folder in sorted(self.folders):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for path, data in self.files.items():
            if (root / path).parent.is_dir() and not path.name.endswith("-shm"):  # memory, which does not outlive it
                (root / path).write_bytes(data)


def traced(program: str, folder: Path, *arguments: str) -> list[Call]:
    """Run a program that works in a folder; return its calls in order."""
    log = folder.with_name(f"{folder.name}.strace")
    command = ["strace", "-f", "-xx", "-s", "2000000", "-e", f"trace={_CALLS}", "-o", str(log)]
    done = subprocess.run(
        [*command, sys.executable, "-c", program, str(folder), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(_calls(log, folder))


def _text(encoded: str) -> str:
    return bytes.fromhex(encoded.replace("\\x", "")).decode()


def _calls(log: Path, root: Path) -> Iterator[Call]:
    opened: dict[int, tuple[Path, int, bool]] = {}  # by descriptor: path, inode, whether writes append
    offsets: dict[int, int] = {}
    inodes: dict[Path, int] = {}
    sizes: Counter[int] = Counter()
    n_inodes = 0
    with open(log, encoding="ascii") as lines:
        for line in lines:
            matched = _LINE.match(line)
            if matched is None or int(matched[3]) < 0:
                continue
            name, given, result = matched[1], matched[2], int(matched[3])
            strings = (
                [_text(text) for text in _STRING.findall(given)] if not name.endswith(("read", "write", "64")) else []
            )
            if name == "openat":
                path = Path(strings[0])
                if not path.is_relative_to(root) or "O_TMPFILE" in given:
                    opened.pop(result, None)
                    continue
                path = path.relative_to(root)
                if path not in inodes and "O_CREAT" in given:
                    inodes[path] = n_inodes = n_inodes + 1
                    yield Call("create", path, inode=n_inodes)
                opened[result], offsets[result] = (path, inodes.get(path, -1), "O_APPEND" in given), 0
                if "O_TRUNC" in given:
                    sizes[inodes[path]] = 0
                    yield Call("truncate", path, inode=inodes[path])
                continue
            if name in ("rename", "renameat", "unlink", "unlinkat", "mkdir"):
                paths = [Path(text) for text in strings]
                if not paths[0].is_relative_to(root):
                    continue
                path = paths[0].relative_to(root)
                if name.startswith("rename"):
                    to = paths[1].relative_to(root)
                    inodes[to] = inodes.pop(path, -1)
                    yield Call("rename", path, to)
                elif name == "mkdir":
                    yield Call("mkdir", path)
                else:
                    inodes.pop(path, None)
                    yield Call("unlink", path)
                continue
            descriptor = int(re.match(r"\d+", given)[0])  # type: ignore[index]
            if name == "close":
                opened.pop(descriptor, None)
                continue
            data = b""
            if name in ("write", "pwrite64"):
                data = bytes.fromhex(_STRING.search(given)[1].replace("\\x", ""))  # type: ignore[index]
                assert len(data) >= result, "strace cut a write short"
                data = data[:result]
            if descriptor == 1 and name == "write":
                for said in filter(None, data.decode().splitlines()):
                    yield Call("said", data=said.encode())
            if descriptor not in opened:
                continue
            path, inode, appends = opened[descriptor]
            if name in ("fsync", "fdatasync"):
                yield Call("sync folder" if inode < 0 else "sync", path, inode=inode)
            elif name == "lseek":
                offsets[descriptor] = result
            elif name == "read":
                offsets[descriptor] += result
            elif name == "ftruncate":
                size = int(given.rpartition(",")[2])
                sizes[inode] = size
                yield Call("truncate", path, inode=inode, offset=size)
            else:
                offset = sizes[inode] if appends else offsets[descriptor]
                if name == "pwrite64":
                    offset = int(given.rpartition(",")[2])
                else:
                    offsets[descriptor] = offset + result
                sizes[inode] = max(sizes[inode], offset + result)
                yield Call("write", path, inode=inode, offset=offset, data=data)


def cuts(calls: Sequence[Call], end: int, dice: random.Random) -> Iterator[Cut]:
    """Yield states that the disk may be in where the power is cut after the first ``end`` calls."""
    done = calls[:end]
    synced_data = {call.inode: at for at, call in enumerate(done) if call.kind == "sync"}
    synced_folders = {call.path: at for at, call in enumerate(done) if call.kind == "sync folder"}
    data = [(at, call) for at, call in enumerate(done) if call.kind in ("write", "truncate")]
    loose = {at for at, call in data if at > synced_data.get(call.inode, -1)}
    changes = [(at, call) for at, call in enumerate(done) if call.kind in ("create", "mkdir", "rename", "unlink")]
    free = [at for at, call in changes if not _is_synced(call, at, synced_folders)]
    drawn = [dice.randrange(len(free) + 1) for _ in range(_DRAWN)] if free else []
    for n_kept in dict.fromkeys([0, len(free), *drawn]):
        dropped = set(free[n_kept:])
        kept_changes = [call for at, call in changes if at not in dropped]
        fates = [dict.fromkeys(loose, "gone"), dict.fromkeys(loose, "there")] if loose else [{}]
        for _ in range(_DRAWN if loose else 0):
            fates.append({at: dice.choice(["gone", "there", "torn", "zeroed"]) for at in loose})
        for fate in fates:
            contents = _contents(data, fate, dice)
            yield _existing(kept_changes, contents)


def _is_synced(call: Call, at: int, synced: dict[Path, int]) -> bool:
    folders = {call.path.parent, call.to.parent} if call.kind == "rename" else {call.path.parent}
    return all(synced.get(folder, -1) > at for folder in folders)


def _contents(data: Sequence[tuple[int, Call]], fate: dict[int, str], dice: random.Random) -> dict[int, bytearray]:
    contents: dict[int, bytearray] = {}
    for at, call in data:
        content, kind = contents.setdefault(call.inode, bytearray()), fate.get(at, "there")
        written = call.data
        if kind == "gone":
            continue
        if call.kind == "truncate":
            del content[call.offset :]
            content.extend(bytes(call.offset - len(content)))
            continue
        if kind == "torn":
            written = written[: dice.randrange(len(written) + 1) // _PAGE * _PAGE]
        elif kind == "zeroed":
            written = bytes(len(written))
        content.extend(bytes(max(0, call.offset + len(written) - len(content))))
        content[call.offset : call.offset + len(written)] = written
    return contents


def _existing(changes: Sequence[Call], contents: dict[int, bytearray]) -> Cut:
    cut, names = Cut(), dict[Path, int]()
    for call in changes:
        if call.kind == "create":
            names[call.path] = call.inode
        elif call.kind == "mkdir":
            cut.folders.add(call.path)
        elif call.kind == "unlink":
            names.pop(call.path, None)
        elif call.path in names:
            names[call.to] = names.pop(call.path)
        elif call.path in cut.folders:
            cut.folders.discard(call.path)
            cut.folders.add(call.to)
            for path in [path for path in names if path.is_relative_to(call.path)]:
                names[call.to / path.relative_to(call.path)] = names.pop(path)
    cut.files = {path: bytes(contents.get(inode, b"")) for path, inode in names.items()}
    return cut


TAUGHT: Final = """
import sys
from pathlib import Path
from tercet.serve import TaughtStore

folder = Path(sys.argv[1])
said = lambda number, undone: print(f"{number} {undone}", flush=True)
for session in range(2):
    with TaughtStore(folder / "taught.db") as store:
        for i in range(6):
            said(store.add("ann", "prefer", f"query {store.n_actions + 1}", [("a", "b")]).number, 0)
        said(store.n_actions, store.undo("ann")[0].number)
        for _ in range(12 * session):  # large enough that SQLite moves the log into the database meanwhile
            pairs = [("a" * 1000, "b" * 1000)] * 200
            said(store.add("ann", "move", f"query {store.n_actions + 1}", pairs).number, 0)
"""


def wrong_store(folder: Path, said: Sequence[str]) -> str | None:
    """Return what is wrong with a store of `TAUGHT` after these acknowledgements."""
    from tercet.serve import TaughtStore

    acknowledged = max((int(line.split()[0]) for line in said), default=0)
    undone = {int(line.split()[1]) for line in said} - {0}
    with TaughtStore(folder / "taught.db") as store:
        rows = store.since(0)
        numbers = [action.number for action in rows.actions]
        if rows.damaged or numbers != list(range(1, len(numbers) + 1)) or len(numbers) < acknowledged:
            return f"{acknowledged} acknowledged, there are {numbers}, damaged {rows.damaged}"
        if any(action.query != f"query {action.number}" for action in rows.actions):
            return "another query"
        if any(rows.actions[number - 1].is_active for number in undone):
            return f"an undone action counts: {undone}"
        if store.add("ann", "prefer", "tea", [("a", "b")]).number != len(numbers) + 1:
            return "the next action has another number"
    return None


DOCUMENTS: Final = """
import json, sys
from pathlib import Path
from tercet.search import Index

folder = Path(sys.argv[1]) / "index"
said = lambda index: print(json.dumps(sorted(index)), flush=True)
index = Index.build({f"d{i}": f"green tea {i}" for i in range(20)}, path=folder)
said(index)
for i in range(4):
    index.add({f"new{i}": "black tea"})
    said(index)
    index.remove([f"d{i}"])
    said(index)
index.merge()
said(index)
"""


def wrong_index(folder: Path, said: Sequence[str]) -> str | None:
    """Return what is wrong with an index of `DOCUMENTS` after these acknowledgements."""
    from tercet.search import Index

    if not said:
        return None  # the first building is not done, and may be begun again
    index = Index.open(folder / "index")
    there, last = set(index), set(json.loads(said[-1]))
    if len(there ^ last) > 1:
        return f"{sorted(there ^ last)} differ from what was acknowledged"
    return None if len(index.search("tea", 50)) == len(there) else "a document is not found"


def run(
    program: str, wrong: Callable[[Path, Sequence[str]], str | None], n_points: int, seed: int
) -> tuple[int, int, list[str]]:
    """Return the number of points, of different states, and what was wrong."""
    dice, problems = random.Random(seed), list[str]()
    n_states = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        live = root / "live"
        live.mkdir()
        calls = traced(program, live)
        points = range(1, len(calls) + 1)
        if len(points) > n_points:
            points = sorted(dice.sample(points, n_points))
        seen: set[int] = set()
        for end in points:
            said = [call.data.decode() for call in calls[:end] if call.kind == "said"]
            for cut in cuts(calls, end, dice):
                key = hash((len(said), tuple(sorted(cut.files.items()))))
                if key in seen:
                    continue
                seen.add(key)
                n_states += 1
                cut.write(root / "cut")
                try:
                    problem = wrong(root / "cut", said)
                except Exception as error:
                    problem = repr(error)
                if problem is not None:
                    problems.append(f"after call {end} ({calls[end - 1].kind} {calls[end - 1].path}): {problem}")
    return len(points), n_states, problems


WORKS: Final = {"taught": (TAUGHT, wrong_store), "documents": (DOCUMENTS, wrong_index)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=400, help="moments of each work, at most")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = False
    for name, (program, wrong) in WORKS.items():
        n_points, n_states, problems = run(program, wrong, options.points, options.seed)
        print(f"{name}: {n_states:,} states at {n_points:,} moments, {len(problems)} wrong", flush=True)
        for problem in problems[:20]:
            print(f"  {problem}")
        failed |= bool(problems)
    sys.exit(failed)


if __name__ == "__main__":
    main()
