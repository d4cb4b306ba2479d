"""``tercet fit``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import NEW, Judged, data_options, open_data
from tercet.errors import InputError
from tercet.model import TextModel
from tercet.recipe import fit as fit_judged
from tercet.recipe import fit_labelled
from tercet.store import check_destination
from tercet.text import CUTS, Analyser

# Names under which collections publish the part to choose on.
VALIDATION_NAMES = ("validation", "dev", "valid", "vali")


@click.command()
@data_options
@click.option("-o", "--output", type=NEW, required=True, help="Folder for the model.")
@click.option("--train", default="train", show_default=True, help="Split to learn from.")
@click.option("--validation", help="Split to choose on; default validation or dev, else a tenth of the queries.")
@click.option("--test", help="Split to report on; default test, else a tenth of the queries.")
@click.option("--measure", help="What to choose by.  [default: nDCG@10; AP for labelled texts]")
@click.option(
    "--cut", type=click.Choice(CUTS), default="words", show_default=True, help="How texts are cut into words."
)
@click.option("--stem", metavar="LANGUAGE", help="Cut words to their stems, as in --stem english.")
@click.option(
    "--models", "n_models", default=1, show_default=True, type=click.IntRange(min=1), help="Learn the mean of so many."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--quiet", is_flag=True, help="No progress.")
def fit(
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    output: Path,
    train: str,
    validation: str | None,
    test: str | None,
    measure: str | None,
    cut: str,
    stem: str | None,
    n_models: int,
    seed: int,
    quiet: bool,
) -> None:
    """Learn from DATA, print the result against tf-idf and BM25 on held-out queries, and write the model."""
    analyser = Analyser(cut=cut, stop_words="english" if cut == "words" else None, stemmer=stem)
    verbose = False if quiet else None
    check_destination(output)
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
        )
    model.save(output)
    click.echo(str(model.report))
    assert model.report is not None
    click.echo(f"{output}: written after {model.report.seconds:.1f} s of learning")


def _held_out(
    found: Judged, asked: str | None, names: tuple[str, ...], taken: tuple[str | None, ...]
) -> dict[str, dict[str, int]] | None:
    """The split that was asked for, else one under a usual name that has no other part to play."""
    if asked is not None:
        return found.split(asked)
    return next((found.qrels[name] for name in names if name in found.qrels and name not in taken), None)
