"""Sensitivity: how much arrival may depend on the outcome before a conclusion falls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from belated.assumptions.bounds import Assumption, Evidence, Odds, Shifted
from belated.base.checks import fraction, real
from belated.base.columns import Array
from belated.base.errors import LogError, OptionError
from belated.base.json_text import json_rows, json_text
from belated.base.roots import bisect
from belated.base.tables import Column, Table
from belated.base.text import count, one_line, percent
from belated.estimation.target import read_target
from belated.log.clock import Clock
from belated.log.data import Data, require_data
from belated.log.durations import read_window
from belated.log.log import Log

#: The factors G that a table shows unless others are asked for, and the shifts, in standard deviations.
_GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_SHIFTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)

#: The largest factor and shift (in standard deviations) tried in search of a tipping point.
_MOST = 10_000.0

#: The share of the outcomes seen that have come by the time a row is mature.
_COME = 0.99


def sensitivity(
    log: Data,
    contrast: Any,
    *,
    gammas: Sequence[float] | None = None,
    level: float = 0.95,
    mature: Any = None,
    null: float = 0.0,
) -> Sensitivity:
    """Ask how much arrival may depend on the outcome before a conclusion falls.

    Every other answer takes it that, within an arm, whether an outcome comes does not depend on what it is. Nothing in
    a log can show whether that holds for outcomes that never come. Here it need not: the odds that an outcome has
    come may vary with the outcome, in each arm as it likes, by at most a factor G.

    Parameters
    ----------
    log : Log, or what `read` gives
    contrast : (arm, arm), arm, or mapping from arms to coefficients
        The first arm's mean minus the second's; one arm's mean; or any linear combination of means, such as a policy's.
        Means are over everything assigned, whether its outcome comes or not.
    gammas : sequence of float, optional
        The factors G to show, 1 or more.
    level : float
        Of the intervals.
    mature : number, duration or str, optional
        How long before the log's moment a row must have been assigned to count: ``7 * 24``, ``"7d"``. By default the
        time in which 99 % of the outcomes seen have come, but no longer than half of the rows have had.
    null : float
        The value that a conclusion lies above or below.

    Returns
    -------
    Sensitivity

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.normal(0), "B": bl.arms.normal(1)}, bl.delays.poisson(3).censored(0.3))
    >>> log = bl.simulate(bandit, bl.policies.epsilon_greedy(burn_in=100), horizon=2000, seed=1)
    >>> print(bl.sensitivity(log, ("B", "A")).conclusion)
    The conclusion that B beats A holds unless the odds that an outcome arrives vary with it by more than a factor 3.12.
    """
    given = require_data(log).log()
    target = read_target(given.arms, contrast, option="contrast")
    coefficients = target.coefficients
    factors = _GAMMAS if gammas is None else tuple(sorted({_gamma(g) for g in _several("gammas", gammas)}))
    level, null = fraction("level", level), real("null", null)
    rows, maturity = _matured(given, np.flatnonzero(coefficients), mature)
    evidence = Evidence.of(rows, coefficients, level)
    return Sensitivity(target.name, given.arms, coefficients, factors, level, null, maturity, evidence)


# ---------------------------------------------------------------- what is asked


def _several(name: str, values: Any) -> list[Any]:
    try:
        several = [] if isinstance(values, (str, bytes)) else list(values)
    except TypeError:
        several = []
    if not several:
        raise OptionError(f"`{name}` is {values!r}; it must be a list of numbers, such as [1, 1.5, 2].")
    return several


def _gamma(value: Any) -> float:
    number = real("gamma", value)
    if number < 1:
        raise OptionError(f"`gamma` is {value!r}; the odds vary by a factor of 1 or more.")
    return number


# ---------------------------------------------------------------- which rows count


@dataclass(frozen=True)
class Maturity:
    """Which rows count: those assigned at least so long before the log's moment.

    Attributes
    ----------
    age : number or timedelta
    rows : int
        How many they are.
    late : float or None
        The share of their outcomes that took longer than `age`, where the age was held down to keep half of the rows.
    """

    age: Any
    rows: int
    late: float | None = None

    @property
    def text(self) -> str:
        """The age in words."""
        return Column("", [self.age], "number").texts()[0]


def _matured(log: Log, arms: Array, mature: Any) -> tuple[Log, Maturity]:
    """Return the rows that count, with what has arrived of them by the log's moment."""
    clock = log.clock
    alive = np.flatnonzero(_alive(log))
    if not len(alive):
        raise LogError("The log has no rows as of its moment.")
    assigned = _as_numbers(log.assigned_at)[alive]
    came = assigned if log.arrived_at is None else _as_numbers(log.arrived_at)[alive]
    seen = log.arrived[alive]
    if log.moment is not None:
        now = log.moment
    else:
        now = max(assigned.max(), came[seen].max()) if seen.any() else assigned.max()
    age = now - assigned
    late = None
    if mature is not None:
        least = _age(clock, mature)
    else:
        least, most = 0, np.quantile(age, 0.5, method="lower")
        code = log.code[alive]
        for k in arms:
            old = (code == k) & (age >= most) & seen
            delays = (came - assigned)[old]
            if not len(delays):
                continue
            needed = np.quantile(delays, _COME, method="higher")
            if needed > most:
                late = max(late or 0.0, float(np.mean(delays > most)))
            least = max(least, min(needed, most))
    keep = age >= least
    if not keep.any():
        raise OptionError(f"`mature` is {mature!r}; no row was assigned so long before the log's moment.")
    chosen = alive[keep]
    arrived: Any = None if log.arrived_at is None else came[keep]
    rows = Log.of_numbers(
        log.arms, log.code[chosen], log.outcome[chosen], log.propensity[chosen], assigned[keep], arrived,
        clock, log.moment,
    )  # fmt: skip
    return rows, Maturity(clock.show_delay(least) if clock.unit else _plain(least), len(chosen), late)


