"""Learning: what a policy knows at a version, read from the rows between two watermarks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from belated.live.outcomes import Outcome
from belated.live.records import Version
from belated.live.storage import Session


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a policy knows: each arm's number of outcomes and their total, and the step.

    `seen_until` is the last arrival that was seen; the version comes after it.
    """

    step: int
    counts: tuple[float, ...]
    totals: tuple[float, ...]
    seen_until: int


def nothing(arms: int) -> Knowledge:
    """Return what is known before the first row."""
    return Knowledge(1, (0.0,) * arms, (0.0,) * arms, 0)


def last_arrival(session: Session, experiment: int, since: int, below: int) -> int:
    """Return when the last outcome between two watermarks arrived; 0 if there is none."""
    rows = session.run(
        "select max(arrived_at) from outcome where experiment = ? and id >= ? and id < ?", experiment, since, below
    )
    return int(rows[0][0] or 0)


def learn(session: Session, experiment: int, outcome: Outcome, before: Version, after: Version, arms: int) -> Knowledge:
    """Return what is known at a version, from what was known at the one before and the rows since.

    Only `watermark` and `made_at` of `after` are used. Sums are added up one row after another, so that a replay gives
    the same bits.
    """
    since, below = before.watermark, after.watermark
    rows = session.run(
        "select count(*) from decision where +experiment = ? and id >= ? and id < ?", experiment, since, below
    )
    counts, totals = [*before.counts], [*before.totals]
    counts += [0.0] * (arms - len(counts))
    totals += [0.0] * (arms - len(totals))
    found = _closed(session, experiment, outcome, before, after) if outcome.is_events else None
    for arm, number, value in _told(session, experiment, since, below) if found is None else found:
        counts[arm] += number
        totals[arm] += value
    seen = last_arrival(session, experiment, since, below)
    return Knowledge(before.step + int(rows[0][0]), tuple(counts), tuple(totals), seen)


def _told(session: Session, experiment: int, since: int, below: int) -> Iterable[tuple[int, float, float]]:
    """Give the arm of each outcome, and what it adds; a correction adds the difference."""
    rows = session.run(
        "select d.arm, o.revision, o.value, b.value from outcome o join decision d on d.id = o.decision "
        "left join outcome b on b.decision = o.decision and b.key = o.key and b.revision = o.revision - 1 "
        "where o.experiment = ? and o.id >= ? and o.id < ? order by o.id",
        experiment, since, below,
    )  # fmt: skip
    return [(arm, 0.0, value - before) if revision else (arm, 1.0, value) for arm, revision, value, before in rows]


# ---------------------------------------------------------------- events


def _closed(
    session: Session, experiment: int, outcome: Outcome, before: Version, after: Version
) -> list[tuple[int, float, float]]:
    """Give the arm of each unit whose window has closed since, with its outcome; and later events of closed ones.

    A window that closes while a version is made is left to the next one.
    """
    length, since, below = outcome.length, before.watermark, after.watermark
    first, last = before.made_at - length, after.made_at - length
    newly = session.run(
        "select id, arm, assigned_at from decision where experiment = ? and assigned_at >= ? and assigned_at < ? "
        "and id < ? union select id, arm, assigned_at from decision where +experiment = ? and id >= ? and id < ? "
        "and assigned_at < ? order by id",
        experiment, first, last, below, experiment, since, below, last,
    )  # fmt: skip
    late = session.run(
        "select distinct d.id, d.arm, d.assigned_at from outcome o join decision d on d.id = o.decision "
        "where o.experiment = ? and o.id >= ? and o.id < ? and d.id < ? and d.assigned_at < ? order by d.id",
        experiment, since, below, since, first,
    )  # fmt: skip
    told = _events(session, sorted({row[0] for row in (*newly, *late)}))
    gains = [(arm, 1.0, _measured(told.get(key, ()), outcome, at, below)) for key, arm, at in newly]
    for key, arm, at in late:
        now, then = (_measured(told[key], outcome, at, mark) for mark in (below, since))
        if now != then:
            gains.append((arm, 0.0, now - then))
    return gains


def _events(session: Session, decisions: list[int]) -> dict[int, list[tuple[Any, ...]]]:
    """Return the events of some decisions: number, key, value and when each happened."""
    rows = session.run(
        "select decision, id, key, value, coalesce(happened_at, arrived_at) from outcome where decision in (?*) "
        "order by id",
        decisions,
    )
    found: dict[int, list[tuple[Any, ...]]] = {}
    for decision, *event in rows:
        found.setdefault(decision, []).append(tuple(event))
    return found


def _measured(events: Iterable[tuple[Any, ...]], outcome: Outcome, assigned_at: int, below: int) -> float:
    """Return what the events in a window amount to, of those that were known at a watermark; one of value 0 is none."""
    latest: dict[str, tuple[float, int]] = {}
    for number, key, value, happened in events:
        if number < below:  # a correction keeps when the event happened
            latest[key] = (value, latest[key][1] if key in latest else happened)
    inside = [value for value, happened in latest.values() if value and 0 <= happened - assigned_at <= outcome.length]
    if outcome.measure == "indicator":
        return float(bool(inside))
    return float(len(inside)) if outcome.measure == "count" else float(sum(inside))
