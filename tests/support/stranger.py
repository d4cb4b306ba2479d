"""A help desk that is used nowhere else: functions of Python's standard library, and a click log with a known truth."""

from __future__ import annotations

import ast
import csv
import re
import sysconfig
from pathlib import Path

import numpy as np

import tercet as tc
from tercet.simulate import Traffic, Visitors, simulate_clicks

_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_PACKAGES = ("asyncio", "email", "http", "json", "logging", "multiprocessing", "unittest", "urllib", "xml/etree")
_WORD = re.compile(r"[a-z]{3,}")
_DULL = frozenset(
    re.findall(r"\w+", "the and for this that with from given return returns true false none not are has")
)
OTHER_WORDS = {
    "file": "document", "directory": "folder", "string": "text", "list": "array", "remove": "delete", "create": "make",
    "message": "mail", "number": "figure", "open": "access", "name": "title", "path": "location", "read": "load",
    "write": "save", "object": "thing", "call": "invoke", "get": "fetch", "set": "assign", "check": "test",
}  # fmt: skip
DOC_COLUMNS = ("Artikel-Nr.", "KB Title", "Body (HTML)", "Rubrik", "size_bytes", "last upd", "Owner e-mail", "notes")
LOG_COLUMNS = ("log_ts", "visitor", "Suchbegriff", "pos", "Artikel-Nr.", "geklickt", "ua")


def functions() -> dict[str, tuple[str, str, str]]:
    """Name -> module, the first sentence of its documentation, and the rest; read from the library's source."""
    library = Path(sysconfig.get_path("stdlib"))
    found: dict[str, tuple[str, str, str]] = {}
    texts: set[str] = set()
    for file in sorted([*library.glob("*.py"), *(file for one in _PACKAGES for file in (library / one).glob("*.py"))]):
        module = ".".join(file.relative_to(library).with_suffix("").parts)
        if not re.fullmatch(r"[a-z][a-z.]*", module):
            continue
        tree = ast.parse(file.read_bytes())
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        named = [(node.name, node) for node in tree.body if isinstance(node, _DOCUMENTED)]
        named += [
            (f"{one.name}.{node.name}", node) for one in classes for node in one.body if isinstance(node, _DOCUMENTED)
        ]
        for name, node in named:
            first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
            is_private = name.rpartition(".")[2].startswith("_")
            if not is_private and len(_WORD.findall(rest)) >= 8 and len(_asked_words(first)) >= 3 and rest not in texts:
                texts.add(rest)
                found[f"{module}.{name}"] = module, " ".join(first.split()), rest
    return found


def _asked_words(sentence: str) -> list[str]:
    return [word for word in _WORD.findall(sentence.lower()) if word not in _DULL]


def question(sentence: str, rng: np.random.Generator) -> str:
    """Two to four words of a sentence, some of them in other words."""
    words = _asked_words(sentence)
    kept = sorted(rng.choice(len(words), min(len(words), int(rng.integers(2, 5))), replace=False).tolist())
    return " ".join(OTHER_WORDS.get(words[at], words[at]) if rng.random() < 0.5 else words[at] for at in kept)


def write_help_desk(folder: Path, n_lists: int = 10_000, seed: int = 0) -> list[tuple[str, str]]:
    """Write ``kb_export.csv`` and ``suchlog.csv``; return new questions and the article that answers each.

    The sentence that questions are made of is in no file. Some articles are asked for more often than others.
    """
    rng = np.random.default_rng(seed)
    known = functions()
    names = list(known)
    numbers = {name: f"{number:06d}" for number, name in enumerate(names, start=10_000)}
    with open(folder / "kb_export.csv", "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(DOC_COLUMNS)
        for number, (name, (module, _, rest)) in enumerate(known.items()):
            body = "".join(f"<p>{part}</p>" for part in rest.replace("<", "&lt;").split("\n\n"))
            date = f"{number % 28 + 1:02d}.{number % 12 + 1:02d}.2023"
            owner, notes = f"{'ann' if number % 2 else 'bob'}@desk.example", "check me!" if number % 7 == 0 else ""
            size = f"{len(body):,}".replace(",", ".")
            writer.writerow((numbers[name], name.replace(".", " "), body, module, size, date, owner, notes))
    texts = {numbers[name]: f"{name.replace('.', ' ')}\n{rest}" for name, (_, _, rest) in known.items()}
    wanted = rng.zipf(1.3, 100_000)
    wanted = rng.permutation(len(names))[wanted[wanted <= len(names)] - 1][: n_lists // 2]
    asked = {question(known[names[row]][1], rng): numbers[names[row]] for row in wanted.tolist()}
    # Half of the visitors meet the engine of the help desk, half the one before, which knew titles alone.
    now = tc.Index.build(texts).search_many({query: query for query in asked}, 10)
    before = tc.Index.build({doc: text.partition("\n")[0] for doc, text in texts.items()})
    once = before.search_many({query: query for query in asked}, 10)
    lists = {query: [list(run[query]) for run in (now, once) if run[query]] for query in asked if now[query]}
    qrels = {query: {asked[query]: 1} for query in lists}
    log = simulate_clicks(lists, qrels, n_lists, Visitors(), Traffic(), seed=seed)
    with open(folder / "suchlog.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(LOG_COLUMNS)
        for number, (seen, session) in enumerate(zip(log.impressions, log.sessions, strict=True)):
            for rank, doc in enumerate(seen.shown, start=1):
                moment = f"2026-05-{number * 28 // len(log.impressions) + 1:02d}T12:00:{number % 60:02d}"
                writer.writerow((moment, session, seen.query, rank, doc, int(doc in seen.clicked), "Mozilla/5.0"))
    clicked = {doc for seen in log.impressions for doc in seen.clicked}
    fresh = {
        question(known[names[row]][1], rng): numbers[names[row]] for row in rng.permutation(wanted)[:1_000].tolist()
    }
    return [(query, doc) for query, doc in fresh.items() if query not in asked and doc in clicked][:300]
