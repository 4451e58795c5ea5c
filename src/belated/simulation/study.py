"""study: an experiment run many times, and what each estimator made of it."""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import merge
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from belated.base.checks import fraction, one_of, whole
from belated.base.columns import Array
from belated.base.errors import BelatedError, OptionError
from belated.base.files import write_whole
from belated.base.json_text import json_rows, json_text
from belated.base.tables import Column, Kind, Table
from belated.base.text import count, one_line, percent
from belated.estimation.estimators import ESTIMATORS, ArmStatistics, Estimator, evaluate
from belated.estimation.intervals import INTERVALS, are_skewed, combine
from belated.estimation.target import Target, read_target
from belated.kernels.experiment import ARRIVED_ROWS, ASSIGNED_ROWS
from belated.simulation import description
from belated.simulation.bandits import Bandit
from belated.simulation.cells import Cell
from belated.simulation.crew import run
from belated.simulation.moments import sums_of_runs
from belated.simulation.policies import Policy
from belated.simulation.simulate import check

#: Nanoseconds of one task: long enough not to notice the task, short enough to stop at; and of a step, about.
_TASK = 5e7
STEP_COSTS = {"thompson_normal": 400, "thompson_beta": 400, "own": 20_000}

#: Replications at most: what they leave takes half a kilobyte each.
_MOST = 10_000_000


def known_target(bandit: Bandit, target: Target) -> Target:
    """Return a target whose true value a bandit knows."""
    if math.isnan(true_value(bandit, target)):
        raise OptionError(f"The target {target.name} has an arm that has no mean to be estimated.")
    return target


def true_value(bandit: Bandit, target: Target) -> float:
    """Return the true value of a target; arms that are not in it need no mean."""
    used = target.coefficients != 0
    means = np.array([arm.mean for arm in bandit.arms.values()])
    return float(target.coefficients[used] @ means[used])


