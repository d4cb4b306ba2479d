"""Which ranker ``tercet fit`` learns, and its parameters."""

from __future__ import annotations

from typing import Any

import click

from tercet.cli.options import together
from tercet.fitting.rankers import NAMED_RANKERS, NameWithParameters, candidates_of, with_parameters

# Options that are parameters of rankers, by the names those have.
PARAMETERS = ("density", "l1", "shrink_every", "refit", "rate", "epochs")
RANKER_OPTIONS = ("ranker", "settings", *PARAMETERS)
ranker_options = together(
    click.option(
        "--ranker",
        multiple=True,
        metavar="NAME",
        help=f"What to learn: {', '.join(NAMED_RANKERS)}; given again, the best on validation is taken.  [default: "
        "low-rank]",
    ),
    click.option("--density", type=float, help="Ranker: share of W to keep, as in .05."),
    click.option("--l1", type=float, help="Ranker: strength of the penalty."),
    click.option("--shrink-every", type=int, help="Ranker: steps between shrinkages."),
    click.option("--refit/--no-refit", default=None, help="Ranker: learn what is left again, without penalty."),
    click.option("--rate", type=float, help="Ranker: size of steps."),
    click.option("--epochs", type=int, help="Ranker: passes over the preferences."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Ranker: any other parameter, as in n_components=50; may be repeated.",
    ),
)


def chosen_rankers(*, ranker: tuple[str, ...], settings: tuple[str, ...], **given: Any) -> list[NameWithParameters]:
    """The rankers that were named, with the parameters that were given; wrong ones are said before anything is read."""
    parameters = {name: value for name, value in given.items() if value is not None}
    for text in settings:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise click.UsageError(f"--set takes NAME=VALUE, as in --set n_components=50; got {text!r}")
        if name in parameters:
            raise click.UsageError(f"{name} is given twice")
        parameters[name] = _value(value.strip())
    chosen = with_parameters(ranker or ("low-rank",), parameters)
    candidates_of(chosen, seed=0)  # checks the values
    return chosen


def _value(text: str) -> bool | int | float | str | tuple[int, ...] | None:
    """What a text is as a parameter: none, true, false, a number, whole numbers with commas between, or itself."""
    plain: dict[str, bool | None] = {"none": None, "true": True, "false": False}
    if text.lower() in plain:
        return plain[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    parts = [part.strip() for part in text.split(",")]
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else text
