"""Check built pages: every link has a target, nothing loads from another site, spelling is American.

    python tools/docs_check.py out/docs

Print every problem; the exit code is then 1. Links to other sites are not followed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes that a browser fetches by itself, and kinds of <link> without a fetch.
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
    "link": "href",
}
NOT_FETCHED = {"author", "canonical", "index", "license", "next", "prev", "search"}
IMPORTED = re.compile(r"""@import\s+["']([^"']+)|url\(\s*["']?([^"')\s]+)""")
NO_PROSE = {"code", "pre", "dt", "script", "style"}
STEMS = "normal|token|vector|recogn|regular|optim|minim|maxim|summar|organ|initial|random|general|serial"
BRITISH = re.compile(
    rf"\b(?:\w*(?:colour|behaviour|favour|neighbour)\w*|centred?|catalogues?|licences?|(?:un)?labelled|grey|analyser?s?"
    rf"|(?:un)?(?:{STEMS})is(?:e[srd]?|ing|ations?))\b",
    re.IGNORECASE,
)


@dataclass
class Page(HTMLParser):
    """Loaded files, links, anchors and prose of a page."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    prose: list[str] = field(default_factory=list)
    depth: int = 0  # of elements without prose

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += tag in NO_PROSE
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif (source := values.get(LOADED.get(tag, ""))) and not (tag == "link" and values.get("rel") in NOT_FETCHED):
            self.loads.append(source)
        if "style" in values:
            self.loads += imported(values["style"])

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag in NO_PROSE

    def handle_data(self, data: str) -> None:
        if not self.depth:
            self.prose.append(data)


def imported(style: str) -> list[str]:
    """Return the files that a style sheet loads."""
    return [quoted or address for quoted, address in IMPORTED.findall(style)]


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def problems(site: Path) -> Iterator[str]:
    """Yield the problems of all pages and style sheets of a site."""
    pages = {path.resolve(): read(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    if not pages:
        yield f"{site}: no pages"
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        for source in page.loads:
            yield from _load_problems(name, path, source)
        for link in page.links:
            yield from _link_problems(name, path, link, pages)
        written = path.parent.name != "reference" and path.stem != "genindex"  # others show names of the code
        for word in sorted(set(BRITISH.findall(" ".join(page.prose)))) if written else ():
            yield f"{name}: British spelling: {word}"
    for path in sorted(site.rglob("*.css")):
        name = path.relative_to(site).as_posix()
        for source in imported(path.read_text(encoding="utf-8")):
            yield from _load_problems(name, path, source)


def _load_problems(name: str, path: Path, source: str) -> Iterator[str]:
    parts = urlsplit(source)
    if parts.scheme == "data":
        return
    if parts.scheme or parts.netloc:
        yield f"{name}: loads {source} from elsewhere"
    elif parts.path and not (path.parent / unquote(parts.path)).exists():
        yield f"{name}: loads {source}, which is missing"


def _link_problems(name: str, path: Path, link: str, pages: dict[Path, Page]) -> Iterator[str]:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        yield f"{name}: a link to {link}, which is missing"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        yield f"{name}: a link to {link}, a page without that anchor"


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1])))
    print("\n".join(found) if found else f"{sys.argv[1]}: links, files and spelling are right")
    sys.exit(bool(found))
