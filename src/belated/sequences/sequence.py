"""`sequence`: the confidence sequence of a log, which can be updated as outcomes arrive."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from belated.base.checks import whole
from belated.base.columns import Array, ByArm, ColumnLike, Label
from belated.base.errors import BelatedWarning, OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import Unit, count, one_line, percent
from belated.estimation.estimate import Estimate
from belated.estimation.target import contrast_name, default_pairs, pair_index
from belated.log.clock import Moment, MomentLike
from belated.log.data import Data, require_data
from belated.log.labels import arm_index
from belated.log.log import Log
from belated.sequences.answers import SequenceAnswer, SequenceAnswers, Track, answer_columns, reasons
from belated.sequences.design import (
    Design,
    KindOption,
    SequenceKind,
    kind_text,
    plan_design,
    read_bounds,
    resolve_kind,
)
from belated.sequences.history import ArrivedRows, History, later_arrivals, read_arrivals
from belated.sequences.intervals import BandPoint, interval, score_null, silence
from belated.sequences.looks import Followed, Looks
from belated.sequences.maturing import MaturingLooks
from belated.sequences.standardised import StandardisedLooks
from belated.summaries.segments import NO_SEGMENTS, segment_index

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sequence(  # noqa: PLR0913
    log: Data,
    kind: KindOption = "auto",
    *,
    level: float = 0.95,
    target: int | None = None,
    sigma: float | None = None,
    bounds: tuple[float, float] | None = None,
    looks: int | Sequence[MomentLike] = 100,
    baseline: Label = None,
    null: float | ByArm[float] = 0.0,
    cap: float | None = None,
    segment: Label = None,
) -> ConfidenceSequence:
    """Return a confidence sequence: intervals that hold at every look and any stopping time, for arms and contrasts.

    Parameters
    ----------
    log : Log or Source
        A log in memory, or a table from `read`; the chosen arm's propensity is enough. For events, assignments whose
        window is open count for the ages they have reached, unless the log is `closed`.
    kind : {"auto", "asymptotic", "sub_gaussian", "bernstein", "beta_binomial"}
        ``"beta_binomial"`` is for 0/1 outcomes, ``"bernstein"`` for outcomes within `bounds`, ``"sub_gaussian"`` for
        outcomes with tails no heavier than a normal distribution with standard deviation `sigma`. ``"asymptotic"``
        needs no bound, and its intervals are infinite until there are enough outcomes. ``"auto"`` is the first of these
        that the other options and the outcomes allow.
    level : float, default 0.95
        The level of the intervals.
    target : int, optional
        The number of assignments at which the intervals are narrowest; by default that of the log. Choose it before
        outcomes are seen.
    sigma : float, optional
        The standard deviation for ``"sub_gaussian"``; by default half the range of the `bounds`.
    bounds : (float, float), optional
        The smallest and largest possible outcome.
    looks : int or sequence of times
        The looks that `track` and `plot` show: a number of looks, evenly spaced over the rows, or the times. The
        sequence itself is tested at every arrival. If rows with open windows of events count, it is tested only at the
        looks, which are then evenly spaced from the first closing of a window on.
    baseline : optional
        The arm to compare the others with. Without it, all pairs are tested at every arrival, for up to 32 arms.
    null : float or mapping, default 0
        The null value, for every arm or by arm; the null value of a contrast is the difference.
    cap : float, optional
        Outcomes above the cap count as the cap. By default, the cap of the log, if it has one. With a cap, ``"auto"``
        is ``"bernstein"``, and `bounds` are 0 and the cap unless given.
    segment : optional
        The segment whose rows to follow, in a log with segments. By default the sequence of such a log is standardised
        to its mix of segments: it is tested at the looks, its kind is ``"asymptotic"`` or ``"beta_binomial"``, and
        `update` takes later versions of the log. For events, only rows whose window has closed then count.

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
    data = require_data(log, cap)
    memory = data.log()
    if memory.segments or segment is not None:
        _require_by_segment(memory)
    else:
        for words in memory.contexts():
            warnings.warn(words, BelatedWarning, stacklevel=2)
    if segment is not None or not memory.segments:
        _require_equal_chances(memory)
    if segment is not None:
        memory = _rows_of_segment(memory, segment)
    if memory.segments:
        memory = memory.known_at_closing()
    arrivals, events = ArrivedRows.of(memory), memory.events
    chosen, limits = resolve_kind(kind, memory, arrivals, read_bounds(bounds), sigma)
    design = plan_design(
        chosen,
        memory.arms,
        level=level,
        target=max(len(memory), 1) if target is None else whole("target", target, least=1),
        sigma=sigma,
        bounds=limits,
        baseline=baseline,
        null=null,
    )
    design, moments = replace(design, cap=memory.cap), _read_looks(memory, looks, arrivals)
    if events is not None:
        matured = MaturingLooks(design, memory.clock, data.outcome_name, events)
        matured.follow(memory, moments)
        return MaturingSequence(matured)
    if memory.segments:
        looked = StandardisedLooks(design, memory, data.outcome_name)
        looked.follow(memory, moments)
        return StandardisedSequence(looked, memory.within)
    history = History(design, memory.clock, data.outcome_name, memory.measure)
    history.follow(memory, arrivals, moments)
    return ConfidenceSequence(history, memory.within)


