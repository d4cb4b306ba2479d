"""What is told of a run of a plan of term-pair models."""

from __future__ import annotations

from html import escape
from typing import Any

from tercet.repro.figures import make_drawings
from tercet.repro.page import Report
from tercet.repro.plan import Fit
from tercet.repro.runner import Results
from tercet.repro.sheets import make_sheets

_KEPT_IN_CELLS = ("average_precision", "precision_at_10", "wrong")  # a number for each query or preference


def report_on(results: Results) -> Report:
    """Tables, figures and settings; nothing is drawn yet."""
    return Report(
        results,
        ours=f"mean over seeds ± {_spread(results)}",
        quick="rows, preferences and seeds",
        sheets=make_sheets(results),
        drawings=make_drawings(results),
        settings=settings_of(results),
        measured={"fits": _fits(results)},
    )


def _spread(results: Results) -> str:
    """What stands behind the ± of this plan's measures."""
    words = {"seeds": "half their range", "standard error": "the standard error over queries"}
    found = {measure.spread for measure in results.plan.measures.values()}
    return " or ".join(text for spread, text in words.items() if spread in found)


def _fits(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "dataset": dataset,
            "fit": fit,
            "seed": seed,
            "facts": cell["facts"],
            "related": cell["related"],
            "models": {
                key: {name: value for name, value in model.items() if name not in _KEPT_IN_CELLS}
                for key, model in cell["models"].items()
            },
        }
        for (dataset, fit), cells in results.fits.items()
        for seed, cell in enumerate(cells)
    ]


def settings_of(results: Results) -> str:
    """Every fit with its parameters, as HTML."""
    rows = "\n".join(_setting(results, fit) for fit in results.plan.fits)
    return (
        '<h3 id="settings">Settings</h3><p class="soft">Preferences are drawn with the seed; test preferences '
        f"({results.plan.test_preferences:,}) with 1000 + the seed. A tie counts as an error. Seconds are those of "
        "the fastest seed on the machine of this run, thinning included and choosing parameters left out; those of a "
        "blend are what finding the amount took.</p>"
        '<div class="wide"><table><thead><tr><th>fit</th><th>ranker and parameters</th><th>preferences</th>'
        f"<th>data sets</th></tr></thead><tbody>\n{rows}\n</tbody></table></div>"
    )


def _setting(results: Results, fit: Fit) -> str:
    def listed(parameters: dict[str, object]) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in parameters.items())

    what = f"{fit.ranker}({listed(fit.parameters)})"
    if fit.blend:
        what = " + amount * ".join(results.plan.model(key).title for key in fit.blend)
    code = f"<code>{escape(what)}</code>"
    more: dict[str, Any] = {
        f"chosen on training error, with {fit.choose_share:.0%} of the preferences, from": fit.choose,
        "map": fit.map and vars(fit.map),
        "share of the links": fit.share if fit.share < 1 else None,
        "second objective": fit.second,
    }
    for name, value in more.items():
        code += f"<small>{escape(name)} {escape(str(value))}</small>" if value else ""
    for said, holds in {
        "the best on validation is kept": fit.early_stop,
        "a query is drawn first, then one of its links": fit.uniform_over == "queries",
        "learned from translations, not from preferences": fit.mates,
    }.items():
        code += f"<small>{said}</small>" if holds else ""
    for dataset, parameters in fit.by_dataset.items():
        code += f"<small>{escape(results.plan.datasets[dataset].title)}: {escape(listed(parameters))}</small>"
    titles = ", ".join(results.plan.datasets[name].title for name in fit.datasets)
    return f"<tr><td>{escape(fit.title)}</td><td>{code}</td><td>{fit.preferences:,}</td><td>{escape(titles)}</td></tr>"
