"""A slow, obvious twin of sequences of events while windows are open: every sum from the rows, at every look.

`rows` are (arm number, propensity, time), `events` (row, age, value): of an indicator only the first of each row, with
value 1.
"""

import math
from functools import cache

from scipy import optimize

from naive.sequences import SIZES, beta_mixture, eta


class Twin:
    """Intervals and p-values by recomputing everything."""

    def __init__(self, rows, events, arms, *, window, measure, level, target, lag=0.0):
        self.rows, self.events, self.arms, self.window, self.measure, self.lag = (
            rows,
            events,
            arms,
            window,
            measure,
            lag,
        )
        self.alpha, self.eta = 1 - level, eta(target, 1 - level)
        self.sizes = [self.eta / math.sqrt(arms) * size for size in SIZES]

    @cache  # noqa: B019 - a twin lives as long as its test
    def psi(self, arm, now, weighted):
        """(mean, psi of each row, weights, [(R(d), V(d), w, v) of each event], ages) of an arm."""
        own = {
            i: (1 / math.sqrt(p) if weighted else 1.0, min(now - self.lag - t, self.window))
            for i, (a, p, t) in enumerate(self.rows)
            if a == arm and t <= now - self.lag
        }
        happened = [(i, d, v) for i, d, v in self.events if i in own and d <= own[i][1]]

        def at_risk(age, power=1):
            return sum(w**power for w, lived in own.values() if lived >= age)

        facts = [(at_risk(d), at_risk(d, 2), own[i][0], v) for i, d, v in happened]
        mean = sum(w * v / risk for risk, _, w, v in facts)
        terms = []
        for i, (w, lived) in own.items():
            known = list(zip(happened, facts, strict=True))
            mine = sum(v / risk for (j, _, v), (risk, *_) in known if j == i)
            others = sum(weight * v / risk**2 for (_, d, v), (risk, _, weight, _) in known if d <= lived)
            terms.append(w * (mine - others))
        return mean, terms, [w for w, _ in own.values()], facts, own

    def reach(self, arm, now, threshold):
        """(estimate, lower reach, upper reach) of an arm."""
        weighted = self.measure != "indicator"
        mean, psi, w, facts, own = self.psi(arm, now, weighted)
        closed = [u for u, lived in own.values() if lived >= self.window]
        variance = sum(x**2 for x in psi)
        if not closed:
            return math.nan, math.inf, math.inf
        if not weighted:
            if len(closed) < 10 or len(facts) < 2:
                return mean, math.inf, math.inf
            size = mean * (1 - mean) / variance

            def gap(value):
                return beta_mixture(size * mean, size * (1 - mean), value, self.sizes) - threshold

            low, high = (optimize.brentq(gap, end, mean, xtol=1e-14) for end in (1e-12, 1 - 1e-12))
            return mean, mean - low, high - mean
        g = sum(x**3 for x in psi) / variance**1.5
        u = max(0.0, sum(x**4 for x in psi) / variance**2 - sum(x**2 for x in w) / sum(w) ** 2)
        size = sum(closed) ** 2 / sum(x**2 for x in closed)
        if size < 25 or abs(g) > 0.5 or u > 0.2:
            return mean, math.inf, math.inf
        squares = sum(x * v**2 / r for r, _, x, v in facts) / sum(x * v**2 / (r * s) for r, s, x, v in facts)
        m = (1 + abs(g)) ** 2 * (1 + 3 * math.sqrt(u) + 10 * u if self.measure == "sum" else 1 + math.sqrt(u) + 3 * u)
        square = variance * (1 + self.eta / squares) * (2 * threshold + math.log(1 + squares / self.eta))
        short, long = math.sqrt(square), math.sqrt(square * m)
        return (mean, short, long) if g > 0 else (mean, long, short)

    def interval(self, now, a, b=None, threshold=None):
        """(estimate, low, high) of arm a, or of a minus b."""
        threshold = math.log(1 / self.alpha) if threshold is None else threshold
        q, below, above = self.reach(a, now, threshold)
        if b is None:
            return q, q - below, q + above
        r, under, over = self.reach(b, now, threshold)
        return q - r, q - r - math.hypot(below, over), q - r + math.hypot(above, under)

    def p_value(self, looks, null, a, b=None):
        """The smallest alpha at which the interval of any look leaves out the null."""
        best = 0.0
        for now in looks:
            low, high = 0.0, 60.0

            def excluded(threshold, now=now):
                estimate, bottom, top = self.interval(now, a, b, threshold)
                return not (math.isnan(estimate) or bottom <= null <= top)

            if not excluded(1e-9):
                continue
            for _ in range(40):
                middle = (low + high) / 2
                low, high = (middle, high) if excluded(middle) else (low, middle)
            best = max(best, low)
        return math.exp(-best)