def _require_by_segment(log: Log) -> None:
    """Raise if the log has no segments, or if its policy is finer than they are."""
    if not log.segments:
        raise OptionError(NO_SEGMENTS)
    doubts = log.contexts()
    if doubts:
        raise OptionError(f"A sequence needs a policy that looks at nothing but the segment. {doubts[0]}")


def _require_equal_chances(log: Log) -> None:
    """Raise if rows differ in their chance of arrival, of which a sequence of arrivals knows nothing."""
    if log.arrival_probability is not None:
        raise OptionError(
            f"The log has {argument('arrival_probability')}, which a sequence takes into account only over all "
            "segments of a log, of which one for all rows is enough."
        )


def _rows_of_segment(log: Log, segment: Label) -> Log:
    """Return the rows of a segment as a log without segments."""
    index = segment_index(log.segments, segment)
    if log.layout.merged and index == len(log.segments) - 1:
        raise OptionError(
            f"Segment {one_line(repr(log.segments[index]))} holds several segments that were merged, to which the "
            "policy gave different probabilities, so it has no sequence of its own."
        )
    return log.in_segment(log.segments[index])


def _read_looks(log: Log, looks: int | Sequence[MomentLike], arrivals: ArrivedRows) -> Array:
    if not isinstance(looks, (Sequence, np.ndarray)) or isinstance(looks, str):
        return log.even_moments(whole("looks", looks, least=1), arrivals.last_moment)
    moments = [log.clock.read("looks", moment) for moment in looks]
    last = log.even_moments(1, arrivals.last_moment)[-1]
    if moments and max(moments) > last:
        raise OptionError("`looks` contains a time after the last time of the log; give earlier times.")
    return np.unique(np.array([*moments, last]))


