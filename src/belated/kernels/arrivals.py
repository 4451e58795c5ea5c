"""One pass over arrivals in calendar order: what confidence sequences are read from, at every one of them.

Plain Python that numba can compile, as `belated.kernels.rows` is. An arm's state is the sums of `rows.OWN`, those that
`STATE` adds, and a shift, its first outcome, about which outcomes are summed.
"""

from __future__ import annotations

import math

import numpy as np

from belated.kernels import rows

#: Functions to compile, helpers before their callers.
KERNELS = ("arrange", "mixture", "limit", "gauge", "gauges", "score", "pair_score", "land", "follow")

# What an arm's state holds beyond the sums of `rows.OWN`: of empirical Bernstein's bets l, l y, their cost, y and
# (y - mean)^2, with y scaled to [0, 1]; the logarithms of the beta mixtures against the null.
STATE = (*rows.OWN, "bets", "bet_y", "cost", "b_sum", "b_square", "beta_0", "beta_1", "beta_2")
BETS, BET_Y, COST, B_SUM, B_SQUARE, BETA = range(len(rows.OWN), len(rows.OWN) + 6)
SCALES = 3

ASYMPTOTIC, SUB_GAUSSIAN, BERNSTEIN, BETA_BINOMIAL = range(4)

# A plan: numbers fixed before any outcome. `LEVELS` is where the thresholds log(1 / alpha) begin: that of one question,
# that of all arms together, that of all contrasts together. `PRIORS` is where the beta mixture's sizes begin, then the
# logarithms of their weights.
ETA, SIGMA, BET, BOTTOM, RANGE, LEVELS, PRIORS = 0, 1, 2, 3, 4, 5, 8
PLAN = PRIORS + 2 * SCALES

# What may be said of an arm now: its estimate, the squared scales of its lower and its upper reach and the price of
# looking always (normal mixtures), or the bets, their cost (Bernstein), or limits (beta-binomial).
CENTRE, LOWER, UPPER, PRICE, SEEN = 0, 1, 2, 3, 5
GAUGE = 6

#: Where the normal approximation of an asymptotic sequence begins to hold.
LEAST_SIZE, MOST_SKEW, LEAST_KIND = 25.0, 0.5, 10.0

#: An arm's beta-binomial limits are found anew when its arrivals have grown by this share.
REFRESH = 128


def arrange(landed, times, due, order, n):
    """Fill `landed` with the rows that have arrived, in the order of arrival; return how many.

    `times` are the rows' times of arrival, or empty if each came when the next row was assigned. Rows due at
    one position came after those due before it; among them, times decide, then the order of assignment.
    """
    ordered = len(order) > 0
    start = np.zeros(n + 2, np.int64)
    for position in range(n):
        when = due[order[position] if ordered else position]
        if when >= 0:
            start[when + 1] += 1
    for cell in range(n + 1):
        start[cell + 1] += start[cell]
    for position in range(n):
        row = order[position] if ordered else position
        when = due[row]
        if when >= 0:
            landed[start[when]] = row
            start[when] += 1
    if len(times) == 0:
        return start[n]
    begin = 0
    for cell in range(n + 1):
        end = start[cell]
        if end - begin > 16:
            cut = landed[begin:end].copy()
            cut = cut[np.argsort(times[cut], kind="mergesort")]
            for i in range(end - begin):
                landed[begin + i] = cut[i]
        else:
            for i in range(begin + 1, end):
                row = landed[i]
                j = i
                while j > begin and times[landed[j - 1]] > times[row]:
                    landed[j] = landed[j - 1]
                    j -= 1
                landed[j] = row
        begin = end
    return start[n]


