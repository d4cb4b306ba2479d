"""A stranger with an export, a click log and one command: the page shows a gain that the truth confirms."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import tercet as tc
from support.bare_install import BareInstall
from support.bundles import posix_only
from support.stranger import write_help_desk

pytestmark = [pytest.mark.slow, posix_only]

MOST_CPU_SECONDS = 60
QUESTIONS = 60  # new ones, each searched once


def cpu_seconds() -> float:
    """Processor time of the processes that this one has waited for, and of those that they waited for."""
    import resource  # not on Windows

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def asked(address: str, what: str, **parameters: object) -> Any:
    with urllib.request.urlopen(f"{address}{what}?{urllib.parse.urlencode(parameters)}", timeout=60) as answer:
        return json.load(answer)


def test_one_command_makes_a_page_with_a_gain_that_the_truth_confirms(tmp_path: Path) -> None:
    bare = BareInstall(tmp_path, extras=["serve"])
    truth = write_help_desk(bare.work)[:QUESTIONS]
    (bare.work / "tercet.toml").write_text("[serve]\nport = 0\n", encoding="utf-8")  # beside other tests
    before = cpu_seconds()
    commands = [["tercet", "up", "kb_export.csv", "--clicks", "suchlog.csv", "--yes"]]
    [[command, *words]] = commands
    log = tmp_path / "said"
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [str(bare.bin / command), *words],
            cwd=bare.work,
            env=bare.environment,
            stdout=output,
            stderr=output,
        )

    def said(pattern: str) -> str:
        """Wait until a line matches."""
        while not (found := re.search(pattern, text := log.read_text("utf-8"), re.MULTILINE)):
            assert process.poll() is None, text
            assert "error" not in text, text
            time.sleep(0.1)
        return found[0]

    try:
        address = said(r"^http://\S+/$")
        first = asked(address, "health")
        while asked(address, "health")["model"] == first["model"]:  # until what is learned is served
            said("")
            time.sleep(0.2)
        answers = [asked(address, "search", q=question, k=10, compare="true") for question, _ in truth]
        with urllib.request.urlopen(address, timeout=60) as page:
            assert "Two rankings" in page.read().decode()
    finally:
        process.terminate()
        process.wait(timeout=60)
    qrels = {question: {doc: 1} for question, doc in truth}
    runs = {
        side: {
            answer["query"]: {result["id"]: -float(rank) for rank, result in enumerate(answer[side])}
            for answer in answers
        }
        for side in ("baseline", "learned")
    }
    change = tc.compare(qrels, runs, ["nDCG@10"])
    print(f"{len(commands)} command, {cpu_seconds() - before:.1f} s of processor time\n{change}")
    evaluated = {side: tc.evaluate(qrels, run, ["nDCG@10"])["nDCG@10"] for side, run in runs.items()}
    gain = evaluated["learned"] - evaluated["baseline"]
    assert gain.mean() > 2 * gain.std(ddof=1) / len(gain) ** 0.5
    assert gain.mean() > 0.1
    assert cpu_seconds() - before < MOST_CPU_SECONDS
    reasons = asked_reasons(answers, truth)
    assert reasons, "no answer is reached by a past question"


def asked_reasons(answers: list[Any], truth: list[tuple[str, str]]) -> list[str]:
    """Questions whose answer is first on the learned side and not among ten on the other."""
    return [
        question
        for answer, (question, doc) in zip(answers, truth, strict=True)
        if answer["learned"][:1] and answer["learned"][0]["id"] == doc
        if doc not in {result["id"] for result in answer["baseline"]}
    ]
