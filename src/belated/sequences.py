"""Confidence sequences: intervals that hold at every look, under any delays.

The policy sees only outcomes that have arrived, and an outcome does not depend on when it comes, given its arm and the
past. So the sum of w (Y - mean) over an arm's arrivals, w = h / pi, is a martingale in calendar time whatever the
delays' tail, and mixtures of its exponentials bound it at all times at once. docs/sequences.md has the formulas.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from belated.answers import Answer, Estimate, interval_kind
from belated.backends.source import Source
from belated.checks import fraction, one_of, positive, real, whole
from belated.columns import Array, numbers
from belated.errors import BelatedWarning, LogError, OptionError
from belated.estimators import ESTIMATORS
from belated.kernels import arrivals as kernel
from belated.kernels import jit, rows
from belated.log import Log, a_log, arm_index
from belated.outcome_models import read_outcome_model
from belated.signs import single_value, single_value_words
from belated.sums import Sums
from belated.tables import Column, Table, one_line, percent
from belated.times import Clock
from belated.weights import read_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("auto", "asymptotic", "sub_gaussian", "bernstein", "beta_binomial")
_CODES = {name: code for code, name in enumerate(KINDS[1:])}

#: The share of a target's rows whose outcomes are expected to arrive; widths hardly depend on it.
_SHARE = 0.6

#: Arms up to which all pairs are followed from arrival to arrival; of more, those with a baseline, the rest by looks.
MANY = 32

#: Looks that an updated sequence keeps at most; then every second one is let go.
_MOST_LOOKS = 4096

#: Arrivals that the interpreter lands.
_FEW = 256

#: Sizes of the beta-binomial priors relative to the first, and their weights.
_PRIORS = (1.0, 1 / 12, 1 / 150)
_PRIOR_WEIGHTS = (0.75, 0.15, 0.1)


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
    landed = _landed(memory)
    limits = _bounds(bounds)
    if kind == "auto":
        given = "bernstein" if limits is not None else "sub_gaussian" if sigma is not None else "asymptotic"
        y = memory.outcome[landed]
        kind = "beta_binomial" if len(y) and bool(((y == 0) | (y == 1)).all()) else given
    design = _design(kind, memory.arms, level, target, len(memory), sigma, limits, baseline, null)
    made = ConfidenceSequence(design, memory.clock)
    moments = _looks(memory, looks)
    made._land(memory, landed, moments)
    return made


def _bounds(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise OptionError(f"`bounds` is {bounds!r}; it must be two numbers, such as (0, 1).") from None
    low, high = real("bounds[0]", low), real("bounds[1]", high)
    if not low < high:
        raise OptionError(f"`bounds` is {bounds!r}; the first must be below the second.")
    return low, high


def _looks(log: Log, looks: Any) -> Array:
    if not isinstance(looks, (Sequence, np.ndarray)) or isinstance(looks, str):
        return log.even_moments(whole("looks", looks, least=1))
    moments = [log.clock.read("looks", moment) for moment in looks]
    last = log.even_moments(1)[-1]
    if moments and max(moments) > last:
        raise OptionError("`looks` names a moment after the log's last; nothing is known about it.")
    return np.unique(np.array([*moments, last]))


def _landed(log: Log) -> Array:
    """Return the rows whose outcome has arrived, in the order of arrival."""
    schedule = log.schedule
    jit.ready(2 * schedule.rows)
    landed = np.empty(len(log.code), dtype=schedule.due.dtype)
    return landed[: kernel.arrange(landed, log.came, schedule.due, schedule.order, schedule.rows)]


# ---------------------------------------------------------------- what is fixed before any outcome


@dataclass(frozen=True, eq=False)
class Design:
    """What a sequence is, fixed before any outcome."""

    kind: str
    arms: tuple[Any, ...]
    level: float
    target: int
    sigma: float | None
    bounds: tuple[float, float] | None
    baseline: int | None
    null: Array
    plan: Array

    @property
    def code(self) -> int:
        """The kind as kernels number it."""
        return _CODES[self.kind]

    @property
    def follows(self) -> int:
        """Which pairs are followed, as kernels take it: -1 all, -2 none, or those with a baseline."""
        return self.baseline if self.baseline is not None else -1 if 2 <= len(self.arms) <= MANY else -2

    def threshold(self, together: int = 1) -> float:
        """Return log(1 / alpha) for one of several questions."""
        return math.log(together / (1 - self.level))


def _design(
    kind: str,
    arms: tuple[Any, ...],
    level: float,
    target: Any,
    n_rows: int,
    sigma: Any,
    bounds: tuple[float, float] | None,
    baseline: Any,
    null: Any,
) -> Design:
    k, alpha = len(arms), 1 - fraction("level", level)
    rows_ahead = max(n_rows, 1) if target is None else whole("target", target, least=1)
    base = None if baseline is None else arm_index(arms, baseline)
    if kind == "bernstein" and bounds is None:
        raise OptionError("`kind` is 'bernstein', which needs the `bounds` of the outcomes, such as (0, 1).")
    scale = None if sigma is None else positive("sigma", sigma)
    if kind == "sub_gaussian" and scale is None:
        if bounds is None:
            raise OptionError("`kind` is 'sub_gaussian', which needs `sigma`, or `bounds` of the outcomes.")
        scale = (bounds[1] - bounds[0]) / 2
    if kind == "beta_binomial":
        bounds = (0.0, 1.0)
    if isinstance(null, Mapping):
        tested = np.zeros(k)
        for arm, value in null.items():
            tested[arm_index(arms, arm)] = real(f"null[{arm!r}]", value)
    else:
        tested = np.full(k, real("null", null))
    planned = _SHARE * rows_ahead
    # the mixture that is narrowest when V = planned: r^2 = (V + eta) (2 log(1/alpha) + log(1 + V/eta)) is least there
    ratio = -1 - float(special.lambertw(-(alpha**2) / math.e, -1).real)
    pairs = k - 1 if base is not None else k * (k - 1) // 2
    plan = np.zeros(kernel.PLAN)
    plan[kernel.ETA] = planned / ratio
    plan[kernel.SIGMA] = 0.0 if scale is None else scale
    plan[kernel.BET] = math.sqrt(2 * math.log(2 / alpha) / planned)
    plan[kernel.BOTTOM], plan[kernel.RANGE] = (0.0, 1.0) if bounds is None else (bounds[0], bounds[1] - bounds[0])
    plan[kernel.LEVELS : kernel.LEVELS + 3] = [math.log(m / alpha) for m in (1, k, max(pairs, 1))]
    # an arm's arrivals are not known in advance: fewer than all of them, and far fewer if it is hardly chosen
    sizes = planned / math.sqrt(k) / ratio * np.array(_PRIORS)
    plan[kernel.PRIORS :] = [*sizes, *np.log(_PRIOR_WEIGHTS)]
    return Design(kind, arms, level, rows_ahead, scale, bounds, base, tested, plan)


# ---------------------------------------------------------------- the sequence


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
        k, follows = len(design.arms), design.follows
        lines = 0 if follows == -2 else k if follows == -1 else 1
        self.design, self._clock = design, clock
        self._state, self._shift = np.zeros((k, len(kernel.STATE))), np.zeros(k)
        self._now, self._stale = np.zeros((k, kernel.GAUGE)), np.zeros(k)
        self._best_arm, self._best_pair = np.zeros(k), np.zeros((lines, k))
        self._first_arm: dict[tuple[int, ...], Any] = {}
        self._first_pair: dict[tuple[int, ...], Any] = {}
        self._marks = np.full((2, k), -1, dtype=np.int64), np.full((2, lines, k), -1, dtype=np.int64)
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
        self._check(y)
        self._run(code, y, pi[:, np.newaxis], False, np.arange(len(code)), times, times[-1:])
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
        landed = _landed(log)
        times = log.came[landed] if len(log.came) else landed + 1
        old = int(np.searchsorted(times, self._times[-1], side="right"))
        before = landed[:old]
        code, y = log.code[before], log.outcome[before]
        pi = log.propensity[before, code] if log.has_all_propensities else log.propensity[before]
        k = len(self.arms)
        for seen, then in (
            (np.bincount(code, minlength=k), self._state[:, rows.ARRIVED]),
            (np.bincount(code, 1 / pi, minlength=k), self._state[:, rows.W2]),
            (
                np.bincount(code, y - self._shift[code], minlength=k),
                self._state[:, rows.Y],
            ),
        ):
            scale = 1e-6 * (1 + np.abs(then) + np.sqrt(self._state[:, rows.Y2]))
            if (np.abs(seen - then) > scale).any():
                arm = one_line(repr(self.arms[int(np.argmax(np.abs(seen - then) / scale))]))
                raise LogError(
                    f"This log is no later state of the same one: what had arrived of arm {arm} by the last look, "
                    f"{self._clock.text(self._times[-1])}, differs."
                )
        self._check(log.outcome[landed[old:]])
        moment = log.even_moments(1)[-1]
        if moment < self._times[-1]:
            raise OptionError("`update` needs a later state of the log; this one is as of an earlier moment.")
        self._land(log, landed[old:], np.array([moment]))
        return self

    def _land(self, log: Log, landed: Array, moments: Array) -> None:
        """Land rows of a log in their order, looking at the moments."""
        if self.kind != "beta_binomial" and self.design.bounds is not None:
            self._check(log.outcome[landed])
        jit.ready(len(landed) * (8 + len(self.arms)))
        self._run(log.code, log.outcome, log.propensity_matrix, log.has_all_propensities, landed, log.came, moments)
        if self.kind == "beta_binomial" and self._state[:, rows.UNBINARY].any():
            self._check(log.outcome[landed])
        self._single = None
        if self._state[:, rows.Y2].any():  # outcomes differ
            return
        schedule = log.schedule
        alive = schedule.order[: schedule.rows] if len(schedule.order) else slice(schedule.rows)
        assigned = np.bincount(log.code[alive], minlength=len(self.arms))
        self._state[:, rows.ASSIGNED] = assigned
        value = single_value(self._sums(self._state))
        if value is not None:
            out = 1 - self._state[:, rows.ARRIVED].sum() / assigned.sum()
            self._single = single_value_words(value, out)
            warnings.warn(self._single, BelatedWarning, stacklevel=4)

    def _check(self, y: Array) -> None:
        """Refuse outcomes that the sequence's kind does not allow."""
        if self.kind == "beta_binomial" and not bool(((y == 0) | (y == 1)).all()):
            raise LogError("A beta-binomial sequence needs outcomes that are 0 or 1.", column="outcome")
        bounds = self.design.bounds
        if (
            bounds is not None
            and self.kind != "beta_binomial"
            and len(y)
            and (y.min() < bounds[0] or y.max() > bounds[1])
        ):
            bad = float(y.min() if y.min() < bounds[0] else y.max())
            raise LogError(
                f"An outcome is {bad:g}, outside `bounds`, {bounds[0]:g} to {bounds[1]:g}.", column="outcome"
            )

    def _run(
        self,
        code: Array,
        outcome: Array,
        propensity: Array,
        full: bool,
        landed: Array,
        times: Array,
        moments: Array,
    ) -> None:
        self.__dict__.pop("_gauges", None)
        design, k = self.design, len(self.arms)
        snaps = np.empty((len(moments), k, len(kernel.STATE)))
        marks = [np.where(mark >= 0, np.iinfo(np.int64).max, -1) for mark in self._marks]
        # a few arrivals are sooner landed by the interpreter than another kind of columns is compiled
        follow = kernel.follow if len(landed) > _FEW else getattr(kernel.follow, "py_func", kernel.follow)
        with np.errstate(all="ignore"):
            follow(
                self._state, self._shift, self._now, self._stale, code, outcome, propensity, full, landed, times,
                moments, snaps, design.code, design.plan, design.null, self._best_arm, self._best_pair,
                marks[0], marks[1], design.follows,
            )  # fmt: skip
        for mark, kept, first in zip(marks, self._marks, (self._first_arm, self._first_pair), strict=True):
            for place in zip(*np.nonzero((mark >= 0) & (kept < 0)), strict=True):
                row = landed[mark[place]]
                first[tuple(map(int, place))] = times[row] if len(times) else row + 1
            kept[:] = mark
        self._times += list(moments)
        self._snaps += list(snaps)

    # ---------------------------------------------------------------- reading

    @cached_property
    def _gauges(self) -> Array:
        """What each look says of each arm, (looks, arms, gauge)."""
        out = np.empty((len(self._snaps), len(self.arms), kernel.GAUGE))
        if self.kind != "beta_binomial":
            with np.errstate(all="ignore"):
                kernel.gauges(out, np.array(self._snaps), self._shift, self.design.code, self.design.plan)
        return out

    def _reach(self, look: int, k: int, threshold: float) -> tuple[float, float, float]:
        """Return an arm's estimate and the distances to its limits at a look."""
        state = self._snaps[look][k]
        n = state[rows.ARRIVED]
        if n == 0:
            return math.nan, math.inf, math.inf
        if self._single is not None:
            return float(self._shift[k] + state[rows.WY] / state[rows.W]), math.inf, math.inf
        if self.kind == "beta_binomial":
            ones = float(round(state[rows.Y] + n * self._shift[k]))
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
        if base is None:
            pairs = [(b, a) for a, b in combinations(range(len(self.arms)), 2)]
        else:
            pairs = [(k, base) for k in range(len(self.arms)) if k != base]
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
        design = self.design
        if b is None:
            return float(self._best_arm[a]), self._first_arm.get((int(together > 1), a))
        follows = design.follows
        pairs = len(self.arms) - 1 if design.baseline is not None else len(self.arms) * (len(self.arms) - 1) // 2
        followed = follows == -1 or (follows >= 0 and follows in (a, b))
        if followed and together in (1, pairs):
            place = (max(a, b), min(a, b)) if follows == -1 else (0, a if b == follows else b)
            first = self._first_pair.get((int(together > 1), *place))
            if self.kind != "beta_binomial":
                return float(self._best_pair[place]), first
            return max(self._invert(-1, a, b), 0.0 if first is None else design.threshold(together)), first
        null, threshold = design.null[a] - design.null[b], design.threshold(together)
        if self.kind == "beta_binomial":
            outside = [not low <= null <= high for _, low, high in self._over_looks(a, b, threshold)]
            scores = np.where(outside, threshold, 0.0)
            scores[-1] = max(scores[-1], self._invert(-1, a, b))
        else:
            scores = np.array([kernel.pair_score(g, a, b, null, design.code) for g in self._gauges])
        passed = np.nonzero(scores >= threshold)[0]
        return float(np.max(scores, initial=0.0)), self._times[passed[0]] if len(passed) else None

    def _over_looks(self, a: int, b: int | None, threshold: float) -> list[tuple[float, float, float]]:
        return [self._interval(look, a, b, threshold) for look in range(len(self._snaps))]

    def _invert(self, look: int, a: int, b: int) -> float:
        """Return the threshold at which a contrast's interval just excludes the null, found by halving."""
        null = self.design.null[a] - self.design.null[b]

        def excluded(threshold: float) -> bool:
            estimate, low, high = self._interval(look, a, b, threshold)
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
        state, name = self._state[k], one_line(repr(self.arms[k]))
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
        ones = state[rows.Y] + n * self._shift[k]
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
        return Sums(self.arms, read_weights("sqrt"), read_outcome_model("zero"), self._shift, spread, own)

    def fixed(self, look: int = -1) -> Estimate:
        """Return the estimate with intervals for a single look, as `estimate(log.at(moment), "dipw")` gives them."""
        dipw, text = ESTIMATORS["dipw"], self._clock.text(self._times[look])
        kind = interval_kind("auto", self._sums(self._state), dipw)
        return Estimate(self._sums(self._snaps[look]), dipw, self.level, kind, text)

    def track(self, arm: Any, baseline: Any = None) -> Track:
        """Return how the sequence of an arm, or of its contrast with a baseline, moved over the looks.

        Beside it stands the interval of a single look, which holds at one moment chosen in advance, not at all.
        """
        if baseline is None:
            a, b, name = arm_index(self.arms, arm), None, one_line(arm)
            ask: Callable[[Estimate], Answer] = lambda e: e.arm(arm)  # noqa: E731
        else:
            (a, b), name = self._pair(arm, baseline), f"{one_line(arm)} - {one_line(baseline)}"
            ask = lambda e: e.contrast(arm, baseline)  # noqa: E731
        estimate, low, high = np.array(self._over_looks(a, b, self.design.threshold())).T
        fixed = [ask(self.fixed(look)) for look in range(len(self._snaps))]
        first = self._test(a, b, 1)[1] if self._single is None else None
        return Track(
            name,
            self.kind,
            self.level,
            self.moments,
            estimate,
            low,
            high,
            np.array([answer.low for answer in fixed]),
            np.array([answer.high for answer in fixed]),
            float(self.design.null[a] - (0.0 if b is None else self.design.null[b])),
            None if first is None else self._clock.show(first),
        )

    def plot(self, arm: Any, baseline: Any = None) -> Figure:
        """Draw `track`: the sequence, and the interval of a single look beside it; a matplotlib figure."""
        from belated.display.sequence_plots import band

        return band(**self.track(arm, baseline).drawing())

    # ---------------------------------------------------------------- display

    def _title(self) -> str:
        looked = self._clock.text(self._times[-1])
        n = int(self._state[:, rows.ARRIVED].sum())
        return (
            f"{percent(self.level)} {self.kind.replace('_', '-')} confidence sequence as of {looked}, {n:,} arrivals; "
            f"narrowest at {self.target:,} assignments"
        )

    def _columns(self) -> list[Column]:
        answers = [self.arm(arm) for arm in self.arms]
        columns = [Column("arm", list(self.arms), "label"), *_columns(answers)[:3]]
        return [*columns, Column("arrived", self._state[:, rows.ARRIVED].astype(int).tolist(), "count")]

    def _notes(self) -> list[str]:
        return _reasons([self._why(k) for k in range(len(self.arms))])


