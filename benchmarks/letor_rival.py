"""XGBoost's linear booster with pairwise ranking and L1, one thread."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.data import LetorData, LetorFold

try:
    import xgboost
except ModuleNotFoundError:  # the comparison is left out then
    xgboost = None  # type: ignore[assignment]

# XGBoost multiplies alpha by the number of rows; at 0.01 no weight leaves zero.
ALPHAS = (1e-4, 1e-3, 3e-3)
ETAS = (0.1, 0.3, 1.0)
MOST_PAIRS = 1_000_000  # above what any document has: all pairs, as Tercet takes them
PAIRS = {"top 32": {}, "all": {"lambdarank_num_pair_per_sample": MOST_PAIRS}}  # the former by default
ROUNDS = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class RivalSetting:
    pairs: str
    eta: float
    alpha: float
    rounds: int

    def parameters(self, updater: str = "shotgun") -> dict[str, Any]:
        # With one thread shotgun takes the steps of coord_descent and is the faster of the two.
        return {
            "booster": "gblinear",
            "objective": "rank:pairwise",
            "updater": updater,
            "alpha": self.alpha,
            "eta": self.eta,
            "nthread": 1,
            "lambdarank_pair_method": "topk",
            **PAIRS[self.pairs],
        }

    def __str__(self) -> str:
        return f"{self.rounds} rounds, alpha {self.alpha:g}, eta {self.eta:g}, {self.pairs} pairs"


@dataclass(frozen=True)
class RivalFold:
    """A fold in XGBoost's own form."""

    train: Any
    vali: Any
    test: Any

    @classmethod
    def from_fold(cls, fold: LetorFold) -> RivalFold:
        return cls(rival_rows(fold.train), rival_rows(fold.vali), rival_rows(fold.test))


def rival_rows(data: LetorData) -> Any:
    return xgboost.DMatrix(data.X, label=data.y, group=np.diff(data.starts), nthread=1)


def rival_settings(quick: bool) -> list[RivalSetting]:
    """By pairs, eta and alpha, and then by the number of rounds, so that those of one run follow each other."""
    rounds = ROUNDS[:4] if quick else ROUNDS
    return [RivalSetting(*values) for values in product(PAIRS, ETAS, ALPHAS, rounds)]


def train_rival(setting: RivalSetting, rows: Any, updater: str = "shotgun") -> Any:
    return xgboost.train(setting.parameters(updater), rows, num_boost_round=setting.rounds)


def weights_of(booster: Any) -> NDArray[np.float64]:
    return np.array(list(booster.get_score(importance_type="weight").values()), dtype=np.float64)


def try_settings(settings: list[RivalSetting], fold: RivalFold) -> list[tuple[NDArray[Any], NDArray[Any], float]]:
    """For each setting: validation scores, test scores, processor seconds of training.

    Settings that differ in their rounds only are looked at in one run.
    """
    found = []
    booster, done, seconds = None, 0, 0.0
    for setting in settings:
        start = time.process_time()
        if booster is None or setting.rounds <= done:
            booster, done, seconds = xgboost.Booster(setting.parameters(), [fold.train]), 0, 0.0
        while done < setting.rounds:
            booster.update(fold.train, done)
            done += 1
        seconds += time.process_time() - start
        found.append((booster.predict(fold.vali), booster.predict(fold.test), seconds))
    return found
