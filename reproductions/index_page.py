"""Papers at a glance, as HTML: the list on a paper's page, and the index over all papers beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from reproductions.check import find_plan, known_papers
from reproductions.overview import (
    ORDERINGS,
    STATUS_TONES,
    OverviewItem,
    PaperOverview,
    added,
    is_past,
    planned_overview,
)
from reproductions.tables import PAST_THE_PAPER
from reproductions.verdicts import COUNT_TONES
from tercet.errors import TercetError
from tercet.report.html import Html, element, join, page
from tercet.report.table import Tone
from tercet.store import write_file_atomically
from tercet.store.canonical import parse_json

_TITLE = "Papers, reproduced"
_MARK = f"<title>{_TITLE}</title>"
_FILLS: dict[Tone, str] = {"good": "better", "bad": "worse", "plain": "open"}


# -- one paper --------------------------------------------------------------------------------------------------------


def glance(items: tuple[OverviewItem, ...], page_of: str = "") -> Html:
    """A line for each table and figure, with links to them; paired tests, and those past the paper, are folded."""
    groups = {
        "": [item for item in items if not is_past(item) and item.kind != "tests"],
        "Paired tests, which decide the orderings": [item for item in items if item.kind == "tests"],
        PAST_THE_PAPER: [item for item in items if is_past(item)],
    }
    parts = []
    for name, group in groups.items():
        lines = element("ul", join((_line(item, page_of) for item in group), "\n"), class_="glance")
        if name and group:
            lines = element("details", element("summary", f"{name} ({len(group)})"), lines)
        parts += [lines] if group else []
    return join(parts)


def _line(item: OverviewItem, page_of: str) -> Html:
    place, _, title = item.title.partition(": ")
    shown = [element("strong", place), f" {title}"] if title else [element("strong", place)]
    if item.status in ("not run", "not to be had"):
        name = element("span", *shown)
    else:
        name = element("a", *shown, href=f"{page_of}#{item.key}")
    details = [counted(item.counts)] if item.counts else []
    details += [item.note] if item.note else []
    if item.fits and item.fits[0] < item.fits[1] and item.status != "not to be had":
        details.append(f"{item.fits[0]} of {item.fits[1]} fits have run")
    return element(
        "li",
        element("div", name, element("small", "; ".join(details)) if details else None),
        share_bar(item.counts),
        _badge(item),
    )


def _badge(item: OverviewItem) -> Html:
    text = {"shown": "drawn"}.get(item.status, item.status) if item.kind == "figure" else item.status
    return element("span", text, class_=f"badge {STATUS_TONES.get(item.status, 'soft')}")


def counted(counts: dict[str, int]) -> str:
    """Counts in words, as in "12 within tolerance, 1 short"."""
    return ", ".join(f"{counts[name]:,} {name}" for name in COUNT_TONES if counts.get(name))


def share_bar(counts: dict[str, int]) -> Html:
    """Verdicts as a bar: what holds, what is open, what falls short; nothing where there are none."""
    total = sum(counts.values())
    if not total:
        return element("span")
    parts, x = [], 0.0
    for tone in ("good", "plain", "bad"):
        width = 100 * sum(n for name, n in counts.items() if COUNT_TONES[name] == tone) / total
        if width:
            parts.append(element("path", class_=_FILLS[tone], d=f"M{x:.2f} 0h{width:.2f}v8h-{width:.2f}z"))
        x += width
    label = counted(counts)
    look = {"viewBox": "0 0 100 8", "preserveAspectRatio": "none", "class_": "share"}
    return element("svg", element("title", label), *parts, role="img", aria_label=label, **look)


def tiles(overviews: list[PaperOverview]) -> Html:
    """Numbers reached, orderings, figures and fits, of one paper or of all."""
    numbers = added(overview.counts("table") for overview in overviews)
    orderings = added(overview.counts("orderings") for overview in overviews)
    reached = sum(n for name, n in numbers.items() if COUNT_TONES[name] == "good")
    judged = sum(n for name, n in numbers.items() if COUNT_TONES[name] != "plain" or name.startswith("short"))
    others = {name: n for name, n in numbers.items() if COUNT_TONES[name] != "good"}
    figures = [item for o in overviews for item in o.items if item.kind == "figure" and not item.section]
    drawn = sum(item.status in ("shown", "cut") for item in figures)
    shown = [_tile("printed numbers reached", f"{reached:,} of {judged:,}" if judged else "–", counted(others))]
    n_orderings = sum(orderings.get(name, 0) for name in ORDERINGS)
    held = f"{orderings.get('hold', 0):,} of {n_orderings:,}" if n_orderings else "–"
    shown.append(_tile("orderings that hold", held, counted({k: orderings[k] for k in orderings if k != "hold"})))
    shown.append(_tile("figures drawn", f"{drawn} of {len(figures)}", ""))
    n_run, n_all = (sum(overview.fits[i] for overview in overviews) for i in (0, 1))
    shown.append(_tile("fits run", f"{n_run:,} of {n_all:,}", ""))
    return element("dl", *shown, class_="tiles")


def _tile(name: str, figure: str, under: str) -> Html:
    below = element("small", under) if under else None
    shown = element("dd", element("div", figure, class_="figure"), below)
    return element("div", element("dt", name), shown, class_="tile")


def ran_how(overview: PaperOverview) -> str:
    """The run in a few words: version, seeds, fits, time."""
    n_run, n_all = overview.fits
    parts = [f"Tercet {overview.version}", f"{overview.seeds} seed{'s' if overview.seeds != 1 else ''}"]
    parts.append(f"{n_run:,} of {n_all:,} fits")
    if overview.seconds >= 1:
        jobs = f" in {overview.jobs} jobs at once" if overview.jobs > 1 else ""
        parts.append(f"{_duration(overview.seconds)} of work{jobs}")
    if overview.card:
        parts.append(f"learned on {overview.card}")
    if overview.budget is not None and overview.n_cut:
        parts.append(f"cut by a budget of {overview.budget:g} minutes")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


# -- all papers -------------------------------------------------------------------------------------------------------


def write_index(folder: Path) -> Path | None:
    """Write ``index.html`` of all papers whose results are in folders of this one.

    None, and nothing is written, where there is an ``index.html`` of somebody else.
    """
    path = folder / "index.html"
    if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace")[:20_000]:
        return None
    found = {child.name: read_overview(child) for child in sorted(folder.iterdir()) if child.is_dir()}
    overviews = {name: one for name, one in found.items() if isinstance(one, PaperOverview)}
    unread = {name: one for name, one in found.items() if isinstance(one, UnreadRun)}
    write_file_atomically(path, make_index(overviews, unread).encode())
    return path


@dataclass(frozen=True)
class UnreadRun:
    """Results that another version of Tercet wrote in another form: of which paper, by which version."""

    key: str
    version: str


def read_overview(folder: Path) -> PaperOverview | UnreadRun | None:
    """What a folder's results.json says; None where there is none of a paper."""
    path = folder / "results.json"
    try:
        content = parse_json(path.read_bytes(), str(path))
    except (OSError, TercetError):
        return None
    if not isinstance(content, dict):
        return None
    try:
        return PaperOverview.from_json(content.get("overview"))
    except TercetError:
        key, version = content.get("paper"), content.get("version")
        return UnreadRun(key, version if isinstance(version, str) else "") if isinstance(key, str) else None


