"""The recipe behind ``tc.fit``: pick a text model, learn, and keep what was learned only where it helps; learn on."""

from tercet.recipe.click_log import learn_from_clicks
from tercet.recipe.clicks import ClickLearner
from tercet.recipe.fitting import fit, fit_labelled, fit_linked
from tercet.recipe.streaming import fit_vectors

__all__ = ["ClickLearner", "fit", "fit_labelled", "fit_linked", "fit_vectors", "learn_from_clicks"]
