"""`LiveAnswer`: the results of an experiment so far, as of a watermark."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from belated.base.columns import Label
from belated.base.documents import JsonObject, json_text, plain
from belated.base.errors import LogError, OptionError, recorded_warnings
from belated.base.tables import Column, Table
from belated.base.text import count, one_line, printable
from belated.live.records import moment
from belated.live.wording import in_live

if TYPE_CHECKING:
    from belated.assumptions.diagnosis import Diagnosis
    from belated.estimation.answers import Answer
    from belated.estimation.best import Best
    from belated.estimation.estimate import Estimate
    from belated.live.logs import LogState
    from belated.log.data import Data
    from belated.sequences.answers import SequenceAnswer
    from belated.sequences.sequence import ConfidenceSequence


@dataclass(frozen=True)
class Counts:
    """How many units and outcomes an experiment has.

    Attributes
    ----------
    asked, told, out, never, parked, corrected : int
        Units that were decided; units whose outcome is known; units whose outcome is still out; units whose outcome
        will never be told, because the experiment is closed; outcomes of units that were never asked; and corrected
        outcomes.
    """

    asked: int = 0
    told: int = 0
    out: int = 0
    never: int = 0
    parked: int = 0
    corrected: int = 0


class SegmentAnswer(NamedTuple):
    """The results of an experiment in one segment.

    Attributes
    ----------
    estimate : Estimate
    sequence : ConfidenceSequence or None
        None for small segments that were merged, which have no sequence of their own.
    """

    estimate: Estimate
    sequence: ConfidenceSequence | None


class LiveAnswer(Table):
    """The results of an experiment so far; prints as the contrasts of the estimate and of the confidence sequence.

    With segments, these are averages over the units so far, and the contrasts in each segment follow.

    Attributes
    ----------
    name : str
    counts : Counts
    as_of : datetime
        The storage's time when the rows were read; for events, at most the time when the experiment was closed.
    watermark : int
        Rows that the storage numbered below this are part of the answer, and no others.
    log : Log or Source or None
        The log that was analysed; None if there are no decisions.
    exclusions : dict
        The time at which a contrast's confidence sequence first excluded 0, by name; it is kept whatever comes later.
    warnings : tuple of str
    state : LogState
        The stored rows from which the log was made.
    """

    def __init__(self, state: LogState, counts: Counts, exclusions: Mapping[str, dt.datetime] | None = None) -> None:
        self.state, self.counts, self.exclusions = state, counts, exclusions or {}
        self.name, self.setup = state.name, state.setup
        self.as_of, self.watermark = moment(state.now), state.rows.watermark
        self.log: Data | None = state.log() if len(state.rows) else None
        self.estimate: Estimate | None = None
        self.sequence: ConfidenceSequence | None = None
        self.warnings: tuple[str, ...] = ()
        if self.log is not None and counts.told:
            self._compute(self.log)

    def with_exclusions(self, exclusions: Mapping[str, dt.datetime]) -> LiveAnswer:
        """Return the same answer with the times when contrasts were first excluded."""
        answer = copy(self)
        answer.exclusions = exclusions
        return answer

    def _compute(self, log: Data) -> None:
        from belated.estimation.estimate import estimate
        from belated.sequences.sequence import sequence

        refused: list[str] = []
        with recorded_warnings() as said:
            try:
                self.estimate = estimate(log, level=self.setup.level)
                self.sequence = sequence(log, **self.setup.sequence_options)
            except (LogError, OptionError) as error:  # no window has begun, or the policy looked at more than segments
                refused = [str(error)]
        self.warnings = tuple(dict.fromkeys(map(in_live, [*said, *refused])))

    @cached_property
    def segments(self) -> Mapping[Label, SegmentAnswer]:
        """The results in each segment, after small segments were merged; empty without segments."""
        from belated.sequences.sequence import sequence

        if self.estimate is None or self.log is None or not self.estimate.segments:
            return {}
        log, answers = self.log.log(), {}
        options = self.setup.segment_options(len(self.estimate.segments))
        with recorded_warnings():
            for label in self.estimate.segments:
                try:
                    followed = sequence(log, segment=label, **options)
                except OptionError:
                    followed = None
                answers[label] = SegmentAnswer(self.estimate.segment(label), followed)
        return answers

    @cached_property
    def best(self) -> Best | None:
        """Which arms may be the best; None before any outcome, an error that says why if no arm has an interval yet."""
        with recorded_warnings():
            return None if self.estimate is None or len(self.estimate.arms) < 2 else self.estimate.best()

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """Checks of the assumptions; None before any decision."""
        from belated.assumptions.diagnosis import diagnose

        return None if self.log is None else diagnose(self.log).worded(in_live)

    @property
    def nothing_known(self) -> str:
        """The reason why there is no estimate, in a sentence, if there is none."""
        window = self.setup.outcome.window
        if self.warnings:
            return self.warnings[0]
        if window is None or self.log is None:
            return "No outcome has arrived yet."
        return f"No window has closed yet: the outcome of a unit is known {window} after its assignment."

    def report(self, path: str | Path) -> Path:
        """Write a report: one HTML file, with the confidence sequence that was declared at the creation."""
        from belated.reports.analysis import Questions
        from belated.reports.rendering import report_on

        if self.log is None or self.estimate is None:
            why = self.warnings[0] if self.warnings else "it has no outcomes yet; a report needs some."
            raise LogError(f"{self.name!r} cannot be reported: {why[:1].lower()}{why[1:]}")
        questions = Questions(sequential=True, **self.setup.sequence_options)
        with recorded_warnings():
            try:
                report_on(self.log, questions, path, title=self.name, wording=in_live)
            except LogError as error:
                raise LogError(in_live(str(error))) from None
        return Path(path)

    def _title(self) -> str:
        counts = self.counts
        parts = [f"{counts.asked:,} asked", f"{counts.told:,} told", f"{counts.out:,} out"]
        parts += [f"{counts.never:,} never told"] if counts.never else []
        parts += [f"{counts.parked:,} parked"] if counts.parked else []
        parts += [f"{counts.corrected:,} corrected"] if counts.corrected else []
        at = self.as_of.strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{self.name}: {', '.join(parts)}, as of {at}"

    @cached_property
    def contrasts(self) -> tuple[tuple[Answer, SequenceAnswer], ...]:
        """The contrasts over all units, then those in each segment: at one look, and at every look."""
        if self.estimate is None or len(self.estimate.arms) < 2:
            return ()
        baseline = self.setup.baseline
        fixed, sequences = [*self.estimate.contrasts(baseline).answers], [self.sequence]
        if len(self.segments) > 1:
            fixed += self.estimate.contrasts(baseline, by="segment").answers
            sequences += [each.sequence for each in self.segments.values()]
        each = len(fixed) // len(sequences)
        followed: list[SequenceAnswer] = []
        for place, known in enumerate(sequences):
            own = fixed[place * each : (place + 1) * each]
            answers = [_silent(a) for a in own] if known is None else known.contrasts(baseline).answers
            followed += map(_in_live, answers)
        return tuple(zip(fixed, followed, strict=True))

    def _columns(self) -> list[Column]:
        if self.estimate is None:
            return [Column("contrast", [], "label")]
        from belated.estimation.answers import answer_columns
        from belated.sequences.answers import answer_columns as sequence_columns

        fixed, followed = zip(*(self.contrasts or self._only_arm(self.estimate)), strict=True)
        once = {column.name: column for column in answer_columns(list(fixed), test=False)}
        always = {column.name: column for column in sequence_columns(list(followed))}
        return [
            Column("contrast" if self.contrasts else "arm", [each.name for each in fixed], "label"),
            *(once[name] for name in ("estimate", "low", "high")),
            *(replace(always[name], name=f"{name}_at_every_look") for name in ("low", "high")),
            Column("excluded_at", [self._excluded(each.name) for each in fixed], "sentence"),
        ]

    def to_text(self, *, every: bool = False) -> str:
        """Return text for a terminal: without an estimate, the reason alone."""
        if self.estimate is None:
            return "\n".join([printable(self._title()), *self._notes()])
        return super().to_text(every=every)

    def _only_arm(self, estimate: Estimate) -> list[tuple[Answer, SequenceAnswer]]:
        """Return the mean of an experiment's only arm: at one look, and at every look."""
        (arm,) = estimate.arms
        fixed = replace(estimate.policy({arm: 1.0}), name=str(arm))
        followed = _silent(fixed) if self.sequence is None else self.sequence.arm(arm)
        return [(fixed, _in_live(followed))]

    def _excluded(self, name: str) -> str | None:
        at = self.exclusions.get(name)
        return None if at is None else at.strftime("%Y-%m-%d %H:%M:%S")

    def _notes(self) -> list[str]:
        if self.estimate is None:
            return [*self.warnings] or [self.nothing_known]
        level = f"{100 * self.setup.level:g} %"
        return [
            f"The first interval holds at one look that was planned in advance, the second at every look ({level}).",
            *([_SEGMENTS] if len(self.segments) > 1 else []),
            *self._silences(self.estimate),
            *([f"{count(self.counts.corrected, 'outcome')} corrected."] if self.counts.corrected else []),
            *self.warnings,
        ]

    def _silences(self, estimate: Estimate) -> list[str]:
        """Return the reasons why intervals at every look are infinite, but for those that the warnings say."""
        from belated.sequences.answers import reasons

        whys: list[str] = []
        for fixed, each in self.contrasts or self._only_arm(estimate):
            if each.why is not None and math.isinf(each.high - each.low):
                place = "" if fixed.segment is None else f"In segment {one_line(repr(fixed.segment))}: "
                whys += [place + why for why in each.whys]
        return reasons(why for why in whys if not any(said.startswith(why[:-1]) for said in self.warnings))

    def to_dict(self) -> JsonObject:
        """Return the answer as values that JSON has."""
        content: JsonObject = {
            "experiment": self.name, "as_of": self.as_of.isoformat(), "watermark": self.watermark,
            "counts": vars(self.counts), "warnings": list(self.warnings),
            "exclusions": {name: at.isoformat() for name, at in self.exclusions.items()},
        }  # fmt: skip
        columns = {column.name: list(column.values) for column in self._columns()}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if self.segments and self.contrasts:
            rows = [{**row, "segment": fixed.segment} for row, (fixed, _) in zip(rows, self.contrasts, strict=True)]
        return {**content, "contrasts": plain(rows)}

    def to_json(self) -> str:
        """Return the answer as JSON, as docs/json.md describes it."""
        return json_text("live", self.to_dict())


_SEGMENTS = "The first lines are averages over the units so far; the others are for one segment each."


def _in_live(answer: SequenceAnswer) -> SequenceAnswer:
    """Return the same answer with reasons that a live experiment can act on."""
    whys = tuple(map(in_live, answer.whys))
    return replace(answer, why=" ".join(whys) or None, whys=whys)


def _silent(answer: Answer) -> SequenceAnswer:
    """Return an infinite interval, for a question that no sequence answers."""
    from belated.sequences.answers import SequenceAnswer

    return SequenceAnswer(
        name=answer.name, estimate=math.nan, low=-math.inf, high=math.inf, level=answer.level, p_value=1.0, null=0.0,
        excluded_at=None, kind="asymptotic", why=None, unit=answer.unit,
    )  # fmt: skip
