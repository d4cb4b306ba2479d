"""Rankers of texts by short name, and the candidates to try.

A short name stands for a class and several settings; held-out queries choose the setting. The settings are for any
collection, see docs/explain/recipe.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from tercet._validate import did_you_mean
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
from tercet.text import CorrelatedWords

Setting = Mapping[str, Any]

_STEPS_PER_JUDGEMENT, _FEWEST_STEPS = 20, 20_000
_STEPS_PER_TEXT, _FEWEST_STEPS_OF_TEXTS = 50, 50_000  # of labeled texts


def n_steps_for(n_judgements: int, *, labeled: bool = False, most: int = TermPairRanker.most_steps) -> int:
    """Return the number of preferences to draw from a number of judgements, or of labeled texts.

    Few judgements are soon learned by heart, and further steps worsen the ranks of unjudged documents.
    """
    each, fewest = (_STEPS_PER_TEXT, _FEWEST_STEPS_OF_TEXTS) if labeled else (_STEPS_PER_JUDGEMENT, _FEWEST_STEPS)
    return int(np.clip(n_judgements * each, fewest, max(most, fewest)))


# -- of texts, by short name ------------------------------------------------------------------------------------------

# A larger identity weight leaves less to learn, which is better for few queries and for unseen documents. With a fixed
# V, documents cannot be learned by heart, and documents without a query are scored as well as documents with queries.
FOR_JUDGEMENTS: Final[tuple[dict[str, Any], ...]] = (
    {"start": "lsi", "identity_weight": 5.0, "n_components": 200},
    {"start": "lsi", "identity_weight": 60.0, "n_components": 200, "learn_documents": False, "rate": 1.0},
)
# With a scale, similar texts count as much as distinct texts, which is better for many classes. With two classes, a
# scale would leave the sign of a text alone.
_CLASSES: Final[Setting] = {"start": "classes", "identity_weight": 0.5, "n_components": 300, "tied": True}
FOR_LABELS: Final[tuple[dict[str, Any], ...]] = (
    {**_CLASSES, "scale_documents": True},
    {**_CLASSES, "scale_documents": False},
    {"start": "random", "identity_weight": 1.0, "n_components": 100, "tied": True, "scale_documents": True},
    {"start": "lsi", "identity_weight": 5.0, "n_components": 200},
)
# A support taken from a low-rank W, and the rate of learning on the support.
_ON_LOW_RANK: Final = tuple(
    {"sparsify": "low-rank", "density": 0.05, "refit": True, "refit_rate": rate} for rate in (0.3, 2.0)
)
_OF_DOCUMENTS: Final = {"learn_documents", "rate", "start", "tied", "normalize"}
_OF_SHRINKING: Final = {"l1", "sparsify", "shrink_every"}
_FALLING: Final[Setting] = {"schedule": "linear"}  # the rate, to zero at the last step
_LOW_RANK: Final[Setting] = {"rate": 0.1, **_FALLING}


@dataclass(frozen=True)
class NamedRanker:
    """The ranker of a short name.

    Attributes
    ----------
    cls : class of the ranker
    settings : parameters of each candidate, best guess first
    for_labels : other settings for labeled texts, and for a density, if the ranker has any
    usual : parameters of all candidates, left out of reports
    usual_for_labels : other usual parameters for labeled texts
    """

    cls: type[TermPairRanker]
    settings: tuple[Setting, ...] = ({},)
    for_labels: tuple[Setting, ...] = ()
    usual: Setting = field(default_factory=dict)
    usual_for_labels: Setting = field(default_factory=dict)

    def tried(self, labeled: bool, parameters: Setting) -> list[dict[str, Any]]:
        """Return the settings with ``parameters`` in place of their own, each once."""
        settings = self.settings
        if self.for_labels and (labeled or "density" in parameters) and not parameters.keys() & _OF_SHRINKING:
            settings = self.for_labels
        different: list[dict[str, Any]] = []
        for setting in settings:
            if setting.get("start") == "classes" and parameters.get("start", "classes") != "classes":
                continue  # the setting is for a start from classes
            if "learn_documents" in setting and parameters.keys() & _OF_DOCUMENTS:
                continue
            if (changed := {**setting, **parameters}) not in different:
                different.append(changed)
        return different


def _rates(*rates: float) -> tuple[Setting, ...]:
    return tuple({"rate": rate} for rate in rates)


NAMED_RANKERS: Final[dict[str, NamedRanker]] = {
    "low-rank": NamedRanker(LowRankRanker, FOR_JUDGEMENTS, FOR_LABELS, usual=_LOW_RANK),
    "sparse": NamedRanker(
        SparseRanker,
        ({"rate": 0.3, "l1": 1e-6}, {"rate": 0.1, "l1": 1e-6}, {"rate": 0.1, "l1": 4e-6}, {"rate": 1.0, "l1": 1e-6}),
        _ON_LOW_RANK,
        # A refit brought nothing on judged queries.
        usual={"refit": False, **_FALLING, "low_rank": LowRankRanker(**_LOW_RANK, **FOR_JUDGEMENTS[0])},
        usual_for_labels={"low_rank": LowRankRanker(**_LOW_RANK, **FOR_LABELS[2])},
    ),
    "dense": NamedRanker(DenseRanker, _rates(0.3, 0.1, 1.0), usual=_FALLING),
    "diagonal": NamedRanker(DiagonalRanker, _rates(0.1, 1.0, 10.0), usual=_FALLING),
    "pruned": NamedRanker(PrunedRanker, _rates(0.3, 1.0), usual={"n_rounds": 2, **_FALLING}),
    "hashed": NamedRanker(HashedRanker, _rates(0.3, 0.1, 1.0), usual=_FALLING),
    "correlated": NamedRanker(
        CorrelatedRanker,
        ({"identity_weight": 5.0}, {"identity_weight": 10.0}),
        usual={
            "words": CorrelatedWords(n_frequent=5000, n_bins=5),
            "ranker": LowRankRanker(diagonal=None, rate=0.02, **_FALLING),
        },
    ),
    "lsi": NamedRanker(LSIRanker, tuple({"n_components": n} for n in (100, 200, 400))),
    "cosine": NamedRanker(CosineRanker),
}


def check_name(name: str) -> str:
    """Return the short name of a ranker of texts, checked."""
    if name not in NAMED_RANKERS:
        listed = ", ".join(NAMED_RANKERS)
        hint = did_you_mean(name, NAMED_RANKERS)
        raise InputError(f"ranker is {name!r}{hint}; expected a term-pair ranker, or one of {listed}")
    return name


# -- candidates -------------------------------------------------------------------------------------------------------

BLENDS = (-0.25, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)  # more of the identity, as multiples of the identity weight
_LEAST_BLEND: Final = -0.5
OF_THE_FIT: Final = ("random_state", "verbose", "validate_every", "patience")


@dataclass(frozen=True, eq=False)
class Candidate:
    """A ranker to try on texts.

    Attributes
    ----------
    name : short name, or class name for an estimator of the user
    setting : parameters of the candidate, for the report
    ranker : not fitted
    stated : parameters set by the user; None for an estimator of the user, to be left unchanged
    popular : share of worse documents to draw by popularity from judgements
    mean_of : candidates to average, each scaled to an identity of weight 1; the other attributes are those of the first
        candidate
    """

    name: str
    setting: dict[str, Any]
    ranker: TermPairRanker
    stated: frozenset[str] | None = frozenset()
    popular: float = 0.0
    mean_of: tuple[Candidate, ...] = ()

    @property
    def members(self) -> tuple[Candidate, ...]:
        """Candidates to train: the candidate, or the candidates of a mean."""
        return self.mean_of or (self,)

    @property
    def unit(self) -> float:
        """Weight of the identity at the start: the unit of blends."""
        return 1.0 if self.mean_of else self.ranker.unit

    @property
    def blends(self) -> list[float]:
        """Extra weights of the identity to try, in units of the candidate; of equals the first is taken."""
        shares = list(BLENDS) if self.name == "low-rank" else sorted(BLENDS, key=abs)
        # A candidate with a large identity weight may end with a smaller weight.
        return [_LEAST_BLEND, *shares] if self.ranker.keeps_documents else shares

    @property
    def label(self) -> str:
        """Short description of the candidate."""
        setting = self.setting
        if self.mean_of:
            return f"the mean of: {'; '.join(member.label for member in self.members)}"
        if self.name != "low-rank":
            listed = (
                f"{name.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"
                for name, value in setting.items()
            )
            return f"{self.name}: {', '.join(listed)}" if setting else self.name
        if setting["start"] == "classes":
            return "class scores, documents scaled" if setting.get("scale_documents") else "class scores"
        start = {"lsi": "latent semantic indexing", "random": "random factors"}.get(setting["start"], setting["start"])
        parts = [f"{setting['n_components']} components from {start}", f"identity {setting['identity_weight']:g}"]
        if setting.get("tied"):
            parts.insert(1, "tied")
        if self.ranker.keeps_documents:
            parts.append("documents as they are")
        if 0 < self.popular < 1:
            parts.append(f"{self.popular:.0%} of the worse by popularity")
        return ", ".join(parts)

    def fitting(self, shape: tuple[int, int], n_steps: int | None = None) -> Candidate:
        """Adapt the candidate to documents of a shape, and to a number of steps.

        A start with more components than the documents allow becomes a random start. Penalties are set for 500,000
        steps, and are larger for fewer steps.
        """
        if self.stated is None:
            return self
        parameters = self.ranker.get_params()
        changes: dict[str, Any] = {}
        for name, value in parameters.items():
            n_components = parameters.get(f"{name.removesuffix('start')}n_components")
            if name.endswith("start") and value == "lsi" and min(shape) <= n_components:
                changes[name] = "random"
        if n_steps is not None and "l1" in self.setting and "l1" not in self.stated:
            changes["l1"] = self.setting["l1"] * TermPairRanker.most_steps / n_steps
        if not changes:
            return self
        setting = {name: changes.get(name, value) for name, value in self.setting.items()}
        return replace(self, setting=setting, ranker=clone(self.ranker).set_params(**changes))


@dataclass(frozen=True)
class NameWithParameters:
    """A short name, and parameters to set in all of its settings."""

    name: str
    parameters: Setting


OneRanker = str | NameWithParameters | TermPairRanker
RankerChoice = OneRanker | Sequence[OneRanker]


def candidates_of(choice: RankerChoice | None, seed: int, *, labeled: bool = False) -> list[Candidate]:
    """List the rankers to choose from.

    Parameters
    ----------
    choice : a short name, an unfitted estimator, or a list of both; None is "low-rank". An estimator is tried
        unchanged. The default rate and schedule of a class come from a paper and its vectors: an estimator with these
        defaults is also tried with the settings of its short name.
    seed : of named rankers
    labeled : True for labeled texts, with separate settings of some names

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
    for entry in listed:
        if isinstance(entry, str):
            candidates += _named(entry, {}, seed, labeled)
        elif isinstance(entry, NameWithParameters):
            candidates += _named(entry.name, entry.parameters, seed, labeled)
        else:
            candidates += _own(entry, labeled)
    return candidates


