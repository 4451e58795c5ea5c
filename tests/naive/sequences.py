"""A slow, obvious twin of confidence sequences: every interval from all of an arm's arrivals, at every moment.

`events` are (time, arm number, outcome, propensity) in the order of arrival; an arm's `data` are its (outcome, weight),
weight = 1 / sqrt(propensity).
"""

import math

import numpy as np
from scipy import optimize, special

from naive.segments import merged_chances

SHARE = 0.6
SIZES, WEIGHTS = (1.0, 1 / 12, 1 / 150), (0.85, 0.1, 0.05)


def arrivals(arm, outcome, propensity, assigned, arrived, as_of=None):
    """Events of a log in the order of arrival; ties in the order of assignment. `propensity` is the chosen arm's."""
    rows = [t for t in range(len(arm)) if arrived[t] is not None and (as_of is None or arrived[t] <= as_of)]
    rows = [t for t in rows if as_of is None or assigned[t] <= as_of]
    rows.sort(key=lambda t: (arrived[t], assigned[t], t))
    return [(arrived[t], arm[t], outcome[t], propensity[t]) for t in rows]


def eta(target, alpha):
    """The eta at which r^2, (V + eta) log((V + eta) / (eta alpha^2)), is least for V = 0.6 target.

    With x = V / eta its derivative is 0 where x = log(1 + x) - 2 log(alpha), which repeating solves.
    """
    x = 1.0
    for _ in range(200):
        x = math.log1p(x) - 2 * math.log(alpha)
    return SHARE * target / x


def normal_reach(data, threshold, size, sigma):
    """(estimate, reach below, reach above) of the normal mixture; infinite where it is not to be trusted."""
    n = len(data)
    w = sum(u for _, u in data)
    v = sum(u**2 for _, u in data)
    q = sum(u * y for y, u in data) / w
    below = above = 1.0
    if sigma is None:
        mean = sum(y for y, _ in data) / n
        variance = sum((y - mean) ** 2 for y, _ in data) / n
        if w**2 / v < 25 - 1e-6 or variance <= 1e-14:
            return q, math.inf, math.inf
        skew = sum((y - mean) ** 3 for y, _ in data) / n / variance**1.5 * sum(u**3 for _, u in data) / v**1.5
        doubt = (sum((y - mean) ** 4 for y, _ in data) / n / variance**2 - 1) / (w**2 / v)
        if abs(skew) > 0.5 or doubt > 0.1 + 1e-9:
            return q, math.inf, math.inf
        sigma = math.sqrt(variance * n / (n - 1))
        s = abs(skew)
        further = (1 + s) * math.sqrt(1 + 3 * s + 10 * s**2 + 40 * s * math.sqrt(max(doubt - s**2, 0)))
        below, above = (further, 1.0) if skew < 0 else (1.0, further)
    reach = sigma / w * math.sqrt((v + size) * (2 * threshold + math.log((v + size) / size)))
    return q, reach * below, reach * above


def bernstein_reach(data, threshold, target, alpha, bounds):
    """Section 3 of the documentation's page, word by word."""
    low, high = bounds
    scaled = [((y - low) / (high - low), u) for y, u in data]
    bets, means = [], []
    for i, (_, u) in enumerate(scaled):
        before = [x for x, _ in scaled[:i]]
        mean = sum(before) / max(i, 1)
        variance = (0.25 + sum((x - mean) ** 2 for x in before)) / (i + 1)
        bets.append(min(0.5, u * math.sqrt(2 * math.log(2 / alpha) / (variance * SHARE * target))))
        means.append((0.5 + sum(before)) / (i + 1))
    total = sum(bets)
    centre = sum(b * x for b, (x, _) in zip(bets, scaled, strict=True)) / total
    prices = [-math.log(1 - b) - b for b in bets]
    cost = sum((x - m) ** 2 * price for (x, _), m, price in zip(scaled, means, prices, strict=True))
    radius = (threshold + math.log(2) + cost) / total
    return low + centre * (high - low), radius * (high - low), radius * (high - low)


def beta_mixture(ones, zeros, mean, sizes):
    """Log of the mixture martingale: marginal likelihood under priors centred on the mean, over the likelihood."""
    parts = []
    for r, weight in zip(sizes, WEIGHTS, strict=True):
        a, b = r * mean, r * (1 - mean)
        parts.append(math.log(weight) + special.betaln(a + ones, b + zeros) - special.betaln(a, b))
    return special.logsumexp(parts) - special.xlogy(ones, mean) - special.xlog1py(zeros, -mean)


