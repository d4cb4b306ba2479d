"""The votes behind learned pairs of words, looked for in a bounded time and kept in a bounded room."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.online import FREE, fill_table, slot_of
from tercet.kernels.votes import note_votes_behind
from tercet.serve.ballots import BallotBox
from tercet.serve.bounds import ENTRIES_BEHIND


class Behind(NamedTuple):
    """What is behind a pair of words: the latest entries, rising, and how many votes there are in all."""

    entries: tuple[int, ...]
    n_votes: int


class LookBehind:
    """Looks for the votes behind pairs of words, some questions at a time.

    Parameters
    ----------
    keys : of the pairs, distinct: query word times document words, plus document word
    shape : of the weights
    """

    def __init__(self, keys: NDArray[np.int64], shape: tuple[int, int]) -> None:
        self._n_doc_terms = shape[1]
        self._wanted = np.full(max(16, 1 << int(4 * keys.size).bit_length()), FREE)
        fill_table((self._wanted, np.zeros(self._wanted.size)), keys, np.zeros(keys.size))
        self._is_wanted_word = np.zeros(shape[0], bool)
        self._is_wanted_word[keys // shape[1]] = True
        self._latest = np.zeros((self._wanted.size, ENTRIES_BEHIND), np.int64)
        self._n_votes = np.zeros(self._wanted.size, np.int64)
        self.is_whole = False  # whether all questions were looked at

    def look(self, box: BallotBox, first: int, stop: int) -> None:
        """Look at the votes on the questions from first to stop; begin with the last, whose votes are the latest."""
        sought = self._wanted, self._is_wanted_word, first, stop, self._n_doc_terms
        note_votes_behind(*sought, *box.rows, self._latest, self._n_votes)
        self.is_whole = first == 0

    def __getitem__(self, key: int) -> Behind:
        """What was found behind a pair so far."""
        slot = slot_of(self._wanted, key)
        latest = self._latest[slot]
        return Behind(tuple(latest[latest > 0][::-1].tolist()), int(self._n_votes[slot]))
