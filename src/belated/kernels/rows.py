"""One pass over the rows of a log, from columns to sums.

Written for numba, runnable without it (see `belated.kernels.jit`). Positions count rows in the
order of assignment; `order` maps a position to a row, and is empty when they are the same.
"""

from __future__ import annotations

import math

import numpy as np

#: Functions to compile, helpers before their callers.
KERNELS = ("land", "first_fault", "schedule", "accumulate", "running_means")

# Sums over every row, for every arm: h is the weight, m the outcome model minus the arm's shift.
SPREAD = ("h", "h2", "hm", "h2m", "h2m2", "h_arrived")
H, H2, HM, H2M, H2M2, H_ARRIVED = range(6)

# Sums over the arm's own rows, all but the first over those whose outcome has arrived:
# w = h / pi, y is the outcome minus the arm's shift, r = y - m.
OWN = (
    "assigned", "arrived", "unbinary", "y", "y2", "y3", "w", "wy", "wm",
    "w2", "w2y", "w2y2", "w3", "w3y", "w3y2", "hwr", "hwrm", "w2r2", "w_max",
)  # fmt: skip
ASSIGNED, ARRIVED, UNBINARY, Y, Y2, Y3, W, WY, WM, W2, W2Y, W2Y2, W3, W3Y, W3Y2, HWR, HWRM, W2R2, W_MAX = range(19)

SQRT, UNIFORM, PROPENSITY, TWO_POINT, GIVEN_WEIGHTS = range(5)
RUNNING_MEAN, ZERO, GIVEN_MODEL = range(3)

#: Rows summed on their own before joining the total: adding ten million equal numbers one by
#: one to a growing total would lose six digits.
BLOCK = 2048


def land(own, at, outcome, shift, m, h, pi, plain):
    """Add one arrived outcome to the sums `own[at]`; with `plain`, also to those that Hajek's kind does not read."""
    y = outcome - shift
    w = h / pi
    w2 = w * w
    w3 = w2 * w
    own[at, ARRIVED] += 1.0
    own[at, UNBINARY] += abs(outcome * (1.0 - outcome))
    own[at, Y] += y
    own[at, Y2] += y * y
    own[at, Y3] += y * y * y
    own[at, W] += w
    own[at, WY] += w * y
    own[at, WM] += w * m
    own[at, W2] += w2
    own[at, W2Y] += w2 * y
    own[at, W2Y2] += w2 * y * y
    own[at, W3] += w3
    own[at, W3Y] += w3 * y
    own[at, W3Y2] += w3 * y * y
    own[at, W_MAX] = max(own[at, W_MAX], w)
    if plain:
        r = y - m
        own[at, HWR] += h * w * r
        own[at, HWRM] += h * w * r * m
        own[at, W2R2] += w2 * r * r


def first_fault(
    anchor, rarest, outcome, code, propensity, full, assigned, arrived, as_of, missing, start, stop
):  # fmt: skip
    """Return the first row from start to stop that cannot be, or -1.

    `assigned` and `arrived` are in row order, or empty, as in `schedule`. On the way, `anchor`
    receives the outcome, and `rarest` the propensity, of each arm's least likely row that has one.
    """
    n_arms = propensity.shape[1]
    steps = len(assigned) == 0
    at_once = len(arrived) == 0
    for row in range(start, stop):
        least = 0.0
        total = 0.0
        for k in range(n_arms):
            least = min(least, propensity[row, k])
            total += propensity[row, k]
        sound = least >= 0.0 and propensity[row, code[row] if full else 0] > 0.0
        # probabilities that are not negative and sum to 1 are not above 1, but for rounding
        sound = sound and (abs(total - 1.0) if full else total - 1.0) <= 1e-6
        y = outcome[row]
        if at_once:
            sound = sound and not math.isinf(y)
        else:
            time = arrived[row]
            if time == missing or not time < math.inf:
                sound = sound and math.isnan(y)
            else:
                sound = sound and (math.isfinite(y) or time > as_of)
                sound = sound and time >= (row + 1 if steps else assigned[row])
        if not sound:
            return row
        pi = propensity[row, code[row] if full else 0]
        if pi < rarest[code[row]] and math.isfinite(y):
            rarest[code[row]] = pi
            anchor[code[row]] = y
    return -1


