"""Slow twins of estimates by segment, adjusted for covariates, and of the values of policies that look at the unit.

Rows are numbered 0, 1, ...; `arm` and `segment` hold numbers, `propensity` has every arm's column, an outcome that is
missing is NaN, and everything that arrives does so at once. `x` has a list of covariates for each row.
"""

import math

import numpy as np

FEW_PER_COVARIATE = 5


def cell_of_rows(arm, outcome, propensity, segment, a, s):
    """The rows of a cell that have an outcome, and their weights h / pi with h = sqrt(pi)."""
    rows = [t for t in range(len(arm)) if arm[t] == a and segment[t] == s and not math.isnan(outcome[t])]
    return rows, [math.sqrt(propensity[t][a]) / propensity[t][a] for t in rows]


def weighted_mean(values, w):
    return sum(v * u for v, u in zip(values, w, strict=True)) / sum(w)


def about_mean(values):
    """The sum of squared deviations from the mean."""
    return sum((v - sum(values) / len(values)) ** 2 for v in values)


def covariance(x, rows):
    """Mean and covariance of the covariates of some rows, both over the number of rows."""
    mean = [sum(x[t][j] for t in rows) / len(rows) for j in range(len(x[0]))]
    away = [np.array(x[t]) - mean for t in rows]
    return np.array(mean), sum(np.outer(d, d) for d in away) / len(rows)


def slopes(arms, arm, outcome, propensity, segment, x, segments):
    """Slopes of the arms together, their covariance, and the factor that allows for having fitted them."""
    p = len(x[0])
    cxx, cxy, square, count, cells = np.zeros((p, p)), np.zeros(p), np.zeros((p, p)), 0, 0
    cells_of_deviations = []
    for s in range(segments):
        for a in arms:
            rows, w = cell_of_rows(arm, outcome, propensity, segment, a, s)
            if not rows:
                continue
            yw = weighted_mean([outcome[t] for t in rows], w)
            xw = np.array([weighted_mean([x[t][j] for t in rows], w) for j in range(p)])
            count, cells, deviations = count + len(rows), cells + 1, []
            for t, u in zip(rows, w, strict=True):
                dx, dy = np.array(x[t]) - xw, outcome[t] - yw
                cxx, cxy = cxx + u * np.outer(dx, dx), cxy + u * dx * dy
                square = square + u * u * np.outer(dx, dx)
                deviations.append((dx, dy))
            cells_of_deviations.append(deviations)
    inverse = np.linalg.inv(cxx)
    theta = inverse @ cxy
    s2 = sum(about_mean([dy - theta @ dx for dx, dy in cell]) for cell in cells_of_deviations) / (count - cells - p)
    return theta, s2 * inverse @ square @ inverse, (count - cells) / (count - cells - p)


def standardised(arm, outcome, propensity, segment, coefficients, *, x=None, shares=None):
    """The estimate and variance of sum over s, a of P_s c(s, a) Q(a | s) by `dipw` within cells.

    `coefficients` is c, a list of arms for each segment; `shares` are given, else those of the log.
    """
    n, segments, arms = len(arm), len(coefficients), len(coefficients[0])
    members = [[t for t in range(n) if segment[t] == s] for s in range(segments)]
    p_s = [len(rows) / n for rows in members] if shares is None else shares
    fits = {}
    if x is not None:
        for a in range(arms):
            arrived = sum(arm[t] == a and not math.isnan(outcome[t]) for t in range(n))
            own = arrived >= FEW_PER_COVARIATE * len(x[0])
            group = (a,) if own else tuple(range(arms))
            fits[a] = group, slopes(group, arm, outcome, propensity, segment, x, segments)
    tau, variance = [0.0] * segments, 0.0
    reach, away = {}, []
    for s in range(segments):
        if p_s[s] == 0:
            continue
        direction = 0.0
        mean, spread = (0.0, 0.0) if x is None else covariance(x, members[s])
        for a in range(arms):
            c = coefficients[s][a]
            if c == 0:
                continue
            rows, w = cell_of_rows(arm, outcome, propensity, segment, a, s)
            y = [outcome[t] for t in rows]
            yw, total = weighted_mean(y, w), sum(w)
            q, r, factor = yw, [v - yw for v in y], 1.0
            if x is not None:
                group, (theta, _, factor) = fits[a]
                xw = np.array([weighted_mean([x[t][j] for t in rows], w) for j in range(len(x[0]))])
                q = yw - theta @ (xw - mean)
                r = [v - theta @ (np.array(x[t]) - xw) for v, t in zip(r, rows, strict=True)]
                direction = direction + c * theta
                reach[group] = reach.get(group, 0.0) + p_s[s] * c * (xw - mean)
            largest = max(w) / total
            k = (2 - largest) / (1 - largest) ** 2
            hc3 = sum(u**2 * e**2 for u, e in zip(w, r, strict=True)) / total**2
            hc3 += k * sum(u**3 * e**2 for u, e in zip(w, r, strict=True)) / total**3
            even = about_mean(r) / (len(r) - 1) * sum(u**2 for u in w) / total**2
            variance += p_s[s] ** 2 * c**2 * factor * max(hc3, even)
            tau[s] += c * q
        if x is not None:
            away.append(p_s[s] ** 2 / len(members[s]) * direction @ spread @ direction)
    answer = sum(share * t for share, t in zip(p_s, tau, strict=True))
    if shares is None:
        variance += (sum(share * t**2 for share, t in zip(p_s, tau, strict=True)) - answer**2) / n
    variance += sum(away)
    for group, g in reach.items():
        a = next(a for a in fits if fits[a][0] == group)
        variance += g @ fits[a][1][1] @ g
    return answer, variance


