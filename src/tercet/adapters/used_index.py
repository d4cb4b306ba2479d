"""Index with learning from use, into one SQLite file, with undo."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from os import PathLike
from typing import Final, NamedTuple
from zlib import crc32

from tercet.data.taught import USE, Pair
from tercet.errors import InputError
from tercet.search import BaseIndex, Hit, Index, Results
from tercet.search.filtering import Where
from tercet.serve.served import Served
from tercet.serve.taught import NotActiveError, TaughtStore
from tercet.serve.teacher import RULE, Overlay

# Fewer pairs of words per preference keep responses fast; the margin is large enough next to scores of memory.
_RULE: Final = replace(RULE, pairs=64, least_margin=0.1)
_LISTS: Final = 1_000  # remembered result lists; use of an older list is not learned
_REJECTED_BELOW: Final = 3  # documents preferred to each rejected document
_TOKEN_BYTES: Final = 6


@dataclass
class _Shown:
    """Result list: query, ids in order, fetched documents, and the learned action."""

    text: str
    ids: list[str]
    fetched: list[str] = field(default_factory=list)
    action: int | None = None


class Answer(NamedTuple):
    """Hits and the id by which their use is told."""

    query_id: str
    hits: Results


class UsedIndex:
    """Index with the teaching of its callers; shared by threads.

    Fetched documents count as used at the next search, unless `use` contradicts. Used documents are preferred to the
    documents above and to the next document below.

    Parameters
    ----------
    index : documents and a text model
    taught : SQLite file of taught actions, created if missing; one process writes the file
    caller : name of the caller in the file

    Examples
    --------
    >>> import tempfile, tercet as tc
    >>> index = tc.Index.build({"a": "reset a password", "b": "change the password", "c": "opening hours"})
    >>> with tempfile.TemporaryDirectory() as folder, UsedIndex(index, f"{folder}/taught.db") as used:
    ...     answer = used.search("forgot my password")
    ...     action = used.use(answer.query_id, ["b"])
    ...     used.search("forgot the password")[1][0].doc_id
    'b'
    """

    def __init__(self, index: BaseIndex, taught: str | PathLike[str], caller: str = "caller") -> None:
        self._caller, self._lock = caller, threading.RLock()
        self._lists: OrderedDict[str, _Shown] = OrderedDict()
        self.store = TaughtStore(taught)
        try:
            self._base = Served.from_index(index)  # without words of queries
            self._overlay = self._folded(self._base)
            self._overlay.warm_up()
            self._served = self._overlay.served(self.store.revision)
        except BaseException:
            self.store.close()
            raise

    def __enter__(self) -> UsedIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Learn from what was fetched last, and let another process write the file."""
        with self._lock:
            self._learn_fetched()
            self.store.close()

    @property
    def index(self) -> BaseIndex:
        """The index with what was taught."""
        return self._served.index

    @property
    def base(self) -> BaseIndex:
        """The index without what was taught."""
        return self._base.base

    def replace(self, index: BaseIndex) -> None:
        """Search other documents or by another model from now on; what was taught stays."""
        revision = self.store.revision
        base = Served.from_index(index)
        overlay = self._folded(base)
        with self._lock:
            self._base = base
            self._overlay = overlay if self.store.revision == revision else self._folded(base)
            self._served = self._overlay.served(self.store.revision)

    # -- searching ----------------------------------------------------------------------------------------------

    def search(self, text: str, k: int = 10, where: Where | None = None) -> Answer:
        """Return the k best documents, and an id for `use`."""
        with self._lock:
            self._learn_fetched()
            index = self.index
        hits = index.search(text, k, where=where)
        query_id = secrets.token_hex(_TOKEN_BYTES)
        with self._lock:
            self._lists[query_id] = _Shown(text, [hit.doc_id for hit in hits])
            while len(self._lists) > _LISTS:
                self._lists.popitem(last=False)
        return Answer(query_id, hits)

    def fetch(self, doc_id: str) -> Hit:
        """Return a document as a hit of the latest list with the document, and record the use."""
        with self._lock:
            listing = next((candidate for candidate in reversed(self._lists.values()) if doc_id in candidate.ids), None)
            if listing is not None and doc_id not in listing.fetched:
                listing.fetched.append(doc_id)
            return self._hit("" if listing is None else listing.text, doc_id)

    def why(self, query_id: str, doc_id: str) -> Hit:
        """Return a document as a hit of a list's query, by what is known now."""
        with self._lock:
            return self._hit(self._list(query_id).text, doc_id)

    def _hit(self, text: str, doc_id: str) -> Hit:
        self._check([doc_id])
        [hit] = self.index.hits_of(self._served.model.queries([text]), [doc_id])
        return hit

    # -- learning -----------------------------------------------------------------------------------------------

    def use(self, query_id: str, used: Sequence[str], unused: Sequence[str] | None = None) -> int:
        """Learn the documents that answered a query; return the number of the action, for `undo`.

        Parameters
        ----------
        query_id : query id of `search`
        used : ids of the answering documents, also from outside the list
        unused : ids of documents without an answer; None for all other documents of the list, or a random document.
            Without used documents, unused documents move below the rest of the list
        """
        with self._lock:
            listing = self._list(query_id)
            self._check([*used, *(unused or ())])
            unused_ids = [doc_id for doc_id in (listing.ids if unused is None else unused) if doc_id not in used]
            listing.fetched = []
            if used and not unused_ids:
                unused_ids = self._another(listing.text, used)
            return self._learn(listing, used, unused_ids)

    def undo(self, numbers: Sequence[int] | None = None) -> list[int]:
        """Undo actions, or the caller's last one; return their numbers."""
        with self._lock:
            try:
                undone = [action.number for action in self.store.undo(self._caller, numbers)]
            except NotActiveError as error:
                what = f"action {error.number} is not an active one" if error.number else "there is nothing to undo"
                raise InputError(what) from error
            for listing in self._lists.values():
                listing.action = None if listing.action in undone else listing.action
            self._refold()
            return undone

    def _another(self, text: str, used: Sequence[str]) -> list[str]:
        """Draw another document by the text of a query."""
        start = crc32(text.encode("utf-8", "surrogatepass")) % len(self.index)
        around = chain(islice(self.index, start, None), self.index)
        return list(islice((doc_id for doc_id in around if doc_id not in used), 1))

    def _list(self, query_id: str) -> _Shown:
        if query_id not in self._lists:
            raise InputError(f"there is no list {query_id[:80]!r}, or it was long ago; search again")
        return self._lists[query_id]

    def _check(self, doc_ids: Sequence[str]) -> None:
        for doc_id in doc_ids:
            if doc_id not in self.index:
                raise InputError(f"there is no document {doc_id[:80]!r}; use an id that a search returned")

    def _learn_fetched(self) -> None:
        for listing in list(self._lists.values()):
            if listing.fetched:
                last = max(listing.ids.index(doc_id) for doc_id in listing.fetched)
                unused_ids = [doc_id for doc_id in listing.ids[: last + 2] if doc_id not in listing.fetched]
                if unused_ids:
                    self._learn(listing, listing.fetched, unused_ids)
                listing.fetched = []

    def _learn(self, shown: _Shown, used: Sequence[str], others: Sequence[str]) -> int:
        """Write one action for a list, in place of an earlier one, and learn from the action."""
        kind, pairs = USE, [(better, worse) for better in used for worse in others]
        if not used:
            kind, pairs = "reject", _rejections(shown.ids, others)
        if not pairs:
            raise InputError("there is no other document to compare with, so there is nothing to learn")
        if shown.action is not None:
            self.store.undo(self._caller, [shown.action])
        action = self.store.add(self._caller, kind, shown.text, pairs)
        if shown.action is None:
            self._know([shown.text])
            self._overlay.learn([action])
            self._served = self._overlay.served(action.revision)
        else:
            self._refold()
        shown.action = action.number
        return action.number

    def _refold(self) -> None:
        self._overlay = self._folded(self._base)
        self._served = self._overlay.served(self.store.revision)

    def _know(self, texts: Sequence[str]) -> None:
        """Give new words of queries a column."""
        base = self._overlay.base
        wider = _with_words(base.base, texts)
        if wider is not base.base:
            self._overlay = self._overlay.widened(Served.from_index(wider))

    def _folded(self, base: Served) -> Overlay:
        actions = self.store.since(0).actions
        wider = _with_words(base.base, [action.query for action in actions if action.is_active])
        overlay = Overlay(base if wider is base.base else Served.from_index(wider), self.store.id, _RULE)
        overlay.learn(actions)
        return overlay


def _with_words(index: BaseIndex, texts: Sequence[str]) -> BaseIndex:
    """An index that knows the words of some queries; documents in another engine keep their words."""
    return index.with_words(texts) if isinstance(index, Index) else index


def _rejections(ids: Sequence[str], rejected: Sequence[str]) -> list[Pair]:
    """Preferences of the next documents of a list over rejected documents."""
    pairs = []
    for doc_id in rejected:
        rest = [better_id for better_id in ids if better_id not in rejected]
        below = [better_id for better_id in rest if doc_id in ids and ids.index(better_id) > ids.index(doc_id)]
        pairs += [(better_id, doc_id) for better_id in (below or rest)[:_REJECTED_BELOW]]
    return pairs
