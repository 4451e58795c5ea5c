"""`Study`: the results of many simulated runs, for each estimator and for the policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array, Label
from belated.base.documents import json_rows, json_text
from belated.base.errors import OptionError
from belated.base.tables import CellKind, Column, Table
from belated.base.text import Unit, count, one_line, percent, shown
from belated.estimation.estimators import ESTIMATORS, ArmStatistics, Estimator, EstimatorName, evaluate
from belated.estimation.intervals import (
    Interval,
    IntervalKind,
    combine,
    fallback_interval,
    settle_interval,
)
from belated.estimation.target import Target
from belated.kernels.moments import ARRIVED, ASSIGNED
from belated.simulation import study_files
from belated.simulation.contextual import AnyBandit
from belated.simulation.moments import sums_of_runs
from belated.simulation.performance import Performance
from belated.simulation.policies import Policy
from belated.simulation.views import TargetLike, View, is_binary, read_interval, read_known_target, true_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The kinds of figures of `Study.plot`.
Drawing = Literal["lines", "histograms", "quantiles"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Study(Table):
    """The results of many simulated runs; prints as a table of bias, errors and coverage by estimator.

    Attributes
    ----------
    bandit, policy, seed, as_published
        The arguments of `study`.
    moments : dict from horizon to array
        The sums of each run, from which every estimate is computed.
    seconds : dict from horizon to float
        The processor time, in seconds.
    view : View
        The `estimators`, `targets`, `intervals` and `level` that the table shows; see `viewed`.
    asked, left_out : int
        The requested number of replications, and the number of horizons without any, if the study was stopped.
    wait : float
        Steps from the last assignment to the analysis.
    maturing : bool
        If arms are events: whether rows count whose window is open.
    """

    bandit: AnyBandit
    policy: Policy
    seed: int
    as_published: bool
    moments: dict[int, Array]
    seconds: dict[int, float]
    view: View
    asked: int = 0
    left_out: int = 0
    wait: float = 0.0
    maturing: bool = True
    _statistics: dict[tuple[int, str], ArmStatistics] = field(init=False, default_factory=dict)
    _cells: dict[tuple[int, str, Target, Interval], Performance] = field(init=False, default_factory=dict)

    @property
    def estimators(self) -> tuple[EstimatorName, ...]:
        """The estimators that the table shows."""
        return self.view.estimators

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets that the table shows."""
        return self.view.targets

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The kinds of intervals that the table shows."""
        return self.view.intervals

    @property
    def level(self) -> float:
        """The level of the intervals."""
        return self.view.level

    @property
    def horizons(self) -> tuple[int, ...]:
        """The horizons, in the given order."""
        return tuple(self.moments)

    @property
    def stopped(self) -> bool:
        """Whether the study was stopped before its end."""
        return self.left_out > 0 or any(len(m) < self.asked for m in self.moments.values())

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return tuple(self.bandit.arms)

    @cached_property
    def means(self) -> Array:
        """The true means, by arm."""
        return np.array(list(self.bandit.means.values()))

    @cached_property
    def centres(self) -> Array:
        """The values subtracted from outcomes in the moments, by arm."""
        return np.array([arm.centre for arm in self.bandit.cell_arms])

    def viewed(
        self,
        *,
        estimators: Iterable[EstimatorName] | None = None,
        targets: Iterable[TargetLike] | None = None,
        intervals: Iterable[Interval] | None = None,
        level: float | None = None,
    ) -> Study:
        """Return the same runs with other estimators, targets, intervals or another level."""
        view = View.read(
            self.bandit,
            estimators=self.estimators if estimators is None else estimators,
            targets=self.targets if targets is None else targets,
            intervals=self.intervals if intervals is None else intervals,
            level=self.level if level is None else level,
        )
        return replace(self, view=view)

    def target(self, given: TargetLike) -> Target:
        """Return an arm, a pair (arm, baseline) or a mapping from arms to coefficients as a Target."""
        return read_known_target(self.bandit, given)

    # ---------------------------------------------------------------- results

    def statistics(self, estimator: EstimatorName | Estimator, horizon: int | None = None) -> ArmStatistics:
        """Return the statistics of an estimator in each run, arrays of shape (replications, arms)."""
        chosen = (
            estimator if isinstance(estimator, Estimator) else ESTIMATORS[one_of("estimator", estimator, ESTIMATORS)]
        )
        moments = self.moments[self._horizon(horizon)]
        sums = sums_of_runs(moments, self.centres, chosen, self._horizon(horizon))
        return evaluate(sums, chosen, moments.shape[:2])

    def cell(
        self, estimator: EstimatorName, target: TargetLike, interval: Interval | None = None, horizon: int | None = None
    ) -> Performance:
        """Return one estimator's performance for one target, with one kind of interval, at one horizon."""
        length, wanted = self._horizon(horizon), self.target(target)
        name = one_of("estimator", estimator, ESTIMATORS)
        asked = self.intervals[-1] if interval is None else read_interval(self.bandit, interval)
        kind = settle_interval(fallback_interval(asked, ESTIMATORS[name]), ESTIMATORS[name])
        key = (length, name, wanted, kind)
        if key not in self._cells:
            self._cells[key] = self._new_cell(length, name, wanted, kind)
        return self._cells[key]

    def _new_cell(self, horizon: int, estimator: EstimatorName, target: Target, kind: IntervalKind) -> Performance:
        if (horizon, estimator) not in self._statistics:
            self._statistics[horizon, estimator] = self.statistics(estimator, horizon)
        arms, tail, truth = self._statistics[horizon, estimator], (1 - self.level) / 2, self.truth(target)
        with np.errstate(invalid="ignore", divide="ignore"):
            combination = combine(arms, target.coefficients, kind)
            error, std_error = combination.estimate - truth, combination.std_error
            low, high = combination.limits(tail)
        return Performance(
            horizon=horizon,
            estimator=estimator,
            target=target.name,
            interval=kind,
            truth=truth,
            error=error,
            std_error=std_error,
            low=low,
            high=high,
        )

    def truth(self, target: TargetLike) -> float:
        """Return the true value of a target."""
        return true_value(self.bandit, self.target(target))

    def coverage(
        self, estimator: EstimatorName, target: TargetLike, interval: Interval | None = None, horizon: int | None = None
    ) -> float:
        """Return the share of intervals that cover the true value."""
        return self.cell(estimator, target, interval, horizon).coverage

    @property
    def cells(self) -> list[Performance]:
        """Every cell of the table."""
        cells = [
            self.cell(estimator, target, interval, horizon)
            for horizon in self.horizons
            for target in self.targets
            for estimator in self.estimators
            for interval in self.intervals
        ]
        return list({(c.horizon, c.target, c.estimator, c.interval): c for c in cells}.values())

    @property
    def policy_table(self) -> PolicyTable:
        """The performance of the policy: regret, shares of choices, and shares of outcomes observed."""
        return PolicyTable(self)

    def _horizon(self, horizon: int | None) -> int:
        if horizon is None and len(self.moments) == 1:
            return self.horizons[0]
        if horizon is None or not isinstance(horizon, Hashable) or horizon not in self.moments:
            raise OptionError(f"`horizon` is {shown(horizon)}; it must be one of {', '.join(map(str, self.horizons))}.")
        return horizon

    # ---------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write the study to a file, which `load` reads; a failure leaves no partial file."""
        study_files.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a saved study."""
        return cls(**study_files.load(path))

    # ---------------------------------------------------------------- display

    def plot(self, kind: Drawing = "lines", **options: object) -> Figure:
        """Return a matplotlib figure of the study.

        Parameters
        ----------
        kind : {"lines", "histograms", "quantiles"}
            "lines": bias, standard deviation, coverage and length by horizon. The others: studentised errors at one
            horizon, as histograms or against normal quantiles.
        options
            `target` and `interval`, and `horizon` for studentised errors; by default the last target and interval, and
            the longest horizon.
        """
        from belated.simulation import figures

        drawings: dict[Drawing, Callable[..., Figure]] = {
            "lines": figures.study_lines,
            "histograms": figures.study_histograms,
            "quantiles": figures.study_quantiles,
        }
        return drawings[one_of("kind", kind, drawings)](self, **options)

    def to_json(self) -> str:
        """Return the rows of the table and of the policy table as JSON, with null for NaN and infinity."""
        return json_text(
            "study",
            {
                "level": self.level,
                "seed": self.seed,
                "replications": self.asked,
                "stopped": self.stopped,
                "wait": self.wait if math.isfinite(self.wait) else "full",
                "maturing": None if self.bandit.window is None else self.maturing,
                "rows": json_rows(self.to_dict()),
                "policy": json_rows(self.policy_table.to_dict()),
            },
        )

    def _title(self) -> str:
        runs = max(len(m) for m in self.moments.values())
        how = f"{count(runs, 'replication')}, {percent(self.level)} intervals, {one_line(repr(self.policy), 100)}"
        how += ", errors in percentage points" if self._unit == "points" else ""
        how += ", closed windows only" if self.bandit.window is not None and not self.maturing else ""
        waited = f"{self.wait:,.10g} steps" if math.isfinite(self.wait) else "every outcome"
        return f"{how}, after waiting for {waited}" if self.wait else how

    def _notes(self) -> list[str]:
        notes = []
        if self.stopped:
            done = ", ".join(f"{len(m):,} at {h:,}" for h, m in self.moments.items())
            none = f"; {count(self.left_out, 'horizon')} not started" if self.left_out else ""
            notes.append(f"Note: stopped early, {done} of {count(self.asked, 'replication')}{none}.")
        if any(cell.missing for cell in self.cells):
            notes.append("Note: replications in which the target had no interval are left out; `missing` counts them.")
        return notes

    @property
    def _unit(self) -> Unit:
        """The unit in which errors are shown: percentage points for rates."""
        return "points" if is_binary(self.bandit) else "number"

    def _columns(self) -> list[Column]:
        cells = self.cells

        def column(name: str, kind: CellKind, error: str | None = None) -> Column:
            errors = [getattr(c, error) for c in cells] if error else None
            return Column(name, [getattr(c, name) for c in cells], kind, errors, unit=self._unit, terse=True)

        columns = [
            column("horizon", "count"),
            column("target", "label"),
            column("estimator", "label"),
            column("interval", "label"),
            column("bias", "estimate", "bias_error"),
            column("abs_error", "estimate", "bias_error"),
            column("sd", "estimate", "sd_error"),
            column("mean_se", "estimate", "sd_error"),
            column("rmse", "estimate", "sd_error"),
            column("coverage", "share"),
            column("coverage_low", "share"),
            column("coverage_high", "share"),
            column("length", "estimate", "sd_error"),
        ]
        return [*columns, column("missing", "count")] if any(c.missing for c in cells) else columns


@dataclass(frozen=True, repr=False)
class PolicyTable(Table):
    """The performance of the policy of a study; prints as a table."""

    study: Study

    def _title(self) -> str:
        return f"{one_line(repr(self.study.policy), 100)}: means over replications"

    def _columns(self) -> list[Column]:
        study = self.study
        # by arm, or in a contextual bandit by segment and arm
        gaps = (np.fmax.reduce(study.means, axis=-1, keepdims=True) - study.means).ravel()
        regrets = {h: m[:, :, ASSIGNED] @ gaps for h, m in study.moments.items()}
        rows = {
            h: m[:, :, [ASSIGNED, ARRIVED]].reshape(len(m), -1, len(study.arms), 2).sum(axis=1)
            for h, m in study.moments.items()
        }
        errors = [float(r.std(ddof=1)) / math.sqrt(len(r)) for r in regrets.values()]
        columns = [
            Column("horizon", list(study.horizons), "count"),
            Column("regret", [float(r.mean()) for r in regrets.values()], "estimate", errors),
        ]
        for k, arm in enumerate(study.arms):
            shares = [float(counts[:, k, 0].mean()) / h for h, counts in rows.items()]
            columns.append(Column(f"chosen {one_line(arm)}", shares, "share"))
        for k, arm in enumerate(study.arms):
            sums = [counts[:, k].sum(axis=0) for counts in rows.values()]
            observed = [float(arrived / max(assigned, 1)) for assigned, arrived in sums]
            columns.append(Column(f"observed {one_line(arm)}", observed, "share"))
        per_step = [1e9 * study.seconds[h] / (h * len(m)) for h, m in study.moments.items()]
        seconds = [study.seconds[h] for h in study.horizons]
        return [*columns, Column("cpu_seconds", seconds, "number"), Column("ns_per_step", per_step, "number")]
