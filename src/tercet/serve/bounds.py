"""How much the service takes on, and how far what it learns may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BODY_BYTES: Final = 1_000_000  # of a request; more is answered by 413
QUERY_CHARS: Final = 1_000  # of a query; more of these and the following is answered by 422
QUERY_TERMS: Final = 64  # words of a query, as the model cuts it
MOST_RESULTS: Final = 1_000  # the largest k
SHOWN: Final = 100  # documents in one list of a click report
ID_CHARS: Final = 1_000  # of a document's id
CLIENT_CHARS: Final = 64  # of a client's name
ENTRIES_AT_ONCE: Final = 10_000  # that one request may take back


@dataclass(frozen=True)
class Limits:
    """How much the service does at a time, and how often somebody may change what is learned.

    Attributes
    ----------
    deadline_ms : after so long a search gives what it has, marked as partial
    workers : searches at a time
    waiting : requests that may wait for a worker; one more is answered by 503
    writes_per_minute, write_burst : of one client, and ten times as many of one address; more is answered by 429
    journal_bytes : size at which the journal takes no more
    """

    deadline_ms: float = 1_000.0
    workers: int = 2
    waiting: int = 64
    writes_per_minute: float = 60.0
    write_burst: int = 30
    journal_bytes: int = 2**30


@dataclass(frozen=True)
class Bounds:
    """How far preferences move the weights, which are counted in units: the base's usual weight of a word on itself.

    Attributes
    ----------
    margin : by how much the better document is to be ahead, as a share of the larger score of the two
    least_margin : the same where both scores are near 0, in units
    pairs : pairs of words that one preference may change, those that count most for it
    step : largest change by one preference, as a Euclidean length, in units
    weight : largest weight of a pair in the overlay, in units
    client : largest total change by one client, sizes added up, in units; ten times that for one address
    click : what a click counts, a preference being 1
    click_pairs : preferences that one list with clicks may give
    """

    margin: float = 0.05
    least_margin: float = 0.01
    pairs: int = 64
    step: float = 1.0
    weight: float = 1.0
    client: float = 20.0
    click: float = 0.5
    click_pairs: int = 64