def mixture(successes, failures, mean, plan):
    """Return the logarithm of the beta-binomial mixture martingale against a mean.

    A Beta(r mean, r (1 - mean)) prior is centred on the mean that is tested (Robbins 1970), for several sizes r.
    """
    n = successes + failures
    top = -math.inf
    total = 0.0
    for j in range(SCALES):
        r = plan[PRIORS + j]
        a = r * mean
        b = r - a
        value = (
            plan[PRIORS + SCALES + j]
            + (math.lgamma(a + successes) - math.lgamma(a))
            + (math.lgamma(b + failures) - math.lgamma(b))
            - (math.lgamma(r + n) - math.lgamma(r))
        )
        if value > top:
            total = total * math.exp(top - value) + 1.0 if top > -math.inf else 1.0
            top = value
        else:
            total += math.exp(value - top)
    value = top + math.log(total)
    if successes > 0:
        value -= successes * math.log(mean)
    if failures > 0:
        value -= failures * math.log1p(-mean)
    return value


def limit(successes, failures, threshold, upper, plan):
    """Return the last mean below or above the share at which the mixture stays below the threshold."""
    n = successes + failures
    share = successes / n
    edge = 1.0 if upper else 0.0
    if share == edge:
        return edge
    # the score interval at a plausible deviation is near; go on from it to either side until the root is between
    z2 = 2.0 * threshold + 3.0
    centre = (successes + z2 / 2) / (n + z2)
    reach = math.sqrt(z2 * (n * share * (1 - share) + z2 / 4)) / (n + z2)
    guess = centre + (reach if upper else -reach)
    inside, outside = share, edge
    f_inside, f_outside = -1.0, 1.0
    known = False
    for step in range(200):
        if step < 2:
            x = guess
        elif not known:
            x = 0.5 * (inside + outside)
        else:
            x = (inside * f_outside - outside * f_inside) / (f_outside - f_inside)
            if not min(inside, outside) < x < max(inside, outside):
                x = 0.5 * (inside + outside)
        f = mixture(successes, failures, x, plan) - threshold
        if f < 0:
            if step > 1 and known:
                f_outside *= 0.5
            inside, f_inside = x, f
            guess = x + 0.25 * (x - share)
            if upper and guess >= 1.0:
                guess = 0.5 * (x + 1.0)
            if not upper and guess <= 0.0:
                guess = 0.5 * x
        else:
            if step > 1 and known:
                f_inside *= 0.5
            outside, f_outside = x, f
            guess = share + 0.8 * (x - share)
        known = outside != edge and inside != share
        if abs(outside - inside) < 1e-9 * abs(x - share) + 1e-15 or abs(f) < 1e-9:
            break
    return x


def gauge(now, a, state, shift, kind, plan):
    """Fill `now[a]` with what the state of arm `a` says; a reach is infinite where the sequence is."""
    n = state[a, rows.ARRIVED]
    now[a, LOWER] = math.inf
    now[a, UPPER] = math.inf
    now[a, PRICE] = 0.0
    if n == 0.0:
        now[a, CENTRE] = math.nan
        if kind == BERNSTEIN:
            now[a, LOWER] = 0.0
        return
    w = state[a, rows.W]
    if kind == BERNSTEIN:
        now[a, CENTRE] = plan[BOTTOM] + plan[RANGE] * state[a, BET_Y] / state[a, BETS]
        now[a, LOWER] = state[a, BETS] / plan[RANGE]
        now[a, UPPER] = state[a, COST]
    elif kind == BETA_BINOMIAL:
        successes = min(max(round(state[a, rows.Y] + n * shift[a]), 0), n)
        now[a, CENTRE] = successes / n
        for j in range(2):
            threshold = plan[LEVELS + 2 * j]
            if j == 1 and threshold == plan[LEVELS]:
                now[a, LOWER + 2], now[a, UPPER + 2] = now[a, LOWER], now[a, UPPER]
                continue
            now[a, LOWER + 2 * j] = limit(successes, n - successes, threshold, False, plan)
            now[a, UPPER + 2 * j] = limit(successes, n - successes, threshold, True, plan)
    else:
        v = state[a, rows.W2]
        now[a, CENTRE] = shift[a] + state[a, rows.WY] / w
        now[a, PRICE] = math.log1p(v / plan[ETA])
        scale = (v + plan[ETA]) / (w * w)
        if kind == SUB_GAUSSIAN:
            now[a, LOWER] = plan[SIGMA] * plan[SIGMA] * scale
            now[a, UPPER] = now[a, LOWER]
            return
        if w * w < LEAST_SIZE * v:
            return
        if state[a, rows.UNBINARY] == 0.0:
            successes = state[a, rows.Y] + n * shift[a]
            if min(successes, n - successes) < LEAST_KIND - 0.5:
                return
        mean = state[a, rows.Y] / n
        spread = state[a, rows.Y2] - n * mean * mean
        if not spread > 1e-12 * state[a, rows.Y2]:
            return
        third = state[a, rows.Y3] - mean * (3.0 * state[a, rows.Y2] - 2.0 * n * mean * mean)
        # of the weighted sum, by its own weights
        skew = third / (spread * math.sqrt(spread / n)) * state[a, rows.W3] / (v * math.sqrt(v))
        if abs(skew) > MOST_SKEW:
            return
        scale *= spread / (n - 1.0)
        # a skewed sum's studentised value is skewed the other way: reach further on the side of the long tail
        now[a, LOWER] = scale * (1.0 + max(-skew, 0.0)) ** 2
        now[a, UPPER] = scale * (1.0 + max(skew, 0.0)) ** 2


