"""Record the figures that a refactoring must not move, and compare a later tree with them.

    python tools/reference.py --write before.json       # run every part and record its figures
    python tools/reference.py --compare before.json     # run the same parts again and print the differences
    python tools/reference.py --compare tools/reference.json --only golden demo

Quality figures may move by one standard error. Digests and answers must be equal. Speed ratios are printed, and fail
nothing. A figure that no longer exists is printed as "gone", and fails nothing either: delete its entry from the file
when the removal was meant. The exit code is 1 when a figure moved too far, or when a part ended with an exception.

`tools/reference.json` holds the figures of the commit named inside. Data sets come from `--data-home` or TERCET_DATA,
see benchmarks/README.md; the shop needs the package lists of a Debian system. All parts together take some ten minutes
of one core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from reference_record import Figure, Figures, compare, read, write

ROOT = Path(__file__).resolve().parents[1]

Part = Callable[[Path | None], dict[str, Figure]]  # from the data home to figures by name


def commit() -> str:
    """Hash of the commit that is checked out, with a mark when sources differ from it."""
    git = ["git", "-C", str(ROOT)]
    try:
        name = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src", "benchmarks", "examples"]).returncode
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name} with changes" if changed else name


def run(parts: dict[str, Part], data_home: Path | None) -> Iterator[tuple[str, dict[str, Figure] | None]]:
    """Yield the figures of one part after the other; None for a part that ended with an exception."""
    for name, part in parts.items():
        print(f"{name} …", file=sys.stderr, flush=True)
        began = perf_counter()
        try:
            figures = part(data_home)
        except Exception:  # the other parts still run
            traceback.print_exc()
            figures = None
        print(f"{name}: {perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        yield name, figures


def print_differences(before: Figures, results: Iterator[tuple[str, dict[str, Figure] | None]], commit: str) -> int:
    """Print each part's differences as soon as the part ends, then a closing line; return the exit code."""
    failed, statuses, n_figures = [], [], 0
    for name, figures in results:
        if figures is None:
            failed.append(name)
            continue
        n_figures += len(figures)
        for difference in compare(before[name], figures):
            statuses.append(difference.status)
            print(difference, flush=True)
    counts = ", ".join(f"{statuses.count(status)} {status}" for status in ("moved", "within", "gone", "new"))
    failures = f"{len(failed)} parts failed" + (f": {', '.join(failed)}" if failed else "")
    print(f"{n_figures} figures, compared with commit {commit[:12]}: {counts}, {failures}")
    return int("moved" in statuses or bool(failed))


def main() -> int:
    # Numerical libraries read the number of threads on import; bits depend on it.
    os.environ |= {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")}
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples" / "shop")]
    from reference_figures import DATA, PARTS, SEED, machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE", help="run and record")
    action.add_argument("--compare", type=Path, metavar="FILE", help="run and print the differences from a record")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="NAME", help=", ".join(PARTS))
    home = os.environ.get("TERCET_DATA")
    parser.add_argument("--data-home", type=Path, metavar="DIR", default=home, help="default: TERCET_DATA")
    options = parser.parse_args()
    names = options.only
    if options.compare:
        old_facts, before = read(options.compare)
        names = [name for name in names if name in before]
    if options.data_home is None and (needing := [name for name in names if name in DATA]):
        parser.error(f"{', '.join(needing)}: data sets are needed. Add --data-home DIR, or leave these out with --only")
    results = run({name: PARTS[name] for name in names}, options.data_home)

    if options.compare:
        for name, value in machine().items():
            if (old := old_facts["machine"].get(name)) != value:
                print(f"note: {name} was {old}, is {value}; bits and speed may differ")
        return print_differences(before, results, old_facts["commit"])
    facts = {"commit": commit(), "seed": SEED, "data": DATA, "machine": machine()}
    recorded: Figures = {}
    for name, figures in results:
        if figures is not None:
            recorded[name] = figures
            write(options.write, facts, recorded)  # after each part: a run that is stopped keeps its figures
    return int(len(recorded) < len(names))


if __name__ == "__main__":
    sys.exit(main())
