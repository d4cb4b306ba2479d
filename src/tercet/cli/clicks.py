"""``tercet clicks``"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
import numpy as np

from tercet.cli.groups import examples
from tercet.cli.inputs import read_clicks
from tercet.cli.options import ANY, evidence_table_options
from tercet.cli.terminal import echo
from tercet.data.click_sessions import OddSession, odd_sessions, without_odd_sessions
from tercet.data.clicks import ClickLog, examination_guess
from tercet.fitting.examination import ExaminationCurve, choose_examination, estimate_examination

RANKS, SESSIONS, QUERIES = 20, 5, 5  # printed at most
OFTEN = 3  # lists of a query without a click, to be printed


@click.command(epilog=examples("clicks clicks.csv", "clicks ubi/"))
@click.argument("log", type=ANY, nargs=-1, required=True)
@evidence_table_options
def clicks(log: tuple[Path, ...]) -> None:
    """Describe a click LOG: usable lists, left-out sessions, and the examination of each rank.

    LOG is a table, a click file, or the folder or the two files of UBI, as for fit --clicks.
    """
    whole = read_clicks(log)
    odd = odd_sessions(whole)
    usable = without_odd_sessions(whole, odd)
    curve = estimate_examination(usable)
    chosen = choose_examination(usable, curve)
    for note in usable.notes:
        echo(f"note: {note}", err=True)
    _print_facts(usable, odd)
    _print_curve(curve, *_by_rank(usable))
    echo(f"learning weighs clicks by {chosen.source}")


def _print_facts(log: ClickLog, odd: list[OddSession]) -> None:
    queries = {impression.query for impression in log.impressions}
    n_clicks = sum(len(impression.clicked) for impression in log.impressions)
    usable = sum(0 < len(impression.clicked) < len(impression.shown) for impression in log.impressions)
    order = "in the order of time" if log.is_timed else "in the order of the file"
    sessions = f" in {len(set(log.sessions)):,} sessions" if log.sessions else ""
    echo(f"{len(log.impressions):,} lists of {len(queries):,} queries{sessions}, {n_clicks:,} clicks, {order}")
    echo(f"usable: {usable:,} lists ({usable / len(log.impressions):.1%}) with a click, but not on all documents")
    if log.randomized:
        echo(f"{sum(log.randomized):,} lists were shown in random order")
    if log.interleaved:
        echo(f"{sum(log.interleaved):,} lists were interleaved (tercet serve --interleave)")
    for session in odd[:SESSIONS]:
        rate = f"{session.n_clicked:,} clicks on {session.n_shown:,} documents"
        lists = "1 list" if session.n_lists == 1 else f"{session.n_lists:,} lists"
        echo(f"left out: {session.name}: {session.reason}: {lists}, {rate}")
    if len(odd) > SESSIONS:
        echo(f"left out: {len(odd) - SESSIONS:,} more")
    _print_unanswered(log)


def _print_unanswered(log: ClickLog) -> None:
    """Print the most frequent queries without a click: candidates for new documents or synonyms."""
    asked = Counter(impression.query for impression in log.impressions)
    answered = {impression.query for impression in log.impressions if impression.clicked}
    unanswered = [(query, n) for query, n in asked.most_common() if n >= OFTEN and query not in answered]
    if unanswered:
        queries = ", ".join(f"{query!r} ({n:,} lists)" for query, n in unanswered[:QUERIES])
        more = f" and {len(unanswered) - QUERIES:,} more" if len(unanswered) > QUERIES else ""
        echo(f"asked often, never clicked: {queries}{more}")


def _by_rank(log: ClickLog) -> tuple[list[int], list[int]]:
    """Return the numbers of shown and clicked documents by rank."""
    n_shown: Counter[int] = Counter()
    n_clicked: Counter[int] = Counter()
    for impression in log.impressions:
        clicked_ids = set(impression.clicked)
        n_shown.update(range(len(impression.shown)))
        n_clicked.update(rank for rank, doc_id in enumerate(impression.shown) if doc_id in clicked_ids)
    return [n_shown[rank] for rank in range(len(n_shown))], [n_clicked[rank] for rank in range(len(n_shown))]


def _print_curve(curve: ExaminationCurve | None, n_shown: list[int], n_clicked: list[int]) -> None:
    head = "" if curve is None else "  estimate"
    echo(f"\n{'rank':>4} {'shown':>9} {'clicks':>8} {'rate':>6}  guess{head}")
    for rank in range(min(len(n_shown), RANKS)):
        rate = n_clicked[rank] / n_shown[rank]
        line = (
            f"{rank + 1:>4} {n_shown[rank]:>9,} {n_clicked[rank]:>8,} {rate:>6.3f}  {examination_guess(rank + 1):.3f}"
        )
        if curve is not None:
            interval = "unknown"
            if rank < len(curve.values) and np.isfinite(curve.low[rank]):
                interval = f"{curve.values[rank]:.3f} [{curve.low[rank]:.3f}, {curve.high[rank]:.3f}]"
            line += f"  {interval}"
        echo(line)
    echo()
    if curve is not None:
        echo(f"estimate: {curve.n_clicks:,} clicks; 95 % intervals of a bootstrap over {curve.resampled}")
