"""The summary that a log prints: the numbers of each arm, and a title."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from belated.base.columns import Array
from belated.base.tables import Column
from belated.base.text import count
from belated.log.rows import LogRows


@dataclass(frozen=True, kw_only=True, eq=False)
class LogOverview:
    """The values that a printed log shows, by arm."""

    log: LogRows
    assigned: Array
    arrived: Array
    share: Array
    delay: list[float]  # the median
    smallest: Array  # the smallest propensity
    span: tuple[int | float, int | float] | None  # of the times of assignment

    @classmethod
    def of(cls, log: LogRows) -> LogOverview:
        """Return the overview of a log."""
        existing = log.schedule.existing
        code, arrived = log.code[existing], log.arrived[existing]
        n_arms = len(log.arms)
        assigned_n = np.bincount(code, minlength=n_arms)
        arrived_n = np.bincount(code[arrived], minlength=n_arms)
        times = log.assigned_numbers[existing]
        delays = log.arrived_numbers[existing] - times
        medians = [float(np.median(delays[arrived & (code == k)])) if arrived_n[k] else math.nan for k in range(n_arms)]
        if log.has_all_propensities:
            smallest = log.propensity[existing].min(axis=0) if len(code) else np.full(n_arms, math.nan)
        else:
            smallest = np.full(n_arms, math.inf)
            np.minimum.at(smallest, code, log.propensity[existing])
            smallest[assigned_n == 0] = math.nan
        return cls(
            log=log,
            assigned=assigned_n,
            arrived=arrived_n,
            share=np.divide(arrived_n, assigned_n, out=np.full(n_arms, math.nan), where=assigned_n > 0),
            delay=medians,
            smallest=smallest,
            span=(times.min(), times.max()) if len(times) else None,
        )

    @property
    def title(self) -> str:
        """The title of the table."""
        log = self.log
        share = self.arrived.sum() / max(len(log), 1)
        size = f"{count(len(log), 'row')} and {count(len(log.arms), 'arm')}"
        segments = "" if log.segment_column is None else f"; {count(len(log.segments), 'segment')}"
        come = "arrived" if log.events is None else f"of windows of {log.within} closed"
        return f"Log of {size}: {share:.1%} {come}{log.title_end(self.span)}{segments}"

    @property
    def columns(self) -> list[Column]:
        """The columns of the table."""
        delays = [self.log.clock.show_delay(d) for d in self.delay]
        return [
            Column("arm", list(self.log.arms), "label"),
            Column("assigned", self.assigned.tolist(), "count"),
            Column("arrived", self.arrived.tolist(), "count"),
            Column("share_arrived", self.share.tolist(), "share"),
            Column("median_delay", delays, "number"),
            Column("smallest_propensity", self.smallest.tolist(), "number"),
        ]
