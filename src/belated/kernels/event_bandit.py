"""Runs of a bandit experiment whose outcomes are events within a window, with or without segments, row by row.

Imported only to simulate, because it brings numba. Groups and cells are those of `contextual.py`; without segments
there is one group. A row counts for the policy from the next step on, with 0, and its events are added as they happen.
If the policy learns from the maturing estimate, its counts and totals are computed at each decision: with R(d) the rows
of the arm that have reached age d, an arm's average is the sum of v / R(d) over its events so far, and its count the
harmonic mean of R(d).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array
from belated.kernels import streams
from belated.kernels.bandit import decide, draw_outcome, forget, is_distribution
from belated.kernels.compiler import compiled
from belated.kernels.contextual import choose, draw_delay
from belated.kernels.experiment import FIXED, Known


class EventLaws(NamedTuple):
    """How the events of each cell are drawn."""

    rate: Array  # (cells,), the probability that a unit has events
    more: Array  # (cells,), the probability of another event after each
    bounds: Array  # the sums of the shares of segments, but for the last
    window: int
    first_only: bool  # whether only the first event of a unit counts
    valued: bool  # whether an event counts with its value, or as 1
    maturing: bool  # whether the policy learns from the maturing estimate


class EventRows(NamedTuple):
    """The rows of a run."""

    segment: Array
    code: Array
    propensity: Array  # (rows, arms)


class RunEvents(NamedTuple):
    """The events of a run, in the order in which they were drawn."""

    row: Array
    age: Array
    value: Array


class RowsAtRisk(NamedTuple):
    """How many rows of each group and arm there are up to each step, and room for a sum by arm."""

    lived: Array  # (steps + 1, groups, arms)
    inverse: Array  # (arms,)


def new_rows(horizon: int, arms: int) -> EventRows:
    """Return room for the rows of a run."""
    return EventRows(np.empty(horizon, np.int32), np.empty(horizon, np.int64), np.empty((horizon, arms)))


@compiled
def longer(values):
    """Return an array twice as long that begins with these values."""
    wide = np.empty(2 * len(values), values.dtype)
    for i in range(len(values)):
        wide[i] = values[i]
    return wide


@compiled
def mature(groups, group, step, laws, at_risk, rows, events, happened):
    """Fill the counts and totals of a group as of a step, from the events that have `happened`."""
    count, total, lived, inverse = groups.arrived[group], groups.total[group], at_risk.lived, at_risk.inverse
    n_groups, n_arms = groups.p.shape
    for k in range(n_arms):
        count[k] = total[k] = inverse[k] = 0.0
    for i in range(len(happened)):
        event = happened[i]
        r = events.row[event]
        if n_groups == 1 or rows.segment[r] == group:
            k = rows.code[r]
            rows_then = lived[min(step - events.age[event], step - 1), group, k]
            count[k] += 1.0
            inverse[k] += 1.0 / rows_then
            total[k] += events.value[event] / rows_then
    for k in range(n_arms):
        if count[k] > 0.0:
            count[k] /= inverse[k]
            total[k] *= count[k]
        elif step > laws.window:  # what is known to be 0
            count[k] = lived[step - laws.window, group, k]
        if laws.first_only:  # a rate is at most 1
            count[k] = max(count[k], total[k])


@compiled(nogil=True, error_model="numpy")
def play(stream, experiment, laws, own_policy, memo, groups, rows):
    """Play a run into `rows`; return the group in which the policy failed, or -1, and the events."""
    values, delays, rule, horizon = experiment.arms, experiment.delays, experiment.rule, experiment.horizon
    count, total = groups.arrived, groups.total
    n_groups, n_arms = groups.p.shape
    room, events, known = 1024, 0, 0
    row, age = np.empty(room, np.int64), np.empty(room, np.int64)
    previous, happened = np.empty(room, np.int64), np.empty(room, np.int64)
    value = np.empty(room)
    last = np.full(horizon + 1, -1, np.int64)  # the event that was drawn last of those due at each step
    lived = np.zeros((horizon + 1 if laws.maturing else 1, n_groups, n_arms), np.int32)  # rows up to each step
    at_risk = RowsAtRisk(lived, np.empty(n_arms))
    if memo is not None:
        for g in range(n_groups):
            forget(memo[g])
    for t in range(1, horizon + 1):
        event = last[t]
        while event >= 0:  # what happened before this step
            if laws.maturing:
                happened[known] = event
                known += 1
            else:
                r = row[event]
                total[rows.segment[r] if n_groups > 1 else 0, rows.code[r]] += value[event]
            event = previous[event]
        segment = 0
        if len(laws.bounds):
            segment = np.searchsorted(laws.bounds, streams.uniform(stream), side="right")
        g = segment if n_groups > 1 else 0
        p, burn_in = groups.p[g], groups.burn_in[g]
        groups.step[g] += 1
        step = groups.step[g]
        if rule.kind != FIXED and step > burn_in and (step - burn_in - 1) % rule.batch == 0:
            if laws.maturing:
                mature(groups, g, t, laws, at_risk, rows, RunEvents(row, age, value), happened[:known])
            if own_policy is not None:
                chosen = own_policy(count[g].copy(), total[g].copy(), step)
                if not is_distribution(chosen, n_arms):
                    return g, RunEvents(row[:events], age[:events], value[:events])
                for k in range(n_arms):
                    p[k] = chosen[k]
            elif memo is None:
                decide(p, rule, Known(count[g], total[g], step), groups.posterior, None)
            else:
                decide(p, rule, Known(count[g], total[g], step), groups.posterior, memo[g])
        arm = choose(p, streams.uniform(stream))
        rows.segment[t - 1], rows.code[t - 1] = segment, arm
        for k in range(n_arms):
            rows.propensity[t - 1, k] = p[k]
        if laws.maturing:
            for i in range(n_groups):
                for k in range(n_arms):
                    lived[t, i, k] = lived[t - 1, i, k]
            lived[t, g, arm] += 1
        else:
            count[g, arm] += 1.0
        cell = segment * n_arms + arm
        begin = events
        another = streams.uniform(stream) < laws.rate[cell]
        while another:
            late = draw_delay(stream, delays, cell, 0.0)
            worth = draw_outcome(stream, values, cell) if laws.valued else 1.0
            if late <= laws.window:
                if laws.first_only and events > begin:
                    age[begin] = min(age[begin], late)
                else:
                    if events == room:
                        row, age, value, previous, happened = (
                            longer(row), longer(age), longer(value), longer(previous), longer(happened))  # fmt: skip
                        room = len(row)
                    row[events], age[events], value[events] = t - 1, late, worth
                    events += 1
            another = laws.more[cell] > 0.0 and streams.uniform(stream) < laws.more[cell]
        for event in range(begin, events):
            due = t + max(age[event], 1)
            if due <= horizon:
                previous[event] = last[due]
                last[due] = event
    return -1, RunEvents(row[:events], age[:events], value[:events])


@cache
def for_own_policy(plain):
    """Return `play` for a user's own policy: not kept on disk, and not compiled if it is `plain`."""
    return play.py_func if plain else compiled(play.py_func, cache=False, nogil=True, error_model="numpy")
