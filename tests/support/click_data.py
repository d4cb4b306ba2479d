"""A few documents, a click log about them, and the bits that were learned from it."""

from __future__ import annotations

from support.indexes import small_model
from tercet.data import Impression
from tercet.fitting.text_model import TextModel
from tercet.weights import Sparse, Weights

DOCS = {"a": "green avocado", "b": "avocado toast with oil", "c": "blue sky", "d": "green sky oil"}
LOG = [
    Impression("avocado", ("a", "b", "c"), ("b",)),
    Impression("q1", ("c", "d"), ("d",)),
    Impression("green oil", ("a", "x", "d"), ("d",)),
    Impression("zebra", ("a", "b"), ("b",)),
    Impression("sky", ("c", "d"), ()),
]
QUERIES = {"q1": "sky"}


def model() -> TextModel:
    return small_model(DOCS, latent=True)


def sparse_bits(weights: Weights) -> tuple[bytes, bytes]:
    last = weights.parts[-1]
    assert isinstance(last, Sparse)
    return last.weights.data.tobytes(), last.weights.indices.tobytes()
