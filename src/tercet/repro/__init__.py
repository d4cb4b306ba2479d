"""The papers' tables and figures as data files, and the one runner that reproduces them."""

from tercet.repro.plan import Plan
from tercet.repro.reading import find_plan, known_papers, read_plan
from tercet.repro.runner import Results, reproduce
from tercet.repro.written import write_results

__all__ = ["Plan", "Results", "find_plan", "known_papers", "read_plan", "reproduce", "write_results"]
