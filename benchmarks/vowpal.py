"""Vowpal Wabbit on preferences: d+ - d- is one namespace crossed with the query's, without linear terms, hinge loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import Clock, differences, error_of

PARSED_AT_ONCE = 10_000  # a parsed example takes some 60 kB
# The same settings are tried for both engines.
SETTINGS = (
    ("inverse-sqrt", 100.0),
    ("inverse-sqrt", 200.0),
    ("constant", 0.3),
    ("constant", 1.0),
    ("constant", 3.0),
)
Setting = tuple[str, float]


def describe(setting: Setting) -> str:
    schedule, rate = setting
    return f"{rate:g}" if schedule == "constant" else f"{rate:g}/sqrt(t)"


@dataclass
class VowpalModel:
    """A model and what was noted while it learned."""

    workspace: Any
    setting: Setting
    learning: Clock = field(default_factory=Clock)
    margins: list[float] = field(default_factory=list)

    @property
    def steps_per_second(self) -> float:
        return len(self.margins) / self.learning.wall

    @property
    def violation_rate(self) -> float:
        return float(np.mean(np.array(self.margins) < 1))


def vowpal_options(bits: int, rate: float, l1: float = 0.0) -> str:
    penalty = f" --l1 {l1!r}" if l1 else ""
    return (
        f"--sgd --loss_function hinge --noconstant -q qd --ignore_linear q --ignore_linear d --hash all -b {bits} "
        f"-l {rate!r} --power_t 0 --min_prediction -1e6 --max_prediction 1e6 --quiet{penalty}"
    )


def vowpal_models(bits: int, settings: tuple[Setting, ...], l1: float = 0.0) -> list[VowpalModel]:
    try:
        from vowpalwabbit import Workspace
    except ImportError:
        raise SystemExit(
            "Vowpal Wabbit is needed: pip install vowpalwabbit, or tercet with the extra 'bench'"
        ) from None
    return [VowpalModel(Workspace(vowpal_options(bits, setting[1], l1)), setting) for setting in settings]


def as_text(indices: NDArray[np.int32], values: NDArray[np.float32]) -> str:
    return " ".join(starmap("{}:{:.9g}".format, zip(indices.tolist(), values.tolist(), strict=True)))


def example_texts(X: sparse.csr_array, prefs: tc.Preferences, importance: NDArray[np.float64]) -> list[str]:
    """Each preference as a line of text: the label 1, an importance, what W = I scores, and the namespaces q and d.

    The third number is added to the prediction, so that weights of zero in Vowpal Wabbit are W = I.
    """
    Q, D = X[prefs.query], differences(X, prefs)
    start = (Q * D).sum(axis=1)
    lines = []
    for i in range(len(prefs)):
        q, d = slice(Q.indptr[i], Q.indptr[i + 1]), slice(D.indptr[i], D.indptr[i + 1])
        words = f"|q {as_text(Q.indices[q], Q.data[q])} |d {as_text(D.indices[d], D.data[d])}"
        lines.append(f"1 {importance[i]:.9g} {start[i]:.9g} {words}")
    return lines


def parsed_blocks(
    workspace: Any, X: sparse.csr_array, prefs: tc.Preferences, importance: NDArray[np.float64], parsing: Clock
) -> Iterator[list[Any]]:
    """The preferences as parsed examples, block by block."""
    for first in range(0, len(prefs), PARSED_AT_ONCE):
        block = slice(first, first + PARSED_AT_ONCE)
        with parsing.running():
            examples = [workspace.parse(text) for text in example_texts(X, prefs[block], importance[block])]
        yield examples
        for example in examples:
            workspace.finish_example(example)


def vowpal_learn(models: list[VowpalModel], X: sparse.csr_array, prefs: tc.Preferences) -> Clock:
    """Teach models of one schedule and one number of bits the same preferences; returns the time of parsing.

    Vowpal Wabbit's own clock only advances when an example is handed back, not when it is learned from. A falling rate
    is therefore given as the example's importance, which scales the update of plain SGD.
    """
    import pylibvw  # type: ignore[import-not-found]

    learn = pylibvw.vw.learn  # what Workspace.learn calls once it has found that the example is parsed
    [schedule] = {model.setting[0] for model in models}
    importance = np.ones(len(prefs))
    if schedule == "inverse-sqrt":
        importance /= np.sqrt(np.arange(1, len(prefs) + 1))
    parsing = Clock()
    for examples in parsed_blocks(models[0].workspace, X, prefs, importance, parsing):
        for model in models:
            workspace = model.workspace
            with model.learning.running():
                for example in examples:
                    learn(workspace, example)
            model.margins += [example.get_simplelabel_prediction() for example in examples]
    return parsing


def vowpal_errors(models: list[VowpalModel], X: sparse.csr_array, prefs: tc.Preferences) -> list[float]:
    margins: list[list[float]] = [[] for _ in models]
    for examples in parsed_blocks(models[0].workspace, X, prefs, np.ones(len(prefs)), Clock()):
        for found, model in zip(margins, models, strict=True):
            found += [model.workspace.predict(example) for example in examples]
    return [error_of(np.array(found)) for found in margins]
