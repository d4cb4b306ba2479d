"""What a reproduction leaves behind: results.json, summary.md, table.txt, CSV and PNG files, a page with everything on
it, and an index over the papers beside it."""

from __future__ import annotations

import base64
from pathlib import Path

from reproductions.figures import Drawing, draw_all, make_drawings
from reproductions.index_page import glance, ran_how, tiles, write_index
from reproductions.overview import PaperOverview, make_overview
from reproductions.paper_results import PaperResults
from reproductions.plan import Method, Plan
from reproductions.runner import short
from reproductions.summary import make_summary
from reproductions.tables import PAST_THE_PAPER, make_tables
from tercet.errors import MissingExtraError
from tercet.report.html import Html, element, join, page
from tercet.report.table import Table, records_as_csv
from tercet.store import write_file_atomically
from tercet.store.canonical import canonical_bytes


def write_results(results: PaperResults, output: Path) -> tuple[list[Table], MissingExtraError | None]:
    """Write tables, figures and the page; returns the tables, and what is missing to draw figures or None.

    Without matplotlib all is written but PNG files. Where the folder has the paper's name, the folder above it gets an
    index over this paper and all others in it.
    """
    output.mkdir(parents=True, exist_ok=True)
    tables, drawings = make_tables(results), make_drawings(results)
    missing = None
    try:
        draw_all(drawings)
    except MissingExtraError as error:
        missing = error
    for table in tables:
        write_file_atomically(output / f"{table.key}.csv", table.as_csv().encode())
    for drawing in (drawing for drawing in drawings if drawing.rows):
        write_file_atomically(output / f"{drawing.key}.csv", records_as_csv(drawing.rows).encode())
        if drawing.png is not None:
            write_file_atomically(output / f"{drawing.key}.png", drawing.png)
    overview = make_overview(results, tables, drawings)
    text = "\n\n".join(table.as_text() for table in tables) + "\n"
    write_file_atomically(output / "table.txt", text.encode())
    write_file_atomically(output / "summary.md", make_summary(results, tables, overview).encode())
    numbers = results.as_json()
    numbers["overview"] = overview.as_json()
    numbers["tables"] = {table.key: table.records for table in tables}
    numbers["figures"] = {drawing.key: drawing.rows for drawing in drawings if drawing.rows}
    write_file_atomically(output / "results.json", canonical_bytes(numbers))
    folder, key = output.resolve(), results.plan.paper.key
    is_among_papers = folder.name in (key, f"{key}-quick") and write_index(folder.parent) is not None
    lack = "" if missing is None else missing.lack
    content = _page(results, tables, drawings, overview, lack, index="../index.html" if is_among_papers else None)
    write_file_atomically(output / "index.html", content.encode())
    return tables, missing


def _page(
    results: PaperResults,
    tables: list[Table],
    drawings: list[Drawing],
    overview: PaperOverview,
    lack: str,
    index: str | None,
) -> str:
    """The page as HTML; pictures are inside it."""
    paper = results.plan.paper
    all_papers = None if index is None else element("a", "All papers", href=index)
    body: list[object] = [
        element("p", "Tercet reproduction", " · " if all_papers else None, all_papers, class_="kicker"),
        element("h1", paper.title),
        element("p", f"{paper.authors}. {paper.venue}."),
        element(
            "p",
            f"Ours, {_what_ours_are(results.plan)}, beside the printed number, the difference and a verdict. Printed "
            f"numbers come from the paper, all others from this run: {ran_how(overview)}.",
            class_="soft",
        ),
        *_warnings(results),
        tiles([overview]),
        element("h2", "At a glance"),
        glance(overview.items),
    ]
    if paper.notes:
        body += [element("h2", "What to know"), element("ul", *(element("li", note) for note in paper.notes))]
    body.append(element("h2", "The paper"))
    for section in ("", PAST_THE_PAPER):
        if section and any(table.section == section for table in tables):
            lead = "Nothing printed to compare with: what else the package can do here."
            body += [element("h2", section), element("p", lead)]
        tests = {comparison.key for comparison in results.plan.comparisons}
        own = [table for table in tables if table.section == section]
        body += [table.as_section() for table in own if table.key not in tests]
        folded = [table.as_section() for table in own if table.key in tests]
        if folded:
            summary = f"Paired tests, which decide the orderings ({len(folded)})"
            body.append(element("details", element("summary", summary), *folded))
        body += [_figure(drawing, lack) for drawing in drawings if drawing.rows and drawing.section == section]
    body += [_settings(results), *_left_out(results)]
    return page(f"{paper.key}, reproduced", element("main", join(body, "\n")), images=True)