def _alive(log: Log) -> Array:
    schedule = log.schedule
    alive = np.zeros(len(log.code), dtype=bool)
    alive[schedule.existing] = True
    return alive


def _as_numbers(times: Array) -> Array:
    return times.view(np.int64) if times.dtype.kind == "M" else times


def _plain(number: Any) -> int | float:
    return int(number) if float(number).is_integer() else float(number)


def _age(clock: Clock, mature: Any) -> int | float:
    """Return an age as a number of the clock."""
    kind = "a duration, such as '7d', as the log's times are datetimes" if clock.unit else "a number of the log's time"
    wrong = OptionError(f"`mature` is {mature!r}; it must be {kind}, 0 or more.")
    if not isinstance(mature, (bool, str)) and isinstance(mature, (int, float, np.number)) and mature == 0:
        return 0
    try:
        window = read_window(mature)
    except OptionError:
        raise wrong from None
    if window.is_time != (clock.unit is not None):
        raise wrong
    if clock.unit is None:
        return window.length
    units: float = np.timedelta64(int(window.length), "us") / np.timedelta64(1, clock.unit)  # type: ignore[call-overload]
    return math.ceil(units)


# ---------------------------------------------------------------- results


@dataclass(frozen=True)
class Bounds(Table):
    """What a combination of means can be under one assumption.

    Attributes
    ----------
    name : str
    gamma, delta : float or None
        The assumption: one of them.
    bound_low, bound_high : float
        The least and the largest estimate that it allows.
    low, high : float
        The interval, which covers the truth if the assumption holds.
    level : float
    """

    name: str
    gamma: float | None
    delta: float | None
    bound_low: float
    bound_high: float
    low: float
    high: float
    level: float

    def __repr__(self) -> str:
        return self.to_text()

    def includes(self, value: float) -> bool:
        """Whether the interval includes a value."""
        return self.low <= value <= self.high

    def _title(self) -> str:
        return f"{self.name}: {percent(self.level)} interval"

    def _columns(self) -> list[Column]:
        return _bounds_columns([self], "gamma" if self.delta is None else "delta")


