"""``tercet demo``: the main job on documents that are already on disk."""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from tercet._installed import called, install_command
from tercet.cli.docstrings import docstring_collection
from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.options import NEW, seed_option
from tercet.cli.story import ANSWER, ARTICLES, OTHERS, tell_story
from tercet.cli.story import QUERY as ASKED
from tercet.cli.terminal import open_console
from tercet.data import JudgedTexts
from tercet.errors import InputError
from tercet.fitting.recipe import fit
from tercet.fitting.text_model import TextModel
from tercet.measure import evaluate
from tercet.report import shown_interval, shown_p
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.search import Index
from tercet.search.folder import FOLDERS
from tercet.store import bundle_kind, check_destination
from tercet.store.kinds import INDEX, TEXT_MODEL
from tercet.weights import Identity, Weights

NAME = "docstrings"  # what the report calls the data
QUERY = "Logistic regression."  # of the test queries; the README shows it, and a test holds it


@click.command(epilog=examples("demo", "demo --serve"))
@click.option(
    "-o", "--output", type=NEW, default=Path("out/demo"), show_default=True, help="Folder for the model and the index."
)
@seed_option
@click.option(
    "--serve", "serves", is_flag=True, help="Serve the small help desk of the first story, and print what to do there."
)
@click.pass_context
def demo(context: click.Context, output: Path, seed: int, serves: bool) -> None:
    """Learn to find numpy, scipy and scikit-learn functions by description, show what was learned, and index them.

    Nothing is downloaded: documents are the installed packages' docstrings, queries the descriptions in their "See
    Also" sections.
    """
    began = time.perf_counter()
    _refuse_others(output)
    console = open_console(width=None if sys.stdout.isatty() else 110, highlight=False)
    if serves:
        _serve_story(context, console, output / "help-desk")
        return
    tell_story(console)
    collection = docstring_collection(random_state=seed)
    sizes = ", ".join(f"{len(judged)} {split}" for split, judged in collection.qrels.items())
    console.print(
        f"[bold]Docstrings on this machine[/]: {len(collection.docs)} documents, {len(collection.queries)} queries "
        f"({sizes})."
    )
    example = next(iter(collection.qrels["train"]))
    answer = next(iter(collection.qrels["train"][example]))
    console.print("A query is what one docstring's See Also says of another function, and that function is the answer:")
    console.print(f'    "{collection.queries[example]}"  →  {answer}\n', markup=False)
    model = fit(
        collection.docs,
        collection.queries,
        {**collection.qrels["train"], **collection.qrels["validation"]},
        test=collection.qrels["test"],
        measure="RR",
        random_state=seed,
        options={"name": NAME},
    )
    _print_report(console, model)
    _print_pairs(console, model)
    _print_searches(console, model, collection)
    assert model.report is not None
    model.save(output / "model")
    write_report_page(model.report, output / "model" / PAGE_NAME)
    index = Index.build(collection.docs, model, output / "index")
    _print_hits(console, index, _start(model), collection)
    console.print(f"\nThe model is in {output / 'model'}, with all of this as a page: {output / 'model' / PAGE_NAME}.")
    console.print(f"The {len(index):,} documents are in {output / 'index'}. Now ask:")
    tercet, folder = called("tercet"), quote(str(output))
    for command in (
        f"{tercet} search {folder}/index {quote(QUERY)} --why",
        f"{tercet} explain {folder}/model --word permute",
    ):
        console.print(f"    {command}", markup=False, soft_wrap=True)
    if any(find_spec(name) is None for name in ("fastapi", "prometheus_client", "uvicorn")):
        console.print("and see both rankings side by side on a page:")
        console.print(f"    {install_command('serve')}", markup=False, soft_wrap=True)
    console.print(f"    {tercet} serve {folder}/index", markup=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - began:.1f} s in all, {model.report.seconds:.1f} s of it learning.")


def _serve_story(context: click.Context, console: Console, folder: Path) -> None:
    """Serve the help desk, where everything that was taught is forgotten at the end."""
    from tercet.cli.serve import serve

    Index.build(ARTICLES, path=folder)
    title = ARTICLES[ANSWER].splitlines()[0]
    console.print(f'Ask "{ASKED}", drag "{title}" to the top, then ask "{OTHERS[1]}". Undo takes it back. The page:')
    with tempfile.TemporaryDirectory() as taught:
        context.invoke(serve, index=folder, taught=Path(taught) / "taught.db")


def _start(model: TextModel) -> TextModel:
    """The model before learning: plain matching of the same words."""
    weights = Weights([Identity(n_terms=model.weights.shape[0])])
    return TextModel(model.query_vectorizer, model.doc_vectorizer, weights)


