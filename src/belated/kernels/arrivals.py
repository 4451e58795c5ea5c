"""Passes over arrivals in calendar order: what confidence sequences are read from, at every one of them.

Plain Python that numba can compile, as `belated.kernels.rows` is. Arrivals are cut into blocks. `tally` (and `wager`)
sum each block on its own, so in any number of threads; running totals of the blocks are the states where they begin
and end. `search` bounds what any arrival within a block can have shown; `examine` goes through the few blocks that may
matter. An arm's state is the sums of `rows.OWN` and those that `STATE` adds, about a shift, its first outcome.
"""

from __future__ import annotations

import math

import numpy as np

from belated.kernels import rows

#: Functions to compile, helpers before their callers.
KERNELS = (
    "arrange", "outside", "shifts", "places", "mixture", "limit", "gauge", "gauges", "score", "pair_score", "stake",
    "price", "tally", "wager", "land", "answer", "stretch", "most", "reached", "search", "examine",
)  # fmt: skip

# What an arm's state holds beyond the sums of `rows.OWN`: of empirical Bernstein's bets l, with y scaled to [0, 1], the
# sums of l, l y, and what they cost.
STATE = (*rows.OWN, "bets", "bet_y", "cost")
BETS, BET_Y, COST = range(len(rows.OWN), len(rows.OWN) + 3)
SCALES = 3

ASYMPTOTIC, SUB_GAUSSIAN, BERNSTEIN, BETA_BINOMIAL = range(4)

# A plan: numbers fixed before any outcome. `LEVELS` is where the thresholds log(1 / alpha) begin: that of one question,
# that of all arms together, that of all contrasts together. `PRIORS` is where the beta mixture's sizes begin, then the
# logarithms of their weights.
ETA, SIGMA, BET, BOTTOM, RANGE, LEVELS, PRIORS = 0, 1, 2, 3, 4, 5, 8
PLAN = PRIORS + 2 * SCALES

# What may be said of an arm now: its estimate, the squared scales of its lower and its upper reach and the price of
# looking always (normal mixtures), or the bets, their cost (Bernstein), or limits, alone and together (beta-binomial).
CENTRE, LOWER, UPPER, PRICE = 0, 1, 2, 3
GAUGE = 5

#: Where the normal approximation of an asymptotic sequence begins to hold.
LEAST_SIZE, MOST_SKEW, LEAST_KIND = 25.0, 0.5, 10.0

#: An arm's beta-binomial limits are found anew when its arrivals have grown by this share.
REFRESH = 128

#: Bets below which a series is the price: its ninth term is the first that it lacks.
SMALL = 1 / 32


def arrange(times, due, order, n, low, high):
    """Return the rows that are due at positions from `low` to `high`, in the order of arrival.

    `times` are the rows' times of arrival, or empty if each came when the next row was assigned. Rows due at
    one position came after those due before it; among them, times decide, then the order of assignment.
    """
    ordered = len(order) > 0
    start = np.zeros(high - low + 1, due.dtype)
    seen = min(n, high)  # an outcome is due after its own row
    for position in range(seen):
        when = due[order[position] if ordered else position]
        if low <= when < high:
            start[when - low + 1] += 1
    for cell in range(high - low):
        start[cell + 1] += start[cell]
    landed = np.empty(start[high - low], due.dtype)
    for position in range(seen):
        row = order[position] if ordered else position
        when = due[row]
        if low <= when < high:
            landed[start[when - low]] = row
            start[when - low] += 1
    begin = 0
    for cell in range(high - low if len(times) else 0):
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
    return landed


def outside(outcome, landed, start, stop, low, high, ends):
    """Return the first place whose outcome is not from `low` to `high` (with `ends`: is neither), or -1."""
    for i in range(start, stop):
        y = outcome[landed[i]]
        if not low <= y <= high or (ends and low < y < high):
            return i
    return -1


def shifts(shift, seen, code, outcome, landed):
    """Fill `shift` with the first outcomes of arms that had not been `seen`."""
    missing = 0
    for a in range(len(shift)):
        missing += not seen[a]
    for i in range(len(landed)):
        if missing == 0:
            return
        row = landed[i]
        if not seen[code[row]]:
            seen[code[row]] = True
            shift[code[row]] = outcome[row]
            missing -= 1


