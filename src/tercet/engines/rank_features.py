"""Documents as fields of Elasticsearch's and OpenSearch's type ``rank_features``, whose values Lucene sums up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tercet.data.lines import write_atomically
from tercet.engines.impacts import Exact, ImpactRows
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel

IMPACTS_FIELD: Final = "tercet_impacts"  # what was learned, for queries of plain words
FOLDED_FIELD: Final = "tercet_folded"  # own words and latent vectors, for exact scores
_DROPPED_BITS = 15  # of a float32: Lucene's FeatureField keeps nine significant bits


@dataclass(frozen=True)
class RankFeatures:
    """What was written.

    Attributes
    ----------
    n_docs : documents
    n_impacts, n_folded : features of the two fields, in all documents
    n_left_out, n_negative : positive impacts that were left out, and negative ones, which the first field cannot hold
    relative_error : by which a value differs at most, in parts of its size

    Examples
    --------
    >>> RankFeatures(n_docs=2, n_impacts=9, n_folded=8, n_left_out=0, n_negative=0).relative_error == 2**-9
    True
    """

    n_docs: int
    n_impacts: int
    n_folded: int
    n_left_out: int
    n_negative: int
    relative_error: float = 2.0**-9


def write_rank_features(
    path: str | PathLike[str],
    model: TextModel,
    docs: Mapping[str, str],
    *,
    max_terms: int = 256,
    queries: Iterable[str] | None = None,
    mean_terms: int = 128,
) -> RankFeatures:
    """Write documents for the ``_bulk`` endpoint: each as an update that adds two fields to it, or makes it.

    ``tercet_impacts`` holds what was learned, as `ImpactRows` has it, in the model's units: for a query of plain words.
    ``tercet_folded`` holds own words and latent vectors, as `ImpactRows` with ``fold`` has them: the exact score, up
    to a number that is the same for all documents. `tercet.engines.elasticsearch` gives the mapping, and rewrites
    queries. Parameters as those of `ImpactRows`.

    Notes
    -----
    Values are rounded to the nearest that Lucene's FeatureField can hold, nine significant bits; it would cut them off.

    Examples
    --------
    >>> import tempfile
    >>> from tercet import TextModel
    >>> docs = {"a": "ice hockey", "b": "green tea"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_rank_features(f"{folder}/docs.ndjson", TextModel.bm25(docs.values()), docs).n_docs
    2
    """
    impacts = ImpactRows(model, docs, max_terms=max_terms, queries=queries, mean_terms=mean_terms)
    folded = ImpactRows(model, docs, fold=True)
    for word in (*impacts.words, *folded.words):  # of queries, and of documents, which may have others
        if "." in word:
            raise InputError(f"the word {word!r} has a dot in it; names of rank features cannot have one")
    n_impacts = n_folded = 0
    with write_atomically(path) as stream:
        for one, other in zip(impacts.exact(), folded.exact(), strict=True):
            fields = {IMPACTS_FIELD: _features(one, impacts.words), FOLDED_FIELD: _features(other, folded.words)}
            n_impacts += len(fields[IMPACTS_FIELD])
            n_folded += len(fields[FOLDED_FIELD])
            for line in ({"update": {"_id": one[0]}}, {"doc": fields, "doc_as_upsert": True}):
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
    return RankFeatures(len(docs), n_impacts, n_folded, impacts.n_left_out, impacts.n_negative)


def _features(row: Exact, words: list[str]) -> dict[str, float]:
    _, columns, values = row
    held = held_by_lucene(values)
    # The shortest number that is this one in single precision.
    return {words[j]: float(str(value)) for j, value in zip(columns.tolist(), held, strict=True) if value > 0}


def held_by_lucene(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The nearest values that FeatureField holds without loss; those below its smallest normal number are 0.

    Examples
    --------
    >>> held_by_lucene(np.array([0.1, 511.0, 1000.7])).tolist()
    [0.10009765625, 511.0, 1000.0]
    """
    bits = np.asarray(values, dtype=np.float32).view(np.int32).astype(np.int64)
    rounded = (bits + (1 << (_DROPPED_BITS - 1))) >> _DROPPED_BITS << _DROPPED_BITS
    held = rounded.astype(np.int32).view(np.float32)
    return np.where(held < np.finfo(np.float32).tiny, np.float32(0), held)
