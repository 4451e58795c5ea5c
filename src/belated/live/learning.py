"""Learning: what a policy knows at a version, read from the rows between two watermarks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from belated.base.columns import Row
from belated.live.outcomes import Outcome
from belated.live.records import Version
from belated.live.storage import Session


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The input of a policy: each cell's number of outcomes and their total, and the step.

    A cell is an arm or, with segments, an arm of a segment, segment by segment; `steps` are those of the segments.
    """

    step: int
    counts: tuple[float, ...]
    totals: tuple[float, ...]
    steps: tuple[int, ...] = ()

    @property
    def by_segment(self) -> list[Knowledge]:
        """What is known of each segment on its own."""
        arms = len(self.counts) // max(len(self.steps), 1)
        cells = [slice(s * arms, (s + 1) * arms) for s in range(len(self.steps))]
        return [Knowledge(step, self.counts[i], self.totals[i]) for step, i in zip(self.steps, cells, strict=True)]

    @property
    def pooled(self) -> Knowledge:
        """What is known of all segments together."""
        parts = self.by_segment
        counts, totals = ([part.counts for part in parts], [part.totals for part in parts])
        return Knowledge(self.step, *(tuple(map(sum, zip(*each, strict=True))) for each in (counts, totals)))


def nothing(arms: int, segments: int = 0) -> Knowledge:
    """Return what is known before the first row."""
    none = (0.0,) * arms * max(segments, 1)
    return Knowledge(1, none, none, (1,) * segments)


def known_at(version: Version, arms: int, segments: int = 0) -> Knowledge:
    """Return what was known at a version, with room for the arms and segments that came later."""
    counts, totals = (_spread(each, version.arms, arms, segments) for each in (version.counts, version.totals))
    return Knowledge(version.step, counts, totals, version.steps + (1,) * (segments - len(version.steps)))


def _spread(values: tuple[float, ...], before: int, arms: int, segments: int) -> tuple[float, ...]:
    """Return the values of cells with room for new arms in every segment, and for new segments."""
    rows = [values[first : first + before] for first in range(0, len(values), before)]
    rows += [()] * (max(segments, 1) - len(rows))
    return tuple(value for row in rows for value in (*row, *[0.0] * (arms - len(row))))


def last_arrival(session: Session, experiment: int, since: int, below: int) -> int:
    """Return when the last outcome between two watermarks arrived; 0 if there is none."""
    rows = session.run(
        "select max(arrived_at) from outcome where experiment = ? and id >= ? and id < ?", experiment, since, below
    )
    return int(rows[0][0] or 0)


def learn(
    session: Session, experiment: int, outcome: Outcome, before: Version, after: Version, start: Knowledge
) -> Knowledge:
    """Return what is known at a version, from what was known at the one before (`start`) and the rows since.

    Only `watermark` and `made_at` of `after` are used. Sums are added up one row after another, so that a replay gives
    the same bits.
    """
    since, below = before.watermark, after.watermark
    rows = session.run(
        "select segment, count(*) from decision where +experiment = ? and id >= ? and id < ? group by segment",
        experiment, since, below,
    )  # fmt: skip
    counts, totals, steps = [*start.counts], [*start.totals], [*start.steps]
    arms = len(counts) // max(len(steps), 1)
    for segment, number in rows if steps else ():
        steps[segment] += number
    matured = _closed(session, experiment, outcome, before, after) if outcome.is_events else None
    for arm, segment, number, value in _told(session, experiment, since, below) if matured is None else matured:
        cell = (segment or 0) * arms + arm
        counts[cell] += number
        totals[cell] += value
    return Knowledge(start.step + sum(number for _, number in rows), tuple(counts), tuple(totals), tuple(steps))


#: The arm and the segment of an outcome, and what it adds to their number of outcomes and to their total.
_Gain = tuple[int, int | None, float, float]