class ConfidenceSequence(Table):
    """Intervals that hold at every look; prints as a table. `update` adds outcomes as they arrive.

    Attributes
    ----------
    arms : tuple
    kind : str
    level : float
    target : int
        The number of assignments at which the intervals are narrowest.
    moments : tuple
        The times of the looks; the sequence itself is tested at every arrival.
    """

    def __init__(self, history: History, within: str | None = None) -> None:
        self._history, self._within = history, within

    @property
    def _followed(self) -> Followed:
        """The results at the looks."""
        return self._history

    @property
    def design(self) -> Design:
        """The kind and the parameters of the sequence."""
        return self._followed.design

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self.design.arms

    @property
    def kind(self) -> SequenceKind:
        """The kind: "asymptotic", "sub_gaussian", "bernstein" or "beta_binomial"."""
        return self.design.kind

    @property
    def level(self) -> float:
        """The level of the intervals."""
        return self.design.level

    @property
    def target(self) -> int:
        """The number of assignments at which the intervals are narrowest."""
        return self.design.target

    @property
    def cap(self) -> float | None:
        """The cap on outcomes, or None."""
        return self.design.cap

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The times of the looks."""
        return tuple(map(self._followed.clock.show, self._followed.times))

    def update(
        self,
        arm: Label | Sequence[Label] | Array | Data,
        outcome: float | ColumnLike | None = None,
        propensity: float | ColumnLike | None = None,
        *,
        at: MomentLike | Sequence[MomentLike] | Array | None = None,
    ) -> ConfidenceSequence:
        """Add outcomes that have arrived since the last look, and return the sequence itself.

        Parameters
        ----------
        arm : label or sequence of labels, or a Log
            The arms of the new outcomes, in the order of arrival; or a later version of the same log, whose arrivals
            after the last look are added.
        outcome, propensity : float or sequence of float
            The outcomes, and the probability of each arm when it was chosen.
        at : time or sequence of times, optional
            The arrival times, no earlier than the last look; by default the next steps. Outcomes with the same time are
            tested together.

        Returns
        -------
        ConfidenceSequence
            The same sequence as one built from all outcomes at once. Each call adds one look.
        """
        if isinstance(arm, Data):
            if outcome is not None or propensity is not None or at is not None:
                raise OptionError("`update` takes either a log, or arms, outcomes and propensities.")
            memory = arm.log().closed()
            _require_equal_chances(memory)
            if memory.cap is None and self.cap is not None:
                memory = memory.capped(self.cap)
            if memory.cap != self.cap:
                raise OptionError(f"`update` needs the same cap; the log's is {memory.cap}, the sequence's {self.cap}.")
            self._history.follow(memory, *later_arrivals(self._history, memory))
            return self
        arrivals = read_arrivals(self._history, arm, outcome, propensity, at)
        if len(arrivals):
            self._history.append(arrivals)
        return self

    # ---------------------------------------------------------------- questions

    def arm(self, arm: Label, *, simultaneous: bool = False) -> SequenceAnswer:
        """Return the current interval and test of one arm's mean; with `simultaneous`, valid for all arms together."""
        return self._answer(arm_index(self.arms, arm), None, len(self.arms) if simultaneous else 1)

    def contrast(self, arm: Label, baseline: Label, *, together: int = 1) -> SequenceAnswer:
        """Return the current interval and test of a contrast; `together` is the number of simultaneous contrasts."""
        return self._answer(*pair_index(self.arms, arm, baseline), whole("together", together, least=1))

    def contrasts(self, baseline: Label = None, *, simultaneous: bool = False) -> SequenceAnswers:
        """Return the contrasts of every arm with a baseline, or of all pairs if there is none.

        With `simultaneous`, they are jointly valid by Bonferroni: each at alpha over their number, with p-values
        multiplied by it.
        """
        base = self.design.baseline if baseline is None else arm_index(self.arms, baseline)
        pairs = default_pairs(range(len(self.arms)), base)
        if not pairs:
            raise OptionError("Contrasts need at least two arms.")
        together = len(pairs) if simultaneous else 1
        answers = tuple(self._answer(a, b, together) for a, b in pairs)
        return SequenceAnswers(
            answers=answers, kind=self.kind, level=self.level, simultaneous=simultaneous, cap=self.cap
        )

    def _name(self, a: int, b: int | None) -> str:
        return one_line(self.arms[a]) if b is None else contrast_name(self.arms[a], self.arms[b])

    def _unit(self, b: int | None) -> Unit:
        unit = self._followed.unit
        return unit if b is None or unit == "number" else "points"

    def _answer(self, a: int, b: int | None, together: int) -> SequenceAnswer:
        design = self.design
        estimate, low, high = self._interval(-1, a, b, design.threshold(together))
        p_value, first = self._test(a, b, together)
        is_known = design.bounds is None and math.isfinite(low) and math.isfinite(high)
        silences = () if is_known else (self._silence(arm) for arm in ((a,) if b is None else (a, b)))
        whys = tuple(dict.fromkeys(filter(None, silences)))
        return SequenceAnswer(
            name=self._name(a, b),
            estimate=estimate,
            low=low,
            high=high,
            level=self.level,
            p_value=p_value,
            null=design.null_of(a, b),
            excluded_at=first,
            kind=self.kind,
            why=" ".join(whys) or None,
            whys=whys,
            together=together,
            cap=self.cap,
            unit=self._unit(b),
            parts=(self.arms[a],) if b is None else (self.arms[a], self.arms[b]),
        )

    def _test(self, a: int, b: int | None, together: int) -> tuple[float, Moment | None]:
        """Return the always-valid p-value, and the first time at which it was at most 1 - level."""
        if not self.design.allows(a, b):  # no outcome is needed to exclude it
            return 0.0, self._followed.clock.show(self._followed.began)
        score, first = self._score(a, b, together)
        p_value, alpha = min(1.0, together * math.exp(-score)), (1 - self.level, round(1 - self.level, 12))
        if first is None:  # above 0.05, whether that is written or computed as 1 - 0.95
            return max(p_value, math.nextafter(max(alpha), 1.0)), None
        return min(p_value, *alpha), self._followed.clock.show(first)

    def _interval(self, look: int, a: int, b: int | None, threshold: float) -> BandPoint:
        return interval(self._history, look, a, b, threshold)

    def _score(self, a: int, b: int | None, together: int) -> tuple[float, int | float | None]:
        """Return the largest score so far against the null, and when it first exceeded the threshold."""
        return score_null(self._history, a, b, together)

    def _silence(self, arm: int) -> str | None:
        return silence(self._history, arm)

    # ---------------------------------------------------------------- over time

    def fixed(self, look: int = -1) -> Estimate:
        """Return the estimate with single-look intervals: `estimate(log.at(moment), "dipw")` without covariates."""
        return self._followed.fixed(look)

    def track(self, arm: Label, baseline: Label = None, *, together: int = 1) -> Track:
        """Return the sequence of an arm, or of its contrast with a baseline, over the looks.

        `together` is the number of simultaneous sequences. For comparison, the result also has single-look intervals,
        which are valid at one time chosen in advance, not at all times.
        """
        a, b = (arm_index(self.arms, arm), None) if baseline is None else pair_index(self.arms, arm, baseline)
        threshold, looks = self.design.threshold(whole("together", together, least=1)), range(len(self._followed.times))
        estimate, low, high = np.array([self._interval(look, a, b, threshold) for look in looks]).T
        estimates = [self.fixed(look) for look in looks]
        fixed = [e.arm(arm) if baseline is None else e.contrast(arm, baseline) for e in estimates]
        return Track(
            name=self._name(a, b),
            kind=self.kind,
            level=self.level,
            moments=self.moments,
            estimate=estimate,
            low=low,
            high=high,
            fixed_estimate=np.array([answer.estimate for answer in fixed]),
            fixed_low=np.array([answer.low for answer in fixed]),
            fixed_high=np.array([answer.high for answer in fixed]),
            null=self.design.null_of(a, b),
            excluded_at=self._test(a, b, together)[1],
            cap=self.cap,
            unit=self._unit(b),
        )

    def plot(self, arm: Label, baseline: Label = None) -> Figure:
        """Return a matplotlib figure of `track`: the sequence, and single-look intervals for comparison."""
        from belated.sequences.figure import band

        return band(self.track(arm, baseline))

    # ---------------------------------------------------------------- display

    def _title(self) -> str:
        last_look = self._followed.clock.text(self._followed.times[-1])
        arrivals = count(int(self._followed.arrived.sum()), "arrival")
        what = "" if self.cap is None else f" of {self.fixed().estimand},"
        kind = f"{percent(self.level)} {kind_text(self.kind)} confidence sequence"
        return f"{kind}{what} as of {last_look}, {arrivals}; narrowest at {count(self.target, 'assignment')}"

    def _columns(self) -> list[Column]:
        answers = [self.arm(arm) for arm in self.arms]
        columns = [Column("arm", list(self.arms), "label"), *answer_columns(answers)[:3]]
        arrived = self._followed.arrived.astype(int).tolist()
        return [*columns, Column("arrived", arrived, "count")]

    @property
    def basis(self) -> str | None:
        """Which rows of a log of events count, and in what sense the sequence holds; None for other logs."""
        return None if self._within is None else f"Only rows whose window of {self._within} has closed count."

    def _notes(self) -> list[str]:
        fixed, said = self.fixed().sums, reasons(self._silence(arm) for arm in range(len(self.arms)))
        said = said if self.basis is None else [self.basis, *said]
        return said if fixed.cap is None else [*said, fixed.cap.note(fixed["arrived"].sum())]


