"""One pass over the rows of a log, from columns to sums.

Written for numba, runnable without it (see `belated.kernels.jit`). Positions count rows in the
order of assignment; `order` maps a position to a row, and is empty when they are the same.
"""

from __future__ import annotations

import math

import numpy as np

#: Functions to compile, helpers before their callers.
KERNELS = ("land", "schedule", "first_outcomes", "accumulate", "running_means")

# Sums over every row, for every arm: h is the weight, m the outcome model minus the arm's shift.
SPREAD = ("h", "h2", "hm", "h2m", "h2m2", "h_arrived")
H, H2, HM, H2M, H2M2, H_ARRIVED = range(6)

# Sums over the arm's own rows, all but the first over those whose outcome has arrived:
# w = h / pi, y is the outcome minus the arm's shift, r = y - m.
OWN = (
    "assigned", "arrived", "binary", "y", "y2", "w", "wy", "wm",
    "w2", "w2y", "w2y2", "w3", "w3y", "w3y2", "hwr", "hwrm", "w2r2", "w_max",
)  # fmt: skip
ASSIGNED, ARRIVED, BINARY, Y, Y2, W, WY, WM, W2, W2Y, W2Y2, W3, W3Y, W3Y2, HWR, HWRM, W2R2, W_MAX = range(18)

SQRT, UNIFORM, PROPENSITY, TWO_POINT, GIVEN_WEIGHTS = range(5)
RUNNING_MEAN, ZERO, GIVEN_MODEL = range(3)

#: Rows summed on their own before joining the total: adding ten million equal numbers one by
#: one to a growing total would lose six digits.
BLOCK = 2048


def land(own, y, m, h, pi, raw):
    """Add one arrived outcome to its arm's sums `own`."""
    w = h / pi
    w2 = w * w
    w3 = w2 * w
    r = y - m
    own[ARRIVED] += 1.0
    if raw == 0.0 or raw == 1.0:
        own[BINARY] += 1.0
    own[Y] += y
    own[Y2] += y * y
    own[W] += w
    own[WY] += w * y
    own[WM] += w * m
    own[W2] += w2
    own[W2Y] += w2 * y
    own[W2Y2] += w2 * y * y
    own[W3] += w3
    own[W3Y] += w3 * y
    own[W3Y2] += w3 * y * y
    own[HWR] += h * w * r
    own[HWRM] += h * w * r * m
    own[W2R2] += w2 * r * r
    if w > own[W_MAX]:
        own[W_MAX] = w


def schedule(due, assigned, arrived, as_of, missing, outcome, order, rows):
    """Fill `due` with the position from which each row's outcome is history.

    -1: not arrived by `as_of`. `rows`: arrived, but no later row can see it. `assigned` is in
    order of assignment, or empty for steps 1, 2, ...; `arrived` is in row order, or empty when
    outcomes that exist arrived at once. `missing` is the integer that stands for never (floats: NaN).
    """
    steps = len(assigned) == 0
    at_once = len(arrived) == 0
    due[:] = -1
    end = 0
    for position in range(rows):
        row = order[position] if len(order) else position
        if position >= end:  # a new batch: rows of one assignment time never see each other
            end = position + 1
            if not steps:
                while end < rows and assigned[end] == assigned[position]:
                    end += 1
        if at_once:
            if not math.isnan(outcome[row]):
                due[row] = end
            continue
        time = arrived[row]
        if time == missing or not (time <= as_of):
            continue
        if steps:
            seen = math.ceil(min(float(time), rows + 1.0)) - 1
            due[row] = min(max(seen, end), rows)
            continue
        if end == rows or assigned[end] >= time:
            due[row] = end
            continue
        low = end  # assigned[low] < time: gallop, then bisect
        stride = 1
        while low + stride < rows and assigned[low + stride] < time:
            low += stride
            stride *= 2
        high = min(low + stride, rows)
        while high - low > 1:
            middle = (low + high) // 2
            if assigned[middle] < time:
                low = middle
            else:
                high = middle
        due[row] = high


def first_outcomes(first, code, outcome, due):
    """Fill `first` with each arm's first arrived outcome, 0 if there is none."""
    found = np.zeros(len(first), np.bool_)
    first[:] = 0.0
    wanted = len(first)
    for row in range(len(code)):
        arm = code[row]
        if due[row] >= 0 and not found[arm]:
            first[arm] = outcome[row]
            found[arm] = True
            wanted -= 1
            if wanted == 0:
                break