def places(out, landed, times, moments):
    """Fill `out` with how many have landed by each moment."""
    for m in range(len(moments)):
        low, high = 0, len(landed)
        while low < high:
            middle = (low + high) // 2
            row = landed[middle]
            if (times[row] if len(times) else row + 1) <= moments[m]:
                low = middle + 1
            else:
                high = middle
        out[m] = low


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


def stake(n, y, y2, pi, plan):
    """Return the bet on an arm's next outcome: the weight over the deviation, as the sums of what came before show it.

    Waudby-Smith and Ramdas 2024, with the weight in the bet.
    """
    spread = max(y2 - y * y / n, 0.0) / (plan[RANGE] * plan[RANGE]) if n > 0.0 else 0.0
    return min(0.5, plan[BET] * math.sqrt((n + 1.0) / (pi * (0.25 + spread))))


def price(bet):
    """Return -log(1 - bet) - bet."""
    if bet > SMALL:
        return -math.log1p(-bet) - bet
    rest = 1 / 6 + bet * (1 / 7 + bet * (1 / 8 + bet * (1 / 9)))
    return bet * bet * (1 / 2 + bet * (1 / 3 + bet * (1 / 4 + bet * (1 / 5 + bet * rest))))


def tally(parts, paths, cuts, first, last, code, outcome, propensity, full, landed, shift, about, weighted):
    """Fill `parts` (blocks, arms, state) with the sums of blocks first to last, which begin and end at the `cuts`.

    `paths` (blocks, arms, 2) receives how far the sum of w (y - about) went up and down within the block.
    """
    lean = np.zeros(len(about))
    for block in range(first, last):
        own, path = parts[block], paths[block]
        own[:] = 0.0
        path[:] = 0.0
        lean[:] = 0.0
        for i in range(cuts[block], cuts[block + 1]):
            row = landed[i]
            arm = int(code[row])
            y = outcome[row]
            pi = propensity[row, arm if full else 0]
            h = math.sqrt(pi)
            rows.land(own, arm, y, shift[arm], 0.0, h, pi, False)
            at = lean[arm] + (y - about[arm]) * (h / pi if weighted else 1.0)
            lean[arm] = at
            path[arm, 0] = max(path[arm, 0], at)
            path[arm, 1] = min(path[arm, 1], at)


def wager(parts, paths, states, cuts, first, last, code, outcome, propensity, full, landed, shift, about, plan):
    """Fill what `parts` hold of empirical Bernstein's bets, from the states at which the blocks begin; `paths` too."""
    arms = len(about)
    n, sum_y, sum_y2, lean = np.empty(arms), np.empty(arms), np.empty(arms), np.empty(arms)
    bottom, extent = plan[BOTTOM], plan[RANGE]
    for block in range(first, last):
        own, path = parts[block], paths[block]
        path[:] = 0.0
        for a in range(arms):
            n[a] = states[block, a, rows.ARRIVED]
            sum_y[a] = states[block, a, rows.Y]
            sum_y2[a] = states[block, a, rows.Y2]
            lean[a] = 0.0
        for i in range(cuts[block], cuts[block + 1]):
            row = landed[i]
            a = int(code[row])
            y = outcome[row] - shift[a]
            x = (outcome[row] - bottom) / extent
            bet = stake(n[a], sum_y[a], sum_y2[a], propensity[row, a if full else 0], plan)
            mean = (0.5 + (sum_y[a] + n[a] * (shift[a] - bottom)) / extent) / (n[a] + 1.0)
            own[a, BETS] += bet
            own[a, BET_Y] += bet * x
            own[a, COST] += (x - mean) * (x - mean) * price(bet)
            n[a] += 1.0
            sum_y[a] += y
            sum_y2[a] += y * y
            at = lean[a] + bet * (outcome[row] - about[a]) / extent
            lean[a] = at
            path[a, 0] = max(path[a, 0], at)
            path[a, 1] = min(path[a, 1], at)


def land(state, a, y, pi, shift, kind, plan):
    """Add one outcome to its arm's state, as `tally` and `wager` do."""
    if kind == BERNSTEIN:
        n, extent = state[a, rows.ARRIVED], plan[RANGE]
        x = (y - plan[BOTTOM]) / extent
        bet = stake(n, state[a, rows.Y], state[a, rows.Y2], pi, plan)
        mean = (0.5 + (state[a, rows.Y] + n * (shift[a] - plan[BOTTOM])) / extent) / (n + 1.0)
        state[a, BETS] += bet
        state[a, BET_Y] += bet * x
        state[a, COST] += (x - mean) * (x - mean) * price(bet)
    rows.land(state, a, y, shift[a], 0.0, math.sqrt(pi), pi, False)