class LookedSequence(ConfidenceSequence):
    """A sequence that is tested at its looks."""

    #: Which sequence takes outcomes one by one, in words.
    _singly: str

    def __init__(self, looked: Looks, within: str | None = None) -> None:
        self._looked, self._within = looked, within

    @property
    def _followed(self) -> Followed:
        return self._looked

    def update(
        self,
        arm: Label | Sequence[Label] | Array | Data,
        outcome: float | ColumnLike | None = None,
        propensity: float | ColumnLike | None = None,
        *,
        at: MomentLike | Sequence[MomentLike] | Array | None = None,
    ) -> ConfidenceSequence:
        """Look at a later version of the same log, and return the sequence itself; earlier looks stay as they were."""
        if not isinstance(arm, Data) or outcome is not None or propensity is not None or at is not None:
            raise OptionError(f"`update` of this sequence takes a later version of the log; {self._singly}")
        memory = arm.log() if arm.cap == self.cap else arm.log().capped(self.cap)
        self._looked.follow_later(self._ready(memory))
        return self

    def _ready(self, log: Log) -> Log:
        """Return a later version of the log in the form that is looked at."""
        return log

    def _interval(self, look: int, a: int, b: int | None, threshold: float) -> BandPoint:
        return self._looked.interval(look, a, b, threshold)

    def _score(self, a: int, b: int | None, together: int) -> tuple[float, int | float | None]:
        return self._looked.score_null(a, b, together)

    def _silence(self, arm: int) -> str | None:
        return self._looked.silence(arm)


