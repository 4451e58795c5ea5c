"""Thompson sampling's probabilities: how likely each arm's draw from its posterior is to be the largest.

They are kept up to date while posteriors move one outcome at a time. Each is the integral of f_k times
the product of the other arms' F_j, by the trapezoid rule on nodes that are dense where the narrowest
posterior is. A memo holds the nodes and each arm's F and f / F on them, so that a call recomputes only
the arms that moved, and lays new nodes only when the old no longer do.
A Beta posterior is taken on the logit scale, where it is smooth for any parameters.
"""

from __future__ import annotations

import math

import numpy as np

from belated.base.columns import Array
from belated.kernels.compiler import compiled

#: Nodes at most: deviations that differ by 1e4, among 50 arms, need 600.
NODES = 800
#: Rows of a memo: the grid; by arm, the parameters its columns are of, and where it lies; by node, its place,
#: weight, x, 1 - x and log x, the product of all F, and sums; then F and f / F of every arm in turn.
GRID, FIRST, SECOND, MODE, SCALE, TOP, NODE, WEIGHT, X, REST, LOG_X, PRODUCT, PARTS, COLUMNS = range(14)
#: The grid's row: the number of nodes, how far apart they may be, and of node i = centre + stretch sinh(v + i step).
COUNT, WIDEST, CENTRE, STRETCH, STEP = range(5)

#: Nodes reach to where a density is exp(-FAR) of its height: a normal has 5e-13 of its mass beyond.
FAR = 26.0
#: Nodes are kept where the product of all F is above the first and below the second, with room to move.
LOWEST, HIGHEST = 1e-17, 1.0 - 1e-14
#: A sum of probabilities this far from 1 tells that the nodes no longer do; several times any one's error.
SLACK = 1e-9
#: How far apart nodes may be, in deviations, this many deviations from a mode, for errors of 5e-10 (found by
#: trial): SPACING K ** NARROWING among K arms, whose largest draw varies the less the more there are.
NORMAL_SPACING, BETA_SPACING, SPACING, NARROWING, FLANK = 0.6, 0.48, 0.82, -0.28, 3.0
#: New nodes are closer than they need be, by this factor, so that deviations may shrink for a while.
ROOM = 0.85
#: Outcomes that a Beta's columns may be behind; to follow one costs a hundredth of new nodes.
BEHIND = 64.0
#: How far from whole numbers of outcomes a Beta's parameters may have moved, as 0.1 + n does by rounding.
ROUNDING = 1e-9
#: Stands for an F of 0, so that f / F times F is f.
TINY = 1e-30

# exp(-z^2 / 2) ** (1 / 64), and Mills' ratio (1 - F(z)) / f(z), for z from 0 to where a normal's tail is 1e-19:
# Chebyshev polynomials, good for 12 digits, of z^2 and of z / (z + _BEND), in the unit of their range.
_REACH, _BEND = 9.0, 5.0
_UNIT = 2.0 * (_REACH + _BEND) / _REACH


def _mills(u):
    z = _BEND * (u + 1.0) / (_UNIT - u - 1.0)
    return [math.sqrt(math.pi / 2.0) * math.erfc(v / math.sqrt(2.0)) * math.exp(v * v / 2.0) for v in z]


def _polynomial(function, degree):
    """Return the coefficients, highest first, of the Chebyshev interpolant on [-1, 1]."""
    series = np.polynomial.Chebyshev.interpolate(function, degree)
    return tuple(series.convert(kind=np.polynomial.Polynomial).coef[::-1].tolist())


_MILLS = _polynomial(_mills, 13)
_EXP = _polynomial(lambda u: np.exp(-(u + 1.0) * _REACH**2 / 256.0), 9)
_PEAK = 1.0 / math.sqrt(2.0 * math.pi)


def new_memo(n_arms: int) -> Array:
    """Return a memo for so many arms, of nothing yet; `memo[GRID] = nan` makes it so again."""
    return np.full((COLUMNS + 2 * n_arms, max(NODES, n_arms)), np.nan)


