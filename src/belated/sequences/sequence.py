"""The confidence sequence of a log, which grows as outcomes arrive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.base.checks import whole
from belated.base.columns import Array, ByArm, Label
from belated.base.errors import OptionError
from belated.base.tables import Column, Table
from belated.base.text import one_line, percent
from belated.estimation.estimate import Estimate
from belated.estimation.target import default_pairs
from belated.kernels import fields
from belated.log.clock import Moment
from belated.log.data import Data, require_data
from belated.log.labels import arm_index
from belated.log.log import Log
from belated.sequences.answers import SequenceAnswer, SequenceAnswers, Track, answer_columns, reasons
from belated.sequences.design import (
    Design,
    KindOption,
    SequenceKind,
    bounds_with_cap,
    kind_text,
    plan_design,
    read_bounds,
    resolve_kind,
)
from belated.sequences.history import History, later_arrivals, read_arrivals
from belated.sequences.intervals import interval, intervals, score_null, silence
from belated.sequences.record import ArrivedRows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sequence(
    log: Data,
    kind: KindOption = "auto",
    *,
    level: float = 0.95,
    target: int | None = None,
    sigma: float | None = None,
    bounds: tuple[float, float] | None = None,
    looks: int | Sequence[Any] = 100,
    baseline: Label = None,
    null: float | ByArm[float] = 0.0,
    cap: float | None = None,
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
    cap : float, optional
        Outcomes above it count as it; by default as the log has it. With it ``"auto"`` is ``"bernstein"``, and the
        `bounds` are 0 and the cap unless others are given.

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
    arrivals, limits = ArrivedRows.of(memory), read_bounds(bounds)
    if memory.cap is not None and kind != "asymptotic":
        limits = bounds_with_cap(limits, memory.cap, arrivals)
        kind = "bernstein" if kind == "auto" else kind
    design = plan_design(
        resolve_kind(kind, arrivals, limits, sigma),
        memory.arms,
        level=level,
        target=max(len(memory), 1) if target is None else whole("target", target, least=1),
        sigma=sigma,
        bounds=limits,
        baseline=baseline,
        null=null,
    )
    history = History(replace(design, cap=memory.cap), memory.clock, data.outcome_name)
    history.follow(memory, arrivals, _read_looks(memory, looks, arrivals))
    return ConfidenceSequence(history)


def _read_looks(log: Log, looks: int | Sequence[Any], arrivals: ArrivedRows) -> Array:
    if not isinstance(looks, (Sequence, np.ndarray)) or isinstance(looks, str):
        return log.even_moments(whole("looks", looks, least=1), arrivals.last_moment)
    moments = [log.clock.read("looks", moment) for moment in looks]
    last = log.even_moments(1, arrivals.last_moment)[-1]
    if moments and max(moments) > last:
        raise OptionError("`looks` names a moment after the log's last; nothing is known about it.")
    return np.unique(np.array([*moments, last]))


class ConfidenceSequence(Table):
    """Intervals that hold at every look; `update` goes on as outcomes arrive.

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

    def __init__(self, history: History) -> None:
        self._history = history

    @property
    def design(self) -> Design:
        """What the sequence is, fixed before any outcome."""
        return self._history.design

    @property
    def arms(self) -> tuple[Label, ...]:
        """The arms' labels."""
        return self.design.arms

    @property
    def kind(self) -> SequenceKind:
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
    def cap(self) -> float | None:
        """What larger outcomes count as; None: as they are."""
        return self.design.cap

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The looks."""
        return tuple(map(self._history.clock.show, self._history.times))

    def update(self, arm: Any, outcome: Any = None, propensity: Any = None, *, at: Any = None) -> ConfidenceSequence:
        """Go on with outcomes that have arrived since, and return the sequence itself.

        Parameters
        ----------
        arm : label or sequence of labels, or a Log
            Whose outcomes arrived, in the order of arrival; or a later state of the same log, whose arrivals after the
            last look are new.
        outcome, propensity : float or sequence of float
            The outcomes, and the probability that each arm had when it was chosen.
        at : moment or sequence of moments, optional
            When they arrived, no earlier than the last look; by default the next steps. Outcomes that share a moment
            are judged together.

        Returns
        -------
        ConfidenceSequence
            Equal to one built from everything at once. Each call is one more look.
        """
        if isinstance(arm, Data):
            if outcome is not None or propensity is not None or at is not None:
                raise OptionError("`update` takes a log, or the arms, outcomes and propensities; not both.")
            memory = arm.log()
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
        """Return what is known now of one arm's mean; with `simultaneous`, as one of all arms."""
        return self._answer(arm_index(self.arms, arm), None, len(self.arms) if simultaneous else 1)

    def contrast(self, arm: Label, baseline: Label, *, together: int = 1) -> SequenceAnswer:
        """Return what is known now of one arm's mean minus another's; as one of so many that hold `together`."""
        return self._answer(*self._pair(arm, baseline), whole("together", together, least=1))

    def _pair(self, arm: Label, baseline: Label) -> tuple[int, int]:
        a, b = arm_index(self.arms, arm), arm_index(self.arms, baseline)
        if a == b:
            raise OptionError(f"A contrast needs two different arms, and both are {arm!r}.")
        return a, b

    def contrasts(self, baseline: Label = None, *, simultaneous: bool = False) -> SequenceAnswers:
        """Return every arm's contrast against a baseline, or all pairs if there is none.

        With `simultaneous` they hold together, each at alpha over their number, and p-values are multiplied by it.
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
        name = one_line(self.arms[a])
        return name if b is None else f"{name} - {one_line(self.arms[b])}"

    def _answer(self, a: int, b: int | None, together: int) -> SequenceAnswer:
        history, design = self._history, self.design
        estimate, low, high = interval(history, -1, a, b, design.threshold(together))
        p_value, first = self._test(a, b, together)
        silences = (silence(history, arm) for arm in ((a,) if b is None else (a, b)))
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
            why=" ".join(dict.fromkeys(filter(None, silences))) or None,
            together=together,
            cap=self.cap,
        )

    def _test(self, a: int, b: int | None, together: int) -> tuple[float, Moment | None]:
        """Return the always-valid p-value, and when it first came down to 1 - level: neither without the other."""
        score, first = score_null(self._history, a, b, together)
        p_value, alpha = min(1.0, together * math.exp(-score)), 1 - self.level
        if first is None:
            return max(p_value, math.nextafter(alpha, 1.0)), None
        return min(p_value, alpha), self._history.clock.show(first)

    # ---------------------------------------------------------------- over time

    def fixed(self, look: int = -1) -> Estimate:
        """Return the estimate with intervals for a single look, as `estimate(log.at(moment), "dipw")` gives them."""
        return self._history.fixed(look)

    def track(self, arm: Label, baseline: Label = None, *, together: int = 1) -> Track:
        """Return how the sequence of an arm, or of its contrast with a baseline, moved over the looks.

        With `together`, it is one of so many that hold together.
        Beside it stands the interval of a single look, which holds at one moment chosen in advance, not at all.
        """
        a, b = (arm_index(self.arms, arm), None) if baseline is None else self._pair(arm, baseline)
        estimate, low, high = np.array(
            intervals(self._history, a, b, self.design.threshold(whole("together", together, least=1)))
        ).T
        estimates = [self.fixed(look) for look in range(len(self._history.times))]
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
        )

    def plot(self, arm: Label, baseline: Label = None) -> Figure:
        """Draw `track`: the sequence, and the interval of a single look beside it; a matplotlib figure."""
        from belated.sequences.figure import band

        return band(self.track(arm, baseline))

    # ---------------------------------------------------------------- display

    def _title(self) -> str:
        last_look = self._history.clock.text(self._history.times[-1])
        n = int(self._history.record.state[:, fields.ARRIVED].sum())
        what = "" if self.cap is None else f" of {self.fixed().estimand},"
        kind = f"{percent(self.level)} {kind_text(self.kind)} confidence sequence"
        return f"{kind}{what} as of {last_look}, {n:,} arrivals; narrowest at {self.target:,} assignments"

    def _columns(self) -> list[Column]:
        answers = [self.arm(arm) for arm in self.arms]
        columns = [Column("arm", list(self.arms), "label"), *answer_columns(answers)[:3]]
        arrived = self._history.record.state[:, fields.ARRIVED].astype(int).tolist()
        return [*columns, Column("arrived", arrived, "count")]

    def _notes(self) -> list[str]:
        fixed, said = self.fixed().sums, reasons(silence(self._history, arm) for arm in range(len(self.arms)))
        return said if fixed.cap is None else [*said, fixed.cap.note(fixed["arrived"].sum())]
