"""``tercet fit`` on vectors: documents and preferences larger than memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tercet.cli.inputs import ANY, FILE
from tercet.cli.letor import RANKERS as FEATURE_RANKERS
from tercet.cli.letor import refuse_given
from tercet.cli.remembered import remember
from tercet.data import read_qrels
from tercet.fitting.candidates import TERM_PAIR_RANKERS, term_pair_ranker
from tercet.fitting.stored import fit_vectors
from tercet.learn import Checkpoint, Source
from tercet.learn.streams import StreamSource
from tercet.store import check_destination
from tercet.text.vectors import Vectors

CHECKPOINT_EVERY = 100_000  # steps
VECTORS_ONLY = ("preferences", "skip_unknown", "steps", "validation_qrels")
NOT_FOR_VECTORS = (
    *("corpus", "queries", "train", "validation", "test", "cut", "stem", "n_models"),
    *("folds", "choose", "l1", "names", "show_path", "stream"),
)


def vector_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of ``fit`` that only vectors have."""
    options = [
        click.option(
            "--preferences",
            type=ANY,
            multiple=True,
            help="Vectors: learn from these, TSV, JSONL or Parquet, in their order; may be given again and again.",
        ),
        click.option(
            "--skip-unknown", is_flag=True, help="Vectors: leave out preferences with ids that have no vector."
        ),
        click.option("--steps", type=click.IntRange(min=1), help="Vectors: how many preferences to learn from."),
        click.option("--validation-qrels", type=FILE, help="Vectors: judgements of other queries, to measure on."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def refuse_vector_ranker(ranker: str | None) -> None:
    """Wrong usage where there are no vectors."""
    if ranker is not None and ranker not in FEATURE_RANKERS:
        raise click.UsageError(f"--ranker {ranker} is for vectors, as tercet vectorise writes them")


def fit_stored(
    context: click.Context,
    data: Path,
    output: Path | None,
    *,
    qrels: Path | None,
    measure: str | None,
    seed: int,
    verbose: bool | None,
    preferences: tuple[Path, ...],
    skip_unknown: bool,
    steps: int | None,
    validation_qrels: Path | None,
    ranker: str | None,
    checkpoint: Path | None,
    epochs: int | None,
    **others: Any,
) -> None:
    """Learn from vectors, print what came of it, and write the model."""
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    refuse_given(context, NOT_FOR_VECTORS, f"is not for vectors; {data} holds some")
    if (qrels is None) == (not preferences):
        raise click.UsageError("vectors are learned from with --qrels or with --preferences; name one")
    if skip_unknown and not preferences:
        raise click.UsageError("--skip-unknown is for --preferences")
    if ranker is not None and ranker not in TERM_PAIR_RANKERS:
        raise click.UsageError(
            f"--ranker {ranker} is for feature vectors; for words there are {', '.join(TERM_PAIR_RANKERS)}"
        )
    if checkpoint is not None:
        check_destination(checkpoint)
    vectors = Vectors.open(data)
    n_queries = 0 if vectors.queries is None else len(vectors.queries)
    click.echo(f"{data}: vectors of {len(vectors.docs):,} documents and {n_queries:,} queries")
    shared = vectors.query_vectoriser is vectors.doc_vectoriser
    learner = term_pair_ranker(ranker or "low-rank", vectors.docs.shape, seed, shared=shared)
    if epochs is not None:
        learner.set_params(epochs=epochs)
    source: Source | None = None
    if preferences:
        source = StreamSource(
            preferences, vectors.query_ids, vectors.doc_ids, n_steps=steps or "count", skip_unknown=skip_unknown
        )
        left_out = f"; {source.n_skipped:,} others are left out, since an id of theirs has no vector"
        told = f"{source.n_steps:,} preferences, read as they are learned from"
        click.echo(told + (left_out if source.n_skipped else ""))
    model = fit_vectors(
        vectors,
        read_qrels(qrels) if source is None and qrels is not None else source,  # type: ignore[arg-type]
        learner,
        n_steps=steps if source is None else None,
        test=None if validation_qrels is None else read_qrels(validation_qrels),
        measure=measure,
        callbacks=() if checkpoint is None else (Checkpoint(checkpoint, every=CHECKPOINT_EVERY),),
        random_state=seed,
        verbose=verbose,
    )
    model.save(output)
    remember(output, data=data)
    click.echo(str(model.report))
    click.echo(f"{output}: written after {getattr(learner, 'n_steps_', 0):,} steps")
