"""Look at built pages: nothing is loaded from elsewhere, and every link within them leads somewhere.

    python tools/docs_check.py out/docs

Whatever is wrong is said, and the exit code is then 1. Links to other sites are not followed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches without being asked to; of <link>, what is only said of the page is none of it.
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
    "link": "href",
}
SAID = {"author", "canonical", "index", "license", "next", "prev", "search"}
IMPORTED = re.compile(r"""@import\s+["']([^"']+)|url\(\s*["']?([^"')\s]+)""")


@dataclass
class Page(HTMLParser):
    """What a page loads, where its links lead, and the places within it that a link can name."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif (source := values.get(LOADED.get(tag, ""))) and not (tag == "link" and values.get("rel") in SAID):
            self.loads.append(source)
        if "style" in values:
            self.loads += imported(values["style"])


def imported(style: str) -> list[str]:
    """What a style sheet loads."""
    return [one or other for one, other in IMPORTED.findall(style)]


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def problems(site: Path) -> Iterator[str]:
    pages = {path.resolve(): read(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    if not pages:
        yield f"{site}: no pages"
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        for source in page.loads:
            yield from _loaded(name, path, source)
        for link in page.links:
            yield from _linked(name, path, link, pages)
    for path in sorted(site.rglob("*.css")):
        name = path.relative_to(site).as_posix()
        for source in imported(path.read_text(encoding="utf-8")):
            yield from _loaded(name, path, source)


def _loaded(name: str, path: Path, source: str) -> Iterator[str]:
    parts = urlsplit(source)
    if parts.scheme == "data":
        return
    if parts.scheme or parts.netloc:
        yield f"{name}: loads {source} from elsewhere"
    elif parts.path and not (path.parent / unquote(parts.path)).exists():
        yield f"{name}: loads {source}, which is not there"


def _linked(name: str, path: Path, link: str, pages: dict[Path, Page]) -> Iterator[str]:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        yield f"{name}: a link to {link}, which is not there"
    elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
        yield f"{name}: a link to {link}, where there is no such place"


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1])))
    print("\n".join(found) if found else f"{sys.argv[1]}: links lead somewhere, and nothing is loaded from elsewhere")
    sys.exit(bool(found))