@compiled(error_model="numpy")
def normal_column(memo, k, mean, sd, n):
    """Fill an arm's F and f / F."""
    cdf, rate = COLUMNS + 2 * k, COLUMNS + 2 * k + 1
    precision = 1.0 / sd
    for i in range(n):
        z = (memo[NODE, i] - mean) * precision
        far = min(abs(z), _REACH)
        u = far * _UNIT / (far + _BEND) - 1.0
        v = far * far * (2.0 / _REACH**2) - 1.0
        mills = f = 0.0
        for c in _MILLS:
            mills = mills * u + c
        for c in _EXP:
            f = f * v + c
        for _ in range(6):
            f *= f
        f *= _PEAK
        below = f * mills if z < 0.0 else 1.0 - f * mills
        memo[cdf, i] = below
        memo[rate, i] = precision * f / below


@compiled
def stirling(z):
    """Return log Gamma(z) less (z - 1/2) log z - z + log(2 pi) / 2, without cancellation where z is large."""
    if z < 12.0:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - 0.5 * math.log(2.0 * math.pi)
    s = 1.0 / (z * z)
    return (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))) / z


@compiled
def beta_column(memo, k, a, b, n):
    """Fill an arm's F and f / F: F is 1 at the last node, and falls by the integrals of f between nodes.

    By Hermite's quadrature, f and three derivatives at either end: an error of order nine.
    """
    cdf, rate = COLUMNS + 2 * k, COLUMNS + 2 * k + 1
    height = 0.5 * math.log(a * b / (2.0 * math.pi * (a + b))) + stirling(a + b) - stirling(a) - stirling(b)
    log_x, log_rest = -math.log1p(b / a), -math.log1p(a / b)  # at the mode
    below, g, g1, g2, g3 = 1.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n - 1, -1, -1):
        x, rest = memo[X, i], memo[REST, i]
        f = math.exp(height + a * (memo[LOG_X, i] - log_x) + b * (memo[LOG_X, i] - memo[NODE, i] - log_rest))
        s, t = a - (a + b) * x, -(a + b) * x * rest  # of log f, the first and second derivative
        f1, f2, f3 = f * s, f * (s * s + t), f * (s * s * s + t * (3.0 * s + rest - x))
        if i < n - 1:
            h = memo[NODE, i + 1] - memo[NODE, i]
            odd, third = h * 3.0 / 28.0 * (f1 - g1), h * h * h / 1680.0 * (f3 - g3)
            below -= h * (0.5 * (f + g) + odd + h * h / 84.0 * (f2 + g2) + third)
        g, g1, g2, g3 = f, f1, f2, f3
        memo[cdf, i] = max(below, TINY)
        memo[rate, i] = f / memo[cdf, i]


@compiled(error_model="numpy")
def grow(memo, k, row, grown, both, n):
    """Move an arm's F and f / F by an outcome: a success, where `row` is X and `grown` is a, or a failure, of b."""
    cdf, rate = COLUMNS + 2 * k, COLUMNS + 2 * k + 1
    lift, factor = (-1.0 if row == X else 1.0) / grown, both / grown
    for i in range(n):
        f = memo[cdf, i] * memo[rate, i]
        below = max(memo[cdf, i] + lift * f, TINY)
        memo[cdf, i] = below
        memo[rate, i] = factor * memo[row, i] * f / below


@compiled
def beta_bottom(a, b):
    """Return where the logit of a Beta(a, b) has a density of exp(-FAR) of its height, or a point below.

    Newton's method on a concave function, from where its asymptote has that level: it never overshoots.
    """
    log_x, log_rest = -math.log1p(b / a), -math.log1p(a / b)  # at the mode
    x = (a * log_x + b * log_rest - FAR) / a
    for _ in range(8):
        tail = math.log1p(math.exp(-abs(x)))
        level = a * (min(x, 0.0) - tail - log_x) + b * (min(-x, 0.0) - tail - log_rest)
        x -= (level + FAR) / (a - (a + b) * math.exp(min(x, 0.0) - tail))
    return x


@compiled
def place(memo, k, beta, first, second):
    """Note where an arm's mode is, and the scale on which its density moves."""
    memo[MODE, k] = math.log(first / second) if beta else first
    # a density that falls like exp(-exp(x)) moves on scale 1, however long its other tail
    memo[SCALE, k] = min(math.sqrt(1.0 / first + 1.0 / second), 1.0) if beta else second


@compiled
def spacing(memo, k, centre, stretch):
    """Return how far nodes are apart on an arm's flank, in its deviations, for a grid of step 1."""
    away = abs(memo[MODE, k] - centre) / memo[SCALE, k] + FLANK
    return math.sqrt((stretch / memo[SCALE, k]) ** 2 + away * away)