def _reasons(whys: Sequence[str | None]) -> list[str]:
    told = list(dict.fromkeys(why for why in whys if why))
    return told[:5] + ([f"And {len(told) - 5:,} more arms or contrasts."] if len(told) > 5 else [])


@dataclass(frozen=True, repr=False)
class SequenceAnswer(Table):
    """What a sequence says of one question now.

    Attributes
    ----------
    estimate, low, high : float
        DIPW's estimate (beta-binomial: the mean of what arrived), and the limits, infinite where nothing is known.
    p_value : float
        Always valid: the smallest level at which the sequence has excluded `null`, at any time until now.
    excluded_at : moment or None
        When the sequence first excluded `null`.
    why : str or None
        Why the interval says nothing yet.
    """

    name: str
    estimate: float
    low: float
    high: float
    level: float
    p_value: float
    null: float
    excluded_at: Any
    kind: str
    why: str | None
    together: int = 1

    def _title(self) -> str:
        joint = f", one of {self.together:,}" if self.together > 1 else ""
        return f"{self.name}: {percent(self.level)} {self.kind.replace('_', '-')} confidence sequence{joint}"

    def _columns(self) -> list[Column]:
        return _columns([self])

    def _notes(self) -> list[str]:
        return _reasons([self.why])

    def to_dict(self) -> dict[str, Any]:
        """Return the answer's parts by name."""
        names = ("name", "estimate", "low", "high", "level", "p_value", "null", "excluded_at", "kind", "why")
        return {name: getattr(self, name) for name in names}

    def _data(self) -> dict[str, Any]:
        return {name: [value] for name, value in self.to_dict().items()}


