"""Measures as values: `nDCG@10` prints, hashes and parses as itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tercet._validate import is_integer
from tercet.errors import InputError

RANK_LOSS = "RankLoss"
PAIR_ACCURACY = "PairAccuracy"  # of preferences, not of rankings; see HeldOutPreferences
_OF_PAIRS = (RANK_LOSS, PAIR_ACCURACY)
_NEED_CUTOFF = ("P", "R", "Success")
_NAMES = ("AP", "nDCG", "RR", *_NEED_CUTOFF, *_OF_PAIRS)
_ALIASES = {"MAP": "AP", "MRR": "RR", "NDCG": "nDCG", "Precision": "P", "Recall": "R"}  # as in ir_measures
# Gains and discounts of nDCG; the first two forms as in ir_measures.
DCG_FORMS = ("log2", "exp-log2", "letor")
SUPPORTED = (
    "AP, AP@k, nDCG, nDCG@k, P@k, RR, RR@k, R@k, Success@k, RankLoss; all but nDCG also with (rel=level), "
    "nDCG also with (dcg='exp-log2') and (dcg='letor')"
)

# The grammar of ir_measures for integers and strings.
_GRAMMAR = re.compile(r"\s*(?P<name>\w+)\s*(?:\((?P<parameters>[^()]*)\))?\s*(?:@\s*(?P<cutoff>\d+))?\s*", re.ASCII)
_PARAMETER = re.compile(
    r"\s*(?P<key>\w+)\s*=\s*(?:(?P<whole>\d+)|(?P<quote>['\"])(?P<text>[\w-]*)(?P=quote))\s*", re.ASCII
)


@dataclass(frozen=True, slots=True, repr=False)
class Measure:
    """A measure of a ranking, named as in ir_measures.

    Parameters
    ----------
    name : AP, nDCG, P, RR, R, Success or RankLoss; or PairAccuracy, of preferences
    cutoff : number of documents at the top to measure; None for all
    rel : lowest relevant grade, at least 1; nDCG uses the grades themselves
    dcg : term of a document of grade g at rank r (from 1) in nDCG's sum:

        - ``"log2"``: g / log2(r + 1), as in trec_eval
        - ``"exp-log2"``: (2**g - 1) / log2(r + 1), usual for graded judgements
        - ``"letor"``: (2**g - 1) at ranks 1 and 2, then (2**g - 1) / log2(r), as in the evaluation script of
          LETOR 3.0. Of a query with fewer than k documents, nDCG@k is nDCG of the whole ranking, not 0 as in the
          script.

    Notes
    -----
    RankLoss is the fraction of (relevant, irrelevant but ranked) pairs of documents in the wrong order. Equal
    scores count as wrong. RankLoss is the only measure with lower values for better rankings. PairAccuracy is the share
    of a query's preferences (better, worse) in the right order, with equal scores counted a half; `HeldOutPreferences`
    measures PairAccuracy on preferences, not on rankings.

    Examples
    --------
    >>> parse_measure("MAP(rel=2)@100")
    AP(rel=2)@100
    >>> parse_measure("nDCG@10") == Measure("nDCG", cutoff=10)
    True
    >>> parse_measure("NDCG(dcg='letor')@10")
    nDCG(dcg='letor')@10
    """

    name: str
    cutoff: int | None = None
    rel: int = 1
    dcg: str = "log2"

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise InputError(f"Measure {self.name!r} is not known. Supported: {SUPPORTED}.")
        for key, value in (("cutoff", self.cutoff), ("rel", self.rel)):
            if not is_integer(value, 1) and not (key == "cutoff" and value is None):
                raise InputError(f"The {key!r} of measure {self.name} must be an integer of 1 or more. Got {value!r}.")
        if self.dcg not in DCG_FORMS:
            raise InputError(f"The 'dcg' of nDCG must be one of {', '.join(DCG_FORMS)}. Got {self.dcg!r}.")
        if self.dcg != "log2" and self.name != "nDCG":
            raise InputError(f"Measure {self.name} has no 'dcg' parameter. Supported: {SUPPORTED}.")
        if self.name in _OF_PAIRS and self.cutoff is not None:
            raise InputError(f"Measure {self.name} looks at the whole ranking. Got the cutoff @{self.cutoff}.")
        if self.name in _NEED_CUTOFF and self.cutoff is None:
            raise InputError(f"Measure {self.name} needs a cutoff, as in {self.name}@10.")
        if self.name == "nDCG" and self.rel != 1:
            raise InputError(f"Measure {self.name} has no 'rel' parameter. Supported: {SUPPORTED}.")

    @property
    def higher_is_better(self) -> bool:
        """True if a greater value is a better ranking."""
        return self.name != RANK_LOSS

    def __str__(self) -> str:
        level = "" if self.rel == 1 else f"(rel={self.rel})"
        level += "" if self.dcg == "log2" else f"(dcg={self.dcg!r})"  # no measure has a level and a form
        depth = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}{level}{depth}"

    __repr__ = __str__


def parse_measure(name: str | Measure) -> Measure:
    """Read a measure's name; aliases of ir_measures (MAP, MRR, NDCG, Precision, Recall) are understood.

    Examples
    --------
    >>> parse_measure("Recall@100")
    R@100
    """
    if isinstance(name, Measure):
        return name
    if not isinstance(name, str):
        raise InputError(f"A measure is given by name, as in 'nDCG@10'. Got {name!r}.")
    match = _GRAMMAR.fullmatch(name)
    if match is None:
        raise InputError(f"Cannot read the measure {name!r}; write it as in 'AP(rel=2)@100'. Supported: {SUPPORTED}.")
    parameters: dict[str, Any] = {}
    if match["cutoff"] is not None:
        parameters["cutoff"] = int(match["cutoff"])
    for part in filter(str.strip, (match["parameters"] or "").split(",")):
        pair = _PARAMETER.fullmatch(part)
        is_valid = pair is not None and pair["key"] in (("rel", "cutoff") if pair["whole"] else ("dcg",))
        if pair is None or not is_valid or pair["key"] in parameters:
            raise InputError(
                f"Cannot read {part.strip()!r} in the measure {name!r}; 'rel', 'dcg' and a cutoff can be given once "
                f"each, as in 'AP(rel=2)@100'. Supported: {SUPPORTED}."
            )
        parameters[pair["key"]] = int(pair["whole"]) if pair["whole"] else pair["text"]
    return Measure(_ALIASES.get(match["name"], match["name"]), **parameters)


def parse_measures(names: str | Measure | Iterable[str | Measure]) -> tuple[Measure, ...]:
    """Read measure names, in their order, without repetitions.

    Examples
    --------
    >>> parse_measures(["nDCG@10", "AP", "AP"])
    (nDCG@10, AP)
    """
    several = [names] if isinstance(names, (str, Measure)) else names
    measures = tuple(dict.fromkeys(parse_measure(name) for name in several))
    if not measures:
        raise InputError(f"At least one measure is needed. Supported: {SUPPORTED}.")
    return measures
