"""A service that searches an index, gives its reasons, and learns from preferences while it serves.

What learns (`Journal`, `Learner`, `Version`) needs nothing but the index; what speaks HTTP is in `tercet.serve.app`
and `tercet.serve.run`, and needs the extra ``serve``.
"""

from tercet.serve.bounds import LearningBounds, Limits
from tercet.serve.journal_chain import read_journal
from tercet.serve.journal_file import Journal
from tercet.serve.learner import Learner, Version, bake, replay

__all__ = ["Journal", "Learner", "LearningBounds", "Limits", "Version", "bake", "read_journal", "replay"]
