"""Evidence: the counts and sums of a log from which every check of it is read.

`of_log` makes them of a log in memory; `reading.evidence_query.evidence` lets an engine make them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from belated.base.columns import Array
from belated.base.errors import LogError
from belated.log.log import Log

#: Stretches of time, and those that are put together where rows must not be few.
STRETCHES = 40
COARSE = 10

#: Bins of delays, fine for short ones and coarse for long ones.
DELAY_BINS = 48

#: Rows beyond which only the earliest are looked at for `Evidence.dependence`.
ENOUGH = 1_000_000

#: What stands for a probability of 0 where its logarithm is taken.
TINY = 1e-300

#: Steps that delays may be multiples of, the longest first: of plain numbers, and of datetimes, in microseconds.
GRAINS = {False: (1.0,), True: (86_400e6, 3_600e6, 60e6, 1e6)}

#: Sums by stretch and arm: over its rows; over those followed for half of the time; over those that have arrived.
SUMS = ("assigned", "inverse", "old", "soon", "arrived", "y", "y2", "w", "w2", "w3", "w4")


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


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a log shows, as a few thousand numbers.

    Attributes
    ----------
    arms : tuple
    rows : int
    within : str or None
        Of events, the window in words.
    grain : float
        Delays are multiples of it: whole steps, seconds, minutes, hours or days; 0 if they are not.
    moments : array
        The middles of the stretches of time, as numbers of the clock.
    sums : dict of array (stretches, arms)
        With w = 1 / sqrt(p), the weight of a row of probability p: ``assigned`` rows and their ``inverse`` (sum of
        1 / p); ``old``, those followed for half of the experiment or longer, and ``soon``, those of them whose outcome
        came within that time; of the ``arrived``, the sums of w, w^2, w^3, w^4, and of the outcomes about `shift`
        (``y``, ``y2``).
    shift : array
    low, rarest : array
        By arm, the smallest outcome, and the smallest probability of a row whose outcome has arrived; NaN if none has.
    unlikeliest : array
        By arm, the smallest probability of any of its rows; NaN if it has none.
    p, p2, p_min : array (stretches, arms) or None
        Over all rows, the sums of each arm's probabilities and their squares, and the smallest; None if only the
        chosen arm's are known.
    h, h_max, chance : array or None
        By arm, the sum of sqrt(p) and the largest; and the sum of all p not above `rarest`: how often so unlikely a row
        was to be expected.
    excess, variance : array or None
        Martingales with steps of at most 1 if the probabilities are right, and their variances: for each arm, choices
        minus probabilities; last, the chosen arm's probability minus the sum of all p^2.
    log_p : array (arms, arms) or None
        Over the rows of the first arm, the sum of the logarithms of the second's probability.
    dependence : array (arms, 3, 3)
        Over rows followed for half of the experiment whose outcome came within that time: sums of L^i y^j, L the
        logarithm of 1 + the delay.
    arrivals : ArrivalCounts or None
        None if everything that came came at once.
    """

    arms: tuple[Any, ...]
    rows: int
    within: str | None
    grain: float
    moments: Array
    sums: dict[str, Array]
    shift: Array
    low: Array
    rarest: Array
    unlikeliest: Array
    p: Array | None
    p2: Array | None
    p_min: Array | None
    h: Array | None
    h_max: Array | None
    chance: Array | None
    excess: Array | None
    variance: Array | None
    log_p: Array | None
    dependence: Array
    arrivals: ArrivalCounts | None

    @cached_property
    def totals(self) -> dict[str, Array]:
        """The sums by arm."""
        return {name: table.sum(axis=0) for name, table in self.sums.items()}

    def coarse(self, name: str) -> Array:
        """Return sums by `COARSE` stretches and arm; of `p` and `p2` too."""
        table = getattr(self, name) if name in ("p", "p2") else self.sums[name]
        return np.asarray(table.reshape(COARSE, -1, table.shape[1]).sum(axis=1))


def half_of(length: int | float, whole: bool) -> int | float:
    """Return half of a time, whole if times are."""
    return length // 2 if whole else length / 2


