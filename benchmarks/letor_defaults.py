"""What every ranker of feature vectors gives by default: mean nDCG@10 (gains 2^g - 1) over the folds of a LETOR set.

    .venv/bin/python benchmarks/letor_defaults.py OHSUMED-QueryLevelNorm.tar.gz

Beside them stand LightGBM's ranker with its defaults, where it is installed, and the best single feature of each fold.
``--units SEED`` gives every feature a unit of its own, a factor from .001 to 10,000 drawn at random.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tercet.data import LetorFold, read_letor_folds
from tercet.fitting.letor import best_feature
from tercet.learn.linear import LINEAR_RANKERS
from tercet.learn.rls import RankRLS, RLSRegressor
from tercet.measure import measure_rows, parse_measure

MEASURE = "nDCG(dcg='exp-log2')@10"


class BestFeature:
    """The single feature that ranks the training queries best."""

    def learned_from(self, fold: LetorFold) -> Callable[[Any], Any]:
        return best_feature(fold.train, parse_measure(MEASURE)).predict


class Estimator:
    """A ranker with ``fit`` and ``predict``."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def learned_from(self, fold: LetorFold) -> Callable[[Any], Any]:
        train = fold.train
        return self.make().fit(train.X, train.y, qid=train.qid).predict


class LightGBM:
    """``LGBMRanker()``, which wants the sizes of queries."""

    def learned_from(self, fold: LetorFold) -> Callable[[Any], Any]:
        from lightgbm import LGBMRanker

        train = fold.train
        return LGBMRanker(verbose=-1).fit(train.X, train.y, group=np.diff(train.starts)).predict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a LETOR set of folds, a folder or an archive")
    parser.add_argument("--part", choices=("vali", "test"), default="test", help="what is measured")
    parser.add_argument("--units", type=int, help="seed of a unit for each feature")
    args = parser.parse_args()
    folds = read_letor_folds(args.data, comments=False)
    n_features = folds[0].train.n_features
    units = np.ones(n_features)
    if args.units is not None:
        units = 10.0 ** np.random.default_rng(args.units).uniform(-3, 4, n_features)
    folds = tuple(
        LetorFold(
            fold.name, *(type(part)(part.X * units.astype(np.float32), part.y, part.qid) for part in parts_of(fold))
        )
        for fold in folds
    )
    systems: dict[str, Any] = {"best feature": BestFeature()}
    systems |= {f"{name}()": Estimator(make) for name, make in LINEAR_RANKERS.items()}
    systems |= {"RankRLS()": Estimator(RankRLS), "RLSRegressor()": Estimator(RLSRegressor)}
    try:
        import lightgbm  # noqa: F401
    except ImportError:
        print("LightGBM is not installed")
    else:
        systems["LGBMRanker()"] = LightGBM()
    for name, system in systems.items():
        began, values = time.perf_counter(), []
        for fold in folds:
            held = getattr(fold, args.part)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = system.learned_from(fold)(held.X)
            values.append(measure_rows(held.y, scores, held.qid, MEASURE).mean(MEASURE))
        by_fold = " ".join(f"{value:.3f}" for value in values)
        print(f"{name:18}  {np.mean(values):.4f}  ({by_fold})  {time.perf_counter() - began:.1f} s", flush=True)


def parts_of(fold: LetorFold) -> tuple[Any, Any, Any]:
    return fold.train, fold.vali, fold.test


if __name__ == "__main__":
    main()
