"""Fits: a task, candidates, a choice among the candidates, a model and a report."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.fitting.feature_model import FeatureModel as FeatureModel
    from tercet.fitting.letor import fit_letor as fit_letor
    from tercet.fitting.options import FitOptions as FitOptions
    from tercet.fitting.parallel import fit_parallel as fit_parallel
    from tercet.fitting.recipe import fit as fit
    from tercet.fitting.recipe import fit_labeled as fit_labeled
    from tercet.fitting.recipe import fit_linked as fit_linked
    from tercet.fitting.text_model import TextModel as TextModel
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.fitting.feature_model": ("FeatureModel",),
            "tercet.fitting.options": ("FitOptions",),
            "tercet.fitting.text_model": ("TextModel",),
            "tercet.fitting.parallel": ("fit_parallel",),
            "tercet.fitting.recipe": ("fit", "fit_labeled", "fit_linked"),
            "tercet.fitting.letor": ("fit_letor",),
        },
    )
