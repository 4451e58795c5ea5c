"""Sequences of events whose windows are still open: `MaturingLooks`, their results at each look.

psi is what each row adds to the error of its arm's mean: its weight times its matured outcome minus the mean, over the
weight of all rows. If the outcome is whether an event happened, rows have equal weights and the sequence is the
beta-binomial one of as many rows as would give the same variance. Otherwise it is a normal mixture, which reaches
further on the side of the long tail. docs/sequences.md has the formulas and the simulations.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError
from belated.base.text import count, one_line
from belated.estimation.estimators import ESTIMATORS
from belated.kernels import jit
from belated.kernels import sequence_bounds as kernel
from belated.kernels.sequence_bounds import ROUNDING, NormalRange
from belated.log.clock import Clock
from belated.log.events import Events
from belated.log.log import Log
from belated.sequences.design import Design
from belated.sequences.looks import LIMIT_STEPS, LookReach, Looks
from belated.sequences.versions import require_later, require_same_form, require_same_values
from belated.summaries.maturing import Exposure, Happened, matured_outcomes
from belated.summaries.sums import Sums

#: Where intervals become finite. Beta-binomial: the rows whose window has closed, and the events. Normal mixtures: the
#: effective number of rows whose window has closed, the skewness and the doubt of their sum.
LEAST_CLOSED, LEAST_EVENTS = 10, 2
OPEN_WINDOWS = NormalRange(least_size=25.0, most_skew=0.5, most_doubt=0.2)


def _design_of(log: Log) -> tuple[object, ...]:
    """Return what two versions of a log have in common."""
    events = log.events
    return (log.arms, log.clock.unit, *(() if events is None else (events.window, events.measure, events.lag)))


class ArmsNow(NamedTuple):
    """The state of each arm at one look; NaN without rows whose window has closed."""

    mean: Array
    variance: Array
    squares: Array  # the sum of squared weights of the rows at risk, averaged over events
    skew: Array
    doubt: Array
    closed: Array  # the effective number of rows whose window has closed
    rows: Array  # whose window has closed
    open: Array
    events: Array


class Lives:
    """The rows of a log with events, ordered once for all looks."""

    def __init__(self, log: Log, *, weighted: bool) -> None:
        if log.events is None:
            raise LogError("The log has no events.")
        events, self.arms = log.events, len(log.arms)
        self.window, self.lag = float(events.window), events.lag
        assigned = log.assigned_numbers
        order = np.lexsort((-assigned.astype(float), log.code))  # by arm, the youngest first
        place = np.empty(len(order), np.intp)
        place[order] = np.arange(len(order))
        chosen = log.propensity if log.propensity.ndim == 1 else log.propensity[np.arange(len(log.code)), log.code]
        self.assigned, self.code = assigned[order], log.code[order].astype(np.intp)
        self.w = 1 / np.sqrt(chosen[order]) if weighted else np.ones(len(order))
        row = place[events.row]
        by_age = np.lexsort((events.age, self.code[row]))
        self.row, self.age = row[by_age], events.age[by_age]
        self.value = events.capped(log.cap)[by_age]

    def at(self, moment: int | float) -> ArmsNow:
        """Return what rows and events show at a time."""
        lived = (moment - self.lag - self.assigned).astype(float)
        entered = np.flatnonzero(lived >= 0)
        place = np.full(len(lived), -1)
        place[entered] = np.arange(len(entered))
        counts = np.flatnonzero(self.age <= lived[self.row])
        exposure = Exposure(self.code[entered], np.minimum(lived[entered], self.window), self.w[entered])
        return self._arms(exposure, Happened(place[self.row[counts]], self.age[counts], self.value[counts]))

    def _arms(self, exposure: Exposure, events: Happened) -> ArmsNow:
        cell, age, w = exposure

        def total(values: Array, rows: Array | None = None) -> Array:
            """Return sums by arm."""
            chosen, each = (cell, values) if rows is None else (cell[rows], values[rows])
            return np.bincount(chosen, each, self.arms)

        outcome = matured_outcomes(exposure, events, self.arms, self.window)
        closed, weight, squares = age >= self.window, total(w), total(w * w)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(total(w, closed) > 0, total(w * outcome) / weight, math.nan)
            psi = w * (outcome - mean[cell]) / weight[cell]
            second, third, fourth = (total(psi**power) for power in (2, 3, 4))
            return ArmsNow(
                mean=mean,
                variance=second,
                squares=self._squares(exposure, events),
                skew=third / second**1.5,
                doubt=np.maximum(fourth / second**2 - squares / weight**2, 0.0),
                closed=total(w, closed) ** 2 / total(w * w, closed),
                rows=np.bincount(cell[closed], minlength=self.arms),
                open=np.bincount(cell[~closed], minlength=self.arms),
                events=np.bincount(cell[events.entry], minlength=self.arms),
            )

    def _squares(self, exposure: Exposure, events: Happened) -> Array:
        """Return the sums of squared weights of the rows at risk, averaged harmonically over events, by arm."""
        values = np.full(self.arms, math.nan)
        rows_to, events_to = (np.searchsorted(cells, np.arange(self.arms + 1))
                              for cells in (exposure.cell, exposure.cell[events.entry]))  # fmt: skip
        for k in range(self.arms):
            of_rows, of_events = slice(rows_to[k], rows_to[k + 1]), slice(events_to[k], events_to[k + 1])
            start = np.searchsorted(exposure.age[of_rows], events.age[of_events], side="left")
            w, entry = exposure.w[of_rows], events.entry[of_events]
            risk, squares = (np.append(np.cumsum(each[::-1])[::-1], 0.0)[start] for each in (w, w * w))
            terms = exposure.w[entry] * events.value[of_events] ** 2 / risk
            if terms.sum() > 0:
                values[k] = terms.sum() / np.sum(terms / squares)
        return values


class MaturingLooks(Looks):
    """The results at looks at a log with events."""

    def __init__(self, design: Design, clock: Clock, outcome: str, events: Events) -> None:
        super().__init__(design, clock, outcome, events.measure)
        self.measure = events.measure
        self.states: list[ArmsNow] = []
        self._logs: list[Log] = []
        self._sums: dict[int, Sums] = {}

    # ---------------------------------------------------------------- looking

    def _lives(self, log: Log) -> Lives:
        return Lives(log, weighted=not self.design.is_binary)

    def follow(self, log: Log, moments: Array) -> None:
        """Look at a log at some times."""
        if self.design.is_binary:
            jit.ready(len(moments) * len(log.arms) * LIMIT_STEPS)
        lives = self._lives(log)
        self.states += [lives.at(moment) for moment in moments]
        self.times += [moment.item() for moment in moments]
        self._logs += [log] * len(moments)

    def follow_later(self, log: Log) -> None:
        """Look at a later version of the log at its as-of time; raise if it is another log."""
        require_same_form(_design_of(log), _design_of(self._logs[-1]), "arms, type of times and window")
        now = log.even_moments(1)[-1:]
        require_later(now[0], self.times[-1])
        differ = (
            f"what had been assigned or had happened by the last look, {self.clock.text(self.times[-1])}, differs. If "
            "events are recorded late, give the lag."
        )
        before, known = self._lives(log).at(self.times[-1]), self.states[-1]
        for name in ("mean", "rows", "open", "events"):
            scale = np.sqrt(known.variance) if name == "mean" else 0.0
            require_same_values(getattr(before, name), getattr(known, name), scale, lambda _: differ)
        self.follow(log, now)

    def sums(self, look: int) -> Sums:
        """Return the sums of the DIPW estimate at a look."""
        at = look % len(self.times)
        if at not in self._sums:
            moments = np.array([self.times[at]])
            self._sums[at] = self._logs[at].sums([ESTIMATORS["dipw"].parts], moments, plain=False)[0][0]
        return self._sums[at]

    # ---------------------------------------------------------------- intervals and tests

    def _is_silent(self, look: int, arm: int) -> bool:
        """Whether an arm's interval is infinite at a look."""
        now = self.states[look]
        if self.design.is_binary:
            enough = now.rows[arm] >= LEAST_CLOSED and now.events[arm] >= LEAST_EVENTS
            return not (enough and 0 < now.mean[arm] < 1 and now.variance[arm] > 0)
        return not (
            now.variance[arm] > 0
            and now.closed[arm] >= (1 - ROUNDING) * OPEN_WINDOWS.least_size
            and abs(now.skew[arm]) <= (1 + ROUNDING) * OPEN_WINDOWS.most_skew
            and now.doubt[arm] <= (1 + ROUNDING) * OPEN_WINDOWS.most_doubt
        )

    def _arm_reach(self, look: int, arm: int, threshold: float) -> tuple[float, float, float]:
        """Return the squared scales of an arm's lower and upper reach, and their price."""
        if self._is_silent(look, arm):
            return math.inf, math.inf, 0.0
        now = self.states[look]
        mean, variance = float(now.mean[arm]), float(now.variance[arm])
        if self.design.is_binary:
            size = mean * (1 - mean) / variance
            low, high = (
                kernel.limit(size * mean, size * (1 - mean), threshold, upper, self.design.plan)
                for upper in (False, True)
            )
            return (mean - low) ** 2, (high - mean) ** 2, 0.0
        squares, skew, doubt, eta = now.squares[arm], now.skew[arm], now.doubt[arm], self.design.plan.eta
        scale = variance * (1 + eta / squares)
        in_doubt = (1.0, 3.0) if self.measure != "sum" else (3.0, 10.0)
        further = (1 + abs(skew)) ** 2 * (1 + in_doubt[0] * math.sqrt(doubt) + in_doubt[1] * doubt)
        lower, upper = (scale, scale * further) if skew > 0 else (scale * further, scale)
        return float(lower), float(upper), math.log1p(squares / eta)

    def _reach(self, look: int, a: int, b: int | None, threshold: float) -> LookReach:
        """Return an answer at a look; beta-binomial scales are those at the threshold, with price 0."""
        mean, (lower, upper, price) = self.states[look].mean, self._arm_reach(look, a, threshold)
        if b is None:
            return LookReach(float(mean[a]), np.array([lower]), np.array([upper]), np.array([price]))
        below, above, cost = self._arm_reach(look, b, threshold)
        prices = np.array([price, cost])
        return LookReach(float(mean[a] - mean[b]), np.array([lower, above]), np.array([upper, below]), prices)

    def silence(self, arm: int) -> str | None:
        """Return the reason why an arm's interval is infinite; None if it is finite."""
        if not self._is_silent(-1, arm):
            return None
        now, name = self.states[-1], one_line(repr(self.design.arms[arm]))
        happened = f"{count(int(now.rows[arm]), 'closed window')} and {count(int(now.events[arm]), 'event')}"
        if self.design.is_binary:
            return (
                f"Arm {name} has {happened}; a sequence needs {LEAST_CLOSED} and {LEAST_EVENTS}, and rows without an "
                "event."
            )
        if not now.closed[arm] >= (1 - ROUNDING) * OPEN_WINDOWS.least_size:
            return (
                f"Arm {name} has an effective number of {np.nan_to_num(now.closed[arm]):.3g} closed windows; a "
                f"sequence needs {OPEN_WINDOWS.least_size:.0f}."
            )
        return (
            f"The outcomes of arm {name} do not vary, or are few and skewed, so their mean is not yet close to normal. "
            "A sequence needs that."
        )
