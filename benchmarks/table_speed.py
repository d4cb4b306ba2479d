"""CPU seconds and memory of reading a click log and a table of products, and broken files, beside other readers.

polars and pyarrow read columns only; a third row makes Python lists of pyarrow's text columns, as a reader over pyarrow
would, and a fourth those that Tercet's readers begin with. Tercet also checks ids, finds numbers and puts the rows of a
search into lists. Each reader runs in a process of its own, on one thread. Files are made with a seed, in a temporary
folder.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import gzip
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json

RIVALS = {
    "polars": "import polars; read = lambda path: polars.read_csv(path, infer_schema=False)",
    "pyarrow": "from pyarrow import csv; read = lambda path: csv.read_csv(path, csv.ReadOptions(use_threads=False))",
    "pyarrow, lists of texts": (
        "from pyarrow import csv, string\n"
        "def read(path):\n"
        "    types = dict.fromkeys(open(path).readline().rstrip().split(','), string())\n"
        "    options = csv.ReadOptions(use_threads=False), csv.ParseOptions(), csv.ConvertOptions(column_types=types)\n"
        "    return [column.to_pylist() for column in csv.read_csv(path, *options).columns]"
    ),
    "csv module, lists of texts": (
        "from tercet.data.batches import collector_paused, column_batches\n"
        "from tercet.data.tables import open_table\n"
        "def read(path):\n"
        "    table = open_table(path)\n"
        "    with collector_paused():\n"
        "        batches = zip(*(batch.columns for batch in column_batches(table, table.columns)))\n"
        "        return [[cell for cells in column for cell in cells] for column in batches]"
    ),
}
TASKS = {"clicks": "read_click_log", "products": "read_table"}
DOCS_OF_A_LIST = 10


class Broken(NamedTuple):
    """A file with a fault on a line, or with ids that all readers should give."""

    content: bytes
    line: int | None = None
    ids: Sequence[str] = ()


def write_clicks(path: Path, n_rows: int, seed: int) -> None:
    """Write a row for each document shown, ten to a search."""
    rng = random.Random(seed)
    with path.open("w") as file:
        file.write("search,session,query,sku,position,clicked,time\n")
        for search in range(n_rows // DOCS_OF_A_LIST):
            start, query = 1.7e9 + 3 * search + rng.random(), f"query {int(rng.expovariate(0.001))}"
            clicked = rng.randrange(DOCS_OF_A_LIST)
            for position, doc in enumerate(rng.sample(range(400_000), DOCS_OF_A_LIST), start=1):
                is_clicked = int(position == clicked)
                row = f"s{search:07d},u{search // 3},{query},p{doc:06d},{position},{is_clicked},{start:.2f}"
                file.write(row + "\n")


def write_products(path: Path, n_bytes: int, seed: int) -> None:
    """Write products with a title, a description of some 90 words, a price, a stock and a brand."""
    rng = random.Random(seed)
    words = [f"word{int(rank)}" for rank in range(20_000)]
    row = 0
    with path.open("w") as file:
        file.write("sku,title,description,price,stock,brand\n")
        while row % 1000 or file.tell() < n_bytes:
            title, text = " ".join(rng.choices(words, k=5)), " ".join(rng.choices(words, k=60))
            file.write(f'{row:08d},{title},"{text}, ""{title}""",{rng.random() * 100:.2f},{row % 50},b{row % 300}\n')
            row += 1


def broken_files() -> dict[str, Broken]:
    """Tables with one fault each, or with ids that are easily misread."""
    numbers = [str(number) for number in range(2_000)]
    right = b"id,text\n" + b"".join(b"%d,tea %d\n" % (number, number) for number in range(3_000))
    return {
        "a short row": Broken(b"id,text\n1,tea\n2\n3,milk\n", 3),
        "a quote not closed": Broken(b'id,text\n1,tea\n2,"milk\n3,bread\n', 3),
        "a Latin-1 byte": Broken(b"id,text\n1,tea\n2,caf\xe9\n", 3),
        "an id twice": Broken(b"id,text\n1,tea\n2,milk\n1,bread\n", 4),
        "no header": Broken(b"1,tea\n2,milk\n", 1),
        "gzip cut short": Broken(gzip.compress(right)[:-20], None),
        "a word among ids, after 2,000 numbers": Broken(
            "\n".join(["id,text", *(f"{one},tea" for one in [*numbers, "p7"])]).encode(), ids=[*numbers, "p7"]
        ),
        "the ids 007 and 7": Broken(b"id,text\n007,tea\n7,milk\n", ids=["007", "7"]),
    }


def outcome(read: Callable[[str], list[object]], broken: Broken, path: Path) -> str:
    """What a reader does with a file: an error with or without the line, or rows that are right or wrong."""
    path.write_bytes(broken.content)
    try:
        ids = [str(one) for one in read(str(path))]
    except Exception as error:
        message = str(error).replace(str(path), "")
        if broken.ids:
            return "refused"
        place = "trunc|ends in" if broken.line is None else rf"(:|line |row #?){broken.line}\b"
        return "error, place named" if re.search(place, message, re.IGNORECASE) else "error, no place"
    if broken.ids:
        return "right" if ids == broken.ids else "WRONG IDS"
    return "READ SILENTLY"


def print_broken(folder: Path) -> dict[str, dict[str, str]]:
    import polars
    import pyarrow.csv

    readers: dict[str, Callable[[str], list[object]]] = {
        "tercet": lambda path: list(tc.read_table(path)),
        "polars": lambda path: polars.read_csv(path).to_series(0).to_list(),
        "pyarrow": lambda path: pyarrow.csv.read_csv(path).column(0).to_pylist(),
    }
    found = {}
    for name, broken in broken_files().items():
        path = folder / ("table.csv.gz" if "gzip" in name else "table.csv")
        found[name] = {reader: outcome(read, broken, path) for reader, read in readers.items()}
    print_table(
        "broken files, default options", ["file", *readers], [[name, *row.values()] for name, row in found.items()]
    )
    return found


def measured(code: str, path: Path) -> tuple[float, float]:
    """CPU seconds of reading, and MB that the reading process grew by."""
    program = (
        f"import sys, time, re\n{code}\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
        "before, began = peak(), time.process_time()\nkept = read(sys.argv[1])\n"
        "print(time.process_time() - began, (peak() - before) / 1024)"
    )
    environment = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], env=environment, capture_output=True, text=True, check=True
    )
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts("polars", "pyarrow")
    print_facts(facts)
    n_rows, n_bytes = (200_000, 30_000_000) if arguments.quick else (2_000_000, 300_000_000)
    results: dict[str, dict[str, tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for task, reader in TASKS.items():
            path = Path(folder, f"{task}.csv")
            if task == "clicks":
                write_clicks(path, n_rows, arguments.seed)
            else:
                write_products(path, n_bytes, arguments.seed)
            readers = {"tercet": f"from tercet.data import {reader} as read", **RIVALS}
            results[task] = {name: measured(code, path) for name, code in readers.items()}
            size = path.stat().st_size / 1e6
            rows = [[name, f"{cpu:.2f}", f"{peak:.0f}"] for name, (cpu, peak) in results[task].items()]
            print_table(f"{task}, {size:.0f} MB of CSV", ["reader", "CPU s", "MB"], rows)
            path.unlink()
        found = print_broken(Path(folder))
    write_json(arguments.output, {"machine": facts, "cpu_seconds_and_megabytes": results, "broken_files": found})


if __name__ == "__main__":
    main()
