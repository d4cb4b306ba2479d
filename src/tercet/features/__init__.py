"""Models of feature vectors, as in LETOR files: the recipe behind ``tc.fit_letor``, the model and its report."""

from tercet.features.model import FeatureModel
from tercet.features.recipe import fit_letor, fit_letor_folds
from tercet.features.report import FeatureReport
from tercet.features.streaming import StreamReport, fit_letor_stream

__all__ = ["FeatureModel", "FeatureReport", "StreamReport", "fit_letor", "fit_letor_folds", "fit_letor_stream"]
