"""Two models at once: lists made of what is served and of a rival, and who wins by the clicks in the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tercet.data.ubi import CLICK_SECONDS, GrowingUbi
from tercet.errors import EngineError, InputError, TercetError
from tercet.fitting.text_model import TextModel
from tercet.measure.duels import Assignment, Contest, Tally
from tercet.measure.interleaving import team_draft
from tercet.search import Results
from tercet.search.filtering import Where
from tercet.search.promotions import Evidence
from tercet.serve.bounds import LearningBounds
from tercet.serve.generations import Generation, Marks, is_same_model, marks_of
from tercet.serve.impressions import ImpressionLog
from tercet.serve.journal import Entry
from tercet.serve.learner import Version
from tercet.serve.replay import text_model
from tercet.serve.snapshots import Snapshots
from tercet.store import MANIFEST_NAME

_log = logging.getLogger(__name__)

BASELINE: Final = "baseline"


class RejectedCandidate(InputError):
    """A model that is its own start, since what it learned was rejected: nobody need be shown that."""


class CandidateSource:
    """Where the model of a candidate is.

    Parameters
    ----------
    folder : of the model
    read_model : reads it
    """

    def __init__(self, folder: Path, read_model: Callable[[], TextModel]) -> None:
        self.folder, self.read = folder, read_model

    def marks(self) -> Marks:
        """What changes when the model is written again."""
        return marks_of([self.folder / MANIFEST_NAME])


@dataclass(frozen=True, eq=False)
class Rival:
    """What lists are shared with.

    Attributes
    ----------
    served : what it stands beside: the same documents, so it is of no use beside another
    generation : the candidate as it would be served, or None for the baseline of what is served
    contest : who is compared
    """

    served: Generation
    generation: Generation | None
    contest: Contest

    def search(self, query: str, k: int, everything: bool, where: Where | None) -> Results:
        """Its list, as it would be shown alone."""
        if self.generation is None:
            baseline = self.served.baseline
            return baseline.index.search_row(self.served.version.model.queries([query]), k, where=where)
        version = self.generation.version
        return version.index.search_row(version.model.queries([query]), k, cutoff=not everything, where=where)

    def close(self, at_end: bool = False) -> None:
        if self.generation is not None:
            self.generation.learner.close(at_end)


class Draft:
    """A list for one request; `assignment` is there once it was made of both rankings."""

    def __init__(self, interleaver: Interleaver, rival: Rival, client: str, query: str, address: str | None) -> None:
        self._interleaver, self._rival = interleaver, rival
        self._client, self._query, self._address = client, query, address
        self.assignment: Assignment | None = None

    def mixed(
        self, served: Sequence[str], k: int, everything: bool, where: Where | None = None
    ) -> tuple[str, ...] | None:
        """The ids to show in the place of those that are served, or None where the rival cannot be asked."""
        contest = self._rival.contest
        try:
            other = [hit.doc_id for hit in self._rival.search(self._query, k, everything, where)]
        except EngineError:
            return None  # what is served is from the same engine, and says so
        except Exception as error:
            # A candidate that breaks must not break what is served.
            _log.exception("the candidate cannot be searched, and lists are not shared until it changes")
            self._interleaver.fail(error)
            return None
        log = self._interleaver.log
        coins = log.coins(self._client, self._query.strip(), *map(str, contest))
        address = None if self._address is None else log.client_id(self._address)
        drafted = team_draft(served, other, k, coins)
        self.assignment = Assignment(contest, drafted.teams, address=address)
        return drafted.docs


class Interleaver:
    """Keeps the rival of what is served, and the standing of their duel as the log has it.

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
        source: CandidateSource | None = None,
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
        self._rival: Rival | None = None
        self._is_broken = False
        self._model: TextModel | None = None  # the last that could be compared
        self._former: tuple[str, TextModel] | None = None  # the last promotion, and the model before it
        self._seen: Marks = ()
        self._tally = Tally(settle_seconds)
        self._counting = threading.Lock()  # held while a list is counted, and while the standing is told
        self._reading = threading.Lock()
        self._reader: GrowingUbi | None = None

    # -- the rival ----------------------------------------------------------------------------------------------

    def read_candidate(self) -> TextModel | None:
        """The model that is in the candidate's folder now, None for the baseline; what is wrong with it is raised."""
        if self._source is None:
            return None
        self._seen = self._source.marks()  # before it is read, so that no later one is missed
        model = self._source.read()
        if model.report is not None and not model.report.accepted:
            raise RejectedCandidate(
                f"{self._source.folder}: what was learned was rejected ({model.report.decision}), so there is nothing "
                "to compare"
            )
        return model

    @property
    def has_news(self) -> bool:
        """Whether the candidate was written again since it was read."""
        return self._source is not None and self._source.marks() != self._seen

    def rival_of(
        self,
        served: Generation,
        entries: Sequence[Entry],
        bounds: LearningBounds | None,
        model: TextModel | None = None,
        snapshots: Snapshots | None = None,
    ) -> Rival | None:
        """Make ready who is compared with what is served: a candidate, or the one there was; None before the first.

        Where that is served already, as after its promotion, it is the model that was served before it; None without
        one. What is wrong with the candidate is raised.
        """
        promotions = served.index.promotions
        epoch = promotions[-1].number if promotions else 0
        if self._source is None:
            return Rival(served, None, Contest(served.model_label, BASELINE, epoch))
        candidate = model or self._model
        if candidate is None:
            return None
        try:
            index = served.index.with_model(candidate)
        except InputError as error:
            raise InputError(f"{self._source.folder} cannot be compared with what is served: {error}") from error
        self._model = candidate
        if is_same_model(candidate, served):
            former = self._former_of(served)
            if former is None or is_same_model(former, served):
                return None
            index = served.index.with_model(former)
        before = None if self._rival is None else self._rival.generation
        generation = Generation.of(index, entries, bounds, before, snapshots)
        return Rival(served, generation, Contest(served.model_label, generation.model_label, epoch))

    def _former_of(self, served: Generation) -> TextModel | None:
        promotions = served.index.promotions
        if not promotions:
            return None
        if self._former is None or self._former[0] != promotions[-1].name:
            model = served.index.former_model()
            self._former = (promotions[-1].name, model) if isinstance(model, TextModel) else None
        return None if self._former is None else self._former[1]

    def take(self, rival: Rival | None) -> Rival | None:
        """Have lists shared with this one from now on; gives the one before, to be closed."""
        before, self._rival, self._is_broken = self._rival, rival, False
        if rival is not None or self._model is not None:  # else there was no candidate yet that could be compared
            self.refused = None
        return before

    def refuse(self, error: Exception, served: Generation | None = None) -> None:
        """Say that the candidate cannot be had as it is now; the rival goes that is beside another than is served."""
        rival = self._rival
        if served is not None and rival is not None and rival.served is not served:
            self._rival = None
            rival.close()
        self.refused = f"{type(error).__name__}; the service's log says more"  # anybody may ask for this
        _log.warning("the candidate is refused: %s", error)

    def fail(self, error: Exception) -> None:
        """Go on without the rival, which cannot be asked."""
        self._is_broken = True
        self.refuse(error)

    def tell(self, entry: Entry) -> Future[Version] | None:
        """Have the rival learn what is taught; gives its first version that has it, or None where it does not learn."""
        rival = self._rival
        return None if rival is None or rival.generation is None else rival.generation.learner.tell(entry)

    def rival_hybrid(self, served: Generation) -> Rival | None:
        """With whom lists of what is served are shared now."""
        rival = self._rival
        if rival is None or self._is_broken or rival.served is not served:  # readers move over before the rival does
            return None
        if rival.generation is None and not served.baseline.differs(served.version):
            return None
        if rival.generation is not None and rival.generation.learner.failure is not None:
            return None  # it would be compared without what was taught
        return rival

    def draft(self, served: Generation, client: str, query: str, address: str | None) -> Draft | None:
        """A list to be shared, or None where there is nobody to share it with."""
        rival = self.rival_hybrid(served)
        return None if rival is None else Draft(self, rival, client, query, address)

    def close(self) -> None:
        rival, self._rival = self._rival, None
        if rival is not None:
            rival.close(at_end=True)
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

    def won(self) -> tuple[TextModel, Evidence] | None:
        """The challenger's model and by what it won, where it is to be promoted."""
        rival = self._rival
        if not self.promotes or rival is None or rival.generation is None:
            return None
        with self._counting:
            duel = self._tally.duel(rival.contest)
        if duel.winner != "second":
            return None
        evidence = Evidence(wins=duel.losses, losses=duel.wins, ties=duel.ties)
        return text_model(rival.generation.index), evidence

    @property
    def contest(self) -> Contest | None:
        rival = self._rival
        return None if rival is None else rival.contest

    @property
    def said(self) -> str:
        """Who is compared, as a sentence."""
        contest = self.contest
        if contest is None and self._model is None:
            return "there is no candidate to compare yet"
        if contest is None:
            return "the candidate is the model that is served, so there is nothing to compare"
        return f"{contest.first}, which is served, is compared with {contest.second} by team-draft lists"

    def to_meta(self) -> dict[str, Any]:
        """What anybody may know of it."""
        contest = self.contest
        told = {
            "served": None if contest is None else contest.first,
            "challenger": None if contest is None else contest.second,
            "refused": self.refused,
            "promotes": self.promotes,
            "promotion": None if contest is None or not contest.promotion else contest.promotion,
        }
        return told | self._standing()

    def _standing(self) -> dict[str, Any]:
        """Of who is compared now."""
        with self._counting:
            duel = self._tally.duel(self.contest)
        return duel.to_meta()

    def gauges(self) -> dict[str, tuple[str, float]]:
        """The standing for metrics."""
        standing = self._standing()
        winner = {"first": 1.0, "second": -1.0, None: 0.0}[standing["winner"]]
        is_at_work = float(self._rival is not None and not self._is_broken)
        return {
            "tercet_interleaving": ("1 where lists are shared with a challenger, else 0.", is_at_work),
            "tercet_interleaved_wins": ("Clients that prefer what is served.", standing["wins"]),
            "tercet_interleaved_losses": ("Clients that prefer the challenger.", standing["losses"]),
            "tercet_interleaved_ties": ("Clients that prefer neither.", standing["ties"]),
            "tercet_interleaved_low": ("Lower end of the interval of the share of what is served.", standing["low"]),
            "tercet_interleaved_high": ("Upper end of the interval of the share of what is served.", standing["high"]),
            "tercet_interleaved_winner": ("1 what is served, -1 the challenger, 0 not decided.", winner),
        }