@compiled
def lay(memo, beta, first, second):
    """Lay nodes for these posteriors, and every arm's columns on them."""
    n_arms = len(first)
    low = high = -math.inf  # below `low` the product is nothing, above `high` it is 1
    for k in range(n_arms):
        place(memo, k, beta, first[k], second[k])
        reach = math.sqrt(2.0 * FAR) * second[k]
        memo[TOP, k] = -beta_bottom(second[k], first[k]) if beta else first[k] + reach
        low = max(low, beta_bottom(first[k], second[k]) if beta else first[k] - reach)
        high = max(high, memo[TOP, k])
    centre, narrowest = low, math.inf
    for k in range(n_arms):
        if memo[TOP, k] > low and memo[SCALE, k] < narrowest:
            centre, narrowest = memo[MODE, k], memo[SCALE, k]
    fewest, stretch = math.inf, narrowest
    for doublings in range(6):
        trial, widest = narrowest * 2.0**doublings, 0.0
        for k in range(n_arms):
            if memo[TOP, k] > low:
                widest = max(widest, spacing(memo, k, centre, trial))
        steps = (math.asinh((high - centre) / trial) - math.asinh((low - centre) / trial)) * widest
        if steps < fewest:
            fewest, stretch = steps, trial
    memo[GRID, WIDEST] = min(BETA_SPACING if beta else NORMAL_SPACING, SPACING * n_arms**NARROWING)
    n = min(4 * math.ceil((1.0 + fewest / (ROOM * memo[GRID, WIDEST])) / 4.0), NODES)
    begin, end = math.asinh((low - centre) / stretch), math.asinh((high - centre) / stretch)
    step = (end - begin) / (n - 1.0)
    memo[GRID, CENTRE], memo[GRID, STRETCH], memo[GRID, STEP] = centre, stretch, step
    for i in range(n):
        e = math.exp(begin + i * step)
        x = centre + 0.5 * stretch * (e - 1.0 / e)
        memo[NODE, i], memo[WEIGHT, i], memo[PRODUCT, i] = x, 0.5 * stretch * step * (e + 1.0 / e), 1.0
        if beta:
            small = math.exp(-abs(x))
            memo[X, i] = (1.0 if x > 0.0 else small) / (1.0 + small)
            memo[REST, i] = (small if x > 0.0 else 1.0) / (1.0 + small)
            memo[LOG_X, i] = min(x, 0.0) - math.log1p(small)
    for k in range(n_arms):
        if beta:
            beta_column(memo, k, first[k], second[k], n)
        else:
            normal_column(memo, k, first[k], second[k], n)
        memo[FIRST, k], memo[SECOND, k] = first[k], second[k]
        for i in range(n):
            memo[PRODUCT, i] *= memo[COLUMNS + 2 * k, i]
    start = 0
    while n - start > 4 and memo[PRODUCT, start + 4] < LOWEST:
        start += 4
    while n - start > 4 and memo[PRODUCT, n - 5] > HIGHEST:
        n -= 4
    memo[GRID, COUNT] = n - start
    for row in range(NODE, COLUMNS + 2 * n_arms):
        for i in range(n - start):
            memo[row, i] = memo[row, start + i]


@compiled
def follow(memo, beta, first, second):
    """Bring the columns of the arms that moved up to date; return whether the nodes still suit them."""
    if math.isnan(memo[GRID, COUNT]):
        return False
    n = int(memo[GRID, COUNT])
    for k in range(len(first)):
        a, b = memo[FIRST, k], memo[SECOND, k]
        if first[k] == a and second[k] == b:
            continue
        if beta:
            wins, losses = math.floor(first[k] - a + 0.5), math.floor(second[k] - b + 0.5)
            if min(wins, losses) < 0 or wins + losses > BEHIND:
                return False
            if max(abs(a + wins - first[k]), abs(b + losses - second[k])) > ROUNDING:
                return False
            for _ in range(wins):
                grow(memo, k, np.int64(X), a, a + b, n)
                a += 1.0
            for _ in range(losses):
                grow(memo, k, np.int64(REST), b, a + b, n)
                b += 1.0
        else:
            normal_column(memo, k, first[k], second[k], n)
        memo[FIRST, k], memo[SECOND, k] = first[k], second[k]
        place(memo, k, beta, first[k], second[k])
        apart = memo[GRID, STEP] * spacing(memo, k, memo[GRID, CENTRE], memo[GRID, STRETCH])
        if apart > memo[GRID, WIDEST] and memo[COLUMNS + 2 * k, 0] < 1.0 - SLACK:
            return False
    return True


