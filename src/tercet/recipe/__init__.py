"""The recipe behind ``tc.fit``: pick a text model, learn, and keep what was learned only where it helps."""

from tercet.recipe.fitting import fit, fit_labelled, fit_linked

__all__ = ["fit", "fit_labelled", "fit_linked"]
