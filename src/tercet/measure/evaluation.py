"""Evaluate a run of ids against judgements, as trec_eval and ir_measures do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet._validate import is_integer
from tercet.choose import standard_error
from tercet.data.frames import frame_of
from tercet.errors import InputError
from tercet.measure.formulas import compute, find_standing
from tercet.measure.names import Measure, parse_measure, parse_measures

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]
_LARGEST_GRADE = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation:
    """Every measure of every judged query; made by `evaluate`.

    Attributes
    ----------
    measures : the measures of the columns of `values`
    qids : the judged queries of the rows of `values`, in the order of the judgements
    values : (n_q, n_measures) float64, read-only
    missing : number of judged queries without a document in the run, counted with the worst value
    unjudged : number of left-out queries of the run without judgements

    Examples
    --------
    >>> from tercet import evaluate
    >>> result = evaluate({"q": {"a": 1}}, {"q": {"a": 0.2, "b": 0.7}}, ["RR", "P@1"])
    >>> result.qids, result.values.tolist()
    (('q',), [[0.5, 0.0]])
    """

    measures: tuple[Measure, ...]
    qids: tuple[str, ...]
    values: NDArray[np.float64]
    missing: int = 0
    unjudged: int = 0

    def __post_init__(self) -> None:
        shape = (len(self.qids), len(self.measures))
        if self.values.shape != shape:
            raise InputError(
                f"Values must have one row per query and one column per measure, {shape}. Got {self.values.shape}."
            )
        frozen = np.array(self.values, dtype=np.float64)
        frozen.flags.writeable = False
        object.__setattr__(self, "values", frozen)

    def __getitem__(self, name: str | Measure) -> NDArray[np.float64]:
        """Values of a measure, (n_q,)."""
        measure = parse_measure(name)
        if measure not in self.measures:
            have = ", ".join(map(str, self.measures))
            raise InputError(f"{measure} was not evaluated here; there are {have}.")
        return self.values[:, self.measures.index(measure)]

    def mean(self, name: str | Measure) -> float:
        """Mean of a measure over the queries."""
        return float(self[name].mean())

    def standard_error(self, name: str | Measure) -> float:
        """Standard error of the mean; NaN for a single query."""
        return standard_error(self[name])

    def interval(self, name: str | Measure, level: float = 0.95) -> tuple[float, float]:
        """Student's t interval of the mean; both ends NaN for a single query."""
        if not 0 < level < 1:
            raise InputError(f"'level' must be between 0 and 1, as in 0.95. Got {level!r}.")
        mean, n_queries = self.mean(name), len(self.qids)
        from scipy import stats  # a slow import

        half = float(stats.t.ppf((1 + level) / 2, n_queries - 1)) if n_queries > 1 else float("nan")
        half *= self.standard_error(name)
        return mean - half, mean + half

    def __repr__(self) -> str:
        means = ", ".join(f"{measure} {self.mean(measure):.4f}" for measure in self.measures)
        return f"Evaluation({means}; {self._about()})"

    def to_frame(self) -> Any:
        """Return a frame of pandas, polars or Arrow: a row for each query, with ``qid`` and a column for each measure.

        Examples
        --------
        >>> evaluate({"q": {"a": 1}}, {"q": {"a": 0.2, "b": 0.7}}, ["RR"]).to_frame().to_dict("records")
        [{'qid': 'q', 'RR': 0.5}]
        """
        columns = {str(measure): self[measure].tolist() for measure in self.measures}
        return frame_of({"qid": list(self.qids), **columns})

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("measure", "mean", "s.e.", "95% interval")]
        for measure in self.measures:
            error, (low, high) = self.standard_error(measure), self.interval(measure)
            has_interval = not np.isnan(error)
            spread = (f"{error:.4f}", f"{low:.4f} to {high:.4f}") if has_interval else ("-", "-")
            rows.append((str(measure), f"{self.mean(measure):.4f}", *spread))
        width = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{a:<{width[0]}}  {b:>{width[1]}}  {c:>{width[2]}}  {d:>{width[3]}}" for a, b, c, d in rows]
        return "\n".join([*lines, self._about()])

    def _about(self) -> str:
        """Number of queries, and of missing and left-out queries."""
        about = f"{len(self.qids)} {'query' if len(self.qids) == 1 else 'queries'}"
        if self.missing:
            about += f", {self.missing} without results (counted as worst)"
        if self.unjudged:
            about += f", {self.unjudged} unjudged left out"
        return about


