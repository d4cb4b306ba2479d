"""Labelled texts as a task: each text is a query for the other texts of its class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.sampling import LabelSampler
from tercet.errors import InputError
from tercet.fitting.leaving_out import N_FOLDS, folds_of, split_text
from tercet.fitting.task import EVERY, KNOWN, Facts, Fold, HeldOutPart, Task
from tercet.fitting.text_rows import rows_of_texts
from tercet.measure.held_out import HeldOutQueries
from tercet.measure.names import parse_measure
from tercet.text import Vectoriser
from tercet.text.counting import CountedTexts

FEWEST_TEXTS: Final = 20
_MOST_LABELLED: Final = 1_000  # texts that are ranked among themselves


def labelled_task(
    texts: Sequence[str],
    labels: Sequence[str],
    test: tuple[Sequence[str], Sequence[str]] | None,
    measure: str,
    random_state: int,
) -> Task:
    """Make each text a query for the other texts of its class."""
    _check_labelled(texts, labels, "training texts and labels")
    if test is not None:
        _check_labelled(*test, "test texts and labels")
    if len(texts) < FEWEST_TEXTS:
        raise InputError(f"{len(texts)} labelled texts are too few; at least {FEWEST_TEXTS} are needed")
    y = np.asarray(labels)
    parsed = parse_measure(measure)
    sampler = LabelSampler(y)
    counted = CountedTexts(texts)

    def among_themselves(
        Q: sparse.csr_array, D: sparse.csr_array, classes: Any, names: Iterable[Any]
    ) -> HeldOutQueries:
        """Each text against all others; never against training texts, whose memorised labels look like a gain."""
        same = sparse.csr_array(np.asarray(classes)[:, None] == np.asarray(classes)[None, :], dtype=np.int64)
        return HeldOutQueries(Q, D, same, tuple(map(str, names)), parsed, np.arange(Q.shape[0]))

    def some(rows: NDArray[np.int64], Q: sparse.csr_array, D: sparse.csr_array) -> HeldOutQueries:
        return among_themselves(Q[rows], D[rows], y[rows], rows)

    def fold(rows: NDArray[np.int64]) -> Fold:
        def parts(Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            return [HeldOutPart(EVERY, some(rows, Q, D), rows.size)]

        return Fold(KNOWN, sampler.drop(rows), len(texts) - rows.size, parts)

    def report_on(vectoriser: Vectoriser, Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
        assert test is not None
        rows = vectoriser.transform_queries(test[0]), vectoriser.transform_docs(test[0])
        tested = among_themselves(*rows, test[1], (f"test {number}" for number in range(len(test[0]))))
        return [HeldOutPart(EVERY, tested, len(test[0]))]

    left_out = folds_of([f"{number:09d}" for number in range(len(texts))], random_state, enough=_MOST_LABELLED)
    folds = tuple(fold(np.array(list(map(int, out)), dtype=np.int64)) for out in left_out)
    choosing = np.sort(np.random.default_rng(random_state).permutation(len(texts))[:_MOST_LABELLED])
    data = {"kind": "labelled texts", "n_texts": len(texts), "n_classes": len(set(labels))}
    named = {str(number): text for number, text in enumerate(texts)}
    named |= {f"test {number}": text for number, text in enumerate([] if test is None else test[0])}
    split = split_text(len(folds), sum(map(len, left_out[:N_FOLDS])), tested=test is not None, what="text")
    return Task(
        sampler,
        len(texts),
        Facts(data, len(texts), split, named),
        lambda vectorisers: rows_of_texts(vectorisers, counted, counted),
        lambda D: folds,
        lambda Q, D: some(choosing, Q, D),
        folds,
        None if test is None else report_on,
        labelled=True,
    )


def _check_labelled(texts: Sequence[str], labels: Sequence[str], what: str) -> None:
    if isinstance(texts, str) or isinstance(labels, str):
        raise InputError(f"{what} must be lists, one text and one label each; got a single string")
    if not all(hasattr(each, "__len__") for each in (texts, labels)):
        kinds = " and ".join(type(each).__name__ for each in (texts, labels))
        raise InputError(f"{what} must be lists, one text and one label each; got {kinds}")
    if len(texts) != len(labels):
        raise InputError(f"{what}: there are {len(texts)} texts and {len(labels)} labels; each text has one")
    if not len(texts):
        raise InputError(f"{what}: there are no texts")