def of_log(log: Log) -> Evidence:
    """Return the evidence of a log in memory."""
    schedule, clock, arms = log.schedule, log.clock, len(log.arms)
    if schedule.rows == 0:
        raise LogError("The log has no rows as of its moment.")
    if len(schedule.order):
        alive: Any = schedule.order[: schedule.rows]
    else:
        alive = slice(0, schedule.rows)
    code, came, p = log.code[alive].astype(np.intp), schedule.due[alive] >= 0, log.propensity[alive]
    at = log._assigned_numbers[alive]
    arrived = at if log._arrived is None else log._arrived[alive]
    first, last = at[0].item(), at[-1].item()
    landed = arrived[came]
    look = max(last, landed.max().item() if len(landed) else last) if log.moment is None else log.moment
    scale = 1.0 if clock.unit is None else float(clock.show_delay(1.0) / np.timedelta64(1, "us"))
    since = (at - first) * scale
    width = float(last - first) * scale / STRETCHES
    place = np.minimum(since / width, STRETCHES - 1).astype(np.intp) if width > 0 else np.zeros(len(at), np.intp)
    delay = (arrived - at)[came] * scale
    chosen = p if p.ndim == 1 else p[np.arange(len(p)), code]
    own = code[came]
    y = log.outcome[alive][came] - log.anchor[own]
    half = half_of(look - first, clock.whole or clock.unit is not None)
    until = min(look - half, last)
    old = at <= until
    soon = old[came] & (delay <= half * scale)
    cell = place * arms + code
    seen = cell[came]
    w2 = 1 / chosen[came]
    w = np.sqrt(w2)

    def table(where: Array, values: Array | None = None) -> Array:
        return np.bincount(where, values, STRETCHES * arms).astype(float).reshape(STRETCHES, arms)

    sums = {
        "assigned": table(cell), "inverse": table(cell, 1 / chosen), "old": table(cell[old]), "soon": table(seen[soon]),
        "arrived": table(seen), "y": table(seen, y), "y2": table(seen, y * y), "w": table(seen, w),
        "w2": table(seen, w2), "w3": table(seen, w * w2), "w4": table(seen, w2 * w2),
    }  # fmt: skip
    low, rarest, unlikeliest = np.full((3, arms), math.inf)
    np.minimum.at(low, own, y)
    np.minimum.at(rarest, own, chosen[came])
    np.minimum.at(unlikeliest, code, chosen)
    low = np.where(np.isinf(low), math.nan, low + log.anchor)
    rarest, unlikeliest = (np.where(np.isinf(one), math.nan, one) for one in (rarest, unlikeliest))
    if len(at) > ENOUGH:
        until = min(until, first + type(first)((last - first) * (ENOUGH / len(at))))
        soon = soon & (at[came] <= until)
    late, seen_y, arm = np.log1p(delay[soon] / (half * scale / 1000 or 1.0)), y[soon], own[soon]
    moments = [[np.bincount(arm, late**i * seen_y**j, arms) for j in range(3)] for i in range(3)]
    middles = first + (np.arange(STRETCHES) + 0.5) * (float(last - first) / STRETCHES)
    chances = _chances(p, code, place, rarest) if p.ndim == 2 else {}
    names = ("p", "p2", "p_min", "h", "h_max", "chance", "excess", "variance", "log_p")
    return Evidence(
        arms=log.arms, rows=len(at), within=None, grain=_grain(delay, clock.unit is not None), moments=middles,
        sums=sums, shift=log.anchor, low=low, rarest=rarest, unlikeliest=unlikeliest,
        **{name: chances.get(name) for name in names},
        dependence=np.moveaxis(np.array(moments, dtype=float), 2, 0),
        arrivals=_arrivals(code, came, delay, (look - at) * scale, arms, float(look - first) * scale),
    )  # fmt: skip


def _grain(delay: Array, dates: bool) -> float:
    return next((grain for grain in GRAINS[dates] if not (delay % grain).any()), 0.0)


def _chances(p: Array, code: Array, place: Array, rarest: Array) -> dict[str, Array]:
    """Sum up every arm's probabilities; rows are in order of time."""
    rows, arms = p.shape
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    there = place[starts]
    found = {name: np.zeros((STRETCHES, arms)) for name in ("p", "p2")}
    found["p_min"] = np.full((STRETCHES, arms), math.nan)
    found["p"][there] = np.add.reduceat(p, starts, axis=0)
    found["p2"][there] = np.add.reduceat(p * p, starts, axis=0)
    found["p_min"][there] = np.minimum.reduceat(p, starts, axis=0)
    found["h"], found["h_max"] = np.sqrt(p).sum(axis=0), np.sqrt(p.max(axis=0))
    found["chance"] = np.where(p <= rarest, p, 0.0).sum(axis=0)
    square = np.einsum("tk,tk->t", p, p)
    cube = np.einsum("tk,tk,tk->t", p, p, p)
    excess = [*(np.bincount(code, minlength=arms) - found["p"].sum(axis=0))]
    excess.append((p[np.arange(rows), code] - square).sum())
    variance = [*(found["p"] - found["p2"]).sum(axis=0), (cube - square * square).sum()]
    logs = np.log(np.maximum(p, TINY))
    found["log_p"] = np.array([logs[code == k].sum(axis=0) for k in range(arms)])
    found["excess"], found["variance"] = np.array(excess), settled(np.array(variance), rows)
    return found


def settled(variance: Array, rows: int) -> Array:
    """Return variances with those that are 0 but for rounding as 0: probabilities that are equal, or certain."""
    return np.where(variance > 1e-9 * rows, variance, 0.0)


def _arrivals(code: Array, came: Array, delay: Array, age: Array, arms: int, followed: float) -> ArrivalCounts | None:
    if not len(delay) or not delay.max() > 0:
        return None
    unit = float(delay.mean()) / 10
    step = math.log1p(float(delay.max()) / unit) / DELAY_BINS
    bins = np.full(len(code), DELAY_BINS + 1)
    # the longest delay may fall just beyond its bin by rounding
    bins[came] = np.minimum(np.ceil(np.log1p(delay / unit) / step), DELAY_BINS)
    ages = np.minimum(np.floor(np.log1p(np.maximum(age, 0) / unit) / step), DELAY_BINS).astype(np.intp)
    cell = (code * (DELAY_BINS + 2) + bins) * (DELAY_BINS + 1) + ages
    shape = (arms, DELAY_BINS + 2, DELAY_BINS + 1)
    counts = np.bincount(cell, minlength=math.prod(shape)).astype(float).reshape(shape)
    return ArrivalCounts(unit * np.expm1(step * np.arange(DELAY_BINS + 1)), counts, followed)