def evaluate(
    qrels: Qrels,
    run: Run,
    measures: str | Measure | Iterable[str | Measure] = ("nDCG@10", "AP", "P@10"),
) -> Evaluation:
    """Measure a run against judgements.

    Parameters
    ----------
    qrels : qid to doc_id to integer grade; 1 or more is relevant
    run : qid to doc_id to score, higher is better
    measures : names as in ``"nDCG@10"``, or a single name

    Notes
    -----
    - Ties are broken as in trec_eval: scores are compared as float32, and the larger doc_id of equal scores is
      first, also for RR@k, for which ir_measures uses another tool with the opposite rule.
    - Unjudged documents and negative grades count as grade 0.
    - A judged query without a document in the run gets 0, as in ir_measures, or a RankLoss of 1 if a document is
      relevant; ``missing`` counts these queries. Queries of the run without judgements are left out; ``unjudged``
      counts these queries.
    - A query without a relevant document gets 0 in every measure, as in ir_measures; RankLoss is 0 too, since there is
      no pair to order. A relevant document outside the ranking is ordered wrongly with all ranked documents.
    - A run without a document for any judged query is an error.

    Examples
    --------
    >>> result = evaluate({"q": {"a": 1, "b": 0}}, {"q": {"a": 0.2, "b": 0.7}}, ["RR", "P@1"])
    >>> result.mean("RR")
    0.5
    """
    parsed = parse_measures(measures)
    if not qrels:
        raise InputError("There are no judgements: 'qrels' is empty.")
    if not run:
        raise InputError("The run is empty. A system without a run is an error, not a zero.")
    qids = tuple(qrels)
    answered = [qid for qid in qids if run.get(qid)]
    if not answered:
        raise InputError(
            f"The run has no document for any of the {len(qids)} judged queries (first judged: {qids[0]!r}, "
            f"first in the run: {next(iter(run))!r}). Are the ids of the same collection?"
        )
    # With doc_ids in falling order, lower columns first is the tie rule of trec_eval.
    ranked = {qid: _in_falling_order(qid, run.get(qid, ())) for qid in qids}
    row_starts = np.cumsum([0, *map(len, ranked.values())])
    scores = np.concatenate([_scores(qid, run[qid], ranked[qid]) for qid in answered])
    query, column, grade, unseen = _positive_judgements(qrels, ranked)
    values = compute(find_standing(scores, row_starts, query, column, grade, unseen), parsed)
    return Evaluation(parsed, qids, values, len(qids) - len(answered), sum(qid not in qrels for qid in run))


def _scores(qid: str, documents: Mapping[str, float], order: list[str]) -> NDArray[np.float32]:
    """Scores of a query in the given order, as float32, like trec_eval."""
    for doc_id, score in documents.items():
        # NaN alone differs from itself.
        if not isinstance(score, (int, float, np.integer, np.floating)) or score != score:
            raise InputError(f"The score of query {qid!r} and document {doc_id!r} must be a number. Got {score!r}.")
    try:
        scores = np.array([documents[doc_id] for doc_id in order], dtype=np.float64)
    except OverflowError:  # an integer may exceed the largest float
        raise InputError(f"A score of query {qid!r} is an integer too large for a float; scores are floats.") from None
    with np.errstate(over="ignore"):  # beyond float32 all scores are equally infinite
        return scores.astype(np.float32)


def _in_falling_order(qid: str, doc_ids: Iterable[str]) -> list[str]:
    doc_ids = list(doc_ids)
    for doc_id in doc_ids:
        if not isinstance(doc_id, str):
            raise InputError(f"Document ids must be strings. Got {doc_id!r} for query {qid!r} of the run.")
    return sorted(doc_ids, reverse=True)


def _positive_judgements(
    qrels: Qrels, ranked: Mapping[str, list[str]]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Query, column and grade of ranked relevant documents; query and grade of unranked relevant documents."""
    judged_ranks: list[tuple[int, int, int]] = []
    unranked: list[tuple[int, int]] = []
    for row, (qid, judged) in enumerate(qrels.items()):
        column_of = {doc_id: column for column, doc_id in enumerate(ranked[qid])}
        for doc_id, grade in judged.items():
            if not isinstance(doc_id, str):
                raise InputError(f"Document ids must be strings. Got {doc_id!r} for query {qid!r} of the qrels.")
            if not is_integer(grade):
                raise InputError(
                    f"The grade of query {qid!r} and document {doc_id!r} must be an integer. Got {grade!r}."
                )
            if grade <= 0:
                continue
            if grade > _LARGEST_GRADE:
                raise InputError(
                    f"The grade of query {qid!r} and document {doc_id!r} is larger than any integer of 64 bits."
                )
            column = column_of.get(doc_id)
            if column is None:
                unranked.append((row, int(grade)))
            else:
                judged_ranks.append((row, column, int(grade)))
    judged_ranks.sort()
    flat = np.fromiter(chain.from_iterable(judged_ranks), np.int64, 3 * len(judged_ranks)).reshape(-1, 3)
    lost_flat = np.fromiter(chain.from_iterable(unranked), np.int64, 2 * len(unranked)).reshape(-1, 2)
    return (
        flat[:, 0].copy(),
        flat[:, 1].astype(np.int32),
        flat[:, 2].copy(),
        (lost_flat[:, 0].copy(), lost_flat[:, 1].copy()),
    )