def schedule(due, assigned, arrived, as_of, missing, outcome, order, start, stop, rows):
    """Fill `due`, for positions start to stop, with the position from which the outcome is history.

    -1: not arrived by `as_of`. `rows`: arrived, but no later row can see it. `assigned` is in
    order of assignment, or empty for steps 1, 2, ...; `arrived` is in row order, or empty when
    outcomes that exist arrived at once. `missing` is the integer that stands for never (floats: NaN).
    """
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
        if time == missing or not (time <= as_of):
            due[row] = -1
        elif steps:
            seen = math.ceil(min(float(time), rows + 1.0)) - 1
            due[row] = min(max(seen, end), rows)
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
    spread, own, code, outcome, propensity, full, due, order, start, stop, last, previous, edges, bins, shift,
    weighting, given_weights, horizon, decay, remaining, step,
    modelling, given_model, seen_n, seen_y, plain, kept_h, kept_m,
):  # fmt: skip
    """Add the rows at positions start to stop to `spread` (bins, fields, arms) and `own` (bins, arms, fields).

    `last` and `previous` are a calendar of arrivals: the row pushed last among those due at each
    position, and the one pushed before each row; they are shared by calls for different stretches,
    as every outcome is due in one of them. `edges[b]` is the number of positions that belong to
    bins up to b, `bins[row]` the bin in which the row's outcome landed (empty: 0). `remaining`,
    `step`, `seen_n` and `seen_y` carry the state of two-point weights and of the running mean.
    `plain` asks for the sums that only estimators that are not of Hajek's kind read.
    `kept_h` and `kept_m` receive, if not empty, every arm's weight and the chosen arm's model, for
    outcomes that land later.
    """
    n_bins, n_fields, n_arms = spread.shape
    running = modelling == RUNNING_MEAN
    ordered = len(order) > 0
    binned = len(bins) > 0
    spreads = full or weighting in (UNIFORM, GIVEN_WEIGHTS)
    keep = len(kept_m) > 0
    if running:  # what the rows before this stretch left behind
        for position in range(start):
            row = order[position] if ordered else position
            when = due[row]
            if 0 <= when <= start:
                seen_n[code[row]] += 1.0
                seen_y[code[row]] += outcome[row] - shift[code[row]]
            elif start < when < stop:
                previous[row] = last[when]
                last[when] = row
    h = np.ones(n_arms)
    m = np.empty(n_arms)
    for k in range(n_arms):
        m[k] = seen_y[k] / seen_n[k] if running and seen_n[k] > 0 else -shift[k]
    part_spread = np.zeros((n_bins * n_fields, n_arms))
    part_own = np.zeros((n_bins * n_arms, W_MAX + 1))
    for bin_ in range(n_bins):
        here = part_spread[bin_ * n_fields : (bin_ + 1) * n_fields]
        since = start if bin_ == 0 else max(start, edges[bin_ - 1])
        until = min(stop, edges[bin_])
        for position in range(since, until):
            row = order[position] if ordered else position
            if running:
                other = last[position]
                while other >= 0:
                    k = code[other]
                    seen_n[k] += 1.0
                    seen_y[k] += outcome[other] - shift[k]
                    m[k] = seen_y[k] / seen_n[k]
                    other = previous[other]
            arm = int(code[row])
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
                t = step + position + 1.0
                ahead = (1.0 - decay) + horizon * (t / horizon) ** decay - t
                for k in range(n_arms):
                    p = propensity[row, k]
                    b = remaining[k] * ((1.0 - p) * (1.0 - decay) / ahead + p / (1.0 + horizon - t))
                    remaining[k] = max(remaining[k] - b, 0.0)
                    h[k] = math.sqrt(b * p)
            if spreads:
                if modelling == ZERO:
                    for k in range(n_arms):
                        here[H, k] += h[k]
                else:
                    for k in range(n_arms):
                        here[H, k] += h[k]
                        here[HM, k] += h[k] * m[k]
                if plain:
                    for k in range(n_arms):
                        here[H2, k] += h[k] * h[k]
                        here[H2M, k] += h[k] * h[k] * m[k]
                        here[H2M2, k] += h[k] * h[k] * m[k] * m[k]
            part_own[bin_ * n_arms + arm, ASSIGNED] += 1.0
            if keep:
                for k in range(n_arms):
                    kept_h[row, k] = h[k]
                kept_m[row] = m[arm]
            when = due[row]
            if when >= 0:
                landed = bins[row] if binned else 0
                if spreads and plain:
                    for k in range(n_arms):
                        part_spread[landed * n_fields + H_ARRIVED, k] += h[k]
                land(part_own, landed * n_arms + arm, outcome[row], shift[arm], m[arm], h[arm], pi, plain)
                if running and when < stop:
                    previous[row] = last[when]
                    last[when] = row
            if position % BLOCK == BLOCK - 1 or position == until - 1:
                for b in range(n_bins):
                    for k in range(n_arms):
                        for f in range(n_fields):
                            spread[b, f, k] += part_spread[b * n_fields + f, k]
                            part_spread[b * n_fields + f, k] = 0.0
                        for f in range(W_MAX):
                            own[b, k, f] += part_own[b * n_arms + k, f]
                            part_own[b * n_arms + k, f] = 0.0
                        own[b, k, W_MAX] = max(own[b, k, W_MAX], part_own[b * n_arms + k, W_MAX])


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
