"""Counts and times as Prometheus reads them."""

from __future__ import annotations

import os
import sys
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping

_EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What was answered, how often and how fast."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered: Counter[tuple[str, str, int]] = Counter()
        self._times: dict[str, list[int]] = defaultdict(lambda: [0] * (len(_EDGES) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._answered[method, route, status] += 1
            self._times[route][bisect_left(_EDGES, seconds)] += 1
            self._seconds[route] += seconds

    def text(self, gauges: Mapping[str, tuple[str, float]], about: Mapping[str, str]) -> str:
        """All of it, gauges given as name -> (what it is, value), and what runs, as the labels of one more."""
        with self._lock:
            lines = ["# HELP tercet_requests_total Requests answered.", "# TYPE tercet_requests_total counter"]
            for (method, route, status), count in sorted(self._answered.items()):
                lines.append(f'tercet_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
            lines.append("# HELP tercet_request_seconds Time from a request to its answer.")
            lines.append("# TYPE tercet_request_seconds histogram")
            for route, counts in sorted(self._times.items()):
                total = 0
                for edge, count in zip((*_EDGES, "+Inf"), counts, strict=True):
                    total += count
                    lines.append(f'tercet_request_seconds_bucket{{route="{route}",le="{edge}"}} {total}')
                lines.append(f'tercet_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}')
                lines.append(f'tercet_request_seconds_count{{route="{route}"}} {total}')
        for name, (what, value) in gauges.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge", f"{name} {value:.17g}"]
        labels = ",".join(f'{name}="{value}"' for name, value in about.items())
        lines += [
            "# HELP tercet_info What runs, and what it serves.",
            "# TYPE tercet_info gauge",
            f"tercet_info{{{labels}}} 1",
        ]
        return "\n".join(lines) + "\n"


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