def answer(now, state, shift, a, b, null, kind, plan):
    """Return the score of one question: of arm a if b is -1, else of a minus b."""
    apart = null[a] - (null[b] if b >= 0 else 0.0)
    if kind != BETA_BINOMIAL:
        return score(now, a, apart, kind) if b < 0 else pair_score(now, a, b, apart, kind)
    if b < 0:
        n = state[a, rows.ARRIVED]
        ones = state[a, rows.Y] + n * shift[a]
        if 0.0 < apart < 1.0:
            return mixture(ones, n - ones, apart, plan)
        against = ones if apart <= 0.0 else n - ones
        return math.inf if against > 0.5 or apart < 0.0 or apart > 1.0 else 0.0
    d = now[a, CENTRE] - now[b, CENTRE] - apart
    up, down = (a, b) if d > 0.0 else (b, a)
    value = 0.0
    for j in range(2):
        p = now[up, CENTRE] - now[up, LOWER + 2 * j]
        q = now[down, UPPER + 2 * j] - now[down, CENTRE]
        if d * d > p * p + q * q:
            value = max(value, plan[LEVELS + 2 * j])
    return value


def stretch(ends, a, state, after, path, shift, about, kind, plan):
    """Fill `ends` with gauges of arm `a` that no arrival of a block can pass: its highest centre, then its lowest.

    Sums of squares, costs and prices only grow: they are no less than in `state`, where the block begins, and weights
    no more than `after` it. Skewness only widens.
    """
    arms = len(about)
    field = BETS if kind == BERNSTEIN else rows.W
    w, most = state[a, field], after[a, field]
    if kind == BERNSTEIN:
        unit = plan[RANGE]
        lean = state[a, BET_Y] - w * (about[a] - plan[BOTTOM]) / unit
        lower, upper, cost = most / unit, state[a, COST], 0.0
    else:
        unit = 1.0
        lean = state[a, rows.WY] + w * (shift[a] - about[a])
        v, n = state[a, rows.W2], state[a, rows.ARRIVED]
        variance = plan[SIGMA] * plan[SIGMA]
        if kind == ASYMPTOTIC:
            spread = max(state[a, rows.Y2] - state[a, rows.Y] * state[a, rows.Y] / n, 0.0) if n > 0.0 else 0.0
            variance = spread / (after[a, rows.ARRIVED] - 1.0)
        lower = upper = variance * (v + plan[ETA]) / (most * most)
        cost = math.log1p(v / plan[ETA])
    for side in range(2):
        furthest = lean + path[a, side]
        inward = furthest < 0.0 if side == 0 else furthest > 0.0
        ends[a + side * arms, CENTRE] = about[a] + unit * furthest / (most if inward else w)
        ends[a + side * arms, LOWER] = lower
        ends[a + side * arms, UPPER] = upper
        ends[a + side * arms, PRICE] = cost


def most(ends, stale, a, b, state, after, path, shift, about, null, kind, plan):
    """Return a score that a question cannot have passed within a block; beta-binomial contrasts: may have reached."""
    arms = len(null)
    if b >= 0:
        if kind == BETA_BINOMIAL:
            due = after[a, rows.ARRIVED] >= stale[a] or after[b, rows.ARRIVED] >= stale[b]
            return plan[LEVELS + 2] if due else 0.0
        apart = null[a] - null[b]
        return max(pair_score(ends, a, b + arms, apart, kind), pair_score(ends, a + arms, b, apart, kind))
    if kind != BETA_BINOMIAL:
        return max(score(ends, a, null[a], kind), score(ends, a + arms, null[a], kind))
    if not 0.0 < null[a] < 1.0:
        return math.inf
    value = -math.inf
    for side in range(2):  # convex in the ones and zeros: largest in a corner of where they may have been
        for last in range(2):
            n = after[a, rows.ARRIVED] if last else state[a, rows.ARRIVED]
            begun = state[a, rows.Y] + state[a, rows.ARRIVED] * (shift[a] - about[a])
            ones = begun + path[a, side] + n * about[a]
            if not 0.0 <= ones <= n:
                return math.inf
            value = max(value, mixture(ones, n - ones, null[a], plan))
    return value