def study(
    bandit: Bandit,
    policy: Policy,
    horizons: int | Sequence[int],
    replications: int = 1000,
    *,
    estimators: Sequence[str] = tuple(ESTIMATORS),
    targets: Sequence[Any] | None = None,
    intervals: Sequence[str] = ("normal", "auto"),
    level: float = 0.95,
    seed: int = 0,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: bool | None = None,
    as_published: bool = False,
    wait: float = 0,
) -> Study:
    """Run an experiment many times at each horizon.

    Parameters
    ----------
    bandit : Bandit
    policy : Policy
    horizons : int or sequence of int
    replications : int
        Runs at each horizon. Run r is ``simulate(bandit, policy, horizon, seed, replication=r)``.
    estimators : sequence of str
    targets : list
        Each an arm, a pair (arm, baseline) for a contrast, or a mapping from arms to coefficients
        for a policy or any linear combination. Default: every arm, and every contrast with the first.
    intervals : sequence of {"normal", "t", "skew", "wilson", "auto"}
    level : float
    seed : int
    workers : int, optional
        Threads; default: one for each core.
    executor : concurrent.futures.Executor, optional
        Where to run instead: processes, or a cluster (``dask.distributed.Client().get_executor()``).
        The numbers do not depend on it. A policy that is a plain Python function gains from processes.
    progress : bool, optional
        Whether to show how far it is, on stderr; default: if that is a terminal.
    as_published : bool
        Whether the outcome model sees an outcome that came at once, as in the authors' published code.
    wait : float
        Steps after the last assignment at which a run is looked at; infinite: every outcome that comes is there.

    Returns
    -------
    Study
        Estimators, targets, intervals and level can be changed afterwards, by `Study.viewed`,
        without running anything again. After Ctrl-C it holds the replications that were done.

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.normal(0.5)}, bl.delays.poisson(5).censored(0.5))
    >>> result = bl.study(bandit, bl.policies.epsilon_greedy(burn_in=0.1), 500, replications=200)
    >>> result.coverage("daipw", ("A", "B")) > 0.9
    True
    """
    check(bandit, policy)
    lengths = list(horizons) if isinstance(horizons, Iterable) else [horizons]
    steps = [whole("horizons", horizon, least=1) for horizon in lengths]
    if not steps or len(set(steps)) < len(steps):
        raise OptionError(f"`horizons` is {horizons!r}; it must name at least one, and none twice.")
    if workers is not None:
        whole("workers", workers, least=1)
    runs, seed = whole("replications", replications, least=2), whole("seed", seed, least=0)
    if runs > _MOST:
        raise OptionError(f"`replications` is {replications!r}; it must be at most {_MOST:,}.")
    if isinstance(wait, bool) or not isinstance(wait, (int, float, np.number)) or not wait >= 0:
        raise OptionError(f"`wait` is {wait!r}; it must be a number of steps, 0 or more.")
    empty = Study(bandit, policy, seed, as_published, {}, {}, (), (), (), 0.5, wait=float(wait))
    view = empty.viewed(estimators=estimators, targets=targets, intervals=intervals, level=level)
    step = STEP_COSTS.get(policy.name, 10) + 5 * len(bandit.arms)
    sizes = {h: max(1, min(int(_TASK / (h * step)), math.ceil(runs / 4))) for h in steps}
    # all horizons advance together
    tasks = merge(*(_tasks(horizon, runs, size) for horizon, size in sizes.items()), key=lambda task: task[1])
    total = sum(math.ceil(runs / size) for size in sizes.values())
    task = _Task(bandit, policy, seed, bool(as_published), view.wait)
    done = run(task, tasks, total, workers or os.cpu_count() or 1, executor, progress)
    moments: dict[int, Array] = {}
    seconds: dict[int, float] = {}
    for horizon, size in sizes.items():
        # up to the first that is missing, so that run r is replication r also of a study that was stopped
        parts = [done[each] for each in takewhile(done.__contains__, _tasks(horizon, runs, size))]
        if sum(len(part) for part, _ in parts) >= 2:
            moments[horizon] = np.concatenate([part for part, _ in parts])
            seconds[horizon] = sum(took for _, took in parts)
    if not moments:
        raise KeyboardInterrupt
    return replace(view, moments=moments, seconds=seconds, asked=runs, left_out=len(steps) - len(moments))


