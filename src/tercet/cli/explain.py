"""``tercet explain``: why a document gets its score, and which words count for a word."""

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
@click.option("--versus", metavar="DOC2", help="What DOC has over this document.")
@click.option("--word", "words", multiple=True, help="The document words that count most for this word.")
@click.option("--model", type=FOLDER, help="Another text model over the same words than the index's own.")
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
    """Why the document DOC of an INDEX gets its score for TEXT: pairs of words and what each adds. Or which words
    count for a --word, by an INDEX or a MODEL.

    Weights of --word are those of W; what a pair adds to a score is such a weight times what the query and the
    document have of the two words.
    """
    if words:
        text_model = open_model(model or source)
        for word in words:
            pairs = text_model.related(word, count)
            echo(f"{word}: " + "  ".join(f"{other} {weight:+.3f}" for other, weight in pairs))
        return
    if text is None or document is None:
        raise click.UsageError("name a text and a document's id, or --word")
    index = open_index(source, None if model is None else open_model(model))
    if versus is None:
        echo(f"{document} for {text!r}\n{index.explain(text, document).table(count)}")
    else:
        echo(f"{document} over {versus} for {text!r}\n{index.versus(text, document, versus).table(count)}")
