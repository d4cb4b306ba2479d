"""The papers' tables and figures as data files, and the runner that reproduces them."""

from tercet.repro.check import find_plan, known_papers, read_plan
from tercet.repro.output import write_results
from tercet.repro.paper_results import PaperResults
from tercet.repro.plan import Plan
from tercet.repro.runner import reproduce

__all__ = [
    "PaperResults",
    "Plan",
    "find_plan",
    "known_papers",
    "read_plan",
    "reproduce",
    "write_results",
]
