"""Counts and times for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as TEXT_TYPE

__all__ = ["TEXT_TYPE", "Metrics"]

_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Number of answers and their times."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()  # each service of a process has its registry
        ProcessCollector(registry=self._registry)
        labels = ("method", "route", "status")
        answered = Counter("tercet_requests", "Requests answered.", labels, registry=self._registry)
        about = "Time from a request to its answer."
        seconds = Histogram("tercet_request_seconds", about, ("route",), buckets=_EDGES, registry=self._registry)
        self._answered, self._seconds = lru_cache(1024)(answered.labels), lru_cache(1024)(seconds.labels)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._answered(method, route, str(status)).inc()
        self._seconds(route).observe(seconds)

    def text(self, gauges: Mapping[str, tuple[str, float]], about: Mapping[str, str]) -> str:
        """Return all metrics with gauges, name -> (description, value), and labels of an info metric."""
        now = CollectorRegistry()
        for name, (description, value) in gauges.items():
            Gauge(name, description, registry=now).set(value)
        Gauge("tercet_info", "What runs, and what it serves.", list(about), registry=now).labels(**about).set(1)
        return (generate_latest(self._registry) + generate_latest(now)).decode()
