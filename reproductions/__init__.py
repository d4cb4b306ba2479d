"""The papers' tables and figures as data files, and the runner that reproduces them."""

from reproductions.check import find_plan, known_papers, read_plan
from reproductions.output import write_results
from reproductions.paper_results import PaperResults
from reproductions.plan import Plan
from reproductions.runner import reproduce

__all__ = [
    "PaperResults",
    "Plan",
    "find_plan",
    "known_papers",
    "read_plan",
    "reproduce",
    "write_results",
]
