"""`trajectory`: estimates as of several times, as outcomes arrived."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import fraction, one_of, whole
from belated.base.columns import Array, ByArm, Label
from belated.base.errors import BelatedWarning, OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import count, percent
from belated.estimation.answers import Answer, Answers, answer_columns
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import (
    Estimator,
    EstimatorName,
    Normalisation,
    check_propensities,
    default_estimator,
    read_estimator,
)
from belated.estimation.intervals import INTERVALS, Interval, resolve_interval
from belated.estimation.target import PolicyLike
from belated.log.clock import Moment, MomentLike
from belated.log.data import Data, require_data
from belated.summaries.outcome_models import ModelLike
from belated.summaries.weights import WeightsLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def trajectory(  # noqa: PLR0913
    log: Data,
    estimator: EstimatorName | Estimator | None = None,
    *,
    at: int | Sequence[MomentLike] = 100,
    weights: WeightsLike | None = None,
    outcome_model: ModelLike | None = None,
    normalisation: Normalisation | None = None,
    level: float = 0.95,
    interval: Interval = "auto",
    cap: float | None = None,
) -> Trajectory:
    """Estimate as of several times, in one pass over the log.

    Parameters
    ----------
    log : Log or Source
        A log in memory, or a table from `read`.
    estimator, weights, outcome_model, normalisation, level, interval, cap
        As in `estimate`. Each interval is valid for a single look, not for all times together; see `sequence` for
        those. ``"auto"`` is resolved once, from all outcomes.
    at : int or sequence of times
        The number of times, evenly spaced over the rows of a log or the time of a table, the last being the log's own
        as-of time; or the times themselves.

    Returns
    -------
    Trajectory
        Its i-th estimate equals ``estimate(log.at(moments[i]), ...)``, with three exceptions. Two-point weights without
        a horizon use the number of all rows at every time. In a log with segments, the segments that are kept apart at
        its own as-of time are kept apart at every time, so early answers may be missing; and for merged segments, the
        probabilities of arrival are those of the as-of time. In a log of events, every estimate is about the window
        that was asked for, so an arm has no estimate before one of its rows has reached that age.
    """
    log = require_data(log, cap)
    if estimator is None:
        estimator = default_estimator(log)
    chosen = read_estimator(estimator, weights=weights, outcome_model=outcome_model, normalisation=normalisation)
    check_propensities(chosen, known=log.has_all_propensities)
    word = one_of("interval", interval, INTERVALS)
    level = fraction("level", level)
    moments = _moments(log, at)
    chosen = chosen.planned_for(len(log))
    sums = log.sums([chosen.parts], moments, plain=chosen.needs_plain)[0]
    kind = resolve_interval(word, sums[-1], chosen)
    clock = log.clock
    estimates = tuple(
        Estimate(
            sums=at_moment,
            estimator=chosen,
            level=level,
            interval=kind,
            as_of=clock.text(moment),
            outcome=log.outcome_name,
            unit=sums[-1].unit_of(log.measure),
        )
        for at_moment, moment in zip(sums, moments, strict=True)
    )
    for words in log.doubts_when_estimated(follows_units=chosen.weights.follow_units):
        warnings.warn(words, BelatedWarning, stacklevel=2)
    return Trajectory(tuple(clock.show(moment) for moment in moments), estimates)


def _moments(log: Data, at: int | Sequence[MomentLike]) -> Array:
    if not isinstance(at, (Sequence, np.ndarray)) or isinstance(at, str):
        return log.even_moments(whole("at", at, least=1))
    moments = [log.clock.read("at", moment) for moment in at]
    if not moments:
        raise OptionError("`at` is empty; give a number of times, or a list of times.")
    if log.moment is not None and max(moments) > log.moment:
        raise OptionError(f"`at` contains a time after the {argument('as_of')} of the log; give earlier times.")
    return np.unique(np.array(moments))


@dataclass(frozen=True, repr=False)
class Trajectory(Table):
    """Estimates as of several times; `arm`, `contrast`, `policy` and `linear` give one answer at each time.

    Attributes
    ----------
    moments : tuple
        The times.
    estimates : tuple of Estimate
        The estimate at each time.
    """

    moments: tuple[Moment, ...]
    estimates: tuple[Estimate, ...]

    def __len__(self) -> int:
        return len(self.moments)

    def __getitem__(self, i: int) -> Estimate:
        return self.estimates[i]

    def arm(self, arm: Label) -> Answers:
        """Return the answer for one arm at each time."""
        return self._follow(lambda e: e.arm(arm))

    def contrast(self, arm: Label, baseline: Label) -> Answers:
        """Return the answer for one contrast at each time."""
        return self._follow(lambda e: e.contrast(arm, baseline))

    def policy(self, policy: PolicyLike | str) -> Answers:
        """Return the answer for one policy at each time."""
        return self._follow(lambda e: e.policy(policy))

    def linear(self, coefficients: ByArm[float]) -> Answers:
        """Return the answer for one linear combination at each time."""
        return self._follow(lambda e: e.linear(coefficients))

    def _follow(self, ask: Callable[[Estimate], Answer]) -> Answers:
        return Answers("as_of", {m: ask(e) for m, e in zip(self.moments, self.estimates, strict=True)})

    def plot(self) -> Figure:
        """Draw how every arm's estimate and interval moved; a matplotlib figure, which notebooks show."""
        from belated.estimation.figures import trajectory_figure

        return trajectory_figure(self)

    def _title(self) -> str:
        last = self.estimates[-1]
        name, moments = last.estimator.name, count(len(self), "moment")
        what = "" if last.cap is None else f", {last.estimand},"
        return f"{name}{what} at {moments}: {percent(last.level)} {last.interval} intervals, each for a single look"

    def _columns(self) -> list[Column]:
        n = len(self.estimates[-1].arms)
        answers = [answer for e in self.estimates for answer in e.arm_answers]
        return [
            Column("as_of", [m for m in self.moments for _ in range(n)], "label"),
            Column("arm", [arm for e in self.estimates for arm in e.arms], "label"),
            *answer_columns(answers, test=False),
            Column(
                "arrived" if self.estimates[-1].maturity is None else "closed",
                [int(x) for e in self.estimates for x in e.arrived],
                "count",
            ),
        ]
