"""One pass over the rows of a log, from columns to sums.

Written for numba, runnable without it (see `belated.kernels.jit`). Positions count rows in the
order of assignment; `order` maps a position to a row, and is empty when they are the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from belated.base.checks import LARGEST_OUTCOME, LEAST_PROBABILITY, tolerance
from belated.base.columns import Array, locked
from belated.kernels import fields

#: Functions to compile, helpers before their callers.
KERNELS = ("tolerance", "add_outcome", "first_fault", "rarest_outcomes", "schedule", "accumulate", "running_means")

#: Those whose compiled code is copied into their callers: they are called for every row.
INLINED = ("add_outcome",)

SQRT, UNIFORM, PROPENSITY, TWO_POINT, GIVEN_WEIGHTS = range(5)
RUNNING_MEAN, ZERO, GIVEN_MODEL = range(3)

#: Rows summed on their own before joining the total, at least: adding ten million equal numbers one by
#: one to a growing total would lose six digits.
BLOCK = 2048


class Times(NamedTuple):
    """When rows were assigned and their outcomes arrived."""

    assigned: Array  # empty: steps 1, 2, ...
    arrived: Array  # in row order; empty: outcomes that exist arrived at once
    latest: int | float  # arrivals after it do not count
    never: int | float  # what stands for never: an integer, or NaN


class Rows(NamedTuple):
    """The columns of a log; `order` and `due` are those of a `log.schedule.Schedule`.

    Sums are kept by cell. A cell is an arm or, if rows have segments, an arm of a segment: cell = segment * arms + arm.
    """

    code: Array
    cell: Array  # `code` itself if there are no segments
    outcome: Array
    propensity: Array  # (rows, arms), or (rows, 1) if only the chosen arm's is known
    full: bool  # whether every arm's propensity is known
    order: Array
    due: Array
    arms: int
    x: Array  # (rows, covariates); without any, no columns
    arrival: Array  # the probability that each row's outcome ever arrives, if it is known; else empty


class Calendar(NamedTuple):
    """Arrivals by position: the row pushed last among those due at each, and the one pushed before each row.

    Calls for different stretches share it, as every outcome is due in one of them.
    """

    last: Array
    previous: Array


class Bins(NamedTuple):
    """Where sums at several moments are cut."""

    edges: Array  # how many positions belong to the bins up to each
    arrival: Array  # by row, the bin in which its outcome arrived; empty: 0


class Weighting(NamedTuple):
    """How rows are weighted; the last two carry the state of two-point weights.

    In cells from `even_from` on, every row has weight 1: they hold rows of several segments.
    """

    kind: int
    given: Array
    horizon: float
    decay: float
    remaining: Array
    step: float
    even_from: int


class Modelling(NamedTuple):
    """The outcome model, `given` NaN where there is none; the last two carry the state of the running mean."""

    kind: int
    given: Array
    arrived_n: Array
    arrived_y: Array


class Totals(NamedTuple):
    """What is added to: `spread` (bins, fields, cells), `own` (bins, cells, fields); `kernels.fields` names the fields.

    `h` and `m` receive, if not empty, every arm's weight and the chosen arm's model of each row, for outcomes that
    arrive later. `own_products` (bins, cells, pairs, 4) and `all_products` (bins, segments, pairs) receive the sums of
    `summaries.covariates`, as lower triangles. Outcomes and models are taken minus the `shift` of their cell. `plain`
    asks for the sums that only estimators that are not of Hajek's kind read.
    """

    spread: Array
    own: Array
    h: Array
    m: Array
    own_products: Array
    all_products: Array
    shift: Array
    plain: bool


class Stretch(NamedTuple):
    """Positions from `start` to before `stop`."""

    start: int
    stop: int


class ArrivedOutcome(NamedTuple):
    """An arrived outcome, and what it is summed with."""

    outcome: float
    shift: float
    m: float  # the model, minus the shift; NaN: there is none
    h: float
    pi: float


#: No covariates of any rows, and no probabilities that outcomes arrive.
NO_X, NO_ARRIVAL = locked(np.empty((0, 0))), locked(np.empty(0))


def rows_of(code: Array, outcome: Array, propensity: Array, *, order: Array, due: Array, arms: int) -> Rows:
    """Return rows without segments and covariates; `propensity` has one or two dimensions."""
    full = propensity.ndim == 2
    return Rows(
        code=code,
        cell=code,
        outcome=outcome,
        propensity=propensity if full else propensity[:, np.newaxis],
        full=full,
        order=order,
        due=due,
        arms=arms,
        x=NO_X,
        arrival=NO_ARRIVAL,
    )


def totals(
    spread: Array,
    own: Array,
    h: Array,
    m: Array,
    *,
    shift: Array,
    plain: bool,
    covariates: int = 0,
    segments: int = 1,
) -> Totals:
    """Return totals to add to, those of products with covariates 0."""
    bins, cells, pairs = len(own), own.shape[1], (covariates + 2) * (covariates + 3) // 2
    own_products, all_products = np.empty((bins, 0, 0, 4)), np.empty((bins, 0, 0))
    if covariates:
        own_products = np.zeros((bins, cells, pairs, 4))
        all_products = np.zeros((bins, segments, pairs - covariates - 2))
    return Totals(
        spread=spread,
        own=own,
        h=h,
        m=m,
        own_products=own_products,
        all_products=all_products,
        shift=shift,
        plain=plain,
    )


def add_outcome(own: Array, at: int, arrived_outcome: ArrivedOutcome, plain: bool) -> None:
    """Add one arrived outcome to the sums `own[at]`; with `plain`, also to those that Hajek's kind does not read."""
    outcome, shift, m, h, pi = arrived_outcome
    y = outcome - shift
    y2 = y * y
    w = h / pi
    w2 = w * w
    w3 = w2 * w
    own[at, fields.ARRIVED] += 1.0
    own[at, fields.NONBINARY] += abs(outcome * (1.0 - outcome))
    own[at, fields.Y] += y
    own[at, fields.Y2] += y2
    own[at, fields.Y3] += y2 * y
    own[at, fields.Y4] += y2 * y2
    own[at, fields.W] += w
    own[at, fields.WY] += w * y
    if m == m:
        own[at, fields.W_MODELLED] += w
        own[at, fields.WM] += w * m
    own[at, fields.W2] += w2
    own[at, fields.W2Y] += w2 * y
    own[at, fields.W2Y2] += w2 * y2
    own[at, fields.W3] += w3
    own[at, fields.W3Y] += w3 * y
    own[at, fields.W3Y2] += w3 * y2
    own[at, fields.W_MAX] = max(own[at, fields.W_MAX], w)
    if plain:
        x = m if m == m else -shift
        r = y - x
        r2 = r * r
        own[at, fields.HWR] += h * w * r
        own[at, fields.HWRM] += h * w * r * x
        own[at, fields.R] += r
        own[at, fields.R2] += r2
        own[at, fields.R3] += r2 * r
        own[at, fields.R4] += r2 * r2
        own[at, fields.W2R] += w2 * r
        own[at, fields.W2R2] += w2 * r2
        own[at, fields.W3R] += w3 * r
        own[at, fields.W3R2] += w3 * r2


