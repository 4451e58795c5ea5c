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
    if choice == "past":
        h = []
        for t in range(len(pi)):
            before = [pi[s] for s in range(len(pi)) if assigned[s] < assigned[t]]
            inverse = [[1 / row[a] for row in before if row[a] > 0] for a in range(len(pi[t]))]
            h.append([(math.fsum(x) / len(x)) ** -0.5 if x else len(pi[t]) ** -0.5 for x in inverse])
        return h
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


def central(y, about=None):
    """The second to fourth moments about the mean, or about another value."""
    centre = sum(y) / len(y) if about is None else about
    return [sum((v - centre) ** power for v in y) / len(y) for power in (2, 3, 4)]


def asymmetry(second, third, fourth):
    """Skewness, and how far the kurtosis exceeds its least value: 0 for two values, 2 for normal outcomes."""
    if second == 0:
        return 0.0, 0.0
    g = float(third) / float(second) ** 1.5
    return g, max(float((fourth * second - second**3 - third**2) / second**3), 0.0)


def score(arms, everyone, coefficients, level):
    """The score interval of sum c theta; arms are (value, variance, effective size, outcomes), exact outcomes.

    The formulas of docs/method.md, one at a time.
    """
    g_all, r_all = asymmetry(*central(everyone))
    rarer = len(everyone) * (1 - abs(g_all) / math.sqrt(g_all**2 + 4)) / 2
    lam = min(1.0, 1 / rarer**2 + 30 * r_all / (1 + g_all**2 + r_all))
    rows = []
    for c, (value, variance, size, y) in zip(coefficients, arms, strict=True):
        if len(set(y)) == 1:
            second, third, fourth = central(everyone, y[0])
            jump = float(third / second)
            rows.append(SimpleNamespace(
                c=c, value=value, size=size, sign=jump, far=abs(jump) / size, near=abs(jump) / size,
                variance=variance + float((1 - third**2 / (second * fourth)) * second) / size,
                curvature=1 - lam, doubt=min(1.0, (g_all**2 + r_all) / len(everyone)),
            ))  # fmt: skip
            continue
        borrowed = lam / (len(y) + 1)
        moments = central(y)
        own = asymmetry(*moments)
        g, r = ((1 - borrowed) * a + borrowed * b for a, b in zip(own, (g_all, r_all), strict=True))
        rows.append(SimpleNamespace(
            c=c, value=value, size=size, sign=g, far=abs(g) * math.sqrt(variance / size),
            near=abs(g) * math.sqrt(moments[0]) / size, variance=variance,
            curvature=(1 - lam) * max(0.0, 1 - r / 2), doubt=min(1.0, (g**2 + r) / len(y)),
        ))  # fmt: skip
    by_variance = sum(row.c**2 * (row.variance + row.far**2) for row in rows)
    by_size = sum(row.c**2 / row.size for row in rows)
    below = above = 0.0
    for row in rows:
        share = max(row.c**2 * (row.variance + row.far**2) / by_variance, row.c**2 / row.size / by_size)
        sizes, spread = max(row.size - 1, 1) / share, lam * row.doubt * share / 2
        t = stats.t.ppf((1 + level) / 2, max(1, 1 / max(1 / sizes, spread)))
        s = stats.t.ppf((1 + level) / 2, max(1, 1 / max((1 - lam) / sizes, spread)) if lam else 1e9)
        s = s if lam < 1 or spread > 0 else stats.norm.ppf((1 + level) / 2)
        bend = 1 + share * s**2 * row.curvature / row.size
        slope = s**2 * row.far * min(1, 3 * math.sqrt(share)) * (1 + 2.5 * lam * row.doubt * share**2)
        far = max(np.roots([bend, -slope, -(t**2) * row.variance]).real)
        slope = t**2 * row.near * math.sqrt(share) * (1 - lam)
        near = max(np.roots([bend, slope, -(t**2) * row.variance]).real)
        up, down = (far if row.sign > 0 else near), (far if row.sign < 0 else near)
        below += (row.c * (down if row.c > 0 else up)) ** 2
        above += (row.c * (up if row.c > 0 else down)) ** 2
    estimate = sum(row.c * row.value for row in rows)
    return estimate - math.sqrt(below), estimate + math.sqrt(above)


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


def contrast_about_model(h, mu, arm, outcome, propensity, arrived, a, b):
    """The variance of arm a minus arm b about a given model: the sum of squares of what each row adds to it."""
    total = 0
    rows = range(len(arm))
    terms = []
    for k in (a, b):
        own = [t for t in rows if arm[t] == k and arrived[t] is not None]
        w = {t: h[t][k] / propensity[t][k] for t in own}
        sum_w, sum_h = sum(w.values()), sum(h[t][k] for t in rows)
        residual = sum(w[t] * (outcome[t] - mu[t][k]) for t in own) / sum_w
        model = sum(h[t][k] * mu[t][k] for t in rows) / sum_h
        part = [h[t][k] * (mu[t][k] - model) / sum_h for t in rows]
        for t in own:
            part[t] += w[t] * (outcome[t] - mu[t][k] - residual) / sum_w
        terms.append(part)
    for first, second in zip(*terms, strict=True):
        total += (first - second) ** 2
    return total
