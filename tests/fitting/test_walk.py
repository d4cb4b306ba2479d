"""Modules between `tc.fit` and a hit."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tercet as tc

MOST = 75  # modules; 40 is the aim


@pytest.mark.slow
def test_a_fit_and_a_search_pass_through_few_modules():
    """Count modules whose functions run from a call of `tc.fit` to a hit, kernels compiled beforehand."""
    rng = np.random.default_rng(0)
    docs = {f"d{i}": " ".join(f"word{j}" for j in rng.integers(120, size=12)) for i in range(240)}
    answers = {f"q{i}": f"d{rng.integers(240)}" for i in range(80)}
    queries = {qid: " ".join(rng.choice(docs[answer].split(), 2)) for qid, answer in answers.items()}
    qrels = {qid: {answer: 1} for qid, answer in answers.items()}
    root, modules = Path(tc.__file__).parent, set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code, file = frame.f_code, Path(frame.f_code.co_filename)
        # Bodies of classes and modules, comprehensions and generators do not count.
        if event == "call" and not code.co_name.startswith("<") and file.is_relative_to(root):
            modules.add(str(file.relative_to(root)))

    def walk() -> None:
        model = tc.fit(docs, queries, qrels, options={"n_steps": 3000})
        assert tc.Index.build(docs, model).search(queries["q0"], k=5)

    walk()
    modules.clear()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    print(f"{len(modules)} modules: {', '.join(sorted(modules))}", file=sys.stderr)
    assert {"fitting/solve.py", "learn/lowrank.py", "search/index.py"} <= modules
    assert len(modules) <= MOST
