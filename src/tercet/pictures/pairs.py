"""Pictures of what a model learned: which pairs of words count, how large the weights are, how many each word has.

Two steps: `look_at_pairs` gathers the numbers, `draw_pairs` puts them on paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final, overload

import numpy as np
from numpy.typing import NDArray
from scipy.cluster import hierarchy

from tercet._validate import check_integer
from tercet.errors import InputError
from tercet.fitting.feature_model import FeatureModel
from tercet.fitting.text_model import TextModel
from tercet.learn import TermPairRanker
from tercet.pictures.drawing import (
    BLUE,
    GREY,
    INK,
    PALE_RED,
    PAPER,
    RED,
    SETTINGS,
    TITLE_SIZE,
    checked_picture,
    import_matplotlib,
    save_figure,
    say_instead,
    shortened,
)
from tercet.pictures.path import draw_path
from tercet.weights import Weights
from tercet.weights.survey import choose_columns, choose_rows, histogram, is_sparse, scan_rows, size_of_largest

FULL_ABOVE: Final = 0.2  # share of live entries above which counting those of a dense or low-rank W says little
LARGEST_SHARE: Final = 0.01  # the entries that are counted instead


@dataclass(frozen=True, eq=False)
class PairsSeen:
    """What a picture of learned pairs shows; made by `look_at_pairs`.

    Attributes
    ----------
    shape : (n_query_terms, n_doc_terms)
    query_terms, doc_terms, block : some query terms, some document terms and the weights between them
    query_names, doc_names : words, or column numbers
    shared : whether both sides have one vocabulary, so that equal numbers mean the same word
    edges, positive, negative : limits of sizes and how many entries of each sign lie between two of them
    looked_at : query terms whose rows were counted; all of them, unless W is too large and not sparse
    live : for each of those, how many entries are not zero, or reach ``floor``
    floor : the size entries were counted from, where W is full; else 0
    document_frequency : for each of ``looked_at`` how many documents have it, where that is known
    """

    shape: tuple[int, int]
    query_terms: NDArray[np.int64]
    doc_terms: NDArray[np.int64]
    block: NDArray[np.float64]
    query_names: tuple[str, ...]
    doc_names: tuple[str, ...]
    shared: bool
    edges: NDArray[np.float64]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]
    looked_at: NDArray[np.int64]
    live: NDArray[np.int64]
    floor: float
    document_frequency: NDArray[np.int64] | None

    @property
    def n_live(self) -> int:
        """How many entries of the rows looked at are not zero."""
        return int(self.positive.sum() + self.negative.sum())


@overload
def picture(thing: FeatureModel, path: str | PathLike[str], **options: Any) -> FeatureModel: ...


@overload
def picture(thing: TextModel | TermPairRanker | Weights, path: str | PathLike[str], **options: Any) -> PairsSeen: ...


def picture(
    thing: TextModel | TermPairRanker | Weights | FeatureModel, path: str | PathLike[str], **options: Any
) -> PairsSeen | FeatureModel:
    """Draw what a model learned, and write the drawing as .png, .svg or .pdf.

    Of a feature model: its path, features used against the measure that chose, and its weights; see `draw_path`.
    Of all others the pairs of words:
    On the left the query words with the largest weights on other words, and the document words that matter most to
    them; on the right how large the weights are, and how many of them each query word has. Needs the extra ``plot``.

    Parameters
    ----------
    thing : a text model, a fitted ranker, weights or a feature model
    path : file to write; it is there as a whole or not at all
    options : those of `look_at_pairs`, or of `draw_path`

    Returns
    -------
    what was drawn, as numbers: the pairs, or the feature model itself, which has its path

    Examples
    --------
    >>> import tempfile
    >>> from tercet.weights import Dense, Weights
    >>> weights = Weights([Dense(weights=np.array([[1, 0.5], [0, 1]], dtype=np.float32))])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     seen = picture(weights, f"{folder}/pairs.svg", vocabulary=["ice", "hockey"])
    >>> type(seen).__name__
    'PairsSeen'
    """
    path = checked_picture(path)
    if isinstance(thing, FeatureModel):
        save_figure(draw_path(thing, **options), path)
        return thing
    seen = look_at_pairs(thing, **options)
    save_figure(draw_pairs(seen), path)
    return seen


# -- looking --------------------------------------------------------------------------------------------------------


def look_at_pairs(
    thing: TextModel | TermPairRanker | Weights,
    *,
    vocabulary: Sequence[str] | None = None,
    n_query_words: int = 24,
    n_doc_words: int = 24,
) -> PairsSeen:
    """Find the strongest pairs of different words and count the weights by size and by query word.

    Parameters
    ----------
    thing : a text model, a fitted ranker, or weights. Square weights are taken to have one vocabulary.
    vocabulary : names of the columns, where ``thing`` is no text model and has one vocabulary
    n_query_words, n_doc_words : how many to pick

    Notes
    -----
    The query words are those with the largest weight, by size, on another word, but no more than two with the largest
    on the same one. Each of them then names its strongest document word, its second strongest and so on until there
    are enough. A sparse W costs its entries, any other O(n_query_terms n_doc_terms). Where that is more than 10⁸
    entries, evenly spaced rows are counted, and the strongest pairs are sought in the rows that could have the
    largest entries. A part with a per-document scale counts at typical document length.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.weights import Sparse
    >>> W = Sparse(weights=sparse.csr_array([[1.0, 0.5], [0.0, 1.0]]))
    >>> seen = look_at_pairs(Weights([W]), vocabulary=["car", "automobile"], n_query_words=1, n_doc_words=1)
    >>> seen.query_names, seen.doc_names, seen.block.tolist(), seen.live.tolist()
    (('car',), ('automobile',), [[0.5]], [2, 1])
    """
    for name, n in (("n_query_words", n_query_words), ("n_doc_words", n_doc_words)):
        check_integer(n, name)
    weights, names, shared, frequency = _take_apart(thing, vocabulary)
    scan = scan_rows(weights)
    query_terms = choose_rows(weights, shared, n_query_words)
    rows = weights.rows(query_terms)
    doc_terms = choose_columns(rows, query_terms, shared, n_doc_words)
    block = rows[:, doc_terms]
    down, across = _similar_next_to_each_other(block)
    query_terms, doc_terms, block = query_terms[down], doc_terms[across], block[np.ix_(down, across)]
    edges, positive, negative = histogram(scan.sizes)
    live, floor = scan.live, 0.0
    n_entries = scan.terms.size * weights.shape[1]
    if not is_sparse(weights) and scan.sizes.sum() > FULL_ABOVE * n_entries:
        floor = size_of_largest(scan.sizes, LARGEST_SHARE * n_entries)
        live = scan_rows(weights, floor).live
    return PairsSeen(
        shape=weights.shape,
        query_terms=query_terms,
        doc_terms=doc_terms,
        block=block,
        query_names=tuple(names[0][i] for i in query_terms),
        doc_names=tuple(names[1][j] for j in doc_terms),
        shared=shared,
        edges=edges,
        positive=positive,
        negative=negative,
        looked_at=scan.terms,
        live=live,
        floor=floor,
        document_frequency=None if frequency is None else frequency[scan.terms],
    )


Names = Sequence[str]


def _take_apart(
    thing: Any, vocabulary: Names | None
) -> tuple[Weights, tuple[Names, Names], bool, NDArray[np.int64] | None]:
    """Weights, the names of both sides, whether these are one vocabulary, and in how many documents a query word is."""
    if isinstance(thing, TextModel):
        if vocabulary is not None:
            raise InputError("a text model has its own words; leave 'vocabulary' out")
        thing = thing.words_alone()
        queries, docs = thing.query_vectoriser, thing.doc_vectoriser
        return thing.weights, (queries.words_, docs.words_), queries is docs, queries.document_frequency_
    weights = thing.weights_ if isinstance(thing, TermPairRanker) else thing
    if not isinstance(weights, Weights):
        raise InputError(f"a picture is of a text model, a ranker or weights; got {type(thing).__name__}")
    n, m = weights.shape
    if vocabulary is None:
        return weights, (_Numbers(), _Numbers()), n == m, None  # type: ignore[return-value]
    if n != m or len(vocabulary) != n:
        raise InputError(
            f"'vocabulary' names the columns of both sides; got {len(vocabulary)} for weights of shape ({n}, {m})"
        )
    return weights, (vocabulary, vocabulary), True, None


class _Numbers:
    """Names for columns without words."""

    def __getitem__(self, i: int) -> str:
        return str(i)


def _similar_next_to_each_other(block: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An order of rows and one of columns that brings similar ones together, so that topics show as patches."""
    if min(block.shape) < 3:
        return np.arange(block.shape[0]), np.arange(block.shape[1])
    length = np.linalg.norm(block, axis=1, keepdims=True)
    unit = np.divide(block, length, out=np.zeros_like(block), where=length > 0)
    tree = hierarchy.linkage(unit, method="average", optimal_ordering=True)
    down = hierarchy.leaves_list(tree).astype(np.int64)
    pull = np.maximum(block[down], 0)  # a column stands where the rows are that it counts for
    weight = pull.sum(axis=0)
    centre = np.divide(np.arange(down.size) @ pull, weight, out=np.full(weight.size, np.inf), where=weight > 0)
    return down, np.argsort(centre, kind="stable")


