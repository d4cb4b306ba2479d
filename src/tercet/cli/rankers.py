"""``--ranker NAME:KEY=VALUE,…`` of ``fit`` and ``letor fit``: a ranker with parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import click

from tercet.errors import ParameterError, TercetError
from tercet.fitting.letor import FEATURE_RANKERS
from tercet.fitting.rankers import (
    NAMED_RANKERS,
    OF_THE_FIT,
    NameWithParameters,
    candidates_of,
    check_name,
)
from tercet.learn.base import Ranker
from tercet.store.schema import members_of, unmarked

_WORDS: dict[str, bool | None] = {"none": None, "true": True, "false": False}


def parse_ranker(text: str, cls_of: Callable[[str], type[Ranker]]) -> NameWithParameters:
    """Parse ``NAME:KEY=VALUE,…``; values get the types of the ranker's parameters.

    ``cls_of`` returns the class of a name, or raises a `TercetError`.

    Examples
    --------
    >>> parse_ranker("rankrls:kernel=gaussian,n-basis=50,l2=2", lambda name: FEATURE_RANKERS[name])
    NameWithParameters(name='rankrls', parameters={'kernel': 'gaussian', 'n_basis': 50, 'l2': 2.0})
    """
    name, _, listed = text.partition(":")
    hints = get_type_hints(cls_of(name), include_extras=True)
    allowed = [key for key in cls_of(name)._get_param_names() if key not in OF_THE_FIT]
    parameters: dict[str, Any] = {}
    for assignment in filter(None, listed.split(",")):
        key, equals, value = assignment.partition("=")
        key = key.strip().replace("-", "_")
        if not equals:
            raise ParameterError(f"{assignment!r} has no value; write KEY=VALUE, as in {name}:{key}=1")
        if key not in allowed:
            parameters_note = f"its parameters: {', '.join(allowed)}" if allowed else "it has none"
            raise ParameterError(f"{name} has no parameter {key!r}; {parameters_note}")
        if key in parameters:
            raise ParameterError(f"{name} has {key!r} twice")
        parameters[key] = _typed(value.strip(), hints[key])
    return NameWithParameters(name, parameters)


def _typed(text: str, hint: Any) -> Any:
    """Return None, a bool, an int, a float or the text; the ranker checks the value."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    kinds = {unmarked(member)[0] for member in members_of(hint)}
    for kind in (float,) if float in kinds and int not in kinds else (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class RankerSpec(click.ParamType):
    """Type of ``--ranker``; wrong names and parameters are usage errors."""

    name = "NAME[:KEY=VALUE,…]"

    def __init__(self, cls_of: Callable[[str], type[Ranker]], check: Callable[[NameWithParameters], Any], example: str):
        self._cls_of, self._check, self._example = cls_of, check, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NameWithParameters:
        try:
            ranker = parse_ranker(value, self._cls_of)
            self._check(ranker)
        except TercetError as error:
            self.fail(f"{str(error).removesuffix('.')}. Example: --ranker {self._example}", param, ctx)
        return ranker


def _term_pair_class(name: str) -> type[Ranker]:
    return NAMED_RANKERS[check_name(name)].cls


def _feature_class(name: str) -> type[Ranker]:
    if name not in FEATURE_RANKERS:
        raise ParameterError(f"there is no ranker {name!r}; expected one of {', '.join(FEATURE_RANKERS)}")
    return FEATURE_RANKERS[name]


def feature_ranker(ranker: NameWithParameters, seed: int = 0) -> Any:
    """Return a ranker of feature vectors with checked parameters."""
    made: Any = FEATURE_RANKERS[ranker.name](**ranker.parameters)
    if "random_state" in made.get_params(deep=False):
        made.set_params(random_state=seed)
    made._check_params()
    return made


TERM_PAIR_RANKER = RankerSpec(
    _term_pair_class, lambda ranker: candidates_of([ranker], seed=0), "sparse:density=.05,l1=1e-6"
)
FEATURE_RANKER = RankerSpec(_feature_class, feature_ranker, "ftrl:batch_size=100,rate=.5,epochs=3")
