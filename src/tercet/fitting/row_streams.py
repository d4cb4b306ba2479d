"""A feature model from a LETOR file that does not fit in memory: one penalty, learned from in the file's order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tercet.data.feature_names import checked_feature_names
from tercet.data.letor import LetorStream
from tercet.data.lines import FilePath
from tercet.errors import InputError
from tercet.fitting.feature_model import LETOR_MEASURES, FeatureModel, fit_width
from tercet.learn.linear.ftrl import FTRLRanker
from tercet.learn.linear.ftrl_stream import StreamProgress
from tercet.learn.loop import Checkpoint
from tercet.measure import Evaluation, Measure, measure_rows, parse_measures


@dataclass(frozen=True)
class StreamReport:
    """What was learned from a stream, and how it does on other queries where some were given.

    Attributes
    ----------
    ranker : what was learned
    n_queries, n_rows : of a pass; only queries with documents of different grades are counted
    n_features, n_used : features there are, and those with a weight
    epochs : passes
    loss : mean loss of a query in the last pass, each taken as it was met
    held_out : measures on queries that were not learned from, by what these are called
    notes : what was done to the rows of those to fit the model
    seconds : for everything
    """

    ranker: str
    n_queries: int
    n_rows: int
    n_features: int
    n_used: int
    epochs: int
    loss: float
    held_out: Mapping[str, Evaluation] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        passes = "one pass" if self.epochs == 1 else f"{self.epochs} passes"
        lines = [
            f"{self.n_queries:,} queries with pairs, {self.n_rows:,} rows, {self.n_features:,} features, {passes} in "
            "the order of the file.",
            f"{self.ranker}: {self.n_used} of {self.n_features} features (sparsity ratio "
            f"{self.n_used / self.n_features:.4f}), mean loss of a query in the last pass {self.loss:.4g}.",
        ]
        for name, evaluation in self.held_out.items():
            lines += ["", f"On {name} queries, which were not learned from:", str(evaluation)]
        if not self.held_out:
            lines.append("Nothing was held out, so nothing tells how it does on other queries; give a file of some.")
        return "\n".join([*lines, *self.notes])


def fit_letor_stream(
    train: FilePath | LetorStream,
    *,
    validation: FilePath | LetorStream | None = None,
    test: FilePath | LetorStream | None = None,
    measures: str | Iterable[str | Measure] = LETOR_MEASURES,
    ranker: FTRLRanker | None = None,
    feature_names: Sequence[str] | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[StreamProgress], None] | None = None,
) -> tuple[FeatureModel, StreamReport]:
    """Learn from a LETOR file chunk by chunk, in memory for a chunk, and measure on others the same way.

    No penalty is chosen: that of the ranker is taken. `fit_letor` chooses one where all rows fit in memory.

    Parameters
    ----------
    train, validation, test : LETOR files, or streams of them; the last two are only measured on
    measures : what to measure
    ranker : an FTRLRanker with ``shuffle=False``
    feature_names : one for each feature
    checkpoint, progress : as in ``FTRLRanker.fit_stream``

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("1 qid:7 1:0.5 2:1\\n0 qid:7 2:1\\n")
    ...     model, report = fit_letor_stream(file, ranker=FTRLRanker(l1=0.1))
    >>> report.n_used, model.features()[0].feature
    (1, 1)
    """
    began = time.perf_counter()
    learner = FTRLRanker() if ranker is None else ranker
    if not isinstance(learner, FTRLRanker):
        raise InputError(f"only an FTRLRanker learns from a stream; got {type(learner).__name__}")
    # What can be wrong with these is to be told before the work, not after it.
    asked = parse_measures(measures)
    parts = {"validation": validation, "test": test}
    streams = {name: _stream(part) for name, part in parts.items() if part is not None}
    for stream in streams.values():
        next(iter(stream))  # finds the number of features, and so reads all of a file
    last = StreamProgress()

    def told(at: StreamProgress) -> None:
        nonlocal last
        last = at
        if progress is not None:
            progress(at)

    learner.fit_stream(_stream(train), checkpoint=checkpoint, progress=told)
    model = FeatureModel(
        learner,
        None if feature_names is None else checked_feature_names(feature_names, int(learner.n_features_in_)),
    )
    notes: dict[str, None] = {}
    held_out = {name: _measured(model, stream, asked, notes) for name, stream in streams.items()}
    return model, StreamReport(
        ranker=f"{type(learner).__name__} with the penalty {learner.l1:g}",
        n_queries=last.n_queries,
        n_rows=last.n_rows,
        n_features=model.n_features,
        n_used=int(np.count_nonzero(learner.coef_)),
        epochs=learner.epochs,
        loss=learner.loss_,
        held_out=held_out,
        notes=tuple(notes),
        seconds=time.perf_counter() - began,
    )


def _stream(data: FilePath | LetorStream) -> LetorStream:
    return data if isinstance(data, LetorStream) else LetorStream(data)


def _measured(
    model: FeatureModel, stream: LetorStream, measures: Sequence[Measure], notes: dict[str, None]
) -> Evaluation:
    """Measures of all rows; of each only score, grade and query are kept."""
    scores, grades, qids = [], [], []
    for chunk in stream:
        rows, note = fit_width(chunk, model.n_features, str(stream.path))
        if note is not None:
            notes[note] = None
        scores.append(model.predict(rows.X))
        grades.append(rows.y)
        qids.append(rows.qid)
    return measure_rows(np.concatenate(scores), np.concatenate(grades), np.concatenate(qids), measures)
