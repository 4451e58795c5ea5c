"""A slow, obvious twin: the formulas of the design, row by row, in exact arithmetic.

Rows are numbered 0, 1, ...; `arm` holds arm numbers; `propensity` has every arm's column. Times are
anything that can be compared; `arrived` is None where the outcome never comes, and `as_of` is None
when everything that ever arrives counts. Only 1 / pi and the weights h are rounded to floats; every
sum is of fractions, so that a disagreement is never this file's rounding.
"""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
from scipy import stats

ESTIMATORS = {
    "daipw": ("sqrt", "running_mean", "hajek"),
    "daipw_paper": ("sqrt", "running_mean_from_zero", "hajek"),
    "dipw": ("sqrt", "zero", "hajek"),
    "mean": ("propensity", "zero", "hajek"),
    "hajek": ("uniform", "zero", "hajek"),
    "nh": ("sqrt", "running_mean", "plain"),
    "nh0": ("sqrt", "zero", "plain"),
    "iad": ("sqrt", "zero", "arrived"),
}

#: What `estimate` gives by arm. The scales are how large the terms are that cancel in a value and in a variance, which
#: rounding is relative to; `rest` is what the row with the largest weight leaves to the others.
ANSWERS = ("observed_share", "values", "variances", "effective_size", "inflation", "t_variances", "true_hc3", "rest")
SCALES = ("value_scale", "variance_scale")


def has_arrived(arrived, t, as_of):
    return arrived[t] is not None and (as_of is None or arrived[t] <= as_of)


def existing(assigned, as_of):
    return [t for t in range(len(assigned)) if as_of is None or assigned[t] <= as_of]


def history(assigned, arrived, t):
    """Rows assigned strictly before row t that arrived at or before it."""
    return [s for s in range(len(assigned)) if assigned[s] < assigned[t] and has_arrived(arrived, s, assigned[t])]


def running_mean(arm, outcome, assigned, arrived, k):
    """mu_hat_t(a): the mean of the history's outcomes of the arm, None before any; T lists of k fractions."""
    mu = []
    for t in range(len(arm)):
        before = history(assigned, arrived, t)
        by_arm = [[Fraction(outcome[s]) for s in before if arm[s] == a] for a in range(k)]
        mu.append([sum(ys, Fraction()) / len(ys) if ys else None for ys in by_arm])
    return mu


def weights(choice, propensity, assigned):
    """h_t(a), T lists of k floats; the choice is a name or ("two_point", horizon or None, decay)."""
    pi = [[float(p) for p in row] for row in propensity]
    if choice == "sqrt":
        return [[math.sqrt(p) for p in row] for row in pi]
    if choice == "propensity":
        return pi
    if choice == "uniform":
        return [[1.0 for _ in row] for row in pi]
    _, horizon, decay = choice
    horizon = len(pi) if horizon is None else horizon
    h = [[0.0 for _ in row] for row in pi]
    for a in range(len(pi[0]) if pi else 0):
        before = []
        for t, row in enumerate(sorted(range(len(pi)), key=lambda s: assigned[s]), start=1):
            p = pi[row][a]
            lam = (1 - p) * (1 - decay) / ((1 - decay) + horizon * (t / horizon) ** decay - t) + p / (1 + horizon - t)
            b = lam * (1 - math.fsum(before))
            before.append(b)
            h[row][a] = math.sqrt(b * p)
    return h


