"""Sums and evidence of a log in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import TINY
from belated.base.columns import Array
from belated.base.errors import LogError
from belated.kernels import jit
from belated.kernels import rows as kernel
from belated.summaries import contexts
from belated.summaries.covariates import CovariateSums
from belated.summaries.evidence import (
    AT_MEAN,
    BIN_ROUNDING,
    COPIES,
    DELAY_BINS,
    LOOKED_AT,
    NOT_ARRIVED,
    STRETCHES,
    UNIT_ROUNDING,
    ArrivalCounts,
    CovariateEvidence,
    DelayBins,
    Evidence,
    FollowUp,
    OutcomeShape,
    Recorded,
    SegmentEvidence,
    grain_of,
    mean_and_sd,
    settled,
)
from belated.summaries.outcome_models import given_means, read_outcome_model
from belated.summaries.pair_sums import PairSums
from belated.summaries.segments import ALL, MISSING, Segments, cell_labels
from belated.summaries.sums import Parts, Sums, SumsOf, add_own, empty_bins
from belated.summaries.weights import Weights, read_weights

if TYPE_CHECKING:
    from belated.log.log import Log

#: Rows that are summed at a time, few enough that intermediate arrays stay in the processor's cache.
_AT_A_TIME = 1 << 16


class RowEvidence:
    """The rows of a log at its as-of time, in order of assignment, and the counts and sums that checks use.

    Durations are in microseconds, or in the clock's own numbers.
    """

    def __init__(self, log: Log) -> None:
        log.refuse_no_rows()
        existing, clock = log.schedule.existing, log.clock
        self.log, self.arms, self.dates = log, len(log.arms), clock.unit is not None
        self.scale = float(1 / clock.per_microsecond)
        self.code = log.code[existing].astype(np.intp)
        self.arrived = log.schedule.due[existing] >= 0
        self.p = log.propensity[existing]
        self.assigned_at = log.assigned_numbers[existing]
        first, last = self.assigned_at[0].item(), self.assigned_at[-1].item()
        self.followed = FollowUp(first, last, log.last_look, clock.whole or self.dates)

    @cached_property
    def chosen(self) -> Array:
        """The propensity of the arm that was chosen."""
        return self.p if self.p.ndim == 1 else self.p[np.arange(len(self.p)), self.code]

    @cached_property
    def own(self) -> Array:
        """The arm of each row whose outcome has arrived."""
        return np.asarray(self.code[self.arrived])

    @cached_property
    def delay(self) -> Array:
        """The delay of each outcome that has arrived."""
        arrived_at = self.log.arrived_numbers[self.log.schedule.existing]
        return np.asarray((arrived_at - self.assigned_at)[self.arrived] * self.scale)

    @cached_property
    def y(self) -> Array:
        """Each outcome that has arrived, minus the anchor of its arm."""
        outcome = self.log.outcome[self.log.schedule.existing]
        return np.asarray(outcome[self.arrived] - self.log.anchor[self.own])

    @cached_property
    def columns(self) -> Array:
        """The propensities by arm, each arm's beside each other in memory."""
        return np.ascontiguousarray(self.p.T)

    @cached_property
    def place(self) -> Array:
        """The period in which each row was assigned."""
        width = float(self.followed.last - self.followed.first) * self.scale / STRETCHES
        if not width > 0:
            return np.zeros(len(self.code), np.intp)
        since = (self.assigned_at - self.followed.first) * self.scale
        since /= width
        return np.asarray(np.minimum(since, STRETCHES - 1, out=since).astype(np.intp))

    @cached_property
    def old(self) -> Array:
        """Whether each row has been followed for half of the experiment."""
        return np.asarray(self.assigned_at <= self.followed.old_until)

    @cached_property
    def soon(self) -> Array:
        """For rows whose outcome has arrived: whether they are old and it arrived within half of the experiment."""
        return np.asarray(self.old[self.arrived] & (self.delay <= self.followed.half * self.scale))

    @cached_property
    def early(self) -> int:
        """The number of old rows, which are the earliest; limited if there are many."""
        return int(np.searchsorted(self.assigned_at, self.followed.early_until(len(self.code)), side="right"))

    def evidence(self) -> Evidence:
        """Return all counts and sums."""
        log = self.log
        low, rarest, unlikeliest = np.full((3, self.arms), math.inf)
        np.minimum.at(low, self.own, self.y)
        np.minimum.at(rarest, self.own, self.chosen[self.arrived])
        np.minimum.at(unlikeliest, self.code, self.chosen)
        low = np.where(np.isinf(low), math.nan, low + log.anchor)
        rarest, unlikeliest = (np.where(np.isinf(least), math.nan, least) for least in (rarest, unlikeliest))
        chances = self._chances(rarest) if self.p.ndim == 2 else {}
        excess, variance = self.calibration(len(self.code)) or (None, None)
        names = ("p", "p2", "p_min", "h", "h_max", "chance", "log_p")
        sums = self._sums()
        return Evidence(
            arms=log.arms,
            rows=len(self.code),
            within=log.within,
            grain=self._grain(),
            moments=self.followed.moments,
            sums=sums,
            shift=log.anchor,
            low=low,
            rarest=rarest,
            shape=self._shape(sums),
            unlikeliest=unlikeliest,
            **{name: chances.get(name) for name in names},
            excess=excess,
            variance=variance,
            dependence=log.dependence if log.within is None else np.zeros((self.cells, 3, 3)),
            arrivals=self._arrival_counts(),
            swings=contexts.swings(glimpse(log)),
            segments=self._segments(),
            covariates=self._covariates(),
            cohorts=log.cohorts(),
        )

    @cached_property
    def cell(self) -> Array:
        """The segment and arm of each row as segment * arms + arm; the arm if there are no segments."""
        if self.log.segment_column is None:
            return self.code
        return np.asarray(self.log.cell[self.log.schedule.existing].astype(np.intp))

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.log.segments or (ALL,)) * self.arms

    def _segments(self) -> SegmentEvidence | None:
        """Sum rows by period, segment and arm."""
        column = self.log.segment_column
        if column is None:
            return None
        missing = 0
        if MISSING in column.labels:
            without = column.code[self.log.schedule.existing] == column.labels.index(MISSING)
            missing = int(np.count_nonzero(without))
        return SegmentEvidence(
            self.log.layout.labels, self.log.layout.merged, missing, self._tables(self.cell, self.cells)
        )

    def _covariates(self) -> CovariateEvidence | None:
        """Sum covariates by segment and arm, and against the choice of each arm."""
        given, cells = self.log.existing_covariates, self.cells
        if given is None or not given.names:
            return None
        shape, full = (cells // self.arms, self.arms), self.p.ndim == 2
        soon = np.flatnonzero(self.arrived)[self.soon]
        sums, chosen = np.zeros((4, *shape, len(given.names))), np.zeros((3, self.arms, len(given.names)))
        variances = self.columns - np.square(self.columns) if full else None
        for i, x in enumerate(given.values[self.log.schedule.existing].T):
            size = np.abs(x)
            for power, (rows, each) in enumerate([(self.old, x), (self.old, x * x), (self.old, size**3), (soon, x)]):
                sums[power, :, :, i] = np.bincount(self.cell[rows], each[rows], cells).reshape(shape)
            if variances is not None:
                chosen[0, :, i] = np.bincount(self.code, x, self.arms) - self.columns @ x
                chosen[1, :, i], chosen[2, :, i] = variances @ (x * x), variances @ size**3
        return CovariateEvidence(
            names=given.names,
            old=np.bincount(self.cell[self.old], minlength=cells).reshape(shape),
            soon=np.bincount(self.cell[soon], minlength=cells).reshape(shape),
            x=sums[0],
            x2=sums[1],
            x3=sums[2],
            x_soon=sums[3],
            choice=chosen if full else None,
        )

    def _grain(self) -> float:
        """Return the unit that all delays are multiples of; if there is none, a few delays usually show that."""
        late = self.delay[self.delay > 0]

        def remainder(unit: float) -> float | None:
            with np.errstate(over="ignore", invalid="ignore"):
                for delay in (late[:LOOKED_AT], late):
                    off = np.abs(delay - np.rint(delay / unit) * unit)
                    off = off[off > UNIT_ROUNDING * unit]
                    if len(off):
                        return float(off.min())
            return None

        return grain_of(float(late.min()), float(late.max()), remainder) if len(late) else 0.0

    def _sums(self) -> dict[str, Array]:
        """Sum rows by period and arm."""
        cell = self.place * self.arms + self.code
        own, w2 = cell[self.arrived], 1 / self.chosen[self.arrived]
        w = np.sqrt(w2)
        weights = {"w": w, "w2": w2, "w3": w * w2, "w4": w2 * w2}
        return {
            **self._tables(self.code, self.arms),
            "inverse": _by_period(self.arms, cell, 1 / self.chosen),
            **{name: _by_period(self.arms, own, values) for name, values in weights.items()},
        }

    def _tables(self, cell: Array, cells: int) -> dict[str, Array]:
        """Sum rows by period and cell: the arm, or the segment and arm."""
        cell = self.place * cells + cell
        own, y = cell[self.arrived], self.y
        return {
            "assigned": _by_period(cells, cell),
            "old": _by_period(cells, cell[self.old]),
            "soon": _by_period(cells, own[self.soon]),
            "arrived": _by_period(cells, own),
            "y": _by_period(cells, own, y),
            "y2": _by_period(cells, own, y * y),
        }

    def _shape(self, sums: dict[str, Array]) -> OutcomeShape:
        """Sum the deviations of outcomes from their arm's mean."""
        mean, sd = mean_and_sd({name: table.sum(axis=0) for name, table in sums.items()})
        z = (self.y - mean[self.own]) / sd[self.own]
        lowest, highest = np.zeros((2, self.arms))
        np.minimum.at(lowest, self.own, z)
        np.maximum.at(highest, self.own, z)

        def table(values: Array) -> Array:
            return np.bincount(self.own, values, self.arms)

        side = [(sign * z > AT_MEAN, np.maximum(sign * z, 0.0)) for sign in (-1, 1)]
        sides = [[table(on), table(on * away), table(on * np.sqrt(away))] for on, away in side]
        square = z * z
        return OutcomeShape(
            lowest, highest, table(square * z), table(square * square), np.moveaxis(np.array(sides), 2, 0)
        )

    def dependence(self) -> Array:
        """Return `Evidence.dependence`, the sums for the test of whether arrival depends on the outcome."""
        early = np.arange(len(self.code)) < self.early
        use = self.soon & early[self.arrived]
        late, y = np.log1p(self.delay[use] / (self.followed.short * self.scale)), self.y[use]
        cell = self.cell[self.arrived][use]
        moments = np.zeros((self.cells, 3, 3))
        for i in range(3):
            product = late**i
            for j in range(3):
                moments[:, i, j] = np.bincount(cell, product, self.cells)
                product *= y
        return moments

    def calibration(self, rows: int) -> tuple[Array, Array] | None:
        """Return `Evidence.excess` and `Evidence.variance` of the earliest rows; None without all propensities."""
        if self.p.ndim == 1:
            return None
        total, spread = np.zeros((2, self.arms + 1))  # of every arm, then of the probability of the arm that was chosen
        for start in range(0, rows, _AT_A_TIME):
            stop = min(start + _AT_A_TIME, rows)
            p = self.p[start:stop].T.copy()
            squared = p * p
            square, cube = squared.sum(axis=0), (squared * p).sum(axis=0)
            total += [*p.sum(axis=1), (square - self.chosen[start:stop]).sum()]
            spread += [*(p - squared).sum(axis=1), (cube - square * square).sum()]
        assigned = np.bincount(self.code[:rows], minlength=self.arms)
        return np.array([*assigned, 0]) - total, settled(spread, len(self.code))

    def recorded(self) -> Recorded:
        """Return the smallest outcome of the oldest rows, and by arm their number and how many have an outcome."""
        early = self.code[: self.early]
        arrived = self.arrived[: self.early]
        n = int(arrived.sum())
        outcomes = self.y[:n] + self.log.anchor[self.own[:n]]
        return Recorded(
            lowest=float(outcomes.min(initial=math.inf)) if len(outcomes) else math.nan,
            rows=np.bincount(early, minlength=self.arms).astype(float),
            arrived=np.bincount(early[arrived], minlength=self.arms).astype(float),
        )

    def copies(self) -> int:
        """Return how many times the log contains every row: the common divisor of the counts of equal rows."""
        log, rows = self.log, self.log.schedule.existing
        columns = [np.where(self.arrived, log.outcome[rows], math.inf), self.code, *np.atleast_2d(self.p.T)]
        if len(log.arrival_times):
            columns = [self.assigned_at, np.where(self.arrived, log.arrived_numbers[rows], -1), *columns]
        looked_at = np.isin(columns[0], columns[0][:LOOKED_AT])
        for some in (looked_at, np.ones(len(self.code), dtype=bool)):
            _, counts = np.unique(np.column_stack([column[some] for column in columns]), axis=0, return_counts=True)
            copies = int(np.gcd.reduce(counts))
            if copies == 1:
                return 1
        return copies if len(counts) >= COPIES else 1

    def _chances(self, rarest: Array) -> dict[str, Array]:
        """Sum the probabilities of every arm."""
        arms, columns = self.arms, self.columns
        starts = np.flatnonzero(np.diff(self.place, prepend=-1))
        places = self.place[starts]
        tables = {name: np.zeros((STRETCHES, arms)) for name in ("p", "p2")}
        tables["p_min"] = np.full((STRETCHES, arms), math.nan)
        h, chance, log_p = np.zeros(arms), np.zeros(arms), np.zeros((arms, arms))
        for k, p in enumerate(columns):
            tables["p"][places, k] = np.add.reduceat(p, starts)
            tables["p2"][places, k] = np.add.reduceat(p * p, starts)
            tables["p_min"][places, k] = np.minimum.reduceat(p, starts)
            h[k] = np.sqrt(p).sum()
            chance[k] = p[p <= rarest[k]].sum()
            log_p[:, k] = np.bincount(self.code, np.log(np.maximum(p, TINY)), arms)
        return {**tables, "h": h, "h_max": np.sqrt(columns.max(axis=1)), "chance": chance, "log_p": log_p}

    def _arrival_counts(self) -> ArrivalCounts | None:
        """Count rows by delay and age, in bins that are narrow for short delays and wide for long ones."""
        delay = self.delay
        if not len(delay):
            return None
        with np.errstate(over="ignore"):
            bins = DelayBins.of(float(delay.mean()), float(delay.max()))
        if bins is None:
            return None
        arrived_in = np.full(len(self.code), NOT_ARRIVED)
        arrived_in[self.arrived] = np.ceil(np.log1p(delay / bins.unit) / bins.step - BIN_ROUNDING)
        age = np.maximum((self.followed.look - self.assigned_at) * self.scale, 0)
        ages = np.minimum(np.floor(np.log1p(age / bins.unit) / bins.step + BIN_ROUNDING), DELAY_BINS).astype(np.intp)
        shape = (self.arms, *bins.shape)
        cell = np.ravel_multi_index((self.code, arrived_in, ages), shape)
        counts = np.bincount(cell, minlength=math.prod(shape)).astype(float).reshape(shape)
        followed = float(self.followed.look - self.followed.first) * self.scale
        return ArrivalCounts(bins.ends, counts, followed)


def _by_period(cells: int, where: Array, values: Array | None = None) -> Array:
    """Return sums by period and cell; `where` is period * cells + cell."""
    return np.asarray(np.bincount(where, values, STRETCHES * cells).astype(float).reshape(STRETCHES, cells))


def glimpse(log: Log) -> contexts.Glimpse:
    """Return the rows from which it is told whether the policy looked at the unit; all rows of a short log."""
    order, parts, column = log.schedule.order, [], log.segment_column
    for start, stop in contexts.stretches(len(log)):
        rows = order[start:stop] if len(order) else np.arange(start, stop)
        assigned, arrived = log.assigned_numbers_of(rows), log.schedule.due[rows] >= 0
        when = log.arrived_numbers_of(rows)
        parts.append(
            contexts.Glimpse(
                assigned=assigned,
                code=log.code[rows],
                p=log.propensity[rows] if len(order) else log.propensity[start:stop],
                outcome=np.where(arrived, log.outcome[rows], math.nan),
                starts=np.zeros(1, np.intp),
                arrivals=np.sort(when[arrived]),
                arrived_at=when,
                at_once=arrived & (when == assigned),
                in_order=not len(order) or contexts.are_apart(assigned),
                segment=None if column is None else log.layout.judged[column.code[rows]],
            )
        )
    return contexts.joined(parts)


def sums_of_rows(log: Log, part: Parts, moments: Array | None, plain: bool, history: Sequence[Log]) -> list[Sums]:
    """Return the sums at several ascending times, of which the last is the log's as-of time; None: at that time."""
    weights, model = read_weights(part[0]), read_outcome_model(part[1])
    if history and log.segment_column is not None:
        raise LogError("`history` does not go with segments yet; give one log with all rows.")
    means = _means_with_history(log, history) if history and model.learns else None
    if moments is None:
        bins = kernel.Bins(edges=np.array([log.schedule.rows]), arrival=np.empty(0, dtype=np.int32))
    else:
        bins = log.bins(moments)
    weights.check(log.has_all_propensities)
    labels = cell_labels(log.layout.labels, log.arms) if log.has_cells else log.arms
    about = SumsOf(arms=labels, weights=weights, outcome_model=model, full=log.has_all_propensities, plain=plain)
    modelling = model.modelling(log) if means is None else given_means(means)
    needs_pairs = model.name == "given" and plain and (about.full or not weights.need_all_propensities)
    h = np.empty((len(log.code) if needs_pairs else 0, len(log.arms)))
    totals = _added(log, about, bins, modelling, h)
    sums = Sums.of_bins(about, log.cell_anchor, totals.spread, totals.own)
    if needs_pairs:
        pairs = accumulate(_pair_sums(log, h, modelling.given, bins))
        sums = [replace(each, pairs=some) for each, some in zip(sums, pairs, strict=True)]
    if not log.has_cells:
        return sums
    products = CovariateSums.of_bins(log.existing_covariates, totals.own_products, totals.all_products, log.cell_anchor)
    return [cells_total(log, each, at) for each, at in zip(sums, products, strict=True)]


def cells_total(log: Log, cells: Sums, covariates: CovariateSums | None) -> Sums:
    """Return sums by segment and arm with their totals by arm."""
    return Segments.of(log.layout, cells, covariates).total()


def _pair_sums(log: Log, h: Array, model: Array, bins: kernel.Bins) -> Iterator[PairSums]:
    """Return the amounts that each bin adds to the sums of pairs of arms; `h` and `model` have shape (rows, arms)."""
    if log.segment_column is None:
        yield from _pairs_of_rows(log, h, model - log.anchor, bins, np.ones(len(log.code), bool))
        return
    arms, cells = len(log.arms), len(log.cell_anchor)
    segment = log.layout.place[log.segment_column.code]
    of_segments = [
        (
            np.arange(s * arms, (s + 1) * arms),
            _pairs_of_rows(log, h, model - log.cell_anchor[s * arms : (s + 1) * arms], bins, segment == s),
        )
        for s in range(len(log.layout.labels))
    ]
    for _ in range(len(bins.edges)):
        yield reduce(lambda a, b: a + b, (next(pairs).spread_over(cells, at) for at, pairs in of_segments))


def _pairs_of_rows(log: Log, h: Array, m: Array, bins: kernel.Bins, chosen: Array) -> Iterator[PairSums]:
    """Return the same of some rows; `m` is minus the shifts of the arms."""
    existing = log.existing_rows
    begins = np.searchsorted(bins.edges, np.arange(len(existing)), side="right")
    arrived = existing[log.schedule.due[existing] >= 0]
    arrives = bins.arrival[arrived] if len(bins.arrival) else np.zeros(len(arrived), np.intp)
    for bin_ in range(len(bins.edges)):
        rows, arrivals = existing[begins == bin_], arrived[arrives == bin_]
        rows, arrivals = rows[chosen[rows]], arrivals[chosen[arrivals]]
        code = log.code[arrivals]
        pi = log.propensity_matrix[arrivals, code if log.has_all_propensities else 0]
        pi = pi if log.arrival_chance is None else pi * log.arrival_chance[arrivals]
        y = log.outcome[arrivals] - log.cell_anchor[log.cell[arrivals]]
        own = PairSums.of_arrived(h[arrivals], m[arrivals], code, h[arrivals, code] / pi, y - m[arrivals, code])
        yield PairSums.of(h[rows], m[rows]) + own


def _added(log: Log, about: SumsOf, bins: kernel.Bins, modelling: kernel.Modelling, h: Array) -> kernel.Totals:
    """Add up the rows of a log in blocks; the weights of every arm are written to `h` unless it is empty."""
    arms, cells, rows, schedule = len(log.arms), len(log.cell_anchor), log.kernel_rows, log.schedule
    covariates, segments = rows.x.shape[1], cells // arms
    jit.ready(schedule.rows * (arms + 8 + 2 * covariates**2) + 10 * len(bins.edges) * cells)
    kind, learns = schedule.due.dtype, modelling.kind == kernel.RUNNING_MEAN
    calendar = kernel.Calendar(
        last=np.empty(schedule.rows if learns else 0, dtype=kind),
        previous=np.empty(len(log.code) if learns else 0, dtype=kind),
    )
    weighting, m = about.weights.weighting(log), np.empty(len(h))
    if log.layout.merged and weighting.kind != kernel.GIVEN_WEIGHTS:
        weighting = weighting._replace(even_from=log.layout.even_from(arms))

    def add(start: int, stop: int) -> kernel.Totals:
        spread, own = empty_bins(len(bins.edges), cells)
        totals = kernel.totals(
            spread, own, h, m, shift=log.cell_anchor, plain=about.plain, covariates=covariates, segments=segments
        )
        calendar.last[start:stop] = -1
        kernel.accumulate(
            totals,
            rows,
            calendar,
            bins,
            weighting._replace(remaining=np.ones(cells)),
            modelling._replace(arrived_n=np.zeros(cells), arrived_y=np.zeros(cells)),
            kernel.Stretch(start, stop),
        )
        return totals

    stretches = jit.in_stretches(schedule.rows, add, divisible=not about.weights.cumulative)
    return reduce(_both, stretches)


def row_weights(log: Log, weights: Weights) -> tuple[Array, Array | None]:
    """Return w, the weight of each row over the probability of its arm; and h, if the kernel had to make it.

    h has shape (rows, arms). Rows after the log's as-of time may have any weight.
    """
    weights.check(log.has_all_propensities)
    code = log.code.astype(np.intp)
    pi = log.propensity_matrix[np.arange(len(code)), code if log.has_all_propensities else 0]
    if weights.needs_rows:
        h = np.ones((len(code), len(log.arms)))
        about = SumsOf(log.arms, weights, read_outcome_model("zero"), full=log.has_all_propensities, plain=False)
        bins = kernel.Bins(edges=np.array([log.schedule.rows]), arrival=np.empty(0, dtype=np.int32))
        _added(log, about, bins, about.outcome_model.modelling(log), h)
        return h[np.arange(len(code)), code] / pi, h
    own = weights.of_own(pi)
    if log.layout.merged:
        own = np.where(log.cell >= log.layout.even_from(len(log.arms)), 1.0, own)
    return own / pi, None


def _both(a: kernel.Totals, b: kernel.Totals) -> kernel.Totals:
    """Return the totals of two stretches of rows."""
    return a._replace(
        spread=a.spread + b.spread,
        own=add_own(a.own, b.own),
        own_products=a.own_products + b.own_products,
        all_products=a.all_products + b.all_products,
    )


def _means_with_history(log: Log, history: Sequence[Log]) -> Array:
    """Return the running means for the rows of `log` over the arrivals of all parts; NaN before the first."""
    whole = log.joined(history)
    means = np.zeros((len(whole.code), len(log.arms)))
    jit.ready(whole.schedule.rows * (len(log.arms) + 8))
    kernel.running_means(means, whole.kernel_rows, whole.schedule.rows, whole.anchor)
    return means[: len(log.code)]