def first_fault(anchor: Array, rarest: Array, rows: Rows, times: Times, start: int, stop: int) -> int:
    """Return the first row from start to stop that cannot be, or -1.

    The times are in row order. On the way, `anchor` receives the outcome, and `rarest` the propensity, of each arm's
    least likely row that has one.
    """
    code, outcome, propensity, full = rows.code, rows.outcome, rows.propensity, rows.full
    assigned, arrived, latest, never = times.assigned, times.arrived, times.latest, times.never
    n_arms = propensity.shape[1]
    steps = len(assigned) == 0
    at_once = len(arrived) == 0
    most = tolerance(n_arms)
    least = -most if full else -math.inf
    for row in range(start, stop):
        arm = np.intp(code[row])
        pi = propensity[row, arm if full else 0]
        y = outcome[row]
        lowest = 0.0
        total = 0.0
        for k in range(n_arms):
            lowest = min(lowest, propensity[row, k])
            total += propensity[row, k]
        # "&" instead of "and": a processor guesses badly which of the many conditions decides. Probabilities that are
        # not negative and sum to 1 are not above 1, but for rounding.
        sound = (lowest >= 0.0) & (pi >= LEAST_PROBABILITY) & (total - 1.0 <= most) & (total - 1.0 >= least)
        known = abs(y) <= LARGEST_OUTCOME
        if at_once:
            sound &= known | (y != y)
        else:
            time = arrived[row]
            out = (time == never) | (not time < math.inf)
            in_time = time >= (row + 1 if steps else assigned[row])
            sound &= (out & (y != y)) | ((not out) & in_time & (known | (time > latest)))
        if not sound:
            return row
        if pi < rarest[arm] and known:
            rarest[arm] = pi
            anchor[arm] = y
    return -1


