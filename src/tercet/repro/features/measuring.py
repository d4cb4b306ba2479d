"""Measures of a fitted ranker on the rows of a split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.measure import measure_rows
from tercet.measure.orders import Orders, compare_orders
from tercet.repro.features.data import Rows

USED, SECONDS, MEGABYTES = "features used", "seconds", "megabytes"
OF_THE_RANKER = (USED, SECONDS, MEGABYTES)
DISAGREEMENT, MISORDERED = "disagreement", "misordered"
OF_PAIRS = (DISAGREEMENT, MISORDERED)


def by_query(scores: NDArray[Any], data: Rows, names: Iterable[str]) -> dict[str, NDArray[np.float64]]:
    """Each measure of each query's ranking, in the order of the rows; what is no measure of rankings is left out.

    A query without a relevant document counts as 0, and so does one without pairs where pairs are counted.
    """
    listed = [name for name in names if name not in OF_THE_RANKER]
    ranked = [name for name in listed if name not in OF_PAIRS]
    found: dict[str, NDArray[np.float64]] = {}
    if ranked:
        measured = measure_rows(scores, data.y, data.qid, ranked)
        found = {name: measured[name] for name in ranked}
    if len(ranked) < len(listed):
        orders = compare_orders(scores, data.y, data.qid)
        found |= {name: _of_pairs(name, orders, data) for name in listed if name in OF_PAIRS}
    return {name: found[name] for name in listed}


def _of_pairs(name: str, orders: Orders, data: Rows) -> NDArray[np.float64]:
    known = orders.disagreement if name == DISAGREEMENT else 1.0 - orders.concordance
    place = {qid: at for at, qid in enumerate(data.qids.tolist())}
    values = np.zeros(data.n_queries)
    values[[place[qid] for qid in orders.qids]] = np.nan_to_num(known, nan=0.0)
    return values