# -- drawing --------------------------------------------------------------------------------------------------------

_LONGEST_NAME = 14
_DECADES = 4  # of sizes, from the largest down


def draw_pairs(seen: PairsSeen) -> Any:
    """A ``matplotlib.figure.Figure`` of what was seen; nothing of matplotlib's settings is changed."""
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure: Any = Figure(figsize=(10, 6.2), dpi=150, layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1.75, 1))
        _draw_block(left, seen)
        above, below = right.subplots(2, 1)
        _draw_sizes(above, seen)
        _draw_live(below, seen)
        if seen.looked_at.size < seen.shape[0]:
            note = f"counted in {seen.looked_at.size:,} of {seen.shape[0]:,} query words, evenly spaced"
            right.supxlabel(note, fontsize=7.5, color=GREY)
    return figure


def _draw_block(figure: Any, seen: PairsSeen) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    axes = figure.subplots()
    axes.set_title(f"Strongest of {seen.shape[0]:,} × {seen.shape[1]:,} pairs", loc="left", fontsize=TITLE_SIZE)
    if not seen.block.size:
        say_instead(axes, "no weight between different words")
        return
    own = (seen.query_terms[:, None] == seen.doc_terms[None, :]) & seen.shared
    limit = np.abs(seen.block[~own]).max()  # a word's weight on itself may exceed it, and would pale all others
    colours = LinearSegmentedColormap.from_list("weights", [BLUE, PAPER, RED])
    image = axes.imshow(seen.block, cmap=colours, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
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


def _draw_sizes(axes: Any, seen: PairsSeen) -> None:
    axes.set_title(f"Sizes of {_rounded(seen.n_live)} weights", loc="left", fontsize=TITLE_SIZE)
    if not seen.n_live:
        say_instead(axes, "all weights are zero")
        return
    # An area and a line: where both signs have the same sizes, both are still seen.
    axes.stairs(
        seen.positive, seen.edges, fill=True, color=PALE_RED, label=f"positive {seen.positive.sum() / seen.n_live:.1%}"
    )
    axes.stairs(
        seen.negative, seen.edges, color=BLUE, linewidth=1.5, label=f"negative {seen.negative.sum() / seen.n_live:.1%}"
    )
    lowest = np.clip(seen.edges[0], seen.edges[-1] / 10**_DECADES, seen.edges[-1] / 10)
    smaller = int((seen.positive + seen.negative)[seen.edges[1:] <= lowest].sum())
    note = f"; {smaller / seen.n_live:.1%} are smaller" if smaller else ""
    axes.set(xscale="log", yscale="log", xlabel=f"size{note}", ylabel="entries", xlim=(lowest, seen.edges[-1] * 1.2))
    axes.set_ylim(0.7, 60 * max(1, seen.positive.max(), seen.negative.max()))
    axes.legend(frameon=False, loc="upper right", handlelength=1.2)
    axes.xaxis.set_minor_formatter("")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_live(axes: Any, seen: PairsSeen) -> None:
    what = f"Largest {LARGEST_SHARE:.0%} of weights" if seen.floor else "Weights other than zero"
    axes.set_title(f"{what}, by query word", loc="left", fontsize=TITLE_SIZE)
    if seen.document_frequency is None:
        axes.plot(np.arange(1, seen.live.size + 1), np.sort(seen.live)[::-1], color=INK, linewidth=1.5)
        axes.set(xlabel="query words, most entries first")
    else:
        axes.plot(seen.document_frequency, seen.live, ".", color=INK, markersize=4, alpha=0.3, markeredgewidth=0)
        axes.set(xlabel="documents with the query word", xscale="log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(f"entries of at least {seen.floor:.2g}" if seen.floor else "entries")
    if seen.live.all():
        axes.set_yscale("log")
        axes.set_ylim(0.7 * seen.live.min(), 1.5 * max(10, seen.live.max()))
    else:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(-0.3, None)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)


def _rounded(n: int) -> str:
    """A count a reader takes in: 812, 97,500, 10.0 million."""
    return f"{n:,}" if n < 10**6 else f"{n / 10**6:,.1f} million"


def _short(names: Sequence[str]) -> list[str]:
    return [shortened(name, _LONGEST_NAME) for name in names]