def _what_ours_are(plan: Plan) -> str:
    """What our numbers are, as in "mean over seeds ± half their range"."""
    meanings = {"seeds": "half the range of the seeds", "standard error": "the standard error over queries"}
    spreads = {measure.spread for measure in plan.measures.values()}
    over = "mean over seeds"
    if any(data.task == "rows" for data in plan.datasets.values()):
        over = "mean over seeds and the test parts of the folds"
    return f"{over} ± {' or '.join(text for spread, text in meanings.items() if spread in spreads)}"


def _warnings(results: PaperResults) -> list[Html]:
    """That it was quick, and in a sentence each what was missing, diverged or was cut; lists are at the end."""
    lines: list[tuple[str, bool]] = []
    if results.quick:
        text = "A quick run: little of everything. It shows that everything works; its numbers mean little."
        lines.append((text, False))
    if results.missing:
        names = ", ".join(results.plan.datasets[name].title for name in results.missing)
        lines.append((f"Not here, so not run: {names}; ", True))
    if results.failed:
        lines.append((f"{len(results.failed)} fit{'s' if len(results.failed) > 1 else ''} failed; ", True))
    if results.cut:
        n_left = sum(line.endswith("left out") for line in results.cut)
        n_pieces = sum(map(len, results.cells.values())) + len(results.curves) + sum(map(len, results.costs.values()))
        text = f"left out {n_left:,} of {n_pieces + n_left + len(results.failed):,} fits"
        n_short = len(results.cut) - n_left
        text += f" and cut {n_short:,} short" if n_short else ""
        lines.append((f"The budget of {results.budget:g} minutes {text}; ", True))
    the_list = element("a", "the list is at the end", href="#left-out")
    return [element("p", line, join([the_list, "."]) if more else None, class_="warning") for line, more in lines]


def _left_out(results: PaperResults) -> list[Html]:
    """Folded lists of what was missing, failed, or was cut."""
    missing = [f"{results.plan.datasets[name].title}: {reason}" for name, reason in results.missing.items()]
    groups = {
        f"Data sets that are not here ({len(missing)})": missing,
        f"Failed ({len(results.failed)})": results.failed,
        f"What the budget left out or cut short ({len(results.cut)})": results.cut,
    }
    lists = [
        element("details", element("summary", title), element("ul", *(element("li", line) for line in lines)))
        for title, lines in groups.items()
        if lines
    ]
    return [element("section", element("h3", "What has not run", id="left-out"), *lists)] if lists else []


def _figure(drawing: Drawing, lack: str) -> Html:
    if drawing.png is None:
        shown = element("p", f"Not drawn: {lack}. The numbers are in {drawing.key}.csv.", class_="soft")
    else:
        source = f"data:image/png;base64,{base64.b64encode(drawing.png).decode()}"
        caption = element("figcaption", drawing.caption) if drawing.caption else None
        shown = element("figure", element("div", element("img", alt=drawing.title, src=source)), caption)
    return element("section", element("h3", drawing.title, id=drawing.key), shown)


# -- settings ---------------------------------------------------------------------------------------------------------


def _settings(results: PaperResults) -> Html:
    """Every method with its parameters and how those were chosen."""
    plan = results.plan
    notes = []
    if any(method.preferences for method in plan.methods):
        notes.append(
            f"Preferences are drawn with the seed; test preferences ({plan.test_preferences:,}) with 1000 + the seed. "
            "A tie counts as an error. Seconds are those of the fastest seed on the machine of this run, thinning "
            "included and choosing parameters left out; those of a blend are what finding the amount took."
        )
    if any(data.task == "rows" for data in plan.datasets.values()):
        notes.append(
            "Of equally good settings the sparser is taken, then the earlier in the list. Seconds are the median of up "
            "to five fits of the chosen setting on the machine of this run, everything compiled before and choosing "
            "left out."
        )
    head = ("method", "ranker and parameters", "chosen", "preferences", "seeds", "data sets")
    rows = [element("tr", *(element("td", cell) for cell in _setting(results, method))) for method in plan.methods]
    table = element(
        "table",
        element("thead", element("tr", *(element("th", name, scope="col") for name in head))),
        element("tbody", join(rows, "\n")),
    )
    return element(
        "section",
        element("h3", "Settings", id="settings"),
        *(element("p", note, class_="soft") for note in notes),
        element("details", element("summary", f"All {len(rows)} methods"), element("div", table, class_="scroll")),
    )


