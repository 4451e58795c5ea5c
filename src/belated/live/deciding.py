"""Deciding: the probability of every arm from what is known, by the same policy code as in simulations."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Literal, TypeVar, TypeVarTuple

import numpy as np

from belated.base.checks import tolerance
from belated.base.columns import Array
from belated.base.errors import OptionError, PolicyError, argument
from belated.base.text import one_line
from belated.live.errors import legible
from belated.live.learning import Knowledge
from belated.live.outcomes import Outcome
from belated.simulation.policies import Policy

_Values = TypeVarTuple("_Values")
_Result = TypeVar("_Result")

#: Seconds that a policy of one's own may take: less than other processes wait for one that writes, and enough to
#: compile it.
SECONDS = 30.0

#: The threads whose functions have not answered, by the function, which its thread keeps alive.
_stuck: dict[int, threading.Thread] = {}


def policy_text(policy: Policy) -> str:
    """Return a policy as JSON; a function of the user's own is not part of it."""
    from belated.simulation.description import policy_to

    return json.dumps(policy_to(policy))


def policy_of(text: str) -> Policy:
    """Return the policy of JSON that `policy_text` made; a policy of the user's own has no function then."""
    from belated.simulation.description import policy_from

    with legible("a policy"):
        return policy_from(json.loads(text))


def thompson_for(outcome: Outcome) -> Literal["thompson_beta", "thompson_normal"]:
    """Return the name of the policy that "thompson" means for an outcome."""
    return "thompson_beta" if outcome.is_share else "thompson_normal"


def check_policy(policy: object, labels: Sequence[str], outcome: Outcome) -> Policy:
    """Return a policy if the arms and the outcome can have it."""
    if not isinstance(policy, Policy):
        raise OptionError(f"{argument('policy')} must be one of bl.policies, such as bl.policies.thompson_beta().")
    if policy.shares is not None and not set(labels) >= set(policy.shares):
        raise OptionError(f"{argument('policy')} has shares of arms that the experiment does not have.")
    if policy.maturing:
        raise OptionError(
            f"{argument('policy')} is matured, but live experiments learn from closed windows; leave out `matured`."
        )
    if policy.name == "thompson_beta" and not outcome.is_share:
        raise OptionError(f"{argument('policy')} is thompson_beta, which needs outcomes from 0 to 1.")
    return policy


def decide(
    policy: Policy,
    labels: Sequence[str],
    offered: Sequence[int],
    known: Knowledge,
    planned: int,
    segments: Sequence[str] = (),
) -> list[float]:
    """Return the probability of every arm, in each segment; 0 of those that are not offered.

    A policy learns in each segment on its own; one that is pooled learns from all of them, and decides for all. A
    burn-in that is a share of the planned rows is one of the rows of all segments.

    Raises
    ------
    PolicyError
        If the policy fails, or does not return a probability for each arm.
    """
    if not offered:
        raise PolicyError("No arm is offered.")
    burn_in = policy.burn_in_steps(planned)
    if not known.steps:
        return _decide_one(policy, labels, offered, known, burns_in=known.step <= burn_in)
    if not policy.by_segment:
        together = known.pooled
        return _decide_one(policy, labels, offered, together, burns_in=known.step <= burn_in) * len(segments)
    p: list[float] = []
    for segment, own in zip(segments, known.by_segment, strict=True):
        burns_in = (known.step if policy.burn_in < 1 else own.step) <= burn_in
        try:
            p += _decide_one(policy, labels, offered, own, burns_in=burns_in)
        except PolicyError as error:
            raise PolicyError(f"In segment {one_line(repr(segment))}: {error}") from error
    return p


def _decide_one(
    policy: Policy, labels: Sequence[str], offered: Sequence[int], known: Knowledge, *, burns_in: bool
) -> list[float]:
    """Return the probability of every arm from what is known of one segment, or of all."""
    chosen = [labels[k] for k in offered]
    p = [1 / len(chosen)] * len(chosen) if burns_in else _shares(policy, chosen, known, offered)
    if len(p) != len(offered) or not all(0 <= each <= 2 for each in p):  # a sum of these cannot overflow
        raise PolicyError(f"The policy returned {p}; it must be {len(offered)} probabilities that sum to 1.")
    if abs(math.fsum(p) - 1) > tolerance(len(p)):
        raise PolicyError(f"The policy returned {p}; the probabilities must sum to 1.")
    placed = [0.0] * len(labels)
    for k, each in zip(offered, p, strict=True):
        placed[k] = each
    return placed


def _shares(policy: Policy, chosen: list[str], known: Knowledge, offered: Sequence[int]) -> list[float]:
    """Return the probabilities of the arms that are offered."""
    n = len(chosen)
    if n == 1:
        return [1.0]
    counts, totals = [known.counts[k] for k in offered], [known.totals[k] for k in offered]
    if policy.name == "fixed":
        given = [1 / n] * n if policy.shares is None else [policy.shares.get(label, 0.0) for label in chosen]
        whole = math.fsum(given)
        if whole <= 0:
            raise PolicyError("The policy's shares of the arms that are offered are all 0.")
        return [share / whole for share in given] if whole != 1 else given
    if policy.name == "own":
        return _own(policy, counts, totals, known.step)
    return _kernel(policy, chosen, counts, totals, known.step)


def _own(policy: Policy, counts: list[float], totals: list[float], step: int) -> list[float]:
    """Ask a user's own function."""
    if policy.function is None:
        raise PolicyError(
            "The policy is a Python function, which is not stored; give it again with "
            "store.experiment(name, policy=bl.policies.own(...))."
        )
    try:
        returned = answer_of(policy.function, np.array(counts, float), np.array(totals, float), step)
        answer: Array = np.asarray(returned, dtype=np.float64)
    except PolicyError:
        raise
    except (Exception, SystemExit) as error:  # a user's function may raise anything
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        raise PolicyError(f"The policy failed at step {step}: {what}.") from error
    if answer.ndim != 1:
        raise PolicyError(
            f"The policy returned an array of shape {answer.shape}; it must be one probability for each arm."
        )
    return [float(each) for each in answer]


def answer_of(function: Callable[[*_Values], _Result], *values: *_Values) -> _Result:
    """Return what a function returns, and raise what it raises.

    Raises
    ------
    PolicyError
        If it does not answer in time. Its thread goes on; until that ends, the function is not called again.
    """
    before = _stuck.get(id(function))
    if before is not None and before.is_alive():
        raise PolicyError("The policy has not returned from its last call, and is still running.")
    _stuck.pop(id(function), None)
    said: list[_Result] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            said.append(function(*values))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=copy_context().run, args=(work,), name="belated-policy", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        _stuck[id(function)] = thread
        raise PolicyError(f"The policy has not returned for {SECONDS:g} seconds.")
    if raised:
        raise raised[0]
    return said[0]


def _kernel(policy: Policy, chosen: list[str], counts: list[float], totals: list[float], step: int) -> list[float]:
    """Ask the kernel that simulations run; it is imported here, because it brings numba."""
    from belated.kernels import bandit, experiment
    from belated.simulation.stage import kernel_rule, memo_of

    horizon = 1 << max(step.bit_length(), 10)  # shares by step are a table: it grows by doubling
    rule = kernel_rule(tuple(chosen), policy, horizon)
    p, first, second = (np.zeros(len(chosen)) for _ in range(3))
    known = experiment.Known(np.array(counts, float), np.array(totals, float), step)
    memo = memo_of(rule, len(chosen))  # a new array: what an old one keeps would change the last bits
    bandit.decide(p, rule, known, experiment.Posterior(first, second), memo)
    return [float(each) for each in p]