def _bounds_columns(rows: Sequence[Bounds], by: str) -> list[Column]:
    # digits as for the narrowest interval, of which a standard error is about a quarter
    narrow = min((row.high - row.low for row in rows), default=math.nan) / 4
    names = ("bound_low", "bound_high", "low", "high")
    return [
        Column(by, [getattr(row, by) for row in rows], "number"),
        *(Column(name, [getattr(row, name) for row in rows], "estimate", [narrow] * len(rows)) for name in names),
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Table):
    """Bounds and intervals by the factor G by which the odds of arriving may vary with the outcome.

    Attributes
    ----------
    name : str
        Of what is asked.
    arms : tuple
    coefficients : array
        One for each arm.
    gammas : tuple of float
    level, null : float
    maturity : Maturity
        Which rows count.
    """

    name: str
    arms: tuple[Any, ...]
    coefficients: Array
    gammas: tuple[float, ...]
    level: float
    null: float
    maturity: Maturity
    evidence: Evidence = field(repr=False)

    def at(self, gamma: float) -> Bounds:
        """Return what the odds' varying by at most `gamma` allows."""
        factor = _gamma(gamma)
        # what a smaller factor allows a larger one does too: with few outcomes a limit alone could come nearer
        smaller = [self._limits(g) for g in _GAMMAS if g < factor]
        bound_low, bound_high, low, high = self.evidence.limits(Odds(factor))
        low, high = min([low, *(limits[2] for limits in smaller)]), max([high, *(limits[3] for limits in smaller)])
        return Bounds(self.name, factor, None, bound_low, bound_high, low, high, self.level)

    def _limits(self, gamma: float) -> tuple[float, float, float, float]:
        if gamma not in self._known:
            self._known[gamma] = self.evidence.limits(Odds(gamma))
        return self._known[gamma]

    @cached_property
    def _known(self) -> dict[float, tuple[float, float, float, float]]:
        return {}

    @cached_property
    def rows(self) -> tuple[Bounds, ...]:
        """The bounds at each of `gammas`."""
        return tuple(self.at(gamma) for gamma in self.gammas)

    @cached_property
    def tipping_point(self) -> float:
        """The smallest G at which the interval includes `null`.

        1 if it does already without any dependence; infinite if no factor up to 10,000 makes it; NaN if there is no
        interval.
        """
        return _tipping(self.evidence, lambda x: Odds(math.exp(x)), self.null, math.log(_MOST), math.exp)

    @cached_property
    def shift(self) -> Shift:
        """The same question by how much the means of missing and arrived outcomes may differ."""
        return Shift(self.name, self.level, self.null, self.evidence)

    @property
    def asked(self) -> tuple[Any, ...]:
        """The arms in question."""
        return tuple(arm for arm, c in zip(self.arms, self.coefficients, strict=True) if c)

    @property
    def observed_share(self) -> dict[Any, float]:
        """The share of each arm's outcomes that have come, of the rows that count."""
        return {arm: found.share for arm, found in zip(self.asked, self.evidence.arms, strict=True)}

    # ---------------------------------------------------------------- words

    @property
    def conclusion(self) -> str:
        """What the analysis says, in one sentence."""
        tipping, told = self.tipping_point, self._claim()
        if math.isnan(tipping):
            return self._why_none()
        if tipping == 1:
            return (
                f"The interval includes {self.null:g} already if arrival does not depend on the outcome: there is no "
                "conclusion to overturn."
            )
        if math.isinf(tipping):
            return f"The conclusion that {told} holds however the odds that an outcome arrives vary with it."
        return (
            f"The conclusion that {told} holds unless the odds that an outcome arrives vary with it by more than a "
            f"factor {tipping:.3g}."
        )

    def _claim(self) -> str:
        above = self.at(1).low > self.null
        if self.null == 0 and sorted(self.coefficients[self.coefficients != 0]) == [-1, 1]:
            plus = one_line(self.arms[int(np.argmax(self.coefficients))])
            minus = one_line(self.arms[int(np.argmin(self.coefficients))])
            return f"{plus} beats {minus}" if above else f"{minus} beats {plus}"
        what = f"the mean of {self.name}" if len(self.asked) == 1 else self.name
        return f"{what} is {'above' if above else 'below'} {self.null:g}"

    def _why_none(self) -> str:
        few = [
            f"{one_line(repr(arm))} has {count(found.n, 'arrived outcome')}"
            for arm, found in zip(self.asked, self.evidence.arms, strict=True)
            if found.n < 2
        ]
        return f"There is no interval: among the rows that count, {' and '.join(few)}; it takes two."

    # ---------------------------------------------------------------- display

    def plot(self) -> Any:
        """Draw the bounds and intervals over G, and over the shift, with the tipping points; a matplotlib Figure."""
        from belated.assumptions.figure import sensitivity_figure

        return sensitivity_figure(**self.plot_data())

    def plot_data(self) -> dict[str, Any]:
        """Return what `plot` draws: the arguments of `sensitivity_figure`."""
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
        }

    def to_json(self) -> str:
        """Return the bounds, the tipping points and what they rest on as JSON; what is not finite is null."""
        return json_text(
            "sensitivity",
            {
                "question": self.name,
                "level": self.level,
                "null": self.null,
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
        kind = f"{percent(self.level)} {self.evidence.interval} intervals"
        return f"{self.name}: {kind} if the odds of arriving vary by at most gamma"

    def _columns(self) -> list[Column]:
        return _bounds_columns(self.rows, "gamma")

    def _notes(self) -> list[str]:
        texts = Column("", list(self.observed_share.values()), "share").texts()
        shares = " and ".join(f"{text} of {one_line(arm)}'s" for arm, text in zip(self.asked, texts, strict=True))
        age = f" were assigned at least {self.maturity.text} before the end and" if self.maturity.text != "0" else ""
        notes = [self.conclusion, f"{count(self.maturity.rows, 'row')}{age} count: {shares} outcomes have come."]
        if self.maturity.late is not None:
            notes.append(
                f"Outcomes are slow: {self.maturity.late:.1%} of those seen of the older rows took longer. Some that "
                "count as missing may still come; later, the bounds will be narrower."
            )
        constant = self.evidence.statistics.constant & np.array([share < 1 for share in self.observed_share.values()])
        same = [one_line(repr(arm)) for arm, is_one in zip(self.asked, constant, strict=True) if is_one]
        if same:
            notes.append(
                f"All arrived outcomes of {', '.join(same)} are equal, and missing ones are taken to be like some of "
                "them: no G moves that mean."
            )
        return notes


@dataclass(frozen=True, eq=False, repr=False)
class Shift(Table):
    """Bounds and intervals by delta, how much the means of missing and arrived outcomes may differ.

    In each arm the mean of the outcomes that have not come lies within delta of the mean of those that have, on
    whichever side is worse for the conclusion. Of outcomes that are 0 or 1 it stays between 0 and 1.
    """

    name: str
    level: float
    null: float
    evidence: Evidence = field(repr=False)

    @property
    def sd(self) -> float:
        """The standard deviation of arrived outcomes, pooled over the arms."""
        return self.evidence.sd

    def at(self, delta: float) -> Bounds:
        """Return what a difference of at most `delta`, in units of the outcome, allows."""
        size = real("delta", delta)
        if size < 0:
            raise OptionError(f"`delta` is {delta!r}; it is a size, 0 or more.")
        return Bounds(self.name, None, size, *self.evidence.limits(Shifted(size)), self.level)

    @cached_property
    def rows(self) -> tuple[Bounds, ...]:
        """The bounds at shifts of 0 to 2 standard deviations."""
        sd = self.sd if math.isfinite(self.sd) else 0.0
        return tuple(self.at(share * sd) for share in _SHIFTS)

    @cached_property
    def tipping_point(self) -> float:
        """The smallest delta at which the interval includes `null`; 0 if it does already, infinite if none makes it."""
        unit = self.sd or 1.0
        return _tipping(
            self.evidence, lambda x: Shifted(unit * math.expm1(x)), self.null, math.log(_MOST),
            lambda x: unit * math.expm1(x),
        )  # fmt: skip

    @property
    def reach(self) -> float:
        """How far a figure goes."""
        sd = self.sd if self.sd > 0 else 1.0
        return max(sd, 1.3 * self.tipping_point) if self.tipping_point < 20 * sd else 2 * sd

    @property
    def conclusion(self) -> str:
        """What the shift says, in one sentence."""
        tipping = self.tipping_point
        if math.isnan(tipping):
            return "There is no interval."
        if tipping == 0:
            return f"The interval includes {self.null:g} without any shift."
        if math.isinf(tipping):
            return f"No shift makes the interval include {self.null:g}."
        sds = f" ({tipping / self.sd:.2g} standard deviations)" if self.sd > 0 else ""
        return (
            f"The interval includes {self.null:g} once missing and arrived outcomes differ in mean by {tipping:.3g}"
            f"{sds}."
        )

    def _title(self) -> str:
        return f"{self.name}: {percent(self.level)} intervals if missing and arrived means differ by at most delta"

    def _columns(self) -> list[Column]:
        first, *others = _bounds_columns(self.rows, "delta")
        in_sd = [row.delta / self.sd if self.sd and row.delta is not None else math.nan for row in self.rows]
        return [first, Column("delta_sd", in_sd, "number"), *others]

    def _notes(self) -> list[str]:
        return [self.conclusion]


def _tipping(
    evidence: Evidence,
    assumption: Callable[[float], Assumption],
    null: float,
    most: float,
    size: Callable[[float], float],
) -> float:
    """Return the smallest size of an assumption, over x from 0 to `most`, at which the interval includes `null`."""
    if not evidence.has_interval:
        return math.nan
    _, _, low, high = evidence.limits(assumption(0.0))
    if low <= null <= high:
        return size(0.0)
    up = high < null

    def includes(x: float) -> bool:
        limit = evidence.side(assumption(x), up)[1]
        return limit >= null if up else limit <= null

    # the variance may fall where a bound rises: look at steps first, then halve the first that crosses
    steps = np.linspace(0.0, most, 81).tolist()
    for outside, inside in pairwise(steps):
        if includes(inside):
            return size(bisect(lambda x: not includes(x), outside, inside, steps=40)[1])
    return math.inf
