"""What a report shows of a log, as a few hundred counts and sums that the engine makes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.backends.engines import fetch, sentences
from belated.backends.recipe import literal
from belated.columns import Array

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from belated.backends.source import Source

_STEPS = 48

#: Rows beyond which only the earliest, which have been followed longest, are looked at for `dependence`.
_ENOUGH = 1_000_000


def _length(later: ir.Column, earlier: ir.Column) -> ir.FloatingColumn:
    """Return how long after one time another is, as a float: microseconds, or the clock's own numbers."""
    if earlier.type().is_timestamp():
        return later.delta(earlier, unit="microsecond").cast("float64")
    return later.cast("float64") - earlier.cast("float64")


def _span(source: Source, start: int | float, end: int | float) -> float:
    """Return a stretch of the clock in the units of `_length`."""
    scale = 1000.0 if source.clock.unit == "ns" else 1.0
    return float(end - start) / scale


@dataclass(frozen=True)
class ArrivalCounts:
    """By arm, how many rows were followed how long, and how many of them arrived when.

    Attributes
    ----------
    delays : array
        Upper ends of the bins of time since assignment, in microseconds or the clock's numbers.
    counts : array of shape (arms, delay bins + 1, age bins)
        Rows by the bin in which the outcome came, the last for those still out, and the bins followed in full.
    followed : float
        How long the first row has been followed.
    """

    delays: Array
    counts: Array
    followed: float


def arrival_counts(source: Source) -> ArrivalCounts | None:
    """Count rows by delay and age, on a scale that is fine for short delays and coarse for long ones.

    Of events, the delay is that of an assignment's first.
    """
    rows, clock = source.coded, source.clock
    with sentences(source.name):
        delay = _length(rows.arrived if source.within is None else rows["first"], rows.assigned)
        about = fetch(rows.aggregate(longest=delay.max(), mean=delay.mean())).to_pylist()[0]
        longest, mean = about["longest"], about["mean"]
        if not longest or not mean:
            return None
        unit = mean / 10
        step = np.log1p(longest / unit) / _STEPS
        age = _length(literal(clock, source.last_look, rows.assigned), rows.assigned)
        bins = rows.select(
            code=rows.code,
            delay=((delay / unit + 1).ln() / step).ceil().cast("int32").fill_null(_STEPS + 1),
            age=((age / unit + 1).ln() / step).floor().cast("int32"),
        )
        # the longest delay may fall just beyond its bin by rounding; who is still out may not
        inside = (bins.delay == _STEPS + 1).ifelse(_STEPS + 1, (bins.delay > _STEPS).ifelse(_STEPS, bins.delay))
        bins = bins.mutate(delay=inside, age=(bins.age > _STEPS).ifelse(_STEPS, bins.age))
        found = fetch(bins.group_by("code", "delay", "age").agg(n=bins.count())).to_pydict()
    counts = np.zeros((len(source.arms), _STEPS + 2, _STEPS + 1))
    counts[found["code"], found["delay"], np.maximum(found["age"], 0)] = found["n"]
    followed = _span(source, source.span[0], source.last_look)
    return ArrivalCounts(unit * np.expm1(step * np.arange(_STEPS + 1)), counts, followed)


@dataclass(frozen=True)
class TimeBins:
    """What happened in each of several equal stretches of the experiment's time.

    Attributes
    ----------
    moments : array
        The middles of the stretches, as numbers of the clock.
    propensity : array of shape (stretches, arms) or None
        Mean probabilities; None if only the chosen arm's are known.
    assigned, arrived, y, y2 : array of shape (stretches, arms)
        Rows assigned, those whose outcome has arrived, and the sums of these outcomes and their squares about `shift`.
    """

    moments: Array
    propensity: Array | None
    assigned: Array
    arrived: Array
    y: Array
    y2: Array
    shift: Array


def time_bins(source: Source, how_many: int = 40) -> TimeBins:
    """Sum up rows by arm and time of assignment."""
    rows, arms = source.coded, len(source.arms)
    first, last = source.span
    width = _span(source, first, last) / how_many
    with sentences(source.name):
        since = _length(rows.assigned, literal(source.clock, first, rows.assigned))
        place = (since / width).floor().cast("int32") if width > 0 else (since * 0).cast("int32")
        shift = source.anchors
        y = rows.outcome - rows.code.cases(*((k, float(c)) for k, c in enumerate(shift)), else_=None).cast("float64")
        chances = {f"p{k}": rows[f"p{k}"] for k in range(arms) if source.has_all_propensities}
        values = rows.select(
            code=rows.code, bin=(place >= how_many).ifelse(how_many - 1, place), y=y, y2=y * y, **chances
        )
        sums = {name: values[name].sum() for name in ("y", "y2", *chances)}
        found = fetch(
            values.group_by("code", "bin").agg(n=values.count(), arrived=values.y.count(), **sums)
        ).to_pydict()
    tables = {name: np.zeros((how_many, arms)) for name in ("n", "arrived", "y", "y2")}
    for name, table in tables.items():
        table[found["bin"], found["code"]] = [0.0 if v is None else v for v in found[name]]
    propensity = None
    if chances:
        propensity = np.zeros((how_many, arms))
        for k in range(arms):
            np.add.at(propensity[:, k], found["bin"], np.array(found[f"p{k}"], dtype=float))
        total = tables["n"].sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            propensity = propensity / total
    middles = first + (np.arange(how_many) + 0.5) * (float(last - first) / how_many)
    return TimeBins(middles, propensity, tables["n"], tables["arrived"], tables["y"], tables["y2"], shift)