def _told(session: Session, experiment: int, since: int, below: int) -> Iterable[_Gain]:
    """Yield what each outcome adds to its cell; a correction adds the difference."""
    rows = session.run(
        "select d.arm, d.segment, o.revision, o.value, b.value from outcome o join decision d on d.id = o.decision "
        "left join outcome b on b.decision = o.decision and b.key = o.key and b.revision = o.revision - 1 "
        "where o.experiment = ? and o.id >= ? and o.id < ? order by o.id",
        experiment, since, below,
    )  # fmt: skip
    return [
        (arm, segment, 0.0, value - before) if revision else (arm, segment, 1.0, value)
        for arm, segment, revision, value, before in rows
    ]


# ---------------------------------------------------------------- events


def _closed(session: Session, experiment: int, outcome: Outcome, before: Version, after: Version) -> list[_Gain]:
    """Yield what each unit adds whose window has closed since, and later events of windows that had closed.

    A window that closes while a version is made is left to the next one.
    """
    length, since, below = outcome.length, before.watermark, after.watermark
    first, last = _learned_at(session, experiment, before) - length, after.made_at - length
    newly = session.run(
        "select id, arm, segment, assigned_at from decision where experiment = ? and assigned_at >= ? "
        "and assigned_at < ? and id < ? union select id, arm, segment, assigned_at from decision "
        "where +experiment = ? and id >= ? and id < ? and assigned_at < ? order by id",
        experiment, first, last, below, experiment, since, below, last,
    )  # fmt: skip
    late = session.run(
        "select distinct d.id, d.arm, d.segment, d.assigned_at from outcome o join decision d on d.id = o.decision "
        "where o.experiment = ? and o.id >= ? and o.id < ? and d.id < ? and d.assigned_at < ? order by d.id",
        experiment, since, below, since, first,
    )  # fmt: skip
    events = _events(session, sorted({row[0] for row in (*newly, *late)}))
    gains = [(arm, segment, 1.0, _measured(events.get(key, ()), outcome, at, below)) for key, arm, segment, at in newly]
    for key, arm, segment, at in late:
        now, then = (_measured(events[key], outcome, at, mark) for mark in (below, since))
        if now != then:
            gains.append((arm, segment, 0.0, now - then))
    return gains


def _learned_at(session: Session, experiment: int, version: Version) -> int:
    """Return the time up to which a version has learned; a version made by a change learns nothing new."""
    if version.cause in _LEARNING:
        return version.made_at
    rows = session.run(
        "select max(made_at) from version where experiment = ? and number < ? and cause in (?*)",
        experiment, version.number, [*_LEARNING],
    )  # fmt: skip
    return int(rows[0][0] or 0)


#: Why versions were made that know everything up to their time.
_LEARNING = ("start", "tick")


def _events(session: Session, decisions: list[int]) -> dict[int, list[Row]]:
    """Return the events of some decisions: number, key, value and when each happened."""
    rows = session.run(
        "select decision, id, key, value, coalesce(happened_at, arrived_at) from outcome where decision in (?*) "
        "order by revision, id",  # a correction may have the lower number
        decisions,
    )
    events: dict[int, list[Row]] = {}
    for decision, *event in rows:
        events.setdefault(decision, []).append(tuple(event))
    return events


def _measured(events: Iterable[Row], outcome: Outcome, assigned_at: int, below: int) -> float:
    """Return the outcome of the events in a window that were known at a watermark; events of value 0 do not count."""
    latest: dict[str, tuple[float, int]] = {}
    for number, key, value, happened in events:
        if number < below:  # a correction keeps when the event happened
            latest[key] = (value, latest[key][1] if key in latest else happened)
    inside = [value for value, happened in latest.values() if value and 0 <= happened - assigned_at <= outcome.length]
    if outcome.measure == "indicator":
        return float(bool(inside))
    return float(len(inside)) if outcome.measure == "count" else float(sum(inside))
