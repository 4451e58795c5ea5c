"""Sensitivity analysis: how much arrival may depend on the outcome before a conclusion changes.

`sensitivity` returns a `Sensitivity`, whose assumption is a factor G between the odds of arrival. Its `shift` limits
the difference between the means of missing and arrived outcomes instead. The tipping point is the size of the
assumption at which the conclusion changes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from belated.assumptions.mature_rows import AgeLike, MatureRows, mature_rows
from belated.assumptions.missing import Assumption, Bounds, MissingOutcomes, Odds, Shifted, bounds_columns, in_points
from belated.base.checks import fraction, real
from belated.base.columns import Array, Label
from belated.base.documents import json_rows, json_text
from belated.base.errors import BelatedWarning, OptionError, argument, without_warnings
from belated.base.roots import bisect
from belated.base.tables import Column, Table
from belated.base.text import Unit, count, first_few, in_unit, one_line, percent, share_text, shorten_all, shown
from belated.estimation.estimate import estimate
from belated.estimation.target import Target, read_target
from belated.log.data import Data, require_data
from belated.log.log import Log
from belated.summaries.caps import Cap, capped_at, no_cap
from belated.summaries.maturing import unit_of_events

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.assumptions.figures import Curves

#: The factors G that a table shows by default.
_GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)

#: The shifts that a table shows, in standard deviations.
_SHIFTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)

#: Columns of text that an arm's name takes in a sentence.
_NAME = 60

#: The most names that are joined by "or".
_FEW_NAMES = 3

#: The search for a tipping point stops at this factor, or at this shift in standard deviations.
_LARGEST_FACTOR = 10_000.0

#: Steps of that search, and bisections of the step in which the interval first includes the null value.
_STEPS, _HALVINGS = 80, 40


def sensitivity(
    log: Data,
    contrast: object,
    *,
    gammas: Sequence[float] | None = None,
    level: float = 0.95,
    mature: AgeLike | None = None,
    null: float = 0.0,
    cap: float | None = None,
    segment: Label = None,
) -> Sensitivity:
    """Compute how much arrival may depend on the outcome before a conclusion changes.

    Every other estimate assumes that, within an arm, whether an outcome arrives does not depend on its value. A log
    cannot show whether this holds for outcomes that never arrive. Here the assumption is weaker: the odds that an
    outcome arrives may vary with its value, in any way and separately in each arm, by at most a factor G.

    Parameters
    ----------
    log : Log or Source
        A log in memory, or a table from `read`.
    contrast : (arm, arm), arm, or mapping from arms to coefficients
        The first arm's mean minus the second's; one arm's mean; or any linear combination of means, such as a policy's.
        Means are over all assigned rows, whether or not their outcomes arrive.
    gammas : sequence of float, optional
        The factors G to show, each 1 or more. By default 1, 1.25, 1.5, 2, 3, 5 and 10.
    level : float, default 0.95
        The level of the intervals.
    mature : number, duration or str, optional
        Only rows assigned at least this long before the log's as-of time count: ``7 * 24``, ``"7d"``. By default the
        time in which 99 % of the observed outcomes arrived, but at most the median age of the rows.
    null : float, default 0
        The conclusion is that the contrast lies above or below this value.
    cap : float, optional
        Outcomes above the cap count as the cap. By default, the cap of the log, if it has one.
    segment : optional
        The segment whose rows to use, in a log with segments. By default bounds are made within segments and averaged
        over the mix of segments; the odds may then vary by G within each segment and arm.

    Returns
    -------
    Sensitivity

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(0), "B": bl.arms.normal(1)}, bl.delays.poisson(3).censored(0.3))
    >>> log = bl.simulate(bandit, bl.policies.epsilon_greedy(burn_in=100), horizon=2000, seed=1)
    >>> print(bl.sensitivity(log, ("B", "A")).conclusion)
    B is higher than A, unless the odds that an outcome arrives vary with its value by more than a factor of 3.12.
    """
    memory = require_data(log, cap).log()
    given = memory.closed()
    if segment is not None:
        given = _in_segment(given, segment)
    target = read_target(given.arms, contrast, option="contrast")
    factors = _GAMMAS if gammas is None else _read_gammas(gammas)
    level, null = fraction("level", level), real("null", null)
    rows, maturity = mature_rows(given, np.flatnonzero(target.coefficients), mature)
    tail = (1 - level) / 2
    for words in memory.contexts():
        warnings.warn(words, BelatedWarning, stacklevel=2)
    return Sensitivity(
        name=target.name,
        arms=given.arms,
        coefficients=target.coefficients,
        gammas=factors,
        level=level,
        null=null,
        maturity=maturity,
        missing=MissingOutcomes.of(rows, target.coefficients, tail, _estimated(memory, target, tail, segment)),
        arrived=int(given.arrived.sum()),
        cap=given.capping,
        unit=target.unit(_unit(given)),
    )


def _in_segment(log: Log, segment: Label) -> Log:
    """Return the rows of one segment; of merged ones with their own, which policy and arrival may tell apart."""
    if log.segment_column is None or not log.layout.merged or segment != log.layout.labels[-1]:
        return log.in_segment(segment)
    rows = log.only(log.layout.judged[log.segment_column.code] < 0, segments=True)
    return Log.of_numbers(replace(rows.given, layout=None), parts=(rows,))


def _estimated(log: Log, target: Target, tail: float, segment: Label) -> tuple[float, float]:
    """Return the limits of `estimate`, which assumes that arrival does not depend on the outcome."""
    with without_warnings():
        known = estimate(log)
    with np.errstate(all="ignore"):
        asked = known if segment is None else known.segment(segment)
        low, high = asked.combination(target.coefficients).limits(tail)
    return float(low), float(high)


def _unit(log: Log) -> Unit:
    """Return the unit of the means of a log for display, as in `Sums.unit_of`."""
    if log.measure is not None:
        return unit_of_events(log.measure)
    outcomes = log.outcome[log.arrived]
    both = 0.0 in outcomes and 1.0 in outcomes
    return "percent" if both and bool(np.isin(outcomes, (0, 1)).all()) else "number"


# ---------------------------------------------------------------- options


def _read_gammas(gammas: object) -> tuple[float, ...]:
    try:
        several = list(gammas) if isinstance(gammas, Iterable) and not isinstance(gammas, (str, bytes)) else []
    except TypeError:  # an array of no dimension
        several = []
    if not several:
        raise OptionError(
            f"{argument('gammas')} is {shown(gammas)}; it must be a list of numbers, such as [1, 1.5, 2]."
        )
    return tuple(sorted({_read_gamma(gamma) for gamma in several}))


def _read_gamma(value: object) -> float:
    number = real("gamma", value)
    if number < 1:
        raise OptionError(f"{argument('gamma')} is {shown(value)}; it must be 1 or more.")
    return number


# ---------------------------------------------------------------- by a factor between odds


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Table):
    """Bounds and intervals if the odds of arriving vary with the outcome by at most a factor G; prints as a table.

    Attributes
    ----------
    name : str
        The name of the arm or contrast.
    arms : tuple
        The labels of all arms.
    coefficients : array
        One number per arm.
    gammas : tuple of float
        The factors G of the table.
    level : float
        The level of the intervals.
    null : float
        The conclusion is that the contrast lies above or below this value.
    maturity : MatureRows
        Which rows count.
    arrived : int
        The number of outcomes that have arrived, in all rows.
    cap : Cap or None
        The cap on outcomes, and the number of outcomes above it.
    unit : str
        The unit in which it is shown, as in `Answer`.
    """

    name: str
    arms: tuple[Label, ...]
    coefficients: Array
    gammas: tuple[float, ...]
    level: float
    null: float
    maturity: MatureRows
    missing: MissingOutcomes = field(repr=False)
    arrived: int
    cap: Cap | None = None
    unit: Unit = "number"

    def at(self, gamma: float) -> Bounds:
        """Return the bounds if the odds of arriving vary with the outcome by at most a factor `gamma`."""
        factor = _read_gamma(gamma)
        smaller = [Odds(g) for g in _GAMMAS if g < factor]
        bound_low, bound_high, low, high = self.missing.limits_within(Odds(factor), smaller)
        return Bounds(
            name=self.name,
            gamma=factor,
            delta=None,
            bound_low=bound_low,
            bound_high=bound_high,
            low=low,
            high=high,
            level=self.level,
            unit=self.unit,
        )

    @cached_property
    def rows(self) -> tuple[Bounds, ...]:
        """The bounds at each of `gammas`."""
        return tuple(self.at(gamma) for gamma in self.gammas)

    @cached_property
    def tipping_point(self) -> float:
        """The smallest G at which the interval includes `null`.

        1 if the interval includes it without any dependence; infinite if it does not at any factor up to 10,000; NaN if
        there is no interval, for example because an arm's outcomes do not vary.
        """
        return tipping_point(self.missing, self.null, math.exp, Odds)

    @cached_property
    def shift(self) -> Shift:
        """The same analysis by the difference between the means of missing and arrived outcomes."""
        return Shift(
            name=self.name, level=self.level, null=self.null, missing=self.missing, cap=self.cap, unit=self.unit
        )

    @property
    def asked(self) -> tuple[Label, ...]:
        """The arms whose coefficient is not 0."""
        return tuple(arm for arm, c in zip(self.arms, self.coefficients, strict=True) if c)

    @property
    def observed_share(self) -> dict[Label, float]:
        """The share of outcomes that have arrived, by arm, among the rows that count."""
        return {arm: float(share) for arm, share in zip(self.asked, self.missing.shares, strict=True)}

    @property
    def nothing_missing(self) -> bool:
        """Whether no outcome of the arms in question is missing among the rows that count."""
        return all(arm.share >= 1 for arm in self.missing.arms)

    # ---------------------------------------------------------------- words

    @property
    def conclusion(self) -> str:
        """The conclusion and its tipping point, in one sentence."""
        tipping, claim = self.tipping_point, self._claim()
        if math.isnan(tipping):
            return self._why_none()
        null = in_unit(self.null, self.unit)
        if self.nothing_missing:
            names = self._short_names
            asked = " or ".join(names) if len(names) <= _FEW_NAMES else first_few(names)
            whose = "" if len(names) == len(self.arms) else f" of {asked}"
            rows = f"No outcome{whose} is missing among the {count(self.maturity.rows, 'row')} that count"
            says = f"The interval includes {null}" if tipping == 1 else claim
            return f"{says}. {rows}, so this cannot depend on which outcomes arrived."
        if tipping == 1:
            return (
                f"The interval includes {null} even if arrival does not depend on the outcome: there is no conclusion "
                "to test."
            )
        if math.isinf(tipping):
            return f"{claim}, however much the odds that an outcome arrives vary with its value."
        return (
            f"{claim}, unless the odds that an outcome arrives vary with its value by more than a factor of "
            f"{tipping:.3g}."
        )

    def _claim(self) -> str:
        above = self.at(1).low > self.null
        if self.null == 0 and sorted(self.coefficients[self.coefficients != 0]) == [-1, 1]:
            extremes = (int(np.argmax(self.coefficients)), int(np.argmin(self.coefficients)))
            plus, minus = shorten_all((self.arms[k] for k in extremes), _NAME)
            return f"{plus} is higher than {minus}" if above else f"{minus} is higher than {plus}"
        what = f"The mean of {self.name}" if len(self.asked) == 1 else self.name
        return f"{what} is {'above' if above else 'below'} {in_unit(self.null, self.unit)}"

    def _cell_names(self) -> list[str]:
        """Return the arms in question, in each segment if there are segments, in words."""
        return [
            one_line(repr(arm)) + ("" if segment is None else f" in segment {one_line(repr(segment))}")
            for segment in self.missing.segments
            for arm in self.asked
        ]

    def _why_none(self) -> str:
        arms = list(zip(self._cell_names(), self.missing.arms, self.missing.unvaried, strict=True))
        few = [f"{arm} has {count(rows.n, 'arrived outcome')}" for arm, rows, _ in arms if rows.n < 2]
        if few:
            return f"There is no interval: among the rows that count, {' and '.join(few)}; each arm needs two."
        same = [f"all {rows.n:,} outcomes of {arm}" for arm, rows, equal in arms if equal]
        return (
            f"There is no interval: among the rows that count, {' and '.join(same)} that have arrived are equal, so "
            "the range of the missing ones is unknown."
        )

    # ---------------------------------------------------------------- display

    def plot(self) -> Figure:
        """Return a matplotlib figure of the bounds and intervals by G and by shift, with the tipping points."""
        from belated.assumptions.figures import sensitivity_figure

        return sensitivity_figure(self.plot_data())

    def plot_data(self) -> Curves:
        """Return the data that `plot` draws."""
        most = max(self.gammas[-1], 1.5)
        if self.tipping_point < 100:
            most = max(most, 1.3 * self.tipping_point)
        factors = np.geomspace(1, most, 81)
        shifts = np.linspace(0, self.shift.reach, 61)
        return {
            "odds": [self.at(g).to_dict() for g in factors],
            "shift": [self.shift.at(d).to_dict() for d in shifts],
            "odds_tipping": self.tipping_point,
            "shift_tipping": self.shift.tipping_point,
            "sd": self.shift.sd,
            "null": self.null,
            "name": self.name,
            "level": self.level,
            "unit": self.unit,
        }

    def to_json(self) -> str:
        """Return the analysis as JSON, with null for NaN and infinity; docs/json.md explains each field."""
        return json_text(
            "sensitivity",
            {
                "question": self.name,
                "level": self.level,
                "null": self.null,
                **(no_cap() if self.cap is None else self.cap.to_dict(self.arrived)),
                "mature": {"age": self.maturity.text, "rows": self.maturity.rows},
                "observed_share": self.observed_share,
                "conclusion": self.conclusion,
                "gamma": {"tipping_point": self.tipping_point, "rows": json_rows(self.to_dict())},
                "shift": {
                    "tipping_point": self.shift.tipping_point,
                    "sd": self.shift.sd,
                    "rows": json_rows(self.shift.to_dict()),
                },
            },
        )

    def _title(self) -> str:
        kind = f"dipw, {percent(self.level)} {self.missing.interval} intervals{in_points(self.unit)}"
        return f"{self.name}{capped_at(self.cap)}: {kind} if the odds of arriving vary by at most gamma"

    def _columns(self) -> list[Column]:
        return bounds_columns(self.rows, "gamma")

    @property
    def _short_names(self) -> list[str]:
        """The names of the arms in question for sentences, short and different."""
        return shorten_all(self.asked, _NAME)

    def _notes(self) -> list[str]:
        observed = list(zip(self._short_names, self.observed_share.values(), strict=True))
        shares = [f"{share_text(share)} of {name}'s" for name, share in observed if not math.isnan(share)]
        without = [f"there is no row of {name}" for name, share in observed if math.isnan(share)]
        rows = count(self.maturity.rows, "row")
        if self.maturity.text != "0":
            steps = " step" if self.maturity.text == "1" else " steps"
            steps = "" if isinstance(self.maturity.age, np.timedelta64) else steps
            rows = f"{rows} assigned at least {self.maturity.text}{steps} before the end"
        arrived = f", of which {' and '.join(shares)} outcomes have arrived" if shares else ""
        notes = [self.conclusion, f"Used: {'; '.join([rows + arrived, *without])}."]
        notes += [] if self.cap is None else [self.cap.note(self.arrived)]
        if self.maturity.late is not None:
            notes.append(
                f"Outcomes are slow: {self.maturity.late:.1%} of the outcomes of older rows took longer than that. "
                "Some that count as missing may still arrive, and the bounds will then be narrower."
            )
        constant = zip(self._cell_names(), self.missing.arms, self.missing.statistics.constant, strict=True)
        same = [name for name, arm, is_constant in constant if is_constant and arm.share < 1]
        if same and self.missing.has_interval:
            notes.append(
                f"All arrived outcomes of {', '.join(same)} are equal. Missing outcomes are assumed to have values "
                "that have arrived, so gamma does not change the bounds of that arm, only its interval."
            )
        return notes


# ---------------------------------------------------------------- tipping points


def tipping_point(
    missing: MissingOutcomes, null: float, size: Callable[[float], float], assumption: Callable[[float], Assumption]
) -> float:
    """Return the smallest size of an assumption at which the interval includes `null`.

    Parameters
    ----------
    missing : MissingOutcomes
    null : float
    size : callable
        The size as a function of x, which the search varies from 0 in even steps.
    assumption : callable
        The assumption as a function of its size.

    Returns
    -------
    float
        Infinite if the interval includes it at no size, NaN if there is no interval.
    """
    if not missing.has_interval:
        return math.nan
    _, _, low, high = missing.limits(assumption(size(0.0)))
    if low <= null <= high:
        return size(0.0)
    up = high < null

    def excludes(x: float) -> bool:
        limit = missing.side(assumption(size(x)), up)[1]
        return not (limit >= null if up else limit <= null)

    # the limit need not be monotone, as the variance may fall while a bound rises: take steps, then bisect
    steps = np.linspace(0.0, math.log(_LARGEST_FACTOR), _STEPS + 1).tolist()
    for outside, inside in pairwise(steps):
        if not excludes(inside):
            return size(bisect(excludes, outside, inside, steps=_HALVINGS)[1])
    return math.inf


# ---------------------------------------------------------------- by a difference between means


@dataclass(frozen=True, eq=False, repr=False)
class Shift(Table):
    """Bounds and intervals if the means of missing and arrived outcomes differ by at most delta; prints as a table.

    In each arm, the mean of the missing outcomes is within delta of the mean of the arrived ones. For 0/1 outcomes it
    stays between 0 and 1.
    """

    name: str
    level: float
    null: float
    missing: MissingOutcomes = field(repr=False)
    cap: Cap | None = None
    unit: Unit = "number"

    @property
    def _null(self) -> str:
        return in_unit(self.null, self.unit)

    @property
    def sd(self) -> float:
        """The standard deviation of arrived outcomes, pooled over the arms."""
        return self.missing.sd

    def at(self, delta: float) -> Bounds:
        """Return the bounds if the means differ by at most `delta`, in units of the outcome."""
        size = real("delta", delta)
        if size < 0:
            raise OptionError(f"`delta` is {shown(delta)}; it must be 0 or more.")
        smaller = [Shifted(each) for each in self._sizes if each < size]
        bound_low, bound_high, low, high = self.missing.limits_within(Shifted(size), smaller)
        return Bounds(
            name=self.name,
            gamma=None,
            delta=size,
            bound_low=bound_low,
            bound_high=bound_high,
            low=low,
            high=high,
            level=self.level,
            unit=self.unit,
        )

    @cached_property
    def rows(self) -> tuple[Bounds, ...]:
        """The bounds at shifts of 0 to 2 standard deviations."""
        return tuple(map(self.at, self._sizes))

    @property
    def _sizes(self) -> list[float]:
        sd = self.sd if math.isfinite(self.sd) else 0.0
        return [share * sd for share in _SHIFTS]

    @cached_property
    def tipping_point(self) -> float:
        """The smallest delta at which the interval includes `null`: 0 if it does without a shift, infinite if never."""
        unit = self.sd or 1.0
        return tipping_point(self.missing, self.null, lambda x: unit * math.expm1(x), Shifted)

    @property
    def reach(self) -> float:
        """The largest delta that a figure shows."""
        sd = self.sd if self.sd > 0 else 1.0
        return max(sd, 1.3 * self.tipping_point) if self.tipping_point < 20 * sd else 2 * sd

    @property
    def conclusion(self) -> str:
        """The tipping point in one sentence."""
        tipping = self.tipping_point
        if math.isnan(tipping):
            return "There is no interval."
        if tipping == 0:
            return f"The interval includes {self._null} without any shift."
        if math.isinf(tipping):
            return f"The interval does not include {self._null} at any shift."
        sds = f" ({tipping / self.sd:.2g} standard deviations)" if self.sd > 0 else ""
        size = in_unit(float(f"{tipping:.3g}"), "number" if self.unit == "number" else "points")
        return (
            f"The interval includes {self._null} if the means of missing and arrived outcomes differ by "
            f"{size}{sds} or more."
        )

    def _title(self) -> str:
        means = f"intervals{in_points(self.unit)} if missing and arrived means differ by at most delta"
        return f"{self.name}{capped_at(self.cap)}: dipw, {percent(self.level)} {means}"

    def _columns(self) -> list[Column]:
        first, *others = bounds_columns(self.rows, "delta")
        in_sd = [row.delta / self.sd if self.sd and row.delta is not None else math.nan for row in self.rows]
        return [first, Column("delta_sd", in_sd, "number"), *others]

    def _notes(self) -> list[str]:
        return [self.conclusion]
