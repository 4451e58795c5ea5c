"""One run of a bandit experiment: draws, policies, and a calendar of arrivals.

Imported only to simulate, because it brings numba. A policy is one pure function of what has
arrived, `decide`, or the user's own.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

ARMS = ("normal", "bernoulli", "gamma", "lognormal", "student_t", "empirical")
NORMAL, BERNOULLI, GAMMA, LOGNORMAL, STUDENT_T, EMPIRICAL = range(6)

DELAYS = ("none", "constant", "geometric", "poisson", "negative_binomial", "pareto", "lognormal", "empirical")
AT_ONCE, CONSTANT, GEOMETRIC, POISSON, NEGATIVE_BINOMIAL, PARETO, LATE_LOGNORMAL, LATE_EMPIRICAL = range(8)

POLICIES = ("fixed", "epsilon_greedy", "thompson_normal", "thompson_beta", "ucb", "own")
FIXED, EPSILON_GREEDY, THOMPSON_NORMAL, THOMPSON_BETA, UCB, OWN = range(6)

# Gauss-Legendre on [0, 1], and the integrals from 0 to each node of the polynomials through the nodes
_N = 10
_X, _W = np.polynomial.legendre.leggauss(_N)
_NODES, _WEIGHTS = (_X + 1) / 2, _W / 2
_POWERS = np.arange(_N)
_PARTIAL = (_NODES[:, np.newaxis] ** (_POWERS + 1) / (_POWERS + 1)) @ np.linalg.inv(_NODES[:, np.newaxis] ** _POWERS)

# Where the panels of the quadrature end, in standard deviations from the centre. A Beta posterior is
# taken on the logit scale, where it is smooth for any parameters and its tails are exponential.
_NORMAL_KNOTS = np.array([-8.5, -5.5, -3.5, -2.0, -0.7, 0.7, 2.0, 3.5, 5.5, 8.5])
_BETA_KNOTS = np.array([-40.0, -25.0, -16.0, -11.0, -7.5, -5.0, -3.2, -1.9, -0.8,
                        0.0, 0.8, 1.9, 3.2, 5.0, 7.5, 11.0, 16.0, 25.0, 40.0])  # fmt: skip

#: Log of a density that is nothing.
_NOTHING = -50.0


@njit(cache=True)
def draw_outcome(rng, kind, a, b, c, samples, start, stop):
    """Draw an outcome: a location or shape, b scale, c degrees of freedom."""
    if kind == NORMAL:
        return a + b * rng.standard_normal()
    if kind == BERNOULLI:
        return 1.0 if rng.random() < a else 0.0
    if kind == GAMMA:
        return b * rng.standard_gamma(a)
    if kind == LOGNORMAL:
        return math.exp(a + b * rng.standard_normal())
    if kind == STUDENT_T:
        return a + b * rng.standard_t(c)
    return samples[start + int(rng.random() * (stop - start))]


@njit(cache=True)
def draw_delay(rng, kind, a, b, never, samples, start, stop):
    """Draw a delay in whole steps, infinite if the outcome never comes."""
    late = 0.0
    if kind == CONSTANT:
        late = a
    elif kind == GEOMETRIC:  # failures before the first success
        late = rng.geometric(a) - 1.0
    elif kind == POISSON:
        late = float(rng.poisson(a))
    elif kind == NEGATIVE_BINOMIAL:
        late = float(rng.negative_binomial(a, b))
    elif kind == PARETO:
        late = math.floor(b * (1.0 - rng.random()) ** (-1.0 / a) - b)
    elif kind == LATE_LOGNORMAL:
        late = math.floor(math.exp(a + b * rng.standard_normal()))
    elif kind == LATE_EMPIRICAL:
        late = samples[start + int(rng.random() * (stop - start))]
    if never > 0.0 and rng.random() < never:
        return math.inf
    return late


@njit(cache=True)
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


@njit(cache=True)
def log_density(beta, first, second, x):
    """Log density at x, without its constant: Normal(first, second), or the logit of a Beta(first, second)."""
    if beta:
        tail = math.log1p(math.exp(-abs(x)))
        return -first * (tail + max(-x, 0.0)) - second * (tail + max(x, 0.0))
    return -0.5 * ((x - first) / second) ** 2


@njit(cache=True)
def probabilities_of_being_best(p, beta, first, second):
    """Fill `p` with each arm's probability of the largest draw from independent posteriors.

    Normal with means `first` and standard deviations `second`, or Beta(first, second): the
    integral of f_k times the product of the other arms' F_j, by Gauss-Legendre on panels that are
    narrow where any density moves. The F_j are integrals of the f_j on the same nodes.
    """
    n_arms = len(p)
    if n_arms == 1:
        p[0] = 1.0
        return
    if n_arms == 2 and not beta:
        z = (first[0] - first[1]) / math.sqrt(2.0 * (second[0] ** 2 + second[1] ** 2))
        p[0], p[1] = 0.5 * math.erfc(-z), 0.5 * math.erfc(z)
        return
    knots = _BETA_KNOTS if beta else _NORMAL_KNOTS
    centre, constant = np.empty(n_arms), np.empty(n_arms)
    edges = np.empty(n_arms * len(knots))
    used, narrowest = 0, math.inf
    for k in range(n_arms):
        if beta:
            centre[k], sd = math.log(first[k] / second[k]), math.sqrt(1.0 / first[k] + 1.0 / second[k])
            constant[k] = math.lgamma(first[k] + second[k]) - math.lgamma(first[k]) - math.lgamma(second[k])
        else:
            centre[k], sd = first[k], second[k]
            constant[k] = -math.log(sd) - 0.5 * math.log(2.0 * math.pi)
        narrowest = min(narrowest, sd)
        for z in knots:
            x = centre[k] + z * sd
            if log_density(beta, first[k], second[k], x) + constant[k] > _NOTHING:
                edges[used] = x
                used += 1
    edges = np.sort(edges[:used])
    panels = 0  # edges closer than the narrowest arm's deviation are one
    for i in range(1, used):
        if edges[i] - edges[panels] >= narrowest or i == used - 1:
            panels += 1
            edges[panels] = edges[i]
    below = np.zeros(n_arms)  # each arm's F at the panel's left end
    density, at = np.empty((n_arms, _N)), np.empty((n_arms, _N))
    p[:] = 0.0
    for panel in range(panels):
        start, width = edges[panel], edges[panel + 1] - edges[panel]
        empty = 0  # arms that are surely above the panel
        for k in range(n_arms):
            nearest = min(max(centre[k], start), start + width)
            if log_density(beta, first[k], second[k], nearest) + constant[k] < _NOTHING:
                density[k, :] = 0.0
                at[k, :] = below[k]
                empty += below[k] == 0.0
                continue
            for i in range(_N):
                x = start + width * _NODES[i]
                density[k, i] = width * math.exp(log_density(beta, first[k], second[k], x) + constant[k])
            for i in range(_N):
                total = below[k]
                for j in range(_N):
                    total += _PARTIAL[i, j] * density[k, j]
                at[k, i] = total
            for i in range(_N):
                below[k] += _WEIGHTS[i] * density[k, i]
        if empty:
            continue
        for k in range(n_arms):
            for i in range(_N):
                if density[k, i] > 0.0:
                    others = _WEIGHTS[i] * density[k, i]
                    for j in range(n_arms):
                        if j != k:
                            others *= at[j, i]
                    p[k] += others
    total = 0.0
    for k in range(n_arms):
        p[k] = max(p[k], 0.0)
        total += p[k]
    p /= total


@njit(cache=True)
def decide(p, kind, parameters, count, total, t):
    """Fill `p` with the policy's probabilities at step t, from each arm's arrived count and total.

    `parameters` are c, decay, and the policy's own two; FIXED: the probabilities.
    """
    n_arms = len(p)
    if kind == FIXED:
        p[:] = parameters
        return
    share = parameters[0] * float(t) ** -parameters[1]
    if kind in (EPSILON_GREEDY, UCB):
        best, highest = 0, -math.inf
        for k in range(n_arms):
            score = total[k] / count[k] if count[k] > 0 else 0.0
            if kind == UCB:
                score = score + parameters[2] * math.sqrt(math.log(t) / count[k]) if count[k] > 0 else math.inf
            if score > highest:
                best, highest = k, score
        # never less likely than the others
        eps = min(share, (n_arms - 1.0) / n_arms)
        p[:] = eps / (n_arms - 1) if n_arms > 1 else 0.0
        p[best] = 1.0 - eps
        return
    first, second = np.empty(n_arms), np.empty(n_arms)
    for k in range(n_arms):
        if kind == THOMPSON_BETA:
            first[k] = parameters[2] + total[k]
            second[k] = parameters[3] + count[k] - total[k]
        else:  # a prior N(0, prior_sd^2) is as good as (noise_sd / prior_sd)^2 outcomes of 0
            weight = count[k] + parameters[3]
            first[k] = total[k] / weight
            second[k] = parameters[2] / math.sqrt(weight)
    probabilities_of_being_best(p, kind == THOMPSON_BETA, first, second)
    raise_to_floor(p, min(share, 1.0 / n_arms))


@njit(cache=True)
def is_distribution(p, n_arms):
    """Return whether `p` is a probability vector."""
    if len(p) != n_arms:
        return False
    total = 0.0
    for k in range(n_arms):
        if not p[k] >= 0.0:
            return False
        total += p[k]
    return abs(total - 1.0) <= 1e-6


@njit(cache=True)
def run(
    rng, batch, burn_in, kind, parameters, own_policy,
    arm_kind, arm_parameters, arm_samples, arm_starts,
    delay_kind, delay_parameters, delay_samples, delay_starts, never,
    code, outcome, propensity, delay,
):  # fmt: skip
    """Run an experiment into the last four arrays; return the step at which the policy failed, or 0."""
    horizon, n_arms = propensity.shape
    count, total = np.zeros(n_arms), np.zeros(n_arms)
    p = np.full(n_arms, 1.0 / n_arms)
    last = np.full(horizon + 1, -1)  # a calendar of arrivals, as in `rows.accumulate`
    previous = np.empty(horizon, np.int64)
    for t in range(1, horizon + 1):
        row = last[t]
        while row >= 0:
            count[code[row]] += 1.0
            total[code[row]] += outcome[row]
            row = previous[row]
        if t > burn_in and (t - burn_in - 1) % batch == 0:
            if own_policy is None:
                decide(p, kind, parameters, count, total, t)
            else:
                chosen = own_policy(count.copy(), total.copy(), t)
                if not is_distribution(chosen, n_arms):
                    return t
                p[:] = chosen
        u = rng.random()
        arm, below = 0, p[0]
        while u >= below and arm < n_arms - 1:
            arm += 1
            below += p[arm]
        while p[arm] == 0.0:  # rounding pushed the draw past the last possible arm
            arm -= 1
        row = t - 1
        for k in range(n_arms):
            propensity[row, k] = p[k]
        code[row] = arm
        outcome[row] = draw_outcome(
            rng, arm_kind[arm], arm_parameters[arm, 0], arm_parameters[arm, 1], arm_parameters[arm, 2],
            arm_samples, arm_starts[arm], arm_starts[arm + 1],
        )  # fmt: skip
        delay[row] = draw_delay(
            rng, delay_kind[arm], delay_parameters[arm, 0], delay_parameters[arm, 1], never[arm],
            delay_samples, delay_starts[arm], delay_starts[arm + 1],
        )  # fmt: skip
        seen = t + max(delay[row], 1.0)
        if seen <= horizon:
            previous[row] = last[int(seen)]
            last[int(seen)] = row
    return 0
