"""`ArmMeans`: every arm's estimated mean, as a table with its warnings and notes."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from belated.base.checks import one_of
from belated.base.columns import Array, Label, locked
from belated.base.errors import BelatedWarning, OptionError, argument
from belated.base.tables import Column, Table
from belated.base.text import Unit, count, few_labels, one_line, percent, shown
from belated.estimation.answers import Answer, answer_columns, make_answer
from belated.estimation.estimators import ArmStatistics, Estimator, evaluate, observed_share
from belated.estimation.intervals import ALTERNATIVES, KINDS, Alternative, Combination, IntervalKind, combine
from belated.estimation.standardised import Population, cell_statistics, segment_notes
from belated.estimation.target import Target
from belated.log.durations import WindowLike
from belated.summaries.caps import capped_at, quantity
from belated.summaries.maturing import WELL_COVERED, Age, Maturity
from belated.summaries.segments import NO_SEGMENTS
from belated.summaries.signs import single_value, single_value_remark
from belated.summaries.sums import Sums


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ArmMeans(Table):
    """The arms' estimated means, before any question about several of them; `Estimate` has the questions."""

    sums: Sums
    estimator: Estimator
    level: float
    interval: IntervalKind
    as_of: str | None = None
    outcome: str = "outcome"
    unit: Unit = "number"
    population: Population | None = None

    def __post_init__(self) -> None:
        if self.population is None and self.sums.segments is not None:
            object.__setattr__(self, "population", Population.of_log(self.sums.segments))

    @property
    def cap(self) -> float | None:
        """The cap on outcomes, or None."""
        return None if self.sums.cap is None else self.sums.cap.value

    @property
    def estimand(self) -> str:
        """What is estimated, in words, such as "mean revenue, capped at 500"."""
        return f"{quantity(self.outcome, self.unit)}{capped_at(self.sums.cap)}"

    # ---------------------------------------------------------------- by arm

    @property
    def arms(self) -> tuple[Label, ...]:
        """The labels of the arms."""
        return self.sums.arms

    @cached_property
    def statistics(self) -> ArmStatistics:
        """The statistics of each arm, or of each segment and arm; without variances if only events seem recorded."""
        segments, population = self.sums.segments, self.population
        if segments is None or population is None:
            statistics = evaluate(self.sums, self.estimator)
        else:
            statistics = cell_statistics(segments, self.estimator, population)
        if single_value(self.sums, self.sums.shift) is None:
            return statistics
        unknown = np.full(len(statistics.value), math.nan)
        robust = None if statistics.robust is None else unknown
        return replace(statistics, variance=unknown, robust=robust, arrived=np.minimum(statistics.arrived, 1))

    def combination(self, coefficients: Array) -> Combination:
        """Return a combination of arms, given by coefficients of shape (arms,) or, by segment, (segments, arms)."""
        if self.population is not None:
            coefficients = self.population.spread(coefficients)
        return combine(self.statistics, coefficients, self.interval)

    def combinations(self, arms: Array, coefficients: Array) -> Combination:
        """Return many combinations at once: of the arms at positions (..., m), with m coefficients."""
        if self.population is not None:
            arms, coefficients = self.population.cells_of(arms, len(self.arms), coefficients)
        return Combination(kind=self.interval, coefficients=coefficients, arms=self.statistics.subset(arms))

    @cached_property
    def values(self) -> Array:
        """The estimates, by arm."""
        return locked(self.alone.estimate)

    @cached_property
    def variances(self) -> Array:
        """The paper's variances V(a), by arm."""
        if self.population is None:
            return locked(self.statistics.variance)
        return locked(replace(self.alone, kind="normal").std_error ** 2)

    @cached_property
    def std_errors(self) -> Array:
        """The standard errors that the intervals use, by arm."""
        return locked(self.alone.std_error)

    @cached_property
    def alone(self) -> Combination:
        """Each arm's mean as a combination of its own, for all arms at once."""
        return self.combinations(np.arange(len(self.arms))[:, np.newaxis], np.ones(1))

    @property
    def observed_share(self) -> Array:
        """The estimated share of outcomes that ever arrive, by arm.

        It is the ratio of two weighted sums, over arrived rows and over all rows, and chance can bring it above 1.
        Tables and reports then show 100 %; this attribute and data formats keep the number.
        """
        if self.sums.segments is None or self.population is None:
            return observed_share(self.sums)
        by_segment = observed_share(self.sums.segments.cells).reshape(-1, len(self.arms))
        used = self.population.shares > 0
        return np.asarray(self.population.shares[used] @ by_segment[used])

    @property
    def effective_size(self) -> Array:
        """Kish's effective sample size of the arrived outcomes, by arm.

        With segments, it is that of one segment in which a mean would be as precise, if outcomes varied as much.
        """
        alone = self.alone
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(1 / np.sum(alone.coefficients**2 / alone.arms.effective_size, axis=-1))

    @property
    def assigned(self) -> Array:
        """The number of rows, by arm, of the segments that the estimate is about."""
        return self._counts("assigned")

    @property
    def arrived(self) -> Array:
        """The number of arrived outcomes, of events that of closed windows, by arm.

        They are of the segments that the estimate is about.
        """
        return self._counts("arrived") if self.maturity is None else self._of_segments(self.maturity.closed)

    def _counts(self, name: str) -> Array:
        if self.sums.segments is None or self.population is None:
            return locked(self.sums[name])
        return self._of_segments(self.sums.segments.cells[name].reshape(-1, len(self.arms)))

    def _of_segments(self, table: Array) -> Array:
        """Return counts by segment and arm added up over the segments that the estimate is about."""
        used = slice(None) if self.population is None else self.population.shares > 0
        return locked(table[used].sum(axis=0))

    def arm(self, arm: Label, *, alternative: Alternative = "two-sided") -> Answer:
        """Return the estimate, interval and test of one arm's mean."""
        return self._answer(Target.arm(self.arms, arm), alternative)

    @cached_property
    def arm_answers(self) -> list[Answer]:
        """The answer for each arm, in order."""
        return [self.arm(arm) for arm in self.arms]

    def _answer(self, target: Target, alternative: Alternative) -> Answer:
        with np.errstate(all="ignore"):  # huge coefficients give infinite limits, or none
            answer = make_answer(
                target.name,
                self.combination(target.coefficients),
                level=self.level,
                null=0.0,
                alternative=one_of("alternative", alternative, ALTERNATIVES),
                cap=self.cap,
            )
        return replace(answer, unit=target.unit(self.unit), parts=target.parts)

    # ---------------------------------------------------------------- segments and windows

    @property
    def segments(self) -> tuple[Label, ...]:
        """The segments of the log, after small ones were merged; empty if it has none."""
        return () if self.population is None or self.population.is_all else self.population.labels

    @property
    def shares(self) -> dict[Label, float]:
        """The share of each segment in the population that the estimate is about."""
        return dict(zip(self.segments, self._population.shares.tolist(), strict=True)) if self.segments else {}

    @property
    def _population(self) -> Population:
        if self.population is None or not self.segments:
            raise OptionError(NO_SEGMENTS)
        return self.population

    @property
    def maturity(self) -> Maturity | None:
        """The state of events whose windows may still be open; None for other outcomes."""
        return self.sums.maturing

    @property
    def _maturing(self) -> Maturity:
        if self.sums.maturing is None:
            raise OptionError(
                "Only a log of events has windows and a build-up: read it with events and window, or make it with "
                "`Log.of_events`."
            )
        return self.sums.maturing

    def window(self, window: WindowLike | Age) -> Self:
        """Return the estimate of what happens within a shorter window, such as ``"3d"``."""
        maturity = self._maturing
        length = window.length if isinstance(window, Age) else maturity.length(window)
        if not 0 < length <= maturity.window:
            raise OptionError(
                f"{argument('window')} is {shown(window)}; it must be positive and at most "
                f"{maturity.text(maturity.window)}, for which there are events and ages."
            )
        return self if length == maturity.window else replace(self, sums=maturity.within(length))

    # ---------------------------------------------------------------- warnings and notes

    def warn(self) -> None:
        """Warn about arms without an estimate, an interval or a variance of their own."""
        arrived, constant = self.sums["arrived"], self.alone.arms.constant.all(axis=-1)
        remark = single_value_remark(self.sums, self.sums.shift)
        beyond = self._beyond_numbers() & (arrived > 1)
        empty = np.isnan(self.values) & (arrived > 0) & bool(self.segments)
        if remark is not None:
            warnings.warn(remark.text, BelatedWarning, stacklevel=3)
            return
        one, all_, come = "outcome", "arrived outcomes", "arrived"
        if self.maturity is not None:  # outcomes of rows whose window is open count, too
            one, all_, come = "row", "outcomes so far", "lived so long"
        no_estimate, no_interval = f"has {come}; there is no estimate.", f"has {come}; there is no interval."
        huge = "are beyond the range of numbers; there is no interval."
        for chosen, before, which, after in (
            (arrived == 0, f"No {one} of", "any", no_estimate),
            ((self.sums["w"] == 0) & (arrived > 0), "Every weight of", "each", "is 0; there is no estimate."),
            (arrived == 1, f"Only one {one} of", "each", no_interval),
            (beyond, "Powers of the outcomes or weights of", "each", huge),
            (constant & (arrived > 1) & ~beyond, f"All {all_} of", "each", self._constant_words()),
            (empty, f"In a segment no {one} of", "any", no_estimate),
        ):
            if chosen.any():
                arms = "arm" if chosen.sum() == 1 else f"{which} of the arms"
                warnings.warn(f"{before} {arms} {self._listed(chosen)} {after}", BelatedWarning, stacklevel=3)

    def _beyond_numbers(self) -> Array:
        """Whether the powers that an arm's interval needs overflow or vanish, although its outcomes differ."""
        cells = self.alone.arms
        known = (cells.arrived >= 2).all(axis=-1) & np.isfinite(self.values)
        vanish = cells.constant.all(axis=-1) & (self.sums["y2"] == 0) & (self.sums["y"] != 0)
        return np.asarray(known & (vanish | ~(self.alone.has_interval | cells.constant.any(axis=-1))))

    def _constant_words(self) -> str:
        """Return the end of the warning on arms whose outcomes are all equal."""
        rule, arms = KINDS[self.interval], self.statistics
        if not (arms.constant & rule.knows_spread(arms)).any():
            return "are equal; their variance is unknown, so there is no interval."
        return f"are equal; the interval {rule.of_equal}."

    def _listed(self, chosen: Array) -> str:
        """Return the names of some arms, at most five."""
        return few_labels(arm for arm, is_chosen in zip(self.arms, chosen, strict=True) if is_chosen)

    def _notes(self) -> list[str]:
        moved = np.abs(self.statistics.augmentation)
        robust = self.statistics.robust if self.estimator.start == "zero" and not self.segments else None
        far = np.zeros(len(self.arms), dtype=bool) if robust is None else 2 * moved**2 > robust
        capped = self.cap_notes()
        capped += [] if self.sums.segments is None else segment_notes(self.sums.segments, self.estimator)
        capped += self.maturity_notes()
        few = np.asarray(self.arrived) < 2
        if self.segments and self._population.is_one and self.maturity is None and few.any():
            capped.append(f"No interval for {self._listed(few)}: it needs at least 2 arrived outcomes in the segment.")
        if not far.any():
            return capped
        return [
            *capped,
            "Note: the outcome model is 0 until the first outcome arrives, far from the outcomes of "
            f"{self._listed(far)}. This causes most of the uncertainty; use 'daipw' or 'dipw'.",
        ]

    def cap_notes(self) -> list[str]:
        """Return a sentence on how many outcomes are above the cap; none without a cap."""
        noun = "arrived outcome" if self.maturity is None else "outcome"
        return [] if self.sums.cap is None else [self.sums.cap.note(self.sums["arrived"].sum(), noun)]

    def maturity_notes(self) -> list[str]:
        """Return sentences on windows that are still open; none for other outcomes."""
        maturity = self.maturity
        if maturity is None:
            return []
        text, notes, open_rows = maturity.text, list[str](), int(self._of_segments(maturity.open).sum())
        if maturity.window < maturity.asked:
            notes.append(
                f"No row of some arm has lived {text(maturity.asked)} yet: this is what happens within "
                f"{text(maturity.window)}, the longest age that every arm has reached."
            )
        elif open_rows:
            notes.append(
                f"The outcome is what happens within {text(maturity.window)} of assignment; {count(open_rows, 'row')} "
                f"whose window is still open {'counts' if open_rows == 1 else 'count'} for the ages reached so far."
            )
        if maturity.covered is not None and maturity.covered > 0:
            shorter = self.window(Age(maturity.covered))
            answers = "; ".join(
                f"{one_line(arm)} {answer.in_words}" for arm, answer in zip(self.arms, shorter.arm_answers, strict=True)
            )
            notes.append(
                f"Few rows have lived so long (an effective number below {WELL_COVERED:g} in some arm). Within "
                f"{text(maturity.covered)}, which enough rows have lived: {answers}."
            )
        return notes

    # ---------------------------------------------------------------- display

    def _title(self) -> str:
        rows = int(self.assigned.sum())
        as_of = f", as of {self.as_of}" if self.as_of else ""
        what = "" if self.cap is None else f", {self.estimand}"
        where = f", {self.population.name}" if self.population is not None and self.segments else ""
        intervals = f"{percent(self.level)} {self.interval} intervals"
        return f"{self.estimator.name}{what}{where}: {intervals}, {count(rows, 'row')}{as_of}"

    def _columns(self) -> list[Column]:
        columns = [Column("arm", list(self.arms), "label"), *answer_columns(self.arm_answers, test=False)]
        columns.append(Column("assigned", self.assigned.astype(int).tolist(), "count"))
        if self.maturity is not None:
            columns.append(Column("closed", self.arrived.tolist(), "count"))
            columns.append(Column("events", self._of_segments(self.maturity.events).tolist(), "count"))
        else:
            columns.append(Column("arrived", self.arrived.astype(int).tolist(), "count"))
        if self.sums.cap is not None:
            columns.append(Column("capped", self.sums.cap.above.astype(int).tolist(), "count"))
        if self.maturity is None and not np.isnan(self.sums["h"]).any():
            columns.append(Column("observed_share", self.observed_share.tolist(), "share"))
        columns.append(Column("effective_size", self.effective_size.tolist(), "count"))
        return columns
