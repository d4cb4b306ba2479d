"""Training on the workers of a cluster."""

from tercet.scale.cluster import Cluster
from tercet.scale.rounds import InProcess, RoundFacts

__all__ = ["Cluster", "InProcess", "RoundFacts"]
