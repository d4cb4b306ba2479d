"""Find manual pages by their summaries, with the guessed analyzer and with English stems.

The pages are those of Debian's packages manpages-de, -es, -fr, -ja, -nl and -zh, which `apt-get download` fetches:
`python benchmarks/languages.py FOLDER` reads all packages in a folder. A query is the summary of a page, and the answer
is the page, of which only the text below the summary is indexed.
"""

from __future__ import annotations

import argparse
import gzip
import re
import subprocess
import tempfile
from pathlib import Path

import tercet as tc
from common import print_table
from tercet.measure import evaluate
from tercet.text.language import usual_analyzer

_SUMMARY = re.compile(r"^\.SH.*\n.*?(?:\\-|--| - )(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"^['.]\\\".*$", re.MULTILINE)
_MARKUP = re.compile(r"^\.[A-Za-z]+ ?|\\f.|\\\(..|\\[&-]", re.MULTILINE)
_MOST_LETTERS = 4000


def pages(package: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """Summary and text of each manual page of a package, by name."""
    subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
    found = {}
    for path in sorted(folder.glob("usr/share/man/*/man*/*.gz")):
        source = _COMMENT.sub("", gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))
        summary = _SUMMARY.search(source)
        if summary is None or source.startswith(".so"):
            continue
        asked, text = (_MARKUP.sub("", part).strip() for part in (summary[1], source[summary.end() :][:_MOST_LETTERS]))
        if asked and text:
            found[f"{path.parts[-3]}/{path.name}"] = (asked, text)
    return found


def value(docs: dict[str, str], queries: dict[str, str], analyzer: tc.Analyzer) -> float:
    """nDCG@10 of BM25."""
    index = tc.Index.build(docs, analyzer=analyzer)
    run = {page: {hit.doc_id: hit.score for hit in index.search(text, k=10)} for page, text in queries.items()}
    return float(evaluate({page: {page: 1} for page in queries}, run, ["nDCG@10"]).mean("nDCG@10"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with the packages manpages-*.deb")
    rows = []
    for package in sorted(parser.parse_args().folder.glob("manpages-*.deb")):
        with tempfile.TemporaryDirectory() as folder:
            found = pages(package, Path(folder))
        docs, queries = ({page: both[at] for page, both in found.items()} for at in (1, 0))
        guessed = usual_analyzer(docs.values())
        values = [value(docs, queries, analyzer) for analyzer in (tc.Analyzer(stemmer="english"), guessed)]
        name = guessed.stemmer or guessed.tokenizer
        rows.append([package.stem.partition("_")[0], f"{len(docs):,}", name, *(f"{v:.3f}" for v in values)])
    print_table("nDCG@10 of BM25", ["package", "pages", "guessed", "English stems", "guessed analyzer"], rows)


if __name__ == "__main__":
    main()
