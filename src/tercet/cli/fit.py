"""``tercet fit``"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tercet.cli.inputs import NEW, Judged, data_options, is_ir_datasets, open_data
from tercet.cli.letor import LETOR_ONLY, fit_features, letor_options, print_features, refuse_given
from tercet.cli.letor_stream import STREAM_ONLY, fit_streamed, stream_options
from tercet.cli.remembered import remember
from tercet.cli.vector_fit import VECTORS_ONLY, fit_stored, refuse_vector_ranker, vector_options
from tercet.data import recognise
from tercet.errors import InputError
from tercet.fitting.feature_model import FeatureModel
from tercet.fitting.model import TextModel
from tercet.fitting.recipe import fit as fit_judged
from tercet.fitting.recipe import fit_labelled
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.scale import Cluster
from tercet.store import check_destination
from tercet.text import CUTS, Analyser

# Names under which collections publish the part to choose on.
VALIDATION_NAMES = ("validation", "dev", "valid", "vali")
TEXT_ONLY = ("corpus", "queries", "qrels", "train", "cut", "stem", "n_models")


@click.command()
@data_options
@click.option("-o", "--output", type=NEW, help="Folder for the model; LETOR files are reported on without one, too.")
@click.option("--train", default="train", show_default=True, help="Split to learn from.")
@click.option(
    "--validation",
    "--vali",
    help="Split to choose on; default validation or dev, else a tenth of the queries. LETOR: a file; default "
    "cross-validation.",
)
@click.option(
    "--test", help="Split to report on; default test, else a tenth of the queries. LETOR: a file; default none."
)
@click.option(
    "--measure",
    help="What to choose by.  [default: nDCG@10; AP for labelled texts; nDCG(dcg='exp-log2')@10 for LETOR]",
)
@click.option(
    "--cut", type=click.Choice(CUTS), default="words", show_default=True, help="How texts are cut into words."
)
@click.option(
    "--stem",
    metavar="LANGUAGE|none",
    help="Cut words to their stems, as in --stem english, or not.  [default: English stems where they match better]",
)
@click.option(
    "--models", "n_models", default=1, show_default=True, type=click.IntRange(min=1), help="Learn the mean of so many."
)
@letor_options
@stream_options
@vector_options
@click.option("--cluster", metavar="ADDRESS", help="Learn on local:N processes, or a Dask scheduler's tcp://host:port.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def fit(
    context: click.Context,
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    output: Path | None,
    train: str,
    validation: str | None,
    test: str | None,
    measure: str | None,
    cut: str,
    stem: str | None,
    n_models: int,
    cluster: str | None,
    seed: int,
    quiet: bool,
    show_path: bool,
    stream: bool,
    **letor: Any,
) -> None:
    """Learn from DATA, print the result on held-out queries, and write the model.

    Texts are compared with tf-idf and BM25. A LETOR file, or a folder or tar of its folds, is compared with the best
    single feature; there --validation and --test name files, and the penalty is chosen on the former. Vectors, as
    tercet vectorise writes them, may be larger than memory; they are learned from with --qrels or --preferences.
    """
    if output is not None:
        check_destination(output)
    if cluster is not None:
        context.with_resource(_learning_on(cluster))
    verbose = False if quiet else None
    kind = None if data is None or is_ir_datasets(data) else recognise(data)
    if data is not None and kind == "vectors":
        fit_stored(context, data, output, qrels=qrels, measure=measure, seed=seed, verbose=verbose, **letor)
        return
    refuse_given(context, VECTORS_ONLY, "is for vectors, as tercet vectorise writes them")
    refuse_vector_ranker(letor["ranker"])
    letor = {name: value for name, value in letor.items() if name not in VECTORS_ONLY}
    if data is not None and kind in ("letor", "letor-folds"):
        refuse_given(context, TEXT_ONLY, f"is for texts; {data} holds feature vectors")
        if stream:
            letor |= {"validation": validation, "test": test, "measure": measure, "show_path": show_path}
            fit_streamed(data, kind, output, **letor)
            return
        refuse_given(context, STREAM_ONLY, "is for --stream")
        letor = {name: value for name, value in letor.items() if name not in STREAM_ONLY}
        features = fit_features(
            data,
            kind,
            validation=validation,
            test=test,
            measure=measure,
            random_state=seed,
            verbose=verbose,
            **letor,
        )
        _print_feature_model(features, output, show_path=show_path)
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    refuse_given(context, (*LETOR_ONLY, "stream", *STREAM_ONLY), "is for LETOR files only")
    analyser = None  # left to the recipe
    if stem is not None or cut != "words":
        stop_words = "english" if cut == "words" else None
        analyser = Analyser(cut=cut, stop_words=stop_words, stemmer=None if stem == "none" else stem)
    found = open_data(data, corpus, queries, qrels)
    model: TextModel
    if isinstance(found, Judged):
        model = fit_judged(
            found.docs,
            found.queries,
            found.split(train),
            validation=_held_out(found, validation, VALIDATION_NAMES, (train, test)),
            test=_held_out(found, test, ("test",), (train, validation)),
            measure=measure or "nDCG@10",
            analyser=analyser,
            n_models=n_models,
            random_state=seed,
            verbose=verbose,
            name=_name(data),
        )
    else:
        if validation is not None or test is not None:
            raise InputError("labelled texts have no named splits; leave out --validation and --test")
        model = fit_labelled(
            found.train.texts,
            found.train.labels,
            test=None if found.test is None else (found.test.texts, found.test.labels),
            measure=measure or "AP",
            analyser=analyser,
            n_models=n_models,
            random_state=seed,
            verbose=verbose,
            name=_name(data),
        )
    assert model.report is not None
    model.save(output)
    write_report_page(model.report, output / PAGE_NAME)
    remember(output, data=data, corpus=corpus, queries=queries)
    click.echo(str(model.report))
    click.echo(f"{output}: written after {model.report.seconds:.1f} s of learning, with {PAGE_NAME}")


@contextmanager
def _learning_on(address: str) -> Iterator[None]:
    """Have everything learned on a cluster; at the end, say what travelled."""
    with Cluster(address) as cluster:
        yield
    if cluster.rounds:
        click.echo(cluster.summary())


def _name(data: Path | None) -> str:
    """What the report calls the data; files named one by one have no name of their own."""
    if data is None:
        return ""
    return str(data) if is_ir_datasets(data) else data.absolute().name


def _print_feature_model(model: FeatureModel, output: Path | None, *, show_path: bool) -> None:
    report = model.report
    assert report is not None
    assert report.features is not None
    if output is not None:
        model.save(output)
    click.echo(str(report))
    print_features(model)
    if show_path:
        click.echo(report.path_table())
    took = (
        f"{report.features.learn_seconds:.2f} s of learning, {report.seconds:.1f} s with the choice and the measuring"
    )
    click.echo(f"{output}: written after {took}" if output else f"{took}; nothing was written, as no -o was given")


def _held_out(
    found: Judged, asked: str | None, names: tuple[str, ...], taken: tuple[str | None, ...]
) -> dict[str, dict[str, int]] | None:
    """The split that was asked for, else one under a usual name that has no other part to play."""
    if asked is not None:
        return found.split(asked)
    return next((found.qrels[name] for name in names if name in found.qrels and name not in taken), None)
