"""The interface of scikit-learn's estimators, without its import: a search would wait a second."""

from __future__ import annotations

import inspect
from typing import Any, Self

from tercet.errors import ParameterError


class TextEstimator:
    """Base of estimators of texts: parameters are those of ``__init__``, and scikit-learn's ``clone`` copies them."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = list(inspect.signature(cls).parameters.values())
        return {parameter.name: parameter.default for parameter in parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        defaults = self._defaults()
        for name, value in params.items():
            if name not in defaults:
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {name!r}; there are {', '.join(sorted(defaults))}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [
            f"{name}={value!r}"
            for name, default in self._defaults().items()
            if (value := getattr(self, name)) is not default and value != default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()


def check_fitted(estimator: object, learned: str) -> None:
    """Raise scikit-learn's ``NotFittedError`` for a missing attribute of ``fit``."""
    if not hasattr(estimator, learned):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' before.")