def _setting(results: PaperResults, method: Method) -> list[object]:
    plan = results.plan

    def listed(parameters: dict[str, object]) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in parameters.items())

    code = f"{method.ranker}({listed(method.parameters)})"
    if method.blend:
        code = " + amount * ".join(plan.model(key).title for key in method.blend)
    details = [f"{name}: {', '.join(short(value) for value in values)}" for name, values in method.choose.items()]
    details += _how_it_learns(method)
    for dataset, parameters in method.by_dataset.items():
        details.append(f"{plan.datasets[dataset].title}: {listed(parameters)}")
    details += [method.note] if method.note else []
    cells = [cell for (_, key, _), own in results.cells.items() if key == method.key for cell in own]
    for name, text in (("unfinished", "fits stopped at their limit of rounds"), ("diverged", "settings diverged")):
        count = sum(cell["facts"].get(name, 0) for cell in cells)
        details += [f"{count:,} {text}"] if count else []
    reason = results.unavailable.get(method.key)
    what = [element("code", code), *(element("small", detail) for detail in details)]
    what += [element("small", reason, class_="bad")] if reason else []
    datasets = ", ".join(plan.datasets[name].title for name in plan.datasets_of(method))
    how = _how_it_chooses(plan, method) if method.choose else "nothing"
    preferences = f"{method.preferences:,}" if method.preferences else "–"
    return [method.full_title, join(what), how, preferences, str(plan.n_seeds(method)), datasets]


def _how_it_learns(method: Method) -> list[str]:
    """What is not usual about what a method learns from."""
    details = []
    if method.per_query:
        how = "from these alone" if method.drawn_as == "examples" else "from all rows, with these as basis vectors"
        details.append(f"{method.per_query} rows of each query are drawn with the seed; learns {how}")
    if method.map is not None:
        details.append("map: " + ", ".join(f"{name} {value}" for name, value in vars(method.map).items() if value))
    if method.share < 1:
        details.append(f"share of the links: {method.share}")
    if method.second:
        details.append(f"second objective: {method.second}")
    if method.early_stop:
        details.append("the best on validation is kept")
    if method.uniform_over == "queries":
        details.append("a query is drawn first, then one of its links")
    if method.parallel:
        details.append("learned from translations, not from preferences")
    return details


_HOW_FAR = {
    "full": "after all steps",
    "halving": "the better half of the settings after a quarter of the steps, the best after one half",
}


def _how_it_chooses(plan: Plan, method: Method) -> str:
    """What a method's parameters are chosen on, in words."""
    if method.choose_on == "training":
        return f"the least error on other training preferences, {_HOW_FAR[method.choose_how]}"
    if method.choose_on == "validation" and plan.datasets[plan.datasets_of(method)[0]].task == "links":
        return f"the best MAP on validation queries, {_HOW_FAR[method.choose_how]}"
    by = plan.measures[plan.chooses_by(method)].title
    how = f"{'the best' if method.rule == 'best' else 'the sparsest within one standard error of the best'} {by} "
    if method.choose_on == "validation":
        how += "on the validation part of each fold; learned from its training part"
        if any(plan.datasets[name].reader == "parses" for name in plan.datasets_of(method)):
            how += f"; where there is none, over the queries left out in turn in {method.cv_folds} parts"
    elif method.choose_on == "leave-query-out":
        how += "over the queries, each left out by itself; then learned from all of them"
    else:
        how += (
            f"over the queries left out in turn, {method.cv_folds} parts of the training and validation part of each "
            "fold together; then learned from both"
        )
    return how + (f"; at most {method.most_used:.1%} of the features" if method.most_used is not None else "")