def make_index(found: dict[str, PaperOverview], unread: Mapping[str, UnreadRun] = MappingProxyType({})) -> str:
    """The page, from overviews by the names of their folders; packaged papers that have not run are named.

    A quick run is left out where there is a complete one of the same paper, and so is a run that cannot be read where
    there is one that can.
    """
    complete = {overview.key for overview in found.values() if not overview.quick}
    shown = {name: one for name, one in found.items() if not one.quick or one.key not in complete}
    order = {key: number for number, key in enumerate(known_papers())}
    names = sorted(shown, key=lambda name: (order.get(shown[name].key, len(order)), name))
    overviews = [shown[name] for name in names]
    read = {one.key for one in overviews}
    to_repeat = {name: run for name, run in unread.items() if run.key not in read}
    older = {run.key for run in to_repeat.values()}
    absent = [key for key in known_papers() if key not in read | older]
    n_papers, n_all = len(read), len(read) + len(older) + len(absent)
    lead = f"{n_papers} of {n_all} papers have run." if n_papers < n_all else f"All {n_papers} papers have run."
    if older:
        lead += f" {len(older)} ran with another version of Tercet, and should be run again."
    lead += " Every table and figure of each: what holds, what falls short, and what is not to be had."
    body: list[object] = [
        element("p", "Tercet reproductions", class_="kicker"),
        element("h1", _TITLE),
        element("p", lead, class_="lead"),
    ]
    if any(one.quick for one in overviews):
        quick = ", ".join(one.key for one in overviews if one.quick)
        body.append(element("p", f"Quick runs, whose numbers mean little: {quick}.", class_="warning"))
    body += [tiles(overviews), *(_paper(name, shown[name]) for name in names)]
    body += [*(_unread_paper(name, run) for name, run in to_repeat.items()), *map(_absent_paper, absent), _legend()]
    return page(_TITLE, element("main", join(body, "\n")))


