"""``tercet fit``"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tercet.cli.inputs import (
    ONLY_SPLIT,
    Labelled,
    is_ir_datasets,
    kind_of,
    open_data,
    open_model,
    read_clicks,
    read_files,
    write_data_pointer,
)
from tercet.cli.learners import RANKER_OPTIONS, chosen_rankers, ranker_options
from tercet.cli.options import (
    ANY,
    FILE,
    FOLDER,
    NEW,
    bad_rows,
    cluster_option,
    data_options,
    device_option,
    learning_on,
    naming_flag,
    naming_table_options,
    output_options,
    own_vector_options,
    quiet_option,
    refuse_given,
    seed_option,
    table_settings,
    together,
)
from tercet.cli.terminal import echo
from tercet.data import JudgedTexts, read_qrels
from tercet.data.link_tables import LINK_FILE_ENDINGS, read_links
from tercet.data.preference_files import preference_paths
from tercet.data.threes import Three, read_threes
from tercet.errors import InputError
from tercet.fitting import TextModel, fit_labelled, fit_linked, fit_vectors
from tercet.fitting import fit as fit_judged
from tercet.fitting.out_of_fold import ACCEPTS, Accept
from tercet.fitting.rankers import NameWithParameters, term_pair_ranker
from tercet.learn import Checkpoint, Source, StreamSource
from tercet.learn.streams import UNKNOWN_ID
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.store import check_destination
from tercet.store.kinds import TEXT_MODEL
from tercet.text import CUTS, Analyser
from tercet.text.vectors import Vectors

# Names under which collections publish the part to choose on.
VALIDATION_NAMES = ("validation", "dev", "valid", "vali")
CHECKPOINT_EVERY = 100_000  # steps

COLUMN_OPTIONS = ("fields", "features", "doc_vectors", "query_vectors")  # what counts beside words
TEXT_OPTIONS = (
    *("train", "validation", "test", "cut", "stem", "words", "n_models", "budget", "accept"),
    *COLUMN_OPTIONS,
    "prior",
)
text_options = together(
    click.option("--train", default="train", show_default=True, help="Split to learn from."),
    click.option(
        "--validation", "--vali", help="Split to choose on; default validation or dev, else training queries in turn."
    ),
    click.option("--test", help="Split to report on; default test, else training queries that fits leave out in turn."),
    click.option(
        "--cut", type=click.Choice(CUTS), default="words", show_default=True, help="How texts are cut into words."
    ),
    click.option(
        "--stem",
        metavar="LANGUAGE|none",
        help="Cut words to their stems, as in --stem english, or not.  [default: English stems unless words as they "
        "are match clearly better]",
    ),
    click.option(
        "--words",
        type=FOLDER,
        metavar="MODEL|INDEX",
        help="Keep to its words and their weights, so that what is learned can be served over that index.",
    ),
    click.option(
        "--models",
        "n_models",
        type=click.IntRange(min=1),
        help="Learn the mean of so many.  [default: 3 for low rank]",
    ),
    click.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="About how long to try candidates and to learn.  [default: a minute or so]",
    ),
    click.option(
        "--accept",
        type=click.Choice(ACCEPTS),
        default="all",
        show_default=True,
        help="Take what was learned only where new documents, that answer no training query, do not lose by it; or, "
        "seen, where they do.",
    ),
    click.option(
        "--prior",
        type=FILE,
        help="Known pairs of words: a table of query words, document words and weights, 1 for as much as the same "
        "word, or never.",
    ),
    click.option(
        "--field",
        "fields",
        multiple=True,
        metavar="COLUMN[:WEIGHT]",
        help="A column of text with a match of its own, as in --field title:2; may be given again and again.",
    ),
    click.option(
        "--feature",
        "features",
        multiple=True,
        metavar="[TRANSFORM:]COLUMN",
        help="A column of numbers that counts, as in --feature price --feature log:downloads; transforms are log, "
        "inverse, rank and date.",
    ),
    own_vector_options,
)
VECTOR_OPTIONS = ("validation_qrels", "test_qrels", "checkpoint")
SPLIT_OPTIONS = ("train", "validation", "test")  # that threes, clicks and links have no use for
vector_options = together(
    click.option(
        "--skip-unknown",
        is_flag=True,
        help="Leave out links between documents that are not there; of vectors, preferences with ids that have none.",
    ),
    click.option("--validation-qrels", type=FILE, help="Vectors: judgements to choose on; default a tenth of queries."),
    click.option("--test-qrels", type=FILE, help="Vectors: judgements to report on; default a tenth of queries."),
    click.option("--checkpoint", type=NEW, help="Vectors: folder to go on from after a kill."),
)


@click.command()
@data_options
@output_options("Folder for the model.", kind=TEXT_MODEL, required=True)
@click.option(
    "--preferences",
    type=ANY,
    multiple=True,
    help="Learn from these threes (query, better, worse), TSV, JSONL, Parquet or a table; may be repeated.",
)
@click.option(
    "--clicks",
    type=ANY,
    multiple=True,
    help="Learn from this click log: a table with a row for each list or each document shown, or the folder or the two "
    "files of UBI's queries and events.",
)
@click.option(
    "--links",
    type=ANY,
    multiple=True,
    help="Learn from these links between documents: each is a query for those it links to. A table with a source and a "
    "target on each row, two ids a line, or a folder of such files; may be repeated.",
)
@click.option("--measure", help="What to choose by.  [default: nDCG@10; AP for labelled texts and links]")
@ranker_options
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="How many preferences to learn from.  [default: 20 for each judgement, at least 20,000]",
)
@text_options
@vector_options
@cluster_option
@device_option
@seed_option
@quiet_option
@click.pass_context
def fit(
    context: click.Context,
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    output: Path,
    cluster: str | None,
    device: str,
    seed: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn from DATA, print the result on held-out queries, and write the model.

    What is learned from are DATA's judgements; or --judgements, --preferences and --clicks, alone or together; or
    --links. It is compared with tf-idf and BM25.
    Vectors, as tercet vectorise writes them, may be larger than memory. LETOR files have verbs of their own: tercet
    letor.
    """
    rankers = chosen_rankers(**{name: options.pop(name) for name in RANKER_OPTIONS})
    options |= {"seed": seed, "verbose": False if quiet else None, "rankers": rankers}
    kind = "files" if data is None else kind_of(data)
    if data is not None and kind == "vectors":
        of_texts = ("corpus", "queries", "clicks", "links", *TEXT_OPTIONS)
        refuse_given(context, of_texts, f"is not for vectors; {data} holds some")
        with learning_on(cluster, device):
            model, took = _fit_vectors(data, qrels, **_without(options, of_texts))
    else:
        refuse_given(context, VECTOR_OPTIONS, "is for vectors, as tercet vectorise writes them")
        has_pairs = bool(options["preferences"] or options["clicks"] or options["links"])
        if options["links"]:
            others = ("queries", "qrels", "preferences", "clicks", *COLUMN_OPTIONS, *SPLIT_OPTIONS)
            refuse_given(context, others, "is not for --links: documents are the queries, and a tenth is held out")
        elif options["skip_unknown"]:
            raise click.UsageError("--skip-unknown is for --links, and for --preferences of vectors")
        elif has_pairs:
            judged = SPLIT_OPTIONS if qrels is not None else (*SPLIT_OPTIONS, "measure")
            reason = "of --preferences and --clicks a tenth of the queries is held out"
            refuse_given(context, judged, f"is for judgements; {reason}")
        if has_pairs and data is None and corpus is not None:
            texts: JudgedTexts | Labelled = read_files(corpus, queries, qrels, known_only=True)
        else:
            texts = open_data(data, corpus, queries, qrels, kind, known_only=True)
        if isinstance(texts, JudgedTexts) and has_pairs and qrels is None and texts.qrels:
            advice = "" if options["links"] else "; --judgements names some"
            echo(f"note: the judgements of {data} are not learned from{advice}", err=True)
            texts = replace(texts, qrels={})
        if isinstance(texts, JudgedTexts) and not texts.qrels and not has_pairs:
            raise click.UsageError(
                f"{data or corpus} holds documents alone; say what is better: --judgements, --preferences, --clicks, "
                "--links"
            )
        with learning_on(cluster, device):
            model, took = _fit_texts(texts, _name(data), **_without(options, VECTOR_OPTIONS))
    model.save(output)
    write_data_pointer(output, data=data, corpus=corpus, queries=queries)
    assert model.report is not None
    write_report_page(model.report, output / PAGE_NAME)
    echo(str(model.report))
    echo(f"{output}: written after {took}, with {PAGE_NAME}")


