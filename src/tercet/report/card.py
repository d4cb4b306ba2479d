"""A model card: what a model is, what it was learned from, how it does, and where it ends, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tercet.report.value import Report, shown_interval

UNSTATED: Final = "not stated"
_USE: Final = "To order documents like those it was learned from, for queries like those, and to say why."
_LIMITS: Final = (
    "It knows the words of the texts it was learned from. Words that it does not know count for nothing, and are told.",
    "Figures are of queries like those it was learned from. Other people, other times and other documents are other "
    "queries: measure it there, or let it stand against what is served by interleaving the two.",
    "What people clicked or judged is what it repeats, with their habits and their mistakes.",
    "It ranks; it does not know what is true, allowed or safe to show.",
)


def model_card(
    report: Report,
    *,
    title: str,
    kind: str,
    size: str,
    version: str,
    licence: str = UNSTATED,
    data_licence: str = UNSTATED,
    intended_use: str = "",
    contact: str = "",
) -> str:
    """The card of a model with its report.

    Parameters
    ----------
    title, kind, size : what it is called, what it is, and how large
    version : of Tercet
    licence, data_licence : of the model, and of what it was learned from; nobody can guess them
    intended_use : what it is for; a sentence of our own where it is left out
    contact : whom to ask
    """
    lines = [
        "---",
        *(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in _front(report, licence).items()),
        "---",
        "",
        f"# {_line(title)}",
        "",
        f"{kind}. {size}. Made by Tercet {version}.",
        "",
        "## For what it is meant",
        _line(intended_use) or _USE,
        "",
        "## What it was learned from",
        *_data(report),
        "",
        "## How it does",
        *_results(report),
        "",
        "## Where it ends",
        *(f"- {limit}" for limit in (*_LIMITS, *_own_limits(report))),
        "",
        "## Licence",
        f"- The model: {_line(licence)}",
        f"- What it was learned from: {_line(data_licence)}",
    ]
    if contact:
        lines += ["", "## Whom to ask", _line(contact)]
    return "\n".join(lines) + "\n"


def _front(report: Report, licence: str) -> dict[str, Any]:
    """What machines read: the fields that collections of models have in common."""
    front: dict[str, Any] = {"library_name": "tercet", "tags": ["learning-to-rank", "information-retrieval"]}
    if licence != UNSTATED:
        front["license"] = licence
    return front | {"metrics": [report.measure], "accepted": report.accepted}


def _data(report: Report) -> list[str]:
    lines = [f"- {report.n_train:,} training queries. {_line(report.split)}"]
    if report.details is not None:
        name = f"{report.details.name}: " if report.details.name else ""
        told = ", ".join(
            f"{key.removeprefix('n_').replace('_', ' ')} {_shown(value)}" for key, value in report.details.data.items()
        )
        lines.append(f"- {_line(name + told)}")
    lines += [f"- {_line(note)}" for note in report.notes]
    return lines


def _results(report: Report) -> list[str]:
    if not report.systems:
        return ["Nothing was held out to report on."]
    measures = list(report.systems[0].values)
    rows = [
        [one.name, *(shown_interval(*value) for value in one.values.values())]
        for one in (*report.rivals, *report.systems)
    ]
    queries = f"{report.n_test:,} {report.reported_on}" if report.features is None else report.features.reported_on
    lines = [f"On {_line(queries)}, with 95 % intervals:", "", *_table(["", *measures], rows), ""]
    lines.append(_line(report.decision))
    if report.verdict is not None:
        lines.append(f"Verdict: {report.shown_verdict}.")
    lines += [f"- {_line(str(result))}" for result in report.evidence]
    chosen = {str(key): _shown(value) for key, value in report.chosen.items()}
    if chosen:
        lines += [
            "",
            "What was chosen:",
            "",
            *_table(["setting", "value"], [[key, value] for key, value in chosen.items()]),
        ]
    return lines


def _own_limits(report: Report) -> list[str]:
    limits = []
    if not report.accepted:
        limits.append("Learning was declined: the model is its start, and knows nothing of what people prefer.")
    for result in report.evidence:
        if result.name == "new documents" and result.verdict == "worse":
            limits.append("It is worse than its start on documents that answered no training query.")
    if report.crossed:
        limits.append("It was chosen and measured on training queries, each left out of learning in turn.")
    return limits


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines]


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _line(text: str) -> str:
    """One line that is no markup of its own."""
    return " ".join(text.split()).replace("<", "&lt;")


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