def accumulate(
    spread, own, code, outcome, propensity, full, due, order, edges, bins, shift,
    weighting, given_weights, horizon, decay, remaining, start,
    modelling, given_model, seen_n, seen_y, kept_h, kept_m,
):  # fmt: skip
    """Add every row's contribution to `spread` (bins, fields, arms) and `own` (bins, arms, fields).

    `edges[b]` is the number of positions that belong to bins up to b, `bins[row]` the bin in which
    the row's outcome landed (empty: 0). `remaining`, `start`, `seen_n`, `seen_y` carry the state of
    two-point weights and of the running mean from call to call. `kept_h` and `kept_m` receive, if not
    empty, every arm's weight and the chosen arm's model, for outcomes that land later.
    """
    n_bins, _, n_arms = spread.shape
    rows = edges[n_bins - 1]
    running = modelling == RUNNING_MEAN
    spreads = full or weighting == UNIFORM or weighting == GIVEN_WEIGHTS
    keep = len(kept_m) > 0
    part_spread = np.zeros_like(spread)
    part_own = np.zeros_like(own)
    h = np.ones(n_arms)
    m = np.empty(n_arms)
    for k in range(n_arms):
        m[k] = seen_y[k] / seen_n[k] if running and seen_n[k] > 0 else -shift[k]
    # a calendar of arrivals: the last row due at each position, and the one pushed before it
    size = rows if running else 0
    last = np.full(size, -1, due.dtype)
    previous = np.empty(len(due) if running else 0, due.dtype)
    bin_ = 0
    for position in range(rows):
        row = order[position] if len(order) else position
        if running:
            other = last[position]
            while other >= 0:
                k = code[other]
                seen_n[k] += 1.0
                seen_y[k] += outcome[other] - shift[k]
                m[k] = seen_y[k] / seen_n[k]
                other = previous[other]
        while position >= edges[bin_]:
            bin_ += 1
        arm = code[row]
        pi = propensity[row, arm if full else 0]
        if modelling == GIVEN_MODEL:
            for k in range(n_arms):
                m[k] = given_model[row, k] - shift[k]
        if weighting == SQRT:
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
            step = start + position + 1.0
            ahead = (1.0 - decay) + horizon * (step / horizon) ** decay - step
            for k in range(n_arms):
                p = propensity[row, k]
                rate = (1.0 - p) * (1.0 - decay) / ahead + p / (1.0 + horizon - step)
                b = rate * remaining[k]
                remaining[k] = max(remaining[k] - b, 0.0)
                h[k] = math.sqrt(b * p)
        if spreads:
            if modelling == ZERO:
                for k in range(n_arms):
                    part_spread[bin_, H, k] += h[k]
                    part_spread[bin_, H2, k] += h[k] * h[k]
            else:
                for k in range(n_arms):
                    hm = h[k] * m[k]
                    part_spread[bin_, H, k] += h[k]
                    part_spread[bin_, H2, k] += h[k] * h[k]
                    part_spread[bin_, HM, k] += hm
                    part_spread[bin_, H2M, k] += hm * h[k]
                    part_spread[bin_, H2M2, k] += hm * hm
        part_own[bin_, arm, ASSIGNED] += 1.0
        if keep:
            for k in range(n_arms):
                kept_h[row, k] = h[k]
            kept_m[row] = m[arm]
        if due[row] >= 0:
            landing = bins[row] if len(bins) else 0
            if spreads:
                for k in range(n_arms):
                    part_spread[landing, H_ARRIVED, k] += h[k]
            land(part_own[landing, arm], outcome[row] - shift[arm], m[arm], h[arm], pi, outcome[row])
            if running and due[row] < rows:
                previous[row] = last[due[row]]
                last[due[row]] = row
        if position % BLOCK == BLOCK - 1 or position == rows - 1:
            for b in range(n_bins):
                for k in range(n_arms):
                    for f in range(6):
                        spread[b, f, k] += part_spread[b, f, k]
                        part_spread[b, f, k] = 0.0
                    for f in range(W_MAX):
                        own[b, k, f] += part_own[b, k, f]
                        part_own[b, k, f] = 0.0
                    if part_own[b, k, W_MAX] > own[b, k, W_MAX]:
                        own[b, k, W_MAX] = part_own[b, k, W_MAX]


def running_means(means, code, outcome, due, order, rows, shift):
    """Fill `means` (rows, arms) with each row's running means of what had arrived, 0 before any."""
    n_arms = means.shape[1]
    seen_n = np.zeros(n_arms)
    seen_y = np.zeros(n_arms)
    m = np.zeros(n_arms)
    last = np.full(rows, -1, due.dtype)
    previous = np.empty(len(due), due.dtype)
    for position in range(rows):
        row = order[position] if len(order) else position
        other = last[position]
        while other >= 0:
            k = code[other]
            seen_n[k] += 1.0
            seen_y[k] += outcome[other] - shift[k]
            m[k] = shift[k] + seen_y[k] / seen_n[k]
            other = previous[other]
        for k in range(n_arms):
            means[row, k] = m[k]
        if 0 <= due[row] < rows:
            previous[row] = last[due[row]]
            last[due[row]] = row
