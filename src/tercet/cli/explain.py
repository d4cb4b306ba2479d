"""``tercet explain``: reasons of a score, and weights of a word."""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER
from tercet.cli.terminal import echo
from tercet.engines import open_index


@click.command(
    epilog=examples('explain index/ "avocado toast" sku17 --versus sku4', "explain model/ --word avocado --word toast")
)
@click.argument("source", metavar="INDEX|MODEL", type=FOLDER)
@click.argument("text", required=False)
@click.argument("document", metavar="[DOC]", required=False)
@click.option("--versus", metavar="DOC2", help="Explain the lead of DOC over this document.")
@click.option("--word", "words", multiple=True, help="Show the strongest document words for this query word.")
@click.option("--model", type=FOLDER, help="Explain by another text model over the same words.")
@click.option("-k", "count", default=20, show_default=True, type=click.IntRange(min=1), help="Lines to show.")
def explain(
    source: Path,
    text: str | None,
    document: str | None,
    versus: str | None,
    words: tuple[str, ...],
    model: Path | None,
    count: int,
) -> None:
    """Explain the score of the document DOC of an INDEX for TEXT: words and past queries with their contributions.

    With --word, show weights of W. The contribution of a pair is its weight times the weights of both words in query
    and document.
    """
    if words:
        text_model = open_model(model or source)
        for word in words:
            pairs = text_model.related(word, count)
            echo(f"{word}: " + "  ".join(f"{related_word} {weight:+.3f}" for related_word, weight in pairs))
        return
    if text is None or document is None:
        raise click.UsageError("name a text and a document's id, or --word")
    index = open_index(source, None if model is None else open_model(model))
    if versus is None:
        echo(f"{document} for {text!r}\n{index.explain(text, document).table(count)}")
    else:
        echo(f"{document} over {versus} for {text!r}\n{index.versus(text, document, versus).table(count)}")
