"""simulate: one run of a bandit experiment, as a Log."""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.checks import whole
from belated.columns import Array
from belated.errors import OptionError, PolicyError
from belated.log import Log
from belated.simulation.bandits import Bandit, tables
from belated.simulation.policies import Policy


def simulate(bandit: Bandit, policy: Policy, horizon: int, seed: int = 0) -> Log:
    """Run an experiment once.

    Parameters
    ----------
    bandit : Bandit
    policy : Policy
    horizon : int
        The number of steps, one assignment each.
    seed : int
        The same seed gives the same log, everywhere.

    Returns
    -------
    Log
        As of the horizon, with the exact probabilities that the policy used. Outcomes that come
        later are in it: ``log.at(None)`` waits for them.

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(1), "B": bl.arms.normal(0)}, bl.delays.poisson(3))
    >>> log = bl.simulate(bandit, bl.policies.epsilon_greedy(burn_in=10), horizon=100, seed=1)
    >>> len(log), log.as_of
    (100, 100)
    """
    from belated.kernels import bandit as kernel

    steps, seed = whole("horizon", horizon, least=1), whole("seed", seed, least=0)
    n_arms = len(bandit.arms)
    if not isinstance(policy, Policy):
        raise OptionError(f"`policy` is {policy!r}; it must be a policy, such as policies.epsilon_greedy().")
    if policy.name == "thompson_beta" and any(arm.name != "bernoulli" for arm in bandit.arms.values()):
        raise OptionError("`policy` is Thompson sampling with a Beta posterior, which needs Bernoulli arms.")
    arms, delays = list(bandit.arms.values()), [bandit.delay(label) for label in bandit.arms]
    code, outcome = np.empty(steps, dtype=np.int64), np.empty(steps)
    propensity, delay = np.empty((steps, n_arms)), np.empty(steps)
    function: Any = policy.function
    plain = function is not None and not hasattr(function, "py_func")  # not compiled by numba
    run = kernel.run.py_func if plain else kernel.run
    failed = run(
        np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed))),
        policy.batch, policy.burn_in_steps(steps), kernel.POLICIES.index(policy.name), _parameters(bandit, policy),
        (lambda *state: np.asarray(function(*state), dtype=np.float64)) if plain else function,
        *tables(arms, kernel.ARMS), *tables(delays, kernel.DELAYS), np.array([delay.never for delay in delays]),
        code, outcome, propensity, delay,
    )  # fmt: skip
    if failed:
        raise _failure(function, failed, code, outcome, delay, n_arms)
    outcome[np.isinf(delay)] = np.nan
    log = Log(code, outcome, propensity, arms=range(n_arms), delay=delay, as_of=steps)
    log.arms = tuple(bandit.arms)
    return log


def _parameters(bandit: Bandit, policy: Policy) -> Array:
    if policy.name != "fixed":
        return np.array([*policy.parameters, 0.0])
    if policy.shares is None:
        return np.full(len(bandit.arms), 1 / len(bandit.arms))
    if set(policy.shares) != set(bandit.arms):
        raise OptionError(f"`policy` has shares for {list(policy.shares)!r}; the arms are {list(bandit.arms)!r}.")
    return np.array([policy.shares[label] for label in bandit.arms])


def _failure(function: Any, step: int, code: Array, outcome: Array, delay: Array, n_arms: int) -> PolicyError:
    """Ask the policy once more, to show what it answered."""
    before = slice(step - 1)
    known = np.arange(1, step) + np.maximum(delay[before], 1) <= step
    count = np.bincount(code[before][known], minlength=n_arms).astype(np.float64)
    total = np.bincount(code[before][known], outcome[before][known], minlength=n_arms)
    answer = np.asarray(function(count, total, step)).tolist()
    return PolicyError(f"The policy answered {answer} at step {step}; it must be {n_arms} probabilities that sum to 1.")