def beta_reach(data, threshold, sizes):
    n, ones = len(data), sum(y for y, _ in data)
    share = ones / n

    def gap(mean):
        return beta_mixture(ones, n - ones, mean, sizes) - threshold

    first, last = 1e-12, 1 - 1e-12
    inside = min(max(share, first), last)
    low = 0.0 if ones == 0 or gap(first) <= 0 else optimize.brentq(gap, first, inside, xtol=1e-14)
    high = 1.0 if ones == n or gap(last) <= 0 else optimize.brentq(gap, inside, last, xtol=1e-14)
    return share, share - low, high - share


class Twin:
    """Intervals, first exclusions and p-values by recomputing everything at every moment."""

    def __init__(self, kind, arms, level, target, *, sigma=None, bounds=None, null=None):
        self.kind, self.arms, self.alpha, self.target = kind, arms, 1 - level, target
        self.sigma, self.bounds, self.null = sigma, bounds, null or [0.0] * arms
        self.size = eta(target, self.alpha)
        self.sizes = [self.size / math.sqrt(arms) * s for s in SIZES]

    def reach(self, data, threshold):
        if self.kind == "bernstein":
            return bernstein_reach(data, threshold, self.target, self.alpha, self.bounds)
        if self.kind == "beta_binomial":
            return beta_reach(data, threshold, self.sizes)
        return normal_reach(data, threshold, self.size, self.sigma if self.kind == "sub_gaussian" else None)

    def interval(self, events, a, b=None, threshold=None):
        """(estimate, low, high) of arm a, or of a minus b, without regard to bounds."""
        threshold = math.log(1 / self.alpha) if threshold is None else threshold
        own = [(y, 1 / math.sqrt(p)) for _, k, y, p in events if k == a]
        if not own:
            return math.nan, -math.inf, math.inf
        q, below, above = self.reach(own, threshold)
        if b is None:
            return q, q - below, q + above
        other = [(y, 1 / math.sqrt(p)) for _, k, y, p in events if k == b]
        if not other:
            return math.nan, -math.inf, math.inf
        r, under, over = self.reach(other, threshold)
        return q - r, q - r - math.hypot(below, over), q - r + math.hypot(above, under)

    def first(self, events, a, b=None, together=1):
        """The first arrival time after which the interval excludes the null."""
        null = self.null[a] - (0 if b is None else self.null[b])
        threshold = math.log(together / self.alpha)
        for time in sorted({e[0] for e in events}):
            estimate, low, high = self.interval([e for e in events if e[0] <= time], a, b, threshold)
            if not math.isnan(estimate) and not low <= null <= high:
                return time
        return None

    def p_value(self, events, a, b=None):
        """The smallest alpha at which any arrival's interval excluded the null: halving the threshold at each."""
        null = self.null[a] - (0 if b is None else self.null[b])
        best = 0.0
        for time in sorted({e[0] for e in events}):
            arrived = [e for e in events if e[0] <= time]

            def excluded(threshold, arrived=arrived):
                estimate, low, high = self.interval(arrived, a, b, threshold)
                return not math.isnan(estimate) and not low <= null <= high

            if not excluded(best):
                continue
            low, high = best, best + 1
            while excluded(high) and high < 600:
                high *= 2
            for _ in range(50):
                middle = (low + high) / 2
                low, high = (middle, high) if excluded(middle) else (low, middle)
            best = low
        return min(1.0, math.exp(-best))


# ---------------------------------------------------------------- over segments