def _print_hits(console: Console, index: Index, start: TextModel, collection: JudgedTexts) -> None:
    """A search in the index beside plain matching, with the reasons for the first hit."""
    console.print(f'\n[bold]searching the index[/]: "{QUERY}"', highlight=False)
    before = list(start.rank({"query": QUERY}, collection.docs, 3)["query"])
    console.print(f"    before learning: {'  '.join(f'{i}. {doc}' for i, doc in enumerate(before, 1))}", markup=False)
    hits = index.search(QUERY, k=3)
    for rank, hit in enumerate(hits, 1):
        console.print(f"    {rank}. {hit.score:.2f}  {hit.doc_id}", markup=False)
    if hits:
        console.print(f"    why {hits[0].doc_id}:", markup=False)
        for line in hits[0].why.table(5).splitlines()[1:]:
            console.print(f"        {line}", markup=False)


def _refuse_others(output: Path) -> None:
    """A demo writes over a demo, which is the same each time, and over nothing else."""
    for part, kind in (("model", TEXT_MODEL), ("index", INDEX)):
        check_destination(output / part, siblings=FOLDERS if kind == INDEX else (), kind=kind)
        if bundle_kind(output / part) is not None:
            report = open_model(output / part).report
            if report is None or report.details is None or report.details.name != NAME:
                raise InputError(f"{output / part} was not made by the demo; nothing was written. Name another -o")


def _print_report(console: Console, model: TextModel) -> None:
    report = model.report
    assert report is not None
    table = Table(
        title=f"{report.n_test} held-out queries, 95 % intervals (learned from {report.n_train} others)",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("system")
    for measure in report.systems[0].values:
        table.add_column({"RR": "MRR", "AP": "MAP"}.get(measure, measure), justify="right")
    for system in report.systems:
        cells = (shown_interval(*value) for value in system.values.values())
        table.add_row(system.name, *(c.replace("[", "\\[") for c in cells))
    console.print(table)
    if report.change is not None and report.compared is not None:
        difference, low, high, p_value = report.change
        learned, start = report.compared
        console.print(
            f"{learned.name} against {start.name}: MRR {difference:+.3f} ({low:+.3f} to {high:+.3f}), "
            f"paired t-test {shown_p(p_value)}: [bold]{report.shown_verdict}[/]"
        )
    console.print(report.decision, markup=False)


def _print_pairs(console: Console, model: TextModel) -> None:
    console.print("\n[bold]Strongest learned pairs[/] (word in the query → word in the document)")
    pairs = [f"{a} → {b} {w:+.2f}" for a, b, w in model.strongest_pairs(18)]
    if not pairs:
        console.print("    none: learning was rejected")
    width = max(map(len, pairs), default=0)
    for start in range(0, len(pairs), 3):
        console.print("    " + "   ".join(f"{p:<{width}}" for p in pairs[start : start + 3]), markup=False)


def _print_searches(console: Console, model: TextModel, collection: JudgedTexts) -> None:
    """Where learning helped most, a typical query it moved, and where it hurt most."""
    assert model.report is not None
    if not model.report.accepted:
        return  # both systems are the same
    judged = collection.qrels["test"]
    queries = {qid: collection.queries[qid] for qid in judged}
    start = _start(model)
    start_name = model.report.systems[-2].name
    runs = {
        name: system.rank(queries, collection.docs, 1000) for name, system in ((start_name, start), ("learned", model))
    }
    change = evaluate(judged, runs["learned"], ["RR"])["RR"] - evaluate(judged, runs[start_name], ["RR"])["RR"]
    order = np.argsort(-change, kind="stable")
    n_gained = np.count_nonzero(change > 0)
    chosen = {"helped most": order[0], "a typical gain": order[n_gained // 2], "hurt most": order[-1]}
    for title, row in chosen.items():
        qid = list(judged)[row]
        console.print(f'\n[bold]{title}[/]: "{queries[qid]}"', highlight=False)
        for name, run in runs.items():
            ids = list(run[qid])
            answer_rank = next((i + 1 for i, doc_id in enumerate(ids) if doc_id in judged[qid]), None)
            best = "  ".join(f"{i}. {'✓ ' if d in judged[qid] else ''}{d}" for i, d in enumerate(ids[:3], 1))
            console.print(f"    {name:<8} answer at rank {answer_rank or '> 1000'}", markup=False)
            console.print(f"             {best}", markup=False, soft_wrap=True)
        first = next(iter(runs["learned"][qid]))
        why = model.explain(queries[qid], collection.docs[first], first)
        matched = [(a, c) for a, b, c in why.pairs if a == b]
        learned = [(f"{a} → {b}", c) for a, b, c in why.pairs if a != b]
        console.print(f"    why {first} scores {why.score:.2f}:", markup=False)
        past = [(f'"{reason.text}"', reason.contribution) for reason in why.past]
        for title_, pairs in (("same word", matched), ("learned pairs", learned), ("past queries", past)):
            if not pairs:
                continue
            shown = "  ".join(f"{name} {c:+.2f}" for name, c in pairs[:4])
            total = f"{sum(c for _, c in pairs):+.2f}"
            console.print(f"        {total} from {len(pairs)} {title_}: {shown}", markup=False, soft_wrap=True)
