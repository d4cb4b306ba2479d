"""Modules between the request of a teacher and the version that has the action."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import tercet
from support.serving import made_index, served
from tercet.search import Index

MOST = 26  # modules; 20 is the aim


def test_an_action_passes_through_few_modules(tmp_path):
    """Count modules whose functions run from `Service.teach` until the effect is looked for."""
    root, modules, is_counted = Path(tercet.__file__).parent, set[str](), False

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal is_counted
        if event != "call":
            return
        code, file = frame.f_code, Path(frame.f_code.co_filename)
        if file.name in ("service.py", "answers.py") and code.co_name in ("teach", "effect"):
            is_counted = code.co_name == "teach"
        if is_counted and file.is_relative_to(root):
            modules.add(str(file.relative_to(root)))

    made_index(tmp_path / "index")
    threading.setprofile(note)  # of threads that are started from here on: those of the service
    try:
        with served(tmp_path / "taught.db", Index.open(tmp_path / "index")) as (api, _):
            api.post("/prefer", json={"query": "green avocado", "better": "d3", "worse": "d9"})
            modules.clear()  # kernels are loaded now
            answer = api.post("/prefer", json={"query": "green avocado", "better": "d4", "worse": "d9"}).json()
    finally:
        threading.setprofile(None)
    assert answer["effect"] is not None
    modules -= {"serve/guard.py", "serve/requests.py", "serve/metrics.py"}  # before and after the handler
    print(f"{len(modules)} modules: {', '.join(sorted(modules))}", file=sys.stderr)
    assert {"serve/taught.py", "learn/online.py", "serve/served.py"} <= modules
    assert len(modules) <= MOST
