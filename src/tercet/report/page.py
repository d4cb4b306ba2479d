"""A report as a self-contained page: no network, no script, no further file."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from os import PathLike
from typing import Any

from tercet.choose import ThreeWay
from tercet.data.lines import write_atomically
from tercet.report.charts import bars, intervals
from tercet.report.details import ByQuery, Details, FeatureDetails, QueryChange, SystemComparison
from tercet.report.html import Html, fill, join, page
from tercet.report.table import Cell, Table, Tone
from tercet.report.value import Report, SystemResult, shown_interval, shown_p

PAGE_NAME = "report.html"  # beside a saved model
Weighted = Sequence[tuple[str, float]]  # features by name, strongest first
_MOST_FEATURES = 50  # in the table
_TONES: dict[ThreeWay | None, Tone] = {"better": "good", "worse": "bad"}
RULE = (
    "What was learned is used if its expected gain, on queries that nothing was learned from, is more than one "
    "standard error, or two with fewer than 60 queries. The expected gain is over known answers, new answers and "
    "repeated queries. Otherwise the model is the start itself."
)


def write_report_page(report: Report, path: str | PathLike[str], weights: Weighted = ()) -> None:
    """Write the page of a report atomically, with the ``weights`` of a feature model, strongest first."""
    with write_atomically(path) as stream:
        stream.write(make_report_page(report, weights))


def make_report_page(report: Report, weights: Weighted = ()) -> str:
    """Make the page as HTML."""
    details, features = report.details, report.features
    name = (details.name if details else "") or ("A text model" if features is None else "A model of features")
    sections = [_header(report, name)]
    if report.systems:
        sections.append(_systems(report))
    if report.evidence and report.compared is not None:
        sections.append(_evidence(report))
    if details is not None:
        if details.by_query is not None:
            sections.append(_by_query(report, details.by_query))
        if details.pairs:
            sections.append(_pairs(details))
        if details.past:
            sections.append(_past(details))
    if weights:
        sections.append(_weights(weights))
    if features is not None and features.path:
        sections.append(_path(report, features))
    sections.append(_facts(report))
    main = fill(
        """<main>$sections
<footer><p class="soft">Written by Tercet. Everything on this page is in the saved model: </p>
<p class="soft"><code>tercet report MODEL -o report.html</code></p></footer></main>""",
        sections=join(sections, "\n"),
    )
    return page(f"{name}: fit report", main)


# -- what comes first -------------------------------------------------------------------------------------------------


def _header(report: Report, name: str) -> Html:
    measure = report.measure
    queries = _reported_on(report)
    if not report.systems:
        lead = "Nothing was held out to report on."
    elif report.accepted and len(report.systems) > 1:
        start, model = report.systems[-2:]
        value = model.values[measure][0]
        expected = (
            f"is expected to change by {report.expected[0]:+.3f}; it " if report.crossed and report.expected else ""
        )
        lead = f"{measure} {expected}went from {start.values[measure][0]:.3f} with {start.name} to {value:.3f}, on "
        lead += f"{queries}{_interval_note(report)}."
    else:
        model = report.systems[-1]
        value = model.values[measure][0]
        lead = f"The model is {model.name}, with {measure} of {value:.3f} on {queries}."
        if report.rejected is not None:
            lead += f" What was learned has {report.rejected.values[measure][0]:.3f} there{_interval_note(report)}"
            lead += "." if report.verdict is None else f": {report.verdict}."
    badge, tone = "learning rejected", "soft"
    if report.accepted:
        badge, tone = report.verdict or "not compared", str(_TONES.get(report.verdict, "soft"))
    return fill(
        """<header><p class="kicker">Tercet fit report</p>
