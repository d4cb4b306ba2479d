"""Two models at once: lists made of what is served and of a rival, and who wins by the clicks in the log."""

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
    """A model that is its own start, since what it learned was rejected: nobody need be shown that."""


class Draft:
    """A list for one request; `assignment` is there once it was made of both rankings."""

    def __init__(
        self, interleaver: Interleaver, now: Published, contest: Contest, client: str, query: str, address: str | None
    ) -> None:
        self._interleaver, self._now, self._contest = interleaver, now, contest
        self._client, self._query, self._address = client, query, address
        self.assignment: Assignment | None = None

    def mixed(
        self, served: Sequence[str], k: int, everything: bool, where: Where | None = None
    ) -> tuple[str, ...] | None:
        """The ids to show in the place of those that are served, or None where the rival cannot be asked."""
        try:
            other = [hit.doc_id for hit in self._search(k, everything, where)]
        except EngineError:
            return None  # what is served is from the same engine, and says so
        except Exception as error:
            # A candidate that breaks must not break what is served.
            _log.exception("the candidate cannot be searched, and lists are not shared until it changes")
            self._interleaver.fail(error)
            return None
        log = self._interleaver.log
        coins = log.coins(self._client, self._query.strip(), *map(str, self._contest))
        address = None if self._address is None else log.client_id(self._address)
        drafted = team_draft(served, other, k, coins)
        self.assignment = Assignment(self._contest, drafted.teams, address=address)
        return drafted.docs

    def _search(self, k: int, everything: bool, where: Where | None) -> Results:
        """Return the list of the rival, as people would see it alone."""
        if self._now.rival is None:
            return self._now.served.baseline.index.search(self._query, k, cutoff=False, where=where)
        return self._now.rival.index.search(self._query, k, cutoff=not everything, where=where)


class Interleaver:
    """Chooses the rival of what is served, and keeps the standing of their duel as the log has it.

    Parameters
    ----------
    log : where lists and clicks are logged
    source : of the candidate, or None for the baseline
    settle_seconds : after which a list is settled, with the clicks that came until then; a visit is three times as long
    promotes : whether a challenger that wins is to be promoted; only a model can be

    Attributes
    ----------
    refused : why there is no rival, or not the one that is in its folder now; None where all is well
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
            raise InputError("the baseline is no model that could be promoted; compare with a candidate")
        self.log, self.promotes = log, promotes
        self.refused: str | None = None
        self._source, self._settle_seconds = source, settle_seconds
        self._is_broken = False
        self._model: TextModel | None = None  # the last that could be compared
        self._former: tuple[str, TextModel] | None = None  # the last promotion, and the model before it
        self._tally = Tally(settle_seconds)
        self._counting = threading.Lock()  # held while a list is counted, and while the standing is told
        self._reading = threading.Lock()
        self._reader: GrowingUbi | None = None

    # -- the rival ----------------------------------------------------------------------------------------------

    def read_candidate(self) -> TextModel | None:
        """Return the model that is in the candidate's folder now, None for the baseline; what is wrong is raised."""
        if self._source is None:
            return None
        model = self._source.open()
        if model.report is not None and not model.report.accepted:
            raise RejectedCandidate(
                f"{self._source.folder}: what was learned was rejected ({model.report.decision}), so there is nothing "
                "to compare"
            )
        return model

    @property
    def has_news(self) -> bool:
        """True where the candidate was written again since it was read."""
        return self._source is not None and self._source.has_news

    def rival_of(self, served: Served, model: TextModel | None = None) -> Served | None:
        """Return the version that is compared with what is served; None for the baseline, and before the first one.

        ``model`` is the candidate; None takes the last one that fitted. Where the candidate is served already, as after
        its promotion, it is the model that was served before it; None without one. What is wrong with the candidate is
        raised.
        """
        self._is_broken = False
        candidate = model or self._model
        if self._source is None or candidate is None:
            return None
        try:
            index = served.base.with_model(candidate)
        except InputError as error:
            raise InputError(f"{self._source.folder} cannot be compared with what is served: {error}") from error
        rival: Served | None = Served.of(index)
        if _is_same_model(candidate, served):
            former = self._former_of(served.base)
            is_other = former is not None and not _is_same_model(former, served)
            rival = Served.of(served.base.with_model(former)) if former is not None and is_other else None
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
        """Say that the candidate cannot be had as it is now."""
        self.refused = f"{type(error).__name__}; the service's log says more"  # anybody may ask for this
        _log.warning("the candidate is refused: %s", error)

    def fail(self, error: Exception) -> None:
        """Go on without the rival, which cannot be asked."""
        self._is_broken = True
        self.refuse(error)

    def contest(self, now: Published) -> Contest | None:
        """Return who is compared; None where lists are not shared."""
        if self._is_broken or (now.rival is None and self._source is not None):
            return None
        if now.rival is None and not now.served.compared:
            return None
        promotions = now.served.base.promotions
        second = BASELINE if now.rival is None else now.rival.model_label
        return Contest(now.served.model_label, second, promotions[-1].number if promotions else 0)

    def draft(self, now: Published, client: str, query: str, address: str | None) -> Draft | None:
        """A list to be shared, or None where there is nobody to share it with."""
        contest = self.contest(now)
        return None if contest is None else Draft(self, now, contest, client, query, address)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    # -- the standing -------------------------------------------------------------------------------------------

    def count(self) -> None:
        """Take in the lists of the log that are settled by now, those of before a restart as well."""
        with self._reading:
            try:
                now = self.log.clock()  # before reading: what settles meanwhile is for the next time
                if self._reader is None:
                    self._reader = GrowingUbi(self.log.folder, self.log.clock, self._settle_seconds)
                for one in self._reader.lists():
                    with self._counting:
                        self._tally.take(one)
                with self._counting:
                    self._tally.close(now)
            except (TercetError, OSError) as error:
                _log.warning("lists of the log are not counted: %s", error)

    def won(self, now: Published) -> tuple[TextModel, Evidence] | None:
        """The challenger's model and by what it won, where it is to be promoted."""
        contest = self.contest(now)
        if not self.promotes or now.rival is None or contest is None:
            return None
        with self._counting:
            duel = self._tally.duel(contest)
        if duel.winner != "second":
            return None
        evidence = Evidence(wins=duel.losses, losses=duel.wins, ties=duel.ties)
        return text_model(now.rival.base), evidence

    def said(self, now: Published) -> str:
        """Who is compared, as a sentence."""
        contest = self.contest(now)
        if contest is None and self._model is None:
            return "there is no candidate to compare yet"
        if contest is None:
            return "the candidate is the model that is served, so there is nothing to compare"
        return f"{contest.first}, which is served, is compared with {contest.second} by team-draft lists"

    def to_meta(self, now: Published) -> dict[str, Any]:
        """What anybody may know of it."""
        contest = self.contest(now)
        told = {
            "served": None if contest is None else contest.first,
            "challenger": None if contest is None else contest.second,
            "refused": self.refused,
            "promotes": self.promotes,
            "promotion": None if contest is None or not contest.promotion else contest.promotion,
        }
        with self._counting:
            return told | self._tally.duel(contest).to_meta()


def _is_same_model(model: TextModel, served: Served) -> bool:
    """Return True for the model of a version, and for one that scores as that model does."""
    return served.base.given_model is model or model_fingerprint(model).startswith(served.model_label)
