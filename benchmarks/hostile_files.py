"""How long files made to harm take a reader, and how much memory, each in a process of its own.

    python benchmarks/hostile_files.py
    python benchmarks/hostile_files.py --only "a tar header"

Each file is read at a tenth of its size and at its whole size: what is linear takes about ten times as long.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.hostile_files import ATTACKS
from tercet.errors import InputError


def measure(name: str, size: int, folder: Path) -> dict[str, object]:
    """Write one, and read it; memory is what reading adds to that of the imports."""
    attack = ATTACKS[name]
    path = attack.write(folder, size)
    n_bytes = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        summary = json.loads((folder / "told").read_text())
        return {**summary, "bytes": n_bytes, "status": os.waitstatus_to_exitcode(status)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    try:
        attack.read(path)
        ended = "read"
    except InputError as error:
        ended = str(error).removeprefix(str(path)).lstrip(":0123456789 ")[:70]
    seconds = time.process_time() - began
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    (folder / "told").write_text(json.dumps({"seconds": seconds, "memory": memory, "ended": ended}))
    os._exit(0)


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(ATTACKS))
    parser.add_argument("--quick", action="store_true", help="At a tenth of the sizes.")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measure(options.only, options.one, Path(folder))))
        return
    print(f"{'':<38} {'bytes':>11} {'s':>6} {'MB':>5}   ten times: {'bytes':>12} {'s':>6} {'MB':>5}  ends with")
    for name in [options.only] if options.only else ATTACKS:
        large = ATTACKS[name].large // (10 if options.quick else 1)
        summary = []
        for size in (max(1, large // 10), large):
            command = [sys.executable, __file__, "--only", name, "--one", str(size)]
            summary.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        small, whole = summary
        print(
            f"{name:<38} {small['bytes']:>11,} {small['seconds']:>6.2f} {small['memory']:>5.0f}   "
            f"           {whole['bytes']:>12,} {whole['seconds']:>6.2f} {whole['memory']:>5.0f}  {whole['ended']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
