"""A LETOR file that is read in chunks, pass after pass."""

from __future__ import annotations

from collections.abc import Iterator

from scipy.sparse import issparse

from tercet.data.letor import CHUNK_BYTES, LetorData, iter_letor
from tercet.data.letor_text import check_n_features
from tercet.data.lines import FilePath
from tercet.data.preference_streams import sampled_digest
from tercet.errors import InputError


class LetorStream:
    """Iterating, as often as wanted, gives the chunks of a file, whole queries each, one in memory at a time.

    Parameters
    ----------
    path, n_features, chunk_bytes, dense : as `iter_letor` has them. Without ``n_features`` the file is read once more,
        before the first pass, to find its largest feature id

    Notes
    -----
    Text is parsed anew in each pass; `write_chunks` makes arrays of it, which are many times as fast to read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:7 1:0.5\\n0 qid:7 2:1\\n1 qid:8 1:1\\n")
    ...     stream = LetorStream(file, chunk_bytes=1)
    ...     [[chunk.n_features for chunk in stream] for epoch in range(2)]
    [[2, 2], [2, 2]]
    """

    def __init__(
        self,
        path: FilePath,
        n_features: int | None = None,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        dense: bool | None = None,
    ) -> None:
        check_n_features(n_features)
        if chunk_bytes < 1:
            raise InputError(f"chunk_bytes must be 1 or more. Got {chunk_bytes!r} instead.")
        self.path = path
        self.n_features = n_features
        self.chunk_bytes = chunk_bytes
        self.dense = dense

    def __iter__(self) -> Iterator[LetorData]:
        for chunk in iter_letor(
            self.path, self.n_features, chunk_bytes=self.chunk_bytes, dense=self.dense, comments=False
        ):
            # Kept for the next pass, which then need not look for them.
            self.n_features, self.dense = chunk.n_features, not issparse(chunk.X)
            yield chunk

    def fingerprint(self) -> str:
        """A digest of samples of the file, and of how it is cut into chunks."""
        return f"{sampled_digest(self.path)} {self.chunk_bytes}"
