"""Promotions of models: time, origin, evidence and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from tercet.data.values import timestamp
from tercet.store.schema import OMIT_DEFAULT, Bounds

KEPT_MODELS: Final = 8  # models of earlier entries, besides the index's own model
KEPT_PROMOTIONS: Final = 1000  # most entries in a manifest; the oldest entries are dropped

By = Literal["hand", "rule"]


@dataclass(frozen=True)
class Evidence:
    """Wins, losses and ties of a promoted model against its predecessor, query by query."""

    wins: Annotated[int, Bounds(0)]
    losses: Annotated[int, Bounds(0)]
    ties: Annotated[int, Bounds(0)] = 0

    def __str__(self) -> str:
        return f"{self.wins:,} wins, {self.losses:,} losses, {self.ties:,} ties"


@dataclass(frozen=True)
class Promotion:
    """Entry in the manifest.

    Attributes
    ----------
    number, time : number from 1, time in UTC
    by : "hand", or "rule" for a decision by a test
    before, after : fingerprints of the former and of the new model
    before_digest, after_digest : digests of the models' bundles in ``models/``
    undoes : number of an undone entry, or None
    evidence : evidence, or None
    """

    number: int
    time: str
    by: By
    before: str
    before_digest: str
    after: str
    after_digest: str
    undoes: Annotated[int | None, OMIT_DEFAULT] = None
    evidence: Annotated[Evidence | None, OMIT_DEFAULT] = None

    @property
    def name(self) -> str:
        """Name of the promotion elsewhere, as in the journal of a service."""
        return f"{self.number}:{self.after}"

    def __str__(self) -> str:
        how = f"undoes {self.undoes}" if self.undoes is not None else f"by {self.by}"
        evidence = "" if self.evidence is None else f", {self.evidence}"
        return f"{self.number}  {self.time}  {self.before} -> {self.after}  {how}{evidence}"


def next_promotion(
    promotions: Sequence[Promotion],
    before: tuple[str, str],
    after: tuple[str, str],
    by: By,
    undoes: int | None,
    evidence: Evidence | None,
) -> Promotion:
    """Return the entry of a promotion now; models are pairs of fingerprint and digest."""
    number = promotions[-1].number + 1 if promotions else 1
    return Promotion(number, timestamp(), by, *before, *after, undoes, evidence)


def last_to_undo(promotions: Sequence[Promotion]) -> Promotion | None:
    """Return the latest entry in force: not an undo, and not undone.

    Examples
    --------
    >>> def entry(number, before, after, undoes=None):
    ...     return Promotion(number, "", "hand", before, "", after, "", undoes)
    >>> entries = [entry(1, "a", "b"), entry(2, "b", "c"), entry(3, "c", "b", undoes=2)]
    >>> last_to_undo(entries).number
    1
    """
    undone = {promotion.undoes for promotion in promotions}
    counting = [each for each in promotions if each.undoes is None and each.number not in undone]
    return counting[-1] if counting else None


def kept_models(promotions: Sequence[Promotion], current: str) -> set[str]:
    """Return fingerprints of stored models: the current model and the latest `KEPT_MODELS` before.

    Examples
    --------
    >>> entries = [Promotion(i, "", "hand", f"m{i - 1}", "", f"m{i}", "") for i in range(1, 21)]
    >>> sorted(kept_models(entries, "m20"), key=lambda name: int(name[1:]))
    ['m12', 'm13', 'm14', 'm15', 'm16', 'm17', 'm18', 'm19', 'm20']
    """
    names = {current}
    for promotion in reversed(promotions):
        for name in (promotion.after, promotion.before):
            if len(names) <= KEPT_MODELS:
                names.add(name)
    return names
