"""Own vectors of queries for vector engines: adapted by the map that was learned; documents stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tercet.data.own_vectors import IDS_ENDING, as_own_vectors
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.store.atomic import open_atomically, write_file_atomically


@dataclass(frozen=True)
class AdaptedVectors:
    """What was written.

    Examples
    --------
    >>> AdaptedVectors(n_queries=12, n_dims=256).n_dims
    256
    """

    n_queries: int
    n_dims: int


def write_adapted_vectors(path: str | PathLike[str], model: TextModel, query_vectors: Any = None) -> AdaptedVectors:
    """Write queries as a vector engine is to be asked by inner product; without queries, the map M (n_dims, n_dims).

    Parameters
    ----------
    path : .npz with the arrays ids and vectors, or .npy, whose ids are written to .ids beside it
    query_vectors : as ``tc.fit`` takes them

    Examples
    --------
    >>> write_adapted_vectors("adapted.txt", None, {"q": [1.0]})
    Traceback (most recent call last):
        ...
    tercet.errors.InputError: adapted.txt must end in .npy or .npz
    """
    path = Path(path)
    if path.suffix not in (".npy", ".npz") or (query_vectors is None and path.suffix != ".npy"):
        raise InputError(f"{path} must end in .npy{' or .npz' if query_vectors is not None else ''}")
    if query_vectors is None:
        with open_atomically(path) as file:
            np.save(file, model.adapted_vectors(np.eye(model.n_dims, dtype=np.float32)))
        return AdaptedVectors(0, model.n_dims)
    own = as_own_vectors(query_vectors, "query_vectors")
    adapted = model.adapted_vectors(own.matrix)
    if path.suffix == ".npz":
        with open_atomically(path) as file:
            np.savez(file, ids=np.array(own.ids), vectors=adapted)
    else:
        write_file_atomically(path.with_suffix(IDS_ENDING), "".join(f"{one}\n" for one in own.ids).encode())
        with open_atomically(path) as file:
            np.save(file, adapted)
    return AdaptedVectors(len(own.ids), model.n_dims)