def reached(questions, states, shift, null, kind, plan, now, best):
    """Raise the `best` scores to what they are where blocks end: blocks that cannot pass them need no examination."""
    arms = len(null)
    for block in range(1, len(states)):
        state = states[block]
        if kind != BETA_BINOMIAL:
            for a in range(arms):
                gauge(now, a, state, shift, kind, plan)
        for q in range(len(questions)):
            a, b = questions[q, 0], questions[q, 1]
            if state[a, rows.ARRIVED] > 0.0 and (b < 0 or (state[b, rows.ARRIVED] > 0.0 and kind != BETA_BINOMIAL)):
                best[q] = max(best[q], answer(now, state, shift, a, b, null, kind, plan))


def search(asked, block, questions, states, paths, shift, about, null, kind, plan, stale, best, first):
    """Return the next block, from `block` on, in which a question may be answered, and how many are `asked` there.

    That is, its score may pass a threshold for the first time, or be the largest.
    """
    arms = len(null)
    ends = np.empty((2 * arms, GAUGE))
    while block < len(paths):
        state, after, path = states[block], states[block + 1], paths[block]
        if kind != BETA_BINOMIAL:
            for a in range(arms):
                stretch(ends, a, state, after, path, shift, about, kind, plan)
        n_asked = 0
        for q in range(len(questions)):
            a, b = questions[q, 0], questions[q, 1]
            if not after[a, rows.ARRIVED] > 0.0 or (b >= 0 and not after[b, rows.ARRIVED] > 0.0):
                continue
            if after[a, rows.ARRIVED] == state[a, rows.ARRIVED] and (
                b < 0 or after[b, rows.ARRIVED] == state[b, rows.ARRIVED]
            ):
                continue
            value = most(ends, stale, a, b, state, after, path, shift, about, null, kind, plan)
            value += 1e-9 * abs(value)  # rounding
            may = not value <= best[q]
            for j in range(2):
                may = may or (first[j, q] < 0 and not value < plan[LEVELS + (j if b < 0 else 2 * j)])
            if may:
                asked[n_asked] = q
                n_asked += 1
        if n_asked > 0:
            return block, n_asked
        block += 1
    return block, 0


def examine(asked, start, code, outcome, pi, last, questions, state, shift, null, kind, plan, now, stale, best, first):
    """Judge the questions `asked` at every moment of a block, whose arrivals are the `last` of their moments or not.

    `state` is where the block begins, and `start` the place of its first arrival. `now` (arms, GAUGE) are the gauges,
    and `stale` the arrivals at which a beta-binomial one is due again. `best` keeps the scores, `first`
    (2, questions) the places of the arrivals after which they first passed the thresholds, alone and together; -1: not
    yet.
    """
    arms = len(null)
    pairs = asked[-1] >= arms
    fresh = np.zeros(arms, np.bool_)
    touched = np.empty(arms, np.int64)
    n_touched = 0
    if kind != BETA_BINOMIAL:
        for a in range(arms):
            gauge(now, a, state, shift, kind, plan)
    for i in range(len(code)):
        land(state, code[i], outcome[i], pi[i], shift, kind, plan)
        if not fresh[code[i]]:
            fresh[code[i]] = True
            touched[n_touched] = code[i]
            n_touched += 1
        if not last[i]:
            continue
        renewed = kind != BETA_BINOMIAL
        for t in range(n_touched):
            a = touched[t]
            n = state[a, rows.ARRIVED]
            if kind != BETA_BINOMIAL or (pairs and n >= stale[a]):
                gauge(now, a, state, shift, kind, plan)
                stale[a] = n + max(1.0, n // REFRESH)
                renewed = True
        for q in asked:
            if q >= arms and not renewed:
                break
            a, b = questions[q, 0], questions[q, 1]
            touches = fresh[a] or (b >= 0 and fresh[b])
            if touches and state[a, rows.ARRIVED] > 0.0 and (b < 0 or state[b, rows.ARRIVED] > 0.0):
                value = answer(now, state, shift, a, b, null, kind, plan)
                best[q] = max(best[q], value)
                for j in range(2):
                    if first[j, q] < 0 and value >= plan[LEVELS + (j if b < 0 else 2 * j)]:
                        first[j, q] = start + i
        for t in range(n_touched):
            fresh[touched[t]] = False
        n_touched = 0