def _without(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _fit_texts(
    texts: JudgedTexts | Labelled,
    name: str,
    *,
    preferences: tuple[Path, ...],
    clicks: tuple[Path, ...],
    links: tuple[Path, ...],
    skip_unknown: bool,
    train: str,
    validation: str | None,
    test: str | None,
    measure: str | None,
    cut: str,
    stem: str | None,
    words: Path | None,
    n_models: int | None,
    budget: float | None,
    accept: Accept,
    prior: Path | None,
    fields: tuple[str, ...],
    features: tuple[str, ...],
    doc_vectors: Path | None,
    query_vectors: Path | None,
    rankers: list[NameWithParameters],
    steps: int | None,
    seed: int,
    verbose: bool | None,
) -> tuple[TextModel, str]:
    """A model of texts, and how long it took."""
    analyser = None  # left to the recipe
    if stem is not None or cut != "words":
        stop_words = "english" if cut == "words" else None
        analyser = Analyser(cut=cut, stop_words=stop_words, stemmer=None if stem == "none" else stem)
    settings: dict[str, Any] = {
        "ranker": rankers,
        "prior": prior,
        "analyser": analyser,
        "words": None if words is None else open_model(words),
        "n_steps": steps,
        "n_models": n_models,
        "budget": budget,
        "accept": accept,
        "random_state": seed,
        "verbose": verbose,
        "name": name,
    }
    if isinstance(texts, Labelled):
        if fields or features:
            raise InputError("labelled texts have no columns; leave out --field and --feature")
        if doc_vectors is not None or query_vectors is not None:
            raise InputError("labelled texts are no documents and queries; leave out --doc-vectors and --query-vectors")
        if preferences or clicks:
            raise InputError(
                "labelled texts have no queries to prefer documents for; leave out --preferences and --clicks"
            )
        if links:
            raise InputError("labelled texts are learned from by their classes; leave out --links")
        if validation is not None or test is not None or train != ONLY_SPLIT:
            raise InputError("labelled texts have no named splits; leave out --train, --validation and --test")
        held_out = None if texts.test is None else (texts.test.texts, texts.test.labels)
        model = fit_labelled(texts.train.texts, texts.train.labels, test=held_out, measure=measure or "AP", **settings)
    elif links:
        found = _read_links(links, texts, skip_unknown)
        model = fit_linked(texts.docs, found, measure=measure or "AP", **settings)
    else:
        settings |= {"fields": _field_weights(fields), "features": features}
        settings |= {"doc_vectors": doc_vectors, "query_vectors": query_vectors}
        if preferences or clicks:
            model = fit_judged(
                texts.docs,
                texts.queries or None,
                texts.qrels.get(ONLY_SPLIT),
                preferences=_read_threes(preferences, texts) if preferences else None,
                clicks=read_clicks(clicks) if clicks else None,
                measure=measure,
                **settings,
            )
        else:
            model = fit_judged(
                texts.docs,
                texts.queries,
                texts.split(train),
                validation=_held_out(texts, validation, VALIDATION_NAMES, (train, test)),
                test=_held_out(texts, test, ("test",), (train, validation)),
                measure=measure or "nDCG@10",
                **settings,
            )
    assert model.report is not None
    return model, f"{model.report.seconds:.1f} s of learning"


def _field_weights(fields: tuple[str, ...]) -> dict[str, float]:
    """Columns and their weights; a column may have a colon in its name."""
    weights: dict[str, float] = {}
    for field in fields:
        name, _, number = field.rpartition(":")
        try:
            weight = float(number) if name else 1.0
        except ValueError:
            name, weight = field, 1.0
        name = name or field
        if name in weights:
            raise click.UsageError(f"--field {name} is there twice")
        weights[name] = weight
    return weights


def _read_links(paths: tuple[Path, ...], texts: JudgedTexts, skip_unknown: bool) -> dict[str, list[str]]:
    """Links of all files, between documents that there are."""
    said = table_settings()
    links: dict[str, list[str]] = {}
    for path in preference_paths(paths, LINK_FILE_ENDINGS):
        with naming_flag("--skip-unknown", UNKNOWN_ID), naming_table_options():
            part = read_links(
                path,
                texts.docs,
                columns=said.columns,
                refused=bad_rows(),
                skip_unknown=skip_unknown,
                encoding=said.encoding,
                delimiter=said.delimiter,
            )
        echo(f"{path}: {part.form}")
        if part.n_unknown:
            known = f"{part.n_unknown:,} of {part.n_links + part.n_own + part.n_unknown:,} links"
            echo(f"note: {path}: left out, to or from documents that are not there: {known}", err=True)
        for source, targets in part.links.items():
            links.setdefault(source, []).extend(targets)
    n_links = sum(len(set(targets)) for targets in links.values())
    echo(f"{n_links:,} links of {len(links):,} documents")
    return links


def _read_threes(paths: tuple[Path, ...], texts: JudgedTexts) -> list[Three]:
    """Preferences of all files, in their order; queries by id, or by text where the data has none."""
    said = table_settings()
    threes: list[Three] = []
    # Queries that only judgements name, by their texts, need not be all there are.
    queries = None if all(qid == text for qid, text in texts.queries.items()) else texts.queries
    for path in preference_paths(paths):
        with naming_table_options():
            part = read_threes(
                path,
                queries,
                texts.docs,
                columns=said.columns,
                refused=bad_rows(),
                encoding=said.encoding,
                delimiter=said.delimiter,
            )
        echo(f"{path}: {part.form}")
        if part.has_margins:
            echo(f"note: texts are learned from threes and their weights; the margins of {path} are left out", err=True)
        threes += part.threes
    echo("1 preference" if len(threes) == 1 else f"{len(threes):,} preferences")
    return threes


def _held_out(
    texts: JudgedTexts, name: str | None, usual: tuple[str, ...], taken: tuple[str | None, ...]
) -> Mapping[str, Mapping[str, int]] | None:
    """The split that was named, else one under a usual name that has no other part to play."""
    if name is not None:
        return texts.split(name)
    return next((texts.qrels[split] for split in usual if split in texts.qrels and split not in taken), None)


def _name(data: Path | None) -> str:
    """What the report calls the data; files named one by one have no name of their own."""
    if data is None:
        return ""
    return str(data) if is_ir_datasets(data) else data.absolute().name


def _fit_vectors(
    data: Path,
    qrels: Path | None,
    *,
    measure: str | None,
    preferences: tuple[Path, ...],
    skip_unknown: bool,
    steps: int | None,
    validation_qrels: Path | None,
    test_qrels: Path | None,
    rankers: list[NameWithParameters],
    checkpoint: Path | None,
    seed: int,
    verbose: bool | None,
) -> tuple[TextModel, str]:
    """A model of vectors, and how many steps it took."""
    if (qrels is None) == (not preferences):
        raise click.UsageError("vectors are learned from with --qrels or with --preferences; name one")
    if skip_unknown and not preferences:
        raise click.UsageError("--skip-unknown is for --preferences")
    if len(rankers) > 1:
        raise click.UsageError("vectors are learned from once; name one --ranker")
    if checkpoint is not None:
        check_destination(checkpoint)
    vectors = Vectors.open(data)
    n_queries = 0 if vectors.queries is None else len(vectors.queries)
    echo(f"{data}: vectors of {len(vectors.docs):,} documents and {n_queries:,} queries")
    shared = vectors.query_vectoriser is vectors.doc_vectoriser
    learner = term_pair_ranker(rankers, vectors.docs.shape, seed, shared=shared)
    source: Source | None = None
    if preferences:
        source = StreamSource(
            preferences, vectors.query_ids, vectors.doc_ids, n_steps=steps or "count", skip_unknown=skip_unknown
        )
        left_out = f"; {source.n_skipped:,} others are left out, since an id of theirs has no vector"
        counted = f"{source.n_steps:,} preferences, read as they are learned from"
        echo(counted + (left_out if source.n_skipped else ""))
    with naming_flag("--skip-unknown", UNKNOWN_ID):
        model = fit_vectors(
            vectors,
            read_qrels(qrels) if source is None and qrels is not None else source,  # type: ignore[arg-type]
            learner,
            n_steps=steps if source is None else None,
            validation=None if validation_qrels is None else read_qrels(validation_qrels),
            test=None if test_qrels is None else read_qrels(test_qrels),
            measure=measure,
            callbacks=() if checkpoint is None else (Checkpoint(checkpoint, every=CHECKPOINT_EVERY),),
            random_state=seed,
            verbose=verbose,
        )
    return model, f"{getattr(learner, 'n_steps_', 0):,} steps"
