"""The documentation as a site: links of the sources lead somewhere, and the check of built pages works."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import runpy
from functools import cache
from pathlib import Path

import pytest

from support.documents import DOCUMENTS, PROJECT
from support.public_api import LIST

LINK = re.compile(r"\]\(([^)\s]+)\)")
LINKING = [*DOCUMENTS, PROJECT / "CHANGELOG.md", PROJECT / "SECURITY.md", PROJECT / "benchmarks" / "README.md"]
check = runpy.run_path(str(PROJECT / "tools" / "docs_check.py"))


@cache
def anchors(path: Path) -> set[str]:
    """What a code host and Sphinx make of headings."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower().strip()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", LINKING, ids=lambda path: path.relative_to(PROJECT).as_posix())
def test_links_lead_somewhere(document):
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in LINK.findall(text):
        address, _, position = link.partition("#")
        if "://" in address:
            continue
        target = (document.parent / address).resolve() if address else document
        assert target.exists(), f"{document.name}: {link}"
        assert not position or target.suffix != ".md" or position in anchors(target), f"{document.name}: {link}"


GUIDES = sorted((PROJECT / "docs" / "guides").glob("*.md"))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_is_short(guide):
    """One job in fewer than 800 words, code not counted; figures, limits and why belong to pages of their own."""
    text = re.sub(r"^```.*?^```", "", guide.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(" ".join(line for line in text.splitlines() if not line.startswith("    ")).split()) < 800


@pytest.mark.parametrize(
    ("head", "body", "problem"),
    [
        ("", '<a href="other.html#there">', None),
        ("", '<a href="https://example.org/"> <img src="data:image/png;base64,AA==">', None),
        ("", '<a href="gone.html">', "a link to gone.html, which is missing"),
        ("", '<a href="other.html#nowhere">', "a link to other.html#nowhere, a page without that anchor"),
        ("", '<a href="#nowhere">', "a link to #nowhere, a page without that anchor"),
        ("", '<img src="gone.png">', "loads gone.png, which is missing"),
        ('<script src="https://example.org/a.js">', "", "loads https://example.org/a.js from elsewhere"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "", "loads //example.org/a.css from elsewhere"),
        (
            "",
            '<p style="background: url(https://example.org/a.png)">',
            "loads https://example.org/a.png from elsewhere",
        ),
        ("", "<p>its colour, and <code>normalise</code>", "British spelling: colour"),
    ],
)
def test_what_is_wrong_with_a_page_is_noticed(tmp_path, head, body, problem):
    (tmp_path / "other.html").write_text('<p id="there">')
    (tmp_path / "page.html").write_text(f"<head>{head}</head><body>{body}</body>")
    assert list(check["problems"](tmp_path)) == ([f"page.html: {problem}"] if problem else [])


def test_what_a_style_sheet_loads_is_noticed(tmp_path):
    (tmp_path / "page.html").write_text("<p>")
    (tmp_path / "a.css").write_text('@import "https://example.org/b.css"; p { background: url(gone.png) }')
    assert list(check["problems"](tmp_path)) == [
        "a.css: loads https://example.org/b.css from elsewhere",
        "a.css: loads gone.png, which is missing",
    ]


# -- the reference ---------------------------------------------------------------------------------------------------

TOLD = re.compile(r"^\.\. public-names:: (\S+)$", re.M)


def public_things() -> dict[str, object]:
    listed = json.loads(LIST.read_text())["names"]
    return {name: getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in listed}


def test_every_public_name_has_a_page():
    pages = [path.read_text(encoding="utf-8") for path in (PROJECT / "docs" / "reference").glob("*.md")]
    output = [room for page in pages for room in TOLD.findall(page)]
    assert sorted(output) == sorted({name.rpartition(".")[0] for name in public_things()})


def test_every_public_name_has_an_example():
    """`test_packages.py` runs them."""
    missing = [
        name
        for name, thing in public_things().items()
        if (inspect.isclass(thing) or inspect.isroutine(thing)) and ">>>" not in (inspect.getdoc(thing) or "")
    ]
    assert missing == []
