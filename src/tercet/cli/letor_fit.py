"""``tercet letor fit``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tercet.choose import RULES
from tercet.cli.groups import SectionedCommand, examples
from tercet.cli.letor import print_features, read_rows
from tercet.cli.options import ANY, FILE, output_options, seed_option
from tercet.cli.rankers import FEATURE_RANKER, feature_ranker
from tercet.cli.terminal import echo
from tercet.data import read_feature_names, recognize
from tercet.errors import InputError
from tercet.fitting import FeatureModel, fit_letor
from tercet.fitting.letor import FEATURE_RANKERS, MEASURE
from tercet.fitting.rankers import NameWithParameters
from tercet.learn.linear.base import SparseLinearRanker
from tercet.learn.rls import RankRLS
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.store.kinds import FEATURE_MODEL

L2S = tuple(10.0**power for power in range(-3, 8))  # penalties of RankRLS to choose from
MANY_ROWS, N_BASIS = 2_000, 500  # rows from which on a nonlinear kernel uses N_BASIS basis vectors

SECTIONS = {
    "Data": ("validation", "test", "names", "folds"),
    "Method": ("ranker", "measure", "choose"),
    "Time and machine": ("seed",),
    "Output": ("output", "replace"),
}


@click.command(
    cls=SectionedCommand,
    sections=SECTIONS,
    epilog=examples(
        "letor fit train.txt --validation vali.txt --test test.txt -o model/",
        "letor fit train.txt --ranker ftrl:batch_size=100,rate=.5,rho=1,epochs=3",
    ),
)
@click.argument("data", type=ANY)
@click.option("--validation", type=FILE, help="LETOR file for the choice of the penalty.  [default: cross-validation]")
@click.option("--test", type=FILE, help="LETOR file for the report.")
@click.option("--names", type=FILE, help="Names of the features, 'id name' or one a line.")
@click.option("--folds", type=click.IntRange(min=2), metavar="N", help="Folds of the cross-validation.  [default: 5]")
@click.option(
    "--ranker",
    type=FEATURE_RANKER,
    default="ftrl",
    show_default=True,
    help=f"{', '.join(FEATURE_RANKERS)}; with parameters: ftrl:l1=.1.",
)
@click.option("--measure", help=f"Measure for the choice.  [default: {MEASURE}]")
@click.option("--choose", type=click.Choice(RULES), default="best", show_default=True, help="Rule for the penalty.")
@seed_option
@output_options("Folder for the model.  [default: print the report only]", kind=FEATURE_MODEL)
def fit(
    data: Path,
    validation: Path | None,
    test: Path | None,
    names: Path | None,
    folds: int | None,
    ranker: NameWithParameters,
    measure: str | None,
    choose: Any,
    seed: int,
    output: Path | None,
) -> None:
    """Learn a ranker from the LETOR file DATA and compare it with the best single feature."""
    options = {"measure": measure or MEASURE, "choose": choose, "random_state": seed}
    kind = recognize(data)
    if kind == "letor-folds":
        raise InputError(
            f"{data} has folds, each with its own test queries; learn from one fold: "
            f"tercet letor fit {data}/Fold1/train.txt --validation {data}/Fold1/vali.txt --test {data}/Fold1/test.txt"
        )
    if kind != "letor":
        raise InputError(
            f"{data} is recognized as {kind!r}; this verb takes a LETOR file, which has qid:id on every line"
        )
    train = read_rows(data)
    options |= _learner(ranker, len(train), seed)
    options["validation"] = None if validation is None else read_rows(validation)
    options["test"] = None if test is None else read_rows(test)
    model = fit_letor(train, folds=folds, feature_names=_names(names, train.n_features), **options)
    _finish(model, output)


def _learner(named: NameWithParameters, n_rows: int, seed: int) -> dict[str, Any]:
    """Return the ranker and the penalties to choose from; a given penalty is not chosen."""
    ranker = feature_ranker(named, seed)
    if isinstance(ranker, SparseLinearRanker):
        penalty = named.parameters.get(ranker._penalty_name)
        return {"ranker": ranker, "l1s": None if penalty is None else [penalty]}
    if not isinstance(ranker, RankRLS):
        return {"ranker": ranker}
    if ranker.kernel != "linear" and n_rows > MANY_ROWS and "n_basis" not in named.parameters:
        ranker.set_params(n_basis=N_BASIS)
    return {"ranker": ranker, "l2s": None if "l2" in named.parameters else L2S}


def _names(path: Path | None, n_features: int) -> tuple[str, ...] | None:
    return None if path is None else read_feature_names(path, n_features)


def _finish(model: FeatureModel, output: Path | None) -> None:
    """Write the model, and print the report and the features."""
    report = model.report
    assert report is not None
    assert report.features is not None
    if output is not None:
        model.save(output)
        write_report_page(report, output / PAGE_NAME, model.weights_by_name())
    echo(str(report))
    print_features(model)
    took = f"{report.features.learn_seconds:.2f} s of learning, {report.seconds:.1f} s with choice and measuring"
    nothing = f"{took}; nothing was written, as no -o was given"
    echo(nothing if output is None else f"{output}: written after {took}, with {PAGE_NAME}")
