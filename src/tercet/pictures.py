"""Pictures of models: the strongest pairs of words, or the path and the weights of a feature model.

`look_at_pairs` gathers numbers; `draw_pairs` and `draw_path` draw with matplotlib (extra ``plot``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.cluster import hierarchy

from tercet._validate import check_integer
from tercet.choose import pareto_front
from tercet.errors import InputError, MissingExtraError
from tercet.fitting.feature_model import FeatureModel
from tercet.fitting.text_model import TextModel
from tercet.learn import TermPairRanker
from tercet.measure import parse_measure
from tercet.report.details import FeatureDetails
from tercet.store import open_atomically
from tercet.weights import Weights
from tercet.weights.survey import choose_columns, choose_rows

FORMATS: Final = (".png", ".svg", ".pdf")

RED, BLUE, PALE_BLUE = "#b3382c", "#2f6690", "#c9d9e6"
PAPER, INK, GREY = "#fbfbf9", "#2b2b2b", "#8a8a8a"
TITLE_SIZE = 9.5
SETTINGS: Final = {"font.size": 8.5, "axes.edgecolor": GREY, "text.color": INK, "axes.labelcolor": INK}
_LONGEST_WORD, _LONGEST_FEATURE = 14, 28


def picture(
    thing: TextModel | TermPairRanker | Weights | FeatureModel, path: str | PathLike[str], **options: Any
) -> PairsSeen | FeatureModel:
    """Draw a model and write the drawing as .png, .svg or .pdf.

    The picture of a feature model shows its path and weights, see `draw_path`. Other pictures show the query words
    with the largest weights on other words, and their strongest document words. Needs the extra ``plot``.

    Parameters
    ----------
    thing : a text model, a fitted ranker, weights or a feature model
    path : file to write
    options : options of `look_at_pairs` or `draw_path`

    Returns
    -------
    the drawn pairs as numbers, or the feature model

    Examples
    --------
    >>> import tempfile
    >>> from tercet.weights import Dense, Weights
    >>> weights = Weights([Dense(weights=np.array([[1, 0.5], [0, 1]], dtype=np.float32))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     seen = picture(weights, f"{folder}/pairs.svg", vocabulary=["ice", "hockey"])
    >>> seen.query_names, seen.doc_names, seen.block.tolist()
    (('ice',), ('hockey',), [[0.5]])
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} is no name of a picture; a name ends in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: no folder {path.absolute().parent}; make it first")
    import_matplotlib()  # an error comes before the work
    if isinstance(thing, FeatureModel):
        save_figure(draw_path(thing, **options), path)
        return thing
    seen = look_at_pairs(thing, **options)
    save_figure(draw_pairs(seen), path)
    return seen


def import_matplotlib() -> Any:
    """Return matplotlib, or raise an error with the command to install."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing a picture") from error
    return matplotlib


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure atomically and without a date."""
    kind = path.suffix.lower()[1:]
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with import_matplotlib().rc_context({"svg.hashsalt": "tercet"}), open_atomically(path) as file:
        figure.savefig(file, format=kind, metadata=undated)


def write_instead(axes: Any, sentence: str) -> None:
    """Write a sentence in place of a drawing."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, sentence, ha="center", va="center", color=GREY)


def shortened(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


# -- pairs of words ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairsSeen:
    """Weights between selected query and document words; made by `look_at_pairs`.

    Attributes
    ----------
    shape : (n_query_terms, n_doc_terms) of all weights
    query_terms, doc_terms, block : selected terms and the weights between query and document terms
    query_names, doc_names : words, or column numbers
    shared : both sides have the same vocabulary
    """

    shape: tuple[int, int]
    query_terms: NDArray[np.int64]
    doc_terms: NDArray[np.int64]
    block: NDArray[np.float64]
    query_names: tuple[str, ...]
    doc_names: tuple[str, ...]
    shared: bool


def look_at_pairs(
    thing: TextModel | TermPairRanker | Weights,
    *,
    vocabulary: Sequence[str] | None = None,
    n_query_words: int = 24,
    n_doc_words: int = 24,
) -> PairsSeen:
    """Find the strongest pairs of different words.

    Parameters
    ----------
    thing : a text model, a fitted ranker, or weights; square weights have the same vocabulary on both sides
    vocabulary : names of the columns of square weights
    n_query_words, n_doc_words : number of words to pick

    Notes
    -----
    Query words have the largest absolute weights on other words; at most two query words share a strongest document
    word. Query words then name their strongest document words in turns. Rows are read in the order of their largest
    possible entry, up to 2 · 10⁸ entries. A part with a per-document scale counts at typical document length.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.weights import Sparse
    >>> W = Sparse(weights=sparse.csr_array([[1.0, 0.5], [0.0, 1.0]]))
    >>> seen = look_at_pairs(Weights([W]), vocabulary=["car", "automobile"], n_query_words=1, n_doc_words=1)
    >>> seen.query_names, seen.doc_names, seen.block.tolist()
    (('car',), ('automobile',), [[0.5]])
    """
    for name, n in (("n_query_words", n_query_words), ("n_doc_words", n_doc_words)):
        check_integer(n, name)
    weights, query_words, doc_words, shared = _take_apart(thing, vocabulary)
    query_terms = choose_rows(weights, shared, n_query_words)
    rows = weights.rows(query_terms)
    doc_terms = choose_columns(rows, query_terms, shared, n_doc_words)
    block = rows[:, doc_terms]
    down, across = _similar_next_to_each_other(block)
    query_terms, doc_terms, block = query_terms[down], doc_terms[across], block[np.ix_(down, across)]
    return PairsSeen(
        shape=weights.shape,
        query_terms=query_terms,
        doc_terms=doc_terms,
        block=block,
        query_names=tuple(str(i) if query_words is None else query_words[i] for i in query_terms),
        doc_names=tuple(str(j) if doc_words is None else doc_words[j] for j in doc_terms),
        shared=shared,
    )


def _take_apart(
    thing: Any, vocabulary: Sequence[str] | None
) -> tuple[Weights, Sequence[str] | None, Sequence[str] | None, bool]:
    """Return weights, the words of both sides or None, and True for a shared vocabulary."""
    if isinstance(thing, TextModel):
        if vocabulary is not None:
            raise InputError("a text model has its own words; leave 'vocabulary' out")
        thing = thing.words_alone()
        queries, docs = thing.query_vectorizer, thing.doc_vectorizer
        return thing.weights, queries.words_, docs.words_, queries is docs
    weights = thing.weights_ if isinstance(thing, TermPairRanker) else thing
    if not isinstance(weights, Weights):
        raise InputError(f"expected a text model, a ranker or weights; got {type(thing).__name__}")
    n, m = weights.shape
    if vocabulary is not None and (n != m or len(vocabulary) != n):
        raise InputError(
            f"'vocabulary' names the columns of both sides; got {len(vocabulary)} for weights of shape ({n}, {m})"
        )
    return weights, vocabulary, vocabulary, n == m


def _similar_next_to_each_other(block: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order rows and columns by similarity, so that topics show as patches."""
    if min(block.shape) < 3:
        return np.arange(block.shape[0]), np.arange(block.shape[1])
    length = np.linalg.norm(block, axis=1, keepdims=True)
    unit = np.divide(block, length, out=np.zeros_like(block), where=length > 0)
    tree = hierarchy.linkage(unit, method="average", optimal_ordering=True)
    down = hierarchy.leaves_list(tree).astype(np.int64)
    pull = np.maximum(block[down], 0)  # center of the rows with weight on a column
    weight = pull.sum(axis=0)
    center = np.divide(np.arange(down.size) @ pull, weight, out=np.full(weight.size, np.inf), where=weight > 0)
    return down, np.argsort(center, kind="stable")


def draw_pairs(seen: PairsSeen) -> Any:
    """Draw pairs as a ``matplotlib.figure.Figure``; matplotlib's settings stay unchanged."""
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure: Any = Figure(figsize=(6.4, 6.2), dpi=150, layout="constrained")
        _draw_block(figure, seen)
    return figure


def _draw_block(figure: Any, seen: PairsSeen) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    axes = figure.subplots()
    axes.set_title(f"Strongest of {seen.shape[0]:,} × {seen.shape[1]:,} pairs", loc="left", fontsize=TITLE_SIZE)
    if not seen.block.size:
        write_instead(axes, "no weight between different words")
        return
    own = (seen.query_terms[:, None] == seen.doc_terms[None, :]) & seen.shared
    limit = np.abs(seen.block[~own]).max()  # without the weights of words on themselves, often larger
    colors = LinearSegmentedColormap.from_list("weights", [BLUE, PAPER, RED])
    image = axes.imshow(seen.block, cmap=colors, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(seen.doc_names)), _short(seen.doc_names), rotation=90, parse_math=False)
    axes.set_yticks(range(len(seen.query_names)), _short(seen.query_names), parse_math=False)
    axes.set(xlabel="document words", ylabel="query words")
    for direction, n in ((axes.set_xticks, len(seen.doc_names)), (axes.set_yticks, len(seen.query_names))):
        direction(np.arange(n + 1) - 0.5, minor=True)
    axes.tick_params(which="both", length=0)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.spines[:].set_visible(False)
    for i, j in np.argwhere(own):
        axes.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=INK, linewidth=1.2, zorder=3))
    beyond = np.abs(seen.block).max() > limit
    bar = figure.colorbar(
        image, ax=axes, orientation="horizontal", aspect=50, pad=0.02, extend="both" if beyond else "neither"
    )
    bar.outline.set_visible(False)
    bar.set_label("weight; outlined: a word with itself" if own.any() else "weight")


