"""A slow, obvious twin of `belated.log.row_summaries` and of the statistics that read evidence."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, stats


def rows_of(log):
    """Return the rows that exist as of the log's moment, by time: dicts with arm, p, at, arrived_at (or None), y."""
    last = math.inf if log.moment is None else log.moment
    rows = []
    for i, at in enumerate(log.assigned_at):
        if at > last:
            continue
        arrived_at = log.assigned_at[i] if log.arrived_at is None else log.arrived_at[i]
        has_arrived = not math.isnan(log.outcome[i]) and math.isfinite(arrived_at) and arrived_at <= last
        p = log.propensity[i]
        rows.append(
            {
                "arm": int(log.code[i]),
                "p": p if np.ndim(p) else None,
                "own": float(p[log.code[i]] if np.ndim(p) else p),
                "at": at,
                "arrived_at": arrived_at if has_arrived else None,
                "y": float(log.outcome[i]) if has_arrived else None,
            }
        )
    return sorted(rows, key=lambda row: row["at"])


def sums(log, stretches=40):
    """Return `Evidence.sums`, outcomes about 0."""
    rows = rows_of(log)
    first, last = rows[0]["at"], rows[-1]["at"]
    look = (
        max([last, *(row["arrived_at"] for row in rows if row["arrived_at"] is not None)])
        if log.moment is None
        else log.moment
    )
    half = (look - first) / 2 if not log.clock.whole else (look - first) // 2
    names = ("assigned", "inverse", "old", "soon", "arrived", "y", "y2", "w", "w2", "w3", "w4")
    tables = {name: np.zeros((stretches, len(log.arms))) for name in names}
    for row in rows:
        place = min(int((row["at"] - first) / ((last - first) / stretches)), stretches - 1), row["arm"]
        old = row["at"] <= min(look - half, last)
        tables["assigned"][place] += 1
        tables["inverse"][place] += 1 / row["own"]
        tables["old"][place] += old
        if row["arrived_at"] is not None:
            tables["soon"][place] += old and row["arrived_at"] - row["at"] <= half
            tables["arrived"][place] += 1
            tables["y"][place] += row["y"]
            tables["y2"][place] += row["y"] ** 2
            for k in (1, 2, 3, 4):
                tables["w" if k == 1 else f"w{k}"][place] += (1 / math.sqrt(row["own"])) ** k
    return tables


def chance(log):
    """Return, by arm, how often a row as unlikely as the arm's least likely arrived one was to be expected."""
    rows = rows_of(log)
    chances = []
    for k in range(len(log.arms)):
        rarest = min(
            (row["own"] for row in rows if row["arm"] == k and row["arrived_at"] is not None), default=math.nan
        )
        chances.append(sum(row["p"][k] for row in rows if row["p"][k] <= rarest))
    return chances


def swap_gain(log, a, b):
    """Return the log likelihood ratio of the choices with two arms' probabilities swapped to that with them as is."""
    gain = 0.0
    for row in rows_of(log):
        other = {a: b, b: a}.get(row["arm"], row["arm"])
        gain += math.log(row["p"][other]) - math.log(row["p"][row["arm"]])
    return gain


def tail_exponent(delays, ages):
    """Return the exponent of whole delays above 0, each known to be at most its row's age, by maximum likelihood."""
    late = delays > 0
    d, e = delays[late].astype(float), ages[late].astype(float)

    def later(x, b, s):  # the share of delays of x or more, of those of 1 or more
        return (1 + (x - 1) / s) ** -b

    def loss(parameters):
        b, s = np.exp(parameters)
        chance = (later(d, b, s) - later(d + 1, b, s)) / (1 - later(e + 1, b, s))
        return -np.sum(np.log(np.maximum(chance, 1e-300)))

    return float(np.exp(optimize.minimize(loss, [0.0, 1.0], method="Nelder-Mead").x[0]))


# ---------------------------------------------------------------- covariates


def _poisson_tail(excess, variance, step):
    v = variance / step**2
    return min(2 * stats.gamma.cdf(v, v + abs(excess) / step), 1.0)


def naive_covariate_arrival(log):
    """P-values (arms, covariates): whether old rows whose outcome came soon have other x than all old rows."""
    start, look = log.assigned_numbers.min(), log.last_look
    half = (look - start) // 2 if log.clock.whole else (look - start) / 2
    waited = log.arrived_numbers - log.assigned_numbers
    old = log.assigned_numbers <= look - half
    soon = old & log.arrived & (waited <= half)
    segment = log.layout.place[log.segment_column.code]
    p_values = np.full((len(log.arms), len(log.covariates.names)), math.nan)
    for k in range(len(log.arms)):
        for i in range(len(log.covariates.names)):
            total, degrees = 0.0, 0
            for s in range(len(log.segments)):
                mine = (segment == s) & (log.code == k)
                x, x_soon = log.covariates.values[mine & old, i], log.covariates.values[mine & soon, i]
                n, m = len(x), len(x_soon)
                if not (0 < m < n and np.std(x) > 1e-9):
                    continue
                variance = np.var(x, ddof=1) * m * (n - m) / n
                step = np.sum(np.abs(x) ** 3) / np.sum(x**2) + abs(x.mean())
                p = _poisson_tail(x_soon.sum() - m * x.mean(), variance, step)
                total += stats.chi2.isf(p, 1)
                degrees += 1
            if degrees:
                p_values[k, i] = stats.chi2.sf(total, degrees)
    return p_values


def naive_covariate_choice(log):
    """P-values (arms, covariates): whether x predicts the choice of an arm beyond its probability."""
    p_values = np.full((len(log.arms), len(log.covariates.names)), math.nan)
    for k in range(len(log.arms)):
        for i in range(len(log.covariates.names)):
            excess = variance = third = 0.0
            for row in range(len(log.code)):
                x, p = log.covariates.values[row, i], log.propensity[row, k]
                excess += x * ((log.code[row] == k) - p)
                variance += x**2 * p * (1 - p)
                third += abs(x) ** 3 * p * (1 - p)
            p_values[k, i] = _poisson_tail(excess, variance, third / variance)
    return p_values
