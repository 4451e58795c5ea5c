"""`Stage`: an experiment in the form that the kernel needs, to be simulated any number of times.

It is imported only to simulate, because it imports numba.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from belated.base.columns import Array, Label
from belated.base.errors import PolicyError
from belated.kernels import bandit as kernel
from belated.kernels import experiment
from belated.kernels.moments import MOMENTS
from belated.kernels.streams import streams
from belated.kernels.thompson import new_memo
from belated.simulation.arms import Arm
from belated.simulation.bandits import Bandit
from belated.simulation.delays import Delay
from belated.simulation.own_policies import OwnPolicy
from belated.simulation.policies import Policy


class Stage:
    """A bandit and a policy at one horizon, in the form that the kernel needs."""

    def __init__(self, bandit: Bandit, policy: Policy, horizon: int) -> None:
        self.n_arms, self.horizon, self.own = len(bandit.arms), horizon, OwnPolicy(policy, len(bandit.arms))
        delays = kernel_delays([bandit.delay(label) for label in bandit.arms])
        rule = kernel_rule(tuple(bandit.arms), policy, horizon)
        self.experiment = experiment.ExperimentArrays(
            arms=kernel_arms(bandit.arms.values()), delays=delays, rule=rule, horizon=horizon, last=horizon, peek=False
        )
        memo = memo_of(rule, self.n_arms)
        self.desk = experiment.new_desk(self.n_arms, memo=memo)
        at_once = (delays.tail == experiment.NO_TAIL).all() and np.isin(delays.values, (0, experiment.NEVER)).all()
        self.calendar = None if at_once else experiment.new_calendar(horizon)
        # studies of two arms have a kernel of their own, but for Thompson sampling, which takes longer than its loops
        self.two = True if self.n_arms == 2 and memo is None else None
        self.play, self.replicate = kernel.play, kernel.replicate
        if self.own.function is not None:
            self.play, self.replicate = kernel.for_own_policy(self.own.plain)

    def moments(self, seed: int, start: int, stop: int, peek: bool = False, wait: float = 0) -> Array:
        """Simulate the replications from start to stop; return their moments, (replications, arms, moments).

        They are analysed `wait` steps after the horizon.
        """
        out = np.zeros((stop - start, self.n_arms, len(MOMENTS)))
        last = self.horizon + int(min(wait, experiment.LONGEST))
        _, failed = self.own.call(
            self.replicate,
            out,
            streams(seed, np.arange(start, stop)),
            self.experiment._replace(last=last, peek=peek),
            self.own.function,
            self.two,
            self.desk,
            self.calendar,
        )
        if failed:
            raise self._failure(failed)
        return out

    def rows(self, seed: int, replication: int) -> tuple[Array, Array, Array, Array]:
        """Simulate one replication; return each row's arm, outcome, propensities and delay (infinite: never)."""
        code, late = np.empty(self.horizon, np.int64), np.empty(self.horizon, np.int64)
        outcome, propensity = np.empty(self.horizon), np.empty((self.horizon, self.n_arms))
        stream = streams(seed, np.array([replication]))[0]
        kernel.begin(self.desk)
        for start in range(0, self.horizon, experiment.BLOCK):
            stop = min(start + experiment.BLOCK, self.horizon)
            block = slice(start, stop)
            failed = self.own.call(
                self.play,
                stream,
                experiment.Steps(start + 1, stop + 1),
                self.experiment,
                self.own.function,
                None,  # one log takes little time: compiling the kernel for two arms would take longer than it saves
                self.desk,
                self.calendar,
                experiment.BlockRows(
                    code=code[block], outcome=outcome[block], late=late[block], propensity=propensity[block]
                ),
            )
            if failed:
                raise self._failure(failed)
        delay = np.where(late == experiment.NEVER, np.inf, late.astype(np.float64))
        return code, np.where(np.isinf(delay), np.nan, outcome), propensity, delay

    def _failure(self, step: int) -> PolicyError:
        """Return the error of a policy that failed at a step."""
        count, total = self.desk.state.reshape(-1, self.n_arms)[[experiment.COUNT, experiment.TOTAL]]
        return self.own.failure(count, total, step)


def kernel_arms(given: Iterable[Arm]) -> experiment.Arms:
    """Return distributions of outcomes as arrays."""
    arms = list(given)
    first, second, third = parameters = np.zeros((3, len(arms)))
    for k, arm in enumerate(arms):
        parameters[: len(arm.parameters), k] = arm.parameters
    kinds = np.array([experiment.ARMS.index(arm.name) for arm in arms], np.int64)
    samples = np.concatenate([np.zeros(1), *(arm.values for arm in arms)])
    starts = np.cumsum([1, *(len(arm.values) for arm in arms)])
    all_normal = bool((kinds == experiment.NORMAL).all())
    return experiment.Arms(
        kind=kinds,
        first=first,
        second=second,
        third=third,
        samples=samples,
        starts=starts,
        shift=np.array([arm.centre for arm in arms]),
        all_normal=all_normal,
    )