class StandardisedSequence(LookedSequence):
    """A sequence of means over all segments of a log, which is tested at its looks.

    Attributes
    ----------
    segments : tuple
        The segments, after small ones were merged.
    """

    _looked: StandardisedLooks
    _singly = "a sequence of one segment, sequence(log, segment=...), takes outcomes one by one."

    @property
    def segments(self) -> tuple[Label, ...]:
        """The segments, after small ones were merged."""
        return self._looked.labels

    def _ready(self, log: Log) -> Log:
        if log.segments:
            _require_by_segment(log)
        return log.known_at_closing()

    def _title(self) -> str:
        mix, looks = count(len(self.segments), "segment"), count(len(self.moments), "look")
        return f"{super()._title()}, standardised to the log's mix of {mix}, tested at {looks}"


class MaturingSequence(LookedSequence):
    """A sequence of events whose windows may still be open, which is tested at its looks."""

    _looked: MaturingLooks
    _singly = "a sequence of rows whose window has closed, sequence(log.closed()), takes outcomes one by one."

    @property
    def basis(self) -> str | None:
        """Which rows count, and in what sense the sequence holds."""
        return (
            "Rows whose window is open count for the ages they have reached. The sequence is asymptotic: that it holds "
            "was checked by simulation, not proved."
        )

    def _title(self) -> str:
        kind = f"{percent(self.level)} {kind_text(self.kind)} confidence sequence"
        what = "" if self.cap is None else f" of {self.fixed().estimand},"
        last, now = self._followed.clock.text(self._followed.times[-1]), self._looked.states[-1]
        windows = f"{count(int(now.rows.sum()), 'closed window')} and {int(now.open.sum()):,} open"
        looks = count(len(self.moments), "look")
        return (
            f"{kind}{what} as of {last}, {windows}; tested at {looks}; narrowest at {count(self.target, 'assignment')}"
        )

    def _columns(self) -> list[Column]:
        answers, now = [self.arm(arm) for arm in self.arms], self._looked.states[-1]
        counts = [Column(name, getattr(now, at).tolist(), "count") for name, at in
                  (("closed", "rows"), ("open", "open"), ("events", "events"))]  # fmt: skip
        return [Column("arm", list(self.arms), "label"), *answer_columns(answers)[:3], *counts]
