"""Counts and times as Prometheus reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as TEXT_TYPE
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["TEXT_TYPE", "Metrics", "resident_bytes"]

_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """What was answered, how often and how fast."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()  # its own: services in one process are counted apart
        self._answered = Counter(
            "tercet_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "tercet_request_seconds",
            "Time from a request to its answer.",
            ("route",),
            buckets=_EDGES,
            registry=self._registry,
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._answered.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, gauges: Mapping[str, tuple[str, float]], about: Mapping[str, str]) -> str:
        """All of it, gauges given as name -> (what it is, value), and what runs, as the labels of one more."""
        return generate_latest(_Snapshot(self._registry, gauges, about)).decode()


class _Snapshot(Collector):
    """What was counted, and gauges as they are now."""

    def __init__(
        self, registry: CollectorRegistry, gauges: Mapping[str, tuple[str, float]], about: Mapping[str, str]
    ) -> None:
        self._registry, self._gauges, self._about = registry, gauges, about

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            # When each was first counted would double them, and nobody asks.
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
        for name, (what, value) in self._gauges.items():
            yield GaugeMetricFamily(name, what, value)
        info = GaugeMetricFamily("tercet_info", "What runs, and what it serves.", labels=list(self._about))
        info.add_metric(list(self._about.values()), 1)
        yield info


def resident_bytes() -> int:
    """Memory of this process that is in RAM; its largest so far where the system does not tell the present one."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        if sys.platform == "win32":
            return 0
        import resource

        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return largest if sys.platform == "darwin" else largest * 1024
