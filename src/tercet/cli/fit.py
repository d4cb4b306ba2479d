"""``tercet fit``"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tercet.cli.groups import SectionedCommand, examples
from tercet.cli.inputs import (
    ONLY_SPLIT,
    Labeled,
    analyzer_of,
    is_ir_datasets,
    open_data,
    open_model,
    read_clicks,
    read_evidence,
    read_parallel,
    with_columns,
)
from tercet.cli.options import (
    ANY,
    DATA,
    FILE,
    FOLDER,
    device_option,
    evidence_settings,
    judged_options,
    language_option,
    learning_on,
    naming_table_options,
    output_options,
    seed_option,
)
from tercet.cli.rankers import TERM_PAIR_RANKER
from tercet.cli.terminal import echo
from tercet.data import JudgedTexts
from tercet.data.link_tables import read_links
from tercet.data.taught import TaughtFile, is_taught, read_taught
from tercet.data.triplets import Triplet, read_triplets
from tercet.errors import InputError
from tercet.fitting import TextModel, fit_labeled, fit_linked, fit_parallel
from tercet.fitting import fit as fit_judged
from tercet.fitting.outcome import next_step
from tercet.fitting.rankers import NAMED_RANKERS, NameWithParameters
from tercet.fitting.text_model import TaughtRows
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.store.kinds import TEXT_MODEL

SECTIONS = {
    "Data": (
        *("clicks", "evidence", "qrels", "preferences", "links", "parallel", "queries"),
        *("id_column", "text_columns", "column", "fields", "features", "encoding", "skip_bad"),
    ),
    "Method": ("rankers", "measure", "new_documents", "language", "vocabulary"),
    "Time and machine": ("budget", "steps", "device", "seed"),
    "Output": ("output", "replace"),
}


@click.command(
    cls=SectionedCommand,
    sections=SECTIONS,
    epilog=examples(
        "fit products.csv --clicks clicks.csv --text name,description -o model/",
        "fit nfcorpus/ --ranker sparse:density=.05,l1=1e-6 --budget 120 -o model/",
    ),
)
@click.argument("data", type=DATA)
@click.option("--clicks", type=ANY, multiple=True, help="Click log: a table, or UBI files; may be repeated.")
@click.option("--evidence", type=FILE, help="Aggregated clicks: query, document, shown, clicked, expected.")
@click.option(
    "--preferences",
    type=FILE,
    multiple=True,
    help="Table of query, better, worse; or INDEX.taught.db; may be repeated.",
)
@click.option("--links", type=FILE, multiple=True, help="Links between documents; may be repeated.")
@click.option("--parallel", type=FILE, help="Documents in the language of queries: id, text.")
@judged_options
@click.option("--field", "fields", multiple=True, metavar="COLUMN[:WEIGHT]", help="Text column with a weight: title:2.")
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="[KIND:]COLUMN",
    help="Number column: price, log:sold; KIND: log, inverse, rank, date.",
)
@click.option(
    "--ranker",
    "rankers",
    type=TERM_PAIR_RANKER,
    multiple=True,
    default=["low-rank"],
    help=f"{', '.join(NAMED_RANKERS)}; may be repeated.  [default: low-rank]",
)
@click.option("--measure", help="Measure for the choice.  [default: nDCG@10, or AP]")
@language_option
@click.option("--vocabulary", type=FOLDER, metavar="MODEL|INDEX", help="Use the vocabulary of this model or index.")
@click.option(
    "--new-documents",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Expected share of answers in new documents.  [default: estimated]",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Time to learn.  [default: about a minute]",
)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Training steps.  [default: 20 per judgement]")
@device_option
@seed_option
@output_options("Folder for the model.", kind=TEXT_MODEL, required=True)
def fit(data: Path, queries: Path | None, qrels: Path | None, output: Path, device: str, **options: Any) -> None:
    """Learn to rank DATA, print the result on held-out queries, and write the model. DATA is a table of documents (CSV,
    JSONL, Parquet), a BEIR folder or labeled texts.
    """
    has_pairs = any(options[name] for name in ("preferences", "clicks", "evidence", "links", "parallel"))
    texts = open_data(data, queries, qrels, known_only=True)
    if isinstance(texts, JudgedTexts):
        if has_pairs and qrels is None and texts.qrels:
            advice = "" if options["links"] else "; to learn from judgements, too, add --judgements FILE"
            echo(f"note: the judgements of {data} are not used{advice}", err=True)
            texts = replace(texts, qrels={})
        if not texts.qrels and not has_pairs:
            raise click.UsageError(f"{data} has documents only; add --clicks, --judgements, --preferences or --links")
    with learning_on(device):
        model = _fit_texts(texts, _name(data), **options)
    report, command = model.report, f"tercet index {data} --model {output} -o INDEX"
    assert report is not None
    decision = report.decision.replace(
        next_step(model), next_step(model, command, f"{command} --parts {','.join(model.unused_parts)}")
    )
    report = replace(report, decision=decision)
    model = replace(model, report=report)
    (with_columns(model, data) if isinstance(texts, JudgedTexts) else model).save(output)
    if report.systems:
        write_report_page(report, output / PAGE_NAME)
    echo(str(report))
    page = f", with {PAGE_NAME}" if report.systems else ""
    echo(f"{output}: written after {report.seconds:.1f} s of learning{page}")
    if isinstance(texts, JudgedTexts) and "test" in texts.qrels:
        echo(f"On the split test: tercet eval {data} --model {output}")


def _fit_texts(
    texts: JudgedTexts | Labeled,
    name: str,
    *,
    preferences: tuple[Path, ...],
    clicks: tuple[Path, ...],
    evidence: Path | None,
    links: tuple[Path, ...],
    parallel: Path | None,
    fields: tuple[str, ...],
    features: tuple[str, ...],
    rankers: tuple[NameWithParameters, ...],
    measure: str | None,
    language: str | None,
    vocabulary: Path | None,
    new_documents: float | None,
    budget: float | None,
    steps: int | None,
    seed: int,
) -> TextModel:
    """Learn from the given evidence; two kinds that do not go together are an error."""
    options: dict[str, Any] = {
        "analyzer": analyzer_of(language),
        "vocabulary": None if vocabulary is None else open_model(vocabulary),
        "n_steps": steps,
        "budget": budget,
        "verbose": True,
        "name": name,
    }
    settings: dict[str, Any] = {"ranker": list(rankers), "random_state": seed, "options": options}
    evidence_options = {
        "--field": fields,
        "--feature": features,
        "--preferences": preferences,
        "--clicks": clicks,
        "--evidence": evidence,
    }
    if isinstance(texts, Labeled):
        _refuse(
            {**evidence_options, "--links": links, "--parallel": parallel, "--new-documents": new_documents},
            "labeled texts have classes and nothing else to learn from",
        )
        return fit_labeled(texts.train.texts, texts.train.labels, measure=measure or "AP", **settings)
    if parallel:
        text_options = {"--judgements": texts.qrels, "--links": links, "--vocabulary": vocabulary, "--measure": measure}
        _refuse(
            {**evidence_options, **text_options, "--new-documents": new_documents, "--budget": budget},
            "--parallel learns from translations alone",
        )
        translated = read_parallel(parallel, texts.docs)
        analyzer = analyzer_of(language)
        return fit_parallel(translated, texts.docs, doc_analyzer=analyzer, n_steps=steps, random_state=seed)
    if links:
        _refuse(
            {**evidence_options, "--judgements": texts.qrels},
            "with --links documents are queries, and a tenth is held out",
        )
        linked = _read_links(links, texts)
        return fit_linked(texts.docs, linked, measure=measure or "AP", new_documents=new_documents, **settings)
    options |= {"fields": _field_weights(fields), "features": features}
    settings["new_documents"] = new_documents
    if preferences or clicks or evidence:
        if clicks and evidence:
            raise InputError("--evidence is made of a click log; leave out --clicks, or --evidence")
        _refuse(
            {"--measure": None if texts.qrels else measure},
            "with --preferences, --clicks or --evidence alone, left-out queries are measured by pairs",
        )
        taught = {path: read_taught(path) for path in preferences if is_taught(path)}
        triplets = _taught_triplets(taught, texts)
        tables = tuple(path for path in preferences if path not in taught)
        if tables:
            triplets += _read_triplets(tables, texts)
        asked = {} if not texts.queries else {query: query for query, *_ in triplets if query not in texts.queries}
        model = fit_judged(
            texts.docs,
            {**texts.queries, **asked} or None,
            texts.qrels.get(ONLY_SPLIT),
            preferences=triplets or None,
            clicks=read_clicks(clicks) if clicks else None if evidence is None else read_evidence(evidence),
            measure=measure,
            **settings,
        )
        if not model.parts:  # nothing was learned, so a service still applies all actions
            return model
        return replace(model, taught=tuple(TaughtRows(file.store, file.last) for file in taught.values() if file.last))
    return fit_judged(
        texts.docs,
        texts.queries,
        texts.split(ONLY_SPLIT),
        measure=measure or "nDCG@10",
        **settings,
    )


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """Raise `InputError` for options that do not apply to this kind of evidence."""
    for option, value in options.items():
        if value:
            raise InputError(f"{why}; leave out {option}")


def _field_weights(fields: tuple[str, ...]) -> dict[str, float]:
    """Return the weight of each column; the name of a column may contain a colon."""
    weights: dict[str, float] = {}
    for field in fields:
        name, _, number = field.rpartition(":")
        try:
            weight = float(number) if name else 1.0
        except ValueError:
            name, weight = field, 1.0
        name = name or field
        if name in weights:
            raise click.UsageError(f"--field {name} is named twice")
        weights[name] = weight
    return weights


def _read_links(paths: tuple[Path, ...], texts: JudgedTexts) -> dict[str, list[str]]:
    """Read the links of all files between known documents."""
    links: dict[str, list[str]] = {}
    for path in paths:
        with naming_table_options():
            part = read_links(path, texts.docs, **evidence_settings(path))
        echo(f"{path}: {part.form}")
        for source, targets in part.links.items():
            links.setdefault(source, []).extend(targets)
    n_links = sum(len(set(targets)) for targets in links.values())
    echo(f"{n_links:,} links of {len(links):,} documents")
    return links


def _taught_triplets(taught: Mapping[Path, TaughtFile], texts: JudgedTexts) -> list[Triplet]:
    """Return the taught preferences between known documents, with queries as texts."""
    triplets: list[Triplet] = []
    for path, file in taught.items():
        usable = [triplet for triplet in file.triplets if triplet[1] in texts.docs and triplet[2] in texts.docs]
        left_out = len(file.triplets) - len(usable)
        gone = f"; left out, on removed documents: {left_out:,}" if left_out else ""
        echo(f"{path}: preferences: {len(usable):,}, taught by actions: {file.last:,}{gone}")
        triplets += usable
    return triplets


def _read_triplets(paths: tuple[Path, ...], texts: JudgedTexts) -> list[Triplet]:
    """Read the preferences of all files; queries are ids, or texts if the data has no queries."""
    triplets: list[Triplet] = []
    # Queries named by their texts in judgements are not a complete list.
    queries = None if all(qid == text for qid, text in texts.queries.items()) else texts.queries
    for path in paths:
        with naming_table_options():
            part = read_triplets(path, queries, texts.docs, **evidence_settings(path))
        echo(f"{path}: {part.form}")
        triplets += part.triplets
    echo("1 preference" if len(triplets) == 1 else f"{len(triplets):,} preferences")
    return triplets


def _name(data: Path) -> str:
    """Return the name of the data for the report."""
    return str(data) if is_ir_datasets(data) else data.absolute().name
