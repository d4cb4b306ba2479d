"""How much the service takes on, and how far what it learns may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tercet.learn.online import OnlineRule

BODY_BYTES: Final = 1_000_000  # of a request; more is answered by 413
VOTE_BYTES: Final = 65_536  # the same of a preference and of a click, more than their longest texts take as JSON
UNKNOWN_MEMBERS: Final = 20  # of an object that is sent, each of which is named; more are refused as a whole
QUERY_CHARS: Final = 1_000  # of a query; more of these and the following is answered by 422
QUERY_TERMS: Final = 64  # tokens of a query
MOST_RESULTS: Final = 1_000  # the largest k
SHOWN: Final = 100  # documents in one list of a click report
FILTERS: Final = 16  # of a search
FILTER_CHARS: Final = 400  # of each, column and value
ID_CHARS: Final = 1_000  # of a document's id
CLIENT_CHARS: Final = 64  # of a client's name
DOCUMENTS_AT_ONCE: Final = 1_000  # that one request may add
ENTRIES_AT_ONCE: Final = 10_000  # that one request may take back
ENTRIES_BEHIND: Final = 100  # that are told of a learned pair of words, the latest
LEARNED_PAIRS: Final = 10_000_000  # of words; what is learned then is to be baked before more is taught
SNAPSHOT_EVERY: Final = 10_000  # entries between two snapshots of what was learned


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
    journal_bytes: int = 2**33


@dataclass(frozen=True)
class LearningBounds(OnlineRule):
    """The rule that the service learns by, bounded, and how much of it somebody may ask for.

    Lengths are in units: the base's usual weight of a word on itself.

    Attributes
    ----------
    rate, margin, least_margin, l1, pairs, step, weight : as `OnlineRule` has them; here, steps are bounded
    client : largest total change by one client, sizes added up, in units; ten times that for one address, of IPv6 for
        a /64, forty times for a /48, and a hundred times for one that has the write token and says who its clients are
    crowd : the same for all together for whom nobody vouches, until the next promotion or bake; 0 for any. Those who
        are mostly alone have as much, apart, so that they cannot spend what the others have
    alone : how many times over whoever agrees with others in less than half of what it asks for pays for a change
    teacher : as ``client`` for the teacher, who has the write token or is alone on this machine
    teacher_pairs : as ``pairs``, for what the teacher prefers: more of them disturb other queries less
    renewal : hours in which an allowance that was spent comes back, evenly; 0 for never
    preference : what a preference counts, a click being 1: enough to put the better document ahead at once, however far
        it is behind
    """

    l1: float = 0.0  # so that going back gives the bits that were there
    pairs: int = 64
    step: float = 1.0
    weight: float = 1.0
    client: float = 20.0
    crowd: float = 500.0
    alone: float = 4.0
    teacher: float = 10_000.0
    teacher_pairs: int = 1024
    renewal: float = 24.0
    preference: float = 125.0