def gauges(out, states, shift, kind, plan):
    """Fill `out` (looks, arms) with the gauges of many states."""
    for look in range(states.shape[0]):
        for a in range(states.shape[1]):
            gauge(out[look], a, states[look], shift, kind, plan)


def score(now, a, null, kind):
    """Return the logarithm of 1 / alpha at which an arm's sequence just excludes a mean; 0: at none."""
    d = now[a, CENTRE] - null
    if kind == BERNSTEIN:
        return max(abs(d) * now[a, LOWER] - now[a, UPPER] - math.log(2.0), 0.0)
    reach = now[a, LOWER] if d > 0.0 else now[a, UPPER]
    if not reach < math.inf:
        return 0.0
    return max(0.5 * (d * d / reach - now[a, PRICE]), 0.0) if reach > 0.0 else math.inf


def pair_score(now, a, b, null, kind):
    """Return the logarithm of 1 / alpha at which the contrast of two arms just excludes a value; 0: at none.

    The contrast's reach is the root of the sum of squares of the arms' (MOVER).
    """
    d = now[a, CENTRE] - now[b, CENTRE] - null
    if kind == BERNSTEIN:
        if not (now[a, LOWER] > 0.0 and now[b, LOWER] > 0.0):
            return 0.0
        p = 1.0 / (now[a, LOWER] * now[a, LOWER])
        q = 1.0 / (now[b, LOWER] * now[b, LOWER])
        half = p * now[a, UPPER] + q * now[b, UPPER]
        rest = p * now[a, UPPER] * now[a, UPPER] + q * now[b, UPPER] * now[b, UPPER] - d * d
        inside = half * half - (p + q) * rest
        return max((math.sqrt(inside) - half) / (p + q) - math.log(2.0), 0.0) if inside > 0.0 else 0.0
    if d > 0.0:
        p, q = now[a, LOWER], now[b, UPPER]
    else:
        p, q = now[a, UPPER], now[b, LOWER]
    if not p + q < math.inf:
        return 0.0
    if p + q == 0.0:
        return math.inf
    return max(0.5 * (d * d - p * now[a, PRICE] - q * now[b, PRICE]) / (p + q), 0.0)


