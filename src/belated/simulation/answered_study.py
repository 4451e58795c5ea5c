"""Studies of bandits with segments or events: each run is a log, answered by the code of `estimate`.

A task keeps, of each run, its counts and the answers for every target, estimator and interval. The statistics of its
runs are stacked, so that intervals are computed for all runs with the same segments at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from belated.base.columns import Array, Label
from belated.base.errors import OptionError
from belated.estimation.estimators import (
    ESTIMATORS,
    ArmStatistics,
    Common,
    Estimator,
    EstimatorName,
    Moments,
    evaluate,
)
from belated.estimation.intervals import (
    Combination,
    Interval,
    IntervalKind,
    combine,
    fallback_interval,
    settle_interval,
)
from belated.estimation.standardised import Population, cell_statistics, with_estimated_shares
from belated.estimation.target import Target
from belated.kernels.moments import ARRIVED, ASSIGNED
from belated.log.log import Log
from belated.simulation.contextual import AnyBandit
from belated.simulation.performance import Performance
from belated.simulation.policies import Policy
from belated.simulation.results import Study
from belated.simulation.simulate import stage_of_logs
from belated.simulation.views import TargetLike, View
from belated.summaries.outcome_models import OutcomeModel
from belated.summaries.segments import Segments
from belated.summaries.sums import Sums
from belated.summaries.weights import Weights


def kinds_of(view: View) -> list[tuple[EstimatorName, IntervalKind]]:
    """Return the pairs of estimator and kind of interval of a view, none twice."""
    pairs = ((name, settle_kind(interval, name)) for name in view.estimators for interval in view.intervals)
    return list(dict.fromkeys(pairs))


def settle_kind(interval: Interval, name: EstimatorName) -> IntervalKind:
    """Return the kind of interval that an estimator gets."""
    return settle_interval(fallback_interval(interval, ESTIMATORS[name]), ESTIMATORS[name])


@dataclass(frozen=True)
class AnswerTask:
    """A task for an executor: replications of one experiment with segments or events.

    For events, rows whose window is open count if `maturing`; otherwise only rows whose window has closed count.
    """

    bandit: AnyBandit
    policy: Policy
    seed: int
    wait: float
    view: View
    maturing: bool

    def __call__(self, horizon: int, start: int, stop: int) -> tuple[tuple[Array, Array], float]:
        """Return the counts of runs, (runs, cells, 2), their answers, (runs, targets, kinds, 4), and the seconds."""
        stage = stage_of_logs(self.bandit, self.policy, horizon)
        if start == 0:
            stage.log(self.seed, 0)  # compiles if necessary, outside the measured time
        since = time.thread_time()
        counts = np.empty((stop - start, len(self.bandit.cell_arms), 2))
        alike: dict[tuple[Label, ...], _Alike] = {}
        estimators = [ESTIMATORS[name] for name in self.view.estimators]
        parts = list(dict.fromkeys(estimator.parts for estimator in estimators))
        plain = any(estimator.needs_plain for estimator in estimators)
        for run in range(stop - start):
            log = stage.log(self.seed, start + run, self.wait)
            counts[run] = _counts(log)
            moments = None
            if self.bandit.window is not None:
                if not log.arrived.any():  # no row has reached the end of its window
                    continue
                log = log if self.maturing else log.closed()
                moments = np.array([log.moment])
            sums = {part: each[-1] for part, each in zip(parts, log.sums(parts, moments, plain=plain), strict=True)}
            alike.setdefault(log.segments, _Alike(self.bandit, log.segments)).add(run, sums)
        kinds = kinds_of(self.view)
        answers = np.full((stop - start, len(self.view.targets), len(kinds), 4), np.nan)
        for some in alike.values():
            for i, target in enumerate(self.view.targets):
                for j, (name, kind) in enumerate(kinds):
                    answers[some.runs, i, j] = some.answers(target, ESTIMATORS[name], kind, self.view.level)
        return (counts, answers), time.thread_time() - since


def _counts(log: Log) -> Array:
    """Return the number of rows and of arrived outcomes by segment and arm, before segments are merged."""
    cell = log.code
    cells = arms = len(log.arms)
    if log.segment_column is not None:
        cell, cells = log.segment_column.code * arms + log.code, len(log.segment_column.labels) * arms
    counts = np.zeros((cells, 2))
    counts[:, ASSIGNED] = np.bincount(cell, minlength=cells)
    counts[:, ARRIVED] = np.bincount(cell[log.arrived], minlength=cells)
    return counts


class _Alike:
    """Runs that have the same segments after small ones were merged, or none, answered together."""

    def __init__(self, bandit: AnyBandit, segments: tuple[Label, ...]) -> None:
        self.bandit, self.labels = bandit, segments
        self.runs: list[int] = []
        self.sums: dict[object, list[Segments]] = {}  # by weights and outcome model
        self.plain: dict[object, list[Sums]] = {}  # of runs without segments
        self._statistics: dict[tuple[Estimator, bool], ArmStatistics] = {}

    def add(self, run: int, sums: Mapping[tuple[Weights, OutcomeModel], Sums]) -> None:
        """Add the sums of a run."""
        self.runs.append(run)
        for part, each in sums.items():
            if each.segments is not None:
                self.sums.setdefault(part, []).append(each.segments)
            else:
                self.plain.setdefault(part, []).append(each)

    def answers(self, target: Target, estimator: Estimator, kind: IntervalKind, level: float) -> Array:
        """Return each run's estimate, standard error and limits, (runs, 4); NaN if it lacks a segment of the target."""
        if not self.bandit.labels:
            return _limits(combine(self._of_cells(estimator, shares_known=True), target.coefficients, kind), level)
        own, by_segment = self.bandit.labels, target.coefficients.ndim == 2
        needed = own if by_segment else () if target.segment is None else (target.segment,)
        if not set(needed) <= set(self._unmerged):
            return np.full((len(self.runs), 4), np.nan)
        coefficients = target.coefficients
        if by_segment:
            coefficients = coefficients[[own.index(label) for label in self.labels]]
        shares = self._rows / self._rows.sum(axis=1, keepdims=True)
        if target.segment is not None:
            shares = np.tile([float(label == target.segment) for label in self.labels], (len(shares), 1))
        spread = (shares[:, :, np.newaxis] * coefficients).reshape(len(shares), -1)
        used = np.flatnonzero(spread.any(axis=0))
        with np.errstate(invalid="ignore", divide="ignore"):
            arms = self._of_cells(estimator, shares_known=target.segment is not None).subset(used)
            return _limits(Combination(kind=kind, coefficients=spread[:, used], arms=arms), level)

    @property
    def _segments(self) -> list[Segments]:
        return next(iter(self.sums.values()))

    @property
    def _unmerged(self) -> tuple[Label, ...]:
        """The segments of the bandit that are kept apart."""
        return self.labels[:-1] if self._segments[0].merged else self.labels

    @cached_property
    def _rows(self) -> Array:
        """The number of rows of each run and segment."""
        return np.array([segments.rows for segments in self._segments])

    def _of_cells(self, estimator: Estimator, *, shares_known: bool) -> ArmStatistics:
        """Return the statistics of each run and cell, (runs, cells)."""
        key = (estimator, shares_known)
        if key not in self._statistics:
            self._statistics[key] = self._computed(estimator, shares_known)
        return self._statistics[key]

    def _computed(self, estimator: Estimator, shares_known: bool) -> ArmStatistics:
        if not shares_known:
            known = self._of_cells(estimator, shares_known=True)
            return with_estimated_shares(known, self._rows)
        if not self.bandit.labels:
            runs = self.plain[estimator.parts]
            return evaluate(_joined(runs), estimator, (len(runs), len(self.bandit.arms)))
        segments = self.sums[estimator.parts]
        if segments[0].covariates is None or estimator.normalisation != "hajek":
            cells = [each.cells for each in segments]
            return evaluate(_joined(cells), estimator, (len(cells), len(cells[0].arms)))
        one = Population.of_segment(self.labels, self.labels[0])
        return _stacked([cell_statistics(each, estimator, one) for each in segments])


