"""`simulate`: one run of a bandit experiment, as a `Log`."""

from __future__ import annotations

from belated.base.checks import whole
from belated.base.errors import OptionError
from belated.log.clock import read_times
from belated.log.labels import encode
from belated.log.log import Log, LogColumns
from belated.simulation.bandits import Bandit
from belated.simulation.policies import Policy


def simulate(bandit: Bandit, policy: Policy, horizon: int, seed: int = 0, replication: int = 0) -> Log:
    """Run an experiment once.

    Parameters
    ----------
    bandit : Bandit
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
        The log as of the horizon, with the exact probabilities of the policy. It also contains outcomes that arrive
        later: ``log.at(None)`` includes them.

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(1), "B": bl.arms.normal(0)}, bl.delays.poisson(3))
    >>> log = bl.simulate(bandit, bl.policies.epsilon_greedy(burn_in=10), horizon=100, seed=1)
    >>> len(log), log.as_of
    (100, 100)
    """
    from belated.simulation.stage import Stage

    check(bandit, policy)
    steps, seed = whole("horizon", horizon, least=1), whole("seed", seed, least=0)
    replication = whole("replication", replication, least=0)
    if replication >= 2**32:
        raise OptionError(f"`replication` is {replication!r}; it must be below 2**32.")
    positions, outcome, propensity, delay = Stage(bandit, policy, steps).rows(seed, replication)
    code, _ = encode(positions, range(len(bandit.arms)), len(bandit.arms))
    assigned, arrived, clock = read_times(None, None, delay, steps)
    columns = LogColumns(
        arms=tuple(bandit.arms),
        code=code,
        outcome=outcome,
        propensity=propensity,
        assigned=assigned,
        arrived=arrived,
        clock=clock,
        moment=clock.read("horizon", steps),
    )
    return Log.of_numbers(columns)


def check(bandit: object, policy: object) -> None:
    """Raise if a bandit and a policy do not fit together."""
    if not isinstance(bandit, Bandit):
        raise OptionError(f"`bandit` is {bandit!r}; it must be a Bandit.")
    if not isinstance(policy, Policy):
        raise OptionError(f"`policy` is {policy!r}; it must be a policy, such as policies.epsilon_greedy().")
    if policy.name == "thompson_beta" and any(arm.name != "bernoulli" for arm in bandit.arms.values()):
        raise OptionError("`policy` is Thompson sampling with a Beta posterior, which needs Bernoulli arms.")
    if policy.shares is not None and set(policy.shares) != set(bandit.arms):
        raise OptionError(f"`policy` has shares for {list(policy.shares)!r}; the arms are {list(bandit.arms)!r}.")
    if policy.name == "own" and policy.function is None:
        raise OptionError("`policy` is `own`, whose function cannot be in a file; use policies.own in Python.")