def land(state, arm, y, pi, shift, null, kind, plan):
    """Add one outcome to its arm's state, `state[arm]`."""
    if state[arm, rows.ARRIVED] == 0.0:
        shift[arm] = y
    h = math.sqrt(pi)
    if kind == BERNSTEIN:  # Waudby-Smith and Ramdas 2024, with the weight in the bet
        n = state[arm, rows.ARRIVED]
        x = (y - plan[BOTTOM]) / plan[RANGE]
        mean = (0.5 + state[arm, B_SUM]) / (n + 1.0)
        variance = (0.25 + state[arm, B_SQUARE]) / (n + 1.0)
        bet = min(0.5, plan[BET] / math.sqrt(pi * variance))
        state[arm, BETS] += bet
        state[arm, BET_Y] += bet * x
        state[arm, COST] += (x - mean) ** 2 * (-math.log1p(-bet) - bet)
        state[arm, B_SUM] += x
        state[arm, B_SQUARE] += (x - (0.5 + state[arm, B_SUM]) / (n + 2.0)) ** 2
    elif kind == BETA_BINOMIAL and 0.0 < null[arm] < 1.0:
        n = state[arm, rows.ARRIVED]
        kind_n = state[arm, rows.Y] + n * shift[arm] if y > 0.5 else n - (state[arm, rows.Y] + n * shift[arm])
        chance = null[arm] if y > 0.5 else 1.0 - null[arm]
        for j in range(SCALES):
            r = plan[PRIORS + j]
            state[arm, BETA + j] += math.log((r * chance + kind_n) / ((r + n) * chance))
    rows.land(state, arm, y, shift[arm], 0.0, h, pi, False)


