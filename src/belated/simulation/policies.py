"""Policies: functions from arrived outcomes to the probability of each arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from belated.base.checks import check_shares, positive, real, whole
from belated.base.columns import Array, ByArm
from belated.base.errors import OptionError
from belated.base.text import shown
from belated.simulation.constructors import Constructed, constructor

PolicyName = Literal["fixed", "epsilon_greedy", "thompson_normal", "thompson_beta", "ucb", "own"]

#: A user's policy: a function from the arrived counts and totals of each arm, and the step, to probabilities.
PolicyFunction = Callable[[Array, Array, int], Sequence[float] | Array]


@dataclass(frozen=True, eq=False, repr=False)
class Policy(Constructed):
    """A rule for choosing the next arm: a pure function of the arrived counts, totals and the step.

    `batch` is the number of steps that share one decision. During `burn_in`, arms are equally likely; it is a number of
    steps, or below 1 a share of the horizon. In a bandit with segments, a policy learns separately in each segment, and
    counts the steps of the segment; see `pooled`. If outcomes are events, a policy knows the events so far: an
    assignment counts at once, as 0 until its events happen; see `matured`.
    """

    name: PolicyName
    parameters: tuple[float, ...] = ()
    burn_in: float = 0
    batch: int = 1
    shares: ByArm[float] | None = None
    by_segment: bool = True
    maturing: bool = False
    function: PolicyFunction | None = field(default=None, compare=False)

    def batched(self, batch: int) -> Policy:
        """Return the same policy with one decision for every `batch` steps."""
        return replace(self, batch=whole("batch", batch, least=1))

    def pooled(self) -> Policy:
        """Return the same policy, but one that does not look at segments and learns from all rows together."""
        return replace(self, by_segment=False)

    def matured(self) -> Policy:
        """Return the same policy, but one that learns from the maturing estimate of events, not from events so far.

        An arm's average is then its estimate for the whole window, and its count the number of closed windows that
        would be as informative. Each decision reads all events so far; in long runs, decide in batches.
        """
        return replace(self, maturing=True)

    def burn_in_steps(self, horizon: float) -> int:
        """Return the number of steps in which arms are equally likely."""
        return int(self.burn_in * horizon) if self.burn_in < 1 else int(min(self.burn_in, horizon))

    def __repr__(self) -> str:
        batched = f".batched({self.batch})" if self.batch > 1 else ""
        looking = ("" if self.by_segment else ".pooled()") + (".matured()" if self.maturing else "")
        return super().__repr__() + batched + looking


@constructor
def uniform() -> Policy:
    """Choose every arm with the same probability."""
    return Policy(name="fixed")


@constructor
def fixed(shares: ByArm[float]) -> Policy:
    """Choose arms with fixed probabilities, given by arm."""
    if not isinstance(shares, Mapping):
        raise OptionError(f"`shares` is {shown(shares)}; it must map each arm to its probability.")
    numbers = {label: real(f"shares[{label!r}]", share) for label, share in shares.items()}
    check_shares("`shares`", dict(shares), list(numbers.values()))
    return Policy(name="fixed", shares=numbers)


@constructor
def epsilon_greedy(c: float = 1.0, decay: float = 0.5, burn_in: float = 0.0) -> Policy:
    """Choose the arm with the best average with probability 1 - eps_t; the others share eps_t = c t ** -decay.

    An arm without arrived outcomes has average 0; ties go to the first arm. eps_t is at most (K - 1) / K, so the best
    arm is never less likely than the others.
    In the first `burn_in` steps (below 1: that share of the horizon), arms are equally likely.
    """
    return Policy(name="epsilon_greedy", parameters=(*_floor(c, decay), 0.0, 0.0), burn_in=_burn_in(burn_in))


@constructor
def thompson_normal(
    c: float = 1.0, decay: float = 0.5, noise_sd: float = 1.0, prior_sd: float = 1.0, burn_in: float = 0.0
) -> Policy:
    """Thompson sampling with normal outcomes of known standard deviation `noise_sd` and the prior N(0, prior_sd^2).

    The probabilities are exact: each arm's posterior probability of being the best. Those below the minimum,
    c t ** -decay but at most 1 / K, are raised to it, and the others are scaled.
    In the first `burn_in` steps (below 1: that share of the horizon), arms are equally likely.
    """
    noise, prior = positive("noise_sd", noise_sd), positive("prior_sd", prior_sd)
    return Policy(
        name="thompson_normal", parameters=(*_floor(c, decay), noise, (noise / prior) ** 2), burn_in=_burn_in(burn_in)
    )


@constructor
def thompson_beta(
    c: float = 1.0, decay: float = 0.5, successes: float = 1.0, failures: float = 1.0, burn_in: float = 0.0
) -> Policy:
    """Thompson sampling with 0/1 outcomes and a Beta(successes, failures) prior.

    Every arm has a probability of at least c t ** -decay, or of 1 / K if that is less.
    In the first `burn_in` steps (below 1: that share of the horizon), arms are equally likely.
    """
    prior = (positive("successes", successes), positive("failures", failures))
    return Policy(name="thompson_beta", parameters=(*_floor(c, decay), *prior), burn_in=_burn_in(burn_in))


@constructor
def ucb(c: float = 1.0, decay: float = 0.5, width: float = 1.0, burn_in: float = 0.0) -> Policy:
    """Choose the arm with the largest average + width sqrt(log t / n) with probability 1 - eps_t, as `epsilon_greedy`.

    Arms without arrived outcomes come first. The others share eps_t = c t ** -decay, which is at most (K - 1) / K.
    In the first `burn_in` steps (below 1: that share of the horizon), arms are equally likely.
    """
    return Policy(name="ucb", parameters=(*_floor(c, decay), positive("width", width), 0.0), burn_in=_burn_in(burn_in))


@constructor
def own(function: PolicyFunction, burn_in: float = 0.0) -> Policy:
    """Use your own policy: a function of (count, total, t) that returns a probability for each arm.

    `count` and `total` are the number and the sum of the arrived outcomes of each arm, `t` is the step, starting at 1.
    A function compiled with ``numba.njit`` runs at full speed; a plain Python function is slower.
    In the first `burn_in` steps (below 1: that share of the horizon), arms are equally likely.
    """
    if not callable(function):
        raise OptionError(f"`function` is {shown(function)}; it must be a function of (count, total, t).")
    return Policy(name="own", burn_in=_burn_in(burn_in), function=function)


def _floor(c: float, decay: float) -> tuple[float, float]:
    if not 0 <= real("decay", decay) < 1:
        raise OptionError(f"`decay` is {shown(decay)}; it must lie in [0, 1).")
    return positive("c", c), float(decay)


def _burn_in(burn_in: float) -> float:
    if real("burn_in", burn_in) < 0 or (burn_in >= 1 and burn_in != int(burn_in)):
        raise OptionError(
            f"`burn_in` is {shown(burn_in)}; it must be a share of the horizon below 1, or a number of steps."
        )
    return burn_in
