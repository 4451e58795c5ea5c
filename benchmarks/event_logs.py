"""Experiments whose outcomes are events, by policies that learn from the events so far, as columns of a log."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

import belated as bl

#: Batches of rows, between which the policy learns, and the time over which rows are assigned.
BATCHES, LENGTH = 40, 3.0


class Change(NamedTuple):
    """What changes for rows assigned in the second half: the rate and the delays are multiplied."""

    rate: float = 1.0
    delay: float = 1.0


class Columns(NamedTuple):
    """Assignments over the time from 0 to `LENGTH`, and all of their events."""

    arm: np.ndarray
    propensity: np.ndarray
    at: np.ndarray
    unit: np.ndarray
    age: np.ndarray
    value: np.ndarray

    def log(self, as_of: float, measure: str, window: float = 1.0) -> bl.Log:
        """Return the log as of a time: rows assigned by then, and what happened by then."""
        there = self.at <= as_of
        known = there[self.unit] & (self.at[self.unit] + self.age <= as_of)
        events = {"unit": (np.cumsum(there) - 1)[self.unit[known]], "age": self.age[known]}
        if measure == "sum":
            events["value"] = self.value[known]
        return bl.Log.of_events(
            self.arm[there], self.propensity[there], events, window=window, measure=measure,
            assigned_at=self.at[there], as_of=as_of, arms=range(self.propensity.shape[1]),
        )  # fmt: skip


def experiment(
    rng: np.random.Generator,
    rows: int,
    rates: tuple[float, ...],
    delays: tuple[float, ...] = (0.2, 0.5),
    *,
    policy: str = "eps-greedy",
    measure: str = "indicator",
    values: float = 1.0,
    change: Change | None = None,
) -> Columns:
    """Return an experiment with windows of 1: `rates` are of events within the window, `delays` their mean ages.

    Ages are exponential, cut at 1. Counts: a Poisson number of events whose rate itself varies. Values are lognormal
    with standard deviation `values` of the logarithm, and mean 1.
    """
    arms = len(rates)
    at = np.sort(rng.uniform(0, LENGTH, rows))
    arm, propensity = np.zeros(rows, int), np.zeros((rows, arms))
    unit, age = np.zeros(0, int), np.zeros(0)
    batch = np.minimum((at / LENGTH * BATCHES).astype(int), BATCHES - 1)
    for b in range(BATCHES):
        mine = np.flatnonzero(batch == b)
        if not len(mine):
            continue
        now = at[mine[0]]
        with_event = np.unique(unit[at[unit] + age <= now])
        count, ones = (np.bincount(arm[which], minlength=arms) for which in (slice(0, mine[0]), with_event))
        propensity[mine] = _chances(policy, count, ones, rng)
        draw = rng.random((len(mine), 1))
        arm[mine] = (draw > propensity[mine].cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
        late = (at[mine] > LENGTH / 2) & (change is not None)
        rate = np.array(rates)[arm[mine]] * np.where(late, change.rate if change else 1.0, 1.0)
        mean = np.array(delays)[arm[mine] % len(delays)] * np.where(late, change.delay if change else 1.0, 1.0)
        number = rng.random(len(mine)) < rate
        if measure != "indicator":
            number = rng.poisson(rate * rng.gamma(2.0, 0.5, len(mine)))
        row = np.repeat(np.arange(len(mine)), number)
        unit = np.append(unit, mine[row])
        # exponential, given that it is at most 1
        whole = -np.expm1(-1 / mean[row])
        age = np.append(age, -mean[row] * np.log1p(-rng.random(len(row)) * whole))
    value = np.exp(values * rng.normal(size=len(unit)) - values**2 / 2)
    return Columns(arm, propensity, at, unit, age, value)


def _chances(policy: str, count: np.ndarray, ones: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the probability of each arm, from its rows and those with an event so far."""
    arms = len(count)
    if policy == "uniform" or count.min() == 0:
        return np.full(arms, 1 / arms)
    if policy == "eps-greedy":
        explore = max(0.1, (1 + count.sum()) ** -0.3)
        return explore / arms + (1 - explore) * (np.arange(arms) == np.argmax(ones / count))
    mean = (1 + ones) / (2 + count)
    sd = np.sqrt(mean * (1 - mean) / (3 + count))
    if arms == 2:
        first = float(special.ndtr((mean[0] - mean[1]) / np.hypot(*sd)))
        chances = np.array([first, 1 - first])
    else:
        best = np.argmax(mean + sd * rng.normal(size=(500, arms)), axis=1)
        chances = np.bincount(best, minlength=arms) / 500
    return 0.1 / arms + 0.9 * chances