def kernel_delays(delays: Sequence[Delay]) -> experiment.Delays:
    """Return tables of delays, each followed by its tail and by the share that never arrives."""
    table_of = {delay: _table(delay) for delay in set(delays)}
    tables = [table_of[delay] for delay in delays]
    parameters = np.zeros((2, len(delays)))
    for k, delay in enumerate(delays):
        parameters[: len(delay.parameters), k] = delay.parameters[:2]
    return experiment.Delays(
        sure=np.array([table.sure for table in tables]),
        arrives=np.array([table.arrives for table in tables]),
        guide=np.stack([table.guide for table in tables]),
        starts=np.cumsum([0, *(len(table.values) for table in tables)])[:-1],
        cumulative=np.concatenate([table.cumulative for table in tables]),
        values=np.concatenate([table.values for table in tables]),
        tail=np.array([table.tail for table in tables]),
        first=parameters[0],
        second=parameters[1],
        never=np.array([delay.never for delay in delays]),
    )


class _Table(NamedTuple):
    """A delay's part of the tables of an experiment."""

    tail: int
    sure: bool
    arrives: float
    guide: Array
    values: Array
    cumulative: Array


def _table(delay: Delay) -> _Table:
    tail = experiment.TAILS.index(delay.name) if delay.name in experiment.TAILS else experiment.NO_TAIL
    steps, chances = delay.table
    ever = 1.0 - delay.never
    chances = chances * ever
    ends = [experiment.TAIL, experiment.NEVER] if tail else [experiment.NEVER]
    cumulative = np.concatenate([chances, [ever] * (len(ends) - 1), [2.0]])
    sure = bool(len(steps) and steps[0] == 0 and chances[0] >= 1)
    shares = np.arange(experiment.GUIDE) / experiment.GUIDE
    return _Table(
        tail=tail,
        sure=sure,
        arrives=2.0 if sure else float(cumulative[-2]) if len(cumulative) > 1 else 0.0,
        guide=np.searchsorted(cumulative, shares, side="right").astype(np.int32),
        values=np.concatenate([np.minimum(steps, experiment.LONGEST).astype(np.int64), ends]),
        cumulative=cumulative,
    )


def kernel_rule(arms: tuple[Label, ...], policy: Policy, horizon: int) -> experiment.Rule:
    """Return a policy as numbers."""
    n_arms = len(arms)
    kind = experiment.POLICIES.index(policy.name)
    share = best = other = np.zeros(1)
    parameters = np.zeros(2)
    if kind == experiment.FIXED:
        shares = policy.shares or dict.fromkeys(arms, 1 / n_arms)
        parameters = np.array([shares[label] for label in arms])
    elif kind != experiment.OWN:
        c, decay, *rest = policy.parameters
        # a floor is at most 1 / K; the others' common share at most (K - 1) / K, so that the best arm stays likeliest
        most = 1 / n_arms if policy.name.startswith("thompson") else (n_arms - 1) / n_arms
        share = _shares(c, decay, most, horizon)
        if kind == experiment.EPSILON_GREEDY:
            best, other = _roots(c, decay, most, horizon, n_arms)
        parameters = np.array(rest)
    return experiment.Rule(
        kind=kind,
        share=share,
        root_best=best,
        root_other=other,
        parameters=parameters,
        burn_in=policy.burn_in_steps(horizon),
        batch=min(policy.batch, horizon),
    )


def memo_of(rule: experiment.Rule, n_arms: int) -> Array | None:
    """Return a memo of nothing yet for Thompson sampling, None for any other policy."""
    if rule.kind not in (experiment.THOMPSON_NORMAL, experiment.THOMPSON_BETA):
        return None
    return new_memo(n_arms)


@lru_cache(maxsize=16)  # tasks of one study share it: powers cost as much as playing a step
def _shares(c: float, decay: float, most: float, horizon: int) -> Array:
    """Return c t ** -decay for t = 0 (unused), 1, ..., at most `most`."""
    share = np.arange(horizon + 1, dtype=np.float64)
    share[0] = 1.0
    np.power(share, -decay, out=share)
    share *= c
    return np.minimum(share, most, out=share)


@lru_cache(maxsize=16)
def _roots(c: float, decay: float, most: float, horizon: int, n_arms: int) -> tuple[Array, Array]:
    """Return the square roots of the probabilities that those shares leave to the best arm, and to each other arm."""
    share = _shares(c, decay, most, horizon)
    return np.sqrt(1.0 - share), np.sqrt(share / max(n_arms - 1, 1))
