"""What is told of a run of a plan of feature vectors."""

from __future__ import annotations

from html import escape
from typing import Any

from tercet.repro.features.figures import make_drawings
from tercet.repro.features.plan import Method
from tercet.repro.features.runner import FeatureResults
from tercet.repro.features.sheets import full_title, make_sheets
from tercet.repro.page import Report

_KEPT = ("chosen", "n_used", "n_features", "n_rows", "n_drawn", "diverged", "unfinished")


def report_on(results: FeatureResults) -> Report:
    """Tables, figures and settings; nothing is drawn yet."""
    return Report(
        results,
        ours="mean over the test parts of the folds ± the standard error over queries (of sparsity, seconds "
        "and memory half the range of the seeds, where there are several)",
        quick="folds, values to choose from and seeds",
        sheets=make_sheets(results),
        drawings=make_drawings(results),
        settings=_settings(results),
        measured={"unavailable": results.unavailable, "methods": _cells(results), "costs": _costs(results)},
    )


def _cells(results: FeatureResults) -> list[dict[str, Any]]:
    names = {measure.name: key for key, measure in results.plan.measures.items()}
    return [
        {
            "dataset": dataset,
            "method": method,
            "seed": seed,
            "fold": results.data[dataset]["splits"][at],
            "values": {names[name]: values for name, values in cell["values"].items()},
            "own": {names.get(name, name): value for name, value in cell["own"].items()},
        }
        | {name: cell[name] for name in _KEPT}
        for (dataset, method, seed), cells in results.cells.items()
        for at, cell in enumerate(cells)
    ]


def _costs(results: FeatureResults) -> list[dict[str, Any]]:
    series = {cost.key: cost.series for cost in results.plan.costs}
    return [
        {"cost": key, "series": series[key][at].title} | point
        for (key, at), points in results.costs.items()
        for point in points
    ]


def _settings(results: FeatureResults) -> str:
    rows = "\n".join(_setting(results, method) for method in results.plan.methods)
    return (
        '<h3 id="settings">Settings</h3><p class="soft">Of equally good settings the sparser is taken, then the '
        "earlier in the list. Seconds are the median of up to five fits of the chosen setting on the machine of this "
        "run, everything compiled before and choosing left out.</p>"
        '<div class="wide"><table><thead><tr><th>method</th><th>ranker and parameters</th><th>chosen</th>'
        f"<th>seeds</th></tr></thead><tbody>\n{rows}\n</tbody></table></div>"
    )


def _setting(results: FeatureResults, method: Method) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in method.parameters.items())
    code = f"<code>{escape(f'{method.ranker}({given})')}</code>"
    for name, values in method.choose.items():
        code += f"<small>{escape(name)}: {escape(', '.join(_short(value) for value in values))}</small>"
    if method.per_query:
        how = "from these alone" if method.drawn_as == "examples" else "from all rows, with these as basis vectors"
        code += f"<small>{method.per_query} rows of each query are drawn with the seed; learns {how}</small>"
    code += f"<small>{escape(method.note)}</small>" if method.note else ""
    if method.key in results.unavailable:
        code += f'<small class="bad">{escape(results.unavailable[method.key])}</small>'
    cells = [cell for (_, key, _), found in results.cells.items() if key == method.key for cell in found]
    for name, said in (("unfinished", "fits stopped at their limit of rounds"), ("diverged", "settings diverged")):
        count = sum(cell[name] for cell in cells)
        code += f"<small>{count:,} {said}</small>" if count else ""
    how = _how(results, method) if method.choose else "nothing"
    return f"<tr><td>{escape(full_title(method))}</td><td>{code}</td><td>{escape(how)}</td><td>{method.seeds}</td></tr>"


def _how(results: FeatureResults, method: Method) -> str:
    """What a method's parameters are chosen on, in words."""
    by = results.plan.chooses_by(method).title
    how = f"{'the best' if method.rule == 'best' else 'the sparsest within one standard error of the best'} {by} "
    if method.choose_on == "validation":
        how += "on the validation part of each fold; learned from its training part"
        if any(data.reader == "parses" for data in results.plan.datasets.values()):
            how += f"; where there is none, over the queries left out in turn in {method.cv_folds} parts"
    else:
        how += (
            f"over the queries left out in turn, {method.cv_folds} parts of the training and validation part of each "
            "fold together; then learned from both"
        )
    return how + (f"; at most {method.most_used:.1%} of the features" if method.most_used is not None else "")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
