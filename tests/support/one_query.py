"""Rankers for checks of scikit-learn, which know no queries: without `qid` all rows belong to one query."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import _num_samples

from tercet.learn.features import FeatureRanker
from tercet.learn.linear import LINEAR_RANKERS
from tercet.learn.rls import RankRLS


def _one_query(cls: type[FeatureRanker]) -> type[FeatureRanker]:
    def fit(self: Any, X: Any, y: Any, qid: Any = None, group: Any = None) -> Any:
        return cls.fit(self, X, y, [0] * _num_samples(X) if qid is None else qid, group)

    def partial_fit(self: Any, X: Any, y: Any, qid: Any = None, group: Any = None) -> Any:
        return cls.partial_fit(self, X, y, [0] * _num_samples(X) if qid is None else qid, group)

    def score(self: Any, X: Any, y: Any, qid: Any = None, group: Any = None) -> float:
        return cls.score(self, X, y, [0] * _num_samples(X) if qid is None else qid, group)

    methods = {"fit": fit, "score": score, "__module__": __name__}
    if hasattr(cls, "partial_fit"):
        methods["partial_fit"] = partial_fit
    return type(cls.__name__, (cls,), methods)


ONE_QUERY = {name: _one_query(cls) for name, cls in {**LINEAR_RANKERS, "RankRLS": RankRLS}.items()}
globals().update(ONE_QUERY)  # pickled by their names
