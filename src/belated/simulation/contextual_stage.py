"""`ContextualStage`: an experiment with segments in the form that the kernel needs.

It is imported only to simulate, because it imports numba.
"""

from __future__ import annotations

import math

import numpy as np

from belated.kernels import contextual as kernel
from belated.kernels import experiment
from belated.kernels.streams import streams
from belated.log.log import Log
from belated.log.segments import SegmentColumn, covariates_of
from belated.simulation.contextual import ContextualBandit
from belated.simulation.groups import GroupStart
from belated.simulation.own_policies import OwnPolicy
from belated.simulation.policies import Policy
from belated.simulation.simulate import log_of_rows
from belated.simulation.stage import kernel_arms, kernel_delays, kernel_rule


class ContextualStage:
    """A contextual bandit and a policy at one horizon, in the form that the kernel needs."""

    def __init__(self, bandit: ContextualBandit, policy: Policy, horizon: int) -> None:
        self.bandit, self.horizon, arms = bandit, horizon, bandit.arms
        self.own = OwnPolicy(policy, len(arms))
        rule = kernel_rule(arms, policy, horizon)
        self.experiment = experiment.ExperimentArrays(
            arms=kernel_arms(bandit.cell_arms), delays=kernel_delays(bandit.cell_delays), rule=rule, horizon=horizon,
            last=horizon, peek=False,
        )  # fmt: skip
        self.contexts = kernel.Contexts(
            bounds=np.cumsum(bandit.mix)[:-1],
            covariates=kernel_arms(bandit.covariates.values()),
            slopes=bandit.slope_matrix,
            odds=np.array([bandit.arrival.get(name, 0.0) for name in bandit.covariates], dtype=np.float64),
        )
        self.start = GroupStart(policy, rule, bandit.mix, horizon, len(arms))
        self.waiting = kernel.new_waiting(horizon)
        self.play = kernel.play if self.own.function is None else kernel.for_own_policy(self.own.plain)

    def rows(self, seed: int, replication: int) -> kernel.Played:
        """Simulate one replication."""
        rows = kernel.new_rows(self.horizon, len(self.bandit.arms), len(self.bandit.covariates))
        groups = self.start.groups()
        stream = streams(seed, np.array([replication]))[0]
        failed = self.own.call(
            self.play,
            stream,
            self.experiment,
            self.contexts,
            self.own.function,
            self.start.memo,
            groups,
            self.waiting,
            rows,
        )
        if failed >= 0:
            self.waiting = kernel.new_waiting(self.horizon)
            raise self.own.failure(groups.arrived[failed], groups.total[failed], int(groups.step[failed]))
        return rows

    def log(self, seed: int, replication: int, wait: float = 0) -> Log:
        """Simulate one replication; return its log as of `wait` steps after the horizon."""
        rows, names = self.rows(seed, replication), list(self.bandit.covariates)
        never = rows.late == experiment.NEVER
        return log_of_rows(
            self.bandit.arms,
            rows.code,
            np.where(never, np.nan, rows.outcome),
            rows.propensity,
            np.where(never, np.inf, rows.late.astype(np.float64)),
            segment=SegmentColumn(self.bandit.labels, rows.segment),
            covariates=covariates_of(names, list(rows.x.T)) if names else None,
            moment=None if math.isinf(wait) else self.horizon + int(min(wait, experiment.LONGEST)),
        )