def _tasks(horizon: int, runs: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the tasks of one horizon: from which replication to which."""
    return ((horizon, start, min(start + size, runs)) for start in range(0, runs, size))


@dataclass(frozen=True)
class _Task:
    """Replications of one experiment; what an executor carries."""

    bandit: Bandit
    policy: Policy
    seed: int
    peek: bool
    wait: float

    def __call__(self, horizon: int, start: int, stop: int) -> tuple[Array, float]:
        from belated.simulation.stage import Stage

        stage = Stage(self.bandit, self.policy, horizon)
        if start == 0:
            stage.moments(self.seed, 0, 0, self.peek, self.wait)  # compiles, if need be: not to be counted
        since = time.thread_time()
        moments = stage.moments(self.seed, start, stop, self.peek, self.wait)
        return moments, time.thread_time() - since


@dataclass(frozen=True, eq=False, repr=False)
class Study(Table):
    """What many runs of an experiment say about estimators, and about the policy.

    Attributes
    ----------
    bandit, policy, seed, as_published
        What was run.
    moments : dict from horizon to array
        Of each run, the sums from which every estimate is read.
    seconds : dict from horizon to float
        The processors' time.
    estimators, targets, intervals, level
        What the table shows; see `viewed`.
    asked, left_out : int
        Replications that were asked for, and horizons that have none: fewer are there if the study was stopped.
    wait : float
        Steps after the last assignment at which the runs were looked at.
    """

    bandit: Bandit
    policy: Policy
    seed: int
    as_published: bool
    moments: dict[int, Array]
    seconds: dict[int, float]
    estimators: tuple[str, ...]
    targets: tuple[Target, ...]
    intervals: tuple[str, ...]
    level: float
    asked: int = 0
    left_out: int = 0
    wait: float = 0.0
    _cells: dict[Any, Any] = field(default_factory=dict)

    @property
    def horizons(self) -> tuple[int, ...]:
        """The horizons, in the order they were given."""
        return tuple(self.moments)

    @property
    def stopped(self) -> bool:
        """Whether the study was stopped before its end."""
        return self.left_out > 0 or any(len(m) < self.asked for m in self.moments.values())

    @property
    def arms(self) -> tuple[Any, ...]:
        """The arms' labels."""
        return tuple(self.bandit.arms)

    @cached_property
    def means(self) -> Array:
        """The arms' true means."""
        return np.array([arm.mean for arm in self.bandit.arms.values()])

    @cached_property
    def centres(self) -> Array:
        """What the arms' outcomes were taken minus, in the moments."""
        return np.array([arm.centre for arm in self.bandit.arms.values()])

    def viewed(
        self,
        *,
        estimators: Sequence[str] | None = None,
        targets: Sequence[Any] | None = None,
        intervals: Sequence[str] | None = None,
        level: float | None = None,
    ) -> Study:
        """Return the same runs seen through other estimators, targets, intervals or another level."""
        chosen: Sequence[str] = self.estimators
        kinds: Sequence[str] = self.intervals
        if estimators is not None:
            chosen = [one_of("estimators", e, ESTIMATORS) for e in _several("estimators", estimators)]
        if intervals is not None:
            kinds = [self._interval(i) for i in _several("intervals", intervals)]
        kept = list(self.targets) or self._every_target()
        if targets is not None:
            kept = [self.target(t) for t in _several("targets", targets)]
        if not (chosen and kinds and kept):
            raise OptionError("A study needs at least one estimator, one target and one interval.")
        return replace(
            self,
            estimators=tuple(dict.fromkeys(chosen)),
            intervals=tuple(dict.fromkeys(kinds)),
            targets=tuple(dict.fromkeys(kept)),
            level=self.level if level is None else fraction("level", level),
            _cells={},
        )

    @property
    def _binary(self) -> bool:
        return all(arm.binary for arm in self.bandit.arms.values())

    def _interval(self, given: Any) -> str:
        if one_of("intervals", given, INTERVALS) == "wilson" and not self._binary:
            raise OptionError("`intervals` names 'wilson', which needs outcomes that are 0 or 1; 't' does not.")
        return str(given)

    def _every_target(self) -> list[Target]:
        return [*map(self.target, self.arms), *(self.target((arm, self.arms[0])) for arm in self.arms[1:])]

    def target(self, given: Any) -> Target:
        """Return an arm, a pair (arm, baseline) or a mapping from arms to coefficients as a Target."""
        return known_target(self.bandit, read_target(self.arms, given, option="targets"))

    # ---------------------------------------------------------------- results

    def statistics(self, estimator: str | Estimator, horizon: int | None = None) -> ArmStatistics:
        """Return what an estimator made of each run, arrays of shape (replications, arms)."""
        chosen = (
            estimator if isinstance(estimator, Estimator) else ESTIMATORS[one_of("estimator", estimator, ESTIMATORS)]
        )
        moments = self.moments[self._horizon(horizon)]
        sums = sums_of_runs(moments, self.centres, chosen, self._horizon(horizon))
        return evaluate(sums, chosen).reshaped(moments.shape[:2])

    def cell(self, estimator: str, target: Any, interval: str | None = None, horizon: int | None = None) -> Cell:
        """Return one estimator's performance for one target, with one kind of interval, at one horizon."""
        horizon, wanted = self._horizon(horizon), self.target(target)
        kind = self.intervals[-1] if interval is None else self._interval(interval)
        hajek = ESTIMATORS[one_of("estimator", estimator, ESTIMATORS)].normalisation == "hajek"
        if kind in ("auto", "wilson", "skew") and not hajek:
            kind = "t"
        elif kind == "auto" and self._binary:
            kind = "wilson"
        key = (horizon, estimator, wanted, kind)
        if key not in self._cells:
            if (horizon, estimator) not in self._cells:
                self._cells[horizon, estimator] = self.statistics(estimator, horizon)
            arms, tail = self._cells[horizon, estimator], (1 - self.level) / 2
            combination = combine(arms, wanted.coefficients, "t" if kind == "auto" else kind)
            with np.errstate(invalid="ignore", divide="ignore"):
                low, high = combination.limits(tail)
                if kind == "auto":  # each run's log decides
                    skewed, wider = are_skewed(arms), replace(combination, kind="skew").limits(tail)
                    low, high = np.where(skewed, wider[0], low), np.where(skewed, wider[1], high)
                error, std_error = combination.estimate - self.truth(wanted), combination.std_error
            self._cells[key] = Cell(
                horizon, estimator, wanted.name, kind, self.truth(wanted), error, std_error, low, high
            )
        cell: Cell = self._cells[key]
        return cell

    def truth(self, target: Any) -> float:
        """Return the true value of a target."""
        return true_value(self.bandit, self.target(target))

    def coverage(self, estimator: str, target: Any, interval: str | None = None, horizon: int | None = None) -> float:
        """Return how often the interval held the truth."""
        return self.cell(estimator, target, interval, horizon).coverage

    @property
    def cells(self) -> list[Cell]:
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
        """What the policy did: regret, which arms it chose, and what came of them."""
        return PolicyTable(self)

    def _horizon(self, horizon: int | None) -> int:
        if horizon is None and len(self.moments) == 1:
            return self.horizons[0]
        if not _hashable(horizon) or horizon not in self.moments:
            raise OptionError(f"`horizon` is {horizon!r}; it must be one of {', '.join(map(str, self.horizons))}.")
        return horizon

    # ---------------------------------------------------------------- keeping

    def save(self, path: str | Path) -> None:
        """Write the study to a file, whole or not at all; `load` reads it."""
        about = {
            "format": _FORMAT,
            "bandit": description.bandit_to(self.bandit), "policy": description.policy_to(self.policy),
            "seed": self.seed, "as_published": self.as_published, "level": self.level, "asked": self.asked,
            "estimators": self.estimators, "intervals": self.intervals, "horizons": self.horizons,
            "left_out": self.left_out, "targets": [[t.name, t.coefficients.tolist()] for t in self.targets],
            "seconds": [self.seconds[h] for h in self.horizons],
            "wait": self.wait if math.isfinite(self.wait) else "inf",
        }  # fmt: skip
        arrays: dict[str, Any] = {f"moments_{horizon}": moments for horizon, moments in self.moments.items()}
        arrays["about"] = np.array(json.dumps(about))
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        write_whole(path, content.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study that was saved."""
        try:
            with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                if about["format"] != _FORMAT:
                    raise KeyError("format")
                moments = {horizon: file[f"moments_{horizon}"] for horizon in about["horizons"]}
                targets = tuple(Target(name, np.array(c)) for name, c in about["targets"])
                bandit, policy = description.bandit_from(about["bandit"]), description.policy_from(about["policy"])
        except FileNotFoundError:
            raise
        except BelatedError:
            raise
        except Exception as error:
            raise OptionError(f"{str(path)!r} is not a study that was saved ({type(error).__name__}).") from None
        seconds = dict(zip(about["horizons"], about["seconds"], strict=True))
        estimators, intervals = tuple(about["estimators"]), tuple(about["intervals"])
        return cls(
            bandit, policy, about["seed"], about["as_published"], moments, seconds,
            estimators, targets, intervals, about["level"], about["asked"], about["left_out"],
            float(about.get("wait", 0.0)),
        )  # fmt: skip

    # ---------------------------------------------------------------- display

    def plot(self, kind: str = "lines", **options: Any) -> Any:
        """Draw the study, as a matplotlib figure.

        Parameters
        ----------
        kind : {"lines", "histograms", "quantiles"}
            Bias, standard deviation, coverage and length by horizon; or, at one, the studentised
            errors as histograms or against normal quantiles.
        options
            `target` and `interval`, and `horizon` for studentised errors; default: the last target and
            interval, the longest horizon.
        """
        from belated.simulation import figures as plots

        draw: dict[str, Callable[..., Any]] = {
            "lines": plots.study_lines,
            "histograms": plots.study_histograms,
            "quantiles": plots.study_quantiles,
        }
        return draw[one_of("kind", kind, draw)](self, **options)

    def to_json(self) -> str:
        """Return the table's rows, and those of the policy's, as JSON; what is not finite is null."""
        return json_text(
            "study",
            {
                "level": self.level,
                "seed": self.seed,
                "replications": self.asked,
                "stopped": self.stopped,
                "wait": self.wait if math.isfinite(self.wait) else "full",
                "rows": json_rows(self.to_dict()),
                "policy": json_rows(self.policy_table.to_dict()),
            },
        )

    def _title(self) -> str:
        runs = max(len(m) for m in self.moments.values())
        how = f"{count(runs, 'replication')}, {percent(self.level)} intervals, {one_line(repr(self.policy), 100)}"
        waited = f"{self.wait:,.10g} steps" if math.isfinite(self.wait) else "every outcome"
        return f"{how}, after waiting for {waited}" if self.wait else how

    def _notes(self) -> list[str]:
        notes = []
        if self.stopped:
            done = ", ".join(f"{len(m):,} at {h:,}" for h, m in self.moments.items())
            none = f"; {count(self.left_out, 'horizon')} had not begun" if self.left_out else ""
            notes.append(f"Note: stopped early, {done} of {count(self.asked, 'replication')}{none}.")
        if any(cell.missing for cell in self.cells):
            notes.append("Note: replications in which the target had no interval are left out; `missing` counts them.")
        return notes

    def _columns(self) -> list[Column]:
        cells = self.cells

        def column(name: str, kind: Kind, error: str | None = None) -> Column:
            errors = [getattr(c, error) for c in cells] if error else None
            return Column(name, [getattr(c, name) for c in cells], kind, errors)

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


_FORMAT = "belated study 2"


@dataclass(frozen=True, repr=False)
class PolicyTable(Table):
    """What a study's policy did."""

    study: Study

    def _title(self) -> str:
        return f"{one_line(repr(self.study.policy), 100)}: means over replications"

    def _columns(self) -> list[Column]:
        study = self.study
        gaps = np.nanmax(study.means) - study.means
        assigned = {h: m[:, :, ASSIGNED_ROWS] for h, m in study.moments.items()}
        regrets = {h: rows @ gaps for h, rows in assigned.items()}
        errors = [float(r.std(ddof=1)) / math.sqrt(len(r)) for r in regrets.values()]
        columns = [
            Column("horizon", list(study.horizons), "count"),
            Column("regret", [float(r.mean()) for r in regrets.values()], "estimate", errors),
        ]
        for k, arm in enumerate(study.arms):
            shares = [float(rows[:, k].mean()) / h for h, rows in assigned.items()]
            columns.append(Column(f"chosen {one_line(arm)}", shares, "share"))
        for k, arm in enumerate(study.arms):
            came = [m[:, k, ARRIVED_ROWS].sum() / max(m[:, k, ASSIGNED_ROWS].sum(), 1) for m in study.moments.values()]
            columns.append(Column(f"observed {one_line(arm)}", list(map(float, came)), "share"))
        per_step = [1e9 * study.seconds[h] / (h * len(m)) for h, m in study.moments.items()]
        seconds = [study.seconds[h] for h in study.horizons]
        return [*columns, Column("cpu_seconds", seconds, "number"), Column("ns_per_step", per_step, "number")]


def _several(name: str, given: Any) -> list[Any]:
    """Return a list of several, if it is one."""
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        raise OptionError(f"`{name}` is {given!r}; it must be a list.")
    return list(given)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
