"""``tercet demo``: learn from documents that are already on disk."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

import click
from rich.console import Console

from tercet._installed import called, install_command
from tercet.cli import story
from tercet.cli.docstrings import docstring_collection
from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.options import NEW, seed_option
from tercet.cli.terminal import open_console
from tercet.data import JudgedTexts
from tercet.errors import InputError
from tercet.fitting.recipe import fit
from tercet.fitting.text_model import TextModel
from tercet.measure import compare
from tercet.report import shown_interval
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.search import Index
from tercet.search.folder import FOLDERS
from tercet.store import bundle_kind, check_destination
from tercet.store.kinds import INDEX, TEXT_MODEL

NAME = "docstrings"  # of the data, in the report
QUERY = "Logistic regression."  # a test query; the README shows it


@click.command(epilog=examples("demo", "demo --serve"))
@click.option(
    "-o", "--output", type=NEW, default=Path("out/demo"), show_default=True, help="Folder for the model and the index."
)
@seed_option
@click.option("--serve", "serves", is_flag=True, help="Serve the small help desk of the first story.")
@click.pass_context
def demo(context: click.Context, output: Path, seed: int, serves: bool) -> None:
    """Learn to find NumPy, SciPy and scikit-learn functions by description, and index them.

    Nothing is downloaded. Documents are the docstrings of the installed packages; queries are the descriptions in their
    "See Also" sections.
    """
    began = time.perf_counter()
    _refuse_others(output)
    console = open_console(width=None if sys.stdout.isatty() else 110, highlight=False)
    if serves:
        _serve_story(context, console, output / "help-desk")
        return
    story.tell_story(console)
    collection = docstring_collection(random_state=seed)
    console.print(
        f"[bold]Docstrings on this machine[/]: {len(collection.docs)} documents, {len(collection.queries)} queries."
    )
    example = next(iter(collection.qrels["train"]))
    answer = next(iter(collection.qrels["train"][example]))
    console.print("A query is the See Also description of a function, and the function is the answer:")
    console.print(f'    "{collection.queries[example]}"  →  {answer}\n', markup=False)
    model = fit(
        collection.docs,
        collection.queries,
        {**collection.qrels["train"], **collection.qrels["validation"]},
        measure="RR",
        random_state=seed,
        options={"name": NAME},
    )
    assert model.report is not None
    console.print(str(model.report), markup=False, soft_wrap=True)
    _print_test(console, model, collection)
    _print_pairs(console, model)
    model.save(output / "model")
    write_report_page(model.report, output / "model" / PAGE_NAME)
    index = Index.build(collection.docs, model, output / "index")
    _print_hits(console, index, collection.docs)
    console.print(f"\nModel: {output / 'model'}, with the report as a page: {output / 'model' / PAGE_NAME}.")
    console.print(f"Index of {len(index):,} documents: {output / 'index'}. Now ask:")
    tercet, folder = called("tercet"), quote(str(output))
    commands = [
        f"{tercet} search {folder}/index {quote(QUERY)} --why",
        f"{tercet} explain {folder}/model --word permute",
    ]
    if any(find_spec(name) is None for name in ("fastapi", "prometheus_client", "uvicorn")):
        commands.append(install_command("serve"))
    for command in (*commands, f"{tercet} serve {folder}/index"):
        console.print(f"    {command}", markup=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - began:.1f} s in all, {model.report.seconds:.1f} s of learning.")


def _serve_story(context: click.Context, console: Console, folder: Path) -> None:
    """Serve the help desk; its actions are deleted at the end."""
    from tercet.cli.serve import serve

    Index.build(story.ARTICLES, path=folder)
    title = story.ARTICLES[story.ANSWER].splitlines()[0]
    console.print(f'Ask "{story.QUERY}", drag "{title}" to the top, then ask "{story.OTHERS[1]}". Undo reverts it.')
    with tempfile.TemporaryDirectory() as taught:
        context.invoke(serve, index=folder, taught=Path(taught) / "taught.db")


def _refuse_others(output: Path) -> None:
    """Refuse to replace anything but an earlier demo."""
    for part, kind in (("model", TEXT_MODEL), ("index", INDEX)):
        check_destination(output / part, siblings=FOLDERS if kind == INDEX else (), kind=kind)
        if bundle_kind(output / part) is not None:
            report = open_model(output / part).report
            if report is None or report.details is None or report.details.name != NAME:
                raise InputError(f"{output / part} was not made by the demo; nothing was written. Name another -o")


def _print_test(console: Console, model: TextModel, collection: JudgedTexts) -> None:
    """Print the measures of BM25 and of the model on the test queries."""
    judged, docs = collection.qrels["test"], collection.docs
    asked = {qid: collection.queries[qid] for qid in judged}
    systems = {"BM25": TextModel.bm25(docs.values()), "learned": model}
    runs = {name: system.rank(asked, docs, k=len(docs)) for name, system in systems.items()}
    comparison = compare(judged, runs, "RR", baseline="BM25")
    console.print(f"\n[bold]On {len(judged)} other queries[/], reciprocal rank of the first answer")
    for name, evaluation in comparison.systems.items():
        interval = shown_interval(evaluation.mean("RR"), *evaluation.interval("RR"))
        console.print(f"{name:<10}{interval}", markup=False)
    test = comparison.contrasts[0].test
    console.print(f"difference {test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]", markup=False)


def _print_pairs(console: Console, model: TextModel) -> None:
    console.print("\n[bold]Strongest learned pairs[/] (query word → document word)")
    pairs = [f"{query_word} → {doc_word} {weight:+.2f}" for query_word, doc_word, weight in model.strongest_pairs(9)]
    console.print("    " + ("   ".join(pairs) or "none: learning was rejected"), markup=False)


def _print_hits(console: Console, index: Index, docs: Mapping[str, str]) -> None:
    """Print the hits of the README's query under BM25 and under the model, with reasons for the first hit."""
    console.print(f'\n[bold]Searching the index[/]: "{QUERY}"', highlight=False)
    before = list(TextModel.bm25(docs.values()).rank({"query": QUERY}, docs, 3)["query"])
    console.print(f"    BM25: {'  '.join(f'{rank}. {doc_id}' for rank, doc_id in enumerate(before, 1))}", markup=False)
    hits = index.search(QUERY, k=3)
    for rank, hit in enumerate(hits, 1):
        console.print(f"    {rank}. {hit.score:.2f}  {hit.doc_id}", markup=False)
    for line in hits[0].why.table(5).splitlines()[1:] if hits else ():
        console.print(f"        {line}", markup=False)