@dataclass(frozen=True, repr=False)
class SequenceAnswers(Table):
    """What a sequence says of several contrasts now."""

    answers: tuple[SequenceAnswer, ...]
    kind: str
    level: float
    simultaneous: bool

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, i: int) -> SequenceAnswer:
        return self.answers[i]

    def _title(self) -> str:
        joint = "simultaneous " if self.simultaneous else ""
        return f"{percent(self.level)} {joint}{self.kind.replace('_', '-')} confidence sequences"

    def _columns(self) -> list[Column]:
        return [Column("contrast", [answer.name for answer in self.answers], "label"), *_columns(self.answers)]

    def _notes(self) -> list[str]:
        return _reasons([answer.why for answer in self.answers])


def _columns(answers: Sequence[SequenceAnswer]) -> list[Column]:
    errors = [(answer.high - answer.low) / 6 for answer in answers]
    columns = [
        Column(name, [getattr(answer, name) for answer in answers], "estimate", errors)
        for name in ("estimate", "low", "high")
    ]
    never = [answer.excluded_at for answer in answers]
    return [
        *columns,
        Column("p_value", [answer.p_value for answer in answers], "p_value"),
        Column("excluded_at", never, "number"),
    ]


@dataclass(frozen=True, repr=False)
class Track(Table):
    """How a sequence moved over the looks, with the interval of a single look beside it.

    Attributes
    ----------
    moments : tuple
    estimate, low, high : array
    fixed_low, fixed_high : array
        Of `estimate(log.at(moment), "dipw")`: they hold at one moment, not at all of them.
    excluded_at : moment or None
        When the sequence first excluded `null`.
    """

    name: str
    kind: str
    level: float
    moments: tuple[Any, ...]
    estimate: Array
    low: Array
    high: Array
    fixed_low: Array
    fixed_high: Array
    null: float
    excluded_at: Any

    def drawing(self) -> dict[str, Any]:
        """Return what is drawn, as plain data: for `display.sequence_plots.band`, or a report."""
        names = ("name", "kind", "level", "moments", "estimate", "low", "high", "fixed_low", "fixed_high", "null",
                 "excluded_at")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def __len__(self) -> int:
        return len(self.moments)

    def _title(self) -> str:
        return f"{self.name}: {percent(self.level)} {self.kind.replace('_', '-')} confidence sequence over time"

    def _columns(self) -> list[Column]:
        errors = ((self.high - self.low) / 6).tolist()
        names = ("estimate", "low", "high", "fixed_low", "fixed_high")
        columns = [Column(name, getattr(self, name).tolist(), "estimate", errors) for name in names]
        return [Column("as_of", list(self.moments), "label"), *columns]
