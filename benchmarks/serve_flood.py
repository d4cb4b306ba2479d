"""Times of a token holder's searches behind a real Caddy, while strangers flood the open paths.

100 connections without a token pipeline 200 requests each and read no answer, for each open path; then the same without
strangers. Needs `caddy`. 99 % of the holder's searches should take less than 250 ms.

    python benchmarks/serve_flood.py            # a minute; --quick: one round
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import sys
import tempfile
from pathlib import Path

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

PATHS = ("/", "/app.js", "/openapi.json", "/health", "/search?q=green", "/nothing")


def main() -> None:
    from support.proxying import proxied, times_in_a_flood, times_of_holder

    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts()
    print_facts(facts)
    times: dict[str, list[float]] = {"no strangers": []} | {path: [] for path in PATHS}
    with tempfile.TemporaryDirectory() as folder, proxied(Path(folder)) as (_, proxy, port):
        times_of_holder(proxy, 50)
        for _ in range(1 if arguments.quick else 5):
            times["no strangers"] += times_of_holder(proxy, 100)
            for path in PATHS:
                times[path] += times_in_a_flood(proxy, port, path)
    rows = [[path, *(f"{np.percentile(took, q):.0f}" for q in (50, 99, 100))] for path, took in times.items()]
    print_table("searches of a token holder, ms", ["strangers ask for", "p50", "p99", "most"], rows)
    write_json(arguments.output, {"machine": facts, "times": times})


if __name__ == "__main__":
    main()
