"""Memory of past queries, with the documents chosen for each query."""

from tercet.memory.uses import Use, with_uses
from tercet.memory.value import Memory, MemoryReasons, MemorySettings, PastQuery

__all__ = ["Memory", "MemoryReasons", "MemorySettings", "PastQuery", "Use", "with_uses"]
