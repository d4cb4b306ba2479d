"""Systems to be measured: models that rank DATA, and runs, against one set of judgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np

from tercet.cli.inputs import (
    ONLY_SPLIT,
    Qrels,
    open_judged,
    open_model,
    read_judgements,
    read_query_texts,
    with_own_vectors,
)
from tercet.cli.options import (
    DATA,
    FILE,
    judged_options,
    measures_option,
    models_option,
    own_vectors_option,
    together,
)
from tercet.cli.terminal import echo
from tercet.data import read_run
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel

_WORDS_NAMED = 5  # of those that a model does not know

TEXT_MEASURES = ("nDCG@10", "AP", "P@10", "RR")


@dataclass
class Systems:
    """Judgements and, by the name that was typed, what each system answers."""

    qrels: Qrels
    queries: Mapping[str, str]  # empty where nobody named them
    runs: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


# What is measured, and how.
system_options = together(
    click.argument("data", type=DATA, required=False),
    models_option,
    click.option("--run", "runs", type=FILE, multiple=True, help="A TREC run; may be repeated."),
    judged_options,
    click.option("--split", default="test", show_default=True, help="Whose judgements of DATA to use."),
    own_vectors_option,
    measures_option,
    click.option("-k", "depth", default=1000, show_default=True, type=click.IntRange(min=1), help="Documents to rank."),
)


def open_systems(
    data: Path | None,
    queries: Path | None,
    qrels: Path | None,
    models: tuple[Path, ...],
    runs: tuple[Path, ...],
    split: str,
    depth: int,
    vectors: tuple[Path, Path] | None,
) -> Systems:
    """Read the judgements and the runs, and let the models rank."""
    for path in (*models, *runs):
        if (*models, *runs).count(path) > 1:
            raise click.UsageError(f"{path} is named twice")
    if data is None:
        if models or qrels is None:
            raise click.UsageError("--model needs DATA to rank, and --run needs DATA or --judgements")
        texts = None if queries is None else read_query_texts(queries)
        judgements = read_judgements(qrels, texts)
        if texts is None and judgements.queries:
            raise InputError(f"{qrels} names queries by their texts; name their ids: --queries")
        systems = Systems(judgements.qrels, texts or {})
    else:
        judged = open_judged(data, queries, qrels)
        part = ONLY_SPLIT if qrels is not None else split
        query_texts = judged.queries_of(part)
        systems = Systems(judged.split(part), query_texts)
        doc_vectors, query_vectors = vectors or (None, None)
        for path in models:
            model = open_model(path)
            tell_unknown(model, query_texts, path if len(models) > 1 else None)
            docs = with_own_vectors(model, judged.docs, doc_vectors)
            systems.runs[str(path)] = model.rank(query_texts, docs, depth, query_vectors if model.n_dims else None)
    for path in runs:
        systems.runs[str(path)] = read_run(path)
    return systems


def tell_unknown(model: TextModel, queries: Mapping[str, str], path: Path | None = None) -> None:
    """Print a line about words of queries that a model does not know, if there are any."""
    words = model.query_vectoriser
    unknown = [words.unknown_words(text) for text in queries.values()]
    n_affected = sum(map(bool, unknown))
    n_lost = int((np.diff(words.transform_queries(list(queries.values())).indptr) == 0).sum())
    said = []
    if n_affected:
        counts = Counter(word for found in unknown for word in found)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{word} ({count:,})" for word, count in ordered[:_WORDS_NAMED])
        more = f" and {len(ordered) - _WORDS_NAMED:,} more" if len(ordered) > _WORDS_NAMED else ""
        verb = "has" if n_affected == 1 else "have"
        of_all = f"{n_affected:,} of {len(unknown):,} queries"
        said.append(f"{of_all} {verb} words that the model does not know: {shown}{more}")
    if n_lost:
        said.append(f"{n_lost:,} {'has' if n_lost == 1 else 'have'} no word that it knows")
    if said:
        echo(f"note: {'' if path is None else f'{path}: '}{'; '.join(said)}", err=True)


def system_named(name: str | None, systems: Mapping[str, object]) -> str | None:
    """The system that is meant, by the whole of its path or by its last part."""
    if name is None or name in systems:
        return name
    matches = [system for system in systems if Path(system).name == Path(name).name]
    if len(matches) != 1:
        raise InputError(f"the baseline {name!r} is none of the systems: {', '.join(systems)}")
    return matches[0]
