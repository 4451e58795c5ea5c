"""Runs of a bandit experiment with segments and covariates, row by row.

Imported only to simulate, because it brings numba. The policy keeps counts and totals by group: a group is a segment,
or all rows if the policy does not look at segments. A cell is an arm of a segment: cell = segment * arms + arm.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array
from belated.kernels import streams
from belated.kernels.bandit import decide, draw_outcome, draw_tail, forget, is_distribution
from belated.kernels.compiler import compiled
from belated.kernels.experiment import FIXED, GUIDE, NEVER, TAIL, Arms, Known, Posterior


class Contexts(NamedTuple):
    """What is drawn of a unit before its arm is chosen, and what that changes."""

    bounds: Array  # the sums of the shares of segments, but for the last, which is 1
    covariates: Arms
    slopes: Array  # (arms, covariates), added to the outcome
    odds: Array  # (covariates,), added to the log-odds that the outcome ever arrives


class Groups(NamedTuple):
    """What the policy knows of each group. `p` are its probabilities, at first those of the burn-in."""

    burn_in: Array  # (groups,)
    step: Array  # (groups,), rows so far
    p: Array  # (groups, arms)
    arrived: Array  # (groups, arms), the number of outcomes, and their sum
    total: Array
    posterior: Posterior  # of the group that is decided on


class Played(NamedTuple):
    """The rows of a run."""

    segment: Array
    code: Array
    outcome: Array
    late: Array
    propensity: Array  # (rows, arms)
    x: Array  # (rows, covariates)


class Waiting(NamedTuple):
    """Outcomes that are yet to arrive, by row number from 1 on: the last due at each step, the one before each row."""

    last: Array
    previous: Array


def new_groups(burn_in: Array, start: Array) -> Groups:
    """Return groups of which nothing is known."""
    groups, arms = start.shape
    arrived, total = np.zeros((2, groups, arms))
    posterior = Posterior(*np.zeros((2, arms)))
    return Groups(burn_in, np.zeros(groups, np.int64), start.copy(), arrived, total, posterior)


def new_rows(horizon: int, arms: int, covariates: int) -> Played:
    """Return room for the rows of a run."""
    return Played(
        segment=np.empty(horizon, np.int32),
        code=np.empty(horizon, np.int64),
        outcome=np.empty(horizon),
        late=np.empty(horizon, np.int64),
        propensity=np.empty((horizon, arms)),
        x=np.empty((horizon, covariates)),
    )


def new_waiting(horizon: int) -> Waiting:
    """Return an empty calendar; playing a run to its end leaves it empty again."""
    return Waiting(last=np.zeros(horizon + 1, np.int64), previous=np.empty(horizon + 1, np.int64))


@compiled(error_model="numpy")
def draw_delay(stream, delays, cell, change):
    """Draw a delay; `change` is added to the log-odds that the outcome ever arrives."""
    if delays.sure[cell]:
        return np.int64(0)
    v = streams.uniform(stream)
    arrives = delays.arrives[cell]
    if change != 0.0 and arrives < 1.0:
        changed = arrives / (arrives + (1.0 - arrives) * math.exp(-change))
        if v >= changed:
            return np.int64(NEVER)
        v *= arrives / changed
        if v >= arrives:  # by rounding
            return np.int64(NEVER)
    i = delays.starts[cell] + delays.guide[cell, np.int64(v * GUIDE)]
    while v >= delays.cumulative[i]:
        i += 1
    late = delays.values[i]
    if late == TAIL:
        return draw_tail(stream, delays, cell, v)
    return late


@compiled
def choose(p, u):
    """Return the arm that a uniform number chooses."""
    arm = 0
    below = p[0]
    while u >= below and arm < len(p) - 1:
        arm += 1
        below += p[arm]
    while p[arm] == 0.0:  # rounding pushed the draw past the last possible arm
        arm -= 1
    return arm


@compiled(nogil=True, error_model="numpy")
def play(stream, experiment, contexts, own_policy, memo, groups, waiting, rows):
    """Play a run into `rows`; return the group in which the policy failed, or -1."""
    arms, delays, rule, horizon = experiment.arms, experiment.delays, experiment.rule, experiment.horizon
    count, total, last, previous = groups.arrived, groups.total, waiting.last, waiting.previous
    n_groups, n_arms = groups.p.shape
    n_x = rows.x.shape[1]
    if memo is not None:
        for g in range(n_groups):
            forget(memo[g])
    for t in range(1, horizon + 1):
        row = last[t]
        last[t] = 0
        while row:  # what arrived before this step
            k, g = rows.code[row - 1], rows.segment[row - 1] if n_groups > 1 else 0
            count[g, k] += 1.0
            total[g, k] += rows.outcome[row - 1]
            row = previous[row]
        segment = np.searchsorted(contexts.bounds, streams.uniform(stream), side="right")
        x = rows.x[t - 1]
        for j in range(n_x):
            x[j] = draw_outcome(stream, contexts.covariates, j)
        g = segment if n_groups > 1 else 0
        p, burn_in = groups.p[g], groups.burn_in[g]
        groups.step[g] += 1
        step = groups.step[g]
        if rule.kind != FIXED and step > burn_in and (step - burn_in - 1) % rule.batch == 0:
            if own_policy is not None:
                chosen = own_policy(count[g].copy(), total[g].copy(), step)
                if not is_distribution(chosen, n_arms):
                    return g
                for k in range(n_arms):
                    p[k] = chosen[k]
            elif memo is None:
                decide(p, rule, Known(count[g], total[g], step), groups.posterior, None)
            else:
                decide(p, rule, Known(count[g], total[g], step), groups.posterior, memo[g])
        arm = choose(p, streams.uniform(stream))
        cell = segment * n_arms + arm
        y = draw_outcome(stream, arms, cell)
        change = 0.0
        for j in range(n_x):
            y += contexts.slopes[arm, j] * x[j]
            change += contexts.odds[j] * x[j]
        late = draw_delay(stream, delays, cell, change)
        rows.segment[t - 1], rows.code[t - 1], rows.outcome[t - 1], rows.late[t - 1] = segment, arm, y, late
        for k in range(n_arms):
            rows.propensity[t - 1, k] = p[k]
        if late <= horizon - t:
            due = t + max(late, 1)
            if due <= horizon:
                previous[t] = last[due]
                last[due] = t
    return -1


@cache
def for_own_policy(plain):
    """Return `play` for a user's own policy: not kept on disk, and not compiled if it is `plain`."""
    return play.py_func if plain else compiled(play.py_func, cache=False, nogil=True, error_model="numpy")