def follow(
    state, shift, now, stale, code, outcome, propensity, full, landed, times, moments, snaps,
    kind, plan, null, best_arm, best_pair, first_arm, first_pair, baseline,
):  # fmt: skip
    """Land outcomes in order, keep snapshots, and note when each question was first answered.

    `now` (arms, GAUGE) are the gauges and `stale` the arrivals at which a beta-binomial one is due again. `snaps`
    receives the states at the `moments`. `best_arm` and `best_pair` keep the largest scores, `first_arm` and
    `first_pair` (2, ...) the place in `landed` of the arrival after which a score first passed the threshold alone and
    together; -1: not yet. Line a, column b of the pairs is a minus b, for a > b; with a `baseline` (0 or more) there
    is one line: the arm minus it. A baseline of -2: no pairs. Arrivals at one time are judged together.
    """
    arms = len(state)
    timed = len(times) > 0
    normal = kind < BERNSTEIN
    # what only sums need not be handed to `land` as arrays, which costs more than the sums
    plain = normal or (kind == BETA_BINOMIAL and not ((null > 0.0) & (null < 1.0)).any())
    eta, known, bottom, extent, two = plan[ETA], plan[SIGMA] * plan[SIGMA], plan[BOTTOM], plan[RANGE], math.log(2.0)
    fresh = np.zeros(arms, np.bool_)
    touched = np.empty(arms, np.int64)
    n_touched = 0
    look = 0
    n = len(landed)
    for i in range(n):
        row = landed[i]
        while look < len(moments) and (times[row] if timed else row + 1) > moments[look]:
            snaps[look] = state
            look += 1
        arm = int(code[row])
        y = outcome[row]
        pi = propensity[row, arm if full else 0]
        if plain:
            if state[arm, rows.ARRIVED] == 0.0:
                shift[arm] = y
            rows.land(state, arm, y, shift[arm], 0.0, math.sqrt(pi), pi, False)
        else:
            land(state, arm, y, pi, shift, null, kind, plan)
        if not fresh[arm]:
            fresh[arm] = True
            touched[n_touched] = arm
            n_touched += 1
        if timed and i + 1 < n and times[landed[i + 1]] == times[row]:
            continue
        for t in range(n_touched):
            a = touched[t]
            fresh[a] = False
            if normal:
                # without logarithms or skewness, which only widen: the price of looking always is the one found last,
                # at most 2 % of V ago, and only grows
                size, w, v = state[a, rows.ARRIVED], state[a, rows.W], state[a, rows.W2]
                if v > now[a, SEEN]:
                    now[a, PRICE] = math.log1p(v / eta)
                    now[a, SEEN] = 1.02 * v
                variance = known
                if kind == ASYMPTOTIC:
                    variance = math.inf
                    if w * w >= LEAST_SIZE * v:
                        spread = state[a, rows.Y2] - state[a, rows.Y] * state[a, rows.Y] / size
                        variance = max(spread, 0.0) / (size - 1.0)
                reach = variance * (v + eta) / (w * w)
                centre = shift[a] + state[a, rows.WY] / w
                now[a, CENTRE] = centre
                now[a, LOWER] = reach
                now[a, UPPER] = reach
                d = centre - null[a]
                value = best_arm[a]
                if d * d > reach * (2.0 * value + now[a, PRICE]):
                    gauge(now, a, state, shift, kind, plan)
                    value = score(now, a, null[a], kind)
            elif kind == BERNSTEIN:  # as `gauge` and `score`
                now[a, CENTRE] = bottom + extent * state[a, BET_Y] / state[a, BETS]
                now[a, LOWER] = state[a, BETS] / extent
                now[a, UPPER] = state[a, COST]
                value = abs(now[a, CENTRE] - null[a]) * now[a, LOWER] - now[a, UPPER] - two
            else:
                if baseline > -2 and state[a, rows.ARRIVED] >= stale[a]:
                    gauge(now, a, state, shift, kind, plan)
                    stale[a] = state[a, rows.ARRIVED] + max(1.0, state[a, rows.ARRIVED] // REFRESH)
                if 0.0 < null[a] < 1.0:
                    value = 0.0
                    for j in range(SCALES):
                        value += math.exp(min(plan[PRIORS + SCALES + j] + state[a, BETA + j], 700.0))
                    value = math.log(value)
                else:
                    ones = state[a, rows.Y] + state[a, rows.ARRIVED] * shift[a]
                    against = ones if null[a] <= 0.0 else state[a, rows.ARRIVED] - ones
                    value = math.inf if against > 0.5 or null[a] < 0.0 or null[a] > 1.0 else 0.0
            if value > best_arm[a]:
                best_arm[a] = value
                for j in range(2):
                    if first_arm[j, a] < 0 and value >= plan[LEVELS + j]:
                        first_arm[j, a] = i
        for t in range(n_touched):
            a = touched[t]
            if baseline == -2:
                continue
            every = baseline == -1 or a == baseline
            for b in range(0 if every else baseline, arms if every else baseline + 1):
                if b == a or state[b, rows.ARRIVED] == 0.0:
                    continue
                high, low, line, column = max(a, b), min(a, b), max(a, b), min(a, b)
                if baseline >= 0:
                    high, low = b if a == baseline else a, baseline
                    line, column = 0, high
                apart = null[high] - null[low]
                if kind != BETA_BINOMIAL:
                    if normal:  # as above, cheaply first
                        value = best_pair[line, column]
                        d = now[high, CENTRE] - now[low, CENTRE] - apart
                        p, q = now[high, LOWER], now[low, UPPER]
                        if d <= 0.0:
                            p, q = now[high, UPPER], now[low, LOWER]
                        if not d * d > p * (2.0 * value + now[high, PRICE]) + q * (2.0 * value + now[low, PRICE]):
                            continue
                        gauge(now, high, state, shift, kind, plan)
                        gauge(now, low, state, shift, kind, plan)
                    else:
                        d = now[high, CENTRE] - now[low, CENTRE] - apart
                        value = best_pair[line, column] + two
                        p = (value + now[high, UPPER]) / now[high, LOWER]
                        q = (value + now[low, UPPER]) / now[low, LOWER]
                        if not d * d > p * p + q * q:
                            continue
                    value = pair_score(now, high, low, apart, kind)
                    if value > best_pair[line, column]:
                        best_pair[line, column] = value
                        for j in range(2):
                            if first_pair[j, line, column] < 0 and value >= plan[LEVELS + 2 * j]:
                                first_pair[j, line, column] = i
                    continue
                d = now[high, CENTRE] - now[low, CENTRE] - apart
                up, down = (high, low) if d > 0.0 else (low, high)
                for j in range(2):
                    p = now[up, CENTRE] - now[up, LOWER + 2 * j]
                    q = now[down, UPPER + 2 * j] - now[down, CENTRE]
                    if first_pair[j, line, column] < 0 and d * d > p * p + q * q:
                        first_pair[j, line, column] = i
        n_touched = 0
    while look < len(moments):
        snaps[look] = state
        look += 1
