"""The confidence sequence of a log, which grows as outcomes land."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base.checks import one_of, whole
from belated.base.columns import Array, numbers
from belated.base.errors import BelatedWarning, LogError, OptionError
from belated.base.tables import Column, Table
from belated.base.text import one_line, percent
from belated.estimation.answers import Estimate, interval_kind
from belated.estimation.estimators import ESTIMATORS
from belated.estimation.pairs import default_pairs
from belated.kernels import arrivals as kernel
from belated.kernels import jit, rows
from belated.log.clock import Clock
from belated.log.log import Log, a_log, arm_index
from belated.reading.source import Source
from belated.sequences.answers import SequenceAnswer, SequenceAnswers, Track, reasons
from belated.sequences.answers import columns as answer_columns
from belated.sequences.design import KINDS, Design, plan_design, read_bounds
from belated.sequences.record import Arrivals, Record
from belated.summaries.outcome_models import read_outcome_model
from belated.summaries.signs import single_value, single_value_words
from belated.summaries.sums import Sums
from belated.summaries.weights import read_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Looks that an updated sequence keeps at most; then every second one is let go.
_MOST_LOOKS = 4096


def sequence(
    log: Log | Source,
    kind: str = "auto",
    *,
    level: float = 0.95,
    target: int | None = None,
    sigma: float | None = None,
    bounds: tuple[float, float] | None = None,
    looks: int | Sequence[Any] = 100,
    baseline: Any = None,
    null: float | Mapping[Any, float] = 0.0,
) -> ConfidenceSequence:
    """Return intervals that hold at every look and any stopping time, for every arm and contrast.

    Parameters
    ----------
    log : Log, or what `read` gives
        With at least the chosen arm's propensity.
    kind : {"auto", "asymptotic", "sub_gaussian", "bernstein", "beta_binomial"}
        ``"beta_binomial"`` is for outcomes that are 0 or 1, ``"bernstein"`` for those within `bounds`,
        ``"sub_gaussian"`` for those whose deviations are no larger than a normal's with standard deviation `sigma`;
        ``"asymptotic"`` needs nothing, and is infinite until it can be trusted. ``"auto"`` is the first of these
        that what is given allows.
    level : float
        Of the intervals.
    target : int, optional
        The number of assignments at which the intervals should be narrowest; by default the log's own. Choose it before
        outcomes are seen.
    sigma : float, optional
        By default half the range of the `bounds`.
    bounds : (float, float), optional
        Between which every outcome lies.
    looks : int or sequence of moments
        At which `track` and `plot` show the sequence: a number, evenly spaced over the rows, or the moments. The
        sequence itself is judged at every arrival.
    baseline : optional
        The arm that the others are compared with. Without it, all pairs of at most 32 arms are followed.
    null : float or mapping
        The value that is tested, for every arm or by arm; that of a contrast is the difference.

    Returns
    -------
    ConfidenceSequence

    Examples
    --------
    >>> import belated as bl
    >>> bandit = bl.Bandit({"A": bl.arms.bernoulli(0.3), "B": bl.arms.bernoulli(0.5)}, bl.delays.geometric(20))
    >>> log = bl.simulate(bandit, bl.policies.thompson_beta(), 2000, seed=1)
    >>> sequence = bl.sequence(log)
    >>> sequence.kind, sequence.contrast("B", "A").p_value < 0.05
    ('beta_binomial', True)
    """
    one_of("kind", kind, KINDS)
    memory = log.log() if isinstance(log, Source) else a_log(log)
    arrivals = Arrivals.of(memory)
    limits = read_bounds(bounds)
    if kind == "auto":
        given = "bernstein" if limits is not None else "sub_gaussian" if sigma is not None else "asymptotic"
        kind = "beta_binomial" if len(arrivals) and arrivals.outside(0, 1, ends=True) is None else given
    design = plan_design(kind, memory.arms, level, target, len(memory), sigma, limits, baseline, null)
    made = ConfidenceSequence(design, memory.clock)
    made._land(memory, arrivals, _looks(memory, looks, arrivals))
    return made


def _looks(log: Log, looks: Any, arrivals: Arrivals) -> Array:
    if not isinstance(looks, (Sequence, np.ndarray)) or isinstance(looks, str):
        return log.even_moments(whole("looks", looks, least=1), _last(arrivals))
    moments = [log.clock.read("looks", moment) for moment in looks]
    last = log.even_moments(1, _last(arrivals))[-1]
    if moments and max(moments) > last:
        raise OptionError("`looks` names a moment after the log's last; nothing is known about it.")
    return np.unique(np.array([*moments, last]))


def _last(arrivals: Arrivals) -> Any:
    """Return when the last outcome landed, if any has."""
    return arrivals.moments(-1).item() if len(arrivals) else None


class ConfidenceSequence(Table):
    """Intervals that hold at every look; `update` goes on as outcomes land.

    Attributes
    ----------
    arms : tuple
    kind : str
    level : float
    target : int
        The number of assignments at which the intervals are narrowest.
    moments : tuple
        The looks; the sequence itself is judged at every arrival.
    """

    def __init__(self, design: Design, clock: Clock) -> None:
        self.design, self._clock, self._record = design, clock, Record(design)
        self._times: list[Any] = []
        self._snaps: list[Array] = []
        self._single: str | None = None

    @property
    def arms(self) -> tuple[Any, ...]:
        """The arms' labels."""
        return self.design.arms

    @property
    def kind(self) -> str:
        """Of the sequence: "asymptotic", "sub_gaussian", "bernstein" or "beta_binomial"."""
        return self.design.kind

    @property
    def level(self) -> float:
        """Of the intervals."""
        return self.design.level

    @property
    def target(self) -> int:
        """The number of assignments at which the intervals are narrowest."""
        return self.design.target

    @property
    def moments(self) -> tuple[Any, ...]:
        """The looks."""
        return tuple(self._clock.show(time) for time in self._times)

    # ---------------------------------------------------------------- growing

    def update(self, arm: Any, outcome: Any = None, propensity: Any = None, *, at: Any = None) -> ConfidenceSequence:
        """Go on with outcomes that have landed since, and return the sequence itself.

        Parameters
        ----------
        arm : label or sequence of labels, or a Log
            Whose outcomes landed, in the order of arrival; or a later state of the same log, whose arrivals after the
            last look are new.
        outcome, propensity : float or sequence of float
            The outcomes, and the probability that each arm had when it was chosen.
        at : moment or sequence of moments, optional
            When they landed, no earlier than the last look; by default the next steps. Outcomes that share a moment
            are judged together.

        Returns
        -------
        ConfidenceSequence
            Equal to one built from everything at once. Each call is one more look.
        """
        if isinstance(arm, (Log, Source)):
            if outcome is not None or propensity is not None or at is not None:
                raise OptionError("`update` takes a log, or the arms, outcomes and propensities; not both.")
            return self._continue(arm.log() if isinstance(arm, Source) else arm)
        single = isinstance(arm, (str, bytes)) or (isinstance(arm, tuple) and arm in self.arms)
        labels = list(arm) if isinstance(arm, (Sequence, np.ndarray)) and not single else [arm]
        if outcome is None or propensity is None:
            raise OptionError("`update` needs `arm`, `outcome` and `propensity`, or a later state of the log.")
        y, pi = (numbers(name, np.atleast_1d(x)) for name, x in (("outcome", outcome), ("propensity", propensity)))
        code = np.array([arm_index(self.arms, label) for label in labels], dtype=np.int64)
        if not len(code) == len(y) == len(pi):
            raise OptionError(
                f"`arm`, `outcome` and `propensity` have {len(code):,}, {len(y):,} and {len(pi):,} rows; "
                "they must have as many."
            )
        if not len(code):
            return self
        if not np.isfinite(y).all():
            raise OptionError("`outcome` holds a value that is not finite; give outcomes once they have landed.")
        if not ((pi > 0) & (pi <= 1 + 1e-6)).all():
            raise OptionError("`propensity` must lie in (0, 1].")
        times = self._at(at, len(code))
        arrivals = Arrivals(code, y, pi[:, np.newaxis], False, np.arange(len(code)), times)
        self._check(arrivals)
        self._run(arrivals, times[-1:])
        if len(self._times) > _MOST_LOOKS:
            del self._times[:-1:2], self._snaps[:-1:2]
        return self

    def _at(self, at: Any, n: int) -> Array:
        last = self._times[-1] if self._times else 0
        if at is None:
            if self._clock.unit is not None:
                raise OptionError("`at` is needed: this sequence's times are datetimes.")
            return last + np.arange(1, n + 1)
        several = isinstance(at, (Sequence, np.ndarray)) and not isinstance(at, str)
        moments = [self._clock.read("at", moment) for moment in (at if several else [at])]
        times = np.array(moments * n if not several else moments)
        if len(times) != n:
            raise OptionError(f"`at` has {len(times):,} moments for {n:,} outcomes; it must have one, or as many.")
        if (np.diff(times) < 0).any():
            raise OptionError("`at` must not go back in time: give outcomes in the order of arrival.")
        if self._times and times[0] < last:
            raise OptionError(
                f"`at` is {self._clock.text(times[0])}, before the last look, {self._clock.text(last)}; "
                "what was judged then cannot be judged anew."
            )
        return times

    def _continue(self, log: Log) -> ConfidenceSequence:
        if log.arms != self.arms or log.clock.unit != self._clock.unit:
            raise OptionError("`update` needs a later state of the same log: the same arms and the same kind of times.")
        arrivals = Arrivals.of(log)
        last, state, k = self._times[-1], self._record.state, len(self.arms)
        old = int(arrivals.by(np.array([last]))[0])
        before = arrivals.landed[:old]
        code, y = log.code[before], log.outcome[before] - self._record.shift[log.code[before]]
        pi = log.propensity[before, code] if log.has_all_propensities else log.propensity[before]
        for weights, field in ((None, rows.ARRIVED), (1 / pi, rows.W2), (y, rows.Y)):
            then = state[:, field]
            apart = np.abs(np.bincount(code, weights, minlength=k) - then)
            apart /= 1e-6 * (1 + np.abs(then) + np.sqrt(state[:, rows.Y2]))
            if (apart > 1).any():
                arm = one_line(repr(self.arms[int(np.argmax(apart))]))
                raise LogError(
                    f"This log is no later state of the same one: what had arrived of arm {arm} by the last look, "
                    f"{self._clock.text(last)}, differs."
                )
        later = arrivals.after(old)
        moment = log.even_moments(1, _last(arrivals))[-1]
        if moment < last:
            raise OptionError("`update` needs a later state of the log; this one is as of an earlier moment.")
        self._land(log, later, np.array([moment]))
        return self

    def _land(self, log: Log, arrivals: Arrivals, moments: Array) -> None:
        """Land arrivals of a log, looking at the moments."""
        self._check(arrivals)
        jit.ready(len(arrivals) * (8 + len(self.arms)))
        self._run(arrivals, moments)
        state = self._record.state
        self._single = None
        if state[:, rows.Y2].any():  # outcomes differ
            return
        schedule = log.schedule
        alive = schedule.order[: schedule.rows] if len(schedule.order) else slice(schedule.rows)
        assigned = np.bincount(log.code[alive], minlength=len(self.arms))
        state[:, rows.ASSIGNED] = assigned
        value = single_value(self._sums(state))
        if value is not None:
            out = 1 - state[:, rows.ARRIVED].sum() / assigned.sum()
            self._single = single_value_words(value, out)
            warnings.warn(self._single, BelatedWarning, stacklevel=4)

    def _check(self, arrivals: Arrivals) -> None:
        """Refuse outcomes that the sequence's kind does not allow."""
        bounds, binary = self.design.bounds, self.kind == "beta_binomial"
        bad = None if bounds is None else arrivals.outside(*bounds, ends=binary)
        if bounds is None or bad is None:
            return
        if binary:
            raise LogError("A beta-binomial sequence needs outcomes that are 0 or 1.", column="outcome")
        raise LogError(f"An outcome is {bad:g}, outside `bounds`, {bounds[0]:g} to {bounds[1]:g}.", column="outcome")

    def _run(self, arrivals: Arrivals, moments: Array) -> None:
        self.__dict__.pop("_gauges", None)
        self._snaps += list(self._record.land(arrivals, moments))
        self._times += list(moments)

    # ---------------------------------------------------------------- reading

    @cached_property
    def _gauges(self) -> Array:
        """What each look says of each arm, (looks, arms, gauge)."""
        out = np.empty((len(self._snaps), len(self.arms), kernel.GAUGE))
        if self.kind != "beta_binomial":
            with np.errstate(all="ignore"):
                kernel.gauges(out, np.array(self._snaps), self._record.shift, self.design.code, self.design.plan)
        return out

    def _reach(self, look: int, k: int, threshold: float) -> tuple[float, float, float]:
        """Return an arm's estimate and the distances to its limits at a look."""
        state = self._snaps[look][k]
        n = state[rows.ARRIVED]
        if n == 0:
            return math.nan, math.inf, math.inf
        if self._single is not None:
            return float(self._record.shift[k] + state[rows.WY] / state[rows.W]), math.inf, math.inf
        if self.kind == "beta_binomial":
            ones = float(round(state[rows.Y] + n * self._record.shift[k]))
            low, high = (kernel.limit(ones, n - ones, threshold, upper, self.design.plan) for upper in (False, True))
            return ones / n, ones / n - low, high - ones / n
        g = self._gauges[look, k]
        if self.kind == "bernstein":
            radius = (threshold + math.log(2) + g[kernel.UPPER]) / g[kernel.LOWER]
            return float(g[kernel.CENTRE]), float(radius), float(radius)
        square = 2 * threshold + g[kernel.PRICE]
        return float(g[kernel.CENTRE]), math.sqrt(g[kernel.LOWER] * square), math.sqrt(g[kernel.UPPER] * square)

    def _interval(self, look: int, a: int, b: int | None, threshold: float) -> tuple[float, float, float]:
        """Return the estimate and limits of an arm, or of one minus another."""
        centre, below, above = self._reach(look, a, threshold)
        bottom, top = (-math.inf, math.inf) if self.design.bounds is None else self.design.bounds
        if b is None:
            if math.isnan(centre):
                return centre, bottom, top
            return centre, max(centre - below, bottom), min(centre + above, top)
        other, under, over = self._reach(look, b, threshold)
        d = centre - other
        if math.isnan(d):
            return d, bottom - top, top - bottom
        return d, max(d - math.hypot(below, over), bottom - top), min(d + math.hypot(above, under), top - bottom)

    def arm(self, arm: Any, *, simultaneous: bool = False) -> SequenceAnswer:
        """Return what is known now of one arm's mean; with `simultaneous`, as one of all arms."""
        return self._answer(one_line(arm), arm_index(self.arms, arm), None, len(self.arms) if simultaneous else 1)

    def contrast(self, arm: Any, baseline: Any) -> SequenceAnswer:
        """Return what is known now of one arm's mean minus another's."""
        return self._answer(f"{one_line(arm)} - {one_line(baseline)}", *self._pair(arm, baseline), 1)

    def _pair(self, arm: Any, baseline: Any) -> tuple[int, int]:
        a, b = arm_index(self.arms, arm), arm_index(self.arms, baseline)
        if a == b:
            raise OptionError(f"A contrast needs two different arms, and both are {arm!r}.")
        return a, b

    def contrasts(self, baseline: Any = None, *, simultaneous: bool = False) -> SequenceAnswers:
        """Return every arm's contrast against a baseline, or all pairs if there is none.

        With `simultaneous` they hold together, each at alpha over their number, and p-values are multiplied by it.
        """
        base = self.design.baseline if baseline is None else arm_index(self.arms, baseline)
        pairs = default_pairs(range(len(self.arms)), base)
        if not pairs:
            raise OptionError("Contrasts need at least two arms.")
        together = len(pairs) if simultaneous else 1
        named = [(f"{one_line(self.arms[a])} - {one_line(self.arms[b])}", a, b) for a, b in pairs]
        answers = tuple(self._answer(name, a, b, together) for name, a, b in named)
        return SequenceAnswers(answers, self.kind, self.level, simultaneous)

    def _answer(self, name: str, a: int, b: int | None, together: int) -> SequenceAnswer:
        design = self.design
        null = float(design.null[a] - (0.0 if b is None else design.null[b]))
        estimate, low, high = self._interval(-1, a, b, design.threshold(together))
        best, first = self._test(a, b, together)
        p_value = min(1.0, together * math.exp(-best))
        whys = dict.fromkeys(filter(None, map(self._why, (a,) if b is None else (a, b))))
        why = " ".join(whys) or None
        if self._single is not None:
            first, p_value = None, 1.0
        moment = None if first is None else self._clock.show(first)
        return SequenceAnswer(name, estimate, low, high, self.level, p_value, null, moment, self.kind, why, together)

    def _test(self, a: int, b: int | None, together: int) -> tuple[float, Any]:
        """Return the largest score so far against the null, and when it first passed the threshold."""
        design, record, q = self.design, self._record, self.design.question(a, b)
        if b is None or (q is not None and together in (1, design.n_contrasts)):
            best, first = float(record.best[q]), record.first[int(together > 1), q]
            now = 0.0 if b is None or self.kind != "beta_binomial" else self._invert(a, b)
            return max(best, now), first
        null, threshold = design.null[a] - design.null[b], design.threshold(together)
        if self.kind == "beta_binomial":
            outside = [not low <= null <= high for _, low, high in self._over_looks(a, b, threshold)]
            scores = np.where(outside, threshold, 0.0)
            scores[-1] = max(scores[-1], self._invert(a, b))
        else:
            scores = np.array([kernel.pair_score(g, a, b, null, design.code) for g in self._gauges])
        passed = np.nonzero(scores >= threshold)[0]
        return float(np.max(scores, initial=0.0)), self._times[passed[0]] if len(passed) else None

    def _over_looks(self, a: int, b: int | None, threshold: float) -> list[tuple[float, float, float]]:
        return [self._interval(look, a, b, threshold) for look in range(len(self._snaps))]

    def _invert(self, a: int, b: int) -> float:
        """Return the threshold at which a contrast's interval just excludes the null now, found by halving."""
        null = self.design.null[a] - self.design.null[b]

        def excluded(threshold: float) -> bool:
            estimate, low, high = self._interval(-1, a, b, threshold)
            return not (math.isnan(estimate) or low <= null <= high)

        if not excluded(0.0):
            return 0.0
        inside, outside = 1.0, 0.0
        while excluded(inside) and inside < 700:
            inside, outside = 2 * inside, inside
        for _ in range(30):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if excluded(middle) else (middle, outside)
        return outside

    def _why(self, k: int) -> str | None:
        """Return why an arm's sequence says nothing yet; None if it does."""
        state, name = self._record.state[k], one_line(repr(self.arms[k]))
        n = int(state[rows.ARRIVED])
        if n == 0:
            return f"No outcome of arm {name} has arrived."
        if self._single is not None:
            return self._single
        if self.kind != "asymptotic" or math.isfinite(self._reach(-1, k, 1.0)[1]):
            return None
        size = state[rows.W] ** 2 / state[rows.W2]
        if size < kernel.LEAST_SIZE:
            return (
                f"Arm {name} has {n:,} arrived outcomes that weigh as much as {size:.3g} equal ones; an asymptotic "
                f"sequence needs {kernel.LEAST_SIZE:.0f}."
            )
        ones = state[rows.Y] + n * self._record.shift[k]
        if state[rows.UNBINARY] == 0 and min(ones, n - ones) < kernel.LEAST_KIND - 0.5:
            value, times = (1, ones) if ones < n - ones else (0, n - ones)
            return (
                f"Of arm {name}, {times:.0f} of {n:,} outcomes are {value}; an asymptotic sequence needs "
                f"{kernel.LEAST_KIND:.0f}, a beta-binomial one none."
            )
        if state[rows.Y2] - state[rows.Y] ** 2 / n <= 1e-12 * state[rows.Y2]:
            return f"All arrived outcomes of arm {name} are equal: they show no variance."
        return f"The outcomes of arm {name} are too skewed for so few of them: their mean is not yet near normal."

    # ---------------------------------------------------------------- over time

    def _sums(self, state: Array) -> Sums:
        k = len(self.arms)
        spread = np.full((len(rows.SPREAD), k), math.nan)
        own = state[:, : len(rows.OWN)]
        return Sums(self.arms, read_weights("sqrt"), read_outcome_model("zero"), self._record.shift, spread, own)

    def fixed(self, look: int = -1) -> Estimate:
        """Return the estimate with intervals for a single look, as `estimate(log.at(moment), "dipw")` gives them."""
        dipw, text = ESTIMATORS["dipw"], self._clock.text(self._times[look])
        kind = interval_kind("auto", self._sums(self._record.state), dipw)
        return Estimate(self._sums(self._snaps[look]), dipw, self.level, kind, text)

    def track(self, arm: Any, baseline: Any = None) -> Track:
        """Return how the sequence of an arm, or of its contrast with a baseline, moved over the looks.

        Beside it stands the interval of a single look, which holds at one moment chosen in advance, not at all.
        """
        if baseline is None:
            a, b, name = arm_index(self.arms, arm), None, one_line(arm)
        else:
            (a, b), name = self._pair(arm, baseline), f"{one_line(arm)} - {one_line(baseline)}"
        estimate, low, high = np.array(self._over_looks(a, b, self.design.threshold())).T
        estimates = [self.fixed(look) for look in range(len(self._snaps))]
        fixed = [e.arm(arm) if baseline is None else e.contrast(arm, baseline) for e in estimates]
        first = self._test(a, b, 1)[1] if self._single is None else None
        return Track(
            name,
            self.kind,
            self.level,
            self.moments,
            estimate,
            low,
            high,
            np.array([answer.estimate for answer in fixed]),
            np.array([answer.low for answer in fixed]),
            np.array([answer.high for answer in fixed]),
            float(self.design.null[a] - (0.0 if b is None else self.design.null[b])),
            None if first is None else self._clock.show(first),
        )

    def plot(self, arm: Any, baseline: Any = None) -> Figure:
        """Draw `track`: the sequence, and the interval of a single look beside it; a matplotlib figure."""
        from belated.sequences.figure import band

        return band(**self.track(arm, baseline).drawing())

    # ---------------------------------------------------------------- display

    def _title(self) -> str:
        looked = self._clock.text(self._times[-1])
        n = int(self._record.state[:, rows.ARRIVED].sum())
        return (
            f"{percent(self.level)} {self.kind.replace('_', '-')} confidence sequence as of {looked}, {n:,} arrivals; "
            f"narrowest at {self.target:,} assignments"
        )

    def _columns(self) -> list[Column]:
        answers = [self.arm(arm) for arm in self.arms]
        columns = [Column("arm", list(self.arms), "label"), *answer_columns(answers)[:3]]
        return [*columns, Column("arrived", self._record.state[:, rows.ARRIVED].astype(int).tolist(), "count")]

    def _notes(self) -> list[str]:
        return reasons([self._why(k) for k in range(len(self.arms))])