def past_weights(propensity, segment):
    """h_t(a): the average of 1 / pi(a) over earlier rows of the segment, to the power -1/2; 1 before any."""
    h, before = [], {}
    for t, row in enumerate(propensity):
        earlier = before.setdefault(segment[t], [])
        h.append([(sum(1 / p[a] for p in earlier) / len(earlier)) ** -0.5 if earlier else 1.0 for a in range(len(row))])
        earlier.append(row)
    return h


def policy_value(arm, outcome, propensity, q, h):
    """The value of a target policy q, and its variance, on a log without segments: the formula with psi."""
    n, k = len(arm), len(q[0])
    mean_q = [sum(row[a] for row in q) / n for a in range(k)]
    w = [h[t][arm[t]] / propensity[t][arm[t]] * q[t][arm[t]] for t in range(n)]
    arrived = [t for t in range(n) if not math.isnan(outcome[t])]
    total = [sum(w[t] for t in arrived if arm[t] == a) for a in range(k)]
    ratio = [sum(w[t] * outcome[t] for t in arrived if arm[t] == a) / total[a] for a in range(k)]
    psi = [sum(ratio[a] * (q[t][a] - mean_q[a]) / n for a in range(k)) for t in range(n)]
    for t in arrived:
        psi[t] += mean_q[arm[t]] * w[t] * (outcome[t] - ratio[arm[t]]) / total[arm[t]]
    return sum(m * r for m, r in zip(mean_q, ratio, strict=True)), sum(p * p for p in psi)


def adaptively_weighted_value(arm, outcome, propensity, q, group, *, stable):
    """Zhan et al. 2021, contextual adaptive weighting: a weighted mean of doubly robust scores, all outcomes known.

    The score of row t is sum_a q(a) mu_t(a) + q(a_t) / e(a_t) (y - mu_t(a_t)), with mu_t the mean of the arm's earlier
    outcomes in the row's group (0 before any). The weights are 1 or, if `stable` (StableVar), the earlier average of
    sum_a q(a)^2 / e(a), evaluated at the policy's present probabilities for every group, to the power -1/2: they
    depend on the history and not on the row's own unit.
    """
    n, k = len(arm), len(q[0])
    count, total, size, latest = {}, {}, {}, {}
    scores, weights = [], []
    for t in range(n):
        g = group[t]
        mu = [total.get((g, a), 0.0) / max(count.get((g, a), 0), 1) for a in range(k)]
        scores.append(
            sum(q[t][a] * mu[a] for a in range(k)) + q[t][arm[t]] / propensity[t][arm[t]] * (outcome[t] - mu[arm[t]])
        )
        if stable and t > 0:
            needed = {g: sum(p * p / e for p, e in zip(*latest[g], strict=True)) for g in size}
            weights.append((sum(size[g] * needed[g] for g in size) / t) ** -0.5)
        else:
            weights.append(1.0)
        size[g], latest[g] = size.get(g, 0) + 1, (q[t], propensity[t])
        count[g, arm[t]] = count.get((g, arm[t]), 0) + 1
        total[g, arm[t]] = total.get((g, arm[t]), 0.0) + outcome[t]
    value = sum(w * s for w, s in zip(weights, scores, strict=True)) / sum(weights)
    variance = sum(w**2 * (s - value) ** 2 for w, s in zip(weights, scores, strict=True)) / sum(weights) ** 2
    return value, variance


def merged_chances(cells):
    """How likely outcomes of merged segments arrive, from (rows, outcomes) by segment and arm; None: alike in all.

    Relative to the arm's: over the arrived rows of an arm, the mean of 1 / chance is 1.
    """
    arms = range(len(cells[0]))
    totals = [(sum(each[a][0] for each in cells), sum(each[a][1] for each in cells)) for a in arms]
    square, degrees, room = 0.0, 0, 0.0
    for a, (n, r) in enumerate(totals):
        if 0 < r < n:
            p, sizes = r / n, [each[a] for each in cells if each[a][0] > 0]
            square += sum(m * (k / m - p) ** 2 / (p * (1 - p)) for m, k in sizes)
            degrees += len(sizes) - 1
            room += n - sum(m * m for m, _ in sizes) / n
    if square <= degrees:
        return None
    rho = (square - degrees) / room
    result = [[1.0 for _ in arms] for _ in cells]
    for a, (n, r) in enumerate(totals):
        for s, each in enumerate(cells):
            m, k = each[a]
            if k > 0:
                shrunk = (k * rho + r / n) / (m * rho + 1)
                result[s][a] = k / m * (1 - (1 - shrunk) ** m)
        whole = sum(each[a][1] / result[s][a] for s, each in enumerate(cells))
        for s, each in enumerate(cells):
            if each[a][1] > 0:
                result[s][a] *= whole / r
    return result
