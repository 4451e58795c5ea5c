"""`pilot`: a bandit fitted to the log of an experiment, for planning the next one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from belated.base.checks import positive
from belated.base.columns import Array, Label
from belated.base.errors import LogError
from belated.base.tables import Column, Table
from belated.base.text import count, one_line
from belated.log.data import Data, require_data
from belated.log.durations import length_text
from belated.log.events import Events, ages_of
from belated.log.log import Log
from belated.simulation import arms, delays, policies
from belated.simulation.bandits import Bandit
from belated.simulation.policies import Policy

#: With fewer outcomes of an arm, the plan has a note.
_FEW_OUTCOMES = 30

#: The size of the sample of delays that represents an arm's Kaplan-Meier curve.
_DELAYS = 2000

_DAY = 86_400.0


def pilot(log: Data, *, per_day: float | None = None) -> Pilot:
    """Fit a bandit to the log of an experiment.

    Parameters
    ----------
    log : Log or Source
        A log in memory, or a table from `read`, as of its as-of time.
    per_day : float, optional
        Assignments per day in the planned experiment, if times are datetimes; by default as many as in the pilot.

    Returns
    -------
    Pilot

    Notes
    -----
    An arm's outcomes are drawn from its arrived outcomes, which are representative if delays do not depend on outcomes.
    Its delays follow the Kaplan-Meier curve (1958), with missing outcomes censored at the as-of time; the part of the
    curve beyond the longest observed delay counts as never arriving. Times are converted to steps by the rate of
    assignments.

    If outcomes are events, rows whose window is open count too, as in `Log.of_events`: the bandit has arms of events,
    with the share of units that have events, their number, their delays and, for sums, their values.

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.4)}, bl.delays.poisson(5))
    >>> fitted = bl.pilot(bl.simulate(bandit, bl.policies.uniform(), 500))
    >>> fitted.bandit.delay("A").quantile(0.5)
    5.0
    """
    held = require_data(log).log()
    existing = held.schedule.existing
    if not len(held):
        raise LogError("The log has no rows at its as-of time.")
    code, arrived = held.code[existing], held.arrived[existing]
    waited, pace = _delays_so_far(held, existing, arrived)
    dated = held.clock.unit is not None
    day = _DAY * held.clock.per_second if dated else None
    daily = None if per_day is None else positive("per_day", per_day)
    if day is not None:
        daily = pace * day if daily is None else daily
        pace = daily / day
    notes = []
    bandit, few = _fitted(held, existing, waited, pace)
    if held.segment_column is not None:
        notes.append(
            "The pilot's segments are not kept apart: its arms are those of all segments together. If its policy "
            "looked at segments, describe a ContextualBandit instead."
        )
    if held.capping is not None:
        notes.append(f"In the pilot, {held.capping.note(arrived.sum())}")
    if few:
        notes.append(f"Some arms have fewer than {_FEW_OUTCOMES} {_kind(held)}s: {', '.join(few)}.")
    if held.events is None and not arrived.all():
        notes.append("Outcomes later than the longest delay in the pilot are assumed never to arrive.")
    if held.events is not None and not arrived.any():
        notes.append("No window has closed yet; events later than those of the pilot are assumed never to happen.")
    if held.events is not None and held.events.lag:
        lag = length_text(held.clock, held.events.lag)
        notes.append(
            f"Events of the pilot were recorded up to {lag} late; the plan knows them at once: wait {lag} longer."
        )
    shares = _shares(held, existing, code)
    return Pilot(
        bandit=bandit,
        policy=policies.fixed(shares),
        per_day=daily,
        arms=held.arms,
        notes=tuple(notes),
        log=held,
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Pilot(Table):
    """A bandit fitted to a log; prints as a table.

    Attributes
    ----------
    bandit : Bandit
    policy : Policy
        A fixed policy with the mean probabilities of the second half of the log; the algorithm itself is not known.
    per_day : float or None
        Assignments per day, if known.
    arms : tuple
    notes : tuple of str
    log : Log
    """

    bandit: Bandit
    policy: Policy
    per_day: float | None
    arms: tuple[Label, ...]
    notes: tuple[str, ...]
    log: Log = field(repr=False)

    def _title(self) -> str:
        pace = "" if self.per_day is None else f", {self.per_day:,.4g} assignments a day"
        return f"Bandit fitted to a log of {count(len(self.log), 'row')}{pace}"

    def _notes(self) -> list[str]:
        return [f"Note: {words}" for words in self.notes]

    def _columns(self) -> list[Column]:
        fitted = [self.bandit.outcomes[arm] for arm in self.arms]
        late = [self.bandit.delay(arm) for arm in self.arms]
        shares = self.policy.shares or {}
        columns = [
            Column("arm", list(self.arms), "label"),
            Column("mean", [arm.mean for arm in fitted], "number"),
            Column("sd", [arm.sd for arm in fitted], "number"),
            Column("median_delay", [delay.quantile(0.5) for delay in late], "number"),
            Column("never", [float(np.isinf(delay.values).mean()) for delay in late], "share"),
            Column("probability", [shares[arm] for arm in self.arms], "share"),
        ]
        return [column for column in columns if column.name != "never" or self.bandit.window is None]


def _kind(log: Log) -> str:
    return "outcome" if log.events is None else "event"


def _fitted(log: Log, existing: Array | slice, waited: Array, pace: float) -> tuple[Bandit, list[str]]:
    """Return a bandit with the outcomes and delays of each arm, and which arms have few."""
    code, outcome, arrived, events = log.code[existing], log.outcome[existing], log.arrived[existing], _happened(log)
    known = code[arrived] if events is None else log.code[events.row]
    outcomes, late, few = {}, {}, []
    for k, (label, n) in enumerate(zip(log.arms, np.bincount(known, minlength=len(log.arms)).tolist(), strict=True)):
        if n < 2:
            raise LogError(
                f"Arm {one_line(repr(label))} has {count(n, _kind(log))}; a plan needs at least two of every arm."
            )
        if n < _FEW_OUTCOMES:
            few.append(f"{one_line(label)} has {n}")
        if events is not None:
            outcomes[label], late[label] = _events(log, events, k, pace)
            continue
        own = code == k
        outcomes[label] = _outcomes(outcome[own & arrived])
        late[label] = delays.empirical(_delays(waited[own], arrived[own], pace))
    if events is None:
        return Bandit(outcomes, late), few
    return Bandit(outcomes, late, _window(events, pace), events.measure), few


def _outcomes(values: Array) -> arms.Arm:
    return arms.bernoulli(float(values.mean())) if np.isin(values, (0, 1)).all() else arms.empirical(values)


def _happened(log: Log) -> Events | None:
    """Return the events so far; below a cap, those that add to a capped total, with what they add as their values."""
    events, cap = log.events, log.cap
    if events is None:
        return None
    value = events.capped(cap)
    kept = ages_of(log).counts & ((value != 0) | (cap is None))
    measure = events.measure if cap is None else "sum"
    return events._replace(row=events.row[kept], age=events.age[kept], value=value[kept], measure=measure)


def _events(log: Log, events: Events, arm: int, pace: float) -> tuple[arms.Arm, delays.Delay]:
    """Return the events of an arm and their delays in steps; each counts 1 / R, R the rows that reached its age."""
    exposed = ages_of(log)
    own = log.code[events.row] == arm
    row, age, value = events.row[own], events.age[own], events.value[own]
    reached = np.sort(exposed.age[log.code[exposed.rows] == arm])
    share = 1 / (len(reached) - np.searchsorted(reached, age))
    first = np.append(True, row[1:] != row[:-1])  # events are in order of row and age
    rate = min(float(share[first].sum()), 1.0)
    order = np.argsort(age, kind="stable")
    cumulative = np.cumsum(share[order]) / share.sum()
    places = np.searchsorted(cumulative, (np.arange(_DELAYS) + 0.5) / _DELAYS)
    steps = np.minimum(np.rint(age[order] * pace), _window(events, pace))
    more = max(float(share.sum()) / rate - 1, 0.0)
    values = arms.empirical(value) if events.measure == "sum" else None
    return arms.events(rate, values, more), delays.empirical(steps[places])


def _window(events: Events, pace: float) -> int:
    """Return the window in steps."""
    return max(round(events.window * pace), 1)


def _delays_so_far(log: Log, existing: Array | slice, arrived: Array) -> tuple[Array, float]:
    """Return each row's delay, or its age if the outcome is missing, in the clock's units; and assignments per unit."""
    assigned, first = log.assigned_numbers[existing], log.first_assignment
    since = (assigned - first).astype(np.float64)
    until = np.full(len(since), float(log.last_look - first))
    until[arrived] = log.arrived_numbers[existing][arrived] - first
    waited, last = until - since, since.max()
    if last == 0 and (waited > 0).any():
        raise LogError("Every row was assigned at the same time; a plan needs the rate of assignments.")
    # the rate is rows before the last time over the time they took, as rows with the same time are a batch
    return waited, float((since < last).sum() / last) if last > 0 else 1.0


def _delays(waited: Array, arrived: Array, pace: float) -> Array:
    """Return a sample of delays in steps that represents the Kaplan-Meier curve; infinite if beyond its end."""
    steps = np.rint(waited * pace)
    at, counts = np.unique(steps[arrived], return_counts=True)
    at_risk = len(steps) - np.searchsorted(np.sort(steps), at)
    cumulative = 1 - np.cumprod(1 - counts / at_risk)
    places = np.searchsorted(cumulative, (np.arange(_DELAYS) + 0.5) / _DELAYS)
    return np.concatenate([at, [math.inf]])[places]


def _shares(log: Log, existing: Array | slice, code: Array) -> dict[Label, float]:
    """Return the mean probability of each arm in the second half of the log, or its share of the choices."""
    later = slice(len(code) // 2, None)
    if log.has_all_propensities:
        means = log.propensity[existing][later].mean(axis=0)
    else:
        means = np.bincount(code[later], minlength=len(log.arms)).astype(np.float64)
    return dict(zip(log.arms, (means / means.sum()).tolist(), strict=True))
