"""Interleaved lists of the served model and a rival, and the winner by the clicks in the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

from tercet.data.ubi import CLICK_SECONDS, GrowingUbi
from tercet.errors import EngineError, InputError, TercetError
from tercet.fitting.text_model import TextModel
from tercet.measure.duels import Assignment, Contest, Tally
from tercet.measure.interleaving import team_draft
from tercet.search import BaseIndex, Results
from tercet.search.filtering import Where
from tercet.search.folder import model_fingerprint
from tercet.search.promotions import Evidence
from tercet.serve.impressions import ImpressionLog
from tercet.serve.served import Served, text_model
from tercet.serve.teacher import Published
from tercet.serve.watched import Watched

_log = logging.getLogger(__name__)

BASELINE: Final = "baseline"


class RejectedCandidate(InputError):
    """A candidate without learned parts, because learning was rejected."""


class Draft:
    """Interleaved list for one request; `assignment` is set once both rankings were drafted."""

    def __init__(self, interleaver: Interleaver, now: Published, contest: Contest, client: str, query: str) -> None:
        self._interleaver, self._now, self._contest = interleaver, now, contest
        self._client, self._query = client, query
        self.assignment: Assignment | None = None

    def mixed(
        self, served: Sequence[str], k: int, everything: bool, where: Where | None = None
    ) -> tuple[str, ...] | None:
        """Return the interleaved ids, or None if the rival cannot be searched."""
        try:
            rival_ids = [hit.doc_id for hit in self._search(k, everything, where)]
        except EngineError:
            return None  # the served model uses the same engine and reports the error
        except Exception as error:  # a broken candidate must not break the service
            _log.exception("the candidate cannot be searched; interleaving stops until the candidate changes")
            self._interleaver.fail(error)
            return None
        log = self._interleaver.log
        coins = log.coins(self._client, self._query.strip(), *map(str, self._contest))
        drafted = team_draft(served, rival_ids, k, coins)
        self.assignment = Assignment(self._contest, drafted.teams)
        return drafted.docs

    def _search(self, k: int, everything: bool, where: Where | None) -> Results:
        """Return the list of the rival."""
        if self._now.rival is None:
            return self._now.served.baseline.search(self._query, k, cutoff=False, where=where)
        return self._now.rival.index.search(self._query, k, cutoff=not everything, where=where)


class Interleaver:
    """Choice of the rival, and the counts of wins by the log.

    Parameters
    ----------
    log : impressions log of lists and clicks
    source : folder of the candidate; None compares with the baseline
    settle_seconds : time for clicks on a list; a visit of a client is three times as long
    promotes : True promotes a candidate that wins

    Attributes
    ----------
    refused : reason why the candidate is not compared, or None
    """

    def __init__(
        self,
        log: ImpressionLog,
        source: Watched[TextModel] | None = None,
        settle_seconds: float = CLICK_SECONDS,
        promotes: bool = False,
    ) -> None:
        if settle_seconds < 0:
            raise InputError(f"settle_seconds must be at least 0; got {settle_seconds}")
        if promotes and source is None:
            raise InputError("the baseline cannot be promoted; name a candidate")
        self.log, self.promotes = log, promotes
        self.refused: str | None = None
        self._source, self._settle_seconds = source, settle_seconds
        self._is_broken = False
        self._model: TextModel | None = None  # last valid candidate
        self._former: tuple[str, TextModel] | None = None  # last promotion, and the model before
        self._tally = Tally(settle_seconds)
        self._counting = threading.Lock()  # guards the tally
        self._reading = threading.Lock()
        self._reader: GrowingUbi | None = None

    # -- the rival ----------------------------------------------------------------------------------------------

    def read_candidate(self) -> TextModel | None:
        """Read the candidate from its folder; return None for the baseline."""
        if self._source is None:
            return None
        model = self._source.open()
        if model.report is not None and not model.report.accepted:
            raise RejectedCandidate(
                f"{self._source.folder}: learning was rejected ({model.report.decision}); nothing to compare"
            )
        return model

    @property
    def has_news(self) -> bool:
        """True if the candidate was written again since the last read."""
        return self._source is not None and self._source.has_news

    def rival_of(self, served: Served, model: TextModel | None = None) -> Served | None:
        """Return the version to interleave with, or None for the baseline and without a candidate.

        ``model`` is the candidate, by default the last valid candidate. If the candidate is served, as after a
        promotion, the rival is the model before.
        """
        self._is_broken = False
        candidate = model or self._model
        if self._source is None or candidate is None:
            return None
        try:
            index = served.base.with_model(candidate)
        except InputError as error:
            raise InputError(f"{self._source.folder} cannot be compared with the served model: {error}") from error
        rival: Served | None = Served.from_index(index)
        if _is_same_model(candidate, served):
            former = self._former_of(served.base)
            is_other = former is not None and not _is_same_model(former, served)
            rival = Served.from_index(served.base.with_model(former)) if former is not None and is_other else None
        self._model, self.refused = candidate, None
        return rival

    def _former_of(self, index: BaseIndex) -> TextModel | None:
        promotions = index.promotions
        if not promotions:
            return None
        if self._former is None or self._former[0] != promotions[-1].name:
            model = index.former_model()
            self._former = (promotions[-1].name, model) if isinstance(model, TextModel) else None
        return None if self._former is None else self._former[1]

    def refuse(self, error: Exception) -> None:
        """Store and log the reason why the candidate is not used."""
        self.refused = f"{type(error).__name__}; the service's log says more"  # readable by everybody
        _log.warning("the candidate is refused: %s", error)

    def fail(self, error: Exception) -> None:
        """Stop interleaving with a broken rival."""
        self._is_broken = True
        self.refuse(error)

    def contest(self, now: Published) -> Contest | None:
        """Return the two compared models, or None if lists are not interleaved."""
        if self._is_broken or (now.rival is None and self._source is not None):
            return None
        if now.rival is None and not now.served.compared:
            return None
        promotions = now.served.base.promotions
        second = BASELINE if now.rival is None else now.rival.model_label
        return Contest(now.served.model_label, second, promotions[-1].number if promotions else 0)

    def draft(self, now: Published, client: str, query: str) -> Draft | None:
        """Return a draft of an interleaved list, or None if lists are not interleaved."""
        contest = self.contest(now)
        return None if contest is None else Draft(self, now, contest, client, query)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    # -- the standing -------------------------------------------------------------------------------------------

    def count(self) -> None:
        """Count the settled lists of the log, including those before a restart."""
        with self._reading:
            try:
                now = self.log.clock()  # before reading
                if self._reader is None:
                    self._reader = GrowingUbi(self.log.folder, self.log.clock, self._settle_seconds)
                for impression in self._reader.lists():
                    with self._counting:
                        self._tally.take(impression)
                with self._counting:
                    self._tally.close(now)
            except (TercetError, OSError) as error:
                _log.warning("lists of the log are not counted: %s", error)

    def won(self, now: Published) -> tuple[TextModel, Evidence] | None:
        """Return the model and the evidence of a rival that won and is to be promoted."""
        contest = self.contest(now)
        if not self.promotes or now.rival is None or contest is None:
            return None
        with self._counting:
            duel = self._tally.duel(contest)
        if duel.winner != "second":
            return None
        evidence = Evidence(wins=duel.losses, losses=duel.wins, ties=duel.ties)
        return text_model(now.rival.base), evidence

    def description(self, now: Published) -> str:
        """Describe the comparison in a sentence."""
        contest = self.contest(now)
        if contest is None and self._model is None:
            return "there is no candidate yet"
        if contest is None:
            return "the candidate is the served model, so there is nothing to compare"
        return f"{contest.first} (served) is compared with {contest.second} by team-draft lists"

    def to_meta(self, now: Published) -> dict[str, Any]:
        """Return names and counts for /health."""
        contest = self.contest(now)
        names = {
            "served": None if contest is None else contest.first,
            "challenger": None if contest is None else contest.second,
            "refused": self.refused,
            "promotes": self.promotes,
            "promotion": None if contest is None or not contest.promotion else contest.promotion,
        }
        with self._counting:
            return names | self._tally.duel(contest).to_meta()


def _is_same_model(model: TextModel, served: Served) -> bool:
    """Return True for the model of a version, or an equal model."""
    return served.base.given_model is model or model_fingerprint(model).startswith(served.model_label)
