"""kill -9 at random moments, 100 times, while all goes on.

Preferences arrive and are undone, lists are shared with a candidate and logged, documents come and go by requests, and
models are promoted and taken back. After each restart, what was acknowledged must be there, documents as whole
requests, and what is served must be the fold of the actions over what was committed last, to the bit. At the end every
list that was shown must be in the log.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import sys
import tempfile
import time
from pathlib import Path

from common import machine_facts, parse_arguments, print_facts, write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def main() -> None:
    from support.killing import kill_again_and_again

    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts()
    print_facts(facts)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tally = kill_again_and_again(Path(folder), 10 if arguments.quick else 100, arguments.seed)
    took = time.monotonic() - started
    print(f"\n{tally.restarts} kills in {took:.0f} s: {tally.acknowledged:,} actions acknowledged,", end=" ")
    print(f"{tally.actions:,} kept, {tally.lists:,} lists,", end=" ")
    models = ", ".join(f"{count} {name}" for name, count in sorted(tally.models.items()))
    print(f"{tally.documents:,} changes of documents; models: {models}; {len(tally.problems)} faults")
    for problem in tally.problems[:20]:
        print(f"  {problem}")
    write_json(arguments.output, {"machine": facts, "seconds": took, **vars(tally)})
    sys.exit(1 if tally.problems else 0)


if __name__ == "__main__":
    main()
