"""The papers' tables and figures as data files, and the runners that reproduce them."""

from tercet.repro.features.plan import FeaturePlan
from tercet.repro.features.runner import FeatureResults
from tercet.repro.kinds import reproduce, write_results
from tercet.repro.plan import Plan
from tercet.repro.reading import find_plan, known_papers, read_plan
from tercet.repro.runner import Results

__all__ = [
    "FeaturePlan",
    "FeatureResults",
    "Plan",
    "Results",
    "find_plan",
    "known_papers",
    "read_plan",
    "reproduce",
    "write_results",
]
