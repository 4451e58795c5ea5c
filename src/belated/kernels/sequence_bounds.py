"""What the state of an arm's arrivals says: its estimate, how far its interval reaches, which values it excludes.

Plain Python that numba can compile, as `belated.kernels.rows` is. An arm's state is the sums of `fields.OWN` and those
that `STATE` adds, about a shift, its first outcome. docs/sequences.md has the formulas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from belated.base.columns import Array
from belated.kernels import fields

#: Functions to compile, helpers before their callers.
KERNELS = (
    "mixture", "limit", "shape", "gauge_bounded", "gauge_binary", "gauge_normal", "gauge", "gauges", "score",
    "pair_score", "stake", "stake_cost",
)  # fmt: skip

# What an arm's state holds beyond the sums of `fields.OWN`: of empirical Bernstein's bets l, with y scaled to [0, 1],
# the sums of l, l y, and what they cost.
STATE = (*fields.OWN, "bets", "bet_y", "cost")
BETS, BET_Y, COST = range(len(fields.OWN), len(fields.OWN) + 3)

ASYMPTOTIC, SUB_GAUSSIAN, BERNSTEIN, BETA_BINOMIAL = range(4)

# A gauge: what may be said of an arm now. Its estimate, the squared scales of its lower and its upper reach and the
# price of looking always (normal mixtures), or the bets, their cost (Bernstein), or the lower and upper reach, alone
# and together (beta-binomial).
CENTRE, LOWER, UPPER, PRICE = 0, 1, 2, 3
GAUGE = 5


class NormalRange(NamedTuple):
    """Where the normal approximation of an asymptotic sequence holds."""

    least_size: float  # the effective size
    most_skew: float  # the skewness of the weighted sum
    most_doubt: float  # the relative variance of the estimated variance


#: The range of sequences that are tested at every arrival.
EVERY_ARRIVAL = NormalRange(least_size=25.0, most_skew=0.5, most_doubt=0.1)

#: How much rounding may move what is held against it: however sums are added up, the verdict is the same.
ROUNDING = 1e-9

#: Outcomes do not vary if the sum of squares about their mean is no more than this share of that about the shift, which
#: is rounding, or so small that fourth powers of such outcomes are no numbers.
NO_SPREAD, TINY_SPREAD = 1e-12, 1e-145

#: Bets below which a series is the cost: its ninth term is the first that it lacks.
SMALL = 1 / 32


class BoundPlan(NamedTuple):
    """Numbers fixed before any outcome. Only scalars: they are handed on from kernel to kernel for every arrival.

    `levels` are the thresholds log(1 / alpha) of one question, of all arms together, of all contrasts together.
    Outcomes lie from `bottom` to `bottom + extent`. `prior_sizes` and `prior_weights`, logarithms, are those of the
    beta mixture.
    """

    kind: int
    eta: float
    sigma: float
    bet: float
    bottom: float
    extent: float
    levels: tuple[float, float, float]
    prior_sizes: tuple[float, float, float]
    prior_weights: tuple[float, float, float]


def mixture(successes: float, failures: float, mean: float, plan: BoundPlan) -> float:
    """Return the logarithm of the beta-binomial mixture martingale against a mean.

    A Beta(r mean, r (1 - mean)) prior is centred on the mean that is tested (Robbins 1970), for several sizes r.
    """
    n = successes + failures
    top = -math.inf
    total = 0.0
    for j in range(len(plan.prior_sizes)):
        r = plan.prior_sizes[j]
        a = r * mean
        b = r - a
        value = (
            plan.prior_weights[j]
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


def limit(successes: float, failures: float, threshold: float, upper: bool, plan: BoundPlan) -> float:
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


def shape(state: Array, a: int) -> tuple[float, float, float]:
    """Return the variance of an arm's outcomes, the skewness of their weighted sum, and the doubt about the variance.

    The doubt is the relative variance of the estimated variance, (kurtosis - 1) / effective size. All are 0 if no two
    outcomes differ. No unit and no place of 0 changes skewness or doubt: two values are two values in any coding.
    """
    n, w, v = state[a, fields.ARRIVED], state[a, fields.W], state[a, fields.W2]
    y2, y3 = state[a, fields.Y2], state[a, fields.Y3]
    mean = state[a, fields.Y] / n
    spread = y2 - n * mean * mean
    if not spread > NO_SPREAD * y2 or spread < TINY_SPREAD:
        return 0.0, 0.0, 0.0
    third = y3 - mean * (3.0 * y2 - 2.0 * n * mean * mean)
    fourth = state[a, fields.Y4] - mean * (4.0 * y3 - mean * (6.0 * y2 - 3.0 * n * mean * mean))
    skew = third / (spread * math.sqrt(spread / n)) * state[a, fields.W3] / (v * math.sqrt(v))
    doubt = max(n * fourth / (spread * spread) - 1.0, 0.0) * v / (w * w)
    return spread / (n - 1.0), skew, doubt


def gauge_bounded(now: Array, a: int, state: Array, plan: BoundPlan) -> None:
    """Fill `now[a]` for empirical Bernstein."""
    now[a, CENTRE] = plan.bottom + plan.extent * state[a, BET_Y] / state[a, BETS]
    now[a, LOWER] = state[a, BETS] / plan.extent
    now[a, UPPER] = state[a, COST]


def gauge_binary(now: Array, a: int, state: Array, shift: Array, plan: BoundPlan) -> None:
    """Fill `now[a]` for the beta-binomial mixture."""
    n = state[a, fields.ARRIVED]
    successes = min(max(round(state[a, fields.Y] + n * shift[a]), 0), n)
    now[a, CENTRE] = successes / n
    for j in range(2):
        threshold = plan.levels[2 * j]
        if j == 1 and threshold == plan.levels[0]:
            now[a, LOWER + 2], now[a, UPPER + 2] = now[a, LOWER], now[a, UPPER]
            continue
        now[a, LOWER + 2 * j] = now[a, CENTRE] - limit(successes, n - successes, threshold, False, plan)
        now[a, UPPER + 2 * j] = limit(successes, n - successes, threshold, True, plan) - now[a, CENTRE]


def gauge_normal(now: Array, a: int, state: Array, shift: Array, plan: BoundPlan) -> None:
    """Fill `now[a]` for a normal mixture; asymptotic ones are infinite until their approximation holds."""
    w, v = state[a, fields.W], state[a, fields.W2]
    now[a, CENTRE] = shift[a] + state[a, fields.WY] / w
    now[a, PRICE] = math.log1p(v / plan.eta)
    scale = (v + plan.eta) / (w * w)
    if plan.kind == SUB_GAUSSIAN:
        now[a, LOWER] = plan.sigma * plan.sigma * scale
        now[a, UPPER] = now[a, LOWER]
        return
    if w * w < (1.0 - ROUNDING) * EVERY_ARRIVAL.least_size * v:
        return
    variance, skew, doubt = shape(state, a)
    lean = abs(skew)
    if variance == 0.0 or not (
        lean <= (1.0 + ROUNDING) * EVERY_ARRIVAL.most_skew and doubt <= (1.0 + ROUNDING) * EVERY_ARRIVAL.most_doubt
    ):
        return  # also if a power is beyond what numbers can hold
    # a skewed sum's studentised value is skewed the other way, and a variance in doubt is too small when the mean is:
    # reach further on the side of the long tail
    further = (1.0 + lean) ** 2 * (
        1.0 + 3.0 * lean + 10.0 * lean * lean + 40.0 * lean * math.sqrt(max(doubt - lean * lean, 0.0))
    )
    scale *= variance
    now[a, LOWER] = scale * (further if skew < 0.0 else 1.0)
    now[a, UPPER] = scale * (further if skew > 0.0 else 1.0)


def gauge(now: Array, a: int, state: Array, shift: Array, plan: BoundPlan) -> None:
    """Fill `now[a]` with what the state of arm `a` says; a reach is infinite where the sequence is."""
    now[a, LOWER] = math.inf
    now[a, UPPER] = math.inf
    now[a, PRICE] = 0.0
    if state[a, fields.ARRIVED] == 0.0:
        now[a, CENTRE] = math.nan
        if plan.kind == BERNSTEIN:
            now[a, LOWER] = 0.0
    elif plan.kind == BERNSTEIN:
        gauge_bounded(now, a, state, plan)
    elif plan.kind == BETA_BINOMIAL:
        gauge_binary(now, a, state, shift, plan)
    else:
        gauge_normal(now, a, state, shift, plan)


def gauges(out: Array, states: Array, shift: Array, plan: BoundPlan) -> None:
    """Fill `out` (looks, arms) with the gauges of many states."""
    for look in range(states.shape[0]):
        for a in range(states.shape[1]):
            gauge(out[look], a, states[look], shift, plan)


def score(now: Array, a: int, null: float, kind: int) -> float:
    """Return the logarithm of 1 / alpha at which an arm's sequence just excludes a mean; 0: at none."""
    d: float = now[a, CENTRE] - null
    if kind == BERNSTEIN:
        bets: float = now[a, LOWER]
        cost: float = now[a, UPPER]
        return max(abs(d) * bets - cost - math.log(2.0), 0.0)
    reach: float = now[a, LOWER] if d > 0.0 else now[a, UPPER]
    price: float = now[a, PRICE]
    if not reach < math.inf:
        return 0.0
    return max(0.5 * (d * d / reach - price), 0.0) if reach > 0.0 else math.inf


def pair_score(now: Array, a: int, b: int, null: float, kind: int) -> float:
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
    value: float = max(0.5 * (d * d - p * now[a, PRICE] - q * now[b, PRICE]) / (p + q), 0.0)
    return value


def stake(n: float, y: float, y2: float, pi: float, plan: BoundPlan) -> float:
    """Return the bet on an arm's next outcome: the weight over the deviation, as the sums before it show it.

    Waudby-Smith and Ramdas 2024, with the weight in the bet.
    """
    spread = max(y2 - y * y / n, 0.0) / (plan.extent * plan.extent) if n > 0.0 else 0.0
    return min(0.5, plan.bet * math.sqrt((n + 1.0) / (pi * (0.25 + spread))))


def stake_cost(bet: float) -> float:
    """Return -log(1 - bet) - bet."""
    if bet > SMALL:
        return -math.log1p(-bet) - bet
    rest = 1 / 6 + bet * (1 / 7 + bet * (1 / 8 + bet * (1 / 9)))
    return bet * bet * (1 / 2 + bet * (1 / 3 + bet * (1 / 4 + bet * (1 / 5 + bet * rest))))