def rarest_outcomes(anchor: Array, rarest: Array, rows: Rows, start: int, stop: int) -> None:
    """Fill `anchor` with the outcome, and `rarest` with the propensity, of each cell's least likely arrived row."""
    code, cell, outcome, propensity, full, due = (
        rows.code, rows.cell, rows.outcome, rows.propensity, rows.full, rows.due)  # fmt: skip
    for row in range(start, stop):
        pi = propensity[row, code[row] if full else 0]
        if due[row] >= 0 and pi < rarest[cell[row]]:
            rarest[cell[row]] = pi
            anchor[cell[row]] = outcome[row]


def schedule(due: Array, times: Times, outcome: Array, order: Array, start: int, stop: int, rows: int) -> None:
    """Fill `due`, for positions start to stop, with the position from which the outcome is history.

    -1: not arrived in time. `rows`: arrived, but no later row can see it. `times.assigned` is in order of assignment.
    """
    assigned, arrived, latest, never = times.assigned, times.arrived, times.latest, times.never
    steps = len(assigned) == 0
    at_once = len(arrived) == 0
    ordered = len(order) > 0
    end = 0
    pace = 0.0  # rows per unit of time: where they come evenly, it tells where to look
    if not steps and rows > 0:
        length = float(assigned[rows - 1]) - float(assigned[0])
        pace = (rows - 1) / length if length > 0.0 else 0.0
    for position in range(start, stop):
        row = order[position] if ordered else position
        if position >= end:  # a new batch: rows of one assignment time never see each other
            end = position + 1
            if not steps:
                while end < rows and assigned[end] == assigned[position]:
                    end += 1
        if at_once:
            due[row] = -1 if math.isnan(outcome[row]) else end
            continue
        time = arrived[row]
        if time == never or not (time <= latest):
            due[row] = -1
        elif steps:
            visible = math.ceil(min(float(time), rows + 1.0)) - 1
            due[row] = min(max(visible, end), rows)
        elif end == rows or assigned[end] >= time:
            due[row] = end
        else:
            ahead = (float(time) - float(assigned[end])) * pace
            guess = end + int(min(ahead, float(rows - 1 - end)))
            stride = 1
            if assigned[guess] < time:  # gallop away from the guess, until assigned[low] < time <= assigned[high]
                low = guess
                while low + stride < rows and assigned[low + stride] < time:
                    low += stride
                    stride *= 2
                high = min(low + stride, rows)
            else:
                high = guess
                while high - stride > end and assigned[high - stride] >= time:
                    high -= stride
                    stride *= 2
                low = max(high - stride, end)
            while high - low > 1:
                middle = (low + high) // 2
                if assigned[middle] < time:
                    low = middle
                else:
                    high = middle
            due[row] = high