def estimate(estimator, arm, outcome, propensity, assigned, arrived, as_of=None):
    """`ANSWERS` and `SCALES`, by arm; the estimator is a name or (h, mu, normalisation).

    h is a name, ("two_point", horizon or None, decay) or an array; mu a name or an array.
    """
    h, mu, normalisation = ESTIMATORS[estimator] if isinstance(estimator, str) else estimator
    k = np.shape(propensity)[1]
    ever = [[float(x) for x, b in zip(outcome, arm, strict=True) if b == a and not math.isnan(x)] for a in range(k)]
    rows = existing(assigned, as_of)
    arm, outcome, propensity, assigned, arrived, h, mu = (
        x if isinstance(x, str | tuple) else [x[t] for t in rows]
        for x in (arm, outcome, propensity, assigned, arrived, h, mu)
    )
    if isinstance(h, str | tuple):
        h = weights(h, propensity, assigned)
    has_model, given = not isinstance(mu, str) or mu != "zero", not isinstance(mu, str)
    from_zero = normalisation != "hajek" or mu == "running_mean_from_zero"
    if not given:
        mu = [[0] * k for _ in rows] if mu == "zero" else running_mean(arm, outcome, assigned, arrived, k)
    has_outcome = [has_arrived(arrived, t, as_of) for t in range(len(rows))]
    y = [Fraction(outcome[t]) if has_outcome[t] else None for t in range(len(rows))]
    by_arm = []
    for a in range(k):
        gamma = [Fraction(1 / propensity[t][a]) if has_outcome[t] and arm[t] == a else 0 for t in range(len(rows))]
        root = [Fraction(x[a]) for x in h]
        total = sum(root[t] * gamma[t] for t in range(len(rows)))
        weighted = sum(root[t] * gamma[t] * y[t] for t in range(len(rows)) if gamma[t])
        start = 0 if from_zero or not total else weighted / total
        exact = root, [Fraction(start if x[a] is None else x[a]) for x in mu], gamma, y, normalisation
        answer = _one_arm(*exact)
        if given and normalisation == "hajek" and total:
            about_model(answer, *exact[:4])
        answer.value_scale, answer.variance_scale = _scales(*exact, answer.values, ever[a], has_model)
        answer.variance_scale += answer.value_scale**2 if given else 0.0
        by_arm.append(answer)
    return SimpleNamespace(
        **{name: np.array([getattr(answer, name) for answer in by_arm]) for name in ANSWERS + SCALES}
    )


def _one_arm(h, mu, gamma, y, normalisation):
    rows = range(len(h))
    w = {t: h[t] * gamma[t] for t in rows if gamma[t]}
    sum_h, sum_w = sum(h), sum(w.values())
    answer = SimpleNamespace(observed_share=float(sum_w / sum_h) if sum_h else math.nan)
    if not sum_w:
        for name in ANSWERS[1:]:
            setattr(answer, name, math.nan)
        return answer

    if normalisation == "hajek":
        q = sum(w[t] * (y[t] - mu[t]) for t in w) / sum_w + sum(h[t] * mu[t] for t in rows) / sum_h
        v = sum(w[t] ** 2 * (y[t] - q) ** 2 for t in w) / sum_w**2
    else:
        share = 1 if normalisation == "plain" else sum(h[t] for t in rows if y[t] is not None) / sum_h
        z = [(y[t] - mu[t]) * gamma[t] / share + mu[t] if t in w else mu[t] for t in rows]
        q = sum(h[t] * z[t] for t in rows) / sum_h
        v = sum(h[t] ** 2 * (z[t] - q) ** 2 for t in rows) / sum_h**2
    answer.values, answer.variances = float(q), float(v)
    answer.effective_size = float(sum_w**2 / sum(x**2 for x in w.values()))
    arrived = list(w.values()), [y[t] for t in w]
    answer.inflation = float(inflation(*arrived))
    answer.t_variances, answer.true_hc3 = float(t_variance(*arrived, q)), float(true_hc3(*arrived))

    answer.rest = float(1 - max(w.values()) / sum_w)
    return answer


def about_model(answer, h, mu, gamma, y):
    """Take variances about a model that users give: of the terms of the estimate, w (y - mu) / W and h mu / H."""
    rows = range(len(h))
    w = {t: h[t] * gamma[t] for t in rows if gamma[t]}
    sum_h, sum_w = sum(h), sum(w.values())
    residual, model = sum(w[t] * (y[t] - mu[t]) for t in w) / sum_w, sum(h[t] * mu[t] for t in rows) / sum_h
    first = [w[t] * (y[t] - mu[t] - residual) / sum_w if t in w else 0 for t in rows]
    second = [h[t] * (mu[t] - model) / sum_h for t in rows]
    own, other = sum(x**2 for x in first), sum(x**2 for x in second)
    whole = max(sum((a + b) ** 2 for a, b in zip(first, second, strict=True)), other)
    answer.variances = float(whole)
    residuals = list(w.values()), [y[t] - mu[t] for t in w]
    answer.inflation = float(inflation(*residuals))
    answer.t_variances = float(t_variance(*residuals, residual)) + float(whole - own)
    answer.true_hc3 = float(true_hc3(*residuals)) + float(whole - own)


