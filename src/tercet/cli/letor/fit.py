"""``tercet letor fit``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tercet.choose import RULES
from tercet.cli.letor.rows import print_features, print_written, read_rows
from tercet.cli.options import ANY, FILE, cluster_option, learning_on, output_options, quiet_option, seed_option
from tercet.cli.terminal import echo
from tercet.data import read_feature_names, read_letor_folds, recognise
from tercet.errors import InputError
from tercet.fitting import FeatureModel, fit_letor, fit_letor_folds
from tercet.fitting.rankers import FEATURE_RANKERS
from tercet.fitting.rows import MEASURE
from tercet.learn.rls import RankRLS
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.store.kinds import FEATURE_MODEL

L2S = tuple(10.0**power for power in range(-3, 8))  # that a RankRLS has to choose from
MANY_ROWS, N_BASIS = 2_000, 500  # so many rows, and so many of them are basis vectors of a kernel that is not linear


@click.command()
@click.argument("data", type=ANY)
@output_options("Folder for the model; without it, the report is all.", kind=FEATURE_MODEL)
@click.option("--validation", "--vali", type=FILE, help="File to choose the penalty on.  [default: cross-validation]")
@click.option("--test", type=FILE, help="File to report on.")
@click.option("--folds", type=click.IntRange(min=2), help="Folds of the cross-validation.  [default: 5]")
@click.option("--measure", default=MEASURE, show_default=True, help="What to choose by.")
@click.option("--choose", type=click.Choice(RULES), help="Which penalty.  [default: best]")
@click.option("--l1", type=click.FloatRange(min=0), help="This penalty (of fenchel the radius), without a choice.")
@click.option(
    "--ranker", type=click.Choice(list(FEATURE_RANKERS)), default="ftrl", show_default=True, help="What to learn."
)
@click.option("--names", type=FILE, help="Names of the features, 'id name' or one a line.")
@click.option("--path", "show_path", is_flag=True, help="Print every penalty that was tried.")
@cluster_option
@seed_option
@quiet_option
def fit(
    data: Path,
    output: Path | None,
    validation: Path | None,
    test: Path | None,
    folds: int | None,
    measure: str,
    choose: str | None,
    l1: float | None,
    ranker: str,
    names: Path | None,
    show_path: bool,
    cluster: str | None,
    seed: int,
    quiet: bool,
) -> None:
    """Learn a ranker from a LETOR file and print it against the best single feature.

    DATA is a file, next to which --validation and --test name others, or a folder or archive of folds, which has its
    own three parts in each.
    """
    options: dict[str, Any] = {
        "measure": measure,
        "l1s": None if l1 is None else [l1],
        "random_state": seed,
        "verbose": False if quiet else None,
    }
    if choose is not None:
        options["choose"] = choose
    kind = recognise(data)
    if kind == "letor-folds":
        for option, value in (("--validation", validation), ("--test", test), ("--folds", folds)):
            if value is not None:
                raise click.UsageError(f"{option} is not for a set of folds: {data} has its own three parts in each")
        parts = read_letor_folds(data, comments=False)
        n_features = parts[0].train.n_features
        echo(f"{data}: a LETOR set of {len(parts)} folds, {n_features} features")
        options |= _learner(ranker, min(len(part.train) for part in parts), seed)
        with learning_on(cluster):
            model = fit_letor_folds(parts, feature_names=_names(names, n_features), **options)
    elif kind == "letor":
        if validation is not None and folds is not None:
            raise click.UsageError("--folds asks for a cross-validation, which --validation makes needless; name one")
        train = read_rows(data)
        options |= _learner(ranker, len(train), seed)
        options["validation"] = None if validation is None else read_rows(validation)
        options["test"] = None if test is None else read_rows(test)
        with learning_on(cluster):
            model = fit_letor(train, folds=folds, feature_names=_names(names, train.n_features), **options)
    else:
        raise InputError(
            f"{data} is recognised as {kind!r}; this verb takes a LETOR file, which has qid:id on every line, or a "
            "folder or archive of folds"
        )
    _finish(model, output, show_path)


def _learner(name: str, n_rows: int, seed: int) -> dict[str, Any]:
    """What to learn, and what it has to choose from."""
    ranker = FEATURE_RANKERS[name]()
    if "random_state" in ranker.get_params():
        ranker.set_params(random_state=seed)
    if not isinstance(ranker, RankRLS):
        return {"ranker": ranker}
    if ranker.kernel != "linear" and n_rows > MANY_ROWS:
        ranker.set_params(n_basis=N_BASIS)
    return {"ranker": ranker, "l2s": L2S}


def _names(path: Path | None, n_features: int) -> tuple[str, ...] | None:
    return None if path is None else read_feature_names(path, n_features)


def _finish(model: FeatureModel, output: Path | None, show_path: bool) -> None:
    """Write the model, and print the report, the features and the path."""
    report = model.report
    assert report is not None
    assert report.features is not None
    if output is not None:
        model.save(output)
        write_report_page(report, output / PAGE_NAME, model.weights_by_name())
    echo(str(report))
    print_features(model)
    if show_path:
        echo(report.path_table())
    learning = f"{report.features.learn_seconds:.2f} s of learning"
    print_written(output, f"{learning}, {report.seconds:.1f} s with the choice and the measuring")
