"""Count pronouns and vague openings in docstrings, by package: `python tools/prose_check.py [--list PACKAGE]`.

A docstring that names its nouns is read once. Pronouns and relative words per 1,000 words of docstring show how often a
reader has to look back; the six libraries we compared have 8 to 25.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[1]
PRONOUNS = frozenset(
    [
        "what",
        "that",
        "those",
        "which",
        "who",
        "whose",
        "where",
        "there",
        "it",
        "they",
        "them",
        "others",
        "one",
        "ones",
        "so",
    ]
)
OPENINGS = frozenset(["what", "whether", "who", "where", "how", "have", "those"])
MOST_PER_THOUSAND = 30


class Docstring(NamedTuple):
    location: str
    text: str

    @property
    def words(self) -> list[str]:
        prose = re.sub(r">>>.*|^\s*\.\.\. .*|`[^`]*`", " ", self.text, flags=re.MULTILINE)
        return re.findall(r"[a-z]+(?:'[a-z]+)?", prose.lower())

    @property
    def pronouns(self) -> int:
        return sum(word in PRONOUNS for word in self.words)

    @property
    def opens_vaguely(self) -> bool:
        return self.words[:1] != [] and self.words[0] in OPENINGS


def docstrings(folder: Path) -> Iterator[Docstring]:
    """Yield every docstring of the modules below a folder."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield Docstring(f"{path.relative_to(PROJECT)}:{getattr(node, 'lineno', 1)}", text)


def packages() -> dict[str, list[Docstring]]:
    """Return the docstrings of each package, of the modules beside the packages, and of the reproductions."""
    found: dict[str, list[Docstring]] = {}
    for root in (PROJECT / "src" / "tercet", PROJECT / "reproductions"):
        for docstring in docstrings(root):
            below = Path(docstring.location.rpartition(":")[0]).relative_to(root.relative_to(PROJECT))
            name = "reproductions" if root.name == "reproductions" else below.parts[0]
            found.setdefault("top level" if name.endswith(".py") else name, []).append(docstring)
    return found


def per_thousand(texts: list[Docstring]) -> float:
    words = sum(len(text.words) for text in texts)
    return 1000 * sum(text.pronouns for text in texts) / max(words, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", metavar="PACKAGE", help="show the docstrings of a package with most pronouns")
    chosen = parser.parse_args().list
    everything = packages()
    if chosen:
        for text in sorted(everything[chosen], key=lambda text: -text.pronouns):
            if text.pronouns > 1 or text.opens_vaguely:
                print(f"{text.location}: {text.pronouns} in {len(text.words)} words\n    {' '.join(text.text.split())}")
        return 0
    print("package            docstrings   words   pronouns per 1,000   vague openings")
    too_many = False
    for name, texts in sorted(everything.items()):
        rate, openings = per_thousand(texts), sum(text.opens_vaguely for text in texts)
        too_many |= rate > MOST_PER_THOUSAND or openings > 0
        words = sum(len(text.words) for text in texts)
        print(f"{name:18} {len(texts):10,} {words:7,} {rate:20.1f} {openings:16}")
    return int(too_many)


if __name__ == "__main__":
    sys.exit(main())