def naive_standardised(log, layout, arm, baseline, target, level=0.95):
    """The estimate and limits of a sequence over segments, from rows, as docs/sequences.md has the formulas."""
    alpha = 1 - level
    threshold = math.log(1 / alpha)
    eta = 0.6 * target / (-1 - float(special.lambertw(-(alpha**2) / math.e, -1).real))
    exists = np.zeros(len(log.code), bool)
    exists[log.schedule.existing] = True
    names = np.array(layout.labels)[layout.place][log.segment_column.code]
    chances = _naive_chances(log, layout, exists)
    binary = set(np.unique(log.outcome[log.arrived])) <= {0.0, 1.0}
    signs = {arm: 1.0} | ({} if baseline is None else {baseline: -1.0})
    n, effects, shares, parts = exists.sum(), [], [], []
    for s in layout.labels:
        shares.append((exists & (names == s)).sum() / n)
        effects.append(0.0)
        for a, sign in signs.items():
            mine = exists & log.arrived & (names == s) & (log.code == log.arms.index(a))
            y, pi = log.outcome[mine], log.propensity[mine, log.arms.index(a)]
            even = layout.merged and s == layout.labels[-1]
            w = 1 / pi if even else 1 / np.sqrt(pi)
            if even and chances is not None:
                w = w / chances[log.segment_column.code[mine], log.arms.index(a)]
            effects[-1] += sign * (math.nan if not len(y) else y.mean() if binary else w @ y / w.sum())
            parts.append((shares[-1] * sign, y, w))
    effects, shares = np.array(effects), np.array(shares)
    tau = shares @ effects
    bottom, top = (-math.inf, math.inf) if not binary else (0, 1) if baseline is None else (-1, 1)
    if any((len(y) if binary else len(y) and w.sum() ** 2 / (w**2).sum()) < 10 for _, y, w in parts):
        return tau, bottom, top
    a_shares = (shares @ effects**2 - tau**2) / n * (1 + eta / n)
    squared = np.full(2, a_shares * (2 * threshold + math.log1p(n / eta)))
    if binary:
        plan = _naive_plan(max(round(target / len(shares)), 1), alpha, len(log.arms))
        for coefficient, y, _ in parts:
            low, high = (naive_beta_limit(y.sum(), len(y), threshold, upper, plan) for upper in (False, True))
            reaches = np.array([y.mean() - low, high - y.mean()])
            squared += coefficient**2 * (reaches if coefficient > 0 else reaches[::-1]) ** 2
    else:
        own, leans, doubts, cells = zip(
            *(_naive_cell(*part, eta / len(shares), threshold) for part in parts), strict=True
        )
        own, leans, doubts = map(np.array, (own, leans, doubts))
        if (own**1.5 @ leans) / own.sum() ** 1.5 > 0.5 or (own**2 @ doubts) / own.sum() ** 2 > 0.2:
            return tau, bottom, top
        squared += sum(cells)
    return tau, max(tau - math.sqrt(squared[0]), bottom), min(tau + math.sqrt(squared[1]), top)


def _naive_chances(log, layout, exists):
    """How likely outcomes arrive by segment and arm, where segments were merged; None: alike."""
    merged = [s for s, label in enumerate(log.segment_column.labels) if label in layout.merged]
    cells = [
        [(int((mine := exists & (log.segment_column.code == s) & (log.code == a)).sum()), int(log.arrived[mine].sum()))
         for a in range(len(log.arms))]
        for s in merged
    ]  # fmt: skip
    known = merged_chances(cells) if cells else None
    if known is None:
        return None
    chances = np.ones((len(log.segment_column.labels), len(log.arms)))
    chances[merged] = known
    return chances


def _naive_cell(coefficient, y, w, eta, threshold):
    """A cell's variance, skewness, doubt about the variance, and squared lower and upper reach."""
    total, r, v = w.sum(), y - w @ y / w.sum(), (w**2).sum()
    lead = w.max() / total
    hc3 = ((w * r) @ (w * r) + (2 - lead) / (1 - lead) ** 2 * (w**3 @ r**2) / total) / total**2
    variance = coefficient**2 * max(hc3, y.var(ddof=1) * v / total**2)
    z = (y - y.mean()) / y.std()
    skew = (z**3).mean() * (w**3).sum() / v**1.5
    doubt = max((z**4).mean() - 1, 0) * v / total**2
    further = (1 + abs(skew)) ** 2 * (1 + math.sqrt(doubt) + 3 * doubt)
    scale = variance * (1 + eta / v) * (2 * threshold + math.log1p(v / eta))
    sides = [1, further] if coefficient * skew > 0 else [further, 1]
    return variance, abs(skew), doubt, scale * np.array(sides)


def _naive_plan(target, alpha, arms):
    ratio = -1 - float(special.lambertw(-(alpha**2) / math.e, -1).real)
    sizes = [0.6 * target / math.sqrt(arms) / ratio * size for size in (1.0, 1 / 12, 1 / 150)]
    return list(zip(sizes, (0.85, 0.1, 0.05), strict=True))


def naive_beta_limit(ones, n, threshold, upper, plan):
    """The last mean on one side at which a mixture of beta-binomials stays below the threshold."""
    share = ones / n
    if share == float(upper):
        return share

    def excess(mean):
        logs = [
            math.log(weight) + special.betaln(r * mean + ones, r * (1 - mean) + n - ones)
            - special.betaln(r * mean, r * (1 - mean)) for r, weight in plan
        ]  # fmt: skip
        return special.logsumexp(logs) - special.xlogy(ones, mean) - special.xlog1py(n - ones, -mean) - threshold

    edge = 1 - 1e-12 if upper else 1e-12
    return optimize.brentq(excess, share, edge, xtol=1e-12)