@compiled
def integrate(p, memo):
    """Fill `p` from the columns; return its sum, which is 1 but for what the nodes miss."""
    n = int(memo[GRID, COUNT])
    quarter = n // 4
    parts, product = memo[PARTS], memo[PRODUCT]
    for i in range(n):
        product[i] = memo[WEIGHT, i]
    for k in range(len(p)):
        for i in range(n):
            product[i] *= memo[COLUMNS + 2 * k, i]
    second, third, fourth = product[quarter:], product[2 * quarter :], product[3 * quarter :]
    total = 0.0
    for k in range(len(p)):
        rate = memo[COLUMNS + 2 * k + 1]
        rate2, rate3, rate4 = rate[quarter:], rate[2 * quarter :], rate[3 * quarter :]
        for i in range(quarter):
            parts[i] = (product[i] * rate[i] + second[i] * rate2[i]) + (third[i] * rate3[i] + fourth[i] * rate4[i])
        p[k] = 0.0
        for i in range(quarter):
            p[k] += parts[i]
        total += p[k]
    return total


@compiled
def thompson_probabilities(p, beta, first, second, memo):
    """Fill `p` with Thompson sampling's probabilities: each arm's, of the largest draw from its posterior, to 1e-9.

    Normal with means `first` and standard deviations `second`, or Beta(first, second). A memo serves one
    family, and a call depends on those before it by less than that.
    """
    n_arms = len(p)
    if n_arms == 1:
        p[0] = 1.0
        return
    if n_arms == 2 and not beta:
        z = (first[0] - first[1]) / math.sqrt(2.0 * (second[0] ** 2 + second[1] ** 2))
        p[0], p[1] = 0.5 * math.erfc(-z), 0.5 * math.erfc(z)
        return
    total = integrate(p, memo) if follow(memo, beta, first, second) else 0.0
    if not abs(total - 1.0) <= SLACK:
        lay(memo, beta, first, second)
        total = integrate(p, memo)
    for k in range(n_arms):
        p[k] /= total


@compiled
def raise_to_floor(p, floor):
    """Raise probabilities below the floor to it, and scale the others: water-filling."""
    for _ in range(len(p)):
        rest = free = 0.0
        for k in range(len(p)):
            if p[k] <= floor:
                p[k] = floor
                free += floor
            else:
                rest += p[k]
        if rest == 0.0 or abs(free + rest - 1.0) <= 1e-15:
            return
        scale = (1.0 - free) / rest
        for k in range(len(p)):
            if p[k] > floor:
                p[k] *= scale


@compiled
def mean_and_proxy(beta, first, second):
    """Return a posterior's mean and variance proxy; for a Beta, Marchal and Arbel's (2017, theorem 1) upper bound."""
    if beta:
        return first / (first + second), 0.25 / (first + second + 1.0)
    return first, second * second


@compiled
def clipped_probabilities(p, beta, first, second, floor, memo):
    """Fill `p` with Thompson sampling's probabilities, then raise those below the floor, at most 1 / arms, to it.

    Nothing need be integrated where all arms but one are surely below the floor. An arm is best no more
    often than it beats the arm of the largest mean, and their difference is normal, or sub-Gaussian.
    """
    n_arms = len(p)
    leader, largest, proxy = 0, -math.inf, 0.0
    for k in range(n_arms):
        mean, variance = mean_and_proxy(beta, first[k], second[k])
        if mean > largest:
            leader, largest, proxy = k, mean, variance
    distance = -2.0 * math.log(max(floor, TINY))  # squared
    if not beta:  # the normal quantile from above: Abramowitz and Stegun, 26.2.22, which is good to 0.003
        t = math.sqrt(distance)
        distance = (t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t)) + 0.003) ** 2
    for k in range(n_arms):
        mean, variance = mean_and_proxy(beta, first[k], second[k])
        if k != leader and (largest - mean) ** 2 < distance * (proxy + variance):
            thompson_probabilities(p, beta, first, second, memo)
            raise_to_floor(p, floor)
            return
    for k in range(n_arms):
        p[k] = floor
    p[leader] = 1.0 - (n_arms - 1) * floor