def _scales(h, mu, gamma, y, normalisation, q, ever, has_model):
    """Scales of terms of sums about any outcome of the arm, arrived or not; no model is exactly 0 wherever they are."""
    if math.isnan(q):
        return math.nan, math.nan
    h, mu, gamma = ([float(x) for x in column] for column in (h, mu, gamma))
    own = [t for t in range(len(h)) if gamma[t]]
    w = {t: h[t] * gamma[t] for t in own}
    miss = {t: abs(float(y[t]) - mu[t]) for t in own}
    far = [max(abs(m - min(ever)), abs(m - max(ever))) for m in mu]
    size, reach = max(map(abs, ever)), max(*ever, q) - min(*ever, q)
    sum_h, sum_w = sum(h), sum(w.values())
    modelled = size + sum(h[t] * far[t] for t in range(len(h))) / sum_h if has_model else 0  # a model is rounded too
    if normalisation == "hajek":
        residuals = reach + (sum(w[t] * miss[t] for t in own) / sum_w if has_model else 0)
        variance = reach * (reach + residuals + modelled) * sum(x**2 for x in w.values()) / sum_w**2
    else:
        share = 1 if normalisation == "plain" else sum(h[t] for t in range(len(h)) if y[t] is not None) / sum_h
        residuals = sum(w[t] * (miss[t] + size) for t in own) / (share * sum_h)
        variance = sum((w[t] * miss[t] / share) ** 2 for t in own) / sum_h**2
        variance += sum((h[t] * (far[t] + reach)) ** 2 for t in range(len(h))) / sum_h**2
    return size + residuals + modelled, variance


def homoskedastic(w, y):
    """The sample variance of the outcomes times sum w^2 / W^2."""
    mean = sum(y) / len(y)
    return sum((x - mean) ** 2 for x in y) / (len(y) - 1) * sum(x**2 for x in w) / sum(w) ** 2


def hc3_bound(w, y):
    """A bound of HC3: 1 / (1 - l)^2 is replaced by the chord from l = 0 to the largest leverage."""
    total = sum(w)
    top = max(w) / total
    slope = (1 / (1 - top) ** 2 - 1) / top
    mean = sum(x * v for x, v in zip(w, y, strict=True)) / total
    return sum(x**2 * (v - mean) ** 2 * (1 + x / total * slope) for x, v in zip(w, y, strict=True)) / total**2


def t_variance(w, y, q):
    """The larger of the homoskedastic variance and a bound of HC3, plus the square of what the model moved."""
    if len(w) < 2 or max(w) == sum(w):
        return math.nan
    mean = sum(x * v for x, v in zip(w, y, strict=True)) / sum(w)
    return max(homoskedastic(w, y), hc3_bound(w, y)) + (q - mean) ** 2


def inflation(w, y):
    """How far the bound of HC3 exceeds the homoskedastic variance, at least 1."""
    if len(w) < 2 or max(w) == sum(w) or homoskedastic(w, y) == 0:
        return 1.0
    return max(hc3_bound(w, y) / homoskedastic(w, y), 1)


def true_hc3(w, y):
    """HC3 = sum w^2 e^2 / (1 - w / W)^2 / W^2, with residuals about the weighted mean."""
    total = sum(w)
    if len(w) < 2 or max(w) == total:
        return math.nan
    mean = sum(x * v for x, v in zip(w, y, strict=True)) / total
    return sum((x * (v - mean) / (1 - x / total)) ** 2 for x, v in zip(w, y, strict=True)) / total**2


def trajectory(estimator, arm, outcome, propensity, assigned, arrived, moments):
    return [estimate(estimator, arm, outcome, propensity, assigned, arrived, moment) for moment in moments]


