"""The registry of rankers, for texts and for rows of features, by a short name.

A short name stands for a class and the settings of it that are tried on texts, the best of which on validation queries
is taken. They are meant for any collection; docs/explain/recipe.md says where they come from.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from tercet.errors import InputError
from tercet.learn import (
    CorrelatedRanker,
    CosineRanker,
    DenseRanker,
    DiagonalRanker,
    HashedRanker,
    LowRankRanker,
    LSIRanker,
    MultiTaskRanker,
    PrunedRanker,
    SparseRanker,
    TermPairRanker,
)
from tercet.learn.base import SgdRanker
from tercet.learn.features import FeatureRanker
from tercet.learn.linear import (
    FenchelRanker,
    FTRLRanker,
    MeanRanker,
    ProximalRanker,
)
from tercet.learn.rls import RankRLS
from tercet.text import CorrelatedWords

Setting = Mapping[str, Any]

# -- of texts, by short name ------------------------------------------------------------------------------------------

# A larger weight of the identity leaves less to be learned: better for few queries, and for documents they never had.
# Where V stays, documents cannot be learned by heart, and those that no query had are scored as well as others.
FOR_JUDGEMENTS: Final[tuple[dict[str, Any], ...]] = (
    {"start": "lsi", "identity_weight": 5.0, "n_components": 200},
    {"start": "lsi", "identity_weight": 60.0, "n_components": 200, "learn_documents": False, "rate": 1.0},
)
# What classes say, and what preferences add to it. With a scale, texts that are hard to tell count as much as others,
# which is better where there are many classes; where there are two, all that is left of a text would be its side.
_CLASSES: Final = {"start": "classes", "identity_weight": 0.5, "n_components": 300, "tied": True}
FOR_LABELS: Final[tuple[dict[str, Any], ...]] = (
    {**_CLASSES, "scale_documents": True},
    {**_CLASSES, "scale_documents": False},
    {"start": "random", "identity_weight": 1.0, "n_components": 100, "tied": True, "scale_documents": True},
    {"start": "lsi", "identity_weight": 5.0, "n_components": 200},
)
BLENDS = (-0.25, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)  # more of the identity, as multiples of the identity weight
_LEAST_BLEND: Final = -0.5
MAX_STEPS: Final = 500_000  # of rankers whose steps are slow
MAX_LOW_RANK_STEPS: Final = 3_000_000
_STEPS_PER_JUDGEMENT, _FEWEST_STEPS = 20, 20_000
_STEPS_PER_TEXT, _FEWEST_STEPS_OF_TEXTS = 50, 50_000  # that has a label


def n_steps_for(n_judgements: int, *, labelled: bool = False, most: int = MAX_STEPS) -> int:
    """How many preferences are drawn from so many judgements, or labelled texts.

    Few judgements are soon learned by heart, and what else is then learned costs documents that they do not name.
    """
    each, fewest = (_STEPS_PER_TEXT, _FEWEST_STEPS_OF_TEXTS) if labelled else (_STEPS_PER_JUDGEMENT, _FEWEST_STEPS)
    return int(np.clip(n_judgements * each, fewest, max(most, fewest)))


@dataclass(frozen=True)
class NamedRanker:
    """What a short name stands for on texts.

    Attributes
    ----------
    cls : of the ranker
    settings : parameters of those that are tried, best guess first
    for_labels : the same for labelled texts, where they are others
    for_density : the same where a density is asked for, which these reach and those do not
    usual : parameters that all of them have and no report repeats
    """

    cls: type[TermPairRanker]
    settings: tuple[Setting, ...] = ({},)
    for_labels: tuple[Setting, ...] | None = None
    for_density: tuple[Setting, ...] | None = None
    usual: Setting = field(default_factory=dict)

    def tried(self, labelled: bool, parameters: Setting) -> list[dict[str, Any]]:
        """The settings with these parameters in place of their own, each once."""
        settings = self.settings if self.for_labels is None or not labelled else self.for_labels
        if self.for_density is not None and not parameters.keys() & _OF_SHRINKING:
            settings = self.for_density if "density" in parameters else settings
        elif self.for_density is not None:
            settings = self.settings
        different: list[dict[str, Any]] = []
        for setting in settings:
            if setting.get("start") == "classes" and parameters.get("start", "classes") != "classes":
                continue  # what is left of it is no setting of its own
            if "learn_documents" in setting and parameters.keys() & _OF_DOCUMENTS:
                continue
            changed = {**setting, **parameters}
            if changed not in different:
                different.append(changed)
        return different


# Of a support taken from a low-rank W, and how fast what is on it learns on.
_ON_LOW_RANK: Final = tuple(
    {"sparsify": "low-rank", "density": 0.05, "refit": True, "refit_rate": rate} for rate in (0.3, 2.0)
)
_OF_DOCUMENTS: Final = {"learn_documents", "rate", "start", "tied", "averaged", "normalise"}
_OF_SHRINKING: Final = {"l1", "sparsify", "shrink_every", "shrink_towards"}
_FALLING: Final = {"schedule": "linear"}  # the rate, to zero at the last step


def _rates(*rates: float) -> tuple[Setting, ...]:
    return tuple({"rate": rate} for rate in rates)


NAMED_RANKERS: Final[dict[str, NamedRanker]] = {
    "low-rank": NamedRanker(LowRankRanker, FOR_JUDGEMENTS, FOR_LABELS, usual={"rate": 0.1, **_FALLING}),
    "sparse": NamedRanker(
        SparseRanker,
        ({"rate": 0.3, "l1": 1e-6}, {"rate": 0.1, "l1": 1e-6}, {"rate": 0.1, "l1": 4e-6}, {"rate": 1.0, "l1": 1e-6}),
        _ON_LOW_RANK,
        _ON_LOW_RANK,
        usual={"refit": False, **_FALLING},  # a refit brought nothing on judged queries
    ),
    "dense": NamedRanker(DenseRanker, _rates(0.3, 0.1, 1.0), usual=_FALLING),
    "diagonal": NamedRanker(DiagonalRanker, _rates(0.1, 1.0, 10.0), usual=_FALLING),
    "pruned": NamedRanker(PrunedRanker, _rates(0.3, 1.0), usual={"n_rounds": 2, **_FALLING}),
    "hashed": NamedRanker(HashedRanker, _rates(0.3, 0.1, 1.0), usual=_FALLING),
    "correlated": NamedRanker(CorrelatedRanker, ({"identity_weight": 5.0}, {"identity_weight": 10.0})),
    "lsi": NamedRanker(LSIRanker, tuple({"n_components": n} for n in (100, 200, 400))),
    "cosine": NamedRanker(CosineRanker),
}
_FAR_APART: Final = 50.0
OF_THE_FIT: Final = ("random_state", "verbose", "validate_every", "patience")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A ranker to try on texts.

    Attributes
    ----------
    name : the short name, or that of the class for an estimator of the user's own
    setting : what was set of its parameters, for the report
    ranker : not fitted
    stated : parameters that the user has set; None where all of it is the user's own, and taken as it is
    popular : share of worse documents that are drawn by popularity, where they are drawn from judgements
    mean_of : others, of which it is the mean, each with an identity of weight 1; it has all else of the first of them
    """

    name: str
    setting: dict[str, Any]
    ranker: TermPairRanker
    stated: frozenset[str] | None = frozenset()
    popular: float = 0.0
    mean_of: tuple[Candidate, ...] = ()

    @property
    def members(self) -> tuple[Candidate, ...]:
        """The candidates that are learned each by itself."""
        return self.mean_of or (self,)

    @property
    def keeps_documents(self) -> bool:
        """Whether documents stay where they are, and only queries learn."""
        return isinstance(self.ranker, LowRankRanker) and not self.ranker.learn_documents

    @property
    def unit(self) -> float:
        """The weight of the identity at the start, by which blends are measured."""
        if self.mean_of:
            return 1.0
        ranker: Any = self.ranker
        if isinstance(ranker, SparseRanker) and ranker.sparsify == "low-rank" and ranker.low_rank is not None:
            ranker = ranker.low_rank
        return float(getattr(ranker, "identity_weight", 1.0)) or 1.0

    @property
    def blends(self) -> list[float]:
        """Extra weights of the identity to try, in units of the candidate's own; of equals the first is taken."""
        shares = list(BLENDS) if self.name == "low-rank" else sorted(BLENDS, key=abs)
        # A candidate that starts from much of the identity may end with less.
        return [_LEAST_BLEND, *shares] if self.keeps_documents and not self.mean_of else shares

    @property
    def label(self) -> str:
        """The candidate in a few words."""
        if self.mean_of:
            return f"the mean of: {'; '.join(member.label for member in self.members)}"
        if self.name == "low-rank" and self.setting.get("start") == "classes":
            return "class scores, documents scaled" if self.setting.get("scale_documents") else "class scores"
        if self.name == "low-rank" and {"start", "n_components"} <= self.setting.keys():
            start = {"lsi": "latent semantic indexing", "random": "random factors"}[self.setting["start"]]
            tied = ", tied" if self.setting.get("tied") else ""
            drawn = f", {self.popular:.0%} of the worse by popularity" if 0 < self.popular < 1 else ""
            siblings = f", identity {self.setting['identity_weight']:g}" if "identity_weight" in self.setting else ""
            kept = ", documents as they are" if self.keeps_documents else ""
            return f"{self.setting['n_components']} components from {start}{tied}{siblings}{kept}{drawn}"
        said = ", ".join(f"{name.replace('_', ' ')} {shown_parameter(value)}" for name, value in self.setting.items())
        return f"{self.name}: {said}" if said else self.name

    def fitting(self, shape: tuple[int, int], n_steps: int | None = None, *, shared: bool = True) -> Candidate:
        """The candidate for documents of this shape, and so many steps.

        One that starts from more directions than there are starts at random. Penalties are for 500,000 steps: over
        fewer ones they are larger, so that weights shrink as far. Where queries and documents do not share a vocabulary
        there is no identity to start from.
        """
        if self.stated is None:
            return self
        changes: dict[str, Any] = {}
        for name, value in self.ranker.get_params().items():
            prefix = name.removesuffix("start")
            if name.endswith("start") and value == "lsi" and (not shared or _too_wide(self.ranker, prefix, shape)):
                changes[name] = "random"
        shrinks = isinstance(self.ranker, SparseRanker)
        if shrinks and n_steps is not None and "l1" in self.setting and "l1" not in self.stated:
            changes["l1"] = self.setting["l1"] * MAX_STEPS / n_steps
        if not shared and isinstance(self.ranker, LowRankRanker):
            changes |= {"diagonal": None, "tied": False}
        if not changes:
            return self
        setting = {name: changes.get(name, value) for name, value in self.setting.items()}
        return replace(self, setting=setting, ranker=clone(self.ranker).set_params(**changes))

    def work(self, n_query_words: float, n_doc_words: float) -> float:
        """About how many numbers a step reads and writes, for so many words in a query and in a document."""
        ranker: Any = self.ranker
        words = n_query_words + 2 * n_doc_words
        if self.keeps_documents:
            return ranker.n_components * (n_query_words + 2) + words
        if isinstance(ranker, LowRankRanker):
            return float(ranker.n_components) * words
        if isinstance(ranker, DiagonalRanker | LSIRanker | CosineRanker):
            return words
        # Entries of W lie far apart in memory, which is what takes the time.
        return _FAR_APART * n_query_words * 2 * n_doc_words

    def make(self, *, verbose: bool | None = None) -> TermPairRanker:
        """A ranker to fit; ``verbose`` where it is not None."""
        ranker = clone(self.ranker)
        for name in ranker.get_params():
            if name.endswith("verbose") and verbose is not None:
                ranker.set_params(**{name: verbose})
        return ranker


