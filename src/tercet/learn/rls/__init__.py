"""Regularized least squares over functions of a kernel: RankRLS, its sparse form, and regression as a baseline."""

from tercet.learn.rls.choosing import RLSGrid, choose_rls
from tercet.learn.rls.ranker import KernelLeastSquares, RankRLS, RLSPath, RLSRegressor

RLS_RANKERS: dict[str, type[KernelLeastSquares]] = {cls.__name__: cls for cls in (RankRLS, RLSRegressor)}

__all__ = [
    "RLS_RANKERS",
    "KernelLeastSquares",
    "RLSGrid",
    "RLSPath",
    "RLSRegressor",
    "RankRLS",
    "choose_rls",
]
