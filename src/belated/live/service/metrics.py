"""Metrics: counters in Prometheus's text format, with a bounded number of labels."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable

#: Upper bounds of the histogram of times, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

#: The label of experiments beyond those that have one of their own, and of methods that no route has.
OTHER = "(other)"

#: Methods that have a label of their own: a client can send any word.
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Metrics:
    """What was served: requests and their times by route, asks and tells by experiment.

    Parameters
    ----------
    labels : int
        How many experiments have a label of their own; the others share one.
    """

    def __init__(self, labels: int) -> None:
        self._most = labels
        self._requests: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, list[float]] = {}
        self._rows: dict[tuple[str, str], int] = {}
        self._named: set[str] = set()
        self.started = time.time()

    def served(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is a route of the table, never text that a client sent."""
        key = (method if method in METHODS else OTHER, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        times = self._times.get(route)
        if times is None:
            times = self._times[route] = [0.0] * (len(BOUNDS) + 2)
        times[bisect_left(BOUNDS, seconds)] += 1
        times[-1] += seconds

    def stored(self, kind: str, experiment: str, rows: int) -> None:
        """Count asks, tells or contradictions of an experiment that exists."""
        if experiment not in self._named:
            if len(self._named) >= self._most:
                experiment = OTHER
            else:
                self._named.add(experiment)
        key = (kind, experiment)
        self._rows[key] = self._rows.get(key, 0) + rows

    def contradictions(self, experiment: str) -> int:
        """Return how many outcomes of an experiment were refused because they contradict others."""
        return self._rows.get(("contradiction", experiment if experiment in self._named else OTHER), 0)

    def text(self, gauges: Iterable[tuple[str, str, float]] = ()) -> str:
        """Return everything as text; gauges are a name, what it means, and its value now."""
        lines = _head("belated_requests_total", "Requests by route and code.", "counter")
        for (method, route, status), number in sorted(self._requests.items()):
            lines.append(_line("requests_total", _labels(method=method, route=route, code=str(status)), number))
        lines += _head("belated_request_seconds", "Time from a request to its reply.", "histogram")
        for route, times in sorted(self._times.items()):
            total = 0.0
            for bound, counted in zip((*map(str, BOUNDS), "+Inf"), times, strict=False):
                total += counted
                lines.append(_line("request_seconds_bucket", _labels(route=route, le=bound), total))
            lines.append(_line("request_seconds_sum", _labels(route=route), times[-1]))
            lines.append(_line("request_seconds_count", _labels(route=route), total))
        lines += _head(
            "belated_rows_total",
            "Units asked, outcomes told and outcomes refused as contradictions, by experiment.",
            "counter",
        )
        for (kind, experiment), number in sorted(self._rows.items()):
            lines.append(_line("rows_total", _labels(kind=kind, experiment=experiment), number))
        own = ("start_time_seconds", "When this process began to serve, in seconds since 1970.", self.started)
        for name, meaning, value in (own, *gauges):
            lines += [*_head(f"belated_{name}", meaning, "gauge"), _line(name, "", value)]
        return "".join(f"{line}\n" for line in lines)


def _head(name: str, meaning: str, kind: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _line(name: str, labels: str, value: float) -> str:
    return f"belated_{name}{labels} {value:.17g}"