def wilson(rate, effective_size, inflation, level):
    """The score interval of a rate at the inflated size, with Student's quantile at the effective size minus 1."""
    z = stats.t.ppf((1 + level) / 2, max(effective_size - 1, 1))
    size = effective_size / inflation
    centre = (rate + z**2 / (2 * size)) / (1 + z**2 / size)
    reach = z * math.sqrt(rate * (1 - rate) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
    return centre - reach, centre + reach


def skewness(y):
    """The third central moment over the standard deviation's third power, adjusted for the sample's size."""
    n = len(y)
    mean = sum(y) / n
    second, third = (sum((v - mean) ** power for v in y) / n for power in (2, 3))
    if n < 3 or second == 0:
        return 0.0
    return math.sqrt(n * (n - 1)) / (n - 2) * float(third) / float(second) ** 1.5


def skew(value, variance, effective_size, y, level):
    """The t interval, whose side of the long tail reaches to where (x / r)^2 = 1 + 2 k x / r."""
    t = stats.t.ppf((1 + level) / 2, max(effective_size - 1, 1))
    g, r = skewness(y), t * math.sqrt(variance)
    k = min(abs(g) / 2 * (1 + 4 / math.sqrt(len(y))) * t / math.sqrt(effective_size), 0.75)
    far = r * max(np.roots([1, -2 * k, -1]).real)
    return value - (far if g < 0 else r), value + (far if g > 0 else r)


def mover(rates, intervals):
    """The interval of the first rate minus the second."""
    (p, q), ((p_low, p_high), (q_low, q_high)) = rates, intervals
    return p - q - math.hypot(p - p_low, q_high - q), p - q + math.hypot(p_high - p, q - q_low)


def delay_from(u, table, never, tail):
    """Turn a uniform number into a delay by inverting the distribution function; infinite for never."""
    values, cumulative = table
    for value, chance in zip(values, cumulative, strict=True):
        if u < chance * (1 - never):
            return float(value)
    if u >= 1 - never or tail[0] not in ("pareto", "geometric"):
        return math.inf
    u /= 1 - never
    if tail[0] == "pareto":
        shape, scale = tail[1]
        return float(math.floor(scale * (1 - u) ** (-1 / shape) - scale))
    return float(math.floor(math.log1p(-u) / math.log1p(-tail[1][0])))


def epsilon_greedy_run(means, sds, tables, never, tails, c, decay, burn_in, batch, horizon, rng, block=1024):
    """Run a bandit with normal outcomes, step by step, looking back at all of history at every decision.

    Random numbers come in blocks of rows: uniforms for the choices, normals, and uniforms for the
    delays unless every outcome comes at once. The best arm is chosen by uniforms from eps on.
    """
    arms = len(means)
    sure = all(n == 0 and list(t[0]) == [0.0] for t, n in zip(tables, never, strict=True))
    rows = SimpleNamespace(arm=[], outcome=[], delay=[], propensity=[])
    p, best = [1 / arms] * arms, None
    for t in range(1, horizon + 1):
        at = (t - 1) % block
        if at == 0:
            size = min(block, horizon - t + 1)
            choice, noise = rng.random(size), rng.standard_normal(size)
            lateness = np.zeros(size) if sure else rng.random(size)
        if t > burn_in and (t - burn_in - 1) % batch == 0:
            known = [[] for _ in means]
            for s, (arm, y, d) in enumerate(zip(rows.arm, rows.outcome, rows.delay, strict=True), start=1):
                if s + max(d, 1) <= t:
                    known[arm].append(y)
            averages = [math.fsum(ys) / len(ys) if ys else 0.0 for ys in known]
            best = averages.index(max(averages))
            eps = min(c * t**-decay, (arms - 1) / arms)
            p = [eps / (arms - 1)] * arms
            p[best] = 1 - eps
        u = choice[at]
        if best is None:
            arm = next(k for k in range(arms) if u < sum(p[: k + 1]) or k == arms - 1)
        elif u >= eps:
            arm = best
        else:
            arm = [k for k in range(arms) if k != best][min(int(u / p[best - 1]), arms - 2)]
        at_once = never[arm] == 0 and list(tables[arm][0]) == [0.0]
        rows.arm.append(arm)
        rows.outcome.append(means[arm] + sds[arm] * noise[at])
        rows.delay.append(0.0 if at_once else delay_from(lateness[at], tables[arm], never[arm], tails[arm]))
        rows.propensity.append(p)
    return rows