def _limits(combination: Combination, level: float) -> Array:
    """Return each run's estimate, standard error and limits, (runs, 4)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        limits = combination.limits((1 - level) / 2)
        return np.column_stack([combination.estimate, combination.std_error, *limits])


def _joined(parts: Sequence[Sums]) -> Sums:
    """Return the sums of several runs, treating each cell of each run as an arm."""
    shift = np.concatenate([part.shift for part in parts])
    return replace(
        parts[0],
        arms=tuple(range(len(shift))),
        shift=shift,
        spread=np.concatenate([part.spread for part in parts], axis=1),
        own=np.concatenate([part.own for part in parts]),
    )


def _stacked(parts: Sequence[ArmStatistics]) -> ArmStatistics:
    """Return the statistics of several runs with the same cells as arrays of shape (runs, cells)."""
    first = parts[0]
    apart = ("moments", "shared", "common")
    names = [f.name for f in fields(first) if f.name not in apart and getattr(first, f.name) is not None]
    stacked: dict[str, Any] = {name: np.stack([getattr(part, name) for part in parts]) for name in names}
    moments = Moments(*map(np.stack, zip(*(part.moments for part in parts), strict=True)))
    each = [part.common or Common(np.zeros((0, len(first.value))), 1.0) for part in parts]
    factor = np.zeros((len(parts), max(len(c.factor) for c in each), len(first.value)))
    for run, c in enumerate(each):
        factor[run, : len(c.factor)] = c.factor
    common = Common(factor, np.array([c.degrees for c in each]))
    return replace(first, moments=moments, common=common, **stacked)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AnsweredStudy(Study):
    """A study of a bandit with segments or events: it keeps the answers of each run for the targets, not its sums.

    Attributes
    ----------
    moments : dict from horizon to array
        The numbers of rows and of arrived outcomes (of events, of closed windows) of each run by segment and arm.
    answers : dict from horizon to array
        Estimate, standard error and limits, by run, target, and pair of estimator and interval.
    kept : View
        What the answers are of.
    """

    answers: dict[int, Array]
    kept: View

    @classmethod
    def of(cls, study: Study, answers: dict[int, Array]) -> AnsweredStudy:
        """Return the study with the answers of its runs."""
        known = {f.name: getattr(study, f.name) for f in fields(study) if f.init}
        return cls(**known, answers=answers, kept=study.view)

    @cached_property
    def means(self) -> Array:
        """The true means, by segment and arm."""
        return self.bandit.mean_matrix if self.bandit.labels else super().means

    def viewed(
        self,
        *,
        estimators: Iterable[EstimatorName] | None = None,
        targets: Iterable[TargetLike] | None = None,
        intervals: Iterable[Interval] | None = None,
        level: float | None = None,
    ) -> Study:
        """Return the same runs with some of the estimators, targets and intervals that the study was run with."""
        if level is not None and level != self.kept.level:
            _not_kept(f"the level {level!r}")
        view = super().viewed(estimators=estimators, targets=targets, intervals=intervals)
        for name, kind in kinds_of(view.view):
            if (name, kind) not in kinds_of(self.kept):
                _not_kept(f"{kind!r} intervals of {name!r}")
        for target in view.view.targets:
            if target not in self.kept.targets:
                _not_kept(f"the target {target.name!r}")
        return view

    def statistics(self, estimator: EstimatorName | Estimator, horizon: int | None = None) -> ArmStatistics:
        """Raise: the study keeps answers only."""
        _not_kept("the statistics of its runs")

    def _new_cell(self, horizon: int, estimator: EstimatorName, target: Target, kind: IntervalKind) -> Performance:
        kinds = kinds_of(self.kept)
        if target not in self.kept.targets:
            _not_kept(f"the target {target.name!r}")
        if (estimator, kind) not in kinds:
            _not_kept(f"{kind!r} intervals of {estimator!r}")
        truth = self.truth(target)
        place = self.kept.targets.index(target), kinds.index((estimator, kind))
        value, std_error, low, high = self.answers[horizon][:, *place].T
        return Performance(
            horizon=horizon,
            estimator=estimator,
            target=target.name,
            interval=kind,
            truth=truth,
            error=value - truth,
            std_error=std_error,
            low=low,
            high=high,
        )


def _not_kept(what: str) -> NoReturn:
    raise OptionError(
        f"A study of a bandit with segments or events keeps only the answers that it was run for, and not {what}; "
        "run `study` again with it."
    )