def _paper(folder: str, overview: PaperOverview) -> Html:
    address = f"{folder}/index.html"
    badge = element("span", "quick run", class_="badge bad") if overview.quick else None
    lines = [f"{overview.authors}. {overview.venue}.", f"{ran_how(overview)}."]
    if overview.missing:
        lines.append(f"Not here: {', '.join(overview.missing)}.")
    sums = {"Numbers": counted(overview.counts("table")), "Orderings": counted(overview.counts("orderings"))}
    return element(
        "section",
        element("h2", badge, element("a", overview.title, href=address), id=folder),
        element("p", " ".join(lines), class_="soft"),
        element("p", " ".join(f"{name}: {text}." for name, text in sums.items() if text)),
        glance(overview.items, address),
    )


def _unread_paper(folder: str, run: UnreadRun) -> Html:
    title = find_plan(run.key).paper.title if run.key in known_papers() else run.key
    whose = f"Tercet {run.version}" if run.version else "an older Tercet"
    again = (
        ["; ", element("code", f"python -m reproductions {run.key}"), " writes them again."]
        if run.key in known_papers()
        else ["."]
    )
    return element(
        "section",
        element(
            "h2",
            element("span", "other version", class_="badge bad"),
            element("a", title, href=f"{folder}/index.html"),
            id=folder,
        ),
        element("p", f"Its results were written by {whose} in a form that this version does not read", *again),
    )


def _absent_paper(key: str) -> Html:
    overview = planned_overview(find_plan(key))
    own = [item for item in overview.items if not is_past(item) and item.kind != "tests"]
    n_tables = sum(item.kind != "figure" for item in own)
    summary = f"{n_tables} tables and {len(own) - n_tables} figures"
    return element(
        "section",
        element("h2", element("span", "not run", class_="badge soft"), overview.title, id=key),
        element(
            "p",
            f"{overview.authors}. {overview.venue}. ",
            element("code", f"python -m reproductions {key}"),
            class_="soft",
        ),
        element("details", element("summary", summary), glance(tuple(own))),
    )


def _legend() -> Html:
    meanings = {
        "holds": "every printed number beside which ours stands is reached within its tolerance, or passed; or every "
        "stated ordering holds",
        "within the error": "what is short is so by less than its standard error",
        "not decided": "the data cannot tell some of the orderings apart; none is contradicted",
        "falls short": "a number is short by more than its standard error, an ordering comes out the other way, or a "
        "model is the best less often than stated",
        "not compared": "other data than the paper's, or a quick run: the printed numbers stand beside ours",
        "not to be had": "the data are not there",
    }
    items = [element("div", element("dt", name), element("dd", text)) for name, text in meanings.items()]
    return element("section", element("h2", "How to read it"), element("dl", *items, class_="legend"))
