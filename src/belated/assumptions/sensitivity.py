"""Sensitivity: how much arrival may depend on the outcome before a conclusion falls.

`sensitivity` asks, by the factor G between odds of arrival, and `Sensitivity` answers; `tipping_point` is the size at
which a conclusion falls; `Shift` answers by the difference between the means of missing and of arrived outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from belated.assumptions.maturity import Age, Maturity, mature_rows
from belated.assumptions.missing import Assumption, Bounds, MissingOutcomes, Odds, Shifted, bounds_columns
from belated.base.checks import fraction, real
from belated.base.columns import Array, Label
from belated.base.documents import json_rows, json_text
from belated.base.errors import OptionError
from belated.base.roots import bisect
from belated.base.tables import Column, Table
from belated.base.text import count, one_line, percent, share_text
from belated.estimation.target import read_target
from belated.log.data import Data, require_data
from belated.summaries.caps import Cap, capped_at, no_cap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from belated.assumptions.sensitivity_figure import Curves

#: The factors G that a table shows unless others are asked for.
_GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)

#: The shifts that a table shows, in standard deviations.
_SHIFTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)

#: The largest factor, and shift in standard deviations, tried in search of a tipping point.
_MOST = 10_000.0

#: Steps on the way there, and halvings of the step in which the interval first includes the value.
_STEPS, _HALVINGS = 80, 40


def sensitivity(
    log: Data,
    contrast: object,
    *,
    gammas: Sequence[float] | None = None,
    level: float = 0.95,
    mature: Age | None = None,
    null: float = 0.0,
    cap: float | None = None,
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
    cap : float, optional
        Outcomes above it count as it; by default as the log has it.

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
    given = require_data(log, cap).log()
    target = read_target(given.arms, contrast, option="contrast")
    factors = _GAMMAS if gammas is None else _read_gammas(gammas)
    level, null = fraction("level", level), real("null", null)
    rows, maturity = mature_rows(given, np.flatnonzero(target.coefficients), mature)
    return Sensitivity(
        name=target.name,
        arms=given.arms,
        coefficients=target.coefficients,
        gammas=factors,
        level=level,
        null=null,
        maturity=maturity,
        missing=MissingOutcomes.of(rows, target.coefficients, level),
        arrived=int(given.arrived.sum()),
        cap=given.capping,
    )


# ---------------------------------------------------------------- what is asked


def _read_gammas(gammas: object) -> tuple[float, ...]:
    try:
        several = list(gammas) if isinstance(gammas, Iterable) and not isinstance(gammas, (str, bytes)) else []
    except TypeError:  # an array of no dimension
        several = []
    if not several:
        raise OptionError(f"`gammas` is {gammas!r}; it must be a list of numbers, such as [1, 1.5, 2].")
    return tuple(sorted({_read_gamma(gamma) for gamma in several}))


def _read_gamma(value: object) -> float:
    number = real("gamma", value)
    if number < 1:
        raise OptionError(f"`gamma` is {value!r}; the odds vary by a factor of 1 or more.")
    return number


# ---------------------------------------------------------------- the answer, by factors between odds


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
    arrived : int
        How many outcomes have, of all rows.
    cap : Cap or None
        At what outcomes were cut, and how many.
    """

    name: str
    arms: tuple[Label, ...]
    coefficients: Array
    gammas: tuple[float, ...]
    level: float
    null: float
    maturity: Maturity
    missing: MissingOutcomes = field(repr=False)
    arrived: int
    cap: Cap | None = None

    def at(self, gamma: float) -> Bounds:
        """Return what the odds' varying by at most `gamma` allows."""
        factor = _read_gamma(gamma)
        # what a smaller factor allows a larger one does too: with few outcomes a limit alone could come nearer
        smaller = [self._limits(g) for g in _GAMMAS if g < factor]
        bound_low, bound_high, low, high = self.missing.limits(Odds(factor))
        return Bounds(
            name=self.name,
            gamma=factor,
            delta=None,
            bound_low=bound_low,
            bound_high=bound_high,
            low=min([low, *(limits[2] for limits in smaller)]),
            high=max([high, *(limits[3] for limits in smaller)]),
            level=self.level,
        )

    def _limits(self, gamma: float) -> tuple[float, float, float, float]:
        if gamma not in self._known:
            self._known[gamma] = self.missing.limits(Odds(gamma))
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
        interval, as where an arm's outcomes do not vary.
        """
        return tipping_point(self.missing, self.null, math.exp, Odds)

    @cached_property
    def shift(self) -> Shift:
        """The same question by how much the means of missing and arrived outcomes may differ."""
        return Shift(name=self.name, level=self.level, null=self.null, missing=self.missing, cap=self.cap)

    @property
    def asked(self) -> tuple[Label, ...]:
        """The arms in question."""
        return tuple(arm for arm, c in zip(self.arms, self.coefficients, strict=True) if c)

    @property
    def observed_share(self) -> dict[Label, float]:
        """The share of each arm's outcomes that have come, of the rows that count."""
        return {arm: rows.share for arm, rows in zip(self.asked, self.missing.arms, strict=True)}

    # ---------------------------------------------------------------- words

    @property
    def conclusion(self) -> str:
        """What the analysis says, in one sentence."""
        tipping, claim = self.tipping_point, self._claim()
        if math.isnan(tipping):
            return self._why_none()
        if tipping == 1:
            return (
                f"The interval includes {self.null:g} already if arrival does not depend on the outcome: there is no "
                "conclusion to overturn."
            )
        if math.isinf(tipping):
            return f"The conclusion that {claim} holds however the odds that an outcome arrives vary with it."
        return (
            f"The conclusion that {claim} holds unless the odds that an outcome arrives vary with it by more than a "
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
        arms = list(zip(self.asked, self.missing.arms, self.missing.unvaried, strict=True))
        few = [f"{one_line(repr(arm))} has {count(rows.n, 'arrived outcome')}" for arm, rows, _ in arms if rows.n < 2]
        if few:
            return f"There is no interval: among the rows that count, {' and '.join(few)}; it takes two."
        same = [f"all {rows.n:,} outcomes of {one_line(repr(arm))}" for arm, rows, equal in arms if equal]
        return (
            f"It cannot be told: among the rows that count, {' and '.join(same)} that have arrived are equal, which "
            "does not show what those that have not come may be."
        )

    # ---------------------------------------------------------------- display

    def plot(self) -> Figure:
        """Draw the bounds and intervals over G, and over the shift, with the tipping points; a matplotlib Figure."""
        from belated.assumptions.sensitivity_figure import sensitivity_figure

        return sensitivity_figure(**self.plot_data())

    def plot_data(self) -> Curves:
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
        kind = f"{percent(self.level)} {self.missing.interval} intervals"
        return f"{self.name}{capped_at(self.cap)}: {kind} if the odds of arriving vary by at most gamma"

    def _columns(self) -> list[Column]:
        return bounds_columns(self.rows, "gamma")

    def _notes(self) -> list[str]:
        shares = " and ".join(f"{share_text(share)} of {one_line(arm)}'s" for arm, share in self.observed_share.items())
        age = f" were assigned at least {self.maturity.text} before the end and" if self.maturity.text != "0" else ""
        notes = [self.conclusion, f"{count(self.maturity.rows, 'row')}{age} count: {shares} outcomes have come."]
        notes += [] if self.cap is None else [self.cap.note(self.arrived)]
        if self.maturity.late is not None:
            notes.append(
                f"Outcomes are slow: {self.maturity.late:.1%} of those seen of the older rows took longer. Some that "
                "count as missing may still come; later, the bounds will be narrower."
            )
        constant = zip(self.observed_share.items(), self.missing.statistics.constant, strict=True)
        same = [one_line(repr(arm)) for (arm, share), is_constant in constant if is_constant and share < 1]
        if same and self.missing.has_interval:
            notes.append(
                f"All arrived outcomes of {', '.join(same)} are equal, and missing ones are taken to be like some of "
                "them: no G moves that bound, only the interval."
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
        The size by its logarithm x, which the search goes through evenly from 0.
    assumption : callable
        The assumption of a size.

    Returns
    -------
    float
        Infinite if no size makes the interval include it, NaN if there is no interval.
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

    # the variance may fall where a bound rises: look at steps first, then halve the first that crosses
    steps = np.linspace(0.0, math.log(_MOST), _STEPS + 1).tolist()
    for outside, inside in pairwise(steps):
        if not excludes(inside):
            return size(bisect(excludes, outside, inside, steps=_HALVINGS)[1])
    return math.inf


# ---------------------------------------------------------------- differences in means


@dataclass(frozen=True, eq=False, repr=False)
class Shift(Table):
    """Bounds and intervals by delta, how much the means of missing and arrived outcomes may differ.

    In each arm the mean of the outcomes that have not come lies within delta of the mean of those that have, on
    whichever side is worse for the conclusion. Of outcomes that are 0 or 1 it stays between 0 and 1.
    """

    name: str
    level: float
    null: float
    missing: MissingOutcomes = field(repr=False)
    cap: Cap | None = None

    @property
    def sd(self) -> float:
        """The standard deviation of arrived outcomes, pooled over the arms."""
        return self.missing.sd

    def at(self, delta: float) -> Bounds:
        """Return what a difference of at most `delta`, in units of the outcome, allows."""
        size = real("delta", delta)
        if size < 0:
            raise OptionError(f"`delta` is {delta!r}; it is a size, 0 or more.")
        bound_low, bound_high, low, high = self.missing.limits(Shifted(size))
        return Bounds(
            name=self.name,
            gamma=None,
            delta=size,
            bound_low=bound_low,
            bound_high=bound_high,
            low=low,
            high=high,
            level=self.level,
        )

    @cached_property
    def rows(self) -> tuple[Bounds, ...]:
        """The bounds at shifts of 0 to 2 standard deviations."""
        sd = self.sd if math.isfinite(self.sd) else 0.0
        return tuple(self.at(share * sd) for share in _SHIFTS)

    @cached_property
    def tipping_point(self) -> float:
        """The smallest delta at which the interval includes `null`; 0 if it does already, infinite if none makes it."""
        unit = self.sd or 1.0
        return tipping_point(self.missing, self.null, lambda x: unit * math.expm1(x), Shifted)

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
        means = "intervals if missing and arrived means differ by at most delta"
        return f"{self.name}{capped_at(self.cap)}: {percent(self.level)} {means}"

    def _columns(self) -> list[Column]:
        first, *others = bounds_columns(self.rows, "delta")
        in_sd = [row.delta / self.sd if self.sd and row.delta is not None else math.nan for row in self.rows]
        return [first, Column("delta_sd", in_sd, "number"), *others]

    def _notes(self) -> list[str]:
        return [self.conclusion]
