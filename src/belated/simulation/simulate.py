"""`simulate`: one run of a bandit experiment, as a `Log`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from belated.base.checks import whole
from belated.base.columns import Array, Label
from belated.base.errors import OptionError, argument
from belated.base.text import shown
from belated.log.clock import read_times
from belated.log.labels import encode
from belated.log.log import Log
from belated.log.rows import LogColumns
from belated.log.segments import SegmentColumn
from belated.simulation.bandits import Bandit
from belated.simulation.contextual import AnyBandit, ContextualBandit, is_plain
from belated.simulation.policies import Policy
from belated.summaries.covariates import Covariates

if TYPE_CHECKING:
    from belated.simulation.contextual_stage import ContextualStage
    from belated.simulation.event_stage import EventStage

#: The largest horizon; row numbers must fit the calendar of arrivals.
_LONGEST = 2**31 - 3


def simulate(bandit: AnyBandit, policy: Policy, horizon: int, seed: int = 0, replication: int = 0) -> Log:
    """Run an experiment once.

    Parameters
    ----------
    bandit : Bandit or ContextualBandit
    policy : Policy
    horizon : int
        The number of steps; each step is one assignment.
    seed : int, default 0
        The same seed gives the same log on every machine.
    replication : int, default 0
        The number of the run: ``study(..., seed=seed)`` runs replications 0, 1, 2, ...

    Returns
    -------
    Log
        The log as of the horizon, with the exact probabilities of the policy, and with the segments and covariates of a
        contextual bandit. It also contains outcomes that arrive later: ``log.at(None)`` includes them. If the arms are
        events, it is a log with events (`Log.of_events`).

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(1), "B": bl.arms.normal(0)}, bl.delays.poisson(3))
    >>> log = bl.simulate(bandit, bl.policies.epsilon_greedy(burn_in=10), horizon=100, seed=1)
    >>> len(log), log.as_of
    (100, 100)
    """
    check(bandit, policy)
    steps, seed = check_horizon("horizon", horizon), whole("seed", seed, least=0)
    replication = whole("replication", replication, least=0)
    if replication >= 2**32:
        raise OptionError(f"{argument('replication')} is {shown(replication)}; it must be below 2**32.")
    if not is_plain(bandit):
        return stage_of_logs(bandit, policy, steps).log(seed, replication)
    from belated.simulation.stage import Stage

    return log_of_rows(bandit.arms, *Stage(bandit, policy, steps).rows(seed, replication), moment=steps)


def stage_of_logs(bandit: AnyBandit, policy: Policy, horizon: int) -> EventStage | ContextualStage:
    """Return what simulates the logs of a bandit with segments or events."""
    if bandit.window is not None:
        from belated.simulation.event_stage import EventStage

        return EventStage(bandit, policy, horizon)
    from belated.simulation.contextual_stage import ContextualStage

    if not isinstance(bandit, ContextualBandit):
        raise OptionError("The bandit has neither segments nor events.")
    return ContextualStage(bandit, policy, horizon)


def log_of_rows(
    arms: Iterable[Label],
    positions: Array,
    outcome: Array,
    propensity: Array,
    delay: Array,
    *,
    moment: int | None,
    segment: SegmentColumn | None = None,
    covariates: Covariates | None = None,
) -> Log:
    """Return the log of simulated rows as of a step; None includes every outcome."""
    labels = tuple(arms)
    code, _ = encode(positions, range(len(labels)), len(labels))
    assigned, arrived, clock = read_times(None, None, delay, len(positions))
    columns = LogColumns(
        arms=labels,
        code=code,
        outcome=outcome,
        propensity=propensity,
        assigned=assigned,
        arrived=arrived,
        clock=clock,
        moment=None if moment is None else clock.read("horizon", moment),
        segment=segment,
        covariates=covariates,
    )
    return Log.of_numbers(columns)


def check_horizon(name: str, given: object) -> int:
    """Return a number of steps that can be simulated."""
    steps = whole(name, given, least=1)
    if steps > _LONGEST:
        raise OptionError(f"{argument(name)} is {shown(steps)}; it must be at most {_LONGEST:,}.")
    return steps


def check(bandit: object, policy: object) -> None:
    """Raise if a bandit and a policy do not fit together."""
    if not isinstance(bandit, (Bandit, ContextualBandit)):
        raise OptionError(f"`bandit` is {shown(bandit)}; it must be a Bandit or a ContextualBandit.")
    if not isinstance(policy, Policy):
        raise OptionError(f"`policy` is {shown(policy)}; it must be a policy, such as policies.epsilon_greedy().")
    if policy.name == "thompson_beta" and any(arm.name != "bernoulli" for arm in bandit.cell_arms):
        other = " or the indicator of events" if bandit.window is not None else ""
        raise OptionError(f"`policy` is Thompson sampling with a Beta posterior, which needs Bernoulli arms{other}.")
    if policy.maturing and bandit.window is None:
        raise OptionError("`policy` learns from maturing events, which needs arms of events, such as arms.events(0.1).")
    if policy.shares is not None and set(policy.shares) != set(bandit.arms):
        raise OptionError(f"`policy` has shares for {list(policy.shares)!r}; the arms are {list(bandit.arms)!r}.")
    if policy.name == "own" and policy.function is None:
        raise OptionError("`policy` is `own`, whose function cannot be in a file; use policies.own in Python.")