def _named(name: str, parameters: Setting, seed: int, labeled: bool) -> list[Candidate]:
    named = NAMED_RANKERS[check_name(name)]
    usual = clone(named.cls(**{**named.usual, **(named.usual_for_labels if labeled else {})}))
    usual.set_params(**{key: seed for key in usual.get_params() if key.endswith("random_state")})
    candidates = []
    for setting in named.tried(labeled, parameters):
        ranker = clone(usual).set_params(**setting)
        ranker._check_params()
        candidates.append(Candidate(name, setting, ranker, frozenset(parameters)))
    return candidates


def _own(ranker: object, labeled: bool) -> list[Candidate]:
    """Candidates of an estimator of the user; the report has the changed parameters."""
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
    defaults = {name: parameter.default for name, parameter in inspect.signature(type(ranker)).parameters.items()}
    changed = {
        name: value
        for name, value in ranker.get_params(deep=False).items()
        if name not in OF_THE_FIT and value != defaults[name]
    }
    setting = {
        name: value if isinstance(value, bool | int | float | str | None) else repr(value)
        for name, value in changed.items()
    }
    unchanged = Candidate(type(ranker).__name__, setting, clone(ranker), stated=None)
    short = next((short for short, named in NAMED_RANKERS.items() if named.cls is type(ranker)), None)
    if short is None or not isinstance(ranker, SgdRanker) or changed.keys() & {"rate", "schedule"}:
        return [unchanged]
    return [unchanged, *_named(short, changed, ranker.random_state, labeled)]
