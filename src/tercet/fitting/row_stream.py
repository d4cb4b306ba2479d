"""Learn a ranker from a file of rows that does not fit in memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tercet.data import LetorStream
from tercet.data.lines import FilePath
from tercet.errors import InputError
from tercet.fitting.feature_model import LETOR_MEASURES, FeatureModel, fit_width, n_used, ranker_name
from tercet.learn import Checkpoint
from tercet.learn.linear import FTRLRanker
from tercet.measure import Measure, measure_rows, parse_measures
from tercet.report import Report, SystemResult
from tercet.report.details import FeatureDetails


def fit_letor_stream(
    train: FilePath | LetorStream,
    *,
    validation: FilePath | LetorStream | None = None,
    test: FilePath | LetorStream | None = None,
    measures: str | Iterable[str | Measure] = LETOR_MEASURES,
    ranker: FTRLRanker | None = None,
    feature_names: Sequence[str] | None = None,
    checkpoint: Checkpoint | None = None,
) -> FeatureModel:
    """Learn from a LETOR file chunk by chunk, one chunk in memory at a time, and measure other files the same way.

    No penalty is chosen: the ranker's own is taken. `fit_letor` chooses one if all rows fit in memory.

    Parameters
    ----------
    train, validation, test : LETOR files, or streams of them; the last two are only measured
    measures : what to measure
    ranker : an FTRLRanker with ``shuffle=False``
    feature_names : one for each feature
    checkpoint : as in ``FTRLRanker.fit_stream``

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("1 qid:7 1:0.5 2:1\\n0 qid:7 2:1\\n")
    ...     model = fit_letor_stream(file, ranker=FTRLRanker(l1=0.1))
    >>> model.report.features.n_used, model.features()[0].feature
    (1, 1)
    """
    began = time.perf_counter()
    learner = FTRLRanker() if ranker is None else ranker
    if not isinstance(learner, FTRLRanker):
        raise InputError(f"only an FTRLRanker learns from a stream; got {type(learner).__name__}")
    parsed = parse_measures(measures)
    given = {"training": train, "validation": validation, "test": test}
    streams = {
        name: part if isinstance(part, LetorStream) else LetorStream(part)
        for name, part in given.items()
        if part is not None
    }
    training = streams.pop("training")
    for stream in streams.values():
        next(iter(stream))  # reads all of a file for its number of features, so errors come before the work
    progress = deque[Any](maxlen=1)
    learner.fit_stream(training, checkpoint=checkpoint, progress=progress.append)
    model, [last] = FeatureModel(learner, None if feature_names is None else tuple(feature_names)), progress
    systems, notes = [], []
    for name, stream in streams.items():
        columns = []  # score, grade and query of each row
        for chunk in stream:
            rows, note = fit_width(chunk, model.n_features, str(stream.path))
            notes += [note] if note is not None and note not in notes else []
            columns.append((model.predict(rows.X), rows.y, rows.qid))
        scores, y, qid = map(np.concatenate, zip(*columns, strict=True))
        systems.append(SystemResult.from_evaluation(f"{name} queries", measure_rows(y, scores, qid, parsed)))
    if not systems:
        notes.append("nothing was held out, so nothing tells how it does on other queries; give a file of some.")
    passes = "one pass" if learner.epochs == 1 else f"{learner.epochs} passes"
    split = (
        f"{last.n_rows:,} rows of queries with pairs, {passes} in the order of the file; no penalty was chosen, "
        f"and the mean loss of a query in the last pass is {learner.loss_:.4g}."
    )
    seconds = time.perf_counter() - began
    details = FeatureDetails(
        ranker=f"{ranker_name(learner)} with the penalty {learner.l1_:g}",
        choose="best",
        n_features=model.n_features,
        n_used=n_used(learner),
        reported_on="queries that were not learned from",
        path=(),
        chosen=None,
        used_by_fold=(),
        learn_seconds=seconds,
    )
    measure = str(parsed[0])
    report = Report.from_features(details, measure, last.n_queries, split, tuple(systems), seconds, notes=tuple(notes))
    return replace(model, report=report)
