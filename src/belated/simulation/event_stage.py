"""`EventStage`: an experiment whose outcomes are events, in the form that the kernel needs.

It is imported only to simulate, because it imports numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from belated.base.errors import OptionError
from belated.kernels import event_bandit as kernel
from belated.kernels import experiment
from belated.kernels.streams import streams
from belated.log.events import Events
from belated.log.log import Log
from belated.log.segments import SegmentColumn
from belated.simulation.arms import empirical
from belated.simulation.contextual import AnyBandit
from belated.simulation.groups import GroupStart
from belated.simulation.own_policies import OwnPolicy
from belated.simulation.policies import Policy
from belated.simulation.simulate import log_of_rows
from belated.simulation.stage import kernel_arms, kernel_delays, kernel_rule


class EventRun(NamedTuple):
    """The rows of a run, and its events."""

    rows: kernel.EventRows
    events: kernel.RunEvents


class EventStage:
    """A bandit whose outcomes are events, and a policy, at one horizon, in the form that the kernel needs."""

    def __init__(self, bandit: AnyBandit, policy: Policy, horizon: int) -> None:
        if bandit.window is None or bandit.measure is None:
            raise OptionError("The bandit has no events.")
        self.bandit, self.horizon, arms = bandit, horizon, tuple(bandit.arms)
        self.window, self.measure = bandit.window, bandit.measure
        self.own = OwnPolicy(policy, len(arms))
        rule = kernel_rule(arms, policy, horizon)
        cells = [part.arms[arm] for part in bandit.parts for arm in arms]
        rate, repeats = np.array([cell.parameters for cell in cells]).T
        self.experiment = experiment.ExperimentArrays(
            arms=kernel_arms(cell.value or empirical([1.0]) for cell in cells),
            delays=kernel_delays(bandit.cell_delays), rule=rule, horizon=horizon, last=horizon, peek=False,
        )  # fmt: skip
        self.laws = kernel.EventLaws(
            rate=np.ascontiguousarray(rate),  # one layout, one compilation
            more=repeats / (1 + repeats),
            bounds=np.cumsum(bandit.mix)[:-1],
            window=self.window,
            first_only=bandit.measure == "indicator",
            valued=bandit.measure == "sum",
            maturing=policy.maturing,
        )
        self.start = GroupStart(policy, rule, bandit.mix, horizon, len(arms))
        self.play = kernel.play if self.own.function is None else kernel.for_own_policy(self.own.plain)

    def run(self, seed: int, replication: int) -> EventRun:
        """Simulate one replication."""
        rows = kernel.new_rows(self.horizon, len(self.bandit.arms))
        groups = self.start.groups()
        stream = streams(seed, np.array([replication]))[0]
        failed, events = self.own.call(
            self.play, stream, self.experiment, self.laws, self.own.function, self.start.memo, groups, rows
        )
        if failed >= 0:
            raise self.own.failure(groups.arrived[failed], groups.total[failed], int(groups.step[failed]))
        return EventRun(rows, events)

    def log(self, seed: int, replication: int, wait: float = 0) -> Log:
        """Simulate one replication; return its log as of `wait` steps after the horizon."""
        (segment, code, propensity), (row, age, value) = self.run(seed, replication)
        nothing = np.zeros(self.horizon)
        held = SegmentColumn(self.bandit.labels, segment) if self.bandit.labels else None
        rows = log_of_rows(self.bandit.arms, code, nothing, propensity, nothing, moment=None, segment=held)
        events = Events.of(row, age, value, self.window, self.measure)
        return rows.with_events(events, self.horizon + int(min(wait, self.window)))
