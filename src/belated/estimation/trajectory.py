"""Trajectory: how the answers moved while outcomes came in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from belated.base.checks import fraction, one_of, whole
from belated.base.columns import Array, ByArm, Label
from belated.base.errors import OptionError
from belated.base.tables import Column, Table
from belated.base.text import count, percent
from belated.estimation.answers import Answer, Answers, answer_columns
from belated.estimation.estimate import Estimate
from belated.estimation.estimators import (
    Estimator,
    EstimatorName,
    Normalisation,
    check_propensities,
    read_estimator,
)
from belated.estimation.intervals import INTERVALS, Interval, resolve_interval
from belated.log.clock import Moment, MomentLike
from belated.log.data import Data, require_data
from belated.summaries.outcome_models import ModelLike
from belated.summaries.weights import WeightsLike


def trajectory(
    log: Data,
    estimator: EstimatorName | Estimator = "daipw",
    *,
    at: int | Sequence[MomentLike] = 100,
    weights: WeightsLike | None = None,
    outcome_model: ModelLike | None = None,
    normalisation: Normalisation | None = None,
    level: float = 0.95,
    interval: Interval = "auto",
    cap: float | None = None,
) -> Trajectory:
    """Estimate as of many moments, in one pass over the log.

    Parameters
    ----------
    log : Log, or what `read` gives
    estimator, weights, outcome_model, normalisation, level, interval, cap
        As in `estimate`. The intervals are those of a single look: they do not hold at all
        moments together. ``"auto"`` is decided once, by all outcomes.
    at : int or sequence of moments
        A number of moments, evenly spaced over a log's rows, or a table's time, with the last being the
        log's own; or the moments themselves.

    Returns
    -------
    Trajectory
        Whose i-th estimate equals ``estimate(log.at(moments[i]), ...)``; two-point weights without
        a horizon plan for all rows, at every moment.
    """
    chosen = read_estimator(estimator, weights=weights, outcome_model=outcome_model, normalisation=normalisation)
    log = require_data(log, cap)
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
        )
        for at_moment, moment in zip(sums, moments, strict=True)
    )
    return Trajectory(tuple(clock.show(moment) for moment in moments), estimates)


def _moments(log: Data, at: int | Sequence[MomentLike]) -> Array:
    if not isinstance(at, (Sequence, np.ndarray)) or isinstance(at, str):
        return log.even_moments(whole("at", at, least=1))
    moments = [log.clock.read("at", moment) for moment in at]
    if not moments:
        raise OptionError("`at` names no moment; give a number of moments, or the moments.")
    if log.moment is not None and max(moments) > log.moment:
        raise OptionError("`at` names a moment after the log's `as_of`; nothing is known about it.")
    return np.unique(np.array(moments))


@dataclass(frozen=True, repr=False)
class Trajectory(Table):
    """Estimates at many moments; `arm`, `contrast`, `policy` and `linear` follow one answer.

    Attributes
    ----------
    moments : tuple
    estimates : tuple of Estimate
    """

    moments: tuple[Moment, ...]
    estimates: tuple[Estimate, ...]

    def __len__(self) -> int:
        return len(self.moments)

    def __getitem__(self, i: int) -> Estimate:
        return self.estimates[i]

    def arm(self, arm: Label) -> Answers:
        """Return how one arm's answer moved."""
        return self._follow(lambda e: e.arm(arm))

    def contrast(self, arm: Label, baseline: Label) -> Answers:
        """Return how one contrast moved."""
        return self._follow(lambda e: e.contrast(arm, baseline))

    def policy(self, policy: ByArm[float] | str) -> Answers:
        """Return how one policy's answer moved."""
        return self._follow(lambda e: e.policy(policy))

    def linear(self, coefficients: ByArm[float]) -> Answers:
        """Return how one linear combination's answer moved."""
        return self._follow(lambda e: e.linear(coefficients))

    def _follow(self, ask: Callable[[Estimate], Answer]) -> Answers:
        return Answers("as_of", {m: ask(e) for m, e in zip(self.moments, self.estimates, strict=True)})

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
            Column("arrived", [int(x) for e in self.estimates for x in e.sums["arrived"]], "count"),
        ]