@dataclass(frozen=True)
class NameWithParameters:
    """A short name, and parameters that are set in place of what it would try."""

    name: str
    parameters: Setting


OneRanker = str | NameWithParameters | TermPairRanker
RankerChoice = OneRanker | Sequence[OneRanker]


def _too_wide(ranker: TermPairRanker, prefix: str, shape: tuple[int, int]) -> bool:
    return min(shape) <= int(ranker.get_params()[f"{prefix}n_components"])


def shown_parameter(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def check_name(name: str) -> str:
    """A short name of a ranker of texts."""
    if name not in NAMED_RANKERS:
        raise InputError(f"ranker is {name!r}; expected a term-pair ranker, or one of {', '.join(NAMED_RANKERS)}")
    return name


def candidates_of(choice: RankerChoice | None, seed: int, *, labelled: bool = False) -> list[Candidate]:
    """The rankers to choose from.

    Parameters
    ----------
    choice : a short name, an estimator that need not be fitted, or a list of these; None is "low-rank"
        An estimator is tried as it is. One that leaves rate and schedule as its class has them, which are those of a
        paper and of its vectors, is also tried with what its short name stands for in all that it leaves so.
    seed : of those that are named
    labelled : whether texts have labels; some names stand for other settings then

    Examples
    --------
    >>> [candidate.label for candidate in candidates_of([LowRankRanker(n_components=7), "cosine"], 0)]
    ['LowRankRanker: n components 7', '7 components from latent semantic indexing, identity 5',
     '7 components from latent semantic indexing, identity 60, documents as they are', 'cosine']
    """
    if choice is None:
        choice = "low-rank"
    listed = [choice] if isinstance(choice, str) or not isinstance(choice, Sequence) else list(choice)
    if not listed:
        raise InputError("ranker is an empty list; give a name, an estimator, or several of them")
    candidates: list[Candidate] = []
    for one in listed:
        if isinstance(one, str):
            one = NameWithParameters(one, {})
        candidates += _named(one, seed, labelled) if isinstance(one, NameWithParameters) else _own(one, labelled)
    return candidates


def _named(choice: NameWithParameters, seed: int, labelled: bool) -> list[Candidate]:
    name = check_name(choice.name)
    known = NAMED_RANKERS[name]
    usual = {**known.usual, **_inner_rankers(known.cls, labelled, seed)}
    if "random_state" in accepted_parameters(known.cls):
        usual["random_state"] = seed
    candidates = [
        Candidate(name, setting, known.cls(**{**usual, **setting}), frozenset(choice.parameters))
        for setting in known.tried(labelled, choice.parameters)
    ]
    for candidate in candidates:
        candidate.ranker._check_params()
    return candidates


def _inner_rankers(cls: type[TermPairRanker], labelled: bool, seed: int) -> dict[str, Any]:
    """The low-rank ranker inside another: the one that is tried first by that name, and learns all it knows."""
    if cls is SparseRanker:
        tried = _named(NameWithParameters("low-rank", {}), seed, labelled)
        return {"low_rank": next(one.ranker for one in tried if one.setting["start"] != "classes")}
    if cls is CorrelatedRanker:
        return {
            "words": CorrelatedWords(n_frequent=5000, n_bins=5),
            "ranker": LowRankRanker(diagonal=None, rate=0.02, schedule="linear", random_state=seed),
        }
    return {}


def _own(ranker: object, labelled: bool) -> list[Candidate]:
    """Candidates of the user's own estimator; only what differs from its defaults is told of it."""
    if isinstance(ranker, type):
        raise InputError(f"ranker is the class {ranker.__name__}; give an estimator, {ranker.__name__}()")
    if isinstance(ranker, FeatureRanker):
        raise InputError(
            f"{type(ranker).__name__} learns from rows of features (tc.fit_letor); texts need a term-pair ranker, or "
            f"one of {', '.join(NAMED_RANKERS)}"
        )
    if isinstance(ranker, MultiTaskRanker):
        raise InputError("MultiTaskRanker learns two tasks, and a fit has one; call MultiTaskRanker.fit yourself")
    if not isinstance(ranker, TermPairRanker):
        raise InputError(
            f"ranker is a {type(ranker).__name__}; expected a term-pair ranker, one of {', '.join(NAMED_RANKERS)}, or "
            "a list of these"
        )
    plain = {name: p.default for name, p in inspect.signature(type(ranker)).parameters.items()}
    own = {
        name: value
        for name, value in ranker.get_params(deep=False).items()
        if name not in OF_THE_FIT and value != plain.get(name)
    }
    setting = {
        name: value if isinstance(value, bool | int | float | str | None) else repr(value)
        for name, value in own.items()
    }
    given = Candidate(type(ranker).__name__, setting, clone(ranker), stated=None)
    short = next((short for short, known in NAMED_RANKERS.items() if known.cls is type(ranker)), None)
    if short is None or not isinstance(ranker, SgdRanker) or own.keys() & {"rate", "schedule"}:
        return [given]
    return [given, *_named(NameWithParameters(short, own), ranker.random_state, labelled)]


def term_pair_ranker(choice: RankerChoice, shape: tuple[int, int], seed: int, *, shared: bool) -> TermPairRanker:
    """The ranker that is named for documents of this shape; of several settings the first."""
    return candidates_of(choice, seed)[0].fitting(shape, shared=shared).make()


# -- of rows of features, by short name -------------------------------------------------------------------------------

FEATURE_RANKERS: Final[dict[str, type[FeatureRanker]]] = {
    "ftrl": FTRLRanker,
    "proximal": ProximalRanker,
    "fenchel": FenchelRanker,
    "mean": MeanRanker,
    "rankrls": RankRLS,
}


def accepted_parameters(cls: type[Any]) -> list[str]:
    return list(inspect.signature(cls).parameters)