def _half(source: Source) -> int | float:
    """Return half of the time that the experiment has been followed."""
    length = source.last_look - source.span[0]
    return length // 2 if source.clock.whole or source.clock.unit else length / 2


def early(source: Source) -> ir.Table:
    """Return the rows that have been followed for at least half of the experiment; of many, the earliest."""
    rows, (first, last) = source.coded, source.span
    until = min(source.last_look - _half(source), last)
    if len(source) > _ENOUGH:
        until = min(until, first + type(first)((last - first) * (_ENOUGH / len(source))))
    return rows.filter(rows.assigned <= literal(source.clock, until, rows.assigned))


def recorded(source: Source) -> tuple[float, float]:
    """Return the least outcome of the rows followed longest, and the share of them that has one."""
    rows = early(source)
    with sentences(source.name):
        found = fetch(rows.aggregate(low=rows.outcome.min(), n=rows.count(), there=rows.arrived.count())).to_pylist()[0]
    low = found["low"]
    return (math.nan if low is None else low), found["there"] / max(found["n"], 1)


def dependence(source: Source) -> Array:
    """Return, by arm, the sums behind the test of whether arrival depends on the outcome (`signs.outcome_dependence`).

    Over rows followed for at least half of the experiment whose outcome came within that time, with L the logarithm of
    1 + the delay, and y the outcome minus an anchor: the sums of L^i y^j for i, j in 0, 1, 2, as an array (arms, 3, 3).
    """
    rows, arms, half = early(source), len(source.arms), _half(source)
    scale = _span(source, 0, half) / 1000 or 1.0
    with sentences(source.name):
        delay = _length(rows.arrived, rows.assigned)
        followed = rows.filter(delay <= _span(source, 0, half))
        delay = _length(followed.arrived, followed.assigned)
        about = followed.code.cases(*((k, float(c)) for k, c in enumerate(source.anchors)), else_=None)
        values = followed.select(
            code=followed.code, l=(delay / scale + 1).ln(), y=followed.outcome - about.cast("float64")
        )
        one = values.y * 0 + 1
        powers = [[one, values.y, values.y * values.y]]
        powers += [[values.l * y for y in powers[0]], [values.l * values.l * y for y in powers[0]]]
        sums: dict[str, Any] = {f"s{i}{j}": powers[i][j].sum() for i in range(3) for j in range(3)}
        found = fetch(values.group_by("code").agg(**sums)).to_pydict()
    moments = np.zeros((arms, 3, 3))
    for i in range(3):
        for j in range(3):
            moments[found["code"], i, j] = [0.0 if v is None else v for v in found[f"s{i}{j}"]]
    return moments


def calibration(source: Source, rows: ir.Table | None = None) -> tuple[Array, Array] | None:
    """Return sums whose expectation is 0 if the logged probabilities are right, and the variances of these sums.

    By arm, how often it was chosen beyond the sum of its probabilities; last, the sum of the chosen arms' probabilities
    beyond that of all p^2, which is off when probabilities stand in the wrong row or with the wrong arm.
    """
    if not source.has_all_propensities:
        return None
    rows, arms = source.coded if rows is None else rows, range(len(source.arms))
    chances = [rows[f"p{k}"] for k in arms]
    square, cube = (sum((p**i for p in chances[1:]), chances[0] ** i) for i in (2, 3))
    chosen = rows.code.cases(*enumerate(chances), else_=None)
    sums = {f"e{k}": ((rows.code == k).ifelse(1.0, 0.0) - p).sum() for k, p in enumerate(chances)}
    sums |= {f"v{k}": (p * (1 - p)).sum() for k, p in enumerate(chances)}
    last = len(arms)
    sums |= {f"e{last}": (chosen - square).sum(), f"v{last}": (cube - square * square).sum()}
    with sentences(source.name):
        found = fetch(rows.aggregate(**sums)).to_pylist()[0]
    excess, variance = (np.array([found[f"{name}{k}"] for k in range(last + 1)], dtype=float) for name in "ev")
    return excess, np.where(variance > 1e-9 * len(source), variance, 0.0)  # equal probabilities: 0, but for rounding