def _short(names: Sequence[str]) -> list[str]:
    return [shortened(name, _LONGEST_WORD) for name in names]


# -- feature models ---------------------------------------------------------------------------------------------------


def draw_path(model: FeatureModel, *, n_features: int = 20) -> Any:
    """Draw a model's path and weights as a ``matplotlib.figure.Figure``.

    The left side shows every penalty by its number of features and its measure on the validation queries, with the
    Pareto front and a band of one standard error of the difference to the best. The right side shows the ``n_features``
    largest weights.
    """
    if not isinstance(model, FeatureModel):
        raise InputError(f"expected a FeatureModel to draw; got {type(model).__name__}")
    if model.report is None or model.report.features is None:
        raise InputError("the model has no report and so no path to draw; tc.fit_letor makes a model with a report")
    if not isinstance(n_features, int) or n_features < 1:
        raise InputError(f"n_features must be a whole number, at least 1; got {n_features!r}")
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure: Any = Figure(figsize=(10, 4.6), dpi=150, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
        _draw_front(left, model.report.features, model.report.measure)
        _draw_weights(right, model, n_features)
    return figure


def _draw_front(axes: Any, report: FeatureDetails, measure: str) -> None:
    axes.set_title("Cost of sparsity", loc="left", fontsize=TITLE_SIZE)
    if report.chosen is None:
        write_instead(axes, "no penalty was chosen, so no path")
        return
    higher = parse_measure(measure).higher_is_better
    path = report.path
    used, value = np.array([point.n_used for point in path]), np.array([point.value for point in path])
    front = pareto_front(used, value, higher_is_better=higher)
    best = value[front[-1]]
    if all(point.error is not None for point in path):
        errors = np.array([path[number].error for number in front], dtype=float)
        axes.fill_between(
            *(used[front], value[front] - errors, value[front] + errors),
            color=PALE_BLUE,
            alpha=0.6,
            linewidth=0,
            label="± one standard error of the difference to the best",
        )
    axes.axhline(best, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(used[front], value[front], "-", color=BLUE, linewidth=1.5, label="Pareto front")
    axes.plot(used, value, ".", color=INK, markersize=5, alpha=0.55, markeredgewidth=0, label="one penalty each")
    chosen = path[report.chosen]
    axes.plot(chosen.n_used, chosen.value, "o", markersize=9, markerfacecolor="none", markeredgecolor=RED, zorder=4)
    axes.plot(chosen.n_used, chosen.value, "o", markersize=4, color=RED, zorder=4, label=f"chosen, the {report.choose}")
    axes.annotate(
        f"{chosen.n_used} of {report.n_features}: {chosen.value:.4f}",
        (chosen.n_used, chosen.value),
        xytext=(0, 11 if higher else -17),
        textcoords="offset points",
        ha="center",
        color=RED,
    )
    axes.set(xlabel=f"features used, of {report.n_features:,}", ylabel=f"{measure}, queries that chose")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.04, y=0.12)
    _look_closer(axes, used, value)
    axes.legend(frameon=False, loc="lower right" if higher else "upper right", handlelength=1.4)
    axes.spines[["top", "right"]].set_visible(False)


def _look_closer(axes: Any, used: NDArray[Any], value: NDArray[Any]) -> None:
    """Leave the value of zero features outside the axes if the other values would shrink to a line."""
    others, nothing = value[used > 0], value[used == 0]
    if not others.size or not nothing.size:
        return
    low, high = others.min(), others.max()
    room = max(high - low, 0.02 * abs(high))
    if nothing.max() < low - 2 * room:
        axes.set_ylim(low - 0.8 * room, high + 0.35 * room)
    elif nothing.min() > high + 2 * room:  # where lower is better
        axes.set_ylim(low - 0.35 * room, high + 0.8 * room)
    else:
        return
    axes.set_xlabel(f"{axes.get_xlabel()} (none: {nothing.mean():.4f}, outside)")


def _draw_weights(axes: Any, model: FeatureModel, most: int) -> None:
    rows = model.features()
    shown = rows[:most]
    title = f"{len(rows)} weights" if len(shown) == len(rows) else f"Largest {len(shown)} of {len(rows)} weights"
    axes.set_title(title, loc="left", fontsize=TITLE_SIZE)
    if not shown:
        write_instead(axes, "no feature has a weight")
        return
    positions = np.arange(len(shown))
    weights = [row.weight for row in shown]
    axes.barh(positions, weights, height=0.62, color=[RED if weight > 0 else BLUE for weight in weights])
    labels = [shortened(row.label, _LONGEST_FEATURE) for row in shown]
    axes.set_yticks(positions, labels, parse_math=False)
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set(xlabel="weight", ylabel="feature")
    axes.xaxis.get_major_locator().set_params(nbins=6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
