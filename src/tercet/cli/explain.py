"""``tercet explain``: why a document gets its score, and which words count for a word."""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_judged, open_model
from tercet.cli.options import DATA, FOLDER, table_options
from tercet.cli.terminal import echo
from tercet.data.documents import Documents
from tercet.engines import open_index
from tercet.errors import InputError
from tercet.store import MANIFEST_NAME


@click.command(
    epilog=examples('explain index/ "avocado toast" sku17 --versus sku4', "explain model/ --word avocado --word toast")
)
@click.argument("source", metavar="INDEX|MODEL|DATA", type=DATA)
@click.argument("text", required=False)
@click.argument("document", metavar="[DOC]", required=False)
@click.option("--versus", metavar="DOC2", help="Of an index: what DOC has over this document.")
@click.option("--word", "words", multiple=True, help="The document words that count most for this word.")
@click.option("--model", type=FOLDER, help="The text model to explain DATA by; for an index, another than its own.")
@click.option("-k", "count", default=20, show_default=True, type=click.IntRange(min=1), help="Lines to show.")
@table_options
def explain(
    source: Path,
    text: str | None,
    document: str | None,
    versus: str | None,
    words: tuple[str, ...],
    model: Path | None,
    count: int,
) -> None:
    """Why DOC gets its score for TEXT: pairs of words and what each adds. Or which words count for a --word.

    TEXT may be the id of one of DATA's queries. Weights of --word are those of W; what a pair adds to a score is such
    a weight times what the query and the document have of the two words.
    """
    if words:
        text_model = open_model(model or source)
        for word in words:
            pairs = text_model.related(word, count)
            echo(f"{word}: " + "  ".join(f"{other} {weight:+.3f}" for other, weight in pairs))
        return
    if text is None or document is None:
        raise click.UsageError("name a text and a document's id, or --word")
    if (source / MANIFEST_NAME).is_file():
        index = open_index(source, None if model is None else open_model(model))
        if versus is None:
            echo(f"{document} for {text!r}\n{index.explain(text, document).table(count)}")
        else:
            echo(f"{document} over {versus} for {text!r}\n{index.versus(text, document, versus).table(count)}")
        return
    if model is None or versus is not None:
        raise click.UsageError(f"{source} is no index; name the --model to explain it by, and no --versus")
    texts = open_judged(source)
    if document not in texts.docs:
        raise InputError(f"there is no document {document!r} among the {len(texts.docs):,}")
    query = texts.queries.get(text, text)
    docs = texts.docs
    why = open_model(model).explain(query, docs.part([document]) if isinstance(docs, Documents) else docs[document])
    echo(f"{document} for {query!r}\n{why.table(count)}")
