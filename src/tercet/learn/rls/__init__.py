"""Regularised least squares over functions of a kernel: RankRLS, its sparse form, and the regression beside it."""

from tercet.learn.rls.base import KernelLeastSquares
from tercet.learn.rls.choosing import RLSGrid, choose_rls
from tercet.learn.rls.graphs import TokenGraph, graph_kernel
from tercet.learn.rls.path import RLSPath
from tercet.learn.rls.ranker import RankRLS, RLSRegressor

RLS_RANKERS: dict[str, type[KernelLeastSquares]] = {cls.__name__: cls for cls in (RankRLS, RLSRegressor)}

__all__ = [
    "RLS_RANKERS",
    "KernelLeastSquares",
    "RLSGrid",
    "RLSPath",
    "RLSRegressor",
    "RankRLS",
    "TokenGraph",
    "choose_rls",
    "graph_kernel",
]