def accumulate(
    totals: Totals,
    rows: Rows,
    calendar: Calendar,
    bins: Bins,
    weights: Weighting,
    model: Modelling,
    stretch: Stretch,
) -> None:
    """Add the rows of a stretch to the totals."""
    spread, own, kept_h, kept_m = totals.spread, totals.own, totals.h, totals.m
    shift, plain, start, stop = totals.shift, totals.plain, stretch.start, stretch.stop
    own_products, all_products = totals.own_products, totals.all_products
    covariate, arrival_chance = rows.x, rows.arrival
    code, cell, outcome, propensity, full = rows.code, rows.cell, rows.outcome, rows.propensity, rows.full
    order, due, last, previous = rows.order, rows.due, calendar.last, calendar.previous
    edges, arrival = bins.edges, bins.arrival
    weighting, given_weights, horizon, decay = weights.kind, weights.given, weights.horizon, weights.decay
    remaining, step, even_from = weights.remaining, weights.step, weights.even_from
    modelling, given_model, arrived_n, arrived_y = model.kind, model.given, model.arrived_n, model.arrived_y
    n_bins, n_fields, n_cells = spread.shape
    n_arms = rows.arms
    block = max(BLOCK, 16 * n_cells)
    running = modelling == RUNNING_MEAN
    ordered = len(order) > 0
    binned = len(arrival) > 0
    spreads = full or weighting in (UNIFORM, GIVEN_WEIGHTS)
    keep = len(kept_m) > 0
    n_x = covariate.shape[1]
    z = np.ones(n_x + 2)  # 1, the covariates, the outcome
    known_arrival = len(arrival_chance) > 0
    if running:  # what the rows before this stretch left behind
        for position in range(start):
            row = order[position] if ordered else position
            when = due[row]
            if 0 <= when <= start:
                arrived_n[cell[row]] += 1.0
                arrived_y[cell[row]] += outcome[row] - shift[cell[row]]
            elif start < when < stop:
                previous[row] = last[when]
                last[when] = row
    h = np.ones(n_arms)
    m = np.empty(n_cells)  # NaN: there is no model
    for k in range(n_cells):
        m[k] = arrived_y[k] / arrived_n[k] if running and arrived_n[k] > 0 else math.nan
    part_spread = np.zeros((n_bins * n_cells, n_fields))
    part_own = np.zeros((n_bins * n_cells, fields.W_MAX + 1))
    end = min(stop, edges[n_bins - 1]) if n_bins > 0 else start
    flush = min(start + block, end) - 1
    for bin_ in range(n_bins):
        part = part_spread[bin_ * n_cells : (bin_ + 1) * n_cells]
        since = start if bin_ == 0 else max(start, edges[bin_ - 1])
        until = min(stop, edges[bin_])
        for position in range(since, until):
            row = order[position] if ordered else position
            if running:
                other = last[position]
                while other >= 0:
                    k = cell[other]
                    arrived_n[k] += 1.0
                    arrived_y[k] += outcome[other] - shift[k]
                    m[k] = arrived_y[k] / arrived_n[k]
                    other = previous[other]
            arm = np.intp(code[row])
            own_cell = np.intp(cell[row])
            first = own_cell - arm  # the segment's first cell
            pi = propensity[row, arm if full else 0]
            chance = pi * arrival_chance[row] if known_arrival else pi
            if modelling == GIVEN_MODEL:
                for k in range(n_arms):
                    m[first + k] = given_model[row, k] - shift[first + k]
            if first >= even_from:
                for k in range(n_arms):
                    h[k] = 1.0
            elif weighting == SQRT:
                if spreads:
                    for k in range(n_arms):
                        h[k] = math.sqrt(propensity[row, k])
                else:
                    h[arm] = math.sqrt(pi)
            elif weighting == PROPENSITY:
                if spreads:
                    for k in range(n_arms):
                        h[k] = propensity[row, k]
                else:
                    h[arm] = pi
            elif weighting == GIVEN_WEIGHTS:
                for k in range(n_arms):
                    h[k] = given_weights[row, k]
            elif weighting == TWO_POINT:  # Hadad et al. 2021, with h = sqrt(b pi)
                t = step + position + 1.0
                ahead = (1.0 - decay) + horizon * (t / horizon) ** decay - t
                for k in range(n_arms):
                    p = propensity[row, k]
                    b = remaining[first + k] * ((1.0 - p) * (1.0 - decay) / ahead + p / (1.0 + horizon - t))
                    remaining[first + k] = max(remaining[first + k] - b, 0.0)
                    h[k] = math.sqrt(b * p)
            if spreads:
                if modelling == ZERO:
                    for k in range(n_arms):
                        part[first + k, fields.H] += h[k]
                else:
                    for k in range(n_arms):
                        at = first + k
                        part[at, fields.H] += h[k]
                        if m[at] == m[at]:
                            part[at, fields.H_MODELLED] += h[k]
                            part[at, fields.HM] += h[k] * m[at]
                if plain:
                    for k in range(n_arms):
                        at = first + k
                        x = m[at] if m[at] == m[at] else -shift[at]
                        part[at, fields.H2] += h[k] * h[k]
                        part[at, fields.H2M] += h[k] * h[k] * x
                        part[at, fields.H2M2] += h[k] * h[k] * x * x
            part_own[bin_ * n_cells + own_cell, fields.ASSIGNED] += 1.0
            if keep:
                for k in range(n_arms):
                    kept_h[row, k] = h[k]
                kept_m[row] = m[own_cell]
            if n_x > 0:
                segment = first // n_arms
                pair = 0
                for i in range(n_x + 1):
                    z[i] = covariate[row, i - 1] if i > 0 else 1.0
                    for j in range(i + 1):
                        all_products[bin_, segment, pair] += z[i] * z[j]
                        pair += 1
            when = due[row]
            if when >= 0:
                arrival_bin = arrival[row] if binned else 0
                if spreads and plain:
                    for k in range(n_arms):
                        part_spread[arrival_bin * n_cells + first + k, fields.H_ARRIVED] += h[k]
                arrived_outcome = ArrivedOutcome(outcome[row], shift[own_cell], m[own_cell], h[arm], chance)
                add_outcome(part_own, arrival_bin * n_cells + own_cell, arrived_outcome, plain)
                if n_x > 0:
                    z[n_x + 1] = outcome[row] - shift[own_cell]
                    w = h[arm] / chance
                    pair = 0
                    for i in range(n_x + 2):
                        for j in range(i + 1):
                            product = z[i] * z[j]
                            for power in range(4):
                                own_products[arrival_bin, own_cell, pair, power] += product
                                product *= w
                            pair += 1
                if running and when < stop:
                    previous[row] = last[when]
                    last[when] = row
            if position == flush:
                flush = min(flush + block, end - 1)
                for b in range(n_bins):
                    for k in range(n_cells):
                        for f in range(n_fields):
                            spread[b, f, k] += part_spread[b * n_cells + k, f]
                            part_spread[b * n_cells + k, f] = 0.0
                        for f in range(fields.W_MAX):
                            own[b, k, f] += part_own[b * n_cells + k, f]
                            part_own[b * n_cells + k, f] = 0.0
                        own[b, k, fields.W_MAX] = max(own[b, k, fields.W_MAX], part_own[b * n_cells + k, fields.W_MAX])


def running_means(means: Array, rows: Rows, count: int, shift: Array) -> None:
    """Fill `means` (rows, arms) with the means of what had arrived at each of `count` positions, NaN before any."""
    code, cell, outcome, order, due = rows.code, rows.cell, rows.outcome, rows.order, rows.due
    n_arms, n_cells = means.shape[1], len(shift)
    arrived_n = np.zeros(n_cells)
    arrived_y = np.zeros(n_cells)
    m = np.full(n_cells, math.nan)
    last = np.full(count, -1, due.dtype)
    previous = np.empty(len(due), due.dtype)
    for position in range(count):
        row = order[position] if len(order) else position
        other = last[position]
        while other >= 0:
            k = cell[other]
            arrived_n[k] += 1.0
            arrived_y[k] += outcome[other] - shift[k]
            m[k] = shift[k] + arrived_y[k] / arrived_n[k]
            other = previous[other]
        first = int(cell[row]) - int(code[row])
        for k in range(n_arms):
            means[row, k] = m[first + k]
        if 0 <= due[row] < count:
            previous[row] = last[due[row]]
            last[due[row]] = row