<h1>$name</h1>
<p class="lead"><span class="badge $tone">$badge</span>$lead</p>
$decision<dl class="tiles">$tiles</dl></header>""",
        name=name,
        tone=tone,
        badge=badge,
        lead=lead,
        decision=join(map(_soft, report.decision.splitlines())),
        tiles=join(_tiles(report)),
    )


def _interval_note(report: Report) -> str:
    if report.change is None:
        return ""
    _, low, high, _ = report.change
    return f" (95 % interval of the difference {low:+.3f} to {high:+.3f})"


def _tiles(report: Report) -> list[Html]:
    details = report.details
    tiles = []
    for model in report.systems[-1:]:
        mean, low, high = model.values[report.measure]
        tiles.append(_tile(f"{report.measure}, {model.name}", f"{mean:.3f}", _ends(low, high) or None))
    if report.change is not None and report.compared is not None:
        difference, low, high, p_value = report.change
        under = f"{low:+.3f} to {high:+.3f}, " + shown_p(p_value).replace(" ", "\N{NO-BREAK SPACE}")
        learned, start = report.compared
        against = f"against {start.name}" if report.accepted else f"rejected: {learned.name} against {start.name}"
        tiles.append(_tile(against, f"{difference:+.3f}", under))
    if details is not None and details.by_query is not None:
        changed = details.by_query
        figure = f"{changed.n_better:,} : {changed.n_worse:,}"
        tiles.append(_tile("queries better, worse", figure, f"{changed.n_same:,} the same"))
    weights = None if details is None else f"{shown_bytes(details.size.n_bytes)} of weights"
    tiles.append(_tile("learned in", f"{report.seconds:.1f} s", weights))
    return tiles


def _tile(name: str, figure: str, under: str | None) -> Html:
    below = None if under is None else fill("<small>$under</small>", under=under)
    return fill(
        """<div class="tile"><dt>$name</dt><dd><div class="figure">$figure</div>$below</dd></div>""",
        name=name,
        figure=figure,
        below=below,
    )


# -- systems ----------------------------------------------------------------------------------------------------------


def _systems(report: Report) -> Html:
    measure = report.measure
    systems = [*report.systems[:-1], *report.rivals, report.systems[-1]]  # starts, rivals, and the model last
    ours = len(systems) - 1
    rows = []
    for system in systems:
        mean, low, high = system.values[measure]
        rows.append((system.name, mean, None if isnan(low) else low, None if isnan(high) else high))
    values = "; ".join(f"{s.name} {shown_interval(*s.values[measure])}" for s in systems)
    comparisons = {c.other: c for c in report.details.comparisons} if report.details else {}
    table = Table("Table of systems", ["system", *systems[0].values], n_labels=1, marked=ours)
    table.head += [f"{systems[ours].name} − system", "p"] if comparisons else []
    table.rows = [_system_row(system, comparisons) for system in systems]
    note = (
        f"The difference is in {measure}, with its 95 % interval and a paired t-test, corrected after Holm for "
        f"{len(comparisons)} comparisons."
        if comparisons
        else ""
    )
    chart = intervals(rows, ours=ours, label=f"{measure} of each system with its 95 % interval: {values}")
    return _section(
        "Against other systems",
        _soft(f"Means over {_measured_on(report)}. {report.split}"),
        _figure(chart, f"{measure}, mean and 95 % interval."),
        table.as_html(),
        _soft(note) if note else None,
        _paragraph(RULE) if report.details else None,
    )


def _reported_on(report: Report) -> str:
    """Number and kind of the queries of the table."""
    if report.features is not None:
        return report.features.reported_on
    many = report.reported_on
    return shown_count(report.n_test, many.replace("queries", "query"), many)


def _measured_on(report: Report) -> str:
    if report.features is not None:
        return report.features.reported_on
    if report.crossed:
        queries = shown_count(report.n_test, "training query", "training queries")
        if report.n_test > report.n_train:
            queries = f"{report.n_train:,} training queries, {report.n_test:,} times in all"
        return f"{queries}, each measured by models that learned without it, with a setting that others chose"
    return f"{shown_count(report.n_test, 'query', 'queries')} that nothing was learned from or chosen on"


def _evidence(report: Report) -> Html:
    """Section on the gain by case and source of evidence."""
    assert report.compared is not None
    learned, start = report.compared
    table = Table("By part", ["left out", "measure", start.name, learned.name, "difference", "verdict"], n_labels=2)
    for result in report.evidence:
        cells = []
        for system in (result.start, result.learned):
            mean, low, high = system.values[result.measure]
            cells.append(Cell(f"{mean:.3f}", _ends(low, high)))
        difference, under = ("", "")
        if result.change is not None:
            change, low, high, _ = result.change
            difference, under = f"{change:+.3f}", f"{low:+.3f} to {high:+.3f}"
        tone = _TONES.get(result.verdict, "plain")
        cells += [Cell(difference, under), Cell(result.verdict or "", tone=tone)]
        table.rows.append([Cell(result.about), Cell(result.shown_measure), *cells])
    about = (
        f"{learned.name} against {start.name} on left-out queries, with 95 % intervals. Known answers also answer "
        "queries that were learned from, new answers do not; where one kind is measured, the other is left out of the "
        "ranking."
    )
    return _section("Where the gain comes from", _soft(about), table.as_html())


def _system_row(system: SystemResult, comparisons: dict[str, SystemComparison]) -> list[Cell]:
    cells = [Cell(system.name)]
    for mean, low, high in system.values.values():
        cells.append(Cell(f"{mean:.3f}", _ends(low, high)))
    if comparisons:
        against = comparisons.get(system.name)
        if against is None:
            return [*cells, Cell(""), Cell("")]
        p_value = shown_p(against.p_corrected).removeprefix("p = ").removeprefix("p ")
        cells += [Cell(f"{against.difference:+.3f}", f"{against.low:+.3f} to {against.high:+.3f}"), Cell(p_value)]
    return cells


# -- queries ----------------------------------------------------------------------------------------------------------


def _by_query(report: Report, changes: ByQuery) -> Html:
    total = changes.n_better + changes.n_same + changes.n_worse
    counts = f"{changes.n_better:,} better, {changes.n_same:,} the same, {changes.n_worse:,} worse"
    lower = not report.higher_is_better
    all_shown = len(changes.differences) == total
    queries = "each query" if all_shown else f"{len(changes.differences):,} of {total:,} queries, evenly spaced"
    chart = bars(
        changes.differences,
        label=f"Change of {report.measure} of {queries}, best first: {counts}.",
        y_label=f"change of {report.measure}",
        lower_is_better=lower,
    )
    caption = f"Change of {report.measure} of {queries}, sorted{'; lower is better' if lower else ''}."
    tables = [_changes("Largest gains", changes.gains), _changes("Largest losses", changes.losses)]
    return _section(
        "Query by query",
        _paragraph(f"{report.systems[-1].name} against {changes.other} on {_reported_on(report)}: {counts}."),
        _figure(chart, caption),
        fill("""<div class="two">$tables</div>""", tables=join(tables)),
    )


def _changes(title: str, changes: tuple[QueryChange, ...]) -> Html:
    if not changes:
        return Html()
    table = Table(title, ["query", "before", "after"], n_labels=1)
    for change in changes:
        table.rows.append([Cell(change.text, change.qid), Cell(f"{change.before:.3f}"), Cell(f"{change.after:.3f}")])
    return fill("""<div class="queries"><h3>$title</h3>$table</div>""", title=title, table=table.as_html())


# -- what was learned, and from what ----------------------------------------------------------------------------------


def _pairs(details: Details) -> Html:
    """The strongest learned pairs."""
    names = [
        (fill("""$query<span class="soft"> → </span>$doc""", query=query_word, doc=doc_word), f"{weight:+.2f}")
        for query_word, doc_word, weight in details.pairs
    ]
    about = (
        "How much a word in a document counts for a word in the query, by weight times the rarity of both; each word "
        "once on each side."
    )
    return _section("Strongest learned pairs", _soft(about), _weight_list(names))


def _past(details: Details) -> Html:
    """Past queries with the strongest evidence."""
    names = [
        (fill("""$query<span class="soft"> → </span>$doc""", query=query, doc=doc_id), f"{evidence:+.2f}")
        for query, doc_id, evidence in details.past
    ]
    about = "Past queries, the document that answered each, and the evidence for it; every query once."
    return _section("Past queries", _soft(about), _weight_list(names))


def _weights(weights: Weighted) -> Html:
    """The features with a weight, strongest first."""
    rest = len(weights) - _MOST_FEATURES
    return _section(
        "Features with a weight",
        _soft("A score is the sum of weight times value, of features as they are given."),
        _weight_list([(name, f"{weight:+.4g}") for name, weight in weights[:_MOST_FEATURES]]),
        _soft(f"and {rest:,} more with smaller weights") if rest > 0 else None,
    )


def _weight_list(rows: Sequence[tuple[str, str]]) -> Html:
    item = """<li><span class="words">$name</span><span class="weight $tone">$weight</span></li>"""
    items = [fill(item, name=name, tone="good" if weight[0] == "+" else "bad", weight=weight) for name, weight in rows]
    return fill("""<ol class="pairs">$items</ol>""", items=join(items))


def _path(report: Report, features: FeatureDetails) -> Html:
    """Section on the penalties: used features, and the measure on the queries of the choice."""
    assert features.chosen is not None
    chosen = features.path[features.chosen]
    table = Table("Penalties", ["penalty", "features", report.measure], n_labels=1, marked=features.chosen)
    table.rows = [
        [Cell(f"{point.l1:.5g}"), Cell(f"{point.n_used:,}"), Cell(f"{point.value:.4f}")] for point in features.path
    ]
    about = (
        f"{len(features.path)} penalties, from the weakest that leaves no feature; taken is the {features.choose}, "
        f"{chosen.l1:.5g}, with {chosen.n_used:,} of {features.n_features:,} features. The values are of the queries "
        "that chose."
    )
    return _section("What sparsity costs", _soft(about), table.as_html())


_DATA_LABELS = {
    "kind": "kind",
    "n_docs": "documents",
    "n_texts": "texts",
    "n_queries": "queries in all",
    "n_judgements": "judgements learned from",
    "n_preferences": "preferences learned from",
    "n_lists": "lists with clicks learned from",
    "n_clicks": "clicks learned from",
    "n_click_preferences": "preferences of these clicks",
    "draws": "share of the draws",
    "n_classes": "classes",
    "n_words": "words",
    "mean_length": "words a document, mean",
    "tokenizer": "tokenizer",
    "stop_words": "stop words",
    "stemmer": "stemmer",
    "ngrams": "words in a row",
}
_CHOSEN_LABELS = {
    "vectors": "start",
    "start": "first factors",
    "n_components": "components",
    "identity_weight": "identity weight",
    "blend": "identity added by blending",
    "scale_documents": "per-document scale",
}


def _facts(report: Report) -> Html:
    """Facts of the data, the model and the settings, in blocks."""
    details = report.details
    data: list[tuple[str, object]] = [
        ("training queries", report.n_train),
        ("queries that chose", report.n_validation),
        (report.reported_on, report.n_test),
    ]
    if report.features is not None:
        data = data[:1]
    chosen: list[tuple[str, object]] = [("chosen by", report.measure)]
    chosen += _labeled(_CHOSEN_LABELS, report.chosen)
    blocks = []
    if details is not None:
        data = _labeled(_DATA_LABELS, details.data) + data
        chosen.append(("seed", details.random_state))
        size = details.size
        entries = size.n_query_words * size.n_doc_words
        blocks.append(
            _block(
                "Model",
                [
                    ("W", f"{size.n_query_words:,} × {size.n_doc_words:,}"),
                    ("parts", size.parts),
                    ("numbers stored", size.n_stored),
                    ("share of W's entries", f"{size.n_stored / entries:.2%}"),
                    ("bytes of weights", shown_bytes(size.n_bytes)),
                    ("density, W's entries not 0", f"{size.density:.2%}"),
                ],
            )
        )
    if (features := report.features) is not None:
        used: list[tuple[str, object]] = [("learned", features.ranker), ("features", features.n_features)]
        used += [] if features.n_used is None else [("with a weight", features.n_used)]
        blocks.append(_block("Model", used))
    chosen.append(("seconds of learning", f"{report.seconds:.1f}"))
    blocks = [_block("Data", data), *blocks, _block("Settings", chosen)]
    return _section(
        "Data, model and settings",
        *map(_soft, report.notes),
        fill("""<div class="facts">$blocks</div>""", blocks=join(blocks)),
    )


def _labeled(labels: dict[str, str], values: dict[str, Any]) -> list[tuple[str, object]]:
    """Values in the order of labels, then further values by name."""
    labeled = [(label, values[key]) for key, label in labels.items() if key in values]
    return labeled + [(key.replace("_", " "), values[key]) for key in sorted(values) if key not in labels]


def _block(title: str, facts: list[tuple[str, object]]) -> Html:
    rows = [fill("<div><dt>$name</dt><dd>$value</dd></div>", name=n, value=shown_value(v)) for n, v in facts]
    return fill("<div><h3>$title</h3><dl>$rows</dl></div>", title=title, rows=join(rows))


# -- how sections, charts and values are shown ------------------------------------------------------------------------


def _section(title: str, *parts: Html | None) -> Html:
    """A section with a title; None among the parts is left out."""
    inside = join((part for part in parts if part is not None), "\n")
    return fill("<section><h2>$title</h2>\n$inside</section>", title=title, inside=inside)


def _figure(chart: Html, caption: str) -> Html:
    return fill("<figure>$chart<figcaption>$caption</figcaption></figure>", chart=chart, caption=caption)


def _paragraph(sentences: str) -> Html:
    return fill("<p>$sentences</p>", sentences=sentences)


def _soft(note: str) -> Html:
    """A paragraph in the color of notes."""
    return fill("""<p class="soft">$note</p>""", note=note)


def _ends(low: float, high: float) -> str:
    """An interval in words; empty for NaN."""
    return "" if isnan(low) else f"{low:.3f} to {high:.3f}"


def shown_value(value: object) -> str:
    """Format the value of a fact."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, list):
        return " to ".join(map(str, dict.fromkeys(value)))
    return str(value)


def shown_count(n: int, singular: str, plural: str) -> str:
    """Format a number with a noun."""
    return f"{n:,} {singular if n == 1 else plural}"


def shown_bytes(n: int) -> str:
    """Format a number of bytes."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
